/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Judges what a sharing model made of packets: each connection inserted once, none lost, and for
 * each the same packets, bytes, flags and last time as in a reference that one thread makes from
 * the packets in order, by sorting.
 *
 * When packets of a connection are spread over workers, they may be worked on in another order than
 * they came. Then only flows that are shorter than every timeout have one right answer and are
 * compared whole; of the others the sums of packets and bytes are.
 *
 * Memory from malloc; some microseconds per packet and connection. Threads: one owner, but for
 * conntrack_shared_collect, where each worker adds to its own list.
 *
 *	conntrack_shared_judge_create(&judge, workers, timeout_ns);
 *	conntrack_shared_judge_expect(judge, packets, count);
 *	config.on_remove = conntrack_shared_collect;
 *	config.on_remove_context = judge;
 *	...				// run, conntrack_shared_finish(shared, UINT64_MAX)
 *	conntrack_shared_judge_verdict(judge, spread, &verdict);
 *	conntrack_shared_judge_destroy(judge);
 */
#pragma once

#include "conntrack/shared.h"

#include <stdatomic.h>

struct conntrack_shared_verdict {
	uint64_t flows, connections; /* of the reference */
	uint64_t compared_flows;     /* whole; the others by their sums */
	uint64_t missing, surplus;   /* connections that are not there, or too many */
	uint64_t wrong;              /* flows or connections with other counts, flags or times */
	uint64_t failures_sum;
	char first_failure[256];
};

struct conntrack_shared_judge;

/* -ENOMEM. */
int conntrack_shared_judge_create(struct conntrack_shared_judge **out, unsigned int workers,
	const uint64_t timeout_ns[CONNTRACK_SHARED_TIMEOUTS_COUNT]);
void conntrack_shared_judge_destroy(struct conntrack_shared_judge *judge);

/* All packets, in the order of their times. -ENOMEM; -EINTR: stop (may be NULL) was set. */
int conntrack_shared_judge_expect(struct conntrack_shared_judge *judge,
	const struct base_packet *packets, uint64_t count, const atomic_bool *stop);

/* For conntrack_shared_config.on_remove. Out of memory aborts. */
void conntrack_shared_collect(
	void *judge, unsigned int worker, const struct conntrack_shared_conn *conn);

/* Takes what has been collected; the judge may then collect anew. -ENOMEM. */
int conntrack_shared_judge_verdict(struct conntrack_shared_judge *judge, bool spread,
	struct conntrack_shared_verdict *verdict);
