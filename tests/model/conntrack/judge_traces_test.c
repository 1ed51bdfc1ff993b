/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every deletion strategy judged on generated traffic and on real captures, the latter from the
 * folder given as argument; left out where that is absent. Timeouts are short, so that the captures
 * are long against them. TCP windows are off, liberal and strict in turn.
 */
#include "base/arena.h"
#include "base/parse.h"
#include "conntrack/judge.h"
#include "traces/traces.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

enum { PACKETS = 20000, BURST = 64, SEED = 11, PATH_SIZE = 512 };

struct world {
	const char *folder; /* of captures; NULL: none */
	struct base_packet packets[BURST];
};

struct run {
	struct world *world;
	struct base_parser *parser;
	struct conntrack_judge *judge;
	uint64_t now_ns;
};

static void judge_batch(struct run *run, const struct traces_batch *batch)
{
	for (size_t at = 0; at < batch->count;) {
		struct base_burst burst = { 0 };
		for (; burst.count < BURST && at < batch->count; at++) {
			const struct traces_record *record = &batch->records[at];
			struct base_packet *packet = &run->world->packets[burst.count];
			base_packet_reset(packet);
			packet->data = (uint8_t *)(uintptr_t)(batch->bytes + record->offset);
			packet->link = record->link;
			packet->cap_len = record->cap_len;
			packet->wire_len = record->wire_len;
			if (record->time_ns > run->now_ns)
				run->now_ns = record->time_ns;
			packet->time_ns = run->now_ns;
			burst.packets[burst.count++] = packet;
		}
		base_parse_burst(run->parser, &burst, false);
		conntrack_judge_process(run->judge, &burst);
		conntrack_judge_advance(run->judge, run->now_ns, 4 * BURST);
	}
}

static void judge_stream(struct world *world, struct traces_packets *stream, const char *name,
	const struct conntrack_deletion_ops *deletion, bool hints, size_t turn)
{
	const struct conntrack_table_ops *table = conntrack_table_by_name(deletion->name);
	struct run run = { .world = world };
	struct base_parse_config parse;
	struct conntrack_config config;
	struct traces_batch batch;
	base_parse_config_defaults(&parse);
	conntrack_config_defaults(&config);
	config.table = table != NULL ? table : conntrack_table_at(0);
	config.deletion = deletion;
	config.no_close_hints = !hints;
	config.tcp_windows = (enum conntrack_tcp_windows)(turn % 3);
	config.entries_max = 3000; /* too few for some */
	for (unsigned int i = 1; i < CONNTRACK_STATES_COUNT; i++)
		config.timeout_ns[i] = (i % 3 + 1) * 200 * MS;
	assert_int_equal(base_arena_create(&config.arena, false), 0);
	assert_int_equal(base_parser_create(&run.parser, &parse), 0);
	assert_int_equal(conntrack_judge_create(&run.judge, &config), 0);
	for (;;) {
		int error = traces_packets_next(stream, &batch);
		if (error != 0 || batch.count == 0)
			break;
		judge_batch(&run, &batch);
	}
	conntrack_judge_drain(run.judge);
	const struct conntrack_verdict *verdict = conntrack_judge_verdict(run.judge);
	if (verdict->failures_sum != 0 || verdict->hits == 0 || verdict->misses == 0)
		fail_msg("%s, deletion %s, hints %s, windows %d: %llu failures in %llu packets, "
			 "the first: %s",
			name, deletion->name, hints ? "on" : "off", (int)config.tcp_windows,
			(unsigned long long)verdict->failures_sum,
			(unsigned long long)verdict->packets, verdict->first_failure);
	conntrack_judge_destroy(run.judge);
	base_parser_destroy(run.parser);
	base_arena_destroy(config.arena);
}

static void generated_traffic_satisfies_the_judge(void **state)
{
	static const enum traces_preset presets[] = { TRACES_PRESET_CAMPUS,
		TRACES_PRESET_BACKBONE };
	const struct conntrack_deletion_ops *deletion;
	for (size_t i = 0; (deletion = conntrack_deletion_at(i)) != NULL; i++) {
		for (size_t k = 0; k < BASE_ARRAY_COUNT(presets); k++) {
			struct traces_generate_options options;
			struct traces_packets *stream;
			char message[TRACES_MESSAGE_SIZE];
			traces_generate_options_defaults(&options);
			options.preset = presets[k];
			options.packets_per_s = 10000;
			options.packets = PACKETS;
			options.seed = SEED + i;
			assert_int_equal(traces_packets_generate(&stream, &options, message), 0);
			judge_stream(*state, stream, traces_preset_name(presets[k]), deletion,
				i % 2 == k, i);
			traces_packets_destroy(stream);
		}
	}
}

static void real_captures_satisfy_the_judge(void **state)
{
	static const char *const names[] = { "derived/composite_eth_full_us.pcap.gz",
		"gopacket/cip.pcap", "mercury/emix.pcap", "PcapPlusPlus/many-protocols.pcap" };
	struct world *world = *state;
	const struct conntrack_deletion_ops *deletion;
	struct traces_load_options options;
	if (world->folder == NULL)
		skip();
	traces_load_options_defaults(&options);
	for (size_t k = 0; k < BASE_ARRAY_COUNT(names); k++) {
		for (size_t i = 0; (deletion = conntrack_deletion_at(i)) != NULL; i++) {
			struct traces_load_report report;
			struct traces_packets *stream;
			char path[PATH_SIZE];
			snprintf(path, sizeof(path), "%s/%s", world->folder, names[k]);
			int error = traces_packets_open(&stream, path, &options, &report);
			if (error == -ENOENT)
				skip();
			assert_int_equal(error, 0);
			judge_stream(world, stream, names[k], deletion, i % 2 == k % 2, i + k);
			traces_packets_destroy(stream);
		}
	}
}

int main(int argc, char **argv)
{
	static struct world world;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(generated_traffic_satisfies_the_judge, &world),
		cmocka_unit_test_prestate(real_captures_satisfy_the_judge, &world),
	};
	world.folder = argc > 1 ? argv[1] : NULL;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
