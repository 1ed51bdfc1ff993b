/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "pipeline/handover.h"

static void every_group_has_one_owner_and_moves_on(void **)
{
	const uint64_t epochs[] = { 0, 1, 63, 1000000007, UINT64_MAX - 70 };
	for (uint32_t workers = 1; workers <= PIPELINE_WORKERS_MAX; workers++) {
		for (size_t i = 0; i < BASE_ARRAY_COUNT(epochs); i++) {
			for (uint32_t group = 0; group < HANDOVER_GROUPS; group++) {
				uint32_t owner = handover_owner(group, epochs[i], workers);
				uint32_t next = handover_owner(group, epochs[i] + 1, workers);
				assert_in_range(owner, 0, workers - 1);
				assert_int_equal(next, (owner + 1) % workers);
			}
		}
	}
}

static void workers_have_as_many_groups_give_or_take_one(void **)
{
	for (uint32_t workers = 1; workers <= 8; workers++) {
		for (uint64_t epoch = 0; epoch < 20; epoch++) {
			uint32_t groups[8] = { 0 };
			for (uint32_t group = 0; group < HANDOVER_GROUPS; group++)
				groups[handover_owner(group, epoch, workers)]++;
			for (uint32_t i = 0; i < workers; i++)
				assert_in_range(groups[i], HANDOVER_GROUPS / workers,
					(HANDOVER_GROUPS + workers - 1) / workers);
		}
	}
}

static void neighbours_in_the_table_are_one_group(void **)
{
	const uint32_t size = PIPELINE_RETA_SIZE / HANDOVER_GROUPS;
	for (uint32_t hash = 0; hash < 4 * PIPELINE_RETA_SIZE; hash++)
		assert_int_equal(handover_group(hash), hash % PIPELINE_RETA_SIZE / size);
	assert_in_range(handover_group(UINT32_MAX), 0, HANDOVER_GROUPS - 1);
}

static bool may_enter(const struct handover *handover, uint32_t worker, uint64_t epoch)
{
	const atomic_bool stop = true; /* nobody else is there: do not wait */
	uint64_t cycles = 0;
	return handover_wait(handover, worker, epoch, &stop, &cycles);
}

/* Who had a group and had no packets did not wait for the one before. */
static void a_worker_that_skipped_an_epoch_vouches_for_nobody(void **)
{
	struct handover handover;
	handover_init(&handover, 3);
	/* Worker 0's groups of epoch 0 are worker 1's in epoch 1 and worker 2's in epoch 2. */
	handover_reach(&handover, 1, 7);
	assert_false(may_enter(&handover, 2, 2));
	handover_reach(&handover, 0, 1);
	assert_true(may_enter(&handover, 2, 2));
	assert_false(may_enter(&handover, 2, 5));
	handover_reach(&handover, 0, UINT64_MAX);
	assert_true(may_enter(&handover, 2, 5));
	assert_true(may_enter(&handover, 2, 7));
	assert_false(may_enter(&handover, 2, 8));
}

/* Workers that enter the epochs at random, in any order that wait allows: somebody always can, and
 * a group's owners come in the order of epochs. */
static void somebody_can_always_go_on_and_owners_come_in_order(void **)
{
	const uint64_t seed = 20260611;
	struct base_rng rng;
	struct handover handover;
	base_rng_seed(&rng, seed);
	for (int round = 0; round < 200; round++) {
		uint32_t workers = 1 + base_rng_below(&rng, 7);
		uint64_t latest[HANDOVER_GROUPS] = { 0 }, at[8] = { 0 };
		bool inside[8] = { false };
		handover_init(&handover, workers);
		for (int moves = 0; moves < 500; moves++) {
			uint32_t who = base_rng_below(&rng, workers), tries = 0;
			while (!inside[who] && !may_enter(&handover, who, at[who])) {
				who = (who + 1) % workers;
				if (tries++ > workers)
					fail_msg("nobody can go on, seed %llu",
						(unsigned long long)seed);
			}
			for (uint32_t group = 0; !inside[who] && group < HANDOVER_GROUPS; group++) {
				if (handover_owner(group, at[who], workers) != who)
					continue;
				assert_true(latest[group] <= at[who]);
				latest[group] = at[who];
			}
			inside[who] = !inside[who];
			if (inside[who])
				continue;
			at[who] += 1 + base_rng_below(&rng, 3);
			handover_reach(&handover, who, at[who]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_group_has_one_owner_and_moves_on),
		cmocka_unit_test(workers_have_as_many_groups_give_or_take_one),
		cmocka_unit_test(neighbours_in_the_table_are_one_group),
		cmocka_unit_test(a_worker_that_skipped_an_epoch_vouches_for_nobody),
		cmocka_unit_test(somebody_can_always_go_on_and_owners_come_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
