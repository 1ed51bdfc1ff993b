/* SPDX-License-Identifier: BSD-2-Clause */
/* The judge of balancers, and the traffic that it judges them with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/parse.h"
#include "pipeline/bench_judge.h"
#include "pipeline/bench_lb.h"
#include "pipeline/bench_traffic.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
	struct bench_judge *judge;
	uint8_t frame[64];
	struct base_packet packet;
};

static void open_judge(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	assert_int_equal(bench_judge_create(&f->judge), 0);
}

/* Flow `flow`, with these flags and sequence number, goes to `backend`. */
static void see(
	struct fixture *f, uint32_t flow, uint8_t flags, uint8_t seq, uint32_t backend, bool gone)
{
	struct base_packet *packet = &f->packet;
	base_packet_reset(packet);
	memset(f->frame, 0, sizeof(f->frame));
	f->frame[7] = seq;
	packet->data = f->frame;
	packet->cap_len = sizeof(f->frame);
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_L4;
	packet->protocol = BASE_PROTOCOL_TCP;
	packet->tcp_flags = flags;
	packet->hash = flow % 3; /* many alike */
	memset(&packet->key, 0, sizeof(packet->key));
	memcpy(packet->key.address[0], &flow, sizeof(flow));
	assert_int_equal(bench_judge_see(f->judge, packet, backend, gone), 0);
}

static void a_connection_that_moves_is_a_violation(void **state)
{
	struct fixture f;
	(void)state;
	open_judge(&f);
	see(&f, 1, BASE_TCP_SYN, 9, 5, false);
	see(&f, 1, BASE_TCP_SYN, 9, 5, false); /* sent again */
	see(&f, 1, BASE_TCP_ACK, 10, 5, false);
	see(&f, 1, BASE_TCP_ACK, 11, 6, false);
	see(&f, 1, BASE_TCP_ACK, 12, 5, false);
	see(&f, 2, BASE_TCP_ACK, 1, 7, false);
	see(&f, 2, BASE_TCP_ACK, 2, 8, true); /* 7 was removed */
	see(&f, 2, BASE_TCP_ACK, 3, 8, false);
	struct bench_verdict verdict = bench_judge_verdict(f.judge);
	assert_int_equal(verdict.connections, 2);
	assert_int_equal(verdict.moved_packets, 2);
	assert_int_equal(verdict.broken_connections, 1);
	assert_int_equal(verdict.orphaned_connections, 1);
	bench_judge_destroy(f.judge);
}

static void a_tuple_that_is_used_again_may_go_elsewhere(void **state)
{
	struct fixture f;
	(void)state;
	open_judge(&f);
	see(&f, 1, BASE_TCP_SYN, 9, 5, false);
	see(&f, 1, BASE_TCP_SYN, 200, 6, false);
	assert_int_equal(bench_judge_backend(f.judge, &f.packet), 6);
	struct bench_verdict verdict = bench_judge_verdict(f.judge);
	assert_int_equal(verdict.connections, 2);
	assert_int_equal(verdict.moved_packets, 0);
	bench_judge_destroy(f.judge);
}

static void the_judge_remembers_any_number(void **state)
{
	struct fixture f;
	(void)state;
	open_judge(&f);
	for (uint32_t i = 0; i < 1000; i++)
		see(&f, i, BASE_TCP_ACK, 0, i % 7, false);
	for (uint32_t i = 0; i < 1000; i++)
		see(&f, i, BASE_TCP_ACK, 0, i % 7, false);
	assert_int_equal(bench_judge_verdict(f.judge).connections, 1000);
	assert_int_equal(bench_judge_verdict(f.judge).moved_packets, 0);
	bench_judge_destroy(f.judge);
}

/* Well-formed, in order of time, every connection from SYN to FIN; same seed, same bytes. */
static void made_traffic_is_what_it_says(void **state)
{
	struct bench_traffic one, two;
	struct base_parse_config config;
	struct base_parser *parser;
	(void)state;
	base_parse_config_defaults(&config);
	config.verify_checksums = true;
	assert_int_equal(base_parser_create(&parser, &config), 0);
	assert_int_equal(bench_traffic_make(&one, 500, 5000, 1000000000, 3, NULL), 0);
	assert_int_equal(bench_traffic_make(&two, 500, 5000, 1000000000, 3, NULL), 0);
	size_t count, again;
	const struct traces_record *records = traces_trace_records(one.trace, &count);
	traces_trace_records(two.trace, &again);
	assert_int_equal(count, 5000);
	assert_int_equal(again, 5000);
	uint64_t syns = 0, fins = 0;
	for (size_t i = 0; i < count; i++) {
		uint8_t *frame = (uint8_t *)traces_trace_bytes(one.trace) + records[i].offset;
		struct base_packet packet;
		base_packet_reset(&packet);
		packet.data = frame;
		packet.cap_len = packet.wire_len = records[i].cap_len;
		packet.link = records[i].link;
		assert_int_equal(base_parse_packet(parser, &packet), BASE_PARSE_FLOW);
		syns += packet.tcp_flags == BASE_TCP_SYN;
		fins += (packet.tcp_flags & BASE_TCP_FIN) != 0;
		assert_true(i == 0 || records[i].time_ns >= records[i - 1].time_ns);
		assert_true(records[i].time_ns <= 1000000000);
		assert_memory_equal(frame, traces_trace_bytes(two.trace) + records[i].offset,
			records[i].cap_len);
	}
	struct base_parse_stats stats;
	base_parser_stats(parser, &stats);
	assert_int_equal(stats.checksums_bad, 0);
	assert_int_equal(syns, 500);
	assert_int_equal(fins, 500);
	base_parser_destroy(parser);
	bench_traffic_destroy(&one);
	bench_traffic_destroy(&two);
}

static void a_flood_adds_and_takes_nothing_away(void **state)
{
	struct bench_traffic calm, flood;
	(void)state;
	assert_int_equal(bench_traffic_make(&calm, 100, 1000, 1000000000, 3, NULL), 0);
	assert_int_equal(bench_traffic_flood(&flood, &calm, 1.5, 3, NULL), 0);
	size_t calm_count, flood_count, at = 0;
	const struct traces_record *a = traces_trace_records(calm.trace, &calm_count);
	const struct traces_record *b = traces_trace_records(flood.trace, &flood_count);
	assert_int_equal(flood_count, 2500);
	assert_int_equal(flood.flood_packets, 1500);
	for (size_t i = 0; i < flood_count; i++) {
		if (flood.is_flood[i])
			continue;
		assert_true(a[at].time_ns == b[i].time_ns);
		assert_memory_equal(traces_trace_bytes(calm.trace) + a[at].offset,
			traces_trace_bytes(flood.trace) + b[i].offset, a[at].cap_len);
		at++;
	}
	assert_int_equal(at, calm_count);
	bench_traffic_destroy(&calm);
	bench_traffic_destroy(&flood);
}

/* A tracker too small for the connections loses some: the judge must see it. */
static void a_tracker_that_forgets_is_found_out(void **state)
{
	struct bench_lb_options options;
	struct bench_lb_result *result = calloc(1, sizeof(*result));
	(void)state;
	assert_non_null(result);
	bench_lb_options_defaults(&options);
	options.flows = 2000;
	options.packets = 20000;
	options.conns = 100;
	options.repeats = 1;
	options.policies = 1u << CHAIN_LB_ROUND_ROBIN;
	assert_int_equal(bench_lb_run(&options, result, NULL), 0);
	assert_int_equal(result->rows_count, 1);
	assert_true(result->rows[0].calm.passed_packets + result->rows[0].calm.untracked_packets >
		    1000);
	assert_true(result->rows[0].calm.insert_failures > 1000);
	free(result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_that_moves_is_a_violation),
		cmocka_unit_test(a_tuple_that_is_used_again_may_go_elsewhere),
		cmocka_unit_test(the_judge_remembers_any_number),
		cmocka_unit_test(made_traffic_is_what_it_says),
		cmocka_unit_test(a_flood_adds_and_takes_nothing_away),
		cmocka_unit_test(a_tracker_that_forgets_is_found_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
