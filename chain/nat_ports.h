/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: which external (address, port) stands for which inside (address, port), for
 * one worker's share of the ports.
 *
 * Mapping is endpoint-independent (RFC 4787, REQ-1): one inside endpoint has one external endpoint
 * per protocol, whatever it talks to, for as long as somebody holds it. Addresses are paired
 * (REQ-2): an inside address keeps its external address while that one has ports left. The inside
 * port is kept when it is in the share and free; otherwise free ports are taken in the order in
 * which they were given back, so that a port rests as long as possible.
 *
 * All operations are O(1) apart from the search for another address when one runs out (at most
 * addresses_count counters). Memory: 16 bytes per port, protocol and address, 4 more for the
 * search, all taken at create. Threads: one owner.
 */
#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum chain_nat_class { CHAIN_NAT_TCP, CHAIN_NAT_UDP, CHAIN_NAT_ICMP, CHAIN_NAT_CLASSES_COUNT };

enum { CHAIN_NAT_ADDRESSES_MAX = 256 };
#define CHAIN_NAT_NONE UINT32_MAX

struct chain_nat_ports_config {
	uint32_t address; /* host order */
	uint32_t addresses_count;
	uint16_t port_first, port_last;
	uint16_t worker, workers; /* share: (port - port_first) % workers == worker */
	uint64_t salt;
	struct base_arena *arena;
};

/* Both host order. An inside endpoint in another zone is another endpoint. */
struct chain_nat_inside {
	uint32_t address;
	uint16_t port;
	uint16_t zone;
};

struct chain_nat_outside {
	uint32_t address;
	uint16_t port;
};

struct chain_nat_ports;

/* -EINVAL: no address, or no port in the share; -ENOMEM. */
int chain_nat_ports_create(
	struct chain_nat_ports **out, const struct chain_nat_ports_config *config);
void chain_nat_ports_destroy(struct chain_nat_ports *ports);

/* The mapping of an inside endpoint, made when there is none; the caller holds it until release.
 * CHAIN_NAT_NONE when no port is free. */
uint32_t chain_nat_ports_hold(struct chain_nat_ports *ports, enum chain_nat_class class,
	const struct chain_nat_inside *inside);
void chain_nat_ports_release(struct chain_nat_ports *ports, uint32_t mapping);

/* A held mapping. */
void chain_nat_ports_outside(
	const struct chain_nat_ports *ports, uint32_t mapping, struct chain_nat_outside *outside);

/* Who is behind an external endpoint; false when nobody holds it. */
bool chain_nat_ports_find(const struct chain_nat_ports *ports, enum chain_nat_class class,
	const struct chain_nat_outside *outside, struct chain_nat_inside *inside);

/* Free ports of one protocol, over all addresses. */
uint32_t chain_nat_ports_free_count(
	const struct chain_nat_ports *ports, enum chain_nat_class class);

/* Walk everything: free lists, counters and the search chains agree. For tests. */
bool chain_nat_ports_check(const struct chain_nat_ports *ports);
