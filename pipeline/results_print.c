/* SPDX-License-Identifier: BSD-2-Clause */
/* Results for people: one screen for a run, one table for a comparison. */
#include "pipeline/results.h"
#include "pipeline/sharing.h"
#include "pipeline/units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_SIZE = 48, LINE_SIZE = 256 };

/* The label stands once, in a column of its own. */
static void line(FILE *stream, const char *label, const char *fmt, ...) BASE_PRINTF(3, 4);
static void line(FILE *stream, const char *label, const char *fmt, ...)
{
	va_list arguments;
	va_start(arguments, fmt);
	fprintf(stream, "%-10s ", label);
	vfprintf(stream, fmt, arguments);
	fputc('\n', stream);
	va_end(arguments);
}

static const char *grouped(uint64_t value, char *text)
{
	units_format_grouped(value, text, TEXT_SIZE);
	return text;
}

static const char *short_time(uint64_t time_ns, char *text)
{
	units_format_time_short(time_ns, text, TEXT_SIZE);
	return text;
}

/* "12.3 MB" */
static const char *short_bytes(uint64_t bytes, char *text)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	double value = (double)bytes;
	size_t unit = 0;
	for (; value >= 1000 && unit + 1 < BASE_ARRAY_COUNT(units); unit++)
		value /= 1000;
	int places = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
	snprintf(text, TEXT_SIZE, "%.*f %s", places, value, units[unit]);
	return text;
}

static uint64_t drops_sum(const uint64_t *drops)
{
	uint64_t sum = 0;
	for (unsigned int i = 0; i < BASE_DROP_REASONS_COUNT; i++)
		sum += drops[i];
	return sum;
}

/* "firewall_deny 12, ip4_truncated 3"; "" when there are none. */
static void format_drops(const uint64_t *drops, char *text, size_t text_size)
{
	size_t used = 0;
	text[0] = '\0';
	for (unsigned int i = 1; i < BASE_DROP_REASONS_COUNT && used < text_size; i++) {
		if (drops[i] != 0)
			used += (size_t)snprintf(text + used, text_size - used, "%s%s %" PRIu64,
				used == 0 ? "" : ", ", base_drop_name(i), drops[i]);
	}
}

static void print_trace(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream)
{
	char packets[TEXT_SIZE], flows[TEXT_SIZE], wire[TEXT_SIZE], captured[TEXT_SIZE],
		duration[TEXT_SIZE];
	if (config->source == PIPELINE_SOURCE_PORT) {
		line(stream, "source", "port %s", config->source_port);
		return;
	}
	line(stream, "capture",
		"%s packets   %s%s flows   %s on the wire, %s captured   %s   SLF %.2f",
		grouped(result->trace_packets, packets),
		result->flows_exactness == TRACES_EXACT ? "" : ">= ", grouped(result->flows, flows),
		short_bytes(result->trace_wire_bytes, wire),
		short_bytes(result->trace_captured_bytes, captured),
		short_time(result->trace_duration_ns, duration),
		results_ratio(result->runs_packets, result->runs_in));
}

/* What the capture got wrong; nothing when it is sound. */
static void print_notes(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream)
{
	const struct traces_load_report *load = &result->load;
	char time[TEXT_SIZE];
	for (uint64_t i = 0; i < load->damages_count && i < TRACES_DAMAGES_MAX; i++) {
		const struct traces_damage *damage = &load->damages[i];
		const char *path =
			damage->file < config->paths_count ? config->paths[damage->file] : "?";
		line(stream, "damage", "%s: packet %" PRIu64 " at byte %" PRIu64 ": %s", path,
			damage->packet, damage->offset, damage->reason);
	}
	if (load->damages_count > TRACES_DAMAGES_MAX)
		line(stream, "damage", "%" PRIu64 " more",
			load->damages_count - TRACES_DAMAGES_MAX);
	if (load->skipped_oversize != 0)
		line(stream, "skipped", "%" PRIu64 " oversized records", load->skipped_oversize);
	if (load->skipped_link != 0)
		line(stream, "skipped", "%" PRIu64 " packets of link type %s", load->skipped_link,
			load->skipped_link_name);
	if (result->time_clamped != 0)
		line(stream, "time", "%" PRIu64 " packets ran backwards: clamped",
			result->time_clamped);
	if (result->gaps_cut != 0)
		line(stream, "time", "%" PRIu64 " long gaps cut, %s in all", result->gaps_cut,
			short_time(result->gaps_cut_ns, time));
	if (result->frames_cut != 0)
		line(stream, "frames", "%" PRIu64 " longer than a packet buffer: cut",
			result->frames_cut);
}

static void print_reframer(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream)
{
	const struct reframer_stats *stats = &result->reframer;
	const struct base_histogram *hold = &result->hold;
	char delay[TEXT_SIZE], p50[TEXT_SIZE], p99[TEXT_SIZE], max[TEXT_SIZE], peak[TEXT_SIZE];
	if (!config->reframer_enabled) {
		line(stream, "reframer", "off");
		return;
	}
	line(stream, "reframer",
		"SLF %.2f -> %.2f   held p50 %s, p99 %s, max %s (bound %s)   peak %s packets",
		results_ratio(stats->packets_in, stats->runs_in),
		results_ratio(stats->packets_out, stats->runs_out),
		short_time(base_histogram_quantile(hold, 0.5), p50),
		short_time(base_histogram_quantile(hold, 0.99), p99),
		short_time(hold->count == 0 ? 0 : hold->max, max),
		short_time(config->reframer.delay_ns[REFRAMER_CLASS_NORMAL], delay),
		grouped(stats->peak_held_packets, peak));
}

static void print_conntrack(const struct pipeline_result *result, FILE *stream)
{
	const struct conntrack_stats *stats = &result->conntrack;
	char inserted[TEXT_SIZE], closed[TEXT_SIZE], expired[TEXT_SIZE], evicted[TEXT_SIZE],
		live[TEXT_SIZE], failed[TEXT_SIZE], lookups[TEXT_SIZE], saved[TEXT_SIZE];
	line(stream, "conntrack", "%s connections = %s closed + %s expired + %s evicted + %s live",
		grouped(stats->inserted, inserted), grouped(stats->closed, closed),
		grouped(stats->expired, expired), grouped(stats->evicted, evicted),
		grouped(stats->live + stats->purged, live));
	line(stream, "", "%s lookups, %s saved   %s refused insertions   %.0f bytes per flow",
		grouped(stats->lookups, lookups), grouped(stats->lookups_saved, saved),
		grouped(stats->insert_failures, failed), stats->bytes_per_entry);
}

static void print_chain(const struct pipeline_result *result, FILE *stream)
{
	char in[TEXT_SIZE], out[TEXT_SIZE], drops[LINE_SIZE], key[TEXT_SIZE];
	for (uint32_t i = 0; i < result->chain_count; i++) {
		const struct chain_function_stats *stats = &result->chain[i];
		format_drops(stats->drops, drops, sizeof(drops));
		results_chain_key(result, i, key, sizeof(key));
		line(stream, i == 0 ? "chain" : "", "%-10s %14s in %14s out%s%s", key,
			grouped(stats->in, in), grouped(stats->out, out),
			drops[0] == '\0' ? "" : "   dropped: ", drops);
	}
}

/* A sentence about a stream's reader; nothing when captures were played from memory. */
static void print_reader(const struct pipeline_result *result, FILE *stream)
{
	const struct pipeline_cost *cost = &result->cost;
	char times[TEXT_SIZE];
	if (!result->streamed)
		return;
	if (cost->reader_starved_times == 0)
		line(stream, "reader", "never starved a worker   streamed: %s",
			result->stream_note);
	else
		line(stream, "reader",
			"starved a worker %s times, %.1f %% of the time: rates include that, "
			"cycles do not   streamed: %s",
			grouped(cost->reader_starved_times, times),
			100 * cost->reader_starved_share, result->stream_note);
}

/* A sentence about the sharing model; nothing when nothing is shared. */
static void print_sharing(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream)
{
	const struct pipeline_cost *cost = &result->cost;
	char taken[TEXT_SIZE], contended[TEXT_SIZE];
	if (config->sharing == PIPELINE_SHARING_SHARD)
		return;
	if (config->sharing == PIPELINE_SHARING_HANDOVER) {
		line(stream, "sharing",
			"handover   %s groups of flows changed their worker, %s turns: waited "
			"%.1f %% of the workers' time",
			grouped(cost->handover_groups, taken),
			grouped(cost->handover_turns, contended), 100 * cost->lock_wait_share);
		return;
	}
	line(stream, "sharing",
		"%s   %s locks taken, %s not free at once: waited %.1f %% of the workers' time",
		sharing_name(config->sharing), grouped(cost->locks_taken, taken),
		grouped(cost->locks_contended, contended), 100 * cost->lock_wait_share);
}

static void print_cost(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream)
{
	const struct pipeline_cost *cost = &result->cost;
	char ablations[TEXT_SIZE], spread[TEXT_SIZE], late[TEXT_SIZE], key[TEXT_SIZE];
	line(stream, "cost",
		"%.2f Mpps, %.2f Gb/s   %.1f cycles per packet:", cost->packets_per_s / 1e6,
		cost->bits_per_s / 1e9, cost->total);
	fprintf(stream, "%-10s source %.1f, parse %.1f", "", cost->source, cost->parse);
	if (config->reframer_enabled)
		fprintf(stream, ", reframer %.1f", cost->reframer);
	fprintf(stream, ", conntrack %.1f", cost->conntrack);
	if (config->infer.enabled)
		fprintf(stream, ", infer %.1f", cost->infer);
	for (uint32_t i = 0; i < result->chain_count; i++) {
		results_chain_key(result, i, key, sizeof(key));
		fprintf(stream, ", %s %.1f", key, cost->chain[i]);
	}
	fprintf(stream, ", sink %.1f\n", cost->sink);
	results_ablations_format(config->ablations, ablations, sizeof(ablations));
	snprintf(spread, sizeof(spread), cost->repeats > 1 ? "%.1f %%" : "not measured",
		100 * cost->spread);
	line(stream, "", "repeats %u, spread %s, workers %u, burst %u, ablated: %s", cost->repeats,
		spread, config->workers, config->burst, ablations);
	results_counters_print_line(stream, &cost->counted);
	line(stream, "memory", "%s", result->memory_note);
	if (config->clock != PIPELINE_CLOCK_WALL)
		return;
	fprintf(stream, "%-10s late p50 %s", "pacing",
		short_time((uint64_t)cost->pacing_late_p50_ns, late));
	fprintf(stream, ", p99 %s", short_time((uint64_t)cost->pacing_late_p99_ns, late));
	fprintf(stream, ", max %s\n", short_time((uint64_t)cost->pacing_late_max_ns, late));
}

static void print_books(const struct pipeline_result *result, FILE *stream)
{
	const struct pipeline_books *books = &result->books;
	char read[TEXT_SIZE], forwarded[TEXT_SIZE], dropped[TEXT_SIZE], held[TEXT_SIZE],
		reasons[LINE_SIZE];
	line(stream, "books", "%s read = %s forwarded + %s dropped + %s held: %s, %s",
		grouped(books->read, read), grouped(books->forwarded, forwarded),
		grouped(drops_sum(books->dropped), dropped), grouped(books->held, held),
		books->balanced ? "balanced" : "NOT BALANCED",
		books->reorder_violations == 0 ? "no flow reordered" : "FLOWS REORDERED");
	format_drops(books->dropped, reasons, sizeof(reasons));
	if (reasons[0] != '\0')
		line(stream, "dropped", "%s", reasons);
	if (books->reorder_violations != 0)
		line(stream, "order",
			"%" PRIu64 " packets left before an earlier one of their flow",
			books->reorder_violations);
}

void pipeline_result_print(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream)
{
	print_trace(config, result, stream);
	print_notes(config, result, stream);
	print_reframer(config, result, stream);
	print_conntrack(result, stream);
	results_infer_print(config, result, stream);
	print_chain(result, stream);
	print_cost(config, result, stream);
	print_reader(result, stream);
	print_sharing(config, result, stream);
	print_books(result, stream);
}

static void comparison_row(const char *name, const struct pipeline_config *config,
	const struct pipeline_result *result, const struct pipeline_result *baseline, FILE *stream)
{
	const struct pipeline_cost *cost = &result->cost;
	const struct base_histogram *hold = &result->hold;
	char p50[TEXT_SIZE] = "-", p99[TEXT_SIZE] = "-", max[TEXT_SIZE] = "-";
	char reframer[TEXT_SIZE] = "-", spread[TEXT_SIZE] = "-", infer[TEXT_SIZE] = "";
	double chain = 0;
	if (cost->repeats > 1)
		snprintf(spread, sizeof(spread), "%.0f %%", 100 * cost->spread);
	if (config->reframer_enabled) {
		short_time(base_histogram_quantile(hold, 0.5), p50);
		short_time(base_histogram_quantile(hold, 0.99), p99);
		short_time(hold->count == 0 ? 0 : hold->max, max);
		snprintf(reframer, sizeof(reframer), "%.1f", cost->reframer);
	}
	if (config->infer.enabled)
		snprintf(infer, sizeof(infer), " %6.1f", cost->infer);
	for (uint32_t i = 0; i < result->chain_count; i++)
		chain += cost->chain[i];
	double slf =
		config->reframer_enabled
			? results_ratio(result->reframer.packets_out, result->reframer.runs_out)
			: results_ratio(result->runs_packets, result->runs_in);
	fprintf(stream, "%-13s %6.2f %8s %8s %8s %7.1f %6.1f %6.1f %8s %9.1f%s %7.1f %6.1f %7.2f",
		name, slf, p50, p99, max, cost->total, cost->source, cost->parse, reframer,
		cost->conntrack, infer, chain, cost->sink, cost->packets_per_s / 1e6);
	if (baseline->cost.packets_per_s > 0)
		fprintf(stream, " %6.2f", cost->packets_per_s / baseline->cost.packets_per_s);
	else
		fprintf(stream, " %6s", "-");
	fprintf(stream, " %7s  %s\n", spread,
		!result->books.balanced                 ? "NOT BALANCED"
		: result->books.reorder_violations != 0 ? "REORDERED"
							: "balanced");
}

/* Of streams: how much the reader has to do with the rates. */
static void comparison_reader(const struct pipeline_result *results, size_t count, FILE *stream)
{
	double worst = 0;
	if (!results[0].streamed)
		return;
	for (size_t i = 0; i < count; i++) {
		if (results[i].cost.reader_starved_share > worst)
			worst = results[i].cost.reader_starved_share;
	}
	if (worst > 0)
		line(stream, "reader",
			"starved workers up to %.1f %% of the time: Mpps include that, cycles do "
			"not   streamed: %s",
			100 * worst, results[0].stream_note);
	else
		line(stream, "reader", "never starved a worker   streamed: %s",
			results[0].stream_note);
}

void pipeline_comparison_print(const char *const *names, const struct pipeline_config *configs,
	const struct pipeline_result *results, size_t count, FILE *stream)
{
	if (count == 0)
		return;
	print_trace(&configs[0], &results[0], stream);
	print_notes(&configs[0], &results[0], stream);
	line(stream, "memory", "%s   workers %u, burst %u, repeats %u", results[0].memory_note,
		configs[0].workers, configs[0].burst, configs[0].repeats);
	comparison_reader(results, count, stream);
	const char *infer = configs[0].infer.enabled ? "  infer" : "";
	fprintf(stream, "\n%-13s %6s %26s %7s %6s %6s %8s %9s%*s %7s %6s %7s %6s\n", "", "",
		"-------- held for --------", "cycles", "", "", "", "", (int)strlen(infer), "", "",
		"", "", "vs");
	fprintf(stream, "%-13s %6s %8s %8s %8s %7s %6s %6s %8s %9s%s %7s %6s %7s %6s %7s  %s\n",
		"run", "SLF", "p50", "p99", "max", "/packet", "source", "parse", "reframer",
		"conntrack", infer, "chain", "sink", "Mpps", "first", "spread", "books");
	for (size_t i = 0; i < count; i++)
		comparison_row(names[i], &configs[i], &results[i], &results[0], stream);
	fprintf(stream, "\n");
	results_counters_head(stream, &results[0].cost.counted, "packet");
	for (size_t i = 0; i < count; i++)
		results_counters_row(stream, names[i], &results[i].cost.counted);
	results_counters_print_why(stream, &results[0].cost.counted);
}
