/* SPDX-License-Identifier: BSD-2-Clause */
/* Click's IPSummaryDump, as its documentation describes it. */
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "tests/support/packets.h"

#include <stdlib.h>

struct loaded {
	struct traces_trace *trace;
	struct traces_load_report report;
	const struct traces_record *records;
	const uint8_t *bytes;
	size_t count;
};

static int load_bytes(struct loaded *loaded, struct captures_directory *directory, const void *data,
	size_t size, enum traces_input input)
{
	struct captures_bytes file = { 0 };
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	options.input = input;
	captures_put(&file, data, size);
	const char *path = captures_write(directory, "a.dump", &file);
	captures_release(&file);
	int error = traces_trace_load(&loaded->trace, &path, 1, &options, &loaded->report);
	if (error)
		return error;
	loaded->records = traces_trace_records(loaded->trace, &loaded->count);
	loaded->bytes = traces_trace_bytes(loaded->trace);
	return 0;
}

static void load(struct loaded *loaded, void **state, const char *text)
{
	assert_int_equal(load_bytes(loaded, *state, text, strlen(text), TRACES_INPUT_AUTO), 0);
}

static const uint8_t *frame_of(const struct loaded *loaded, size_t index)
{
	assert_true(index < loaded->count);
	return loaded->bytes + loaded->records[index].offset;
}

static void lines_become_packets(void **state)
{
	struct loaded loaded;
	load(&loaded, state,
		"!IPSummaryDump 1.3\n"
		"!creator \"somebody\"\n"
		"!host nowhere\n"
		"!data timestamp ip_src sport ip_dst dport ip_proto ip_len tcp_flags ip_id\n"
		"# a remark\n"
		"\n"
		"996033261.451094 192.0.2.1 22 198.51.100.7 2943 T 132 SA 48759\n"
		"!bad truncated\n"
		"996033261.451095123 192.0.2.1 53 198.51.100.7 2944 U 60 - -\r\n"
		"996033262 192.0.2.1 - 198.51.100.7 - I 84\n"
		"996033263.5 192.0.2.1 - 198.51.100.7 - 89 68");
	assert_int_equal(loaded.report.damages_count, 0);
	assert_int_equal(loaded.count, 4);
	assert_true(loaded.report.nanoseconds);
	static const uint64_t times[] = { 996033261451094000, 996033261451095123,
		996033262000000000, 996033263500000000 };
	static const uint32_t caps[] = { 40, 28, 28, 20 }, wires[] = { 132, 60, 84, 68 };
	for (size_t i = 0; i < 4; i++) {
		assert_true(loaded.records[i].time_ns == times[i]);
		assert_int_equal(loaded.records[i].cap_len, caps[i]);
		assert_int_equal(loaded.records[i].wire_len, wires[i]);
		assert_int_equal(loaded.records[i].link, BASE_LINK_RAW);
		assert_int_equal(traces_net16(frame_of(&loaded, i) + 2), wires[i]);
		assert_int_equal(traces_net32(frame_of(&loaded, i) + 12), 0xc0000201);
		assert_int_equal(traces_net32(frame_of(&loaded, i) + 16), 0xc6336407);
	}
	const uint8_t *tcp = frame_of(&loaded, 0);
	assert_int_equal(traces_net16(tcp + 4), 48759);
	assert_int_equal(traces_net16(tcp + 20), 22);
	assert_int_equal(traces_net16(tcp + 22), 2943);
	assert_int_equal(tcp[32], 0x50);
	assert_int_equal(tcp[33], BASE_TCP_SYN | BASE_TCP_ACK);
	assert_int_equal(traces_net16(frame_of(&loaded, 1) + 24), 40); /* UDP's length */
	assert_int_equal(frame_of(&loaded, 3)[9], 89);
	traces_trace_destroy(loaded.trace);
}

/* Cut packets whose payload is filled with zeros are valid packets. */
static void checksums_hold_for_a_payload_of_zeros(void **state)
{
	struct loaded loaded;
	load(&loaded, state,
		"!IPSummaryDump 1.3\n!data ip_src sport ip_dst dport ip_proto payload_len\n"
		"1.2.3.4 5 6.7.8.9 10 T 1000\n1.2.3.4 5 6.7.8.9 10 U 999\n"
		"1.2.3.4 5 6.7.8.9 10 I 56\n1.2.3.4 - 6.7.8.9 - T 0\n0.0.0.0 0 0.0.0.0 0 U 0\n");
	assert_int_equal(loaded.count, 5);
	assert_int_equal(loaded.report.time_missing, 5);
	for (size_t i = 0; i < loaded.count; i++) {
		uint8_t packet[2000] = { 0 };
		memcpy(packet, frame_of(&loaded, i), loaded.records[i].cap_len);
		assert_true(packets_checksums_valid(packet, loaded.records[i].wire_len));
		assert_true(loaded.records[i].time_ns == i * 1000);
	}
	traces_trace_destroy(loaded.trace);
}

static void old_spellings_are_understood(void **state)
{
	struct loaded loaded;
	load(&loaded, state,
		"!IPSummaryDump 1.0\n"
		"!contents \"ts sec\" usec src sport dst dport proto \"tcp seq\" len frag fragoff\n"
		"7 8 10.0.0.1 1 10.0.0.2 2 6 99 500 F 3+\n"
		"!data ts_usec1 ip_src ip_dst ip_p ip_fragoff tcp_flags ip_tos ttl\n"
		"7000008 10.0.0.1 10.0.0.2 T 1480+ 24 0x10 9\n"
		"7000008 10.0.0.1 10.0.0.2 T 0! FXYN 3 9\n");
	assert_int_equal(loaded.report.damages_count, 0);
	assert_int_equal(loaded.count, 3);
	assert_string_equal(loaded.report.field_strange, "");
	for (size_t i = 0; i < 3; i++)
		assert_true(loaded.records[i].time_ns == 7000008000);
	/* In version 1.0 offsets are in units of 8 bytes, later ones of bytes. */
	assert_int_equal(traces_net16(frame_of(&loaded, 0) + 6), 0x2003);
	assert_int_equal(loaded.records[0].wire_len, 500);
	assert_int_equal(loaded.records[0].cap_len, 20); /* a later fragment has no ports */
	assert_int_equal(traces_net16(frame_of(&loaded, 1) + 6), 0x2000 | 1480);
	assert_int_equal(frame_of(&loaded, 1)[1], 0x10);
	assert_int_equal(frame_of(&loaded, 1)[8], 9);
	assert_int_equal(traces_net16(frame_of(&loaded, 2) + 6), 0x4000);
	assert_int_equal(traces_net16(frame_of(&loaded, 2) + 32), 0x5000 | 0x100 | 0x80 | 0x40 | 1);
	traces_trace_destroy(loaded.trace);
}

static void flow_and_protocol_lines_give_what_lines_leave_out(void **state)
{
	struct loaded loaded;
	load(&loaded, state,
		"!IPSummaryDump 1.3\n!data timestamp payload_len dport\n"
		"!flowid 10.0.0.1 7 10.0.0.2 8 U\n1 5 -\n1 5 9\n!proto T\n1 5 9\n"
		"!flowid 10.0.0.3 - 10.0.0.2 8\n1 5\n");
	assert_int_equal(loaded.report.damages_count, 0);
	assert_int_equal(loaded.count, 4);
	static const struct {
		uint32_t source;
		uint8_t protocol;
		uint16_t sport, dport;
	} expected[] = { { 0x0a000001, 17, 7, 8 }, { 0x0a000001, 17, 7, 9 },
		{ 0x0a000001, 6, 7, 9 }, { 0x0a000003, 6, 0, 8 } };
	for (size_t i = 0; i < 4; i++) {
		const uint8_t *frame = frame_of(&loaded, i);
		assert_int_equal(traces_net32(frame + 12), expected[i].source);
		assert_int_equal(frame[9], expected[i].protocol);
		assert_int_equal(traces_net16(frame + 20), expected[i].sport);
		assert_int_equal(traces_net16(frame + 22), expected[i].dport);
	}
	traces_trace_destroy(loaded.trace);
}

static void lines_that_cannot_be_read_are_located_and_passed_over(void **state)
{
	struct loaded loaded;
	const char *text = "!IPSummaryDump 1.3\n"
			   "1 2 3\n"
			   "!data timestamp ip_src ip_len payload bananas\n"
			   "1.5 10.0.0.1 40 \"a b\" x\n"
			   "1.5 10.0.0.300 40 \"a b\" x\n"
			   "-1.5 10.0.0.1 40\n"
			   "1.5 10.0.0.1 12\n"
			   "1.5 10.0.0.1 40x\n"
			   "1.5 10.0.0.1 99999999999\n"
			   "2.5 10.0.0.1 44\n";
	load(&loaded, state, text);
	assert_int_equal(loaded.count, 2);
	assert_int_equal(loaded.records[1].wire_len, 44);
	static const struct {
		const char *line, *reason;
		uint64_t packet;
	} expected[] = {
		{ "1 2 3", "packet before a !data line", 1 },
		{ "1.5 10.0.0.300", "no valid value of ip_src", 3 },
		{ "-1.5", "no valid value of timestamp", 4 },
		{ "1.5 10.0.0.1 12", "the packet is shorter than its IP header", 5 },
		{ "1.5 10.0.0.1 40x", "no valid value of ip_len", 6 },
		{ "1.5 10.0.0.1 99999999999", "no valid value of ip_len", 7 },
	};
	assert_int_equal(loaded.report.damages_count, BASE_ARRAY_COUNT(expected));
	for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
		const struct traces_damage *damage = &loaded.report.damages[i];
		assert_string_equal(damage->reason, expected[i].reason);
		assert_int_equal(damage->packet, expected[i].packet);
		assert_int_equal(damage->offset, strstr(text, expected[i].line) - text);
	}
	assert_int_equal(loaded.report.fields_ignored, 2);
	assert_string_equal(loaded.report.field_strange, "bananas");
	traces_trace_destroy(loaded.trace);
}

static void what_count_says_beyond_one_is_counted(void **state)
{
	struct loaded loaded;
	load(&loaded, state,
		"!IPSummaryDump 1.3\n!data ip_src count\n1.1.1.1 1\n1.1.1.1 5\n1.1.1.1 -\n");
	assert_int_equal(loaded.count, 3);
	assert_int_equal(loaded.report.packets_folded, 4);
	traces_trace_destroy(loaded.trace);
}

/* Lines longer than anything sensible, at every distance to the end of the file. */
static void a_line_without_end_is_passed_over(void **state)
{
	for (size_t length = 0; length < 2000000; length += 499999) {
		struct captures_bytes file = { 0 };
		const char *start = "!IPSummaryDump 1.3\n!data ip_src\n";
		captures_put(&file, start, strlen(start));
		for (size_t i = 0; i < length; i++)
			captures_put8(&file, 'x');
		captures_put(&file, "\n1.2.3.4\n", 9);
		struct loaded loaded;
		assert_int_equal(
			load_bytes(&loaded, *state, file.data, file.size, TRACES_INPUT_AUTO), 0);
		assert_int_equal(loaded.report.packets, 1);
		assert_int_equal(loaded.report.damages_count, length > 0);
		captures_release(&file);
		traces_trace_destroy(loaded.trace);
	}
}

static void put_net32(struct captures_bytes *file, uint32_t value)
{
	file->big_endian = true;
	captures_put32(file, value);
}

static void put_text(struct captures_bytes *file, const char *text)
{
	captures_put(file, text, strlen(text));
}

/* timestamp 8, ip_src 4, sport 2, ip_len 4, ip_proto 1, tcp_opt ?, ip_frag 1 */
static void put_binary_packet(struct captures_bytes *file, uint32_t seconds, uint8_t options_len)
{
	put_net32(file, 4 + 8 + 4 + 2 + 4 + 1 + 1 + options_len + 1);
	put_net32(file, seconds);
	put_net32(file, 250000);
	put_net32(file, 0x0a000001);
	captures_put16(file, 443);
	put_net32(file, 1500);
	captures_put8(file, 6);
	captures_put8(file, options_len);
	captures_put_pattern(file, 1, options_len);
	captures_put8(file, '!');
}

static void binary_records_become_packets(void **state)
{
	struct captures_bytes file = { 0 };
	put_text(&file, "!IPSummaryDump 1.3\n"
			"!data timestamp ip_src sport ip_len ip_proto tcp_opt ip_frag\n!binary\n");
	put_binary_packet(&file, 100, 0);
	put_binary_packet(&file, 101, 12);
	/* Metadata, its length with and without its own four bytes. */
	put_net32(&file, 0x80000000 | (4 + 10));
	put_text(&file, "!bad luck\n");
	put_net32(&file, 0x80000000 | 10);
	put_text(&file, "!bad luck\n");
	put_net32(&file, 0x80000000 | 9);
	put_text(&file, "!proto U\n");
	/* Fewer fields than there might be. */
	put_net32(&file, 4 + 12);
	put_net32(&file, 102);
	put_net32(&file, 0);
	put_net32(&file, 0x0a000002);
	struct loaded loaded;
	assert_int_equal(load_bytes(&loaded, *state, file.data, file.size, TRACES_INPUT_AUTO), 0);
	assert_int_equal(loaded.report.damages_count, 0);
	assert_int_equal(loaded.count, 3);
	for (size_t i = 0; i < 2; i++) {
		assert_true(loaded.records[i].time_ns == (100 + i) * 1000000000 + 250000000);
		assert_int_equal(loaded.records[i].wire_len, 1500);
		assert_int_equal(loaded.records[i].cap_len, 40);
		assert_int_equal(traces_net16(frame_of(&loaded, i) + 6), 0x4000);
		assert_int_equal(traces_net16(frame_of(&loaded, i) + 20), 443);
	}
	assert_int_equal(loaded.records[2].cap_len, 28);
	assert_int_equal(frame_of(&loaded, 2)[9], BASE_PROTOCOL_UDP);
	traces_trace_destroy(loaded.trace);

	/* Cut anywhere: whole records before the cut, and the cut is located. */
	size_t binary =
		(size_t)((uint8_t *)memmem(file.data, file.size, "!binary\n", 8) - file.data) + 8;
	for (size_t size = binary; size < file.size; size++) {
		assert_int_equal(
			load_bytes(&loaded, *state, file.data, size, TRACES_INPUT_AUTO), 0);
		assert_true(loaded.count <= 2);
		assert_true(loaded.report.damages_count <= 1);
		traces_trace_destroy(loaded.trace);
	}
	captures_release(&file);
}

static void binary_damage_ends_the_file_where_it_stands(void **state)
{
	static const struct {
		uint32_t length;
		const char *reason;
	} cases[] = {
		{ 3, "record is shorter than its length field" },
		{ 0x7fffffff, "record is longer than any" },
		{ 5000, "file ends inside a record" },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		struct captures_bytes file = { 0 };
		put_text(&file,
			"!IPSummaryDump 1.3\n"
			"!data timestamp ip_src sport ip_len ip_proto tcp_opt ip_frag\n!binary\n");
		put_binary_packet(&file, 100, 3);
		size_t offset = file.size;
		put_net32(&file, cases[i].length);
		put_text(&file, "something");
		struct loaded loaded;
		assert_int_equal(
			load_bytes(&loaded, *state, file.data, file.size, TRACES_INPUT_AUTO), 0);
		assert_int_equal(loaded.count, 1);
		assert_int_equal(loaded.report.damages_count, 1);
		assert_string_equal(loaded.report.damages[0].reason, cases[i].reason);
		assert_int_equal(loaded.report.damages[0].offset, offset);
		captures_release(&file);
		traces_trace_destroy(loaded.trace);
	}
}

static void fields_without_a_width_are_refused_in_binary(void **state)
{
	struct loaded loaded;
	const char *text = "!IPSummaryDump 1.3\n!data ip_src bananas\n!binary\nabcd";
	assert_int_equal(
		load_bytes(&loaded, *state, text, strlen(text), TRACES_INPUT_AUTO), -EBADMSG);
	assert_non_null(strstr(
		loaded.report.message, "field 2 of the binary dump has no known width: bananas"));
}

static void the_format_is_known_by_its_first_line_or_said(void **state)
{
	struct loaded loaded;
	const char *text = "!data ip_src\n1.2.3.4\n";
	load(&loaded, state, text);
	assert_int_equal(loaded.count, 1);
	traces_trace_destroy(loaded.trace);
	load(&loaded, state, "!IPSummaryDump 1.3\n");
	assert_int_equal(loaded.count, 0);
	traces_trace_destroy(loaded.trace);
	text = "!flowid 1.2.3.4 5 6.7.8.9 10\n!data timestamp\n5\n";
	assert_int_equal(
		load_bytes(&loaded, *state, text, strlen(text), TRACES_INPUT_AUTO), -EBADMSG);
	assert_int_equal(load_bytes(&loaded, *state, text, strlen(text), TRACES_INPUT_IPSUM), 0);
	assert_int_equal(loaded.count, 1);
	traces_trace_destroy(loaded.trace);
	assert_int_equal(
		load_bytes(&loaded, *state, text, strlen(text), TRACES_INPUT_CAPTURE), -EBADMSG);
}

/* What the writer makes of chosen packets, byte by byte. */
static void written_dumps_are_as_click_writes_them(void **state)
{
	const char *path = captures_path(*state, "out.dump");
	struct traces_writer_options options;
	struct traces_writer *writer;
	struct traces_writer_losses losses;
	uint8_t frame[256];
	traces_writer_options_defaults(&options, path, false);
	assert_int_equal(options.format, TRACES_FORMAT_IPSUM);
	options.comment = "a test";
	options.fields = "timestamp ip_src sport ip_dst dport ip_proto ip_len ip_fragoff ip_frag "
			 "tcp_flags icmp_type payload_len wire_len eth_dst";
	assert_int_equal(traces_writer_open(&writer, path, &options), 0);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0x0a000001, 1, 0xfffefdfc, 65535);
	spec.tcp_flags = BASE_TCP_FIN | BASE_TCP_PSH | BASE_TCP_ACK;
	spec.payload_len = 10;
	uint32_t size = (uint32_t)packets_build(frame, sizeof(frame), &spec);
	traces_writer_write(writer, 1000000001999, BASE_LINK_ETHERNET, frame, size, size);
	traces_writer_write(writer, 5, BASE_LINK_ETHERNET, frame, 14 + 20 + 3, size);
	spec = packets_ip4(BASE_PROTOCOL_ICMP, 1, 2, 3, 4);
	spec.icmp_type = 8;
	size = (uint32_t)packets_build(frame, sizeof(frame), &spec);
	traces_put_net16(frame + 14 + 6, 0x2000);
	traces_writer_write(writer, 0, BASE_LINK_ETHERNET, frame, size, size);
	spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	size = (uint32_t)packets_build(frame, sizeof(frame), &spec);
	traces_writer_write(writer, 0, BASE_LINK_ETHERNET, frame, size, size);
	traces_writer_losses(writer, &losses);
	assert_int_equal(losses.left_out, 1);
	assert_int_equal(losses.time_rounded, 2);
	assert_int_equal(traces_writer_close(writer), 0);
	struct captures_bytes written = captures_read(path);
	captures_put8(&written, '\0');
	char mac[] = "02-00-00-00-00-02";
	const char *expected =
		"!IPSummaryDump 1.3\n!creator \"a test\"\n"
		"!data timestamp ip_src sport ip_dst dport ip_proto ip_len ip_fragoff ip_frag "
		"tcp_flags icmp_type payload_len wire_len eth_dst\n"
		"1000.000001 10.0.0.1 1 255.254.253.252 65535 T 50 0 . FPA - 10 64 %M\n"
		"0.000000 10.0.0.1 1 255.254.253.252 - T 50 0 . - - - 64 %M\n"
		"0.000000 0.0.0.1 - 0.0.0.3 - I 28 0+ F - 8 0 42 %M\n";
	char text[1024];
	size_t used = 0;
	snprintf(mac, sizeof(mac), "%02X-%02X-%02X-%02X-%02X-%02X", frame[0], frame[1], frame[2],
		frame[3], frame[4], frame[5]);
	for (const char *c = expected; *c != '\0'; c++) {
		if (c[0] == '%' && c[1] == 'M') {
			memcpy(text + used, mac, 17);
			used += 17;
			c++;
		} else {
			text[used++] = *c;
		}
	}
	text[used] = '\0';
	assert_string_equal((const char *)written.data, text);
	captures_release(&written);
}

static void fields_to_write_are_checked(void **state)
{
	char message[TRACES_MESSAGE_SIZE];
	(void)state;
	assert_int_equal(traces_ipsum_check_fields("ip_src dport", message), 0);
	assert_int_equal(traces_ipsum_check_fields("src \"tcp seq\"", message), 0);
	assert_int_equal(traces_ipsum_check_fields("", message), -EINVAL);
	assert_int_equal(traces_ipsum_check_fields("ip_src tcp_opt", message), -EINVAL);
	assert_string_equal(message, "tcp_opt");
	assert_int_equal(traces_ipsum_check_fields("ip_src bananas", message), -EINVAL);
	assert_string_equal(message, "bananas");
}

static void a_time_that_a_binary_dump_cannot_hold_is_refused(void **state)
{
	uint8_t frame[64];
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	uint32_t size = (uint32_t)packets_build(frame, sizeof(frame), &spec);
	struct traces_writer *writer;
	assert_int_equal(traces_writer_create(&writer, captures_path(*state, "x.dump"),
				 TRACES_FORMAT_IPSUM_BINARY, 0),
		0);
	assert_int_equal(traces_writer_write(writer, UINT64_C(4294967296000000000),
				 BASE_LINK_ETHERNET, frame, size, size),
		-ERANGE);
	assert_non_null(strstr(traces_writer_message(writer), "packet 1 is after 2106"));
	traces_writer_abandon(writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_become_packets),
		cmocka_unit_test(checksums_hold_for_a_payload_of_zeros),
		cmocka_unit_test(old_spellings_are_understood),
		cmocka_unit_test(flow_and_protocol_lines_give_what_lines_leave_out),
		cmocka_unit_test(lines_that_cannot_be_read_are_located_and_passed_over),
		cmocka_unit_test(what_count_says_beyond_one_is_counted),
		cmocka_unit_test(a_line_without_end_is_passed_over),
		cmocka_unit_test(binary_records_become_packets),
		cmocka_unit_test(binary_damage_ends_the_file_where_it_stands),
		cmocka_unit_test(fields_without_a_width_are_refused_in_binary),
		cmocka_unit_test(the_format_is_known_by_its_first_line_or_said),
		cmocka_unit_test(written_dumps_are_as_click_writes_them),
		cmocka_unit_test(fields_to_write_are_checked),
		cmocka_unit_test(a_time_that_a_binary_dump_cannot_hold_is_refused),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
