/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to conntrack/tables: one constant per table, and what the tables have in common.
 *
 * All own tables look a burst up in the same four passes (conntrack_tables_find_burst), so that
 * they differ in their layout and in nothing else:
 *
 *   1  prefetch each key's first line
 *   2  compare tags there; prefetch the entry of the first match, or the line that may have it
 *   3  compare tags in those lines; prefetch the entries
 *   4  compare keys; a key that differs from its guess is looked up afresh
 *
 * Prefetches go to the second-level cache: the first level has too few places for lines under way
 * to wait for a whole burst at once.
 */
#pragma once

#include "conntrack/entry.h"
#include "conntrack/lab.h"

extern const struct conntrack_table_ops conntrack_table_bucket_ops;
extern const struct conntrack_table_ops conntrack_table_cuckoo_ops;
extern const struct conntrack_table_ops conntrack_table_robin_hood_ops;
extern const struct conntrack_table_ops conntrack_table_hopscotch_ops;
extern const struct conntrack_table_ops conntrack_table_chaining_ops;
extern const struct conntrack_table_ops conntrack_table_dlht_ops;
extern const struct conntrack_table_ops conntrack_table_growing_ops;

/* ---- sizes and places ---------------------------------------------------------------------- */

/* Places for entries_max pairs at the load asked for, rounded up to whole groups (lines). 0: more
 * than a 32-bit index of a group can name. */
static inline uint32_t conntrack_tables_groups(
	const struct conntrack_table_config *config, double load, unsigned int group)
{
	if (config->load > 0)
		load = config->load;
	/* What rounding of the load's own digits adds is less than a thousandth of a place. */
	double places = (double)config->entries_max / load - 0.001;
	double groups = places / group;
	if (load > 1 || groups > UINT32_MAX / 2)
		return 0;
	uint32_t whole = (uint32_t)groups;
	return whole < groups ? whole + 1 : whole;
}

/* Uniform in 0..count-1, from the upper half of the hash. */
static inline uint32_t conntrack_tables_spread(uint64_t mixed, uint32_t count)
{
	return (uint32_t)((mixed >> 32) * count >> 32);
}

/* Never 0, which marks an empty place; from bits that conntrack_tables_spread does not use. */
static inline uint16_t conntrack_tables_tag(uint64_t mixed)
{
	return (uint16_t)(mixed >> 16 | 1);
}

static inline bool conntrack_tables_key_is(
	const struct conntrack_table_config *config, uint32_t conn, const struct base_flow_key *key)
{
	return conntrack_key_equal(conntrack_table_key(config, conn), key);
}

/* Bit i: tags[i], of eight that are aligned to 16 bytes, has this value. */
static inline unsigned int conntrack_tables_match8(const uint16_t *tags, uint16_t tag)
{
#if defined(__SSE2__)
	__m128i all = _mm_load_si128((const __m128i *)(const void *)tags);
	__m128i equal = _mm_cmpeq_epi16(all, _mm_set1_epi16((short)tag));
	return (unsigned int)_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128()));
#else
	unsigned int mask = 0;
	for (unsigned int i = 0; i < 8; i++)
		mask |= (unsigned int)(tags[i] == tag) << i;
	return mask;
#endif
}

/* ---- a burst ------------------------------------------------------------------------------- */

/* How a table takes part in the four passes. All are given the table. */
struct conntrack_tables_steps {
	const void *(*line)(const void *table, uint64_t mixed);
	/* Index of the first match, or BASE_CONN_NONE; then *further is the line to go on with, or
	 * stays NULL: the key is not there. */
	uint32_t (*guess)(const void *table, uint64_t mixed, const void **further);
	/* The same in the lines behind; NULL: there are none. */
	uint32_t (*guess_further)(const void *table, uint64_t mixed);
	/* One key from the beginning. */
	uint32_t (*find)(const void *table, uint64_t mixed, const struct base_flow_key *key);
};

static inline void conntrack_tables_prefetch_key(
	const struct conntrack_table_config *config, uint32_t conn)
{
	BASE_PREFETCH_FAR(conntrack_table_key(config, conn));
}

/* Pass 2. Every key's guess into conns; those whose first line does not decide into late, whose
 * number is returned. */
static inline __attribute__((always_inline)) unsigned int conntrack_tables_guess(const void *table,
	const struct conntrack_table_config *config, const struct conntrack_tables_steps *steps,
	const uint64_t *mixed, unsigned int count, uint32_t *conns, uint16_t *late)
{
	unsigned int late_count = 0;
	bool prefetch = !config->no_prefetch;
	for (unsigned int i = 0; i < count; i++) {
		const void *further = NULL;
		uint32_t conn = steps->guess(table, mixed[i], &further);
		conns[i] = conn;
		if (BASE_LIKELY(conn != BASE_CONN_NONE)) {
			if (prefetch)
				conntrack_tables_prefetch_key(config, conn);
		} else if (further != NULL) {
			late[late_count++] = (uint16_t)i;
			if (prefetch)
				BASE_PREFETCH_FAR(further);
		}
	}
	return late_count;
}

static inline __attribute__((always_inline)) void conntrack_tables_verify(const void *table,
	const struct conntrack_table_config *config, const struct conntrack_tables_steps *steps,
	const uint64_t *mixed, const struct base_flow_key *const *keys, unsigned int i,
	uint32_t *conns)
{
	if (conns[i] != BASE_CONN_NONE &&
		BASE_UNLIKELY(!conntrack_tables_key_is(config, conns[i], keys[i])))
		conns[i] = steps->find(table, mixed[i], keys[i]);
}

/* Late ones go through passes 3 and 4 behind the others' pass 4, while which their lines come. */
static inline __attribute__((always_inline)) void conntrack_tables_find_burst(const void *table,
	const struct conntrack_table_config *config, const struct conntrack_tables_steps *steps,
	const uint64_t *mixed, const struct base_flow_key *const *keys, unsigned int count,
	uint32_t *conns)
{
	uint16_t late[BASE_BURST_MAX];
	bool prefetch = !config->no_prefetch;
	if (count == 1) {
		conns[0] = steps->find(table, mixed[0], keys[0]);
		return;
	}
	for (unsigned int i = 0; prefetch && i < count; i++)
		BASE_PREFETCH_FAR(steps->line(table, mixed[i]));
	unsigned int late_count =
		conntrack_tables_guess(table, config, steps, mixed, count, conns, late);
	for (unsigned int i = 0; i < count; i++)
		conntrack_tables_verify(table, config, steps, mixed, keys, i, conns);
	for (unsigned int k = 0; k < late_count; k++) {
		uint32_t conn = steps->guess_further(table, mixed[late[k]]);
		conns[late[k]] = conn;
		if (conn != BASE_CONN_NONE && prefetch)
			conntrack_tables_prefetch_key(config, conn);
	}
	for (unsigned int k = 0; k < late_count; k++)
		conntrack_tables_verify(table, config, steps, mixed, keys, late[k], conns);
}
