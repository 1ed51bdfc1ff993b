/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/nat_ports.h"

#include "base/compiler.h"
#include "base/rng.h"

#include <errno.h>

/* One external endpoint. Free ones are in their pool's list, held ones in a search chain. */
struct mapping {
	union {
		uint32_t inside_address;
		uint32_t prev; /* free */
	};
	uint16_t inside_port;
	uint16_t zone;
	uint32_t next;       /* free list or search chain */
	uint32_t references; /* 0: free */
};
static_assert(sizeof(struct mapping) == 16, "four mappings share a cache line");

/* The ports of one address for one protocol. Taken from the head, given back at the tail. */
struct pool {
	uint32_t head, tail;
	uint32_t free_count;
};

struct chain_nat_ports {
	struct chain_nat_ports_config config;
	uint32_t pool_size; /* ports of the share */
	uint32_t pools_count;
	uint32_t mappings_count;
	uint32_t buckets_mask;
	struct pool *pools; /* class * addresses_count + address */
	struct mapping *mappings;
	uint32_t *buckets; /* first mapping of a search chain */
};

static uint32_t share_size(const struct chain_nat_ports_config *config)
{
	uint32_t range = (uint32_t)config->port_last - config->port_first + 1;
	if (config->worker >= range)
		return 0;
	return (range - config->worker + config->workers - 1) / config->workers;
}

static void pool_append(struct chain_nat_ports *ports, struct pool *pool, uint32_t index)
{
	struct mapping *mapping = &ports->mappings[index];
	mapping->prev = pool->tail;
	mapping->next = CHAIN_NAT_NONE;
	if (pool->tail == CHAIN_NAT_NONE)
		pool->head = index;
	else
		ports->mappings[pool->tail].next = index;
	pool->tail = index;
	pool->free_count++;
}

static void pool_take(struct chain_nat_ports *ports, struct pool *pool, uint32_t index)
{
	struct mapping *mapping = &ports->mappings[index];
	if (mapping->prev == CHAIN_NAT_NONE)
		pool->head = mapping->next;
	else
		ports->mappings[mapping->prev].next = mapping->next;
	if (mapping->next == CHAIN_NAT_NONE)
		pool->tail = mapping->prev;
	else
		ports->mappings[mapping->next].prev = mapping->prev;
	pool->free_count--;
}

static bool config_valid(const struct chain_nat_ports_config *config)
{
	return config->addresses_count >= 1 && config->addresses_count <= CHAIN_NAT_ADDRESSES_MAX &&
	       config->port_first <= config->port_last && config->workers >= 1 &&
	       config->worker < config->workers && share_size(config) >= 1;
}

int chain_nat_ports_create(
	struct chain_nat_ports **out, const struct chain_nat_ports_config *config)
{
	if (!config_valid(config))
		return -EINVAL;
	struct chain_nat_ports *ports =
		base_arena_alloc(config->arena, sizeof(*ports), BASE_CACHE_LINE);
	if (ports == NULL)
		return -ENOMEM;
	ports->config = *config;
	ports->pool_size = share_size(config);
	ports->pools_count = config->addresses_count * CHAIN_NAT_CLASSES_COUNT;
	ports->mappings_count = ports->pools_count * ports->pool_size;
	uint32_t buckets_count = 1;
	while (buckets_count < ports->mappings_count)
		buckets_count *= 2;
	ports->buckets_mask = buckets_count - 1;
	ports->pools = base_arena_alloc(
		config->arena, ports->pools_count * sizeof(*ports->pools), BASE_CACHE_LINE);
	ports->mappings = base_arena_alloc(
		config->arena, ports->mappings_count * sizeof(*ports->mappings), BASE_CACHE_LINE);
	ports->buckets = base_arena_alloc(
		config->arena, buckets_count * sizeof(*ports->buckets), BASE_CACHE_LINE);
	if (ports->pools == NULL || ports->mappings == NULL || ports->buckets == NULL) {
		chain_nat_ports_destroy(ports);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < buckets_count; i++)
		ports->buckets[i] = CHAIN_NAT_NONE;
	for (uint32_t p = 0; p < ports->pools_count; p++) {
		ports->pools[p] = (struct pool){ CHAIN_NAT_NONE, CHAIN_NAT_NONE, 0 };
		for (uint32_t i = 0; i < ports->pool_size; i++)
			pool_append(ports, &ports->pools[p], p * ports->pool_size + i);
	}
	*out = ports;
	return 0;
}

void chain_nat_ports_destroy(struct chain_nat_ports *ports)
{
	if (ports == NULL)
		return;
	struct base_arena *arena = ports->config.arena;
	base_arena_free(arena, ports->pools, ports->pools_count * sizeof(*ports->pools));
	base_arena_free(arena, ports->mappings, ports->mappings_count * sizeof(*ports->mappings));
	base_arena_free(
		arena, ports->buckets, (ports->buckets_mask + 1u) * sizeof(*ports->buckets));
	base_arena_free(arena, ports, sizeof(*ports));
}

static uint64_t mix(const struct chain_nat_ports *ports, uint64_t word)
{
	uint64_t state = word ^ ports->config.salt;
	return base_rng_splitmix64(&state);
}

static uint32_t *bucket_of(const struct chain_nat_ports *ports, enum chain_nat_class class,
	uint32_t address, uint16_t port, uint16_t zone)
{
	uint64_t endpoint = (uint64_t)address << 32 | (uint32_t)port << 16 | zone;
	uint64_t hash = mix(ports, endpoint) + (uint64_t) class * UINT64_C(0x9e3779b97f4a7c15);
	return &ports->buckets[(uint32_t)(hash >> 32) & ports->buckets_mask];
}

static enum chain_nat_class class_of(const struct chain_nat_ports *ports, uint32_t mapping)
{
	return (enum chain_nat_class)(mapping / ports->pool_size / ports->config.addresses_count);
}

static uint32_t search(const struct chain_nat_ports *ports, enum chain_nat_class class,
	const struct chain_nat_inside *inside)
{
	uint32_t index = *bucket_of(ports, class, inside->address, inside->port, inside->zone);
	while (index != CHAIN_NAT_NONE) {
		const struct mapping *mapping = &ports->mappings[index];
		if (mapping->inside_address == inside->address &&
			mapping->inside_port == inside->port && mapping->zone == inside->zone &&
			class_of(ports, index) == class)
			return index;
		index = mapping->next;
	}
	return CHAIN_NAT_NONE;
}

/* Position of a port in the share, or CHAIN_NAT_NONE. */
static uint32_t port_position(const struct chain_nat_ports_config *config, uint16_t port)
{
	if (port < config->port_first || port > config->port_last)
		return CHAIN_NAT_NONE;
	uint32_t distance = (uint32_t)port - config->port_first;
	return distance % config->workers == config->worker ? distance / config->workers
							    : CHAIN_NAT_NONE;
}

/* The pool to take a port from: the paired address's, or the next that has one. */
static uint32_t choose_pool(const struct chain_nat_ports *ports, enum chain_nat_class class,
	const struct chain_nat_inside *inside)
{
	uint32_t count = ports->config.addresses_count;
	uint32_t paired = 0;
	if (count > 1)
		paired = (uint32_t)(mix(ports, (uint64_t)inside->zone << 32 | inside->address) %
				    count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t pool = (uint32_t) class * count + (paired + i) % count;
		if (ports->pools[pool].free_count != 0)
			return pool;
	}
	return CHAIN_NAT_NONE;
}

uint32_t chain_nat_ports_hold(struct chain_nat_ports *ports, enum chain_nat_class class,
	const struct chain_nat_inside *inside)
{
	uint32_t index = search(ports, class, inside);
	if (index != CHAIN_NAT_NONE) {
		ports->mappings[index].references++;
		return index;
	}
	uint32_t pool = choose_pool(ports, class, inside);
	if (pool == CHAIN_NAT_NONE)
		return CHAIN_NAT_NONE;
	index = ports->pools[pool].head;
	uint32_t position = port_position(&ports->config, inside->port);
	if (position != CHAIN_NAT_NONE &&
		ports->mappings[pool * ports->pool_size + position].references == 0)
		index = pool * ports->pool_size + position;
	pool_take(ports, &ports->pools[pool], index);

	uint32_t *bucket = bucket_of(ports, class, inside->address, inside->port, inside->zone);
	ports->mappings[index] = (struct mapping){
		.inside_address = inside->address,
		.inside_port = inside->port,
		.zone = inside->zone,
		.next = *bucket,
		.references = 1,
	};
	*bucket = index;
	return index;
}

void chain_nat_ports_release(struct chain_nat_ports *ports, uint32_t index)
{
	struct mapping *mapping = &ports->mappings[index];
	BASE_DEBUG_ASSERT(index < ports->mappings_count && mapping->references != 0);
	if (--mapping->references != 0)
		return;
	uint32_t *link = bucket_of(ports, class_of(ports, index), mapping->inside_address,
		mapping->inside_port, mapping->zone);
	while (*link != index)
		link = &ports->mappings[*link].next;
	*link = mapping->next;
	pool_append(ports, &ports->pools[index / ports->pool_size], index);
}

void chain_nat_ports_outside(
	const struct chain_nat_ports *ports, uint32_t mapping, struct chain_nat_outside *outside)
{
	const struct chain_nat_ports_config *config = &ports->config;
	uint32_t pool = mapping / ports->pool_size;
	uint32_t position = mapping % ports->pool_size;
	outside->address = config->address + pool % config->addresses_count;
	outside->port =
		(uint16_t)(config->port_first + config->worker + position * config->workers);
}

bool chain_nat_ports_find(const struct chain_nat_ports *ports, enum chain_nat_class class,
	const struct chain_nat_outside *outside, struct chain_nat_inside *inside)
{
	const struct chain_nat_ports_config *config = &ports->config;
	uint32_t address = outside->address - config->address;
	uint32_t position = port_position(config, outside->port);
	if (address >= config->addresses_count || position == CHAIN_NAT_NONE)
		return false;
	uint32_t pool = (uint32_t) class * config->addresses_count + address;
	const struct mapping *mapping = &ports->mappings[pool * ports->pool_size + position];
	if (mapping->references == 0)
		return false;
	*inside = (struct chain_nat_inside){
		.address = mapping->inside_address,
		.port = mapping->inside_port,
		.zone = mapping->zone,
	};
	return true;
}

uint32_t chain_nat_ports_free_count(const struct chain_nat_ports *ports, enum chain_nat_class class)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < ports->config.addresses_count; i++)
		sum += ports->pools[(uint32_t) class * ports->config.addresses_count + i]
			       .free_count;
	return sum;
}

static bool pool_check(const struct chain_nat_ports *ports, uint32_t pool)
{
	uint32_t prev = CHAIN_NAT_NONE, count = 0;
	uint32_t index = ports->pools[pool].head;
	for (; index != CHAIN_NAT_NONE; index = ports->mappings[index].next) {
		const struct mapping *mapping = &ports->mappings[index];
		if (index / ports->pool_size != pool || mapping->references != 0 ||
			mapping->prev != prev || ++count > ports->pool_size)
			return false;
		prev = index;
	}
	return prev == ports->pools[pool].tail && count == ports->pools[pool].free_count;
}

bool chain_nat_ports_check(const struct chain_nat_ports *ports)
{
	uint32_t free_count = 0, held = 0;
	for (uint32_t p = 0; p < ports->pools_count; p++) {
		if (!pool_check(ports, p))
			return false;
		free_count += ports->pools[p].free_count;
	}
	for (uint32_t b = 0; b <= ports->buckets_mask; b++) {
		for (uint32_t i = ports->buckets[b]; i != CHAIN_NAT_NONE;
			i = ports->mappings[i].next) {
			if (ports->mappings[i].references == 0 || ++held > ports->mappings_count)
				return false;
		}
	}
	return free_count + held == ports->mappings_count;
}
