/* SPDX-License-Identifier: BSD-2-Clause */
/* Random valid captures, written byte by byte, against libpcap. */
#include "tests/unit/traces/test.h"

#include "base/rng.h"

#include <pcap/pcap.h>
#include <stdio.h>

enum { CAPTURES = 300 };

static uint32_t below(struct base_rng *rng, uint32_t bound)
{
	return (uint32_t)base_rng_below(rng, bound);
}

static void make_pcap(struct captures_bytes *file, struct base_rng *rng)
{
	bool ns = below(rng, 2);
	captures_pcap_header(file, ns ? CAPTURES_MAGIC_NS : CAPTURES_MAGIC_US, 262144,
		(const uint32_t[]){ 1, 101, 113, 276 }[below(rng, 4)]);
	for (uint32_t i = below(rng, 200); i > 0; i--) {
		uint32_t wire = below(rng, below(rng, 10) ? 1600 : 70000);
		uint32_t cap = below(rng, 3) ? wire : below(rng, wire + 1);
		/* libpcap before 1.11 takes seconds as signed: not beyond 2038 here */
		captures_pcap_record(file, below(rng, INT32_MAX),
			below(rng, ns ? 1000000000 : 1000000), cap, wire, (uint8_t)i);
	}
}

/* One link type and snaplen for all interfaces: libpcap takes no other, and RAW only once. */
static void make_pcapng(struct captures_bytes *file, struct base_rng *rng)
{
	uint16_t linktype = (const uint16_t[]){ 1, 104, 113, 276 }[below(rng, 4)];
	uint32_t interfaces = 0, sections = 0;
	for (uint32_t i = below(rng, 200); i > 0 || interfaces == 0; i = i > 0 ? i - 1 : 0) {
		if (sections == 0 || below(rng, 60) == 0) {
			captures_section(file);
			sections++;
			interfaces = 0;
		}
		if (interfaces == 0 || below(rng, 40) == 0) {
			static const int tsresols[] = { -1, 0, 3, 6, 8, 9, 0x8a, 0x94, 0x9e };
			captures_interface(file, linktype, 262144, tsresols[below(rng, 9)],
				below(rng, 3) ? 0 : (int64_t)below(rng, 100000));
			interfaces++;
		}
		uint32_t wire = below(rng, below(rng, 10) ? 1600 : 70000);
		uint32_t cap = below(rng, 3) ? wire : below(rng, wire + 1);
		/* Small enough for libpcap's arithmetic with every resolution. */
		uint64_t ticks = below(rng, UINT32_C(1) << 31);
		if (below(rng, 10) == 0) {
			static const uint8_t unknown[28] = { 1, 2, 3 };
			captures_block(file, 0xbad + below(rng, 5), unknown, below(rng, 28));
		}
		if (below(rng, 20) == 0)
			captures_obsolete_packet(file, (uint16_t)below(rng, interfaces), ticks, cap,
				wire, (uint8_t)i);
		else
			captures_enhanced_packet(
				file, below(rng, interfaces), ticks, cap, wire, (uint8_t)i);
	}
}

static void compare(const char *path, uint64_t seed)
{
	struct traces_load_report report;
	struct traces_trace *trace = NULL;
	char reason[PCAP_ERRBUF_SIZE];
	int error = captures_load(&trace, path, &report);
	pcap_t *pcap =
		pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, reason);
	if (error || pcap == NULL)
		fail_msg("seed %llu: %s %s", (unsigned long long)seed, report.message,
			pcap ? "" : reason);
	size_t count, i = 0;
	const struct traces_record *records = traces_trace_records(trace, &count);
	struct pcap_pkthdr *header;
	const uint8_t *frame;
	int result;
	while ((result = pcap_next_ex(pcap, &header, &frame)) == 1) {
		uint64_t time_ns = (uint64_t)header->ts.tv_sec * UINT64_C(1000000000) +
				   (uint64_t)header->ts.tv_usec;
		if (i >= count || records[i].cap_len != header->caplen ||
			records[i].wire_len != header->len || records[i].time_ns != time_ns ||
			memcmp(traces_trace_bytes(trace) + records[i].offset, frame,
				header->caplen) != 0)
			fail_msg("seed %llu: packet %zu differs: %llu against %llu ns",
				(unsigned long long)seed, i + 1,
				(unsigned long long)(i < count ? records[i].time_ns : 0),
				(unsigned long long)time_ns);
		i++;
	}
	if (result != PCAP_ERROR_BREAK || i != count || report.damages_count > 0)
		fail_msg("seed %llu: %zu packets, libpcap has %zu (%s)", (unsigned long long)seed,
			count, i, pcap_geterr(pcap));
	pcap_close(pcap);
	traces_trace_destroy(trace);
}

static void captures_read_as_libpcap_reads_them(void **state)
{
	for (uint64_t seed = 1; seed <= CAPTURES; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct captures_bytes file = { .big_endian = below(&rng, 2) };
		if (seed % 2)
			make_pcap(&file, &rng);
		else
			make_pcapng(&file, &rng);
		compare(captures_write(*state, "random", &file), seed);
		captures_release(&file);
	}
}

/* Spoilt captures: whatever libpcap still reads before it gives up, we read too, the same. */
static void spoilt_captures_never_crash_and_keep_what_was_whole(void **state)
{
	for (uint64_t seed = 1; seed <= CAPTURES; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct captures_bytes file = { .big_endian = below(&rng, 2) };
		if (seed % 2)
			make_pcap(&file, &rng);
		else
			make_pcapng(&file, &rng);
		size_t spoilt_from = 24 + base_rng_below(&rng, file.size - 23);
		if (spoilt_from > file.size)
			spoilt_from = file.size;
		for (size_t i = spoilt_from; i < file.size; i++)
			file.data[i] = (uint8_t)base_rng_u64(&rng);
		/* Packets whose bytes end before the spoilt part, by the unspoilt prefix alone. */
		struct captures_bytes prefix = { .data = file.data, .size = spoilt_from };
		struct traces_load_report report;
		struct traces_trace *trace = NULL;
		int error =
			captures_load(&trace, captures_write(*state, "prefix", &prefix), &report);
		uint64_t whole = error ? 0 : report.packets;
		traces_trace_destroy(error ? NULL : trace);
		trace = NULL;
		int spoilt =
			captures_load(&trace, captures_write(*state, "spoilt", &file), &report);
		if (error == 0 && spoilt == 0 && report.packets < whole)
			fail_msg("seed %llu: %llu packets were whole, %llu read",
				(unsigned long long)seed, (unsigned long long)whole,
				(unsigned long long)report.packets);
		traces_trace_destroy(spoilt ? NULL : trace);
		captures_release(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captures_read_as_libpcap_reads_them),
		cmocka_unit_test(spoilt_captures_never_crash_and_keep_what_was_whole),
	};
	return cmocka_run_group_tests(tests, test_directory_setup, test_directory_teardown);
}
