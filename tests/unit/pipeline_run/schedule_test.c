/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/schedule.h"
#include "tests/support/packets.h"

#include <errno.h>

struct fixture {
	struct pipeline_config config;
	struct traces_trace *trace;
	struct schedule schedule;
	char message[PIPELINE_MESSAGE_SIZE];
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	pipeline_config_defaults(&fixture->config);
	*state = fixture;
	return traces_trace_create(&fixture->trace);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	schedule_destroy(&fixture->schedule);
	traces_trace_destroy(fixture->trace);
	free(fixture);
	return 0;
}

static void add(struct fixture *fixture, const struct packets_spec *spec, uint64_t time_ns)
{
	uint8_t frame[2048];
	size_t length = packets_build(frame, sizeof(frame), spec);
	struct traces_record record = { .time_ns = time_ns,
		.cap_len = (uint32_t)length,
		.wire_len = (uint32_t)length,
		.link = BASE_LINK_ETHERNET };
	assert_int_equal(traces_trace_append(fixture->trace, &record, frame), 0);
}

static void add_udp(struct fixture *fixture, uint32_t client, uint64_t time_ns, bool reply)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, client, 1000, 0x0a000001, 53);
	struct packets_spec back = packets_reverse(&spec);
	add(fixture, reply ? &back : &spec, time_ns);
}

static void plan(struct fixture *fixture)
{
	const atomic_bool stop = false;
	assert_int_equal(schedule_create(&fixture->schedule, &fixture->config, fixture->trace,
				 &stop, fixture->message),
		0);
}

static void times_start_at_zero_and_backward_steps_are_clamped(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t times[] = { 1000, 1500, 1200, 1600 };
	const uint64_t expected[] = { 0, 500, 500, 600 };
	for (int i = 0; i < 4; i++)
		add_udp(fixture, 0x0b000001, times[i], false);
	plan(fixture);
	for (int i = 0; i < 4; i++)
		assert_int_equal(fixture->schedule.entries[0][i].time_ns, expected[i]);
	assert_int_equal(fixture->schedule.plan.time_clamped, 1);
	assert_int_equal(fixture->schedule.plan.duration_ns, 600);
	assert_int_equal(fixture->schedule.plan.period_ns, 800); /* one mean gap behind the last */
	assert_int_equal(fixture->schedule.plan.epoch_ns, 1000);
}

static void a_long_gap_is_cut_and_counted(void **state)
{
	struct fixture *fixture = *state;
	fixture->config.max_gap_ns = 1000;
	add_udp(fixture, 0x0b000001, 0, false);
	add_udp(fixture, 0x0b000001, 1000, false);
	add_udp(fixture, 0x0b000001, 5000000, false);
	plan(fixture);
	assert_int_equal(fixture->schedule.entries[0][2].time_ns, 2000);
	assert_int_equal(fixture->schedule.plan.gaps_cut, 1);
	assert_int_equal(fixture->schedule.plan.gaps_cut_ns, 4998000);
}

static void gaps_are_kept_under_the_virtual_clock_and_cut_at_5_s_under_the_wall_clock(void **state)
{
	struct fixture *fixture = *state;
	add_udp(fixture, 0x0b000001, 0, false);
	add_udp(fixture, 0x0b000001, UINT64_C(3600000000000), false);
	plan(fixture);
	assert_int_equal(fixture->schedule.plan.duration_ns, UINT64_C(3600000000000));
	schedule_destroy(&fixture->schedule);
	fixture->config.clock = PIPELINE_CLOCK_WALL;
	plan(fixture);
	assert_int_equal(fixture->schedule.plan.duration_ns, UINT64_C(5000000000));
}

static void both_directions_and_icmp_errors_meet_at_one_worker(void **state)
{
	struct fixture *fixture = *state;
	uint8_t frame[2048];
	fixture->config.workers = 4;
	for (uint32_t i = 0; i < 64; i++) {
		add_udp(fixture, 0x0b000000 + i, i, false);
		add_udp(fixture, 0x0b000000 + i, i, true);
		struct packets_spec quoted =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0b000000 + i, 1000, 0x0a000001, 53);
		struct packets_spec error =
			packets_ip4(BASE_PROTOCOL_ICMP, 0x0c000001, 0, 0x0b000000 + i, 0);
		error.icmp_type = 3;
		size_t length = packets_build_icmp_error(frame, sizeof(frame), &error, &quoted, 28);
		struct traces_record record = {
			.time_ns = i, .cap_len = (uint32_t)length, .wire_len = (uint32_t)length
		};
		assert_int_equal(traces_trace_append(fixture->trace, &record, frame), 0);
	}
	plan(fixture);
	unsigned int used = 0;
	for (int worker = 0; worker < 4; worker++) {
		const struct schedule_entry *entries = fixture->schedule.entries[worker];
		uint64_t count = fixture->schedule.counts[worker];
		used += count != 0;
		assert_int_equal(count % 3, 0);
		for (uint64_t i = 0; i < count; i++)
			assert_int_equal(entries[i].record / 3, entries[i / 3 * 3].record / 3);
	}
	assert_true(used > 1);
	assert_int_equal(fixture->schedule.plan.flows, 64);
}

static void the_bypass_filter_marks_packets_and_refuses_nonsense(void **state)
{
	struct fixture *fixture = *state;
	const atomic_bool stop = false;
	fixture->config.bypass_filter = "src host 11.0.0.2";
	add_udp(fixture, 0x0b000001, 0, false);
	add_udp(fixture, 0x0b000002, 1, false);
	plan(fixture);
	assert_int_equal(fixture->schedule.entries[0][0].flags, 0);
	assert_int_equal(fixture->schedule.entries[0][1].flags, BASE_PACKET_OPERATOR_BYPASS);
	schedule_destroy(&fixture->schedule);
	fixture->config.bypass_filter = "no such thing";
	assert_int_equal(schedule_create(&fixture->schedule, &fixture->config, fixture->trace,
				 &stop, fixture->message),
		-EINVAL);
	assert_non_null(strstr(fixture->message, "no such thing"));
}

static void an_empty_trace_gives_an_empty_schedule(void **state)
{
	struct fixture *fixture = *state;
	plan(fixture);
	assert_int_equal(fixture->schedule.plan.packets, 0);
	assert_int_equal(fixture->schedule.counts[0], 0);
}

static void a_stop_request_ends_planning(void **state)
{
	struct fixture *fixture = *state;
	const atomic_bool stop = true;
	add_udp(fixture, 0x0b000001, 0, false);
	assert_int_equal(schedule_create(&fixture->schedule, &fixture->config, fixture->trace,
				 &stop, fixture->message),
		-EINTR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			times_start_at_zero_and_backward_steps_are_clamped, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_gap_is_cut_and_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(
			gaps_are_kept_under_the_virtual_clock_and_cut_at_5_s_under_the_wall_clock,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			both_directions_and_icmp_errors_meet_at_one_worker, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_bypass_filter_marks_packets_and_refuses_nonsense, setup, teardown),
		cmocka_unit_test_setup_teardown(
			an_empty_trace_gives_an_empty_schedule, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stop_request_ends_planning, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
