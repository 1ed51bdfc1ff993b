/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/chain.h"

#include "tests/support/chain_world.h"
#include "tests/unit/chain/test.h"

#include <errno.h>

#define OUTSIDE UINT32_C(0xc0000201)

enum { INSIDE = 0x0a000005, REMOTE = 0x08080808, ROUTER = 0x0a0000fe };
enum { PACKETS_MAX = 64 };

/* Both implementations take every test. */
struct fixture {
	struct chain_world world;
	struct packets_pool pool;
	struct packets_spec out; /* what the inside host sends */
	uint32_t count;
	uint64_t time_ns;
};

static void open_with(struct fixture *f, bool scalar, const struct chain_nat_config *nat)
{
	struct chain_config config = { .functions_count = 1, .scalar = scalar };
	memset(f, 0, sizeof(*f));
	chain_function_config_defaults(&config.functions[0], CHAIN_NAT);
	if (nat != NULL)
		config.functions[0].nat = *nat;
	if (chain_world_open(&f->world, &config, 256) != 0)
		fail_msg("%s", f->world.message);
	packets_pool_init(&f->pool, PACKETS_MAX);
	f->out = packets_ip4(BASE_PROTOCOL_UDP, INSIDE, 5000, REMOTE, 53);
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

static uint64_t counter(const struct fixture *f, const char *name)
{
	return chain_world_counter(&f->world, 0, name);
}

static uint32_t read32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static uint32_t source_of(const struct base_packet *packet)
{
	return read32(packet->data + 14 + 12);
}

static uint32_t destination_of(const struct base_packet *packet)
{
	return read32(packet->data + 14 + 16);
}

static uint16_t word_of(const struct base_packet *packet, size_t offset)
{
	return (uint16_t)(packet->data[offset] << 8 | packet->data[offset + 1]);
}

static uint16_t source_port_of(const struct base_packet *packet)
{
	return word_of(packet, 34);
}

static bool valid(const struct base_packet *packet)
{
	return packets_checksums_valid(packet->data + 14, packet->cap_len - 14);
}

static void set_address(uint8_t *bytes, uint32_t address)
{
	uint32_t word = __builtin_bswap32(address);
	memcpy(bytes, &word, 4);
}

static bool scalar_of(void **state)
{
	return *state != NULL;
}

/* What the remote host sends back to an endpoint that it saw. */
static struct packets_spec answer(const struct fixture *f, uint16_t port)
{
	struct packets_spec spec = packets_reverse(&f->out);
	set_address(spec.destination, OUTSIDE);
	if (spec.protocol == BASE_PROTOCOL_ICMP)
		spec.source_port = port;
	else
		spec.destination_port = port;
	return spec;
}

static void outgoing_packets_get_the_external_endpoint(void **state)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP };
	for (unsigned int i = 0; i < 3; i++) {
		struct fixture f;
		open_with(&f, scalar_of(state), NULL);
		f.out = packets_ip4(protocols[i], INSIDE, 500, REMOTE, 53);
		f.out.tcp_flags = i == 0 ? BASE_TCP_SYN : 0;
		uint16_t port = 0;
		for (unsigned int n = 0; n < 3; n++) {
			struct base_packet *packet = send(&f, &f.out);
			assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
			assert_int_equal(source_of(packet), OUTSIDE);
			assert_int_equal(destination_of(packet), REMOTE);
			size_t offset = protocols[i] == BASE_PROTOCOL_ICMP ? 38 : 34;
			/* 500 lies below the range, so it cannot be kept. */
			assert_in_range(word_of(packet, offset), 1024, 65535);
			if (n > 0)
				assert_int_equal(word_of(packet, offset), port);
			port = word_of(packet, offset);
			assert_true(valid(packet));
		}
		assert_int_equal(counter(&f, "connections"), 1);
		assert_int_equal(counter(&f, "translated_packets"), 3);
		close_world(&f);
	}
}

static void answers_to_the_external_endpoint_reach_the_inside_host(void **state)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP };
	for (unsigned int i = 0; i < 3; i++) {
		struct fixture f;
		open_with(&f, scalar_of(state), NULL);
		f.out = packets_ip4(protocols[i], INSIDE, 500, REMOTE, 53);
		f.out.tcp_flags = i == 0 ? BASE_TCP_SYN : 0;
		size_t offset = protocols[i] == BASE_PROTOCOL_ICMP ? 38 : 34;
		struct base_packet *packet = send(&f, &f.out);
		uint32_t conn = packet->conn;
		struct packets_spec back = answer(&f, word_of(packet, offset));
		back.tcp_flags = i == 0 ? BASE_TCP_SYN | BASE_TCP_ACK : 0;
		packet = send(&f, &back);
		assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
		assert_int_equal(packet->conn, conn);
		assert_true(packet->conn_flags & BASE_CONN_REPLY);
		assert_int_equal(source_of(packet), REMOTE);
		assert_int_equal(destination_of(packet), INSIDE);
		if (protocols[i] == BASE_PROTOCOL_ICMP)
			assert_int_equal(word_of(packet, 38), 500);
		else
			assert_int_equal(word_of(packet, 36), 500);
		assert_true(valid(packet));
		assert_int_equal(counter(&f, "restored_packets"), 1);
		assert_int_equal(counter(&f, "reply_packets"), 1);
		close_world(&f);
	}
}

static void answers_in_a_capture_from_inside_pass_as_they_are(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	send(&f, &f.out);
	struct packets_spec back = packets_reverse(&f.out);
	uint8_t frame[256];
	size_t len = packets_build(frame, sizeof(frame), &back);
	struct base_packet *packet = send(&f, &back);
	assert_memory_equal(packet->data, frame, len);
	assert_int_equal(counter(&f, "reply_packets"), 1);
	assert_int_equal(counter(&f, "restored_packets"), 0);
	close_world(&f);
}

static void strangers_do_not_get_in(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	struct base_packet *packet = send(&f, &f.out);
	uint16_t port = source_port_of(packet);
	struct packets_spec back = answer(&f, port), other = back;
	set_address(other.source, REMOTE + 1);
	assert_int_equal(send(&f, &other)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
	other = back;
	other.source_port++;
	assert_int_equal(send(&f, &other)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
	other = back;
	other.destination_port = (uint16_t)(port + 1);
	assert_int_equal(send(&f, &other)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
	other = back;
	other.protocol = BASE_PROTOCOL_GRE;
	assert_int_equal(send(&f, &other)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
	assert_int_equal(send(&f, &back)->drop_reason, BASE_DROP_NONE);
	struct chain_function_stats stats;
	chain_function_stats(f.world.chain, 0, &stats);
	assert_int_equal(stats.early_drops[BASE_DROP_NAT_UNTRANSLATABLE], 4);
	assert_int_equal(stats.in, stats.out); /* refused before the chain */
	close_world(&f);
}

static void expired_connection_lets_nobody_in(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	struct base_packet *packet = send(&f, &f.out);
	struct packets_spec back = answer(&f, source_port_of(packet));
	f.time_ns += UINT64_C(3600000000000);
	assert_int_equal(send(&f, &back)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
	close_world(&f);
}

static void one_inside_endpoint_shows_one_port_to_all(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	struct packets_spec other = f.out;
	set_address(other.destination, REMOTE + 9);
	uint16_t port = source_port_of(send(&f, &f.out));
	assert_int_equal(source_port_of(send(&f, &other)), port);
	assert_int_equal(counter(&f, "connections"), 2);
	other.source_port++;
	assert_int_not_equal(source_port_of(send(&f, &other)), port);
	close_world(&f);
}

static void two_hosts_with_one_port_get_two(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	struct packets_spec other = f.out;
	set_address(other.source, INSIDE + 1);
	struct base_packet *a = send(&f, &f.out), *b = send(&f, &other);
	assert_int_equal(source_port_of(a), 5000);
	assert_int_not_equal(source_port_of(b), 5000);
	struct packets_spec back = answer(&f, source_port_of(b));
	struct base_packet *packet = send(&f, &back);
	assert_int_equal(destination_of(packet), INSIDE + 1);
	assert_int_equal(word_of(packet, 36), 5000);
	close_world(&f);
}

static struct chain_nat_config small_config(void)
{
	struct chain_function_config config;
	chain_function_config_defaults(&config, CHAIN_NAT);
	config.nat.port_first = 2000;
	config.nat.port_last = 2001;
	return config.nat;
}

static void pool_run_dry_drops_until_a_connection_ends(void **state)
{
	struct fixture f;
	struct chain_nat_config nat = small_config();
	open_with(&f, scalar_of(state), &nat);
	for (uint16_t i = 0; i < 2; i++) {
		struct packets_spec spec = f.out;
		spec.source_port = (uint16_t)(100 + i);
		assert_int_equal(send(&f, &spec)->drop_reason, BASE_DROP_NONE);
	}
	f.time_ns += 1000000000;
	assert_int_equal(send(&f, &f.out)->drop_reason, BASE_DROP_NAT_NO_PORT);
	assert_int_equal(counter(&f, "connections"), 2);
	/* The two idle ones go after 30 s; this one was seen later. */
	f.time_ns += UINT64_C(29900000000);
	conntrack_advance(f.world.tracker, f.time_ns, 1000);
	assert_int_equal(send(&f, &f.out)->drop_reason, BASE_DROP_NONE);
	assert_int_equal(counter(&f, "connections"), 3);
	close_world(&f);
}

static void ports_come_back_with_every_connection(void **state)
{
	struct fixture f;
	struct chain_nat_config nat = small_config();
	open_with(&f, scalar_of(state), &nat);
	for (uint16_t i = 0; i < 20; i++) {
		struct packets_spec spec = f.out;
		spec.source_port = (uint16_t)(100 + i);
		assert_int_equal(send(&f, &spec)->drop_reason, BASE_DROP_NONE);
		conntrack_purge(f.world.tracker, NULL, NULL);
	}
	close_world(&f);
}

/* An error about an outgoing packet quotes it as it was seen outside. */
static void errors_that_come_in_are_put_back_inside_and_out(void **state)
{
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP };
	for (unsigned int i = 0; i < 3; i++) {
		struct fixture f;
		open_with(&f, scalar_of(state), NULL);
		f.out = packets_ip4(protocols[i], INSIDE, 500, REMOTE, 53);
		f.out.tcp_flags = i == 0 ? BASE_TCP_SYN : 0;
		f.out.payload_len = 20;
		bool icmp = protocols[i] == BASE_PROTOCOL_ICMP;
		struct base_packet *sent = send(&f, &f.out);
		struct packets_spec quoted = f.out;
		set_address(quoted.source, OUTSIDE);
		quoted.source_port = word_of(sent, icmp ? 38 : 34);
		struct packets_spec error =
			packets_ip4(BASE_PROTOCOL_ICMP, REMOTE + 77, 0, OUTSIDE, 0);
		error.icmp_type = 3;
		error.icmp_code = 4;
		uint8_t frame[256];
		size_t len = packets_build_icmp_error(frame, sizeof(frame), &error, &quoted, 256);
		struct base_packet *packet = send_frame(&f, frame, len);
		assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
		assert_int_equal(packet->conn, sent->conn);
		assert_true(packet->conn_flags & BASE_CONN_RELATED);
		assert_int_equal(source_of(packet), REMOTE + 77);
		assert_int_equal(destination_of(packet), INSIDE);
		/* The quote is what the inside host sent, byte for byte. */
		uint8_t original[256];
		size_t original_len = packets_build(original, sizeof(original), &f.out);
		assert_memory_equal(packet->data + 42, original + 14, original_len - 14);
		assert_true(valid(packet));
		close_world(&f);
	}
}

static void errors_that_go_out_show_nothing_of_the_inside(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	f.out.source_port = 500;
	uint16_t port = source_port_of(send(&f, &f.out));
	struct packets_spec back = answer(&f, port);
	struct packets_spec inside_view = packets_reverse(&f.out);
	back.payload_len = 20;
	inside_view.payload_len = 20;
	send(&f, &back);
	for (int from_router = 0; from_router < 2; from_router++) {
		struct packets_spec error = packets_ip4(
			BASE_PROTOCOL_ICMP, from_router ? ROUTER : INSIDE, 0, REMOTE, 0);
		error.icmp_type = 3;
		error.icmp_code = 3;
		uint8_t frame[256];
		size_t len =
			packets_build_icmp_error(frame, sizeof(frame), &error, &inside_view, 256);
		struct base_packet *packet = send_frame(&f, frame, len);
		assert_int_equal(source_of(packet), OUTSIDE);
		assert_int_equal(destination_of(packet), REMOTE);
		uint8_t original[256];
		size_t original_len = packets_build(original, sizeof(original), &back);
		assert_memory_equal(packet->data + 42, original + 14, original_len - 14);
		assert_true(valid(packet));
	}
	assert_int_equal(counter(&f, "related_packets"), 2);
	close_world(&f);
}

static void errors_about_nothing_known_are_dropped(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	send(&f, &f.out);
	struct packets_spec quoted = f.out;
	set_address(quoted.source, OUTSIDE);
	quoted.source_port = 40001;
	struct packets_spec error = packets_ip4(BASE_PROTOCOL_ICMP, REMOTE, 0, OUTSIDE, 0);
	error.icmp_type = 3;
	uint8_t frame[256];
	size_t len = packets_build_icmp_error(frame, sizeof(frame), &error, &quoted, 256);
	assert_int_equal(send_frame(&f, frame, len)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
	/* A quote of a flow between others, sent to the external address. */
	set_address(quoted.source, 0x01020304);
	len = packets_build_icmp_error(frame, sizeof(frame), &error, &quoted, 256);
	assert_int_equal(send_frame(&f, frame, len)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
	close_world(&f);
}

static void what_has_no_ports_passes_untranslated(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	struct packets_spec specs[] = {
		packets_ip4(BASE_PROTOCOL_GRE, INSIDE, 0, REMOTE, 0),
		packets_ip4(BASE_PROTOCOL_ESP, INSIDE, 0, REMOTE, 0),
		packets_ip4(BASE_PROTOCOL_SCTP, INSIDE, 500, REMOTE, 600),
		packets_ip6(BASE_PROTOCOL_UDP, 5, 500, 6, 600),
	};
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(specs); i++) {
		specs[i].payload_len = 16;
		uint8_t frame[256];
		size_t len = packets_build(frame, sizeof(frame), &specs[i]);
		struct base_packet *packet = send(&f, &specs[i]);
		assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
		assert_memory_equal(packet->data, frame, len);
	}
	assert_int_equal(counter(&f, "untranslated_packets"), BASE_ARRAY_COUNT(specs));
	assert_int_equal(counter(&f, "connections"), 0);
	close_world(&f);
}

static void fragments_follow_their_first(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	f.out.payload_len = 40;
	f.out.ip_id = 99;
	uint8_t frame[256];
	size_t len = packets_build_fragment(frame, sizeof(frame), &f.out, 24, 24);
	/* Too early: nothing tells its ports. */
	assert_int_equal(source_of(send_frame(&f, frame, len)), INSIDE);
	len = packets_build_fragment(frame, sizeof(frame), &f.out, 0, 24);
	struct base_packet *first = send_frame(&f, frame, len);
	assert_int_equal(source_of(first), OUTSIDE);
	len = packets_build_fragment(frame, sizeof(frame), &f.out, 24, 24);
	struct base_packet *later = send_frame(&f, frame, len);
	assert_int_equal(source_of(later), OUTSIDE);
	assert_memory_equal(later->data + 34, frame + 34, 24);
	/* And back in. */
	struct packets_spec back = answer(&f, source_port_of(first));
	back.payload_len = 40;
	back.ip_id = 7;
	for (uint16_t offset = 0; offset <= 24; offset += 24) {
		len = packets_build_fragment(frame, sizeof(frame), &back, offset, 24);
		assert_int_equal(destination_of(send_frame(&f, frame, len)), INSIDE);
	}
	close_world(&f);
}

static void udp_without_a_checksum_stays_without(void **state)
{
	struct fixture f;
	open_with(&f, scalar_of(state), NULL);
	f.out.udp_no_checksum = true;
	struct base_packet *packet = send(&f, &f.out);
	assert_int_equal(source_of(packet), OUTSIDE);
	assert_int_equal(word_of(packet, 40), 0);
	assert_true(valid(packet));
	close_world(&f);
}

static void workers_of_one_chain_have_shares_of_its_ports(void **state)
{
	(void)state;
	enum { WORKERS = 3 };
	for (uint16_t worker = 0; worker < WORKERS; worker++) {
		struct fixture f;
		struct chain_function_config config;
		uint16_t owner = 99;
		chain_function_config_defaults(&config, CHAIN_NAT);
		config.nat.workers = config.nat.shares = WORKERS;
		open_with(&f, false, &config.nat);
		chain_use_share(f.world.chain, worker);
		struct packets_spec back = answer(&f, source_port_of(send(&f, &f.out)));
		packets_pool_build(&f.pool, f.count, &back, f.time_ns);
		struct base_packet *packet = &f.pool.packets[f.count];
		assert_int_equal(base_parse_packet(f.world.parser, packet), 0);
		assert_int_equal(chain_nat_worker(&config.nat, packet, WORKERS, &owner), 0);
		assert_int_equal(owner, worker);

		/* At another worker than the one it is steered to it has no mapping. */
		chain_use_share(f.world.chain, (worker + 1) % WORKERS);
		assert_int_equal(send(&f, &back)->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
		chain_use_share(f.world.chain, worker);
		assert_int_equal(send(&f, &back)->drop_reason, BASE_DROP_NONE);
		assert_int_equal(counter(&f, "restored_packets"), 1);
		close_world(&f);
	}
}

static void owner_of_an_external_port_is_computed_from_the_packet(void **state)
{
	(void)state;
	for (uint16_t workers = 1; workers <= 3; workers++) {
		for (uint16_t worker = 0; worker < workers; worker++) {
			struct fixture f;
			struct chain_function_config config;
			chain_function_config_defaults(&config, CHAIN_NAT);
			config.nat.workers = workers;
			config.nat.worker = worker;
			open_with(&f, false, &config.nat);
			struct base_packet *sent = send(&f, &f.out);
			struct packets_spec back = answer(&f, source_port_of(sent));
			packets_pool_build(&f.pool, f.count, &back, f.time_ns);
			struct base_packet *packet = &f.pool.packets[f.count];
			uint16_t owner = 99;
			assert_int_equal(base_parse_packet(f.world.parser, packet), 0);
			assert_int_equal(chain_nat_worker(&config.nat, packet, workers, &owner), 0);
			assert_int_equal(owner, worker);
			owner = 99;
			assert_int_equal(
				chain_nat_worker(&config.nat, sent, workers, &owner), -ENOENT);
			assert_int_equal(owner, 99);
			close_world(&f);
		}
	}
}

static void impossible_configurations_are_refused(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 6; i++) {
		struct chain_config config = { .functions_count = 1 };
		struct chain_world world;
		chain_function_config_defaults(&config.functions[0], CHAIN_NAT);
		struct chain_nat_config *nat = &config.functions[0].nat;
		nat->addresses_count = i == 0 ? 0 : i == 1 ? 257 : 1;
		nat->address = i == 2 ? UINT32_MAX : nat->address;
		nat->port_last = i == 3 ? 1023 : nat->port_last;
		nat->worker = i == 4 ? 1 : 0;
		nat->workers = i == 5 ? 65000 : 1;
		assert_int_equal(chain_world_open(&world, &config, 16), -EINVAL);
		assert_non_null(strstr(
			world.message, i == 5 ? "nat: ports: got 64512 of them, expected 65000"
					      : "nat: expected"));
	}
}

static void digest_tells_whether_not_where(void **state)
{
	uint64_t digests[3];
	for (unsigned int i = 0; i < 3; i++) {
		struct fixture f;
		struct chain_nat_config nat = small_config();
		nat.port_first = (uint16_t)(nat.port_first + i % 2);
		open_with(&f, scalar_of(state), &nat);
		if (i == 2)
			f.out.protocol = BASE_PROTOCOL_GRE;
		send(&f, &f.out);
		chain_world_finish(&f.world);
		digests[i] = chain_flow_digest(f.world.chain);
		close_world(&f);
	}
	assert_true(digests[0] == digests[1]);
	assert_true(digests[0] != 0);
	assert_true(digests[2] == 0);
}

/* cmocka's initial state: NULL for the burst implementation, anything else for the reference. */
static int run_all(bool scalar)
{
	static char reference;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outgoing_packets_get_the_external_endpoint),
		cmocka_unit_test(answers_to_the_external_endpoint_reach_the_inside_host),
		cmocka_unit_test(answers_in_a_capture_from_inside_pass_as_they_are),
		cmocka_unit_test(strangers_do_not_get_in),
		cmocka_unit_test(expired_connection_lets_nobody_in),
		cmocka_unit_test(one_inside_endpoint_shows_one_port_to_all),
		cmocka_unit_test(two_hosts_with_one_port_get_two),
		cmocka_unit_test(pool_run_dry_drops_until_a_connection_ends),
		cmocka_unit_test(ports_come_back_with_every_connection),
		cmocka_unit_test(errors_that_come_in_are_put_back_inside_and_out),
		cmocka_unit_test(errors_that_go_out_show_nothing_of_the_inside),
		cmocka_unit_test(errors_about_nothing_known_are_dropped),
		cmocka_unit_test(what_has_no_ports_passes_untranslated),
		cmocka_unit_test(fragments_follow_their_first),
		cmocka_unit_test(udp_without_a_checksum_stays_without),
		cmocka_unit_test(workers_of_one_chain_have_shares_of_its_ports),
		cmocka_unit_test(owner_of_an_external_port_is_computed_from_the_packet),
		cmocka_unit_test(impossible_configurations_are_refused),
		cmocka_unit_test(digest_tells_whether_not_where),
	};
	struct CMUnitTest with_state[BASE_ARRAY_COUNT(tests)];
	for (size_t i = 0; i < BASE_ARRAY_COUNT(tests); i++) {
		with_state[i] = tests[i];
		with_state[i].initial_state = scalar ? &reference : NULL;
	}
	return _cmocka_run_group_tests(scalar ? "nat, reference" : "nat, burst", with_state,
		BASE_ARRAY_COUNT(with_state), NULL, NULL);
}

int main(void)
{
	return run_all(false) + run_all(true);
}
