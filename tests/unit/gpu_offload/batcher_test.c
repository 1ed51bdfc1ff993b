/* SPDX-License-Identifier: BSD-2-Clause */
/* When batches leave, one rule at a time, in virtual time. */
#include "gpu_offload/batcher.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MAX = 256, SERVICE_NS = 100, DELAY_NS = 1000 };

struct world {
	struct gpu_offload_batcher_config config;
	struct gpu_offload_batcher *batcher;
	struct gpu_offload_batch *out[8];
	uint32_t out_count, sizes[ROWS_MAX], batches;
	struct gpu_offload_answer answers[ROWS_MAX];
	uint32_t answers_count;
	int status;
};

static int submit(void *server, struct gpu_offload_batch *batch)
{
	struct world *world = server;
	for (uint32_t i = 0; i < batch->count; i++)
		batch->labels[i] = (uint32_t)batch->inputs[i];
	batch->status = world->status;
	world->sizes[world->batches++] = batch->count;
	world->out[world->out_count++] = batch;
	return 0;
}

static uint32_t poll(void *server, struct gpu_offload_batch *done[], uint32_t max)
{
	struct world *world = server;
	if (world->out_count == 0 || max == 0)
		return 0;
	done[0] = world->out[--world->out_count];
	return 1;
}

static int classify(void *server, const float *row, uint32_t *label)
{
	struct world *world = server;
	*label = 1000 + (uint32_t)row[0];
	return world->status;
}

static void answered(void *context, const struct gpu_offload_answer *answer)
{
	struct world *world = context;
	world->answers[world->answers_count++] = *answer;
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	assert_non_null(world);
	world->config = (struct gpu_offload_batcher_config){
		.inputs = 1,
		.batch_max = 8,
		.batches_max = 1,
		.queue_max = 8,
		.delay_ns = DELAY_NS,
		.service_ns = SERVICE_NS,
		.submit = submit,
		.poll = poll,
		.server = world,
		.classify = classify,
		.answer = answered,
		.answer_context = world,
	};
	assert_int_equal(base_arena_create(&world->config.arena, false), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	gpu_offload_batcher_destroy(world->batcher);
	base_arena_destroy(world->config.arena);
	free(world);
	return 0;
}

static void begin(struct world *world)
{
	assert_int_equal(gpu_offload_batcher_create(&world->batcher, &world->config), 0);
}

static void push(struct world *world, uint32_t number, uint64_t deadline_ns, uint64_t now_ns)
{
	const struct gpu_offload_ticket ticket = { .conn = number };
	const float row = (float)number;
	gpu_offload_batcher_push(world->batcher, &ticket, &row, deadline_ns, now_ns);
}

static void push_many(struct world *world, uint32_t count, uint64_t now_ns)
{
	for (uint32_t i = 0; i < count; i++)
		push(world, i, GPU_OFFLOAD_NO_DEADLINE, now_ns);
}

static struct gpu_offload_batcher_stats stats_of(const struct world *world)
{
	struct gpu_offload_batcher_stats stats;
	gpu_offload_batcher_stats(world->batcher, &stats);
	return stats;
}

/* The oldest waits the delay and not a nanosecond more, however late the call. */
static void test_delay(void **state)
{
	struct world *world = *state;
	begin(world);
	push(world, 1, GPU_OFFLOAD_NO_DEADLINE, 50);
	push(world, 2, GPU_OFFLOAD_NO_DEADLINE, 700);
	gpu_offload_batcher_advance(world->batcher, 50 + DELAY_NS - 1);
	assert_int_equal(world->batches, 0);
	gpu_offload_batcher_advance(world->batcher, 1000000);
	assert_int_equal(world->batches, 1);
	assert_int_equal(world->sizes[0], 2);
	assert_int_equal(world->answers_count, 2);
	assert_int_equal(world->answers[0].answered_ns, 50 + DELAY_NS + SERVICE_NS);
	assert_int_equal(world->answers[0].label, 1);
	assert_int_equal(stats_of(world).delay, 1);
}

static void test_full_and_preferred(void **state)
{
	struct world *world = *state;
	world->config.preferred[0] = 3;
	world->config.preferred[1] = 6;
	world->config.preferred_count = 2;
	begin(world);
	push_many(world, 7, 10);
	assert_int_equal(world->batches, 1); /* three at once; four wait for the back end */
	assert_int_equal(world->sizes[0], 3);
	push_many(world, 3, 20);
	gpu_offload_batcher_advance(world->batcher, 10 + SERVICE_NS);
	assert_int_equal(world->sizes[1], 6); /* the largest that seven rows fill */
	assert_int_equal(stats_of(world).full, 2);
	gpu_offload_batcher_finish(world->batcher, 10 + SERVICE_NS);
	assert_int_equal(world->sizes[2], 1);
	assert_int_equal(world->answers_count, 10);
	assert_int_equal(stats_of(world).final, 1);
}

static void test_idle(void **state)
{
	struct world *world = *state;
	world->config.idle_flush = true;
	begin(world);
	push_many(world, 4, 10); /* the first leaves alone, three gather meanwhile */
	assert_int_equal(world->batches, 1);
	gpu_offload_batcher_advance(world->batcher, 10 + SERVICE_NS);
	assert_int_equal(world->batches, 2);
	assert_int_equal(world->sizes[1], 3);
	assert_int_equal(stats_of(world).idle, 2);
}

static void test_deadlines(void **state)
{
	struct world *world = *state;
	begin(world);
	push(world, 1, GPU_OFFLOAD_NO_DEADLINE, 0);
	push(world, 2, 500, 0);
	push(world, 3, 400, 0);
	gpu_offload_batcher_advance(world->batcher, 10000);
	assert_int_equal(world->answers_count, 3);
	assert_int_equal(world->answers[0].ticket.conn, 3); /* earliest deadline first */
	assert_int_equal(world->answers[1].ticket.conn, 2);
	assert_int_equal(world->answers[0].answered_ns, 400); /* just in time */
	assert_int_equal(stats_of(world).deadline, 1);
	assert_int_equal(stats_of(world).late, 0);
	push_many(world, 8, 20000); /* the back end is busy until 20100 */
	push(world, 9, 20050, 20000);
	gpu_offload_batcher_advance(world->batcher, 30000);
	assert_int_equal(stats_of(world).expired, 1);
	assert_int_equal(world->answers[3].outcome, GPU_OFFLOAD_EXPIRED);
	assert_int_equal(world->answers[3].answered_ns, 20051);
}

/* Eight leave, eight wait, then one more. */
static void overfill(struct world *world, enum gpu_offload_full full)
{
	world->config.full = full;
	begin(world);
	push_many(world, 16, 0);
	assert_int_equal(world->answers_count, 0);
	push(world, 99, GPU_OFFLOAD_NO_DEADLINE, 1);
	assert_int_equal(world->answers_count, 1);
	assert_int_equal(world->answers[0].answered_ns, 1);
}

static void test_drop_newest(void **state)
{
	struct world *world = *state;
	overfill(world, GPU_OFFLOAD_FULL_DROP_NEWEST);
	assert_int_equal(world->answers[0].outcome, GPU_OFFLOAD_REJECTED);
	assert_int_equal(world->answers[0].ticket.conn, 99);
}

static void test_drop_oldest(void **state)
{
	struct world *world = *state;
	overfill(world, GPU_OFFLOAD_FULL_DROP_OLDEST);
	assert_int_equal(world->answers[0].outcome, GPU_OFFLOAD_REJECTED);
	assert_int_equal(world->answers[0].ticket.conn, 8);
}

static void test_classify_on_cpu(void **state)
{
	struct world *world = *state;
	overfill(world, GPU_OFFLOAD_FULL_CPU);
	assert_int_equal(world->answers[0].outcome, GPU_OFFLOAD_ANSWERED);
	assert_int_equal(world->answers[0].label, 1099);
	assert_int_equal(stats_of(world).on_cpu, 1);
	world->status = -EIO;
	push(world, 98, GPU_OFFLOAD_NO_DEADLINE, 2);
	assert_int_equal(world->answers[1].outcome, GPU_OFFLOAD_FAILED);
	assert_int_equal(stats_of(world).on_cpu, 1);
}

static void test_failed_batch(void **state)
{
	struct world *world = *state;
	world->status = -EIO;
	begin(world);
	push_many(world, 3, 0);
	gpu_offload_batcher_finish(world->batcher, 5);
	assert_int_equal(stats_of(world).failed, 3);
	assert_int_equal(world->answers[2].outcome, GPU_OFFLOAD_FAILED);
}

/* A hopeless objective brings the limit down to one row; an easy one back up. */
static void test_adaptive(void **state)
{
	struct world *world = *state;
	world->config.objective_ns = SERVICE_NS - 1;
	begin(world);
	for (uint64_t i = 0; i < 20; i++)
		push_many(world, 8, i * 10000);
	assert_int_equal(stats_of(world).limit, 1);
	gpu_offload_batcher_destroy(world->batcher);
	world->batches = world->answers_count = 0;
	world->config.objective_ns = 100000;
	begin(world);
	push_many(world, 8, 0);
	gpu_offload_batcher_finish(world->batcher, 0);
	assert_int_equal(stats_of(world).limit, 8);
}

static void test_impossible_configs(void **state)
{
	struct world *world = *state;
	struct gpu_offload_batcher_config good = world->config, bad;
	struct gpu_offload_batcher *batcher;
	bad = good, bad.batch_max = 0;
	assert_int_equal(gpu_offload_batcher_create(&batcher, &bad), -EINVAL);
	bad = good, bad.queue_max = 7;
	assert_int_equal(gpu_offload_batcher_create(&batcher, &bad), -EINVAL);
	bad = good, bad.batches_max = GPU_OFFLOAD_BATCHES_MAX + 1;
	assert_int_equal(gpu_offload_batcher_create(&batcher, &bad), -EINVAL);
	bad = good, bad.preferred_count = 1, bad.preferred[0] = 9;
	assert_int_equal(gpu_offload_batcher_create(&batcher, &bad), -EINVAL);
	bad = good, bad.full = GPU_OFFLOAD_FULL_CPU, bad.classify = NULL;
	assert_int_equal(gpu_offload_batcher_create(&batcher, &bad), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_delay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_and_preferred, setup, teardown),
		cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drop_newest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drop_oldest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_classify_on_cpu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_adaptive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_impossible_configs, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
