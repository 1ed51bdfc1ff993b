/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The presets against the published figures that they aim at: the table in docs/traces.md is
 * printed by this test. Seeded, so that a failure is a change of the model and not bad luck.
 */
#include "tests/unit/traces/test.h"

#include "tests/support/generated.h"

#include <math.h>
#include <stdlib.h>

enum { FLOWS_MAX = 1 << 20 };

/* ---- a connection table: entries leave after 5 s, or 200 ms after a FIN or RST ---- */

enum { OPEN, CLOSING, LISTS };

struct entry {
	uint64_t last_ns;
	uint32_t older, newer; /* number + 1, 0: none */
	uint8_t list;
	bool live, closing;
};

struct table {
	struct entry entries[FLOWS_MAX];
	uint32_t oldest[LISTS], newest[LISTS];
	uint64_t live, insertions;
	uint64_t first_ns, settled_ns;
	double live_sum, live_samples; /* once the table has settled */
	uint64_t wire_bytes, packets;
	uint64_t syns, big_packets, small_packets;
};

static const uint64_t timeouts_ns[LISTS] = { 5000000000, 200000000 };

static void unlink_entry(struct table *table, uint32_t number)
{
	struct entry *entry = &table->entries[number];
	uint32_t *older = entry->older != 0 ? &table->entries[entry->older - 1].newer
					    : &table->oldest[entry->list];
	uint32_t *newer = entry->newer != 0 ? &table->entries[entry->newer - 1].older
					    : &table->newest[entry->list];
	*older = entry->newer;
	*newer = entry->older;
}

static void append_entry(struct table *table, uint32_t number, uint8_t list)
{
	struct entry *entry = &table->entries[number];
	entry->list = list;
	entry->older = table->newest[list];
	entry->newer = 0;
	if (entry->older != 0)
		table->entries[entry->older - 1].newer = number + 1;
	else
		table->oldest[list] = number + 1;
	table->newest[list] = number + 1;
}

static void expire(struct table *table, uint64_t now_ns)
{
	for (int list = 0; list < LISTS; list++) {
		while (table->oldest[list] != 0) {
			uint32_t number = table->oldest[list] - 1;
			struct entry *entry = &table->entries[number];
			if (now_ns - entry->last_ns <= timeouts_ns[list])
				break;
			unlink_entry(table, number);
			entry->live = false;
			table->live--;
		}
	}
}

static void visit(void *context, const struct generated_packet *packet)
{
	struct table *table = context;
	struct entry *entry = &table->entries[packet->flow];
	uint64_t now_ns = packet->record->time_ns;
	bool raw = packet->record->link == BASE_LINK_RAW;
	if (table->packets++ == 0)
		table->first_ns = now_ns;
	table->wire_bytes += packet->record->wire_len + (raw ? 14 : 0);
	table->big_packets += packet->record->wire_len > 1024;
	table->small_packets += packet->record->wire_len <= 128;
	expire(table, now_ns);
	if (entry->live) {
		unlink_entry(table, packet->flow);
	} else {
		*entry = (struct entry){ .live = true };
		table->insertions++;
		table->live++;
	}
	entry->last_ns = now_ns;
	if (packet->parsed->protocol == BASE_PROTOCOL_TCP) {
		entry->closing |= (packet->parsed->tcp_flags & (BASE_TCP_FIN | BASE_TCP_RST)) != 0;
		table->syns += packet->parsed->tcp_flags == BASE_TCP_SYN;
	}
	append_entry(table, packet->flow, entry->closing ? CLOSING : OPEN);
	if (now_ns - table->first_ns > table->settled_ns) {
		table->live_sum += (double)table->live;
		table->live_samples++;
	}
}

/* ---- what is compared ---- */

static void expect(const char *preset, const char *what, double got, double low, double high)
{
	print_message("%-11s %-42s %10.2f   %.2f to %.2f\n", preset, what, got, low, high);
	assert_true(got >= low);
	assert_true(got <= high);
}

struct figures {
	double seconds, gb_per_s, frame_bytes;
	double insertions_per_gb, packets_per_insertion;
	double live_per_gb;         /* entries leave by idle timeout only */
	double live_closing_per_gb; /* and when their connection is closed */
	double big_share, small_share;
};

/* 13 seconds at a load, as the measured runs were long (HPSR 2021), from an empty table. */
static struct figures measure(enum traces_preset preset, double bits_per_s, double seconds)
{
	struct traces_generate_options options;
	struct table *table = calloc(1, sizeof(*table));
	struct traces_info info;
	traces_generate_options_defaults(&options);
	options.preset = preset;
	options.bits_per_s = (uint64_t)bits_per_s;
	options.duration_ns = (uint64_t)(seconds * 1e9);
	table->settled_ns = (uint64_t)(seconds / 2 * 1e9);
	generated_walk(generated_open(&options), FLOWS_MAX, visit, table);
	struct traces_packets *stream = generated_open(&options);
	assert_int_equal(traces_info_of_packets(&info, stream, NULL), 0);
	traces_packets_destroy(stream);
	assert_int_equal(info.packets, table->packets);
	struct figures figures = { .seconds = seconds };
	double packets = (double)info.packets;
	figures.gb_per_s = ((double)table->wire_bytes + 24 * packets) * 8 / seconds / 1e9;
	figures.frame_bytes = (double)table->wire_bytes / packets;
	figures.insertions_per_gb = (double)info.insertions / seconds / figures.gb_per_s;
	figures.packets_per_insertion = packets / (double)info.insertions;
	figures.live_per_gb = (double)info.peak_live / figures.gb_per_s;
	figures.live_closing_per_gb = table->live_sum / table->live_samples / figures.gb_per_s;
	figures.big_share = (double)table->big_packets / packets;
	figures.small_share = (double)table->small_packets / packets;
	free(table);
	return figures;
}

static struct traces_info locality(enum traces_preset preset, uint64_t packets)
{
	struct traces_generate_options options;
	struct traces_info info;
	traces_generate_options_defaults(&options);
	options.preset = preset;
	options.packets_per_s = 3000000;
	options.packets = packets;
	struct traces_packets *stream = generated_open(&options);
	assert_int_equal(traces_info_of_packets(&info, stream, NULL), 0);
	traces_packets_destroy(stream);
	return info;
}

static void campus_has_the_trains_of_the_kth_trace(void **state)
{
	(void)state;
	struct traces_info info = locality(TRACES_PRESET_CAMPUS, 1500000);
	expect("campus", "SLF at 3 Mpps", info.slf, 1.15, 1.55);
	expect("campus", "grouped inside 16 us", info.slf_window_time[0], 1.85 * 0.95, 1.85 * 1.05);
	expect("campus", "grouped inside 64 us", info.slf_window_time[1], 2.6 * 0.95, 2.6 * 1.05);
	expect("campus", "grouped inside 128 us", info.slf_window_time[2], 3.1 * 0.95, 3.1 * 1.05);
}

static void campus_has_the_churn_of_the_kth_trace(void **state)
{
	(void)state;
	struct figures figures = measure(TRACES_PRESET_CAMPUS, 0.6e9, 13);
	expect("campus", "load asked for as 0.6 Gb/s", figures.gb_per_s, 0.594, 0.606);
	expect("campus", "mean frame, bytes", figures.frame_bytes, 960, 1000);
	expect("campus", "packets above 1024 bytes", figures.big_share, 0.5, 0.7);
	expect("campus", "packets of at most 128 bytes", figures.small_share, 0.2, 0.4);
	expect("campus", "insertions per second and Gb/s", figures.insertions_per_gb, 3400 * 0.95,
		3400 * 1.05);
	expect("campus", "packets per insertion", figures.packets_per_insertion, 31, 37);
	expect("campus", "live per Gb/s, 5 s or closed", figures.live_closing_per_gb, 13000 * 0.9,
		13000 * 1.1);
	/* Little's law: entries that stay for 5 s are 5 times those of one second. */
	expect("campus", "live per Gb/s, 5 s only", figures.live_per_gb, 17000, 20000);
}

static void backbone_has_the_churn_of_the_caida_traces(void **state)
{
	(void)state;
	struct traces_info info = locality(TRACES_PRESET_BACKBONE, 1000000);
	expect("backbone", "SLF at 3 Mpps", info.slf, 1, 1.05);
	expect("backbone", "grouped inside 16 us", info.slf_window_time[0], 1.1, 1.3);
	expect("backbone", "grouped inside 64 us", info.slf_window_time[1], 1.4, 1.7);
	expect("backbone", "grouped inside 128 us", info.slf_window_time[2], 1.7, 2.1);
	struct figures figures = measure(TRACES_PRESET_BACKBONE, 0.5e9, 13);
	expect("backbone", "mean frame, bytes", figures.frame_bytes, 951 * 0.96, 951 * 1.04);
	expect("backbone", "insertions per second and Gb/s", figures.insertions_per_gb,
		10000 * 0.94, 10000 * 1.06);
	expect("backbone", "packets per insertion", figures.packets_per_insertion, 12.4, 14.5);
	expect("backbone", "live per Gb/s, 5 s or closed", figures.live_closing_per_gb, 40000 * 0.9,
		40000 * 1.1);
	expect("backbone", "live per Gb/s, 5 s only", figures.live_per_gb, 48000, 56000);
}

static void scan_has_little_but_probes(void **state)
{
	(void)state;
	struct traces_info info = locality(TRACES_PRESET_SCAN, 500000);
	expect("scan", "SLF at 3 Mpps", info.slf, 1, 1.05);
	expect("scan", "grouped inside 16 us", info.slf_window_time[0], 1, 1.1);
	struct figures figures = measure(TRACES_PRESET_SCAN, 0.04e9, 10);
	expect("scan", "mean frame, bytes", figures.frame_bytes, 135, 165);
	expect("scan", "packets per insertion", figures.packets_per_insertion, 2, 4);
	expect("scan", "live per Gb/s, 5 s only", figures.live_per_gb, 150000, 1e9);
}

static void datacenter_has_two_modes(void **state)
{
	(void)state;
	struct figures figures = measure(TRACES_PRESET_DATACENTER, 0.6e9, 6);
	expect("datacenter", "mean frame, bytes", figures.frame_bytes, 800, 900);
	expect("datacenter", "packets above 1024 bytes", figures.big_share, 0.45, 0.65);
	expect("datacenter", "new and live per Gb/s, 5 s only", figures.live_per_gb, 1000, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(campus_has_the_trains_of_the_kth_trace),
		cmocka_unit_test(campus_has_the_churn_of_the_kth_trace),
		cmocka_unit_test(backbone_has_the_churn_of_the_caida_traces),
		cmocka_unit_test(scan_has_little_but_probes),
		cmocka_unit_test(datacenter_has_two_modes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
