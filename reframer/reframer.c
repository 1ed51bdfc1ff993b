/* SPDX-License-Identifier: BSD-2-Clause */
#include "reframer/reframer.h"

#include "base/rng.h"
#include "reframer/reframer_private.h"

#include <errno.h>

enum {
	HELD_MAX = 1 << 24, /* packets or flows */
	SEEN_MAX = 1 << 30, /* flows */
};

void reframer_config_defaults(struct reframer_config *config)
{
	*config = (struct reframer_config){
		.delay_ns = {
			[REFRAMER_CLASS_NORMAL] = 64000,
			[REFRAMER_CLASS_SHORT] = 16000,
			[REFRAMER_CLASS_BULK] = 256000,
		},
		.run_packets_max = 128,
		.held_packets_max = 4096,
		.held_flows_max = 4096,
		.bypass_syn = true,
		.bypass_rst = true,
		.bypass_first = true,
		.prefetch = true,
		.seen_flows = 1 << 20,
	};
}

static bool config_is_possible(const struct reframer_config *config)
{
	if (config->arena == NULL)
		return false;
	if (config->run_packets_max < 1 || config->run_packets_max > BASE_BURST_MAX)
		return false;
	if (config->held_packets_max < 1 || config->held_packets_max > HELD_MAX)
		return false;
	if (config->held_flows_max < 1 || config->held_flows_max > config->held_packets_max)
		return false;
	return !config->bypass_first || (config->seen_flows >= 1 && config->seen_flows <= SEEN_MAX);
}

static size_t queue_size(const struct run_queue *queue)
{
	return ((size_t)queue->capacity + RUN_QUEUE_MARGIN) * sizeof(*queue->runs);
}

static void release_memory(struct reframer *reframer)
{
	struct base_arena *arena = reframer->arena;
	base_arena_free(arena, reframer->released.runs, queue_size(&reframer->released));
	reframer_seen_filter_destroy(&reframer->seen, arena);
	reframer_held_flows_destroy(&reframer->held, arena);
	base_arena_free(arena, reframer, sizeof(*reframer));
}

static int create_parts(struct reframer *reframer, const struct reframer_config *config)
{
	struct base_arena *arena = config->arena;
	uint64_t salt = config->salt;
	uint64_t multiplier = base_rng_splitmix64(&salt) | 1;
	struct run_queue *queue = &reframer->released;
	queue->capacity = config->held_packets_max + BASE_BURST_MAX;
	queue->runs = base_arena_alloc(arena, queue_size(queue), BASE_CACHE_LINE);
	if (queue->runs == NULL)
		return -ENOMEM;
	int rc = reframer_held_flows_create(
		&reframer->held, arena, config->held_flows_max, multiplier);
	if (rc == 0 && config->bypass_first)
		rc = reframer_seen_filter_create(&reframer->seen, arena, config->seen_flows);
	return rc;
}

int reframer_create(struct reframer **out, const struct reframer_config *config)
{
	if (!config_is_possible(config))
		return -EINVAL;
	struct reframer *reframer =
		base_arena_alloc(config->arena, sizeof(*reframer), BASE_CACHE_LINE);
	if (reframer == NULL)
		return -ENOMEM;
	reframer->arena = config->arena;
	reframer->run_packets_max = config->run_packets_max;
	reframer->held_packets_max = config->held_packets_max;
	reframer->held_flows_max = config->held_flows_max;
	reframer->bypass_first = config->bypass_first;
	reframer->prefetch = config->prefetch;
	reframer->many_classes =
		config->short_acks || config->operator_bulk || config->classify != NULL;
	reframer->plain = !reframer->many_classes && config->run_packets_max > 1 &&
			  config->delay_ns[REFRAMER_CLASS_NORMAL] != 0;
	reframer->recent_slot = HELD_NONE;
	flush_list_init(&reframer->flush);
	base_histogram_reset(&reframer->hold);
	reframer_release_policy_init(&reframer->policy, config);
	int rc = create_parts(reframer, config);
	if (rc != 0) {
		release_memory(reframer);
		return rc;
	}
	*out = reframer;
	return 0;
}

void reframer_destroy(struct reframer *reframer)
{
	if (reframer == NULL)
		return;
	BASE_ASSERT(reframer->held_packets == 0 && run_queue_count(&reframer->released) == 0);
	release_memory(reframer);
}

uint64_t reframer_horizon_ns(const struct reframer *reframer)
{
	if (run_queue_count(&reframer->released) != 0)
		return reframer->horizon_ns;
	return reframer_held_since_ns(reframer);
}

void reframer_stats(const struct reframer *reframer, struct reframer_stats *stats)
{
	*stats = reframer->stats;
	stats->held_packets = reframer->held_packets;
	stats->held_flows = reframer->held_flows;
	stats->released_packets = stats->packets_in - stats->packets_out - reframer->held_packets;
}

const struct base_histogram *reframer_hold_histogram(const struct reframer *reframer)
{
	return &reframer->hold;
}
