/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline/test.h"

#include <errno.h>
#include <unistd.h>

/* Read YAML as a file called "x.yaml". */
static int read_text(struct options *options, const char *text, char *message)
{
	return config_file_parse(options, "x.yaml", (const uint8_t *)text, strlen(text), message);
}

static struct options *read_good(const char *text)
{
	char message[PIPELINE_MESSAGE_SIZE] = "";
	struct options *options;
	assert_int_equal(options_create(&options, OPTIONS_REPLAY), 0);
	if (read_text(options, text, message) != 0)
		fail_msg("refused: %s", message);
	return options;
}

static void a_whole_file_is_taken(void **state)
{
	(void)state;
	struct options *options = read_good("# an experiment\n"
					    "files: [a.pcap, 'b c.pcap']\n"
					    "workers: 2\n"
					    "loop-shift: yes\n"
					    "no-pickup: true\n"
					    "ablate: [prefetch, runs]\n"
					    "reframer:\n"
					    "  delay: 64us\n"
					    "  run: 32\n"
					    "  bypass: syn+first\n"
					    "timeout:\n"
					    "  tcp_established: 1h\n"
					    "chain:\n"
					    "  - name: stats\n"
					    "  - rules: 500\n"
					    "    name: firewall\n"
					    "  - name: lb\n"
					    "    backend:\n"
					    "      - web1@10.0.0.1*2\n"
					    "      - '2001:db8::1'\n"
					    "sink: pcapng:out.pcapng\n");
	const struct pipeline_config *config = &options->config;
	assert_int_equal(options->files_count, 2);
	assert_string_equal(options->files[1], "b c.pcap");
	assert_int_equal(config->workers, 2);
	assert_true(config->loop_shift);
	assert_false(config->conntrack.tcp_pickup);
	assert_int_equal(config->ablations, PIPELINE_ABLATE_PREFETCH | PIPELINE_ABLATE_RUNS);
	assert_true(config->reframer_enabled);
	assert_int_equal(config->reframer.delay_ns[REFRAMER_CLASS_NORMAL], 64000);
	assert_int_equal(config->reframer.run_packets_max, 32);
	assert_false(config->reframer.bypass_rst);
	assert_int_equal(config->conntrack.timeout_ns[CONNTRACK_STATE_TCP_ESTABLISHED],
		UINT64_C(3600000000000));
	assert_int_equal(config->chain.functions_count, 3);
	assert_int_equal(config->chain.functions[1].kind, CHAIN_FIREWALL);
	assert_int_equal(config->chain.functions[1].firewall.rules_count, 500);
	assert_int_equal(config->chain.functions[2].lb.backends_count, 2);
	assert_int_equal(config->chain.functions[2].lb.backends[1].family, 6);
	assert_string_equal(config->sink_path, "out.pcapng");
	options_destroy(options);
}

static void options_with_items_may_be_written_in_one_line(void **state)
{
	(void)state;
	struct options *options = read_good("reframer: delay=1ms,run=8\n"
					    "timeout: icmp=5s\n"
					    "chain: stats,lb:backends=4\n"
					    "files: a.pcap\n"
					    "ablate: dedup\n");
	assert_int_equal(options->config.reframer.delay_ns[REFRAMER_CLASS_NORMAL], 1000000);
	assert_int_equal(options->config.chain.functions_count, 2);
	assert_int_equal(options->config.chain.functions[1].lb.backends_count, 4);
	assert_int_equal(options->files_count, 1);
	assert_int_equal(options->config.ablations, PIPELINE_ABLATE_DEDUP);
	options_destroy(options);
	options = read_good("reframer: off\nchain: [stats, 'lb:backends=4:seed=2']\n");
	assert_false(options->config.reframer_enabled);
	assert_int_equal(options->config.chain.functions[1].lb.seed, 2);
	options_destroy(options);
}

static void empty_files_say_nothing(void **state)
{
	(void)state;
	options_destroy(read_good(""));
	options_destroy(read_good("# nothing\n"));
	options_destroy(read_good("{}\n"));
}

struct refusal {
	const char *text;
	const char *message;
};

static void check_refusals(const struct refusal *rows, size_t rows_count)
{
	for (size_t i = 0; i < rows_count; i++) {
		char message[PIPELINE_MESSAGE_SIZE] = "";
		struct options *options;
		assert_int_equal(options_create(&options, OPTIONS_REPLAY), 0);
		assert_int_equal(read_text(options, rows[i].text, message), -EINVAL);
		assert_string_equal(message, rows[i].message);
		options_destroy(options);
	}
}

static void refusals_name_file_line_and_what_was_expected(void **state)
{
	static const struct refusal rows[] = {
		{ "workers: 2\nburst: 0\n", "x.yaml:2: burst: got '0', expected 1..256" },
		{ "burst: 257\n", "x.yaml:1: burst: got '257', expected 1..256" },
		{ "burst:\n", "x.yaml:1: burst: got '', expected 1..256" },
		{ "max-gap: 5\n", "x.yaml:1: max-gap: got '5', expected a time from 0 to 365d, "
				  "such as 64us" },
		{ "workers: 1\nbrust: 4\n",
			"x.yaml:2: got 'brust', expected an option of sheaf replay, or files" },
		{ "config: y.yaml\n",
			"x.yaml:1: got 'config', expected an option of sheaf replay, or files" },
		{ "reframer:\n  run: 8\n  delya: 64us\n",
			"x.yaml:3: reframer: got 'delya', expected one of delay, run, held, flows, "
			"short, bulk, bypass, seen" },
		{ "reframer:\n  run: 8\n  delay: 64\n",
			"x.yaml:3: reframer: delay: got '64', expected a time from 0 to 365d, such "
			"as 64us" },
		{ "chain:\n  - name: stats\n  - name: lb\n    backends: 0\n",
			"x.yaml:4: chain: lb: backends: got '0', expected 1..1024" },
		{ "chain:\n  - name: stats\n  - name: lob\n",
			"x.yaml:3: chain: got 'lob', expected one of stats, router, firewall, nat, "
			"lb" },
		{ "chain:\n  - name: nat\n    rules: 5\n",
			"x.yaml:3: chain: nat: got 'rules', expected one of address, addresses, "
			"ports" },
		{ "chain:\n  - name: stats\n    rules: 5\n",
			"x.yaml:3: chain: stats: got 'rules', expected nothing: it has no "
			"settings" },
		{ "chain:\n  - stats\n  - lb:backends=x\n",
			"x.yaml:3: chain: lb: backends: got 'x', expected 1..1024" },
		{ "chain:\n  - name: lb\n    backend: [10.0.0.1, oops]\n",
			"x.yaml:3: chain: lb: backend: got 'oops', expected "
			"[NAME@]ADDRESS[*WEIGHT] "
			"such as web1@10.0.0.1*2" },
		{ "ablate: [prefetch, all]\n",
			"x.yaml:1: ablate: got 'all', expected none, all or a list of "
			"prefetch|runs|dedup|burst" },
		{ "pad: maybe\n", "x.yaml:1: pad: got 'maybe', expected on or off" },
	};
	(void)state;
	check_refusals(rows, BASE_ARRAY_COUNT(rows));
}

static void wrong_shapes_are_refused(void **state)
{
	static const struct refusal rows[] = {
		{ "- a\n- b\n", "x.yaml:1: got a list, expected a map" },
		{ "just text\n", "x.yaml:1: got one value, expected a map" },
		{ "workers: 2\nburst: [1]\n", "x.yaml:2: burst: got a list, expected one value" },
		{ "burst:\n  a: 1\n", "x.yaml:2: burst: got a map, expected one value" },
		{ "files:\n  a: 1\n", "x.yaml:2: files: got a map, expected one value" },
		{ "reframer:\n  delay: [1]\n",
			"x.yaml:2: reframer: delay: got a list, expected one value" },
		{ "chain:\n  - rules: 5\n", "x.yaml:2: chain: got no name, expected one" },
		{ "chain: [stats, {name: lb}]\n",
			"x.yaml:1: chain: got a map, expected one value" },
		{ "chain: [{name: lb}, stats]\n",
			"x.yaml:1: chain: got one value, expected a map" },
		{ "workers: 1\nworkers: 2\n", "x.yaml:2: key: stands twice, expected once" },
		{ "a: &x 1\n", "x.yaml:1: anchors: not supported" },
		{ "workers: 1\nburst: *x\n", "x.yaml:2: aliases: not supported" },
		{ "burst: !!int 4\n", "x.yaml:1: tags: not supported" },
		{ "workers: 1\n---\nworkers: 2\n", "x.yaml:2: second document: expected one" },
		{ "bypass: \"a\\0b\"\n", "x.yaml:1: value: expected no control characters" },
		{ "[a]: 1\n", "x.yaml:1: key: expected a name, not a list or a map" },
		{ "a: [[[[[[[[1]]]]]]]]\n",
			"x.yaml:1: nested too deep, expected at most 6 levels" },
	};
	(void)state;
	check_refusals(rows, BASE_ARRAY_COUNT(rows));
}

/* Whatever is not YAML is refused in one printable line that begins with file and line. */
static void rubbish_is_refused_in_one_line(void **state)
{
	static const char *const rows[] = { "a: b: c\n", "a: [1, 2\n", "\tburst: 1\n", "a: 'x\n",
		"\xff\xff", "burst: \x01\n", "%YAML 9.9\n---\na: 1\n", "a: \"\\q\"\n", "!<tag: x\n",
		"{{{{{{{{{{{{{{{{", "? \n", "- - - - - - - - - -", "a: |9x\n", "@\n" };
	(void)state;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(rows); i++) {
		char message[PIPELINE_MESSAGE_SIZE] = "";
		unsigned int line;
		struct options *options;
		assert_int_equal(options_create(&options, OPTIONS_REPLAY), 0);
		assert_int_equal(read_text(options, rows[i], message), -EINVAL);
		if (sscanf(message, "x.yaml:%u: ", &line) != 1 || line < 1)
			fail_msg("row %zu: '%s' does not begin with file and line", i, message);
		for (const char *at = message; *at != '\0'; at++)
			assert_true(*at >= 0x20 && *at < 0x7f);
		options_destroy(options);
	}
}

static void large_and_deep_files_are_refused(void **state)
{
	char message[PIPELINE_MESSAGE_SIZE] = "";
	enum { size = 200000 };
	static char text[size + 1];
	struct options *options;
	(void)state;
	memset(text, '[', size);
	text[size] = '\0';
	assert_int_equal(options_create(&options, OPTIONS_REPLAY), 0);
	assert_int_equal(read_text(options, text, message), -EINVAL);
	memcpy(text, "bypass: ", 8);
	memset(text + 8, 'a', size - 8);
	assert_int_equal(read_text(options, text, message), -EINVAL);
	assert_string_equal(message, "x.yaml:1: value: expected at most 4096 bytes");
	memcpy(text, "files: [", 8);
	for (size_t i = 8; i + 1 < size; i += 2)
		memcpy(text + i, "a,", 2);
	text[size - 1] = ']';
	assert_int_equal(read_text(options, text, message), -EINVAL);
	assert_string_equal(message, "x.yaml:1: too many values, expected at most 4096");
	options_destroy(options);
}

static void command_line_overrides_the_file(void **state)
{
	char path[] = "/tmp/sheaf_config_XXXXXX", line[256];
	int file = mkstemp(path);
	static const char text[] = "files: [a.pcap]\nworkers: 2\nburst: 16\nchain: stats,nat\n"
				   "reframer:\n  delay: 1ms\n  run: 8\n";
	(void)state;
	assert_true(file >= 0);
	assert_int_equal(write(file, text, sizeof(text) - 1), sizeof(text) - 1);
	close(file);
	snprintf(line, sizeof(line),
		"--workers 4 --reframer delay=64us --config %s --chain lb b.pcap c.pcap", path);
	struct options *options = test_options(OPTIONS_REPLAY, line);
	assert_int_equal(options->config.workers, 4);
	assert_int_equal(options->config.burst, 16);
	assert_int_equal(options->config.reframer.delay_ns[REFRAMER_CLASS_NORMAL], 64000);
	assert_int_equal(options->config.reframer.run_packets_max, 8);
	assert_int_equal(options->config.chain.functions_count, 1);
	assert_int_equal(options->files_count, 2);
	assert_string_equal(options->files[0], "b.pcap");
	options_destroy(options);
	snprintf(line, sizeof(line), "--config=%s", path);
	options = test_options(OPTIONS_REPLAY, line);
	assert_int_equal(options->files_count, 1);
	assert_string_equal(options->files[0], "a.pcap");
	options_destroy(options);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_file_is_taken),
		cmocka_unit_test(options_with_items_may_be_written_in_one_line),
		cmocka_unit_test(empty_files_say_nothing),
		cmocka_unit_test(refusals_name_file_line_and_what_was_expected),
		cmocka_unit_test(wrong_shapes_are_refused),
		cmocka_unit_test(rubbish_is_refused_in_one_line),
		cmocka_unit_test(large_and_deep_files_are_refused),
		cmocka_unit_test(command_line_overrides_the_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
