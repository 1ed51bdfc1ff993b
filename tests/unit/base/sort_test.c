/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sort.h"

#include "base/rng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct item {
	uint32_t key, number;
};

static int compare_keys(const void *one, const void *other)
{
	const struct item *a = one, *b = other;
	return (a->key > b->key) - (a->key < b->key);
}

static int compare_items(const void *one, const void *other)
{
	const struct item *a = one, *b = other;
	int keys = compare_keys(one, other);
	return keys != 0 ? keys : (a->number > b->number) - (a->number < b->number);
}

static void any_number_of_items_is_sorted(void **state)
{
	static const size_t counts[] = { 0, 1, 2, BASE_SORT_PIECE - 1, BASE_SORT_PIECE,
		BASE_SORT_PIECE + 1, 2 * BASE_SORT_PIECE, 3 * BASE_SORT_PIECE + 5,
		7 * BASE_SORT_PIECE - 1 };
	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		size_t count = counts[i];
		struct item *items = calloc(count + 1, sizeof(*items));
		struct item *spare = calloc(count + 1, sizeof(*spare));
		struct base_rng rng;
		uint64_t sum = 0;
		base_rng_seed(&rng, i);
		assert_non_null(items);
		assert_non_null(spare);
		for (size_t k = 0; k < count; k++) {
			items[k] =
				(struct item){ (uint32_t)base_rng_below(&rng, 1000), (uint32_t)k };
			sum += (uint64_t)items[k].key * (k + 1);
		}
		assert_int_equal(
			base_sort(items, spare, count, sizeof(*items), compare_items, NULL), 0);
		for (size_t k = 0; k < count; k++) {
			sum -= (uint64_t)items[k].key * (items[k].number + 1);
			if (k > 0)
				assert_true(compare_items(&items[k - 1], &items[k]) < 0);
		}
		assert_int_equal(sum, 0); /* the same items */
		free(items);
		free(spare);
	}
}

/* Pieces are merged with the earlier of equal items first. */
static void equal_items_keep_the_order_of_their_pieces(void **state)
{
	enum { COUNT = 4 * BASE_SORT_PIECE };
	struct item *items = calloc(COUNT, sizeof(*items));
	struct item *spare = calloc(COUNT, sizeof(*spare));
	(void)state;
	assert_non_null(items);
	assert_non_null(spare);
	for (uint32_t k = 0; k < COUNT; k++)
		items[k].number = k;
	assert_int_equal(base_sort(items, spare, COUNT, sizeof(*items), compare_keys, NULL), 0);
	for (uint32_t k = 1; k < COUNT; k++)
		assert_true(
			items[k - 1].number / BASE_SORT_PIECE <= items[k].number / BASE_SORT_PIECE);
	free(items);
	free(spare);
}

static void the_flag_stops_it(void **state)
{
	struct item items[3] = { { 3, 0 }, { 2, 1 }, { 1, 2 } };
	atomic_bool stop = true;
	(void)state;
	assert_int_equal(base_sort(items, NULL, 3, sizeof(*items), compare_keys, &stop), -EINTR);
	stop = false;
	assert_int_equal(base_sort(items, NULL, 3, sizeof(*items), compare_keys, &stop), 0);
	assert_int_equal(items[0].key, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_items_is_sorted),
		cmocka_unit_test(equal_items_keep_the_order_of_their_pieces),
		cmocka_unit_test(the_flag_stops_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
