/* SPDX-License-Identifier: BSD-2-Clause */
/* When held packets leave, in which order, and with which release time. */
#include "tests/unit/reframer/kit.h"

static void flow_leaves_together_when_its_first_packet_has_waited(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 20);
	kit_feed(kit, 1, 900);
	reframer_advance(kit->reframer, 1009);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
	reframer_advance(kit->reframer, 1010);
	KIT_EXPECT_OUT(kit, 0, 2);
	assert_int_equal(kit->packets[0].release_ns, 1010);
	assert_int_equal(kit->packets[2].release_ns, 1010);
	assert_int_equal(kit->runs_count, 1);
	assert_int_equal(kit->run_sizes[0], 2);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_DELAY], 1);
	assert_int_equal(kit_stats(kit).release_packets[REFRAMER_RELEASE_DELAY], 2);
	assert_int_equal(kit_stats(kit).held_packets, 1);
}

static void late_call_still_releases_at_the_bound_exactly(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 40);
	reframer_advance(kit->reframer, 50000);
	KIT_EXPECT_OUT(kit, 0, 1);
	assert_int_equal(kit->packets[0].release_ns, 1010);
	assert_int_equal(kit->packets[1].release_ns, 1040);
	assert_int_equal(reframer_hold_histogram(kit->reframer)->max, 1000);
	assert_int_equal(reframer_hold_histogram(kit->reframer)->count, 2);
}

static void packet_that_comes_at_the_bound_comes_after_the_release(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 0);
	kit_feed(kit, 1, 1000);
	KIT_EXPECT_OUT(kit, 0);
	assert_int_equal(kit_stats(kit).held_packets, 1);
	reframer_advance(kit->reframer, 2000);
	KIT_EXPECT_OUT(kit, 1);
	assert_int_equal(kit->packets[1].release_ns, 2000);
}

static void due_flows_leave_before_the_packet_that_brings_the_time(void **state)
{
	struct kit *kit = *state;
	kit->config.run_packets_max = 2;
	kit_start(kit);
	kit_feed(kit, 1, 0);
	kit_feed(kit, 2, 100);
	kit_feed(kit, 2, 1050);
	KIT_EXPECT_OUT(kit, 0, 1, 2);
	assert_int_equal(kit->packets[0].release_ns, 1000);
	assert_int_equal(kit->packets[1].release_ns, 1050);
}

static void full_run_leaves_at_once_with_its_last_packet(void **state)
{
	struct kit *kit = *state;
	kit->config.run_packets_max = 3;
	kit_start(kit);
	kit_feed(kit, 1, 1);
	kit_feed(kit, 2, 2);
	kit_feed(kit, 1, 3);
	kit_feed(kit, 1, 4);
	KIT_EXPECT_OUT(kit, 0, 2, 3);
	assert_int_equal(kit->packets[0].release_ns, 4);
	assert_int_equal(kit->runs_count, 1);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_RUN_FULL], 1);
	assert_int_equal(kit_stats(kit).release_packets[REFRAMER_RELEASE_RUN_FULL], 3);
	assert_int_equal(kit_stats(kit).held_flows, 1);
}

static void run_of_one_is_never_held(void **state)
{
	struct kit *kit = *state;
	kit->config.run_packets_max = 1;
	kit_start(kit);
	kit_feed(kit, 1, 1);
	kit_feed(kit, 1, 2);
	KIT_EXPECT_OUT(kit, 0, 1);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_RUN_FULL], 2);
	assert_int_equal(kit_stats(kit).peak_held_packets, 0);
}

static void flush_releases_everything_soonest_first_at_the_latest_time(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 20);
	kit_feed(kit, 1, 30);
	reframer_flush(kit->reframer);
	KIT_EXPECT_OUT(kit, 0, 2, 1);
	assert_int_equal(kit->packets[0].release_ns, 30);
	assert_int_equal(kit->packets[1].release_ns, 30);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_FLUSH], 2);
	reframer_flush(kit->reframer);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
}

static void use_goes_on_after_a_flush(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	reframer_flush(kit->reframer);
	KIT_EXPECT_OUT(kit, 0);
	kit_feed(kit, 1, 20);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
	reframer_advance(kit->reframer, 1020);
	KIT_EXPECT_OUT(kit, 1);
}

static void time_that_goes_back_is_clamped_and_counted(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 5000);
	kit_feed(kit, 2, 4000);
	kit_feed(kit, 3, 4500);
	assert_int_equal(kit_stats(kit).time_backwards, 2);
	reframer_advance(kit->reframer, 5999);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
	reframer_advance(kit->reframer, 6000);
	KIT_EXPECT_OUT(kit, 0, 1, 2);
	assert_int_equal(kit->packets[1].release_ns, 6000);
	assert_int_equal(reframer_hold_histogram(kit->reframer)->max, 1000);
	assert_int_equal(kit->packets[1].time_ns, 4000);
}

static void packet_older_than_advance_is_clamped_to_it(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	reframer_advance(kit->reframer, 7000);
	reframer_advance(kit->reframer, 100);
	kit_feed(kit, 1, 6999);
	assert_int_equal(kit_stats(kit).time_backwards, 1);
	reframer_advance(kit->reframer, 8000);
	KIT_EXPECT_OUT(kit, 0);
	assert_int_equal(kit->packets[0].release_ns, 8000);
}

static void end_of_time_is_survived(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, UINT64_MAX - 10);
	kit_feed(kit, 2, UINT64_MAX);
	kit_feed(kit, 0, UINT64_MAX);
	kit_feed(kit, 1, UINT64_MAX);
	reframer_advance(kit->reframer, UINT64_MAX);
	KIT_EXPECT_OUT(kit, 0, 1, 2, 3);
	kit_feed(kit, 1, 0);
	reframer_flush(kit->reframer);
	KIT_EXPECT_OUT(kit, 4);
}

static void cutting_the_input_into_other_bursts_changes_nothing(void **state)
{
	struct kit *kit = *state;
	static const unsigned int sizes[] = { 1, 3, 32, 64, 65, 256 };
	enum { PACKETS = 1500 };
	uint64_t release_ns[PACKETS], seq[PACKETS];
	kit->config.held_packets_max = 40;
	kit->config.held_flows_max = 20;
	kit->config.run_packets_max = 5;
	kit->config.bypass_first = true;
	kit->config.seen_flows = 16;
	kit->config.short_acks = true;
	for (unsigned int s = 0; s < BASE_ARRAY_COUNT(sizes); s++) {
		kit->packets_count = kit->out_count = kit->runs_count = 0;
		kit_start(kit);
		for (unsigned int i = 0; i < PACKETS; i++) {
			struct base_packet *packet =
				kit_packet(kit, 1 + i * i * 7 % 37 / (1 + i / 700), 40 * i);
			packet->payload_len = i % 7 == 0 ? 0 : 100;
			packet->tcp_flags |= i % 61 == 0 ? BASE_TCP_SYN : 0;
		}
		struct base_packet *pointers[PACKETS];
		for (unsigned int i = 0; i < PACKETS; i++)
			pointers[i] = &kit->packets[i];
		for (unsigned int i = 0; i < PACKETS; i += sizes[s]) {
			unsigned int count = PACKETS - i < sizes[s] ? PACKETS - i : sizes[s];
			reframer_push_burst(kit->reframer, pointers + i, count);
			kit_pop(kit, 1 + 17 * s);
		}
		reframer_flush(kit->reframer);
		kit_pop(kit, 32);
		assert_int_equal(kit->out_count, PACKETS);
		for (unsigned int i = 0; i < PACKETS; i++) {
			if (s == 0) {
				seq[i] = kit->out[i]->seq;
				release_ns[i] = kit->out[i]->release_ns;
			}
			assert_int_equal(kit->out[i]->seq, seq[i]);
			assert_int_equal(kit->out[i]->release_ns, release_ns[i]);
		}
		reframer_destroy(kit->reframer);
	}
	kit->reframer = NULL;
}

static void horizon_is_the_arrival_of_the_longest_waiting_packet(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	assert_int_equal(reframer_horizon_ns(kit->reframer), 0);
	kit_feed(kit, 1, 100);
	kit_feed(kit, 2, 300);
	kit_feed(kit, 3, 500);
	assert_int_equal(reframer_horizon_ns(kit->reframer), 100);
	reframer_advance(kit->reframer, 1200);
	/* Released but still inside. */
	assert_int_equal(reframer_horizon_ns(kit->reframer), 100);
	kit_pop(kit, 32);
	assert_int_equal(reframer_horizon_ns(kit->reframer), 300);
	reframer_advance(kit->reframer, 9000);
	kit_pop(kit, 32);
	assert_int_equal(reframer_horizon_ns(kit->reframer), 9000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		TEST(flow_leaves_together_when_its_first_packet_has_waited),
		TEST(late_call_still_releases_at_the_bound_exactly),
		TEST(packet_that_comes_at_the_bound_comes_after_the_release),
		TEST(due_flows_leave_before_the_packet_that_brings_the_time),
		TEST(full_run_leaves_at_once_with_its_last_packet),
		TEST(run_of_one_is_never_held),
		TEST(flush_releases_everything_soonest_first_at_the_latest_time),
		TEST(use_goes_on_after_a_flush),
		TEST(time_that_goes_back_is_clamped_and_counted),
		TEST(packet_older_than_advance_is_clamped_to_it),
		TEST(end_of_time_is_survived),
		TEST(cutting_the_input_into_other_bursts_changes_nothing),
		TEST(horizon_is_the_arrival_of_the_longest_waiting_packet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
