/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/chain.h"

#include "base/checksum.h"
#include "tests/support/chain_world.h"
#include "tests/unit/chain/test.h"

#include <errno.h>
#include <stdio.h>

enum { CLIENT = 0x0a000005, SERVER = 0x08080808, PACKETS_MAX = 4096 };

struct fixture {
	struct chain_world world;
	struct packets_pool pool;
	struct packets_spec out; /* client to service */
	uint32_t count;
	uint64_t time_ns;
};

static bool scalar_of(void **state)
{
	return *state != NULL;
}

static struct chain_lb_config default_config(void)
{
	struct chain_function_config config;
	chain_function_config_defaults(&config, CHAIN_LB);
	return config.lb;
}

static void open_with(struct fixture *f, bool scalar, const struct chain_lb_config *lb)
{
	struct chain_config config = { .functions_count = 1, .scalar = scalar };
	memset(f, 0, sizeof(*f));
	chain_function_config_defaults(&config.functions[0], CHAIN_LB);
	if (lb != NULL)
		config.functions[0].lb = *lb;
	if (chain_world_open(&f->world, &config, PACKETS_MAX) != 0)
		fail_msg("%s", f->world.message);
	packets_pool_init(&f->pool, PACKETS_MAX);
	f->out = packets_ip4(BASE_PROTOCOL_TCP, CLIENT, 5000, SERVER, 443);
	f->time_ns = 1000000000;
}

static void close_world(struct fixture *f)
{
	chain_world_finish(&f->world);
	packets_pool_release(&f->pool);
	chain_world_close(&f->world);
}

static struct base_packet *run(struct fixture *f)
{
	struct base_packet *packet = &f->pool.packets[f->count++];
	chain_world_run(&f->world, packet, 1, 1);
	f->time_ns += 1000;
	return packet;
}

static struct base_packet *send_frame(struct fixture *f, const uint8_t *frame, size_t len)
{
	packets_pool_set(&f->pool, f->count, BASE_LINK_ETHERNET, frame, len, 0, f->time_ns);
	return run(f);
}

static struct base_packet *send(struct fixture *f, const struct packets_spec *spec)
{
	packets_pool_build(&f->pool, f->count, spec, f->time_ns);
	return run(f);
}

static struct base_packet *send_tcp(struct fixture *f, bool reply, uint8_t flags)
{
	struct packets_spec spec = reply ? packets_reverse(&f->out) : f->out;
	spec.tcp_flags = flags;
	return send(f, &spec);
}

static uint64_t counter(const struct fixture *f, const char *name)
{
	return chain_world_counter(&f->world, 0, name);
}

static uint32_t destination_of(const struct base_packet *packet)
{
	const uint8_t *bytes = packet->data + 30;
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static bool valid(const struct base_packet *packet)
{
	return packets_checksums_valid(packet->data + 14, packet->cap_len - 14);
}

static bool is_generated_backend(uint32_t address)
{
	return address > 0xc6120000 && address <= 0xc6120010;
}

/* List of `count` IPv4 backends 10.9.0.1, 10.9.0.2, ... */
static void make_backends(struct chain_backend *backends, uint32_t count)
{
	memset(backends, 0, count * sizeof(*backends));
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t address[4] = { 10, 9, 0, (uint8_t)(i + 1) };
		snprintf(backends[i].name, sizeof(backends[i].name), "b%u", i + 1);
		memcpy(backends[i].address, address, 4);
		backends[i].family = 4;
		backends[i].weight = 1;
	}
}

static void connection_keeps_its_backend(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	uint32_t backend = destination_of(send_tcp(&f, false, BASE_TCP_SYN));
	assert_true(is_generated_backend(backend));
	send_tcp(&f, true, BASE_TCP_SYN | BASE_TCP_ACK);
	for (unsigned int i = 0; i < 5; i++) {
		struct base_packet *packet = send_tcp(&f, false, BASE_TCP_ACK);
		assert_int_equal(destination_of(packet), backend);
		assert_true(valid(packet));
	}
	assert_int_equal(counter(&f, "connections"), 1);
	assert_int_equal(counter(&f, "rewritten_packets"), 6);
	assert_int_equal(counter(&f, "sticky_packets"), 5);
	close_world(&f);
}

static void replies_pass_unchanged(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	send_tcp(&f, false, BASE_TCP_SYN);
	struct packets_spec back = packets_reverse(&f.out);
	uint8_t frame[128];
	size_t len = packets_build(frame, sizeof(frame), &back);
	assert_memory_equal(send(&f, &back)->data, frame, len);
	assert_int_equal(counter(&f, "reply_packets"), 1);
	close_world(&f);
}

static void both_families_have_backends_of_their_own(void **state)
{
	struct fixture f;
	static const uint8_t prefix[12] = { 0x20, 0x01, 0x00, 0x02 };
	open_with(&f, scalar_of(state), NULL);
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2000, 2, 53);
	struct base_packet *packet = send(&f, &spec);
	assert_memory_equal(packet->data + 14 + 24, prefix, 12);
	assert_true(valid(packet));
	close_world(&f);
}

static void family_without_backends_passes(void **state)
{
	struct fixture f;
	struct chain_backend backends[2];
	struct chain_lb_config lb = default_config();
	make_backends(backends, 2);
	lb.backends = backends;
	lb.backends_count = 2;
	open_with(&f, scalar_of(state), &lb);
	struct packets_spec spec = packets_ip6(BASE_PROTOCOL_UDP, 1, 2000, 2, 53);
	uint8_t frame[128];
	size_t len = packets_build(frame, sizeof(frame), &spec);
	struct base_packet *packet = send(&f, &spec);
	assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
	assert_memory_equal(packet->data, frame, len);
	assert_int_equal(counter(&f, "unbalanced_packets"), 1);
	assert_int_equal(counter(&f, "connections"), 0);
	close_world(&f);
}

static void drained_family_drops(void **state)
{
	struct fixture f;
	struct chain_backend backends[2];
	struct chain_lb_config lb = default_config();
	make_backends(backends, 2);
	backends[0].weight = 0;
	backends[1].family = 6;
	lb.backends = backends;
	lb.backends_count = 2;
	open_with(&f, scalar_of(state), &lb);
	assert_int_equal(send_tcp(&f, false, BASE_TCP_SYN)->drop_reason, BASE_DROP_LB_NO_BACKEND);
	assert_int_equal(send_tcp(&f, false, BASE_TCP_SYN)->drop_reason, BASE_DROP_LB_NO_BACKEND);
	close_world(&f);
}

static void every_protocol_is_balanced_by_address(void **state)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_UDP, BASE_PROTOCOL_ICMP,
		BASE_PROTOCOL_SCTP, BASE_PROTOCOL_GRE, BASE_PROTOCOL_ESP };
	static const uint8_t sctp_init[24] = { 1, 0, 0, 24 };
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		struct packets_spec spec = packets_ip4(protocols[i], CLIENT, 5000, SERVER, 443);
		spec.payload_len = 24;
		if (protocols[i] == BASE_PROTOCOL_SCTP)
			spec.payload = sctp_init;
		struct base_packet *packet = send(&f, &spec);
		assert_true(is_generated_backend(destination_of(packet)));
		assert_true(valid(packet));
	}
	close_world(&f);
}

static void all_fragments_go_to_one_backend(void **state)
{
	struct fixture f;
	uint8_t frame[256];
	uint32_t backend = 0;
	open_with(&f, scalar_of(state), NULL);
	f.out = packets_ip4(BASE_PROTOCOL_UDP, CLIENT, 5000, SERVER, 53);
	f.out.payload_len = 64;
	for (uint16_t offset = 0; offset < 72; offset += 24) {
		size_t len = packets_build_fragment(frame, sizeof(frame), &f.out, offset, 24);
		uint32_t destination = destination_of(send_frame(&f, frame, len));
		assert_true(is_generated_backend(destination));
		assert_true(backend == 0 || backend == destination);
		backend = destination;
	}
	close_world(&f);
}

/* Path MTU discovery through the balancer: the error must reach the backend that sent too much, and
 * quote the packet as that backend knows it. */
static void errors_about_replies_reach_the_backend(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	uint32_t backend = destination_of(send_tcp(&f, false, BASE_TCP_SYN));
	struct packets_spec quoted = packets_reverse(&f.out);
	quoted.payload_len = 20;
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, CLIENT + 9, 0, SERVER, 0);
	error.icmp_type = 3;
	error.icmp_code = 4;
	uint8_t frame[256], expected[256];
	size_t len = packets_build_icmp_error(frame, sizeof(frame), &error, &quoted, 256);
	struct base_packet *packet = send_frame(&f, frame, len);
	assert_int_equal(destination_of(packet), backend);
	assert_true(valid(packet));
	backend = __builtin_bswap32(backend);
	memcpy(quoted.source, &backend, 4);
	len = packets_build(expected, sizeof(expected), &quoted);
	assert_memory_equal(packet->data + 42, expected + 14, len - 14);
	assert_int_equal(counter(&f, "related_packets"), 1);
	/* One about a request goes back to the client as it is. */
	error = packets_ip4(BASE_PROTOCOL_ICMP, SERVER, 0, CLIENT, 0);
	error.icmp_type = 3;
	len = packets_build_icmp_error(frame, sizeof(frame), &error, &f.out, 256);
	assert_memory_equal(send_frame(&f, frame, len)->data, frame, len);
	close_world(&f);
}

static void wrong_checksums_stay_wrong(void **state)
{
	struct fixture f;
	uint8_t frame[128];
	open_with(&f, scalar_of(state), NULL);
	f.out.tcp_flags = BASE_TCP_SYN;
	size_t len = packets_build(frame, sizeof(frame), &f.out);
	struct base_packet *right = send_frame(&f, frame, len);
	frame[24] ^= 0x5a; /* IPv4 header checksum */
	frame[50] ^= 0x33; /* TCP checksum */
	struct base_packet *wrong = send_frame(&f, frame, len);
	assert_true(valid(right));
	assert_false(valid(wrong));
	/* Off by the same amount: undoing the rewrite gives the spoiled fields again. */
	static const size_t offsets[2] = { 24, 50 };
	for (unsigned int i = 0; i < 2; i++) {
		uint16_t field;
		uint32_t from, to;
		memcpy(&field, wrong->data + offsets[i], 2);
		memcpy(&from, wrong->data + 30, 4);
		memcpy(&to, frame + 30, 4);
		field = base_checksum_update32(field, from, to);
		assert_memory_equal(&field, frame + offsets[i], 2);
	}
	close_world(&f);
}

static void tuple_that_is_used_again_is_a_new_choice(void **state)
{
	struct fixture f;
	struct chain_lb_config lb = default_config();
	lb.policy = CHAIN_LB_ROUND_ROBIN;
	open_with(&f, scalar_of(state), &lb);
	uint32_t first = destination_of(send_tcp(&f, false, BASE_TCP_SYN));
	send_tcp(&f, true, BASE_TCP_RST | BASE_TCP_ACK);
	assert_int_equal(counter(&f, "connections"), 1);
	f.out.seq = 7777; /* the same number would be the same SYN, sent again */
	uint32_t second = destination_of(send_tcp(&f, false, BASE_TCP_SYN));
	assert_int_equal(counter(&f, "connections"), 2);
	assert_int_not_equal(first, second);
	close_world(&f);
}

static void round_robin_gives_as_many_turns_as_weights_say(void **state)
{
	struct fixture f;
	struct chain_backend backends[4];
	struct chain_lb_config lb = default_config();
	make_backends(backends, 4);
	backends[1].weight = 0;
	backends[2].weight = 3;
	lb.backends = backends;
	lb.backends_count = 4;
	lb.policy = CHAIN_LB_ROUND_ROBIN;
	open_with(&f, scalar_of(state), &lb);
	static const uint8_t expected[] = { 1, 3, 3, 3, 4, 1, 3, 3, 3, 4, 1 };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
		f.out.source_port++;
		assert_int_equal(
			destination_of(send_tcp(&f, false, BASE_TCP_SYN)) & 255, expected[i]);
	}
	assert_int_equal(counter(&f, "connections_b3"), 6);
	assert_int_equal(counter(&f, "connections_b2"), 0);
	close_world(&f);
}

/* Also for flows that one worker of 128 would see, so that steering does not narrow the choice. */
static void connections_spread_over_all_backends(void **state)
{
	struct fixture f;
	unsigned int load[17] = { 0 };
	open_with(&f, scalar_of(state), NULL);
	struct base_hash_config hash = { 0 };
	uint32_t taken = 0;
	for (uint32_t i = 0; taken < 1600; i++) {
		struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP, CLIENT + i / 1000,
			(uint16_t)(1024 + i % 1000), SERVER, 443);
		packets_pool_build(&f.pool, f.count, &spec, f.time_ns);
		base_parse_packet(f.world.parser, &f.pool.packets[f.count]);
		if (base_flow_key_hash(&f.pool.packets[f.count].key, &hash) % 128 != 5)
			continue;
		taken++;
		uint32_t backend = destination_of(send(&f, &spec));
		assert_true(is_generated_backend(backend));
		load[backend & 31]++;
	}
	/* 100 each on average, standard deviation about 10. */
	for (unsigned int i = 1; i <= 16; i++)
		assert_in_range(load[i], 55, 155);
	close_world(&f);
}

static void choice_does_not_depend_on_the_order_of_the_list(void **state)
{
	struct chain_backend backends[7];
	uint32_t chosen[500];
	make_backends(backends, 7);
	for (unsigned int order = 0; order < 7; order++) {
		struct fixture f;
		struct chain_lb_config lb = default_config();
		struct chain_backend first = backends[0];
		memmove(backends, backends + 1, 6 * sizeof(first));
		backends[6] = first;
		lb.backends = backends;
		lb.backends_count = 7;
		open_with(&f, scalar_of(state), &lb);
		for (unsigned int i = 0; i < BASE_ARRAY_COUNT(chosen); i++) {
			f.out.source_port++;
			uint32_t backend = destination_of(send_tcp(&f, false, BASE_TCP_SYN));
			assert_true(order == 0 || chosen[i] == backend);
			chosen[i] = backend;
		}
		close_world(&f);
	}
}

/* A flood of short connections through a table that is full most of the time. */
static void long_lived_connection_keeps_its_backend_under_a_flood(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	uint32_t backend = destination_of(send_tcp(&f, false, BASE_TCP_SYN));
	send_tcp(&f, true, BASE_TCP_SYN | BASE_TCP_ACK);
	assert_int_equal(destination_of(send_tcp(&f, false, BASE_TCP_ACK)), backend);
	struct packets_pool flood;
	packets_pool_init(&flood, 1);
	for (uint32_t i = 0; i < 3 * PACKETS_MAX; i++) {
		struct packets_spec spec = packets_ip4(
			BASE_PROTOCOL_UDP, 0x0b000000 + i, (uint16_t)(1024 + i), SERVER, 443);
		packets_pool_build(&flood, 0, &spec, f.time_ns);
		chain_world_run(&f.world, flood.packets, 1, 1);
		if (i % 512 == 0)
			assert_int_equal(
				destination_of(send_tcp(&f, false, BASE_TCP_ACK)), backend);
	}
	assert_true(counter(&f, "untracked_packets") > 0);
	packets_pool_release(&flood);
	close_world(&f);
}

static void untracked_packets_pass_unchanged(void **state)
{
	struct fixture f;
	uint8_t frame[60] = { 0 };
	open_with(&f, scalar_of(state), NULL);
	frame[12] = 0x08; /* ARP */
	frame[13] = 0x06;
	assert_memory_equal(send_frame(&f, frame, sizeof(frame))->data, frame, sizeof(frame));
	assert_int_equal(counter(&f, "untracked_packets"), 1);
	close_world(&f);
}

static void digest_tells_the_backend_by_name_and_address(void **state)
{
	struct chain_backend backends[1];
	uint64_t digests[3];
	for (unsigned int i = 0; i < 3; i++) {
		struct fixture f;
		struct chain_lb_config lb = default_config();
		make_backends(backends, 1);
		if (i == 2)
			strcpy(backends[0].name, "another");
		lb.backends = backends;
		lb.backends_count = 1;
		open_with(&f, scalar_of(state), &lb);
		send_tcp(&f, false, BASE_TCP_SYN);
		chain_world_finish(&f.world);
		digests[i] = chain_flow_digest(f.world.chain);
		close_world(&f);
	}
	assert_true(digests[0] == digests[1]);
	assert_true(digests[0] != digests[2]);
}

static void refuse(const struct chain_lb_config *lb, const char *reason)
{
	struct chain_config config = { .functions_count = 1 };
	struct chain_world world;
	config.functions[0].kind = CHAIN_LB;
	config.functions[0].lb = *lb;
	assert_int_equal(chain_world_open(&world, &config, 16), -EINVAL);
	if (strstr(world.message, reason) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", world.message, reason);
}

static void impossible_configurations_are_refused(void **state)
{
	struct chain_backend backends[3];
	struct chain_lb_config lb = default_config();
	(void)state;
	lb.table_size = 65536;
	refuse(&lb, "prime");
	lb = default_config();
	lb.table_size = 1009;
	refuse(&lb, "prime above 1600");
	lb = default_config();
	lb.backends_count = 0;
	refuse(&lb, "1 to 1024");
	lb.backends_count = CHAIN_BACKENDS_MAX + 1;
	refuse(&lb, "1 to 1024");
	make_backends(backends, 3);
	lb = default_config();
	lb.backends = backends;
	lb.backends_count = 3;
	backends[1].family = 5;
	refuse(&lb, "backend 1");
	make_backends(backends, 3);
	backends[2] = backends[0];
	refuse(&lb, "twice");
	make_backends(backends, 3);
	backends[2].name[0] = '\0';
	refuse(&lb, "backend 2");
	memset(backends[2].name, 'x', sizeof(backends[2].name));
	refuse(&lb, "backend 2");
	make_backends(backends, 3);
	for (unsigned int i = 0; i < 3; i++)
		backends[i].weight = 0;
	refuse(&lb, "weight");
}

static void largest_generated_configuration_works(void **state)
{
	struct fixture f;
	struct chain_lb_config lb = default_config();
	lb.backends_count = CHAIN_BACKENDS_MAX;
	lb.table_size = 102407;
	open_with(&f, scalar_of(state), &lb);
	assert_int_equal(send_tcp(&f, false, BASE_TCP_SYN)->drop_reason, BASE_DROP_NONE);
	assert_int_equal(counter(&f, "connections"), 1);
	close_world(&f);
}

/* cmocka's initial state: NULL for the burst implementation, anything else for the reference. */
static int run_all(bool scalar)
{
	static char reference;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connection_keeps_its_backend),
		cmocka_unit_test(replies_pass_unchanged),
		cmocka_unit_test(both_families_have_backends_of_their_own),
		cmocka_unit_test(family_without_backends_passes),
		cmocka_unit_test(drained_family_drops),
		cmocka_unit_test(every_protocol_is_balanced_by_address),
		cmocka_unit_test(all_fragments_go_to_one_backend),
		cmocka_unit_test(errors_about_replies_reach_the_backend),
		cmocka_unit_test(wrong_checksums_stay_wrong),
		cmocka_unit_test(tuple_that_is_used_again_is_a_new_choice),
		cmocka_unit_test(round_robin_gives_as_many_turns_as_weights_say),
		cmocka_unit_test(connections_spread_over_all_backends),
		cmocka_unit_test(choice_does_not_depend_on_the_order_of_the_list),
		cmocka_unit_test(long_lived_connection_keeps_its_backend_under_a_flood),
		cmocka_unit_test(untracked_packets_pass_unchanged),
		cmocka_unit_test(digest_tells_the_backend_by_name_and_address),
		cmocka_unit_test(impossible_configurations_are_refused),
		cmocka_unit_test(largest_generated_configuration_works),
	};
	struct CMUnitTest with_state[BASE_ARRAY_COUNT(tests)];
	for (size_t i = 0; i < BASE_ARRAY_COUNT(tests); i++) {
		with_state[i] = tests[i];
		with_state[i].initial_state = scalar ? &reference : NULL;
	}
	return _cmocka_run_group_tests(scalar ? "lb, reference" : "lb, burst", with_state,
		BASE_ARRAY_COUNT(with_state), NULL, NULL);
}

int main(void)
{
	return run_all(false) + run_all(true);
}
