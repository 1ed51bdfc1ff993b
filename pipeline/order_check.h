/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Proof, for every run, that packets of one flow leave in the order they came: the sequence stamp
 * that the source gave must rise within each flow. The last stamp of a tracked connection stands
 * behind the chain's memory in its entry, on a line that is in cache anyway; flows that the tracker
 * does not hold are checked through a small direct-mapped table of keys (a flow that another one
 * displaced is checked from its next packet on).
 *
 * Threads: one per worker. Cost: a few cycles per packet.
 */
#pragma once

#include "base/burst.h"
#include "conntrack/conntrack.h"

enum { ORDER_CHECK_SLOTS = 4096, ORDER_CHECK_USER_BYTES = 8 };

struct order_check_slot {
	struct base_flow_key key;
	uint64_t next_seq;
};

struct order_check {
	const struct conntrack *tracker;
	uint32_t user_offset; /* of the 8 bytes in a connection's memory */
	uint64_t violations;
	uint64_t no_flow_next_seq;
	struct order_check_slot slots[ORDER_CHECK_SLOTS];
};

void order_check_burst(struct order_check *check, const struct base_burst *burst);
