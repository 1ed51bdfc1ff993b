/* SPDX-License-Identifier: BSD-2-Clause */
/* Random packets through every format and back: what returns is what went in, but for what the
 * format is known to lose. Expected is what the specs say that the packets were built from. */
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "tests/support/packets.h"

#include <stdlib.h>

enum { ROUNDS = 60, PACKETS_MAX = 300, FRAME_MAX = 2048 };

struct made {
	struct packets_spec spec;
	uint64_t time_ns;
	enum base_link link;
	uint32_t cap_len, wire_len;
	uint16_t fragment; /* flags and offset of an IPv4 header */
	uint8_t frame[FRAME_MAX];
};

static uint32_t below(struct base_rng *rng, uint32_t bound)
{
	return (uint32_t)base_rng_below(rng, bound);
}

static struct packets_spec make_spec(struct base_rng *rng)
{
	static const uint8_t protocols[] = { 6, 6, 17, 17, 1, 47, 132, 89 };
	bool ip6 = below(rng, 5) == 0;
	uint8_t protocol = protocols[below(rng, BASE_ARRAY_COUNT(protocols))];
	if (ip6 && protocol == 1)
		protocol = 58;
	uint32_t source = (uint32_t)base_rng_u64(rng), destination = (uint32_t)base_rng_u64(rng);
	uint16_t ports[2] = { (uint16_t)base_rng_u64(rng), (uint16_t)base_rng_u64(rng) };
	struct packets_spec spec =
		ip6 ? packets_ip6(protocol, source, ports[0], destination, ports[1])
		    : packets_ip4(protocol, source, ports[0], destination, ports[1]);
	spec.payload_len = (uint16_t)below(rng, 1400);
	spec.tcp_flags = (uint8_t)base_rng_u64(rng);
	spec.seq = (uint32_t)base_rng_u64(rng);
	spec.ack = (uint32_t)base_rng_u64(rng);
	spec.icmp_type = below(rng, 2) ? 8 : 0;
	spec.ip_options_len = ip6 ? 0 : (uint16_t)(4 * below(rng, 3));
	spec.tags_count = below(rng, 3) == 0 ? below(rng, 3) : 0;
	for (unsigned int i = 0; i < spec.tags_count; i++)
		spec.tags[i] = (struct packets_tag){ 0x8100, (uint16_t)below(rng, 4096) };
	return spec;
}

static void make_packet(struct made *made, struct base_rng *rng, enum base_link link, uint64_t time)
{
	made->spec = make_spec(rng);
	made->link = made->spec.link = link;
	if (link != BASE_LINK_ETHERNET)
		made->spec.tags_count = 0;
	made->time_ns = time;
	made->fragment = 0;
	made->wire_len = (uint32_t)packets_build(made->frame, FRAME_MAX, &made->spec);
	made->cap_len = made->wire_len;
	if (made->spec.family == 4 && below(rng, 4) == 0) {
		static const uint16_t fragments[] = { 0x4000, 0x2000, 0x2010, 0x0123, 0x8000 };
		made->fragment = fragments[below(rng, 5)];
		traces_put_net16(made->frame + packets_l3_offset(&made->spec) + 6, made->fragment);
	}
	if (below(rng, 3) == 0)
		made->cap_len = below(rng, made->wire_len + 1);
	if (below(rng, 50) == 0)
		made->cap_len = made->wire_len = 0; /* nothing at all */
}

static struct made *make_all(struct base_rng *rng, size_t count, bool mixed)
{
	struct made *made = calloc(count + 1, sizeof(*made));
	assert_non_null(made);
	enum base_link link = (enum base_link)below(rng, BASE_LINKS_COUNT);
	uint64_t time = base_rng_below(rng, UINT64_C(4000000000000000000));
	for (size_t i = 0; i < count; i++) {
		/* Also backwards. */
		uint64_t step = base_rng_below(rng, 3000000000);
		time = below(rng, 10) == 0 && time > step ? time - step : time + step;
		if (mixed)
			link = (enum base_link)below(rng, BASE_LINKS_COUNT);
		make_packet(&made[i], rng, link, time);
	}
	return made;
}

static bool write_all(const char *path, const struct traces_writer_options *options,
	const struct made *made, size_t count)
{
	struct traces_writer *writer;
	assert_int_equal(traces_writer_open(&writer, path, options), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(traces_writer_write(writer, made[i].time_ns, made[i].link,
					 made[i].frame, made[i].cap_len, made[i].wire_len),
			0);
	return traces_writer_close(writer) == 0;
}

/* ---- captures ---- */

static void check_capture(const struct traces_trace *trace, const struct made *made, size_t count,
	bool microseconds, uint32_t snaplen)
{
	size_t read_count;
	const struct traces_record *records = traces_trace_records(trace, &read_count);
	assert_int_equal(read_count, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t time_ns = made[i].time_ns;
		uint32_t cap_len = made[i].cap_len < snaplen ? made[i].cap_len : snaplen;
		assert_true(records[i].time_ns == (microseconds ? time_ns / 1000 * 1000 : time_ns));
		assert_int_equal(records[i].link, made[i].link);
		assert_int_equal(records[i].cap_len, cap_len);
		assert_int_equal(records[i].wire_len, made[i].wire_len);
		assert_memory_equal(
			traces_trace_bytes(trace) + records[i].offset, made[i].frame, cap_len);
	}
}

static void captures_come_back_whole(void **state)
{
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		print_message(seed == 1 ? "seeds from 1\n" : "");
		size_t count = below(&rng, PACKETS_MAX);
		struct traces_writer_options options;
		traces_writer_options_defaults(&options, "x", true);
		options.format = (enum traces_format)below(&rng, TRACES_FORMAT_PCAPNG + 1);
		options.compression = (enum traces_compression)below(&rng, 3);
		options.snaplen = below(&rng, 3) == 0 ? 1 + below(&rng, 1000) : 0;
		struct made *made = make_all(&rng, count, options.format == TRACES_FORMAT_PCAPNG);
		const char *path = captures_path(*state, "model");
		assert_true(write_all(path, &options, made, count));
		struct traces_load_report report;
		struct traces_trace *trace;
		if (captures_load(&trace, path, &report) != 0)
			fail_msg("seed %llu: %s", (unsigned long long)seed, report.message);
		check_capture(trace, made, count, options.format == TRACES_FORMAT_PCAP_US,
			options.snaplen == 0 ? TRACES_RECORD_BYTES_MAX : options.snaplen);
		traces_trace_destroy(trace);
		free(made);
	}
}

/* ---- summaries ---- */

static uint32_t transport_captured(const struct made *made)
{
	uint32_t headers =
		(uint32_t)packets_l3_offset(&made->spec) + 20 + made->spec.ip_options_len;
	return made->cap_len > headers ? made->cap_len - headers : 0;
}

/* Is there a whole IPv4 header? */
static bool is_summarised(const struct made *made)
{
	return made->spec.family == 4 &&
	       made->cap_len >= packets_l3_offset(&made->spec) + TRACES_IP4_BYTES;
}

static uint32_t expected_ports(const struct made *made)
{
	uint8_t protocol = made->spec.protocol;
	bool ports = protocol == 6 || protocol == 17 || protocol == 132;
	if (!ports || (made->fragment & 0x1fff) != 0)
		return 0;
	uint32_t captured = transport_captured(made), value = 0;
	if (captured >= 2)
		value = (uint32_t)made->spec.source_port << 16;
	return captured >= 4 ? value | made->spec.destination_port : value;
}

static void check_packet(const struct traces_record *record, const uint8_t *ip,
	const struct made *made, bool tuples, bool microseconds)
{
	assert_int_equal(record->link, BASE_LINK_RAW);
	assert_memory_equal(ip + 12, made->spec.source, 4);
	assert_memory_equal(ip + 16, made->spec.destination, 4);
	assert_int_equal(ip[9], made->spec.protocol);
	bool first = tuples || (made->fragment & 0x1fff) == 0;
	bool has_ports =
		made->spec.protocol == 6 || made->spec.protocol == 17 || made->spec.protocol == 132;
	if (first && has_ports && record->cap_len >= 24)
		assert_int_equal(traces_net32(ip + 20), expected_ports(made));
	if (tuples)
		return;
	uint64_t time_ns = made->time_ns;
	assert_true(record->time_ns == (microseconds ? time_ns / 1000 * 1000 : time_ns));
	uint32_t length = made->wire_len - (uint32_t)packets_l3_offset(&made->spec);
	assert_int_equal(record->wire_len, length);
	/* Text has no place for the reserved bit. */
	assert_int_equal(traces_net16(ip + 6) & 0x7fff, made->fragment & 0x7fff);
	if (made->spec.protocol == 6 && first && transport_captured(made) >= 14) {
		assert_int_equal(traces_net32(ip + 24), made->spec.seq);
		assert_int_equal(traces_net32(ip + 28), made->spec.ack);
		assert_int_equal(ip[33], made->spec.tcp_flags);
	}
}

static void check_summary(const char *path, const struct traces_writer_options *options,
	const struct made *made, size_t count, uint64_t seed)
{
	bool tuples = options->format == TRACES_FORMAT_TUPLES;
	struct traces_load_options load_options;
	struct traces_load_report report;
	struct traces_trace *trace;
	size_t read_count, at = 0;
	traces_load_options_defaults(&load_options);
	load_options.input = tuples ? TRACES_INPUT_TUPLES : TRACES_INPUT_AUTO;
	if (traces_trace_load(&trace, &path, 1, &load_options, &report) != 0)
		fail_msg("seed %llu: %s", (unsigned long long)seed, report.message);
	assert_int_equal(report.damages_count, 0);
	const struct traces_record *records = traces_trace_records(trace, &read_count);
	for (size_t i = 0; i < count; i++) {
		if (!is_summarised(&made[i]))
			continue;
		assert_true(at < read_count);
		check_packet(&records[at], traces_trace_bytes(trace) + records[at].offset, &made[i],
			tuples, !options->nanoseconds);
		at++;
	}
	assert_int_equal(at, read_count);
	traces_trace_destroy(trace);
}

static void summaries_keep_their_fields(void **state)
{
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		size_t count = below(&rng, PACKETS_MAX);
		struct traces_writer_options options;
		traces_writer_options_defaults(&options, "x", below(&rng, 2));
		options.format = (enum traces_format)(TRACES_FORMAT_IPSUM + below(&rng, 3));
		options.compression = (enum traces_compression)below(&rng, 3);
		struct made *made = make_all(&rng, count, true);
		const char *path = captures_path(*state, "model");
		assert_true(write_all(path, &options, made, count));
		check_summary(path, &options, made, count, seed);
		free(made);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captures_come_back_whole),
		cmocka_unit_test(summaries_keep_their_fields),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
