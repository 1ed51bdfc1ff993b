/* SPDX-License-Identifier: BSD-2-Clause */
/* The way out: from the queue of released runs into bursts. */
#include "reframer/reframer_private.h"

/* Packets that leave one after another with the same hold time go into the histogram together: a
 * flow that waited alone has waited for exactly the delay bound. */
struct equal_holds {
	uint64_t hold_ns, count;
};

static inline void equal_holds_add(
	struct equal_holds *holds, struct base_histogram *histogram, uint64_t hold_ns)
{
	if (hold_ns != holds->hold_ns) {
		if (holds->count != 0)
			base_histogram_add_n(histogram, holds->hold_ns, holds->count);
		holds->hold_ns = hold_ns;
		holds->count = 0;
	}
	holds->count++;
}

/* Unlink `count` packets into `packets`. Returns the one behind them: not to be followed when the
 * run ends there. */
static inline struct base_packet *pop_packets(struct base_packet **packets,
	const struct released_run *run, unsigned int count, struct equal_holds *holds,
	struct base_histogram *histogram)
{
	struct base_packet *packet = run->head;
	uint64_t release_ns = run->release_ns;
	for (unsigned int i = 0; i < count; i++) {
		packet->release_ns = release_ns;
		equal_holds_add(holds, histogram, release_ns - packet->holder_word);
		packets[i] = packet;
		packet = packet->next;
	}
	return packet;
}

/* The line with the links; the pointer may be null or stale. */
static inline void prefetch_links(const struct base_packet *packet)
{
	BASE_PREFETCH_W((const void *)((uintptr_t)packet + offsetof(struct base_packet, next)));
}

static void queue_restart_if_empty(struct run_queue *queue)
{
	if (queue->first == queue->end)
		queue->first = queue->end = 0;
}

unsigned int reframer_pop_burst(
	struct reframer *reframer, struct base_burst *burst, unsigned int packets_max)
{
	BASE_ASSERT(packets_max >= 1 && packets_max <= BASE_BURST_MAX);
	struct run_queue *queue = &reframer->released;
	struct released_run *run = &queue->runs[queue->first], *end = &queue->runs[queue->end];
	struct equal_holds holds = { 0 };
	uint64_t last_hash = reframer->last_out.flow_hash;
	const struct base_flow_key *last_key = &reframer->last_out.key;
	unsigned int popped = 0, runs_count = 0;
	uint64_t runs_begun = 0;
	bool prefetch = reframer->prefetch;
	while (run != end) {
		unsigned int count = (unsigned int)run->count;
		bool split = count > packets_max - popped;
		if (BASE_UNLIKELY(split)) {
			if (popped != 0)
				break;
			count = packets_max;
		}
		if (prefetch)
			prefetch_links(run[RUN_QUEUE_MARGIN].head);
		struct base_packet *head = run->head;
		/* The same flow may follow itself, e.g. after a full run. */
		bool continues = run->flow_hash == last_hash && last_hash != 0 &&
				 base_flow_key_equal(last_key, &head->key);
		last_hash = run->flow_hash;
		last_key = &head->key;
		runs_begun += !continues;
		if (BASE_UNLIKELY(continues && popped != 0))
			burst->runs[runs_count - 1].count += (uint16_t)count;
		else
			burst->runs[runs_count++] = (struct base_run){ .first = (uint16_t)popped,
				.count = (uint16_t)count };
		struct base_packet *behind =
			pop_packets(&burst->packets[popped], run, count, &holds, &reframer->hold);
		popped += count;
		if (BASE_UNLIKELY(split)) {
			run->head = behind;
			run->count -= count;
			break;
		}
		run++;
	}
	burst->count = (uint16_t)popped;
	burst->run_count = (uint16_t)runs_count;
	burst->drop_count = 0;
	queue->first = (uint32_t)(run - queue->runs);
	queue_restart_if_empty(queue);
	if (popped == 0)
		return 0;
	base_histogram_add_n(&reframer->hold, holds.hold_ns, holds.count);
	stream_end_set(&reframer->last_out, burst->packets[popped - 1]);
	reframer->stats.packets_out += popped;
	reframer->stats.runs_out += runs_begun;
	return popped;
}
