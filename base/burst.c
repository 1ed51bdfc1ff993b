/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/burst.h"

static bool same_flow(const struct base_packet *a, const struct base_packet *b)
{
	return a->hash == b->hash && (a->flags & b->flags & BASE_PACKET_FLOW) != 0 &&
	       base_flow_key_equal(&a->key, &b->key);
}

static void mark_single(struct base_burst *burst)
{
	for (unsigned int i = 0; i < burst->count; i++)
		burst->runs[i] = (struct base_run){ .first = (uint16_t)i, .count = 1 };
	burst->run_count = burst->count;
}

void base_burst_mark_runs(struct base_burst *burst, bool single)
{
	BASE_DEBUG_ASSERT(burst->count <= BASE_BURST_MAX);
	if (single) {
		mark_single(burst);
		return;
	}
	unsigned int runs = 0;
	for (unsigned int i = 0; i < burst->count; i++) {
		if (i != 0 && same_flow(burst->packets[i - 1], burst->packets[i])) {
			burst->runs[runs - 1].count++;
			continue;
		}
		burst->runs[runs++] = (struct base_run){ .first = (uint16_t)i, .count = 1 };
	}
	burst->run_count = (uint16_t)runs;
}

unsigned int base_burst_compact(struct base_burst *burst, struct base_packet **dropped)
{
	if (burst->drop_count == 0)
		return 0;
	unsigned int kept = 0, moved = 0, runs = 0;
	for (unsigned int r = 0; r < burst->run_count; r++) {
		struct base_run run = burst->runs[r];
		unsigned int first = kept;
		for (unsigned int i = run.first; i < (unsigned int)run.first + run.count; i++) {
			struct base_packet *packet = burst->packets[i];
			if (packet->drop_reason != BASE_DROP_NONE)
				dropped[moved++] = packet;
			else
				burst->packets[kept++] = packet;
		}
		if (kept != first)
			burst->runs[runs++] = (struct base_run){ .first = (uint16_t)first,
				.count = (uint16_t)(kept - first) };
	}
	burst->count = (uint16_t)kept;
	burst->run_count = (uint16_t)runs;
	burst->drop_count = 0;
	return moved;
}
