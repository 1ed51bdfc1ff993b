/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traces: captures in memory, to and from files. No mbufs, no EAL.
 *
 * Reading: pcap and pcapng, both byte orders, microseconds and nanoseconds, if_tsresol and
 * if_tsoffset, several sections and interfaces with different snaplens and link types, gzip and
 * zstd (several members). Variants that only libpcap knows go through libpcap. Link types: those of
 * enum base_link; others are refused by name. Click's IPSummaryDump (text and binary) and files of
 * 13-byte 5-tuples become IPv4 packets of their headers.
 *
 * A damaged file is not refused: whole packets before the damage are kept, the damage is located
 * (file, packet number, byte offset, reason) and counted; oversized records are skipped in sync.
 *
 * Memory: captured bytes + 48 bytes per packet, rounded up to pages. A loaded trace is immutable;
 * any thread may read it.
 *
 *	struct traces_trace *trace;
 *	struct traces_load_report report;
 *	int error = traces_trace_load(&trace, paths, paths_count, &options, &report);
 *	if (error)
 *		fprintf(stderr, "%s\n", report.message);
 *	...
 *	traces_trace_destroy(trace);
 */
#pragma once

#include "base/packet.h"
#include "traces/convert.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How an input is to be read. */
enum traces_input {
	TRACES_INPUT_AUTO,    /* by content; 5-tuples, which have no mark, by .5t and .tuples */
	TRACES_INPUT_CAPTURE, /* pcap, pcapng, what libpcap knows */
	TRACES_INPUT_IPSUM,   /* Click's IPSummaryDump, text or binary */
	TRACES_INPUT_TUPLES   /* 13-byte 5-tuples */
};

enum {
	TRACES_DAMAGES_MAX = 16,           /* located in full; more are only counted */
	TRACES_RECORD_BYTES_MAX = 1 << 18, /* a captured length above this is damage */
	TRACES_MESSAGE_SIZE = 512,
	TRACES_INTERFACES_MAX = 4096, /* per section */
};

/* Times are at most this (year 2262), so that sums of times and delays do not wrap. */
#define TRACES_TIME_NS_MAX ((uint64_t)INT64_MAX)

/* One captured packet. */
struct traces_record {
	uint64_t time_ns; /* since the Unix epoch, as captured (may run backwards) */
	uint64_t offset;  /* of the first captured byte in the trace's bytes */
	uint32_t cap_len;
	uint32_t wire_len; /* >= cap_len */
	uint8_t link;      /* enum base_link */
	uint8_t interface;
	uint16_t file; /* index into the paths given to load */
	uint32_t reserved;
};
static_assert(
	sizeof(struct traces_record) == 32, "48 bytes per packet leave 16 for the file's own");

struct traces_trace;

struct traces_load_options {
	bool merge;           /* true: files are merged by time; false: one after the other */
	uint64_t packets_max; /* stop after so many packets; 0 = all */
	uint64_t bytes_max;   /* refuse to hold more captured bytes; 0 = no limit */
	/* pcapng with several link types: false refuses a file with packets of a link type outside
	 * enum base_link; true drops those packets and counts them in skipped_link. */
	bool skip_unsupported_links;
	enum traces_input input;
	/* For inputs without times and lengths: packet i at start + i / rate, IP packets of so many
	 * bytes. 0: 1970, a million, 114. */
	uint64_t made_start_ns, made_packets_per_s;
	uint32_t made_ip_bytes;
	/* Called now and then while loading; NULL for silence. total is 0 when unknown. */
	void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
	/* Looked at before every read, and while a pipe has nothing to give; NULL for never. Set:
	 * -EINTR. Partner: a relaxed store, the signal handler's. */
	const atomic_bool *stop;
};

struct traces_damage {
	uint16_t file;
	uint64_t packet; /* 1-based number of the packet that could not be read */
	uint64_t offset; /* byte offset in the (decompressed) file */
	char reason[96];
};

struct traces_load_report {
	uint64_t packets;
	uint64_t wire_bytes;
	uint64_t captured_bytes;
	uint64_t skipped_oversize; /* records above TRACES_RECORD_BYTES_MAX, skipped in sync */
	uint64_t skipped_link;     /* packets of unsupported link types (only when asked to) */
	uint64_t time_clamped;     /* before 1970 or after 2262: set to the nearest */
	uint64_t time_missing;     /* simple packet blocks: time of a neighbour; others: made */
	uint64_t repeated_headers; /* pcap files put one behind the other in one file */
	uint64_t snaplen_cut;      /* cap_len < wire_len */
	uint64_t time_backwards;   /* a record earlier than the one before it in its file */
	uint64_t fields_ignored;   /* IPSummaryDump: columns that are of no use here */
	uint64_t packets_folded;   /* IPSummaryDump: what `count` says beyond one */
	uint64_t damages_count;
	struct traces_damage damages[TRACES_DAMAGES_MAX];
	uint32_t links;                    /* pcapng: bit per enum base_link that was described */
	bool nanoseconds;                  /* any input finer than a microsecond */
	char skipped_link_name[32];        /* the first that was skipped */
	char field_strange[32];            /* the first column that nobody knows */
	char message[TRACES_MESSAGE_SIZE]; /* one line about the error; empty on success */
};

void traces_load_options_defaults(struct traces_load_options *options);

/*
 * Load files ("-" is standard input). 0, or -ENOENT/-EACCES/... from the system, -EBADMSG (not a
 * capture, or damaged before its first packet's header), -EPROTONOSUPPORT (link type refused, named
 * in the message), -ENOMEM, -EFBIG (bytes_max), -EINTR (stop). *report is always written.
 */
int traces_trace_load(struct traces_trace **out, const char *const *paths, size_t paths_count,
	const struct traces_load_options *options, struct traces_load_report *report);
void traces_trace_destroy(struct traces_trace *trace);

const struct traces_record *traces_trace_records(const struct traces_trace *trace, size_t *count);
const uint8_t *traces_trace_bytes(const struct traces_trace *trace);
/* Bytes of memory that the trace holds. */
uint64_t traces_trace_memory_bytes(const struct traces_trace *trace);

/* Build a trace in memory (generator, tests). Takes no ownership of frame. -ENOMEM. */
int traces_trace_create(struct traces_trace **out);
int traces_trace_append(
	struct traces_trace *trace, const struct traces_record *record, const uint8_t *frame);

/* Name of a link type from its LINKTYPE_ number ("USER0"), for messages; never NULL. */
const char *traces_link_name(uint32_t linktype);
/* LINKTYPE_ number to write for a base_link. */
uint32_t traces_link_number(enum base_link link);

/* ---- streams of packets: any length in constant memory ------------------------------------ */

/* Packets of a stream: frame i is bytes + records[i].offset, records[i].cap_len long. */
struct traces_batch {
	const struct traces_record *records;
	const uint8_t *bytes;
	size_t count; /* 0: the stream has ended */
};

/*
 * A stream of packets: a capture file, a generator, or a transform that pulls from other streams
 * and owns them. One thread uses a stream at a time.
 */
struct traces_packets;

/* A capture file ("-" is standard input), decompressed, in batches of about 256 KiB. Of options,
 * merge and bytes_max are ignored. The report grows with the stream; path and report must outlive
 * it. The first packets are read at once, so that report->nanoseconds speaks of them. Errors as
 * traces_trace_load, with report->message. */
int traces_packets_open(struct traces_packets **out, const char *path,
	const struct traces_load_options *options, struct traces_load_report *report);
/* Several captures as one stream, merged by time or one after the other as options->merge says. The
 * packets, the report at the stream's end and the errors are those of traces_trace_load, bytes_max
 * apart. Merged files are all open from the start, about 0.7 MiB each; of files one after the other
 * only one is. paths must outlive the stream, too. */
int traces_packets_open_files(struct traces_packets **out, const char *const *paths,
	size_t paths_count, const struct traces_load_options *options,
	struct traces_load_report *report);
/* A trace in memory, in batches of batch_packets (0: all at once); it must outlive the stream. */
int traces_packets_of_trace(
	struct traces_packets **out, const struct traces_trace *trace, size_t batch_packets);

/*
 * The next packets; valid until the next call on the same stream. Time, lengths, link, interface
 * and file of the records are as in a trace. 0 with batch->count == 0 at the end, and from then on.
 * Negative errno on failure, with one line in traces_packets_message; the stream can then only be
 * destroyed.
 */
int traces_packets_next(struct traces_packets *packets, struct traces_batch *batch);
/* Why next failed; empty when nothing is known beyond the error's number. */
const char *traces_packets_message(const struct traces_packets *packets);
/* Destroys what it pulls from as well. NULL is allowed. */
void traces_packets_destroy(struct traces_packets *packets);

/* The batch that next gives next time; valid until then. As traces_packets_next otherwise. */
int traces_packets_peek(struct traces_packets *packets, struct traces_batch *batch);

/* ---- transforms: streams made of streams -------------------------------------------------- */

/*
 * Constructors return 0, -EINVAL (an impossible option) or -ENOMEM. They own what they pull from
 * once they have succeeded; until then the caller does. Reports grow with the stream, are set to
 * zero by the constructor, and must outlive the stream. A flow is a connection, both directions and
 * all fragments, as the parser keys it (base/parse.h); nothing here depends on where batches end.
 */

/* Everything unchanged; `see` looks at each batch first and may fail the stream. */
int traces_packets_tap(struct traces_packets **out, struct traces_packets *from,
	int (*see)(void *context, const struct traces_batch *batch), void *context);

/* libpcap's filter language, compiled for each link type. Immutable: any thread may match. */
struct traces_filter;

/* Bytes of an expression: libpcap's time to compile grows with more than the square of its terms,
 * to hours for what fits a command line. */
enum { TRACES_FILTER_TEXT_MAX = 2048 };

/* -EINVAL with a line in message (TRACES_MESSAGE_SIZE) when it fits no link type at all. */
int traces_filter_create(struct traces_filter **out, const char *expression, char *message);
void traces_filter_destroy(struct traces_filter *filter);
/* NULL: it can be applied to frames of this link type; else why not. */
const char *traces_filter_misfit(const struct traces_filter *filter, enum base_link link);
/* false for a link type that it does not fit. */
bool traces_filter_match(const struct traces_filter *filter, enum base_link link,
	const uint8_t *frame, uint32_t cap_len, uint32_t wire_len);

struct traces_filter_report {
	uint64_t packets_in, packets_out;
};

/* The packets that match; fails at one whose link type the filter does not fit. */
int traces_packets_filter(struct traces_packets **out, struct traces_packets *from,
	const struct traces_filter *filter, struct traces_filter_report *report);

enum { TRACES_SLICE_FLOWS_MAX = 1 << 24 };

struct traces_slice_time {
	bool given;
	bool absolute; /* since the Unix epoch; else since the stream's first packet */
	uint64_t time_ns;
};

/* Judged in this order, each on what the ones before have left. Zeros keep everything. */
struct traces_slice_options {
	struct traces_slice_time from, to; /* [from, to), by each packet's own time, or */
	bool by_clock; /* by the latest time so far: one piece of the stream, which ends there */
	bool one_flow;
	struct base_flow_key flow;          /* zone 0 */
	uint32_t flows_max;                 /* the flows that show up first; 0: all */
	uint64_t packets_skip, packets_max; /* packets_max 0: all; the stream ends with the last */
};

struct traces_slice_report {
	uint64_t packets_in; /* read: all unless packets_max or the clock ended it */
	uint64_t packets_out;
	uint64_t no_flow; /* in time, but without a flow where flows were asked for */
};

int traces_packets_slice(struct traces_packets **out, struct traces_packets *from,
	const struct traces_slice_options *options, struct traces_slice_report *report);

enum { TRACES_MERGE_MAX = 4096 };

/*
 * Several streams, ordered by time. Stable: at equal times the earlier input goes first. The order
 * inside an input never changes: a packet earlier than the one before it follows that one at once.
 * record.file is the input's number. The array is copied.
 */
int traces_packets_merge(
	struct traces_packets **out, struct traces_packets *const *inputs, size_t inputs_count);

enum { TRACES_COPIES_MAX = 1024 };

/*
 * Overlay and speed-up. Copy k begins k x shift later than copy 0 and gets addresses of its own
 * (base/remap.h); copy 0 keeps them. Then all distances to copy 0's first packet are divided by
 * speed. With windows, input k is the capture's window k, a slice by_clock of [k x window, (k+1) x
 * window), and is played k x window earlier: with 32 windows of 20 s the method of "Packet Order
 * Matters!" (NSDI 2022). Packets without a parsable IP header are copied as they are. record.file
 * is the copy.
 */
struct traces_scale_options {
	uint32_t copies;    /* 1..TRACES_COPIES_MAX */
	uint64_t shift_ns;  /* in the capture's time, as the replay's overlay */
	uint64_t window_ns; /* 0: every copy is the whole capture */
	double speed;       /* above 0 */
};

struct traces_scale_report {
	uint64_t copies_empty; /* known at the end: windows behind the capture's */
	uint64_t time_clamped; /* came out before 1970 or after 2262: set to the nearest */
};

/* inputs: a stream for each copy. */
int traces_packets_scale(struct traces_packets **out, struct traces_packets *const *inputs,
	const struct traces_scale_options *options, struct traces_scale_report *report);

/* What shuffle holds at most; a larger block is cut in two. */
enum { TRACES_SHUFFLE_PACKETS_MAX = 1 << 22, TRACES_SHUFFLE_BYTES_MAX = 1 << 30 };

/*
 * Consecutive blocks, of window_packets each or of window_ns each (counted from the first packet,
 * by a clock that does not run backwards), are permuted, each order of a block with the same
 * probability (Fisher and Yates). So no packet moves by window_packets or more. The timestamps stay
 * where they are and packets take those of their new places, unless keep_times. With flow_order the
 * packets of a flow then trade places until they are in the order they came in.
 */
struct traces_shuffle_options {
	uint32_t window_packets; /* 1..TRACES_SHUFFLE_PACKETS_MAX; 0: window_ns counts */
	uint64_t window_ns;
	bool keep_times;
	bool flow_order;
	uint64_t seed;
};

struct traces_shuffle_report {
	uint64_t blocks;
	uint64_t blocks_cut; /* by TRACES_SHUFFLE_PACKETS_MAX or _BYTES_MAX */
};

int traces_packets_shuffle(struct traces_packets **out, struct traces_packets *from,
	const struct traces_shuffle_options *options, struct traces_shuffle_report *report);

enum { TRACES_REGROUP_HELD_MAX = 1 << 24, TRACES_REGROUP_BYTES_MAX = 1 << 28 };

/*
 * Greedy grouping by flow under a delay bound: what a reframer without exceptions would send.
 * A packet is held with its flow's; when the first of them has been held for delay_ns, all of them
 * leave, in the order they came. They leave earlier when there are run_packets of them, and when a
 * bound on memory is reached: then the flow that has waited longest makes room. At the end all
 * leave. Packets without a flow leave at once. A packet arrives at its time, or with an earlier
 * one when that is later. Packets get the time at which they leave, unless keep_times.
 */
struct traces_regroup_options {
	uint64_t delay_ns;
	uint32_t run_packets; /* 0: no limit */
	uint32_t held_max;    /* 1..TRACES_REGROUP_HELD_MAX packets */
	bool keep_times;
};

struct traces_regroup_report {
	uint64_t groups;       /* of packets that left together */
	uint64_t groups_early; /* of them by held_max, or TRACES_REGROUP_BYTES_MAX captured
				* bytes since the oldest packet that is held */
	uint64_t no_flow;
	uint64_t peak_held;
};

int traces_packets_regroup(struct traces_packets **out, struct traces_packets *from,
	const struct traces_regroup_options *options, struct traces_regroup_report *report);

/* ---- statistics: `sheaf trace info` ------------------------------------------------------ */

enum {
	TRACES_WINDOWS = 3,
	TRACES_PROTOCOLS_MAX = 256,
	TRACES_INFO_FLOWS_MAX = 1 << 22, /* default of traces_info_options.flows_max */
	TRACES_INFO_FLOWS_LIMIT = 1 << 30,
};

struct traces_info_options {
	uint64_t idle_timeout_ns; /* default 5 s */
	/* Flows that are kept, at 84 to 116 bytes each (336 MiB for the default): up to so many
	 * distinct flows all figures are exact. 0: TRACES_INFO_FLOWS_LIMIT. */
	uint64_t flows_max;
	bool inner;     /* key tunnels by their inner header */
	bool vlan_zone; /* VLAN id is part of the key */
	uint64_t seed;
};

/* What a figure is to the true one. */
enum traces_exactness { TRACES_EXACT, TRACES_ESTIMATED, TRACES_AT_LEAST, TRACES_AT_MOST };

/*
 * With up to flows_max distinct flows everything is exact. With more, `flows` and
 * `flows_unidirectional` are estimated with the relative standard error flows_standard_error.
 * The rest stays exact until flows_max flows are live at once and one more comes; then the one idle
 * for longest leaves early, and what may be wrong from there on says so in its exactness.
 */
struct traces_info {
	uint64_t packets, wire_bytes, captured_bytes;
	uint64_t flows; /* distinct bidirectional keys */
	uint64_t flows_unidirectional;
	uint64_t flow_packets, non_ip_packets, malformed_packets;
	uint64_t refusals[BASE_DROP_PARSE_LAST + 1]; /* malformed, by reason */
	uint64_t protocol_packets[TRACES_PROTOCOLS_MAX];
	uint64_t protocol_bytes[TRACES_PROTOCOLS_MAX];
	uint64_t ip4_packets, ip6_packets;
	uint64_t first_ns, last_ns, duration_ns; /* smallest, largest timestamp, difference */
	uint64_t flow_runs;                      /* SLF = packets / runs; see traces_info_slf */
	double slf;
	/* best SLF when grouped by flow inside consecutive windows, never below slf */
	double slf_window_packets[TRACES_WINDOWS]; /* of 64, 256, 1024 packets */
	double slf_window_time[TRACES_WINDOWS];    /* of 16, 64, 128 us */
	uint64_t peak_live, insertions;            /* with the idle timeout */
	uint64_t flows_max;                        /* the limit that was set */
	enum traces_exactness flows_exactness;     /* exact or estimated; both kinds of flows */
	double flows_standard_error;               /* relative; 0 when exact */
	enum traces_exactness slf_window_packets_exactness[TRACES_WINDOWS]; /* exact, at least */
	enum traces_exactness slf_window_time_exactness[TRACES_WINDOWS];
	enum traces_exactness peak_live_exactness;  /* exact, at least */
	enum traces_exactness insertions_exactness; /* exact, at most */
	uint64_t early_evictions;                   /* at least insertions less these were right */
	/* traits: packets that show them */
	uint64_t vlan, vlan_stacked, mpls, pppoe, fragments, atomic_fragments, ip_options,
		extension_headers, icmp_errors, tunnels, snaplen_cut, time_backwards, jumbo,
		tcp_syn, tcp_fin, tcp_rst;
	uint64_t links[BASE_LINKS_COUNT];
};

void traces_info_options_defaults(struct traces_info_options *options);

/*
 * Counts while packets pass, batch by batch, in one pass; how they are cut into batches makes no
 * difference. Nothing of a batch is kept. One thread at a time.
 */
struct traces_info_collector;

/* options NULL: the defaults. -ENOMEM. */
int traces_info_collector_create(
	struct traces_info_collector **out, const struct traces_info_options *options);
/* -ENOMEM, after which the collector can only be destroyed. */
int traces_info_collector_add(
	struct traces_info_collector *collector, const struct traces_batch *batch);
/* The figures of the packets so far; more may follow. */
void traces_info_collector_finish(
	const struct traces_info_collector *collector, struct traces_info *out);
void traces_info_collector_destroy(struct traces_info_collector *collector);
/* Bytes of memory that the collector holds. */
uint64_t traces_info_collector_memory_bytes(const struct traces_info_collector *collector);

/* A stream to its end. -ENOMEM, or the stream's error with its traces_packets_message. */
int traces_info_of_packets(struct traces_info *out, struct traces_packets *packets,
	const struct traces_info_options *options);
/* A whole trace. -ENOMEM. */
int traces_info_compute(struct traces_info *out, const struct traces_trace *trace,
	const struct traces_info_options *options);
/* "exact", "estimated", "at least", "at most". */
const char *traces_exactness_name(enum traces_exactness exactness);
/* Multi-line text for people; returns 0 or -EIO. */
int traces_info_print(const struct traces_info *info, FILE *stream);

/* ---- made traffic: `sheaf trace gen` is in traces/generation.h ------------------------------ */

/* ---- writing ------------------------------------------------------------------------------ */

enum traces_format {
	TRACES_FORMAT_PCAP_US,
	TRACES_FORMAT_PCAP_NS,
	TRACES_FORMAT_PCAPNG,
	TRACES_FORMAT_IPSUM,        /* Click's IPSummaryDump, IPv4 packets only */
	TRACES_FORMAT_IPSUM_BINARY, /* the same in binary */
	TRACES_FORMAT_TUPLES,       /* 13-byte 5-tuples, IPv4 packets only */
	TRACES_FORMATS_COUNT
};

enum traces_compression {
	TRACES_COMPRESSION_NONE,
	TRACES_COMPRESSION_GZIP,
	TRACES_COMPRESSION_ZSTD
};

struct traces_writer_options {
	enum traces_format format;
	enum traces_compression compression;
	uint32_t snaplen;    /* cut frames to so many bytes; 0: TRACES_RECORD_BYTES_MAX */
	bool nanoseconds;    /* of formats that hold both precisions */
	const char *comment; /* where the format has a place for one; NULL: none */
	const char *fields;  /* of an IPSummaryDump; NULL: what a connection tracker needs */
	/* Looked at while a pipe that is written to is full; NULL for never. Set: -EINTR. */
	const atomic_bool *stop;
};

/* A whole file as writers make it: under its name only when it is whole, beside it before; links
 * keep pointing where they do, devices and pipes are written to. Errors of the system, -ENOMEM. */
int traces_file_save(const char *path, const void *bytes, size_t size);

/* What the format could not hold. */
struct traces_writer_losses {
	uint64_t time_rounded; /* times cut to the format's precision */
	uint64_t left_out;     /* packets without an IPv4 header, where only those have a place */
};

struct traces_writer;

/* What the name says, and nothing else asked for. */
void traces_writer_options_defaults(
	struct traces_writer_options *options, const char *path, bool nanoseconds);
/*
 * Writes beside the final name and renames on close, so that a failed write leaves no partial file
 * ("-" is standard output; devices and pipes are written to directly). pcap takes one link type,
 * that of the first packet; pcapng writes one interface description per link type. options are
 * copied, their strings must outlive the writer. Errors of the system, -EINVAL, -ENOMEM.
 */
int traces_writer_open(
	struct traces_writer **out, const char *path, const struct traces_writer_options *options);
/* The same with compression by the name's ending. */
int traces_writer_create(
	struct traces_writer **out, const char *path, enum traces_format format, uint32_t snaplen);
/*
 * -ENOSPC, -EPIPE, -EFBIG, -EIO; -EPROTONOSUPPORT (link type) and -ERANGE (time) with one line in
 * traces_writer_message. After an error the writer only accepts close.
 */
int traces_writer_write(struct traces_writer *writer, uint64_t time_ns, enum base_link link,
	const uint8_t *frame, uint32_t cap_len, uint32_t wire_len);
int traces_writer_write_batch(struct traces_writer *writer, const struct traces_batch *batch);
/* Why writing failed; empty when nothing is known beyond the error's number. */
const char *traces_writer_message(const struct traces_writer *writer);
/* So far. */
void traces_writer_losses(const struct traces_writer *writer, struct traces_writer_losses *losses);
/* Flush, sync to the final name and free; the error of any earlier write is reported again. */
int traces_writer_close(struct traces_writer *writer);
/* Pull a stream to its end into the writer, cutting frames to the writer's snaplen. stop (may be
 * NULL) is looked at now and then: -EINTR. Errors of both sides; *failed_read (may be NULL) says
 * whether it was the stream's. The writer stays open. */
int traces_writer_pump(struct traces_writer *writer, struct traces_packets *packets,
	const atomic_bool *stop, bool *failed_read);
/* Free without a file: what was written so far disappears. */
void traces_writer_abandon(struct traces_writer *writer);
/* Guess from the name: .pcapng, .ns.pcap, .dump and .ipsum, .5t and .tuples, else pcap (nanoseconds
 * if asked); .gz or .zst may follow. */
enum traces_format traces_format_from_path(const char *path, bool nanoseconds);
/* By .gz and .zst. */
enum traces_compression traces_compression_from_path(const char *path);
/* Are these fields of an IPSummaryDump that can be written, from 1 to 64? -EINVAL with the first
 * that cannot in refused (TRACES_MESSAGE_SIZE). */
int traces_ipsum_check_fields(const char *fields, char *refused);

#include "traces/generation.h"
