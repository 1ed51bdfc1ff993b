/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of every command: one table of rows (options_table.c) from which the command line, the
 * configuration file and the help text are made, so that names, ranges and units cannot differ
 * between them (docs/decisions/0001-one-option-table.md).
 *
 * A value is text until a row's parser has taken it. Some rows have items, "key=value" pairs that
 * are rows too: on the command line `--reframer delay=64us,run=128`, in the file a nested map.
 *
 * Every refusal is one line, "<where>: got '<value>', expected <what>", in a message of
 * PIPELINE_MESSAGE_SIZE bytes. Functions return 0, -EINVAL with a message, -ENOMEM (with one), or
 * -EBADMSG (with one): a file that an option names cannot be read or is not what it should be.
 *
 * Threads: none; used before and after a run.
 *
 *	struct options *options;
 *	error = options_create(&options, OPTIONS_REPLAY);
 *	error = options_parse(options, argc, argv, message);	// reads --config first
 *	...
 *	pipeline_run(&options->config, ...);
 *	options_destroy(options);
 */
#pragma once

#include "pipeline/bench_deletion.h"
#include "pipeline/bench_lb.h"
#include "pipeline/bench_sharing.h"
#include "pipeline/bench_tables.h"
#include "pipeline/infer_bench.h"
#include "pipeline/infer_export.h"
#include "pipeline/pipeline.h"

enum options_command {
	OPTIONS_REPLAY,
	OPTIONS_COMPARE,
	OPTIONS_TRACE_INFO,
	OPTIONS_TRACE_GEN,
	OPTIONS_TRACE_CONVERT,
	OPTIONS_TRACE_ANONYMIZE,
	OPTIONS_TRACE_SCALE,
	OPTIONS_TRACE_SLICE,
	OPTIONS_TRACE_MERGE,
	OPTIONS_TRACE_FILTER,
	OPTIONS_TRACE_SHUFFLE,
	OPTIONS_TRACE_REGROUP,
	OPTIONS_BENCH_LB,
	OPTIONS_BENCH_DELETION,
	OPTIONS_BENCH_SHARING,
	OPTIONS_BENCH_TABLES,
	OPTIONS_INFER_EXPORT,
	OPTIONS_INFER_VERIFY,
	OPTIONS_INFER_BENCH,
	OPTIONS_INFER_PROBE,
	OPTIONS_REPORT,
	OPTIONS_COMMANDS_COUNT
};

enum {
	OPTIONS_ABLATIONS_COUNT = 4,
	OPTIONS_COMPARE_REPEATS = 3, /* a comparison wants its spread */
};

/* How an output is written. */
enum options_to {
	OPTIONS_TO_AUTO, /* by the name */
	OPTIONS_TO_PCAP, /* with the precision that the times need */
	OPTIONS_TO_PCAP_US,
	OPTIONS_TO_PCAP_NS,
	OPTIONS_TO_PCAPNG,
	OPTIONS_TO_IPSUM,
	OPTIONS_TO_IPSUM_BINARY,
	OPTIONS_TO_TUPLES
};

/* The link type of an output. */
enum options_link { OPTIONS_LINK_KEEP, OPTIONS_LINK_ETHERNET, OPTIONS_LINK_RAW };

/* trace convert and, what is not about link types and repair, trace anonymize */
struct options_convert {
	enum traces_input from;
	enum options_to to;
	uint64_t packets_max; /* 0: all */
	uint32_t snaplen;     /* 0: as captured */
	const char *fields;   /* of an IPSummaryDump; NULL: its default */
	/* for inputs without times or lengths; zeros: their defaults */
	uint64_t start_ns, packets_per_s;
	uint32_t ip_bytes;
	enum options_link link;
	struct traces_relink_options relink;
	struct traces_repair_options repair;
};

/* trace scale, slice, merge, filter, shuffle, regroup */
struct options_transform {
	struct traces_scale_options scale;
	struct traces_slice_options slice;
	struct traces_shuffle_options shuffle;
	struct traces_regroup_options regroup;
	const char *expression; /* filter; NULL: not given */
};

/* trace gen, whatever kind of traffic; 0: not given. */
struct options_gen {
	unsigned int preset; /* 0 none, then 1 + enum traces_preset, then OPTIONS_GEN_WORST_CASE */
	unsigned int attack; /* 0 none, else 1 + enum traces_attack */
	uint64_t flows, packets, duration_ns;
	uint64_t packets_per_s, bits_per_s; /* one of them */
	uint32_t frame_bytes, snaplen;
	uint64_t seed;
	bool microseconds, tcp;
	uint64_t period_ns;
	unsigned int hash; /* enum base_hash_kind */
	uint64_t run_seed;
	uint32_t conns;
};

enum { OPTIONS_GEN_WORST_CASE = 1 + TRACES_PRESETS_COUNT };

/* trace anonymize, beside what it shares with convert */
struct options_anonymize {
	const char *key;       /* hexadecimal digits or a file; NULL: a random one */
	const char *write_key; /* a file for the random one, "-": print it; NULL: nowhere */
	enum traces_macs macs;
	bool keep_payload;
};

/* What a command was asked to do. Strings live as long as the options. */
struct options {
	enum options_command command;
	const char *const *files; /* what is not an option, in order */
	size_t files_count;
	bool help;

	struct pipeline_config config; /* replay, compare */
	unsigned int compare_ablations;
	const char *config_file; /* NULL: none */

	struct traces_info_options info;
	struct options_gen gen;
	struct traces_synth_options synth;
	struct traces_generate_options generate;
	bool nanoseconds; /* trace gen, convert: precision of a pcap file */
	struct options_convert convert;
	struct options_anonymize anonymize;

	struct bench_lb_options bench_lb;
	struct bench_deletion_options bench_deletion;
	struct bench_sharing_options bench_sharing;
	struct bench_tables_options bench_tables;
	struct infer_export_options infer_export;
	struct infer_options infer; /* infer verify, infer bench */
	struct options_transform transform;

	const char *output; /* report, trace merge, infer export */
	const char *json;   /* path, "-" for standard output, NULL: none */
	bool quiet;

	struct options_store *store; /* owns every string and array above */
};

enum options_kind {
	OPTIONS_KIND_SWITCH,     /* bool; "--pad", "--pad=off" */
	OPTIONS_KIND_SWITCH_OFF, /* bool, inverted: "--no-pickup" clears it */
	OPTIONS_KIND_COUNT16,    /* uint16_t, and so on */
	OPTIONS_KIND_COUNT32,
	OPTIONS_KIND_COUNT64,
	OPTIONS_KIND_TIME,   /* uint64_t nanoseconds */
	OPTIONS_KIND_RATE,   /* uint64_t bits per second */
	OPTIONS_KIND_FACTOR, /* double */
	OPTIONS_KIND_SHARE,  /* double, 0 to 1; "0.05" or "5%" */
	OPTIONS_KIND_TEXT,   /* const char *, not empty */
	OPTIONS_KIND_CHOICE, /* an enum; value = index into choices */
	OPTIONS_KIND_SET,    /* unsigned int of bits; bit i = choices[i]; "all"; "none" is the empty
				set unless low is 1 */
	OPTIONS_KIND_CUSTOM, /* parse() */
	OPTIONS_KIND_CUSTOMS, /* parse(), may be repeated; a list in the file */
	OPTIONS_KIND_ITEMS,   /* items; offset leads to their target. "on" and "off" go to parse(),
				 and an item means "on" */
	OPTIONS_KIND_CHAIN,   /* functions, each with items */
};

struct options_row {
	const char *name;
	const char *argument; /* "N"; NULL for switches */
	const char *help;     /* one line, lower case, no full stop */
	enum options_kind kind;
	char letter;         /* short form, 0: none */
	uint32_t commands;   /* bit per enum options_command; 0 for items */
	uint32_t offset;     /* of the field in the target: struct options, or the item's struct */
	uint64_t low, high;  /* of counts, times, rates; high 0: no limit */
	const char *choices; /* "virtual|wall" */
	/* target: the struct that the offset counts from. message as options_set. */
	int (*parse)(struct options *options, void *target, const char *text, char *message);
	const struct options_row *items;
	size_t items_count;
	const char *otherwise; /* the default as a value, where the field does not tell */
};

int options_create(struct options **out, enum options_command command);
void options_destroy(struct options *options);

/*
 * Arguments behind the command's name. Options and files may be mixed; "--" ends the options; "-"
 * is a file. The configuration file is read first, wherever --config stands.
 */
int options_parse(struct options *options, int argc, char *const *argv, char *message);

/* Whether the command line or the configuration file set this option. */
bool options_given(const struct options *options, const char *name);

/* ---- for config_file.c, help and tests ----------------------------------------------------- */

/* All rows, in the order of the help text; NULL behind the last. */
const struct options_row *options_row_at(size_t index);

/* NULL when the command has no such option. */
const struct options_row *options_find(enum options_command command, const char *name);
const struct options_row *options_item_find(const struct options_row *row, const char *key);

/* The default of a row as a value; target: the struct that its offset counts from, with its
 * defaults. False: there is none to show. */
bool options_default_text(
	const struct options_row *row, const void *target, char *text, size_t text_size);

/* Items of a chain function. */
const struct options_row *options_chain_items(enum chain_kind kind, size_t *count);

/* Take one value for one row. message gets "got '0', expected 1..256". */
int options_set(
	struct options *options, const struct options_row *row, const char *text, char *message);
/* Take one "key=value" of a row with items. */
int options_set_item(struct options *options, const struct options_row *row, const char *key,
	const char *value, char *message);

/* A chain is built anew from the first function on. */
int options_chain_clear(struct options *options);
int options_chain_add(struct options *options, const char *name, char *message);
/* For the function added last. */
int options_chain_set(struct options *options, const char *key, const char *value, char *message);
/* "lb:backends=16:seed=3": add and set. message names the item. */
int options_chain_add_text(struct options *options, const char *text, char *message);

/* Replaces the files (capture names). */
int options_files_clear(struct options *options);
int options_files_add(struct options *options, const char *path, char *message);

/* Bit `index` of pipeline_config.ablations. */
const char *options_ablation_name(unsigned int index);

/* "replay", "trace gen". */
const char *options_command_name(enum options_command command);
