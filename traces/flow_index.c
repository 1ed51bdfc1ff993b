/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/flow_index.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdlib.h>

int traces_flow_index_init(struct traces_flow_index *index, uint32_t capacity)
{
	uint32_t chains = 1;
	BASE_ASSERT(capacity > 0 && capacity <= 1u << 31);
	while (chains < capacity)
		chains *= 2;
	*index = (struct traces_flow_index){ .mask = chains - 1, .capacity = capacity };
	index->chains = calloc(chains, sizeof(*index->chains));
	index->entries = calloc(capacity, sizeof(*index->entries));
	if (index->chains != NULL && index->entries != NULL)
		return 0;
	traces_flow_index_destroy(index);
	return -ENOMEM;
}

void traces_flow_index_destroy(struct traces_flow_index *index)
{
	free(index->chains);
	free(index->entries);
	index->chains = NULL;
	index->entries = NULL;
}

uint32_t traces_flow_index_find(
	const struct traces_flow_index *index, const struct base_flow_key *key, uint32_t hash)
{
	uint32_t at = index->chains[hash & index->mask];
	for (; at != 0; at = index->entries[at - 1].next_plus_one) {
		const struct traces_flow_entry *entry = &index->entries[at - 1];
		if (entry->hash == hash && base_flow_key_equal(&entry->key, key))
			return at - 1;
	}
	return TRACES_FLOW_NONE;
}

uint32_t traces_flow_index_add(
	struct traces_flow_index *index, const struct base_flow_key *key, uint32_t hash)
{
	BASE_ASSERT(index->count < index->capacity);
	uint32_t number;
	if (index->removed_plus_one != 0) {
		number = index->removed_plus_one - 1;
		index->removed_plus_one = index->entries[number].next_plus_one;
	} else {
		number = index->used++;
	}
	uint32_t *chain = &index->chains[hash & index->mask];
	index->entries[number] = (struct traces_flow_entry){ *key, hash, *chain };
	*chain = number + 1;
	index->count++;
	return number;
}

void traces_flow_index_remove(struct traces_flow_index *index, uint32_t number)
{
	struct traces_flow_entry *entry = &index->entries[number];
	uint32_t *link = &index->chains[entry->hash & index->mask];
	while (*link != number + 1)
		link = &index->entries[*link - 1].next_plus_one;
	*link = entry->next_plus_one;
	entry->next_plus_one = index->removed_plus_one;
	index->removed_plus_one = number + 1;
	index->count--;
}

void traces_flow_index_clear(struct traces_flow_index *index)
{
	for (uint32_t i = 0; i < index->used; i++)
		index->chains[index->entries[i].hash & index->mask] = 0;
	index->used = index->count = index->removed_plus_one = 0;
}
