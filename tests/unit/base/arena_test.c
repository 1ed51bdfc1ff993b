/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/arena.h"
#include "base/compiler.h"
#include "base/rng.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool all_zero(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static void memory_is_zeroed_aligned_and_reusable(void **)
{
	static const size_t aligns[] = { 16, 64, 4096, 2 << 20 };
	static const size_t sizes[] = { 1, 100, 4096, 70000, 3 << 20 };
	for (int try_huge = 0; try_huge < 2; try_huge++) {
		struct base_arena *arena;
		assert_int_equal(base_arena_create(&arena, try_huge), 0);
		for (int round = 0; round < 3; round++) {
			for (size_t a = 0; a < BASE_ARRAY_COUNT(aligns); a++) {
				for (size_t s = 0; s < BASE_ARRAY_COUNT(sizes); s++) {
					uint8_t *memory =
						base_arena_alloc(arena, sizes[s], aligns[a]);
					assert_non_null(memory);
					assert_int_equal((uintptr_t)memory % aligns[a], 0);
					assert_true(all_zero(memory, sizes[s]));
					memset(memory, 0xaa, sizes[s]);
					base_arena_free(arena, memory, sizes[s]);
				}
			}
		}
		struct base_arena_stats stats;
		base_arena_stats(arena, &stats);
		assert_int_equal(stats.allocated_bytes, 0);
		base_arena_destroy(arena);
	}
}

static void allocations_do_not_overlap(void **)
{
	enum { COUNT = 200 };
	struct base_arena *arena;
	struct base_rng rng;
	uint8_t *blocks[COUNT];
	size_t sizes[COUNT], total = 0;
	base_rng_seed(&rng, 10);
	assert_int_equal(base_arena_create(&arena, false), 0);
	for (int i = 0; i < COUNT; i++) {
		sizes[i] = 1 + base_rng_below(&rng, 100000);
		total += sizes[i];
		blocks[i] = base_arena_alloc(arena, sizes[i], 64);
		assert_non_null(blocks[i]);
		memset(blocks[i], i, sizes[i]);
	}
	struct base_arena_stats stats;
	base_arena_stats(arena, &stats);
	assert_true(stats.allocated_bytes >= total);
	assert_true(stats.mapped_bytes >= stats.allocated_bytes);
	assert_true(stats.huge_bytes <= stats.mapped_bytes);
	for (int i = 0; i < COUNT; i++)
		for (size_t at = 0; at < sizes[i]; at++)
			assert_int_equal(blocks[i][at], (uint8_t)i);
	base_arena_destroy(arena); /* frees them all */
}

static void mapped_memory_is_zeroed_and_goes_back_at_once(void **)
{
	static const size_t sizes[] = { 1, 5000, 2 << 20, (2 << 20) + 1, 9 << 20 };
	for (int try_huge = 0; try_huge < 2; try_huge++) {
		struct base_arena *arena;
		struct base_arena_stats before, stats;
		uint8_t *memory[BASE_ARRAY_COUNT(sizes)];
		assert_int_equal(base_arena_create(&arena, try_huge), 0);
		assert_non_null(base_arena_alloc(arena, 100, 64));
		base_arena_stats(arena, &before);
		for (size_t i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
			memory[i] = base_arena_map(arena, sizes[i]);
			assert_non_null(memory[i]);
			assert_int_equal((uintptr_t)memory[i] % 4096, 0);
			base_arena_stats(arena, &stats);
			assert_true(stats.mapped_bytes >= before.mapped_bytes + sizes[i]);
		}
		for (size_t i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
			assert_true(all_zero(memory[i], sizes[i]));
			memset(memory[i], 0xaa, sizes[i]);
			base_arena_unmap(arena, memory[i], sizes[i]);
		}
		base_arena_unmap(arena, NULL, 1);
		base_arena_stats(arena, &stats);
		assert_memory_equal(&stats, &before, sizeof(stats));
		assert_non_null(base_arena_map(arena, 3 << 20)); /* destroy takes it */
		base_arena_destroy(arena);
	}
}

/* All that is mapped is populated: it must not be twice what was asked for. */
static void no_more_is_mapped_than_size_classes_need(void **)
{
	struct base_arena *arena;
	struct base_arena_stats stats;
	assert_int_equal(base_arena_create(&arena, false), 0);
	uint64_t asked = 0;
	static const size_t sizes[] = { 40u << 20, 9u << 20 };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(sizes); i++) {
		assert_non_null(base_arena_alloc(arena, sizes[i], 64));
		asked += sizes[i];
	}
	base_arena_stats(arena, &stats);
	if (stats.mapped_bytes > asked + asked / 4 + (16u << 20))
		fail_msg("%" PRIu64 " bytes mapped for %" PRIu64, stats.mapped_bytes, asked);
	base_arena_destroy(arena);
}

static void nothing_is_given_for_impossible_sizes(void **)
{
	struct base_arena *arena;
	assert_int_equal(base_arena_create(&arena, false), 0);
	assert_null(base_arena_alloc(arena, 0, 64));
	assert_null(base_arena_alloc(arena, SIZE_MAX / 4, 64));
	assert_null(base_arena_map(arena, 0));
	assert_null(base_arena_map(arena, SIZE_MAX / 4));
	base_arena_free(arena, NULL, 0);
	base_arena_destroy(arena);
	base_arena_destroy(NULL);
}

static void arenas_come_and_go_without_end(void **)
{
	for (int i = 0; i < 300; i++) {
		struct base_arena *arena, *other;
		assert_int_equal(base_arena_create(&arena, i % 2 != 0), 0);
		assert_int_equal(base_arena_create(&other, false), 0);
		uint8_t *memory = base_arena_alloc(arena, 300000, 64);
		uint8_t *beside = base_arena_alloc(other, 300000, 64);
		assert_non_null(memory);
		assert_non_null(beside);
		memset(memory, 1, 300000);
		memset(beside, 2, 300000);
		base_arena_destroy(arena);
		assert_int_equal(beside[299999], 2);
		base_arena_destroy(other);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_aligned_and_reusable),
		cmocka_unit_test(allocations_do_not_overlap),
		cmocka_unit_test(mapped_memory_is_zeroed_and_goes_back_at_once),
		cmocka_unit_test(no_more_is_mapped_than_size_classes_need),
		cmocka_unit_test(nothing_is_given_for_impossible_sizes),
		cmocka_unit_test(arenas_come_and_go_without_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
