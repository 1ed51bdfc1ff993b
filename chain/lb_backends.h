/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: the backends of a load balancer and how one is chosen, over time.
 *
 * Backends come, drain and go by a schedule that is known from the start, so every set that will
 * ever be (an epoch) has its tables built before the first packet, and a packet finds its epoch by
 * its own time: what a flow gets depends on that flow's packets alone, whatever the worker or the
 * order across flows (round robin and least connections count what they have seen, and do not have
 * this property).
 *
 * Policies:
 *   maglev             Maglev table (chain/maglev.h)
 *   round robin        each backend as many turns in a row as its weight says
 *   least connections  fewest live connections for its weight, first listed among equals
 *   jet                Maglev, and a connection is kept only if the backends that the schedule has
 *                      yet to add would take it (after JET, Mendelson et al., CoNEXT 2021)
 *   stateless          Maglev on every packet
 *
 * Cost: a table look-up; least connections looks at every backend of the family. Memory: two bytes
 * per table slot, family and epoch; twice that for jet.
 */
#pragma once

#include "base/arena.h"
#include "chain/chain.h"

enum lb_status { LB_ABSENT, LB_PRESENT, LB_DRAINING };

/* Backends of one family in one epoch: positions in the sorted list. */
struct lb_group {
	uint32_t members_count;  /* there, draining ones too */
	uint32_t weighted_count; /* that take new connections */
	uint16_t members[CHAIN_BACKENDS_MAX];
	uint16_t *table;   /* NULL when none takes any, or the policy has no table */
	uint16_t *horizon; /* jet: with those yet to come; equal to table when there are none */
};

struct lb_epoch {
	uint64_t from_ns, until_ns; /* [from, until) */
	bool any_absent;
	struct lb_group groups[2]; /* IPv4, IPv6 */
	uint8_t status[2 * CHAIN_BACKENDS_MAX];
};

/* What packets need of a backend. */
struct lb_target {
	uint32_t word; /* IPv4 address as it stands in the packet */
	uint32_t sum;  /* of its two 16-bit words */
	uint64_t connections, live;
	uint64_t identity; /* for the digest */
};

struct lb_backends {
	enum chain_lb_policy policy;
	uint32_t table_size;
	uint32_t count;
	uint32_t epochs_count;
	struct chain_backend *list; /* sorted */
	struct lb_target *targets;
	struct lb_epoch *epochs;
	const struct lb_epoch *epoch; /* of the packet before */
	struct base_arena *arena;
	struct {
		uint32_t turn; /* position in members, */
		uint32_t used; /* and how many turns in a row it has had */
	} turns[2];
};

/* -EINVAL with message (CHAIN_MESSAGE_SIZE), -ENOMEM. Release is due even after a failure. */
int lb_backends_init(struct lb_backends *backends, const struct chain_lb_config *config,
	struct base_arena *arena, char *message);
void lb_backends_release(struct lb_backends *backends);

/* Values that are no backend. */
#define LB_NONE    UINT32_MAX
#define LB_DRAINED (UINT32_MAX - 1)

/* Position of a backend for a new connection, LB_NONE (none of that family) or LB_DRAINED (none
 * takes any). */
uint32_t lb_backends_choose(
	struct lb_backends *backends, const struct lb_epoch *epoch, bool ip6, uint32_t hash);
/* The same from the table, for policies that have one; counts nothing. */
uint32_t lb_backends_look_up(
	const struct lb_backends *backends, const struct lb_epoch *epoch, bool ip6, uint32_t hash);
/* jet: the connection must be kept, for a backend to come would take it. */
bool lb_backends_must_keep(
	const struct lb_backends *backends, const struct lb_epoch *epoch, bool ip6, uint32_t hash);

const struct lb_epoch *lb_backends_find_epoch(struct lb_backends *backends, uint64_t time_ns);

static inline const struct lb_epoch *lb_backends_epoch(
	struct lb_backends *backends, uint64_t time_ns)
{
	const struct lb_epoch *epoch = backends->epoch;
	if (BASE_LIKELY(time_ns >= epoch->from_ns && time_ns < epoch->until_ns))
		return epoch;
	return lb_backends_find_epoch(backends, time_ns);
}

static inline bool lb_policy_has_table(enum chain_lb_policy policy)
{
	return policy == CHAIN_LB_MAGLEV || policy == CHAIN_LB_JET || policy == CHAIN_LB_STATELESS;
}
