/* SPDX-License-Identifier: BSD-2-Clause */
/* What options do when they are taken; refusals are in tests/golden/cli_errors.tsv. */
#include <errno.h>
#include "tests/unit/pipeline/test.h"

static void options_and_files_may_be_mixed(void **state)
{
	(void)state;
	struct options *options = test_options(
		OPTIONS_REPLAY, "a.pcap --workers 2 - --burst=32 --quiet b.pcap -- --c.pcap");
	assert_int_equal(options->files_count, 4);
	assert_string_equal(options->files[0], "a.pcap");
	assert_string_equal(options->files[1], "-");
	assert_string_equal(options->files[2], "b.pcap");
	assert_string_equal(options->files[3], "--c.pcap");
	assert_ptr_equal(options->config.paths, options->files);
	assert_int_equal(options->config.paths_count, 4);
	assert_int_equal(options->config.workers, 2);
	assert_int_equal(options->config.burst, 32);
	assert_true(options->quiet);
	options_destroy(options);
}

static void every_plain_option_reaches_its_field(void **state)
{
	(void)state;
	struct options *options = test_options(OPTIONS_REPLAY,
		"x --packets 1M --loop 3 --loop-shift --overlay 16 --overlay-shift 2ms --pad "
		"--rx cold --rx-ring 1Ki --clock wall --speed 2.5x --max-gap 0 --repeat 5 "
		"--seed 42 --ablate prefetch,burst --no-huge --hash siphash --zone 7 --inner "
		"--verify-checksums --keep-malformed --conns 1M --full evict --half-open 10 "
		"--drop-invalid --no-pickup --concat --json out.json --bypass icmp --bulk udp "
		"--duration 1s");
	const struct pipeline_config *config = &options->config;
	assert_int_equal(config->packets_max, 1000000);
	assert_int_equal(config->loops, 3);
	assert_true(config->loop_shift);
	assert_int_equal(config->overlay, 16);
	assert_int_equal(config->overlay_shift_ns, 2000000);
	assert_true(config->pad_to_wire);
	assert_int_equal(config->rx, PIPELINE_RX_COLD);
	assert_int_equal(config->rx_ring, 1024);
	assert_int_equal(config->clock, PIPELINE_CLOCK_WALL);
	assert_true(config->speed == 2.5);
	assert_int_equal(config->max_gap_ns, 0);
	assert_int_equal(config->repeats, 5);
	assert_int_equal(config->seed, 42);
	assert_int_equal(config->ablations, PIPELINE_ABLATE_PREFETCH | PIPELINE_ABLATE_BURST);
	assert_true(config->no_huge);
	assert_int_equal(config->parse.hash.kind, BASE_HASH_SIPHASH);
	assert_int_equal(config->parse.zone_source, BASE_ZONE_NONE);
	assert_int_equal(config->parse.zone, 7);
	assert_true(config->parse.inner);
	assert_true(config->parse.verify_checksums);
	assert_true(config->keep_malformed);
	assert_int_equal(config->conntrack.entries_max, 1000000);
	assert_int_equal(config->conntrack.full_policy, CONNTRACK_FULL_EVICT_TRANSIENT);
	assert_int_equal(config->conntrack.half_open_max, 10);
	assert_true(config->conntrack.drop_invalid);
	assert_false(config->conntrack.tcp_pickup);
	assert_true(config->concatenate);
	assert_string_equal(config->bypass_filter, "icmp");
	assert_string_equal(config->bulk_filter, "udp");
	assert_int_equal(config->duration_ns, 1000000000);
	assert_string_equal(options->json, "out.json");
	options_destroy(options);
}

static void switches_can_be_turned_off_again(void **state)
{
	(void)state;
	struct options *options =
		test_options(OPTIONS_REPLAY, "x --pad --pad=off --no-pickup --no-pickup=no");
	assert_false(options->config.pad_to_wire);
	assert_true(options->config.conntrack.tcp_pickup);
	options_destroy(options);
}

static void reframer_items_turn_it_on(void **state)
{
	(void)state;
	struct options *options = test_options(OPTIONS_REPLAY,
		"x --reframer "
		"delay=64us,run=32,held=1024,flows=512,short=16us,bulk=1ms,"
		"bypass=syn+rst,seen=4Ki");
	const struct reframer_config *reframer = &options->config.reframer;
	assert_true(options->config.reframer_enabled);
	assert_int_equal(reframer->delay_ns[REFRAMER_CLASS_NORMAL], 64000);
	assert_int_equal(reframer->run_packets_max, 32);
	assert_int_equal(reframer->held_packets_max, 1024);
	assert_int_equal(reframer->held_flows_max, 512);
	assert_int_equal(reframer->delay_ns[REFRAMER_CLASS_SHORT], 16000);
	assert_true(reframer->short_acks);
	assert_true(reframer->operator_bulk);
	assert_int_equal(reframer->delay_ns[REFRAMER_CLASS_BULK], 1000000);
	assert_true(reframer->bypass_syn);
	assert_true(reframer->bypass_rst);
	assert_false(reframer->bypass_first);
	assert_int_equal(reframer->seen_flows, 4096);
	options_destroy(options);

	options = test_options(OPTIONS_REPLAY, "x --reframer delay=1ms --reframer off");
	assert_false(options->config.reframer_enabled);
	options_destroy(options);
	options = test_options(OPTIONS_REPLAY, "x --reframer on");
	assert_true(options->config.reframer_enabled);
	options_destroy(options);
}

static void fewer_held_packets_mean_fewer_held_flows(void **state)
{
	char message[PIPELINE_MESSAGE_SIZE];
	(void)state;
	struct options *options = test_options(OPTIONS_REPLAY, "x --reframer held=16");
	assert_int_equal(options->config.reframer.held_flows_max, 16);
	assert_int_equal(pipeline_config_check(&options->config, message), 0);
	options_destroy(options);
}

static void timeouts_are_named_as_states(void **state)
{
	(void)state;
	const struct options_row *row = options_find(OPTIONS_REPLAY, "timeout");
	assert_int_equal(row->items_count, CONNTRACK_STATES_COUNT - 1 + 1);
	for (unsigned int i = CONNTRACK_STATE_NONE + 1; i < CONNTRACK_STATES_COUNT; i++) {
		char line[128];
		snprintf(line, sizeof(line), "x --timeout %s=%us,icmp=0", conntrack_state_name(i),
			i);
		struct options *options = test_options(OPTIONS_REPLAY, line);
		assert_int_equal(options->config.conntrack.timeout_ns[i],
			i == CONNTRACK_STATE_ICMP ? 0 : i * UINT64_C(1000000000));
		options_destroy(options);
	}
	/* ... but for the one that bounds another. */
	struct options *options = test_options(OPTIONS_REPLAY, "x --timeout tcp_unacknowledged=7s");
	assert_int_equal(options->config.conntrack.tcp_unacknowledged_ns, 7000000000);
	options_destroy(options);
}

static void chain_functions_keep_order_and_items(void **state)
{
	(void)state;
	struct options *options = test_options(OPTIONS_REPLAY,
		"x --chain stats,router:routes=1k:seed=9:default-route=off,"
		"firewall:rules=20k:default-deny:per-packet=on,"
		"nat:address=198.51.100.1:addresses=4:ports=2000-3000,"
		"lb:policy=round-robin:table=131071:backends=32,stats,firewall:file=rules.txt");
	const struct chain_config *chain = &options->config.chain;
	assert_int_equal(chain->functions_count, 7);
	assert_int_equal(chain->functions[0].kind, CHAIN_STATS);
	assert_int_equal(chain->functions[1].kind, CHAIN_ROUTER);
	assert_int_equal(chain->functions[1].router.routes_count, 1000);
	assert_int_equal(chain->functions[1].router.seed, 9);
	assert_false(chain->functions[1].router.default_route);
	assert_int_equal(chain->functions[2].firewall.rules_count, 20000);
	assert_true(chain->functions[2].firewall.default_deny);
	assert_true(chain->functions[2].firewall.per_packet);
	assert_int_equal(chain->functions[3].nat.address, 0xc6336401);
	assert_int_equal(chain->functions[3].nat.addresses_count, 4);
	assert_int_equal(chain->functions[3].nat.port_first, 2000);
	assert_int_equal(chain->functions[3].nat.port_last, 3000);
	assert_int_equal(chain->functions[4].lb.policy, CHAIN_LB_ROUND_ROBIN);
	assert_int_equal(chain->functions[4].lb.table_size, 131071);
	assert_int_equal(chain->functions[4].lb.backends_count, 32);
	assert_null(chain->functions[4].lb.backends);
	assert_int_equal(chain->functions[5].kind, CHAIN_STATS);
	assert_string_equal(chain->functions[6].firewall.rules_file, "rules.txt");
	options_destroy(options);

	options = test_options(OPTIONS_REPLAY, "x --chain stats,nat --chain lb");
	assert_int_equal(options->config.chain.functions_count, 1);
	options_destroy(options);
	options = test_options(OPTIONS_REPLAY, "x --chain stats,nat --chain none");
	assert_int_equal(options->config.chain.functions_count, 0);
	options_destroy(options);
}

static void backends_have_names_families_and_weights(void **state)
{
	static const uint8_t first[4] = { 10, 0, 0, 1 };
	static const uint8_t third[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };
	(void)state;
	struct options *options = test_options(OPTIONS_REPLAY,
		"x --chain lb:backend=web1@10.0.0.1*3:backend=10.0.0.2:backend=[2001:db8::1]*2");
	const struct chain_lb_config *lb = &options->config.chain.functions[0].lb;
	assert_int_equal(lb->backends_count, 3);
	assert_string_equal(lb->backends[0].name, "web1");
	assert_int_equal(lb->backends[0].family, 4);
	assert_int_equal(lb->backends[0].weight, 3);
	assert_memory_equal(lb->backends[0].address, first, 4);
	assert_string_equal(lb->backends[1].name, "10.0.0.2");
	assert_int_equal(lb->backends[1].weight, 1);
	assert_int_equal(lb->backends[2].family, 6);
	assert_memory_equal(lb->backends[2].address, third, 16);
	options_destroy(options);
}

static void sinks_and_sources_are_told_by_prefix(void **state)
{
	static const struct {
		const char *line;
		enum pipeline_sink_kind kind;
		enum traces_format format;
	} rows[] = {
		{ "x --sink null", PIPELINE_SINK_NULL, TRACES_FORMAT_PCAP_NS },
		{ "x --sink pcap:out:1.pcap", PIPELINE_SINK_FILE, TRACES_FORMAT_PCAP_NS },
		{ "x --sink pcap-us:out:1.pcap", PIPELINE_SINK_FILE, TRACES_FORMAT_PCAP_US },
		{ "x --sink pcapng:out:1.pcap", PIPELINE_SINK_FILE, TRACES_FORMAT_PCAPNG },
		{ "x --sink port:net_null0", PIPELINE_SINK_PORT, TRACES_FORMAT_PCAP_NS },
	};
	(void)state;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(rows); i++) {
		struct options *options = test_options(OPTIONS_REPLAY, rows[i].line);
		assert_int_equal(options->config.sink, rows[i].kind);
		if (rows[i].kind == PIPELINE_SINK_FILE) {
			assert_int_equal(options->config.sink_format, rows[i].format);
			assert_string_equal(options->config.sink_path, "out:1.pcap");
		} else if (rows[i].kind == PIPELINE_SINK_PORT) {
			assert_string_equal(options->config.sink_port, "net_null0");
		}
		options_destroy(options);
	}
	struct options *options =
		test_options(OPTIONS_REPLAY, "--source port:net_af_packet0,iface=eth0");
	assert_int_equal(options->config.source, PIPELINE_SOURCE_PORT);
	assert_string_equal(options->config.source_port, "net_af_packet0,iface=eth0");
	options_destroy(options);
}

static void generator_and_converter_have_their_own_options(void **state)
{
	(void)state;
	struct options *options = test_options(OPTIONS_TRACE_GEN,
		"--flows 64Ki --packets 1M --run-length 4 --order zipf:1.2 --frame 256 --pps 2M "
		"--seed 3 --tcp --ip6 --ns out.pcap");
	assert_int_equal(options->gen.flows, 65536);
	assert_int_equal(options->gen.packets, 1000000);
	assert_int_equal(options->synth.run_length, 4);
	assert_int_equal(options->synth.order, TRACES_ORDER_ZIPF);
	assert_true(options->synth.zipf_exponent == 1.2);
	assert_int_equal(options->gen.frame_bytes, 256);
	assert_int_equal(options->gen.packets_per_s, 2000000);
	assert_int_equal(options->gen.seed, 3);
	assert_true(options->gen.tcp);
	assert_true(options->synth.ip6);
	assert_true(options->nanoseconds);
	options_destroy(options);

	options = test_options(OPTIONS_TRACE_CONVERT, "--snaplen 64 in.pcap out.pcapng");
	assert_int_equal(options->convert.snaplen, 64);
	assert_int_equal(options->files_count, 2);
	options_destroy(options);
	options = test_options(OPTIONS_REPORT, "a.json -o out.html b.json");
	assert_string_equal(options->output, "out.html");
	assert_int_equal(options->files_count, 2);
	options_destroy(options);
	options = test_options(OPTIONS_REPORT, "a.json -oout.html");
	assert_string_equal(options->output, "out.html");
	options_destroy(options);
}

static void comparison_takes_all_ablations_unless_told(void **state)
{
	(void)state;
	struct options *options = test_options(OPTIONS_COMPARE, "x");
	assert_int_equal(options->compare_ablations, 15);
	options_destroy(options);
	options = test_options(OPTIONS_COMPARE, "x --ablations runs");
	assert_int_equal(options->compare_ablations, PIPELINE_ABLATE_RUNS);
	options_destroy(options);
	options = test_options(OPTIONS_COMPARE, "x --ablations none");
	assert_int_equal(options->compare_ablations, 0);
	options_destroy(options);
	for (unsigned int i = 0; i < OPTIONS_ABLATIONS_COUNT; i++) {
		char line[64];
		snprintf(line, sizeof(line), "x --ablate %s", options_ablation_name(i));
		options = test_options(OPTIONS_REPLAY, line);
		assert_int_equal(options->config.ablations, 1u << i);
		options_destroy(options);
	}
}

/* Lists of names keep one rule: "all", each name once, no empty name. */
static void lists_of_names_keep_one_rule(void **state)
{
	static const struct {
		enum options_command command;
		const char *option, *name;
	} lists[] = {
		{ OPTIONS_REPLAY, "ablate", "runs" },
		{ OPTIONS_COMPARE, "ablations", "runs" },
		{ OPTIONS_BENCH_LB, "policies", "jet" },
		{ OPTIONS_BENCH_DELETION, "strategies", "wheel" },
		{ OPTIONS_BENCH_SHARING, "sharing", "mutex" },
		{ OPTIONS_BENCH_TABLES, "tables", "bucket" },
		{ OPTIONS_INFER_VERIFY, "backends", "cpu" },
		{ OPTIONS_INFER_BENCH, "modes", "graph" },
	};
	(void)state;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(lists); i++) {
		char text[64], message[PIPELINE_MESSAGE_SIZE];
		struct options *options;
		const struct options_row *row = options_find(lists[i].command, lists[i].option);
		assert_non_null(row);
		assert_int_equal(options_create(&options, lists[i].command), 0);
		assert_int_equal(options_set(options, row, "all", message), 0);
		assert_int_equal(options_set(options, row, lists[i].name, message), 0);
		snprintf(text, sizeof(text), "%s,%s", lists[i].name, lists[i].name);
		assert_int_equal(options_set(options, row, text, message), -EINVAL);
		assert_non_null(strstr(message, "expected each name once"));
		snprintf(text, sizeof(text), "%s,", lists[i].name);
		assert_int_equal(options_set(options, row, text, message), -EINVAL);
		assert_int_equal(options_set(options, row, "", message), -EINVAL);
		options_destroy(options);
	}
}

/* No command may have two options of one name or letter, and every row must be usable. */
static void table_has_each_name_once_per_command(void **state)
{
	const struct options_row *row, *other;
	(void)state;
	for (size_t i = 0; (row = options_row_at(i)) != NULL; i++) {
		bool is_switch =
			row->kind == OPTIONS_KIND_SWITCH || row->kind == OPTIONS_KIND_SWITCH_OFF;
		assert_int_equal(is_switch, row->argument == NULL);
		assert_true(row->commands != 0);
		assert_true(row->help[0] != '\0');
		for (size_t j = i + 1; (other = options_row_at(j)) != NULL; j++) {
			if ((other->commands & row->commands) == 0)
				continue;
			assert_string_not_equal(other->name, row->name);
			assert_false(row->letter != 0 && other->letter == row->letter);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_and_files_may_be_mixed),
		cmocka_unit_test(every_plain_option_reaches_its_field),
		cmocka_unit_test(switches_can_be_turned_off_again),
		cmocka_unit_test(reframer_items_turn_it_on),
		cmocka_unit_test(fewer_held_packets_mean_fewer_held_flows),
		cmocka_unit_test(timeouts_are_named_as_states),
		cmocka_unit_test(chain_functions_keep_order_and_items),
		cmocka_unit_test(backends_have_names_families_and_weights),
		cmocka_unit_test(sinks_and_sources_are_told_by_prefix),
		cmocka_unit_test(generator_and_converter_have_their_own_options),
		cmocka_unit_test(comparison_takes_all_ablations_unless_told),
		cmocka_unit_test(lists_of_names_keep_one_rule),
		cmocka_unit_test(table_has_each_name_once_per_command),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
