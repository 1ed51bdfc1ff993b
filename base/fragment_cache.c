/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/flow_key_private.h"
#include "base/parse_private.h"

#include <errno.h>

enum { WAYS = 4, DATAGRAMS_LIMIT = 1 << 24 };

/* One cache line per datagram. */
struct entry {
	uint8_t source[16], destination[16];
	uint64_t time_ns; /* of the first fragment */
	uint32_t id;
	uint16_t zone;
	uint8_t lookup_protocol;
	uint8_t family; /* 0: never used */
	struct base_fragment_ports ports;
} BASE_ALIGNED(64);
static_assert(sizeof(struct entry) == 64, "one line per datagram");

struct base_fragment_cache {
	struct entry *entries;
	uint32_t sets_mask;
	uint64_t timeout_ns;
	uint64_t salt;
};

int base_fragment_cache_create(struct base_fragment_cache **out, uint32_t datagrams_max,
	uint64_t timeout_ns, uint64_t salt)
{
	if (datagrams_max > DATAGRAMS_LIMIT)
		return -EINVAL;
	uint32_t count = WAYS;
	while (count < datagrams_max)
		count *= 2;
	struct base_fragment_cache *cache = malloc(sizeof(*cache));
	struct entry *entries = aligned_alloc(sizeof(*entries), count * sizeof(*entries));
	if (cache == NULL || entries == NULL) {
		free(cache);
		free(entries);
		return -ENOMEM;
	}
	memset(entries, 0, count * sizeof(*entries));
	*cache = (struct base_fragment_cache){ .entries = entries,
		.sets_mask = count / WAYS - 1,
		.timeout_ns = timeout_ns,
		.salt = salt };
	*out = cache;
	return 0;
}

void base_fragment_cache_destroy(struct base_fragment_cache *cache)
{
	if (cache == NULL)
		return;
	free(cache->entries);
	free(cache);
}

static struct entry entry_for(const struct base_parse_ip *ip, uint16_t zone)
{
	struct entry entry = { .id = ip->fragment_id,
		.zone = zone,
		.lookup_protocol = ip->fragment_protocol,
		.family = ip->family };
	size_t size = ip->family == 6 ? 16 : 4;
	memcpy(entry.source, ip->source, size);
	memcpy(entry.destination, ip->destination, size);
	return entry;
}

static struct entry *set_of(const struct base_fragment_cache *cache, const struct entry *wanted)
{
	uint64_t words[5];
	memcpy(words, wanted->source, 32);
	words[4] = (uint64_t)wanted->id << 32 | (uint64_t)wanted->zone << 16 |
		   (uint64_t)wanted->lookup_protocol << 8 | wanted->family;
	uint32_t hash = base_hash_crc32c(words, cache->salt);
	return cache->entries + (size_t)(hash & cache->sets_mask) * WAYS;
}

static bool same_datagram(const struct entry *a, const struct entry *b)
{
	return a->id == b->id && a->family == b->family && a->zone == b->zone &&
	       a->lookup_protocol == b->lookup_protocol && memcmp(a->source, b->source, 32) == 0;
}

/* Time may step back between packets of a capture; an entry from the future is fresh. */
static bool alive(
	const struct base_fragment_cache *cache, const struct entry *entry, uint64_t now_ns)
{
	return entry->family != 0 &&
	       (now_ns <= entry->time_ns || now_ns - entry->time_ns <= cache->timeout_ns);
}

bool base_fragment_cache_add(struct base_fragment_cache *cache, const struct base_parse_ip *ip,
	uint16_t zone, const struct base_fragment_ports *ports, uint64_t now_ns)
{
	struct entry fresh = entry_for(ip, zone);
	fresh.ports = *ports;
	fresh.time_ns = now_ns;
	struct entry *set = set_of(cache, &fresh), *victim = &set[0];
	bool free_found = false;
	for (int way = 0; way < WAYS; way++) {
		if (same_datagram(&set[way], &fresh)) {
			set[way] = fresh;
			return false;
		}
		if (free_found)
			continue;
		free_found = !alive(cache, &set[way], now_ns);
		if (free_found || set[way].time_ns < victim->time_ns)
			victim = &set[way];
	}
	*victim = fresh;
	return !free_found;
}

bool base_fragment_cache_find(const struct base_fragment_cache *cache,
	const struct base_parse_ip *ip, uint16_t zone, struct base_fragment_ports *ports,
	uint64_t now_ns)
{
	struct entry wanted = entry_for(ip, zone);
	const struct entry *set = set_of(cache, &wanted);
	for (int way = 0; way < WAYS; way++) {
		if (!same_datagram(&set[way], &wanted))
			continue;
		if (!alive(cache, &set[way], now_ns))
			return false;
		*ports = set[way].ports;
		return true;
	}
	return false;
}
