/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pipeline: puts the stages together and runs them.
 *
 *	source -> parse -> reframer -> conntrack -> infer -> chain -> sink
 *
 * pipeline_config holds every limit and switch; pipeline_run executes it (all repeats) and fills a
 * pipeline_result, from which results.c writes the JSON document and the table for people.
 *
 * Time. Everything inside works in capture time: nanoseconds since the first packet, made monotone.
 * The virtual clock lets it run as fast as the CPU allows. The wall clock releases packets when
 * (TSC time since the start) * speed reaches their capture time: a schedule from one fixed start,
 * so nothing drifts. `speed` says how much faster than captured the traffic is meant to be: delay
 * bounds are multiplied by it inside, and hold times divided by it in results. Connection timeouts
 * run in capture time, so flow results do not depend on speed.
 *
 * Workers run to completion, one thread each; packets are steered by the symmetric hash of their
 * flow key through an indirection table, as RSS does it. A worker owns its reframer, tracker,
 * chain, packet buffers and part of the sink. The main thread sleeps, shows progress, and asks the
 * workers to stop on request.
 *
 * Books: read = forwarded + dropped (by reason) + held, per worker and in sum; at the end held = 0.
 */
#pragma once

#include "base/base.h"
#include "chain/chain.h"
#include "conntrack/conntrack.h"
#include "gpu_offload/gpu_offload.h"
#include "pipeline/counters.h"
#include "reframer/reframer.h"
#include "traces/traces.h"

#include <stdatomic.h>

enum {
	PIPELINE_PATHS_MAX = 1024,
	PIPELINE_WORKERS_MAX = 64,
	PIPELINE_OVERLAY_MAX = 1024,
	PIPELINE_REPEATS_MAX = 1000,
	PIPELINE_RETA_SIZE = 128, /* indirection table, as on common NICs */
	PIPELINE_MESSAGE_SIZE = 1024,
	PIPELINE_NOTE_SIZE = 160,
	PIPELINE_INFER_NAMES_MAX = 64,
};

enum pipeline_exit {
	PIPELINE_EXIT_OK = 0,
	PIPELINE_EXIT_USAGE = 1,   /* options or configuration file refused */
	PIPELINE_EXIT_INPUT = 2,   /* an input could not be opened or is not a capture */
	PIPELINE_EXIT_RUN = 3,     /* the run failed: memory, device, output */
	PIPELINE_EXIT_BOOKS = 4,   /* books do not balance, or packets of a flow were reordered */
	PIPELINE_EXIT_DAMAGED = 5, /* completed, but an input was damaged (located in the output) */
	PIPELINE_EXIT_INTERRUPTED = 6, /* stopped by SIGINT; books balanced */
	PIPELINE_EXIT_LOST = 7,        /* completed, but a back end lost its device: flows failed */
};

enum pipeline_source_kind { PIPELINE_SOURCE_TRACE, PIPELINE_SOURCE_PORT };
enum pipeline_sink_kind { PIPELINE_SINK_NULL, PIPELINE_SINK_FILE, PIPELINE_SINK_PORT };
enum pipeline_clock { PIPELINE_CLOCK_VIRTUAL, PIPELINE_CLOCK_WALL };
enum pipeline_rx { PIPELINE_RX_HOT, PIPELINE_RX_COLD };
enum pipeline_stream { PIPELINE_STREAM_AUTO, PIPELINE_STREAM_ON, PIPELINE_STREAM_OFF };

/* How workers keep connections together: pipeline/sharing.h. */
enum pipeline_sharing_kind {
	PIPELINE_SHARING_SHARD, /* default: each worker its own, nothing is shared */
	PIPELINE_SHARING_MUTEX,
	PIPELINE_SHARING_SPINLOCK,
	PIPELINE_SHARING_BUCKET_LOCK,
	PIPELINE_SHARING_HANDOVER,
	PIPELINE_SHARING_KINDS_COUNT
};

enum pipeline_ablation {
	PIPELINE_ABLATE_PREFETCH = 1 << 0,
	PIPELINE_ABLATE_RUNS = 1 << 1,
	PIPELINE_ABLATE_DEDUP = 1 << 2,
	PIPELINE_ABLATE_BURST = 1 << 3, /* scalar reference of every function, packets one by one */
};

/* Flow inference. */
/* Flows that end before their depth. */
enum pipeline_short { PIPELINE_SHORT_SKIP, PIPELINE_SHORT_CLASSIFY };

struct pipeline_infer {
	bool enabled;
	const char *model;    /* ONNX file */
	const char *verdicts; /* a file for them; NULL: none */
	/* Times as the user gave them, before speed; service_ns counts with the virtual clock
	 * alone. The model, the arena and what is the worker's are set by pipeline_run. */
	struct gpu_offload_stage_config stage;
	enum pipeline_short short_flows;
	uint32_t short_packets; /* that a short flow must have to be classified */
	const char *targets[GPU_OFFLOAD_ACTIONS_MAX]; /* backends' names: values of steering */
};

struct pipeline_config {
	/* source */
	enum pipeline_source_kind source;
	const char *const *paths; /* trace */
	size_t paths_count;
	bool concatenate;            /* files one after the other instead of merged by time */
	enum pipeline_stream stream; /* from the files while they are played; auto: see results */
	uint64_t packets_max;        /* of the capture; 0 = all */
	const char *source_port;     /* DPDK device: "net_af_packet0,iface=eth0", "0000:01:00.0" */
	uint64_t duration_ns;        /* port source: stop after; 0 = until SIGINT */
	enum pipeline_rx rx;
	uint32_t rx_ring;          /* packet buffers that rotate, default 512 */
	uint64_t loops;            /* passes over the trace, >= 1 */
	bool loop_shift;           /* addresses of their own for every pass */
	uint32_t overlay;          /* copies played together, >= 1 */
	uint64_t overlay_shift_ns; /* copy k starts k * shift later, default 1 ms */
	bool pad_to_wire;          /* snaplen-cut frames are padded with zeros to wire length */

	/* time */
	enum pipeline_clock clock;
	double speed;        /* > 0 */
	uint64_t max_gap_ns; /* longer gaps are cut and counted; 0 = never. 5 s in wall mode */

	/* run */
	uint32_t workers;
	enum pipeline_sharing_kind sharing;
	uint64_t handover_ns; /* of capture time, after which groups of flows change workers */
	uint32_t burst;       /* 1..BASE_BURST_MAX, default 64 */
	uint32_t repeats;
	uint64_t seed;
	unsigned int ablations;                 /* enum pipeline_ablation */
	bool no_huge;                           /* do not use huge pages even when there are some */
	const struct counters_kernel *counters; /* of hardware events; NULL: none */
	const char *bypass_filter; /* libpcap filter; matching packets bypass the reframer. NULL */
	const char *bulk_filter;   /* matching packets are of its bulk class. NULL */

	/* stages; arenas and ablation switches inside are set by pipeline_run */
	struct base_parse_config parse;
	bool reframer_enabled;
	struct reframer_config reframer; /* delays as the user gave them, before speed */
	struct conntrack_config conntrack;
	struct pipeline_infer infer;
	struct chain_config chain;
	bool keep_malformed; /* forward packets that the parser refuses, untracked */

	/* sink */
	enum pipeline_sink_kind sink;
	const char *sink_path;
	enum traces_format sink_format;
	const char *sink_port;
};

struct pipeline_books {
	uint64_t read, forwarded, held;
	uint64_t dropped[BASE_DROP_REASONS_COUNT];
	uint64_t read_wire_bytes, forwarded_wire_bytes;
	uint64_t reorder_violations; /* packets that left before an earlier one of their flow */
	bool balanced;
};

struct pipeline_cost {
	/* medians over repeats; cycles are TSC cycles per packet read, summed over workers */
	double packets_per_s, bits_per_s; /* over the slowest worker's time */
	double total, source, parse, reframer, conntrack, infer, sink;
	double chain[CHAIN_FUNCTIONS_MAX];
	uint32_t repeats;
	double spread; /* (max - min) / median of total over repeats; 0 for one repeat */
	double total_min, total_max;
	/* each repeat, in order: its total, and when it began, counted from the first repeat of all
	 * configurations that took turns */
	double repeat_total[PIPELINE_REPEATS_MAX], repeat_began_s[PIPELINE_REPEATS_MAX];
	double tsc_hz;
	double elapsed_s;            /* median */
	struct counters_sum counted; /* hardware events, per packet read; workers and repeats */
	/* wall clock only */
	double pacing_late_p50_ns, pacing_late_p99_ns, pacing_late_max_ns;
	/* Streams only; of the repeat that was starved longest, summed over workers. Starved: a
	 * worker wanted packets that the reader had not read yet. Held up: that it could not hand
	 * over, because another worker had its hands full. Elapsed times include both, cycles
	 * neither. */
	uint64_t reader_starved_times, reader_starved_polls;
	double reader_starved_s, reader_held_up_s;
	double reader_starved_share; /* of the workers' time */
	/* Sharing models only; of the repeat that waited longest, summed over workers. Elapsed
	 * times and the total of the cycles include waiting, the stages' cycles do not. */
	uint64_t locks_taken, locks_contended;
	double lock_wait_s, lock_wait_share; /* of the workers' time */
	double lock_held_back_s;             /* by a crowded table, for workers that were behind */
	/* Handover only: groups that changed their worker, epochs that workers had packets in; of
	 * the waits above, cycles include none. */
	uint64_t handover_groups, handover_turns;
};

struct pipeline_result {
	/* trace */
	struct traces_load_report load;
	uint64_t trace_packets, trace_wire_bytes, trace_captured_bytes; /* one pass, one copy */
	uint64_t trace_duration_ns; /* monotone capture time of one pass, gaps cut */
	uint64_t time_clamped;      /* packets whose time ran backwards */
	uint64_t gaps_cut, gaps_cut_ns;
	uint64_t frames_cut; /* longer than a packet buffer: cut, counted per pass */
	uint64_t trace_memory_bytes;
	uint64_t flows; /* distinct flow keys of the capture (bidirectional) */
	enum traces_exactness flows_exactness; /* exact, or at least: a stream counts so many */

	/* stages, summed over workers (last repeat; all repeats agree or the run fails) */
	struct base_parse_stats parse;
	uint64_t runs_in, runs_packets; /* flow runs at the parser's output: natural SLF */
	struct reframer_stats reframer;
	struct base_histogram hold; /* in replay time: divided by speed */
	uint64_t flow_runs_out;     /* flow runs at the sink */
	struct conntrack_stats conntrack;
	struct gpu_offload_stage_stats infer;
	struct gpu_offload_model_info infer_model;
	/* What the model calls its classes: numbers, and words for the first, "" for none. */
	uint32_t infer_labels[GPU_OFFLOAD_CLASSES_MAX];
	char infer_names[PIPELINE_INFER_NAMES_MAX][GPU_OFFLOAD_LABEL_SIZE];
	char infer_note[GPU_OFFLOAD_MESSAGE_SIZE]; /* the back end that was taken, and why */
	/* Empty, or why a worker's back end gave its device up, in any repeat. */
	char infer_lost[GPU_OFFLOAD_MESSAGE_SIZE + 32];
	uint32_t chain_count;
	struct chain_function_stats chain[CHAIN_FUNCTIONS_MAX]; /* counters' names: below */
	char counter_names[CHAIN_FUNCTIONS_MAX][CHAIN_COUNTERS_MAX][CHAIN_NAME_SIZE + 16];
	uint64_t flow_digest; /* of per-flow results; equal for every number of workers */

	struct pipeline_cost cost;
	struct pipeline_books books;
	struct pipeline_books worker_books[PIPELINE_WORKERS_MAX];

	/* run */
	bool huge_pages;
	char memory_note[128];                /* "2 MiB huge pages" / "no huge pages: slower" */
	bool streamed;                        /* captures were read while they were played */
	char stream_note[PIPELINE_NOTE_SIZE]; /* why, or why not */
	uint64_t reader_chunks;               /* of a stream, for each worker */
	uint64_t reader_memory_bytes;         /* of a stream's chunks */
	bool interrupted;
	bool repeats_differ; /* a non-cost result changed between repeats: a bug, exit BOOKS */
	char message[PIPELINE_MESSAGE_SIZE];
};

void pipeline_config_defaults(struct pipeline_config *config);

/* The salts of flow hashes come from the seed, so that a run can be repeated exactly; the first is
 * the tracker's as well. */
void pipeline_hash_salts(uint64_t seed, uint64_t salts[2]);

/* Check sizes and combinations. 0 or -EINVAL with "what: got, expected" in message. */
int pipeline_config_check(const struct pipeline_config *config, char *message);

/*
 * Run. stop may be set by a signal handler at any time: the run ends with its books balanced.
 * progress (may be NULL) is called from the calling thread about ten times a second with what is
 * being done ("loading", "replaying") and how far it is. Returns an enum pipeline_exit;
 * result->message explains anything but OK. Initialises the EAL once per process.
 */
enum pipeline_exit pipeline_run(const struct pipeline_config *config,
	struct pipeline_result *result, const atomic_bool *stop,
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total),
	void *progress_context);

/*
 * Run several configurations over the same packets, loaded once. They may differ in the reframer,
 * the ablations and the chain's switches, not in what concerns input, workers and repeats. After
 * one run to warm up (when there are two or more) they take turns: first repeat of each, second
 * repeat of each, and so on, so that the machine's drift meets all of them alike. The outcome is
 * the gravest of all; results[*told].message explains it.
 */
enum pipeline_exit pipeline_compare(const struct pipeline_config *configs,
	struct pipeline_result *results, size_t count, size_t *told, const atomic_bool *stop,
	void (*progress)(void *context, const char *what, uint64_t done, uint64_t total),
	void *progress_context);

/* ---- options and results: options.c, config_file.c, results.c ------------------------------ */

/* The results document (schema "sheaf-result-1", see docs/results.md) as text; the caller frees.
 * Everything outside "run" and "cost" is deterministic under the virtual clock. NULL when out of
 * memory. */
char *pipeline_result_json(
	const struct pipeline_config *config, const struct pipeline_result *result);

/* One screen for people. */
void pipeline_result_print(
	const struct pipeline_config *config, const struct pipeline_result *result, FILE *stream);

/* Side by side: the first run is the baseline. */
void pipeline_comparison_print(const char *const *names, const struct pipeline_config *configs,
	const struct pipeline_result *results, size_t count, FILE *stream);
