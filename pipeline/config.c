/* SPDX-License-Identifier: BSD-2-Clause */
/* Defaults of a run, and the checks that need several fields together. */
#include "pipeline/infer.h"

#include "base/rng.h"
#include "conntrack/lab.h"
#include "pipeline/sharing.h"

#include <errno.h>
#include <stdio.h>

void pipeline_config_defaults(struct pipeline_config *config)
{
	memset(config, 0, sizeof(*config));
	config->source = PIPELINE_SOURCE_TRACE;
	config->rx = PIPELINE_RX_HOT;
	config->rx_ring = 512;
	config->loops = 1;
	config->overlay = 1;
	config->overlay_shift_ns = UINT64_C(1000000);
	config->clock = PIPELINE_CLOCK_VIRTUAL;
	config->speed = 1.0;
	config->max_gap_ns = UINT64_MAX; /* "not given": see pipeline_config_max_gap_ns */
	config->workers = 1;
	config->handover_ns = 10000000;
	config->burst = 64;
	config->repeats = 1;
	config->seed = 1;
	base_parse_config_defaults(&config->parse);
	reframer_config_defaults(&config->reframer);
	conntrack_config_defaults(&config->conntrack);
	infer_defaults(&config->infer);
	config->sink = PIPELINE_SINK_NULL;
	config->sink_format = TRACES_FORMAT_PCAP_NS;
}

/* One row per size that has a range of its own. */
struct range_check {
	const char *name;
	uint64_t value, low, high;
};

static int check_ranges(const struct pipeline_config *config, char *message)
{
	const struct range_check rows[] = {
		{ "workers", config->workers, 1, PIPELINE_WORKERS_MAX },
		{ "burst", config->burst, 1, BASE_BURST_MAX },
		{ "repeat", config->repeats, 1, PIPELINE_REPEATS_MAX },
		{ "overlay", config->overlay, 1, PIPELINE_OVERLAY_MAX },
		{ "loop", config->loops, 1, UINT32_MAX },
		{ "rx-ring", config->rx_ring, 2, 1u << 20 },
		{ "conns", config->conntrack.entries_max, 1, 1u << 28 },
		{ "chain", config->chain.functions_count, 0, CHAIN_FUNCTIONS_MAX },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(rows); i++) {
		const struct range_check *row = &rows[i];
		if (row->value >= row->low && row->value <= row->high)
			continue;
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s: got %llu, expected %llu..%llu",
			row->name, (unsigned long long)row->value, (unsigned long long)row->low,
			(unsigned long long)row->high);
		return -EINVAL;
	}
	return 0;
}

static int check_reframer(const struct pipeline_config *config, char *message)
{
	const struct reframer_config *reframer = &config->reframer;
	const char *wrong = NULL;
	if (!config->reframer_enabled)
		return 0;
	if (reframer->run_packets_max < 1 || reframer->run_packets_max > BASE_BURST_MAX)
		wrong = "reframer run: expected 1..256 packets";
	else if (reframer->held_packets_max < 1 || reframer->held_packets_max > 1u << 20)
		wrong = "reframer held: expected 1..1048576 packets";
	else if (reframer->held_flows_max < 1 ||
		 reframer->held_flows_max > reframer->held_packets_max)
		wrong = "reframer flows: expected 1..held";
	else if (config->bulk_filter != NULL && !reframer->operator_bulk)
		wrong = "bulk: needs a delay, such as --reframer bulk=1ms";
	else if (config->bulk_filter == NULL && reframer->operator_bulk)
		wrong = "reframer bulk: needs a filter, such as --bulk 'udp port 443'";
	for (int i = 0; i < REFRAMER_CLASSES_COUNT && wrong == NULL; i++) {
		if ((double)reframer->delay_ns[i] * config->speed > 1e18)
			wrong = "reframer delay: delay * speed is more than 30 years";
	}
	if (wrong == NULL)
		return 0;
	snprintf(message, PIPELINE_MESSAGE_SIZE, "%s", wrong);
	return -EINVAL;
}

static int check_io(const struct pipeline_config *config, char *message)
{
	const char *wrong = NULL;
	if (config->source == PIPELINE_SOURCE_TRACE && config->paths_count == 0)
		wrong = "no capture given";
	else if (config->paths_count > PIPELINE_PATHS_MAX)
		wrong = "too many captures, expected at most 1024";
	else if (config->source == PIPELINE_SOURCE_PORT && config->source_port == NULL)
		wrong = "source: expected port:DEVICE";
	else if (config->source == PIPELINE_SOURCE_PORT && config->clock != PIPELINE_CLOCK_WALL)
		wrong = "source: a port needs clock wall";
	else if (config->source == PIPELINE_SOURCE_PORT && config->stream == PIPELINE_STREAM_ON)
		wrong = "stream: got on, expected captures: a port is received from anyway";
	else if (config->source == PIPELINE_SOURCE_PORT && config->repeats != 1)
		wrong = "repeat: a port cannot be replayed, expected 1";
	else if (config->sink == PIPELINE_SINK_FILE && config->sink_path == NULL)
		wrong = "sink: expected pcap:FILE or pcapng:FILE";
	else if (config->sink == PIPELINE_SINK_FILE && config->repeats != 1)
		wrong = "repeat: expected 1 when the sink is a file";
	else if (config->sink == PIPELINE_SINK_PORT && config->sink_port == NULL)
		wrong = "sink: expected port:DEVICE";
	else if (!(config->speed > 0) || config->speed > 1e9)
		wrong = "speed: expected a number above 0, at most 1e9";
	else if (config->chain.functions_count != 0 && config->conntrack.entries_max == 0)
		wrong = "chain: needs connection tracking";
	if (wrong == NULL)
		return 0;
	snprintf(message, PIPELINE_MESSAGE_SIZE, "%s", wrong);
	return -EINVAL;
}

/* Who has a group is planned for a capture in memory, which is played once and in its own time. */
static int check_handover(const struct pipeline_config *config, char *message)
{
	const char *with = NULL, *why = NULL;
	if (config->handover_ns == 0)
		with = "an epoch of 0", why = "at least 1us";
	else if (config->infer.enabled)
		with = "infer", why = "shard, mutex or spinlock: its groups would split batches";
	else if (config->clock == PIPELINE_CLOCK_WALL)
		with = "clock wall", why = "clock virtual: a worker's time stands while it waits";
	else if (config->stream == PIPELINE_STREAM_ON)
		with = "stream on", why = "captures in memory: a reader does not plan so far ahead";
	else if (config->loops != 1)
		with = "loop", why = "one pass: each has times of its own";
	else if (config->overlay != 1)
		with = "overlay", why = "one copy (see trace scale): each has times of its own";
	if (with == NULL)
		return 0;
	snprintf(message, PIPELINE_MESSAGE_SIZE, "sharing: got 'handover' with %s, expected %s",
		with, why);
	return -EINVAL;
}

/* With a strategy by which idle connections may still be found, who finds them depends on when they
 * are removed, and that on how far workers are apart. */
static int check_sharing(const struct pipeline_config *config, char *message)
{
	const struct conntrack_deletion_ops *deletion = config->conntrack.deletion;
	if (config->sharing == PIPELINE_SHARING_SHARD)
		return 0;
	if (config->sharing == PIPELINE_SHARING_HANDOVER && check_handover(config, message) != 0)
		return -EINVAL;
	if (config->sharing == PIPELINE_SHARING_BUCKET_LOCK && config->infer.enabled) {
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"sharing: got 'bucket_lock' with infer, expected shard, mutex or spinlock: "
			"its groups would split batches");
		return -EINVAL;
	}
	/* Packets that wait for an answer would have to be let go by whoever evicts. */
	if (config->conntrack.full_policy == CONNTRACK_FULL_EVICT_TRANSIENT &&
		config->infer.enabled && config->infer.stage.hold_ns > 0) {
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"sharing: got '%s' with --full evict and infer hold, expected shard",
			sharing_name(config->sharing));
		return -EINVAL;
	}
	if (deletion == NULL || !deletion->stale_hits)
		return 0;
	snprintf(message, PIPELINE_MESSAGE_SIZE,
		"sharing: got '%s' with deletion %s, expected shard: packets may find idle "
		"connections with it",
		sharing_name(config->sharing), deletion->name);
	return -EINVAL;
}

int pipeline_config_check(const struct pipeline_config *config, char *message)
{
	int error = check_ranges(config, message);
	if (error == 0)
		error = check_io(config, message);
	if (error == 0)
		error = check_reframer(config, message);
	if (error == 0)
		error = infer_check(config, message);
	if (error == 0)
		error = check_sharing(config, message);
	return error;
}

void pipeline_hash_salts(uint64_t seed, uint64_t salts[2])
{
	uint64_t state = seed;
	salts[0] = base_rng_splitmix64(&state);
	salts[1] = base_rng_splitmix64(&state);
}
