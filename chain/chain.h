/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain: network functions over tracked bursts, in the order the configuration lists them.
 *
 *   stats     per-flow counters (packets, bytes, times, TCP flags, both directions)
 *   router    longest-prefix match (rte_lpm, rte_lpm6), TTL / hop limit, next hop
 *   firewall  ordered 5-tuple rules (rte_acl), verdict per connection, or per packet
 *   nat       source NAPT: RFC 3022, mapping endpoint-independent within a worker (RFC 4787),
 *             filtering by address and port, ICMP errors included
 *   lb        stateful load balancer over a Maglev table (Eisenbud et al., NSDI 2016)
 *
 * Every function has two implementations with the same results: the burst one, and a plain scalar
 * reference (`scalar` in the configuration) that tests and the ablation "burst" use.
 *
 * A function works per flow run where it can: what depends only on the connection or on the
 * connection and the direction is looked up once per run.
 *
 * Per-connection memory of all functions is one block of chain_user_bytes() in the tracker's entry
 * memory, each function at a fixed 8-byte aligned offset. Packets without a connection
 * (BASE_CONN_NONE) are handled statelessly where that makes sense and passed otherwise; each
 * function documents which.
 *
 * Threads: one chain per worker; route and rule tables are built per chain and only read, so that
 * other chains may use them too (`tables` of the configuration).
 * Needs the EAL for router and firewall (rte_lpm, rte_acl allocate through it).
 *
 *	chain_create(&chain, &config);                   // tables
 *	tracker_config.user_bytes = chain_user_bytes(chain);
 *	tracker_config.on_remove = chain_on_remove; ... _context = chain;
 *	conntrack_create(&tracker, &tracker_config);
 *	chain_attach(chain, tracker);
 *	...
 *	chain_translate_burst(chain, &burst);            // before tracking (nat replies)
 *	conntrack_process_burst(tracker, &burst);
 *	for (unsigned int i = 0; i < chain_functions_count(chain); i++)
 *		chain_function_process(chain, i, &burst, now_ns);  // then compact the burst
 */
#pragma once

#include "base/burst.h"
#include "base/flow_key.h"
#include "base/parse.h"
#include "conntrack/conntrack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chain_kind {
	CHAIN_STATS,
	CHAIN_ROUTER,
	CHAIN_FIREWALL,
	CHAIN_NAT,
	CHAIN_LB,
	CHAIN_KINDS_COUNT
};

enum {
	CHAIN_FUNCTIONS_MAX = 16,
	CHAIN_BACKENDS_MAX = 1024,
	CHAIN_LB_CHANGES_MAX = 64,
	CHAIN_COUNTERS_MAX = 64,
	CHAIN_MESSAGE_SIZE = 256,
	CHAIN_NAME_SIZE = 64,
};

struct chain_router_config {
	const char *routes_file; /* NULL: generated */
	uint32_t routes_count;   /* generated, default 200, both families, plus default routes */
	uint64_t seed;
	bool default_route; /* default on: nothing is dropped for want of a route */
};

struct chain_firewall_config {
	const char *rules_file; /* NULL: generated */
	uint32_t rules_count;   /* generated, default 10000; the last rule allows all */
	uint64_t seed;
	bool default_deny; /* what happens when no rule matches */
	bool per_packet;   /* classify every packet, not every connection */
};

struct chain_nat_config {
	uint32_t address;               /* IPv4, host order; default 192.0.2.1 (RFC 5737) */
	uint32_t addresses_count;       /* consecutive, default 1 .. 256 */
	uint16_t port_first, port_last; /* default 1024..65535 */
	/* This worker's share: ports p with (p - port_first) % workers == worker. A chain that
	 * several workers use in turn has a share for each: `worker` is the first of `shares`
	 * (chain_use_share). */
	uint16_t worker, workers, shares;
};

struct chain_backend {
	char name[CHAIN_NAME_SIZE];
	uint8_t address[16];
	uint8_t family;  /* 4 or 6 */
	uint32_t weight; /* share of new connections, default 1; 0: takes none */
};

enum chain_lb_policy {
	CHAIN_LB_MAGLEV,
	CHAIN_LB_ROUND_ROBIN,
	CHAIN_LB_LEAST_CONNECTIONS,
	CHAIN_LB_JET,       /* Maglev; keeps what a backend to come would take */
	CHAIN_LB_STATELESS, /* Maglev on every packet */
	CHAIN_LB_POLICIES_COUNT
};

/* "maglev", "round_robin", ...; never NULL. */
const char *chain_lb_policy_name(enum chain_lb_policy policy);

enum chain_lb_action {
	CHAIN_LB_ADD,    /* there, takes new connections */
	CHAIN_LB_DRAIN,  /* keeps its connections, takes no new ones */
	CHAIN_LB_REMOVE, /* gone; its connections go elsewhere */
};

struct chain_lb_change {
	uint64_t at_ns; /* capture time: holds for packets from then on */
	enum chain_lb_action action;
	char backend[CHAIN_NAME_SIZE]; /* every backend of that name */
};

struct chain_lb_config {
	const struct chain_backend *backends; /* NULL: generated, for each family */
	uint32_t backends_count;              /* default 16 */
	uint32_t table_size;                  /* prime > 100 * backends_count; default 65537 */
	enum chain_lb_policy policy;
	uint64_t seed;
	/* By time, at most CHAIN_LB_CHANGES_MAX. A backend whose first change adds it is not there
	 * before. */
	const struct chain_lb_change *changes;
	uint32_t changes_count;
};

struct chain_function_config {
	enum chain_kind kind;
	union {
		struct chain_router_config router;
		struct chain_firewall_config firewall;
		struct chain_nat_config nat;
		struct chain_lb_config lb;
	};
};

struct chain_config {
	uint32_t functions_count;
	struct chain_function_config functions[CHAIN_FUNCTIONS_MAX];
	bool scalar;                  /* the plain reference of every function */
	bool no_runs;                 /* ablation: nothing is shared inside a run */
	bool no_prefetch;             /* ablation */
	struct base_hash_config hash; /* of flow keys, to rehash after a translation */
	struct base_arena *arena;
	uint16_t instance; /* worker number: names of DPDK objects must differ */
	/* A chain of the same functions that outlives this one: its routes and rules are used, as
	 * they are only read. NULL: own ones. */
	const struct chain *tables;
};

struct chain_counter {
	const char *name; /* snake_case with unit */
	uint64_t value;
};

struct chain_function_stats {
	const char *name; /* "stats", "router", ... */
	uint64_t in, out;
	uint64_t drops[BASE_DROP_REASONS_COUNT];
	/* by chain_translate_burst, before tracking: not part of in */
	uint64_t early_drops[BASE_DROP_REASONS_COUNT];
	uint32_t counters_count;
	struct chain_counter counters[CHAIN_COUNTERS_MAX]; /* order-free sums: workers add up */
};

/* A backend of a load balancer by name, for chain_steer: its place for IPv4 and for IPv6. */
struct chain_target {
	uint32_t position[2]; /* UINT32_MAX: none of that family */
};

struct chain;

/* "router" -> CHAIN_ROUTER; -ENOENT. */
int chain_kind_from_name(const char *name, enum chain_kind *kind);
const char *chain_kind_name(enum chain_kind kind);
/* Bytes that a function of this kind has per connection: its part of chain_user_bytes. */
uint32_t chain_kind_user_bytes(enum chain_kind kind);

/* Fill a function's defaults. */
void chain_function_config_defaults(struct chain_function_config *config, enum chain_kind kind);

/* -EINVAL, -ENOENT, -EBADMSG (rule or route file: line in message; a change of no backend),
 * -ENOMEM, -ERANGE (rules that the classifier cannot hold). message has CHAIN_MESSAGE_SIZE bytes
 * and names the function and what was expected. */
int chain_create(struct chain **out, const struct chain_config *config, char *message);
void chain_destroy(struct chain *chain);

uint32_t chain_user_bytes(const struct chain *chain);
void chain_attach(struct chain *chain, const struct conntrack *tracker);
void chain_on_remove(void *chain, uint32_t conn, void *user); /* conntrack_config.on_remove */

/* Before tracking: packets addressed to a NAT address get their inner destination back, and a new
 * key and hash, so that both directions meet in one connection. No-op without nat. */
void chain_translate_burst(
	struct chain *chain, struct base_burst *burst, struct base_parser *parser);
/* Whether the tracker may leave connections out, as only the policies jet and stateless do without
 * (every function of the chain is a router or such a balancer): then conntrack_config.admit =
 * chain_admit, admit_context = chain. For traffic of one direction only: a reply without a
 * connection would be taken for a client's. */
bool chain_filters_connections(const struct chain *chain);
bool chain_admit(void *chain, const struct base_packet *packet);
/* For which of the NAT's shares of ports the next bursts are: the number of the worker among those
 * that use this chain in turn. What comes back to a translated address is let in when it comes to
 * the worker whose share it is of. Nothing without nat. */
void chain_use_share(struct chain *chain, uint32_t share);
/* Which of `workers` owns the translation of a packet to a NAT address; -ENOENT when the packet is
 * not addressed to one. Pure: steering uses it. */
int chain_nat_worker(const struct chain_nat_config *config, const struct base_packet *packet,
	uint16_t workers, uint16_t *worker);

uint32_t chain_functions_count(const struct chain *chain);
void chain_function_process(
	struct chain *chain, uint32_t index, struct base_burst *burst, uint64_t now_ns);
void chain_function_stats(
	const struct chain *chain, uint32_t index, struct chain_function_stats *stats);

/* What the name stands for; -ENOENT: no load balancer of the chain has it. */
int chain_target_find(const struct chain *chain, const char *name, struct chain_target *target);
/* Packets of the connection's original direction go to that backend from now on, as if it had been
 * chosen for them, in every load balancer that has it. False: no such connection, or no such
 * backend of its family. */
bool chain_steer(struct chain *chain, uint32_t conn, const struct chain_target *target);

/* Digest of per-flow results over the connections removed so far (order-free sum of per-flow hashes
 * of stats counters, verdicts, backends): equal for equal flow results, whatever the workers. The
 * caller ends a run with conntrack_purge, so that every connection has been removed. */
uint64_t chain_flow_digest(const struct chain *chain);
