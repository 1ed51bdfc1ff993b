/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/traces.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { LABEL_WIDTH = 20 };

static const char *protocol_name(unsigned int protocol, char *text, size_t text_size)
{
	switch (protocol) {
	case BASE_PROTOCOL_ICMP:
		return "ICMP";
	case BASE_PROTOCOL_IPIP:
		return "IP-in-IP";
	case BASE_PROTOCOL_TCP:
		return "TCP";
	case BASE_PROTOCOL_UDP:
		return "UDP";
	case BASE_PROTOCOL_IP6:
		return "6in4";
	case BASE_PROTOCOL_GRE:
		return "GRE";
	case BASE_PROTOCOL_ESP:
		return "ESP";
	case BASE_PROTOCOL_AH:
		return "AH";
	case BASE_PROTOCOL_ICMP6:
		return "ICMPv6";
	case BASE_PROTOCOL_SCTP:
		return "SCTP";
	default:
		snprintf(text, text_size, "protocol %u", protocol);
		return text;
	}
}

const char *traces_exactness_name(enum traces_exactness exactness)
{
	static const char *const names[] = { "exact", "estimated", "at least", "at most" };
	return names[exactness];
}

/* In front of a figure. */
static const char *sign(enum traces_exactness exactness)
{
	static const char *const signs[] = { "", "~", ">= ", "<= " };
	return signs[exactness];
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void print_share(
	FILE *stream, const char *label, uint64_t packets, uint64_t bytes, uint64_t all)
{
	fprintf(stream, "  %-*s%12" PRIu64 "  %5.1f %%  %14" PRIu64 " bytes\n", LABEL_WIDTH - 2,
		label, packets, percent(packets, all), bytes);
}

static void print_count(FILE *stream, const char *label, uint64_t count)
{
	if (count > 0)
		fprintf(stream, "  %-*s%12" PRIu64 "\n", LABEL_WIDTH - 2, label, count);
}

static void print_totals(const struct traces_info *info, FILE *stream)
{
	double seconds = (double)info->duration_ns / 1e9;
	fprintf(stream, "%-*s%12" PRIu64 "\n", LABEL_WIDTH, "packets", info->packets);
	fprintf(stream, "%-*s%12" PRIu64 "  (mean %.1f per packet)\n", LABEL_WIDTH,
		"bytes on the wire", info->wire_bytes,
		info->packets > 0 ? (double)info->wire_bytes / (double)info->packets : 0);
	fprintf(stream, "%-*s%12" PRIu64 "\n", LABEL_WIDTH, "bytes captured", info->captured_bytes);
	fprintf(stream, "%-*s%16.9f s", LABEL_WIDTH - 2, "duration", seconds);
	if (seconds > 0)
		fprintf(stream, "  (%.3f Mpps, %.3f Gbit/s)", (double)info->packets / seconds / 1e6,
			(double)info->wire_bytes * 8 / seconds / 1e9);
	const char *about = sign(info->flows_exactness);
	fprintf(stream, "\n%-*s%12" PRIu64 "  (%s%" PRIu64 " one-way)\n", LABEL_WIDTH,
		info->flows_exactness == TRACES_EXACT ? "flows" : "flows, about", info->flows,
		about, info->flows_unidirectional);
	fprintf(stream, "%-*s%12" PRIu64 "  (IPv4 %" PRIu64 ", IPv6 %" PRIu64 ")\n", LABEL_WIDTH,
		"packets of flows", info->flow_packets, info->ip4_packets, info->ip6_packets);
	fprintf(stream, "%-*s%12" PRIu64 "\n", LABEL_WIDTH, "not IP", info->non_ip_packets);
	fprintf(stream, "%-*s%12" PRIu64 "\n", LABEL_WIDTH, "malformed", info->malformed_packets);
	for (unsigned int i = 1; i <= BASE_DROP_PARSE_LAST; i++)
		print_count(stream, base_drop_name((enum base_drop_reason)i), info->refusals[i]);
}

/* Largest shares first; the array is small and this runs once. */
static void print_protocols(const struct traces_info *info, FILE *stream)
{
	bool printed[TRACES_PROTOCOLS_MAX] = { false };
	fprintf(stream, "protocols\n");
	for (;;) {
		int best = -1;
		for (int i = 0; i < TRACES_PROTOCOLS_MAX; i++) {
			if (!printed[i] && info->protocol_packets[i] > 0 &&
				(best < 0 ||
					info->protocol_packets[i] > info->protocol_packets[best]))
				best = i;
		}
		if (best < 0)
			break;
		printed[best] = true;
		char text[32];
		print_share(stream, protocol_name((unsigned int)best, text, sizeof(text)),
			info->protocol_packets[best], info->protocol_bytes[best], info->packets);
	}
}

static void print_links(const struct traces_info *info, FILE *stream)
{
	fprintf(stream, "%-*s", LABEL_WIDTH, "link types");
	for (unsigned int i = 0; i < BASE_LINKS_COUNT; i++) {
		if (info->links[i] > 0)
			fprintf(stream, "  %s %" PRIu64,
				traces_link_name(traces_link_number((enum base_link)i)),
				info->links[i]);
	}
	fprintf(stream, "\n");
}

static void print_windows(FILE *stream, const char *label, const char *const names[TRACES_WINDOWS],
	const double *slf, const enum traces_exactness *exactness)
{
	fprintf(stream, "  grouped in %-7s", label);
	for (int i = 0; i < TRACES_WINDOWS; i++)
		fprintf(stream, "  %s: %s%.3f", names[i], sign(exactness[i]), slf[i]);
	fprintf(stream, "\n");
}

static void print_locality(const struct traces_info *info, FILE *stream)
{
	static const char *const packets[TRACES_WINDOWS] = { "64", "256", "1024" };
	static const char *const times[TRACES_WINDOWS] = { "16 us", "64 us", "128 us" };
	fprintf(stream, "SLF %.3f  (%" PRIu64 " flow runs)\n", info->slf, info->flow_runs);
	print_windows(stream, "packets", packets, info->slf_window_packets,
		info->slf_window_packets_exactness);
	print_windows(
		stream, "time", times, info->slf_window_time, info->slf_window_time_exactness);
	fprintf(stream,
		"with the idle timeout: %s%" PRIu64 " insertions, %s%" PRIu64 " live at once\n",
		sign(info->insertions_exactness), info->insertions, sign(info->peak_live_exactness),
		info->peak_live);
}

/* Which figures are not what they seem, and why. */
static void print_exactness(const struct traces_info *info, FILE *stream)
{
	if (info->flows_exactness == TRACES_EXACT) {
		fprintf(stream, "all figures are exact\n");
		return;
	}
	fprintf(stream,
		"more than %" PRIu64 " flows: their number is an estimate "
		"(standard error %.2f %%)\n",
		info->flows_max, 100 * info->flows_standard_error);
	if (info->early_evictions > 0)
		fprintf(stream,
			"more of them at once than are kept: at least %" PRIu64
			" insertions; >= and <= are bounds\n",
			info->insertions - info->early_evictions);
	else
		fprintf(stream, "all other figures are exact\n");
}

static void print_traits(const struct traces_info *info, FILE *stream)
{
	fprintf(stream, "packets with\n");
	print_count(stream, "VLAN tag", info->vlan);
	print_count(stream, "stacked VLAN tags", info->vlan_stacked);
	print_count(stream, "MPLS", info->mpls);
	print_count(stream, "PPPoE", info->pppoe);
	print_count(stream, "IP options", info->ip_options);
	print_count(stream, "IPv6 extensions", info->extension_headers);
	print_count(stream, "fragmentation", info->fragments);
	print_count(stream, "atomic fragment", info->atomic_fragments);
	print_count(stream, "tunnel", info->tunnels);
	print_count(stream, "ICMP error", info->icmp_errors);
	print_count(stream, "TCP SYN", info->tcp_syn);
	print_count(stream, "TCP FIN", info->tcp_fin);
	print_count(stream, "TCP RST", info->tcp_rst);
	print_count(stream, "cut by snaplen", info->snaplen_cut);
	print_count(stream, "over 1522 bytes", info->jumbo);
	print_count(stream, "time backwards", info->time_backwards);
}

int traces_info_print(const struct traces_info *info, FILE *stream)
{
	print_totals(info, stream);
	print_links(info, stream);
	print_protocols(info, stream);
	print_locality(info, stream);
	print_traits(info, stream);
	print_exactness(info, stream);
	return fflush(stream) != 0 || ferror(stream) ? -EIO : 0;
}
