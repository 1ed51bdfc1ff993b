/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that are not held, and the classes of those that are. */
#include "tests/unit/reframer/kit.h"

#include "reframer/seen_filter.h"

/* Two packets of flow 1 and one of flow 2 wait; then `packet` of flow 1 comes at 50. It must leave
 * at once behind its flow's, as one run, and flow 2 stays. */
static void expect_bypass(
	struct kit *kit, struct base_packet *packet, enum reframer_release release)
{
	assert_int_equal(packet->seq, 3);
	kit_push(kit, packet);
	KIT_EXPECT_OUT(kit, 0, 2, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(kit->out[i]->release_ns, 50);
	assert_int_equal(kit->runs_count, 1);
	assert_int_equal(kit->run_sizes[0], 3);
	assert_int_equal(kit_stats(kit).releases[release], 1);
	assert_int_equal(kit_stats(kit).release_packets[release], 3);
	assert_int_equal(kit_stats(kit).held_packets, 1);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 1);
	assert_int_equal(kit->packets[1].release_ns, 1020);
}

static struct base_packet *wait_for_bypass(struct kit *kit)
{
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 20);
	kit_feed(kit, 1, 30);
	return kit_packet(kit, 1, 50);
}

static void syn_takes_its_flow_along(void **state)
{
	struct kit *kit = *state;
	struct base_packet *packet = wait_for_bypass(kit);
	packet->tcp_flags = BASE_TCP_SYN;
	expect_bypass(kit, packet, REFRAMER_RELEASE_BYPASS_SYN);
}

static void syn_ack_counts_as_syn(void **state)
{
	struct kit *kit = *state;
	struct base_packet *packet = wait_for_bypass(kit);
	packet->tcp_flags = BASE_TCP_SYN | BASE_TCP_ACK;
	expect_bypass(kit, packet, REFRAMER_RELEASE_BYPASS_SYN);
}

static void rst_takes_its_flow_along(void **state)
{
	struct kit *kit = *state;
	struct base_packet *packet = wait_for_bypass(kit);
	packet->tcp_flags = BASE_TCP_RST | BASE_TCP_ACK;
	expect_bypass(kit, packet, REFRAMER_RELEASE_BYPASS_RST);
}

static void operator_mark_takes_its_flow_along(void **state)
{
	struct kit *kit = *state;
	struct base_packet *packet = wait_for_bypass(kit);
	packet->flags |= BASE_PACKET_OPERATOR_BYPASS;
	expect_bypass(kit, packet, REFRAMER_RELEASE_BYPASS_OPERATOR);
}

static void class_without_delay_takes_its_flow_along(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit->config.delay_ns[REFRAMER_CLASS_SHORT] = 0;
	struct base_packet *packet = wait_for_bypass(kit);
	packet->payload_len = 0;
	expect_bypass(kit, packet, REFRAMER_RELEASE_BYPASS_OPTION);
}

static void delay_of_zero_holds_nothing(void **state)
{
	struct kit *kit = *state;
	kit->config.delay_ns[REFRAMER_CLASS_NORMAL] = 0;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 2, 20);
	kit_feed(kit, 1, 30);
	KIT_EXPECT_OUT(kit, 0, 1, 2);
	assert_int_equal(kit->packets[2].release_ns, 30);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_BYPASS_OPTION], 3);
	assert_int_equal(reframer_hold_histogram(kit->reframer)->max, 0);
}

static void packets_without_a_flow_pass_alone(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 0, 20);
	kit_feed(kit, 0, 20);
	KIT_EXPECT_OUT(kit, 1, 2);
	assert_int_equal(kit->packets[1].release_ns, 20);
	assert_int_equal(kit->runs_count, 2);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_BYPASS_NO_FLOW], 2);
	assert_int_equal(kit_stats(kit).held_packets, 1);
}

static void first_packet_of_a_flow_passes_and_the_second_waits(void **state)
{
	struct kit *kit = *state;
	kit->config.bypass_first = true;
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 1, 20);
	kit_feed(kit, 2, 30);
	kit_feed(kit, 1, 40);
	KIT_EXPECT_OUT(kit, 0, 2);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_BYPASS_FIRST], 2);
	assert_int_equal(kit_stats(kit).held_packets, 2);
}

static void syn_counts_as_the_first_packet(void **state)
{
	struct kit *kit = *state;
	kit->config.bypass_first = true;
	kit_start(kit);
	kit_packet(kit, 1, 10)->tcp_flags = BASE_TCP_SYN;
	kit_push(kit, &kit->packets[0]);
	kit_feed(kit, 1, 20);
	KIT_EXPECT_OUT(kit, 0);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_BYPASS_SYN], 1);
	assert_int_equal(kit_stats(kit).releases[REFRAMER_RELEASE_BYPASS_FIRST], 0);
}

static void flow_that_waits_is_not_new_even_if_the_filter_forgot_it(void **state)
{
	struct kit *kit = *state;
	kit->config.bypass_first = true;
	kit->config.seen_flows = 1; /* one set of four */
	kit_start(kit);
	kit_feed(kit, 1, 10);
	kit_feed(kit, 1, 20);
	for (uint32_t flow = 2; flow < 10; flow++)
		kit_feed(kit, flow, 30);
	KIT_EXPECT_OUT(kit, 0, 2, 3, 4, 5, 6, 7, 8, 9);
	kit_feed(kit, 1, 40);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
	assert_int_equal(kit_stats(kit).held_packets, 2);
}

static void each_bypass_can_be_switched_off(void **state)
{
	struct kit *kit = *state;
	kit->config.bypass_syn = false;
	kit->config.bypass_rst = false;
	kit_start(kit);
	kit_packet(kit, 1, 10)->tcp_flags = BASE_TCP_SYN;
	kit_push(kit, &kit->packets[0]);
	kit_packet(kit, 1, 20)->tcp_flags = BASE_TCP_RST;
	kit_push(kit, &kit->packets[1]);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
}

static void flag_bits_of_other_protocols_are_no_bypass(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	struct base_packet *packet = kit_packet(kit, 1, 10);
	packet->protocol = BASE_PROTOCOL_UDP;
	packet->tcp_flags = BASE_TCP_SYN | BASE_TCP_RST;
	kit_push(kit, packet);
	kit_pop(kit, 32);
	assert_int_equal(kit->out_count, 0);
}

static void pure_acks_and_fins_wait_for_less(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit_start(kit);
	kit_feed(kit, 1, 0);
	kit_packet(kit, 2, 0)->payload_len = 0;
	kit_push(kit, &kit->packets[1]);
	kit_packet(kit, 3, 0)->tcp_flags = BASE_TCP_FIN | BASE_TCP_ACK;
	kit_push(kit, &kit->packets[2]);
	struct base_packet *udp = kit_packet(kit, 4, 0);
	udp->protocol = BASE_PROTOCOL_UDP;
	udp->payload_len = 0;
	kit_push(kit, udp);
	reframer_advance(kit->reframer, 100);
	KIT_EXPECT_OUT(kit, 1, 2);
	assert_int_equal(kit->packets[1].release_ns, 100);
	reframer_advance(kit->reframer, 1000);
	KIT_EXPECT_OUT(kit, 0, 3);
}

static void short_packet_makes_its_flow_leave_earlier(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit_start(kit);
	kit_feed(kit, 1, 0);
	kit_feed(kit, 2, 5);
	kit_packet(kit, 1, 300)->payload_len = 0;
	kit_push(kit, &kit->packets[2]);
	kit_packet(kit, 3, 350)->payload_len = 0;
	kit_push(kit, &kit->packets[3]);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 0, 2, 3, 1);
	assert_int_equal(kit->packets[0].release_ns, 400);
	assert_int_equal(kit->packets[2].release_ns, 400);
	assert_int_equal(kit->packets[3].release_ns, 450);
	assert_int_equal(kit->packets[1].release_ns, 1005);
}

static void short_packet_never_makes_its_flow_leave_later(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit_start(kit);
	kit_feed(kit, 1, 0);
	kit_packet(kit, 1, 950)->payload_len = 0;
	kit_push(kit, &kit->packets[1]);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 0, 1);
	assert_int_equal(kit->packets[1].release_ns, 1000);
}

static void longer_class_does_not_lengthen_the_wait(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit_start(kit);
	kit_packet(kit, 1, 0)->payload_len = 0;
	kit_push(kit, &kit->packets[0]);
	kit_feed(kit, 1, 50);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 0, 1);
	assert_int_equal(kit->packets[1].release_ns, 100);
}

static enum reframer_class class_by_next_hop(
	const struct base_packet *packet, const void *classify_arg)
{
	return packet->next_hop == *(const uint16_t *)classify_arg ? REFRAMER_CLASS_BULK
								   : REFRAMER_CLASS_NORMAL;
}

static void operator_classifier_chooses_the_class(void **state)
{
	struct kit *kit = *state;
	static const uint16_t bulk_hop = 9;
	kit->config.classify = class_by_next_hop;
	kit->config.classify_arg = &bulk_hop;
	kit_start(kit);
	kit_packet(kit, 1, 0)->next_hop = 9;
	kit_push(kit, &kit->packets[0]);
	kit_feed(kit, 2, 100);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 1, 0);
	assert_int_equal(kit->packets[0].release_ns, 5000);
	assert_int_equal(kit->packets[1].release_ns, 1100);
}

static void operator_mark_chooses_the_bulk_class(void **state)
{
	struct kit *kit = *state;
	kit->config.operator_bulk = true;
	kit->config.short_acks = true; /* the mark comes first */
	kit_start(kit);
	struct base_packet *packet = kit_packet(kit, 1, 0);
	packet->flags |= BASE_PACKET_OPERATOR_BULK;
	packet->payload_len = 0;
	kit_push(kit, packet);
	kit_feed(kit, 2, 100);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 1, 0);
	assert_int_equal(kit->packets[0].release_ns, 5000);
	assert_int_equal(kit->packets[1].release_ns, 1100);
}

static void operator_mark_means_nothing_unless_asked_for(void **state)
{
	struct kit *kit = *state;
	kit_start(kit);
	kit_packet(kit, 1, 0)->flags |= BASE_PACKET_OPERATOR_BULK;
	kit_push(kit, &kit->packets[0]);
	reframer_advance(kit->reframer, 100000);
	KIT_EXPECT_OUT(kit, 0);
	assert_int_equal(kit->packets[0].release_ns, 1000);
}

static void equal_deadlines_leave_lowest_class_first(void **state)
{
	struct kit *kit = *state;
	kit->config.short_acks = true;
	kit_start(kit);
	kit_feed(kit, 1, 0);
	kit_packet(kit, 2, 900)->payload_len = 0;
	kit_push(kit, &kit->packets[1]);
	reframer_advance(kit->reframer, 2000);
	KIT_EXPECT_OUT(kit, 0, 1);
	assert_int_equal(kit->packets[0].release_ns, 1000);
	assert_int_equal(kit->packets[1].release_ns, 1000);
}

static void filter_tag_of_zero_is_no_empty_place(void **state)
{
	struct kit *kit = *state;
	struct seen_filter filter;
	assert_int_equal(reframer_seen_filter_create(&filter, kit->arena, 4), 0);
	assert_false(seen_filter_touch(filter.sets, 0x1230000ffff));
	assert_true(seen_filter_touch(filter.sets, 0x1230000ffff));
	reframer_seen_filter_destroy(&filter, kit->arena);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		TEST(syn_takes_its_flow_along),
		TEST(syn_ack_counts_as_syn),
		TEST(rst_takes_its_flow_along),
		TEST(operator_mark_takes_its_flow_along),
		TEST(class_without_delay_takes_its_flow_along),
		TEST(delay_of_zero_holds_nothing),
		TEST(packets_without_a_flow_pass_alone),
		TEST(first_packet_of_a_flow_passes_and_the_second_waits),
		TEST(syn_counts_as_the_first_packet),
		TEST(flow_that_waits_is_not_new_even_if_the_filter_forgot_it),
		TEST(each_bypass_can_be_switched_off),
		TEST(flag_bits_of_other_protocols_are_no_bypass),
		TEST(pure_acks_and_fins_wait_for_less),
		TEST(short_packet_makes_its_flow_leave_earlier),
		TEST(short_packet_never_makes_its_flow_leave_later),
		TEST(longer_class_does_not_lengthen_the_wait),
		TEST(operator_classifier_chooses_the_class),
		TEST(operator_mark_chooses_the_bulk_class),
		TEST(operator_mark_means_nothing_unless_asked_for),
		TEST(equal_deadlines_leave_lowest_class_first),
		TEST(filter_tag_of_zero_is_no_empty_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
