/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the table of options: the rows of the trace commands. */
#include "pipeline/options_private.h"

#define ANONYMIZE  OPTIONS_OF(OPTIONS_TRACE_ANONYMIZE)
#define CONVERTERS (OPTIONS_OF(OPTIONS_TRACE_CONVERT) | ANONYMIZE)

static const struct options_row trace_rows[] = {
	{ "idle-timeout", "T", "when a flow counts as over", OPTIONS_KIND_TIME,
		.commands = OPTIONS_OF(OPTIONS_TRACE_INFO),
		.offset = OPTIONS_FIELD(info.idle_timeout_ns), .low = 1, .high = OPTIONS_YEAR_NS },
	{ "inner", NULL, "key tunnels by their inner header", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_INFO), .offset = OPTIONS_FIELD(info.inner) },
	{ "vlan-zone", NULL, "the VLAN is part of the flow key", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_INFO),
		.offset = OPTIONS_FIELD(info.vlan_zone) },
	{ "flows-max", "N", "flows that are kept; figures are exact up to so many",
		OPTIONS_KIND_COUNT64, .commands = OPTIONS_OF(OPTIONS_TRACE_INFO),
		.offset = OPTIONS_FIELD(info.flows_max), .low = 1,
		.high = TRACES_INFO_FLOWS_LIMIT },
	{ "packets", "N", "copy the first N packets only", OPTIONS_KIND_COUNT64,
		.commands = CONVERTERS, .offset = OPTIONS_FIELD(convert.packets_max), .low = 1,
		.high = INT64_MAX },
	{ "key", "KEY", "64 hexadecimal digits, or a file of these or of 32 bytes",
		OPTIONS_KIND_TEXT, .commands = ANONYMIZE, .offset = OPTIONS_FIELD(anonymize.key) },
	{ "write-key", "FILE", "keep the random key; - prints it", OPTIONS_KIND_TEXT,
		.commands = ANONYMIZE, .offset = OPTIONS_FIELD(anonymize.write_key) },
	{ "macs", "HOW", "hardware addresses: zero|hash|keep", OPTIONS_KIND_CHOICE,
		.commands = ANONYMIZE, .offset = OPTIONS_FIELD(anonymize.macs),
		.choices = "zero|hash|keep" },
	{ "keep-payload", NULL, "do not cut packets behind their transport header",
		OPTIONS_KIND_SWITCH, .commands = ANONYMIZE,
		.offset = OPTIONS_FIELD(anonymize.keep_payload) },
	{ "from", "FORMAT", "of the input: auto|capture|ipsum|tuples", OPTIONS_KIND_CHOICE,
		.commands = CONVERTERS, .offset = OPTIONS_FIELD(convert.from),
		.choices = "auto|capture|ipsum|tuples" },
	{ "to", "FORMAT",
		"of the output: auto|pcap|pcap-us|pcap-ns|pcapng|ipsum|ipsum-binary|tuples",
		OPTIONS_KIND_CHOICE, .commands = CONVERTERS, .offset = OPTIONS_FIELD(convert.to),
		.choices = "auto|pcap|pcap-us|pcap-ns|pcapng|ipsum|ipsum-binary|tuples" },
	{ "link", "LINK", "link type of the output: keep|ethernet|raw", OPTIONS_KIND_CHOICE,
		.commands = OPTIONS_OF(OPTIONS_TRACE_CONVERT),
		.offset = OPTIONS_FIELD(convert.link), .choices = "keep|ethernet|raw" },
	{ "source-mac", "MAC", "of Ethernet headers that are made", OPTIONS_KIND_CUSTOM,
		.commands = OPTIONS_OF(OPTIONS_TRACE_CONVERT), .parse = options_parse_source_mac },
	{ "destination-mac", "MAC", "the same", OPTIONS_KIND_CUSTOM,
		.commands = OPTIONS_OF(OPTIONS_TRACE_CONVERT),
		.parse = options_parse_destination_mac },
	{ "pad", NULL, "fill cut packets with zeros up to their IP length", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_CONVERT),
		.offset = OPTIONS_FIELD(convert.repair.pad) },
	{ "checksums", NULL, "compute checksums anew where packets are whole", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_CONVERT),
		.offset = OPTIONS_FIELD(convert.repair.checksums) },
	{ "fields", "LIST", "of an IPSummaryDump, such as 'timestamp ip_src ip_dst'",
		OPTIONS_KIND_CUSTOM, .commands = CONVERTERS, .parse = options_parse_fields },
	{ "start", "T", "time since 1970 of the first packet, where the input has no times",
		OPTIONS_KIND_TIME, .commands = CONVERTERS,
		.offset = OPTIONS_FIELD(convert.start_ns), .high = 100 * OPTIONS_YEAR_NS },
	{ "pps", "N", "packets per second, where the input has no times", OPTIONS_KIND_COUNT64,
		.commands = CONVERTERS, .offset = OPTIONS_FIELD(convert.packets_per_s), .low = 1,
		.high = 1000000000 },
	{ "ip-bytes", "N", "length of IP packets, where the input has none", OPTIONS_KIND_COUNT32,
		.commands = CONVERTERS, .offset = OPTIONS_FIELD(convert.ip_bytes), .low = 20,
		.high = UINT16_MAX },
	{ "snaplen", "N", "cut packets to N captured bytes", OPTIONS_KIND_COUNT32,
		.commands = CONVERTERS, .offset = OPTIONS_FIELD(convert.snaplen), .low = 1,
		.high = TRACES_RECORD_BYTES_MAX },
	{ "ns", NULL, "write nanoseconds", OPTIONS_KIND_SWITCH,
		.commands = OPTIONS_OF(OPTIONS_TRACE_GEN) | CONVERTERS,
		.offset = OPTIONS_FIELD(nanoseconds) },
};

const struct options_row *options_trace_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(trace_rows);
	return trace_rows;
}
