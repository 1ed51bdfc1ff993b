/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The judge drives a tracker and the oracle over the same packets and classifies every answer,
 * whatever table and deletion strategy the tracker has. It follows what a strategy may do: keep a
 * connection for a while after it was due (conntrack_slack_ns), take a dead one for live when it
 * says so (stale_hits), evict when it says so, refuse when there is no room.
 *
 * Failures, each counted and the first one described:
 *   live_reported_new   a connection that was not due, nor evicted, is reported new or not found
 *   past_slack          a connection is there although it was due longer ago than the slack
 *   wrong_state         flags, state, due time or drop are not what the oracle says
 *   wrong_connection    a packet was given another connection's index, or an index is given twice
 *   wrong_user          what the chain keeps beside a connection (its backend) is not its own
 *   refused_with_room   an insertion was refused below entries_max and half_open_max
 *   removed_early       a connection that was not due was removed, and not as evicted
 *   left_over           something due is there after the end, or the books differ
 *
 * Cost: some microseconds per packet; memory from malloc; out of memory aborts. Threads: one owner.
 *
 *	conntrack_judge_create(&judge, &config);	// config without on_remove and admit
 *	conntrack_judge_process(judge, &burst);		// instead of conntrack_process_burst
 *	conntrack_judge_advance(judge, horizon_ns, budget);
 *	...
 *	conntrack_judge_drain(judge);
 *	verdict = conntrack_judge_verdict(judge);
 *	conntrack_judge_destroy(judge);
 */
#pragma once

#include "base/histogram.h"
#include "conntrack/lab.h"

enum conntrack_failure {
	CONNTRACK_FAILURE_LIVE_REPORTED_NEW,
	CONNTRACK_FAILURE_PAST_SLACK,
	CONNTRACK_FAILURE_WRONG_STATE,
	CONNTRACK_FAILURE_WRONG_CONNECTION,
	CONNTRACK_FAILURE_WRONG_USER,
	CONNTRACK_FAILURE_REFUSED_WITH_ROOM,
	CONNTRACK_FAILURE_REMOVED_EARLY,
	CONNTRACK_FAILURE_LEFT_OVER,
	CONNTRACK_FAILURES_COUNT
};

/* "live_reported_new", ...; never NULL. */
const char *conntrack_failure_name(enum conntrack_failure failure);

struct conntrack_verdict {
	uint64_t packets;
	uint64_t hits;            /* of live connections */
	uint64_t stale_hits;      /* of dead ones, by a strategy that allows it */
	uint64_t misses;          /* packets that opened a connection, or should have */
	uint64_t untracked;       /* rightly without a connection */
	uint64_t refused;         /* insertions; rightly as far as the tracker's counts go */
	uint64_t refused_by_dead; /* of those: with fewer live connections than entries_max */
	uint64_t evicted_live;
	uint64_t found_dead;        /* connections that left because a packet found them due */
	struct base_histogram late; /* removal - due, by maintenance, nanoseconds */
	uint64_t stale_age_max_ns;  /* oldest stale hit, past its due time */
	/* Sampled after advances: what the tracker holds, and what of it is not due. */
	uint64_t samples, resident_sum, live_sum, resident_max, live_max;
	bool drained;        /* conntrack_judge_drain found nothing left, by maintenance alone */
	uint64_t drained_ns; /* how long after the last due time that was */
	uint64_t failures[CONNTRACK_FAILURES_COUNT], failures_sum;
	char first_failure[256];
};

struct conntrack_judge;

/* The tracker has at least 8 user_bytes, for the judge's own mark. Errors as conntrack_create. */
int conntrack_judge_create(struct conntrack_judge **out, const struct conntrack_config *config);
void conntrack_judge_destroy(struct conntrack_judge *judge);

struct conntrack *conntrack_judge_tracker(const struct conntrack_judge *judge);

/* Packets that come with a drop reason are not judged. */
void conntrack_judge_process(struct conntrack_judge *judge, struct base_burst *burst);
void conntrack_judge_advance(
	struct conntrack_judge *judge, uint64_t horizon_ns, unsigned int budget);

/* Traffic has stopped: lets time go on until maintenance has removed everything that ends, or, for
 * a strategy without a bound, not at all. Then conntrack_finish, and what is left is judged. */
void conntrack_judge_drain(struct conntrack_judge *judge);

const struct conntrack_verdict *conntrack_judge_verdict(const struct conntrack_judge *judge);
