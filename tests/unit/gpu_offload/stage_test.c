/* SPDX-License-Identifier: BSD-2-Clause */
/* The stage on a tracker: whose answers are applied, and whose come too late. */
#include "base/parse.h"
#include "gpu_offload/stage.h"
#include "tests/support/packets.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEPTH = 3, SERVICE_NS = 1000, TIMEOUT_NS = 100000 };

struct world {
	struct gpu_offload_stage_config config;
	struct gpu_offload_stage *stage;
	struct gpu_offload_model *model;
	struct conntrack *tracker;
	struct base_parser *parser;
	struct packets_pool pool;
	uint64_t now_ns;
	uint32_t steered, steered_value;
	uint32_t port;
	unsigned int left; /* of the latest burst */
};

static bool steer(void *context, uint32_t conn, uint32_t value)
{
	struct world *world = context;
	(void)conn;
	world->steered++;
	world->steered_value = value;
	return true;
}

static void on_remove(void *context, uint32_t conn, void *user)
{
	struct world *world = context;
	gpu_offload_stage_on_remove(world->stage, conn, user);
}

static int setup(void **state)
{
	static const uint32_t widths[] = { GPU_OFFLOAD_SPI_INPUTS, 1 };
	struct world *world = calloc(1, sizeof(*world));
	assert_non_null(world);
	/* One class: every flow has label 0. */
	assert_int_equal(gpu_offload_model_create_mlp(&world->model, widths, 2, 1), 0);
	assert_int_equal(base_arena_create(&world->config.arena, false), 0);
	world->config.depth = DEPTH;
	world->config.model = world->model;
	world->config.backend = "cpu-ref";
	world->config.batcher.batch_max = world->config.batcher.queue_max = 4;
	world->config.batcher.batches_max = 2;
	world->config.batcher.idle_flush = true;
	world->config.batcher.service_ns = SERVICE_NS;
	world->config.verdicts_max = 16;
	world->config.steer = steer;
	world->config.steer_context = world;
	packets_pool_init(&world->pool, BASE_BURST_MAX);
	world->port = 1000;
	*state = world;
	return 0;
}

static void begin(struct world *world, enum gpu_offload_act act, uint32_t value)
{
	struct base_parse_config parse;
	struct conntrack_config tracker;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	world->config.actions[0] = (struct gpu_offload_action){ .act = act, .value = value };
	world->config.actions_count = 1;
	assert_int_equal(
		gpu_offload_stage_create(&world->stage, &world->config, why, sizeof(why)), 0);
	base_parse_config_defaults(&parse);
	assert_int_equal(base_parser_create(&world->parser, &parse), 0);
	conntrack_config_defaults(&tracker);
	tracker.entries_max = 8;
	tracker.tick_ns = 1000;
	tracker.timeout_ns[CONNTRACK_STATE_UDP_UNREPLIED] = TIMEOUT_NS;
	tracker.arena = world->config.arena;
	tracker.user_bytes = 32 + gpu_offload_stage_user_bytes(&world->config);
	tracker.on_remove = on_remove;
	tracker.on_remove_context = world;
	assert_int_equal(conntrack_create(&world->tracker, &tracker), 0);
	gpu_offload_stage_attach(world->stage, world->tracker, 32);
}

static int teardown(void **state)
{
	struct world *world = *state;
	conntrack_destroy(world->tracker);
	gpu_offload_stage_destroy(world->stage);
	gpu_offload_model_destroy(world->model);
	base_parser_destroy(world->parser);
	base_arena_destroy(world->config.arena);
	packets_pool_release(&world->pool);
	free(world);
	return 0;
}

/* count packets of the flow with this port, one burst. Returns how many were dropped. */
static unsigned int send(struct world *world, uint32_t port, unsigned int count)
{
	struct base_burst burst = { .count = (uint16_t)count };
	struct packets_spec spec =
		packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, (uint16_t)port, 0x0a000002, 53);
	for (unsigned int i = 0; i < count; i++)
		burst.packets[i] = packets_pool_build(&world->pool, i, &spec, world->now_ns);
	base_parse_burst(world->parser, &burst, false);
	assert_int_equal(burst.drop_count, 0);
	conntrack_process_burst(world->tracker, &burst);
	gpu_offload_stage_advance(world->stage, world->now_ns);
	gpu_offload_stage_process(world->stage, &burst, world->now_ns);
	world->left = burst.count;
	return burst.drop_count;
}

static struct gpu_offload_stage_stats stats_of(const struct world *world)
{
	struct gpu_offload_stage_stats stats;
	gpu_offload_stage_stats(world->stage, &stats);
	return stats;
}

static void test_drop(void **state)
{
	struct world *world = *state;
	begin(world, GPU_OFFLOAD_ACT_DROP, 0);
	assert_int_equal(send(world, 1, DEPTH + 2), 0);
	world->now_ns += SERVICE_NS - 1;
	assert_int_equal(send(world, 1, 1), 0); /* a nanosecond too early */
	assert_int_equal(stats_of(world).applied, 0);
	world->now_ns += 1;
	assert_int_equal(send(world, 1, 4), 4);
	assert_int_equal(send(world, 2, 2), 0);
	struct gpu_offload_stage_stats stats = stats_of(world);
	assert_int_equal(stats.applied, 1);
	assert_int_equal(stats.dropped_packets, 4);
	assert_int_equal(stats.labels[0], 1);
	assert_int_equal(stats.flows, 2);
}

/* The connection ends, and its index goes to another, before the answer comes. */
static void test_stale(void **state)
{
	struct world *world = *state;
	world->config.batcher.service_ns = 10 * TIMEOUT_NS;
	begin(world, GPU_OFFLOAD_ACT_DROP, 0);
	send(world, 1, DEPTH);
	uint32_t conn = world->pool.packets[0].conn;
	world->now_ns += 2 * TIMEOUT_NS;
	conntrack_advance(world->tracker, world->now_ns, 100);
	uint32_t port = 10;
	for (; port < 18; port++) {
		send(world, port, 1);
		if (world->pool.packets[0].conn == conn)
			break;
	}
	assert_int_equal(world->pool.packets[0].conn, conn); /* another user of it */
	gpu_offload_stage_finish(world->stage, world->now_ns);
	assert_int_equal(send(world, port, 1), 0);
	struct gpu_offload_stage_stats stats = stats_of(world);
	assert_int_equal(stats.stale + stats.applied, stats.batcher.answered);
	assert_true(stats.stale >= 1);
	assert_int_equal(stats.dropped_packets, 0);
	uint64_t count;
	const struct gpu_offload_verdict *verdicts =
		gpu_offload_stage_verdicts(world->stage, &count);
	assert_true(count >= 1);
	assert_int_equal(verdicts[0].stale, 1);
	assert_int_equal(verdicts[0].flow, conn);
	assert_int_not_equal(verdicts[0].generation, conntrack_generation(world->tracker, conn));
}

/* The connection ends and nobody has its index yet. */
static void test_dead(void **state)
{
	struct world *world = *state;
	world->config.batcher.service_ns = 10 * TIMEOUT_NS;
	begin(world, GPU_OFFLOAD_ACT_STEER, 5);
	send(world, 1, DEPTH);
	world->now_ns += 2 * TIMEOUT_NS;
	conntrack_advance(world->tracker, world->now_ns, 100);
	gpu_offload_stage_finish(world->stage, world->now_ns);
	assert_int_equal(stats_of(world).stale, 1);
	assert_int_equal(stats_of(world).applied, 0);
	assert_int_equal(world->steered, 0);
}

static void test_steer_once(void **state)
{
	struct world *world = *state;
	begin(world, GPU_OFFLOAD_ACT_STEER, 5);
	send(world, 1, DEPTH);
	world->now_ns += SERVICE_NS;
	send(world, 1, 5);
	world->now_ns += SERVICE_NS;
	send(world, 1, 5);
	assert_int_equal(world->steered, 1);
	assert_int_equal(world->steered_value, 5);
	assert_int_equal(stats_of(world).steered_flows, 1);
}

static void test_mark(void **state)
{
	struct world *world = *state;
	begin(world, GPU_OFFLOAD_ACT_MARK, 46);
	send(world, 1, DEPTH);
	world->now_ns += SERVICE_NS;
	send(world, 1, 1);
	const struct base_packet *packet = &world->pool.packets[0];
	assert_int_equal(packet->data[15], 46 << 2);
	assert_true(packets_checksums_valid(packet->data + 14, packet->cap_len - 14));
	assert_int_equal(stats_of(world).marked_packets, 1);
}

static void test_short_flows(void **state)
{
	struct world *world = *state;
	begin(world, GPU_OFFLOAD_ACT_NONE, 0);
	send(world, 1, DEPTH - 1);
	send(world, 2, DEPTH);
	gpu_offload_stage_finish(world->stage, world->now_ns);
	conntrack_purge(world->tracker, NULL, NULL);
	struct gpu_offload_stage_stats stats = stats_of(world);
	assert_int_equal(stats.flows, 2);
	assert_int_equal(stats.short_flows, 1);
	assert_int_equal(stats.too_short, 1);
	assert_int_equal(stats.asked, 1);
}

/* Flows that end short of their depth are asked about then, all of them though the queue is small,
 * and nothing is done for the answer. */
static void test_short_flows_are_asked_about(void **state)
{
	struct world *world = *state;
	world->config.short_packets = 2;
	begin(world, GPU_OFFLOAD_ACT_STEER, 5);
	send(world, 1, DEPTH - 1);
	uint32_t conn = world->pool.packets[0].conn;
	uint32_t generation = conntrack_generation(world->tracker, conn);
	send(world, 2, 1); /* too short for that, too */
	world->now_ns += 2 * TIMEOUT_NS;
	conntrack_advance(world->tracker, world->now_ns, 100);
	assert_int_equal(stats_of(world).too_short, 1);
	assert_int_equal(stats_of(world).asked, 1);
	for (uint32_t port = 10; port < 16; port++)
		send(world, port, DEPTH - 1);
	send(world, 20, DEPTH);
	gpu_offload_stage_finish(world->stage, world->now_ns);
	conntrack_purge(world->tracker, NULL, NULL);
	gpu_offload_stage_finish(world->stage, world->now_ns);
	struct gpu_offload_stage_stats stats = stats_of(world);
	assert_int_equal(stats.flows, 9);
	assert_int_equal(stats.short_flows, 8);
	assert_int_equal(stats.too_short, 1);
	assert_int_equal(stats.asked, 8);
	assert_int_equal(stats.batcher.answered, 8); /* of a queue of 4 */
	assert_int_equal(stats.ended, 7);
	assert_int_equal(stats.applied, 1);
	assert_int_equal(stats.stale, 0);
	assert_int_equal(world->steered, 1);
	uint64_t count;
	const struct gpu_offload_verdict *verdicts =
		gpu_offload_stage_verdicts(world->stage, &count);
	assert_int_equal(count, 8);
	assert_int_equal(verdicts[0].stale, GPU_OFFLOAD_STALE_ENDED);
	assert_int_equal(verdicts[0].flow, conn);
	assert_int_equal(verdicts[0].generation, generation);
}

/* A run that is to stop asks no more. */
static void test_hushed(void **state)
{
	struct world *world = *state;
	world->config.short_packets = 1;
	begin(world, GPU_OFFLOAD_ACT_NONE, 0);
	send(world, 1, DEPTH - 1);
	gpu_offload_stage_finish(world->stage, world->now_ns);
	gpu_offload_stage_hush(world->stage);
	conntrack_purge(world->tracker, NULL, NULL);
	assert_int_equal(stats_of(world).asked, 0);
	assert_int_equal(stats_of(world).too_short, 1);
}

/* Pop what was let go; ports of the packets in order, and how many are marked to be dropped. */
static unsigned int pop(struct world *world, uint64_t *times, unsigned int *dropped)
{
	struct base_burst burst;
	unsigned int count = gpu_offload_stage_pop(world->stage, &burst);
	*dropped = count > 0 ? burst.drop_count : 0;
	for (unsigned int i = 0; i < count; i++)
		times[i] = burst.packets[i]->seq;
	return count;
}

static void test_hold_until_answer(void **state)
{
	struct world *world = *state;
	uint64_t seqs[BASE_BURST_MAX];
	unsigned int dropped;
	world->config.hold_ns = 10 * SERVICE_NS;
	world->config.hold_packets = 8;
	begin(world, GPU_OFFLOAD_ACT_DROP, 0);
	send(world, 1, DEPTH + 2);
	assert_int_equal(world->left, DEPTH);
	assert_int_equal(pop(world, seqs, &dropped), 0);
	assert_true(gpu_offload_stage_horizon_ns(world->stage, 100) == 0);
	world->now_ns += SERVICE_NS;
	gpu_offload_stage_advance(world->stage, world->now_ns);
	assert_int_equal(pop(world, seqs, &dropped), 2);
	assert_int_equal(dropped, 2);
	assert_true(seqs[0] + 1 == seqs[1]);
	assert_int_equal(stats_of(world).held_answered, 2);
	assert_true(gpu_offload_stage_horizon_ns(world->stage, 100) == 100);
}

static void test_hold_until_bound(void **state)
{
	struct world *world = *state;
	uint64_t seqs[BASE_BURST_MAX];
	unsigned int dropped;
	world->config.hold_ns = SERVICE_NS / 2;
	world->config.hold_packets = 8;
	begin(world, GPU_OFFLOAD_ACT_DROP, 0);
	send(world, 1, DEPTH + 2);
	world->now_ns += SERVICE_NS / 2 - 1;
	gpu_offload_stage_advance(world->stage, world->now_ns);
	assert_int_equal(pop(world, seqs, &dropped), 0);
	world->now_ns += 1;
	gpu_offload_stage_advance(world->stage, world->now_ns);
	assert_int_equal(pop(world, seqs, &dropped), 2);
	assert_int_equal(dropped, 0); /* no answer yet */
	assert_int_equal(stats_of(world).held_bound, 2);
}

static void test_hold_under_pressure(void **state)
{
	struct world *world = *state;
	uint64_t seqs[BASE_BURST_MAX];
	unsigned int dropped;
	world->config.hold_ns = 10 * SERVICE_NS;
	world->config.hold_packets = 2;
	begin(world, GPU_OFFLOAD_ACT_NONE, 0);
	send(world, 1, DEPTH + 5);
	assert_int_equal(pop(world, seqs, &dropped), 3); /* the first three of five */
	for (unsigned int i = 1; i < 3; i++)
		assert_true(seqs[i - 1] + 1 == seqs[i]);
	assert_int_equal(stats_of(world).held_pressed, 3);
	gpu_offload_stage_finish(world->stage, world->now_ns);
	assert_int_equal(pop(world, seqs, &dropped), 2);
	assert_int_equal(stats_of(world).held_packets, 5);
	assert_int_equal(stats_of(world).held_answered, 2);
}

/* The connection goes: its packets go on without one. */
static void test_hold_orphans(void **state)
{
	struct world *world = *state;
	uint64_t seqs[BASE_BURST_MAX];
	unsigned int dropped;
	world->config.hold_ns = UINT64_C(1) << 40;
	world->config.hold_packets = 8;
	world->config.batcher.service_ns = 10 * TIMEOUT_NS;
	begin(world, GPU_OFFLOAD_ACT_DROP, 0);
	send(world, 1, DEPTH + 2);
	conntrack_purge(world->tracker, NULL, NULL);
	assert_int_equal(pop(world, seqs, &dropped), 2);
	assert_int_equal(world->pool.packets[DEPTH].conn, BASE_CONN_NONE);
	assert_int_equal(stats_of(world).held_orphaned, 2);
	gpu_offload_stage_finish(world->stage, world->now_ns);
	assert_int_equal(stats_of(world).stale, 1);
}

static void test_refused(void **state)
{
	struct world *world = *state;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	struct gpu_offload_stage_config config = world->config;
	struct gpu_offload_stage *stage;
	config.features = GPU_OFFLOAD_STAT67;
	assert_int_equal(gpu_offload_stage_create(&stage, &config, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "the model takes 90 inputs, expected 67 for stat67");
	config = world->config;
	config.depth = 31;
	assert_int_equal(gpu_offload_stage_create(&stage, &config, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "depth: got '31', expected 1..30 for spi30");
	config = world->config;
	config.actions[0] = (struct gpu_offload_action){ .label = 1, .act = GPU_OFFLOAD_ACT_DROP };
	config.actions_count = 1;
	assert_int_equal(gpu_offload_stage_create(&stage, &config, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "drop: got label '1', expected one of the model");
	config = world->config;
	config.backend = "abacus";
	assert_int_equal(gpu_offload_stage_create(&stage, &config, why, sizeof(why)), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_drop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead, setup, teardown),
		cmocka_unit_test_setup_teardown(test_steer_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mark, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_flows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_flows_are_asked_about, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hushed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hold_until_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hold_until_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hold_under_pressure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hold_orphans, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
