/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/maglev.h"

#include "base/rng.h"
#include "tests/unit/chain/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 65537, BACKENDS = 64 };

struct setup {
	uint32_t count;
	struct chain_backend backends[BACKENDS];
	uint16_t members[BACKENDS];
	uint16_t *table;
	uint32_t slots[BACKENDS];
};

static void make(struct setup *setup, uint32_t count)
{
	memset(setup, 0, sizeof(*setup));
	setup->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct chain_backend *backend = &setup->backends[i];
		snprintf(backend->name, sizeof(backend->name), "backend-%03u", i);
		backend->family = 4;
		backend->weight = 1;
		backend->address[0] = 10;
		backend->address[3] = (uint8_t)i;
		setup->members[i] = (uint16_t)i;
	}
	setup->table = malloc(SIZE * sizeof(*setup->table));
	assert_non_null(setup->table);
}

static void populate(struct setup *setup, uint64_t seed)
{
	assert_int_equal(chain_maglev_populate(setup->table, SIZE, setup->backends, setup->members,
				 setup->count, seed),
		0);
	memset(setup->slots, 0, sizeof(setup->slots));
	for (uint32_t i = 0; i < SIZE; i++) {
		assert_true(setup->table[i] < BACKENDS);
		setup->slots[setup->table[i]]++;
	}
}

static void equal_backends_differ_by_one_slot_at_most(void **state)
{
	struct setup setup;
	(void)state;
	for (uint32_t count = 1; count <= BACKENDS; count += 7) {
		make(&setup, count);
		populate(&setup, count);
		for (uint32_t i = 0; i < count; i++)
			assert_in_range(setup.slots[i], SIZE / count, SIZE / count + 1);
		free(setup.table);
	}
}

static void slots_follow_weights(void **state)
{
	struct setup setup;
	(void)state;
	make(&setup, 4);
	for (uint32_t i = 0; i < 4; i++)
		setup.backends[i].weight = i * 100; /* 0, 100, 200, 300 */
	populate(&setup, 5);
	assert_int_equal(setup.slots[0], 0);
	for (uint32_t i = 1; i < 4; i++) {
		assert_in_range(setup.slots[i], SIZE * i / 6 - 2, SIZE * i / 6 + 2);
	}
	free(setup.table);
}

static void proportions_of_weights_decide_not_their_size(void **state)
{
	struct setup setup;
	(void)state;
	make(&setup, 3);
	setup.backends[0].weight = UINT32_MAX;
	setup.backends[1].weight = UINT32_MAX;
	setup.backends[2].weight = 1;
	populate(&setup, 5);
	assert_in_range(setup.slots[0], SIZE / 2, SIZE / 2 + 1);
	assert_int_equal(setup.slots[2], 0);
	free(setup.table);
}

/* Of N backends one goes: its slots must move, and few others may. */
static void removal_of_one_moves_little_else(void **state)
{
	struct setup before, after;
	(void)state;
	for (uint32_t gone = 0; gone < 16; gone += 5) {
		make(&before, 16);
		make(&after, 16);
		after.backends[gone].weight = 0;
		populate(&before, 3);
		populate(&after, 3);
		uint32_t must = 0, moved = 0;
		for (uint32_t i = 0; i < SIZE; i++) {
			must += before.table[i] == gone;
			moved += before.table[i] != gone && before.table[i] != after.table[i];
		}
		assert_in_range(must, SIZE / 16, SIZE / 16 + 1);
		assert_true(moved < SIZE / 50); /* 2 % */
		free(before.table);
		free(after.table);
	}
}

static void table_is_another_one_under_another_seed(void **state)
{
	struct setup a, b;
	(void)state;
	make(&a, 8);
	make(&b, 8);
	populate(&a, 1);
	populate(&b, 1);
	assert_memory_equal(a.table, b.table, SIZE * sizeof(*a.table));
	populate(&b, 2);
	uint32_t same = 0;
	for (uint32_t i = 0; i < SIZE; i++)
		same += a.table[i] == b.table[i];
	assert_in_range(same, SIZE / 8 - SIZE / 50, SIZE / 8 + SIZE / 50);
	free(a.table);
	free(b.table);
}

static void identity_is_name_family_and_address(void **state)
{
	struct setup setup;
	(void)state;
	make(&setup, 2);
	struct chain_backend *a = &setup.backends[0], *b = &setup.backends[1];
	*b = *a;
	b->weight = 50;
	b->address[9] = 1; /* beyond an IPv4 address */
	assert_int_equal(chain_maglev_compare(a, b), 0);
	assert_true(chain_maglev_identity(a, 1) == chain_maglev_identity(b, 1));
	b->address[3] = 77;
	assert_int_not_equal(chain_maglev_compare(a, b), 0);
	assert_true(chain_maglev_identity(a, 1) != chain_maglev_identity(b, 1));
	*b = *a;
	b->family = 6;
	assert_int_not_equal(chain_maglev_compare(a, b), 0);
	assert_true(chain_maglev_identity(a, 1) != chain_maglev_identity(b, 1));
	*b = *a;
	strcat(b->name, "x");
	assert_int_not_equal(chain_maglev_compare(a, b), 0);
	assert_true(chain_maglev_identity(a, 1) != chain_maglev_identity(b, 1));
	free(setup.table);
}

static void sizes_are_prime_and_have_room(void **state)
{
	(void)state;
	assert_true(chain_maglev_size_valid(65537, 655));
	assert_false(chain_maglev_size_valid(65537, 656));
	assert_false(chain_maglev_size_valid(65536, 1));
	assert_false(chain_maglev_size_valid(0, 0));
	assert_false(chain_maglev_size_valid(1, 0));
	assert_false(chain_maglev_size_valid(257 * 257, 16));
	assert_true(chain_maglev_size_valid(102407, 1024));
	assert_false(chain_maglev_size_valid(UINT32_MAX - 4, 1)); /* prime, but too large */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_backends_differ_by_one_slot_at_most),
		cmocka_unit_test(slots_follow_weights),
		cmocka_unit_test(proportions_of_weights_decide_not_their_size),
		cmocka_unit_test(removal_of_one_moves_little_else),
		cmocka_unit_test(table_is_another_one_under_another_seed),
		cmocka_unit_test(identity_is_name_family_and_address),
		cmocka_unit_test(sizes_are_prime_and_have_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
