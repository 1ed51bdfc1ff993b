/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline_run/test.h"

#include "base/rng.h"
#include "pipeline/key_set.h"

static struct base_flow_key key_of(uint32_t number)
{
	struct base_flow_key key = { .family = 4, .protocol = 17 };
	memcpy(key.address[0], &number, sizeof(number));
	return key;
}

static void counts_each_key_once_through_growth(void **)
{
	struct key_set *set;
	assert_int_equal(key_set_create(&set), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		struct base_flow_key key = key_of(i);
		assert_int_equal(key_set_add(set, &key, i * 2654435761u), 1);
	}
	for (uint32_t i = 0; i < 20000; i++) {
		struct base_flow_key key = key_of(i);
		assert_int_equal(key_set_add(set, &key, i * 2654435761u), 0);
	}
	assert_int_equal(key_set_count(set), 20000);
	for (uint32_t i = 0; i < 40000; i++) {
		struct base_flow_key key = key_of(i);
		key_set_prefetch(set, i * 2654435761u);
		assert_int_equal(key_set_has(set, &key, i * 2654435761u), i < 20000);
	}
	key_set_destroy(set);
}

static void equal_hashes_do_not_merge_keys(void **)
{
	struct key_set *set;
	assert_int_equal(key_set_create(&set), 0);
	for (uint32_t i = 0; i < 300; i++) {
		struct base_flow_key key = key_of(i);
		assert_int_equal(key_set_add(set, &key, 7), 1);
	}
	assert_int_equal(key_set_count(set), 300);
	key_set_destroy(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_each_key_once_through_growth),
		cmocka_unit_test(equal_hashes_do_not_merge_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
