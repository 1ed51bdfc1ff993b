/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/order_check.h"

static struct order_check *new_check(void)
{
	return calloc(1, sizeof(struct order_check));
}

static struct base_packet packet_of(uint8_t flow, uint64_t seq)
{
	struct base_packet packet;
	memset(&packet, 0, sizeof(packet));
	base_packet_reset(&packet);
	packet.seq = seq;
	if (flow != 0) {
		packet.flags = BASE_PACKET_FLOW;
		packet.key.family = 4;
		packet.key.address[0][0] = flow;
		packet.hash = flow * 0x01010101u;
	}
	return packet;
}

static uint64_t violations_of(const uint8_t *flows, const uint64_t *seqs, unsigned int count)
{
	struct base_packet packets[8];
	struct base_burst *burst = calloc(1, sizeof(*burst));
	struct order_check *check = new_check();
	burst->count = (uint16_t)count;
	for (unsigned int i = 0; i < count; i++) {
		packets[i] = packet_of(flows[i], seqs[i]);
		burst->packets[i] = &packets[i];
	}
	order_check_burst(check, burst);
	uint64_t violations = check->violations;
	free(check);
	free(burst);
	return violations;
}

static void other_flows_may_overtake(void **)
{
	assert_int_equal(
		violations_of((uint8_t[]){ 1, 2, 1, 2 }, (uint64_t[]){ 5, 1, 6, 2 }, 4), 0);
}

static void an_overtaken_packet_of_the_flow_is_counted(void **)
{
	assert_int_equal(
		violations_of((uint8_t[]){ 1, 2, 1, 1 }, (uint64_t[]){ 5, 1, 4, 6 }, 4), 1);
}

static void a_packet_that_leaves_twice_is_counted(void **)
{
	assert_int_equal(violations_of((uint8_t[]){ 1, 1 }, (uint64_t[]){ 5, 5 }, 2), 1);
}

static void packets_without_a_flow_keep_their_order_too(void **)
{
	assert_int_equal(violations_of((uint8_t[]){ 0, 0 }, (uint64_t[]){ 2, 1 }, 2), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_flows_may_overtake),
		cmocka_unit_test(an_overtaken_packet_of_the_flow_is_counted),
		cmocka_unit_test(a_packet_that_leaves_twice_is_counted),
		cmocka_unit_test(packets_without_a_flow_keep_their_order_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
