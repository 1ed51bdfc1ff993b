/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sharing: how the workers of a run keep connections together, the whole path of them: tracker,
 * inference, chain. With `shard` there is nothing of this: each worker has its own (worker.h).
 *
 *   mutex      one state (state.h) of all workers, a burst of whichever worker goes through it
 *              alone, under one pthread mutex
 *   spinlock   the same under a lock that spins, and yields its CPU after a while, since its holder
 *              may need it
 *   bucket_lock  SHARING_GROUPS states, each of a group of steering buckets (neighbours in the
 *              indirection table, which belong to different workers) and under a spinning lock of
 *              its own: workers wait for one another only in the same group. A burst is cut into
 *              the parts of its groups. Without inference, whose batches it would split
 *
 *   handover   as many states and no lock: a group belongs to one worker at a time, and to another
 *              one after each epoch of capture time (handover.h). At its end a worker releases what
 *              the reframer holds, so that nothing of a group stays behind; packets are planned for
 *              the workers accordingly, and carry their group. The check of order goes along with
 *              the group, the stamps are places in the capture. First fragments are read by all
 *              workers' parsers, since the later ones may be somebody else's
 *
 * What stays with a worker: source, parser, reframer, sink, books, and an inference stage, whose
 * packets and rows are of its own connections. Packets are steered to workers by the hash of their
 * flow, under every model but handover; so the order within a flow holds by itself.
 *
 * Time. Workers go through capture time at their own pace. Each tells its horizon (no packet of its
 * own to come, or held, is earlier), and timers run up to the least of all horizons; lookups
 * compare with the packet's own time anyway. So nothing is removed while a packet may come that
 * would have found it, and flow results are those of `shard`, while no table is full. What tells
 * when something was removed (peaks, timers, lateness) depends on how far workers were apart.
 *
 * A worker far ahead would fill the table with connections that nobody may remove yet. So when it
 * is half full, a worker that is ahead waits for the others; not with a stream, whose rings bound
 * how far workers are apart, and not under the wall clock, which keeps them together.
 *
 * With handover a group's timers follow its owner's horizon alone, since no one else has packets
 * for it: everything but time is the same in every run.
 *
 * Threads: join in the workers' set-ups, one after the other; enter to leave_for_good by the worker
 * that is passed; finish when it has left, the last one does it for all. Cost: a lock and its
 * release per burst, and per timer tick; uncontended they take no time stamp; handover: see there,
 * and bursts that are cut. Memory: as many connections as all workers of `shard` together, a
 * quarter more with groups.
 */
#pragma once

#include "pipeline/handover.h"
#include "pipeline/pipeline.h"

enum { SHARING_GROUPS = HANDOVER_GROUPS };

struct sharing;
struct worker;

/* Of one worker. Counters only. */
struct sharing_waits {
	uint64_t locks;         /* taken */
	uint64_t contended;     /* ... that were not free at once */
	uint64_t waited_cycles; /* for those */
	/* for workers that are behind, since a crowded table could not be cleared before */
	uint64_t held_back_cycles;
	uint64_t turns, groups; /* handover: epochs entered, groups taken over for them */
};

/* "shard", ...; never NULL. */
const char *sharing_name(enum pipeline_sharing_kind kind);

/* Out of a run's threads. -ENOMEM. Nothing is made for `shard`: *out is NULL. */
int sharing_create(struct sharing **out, const struct pipeline_config *config, bool huge);
/* After its workers. */
void sharing_destroy(struct sharing *sharing);

/* Part of a worker's set-up: its tracker, chain and inference stage. On failure worker->error and
 * message are set. */
int sharing_join(struct sharing *sharing, struct worker *worker);

/* States; which of them a packet's flow is in, and which one a packet to an address of the NAT is
 * of before it is translated. */
uint32_t sharing_states(const struct sharing *sharing);
uint32_t sharing_state_of(const struct sharing *sharing, const struct base_packet *packet);
uint32_t sharing_state_of_reply(const struct sharing *sharing, const struct base_packet *packet);

/* Between the two the state's tracker, chain and stage are this worker's. */
void sharing_enter(struct worker *worker, uint32_t state);
void sharing_leave(struct worker *worker, uint32_t state);

/* The worker's horizon; timers run when they are due, `looks` entries looked at. Returns entries
 * removed. */
unsigned int sharing_advance(struct worker *worker, uint64_t horizon_ns, unsigned int looks);

/* Handover: nothing of an epoch before the one of next_ns is left with this worker. Waits for its
 * groups in that one; worker->turn_end_ns ends it. False: stopped, it has none. */
bool sharing_take_turn(struct worker *worker, uint64_t next_ns);

/* Its last packet has passed, or it will not come: it keeps nobody's time back. */
void sharing_leave_for_good(struct worker *worker);

/* After worker_loop, when nothing failed. The last worker ends the connections and collects the
 * statistics of all, as worker 0's; books of everyone's inference are settled then. */
void sharing_finish(struct worker *worker);
