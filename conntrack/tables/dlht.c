/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closed addressing with bounded chains of cache lines, in the manner of DLHT (Katebzadeh et al.,
 * HPDC 2024): a bin is one line of seven pairs, and when they are taken up to LINKS_MAX further
 * lines from a common pool. Pairs never move, and a removed pair's place is free at once, for any
 * key of its bin. A line of the pool that becomes empty goes back.
 *
 * Where DLHT has key and value in the line, a pair here is 32 bits of the hash and the index.
 * There is no filter: a miss reads all lines of its bin.
 *
 * The pool is sized for what random pairs that come and go take in the long run; insertion is
 * refused when it is empty or the bin has all its lines.
 */
#include "conntrack/tables/tables.h"

#include <errno.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum {
	PAIRS = 7,
	ALL_USED = (1 << PAIRS) - 1,
	LINKS_MAX = 3,
	BINS_EXTRA = 4,   /* few bins deviate far from their mean */
	LINKS_EXTRA = 16, /* and so do the lines they take */
};
#define LOAD 0.8

struct dlht_line {
	uint32_t mark[PAIRS];
	uint32_t index[PAIRS];
	uint32_t next; /* line of the pool; 0: none. Free lines: the next free one */
	uint32_t used; /* bit i: pair i is there */
} BASE_ALIGNED(64);
static_assert(sizeof(struct dlht_line) == 64, "one cache line");
static_assert(offsetof(struct dlht_line, index) == 7 * 4, "eight words can be read as marks");

struct dlht {
	struct dlht_line *bins;
	struct dlht_line *links; /* the first is never used */
	uint32_t bins_count;
	uint32_t links_count;
	uint32_t links_free;  /* head of the free list; 0: empty */
	uint32_t links_fresh; /* from this one on they have never been used */
	uint32_t count;
	struct conntrack_table_config config;
};

/* Share of arrivals at mean load `mean` that find `places` of them taken (Erlang's B). */
static double overflow_share(double mean, unsigned int places)
{
	double share = 1;
	for (unsigned int k = 1; k <= places; k++)
		share = mean * share / (k + mean * share);
	return share;
}

/* Lines of the pool that random pairs take in the long run. With pairs that never move, those of a
 * bin's further lines are what a loss system of its earlier places turns away: mean * B pairs, and
 * at least one of them with a probability of at most 1 - exp(-that). */
static double links_expected(double pairs, double bins)
{
	double mean = pairs / bins, lines = 0;
	for (unsigned int line = 1; line <= LINKS_MAX; line++) {
		double away = mean * overflow_share(mean, line * PAIRS);
		double some = away / (1 + away / 2); /* no less than 1 - exp(-away) */
		lines += some < 1 ? some : 1;
	}
	return bins * lines;
}

static void dlht_destroy(void *opaque)
{
	struct dlht *table = opaque;
	struct base_arena *arena = table->config.arena;
	base_arena_free(arena, table->bins, table->bins_count * sizeof(*table->bins));
	base_arena_free(arena, table->links, table->links_count * sizeof(*table->links));
	base_arena_free(arena, table, sizeof(*table));
}

static int dlht_create(void **out, const struct conntrack_table_config *config)
{
	uint32_t bins_count = conntrack_tables_groups(config, LOAD, PAIRS);
	if (bins_count == 0)
		return -EINVAL;
	struct dlht *table = base_arena_alloc(config->arena, sizeof(*table), BASE_CACHE_LINE);
	if (table == NULL)
		return -ENOMEM;
	table->config = *config;
	table->bins_count = bins_count + BINS_EXTRA;
	table->links_count =
		LINKS_EXTRA + (uint32_t)links_expected(config->entries_max, table->bins_count);
	table->links_fresh = 1;
	table->bins = base_arena_alloc(
		config->arena, table->bins_count * sizeof(*table->bins), BASE_CACHE_LINE);
	table->links = base_arena_alloc(
		config->arena, table->links_count * sizeof(*table->links), BASE_CACHE_LINE);
	if (table->bins == NULL || table->links == NULL) {
		dlht_destroy(table);
		return -ENOMEM;
	}
	*out = table;
	return 0;
}

static uint64_t dlht_bytes(const void *opaque)
{
	const struct dlht *table = opaque;
	return sizeof(*table) +
	       ((uint64_t)table->bins_count + table->links_count) * sizeof(*table->bins);
}

static inline struct dlht_line *bin_of(const struct dlht *table, uint64_t mixed)
{
	return &table->bins[conntrack_tables_spread(mixed, table->bins_count)];
}

static inline struct dlht_line *next_of(const struct dlht *table, const struct dlht_line *line)
{
	return line->next != 0 ? &table->links[line->next] : NULL;
}

/* Bit i: pair i is there and has this mark. */
static inline uint32_t match(const struct dlht_line *line, uint32_t mark)
{
#if defined(__AVX2__)
	__m256i all = _mm256_load_si256((const __m256i *)(const void *)line);
	__m256i equal = _mm256_cmpeq_epi32(all, _mm256_set1_epi32((int)mark));
	return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(equal)) & line->used;
#else
	uint32_t mask = 0;
	for (unsigned int i = 0; i < PAIRS; i++)
		mask |= (uint32_t)(line->mark[i] == mark) << i;
	return mask & line->used;
#endif
}

/* ---- lookup --------------------------------------------------------------------------------- */

static const void *dlht_bin(const void *opaque, uint64_t mixed)
{
	return bin_of(opaque, mixed);
}

static uint32_t dlht_guess(const void *opaque, uint64_t mixed, const void **further)
{
	const struct dlht *table = opaque;
	const struct dlht_line *line = bin_of(table, mixed);
	uint32_t mask = match(line, (uint32_t)mixed);
	if (BASE_LIKELY(mask != 0))
		return line->index[__builtin_ctz(mask)];
	*further = next_of(table, line);
	return BASE_CONN_NONE;
}

static uint32_t dlht_guess_further(const void *opaque, uint64_t mixed)
{
	const struct dlht *table = opaque;
	const struct dlht_line *line = bin_of(table, mixed);
	while ((line = next_of(table, line)) != NULL) {
		uint32_t mask = match(line, (uint32_t)mixed);
		if (mask != 0)
			return line->index[__builtin_ctz(mask)];
	}
	return BASE_CONN_NONE;
}

static uint32_t dlht_find(const void *opaque, uint64_t mixed, const struct base_flow_key *key)
{
	const struct dlht *table = opaque;
	for (const struct dlht_line *line = bin_of(table, mixed); line != NULL;
		line = next_of(table, line)) {
		uint32_t mask = match(line, (uint32_t)mixed);
		for (; mask != 0; mask &= mask - 1) {
			uint32_t index = line->index[__builtin_ctz(mask)];
			if (conntrack_tables_key_is(&table->config, index, key))
				return index;
		}
	}
	return BASE_CONN_NONE;
}

static void dlht_find_burst(const void *opaque, const uint64_t *mixed,
	const struct base_flow_key *const *keys, unsigned int count, uint32_t *conns)
{
	static const struct conntrack_tables_steps steps = {
		.line = dlht_bin,
		.guess = dlht_guess,
		.guess_further = dlht_guess_further,
		.find = dlht_find,
	};
	const struct dlht *table = opaque;
	conntrack_tables_find_burst(opaque, &table->config, &steps, mixed, keys, count, conns);
}

/* ---- insertion and removal ------------------------------------------------------------------ */

/* 0: the pool is empty. */
static uint32_t link_take(struct dlht *table)
{
	uint32_t link = table->links_free;
	if (link != 0)
		table->links_free = table->links[link].next;
	else if (table->links_fresh < table->links_count)
		link = table->links_fresh++;
	return link;
}

static int dlht_insert(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct dlht *table = opaque;
	struct dlht_line *line = bin_of(table, mixed);
	if (table->count == table->config.entries_max)
		return -ENOSPC;
	for (unsigned int links = 0; BASE_UNLIKELY(line->used == ALL_USED); links++) {
		if (line->next == 0) {
			uint32_t link = links < LINKS_MAX ? link_take(table) : 0;
			if (link == 0)
				return -ENOSPC;
			table->links[link].next = 0;
			line->next = link;
		}
		line = &table->links[line->next];
	}
	unsigned int place = (unsigned int)__builtin_ctz(~line->used);
	line->mark[place] = (uint32_t)mixed;
	line->index[place] = conn;
	line->used |= 1u << place;
	table->count++;
	return 0;
}

static void dlht_remove(void *opaque, uint64_t mixed, uint32_t conn)
{
	struct dlht *table = opaque;
	struct dlht_line *line = bin_of(table, mixed), *before = NULL;
	for (;;) {
		uint32_t mask = match(line, (uint32_t)mixed);
		while (mask != 0 && line->index[__builtin_ctz(mask)] != conn)
			mask &= mask - 1;
		if (mask != 0) {
			line->used ^= mask & -mask;
			break;
		}
		before = line;
		line = next_of(table, line);
		BASE_ASSERT(line != NULL);
	}
	table->count--;
	if (line->used == 0 && before != NULL) {
		uint32_t link = before->next;
		before->next = line->next;
		line->next = table->links_free;
		table->links_free = link;
	}
}

static void dlht_prefetch(const void *opaque, uint64_t mixed)
{
	BASE_PREFETCH_W(dlht_bin(opaque, mixed));
}

static unsigned int dlht_neighbours(
	const void *opaque, uint64_t mixed, uint32_t *conns, unsigned int max)
{
	const struct dlht *table = opaque;
	const struct dlht_line *line = bin_of(table, mixed);
	unsigned int count = 0;
	for (uint32_t used = line->used; used != 0 && count < max; used &= used - 1)
		conns[count++] = line->index[__builtin_ctz(used)];
	return count;
}

static const char *dlht_check(
	const void *opaque, void (*visit)(void *context, uint32_t conn), void *context)
{
	const struct dlht *table = opaque;
	uint32_t count = 0, links = 0, free = 0;
	for (uint32_t i = 0; i < table->bins_count; i++) {
		const struct dlht_line *line = &table->bins[i];
		for (unsigned int depth = 0; line != NULL; line = next_of(table, line)) {
			if (depth++ > LINKS_MAX || line->next >= table->links_count)
				return "a bin has too many lines";
			if (depth > 1 && line->used == 0)
				return "a bin keeps an empty line of the pool";
			links += depth > 1;
			for (uint32_t used = line->used; used != 0; used &= used - 1) {
				count++;
				if (visit != NULL)
					visit(context, line->index[__builtin_ctz(used)]);
			}
		}
	}
	for (uint32_t at = table->links_free; at != 0; at = table->links[at].next) {
		if (++free > table->links_count)
			return "the pool's free lines form a ring";
	}
	if (links + free + 1 != table->links_fresh)
		return "a line of the pool is lost";
	return count == table->count ? NULL : "bins hold more or fewer pairs than were counted";
}

const struct conntrack_table_ops conntrack_table_dlht_ops = {
	.name = "dlht",
	.summary = "bins of one line and a bounded chain of further ones; pairs never move",
	.create = dlht_create,
	.destroy = dlht_destroy,
	.bytes = dlht_bytes,
	.find_burst = dlht_find_burst,
	.insert = dlht_insert,
	.remove = dlht_remove,
	.neighbours = dlht_neighbours,
	.prefetch = dlht_prefetch,
	.check = dlht_check,
};
