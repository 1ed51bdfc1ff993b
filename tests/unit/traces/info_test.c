/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "tests/support/packets.h"

#include <stdio.h>
#include <stdlib.h>

static struct traces_trace *trace_new(void)
{
	struct traces_trace *trace;
	assert_int_equal(traces_trace_create(&trace), 0);
	return trace;
}

static void append(struct traces_trace *trace, uint64_t time_ns, enum base_link link,
	const uint8_t *frame, size_t cap_len, size_t wire_len)
{
	struct traces_record record = {
		.time_ns = time_ns,
		.cap_len = (uint32_t)cap_len,
		.wire_len = (uint32_t)wire_len,
		.link = (uint8_t)link,
	};
	assert_int_equal(traces_trace_append(trace, &record, frame), 0);
}

static void append_spec(
	struct traces_trace *trace, uint64_t time_ns, const struct packets_spec *spec)
{
	uint8_t frame[4096];
	size_t size = packets_build(frame, sizeof(frame), spec);
	append(trace, time_ns, spec->link, frame, size, size);
}

static struct packets_spec tcp(uint8_t flags)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 0x0a000001, 1000, 0x0a000002, 80);
	spec.tcp_flags = flags;
	return spec;
}

static struct traces_info compute(
	struct traces_trace *trace, const struct traces_info_options *options)
{
	struct traces_info info;
	assert_int_equal(traces_info_compute(&info, trace, options), 0);
	assert_int_equal(
		info.flow_packets + info.non_ip_packets + info.malformed_packets, info.packets);
	traces_trace_destroy(trace);
	return info;
}

static void an_empty_trace_has_zeros_everywhere(void **state)
{
	(void)state;
	struct traces_info info = compute(trace_new(), NULL);
	struct traces_info zeros = { .flows_max = TRACES_INFO_FLOWS_MAX };
	assert_memory_equal(&info, &zeros, sizeof(info));
}

static void packets_bytes_and_flows_are_counted_by_kind(void **state)
{
	(void)state;
	struct traces_trace *trace = trace_new();
	struct packets_spec forward = tcp(BASE_TCP_ACK), back = packets_reverse(&forward);
	struct packets_spec udp6 = packets_ip6(BASE_PROTOCOL_UDP, 1, 53, 2, 53);
	append_spec(trace, 5000, &forward);
	append_spec(trace, 7000, &back);
	append_spec(trace, 6000, &udp6); /* earlier than the packet before it */
	uint8_t arp[60] = { [12] = 0x08, [13] = 0x06 };
	append(trace, 9000, BASE_LINK_ETHERNET, arp, sizeof(arp), sizeof(arp));
	uint8_t broken[60] = { [12] = 0x08, [13] = 0x00, [14] = 0x41 };
	append(trace, 9500, BASE_LINK_ETHERNET, broken, sizeof(broken), sizeof(broken));
	struct traces_info info = compute(trace, NULL);
	assert_int_equal(info.packets, 5);
	assert_int_equal(info.flows, 2);
	assert_int_equal(info.flows_unidirectional, 3);
	assert_int_equal(info.flow_packets, 3);
	assert_int_equal(info.non_ip_packets, 1);
	assert_int_equal(info.malformed_packets, 1);
	assert_int_equal(info.refusals[BASE_DROP_IP4_HEADER_LENGTH], 1);
	assert_int_equal(info.ip4_packets, 2);
	assert_int_equal(info.ip6_packets, 1);
	assert_int_equal(info.protocol_packets[BASE_PROTOCOL_TCP], 2);
	assert_int_equal(info.protocol_packets[BASE_PROTOCOL_UDP], 1);
	assert_int_equal(info.protocol_bytes[BASE_PROTOCOL_TCP], 2 * 54);
	assert_int_equal(info.first_ns, 5000);
	assert_int_equal(info.last_ns, 9500);
	assert_int_equal(info.duration_ns, 4500);
	assert_int_equal(info.time_backwards, 1);
	assert_int_equal(info.links[BASE_LINK_ETHERNET], 5);
	assert_int_equal(info.flow_runs, 4); /* 2 tcp, udp, arp, broken */
	assert_true(info.slf > 1.249 && info.slf < 1.251);
}

static void runs_and_insertions_follow_the_order(void **state)
{
	(void)state;
	struct traces_trace *trace = trace_new();
	const uint64_t s = UINT64_C(1000000000);
	for (uint32_t i = 0; i < 128; i++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001 + i % 2, 1000, 0x0a000009, 80);
		append_spec(trace, i * s * 10, &spec);
	}
	struct traces_info_options options;
	traces_info_options_defaults(&options);
	assert_int_equal(options.idle_timeout_ns, 5 * s);
	struct traces_info info = compute(trace, &options);
	assert_int_equal(info.flow_runs, 128);
	assert_true(info.slf == 1.0);
	assert_true(info.slf_window_packets[0] == 32.0); /* 2 flows in each of 2 windows */
	assert_true(info.slf_window_packets[1] == 64.0);
	assert_true(info.slf_window_time[2] == 1.0);
	assert_int_equal(info.insertions, 128);
	assert_int_equal(info.peak_live, 1);
}

static void a_flow_lives_for_exactly_the_idle_timeout(void **state)
{
	(void)state;
	for (uint64_t late = 0; late < 2; late++) {
		struct traces_trace *trace = trace_new();
		struct packets_spec spec = tcp(BASE_TCP_ACK);
		append_spec(trace, 1000, &spec);
		append_spec(trace, 1000 + 5000 + late, &spec);
		struct traces_info_options options;
		traces_info_options_defaults(&options);
		options.idle_timeout_ns = 5000;
		assert_int_equal(compute(trace, &options).insertions, 1 + late);
	}
}

static void the_zone_and_the_inner_header_join_the_key_when_asked(void **state)
{
	(void)state;
	uint8_t inner[2][200];
	size_t inner_size[2];
	for (uint16_t i = 0; i < 2; i++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0b000001, (uint16_t)(500 + i), 2, 80);
		spec.link = BASE_LINK_RAW;
		inner_size[i] = packets_build(inner[i], sizeof(inner[i]), &spec);
	}
	struct traces_info_options options;
	traces_info_options_defaults(&options);
	for (int variant = 0; variant < 3; variant++) {
		options.vlan_zone = variant == 1;
		options.inner = variant == 2;
		struct traces_trace *trace = trace_new();
		for (uint16_t i = 0; i < 2; i++) {
			struct packets_spec spec =
				packets_ip4(BASE_PROTOCOL_IPIP, 0x0a000001, 0, 0x0a000002, 0);
			spec.tags_count = 1;
			spec.tags[0] = (struct packets_tag){ 0x8100, (uint16_t)(10 + i) };
			spec.payload = inner[i];
			spec.payload_len = (uint16_t)inner_size[i];
			append_spec(trace, i, &spec);
		}
		struct traces_info info = compute(trace, &options);
		assert_int_equal(info.flows, variant == 0 ? 1 : 2);
		assert_int_equal(info.tunnels, 2);
		assert_int_equal(info.vlan, 2);
	}
}

static void traits_of_the_link_layer_are_counted(void **state)
{
	(void)state;
	struct traces_trace *trace = trace_new();
	struct packets_spec spec = tcp(BASE_TCP_ACK);
	spec.tags[0] = (struct packets_tag){ 0x8100, 5 };
	spec.tags_count = 1;
	append_spec(trace, 0, &spec);
	spec.tags[0] = (struct packets_tag){ 0x88a8, 5 };
	spec.tags[1] = (struct packets_tag){ 0x8100, 6 };
	spec.tags_count = 2;
	append_spec(trace, 0, &spec);
	spec.pppoe = true;
	append_spec(trace, 0, &spec);
	spec.pppoe = false;
	spec.tags[0] = (struct packets_tag){ 0x8847, 77 };
	spec.tags_count = 1;
	append_spec(trace, 0, &spec);
	spec.tags_count = 0;
	uint8_t frame[2000] = { 0 };
	size_t size = packets_build(frame, sizeof(frame), &spec);
	append(trace, 0, BASE_LINK_ETHERNET, frame, size, 1522);
	append(trace, 0, BASE_LINK_ETHERNET, frame, size, 1523);
	struct traces_info info = compute(trace, NULL);
	assert_int_equal(info.vlan, 3);
	assert_int_equal(info.vlan_stacked, 2);
	assert_int_equal(info.pppoe, 1);
	assert_int_equal(info.mpls, 1);
	assert_int_equal(info.snaplen_cut, 2);
	assert_int_equal(info.jumbo, 1);
	assert_int_equal(info.flows, 1);
}

static void traits_of_ip_and_tcp_are_counted(void **state)
{
	(void)state;
	struct traces_trace *trace = trace_new();
	struct packets_spec spec = tcp(BASE_TCP_SYN);
	spec.ip_options_len = 8;
	append_spec(trace, 0, &spec);
	spec = tcp(BASE_TCP_FIN | BASE_TCP_ACK);
	append_spec(trace, 0, &spec);
	spec = tcp(BASE_TCP_RST);
	append_spec(trace, 0, &spec);

	uint8_t frame[2000];
	struct packets_spec udp = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 7, 0x0a000002, 8);
	udp.payload_len = 1000;
	udp.ip_id = 99;
	size_t size = packets_build_fragment(frame, sizeof(frame), &udp, 0, 504);
	append(trace, 1, BASE_LINK_ETHERNET, frame, size, size);
	size = packets_build_fragment(frame, sizeof(frame), &udp, 504, 504);
	append(trace, 2, BASE_LINK_ETHERNET, frame, size, size);

	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, 0x0a000002, 0, 0x0a000001, 0);
	error.icmp_type = 3;
	size = packets_build_icmp_error(frame, sizeof(frame), &error, &udp, 64);
	append(trace, 3, BASE_LINK_ETHERNET, frame, size, size);

	/* hop-by-hop, then an atomic fragment */
	static const uint8_t headers[16] = { 44, 0, 1, 4, 0, 0, 0, 0, BASE_PROTOCOL_UDP };
	struct packets_spec udp6 = packets_ip6(BASE_PROTOCOL_UDP, 1, 5, 2, 6);
	udp6.ip6_headers = headers;
	udp6.ip6_headers_len = sizeof(headers);
	append_spec(trace, 4, &udp6);
	/* a first fragment proper, of another flow */
	struct packets_spec whole6 = packets_ip6(BASE_PROTOCOL_UDP, 1, 5, 2, 7);
	whole6.payload_len = 1000;
	size = packets_build_fragment(frame, sizeof(frame), &whole6, 0, 504);
	append(trace, 5, BASE_LINK_ETHERNET, frame, size, size);
	struct traces_info info = compute(trace, NULL);
	assert_int_equal(info.malformed_packets, 0);
	assert_int_equal(info.ip_options, 1);
	assert_int_equal(info.tcp_syn, 1);
	assert_int_equal(info.tcp_fin, 1);
	assert_int_equal(info.tcp_rst, 1);
	assert_int_equal(info.fragments, 3);
	assert_int_equal(info.icmp_errors, 1);
	assert_int_equal(info.extension_headers, 2);
	assert_int_equal(info.atomic_fragments, 1);
	assert_int_equal(info.flows, 4); /* fragments and the error belong to one */
}

static void generated_traces_have_the_locality_that_was_asked_for(void **state)
{
	(void)state;
	static const uint64_t lengths[] = { 1, 4, 16 };
	for (int i = 0; i < 9; i++) {
		struct traces_synth_options options;
		traces_synth_options_defaults(&options);
		options.order = (enum traces_order)(i % 3);
		options.run_length = lengths[i / 3];
		options.flows = 500;
		options.packets = 8000;
		options.ip6 = i & 1;
		char message[TRACES_MESSAGE_SIZE];
		struct traces_trace *trace;
		assert_int_equal(traces_synth_generate(&trace, &options, message), 0);
		struct traces_info info = compute(trace, NULL);
		assert_true(info.slf == (double)options.run_length);
		assert_int_equal(info.malformed_packets, 0);
		assert_int_equal(info.flow_packets, 8000);
		assert_int_equal(info.flows, info.flows_unidirectional);
		if (options.order == TRACES_ORDER_ROUND_ROBIN)
			assert_int_equal(info.flows, 500);
	}
}

static void the_text_names_the_main_figures(void **state)
{
	(void)state;
	struct traces_trace *trace = trace_new();
	struct packets_spec spec = tcp(BASE_TCP_SYN);
	append_spec(trace, 0, &spec);
	struct traces_info info = compute(trace, NULL);
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	assert_int_equal(traces_info_print(&info, stream), 0);
	fclose(stream);
	assert_non_null(strstr(text, "packets"));
	assert_non_null(strstr(text, "TCP"));
	assert_non_null(strstr(text, "SLF 1.000"));
	assert_non_null(strstr(text, "TCP SYN"));
	free(text);
	FILE *full = fopen("/dev/full", "w");
	assert_non_null(full);
	assert_int_equal(traces_info_print(&info, full), -EIO);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_trace_has_zeros_everywhere),
		cmocka_unit_test(packets_bytes_and_flows_are_counted_by_kind),
		cmocka_unit_test(runs_and_insertions_follow_the_order),
		cmocka_unit_test(a_flow_lives_for_exactly_the_idle_timeout),
		cmocka_unit_test(the_zone_and_the_inner_header_join_the_key_when_asked),
		cmocka_unit_test(traits_of_the_link_layer_are_counted),
		cmocka_unit_test(traits_of_ip_and_tcp_are_counted),
		cmocka_unit_test(generated_traces_have_the_locality_that_was_asked_for),
		cmocka_unit_test(the_text_names_the_main_figures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
