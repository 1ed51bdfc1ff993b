/* SPDX-License-Identifier: BSD-2-Clause */
/* Features against slow ones that keep every packet and follow the formulas of docs/inference.md
 * word by word. */
#include "base/rng.h"
#include "gpu_offload/flow_features.h"
#include "gpu_offload/flow_features_private.h"
#include "tests/support/packets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 20, ROUNDS = 300, PACKETS = 70, FRAME = 128 };

/* One flow's packets with what a reference wants to know of them. */
struct world {
	uint8_t frames[PACKETS][FRAME];
	struct base_packet packets[PACKETS];
	struct base_packet *list[PACKETS];
	struct gpu_offload_identity identity;
	union {
		struct gpu_offload_flow flow;
		uint8_t bytes[2048];
	} memory;
};

static void make_packet(struct world *world, uint32_t i, struct base_rng *rng, uint64_t time_ns)
{
	struct base_packet *packet = &world->packets[i];
	bool reply = base_rng_below(rng, 3) == 0;
	bool tcp = world->identity.key.protocol == BASE_PROTOCOL_TCP;
	base_packet_reset(packet);
	for (unsigned int b = 0; b < FRAME; b++)
		world->frames[i][b] = (uint8_t)base_rng_u64(rng);
	packet->data = world->frames[i];
	packet->cap_len = FRAME;
	packet->time_ns = time_ns;
	packet->key = world->identity.key;
	packet->protocol = packet->key.protocol;
	packet->l3_offset = 14;
	packet->l4_offset = 34;
	packet->payload_offset = tcp ? 54 : 42;
	packet->payload_len = (uint16_t)base_rng_below(rng, base_rng_below(rng, 20) ? 1460 : 65000);
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
	packet->tcp_flags = tcp ? world->frames[i][47] : 0;
	packet->conn_flags = reply ? BASE_CONN_REPLY : 0;
	if (reply != world->identity.opener_is_1)
		packet->flags |= BASE_PACKET_REVERSED;
	if (base_rng_below(rng, 25) == 0)
		packet->conn_flags |= BASE_CONN_RELATED;
	world->list[i] = packet;
}

static void make_world(struct world *world, struct base_rng *rng)
{
	uint64_t time_ns = base_rng_below(rng, 1000000000000);
	memset(world, 0, sizeof(*world));
	world->identity.key.family = 4;
	world->identity.key.protocol =
		base_rng_below(rng, 3) != 0 ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
	world->identity.key.port[0] = (uint16_t)base_rng_u64(rng);
	world->identity.key.port[1] = (uint16_t)base_rng_u64(rng);
	world->identity.opener_is_1 = base_rng_below(rng, 2);
	for (uint32_t i = 0; i < PACKETS; i++) {
		make_packet(world, i, rng, time_ns);
		time_ns += base_rng_below(rng, UINT64_C(1) << base_rng_below(rng, 38));
	}
}

/* In segments of random length, as runs bring them. */
static bool take(struct world *world, enum gpu_offload_features features, uint32_t depth,
	uint32_t count, struct base_rng *rng)
{
	bool whole = false;
	assert_true(gpu_offload_flow_bytes(features, depth) <= sizeof(world->memory));
	memset(&world->memory, 0, sizeof(world->memory));
	for (uint32_t i = 0; i < count;) {
		uint32_t segment = 1 + (uint32_t)base_rng_below(rng, 5);
		segment = segment < count - i ? segment : count - i;
		whole = gpu_offload_flow_take(
			features, &world->memory.flow, &world->list[i], segment, depth);
		i += segment;
	}
	return whole;
}

/* ---- references ----------------------------------------------------------------------------- */

/* Packets that count, at most depth of the first count. Returns how many. */
static uint32_t counted(const struct world *world, uint32_t depth, uint32_t count,
	const struct base_packet *kept[PACKETS])
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < count && n < depth; i++) {
		if ((world->packets[i].conn_flags & BASE_CONN_RELATED) == 0)
			kept[n++] = &world->packets[i];
	}
	return n;
}

static bool is_reply(const struct base_packet *packet)
{
	return (packet->conn_flags & BASE_CONN_REPLY) != 0;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void reference_summary(const double *values, uint32_t count, double *out)
{
	double sorted[PACKETS], sum = 0, squares = 0;
	memset(out, 0, 6 * sizeof(*out));
	if (count == 0)
		return;
	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), ascending);
	for (uint32_t i = 0; i < count; i++)
		sum += values[i];
	for (uint32_t i = 0; i < count; i++)
		squares += (values[i] - sum / count) * (values[i] - sum / count);
	out[0] = sum;
	out[1] = sum / count;
	out[2] = sorted[0];
	out[3] = sorted[count - 1];
	out[4] = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
	out[5] = sqrt(squares / count);
}

static double quantity_of(const struct base_packet *packet, unsigned int quantity)
{
	if (quantity == 0)
		return packet->payload_offset - 14 + packet->payload_len > 65535
			       ? 65535
			       : packet->payload_offset - 14 + packet->payload_len;
	return quantity == 2 ? packet->data[48] * 256 + packet->data[49] : packet->data[22];
}

static void reference_quantity(const struct base_packet *const *kept, uint32_t count,
	unsigned int quantity, bool reply, bool tcp, double *out)
{
	double values[PACKETS];
	const struct base_packet *last = NULL;
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (is_reply(kept[i]) != reply || (quantity == 2 && !tcp))
			continue;
		if (quantity != 1)
			values[n++] = quantity_of(kept[i], quantity);
		else if (last != NULL)
			values[n++] = (double)(kept[i]->time_ns - last->time_ns) / 1e9;
		last = kept[i];
	}
	reference_summary(values, n, out);
}

/* syn_ack and ack_dat, and their sum. */
static void reference_handshake(const struct base_packet *const *kept, uint32_t count, double *out)
{
	const struct base_packet *syn = NULL, *syn_ack = NULL, *ack = NULL;
	for (uint32_t i = 0; i < count; i++) {
		unsigned int flags = kept[i]->tcp_flags & 0x12u;
		if (syn == NULL) {
			syn = !is_reply(kept[i]) && flags == 0x02 ? kept[i] : NULL;
		} else if (syn_ack == NULL) {
			syn_ack = is_reply(kept[i]) && flags == 0x12 ? kept[i] : NULL;
		} else if (ack == NULL) {
			ack = !is_reply(kept[i]) && flags == 0x10 ? kept[i] : NULL;
		}
	}
	if (syn_ack != NULL)
		out[1] = (double)(syn_ack->time_ns - syn->time_ns) / 1e9;
	if (ack != NULL) {
		out[2] = (double)(ack->time_ns - syn_ack->time_ns) / 1e9;
		out[0] = (double)(ack->time_ns - syn->time_ns) / 1e9;
	}
}

static void reference_stat(const struct world *world, uint32_t depth, uint32_t count, double *out)
{
	const struct base_packet *kept[PACKETS];
	uint32_t n = counted(world, depth, count, kept);
	const struct base_flow_key *key = &world->identity.key;
	bool tcp = key->protocol == BASE_PROTOCOL_TCP;
	memset(out, 0, GPU_OFFLOAD_STAT_INPUTS * sizeof(*out));
	out[0] = n > 1 ? (double)(kept[n - 1]->time_ns - kept[0]->time_ns) / 1e9 : 0;
	out[1] = key->protocol;
	out[2] = key->port[world->identity.opener_is_1];
	out[3] = key->port[!world->identity.opener_is_1];
	for (uint32_t i = 0; i < n; i++) {
		out[6 + is_reply(kept[i])]++;
		for (unsigned int bit = 0; bit < 8 && tcp; bit++)
			out[59 + bit] += (kept[i]->tcp_flags & (0x80u >> bit)) != 0;
	}
	for (unsigned int quantity = 0; quantity < 4; quantity++) {
		for (unsigned int direction = 0; direction < 2; direction++)
			reference_quantity(kept, n, quantity, direction, tcp,
				out + 11 + 12 * quantity + 6 * direction);
	}
	for (unsigned int direction = 0; direction < 2 && out[0] > 0; direction++)
		out[4 + direction] = 8 * out[11 + 6 * direction] / out[0];
	if (tcp)
		reference_handshake(kept, n, out + 8);
}

static void assert_near(double got, double expected, double relative, const char *what, int seed)
{
	if (fabs(got - expected) <= relative * fabs(expected) + 1e-12)
		return;
	print_error("seed %d: %s: got %.9g, expected %.9g\n", seed, what, got, expected);
	fail();
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_statistics(void **state)
{
	struct base_rng rng;
	double expected[GPU_OFFLOAD_STAT_INPUTS];
	float row[GPU_OFFLOAD_STAT_INPUTS];
	struct world world;
	(void)state;
	for (int seed = SEED; seed < SEED + ROUNDS; seed++) {
		base_rng_seed(&rng, (uint64_t)seed);
		make_world(&world, &rng);
		uint32_t depth = 1 + (uint32_t)base_rng_below(&rng, GPU_OFFLOAD_DEPTH_MAX);
		uint32_t count = 1 + (uint32_t)base_rng_below(&rng, PACKETS);
		bool whole = take(&world, GPU_OFFLOAD_STAT67, depth, count, &rng);
		gpu_offload_flow_row(GPU_OFFLOAD_STAT67, &world.memory.flow, &world.identity, row);
		reference_stat(&world, depth, count, expected);
		for (uint32_t i = 0; i < GPU_OFFLOAD_STAT_INPUTS; i++) {
			char name[GPU_OFFLOAD_COLUMN_SIZE];
			gpu_offload_column_name(GPU_OFFLOAD_STAT67, i, name);
			assert_near((double)row[i], expected[i], 0x1p-16, name, seed);
		}
		assert_int_equal(whole, (uint32_t)(expected[6] + expected[7]) == depth);
	}
}

static void test_quantised(void **state)
{
	struct base_rng rng;
	double stat[GPU_OFFLOAD_STAT_INPUTS];
	float row[GPU_OFFLOAD_N3IC_INPUTS];
	struct world world;
	(void)state;
	for (int seed = SEED; seed < SEED + ROUNDS; seed++) {
		base_rng_seed(&rng, (uint64_t)seed);
		make_world(&world, &rng);
		take(&world, GPU_OFFLOAD_N3IC20, 12, PACKETS, &rng);
		gpu_offload_flow_row(GPU_OFFLOAD_N3IC20, &world.memory.flow, &world.identity, row);
		reference_stat(&world, 12, PACKETS, stat);
		/* proto, dport, dur, packets, bytes, TTL, load, window, mean size, mean gap, RTT */
		const unsigned int columns[] = { 1, 3, 0, 6, 7, 11, 17, 51, 57, 4, 5, 38, 44, 12,
			18, 24, 30, 8, 9, 10 };
		const double scales[] = { 1, 1, 1e6, 1, 1, 1, 1, 1, 1, 1e-3, 1e-3, 1, 1, 1, 1, 1e6,
			1e6, 1e6, 1e6, 1e6 };
		const double most[] = { 0xff, 0xffff, 0xffffff, 0xff, 0xff, 0xffffff, 0xffffff,
			0xff, 0xff, 0xffffff, 0xffffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffffff,
			0xffffff, 0xffffff, 0xffffff, 0xffffff };
		for (uint32_t i = 0; i < GPU_OFFLOAD_N3IC_INPUTS; i++) {
			double value = floor(stat[columns[i]] * scales[i]);
			value = value < most[i] ? value : most[i];
			/* A time that is whole microseconds may fall on either side. */
			assert_true(fabs((double)row[i] - value) <= (scales[i] == 1 ? 0 : 1));
		}
	}
}

static void test_sizes_and_gaps(void **state)
{
	struct base_rng rng;
	float row[GPU_OFFLOAD_SPI_INPUTS];
	struct world world;
	(void)state;
	for (int seed = SEED; seed < SEED + ROUNDS; seed++) {
		const struct base_packet *kept[PACKETS];
		base_rng_seed(&rng, (uint64_t)seed);
		make_world(&world, &rng);
		uint32_t depth = 1 + (uint32_t)base_rng_below(&rng, GPU_OFFLOAD_SPI_PACKETS);
		uint32_t count = 1 + (uint32_t)base_rng_below(&rng, PACKETS);
		bool whole = take(&world, GPU_OFFLOAD_SPI30, depth, count, &rng);
		uint32_t n = counted(&world, depth, count, kept);
		assert_int_equal(whole, n == depth);
		assert_int_equal(world.memory.flow.packets, n);
		gpu_offload_flow_row(GPU_OFFLOAD_SPI30, &world.memory.flow, NULL, row);
		for (uint32_t i = 0; i < 30; i++) {
			double size = i < n ? quantity_of(kept[i], 0) : 0, gap = 0;
			double direction = i >= n ? 0 : is_reply(kept[i]) ? -1 : 1;
			if (i > 0 && i < n)
				gap = (double)(kept[i]->time_ns - kept[i - 1]->time_ns) / 1e3;
			gap = gap < (double)GAP_NS_MAX / 1e3 ? gap : (double)GAP_NS_MAX / 1e3;
			assert_true((double)row[i] == (size < 32767 ? size : 32767));
			assert_true((double)row[30 + i] == direction);
			assert_true(fabs((double)row[60 + i] - log2(1 + gap)) < 0.0015);
		}
	}
}

static void test_gap_codes(void **state)
{
	uint32_t last = 0;
	(void)state;
	for (uint64_t ns = 0; ns < UINT64_C(1) << 44; ns += 1 + ns / 777) {
		uint32_t code = gap_encode(ns);
		uint64_t back = gap_decode(code);
		uint64_t most = ns < GAP_NS_MAX ? ns : GAP_NS_MAX;
		uint64_t off = back > most ? back - most : most - back;
		assert_true(code >= last && code <= UINT16_MAX);
		assert_true(off <= (most < 2048 ? 0 : most >> 10));
		last = code;
	}
	assert_int_equal(gap_encode(UINT64_MAX), UINT16_MAX);
	assert_int_equal(gap_encode(GAP_NS_MAX), UINT16_MAX);
}

/* The picture of one packet: headers without addresses and ports, payload behind them. */
static void check_picture(const struct packets_spec *spec, size_t cap_len)
{
	static uint8_t frame[PACKETS_FRAME_MAX];
	static float row[GPU_OFFLOAD_IMG_INPUTS];
	uint8_t expected[GPU_OFFLOAD_IMG_PACKET_BYTES] = { 0 };
	union {
		struct gpu_offload_flow flow;
		uint8_t bytes[sizeof(struct gpu_offload_flow) + GPU_OFFLOAD_IMG_INPUTS];
	} memory = { .bytes = { 0 } };
	struct packets_pool pool;
	size_t size = packets_build(frame, sizeof(frame), spec);
	bool ip6 = spec->family == 6;
	uint32_t header = (ip6 ? 40 : 20) + (spec->protocol == BASE_PROTOCOL_TCP ? 20u : 8u);
	cap_len = cap_len < size ? cap_len : size;
	packets_pool_init(&pool, 1);
	struct base_packet *packet =
		packets_pool_set(&pool, 0, BASE_LINK_ETHERNET, frame, cap_len, size, 5);
	packet->flags = BASE_PACKET_FLOW | BASE_PACKET_L4;
	packet->flags |= ip6 ? BASE_PACKET_IP6 : BASE_PACKET_IP4;
	packet->protocol = spec->protocol;
	packet->l3_offset = 14;
	packet->l4_offset = ip6 ? 54 : 34;
	packet->payload_offset = (uint16_t)(14 + header);
	packet->payload_len = spec->payload_len;
	for (uint32_t i = 0; i < header && 14 + i < cap_len; i++) {
		bool address = ip6 ? i >= 8 && i < 40 : i >= 12 && i < 20;
		uint32_t l4 = ip6 ? 40 : 20;
		expected[i] = address || (i >= l4 && i < l4 + 4) ? 0 : frame[14 + i];
	}
	for (uint32_t i = 0; i < 240 && i < spec->payload_len && 14 + header + i < cap_len; i++)
		expected[80 + i] = frame[14 + header + i];
	gpu_offload_flow_take(GPU_OFFLOAD_IMG1600, &memory.flow, &packet, 1, 5);
	gpu_offload_flow_row(GPU_OFFLOAD_IMG1600, &memory.flow, NULL, row);
	for (uint32_t i = 0; i < GPU_OFFLOAD_IMG_INPUTS; i++) {
		float value = i < sizeof(expected) ? (float)expected[i] / 255.0f : 0.0f;
		assert_true(row[i] == value);
	}
	packets_pool_release(&pool);
}

static void test_pictures(void **state)
{
	struct packets_spec tcp = packets_ip4(BASE_PROTOCOL_TCP, 0x0a000001, 1234, 0x0a000002, 80);
	struct packets_spec udp = packets_ip6(BASE_PROTOCOL_UDP, 1, 53, 2, 5353);
	(void)state;
	for (uint16_t payload = 0; payload < 300; payload += 7) {
		tcp.payload_len = udp.payload_len = payload;
		check_picture(&tcp, SIZE_MAX);
		check_picture(&udp, SIZE_MAX);
	}
	for (size_t cap_len = 54; cap_len < 340; cap_len++) {
		check_picture(&tcp, cap_len);
		check_picture(&udp, cap_len);
	}
}

/* Cut captures give no TTL, window or flags, and nothing is read beyond them. */
static void test_cut_headers(void **state)
{
	struct packets_spec spec = packets_ip4(BASE_PROTOCOL_TCP, 1, 1234, 2, 80);
	uint8_t frame[128];
	float row[GPU_OFFLOAD_STAT_INPUTS];
	const struct gpu_offload_identity identity = { 0 };
	(void)state;
	size_t size = packets_build(frame, sizeof(frame), &spec);
	for (size_t cap_len = 15; cap_len <= size; cap_len++) {
		struct packets_pool pool;
		union {
			struct gpu_offload_flow flow;
			uint8_t bytes[sizeof(struct gpu_offload_flow) + 16];
		} memory = { .bytes = { 0 } };
		packets_pool_init(&pool, 1);
		struct base_packet *packet =
			packets_pool_set(&pool, 0, BASE_LINK_ETHERNET, frame, cap_len, size, 5);
		packet->protocol = BASE_PROTOCOL_TCP;
		packet->l3_offset = 14;
		packet->l4_offset = 34;
		packet->flags = BASE_PACKET_IP4 | (cap_len >= 54 ? BASE_PACKET_L4 : 0);
		gpu_offload_flow_take(GPU_OFFLOAD_STAT67, &memory.flow, &packet, 1, 1);
		gpu_offload_flow_row(GPU_OFFLOAD_STAT67, &memory.flow, &identity, row);
		assert_true(row[stat_summary(STAT_TTL, 0)] == (cap_len > 22 ? 64.0f : 0.0f));
		assert_true(row[stat_summary(STAT_WINSIZE, 0)] == (cap_len >= 54 ? 65535.0f : 0));
		packets_pool_release(&pool);
	}
}

static void test_columns(void **state)
{
	(void)state;
	for (unsigned int f = 0; f < GPU_OFFLOAD_FEATURES_COUNT; f++) {
		uint32_t inputs = gpu_offload_features_inputs(f);
		enum gpu_offload_features found;
		char(*names)[GPU_OFFLOAD_COLUMN_SIZE] = calloc(inputs, sizeof(*names));
		assert_non_null(names);
		assert_int_equal(
			gpu_offload_features_from_name(gpu_offload_features_name(f), &found), 0);
		assert_int_equal(found, f);
		for (uint32_t i = 0; i < inputs; i++) {
			gpu_offload_column_name(f, i, names[i]);
			for (uint32_t j = 0; j < i; j++)
				assert_string_not_equal(names[i], names[j]);
		}
		free(names);
	}
	enum gpu_offload_features none;
	assert_int_not_equal(gpu_offload_features_from_name("spi31", &none), 0);
}

static void test_identity(void **state)
{
	struct world world;
	struct base_rng rng;
	(void)state;
	base_rng_seed(&rng, SEED);
	make_world(&world, &rng);
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct gpu_offload_identity identity = gpu_offload_identity_of(&world.packets[i]);
		assert_int_equal(identity.opener_is_1, world.identity.opener_is_1);
		assert_true(base_flow_key_equal(&identity.key, &world.identity.key));
	}
	struct gpu_offload_identity other = world.identity;
	uint64_t id = gpu_offload_flow_id(&world.identity, 7);
	assert_true(id != gpu_offload_flow_id(&world.identity, 8));
	other.opener_is_1 = !other.opener_is_1;
	assert_true(id != gpu_offload_flow_id(&other, 7));
	other = world.identity;
	other.key.port[0]++;
	assert_true(id != gpu_offload_flow_id(&other, 7));
	/* Ports do not make another host; addresses do. */
	assert_int_equal(gpu_offload_host_id(&other), gpu_offload_host_id(&world.identity));
	other.key.address[other.opener_is_1][3]++;
	assert_int_not_equal(gpu_offload_host_id(&other), gpu_offload_host_id(&world.identity));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statistics),
		cmocka_unit_test(test_quantised),
		cmocka_unit_test(test_sizes_and_gaps),
		cmocka_unit_test(test_gap_codes),
		cmocka_unit_test(test_pictures),
		cmocka_unit_test(test_cut_headers),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_identity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
