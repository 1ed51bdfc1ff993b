/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/flow_table.h"

#include <errno.h>
#include <string.h>

enum { SLOTS_MIN = 1024 };

int traces_flow_table_init(struct traces_flow_table *table)
{
	memset(table, 0, sizeof(*table));
	table->free_first = TRACES_FLOW_NONE;
	table->slots_mask = SLOTS_MIN - 1;
	return traces_buffer_create_zeroed(
		&table->slots, SLOTS_MIN * sizeof(struct traces_flow_slot));
}

void traces_flow_table_destroy(struct traces_flow_table *table)
{
	traces_buffer_destroy(&table->flows);
	traces_buffer_destroy(&table->slots);
}

uint64_t traces_flow_table_memory_bytes(const struct traces_flow_table *table)
{
	return table->flows.capacity + table->slots.capacity;
}

/* First free slot for a hash. */
static struct traces_flow_slot *free_slot(const struct traces_flow_table *table, uint32_t hash)
{
	uint32_t place = hash & table->slots_mask;
	while (traces_flow_slot_at(table, place)->index_plus_one != 0)
		place = (place + 1) & table->slots_mask;
	return traces_flow_slot_at(table, place);
}

static int slots_grow(struct traces_flow_table *table)
{
	struct traces_flow_table grown = *table;
	uint64_t slots = 2 * ((uint64_t)table->slots_mask + 1);
	grown.slots_mask = (uint32_t)(slots - 1);
	if (traces_buffer_create_zeroed(&grown.slots, slots * sizeof(struct traces_flow_slot)) != 0)
		return -ENOMEM;
	for (uint64_t i = 0; i <= table->slots_mask; i++) {
		struct traces_flow_slot slot = *traces_flow_slot_at(table, (uint32_t)i);
		if (slot.index_plus_one != 0)
			*free_slot(&grown, slot.hash) = slot;
	}
	traces_buffer_destroy(&table->slots);
	*table = grown;
	return 0;
}

/* An index that is in nobody's hands. -ENOMEM. */
static int take_index(struct traces_flow_table *table, uint32_t *index)
{
	if (table->free_first != TRACES_FLOW_NONE) {
		*index = table->free_first;
		table->free_first = traces_flow_at(table, *index)->hash;
		return 0;
	}
	struct traces_buffer *flows = &table->flows;
	if (table->given >= TRACES_INFO_FLOWS_LIMIT ||
		traces_buffer_reserve(flows, flows->used + sizeof(struct traces_flow)) != 0)
		return -ENOMEM;
	flows->used += sizeof(struct traces_flow);
	*index = table->given++;
	return 0;
}

int traces_flow_table_insert(struct traces_flow_table *table, const struct base_flow_key *key,
	uint32_t hash, uint32_t *index)
{
	if (2 * ((uint64_t)table->count + 1) > (uint64_t)table->slots_mask + 1 &&
		slots_grow(table) != 0)
		return -ENOMEM;
	if (take_index(table, index) != 0)
		return -ENOMEM;
	*traces_flow_at(table, *index) = (struct traces_flow){ .key = *key, .hash = hash };
	*free_slot(table, hash) = (struct traces_flow_slot){ hash, *index + 1 };
	table->count++;
	return 0;
}

/* Slots behind the freed one move up, as far as that brings them nearer to where their hash wants
 * them, so that no search ends at a gap too early. */
static void free_place(struct traces_flow_table *table, uint32_t gap)
{
	uint32_t mask = table->slots_mask;
	for (uint32_t place = (gap + 1) & mask;; place = (place + 1) & mask) {
		struct traces_flow_slot *slot = traces_flow_slot_at(table, place);
		if (slot->index_plus_one == 0)
			break;
		uint32_t away = (place - (slot->hash & mask)) & mask;
		if (away >= ((place - gap) & mask)) {
			*traces_flow_slot_at(table, gap) = *slot;
			gap = place;
		}
	}
	*traces_flow_slot_at(table, gap) = (struct traces_flow_slot){ 0, 0 };
}

void traces_flow_table_remove(struct traces_flow_table *table, uint32_t index)
{
	uint32_t place = traces_flow_at(table, index)->hash & table->slots_mask;
	while (traces_flow_slot_at(table, place)->index_plus_one != index + 1)
		place = (place + 1) & table->slots_mask;
	free_place(table, place);
	traces_flow_at(table, index)->hash = table->free_first; /* as a link */
	table->free_first = index;
	table->count--;
}
