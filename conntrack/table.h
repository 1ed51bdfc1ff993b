/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tracker's hash table: (tag, index) pairs in 64-byte lines; keys stay in the entries.
 *
 * A bucket is one line of eight pairs, followed by overflow lines when it holds more. Buckets are
 * kept compact: all lines but the first overflow line are full, pairs come before empty places, and
 * no tombstones exist. A 16-bit filter in the first line says which tags may be in the
 * overflow lines, so that a miss touches one line in the common case.
 *
 * Sizing: 6.4 pairs per bucket on average when entries_max are stored (load 80 %), whatever the
 * number: a bucket is chosen by the high half of a product, not by bits. About
 * 6 % of pairs then sit in an overflow line. Overflow lines never run out: a bucket needs 8 n + 1
 * pairs to take n of them, and there is one for each eight entries. Zeroed memory is an empty
 * table. So an insertion is refused only
 * when its bucket already has CONNTRACK_TABLE_LINES_MAX overflow lines (136 pairs), which bounds
 * every operation; random hashes never get there, only keys chosen to collide do, and
 * BASE_HASH_SIPHASH takes that choice away.
 *
 * This is the seam for other tables: find, insert, remove by (mixed hash, index), with entries that
 * never move. Cost: find 1 line + 1 entry; insert and remove 1 line (2 with overflow).
 */
#pragma once

#include "base/arena.h"
#include "conntrack/entry.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
	CONNTRACK_TABLE_LINE_PAIRS = 8,
	CONNTRACK_TABLE_LINES_MAX = 16, /* overflow lines of one bucket */
};

struct conntrack_table_line {
	uint16_t tag[CONNTRACK_TABLE_LINE_PAIRS]; /* 0: empty */
	uint32_t index[CONNTRACK_TABLE_LINE_PAIRS];
	uint32_t next;   /* first overflow line, or the next one, 0: none; free lines: free list */
	uint16_t count;  /* bucket: pairs in all its lines; overflow line: unused */
	uint16_t filter; /* bucket: bit (tag >> 12) set for each pair in overflow lines */
	uint64_t spare;
} BASE_ALIGNED(64);
static_assert(sizeof(struct conntrack_table_line) == 64, "one cache line per bucket");

struct conntrack_table {
	struct conntrack_table_line *buckets;
	struct conntrack_table_line *overflow;
	uint64_t salt;
	uint32_t buckets_count;
	uint32_t overflow_count;
	uint32_t overflow_free;  /* head of the free list, 0: empty */
	uint32_t overflow_fresh; /* from this one on they have never been used */
	uint32_t overflow_used;
	struct base_arena *arena;
};

/* The load that the tracker asks for. */
#define CONNTRACK_TABLE_LOAD 0.8

/* -ENOMEM. entries_max >= 1; load: pairs per place of a first line when entries_max are in, above
 * 0, at most 1. Never more than entries_max may be in. */
int conntrack_table_init(struct conntrack_table *table, uint32_t entries_max, double load,
	uint64_t salt, struct base_arena *arena);
void conntrack_table_release(struct conntrack_table *table);
uint64_t conntrack_table_bytes(const struct conntrack_table *table);

/* Sizes only: zeroed memory for buckets and overflow is the caller's to set and to free. */
void conntrack_table_shape(
	struct conntrack_table *table, uint32_t entries_max, double load, uint64_t salt);
size_t conntrack_table_buckets_bytes(const struct conntrack_table *table);
size_t conntrack_table_overflow_bytes(const struct conntrack_table *table);

/* -ENOSPC when the bucket is at its bound. The pair must not be there yet. */
int conntrack_table_insert(struct conntrack_table *table, uint64_t mixed, uint32_t index);

/* The pair must be there. */
void conntrack_table_remove(struct conntrack_table *table, uint64_t mixed, uint32_t index);

/* Index of the entry with this key among the overflow lines of its bucket, or BASE_CONN_NONE. */
uint32_t conntrack_table_find_overflow(const struct conntrack_table *table, uint64_t mixed,
	const struct base_flow_key *key, const struct conntrack_entry *entries);

/* First index in the overflow lines whose tag matches, to prefetch its entry. */
uint32_t conntrack_table_guess_overflow(const struct conntrack_table *table, uint64_t mixed);

/* Hand every pair of a bucket to visit. */
void conntrack_table_visit_bucket(const struct conntrack_table *table, uint32_t bucket,
	void (*visit)(void *context, uint32_t bucket, uint16_t tag, uint32_t index), void *context);

/* The same, and check compactness and filter. NULL or what is wrong. */
const char *conntrack_table_check_bucket(const struct conntrack_table *table, uint32_t bucket,
	void (*visit)(void *context, uint32_t bucket, uint16_t tag, uint32_t index), void *context);

/* The packet's hash may be linear (CRC32C) and its low bits are the same for a whole worker
 * (steering), so it is mixed before bits are taken: two rounds of multiply and fold. */
static inline uint64_t conntrack_table_mix(const struct conntrack_table *table, uint32_t hash)
{
	uint64_t z = (hash ^ table->salt) * UINT64_C(0x9fb21c651e98df25);
	z ^= z >> 32;
	z *= UINT64_C(0xd6e8feb86659fd93);
	return z;
}

/* Never 0, which marks an empty pair. */
static inline uint16_t conntrack_table_tag(uint64_t mixed)
{
	return (uint16_t)(mixed >> 16 | 1);
}

/* Buckets 2b and 2b + 1 of twice as many are those of bucket b. */
static inline uint32_t conntrack_table_bucket_at(
	const struct conntrack_table *table, uint64_t mixed)
{
	__extension__ unsigned __int128 product = (unsigned __int128)mixed * table->buckets_count;
	return (uint32_t)(product >> 64);
}

static inline struct conntrack_table_line *conntrack_table_bucket(
	const struct conntrack_table *table, uint64_t mixed)
{
	return &table->buckets[conntrack_table_bucket_at(table, mixed)];
}

static inline bool conntrack_table_may_overflow(
	const struct conntrack_table_line *bucket, uint16_t tag)
{
	return (bucket->filter >> (tag >> 12) & 1u) != 0;
}

/* Bit i: pair i has this tag. Plain version; tests compare both. */
static inline unsigned int conntrack_table_match_scalar(
	const struct conntrack_table_line *line, uint16_t tag)
{
	unsigned int mask = 0;
	for (unsigned int i = 0; i < CONNTRACK_TABLE_LINE_PAIRS; i++)
		mask |= (unsigned int)(line->tag[i] == tag) << i;
	return mask;
}

static inline unsigned int conntrack_table_match(
	const struct conntrack_table_line *line, uint16_t tag)
{
#if defined(__SSE2__)
	__m128i tags = _mm_load_si128((const __m128i *)line->tag);
	__m128i equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16((short)tag));
	return (unsigned int)_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128()));
#else
	return conntrack_table_match_scalar(line, tag);
#endif
}

/* Index of the entry with this key, or BASE_CONN_NONE. */
static inline uint32_t conntrack_table_find(const struct conntrack_table *table, uint64_t mixed,
	const struct base_flow_key *key, const struct conntrack_entry *entries)
{
	const struct conntrack_table_line *bucket = conntrack_table_bucket(table, mixed);
	uint16_t tag = conntrack_table_tag(mixed);
	unsigned int mask = conntrack_table_match(bucket, tag);
	for (; mask != 0; mask &= mask - 1) {
		uint32_t index = bucket->index[__builtin_ctz(mask)];
		if (BASE_LIKELY(conntrack_key_equal(&entries[index].key, key)))
			return index;
	}
	if (BASE_LIKELY(!conntrack_table_may_overflow(bucket, tag)))
		return BASE_CONN_NONE;
	return conntrack_table_find_overflow(table, mixed, key, entries);
}
