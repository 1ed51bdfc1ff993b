/* SPDX-License-Identifier: BSD-2-Clause */
/* The load balancer's policies while backends come, drain and go. */
#include "chain/chain.h"
#include "tests/support/chain_world.h"
#include "tests/unit/chain/test.h"

#include <errno.h>
#include <stdio.h>

#define SECOND UINT64_C(1000000000)

enum { SERVER = 0x08080808, PACKETS_MAX = 16384, BACKENDS = 5, FLOWS = 1000 };

struct fixture {
	struct chain_world world;
	struct packets_pool pool;
	struct chain_backend backends[BACKENDS];
	struct chain_lb_config lb;
	uint32_t count;
	uint64_t time_ns;
};

static bool scalar_of(void **state)
{
	return *state != NULL;
}

/* Backends 10.9.0.1 ... named b1 ... */
static void prepare(struct fixture *f, enum chain_lb_policy policy)
{
	struct chain_function_config config;
	memset(f, 0, sizeof(*f));
	chain_function_config_defaults(&config, CHAIN_LB);
	f->lb = config.lb;
	f->lb.policy = policy;
	f->lb.backends = f->backends;
	f->lb.backends_count = BACKENDS;
	for (uint32_t i = 0; i < BACKENDS; i++) {
		const uint8_t address[4] = { 10, 9, 0, (uint8_t)(i + 1) };
		snprintf(f->backends[i].name, CHAIN_NAME_SIZE, "b%u", i + 1);
		memcpy(f->backends[i].address, address, 4);
		f->backends[i].family = 4;
		f->backends[i].weight = 1;
	}
	f->time_ns = SECOND;
}

static void open_world(struct fixture *f, void **state, const struct chain_lb_change *changes,
	uint32_t changes_count)
{
	struct chain_config config = { .functions_count = 1, .scalar = scalar_of(state) };
	chain_function_config_defaults(&config.functions[0], CHAIN_LB);
	f->lb.changes = changes;
	f->lb.changes_count = changes_count;
	config.functions[0].lb = f->lb;
	if (chain_world_open(&f->world, &config, PACKETS_MAX) != 0)
		fail_msg("%s", f->world.message);
	packets_pool_init(&f->pool, PACKETS_MAX);
}

static void close_world(struct fixture *f)
{
	chain_world_finish(&f->world);
	packets_pool_release(&f->pool);
	chain_world_close(&f->world);
}

static uint64_t counter(const struct fixture *f, const char *name)
{
	return chain_world_counter(&f->world, 0, name);
}

/* Flow i's next packet at the present time; the backend it goes to, 1 to BACKENDS. */
static unsigned int send(struct fixture *f, uint32_t i, uint8_t tcp_flags)
{
	struct packets_spec spec = packets_ip4(
		BASE_PROTOCOL_TCP, 0x0a000000 + i / 100, (uint16_t)(2000 + i % 100), SERVER, 443);
	spec.tcp_flags = tcp_flags;
	spec.seq = i;
	packets_pool_build(&f->pool, f->count, &spec, f->time_ns);
	struct base_packet *packet = &f->pool.packets[f->count++];
	chain_world_run(&f->world, packet, 1, 1);
	f->time_ns += 1000;
	assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
	assert_true(packets_checksums_valid(packet->data + 14, packet->cap_len - 14));
	const uint8_t *to = packet->data + 30;
	assert_true(to[0] == 10 && to[1] == 9 && to[2] == 0 && to[3] >= 1 && to[3] <= BACKENDS);
	return to[3];
}

/* Open FLOWS connections before the change at 2 s, go on with them after it; how many moved. */
static unsigned int moved(struct fixture *f, unsigned int *before, unsigned int *after)
{
	unsigned int count = 0;
	for (uint32_t i = 0; i < FLOWS; i++)
		before[i] = send(f, i, BASE_TCP_SYN);
	f->time_ns = 2 * SECOND;
	for (uint32_t i = 0; i < FLOWS; i++) {
		after[i] = send(f, i, BASE_TCP_ACK);
		count += after[i] != before[i];
	}
	return count;
}

static void kept_connections_stay_when_a_backend_comes(void **state)
{
	static const enum chain_lb_policy policies[] = { CHAIN_LB_MAGLEV, CHAIN_LB_ROUND_ROBIN,
		CHAIN_LB_LEAST_CONNECTIONS };
	static const struct chain_lb_change add[] = { { 2 * SECOND, CHAIN_LB_ADD, "b5" } };
	unsigned int before[FLOWS], after[FLOWS];
	for (size_t p = 0; p < BASE_ARRAY_COUNT(policies); p++) {
		struct fixture f;
		unsigned int fifth = 0;
		prepare(&f, policies[p]);
		open_world(&f, state, add, 1);
		assert_int_equal(moved(&f, before, after), 0);
		for (uint32_t i = 0; i < FLOWS; i++) {
			assert_true(before[i] != 5);
			fifth += send(&f, FLOWS + i, BASE_TCP_SYN) == 5;
		}
		assert_true(fifth > FLOWS / 10);
		assert_int_equal(counter(&f, "orphaned_connections"), 0);
		close_world(&f);
	}
}

static void stateless_moves_connections_and_jet_does_not(void **state)
{
	static const struct chain_lb_change add[] = { { 2 * SECOND, CHAIN_LB_ADD, "b5" } };
	unsigned int before[FLOWS], after[FLOWS];
	struct fixture f;
	prepare(&f, CHAIN_LB_STATELESS);
	open_world(&f, state, add, 1);
	unsigned int lost = moved(&f, before, after);
	/* The new backend's fifth, and what Maglev shuffles. */
	assert_true(lost > FLOWS / 8 && lost < FLOWS / 2);
	assert_int_equal(counter(&f, "kept_connections"), 0);
	assert_int_equal(counter(&f, "connections"), FLOWS);
	close_world(&f);

	prepare(&f, CHAIN_LB_JET);
	open_world(&f, state, add, 1);
	assert_int_equal(moved(&f, before, after), 0);
	/* It keeps just those that the table would have moved. */
	assert_int_equal(counter(&f, "kept_connections"), lost);
	close_world(&f);
}

static void draining_keeps_old_connections_and_takes_no_new_ones(void **state)
{
	static const struct chain_lb_change drain[] = { { 2 * SECOND, CHAIN_LB_DRAIN, "b2" } };
	unsigned int before[FLOWS], after[FLOWS];
	for (int p = CHAIN_LB_MAGLEV; p <= CHAIN_LB_LEAST_CONNECTIONS; p++) {
		struct fixture f;
		prepare(&f, (enum chain_lb_policy)p);
		open_world(&f, state, drain, 1);
		assert_int_equal(moved(&f, before, after), 0);
		for (uint32_t i = 0; i < FLOWS; i++)
			assert_int_not_equal(send(&f, FLOWS + i, BASE_TCP_SYN), 2);
		close_world(&f);
	}
}

static void connections_of_a_removed_backend_choose_again_once(void **state)
{
	static const struct chain_lb_change remove[] = { { 2 * SECOND, CHAIN_LB_REMOVE, "b2" } };
	unsigned int before[FLOWS], after[FLOWS];
	for (int p = CHAIN_LB_MAGLEV; p <= CHAIN_LB_LEAST_CONNECTIONS; p++) {
		struct fixture f;
		unsigned int orphans = 0;
		prepare(&f, (enum chain_lb_policy)p);
		open_world(&f, state, remove, 1);
		moved(&f, before, after);
		for (uint32_t i = 0; i < FLOWS; i++) {
			orphans += before[i] == 2;
			assert_true(after[i] != 2);
			assert_true(before[i] == 2 || before[i] == after[i]);
			assert_int_equal(send(&f, i, BASE_TCP_ACK), after[i]);
		}
		assert_true(orphans > FLOWS / 8);
		assert_int_equal(counter(&f, "orphaned_connections"), orphans);
		close_world(&f);
	}
}

static void least_connections_fills_up_the_emptiest(void **state)
{
	static const struct chain_lb_change add[] = { { 2 * SECOND, CHAIN_LB_ADD, "b5" } };
	struct fixture f;
	prepare(&f, CHAIN_LB_LEAST_CONNECTIONS);
	f.backends[0].weight = 2;
	open_world(&f, state, add, 1);
	static const unsigned int expected[] = { 1, 2, 3, 4, 1, 1, 2, 3, 4, 1 };
	for (uint32_t i = 0; i < BASE_ARRAY_COUNT(expected); i++)
		assert_int_equal(send(&f, i, BASE_TCP_SYN), expected[i]);
	f.time_ns = 2 * SECOND;
	assert_int_equal(send(&f, 100, BASE_TCP_SYN), 5);
	assert_int_equal(send(&f, 101, BASE_TCP_SYN), 5);
	/* Connections that end make room: two of b3 are reset and forgotten. */
	send(&f, 2, BASE_TCP_RST);
	send(&f, 7, BASE_TCP_RST);
	f.time_ns += 20 * SECOND;
	conntrack_advance(f.world.tracker, f.time_ns, 1000);
	assert_int_equal(send(&f, 2, BASE_TCP_SYN), 3);
	close_world(&f);
}

/* A late packet is judged by its own time, so results do not depend on the order across flows. */
static void a_packet_finds_the_backends_of_its_own_time(void **state)
{
	static const struct chain_lb_change changes[] = {
		{ 2 * SECOND, CHAIN_LB_REMOVE, "b1" },
		{ 2 * SECOND, CHAIN_LB_REMOVE, "b2" },
		{ 2 * SECOND, CHAIN_LB_REMOVE, "b3" },
		{ 2 * SECOND, CHAIN_LB_REMOVE, "b5" },
		{ 3 * SECOND, CHAIN_LB_ADD, "b1" },
	};
	struct fixture f;
	unsigned int seen[BACKENDS + 1] = { 0 };
	prepare(&f, CHAIN_LB_STATELESS);
	open_world(&f, state, changes, BASE_ARRAY_COUNT(changes));
	unsigned int first = send(&f, 1, BASE_TCP_ACK);
	f.time_ns = 2 * SECOND + 5;
	assert_int_equal(send(&f, 1, BASE_TCP_ACK), 4);
	f.time_ns = 2 * SECOND - 1;
	assert_int_equal(send(&f, 1, BASE_TCP_ACK), first);
	f.time_ns = 3 * SECOND;
	for (uint32_t i = 0; i < 200; i++)
		seen[send(&f, i, BASE_TCP_ACK)]++;
	assert_true(seen[1] > 50 && seen[4] > 50);
	assert_int_equal(seen[1] + seen[4], 200);
	close_world(&f);
}

static void impossible_schedules_are_refused(void **state)
{
	static const struct chain_lb_change unknown[] = { { 1, CHAIN_LB_ADD, "nobody" } };
	static const struct chain_lb_change disorder[] = { { 2, CHAIN_LB_DRAIN, "b1" },
		{ 1, CHAIN_LB_ADD, "b1" } };
	static struct chain_lb_change many[CHAIN_LB_CHANGES_MAX + 1];
	const struct {
		const struct chain_lb_change *changes;
		uint32_t count;
		int error;
		const char *expected;
	} cases[] = {
		{ unknown, 1, -EBADMSG, "nobody" },
		{ disorder, 2, -EINVAL, "order of time" },
		{ many, BASE_ARRAY_COUNT(many), -EINVAL, "at most 64 changes" },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		struct fixture f;
		struct chain_config config = { .functions_count = 1, .scalar = scalar_of(state) };
		prepare(&f, CHAIN_LB_MAGLEV);
		chain_function_config_defaults(&config.functions[0], CHAIN_LB);
		f.lb.changes = cases[i].changes;
		f.lb.changes_count = cases[i].count;
		config.functions[0].lb = f.lb;
		assert_int_equal(chain_world_open(&f.world, &config, 16), cases[i].error);
		assert_non_null(strstr(f.world.message, cases[i].expected));
	}
}

/* cmocka's initial state: NULL for the burst implementation, anything else for the reference. */
static int run_all(bool scalar)
{
	static char reference;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept_connections_stay_when_a_backend_comes),
		cmocka_unit_test(stateless_moves_connections_and_jet_does_not),
		cmocka_unit_test(draining_keeps_old_connections_and_takes_no_new_ones),
		cmocka_unit_test(connections_of_a_removed_backend_choose_again_once),
		cmocka_unit_test(least_connections_fills_up_the_emptiest),
		cmocka_unit_test(a_packet_finds_the_backends_of_its_own_time),
		cmocka_unit_test(impossible_schedules_are_refused),
	};
	struct CMUnitTest with_state[BASE_ARRAY_COUNT(tests)];
	for (size_t i = 0; i < BASE_ARRAY_COUNT(tests); i++) {
		with_state[i] = tests[i];
		with_state[i].initial_state = scalar ? &reference : NULL;
	}
	return _cmocka_run_group_tests(scalar ? "lb changes, reference" : "lb changes, burst",
		with_state, BASE_ARRAY_COUNT(with_state), NULL, NULL);
}

int main(void)
{
	return run_all(false) + run_all(true);
}
