/* SPDX-License-Identifier: BSD-2-Clause */
/* The generator's event queue against a plain array that is searched. */
#include "tests/unit/traces/test.h"

#include "traces/generate.h"

#include <stdlib.h>

enum { EVENTS_MAX = 400, STEPS = 20000 };

struct model {
	uint64_t time_ns[EVENTS_MAX];
	bool used[EVENTS_MAX];
	uint32_t count;
};

static uint64_t model_first(const struct model *model)
{
	uint64_t first = UINT64_MAX;
	for (int i = 0; i < EVENTS_MAX; i++)
		if (model->used[i] && model->time_ns[i] < first)
			first = model->time_ns[i];
	return first;
}

/* From nanoseconds to hours: every wheel, and what lies behind them. */
static uint64_t random_gap(struct base_rng *rng)
{
	static const uint64_t bounds[] = { 1, 100, 70000, 1000000, 70000000, 1000000000,
		UINT64_C(70000000000), UINT64_C(200000000000), UINT64_C(10000000000000) };
	return base_rng_below(rng, bounds[base_rng_below(rng, BASE_ARRAY_COUNT(bounds))]);
}

static void push(
	struct traces_gen_queue *queue, struct model *model, uint64_t now_ns, struct base_rng *rng)
{
	uint32_t i = 0;
	while (i < EVENTS_MAX && model->used[i])
		i++;
	if (i == EVENTS_MAX)
		return;
	model->used[i] = true;
	model->time_ns[i] = now_ns + random_gap(rng);
	model->count++;
	assert_int_equal(traces_gen_queue_push(queue, model->time_ns[i], i), 0);
}

static void events_come_in_order_of_time(void **state)
{
	(void)state;
	static struct traces_gen_flow flows[EVENTS_MAX]; /* only their addresses are used */
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct base_rng rng;
		struct model model = { .count = 0 };
		struct traces_gen_queue *queue;
		uint64_t now_ns = 0;
		base_rng_seed(&rng, seed);
		assert_int_equal(traces_gen_queue_create(&queue), 0);
		queue->flows = flows;
		for (int step = 0; step < STEPS / 20; step++) {
			struct traces_gen_event event;
			assert_int_equal(traces_gen_queue_top(queue, &event), 0);
			if (event.time_ns != model_first(&model))
				print_error("seed %d, step %d\n", (int)seed, step);
			assert_true(event.time_ns == model_first(&model));
			assert_int_equal(queue->count, model.count);
			uint64_t what = base_rng_below(&rng, 4);
			if (what == 0 || model.count == 0) {
				push(queue, &model, now_ns, &rng);
				continue;
			}
			now_ns = event.time_ns;
			assert_true(model.used[event.flow]);
			assert_true(model.time_ns[event.flow] == now_ns);
			if (what == 1) {
				model.used[event.flow] = false;
				model.count--;
				traces_gen_queue_pop(queue);
			} else {
				model.time_ns[event.flow] = now_ns + random_gap(&rng);
				assert_int_equal(
					traces_gen_queue_move(queue, model.time_ns[event.flow]), 0);
			}
		}
		traces_gen_queue_destroy(queue);
	}
}

static void an_empty_queue_says_so(void **state)
{
	(void)state;
	struct traces_gen_queue *queue;
	struct traces_gen_event event;
	static struct traces_gen_flow flow;
	assert_int_equal(traces_gen_queue_create(&queue), 0);
	queue->flows = &flow;
	assert_int_equal(traces_gen_queue_top(queue, &event), 0);
	assert_true(event.time_ns == UINT64_MAX);
	assert_int_equal(traces_gen_queue_push(queue, UINT64_C(1) << 62, 0), 0);
	assert_int_equal(traces_gen_queue_top(queue, &event), 0);
	assert_true(event.time_ns == UINT64_C(1) << 62);
	traces_gen_queue_pop(queue);
	assert_int_equal(traces_gen_queue_top(queue, &event), 0);
	assert_true(event.time_ns == UINT64_MAX);
	traces_gen_queue_destroy(queue);
}

static void memory_does_not_grow_with_time(void **state)
{
	(void)state;
	static struct traces_gen_flow flows[EVENTS_MAX];
	struct base_rng rng;
	struct traces_gen_queue *queue;
	struct traces_gen_event event;
	base_rng_seed(&rng, 1);
	assert_int_equal(traces_gen_queue_create(&queue), 0);
	queue->flows = flows;
	for (uint32_t i = 0; i < EVENTS_MAX; i++)
		assert_int_equal(traces_gen_queue_push(queue, random_gap(&rng), i), 0);
	for (int i = 0; i < 200000; i++) {
		assert_int_equal(traces_gen_queue_top(queue, &event), 0);
		assert_int_equal(traces_gen_queue_move(queue, event.time_ns + random_gap(&rng)), 0);
	}
	assert_true(queue->chunks_count <= 1024);
	assert_true(queue->heap_capacity <= 1024);
	traces_gen_queue_destroy(queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_in_order_of_time),
		cmocka_unit_test(an_empty_queue_says_so),
		cmocka_unit_test(memory_does_not_grow_with_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
