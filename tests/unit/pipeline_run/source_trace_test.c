/* SPDX-License-Identifier: BSD-2-Clause */
/* Loops, overlays and rotation of buffers, on a trace of five packets 100 ns apart. */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/eal.h"
#include "pipeline/source.h"
#include "tests/support/packets.h"

struct fixture {
	struct pipeline_config config;
	struct traces_trace *trace;
	struct schedule schedule;
	struct source *source;
	char message[PIPELINE_MESSAGE_SIZE];
};

enum { PACKETS = 5 };

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	uint8_t frame[256];
	const atomic_bool stop = false;
	pipeline_config_defaults(&fixture->config);
	fixture->config.rx_ring = 8;
	if (traces_trace_create(&fixture->trace) != 0)
		return -1;
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0b000001 + i % 2, 1000, 0x0a000001, 53);
		size_t length = packets_build(frame, sizeof(frame), &spec);
		struct traces_record record = { .time_ns = 5000 + i * 100,
			.cap_len = (uint32_t)length,
			.wire_len = (uint32_t)length + 4 };
		traces_trace_append(fixture->trace, &record, frame);
	}
	*state = fixture;
	return schedule_create(
		&fixture->schedule, &fixture->config, fixture->trace, &stop, fixture->message);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	if (fixture->source != NULL)
		fixture->source->ops->destroy(fixture->source);
	schedule_destroy(&fixture->schedule);
	traces_trace_destroy(fixture->trace);
	free(fixture);
	return 0;
}

static void start(struct fixture *fixture)
{
	assert_int_equal(source_trace_create(&fixture->source, &fixture->config, &fixture->schedule,
				 fixture->trace, 0, 16),
		0);
}

/* Play everything in polls of `burst`; returns the packets, remembers times and stamps. */
static unsigned int play(struct fixture *fixture, unsigned int burst, uint64_t *times,
	uint64_t *seqs, uint8_t (*addresses)[4])
{
	struct base_packet *packets[16];
	unsigned int total = 0;
	while (!fixture->source->done) {
		unsigned int count =
			fixture->source->ops->poll(fixture->source, UINT64_MAX, packets, burst);
		for (unsigned int i = 0; i < count; i++) {
			times[total] = packets[i]->time_ns;
			seqs[total] = packets[i]->seq;
			memcpy(addresses[total], packets[i]->data + 14 + 12, 4);
			assert_int_equal(packets[i]->wire_len, packets[i]->cap_len + 4);
			total++;
		}
		fixture->source->ops->give_back(fixture->source, packets, count);
	}
	return total;
}

static void every_burst_size_gives_loops_times_packets(void **state)
{
	struct fixture *fixture = *state;
	uint64_t times[64], seqs[64];
	uint8_t addresses[64][4];
	fixture->config.loops = 4;
	for (unsigned int burst = 1; burst <= 8; burst++) {
		start(fixture);
		assert_int_equal(play(fixture, burst, times, seqs, addresses), 4 * PACKETS);
		for (unsigned int i = 0; i < 4 * PACKETS; i++) {
			assert_int_equal(seqs[i], i);
			/* passes stand one period (400 ns + mean gap) apart */
			assert_int_equal(times[i], i / PACKETS * 500 + i % PACKETS * 100);
		}
		fixture->source->ops->destroy(fixture->source);
		fixture->source = NULL;
	}
}

static void a_time_limit_holds_later_packets_back(void **state)
{
	struct fixture *fixture = *state;
	struct base_packet *packets[8];
	start(fixture);
	assert_int_equal(fixture->source->ops->poll(fixture->source, 150, packets, 8), 2);
	fixture->source->ops->give_back(fixture->source, packets, 2);
	assert_int_equal(fixture->source->ops->poll(fixture->source, 150, packets, 8), 0);
	assert_int_equal(fixture->source->ops->poll(fixture->source, 400, packets, 8), 3);
	fixture->source->ops->give_back(fixture->source, packets, 3);
	assert_true(fixture->source->done);
}

static void overlay_copies_are_merged_by_time_with_addresses_of_their_own(void **state)
{
	struct fixture *fixture = *state;
	uint64_t times[64], seqs[64];
	uint8_t addresses[64][4];
	fixture->config.overlay = 3;
	fixture->config.overlay_shift_ns = 30;
	start(fixture);
	assert_int_equal(play(fixture, 4, times, seqs, addresses), 3 * PACKETS);
	for (unsigned int i = 1; i < 3 * PACKETS; i++)
		assert_true(times[i] >= times[i - 1]);
	assert_int_equal(times[3 * PACKETS - 1], 400 + 60);
	/* the three copies of packet 0 */
	assert_memory_equal(addresses[0], ((uint8_t[]){ 11, 0, 0, 1 }), 4);
	assert_memory_not_equal(addresses[1], addresses[0], 4);
	assert_memory_not_equal(addresses[2], addresses[0], 4);
	assert_memory_not_equal(addresses[2], addresses[1], 4);
}

/* Copies may share a flow, or have none: stamps must grow over all of them, passes included. */
static void stamps_grow_in_the_order_of_departure(void **state)
{
	struct fixture *fixture = *state;
	uint64_t times[64], seqs[64];
	uint8_t addresses[64][4];
	fixture->config.overlay = 3;
	fixture->config.overlay_shift_ns = 730; /* more than a pass */
	fixture->config.loops = 4;
	start(fixture);
	assert_int_equal(play(fixture, 4, times, seqs, addresses), 12 * PACKETS);
	for (unsigned int i = 0; i < 12 * PACKETS; i++)
		assert_int_equal(seqs[i], i);
}

static void loop_shift_renews_addresses_on_each_pass_and_plain_loops_do_not(void **state)
{
	struct fixture *fixture = *state;
	uint64_t times[64], seqs[64];
	uint8_t addresses[64][4];
	fixture->config.loops = 2;
	start(fixture);
	play(fixture, 4, times, seqs, addresses);
	assert_memory_equal(addresses[0], addresses[PACKETS], 4);
	fixture->source->ops->destroy(fixture->source);
	fixture->config.loop_shift = true;
	start(fixture);
	play(fixture, 4, times, seqs, addresses);
	assert_memory_not_equal(addresses[0], addresses[PACKETS], 4);
}

static void padding_restores_the_wire_length(void **state)
{
	struct fixture *fixture = *state;
	struct base_packet *packets[8];
	fixture->config.pad_to_wire = true;
	start(fixture);
	assert_int_equal(fixture->source->ops->poll(fixture->source, 0, packets, 1), 1);
	assert_int_equal(packets[0]->cap_len, packets[0]->wire_len);
	assert_int_equal(packets[0]->data[packets[0]->cap_len - 1], 0);
	fixture->source->ops->give_back(fixture->source, packets, 1);
}

static void without_buffers_a_poll_gives_nothing_and_loses_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct base_packet *packets[64], *more[8];
	unsigned int held = 0, count;
	fixture->config.loops = 100;
	start(fixture);
	while ((count = fixture->source->ops->poll(
			fixture->source, UINT64_MAX, packets + held, 4)) != 0)
		held += count;
	assert_int_equal(held, 24); /* ring 8 + reserve 16 */
	assert_false(fixture->source->done);
	fixture->source->ops->give_back(fixture->source, packets, held);
	assert_int_equal(fixture->source->ops->poll(fixture->source, UINT64_MAX, more, 4), 4);
	assert_int_equal(more[0]->seq, 24);
	fixture->source->ops->give_back(fixture->source, more, 4);
}

int main(void)
{
	char message[PIPELINE_MESSAGE_SIZE];
	bool huge;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			every_burst_size_gives_loops_times_packets, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_time_limit_holds_later_packets_back, setup, teardown),
		cmocka_unit_test_setup_teardown(
			overlay_copies_are_merged_by_time_with_addresses_of_their_own, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			stamps_grow_in_the_order_of_departure, setup, teardown),
		cmocka_unit_test_setup_teardown(
			loop_shift_renews_addresses_on_each_pass_and_plain_loops_do_not, setup,
			teardown),
		cmocka_unit_test_setup_teardown(padding_restores_the_wire_length, setup, teardown),
		cmocka_unit_test_setup_teardown(
			without_buffers_a_poll_gives_nothing_and_loses_nothing, setup, teardown),
	};
	const struct pipeline_eal_need need = { 64 << 20, 64 << 20 };
	if (pipeline_eal_start(&need, true, NULL, 0, &huge, message) != 0) {
		print_message("skipped: %s\n", message);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
