/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/maglev.h"

#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_FREE UINT16_MAX
static_assert(CHAIN_BACKENDS_MAX * 2 < UINT16_MAX, "positions of both families fit a slot");

/* Where a backend stands in its own order of slots. */
struct walk {
	uint32_t next, skip;
	uint64_t weight, credit;
};

static bool is_prime(uint32_t number)
{
	if (number < 2)
		return false;
	for (uint32_t divisor = 2; (uint64_t)divisor * divisor <= number; divisor++) {
		if (number % divisor == 0)
			return false;
	}
	return true;
}

bool chain_maglev_size_valid(uint32_t size, uint32_t backends_count)
{
	return size <= CHAIN_MAGLEV_SIZE_MAX && size > (uint64_t)backends_count * 100 &&
	       is_prime(size);
}

int chain_maglev_compare(const struct chain_backend *a, const struct chain_backend *b)
{
	int order = strncmp(a->name, b->name, sizeof(a->name));
	if (order != 0)
		return order;
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return memcmp(a->address, b->address, a->family == 4 ? 4 : 16);
}

/* Same value on every machine: words are put together from bytes in one order. */
static uint64_t absorb(uint64_t hash, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = 0;
		for (size_t j = i; j < size && j < i + 8; j++)
			word |= (uint64_t)bytes[j] << (8 * (j - i));
		hash ^= word;
		hash = base_rng_splitmix64(&hash);
	}
	hash ^= size;
	return base_rng_splitmix64(&hash);
}

uint64_t chain_maglev_identity(const struct chain_backend *backend, uint64_t seed)
{
	uint64_t hash = base_rng_splitmix64(&seed) ^ backend->family;
	hash = absorb(hash, (const uint8_t *)backend->name,
		strnlen(backend->name, sizeof(backend->name)));
	return absorb(hash, backend->address, backend->family == 4 ? 4 : 16);
}

static void walk_begin(
	struct walk *walk, const struct chain_backend *backend, uint32_t size, uint64_t seed)
{
	*walk = (struct walk){
		.next = (uint32_t)(chain_maglev_identity(backend, seed) % size),
		.skip = (uint32_t)(chain_maglev_identity(backend, ~seed) % (size - 1)) + 1,
		.weight = backend->weight,
	};
}

/* The first free slot in the backend's order. */
static uint32_t walk_take(struct walk *walk, const uint16_t *table, uint32_t size)
{
	for (;;) {
		uint32_t slot = walk->next;
		walk->next = (uint32_t)(((uint64_t)slot + walk->skip) % size);
		if (table[slot] == SLOT_FREE)
			return slot;
	}
}

int chain_maglev_populate(uint16_t *table, uint32_t size, const struct chain_backend *backends,
	const uint16_t *members, uint32_t members_count, uint64_t seed)
{
	struct walk *walks = calloc(members_count, sizeof(*walks));
	if (walks == NULL)
		return -ENOMEM;
	uint64_t weight_max = 0;
	for (uint32_t i = 0; i < members_count; i++) {
		walk_begin(&walks[i], &backends[members[i]], size, seed);
		if (walks[i].weight > weight_max)
			weight_max = walks[i].weight;
	}
	BASE_ASSERT(weight_max != 0);
	for (uint32_t slot = 0; slot < size; slot++)
		table[slot] = SLOT_FREE;

	/* In each round the heaviest takes one slot, the others as often as their weights say. */
	uint32_t filled = 0;
	for (uint32_t i = 0; filled < size; i = (i + 1) % members_count) {
		struct walk *walk = &walks[i];
		walk->credit += walk->weight;
		if (walk->weight == 0 || walk->credit < weight_max)
			continue;
		walk->credit -= weight_max;
		table[walk_take(walk, table, size)] = members[i];
		filled++;
	}
	free(walks);
	return 0;
}
