/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nat on a live link against a naive list of connections: what goes out must come from one external
 * endpoint per inside endpoint, answers to it must find the way back, strangers must not, and every
 * port must come back when connections go.
 */
#include "tests/support/chain_world.h"
#include "tests/unit/chain/test.h"

#include <stdlib.h>

#define OUTSIDE UINT32_C(0xc0000201)

enum {
	STEPS_COUNT = 20000,
	PORTS = 40,
	HOSTS = 6,
	HOST_PORTS = 12,
	REMOTES = 4,
	CONNS_MAX = 3 * HOSTS * HOST_PORTS * REMOTES,
};

struct conn {
	bool live;
	struct packets_spec spec;
	uint32_t inside; /* endpoint number, protocol included */
	uint16_t outside_port;
};

struct model {
	struct chain_world world;
	struct packets_pool pool;
	struct base_rng rng;
	struct conn conns[CONNS_MAX];
	uint64_t time_ns;
	uint64_t salt; /* decides which connections a purge takes */
	unsigned int sent, refused, answered, strangers;
};

static uint32_t read32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static uint16_t read16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static uint32_t draw(struct model *model, uint32_t bound)
{
	return (uint32_t)base_rng_below(&model->rng, bound);
}

static struct base_packet *run(struct model *model, const struct packets_spec *spec)
{
	model->time_ns += 1000;
	packets_pool_build(&model->pool, 0, spec, model->time_ns);
	chain_world_run(&model->world, model->pool.packets, 1, 1);
	return model->pool.packets;
}

static const struct conn *holder_of(const struct model *model, uint32_t inside)
{
	for (unsigned int i = 0; i < CONNS_MAX; i++) {
		if (model->conns[i].live && model->conns[i].inside == inside)
			return &model->conns[i];
	}
	return NULL;
}

/* External ports of one protocol in use. */
static unsigned int ports_used(const struct model *model, uint8_t protocol)
{
	bool used[PORTS] = { false };
	unsigned int count = 0;
	for (unsigned int i = 0; i < CONNS_MAX; i++) {
		const struct conn *conn = &model->conns[i];
		if (!conn->live || conn->spec.protocol != protocol)
			continue;
		count += !used[conn->outside_port - 1024];
		used[conn->outside_port - 1024] = true;
	}
	return count;
}

static size_t port_offset(const struct packets_spec *spec)
{
	return spec->protocol == BASE_PROTOCOL_ICMP ? 38 : 34;
}

static void send_out(struct model *model)
{
	struct conn *conn = &model->conns[draw(model, CONNS_MAX)];
	const struct conn *holder = holder_of(model, conn->inside);
	bool room = ports_used(model, conn->spec.protocol) < PORTS;
	struct base_packet *packet = run(model, &conn->spec);
	if (holder == NULL && !room) {
		assert_int_equal(packet->drop_reason, BASE_DROP_NAT_NO_PORT);
		/* The tracker keeps the connection; end it, so that the model need not know it. */
		model->refused++;
		conntrack_purge(model->world.tracker, NULL, NULL);
		for (unsigned int i = 0; i < CONNS_MAX; i++)
			model->conns[i].live = false;
		return;
	}
	assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
	assert_int_equal(read32(packet->data + 26), OUTSIDE);
	assert_true(packets_checksums_valid(packet->data + 14, packet->cap_len - 14));
	uint16_t port = read16(packet->data + port_offset(&conn->spec));
	assert_in_range(port, 1024, 1024 + PORTS - 1);
	if (holder != NULL)
		assert_int_equal(port, holder->outside_port);
	for (unsigned int i = 0; i < CONNS_MAX && holder == NULL; i++) {
		const struct conn *other = &model->conns[i];
		if (other->live && other->spec.protocol == conn->spec.protocol)
			assert_int_not_equal(port, other->outside_port);
	}
	conn->live = true;
	conn->outside_port = port;
	model->sent++;
}

static void answer(struct model *model)
{
	const struct conn *conn = &model->conns[draw(model, CONNS_MAX)];
	const uint32_t outside = __builtin_bswap32(OUTSIDE);
	struct packets_spec back = packets_reverse(&conn->spec);
	uint16_t port = conn->live ? conn->outside_port : (uint16_t)(1024 + draw(model, PORTS));
	bool stranger = !conn->live || draw(model, 3) == 0;
	memcpy(back.destination, &outside, 4);
	if (stranger)
		back.source[1] ^= 0x40; /* an address that nobody talks to */
	if (conn->spec.protocol == BASE_PROTOCOL_ICMP)
		back.source_port = port;
	else
		back.destination_port = port;
	struct base_packet *packet = run(model, &back);
	if (stranger) {
		assert_int_equal(packet->drop_reason, BASE_DROP_NAT_UNTRANSLATABLE);
		model->strangers++;
		return;
	}
	assert_int_equal(packet->drop_reason, BASE_DROP_NONE);
	assert_memory_equal(packet->data + 30, conn->spec.source, 4);
	size_t offset = conn->spec.protocol == BASE_PROTOCOL_ICMP ? 38 : 36;
	assert_int_equal(read16(packet->data + offset), conn->spec.source_port);
	assert_true(packets_checksums_valid(packet->data + 14, packet->cap_len - 14));
	model->answered++;
}

/* Made from what tracker and model both know: inside address and port, remote address. */
static bool chosen(
	const struct model *model, const uint8_t *inside, const uint8_t *remote, uint16_t port)
{
	uint64_t state =
		model->salt ^ ((uint64_t)inside[3] << 32 | (uint64_t)remote[3] << 16 | port);
	return base_rng_splitmix64(&state) % 4 == 0;
}

static bool match(void *context, const struct conntrack_conn *conn, void *user)
{
	(void)user;
	unsigned int inside = conn->key.address[0][0] == 10 ? 0 : 1;
	return chosen(context, conn->key.address[inside], conn->key.address[1 - inside],
		conn->key.port[inside]);
}

static void purge(struct model *model)
{
	model->salt = base_rng_u64(&model->rng);
	uint64_t expected = 0;
	for (unsigned int i = 0; i < CONNS_MAX; i++) {
		struct conn *conn = &model->conns[i];
		if (!conn->live || !chosen(model, conn->spec.source, conn->spec.destination,
					   conn->spec.source_port))
			continue;
		conn->live = false;
		expected++;
	}
	assert_true(conntrack_purge(model->world.tracker, match, model) == expected);
}

static void model_open(struct model *model, uint64_t seed, bool scalar)
{
	static const uint8_t protocols[3] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP,
		BASE_PROTOCOL_ICMP };
	struct chain_config config = { .functions_count = 1, .scalar = scalar };
	memset(model, 0, sizeof(*model));
	chain_function_config_defaults(&config.functions[0], CHAIN_NAT);
	config.functions[0].nat.port_last = 1024 + PORTS - 1;
	if (chain_world_open(&model->world, &config, 4096) != 0)
		fail_msg("%s", model->world.message);
	packets_pool_init(&model->pool, 1);
	base_rng_seed(&model->rng, seed);
	model->time_ns = 1000000000;
	for (unsigned int i = 0; i < CONNS_MAX; i++) {
		struct conn *conn = &model->conns[i];
		conn->inside = i / REMOTES;
		conn->spec = packets_ip4(protocols[conn->inside % 3],
			0x0a000001 + conn->inside / 3 / HOST_PORTS,
			(uint16_t)(1020 + conn->inside / 3 % HOST_PORTS), 0x08080801 + i % REMOTES,
			53);
	}
}

static void run_model(bool scalar)
{
	const char *text = getenv("SHEAF_TEST_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1;
	struct model *model = malloc(sizeof(*model));
	assert_non_null(model);
	print_message("seed %llu\n", (unsigned long long)seed);
	model_open(model, seed, scalar);
	for (unsigned int step = 0; step < STEPS_COUNT; step++) {
		uint32_t choice = draw(model, 100);
		if (choice < 60)
			send_out(model);
		else if (choice < 98)
			answer(model);
		else
			purge(model);
	}
	assert_true(model->sent > 1000 && model->answered > 100);
	assert_true(model->strangers > 1000 && model->refused > 10);
	/* Nothing leaked: the whole range can be taken once more. */
	conntrack_purge(model->world.tracker, NULL, NULL);
	for (unsigned int i = 0; i <= PORTS; i++) {
		struct packets_spec spec =
			packets_ip4(BASE_PROTOCOL_UDP, 0x0a010000 + i, 9, 0x08080808, 53);
		assert_int_equal(run(model, &spec)->drop_reason,
			i < PORTS ? BASE_DROP_NONE : BASE_DROP_NAT_NO_PORT);
	}
	chain_world_finish(&model->world);
	chain_world_close(&model->world);
	packets_pool_release(&model->pool);
	free(model);
}

static void burst_implementation_agrees_with_the_list(void **state)
{
	(void)state;
	run_model(false);
}

static void reference_agrees_with_the_list(void **state)
{
	(void)state;
	run_model(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(burst_implementation_agrees_with_the_list),
		cmocka_unit_test(reference_agrees_with_the_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
