/* SPDX-License-Identifier: BSD-2-Clause */
/* The framework, and the statistics function, which needs no runtime. */
#include "chain/chain.h"
#include "chain/digest.h"

#include "tests/support/chain_world.h"
#include "tests/unit/chain/test.h"

#include <errno.h>

static void open_stats(struct chain_world *world, unsigned int functions, bool scalar)
{
	struct chain_config config = { .functions_count = functions, .scalar = scalar };
	for (unsigned int i = 0; i < functions; i++)
		chain_function_config_defaults(&config.functions[i], CHAIN_STATS);
	if (chain_world_open(world, &config, 64) != 0)
		fail_msg("%s", world->message);
}

static void names_and_kinds_are_one_to_one(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CHAIN_KINDS_COUNT; i++) {
		enum chain_kind kind;
		assert_int_equal(chain_kind_from_name(chain_kind_name(i), &kind), 0);
		assert_int_equal(kind, i);
	}
	enum chain_kind kind = CHAIN_LB;
	assert_int_equal(chain_kind_from_name("nonesuch", &kind), -ENOENT);
	assert_int_equal(chain_kind_from_name("", &kind), -ENOENT);
	assert_int_equal(kind, CHAIN_LB);
}

static void impossible_chains_are_refused_with_a_reason(void **state)
{
	struct chain *chain = NULL;
	struct base_arena *arena;
	char message[CHAIN_MESSAGE_SIZE];
	(void)state;
	assert_int_equal(base_arena_create(&arena, false), 0);
	struct chain_config config = { 0 };
	assert_int_equal(chain_create(&chain, &config, message), -EINVAL);
	assert_non_null(strstr(message, "arena"));
	config.arena = arena;
	config.functions_count = CHAIN_FUNCTIONS_MAX + 1;
	assert_int_equal(chain_create(&chain, &config, message), -EINVAL);
	assert_non_null(strstr(message, "at most 16"));
	config.functions_count = 1;
	config.functions[0].kind = CHAIN_KINDS_COUNT;
	assert_int_equal(chain_create(&chain, &config, message), -EINVAL);
	assert_non_null(strstr(message, "unknown kind"));
	assert_null(chain);
	base_arena_destroy(arena);
}

/* Every bit of every word counts, and the place of a word as well. */
static void digests_tell_words_apart(void **state)
{
	struct conntrack_conn conn = { .key = { .family = 4, .protocol = 6 } };
	uint64_t same = chain_digest_conn(&conn);
	uint8_t *bytes = (uint8_t *)&conn.key;
	(void)state;
	for (unsigned int bit = 0; bit < 8 * sizeof(conn.key); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(chain_digest_conn(&conn) != same);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(chain_digest_conn(&conn) == same);
	conn.origin_reversed = true;
	assert_true(chain_digest_conn(&conn) != same);
	for (uint64_t a = 0; a < 64; a++) {
		for (uint64_t b = 0; b < a; b++) {
			uint64_t digest = chain_digest_pair(3, a, b);
			assert_true(digest != chain_digest_pair(3, b, a));
			assert_true(digest != chain_digest_pair(4, a, b));
			assert_true(digest + chain_digest_pair(4, b, a) !=
				    chain_digest_pair(3, b, a) + chain_digest_pair(4, a, b));
			assert_true(
				digest + chain_digest_pair(4, a, b) !=
				chain_digest_pair(3, a + 1, b) + chain_digest_pair(4, a - 1, b));
		}
	}
}

static void an_empty_chain_is_a_chain(void **state)
{
	struct chain_world world;
	struct packets_pool pool;
	(void)state;
	open_stats(&world, 0, false);
	packets_pool_init(&pool, 1);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 2, 3, 4);
	packets_pool_build(&pool, 0, &spec, 5);
	chain_world_run(&world, pool.packets, 1, 1);
	chain_world_finish(&world);
	assert_int_equal(chain_user_bytes(world.chain), 0);
	assert_int_equal(chain_flow_digest(world.chain), 0);
	packets_pool_release(&pool);
	chain_world_close(&world);
}

static void functions_of_one_kind_keep_their_memory_apart(void **state)
{
	struct chain_world world;
	struct packets_pool pool;
	(void)state;
	open_stats(&world, 3, false);
	assert_int_equal(chain_user_bytes(world.chain) % 3, 0);
	packets_pool_init(&pool, 2);
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	packets_pool_build(&pool, 0, &spec, 5);
	packets_pool_build(&pool, 1, &spec, 6);
	chain_world_run(&world, pool.packets, 2, 2);
	for (uint32_t i = 0; i < 3; i++) {
		struct chain_function_stats stats;
		chain_function_stats(world.chain, i, &stats);
		assert_string_equal(stats.name, "stats");
		assert_int_equal(stats.in, 2);
		assert_int_equal(stats.out, 2);
		assert_int_equal(chain_world_counter(&world, i, "connections"), 1);
		assert_int_equal(chain_world_counter(&world, i, "packets"), 2);
	}
	packets_pool_release(&pool);
	chain_world_close(&world);
}

static void statistics_count_wire_bytes_and_apart_what_is_not_of_the_flow(void **state)
{
	(void)state;
	for (int scalar = 0; scalar < 2; scalar++) {
		struct chain_world world;
		struct packets_pool pool;
		uint8_t frame[256];
		open_stats(&world, 1, scalar);
		packets_pool_init(&pool, 4);
		struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, 0x0a000001, 2, 3, 4);
		struct packets_spec reply = packets_reverse(&spec);
		struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, 9, 0, 0x0a000001, 0);
		error.icmp_type = 3;
		packets_pool_build(&pool, 0, &spec, 5);
		packets_pool_build(&pool, 1, &reply, 6);
		size_t size = packets_build_icmp_error(frame, sizeof(frame), &error, &spec, 64);
		packets_pool_set(&pool, 2, BASE_LINK_ETHERNET, frame, size, 0, 7);
		memset(frame, 0, 60);
		frame[12] = 0x08;
		frame[13] = 0x06;
		packets_pool_set(&pool, 3, BASE_LINK_ETHERNET, frame, 60, 1000, 8);
		uint64_t wire_bytes = 0;
		for (unsigned int i = 0; i < 4; i++)
			wire_bytes += pool.packets[i].wire_len;
		chain_world_run(&world, pool.packets, 4, 4);
		assert_int_equal(chain_world_counter(&world, 0, "packets"), 4);
		assert_int_equal(chain_world_counter(&world, 0, "wire_bytes"), wire_bytes);
		assert_int_equal(chain_world_counter(&world, 0, "connections"), 1);
		assert_int_equal(chain_world_counter(&world, 0, "related_packets"), 1);
		assert_int_equal(chain_world_counter(&world, 0, "untracked_packets"), 1);
		packets_pool_release(&pool);
		chain_world_close(&world);
	}
}

/* Digest of a run of single packets of one flow, sent at the given times. */
static uint64_t digest_of(const struct packets_spec *specs, const uint64_t *times_ns,
	unsigned int count, unsigned int burst)
{
	struct chain_world world;
	struct packets_pool pool;
	open_stats(&world, 1, false);
	packets_pool_init(&pool, count);
	for (unsigned int i = 0; i < count; i++)
		packets_pool_build(&pool, i, &specs[i], times_ns[i]);
	chain_world_run(&world, pool.packets, count, burst);
	assert_int_equal(chain_flow_digest(world.chain), 0); /* removed connections only */
	chain_world_finish(&world);
	uint64_t digest = chain_flow_digest(world.chain);
	packets_pool_release(&pool);
	chain_world_close(&world);
	return digest;
}

static void the_digest_tells_flows_directions_sizes_and_times(void **state)
{
	struct packets_spec a = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	struct packets_spec b = packets_reverse(&a);
	struct packets_spec other = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 5);
	struct packets_spec longer = a;
	longer.payload_len = 9;
	const struct packets_spec sequences[][3] = {
		{ a, a, b },
		{ a, b, b },
		{ b, a, a }, /* another opener */
		{ a, a, other },
		{ a, longer, b },
		{ a, a, a },
	};
	const uint64_t times_ns[3] = { 5, 6, 7 }, later_ns[3] = { 5, 6, 8 };
	uint64_t digests[BASE_ARRAY_COUNT(sequences) + 1];
	(void)state;
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(sequences); i++) {
		digests[i] = digest_of(sequences[i], times_ns, 3, 3);
		assert_int_equal(digests[i], digest_of(sequences[i], times_ns, 3, 1));
	}
	digests[BASE_ARRAY_COUNT(sequences)] = digest_of(sequences[0], later_ns, 3, 3);
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(digests); i++) {
		for (unsigned int j = 0; j < i; j++)
			assert_int_not_equal(digests[i], digests[j]);
	}
}

/* Two workers with half of the flows each sum up to one worker with all of them. */
static void digests_of_workers_add_up(void **state)
{
	struct packets_spec a = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 4);
	struct packets_spec b = packets_ip4(BASE_PROTOCOL_UDP, 1, 2, 3, 5);
	const struct packets_spec both[4] = { a, b, b, a }, of_a[2] = { a, a }, of_b[2] = { b, b };
	const uint64_t times_ns[4] = { 1, 2, 3, 4 }, times_a[2] = { 1, 4 }, times_b[2] = { 2, 3 };
	(void)state;
	uint64_t sum = digest_of(of_a, times_a, 2, 2) + digest_of(of_b, times_b, 2, 2);
	assert_int_equal(digest_of(both, times_ns, 4, 4), sum);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_kinds_are_one_to_one),
		cmocka_unit_test(impossible_chains_are_refused_with_a_reason),
		cmocka_unit_test(digests_tell_words_apart),
		cmocka_unit_test(an_empty_chain_is_a_chain),
		cmocka_unit_test(functions_of_one_kind_keep_their_memory_apart),
		cmocka_unit_test(statistics_count_wire_bytes_and_apart_what_is_not_of_the_flow),
		cmocka_unit_test(the_digest_tells_flows_directions_sizes_and_times),
		cmocka_unit_test(digests_of_workers_add_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
