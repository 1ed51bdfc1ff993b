/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rng.h"
#include "conntrack/expiry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ENTRIES = 500 };

#define YEAR_NS (UINT64_C(31557600) * 1000000000)

/* An owner as lazy as the tracker: due times move later without telling the wheel. */
struct owner {
	struct base_arena *arena;
	struct conntrack_expiry wheel;
	uint64_t due_ns[ENTRIES]; /* UINT64_MAX: not there */
	uint64_t removed_ns[ENTRIES];
	unsigned int fired, rearmed;
};

static void setup(struct owner *owner, uint64_t tick_ns)
{
	*owner = (struct owner){ 0 };
	assert_int_equal(base_arena_create(&owner->arena, false), 0);
	assert_int_equal(conntrack_expiry_init(&owner->wheel, ENTRIES, tick_ns, owner->arena), 0);
	for (unsigned int i = 0; i < ENTRIES; i++)
		owner->due_ns[i] = UINT64_MAX;
}

static void teardown(struct owner *owner)
{
	conntrack_expiry_release(&owner->wheel);
	base_arena_destroy(owner->arena);
}

static void check(const struct owner *owner)
{
	const char *wrong = conntrack_expiry_check(&owner->wheel);
	if (wrong != NULL)
		fail_msg("%s", wrong);
}

static void arm(struct owner *owner, uint32_t index, uint64_t due_ns)
{
	owner->due_ns[index] = due_ns;
	conntrack_expiry_arm(&owner->wheel, index, due_ns);
}

/* Returns how many entries were looked at. */
static unsigned int advance(struct owner *owner, uint64_t horizon_ns, unsigned int budget)
{
	uint32_t indices[16];
	unsigned int looked = 0;
	while (looked < budget) {
		unsigned int max = budget - looked < 16 ? budget - looked : 16;
		unsigned int count = conntrack_expiry_fire(&owner->wheel, horizon_ns, indices, max);
		if (count == 0)
			break;
		looked += count;
		for (unsigned int i = 0; i < count; i++) {
			uint32_t index = indices[i];
			owner->fired++;
			assert_false(conntrack_expiry_is_armed(&owner->wheel, index));
			if (owner->due_ns[index] > horizon_ns) {
				conntrack_expiry_arm(&owner->wheel, index, owner->due_ns[index]);
				owner->rearmed++;
				continue;
			}
			owner->due_ns[index] = UINT64_MAX;
			owner->removed_ns[index] = horizon_ns;
		}
	}
	return looked;
}

static void entries_fire_within_a_tick_of_their_due_time(void **state)
{
	(void)state;
	static const uint64_t ticks_ns[] = { 1000, 333333, 1000000, 300000000 };
	for (unsigned int t = 0; t < BASE_ARRAY_COUNT(ticks_ns); t++) {
		static struct owner owner;
		struct base_rng rng;
		uint64_t due_ns[ENTRIES];
		uint64_t tick_ns = ticks_ns[t];
		uint64_t start_ns = t % 2 ? 0 : UINT64_C(1700000000123456789);
		base_rng_seed(&rng, t);
		setup(&owner, tick_ns);
		conntrack_expiry_start(&owner.wheel, start_ns);
		for (uint32_t i = 0; i < ENTRIES; i++) {
			due_ns[i] = start_ns + base_rng_below(&rng, 20000 * tick_ns) + 1;
			arm(&owner, i, due_ns[i]);
		}
		check(&owner);
		for (uint64_t now = start_ns; owner.wheel.armed > 0; now += tick_ns / 2)
			advance(&owner, now, UINT32_MAX);
		for (uint32_t i = 0; i < ENTRIES; i++) {
			assert_true(owner.removed_ns[i] >= due_ns[i]);
			assert_true(owner.removed_ns[i] < due_ns[i] + tick_ns + tick_ns / 2);
		}
		check(&owner);
		teardown(&owner);
	}
}

/* A tick that does not divide a second lost entries in a published wheel: the slot being drained
 * took them back. */
static void nothing_leaks_when_the_tick_does_not_divide(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 300000000);
	for (uint32_t i = 0; i < ENTRIES; i++)
		arm(&owner, i, 1000000000 + i * UINT64_C(1000003));
	for (uint64_t now = 0; now < 3000000000; now += 7000000)
		advance(&owner, now, UINT32_MAX);
	assert_int_equal(owner.wheel.armed, 0);
	check(&owner);
	teardown(&owner);
}

static void an_overdue_entry_fires_at_the_next_tick(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000000);
	arm(&owner, 1, 5000000);
	advance(&owner, 10000000, UINT32_MAX);
	arm(&owner, 0, 1000000); /* long past, index 0 */
	assert_int_equal(advance(&owner, 11000000, UINT32_MAX), 1);
	assert_int_equal(owner.removed_ns[0], 11000000);
	teardown(&owner);
}

static void a_later_due_time_costs_one_rearm(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000000);
	arm(&owner, 3, 50000000);
	owner.due_ns[3] = 90000000; /* packets came; nobody told the wheel */
	advance(&owner, 60000000, UINT32_MAX);
	assert_int_equal(owner.rearmed, 1);
	assert_int_equal(owner.removed_ns[3], 0);
	advance(&owner, 89999999, UINT32_MAX);
	assert_int_equal(owner.removed_ns[3], 0);
	advance(&owner, 90000000, UINT32_MAX);
	assert_int_equal(owner.removed_ns[3], 90000000);
	teardown(&owner);
}

static void a_shorter_timeout_moves_the_entry_earlier(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000000);
	arm(&owner, 7, UINT64_C(432000) * 1000000000);
	owner.due_ns[7] = 10000000000;
	conntrack_expiry_shorten(&owner.wheel, 7, owner.due_ns[7]);
	assert_int_equal(owner.wheel.moved_earlier, 1);
	/* Again: it fires early enough as it is. */
	conntrack_expiry_shorten(&owner.wheel, 7, owner.due_ns[7]);
	assert_int_equal(owner.wheel.moved_earlier, 1);
	check(&owner);
	advance(&owner, 9999000000, UINT32_MAX);
	assert_int_equal(owner.removed_ns[7], 0);
	advance(&owner, 10000000000, UINT32_MAX);
	assert_int_equal(owner.removed_ns[7], 10000000000);
	teardown(&owner);
}

static void an_entry_that_never_expires_has_no_timer_until_it_may(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000000);
	arm(&owner, 0, CONNTRACK_EXPIRY_NEVER);
	assert_int_equal(owner.wheel.armed, 0);
	conntrack_expiry_disarm(&owner.wheel, 0);
	owner.due_ns[0] = 2000000;
	conntrack_expiry_shorten(&owner.wheel, 0, 2000000);
	assert_int_equal(owner.wheel.armed, 1);
	advance(&owner, 2000000, UINT32_MAX);
	assert_int_equal(owner.removed_ns[0], 2000000);
	teardown(&owner);
}

/* Work depends on what is armed, not on the ticks that went by. */
static void a_clock_that_jumps_by_years_fires_each_entry_once(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000);
	for (uint32_t i = 0; i < ENTRIES; i++)
		arm(&owner, i, 1000 + i * UINT64_C(977000));
	unsigned int looked = advance(&owner, 300 * YEAR_NS, UINT32_MAX);
	assert_int_equal(looked, ENTRIES);
	assert_int_equal(owner.wheel.armed, 0);
	arm(&owner, 0, 300 * YEAR_NS + 1);
	assert_int_equal(advance(&owner, 300 * YEAR_NS + 1000, UINT32_MAX), 1);
	teardown(&owner);
}

static void due_times_beyond_the_last_level_wait_and_fire(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000);
	arm(&owner, 0, 200 * YEAR_NS); /* 2^36 ticks of 1 us are 19 hours */
	advance(&owner, 200 * YEAR_NS - 1000, UINT32_MAX);
	assert_int_equal(owner.removed_ns[0], 0);
	check(&owner);
	advance(&owner, 200 * YEAR_NS, UINT32_MAX);
	assert_int_equal(owner.removed_ns[0], 200 * YEAR_NS);
	teardown(&owner);
}

static void a_budget_spreads_a_burst_of_expiries_without_losing_any(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000000);
	for (uint32_t i = 0; i < ENTRIES; i++)
		arm(&owner, i, 1000000);
	for (unsigned int call = 1; owner.wheel.armed > 0; call++) {
		assert_int_equal(advance(&owner, 2000000, 10), 10);
		assert_int_equal(owner.wheel.armed, ENTRIES - 10 * call);
		check(&owner);
	}
	teardown(&owner);
}

static void the_end_between_two_ticks_takes_what_is_due(void **state)
{
	(void)state;
	static struct owner owner;
	setup(&owner, 1000000);
	arm(&owner, 0, 10000001);
	arm(&owner, 1, 5000000);
	advance(&owner, 9000000, UINT32_MAX);
	assert_true(conntrack_expiry_end_ns(&owner.wheel, 10000001) >= 11000000);
	assert_true(conntrack_expiry_end_ns(&owner.wheel, 0) >= 10000000);
	teardown(&owner);
}

static void random_step(struct owner *owner, struct base_rng *rng, uint64_t *now)
{
	uint32_t i = (uint32_t)base_rng_below(rng, ENTRIES);
	uint64_t span = UINT64_C(1) << base_rng_below(rng, 40);
	uint64_t due_ns = *now + base_rng_below(rng, span) + 1;
	switch (base_rng_below(rng, 4)) {
	case 0:
		if (owner->due_ns[i] == UINT64_MAX)
			arm(owner, i, due_ns);
		else if (due_ns > owner->due_ns[i])
			owner->due_ns[i] = due_ns;
		break;
	case 1:
		if (owner->due_ns[i] != UINT64_MAX && due_ns < owner->due_ns[i]) {
			owner->due_ns[i] = due_ns;
			conntrack_expiry_shorten(&owner->wheel, i, due_ns);
		}
		break;
	case 2:
		conntrack_expiry_disarm(&owner->wheel, i);
		owner->due_ns[i] = UINT64_MAX;
		break;
	default:
		*now += base_rng_below(rng, UINT64_C(1) << base_rng_below(rng, 36));
		advance(owner, *now, 1 + (unsigned int)base_rng_below(rng, 40));
	}
}

static void random_use_agrees_with_plain_due_times(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		static struct owner owner;
		struct base_rng rng;
		uint64_t now = 0;
		base_rng_seed(&rng, seed);
		setup(&owner, 1 + base_rng_below(&rng, 5000000));
		for (int step = 0; step < 4000; step++) {
			random_step(&owner, &rng, &now);
			if (step % 500 == 0)
				check(&owner);
		}
		advance(&owner, now + owner.wheel.tick_ns, UINT32_MAX);
		for (uint32_t i = 0; i < ENTRIES; i++) {
			bool here = owner.due_ns[i] != UINT64_MAX;
			if (here && owner.due_ns[i] <= now)
				fail_msg("seed %llu: %u is overdue", (unsigned long long)seed, i);
			assert_int_equal(here, conntrack_expiry_is_armed(&owner.wheel, i));
		}
		check(&owner);
		teardown(&owner);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_fire_within_a_tick_of_their_due_time),
		cmocka_unit_test(nothing_leaks_when_the_tick_does_not_divide),
		cmocka_unit_test(an_overdue_entry_fires_at_the_next_tick),
		cmocka_unit_test(a_later_due_time_costs_one_rearm),
		cmocka_unit_test(a_shorter_timeout_moves_the_entry_earlier),
		cmocka_unit_test(an_entry_that_never_expires_has_no_timer_until_it_may),
		cmocka_unit_test(a_clock_that_jumps_by_years_fires_each_entry_once),
		cmocka_unit_test(due_times_beyond_the_last_level_wait_and_fire),
		cmocka_unit_test(a_budget_spreads_a_burst_of_expiries_without_losing_any),
		cmocka_unit_test(the_end_between_two_ticks_takes_what_is_due),
		cmocka_unit_test(random_use_agrees_with_plain_due_times),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
