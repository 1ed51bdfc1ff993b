/* SPDX-License-Identifier: BSD-2-Clause */
#include "reframer/baseline_partition.h"

#include <string.h>

enum { TABLE_BITS_MIN = 4, TABLE_BITS_MAX = 9, NONE = UINT16_MAX };
static_assert(1 << TABLE_BITS_MAX >= 2 * BASE_BURST_MAX, "probes end");

/* Packets of a group are chained by their index in the burst, groups by first appearance. */
struct groups {
	uint16_t first[BASE_BURST_MAX], last[BASE_BURST_MAX];
	uint32_t hash[BASE_BURST_MAX];
	uint16_t next[BASE_BURST_MAX]; /* per packet: the next of its group */
	unsigned int count;
	uint16_t table[1 << TABLE_BITS_MAX]; /* group + 1; 0: empty */
	unsigned int table_bits;
};

static void groups_init(struct groups *groups, unsigned int packets_count)
{
	groups->count = 0;
	groups->table_bits = TABLE_BITS_MIN;
	while (1u << groups->table_bits < 2 * packets_count)
		groups->table_bits++;
	memset(groups->table, 0, sizeof(groups->table[0]) << groups->table_bits);
}

static inline void groups_begin(struct groups *groups, unsigned int index, uint32_t hash)
{
	groups->first[groups->count] = (uint16_t)index;
	groups->last[groups->count] = (uint16_t)index;
	groups->hash[groups->count] = hash;
	groups->next[index] = NONE;
	groups->count++;
}

static inline void groups_add(struct groups *groups, unsigned int index, uint32_t hash)
{
	unsigned int mask = (1u << groups->table_bits) - 1;
	unsigned int at = hash * UINT32_C(0x9e3779b1) >> (32 - groups->table_bits);
	while (groups->table[at] != 0) {
		unsigned int group = groups->table[at] - 1u;
		if (groups->hash[group] == hash) {
			groups->next[groups->last[group]] = (uint16_t)index;
			groups->last[group] = (uint16_t)index;
			groups->next[index] = NONE;
			return;
		}
		at = (at + 1) & mask;
	}
	groups->table[at] = (uint16_t)(groups->count + 1);
	groups_begin(groups, index, hash);
}

void reframer_partition_burst(struct base_burst *burst)
{
	struct groups groups;
	struct base_packet *packets[BASE_BURST_MAX];
	unsigned int count = 0;
	groups_init(&groups, burst->count);
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		if ((packet->flags & BASE_PACKET_FLOW) != 0)
			groups_add(&groups, i, packet->hash);
		else
			groups_begin(&groups, i, 0);
	}
	for (unsigned int group = 0; group < groups.count; group++) {
		for (unsigned int i = groups.first[group]; i != NONE; i = groups.next[i])
			packets[count++] = burst->packets[i];
	}
	memcpy(burst->packets, packets, count * sizeof(packets[0]));
	base_burst_mark_runs(burst, false);
}
