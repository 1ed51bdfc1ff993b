/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The batcher with random rows, deadlines, times and back ends. Held against what it promises:
 * every row comes back exactly once with its own label; books balance after every call; rows leave
 * by deadline; none leaves behind its deadline; the oldest waits no longer than the delay; in
 * virtual time nothing depends on how often it is called.
 */
#include "base/compiler.h"
#include "base/rng.h"
#include "gpu_offload/batcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 400, ROWS_MAX = 600, INPUTS = 3, OUT_MAX = 8 };

/* The end of a test, with the seed that repeats it. */
static void require(bool right, const char *what, uint64_t seed)
{
	if (right)
		return;
	fprintf(stderr, "seed %lu: %s\n", (unsigned long)seed, what);
	abort();
}

struct row {
	uint64_t pushed_ns, deadline_ns;
	bool pushed, left, answered;
	struct gpu_offload_answer answer;
};

/* A test double of a back end: batches come back late, in any order, failed, or are put off. */
struct world {
	uint64_t seed;
	struct base_rng rng;
	struct gpu_offload_batcher_config config;
	struct gpu_offload_batcher *batcher;
	struct row rows[ROWS_MAX];
	uint32_t pushed;
	struct gpu_offload_batch *out[OUT_MAX];
	uint32_t out_count;
	bool fails;               /* some batches */
	uint64_t order[ROWS_MAX]; /* of answers */
	uint32_t answers;
	uint64_t batches;
};

static uint32_t label_of(const float *row)
{
	return (uint32_t)row[0] * 7 + (uint32_t)row[2];
}

static void check_leaving(struct world *world, const struct gpu_offload_batch *batch)
{
	struct gpu_offload_batcher_stats stats;
	uint64_t latest_ns = 0;
	gpu_offload_batcher_stats(world->batcher, &stats);
	for (uint32_t i = 0; i < batch->count; i++) {
		struct row *row = &world->rows[(uint32_t)batch->inputs[i * INPUTS]];
		require(row->pushed && !row->left && !row->answered, "left twice", world->seed);
		row->left = true;
		latest_ns = row->deadline_ns > latest_ns ? row->deadline_ns : latest_ns;
	}
	for (uint32_t i = 0; i < stats.in; i++) { /* without the one that is being pushed */
		const struct row *row = &world->rows[i];
		bool waits = row->pushed && !row->left && !row->answered;
		require(!waits || row->deadline_ns >= latest_ns, "overtaken", world->seed);
	}
}

static int submit(void *server, struct gpu_offload_batch *batch)
{
	struct world *world = server;
	require(batch->count >= 1 && batch->count <= world->config.batch_max, "size", world->seed);
	require((uintptr_t)batch->inputs % 64 == 0, "alignment", world->seed);
	if (world->out_count == OUT_MAX ||
		(world->out_count > 0 && base_rng_below(&world->rng, 4) == 0))
		return -EAGAIN;
	check_leaving(world, batch);
	world->batches++;
	if (world->fails && world->batches % 7 == 3)
		return -EINVAL;
	batch->status = world->fails && world->batches % 5 == 1 ? -EIO : 0;
	for (uint32_t i = 0; i < batch->count; i++)
		batch->labels[i] = label_of(&batch->inputs[i * INPUTS]);
	world->out[world->out_count++] = batch;
	return 0;
}

static uint32_t poll(void *server, struct gpu_offload_batch *done[], uint32_t max)
{
	struct world *world = server;
	uint32_t count = 0;
	while (count < max && world->out_count > 0 && base_rng_below(&world->rng, 3) != 0) {
		uint32_t at = (uint32_t)base_rng_below(&world->rng, world->out_count);
		done[count++] = world->out[at];
		world->out[at] = world->out[--world->out_count];
	}
	return count;
}

static int classify(void *server, const float *row, uint32_t *label)
{
	(void)server;
	*label = label_of(row);
	return 0;
}

static void answered(void *context, const struct gpu_offload_answer *answer)
{
	struct world *world = context;
	uint64_t id = answer->ticket.flow_id;
	require(id < world->pushed + 1 && id < ROWS_MAX, "a stranger", world->seed);
	struct row *row = &world->rows[id];
	require(!row->answered, "answered twice", world->seed);
	require(answer->ticket.conn == id * 3 && answer->ticket.generation == id * 5, "ticket",
		world->seed);
	require(answer->asked_ns == row->pushed_ns, "asked", world->seed);
	require(answer->answered_ns >= row->pushed_ns, "before its time", world->seed);
	const float values[INPUTS] = { (float)id, 0, (float)(id % 4) };
	if (answer->outcome == GPU_OFFLOAD_ANSWERED)
		require(answer->label == label_of(values), "label", world->seed);
	if (answer->outcome == GPU_OFFLOAD_EXPIRED)
		require(answer->answered_ns > row->deadline_ns && !row->left, "expired early",
			world->seed);
	row->answered = true;
	row->answer = *answer;
	world->order[world->answers++] = id;
}

static void check_books(const struct world *world)
{
	struct gpu_offload_batcher_stats stats;
	gpu_offload_batcher_stats(world->batcher, &stats);
	require(stats.in == world->pushed, "in", world->seed);
	require(stats.in == stats.answered + stats.rejected + stats.expired + stats.failed +
				    stats.waiting,
		"books", world->seed);
	require(stats.in - stats.waiting == world->answers, "answers", world->seed);
	require(stats.batches ==
			stats.full + stats.delay + stats.deadline + stats.idle + stats.final,
		"causes", world->seed);
	require(stats.limit >= 1 && stats.limit <= world->config.batch_max, "limit", world->seed);
}

static void random_config(struct world *world)
{
	struct base_rng *rng = &world->rng;
	struct gpu_offload_batcher_config *config = &world->config;
	*config = (struct gpu_offload_batcher_config){
		.inputs = INPUTS,
		.batch_max = 1 + (uint32_t)base_rng_below(rng, 40),
		.batches_max = 1 + (uint32_t)base_rng_below(rng, 4),
		.delay_ns = base_rng_below(rng, 2000),
		.objective_ns = base_rng_below(rng, 2) ? 1 + base_rng_below(rng, 3000) : 0,
		.idle_flush = base_rng_below(rng, 2),
		.full = (enum gpu_offload_full)base_rng_below(rng, GPU_OFFLOAD_FULL_COUNT),
		.service_ns = base_rng_below(rng, 3) ? base_rng_below(rng, 1500)
						     : GPU_OFFLOAD_SERVICE_REAL,
		.submit = submit,
		.poll = poll,
		.server = world,
		.classify = classify,
		.answer = answered,
		.answer_context = world,
	};
	config->queue_max = config->batch_max + (uint32_t)base_rng_below(rng, 60);
	uint32_t size = 0;
	while (base_rng_below(rng, 2) && config->preferred_count < GPU_OFFLOAD_PREFERRED_MAX) {
		size += 1 + (uint32_t)base_rng_below(rng, 12);
		if (size > config->batch_max)
			break;
		config->preferred[config->preferred_count++] = size;
	}
	world->fails = base_rng_below(rng, 3) == 0;
}

/* Push and advance through one history; often: with more calls in between. */
static void run(struct world *world, uint64_t seed, bool often)
{
	struct base_rng rng, calls;
	uint64_t now_ns = 0;
	memset(world, 0, sizeof(*world));
	world->seed = seed;
	base_rng_seed(&world->rng, seed);
	random_config(world);
	base_rng_seed(&rng, seed + 1);
	base_rng_seed(&calls, seed + 2);
	require(base_arena_create(&world->config.arena, false) == 0, "arena", seed);
	require(gpu_offload_batcher_create(&world->batcher, &world->config) == 0, "create", seed);
	uint32_t rows = 1 + (uint32_t)base_rng_below(&rng, ROWS_MAX);
	uint64_t gap = 1 + base_rng_below(&rng, 400);
	bool deadlines = base_rng_below(&rng, 2);
	for (uint32_t i = 0; i < rows; i++) {
		uint64_t next_ns = now_ns + base_rng_below(&rng, gap);
		while (often && now_ns < next_ns && base_rng_below(&calls, 3) != 0) {
			now_ns += base_rng_below(&calls, next_ns - now_ns + 1);
			gpu_offload_batcher_advance(world->batcher, now_ns);
			check_books(world);
		}
		now_ns = next_ns;
		struct row *row = &world->rows[i];
		row->pushed_ns = now_ns;
		row->deadline_ns = deadlines && base_rng_below(&rng, 3)
					   ? now_ns + base_rng_below(&rng, 4000)
					   : GPU_OFFLOAD_NO_DEADLINE;
		const struct gpu_offload_ticket ticket = { i * 3, i * 5, i, i % 2 };
		const float values[INPUTS] = { (float)i, 0, (float)(i % 4) };
		/* Events of earlier times see the row as not there yet. */
		gpu_offload_batcher_advance(world->batcher, now_ns);
		world->pushed = i + 1;
		row->pushed = true;
		gpu_offload_batcher_push(world->batcher, &ticket, values, row->deadline_ns, now_ns);
		check_books(world);
	}
	gpu_offload_batcher_finish(world->batcher, now_ns);
	check_books(world);
	require(world->answers == rows, "lost", seed);
}

static void check_delays(const struct world *world)
{
	const struct gpu_offload_batcher_config *config = &world->config;
	struct gpu_offload_batcher_stats stats;
	gpu_offload_batcher_stats(world->batcher, &stats);
	require(stats.waiting == 0, "finished", world->seed);
	for (uint32_t i = 0; i < world->pushed; i++) {
		const struct row *row = &world->rows[i];
		uint64_t took_ns = row->answer.answered_ns - row->pushed_ns;
		if (row->left && config->service_ns != GPU_OFFLOAD_SERVICE_REAL) {
			require(row->answer.answered_ns <= row->deadline_ns ||
					row->answer.answered_ns - config->service_ns <=
						row->deadline_ns,
				"left behind its deadline", world->seed);
			/* Unless batches_max were in flight: then until one came back, and with
			 * rows of earlier deadlines before it. */
			if (stats.waited_max_ns <= config->delay_ns)
				require(took_ns <= config->delay_ns + config->service_ns, "delay",
					world->seed);
		}
	}
	/* Who has as many batches in flight as it ever needs keeps the bound. */
	if (config->service_ns == 0)
		require(stats.waited_max_ns <= config->delay_ns, "waited", world->seed);
}

static void check_same(const struct world *a, const struct world *b)
{
	require(a->pushed == b->pushed && a->answers == b->answers, "rows", a->seed);
	require(memcmp(a->order, b->order, a->answers * sizeof(*a->order)) == 0, "order", a->seed);
	for (uint32_t i = 0; i < a->pushed; i++)
		require(memcmp(&a->rows[i].answer, &b->rows[i].answer, sizeof(a->rows[i].answer)) ==
				0,
			"depends on calls", a->seed);
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	struct world *once = malloc(sizeof(*once)), *often = malloc(sizeof(*often));
	uint64_t batches = 0;
	BASE_ASSERT(once != NULL && often != NULL);
	for (uint64_t seed = first; seed < first + ROUNDS; seed++) {
		run(once, seed, false);
		run(often, seed, true);
		check_delays(once);
		check_delays(often);
		if (once->config.service_ns != GPU_OFFLOAD_SERVICE_REAL)
			check_same(once, often);
		batches += once->batches;
		gpu_offload_batcher_destroy(once->batcher);
		gpu_offload_batcher_destroy(often->batcher);
		base_arena_destroy(once->config.arena);
		base_arena_destroy(often->config.arena);
	}
	printf("%d histories twice, %lu batches\n", ROUNDS, (unsigned long)batches);
	free(once);
	free(often);
	return 0;
}
