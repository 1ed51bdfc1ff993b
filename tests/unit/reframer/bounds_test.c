/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounds, pressure, the queue behind, configurations. The last part keeps out what went wrong in
 * the published implementation: a bypass that loses other flows or overtakes its own, a forced
 * release that sticks, an unlinking that forgets a neighbour, a bound that counts something else.
 */
#include "tests/unit/reframer/kit.h"

#include <errno.h>

static void bound_on_packets_lets_the_longest_waiting_flow_go(void **state)
{
	struct kit *kit = *state;
	kit->config.held_packets_max = 3;
	kit->config.held_flows_max = 3;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 20);
	kit_feed(kit, 2, 30);
	kit_feed(kit, 2, 40);
	KIT_EXPECT_OUT(kit, 0);
	assert_int_equal(kit->packets[0].release_ns, 40);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_PRESSURE_PACKETS], 1);
	assert_int_equal(kit_stats(kit).held_packets, 3);
	assert_int_equal(kit_stats(kit).peak_held_packets, 3);
}

static void flow_that_makes_room_for_itself_keeps_its_order(void **state)
{
	struct kit *kit = *state;
	kit->config.held_packets_max = 2;
	kit->config.held_flows_max = 2;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 1, 20);
	kit_feed(kit, 1, 30);
	KIT_EXPECT_OUT(kit, 0, 1);
	assert_int_equal(kit_stats(kit).held_packets, 1);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 2);
	assert_int_equal(kit->packets[2].release_ns, 1030);
}

static void bound_on_flows_lets_the_longest_waiting_flow_go(void **state)
{
	struct kit *kit = *state;
	kit->config.held_flows_max = 2;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 20);
	kit_feed(kit, 1, 25);
	kit_feed(kit, 3, 30);
	KIT_EXPECT_OUT(kit, 0, 2);
	assert_int_equal(kit->packets[0].release_ns, 30);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_PRESSURE_FLOWS], 1);
	assert_int_equal(kit_stats(kit).held_flows, 2);
	assert_int_equal(kit_stats(kit).peak_held_flows, 2);
}

static void longest_waiting_means_first_arrival_across_classes(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit->config.held_flows_max = 2;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_packet(kit, 2, 20)->payload_len = 0;
	kit_push(kit, &kit->packets[1]);
	kit_feed(kit, 3, 30);
	/* Flow 2 is due first, but flow 1 has waited longest. */
	KIT_EXPECT_OUT(kit, 0);
	reframer_advance(kit->reframer, 120);
	KIT_EXPECT_OUT(kit, 1);
}

static void moved_flow_keeps_its_age(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit->config.held_flows_max = 2;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_packet(kit, 2, 20)->payload_len = 0;
	kit_push(kit, &kit->packets[1]);
	kit_packet(kit, 1, 30)->payload_len = 0; /* now behind flow 2 in the short class */
	kit_push(kit, &kit->packets[2]);
	kit_feed(kit, 3, 40);
	KIT_EXPECT_OUT(kit, 0, 2);
}

static void flows_with_one_hash_are_kept_apart(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	for (unsigned int i = 0; i < 20; i++) {
		struct base_packet *packet = kit_packet(kit, 1 + i % 10, 10 * i);
		packet->hash = 77;
		kit_push(kit, packet);
	}
	assert_int_equal(kit_stats(kit).held_flows, 10);
	reframer_advance(kit->reframer, 100000);
	kit_pop(kit, 256);
	assert_int_equal(kit->runs_count, 10);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(kit->run_sizes[i], 2);
}

static void hundreds_of_flows_with_one_hash_cost_no_order_and_no_packet(void **state)
{
	struct kit *kit = *state;
	enum { FLOWS = 300, PACKETS = 1500 };
	uint64_t last_seq[FLOWS + 1] = { 0 };
	kit_start(kit);
	for (unsigned int i = 0; i < PACKETS; i++) {
		struct base_packet *packet = kit_packet(kit, 1 + i * 31 % FLOWS, i);
		packet->hash = 77;
		kit_push(kit, packet);
		kit_pop(kit, 32);
	}
	assert_true(kit_stats(kit).held_flows <= 64);
	assert_true(kit_stats(kit).releases[REFRAMER_RELEASE_PRESSURE_FLOWS] > 0);
	reframer_flush(kit->reframer);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, PACKETS);
	for (unsigned int i = 0; i < PACKETS; i++) {
		uint32_t flow;
		memcpy(&flow, kit->out[i]->key.address[0], sizeof(flow));
		assert_true(kit->out[i]->seq + 1 > last_seq[flow]);
		last_seq[flow] = kit->out[i]->seq + 1;
	}
}

static void run_is_split_only_when_no_burst_could_hold_it(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	for (unsigned int i = 0; i < 6; i++)
		kit_feed(kit, 1, 10);
	for (unsigned int i = 0; i < 70; i++)
		kit_feed(kit, 2, 20);
	kit_feed(kit, 3, 30);
	reframer_advance(kit->reframer, 100000);
	kit_pop(kit, 32);
	/* 6 | 32 32 6+1: the run of 70 does not join the 6, and is cut into whole bursts. */
	assert_int_equal(kit->bursts_count, 4);
	assert_int_equal(kit->runs_count, 5);
	assert_int_equal(kit->run_sizes[0], 6);
	assert_int_equal(kit->run_sizes[1], 32);
	assert_int_equal(kit->run_sizes[2], 32);
	assert_int_equal(kit->run_sizes[3], 6);
	assert_int_equal(kit->run_sizes[4], 1);
	/* A cut run is still one run of the stream. */
	assert_int_equal(kit_stats(kit).runs_out, 3);
}

static void neighbours_of_one_flow_leave_as_one_run(void **state)
{
	struct kit *kit = *state;
	kit->config.run_packets_max = 2;
	kit_start(kit);
	for (unsigned int i = 0; i < 6; i++)
		kit_feed(kit, 1, 10);
	kit_pop(kit, 4);
	assert_int_equal(kit->out_count, 6);
	assert_int_equal(kit->bursts_count, 2);
	assert_int_equal(kit->run_sizes[0], 4);
	assert_int_equal(kit->run_sizes[1], 2);
	assert_int_equal(kit_stats(kit).runs_out, 1);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_RUN_FULL], 3);
}

static void runs_are_counted_at_both_ends(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	static const uint32_t flows[] = { 1, 2, 1, 2, 2, 3, 0, 0, 3 };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(flows); i++)
		kit_feed(kit, flows[i], i);
	reframer_flush(kit->reframer);
	kit_pop(kit, 256);
	assert_int_equal(kit_stats(kit).runs_in, 8);
	assert_int_equal(kit_stats(kit).runs_out, 5);
	assert_int_equal(kit_stats(kit).packets_in, 9);
	assert_int_equal(kit_stats(kit).packets_out, 9);
}

static void stats_tell_where_packets_are(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 0, 20);
	assert_int_equal(kit_stats(kit).packets_in, 2);
	assert_int_equal(kit_stats(kit).packets_out, 0);
	assert_int_equal(kit_stats(kit).held_packets, 1);
	assert_int_equal(kit_stats(kit).released_packets, 1);
	kit_pop(kit, 1);
	assert_int_equal(kit_stats(kit).packets_out, 1);
	assert_int_equal(kit_stats(kit).released_packets, 0);
}

static void queue_takes_the_worst_case(void **state)
{
	struct kit *kit = *state;
	kit->config.held_packets_max = 256;
	kit->config.held_flows_max = 256;
	kit_start(kit);
	struct base_packet *packets[256];
	for (unsigned int i = 0; i < 256; i++)
		packets[i] = kit_packet(kit, 1 + i, 10);
	reframer_push_burst(kit->reframer, packets, 256);
	assert_int_equal(kit_stats(kit).held_flows, 256);
	for (unsigned int i = 0; i < 256; i++)
		packets[i] = kit_packet(kit, 0, 20000);
	reframer_push_burst(kit->reframer, packets, 256);
	assert_int_equal(kit_stats(kit).released_packets, 512);
	kit_pop(kit, 100);
	assert_int_equal(kit->out_count, 512);
}

static void leftovers_in_the_queue_are_kept_while_there_is_room(void **state)
{
	struct kit *kit = *state;
	kit->config.held_packets_max = 4;
	kit->config.held_flows_max = 4;
	kit_start(kit);
	struct base_packet *packets[200];
	struct base_burst burst;
	uint64_t expected = 0;
	for (unsigned int round = 0; round < 5; round++) {
		for (unsigned int i = 0; i < 200; i++)
			packets[i] = kit_packet(kit, 0, 10);
		reframer_push_burst(kit->reframer, packets, 200);
		/* Leave 10 more each round. */
		for (unsigned int i = 0; i < 190; i++) {
			assert_int_equal(reframer_pop_burst(kit->reframer, &burst, 1), 1);
			assert_int_equal(burst.packets[0]->seq, expected++);
		}
	}
	assert_int_equal(kit_stats(kit).released_packets, 50);
}

static void impossible_configurations_are_refused(void **state)
{
	struct kit *kit = *state;
	struct reframer *reframer = NULL;
	struct reframer_config good = kit->config, bad;
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = (value);                                                               \
		assert_int_equal(reframer_create(&reframer, &bad), -EINVAL);                       \
		assert_null(reframer);                                                             \
	} while (0)
	good.bypass_first = true;
	REFUSED(arena, NULL);
	REFUSED(run_packets_max, 0);
	REFUSED(run_packets_max, BASE_BURST_MAX + 1);
	REFUSED(held_packets_max, 0);
	REFUSED(held_packets_max, UINT32_MAX);
	REFUSED(held_flows_max, 0);
	REFUSED(held_flows_max, good.held_packets_max + 1);
	REFUSED(seen_flows, 0);
	REFUSED(seen_flows, UINT32_MAX);
#undef REFUSED
	reframer_destroy(NULL);
}

static void releases_have_names(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < REFRAMER_RELEASES_COUNT; i++) {
		const char *name = reframer_release_name((enum reframer_release)i);
		assert_non_null(name);
		assert_string_not_equal(name, "unknown");
	}
	assert_string_equal(reframer_release_name(REFRAMER_RELEASES_COUNT), "unknown");
}

/* A bypass used to assume that its flow was the head of the flush list. */
static void bypass_from_the_middle_strands_no_other_flow(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	for (uint32_t flow = 1; flow <= 5; flow++)
		kit_feed(kit, flow, flow);
	for (uint32_t flow = 3; flow <= 5; flow += 2) { /* the middle, then the tail */
		struct base_packet *packet = kit_packet(kit, flow, 10);
		packet->tcp_flags = BASE_TCP_SYN;
		kit_push(kit, packet);
	}
	KIT_EXPECT_OUT(kit, 2, 5, 4, 6);
	kit_feed(kit, 6, 20);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 0, 1, 3, 7);
	assert_int_equal(kit_stats(kit).held_packets, 0);
}

/* Once forced out, a flow used to count as ready for ever. */
static void flow_forced_out_once_waits_again(void **state)
{
	struct kit *kit = *state;
	kit->config.held_flows_max = 1;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 20);
	KIT_EXPECT_OUT(kit, 0);
	reframer_advance(kit->reframer, 1020);
	KIT_EXPECT_OUT(kit, 1);
	kit_feed(kit, 1, 2000);
	kit_feed(kit, 1, 2500);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
	reframer_advance(kit->reframer, 3000);
	KIT_EXPECT_OUT(kit, 2, 3);
	assert_int_equal(kit->packets[2].release_ns, 3000);
}

/* Taking a full flow out of order used to leave its old neighbour's link wrong. */
static void flows_that_fill_up_out_of_turn_leave_the_list_whole(void **state)
{
	struct kit *kit = *state;
	kit->config.run_packets_max = 2;
	kit_start(kit);
	for (uint32_t flow = 1; flow <= 6; flow++)
		kit_feed(kit, flow, flow);
	kit_feed(kit, 5, 10);
	kit_feed(kit, 2, 11);
	kit_feed(kit, 6, 12);
	kit_feed(kit, 1, 13);
	KIT_EXPECT_OUT(kit, 4, 6, 1, 7, 5, 8, 0, 9);
	kit_feed(kit, 1, 14);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 2, 3, 10);
}

/* The bound on packets used to count flows. */
static void the_two_bounds_count_different_things(void **state)
{
	struct kit *kit = *state;
	kit->config.held_packets_max = 10;
	kit->config.held_flows_max = 3;
	kit_start(kit);
	for (unsigned int i = 0; i < 9; i++)
		kit_feed(kit, 1 + i % 3, i);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 1, 11);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 4);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_PRESSURE_PACKETS], 1);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_PRESSURE_FLOWS], 0);
}

/* Among flows that are due together the one that waited longest goes first, not last. */
static void flows_that_are_due_together_leave_oldest_first(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 3, 10);
	kit_feed(kit, 1, 20);
	kit_feed(kit, 3, 25);
	kit_feed(kit, 2, 30);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 0, 2, 1, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		TEST(bound_on_packets_lets_the_longest_waiting_flow_go),
		TEST(flow_that_makes_room_for_itself_keeps_its_order),
		TEST(bound_on_flows_lets_the_longest_waiting_flow_go),
		TEST(longest_waiting_means_first_arrival_across_classes),
		TEST(moved_flow_keeps_its_age),
		TEST(flows_with_one_hash_are_kept_apart),
		TEST(hundreds_of_flows_with_one_hash_cost_no_order_and_no_packet),
		TEST(run_is_split_only_when_no_burst_could_hold_it),
		TEST(neighbours_of_one_flow_leave_as_one_run),
		TEST(runs_are_counted_at_both_ends),
		TEST(stats_tell_where_packets_are),
		TEST(queue_takes_the_worst_case),
		TEST(leftovers_in_the_queue_are_kept_while_there_is_room),
		TEST(impossible_configurations_are_refused),
		TEST(releases_have_names),
		TEST(bypass_from_the_middle_strands_no_other_flow),
		TEST(flow_forced_out_once_waits_again),
		TEST(flows_that_fill_up_out_of_turn_leave_the_list_whole),
		TEST(the_two_bounds_count_different_things),
		TEST(flows_that_are_due_together_leave_oldest_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
