/* SPDX-License-Identifier: BSD-2-Clause */
/* Records: what is written reads back as the very row, byte for byte where it is said, and what is
 * no record is refused. */
#include "base/rng.h"
#include "gpu_offload/record.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 4, ROUNDS = 400, KEPT_BYTES = 2048 };

union kept {
	struct gpu_offload_flow flow;
	uint8_t bytes[KEPT_BYTES];
};

/* A flow whose kept packets are random bytes that grow in time where they must. */
static struct gpu_offload_identity random_flow(
	enum gpu_offload_features features, uint32_t depth, union kept *kept, struct base_rng *rng)
{
	struct gpu_offload_identity identity = { .opener_is_1 = base_rng_below(rng, 2) };
	uint8_t frame[512];
	uint64_t time_ns = base_rng_below(rng, 1000000);
	uint32_t count = 1 + (uint32_t)base_rng_below(rng, depth);
	memset(kept, 0, sizeof(*kept));
	identity.key.protocol = BASE_PROTOCOL_TCP;
	identity.key.family = 4;
	identity.key.port[0] = (uint16_t)base_rng_u64(rng);
	for (unsigned int b = 0; b < sizeof(frame); b++)
		frame[b] = (uint8_t)base_rng_u64(rng);
	for (uint32_t i = 0; i < count; i++) {
		struct base_packet packet, *list = &packet;
		base_packet_reset(&packet);
		packet.data = frame;
		packet.cap_len = sizeof(frame);
		packet.l3_offset = 14;
		packet.l4_offset = 34;
		packet.payload_offset = 54;
		packet.payload_len = (uint16_t)base_rng_below(rng, 1460);
		packet.protocol = BASE_PROTOCOL_TCP;
		packet.flags = BASE_PACKET_FLOW | BASE_PACKET_IP4 | BASE_PACKET_L4;
		packet.tcp_flags = (uint8_t)base_rng_u64(rng);
		packet.conn_flags = base_rng_below(rng, 2) ? BASE_CONN_REPLY : 0;
		packet.time_ns = time_ns += base_rng_below(rng, 1000000000);
		gpu_offload_flow_take(features, &kept->flow, &list, 1, depth);
	}
	return identity;
}

static void test_round_trip(void **state)
{
	static uint8_t bytes[GPU_OFFLOAD_RECORD_BYTES_MAX];
	static float row[GPU_OFFLOAD_IMG_INPUTS], back[GPU_OFFLOAD_IMG_INPUTS];
	struct base_rng rng;
	union kept kept;
	const char *why;
	(void)state;
	base_rng_seed(&rng, SEED);
	for (int round = 0; round < ROUNDS; round++) {
		enum gpu_offload_features features = base_rng_below(&rng, 4);
		uint32_t most = gpu_offload_features_depth_max(features);
		uint32_t depth = 1 + (uint32_t)base_rng_below(&rng, most);
		uint32_t inputs = gpu_offload_features_inputs(features);
		struct gpu_offload_record record;
		struct gpu_offload_identity identity = random_flow(features, depth, &kept, &rng);
		gpu_offload_record_write(features, &kept.flow, &identity, 77, 88, depth, bytes);
		gpu_offload_flow_row(features, &kept.flow, &identity, row);
		size_t size = gpu_offload_record_bytes(features);
		assert_int_equal(gpu_offload_record_read(bytes, size, &record, back, &why), 0);
		assert_memory_equal(row, back, inputs * sizeof(*row));
		assert_int_equal(record.features, features);
		assert_int_equal(record.flow, 77);
		assert_int_equal(record.generation, 88);
		assert_int_equal(record.packets, kept.flow.packets);
		assert_int_equal(record.depth, depth);
		assert_int_equal(record.flags, kept.flow.packets == depth);
		assert_true(record.first_ns == kept.flow.first_ns);
		assert_true(record.last_ns == kept.flow.last_ns);
		assert_true(record.flow_id == gpu_offload_flow_id(&identity, kept.flow.first_ns));
		for (size_t cut = 1; cut < size; cut++)
			assert_int_equal(
				gpu_offload_record_read(bytes, cut, &record, back, &why), -EBADMSG);
		assert_int_equal(gpu_offload_record_read(bytes, 0, &record, back, &why), -ENODATA);
	}
}

/* The header's place and order of bytes do not move. */
static void test_layout(void **state)
{
	uint8_t bytes[GPU_OFFLOAD_RECORD_BYTES_MAX];
	union kept kept = { .flow = { .first_ns = 0x0102030405060708,
				    .last_ns = 0x1112131415161718,
				    .packets = 3 } };
	const struct gpu_offload_identity identity = { .key = { .family = 4 } };
	static const uint8_t head[] = { 'S', 'H', 'A', 'F', 1, 0, 0, 0, 0xd4, 0xc3, 0xb2, 0xa1, 4,
		3, 2, 1 };
	static const uint8_t times[] = { 8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
		0x12, 0x11 };
	static const uint8_t counts[] = { 3, 0, 30, 0 };
	(void)state;
	gpu_offload_record_write(
		GPU_OFFLOAD_SPI30, &kept.flow, &identity, 0xa1b2c3d4, 0x01020304, 30, bytes);
	assert_memory_equal(bytes, head, sizeof(head));
	assert_memory_equal(bytes + 24, times, sizeof(times));
	assert_memory_equal(bytes + 44, counts, sizeof(counts));
	assert_int_equal(gpu_offload_record_bytes(GPU_OFFLOAD_SPI30), 256);
	assert_int_equal(gpu_offload_record_bytes(GPU_OFFLOAD_STAT67), 256);
	assert_int_equal(gpu_offload_record_bytes(GPU_OFFLOAD_N3IC20), 128);
	assert_int_equal(gpu_offload_record_bytes(GPU_OFFLOAD_IMG1600), 1664);
}

/* One byte spoilt: refused, with a reason. */
static void check_refused(
	const uint8_t *bytes, size_t size, size_t at, uint8_t value, const char *reason)
{
	uint8_t spoilt[GPU_OFFLOAD_RECORD_BYTES_MAX];
	float row[GPU_OFFLOAD_IMG_INPUTS];
	struct gpu_offload_record record;
	const char *why;
	memcpy(spoilt, bytes, size);
	spoilt[at] = value;
	assert_int_equal(gpu_offload_record_read(spoilt, size, &record, row, &why), -EBADMSG);
	assert_string_equal(why, reason);
}

static void test_refusals(void **state)
{
	uint8_t bytes[GPU_OFFLOAD_RECORD_BYTES_MAX];
	union kept kept;
	struct base_rng rng;
	(void)state;
	base_rng_seed(&rng, SEED);
	struct gpu_offload_identity identity = random_flow(GPU_OFFLOAD_STAT67, 8, &kept, &rng);
	gpu_offload_record_write(GPU_OFFLOAD_STAT67, &kept.flow, &identity, 1, 2, 9, bytes);
	check_refused(bytes, 256, 0, 'X', "not a record");
	check_refused(bytes, 256, 4, 2, "a version that is not known");
	check_refused(bytes, 256, 5, 1, "a version that is not known");
	check_refused(bytes, 256, 6, 4, "features that are not known");
	check_refused(bytes, 256, 7, 1, "flags that do not fit its packets");
	check_refused(bytes, 256, 7, 2, "flags that do not fit its packets");
	check_refused(bytes, 256, 44, 10, "more packets than its features take");
	check_refused(bytes, 256, 46, 0, "more packets than its features take");
	check_refused(bytes, 256, 46, 65, "more packets than its features take");
	check_refused(bytes, 256, 31, 0xff, "an end before its beginning");
	check_refused(bytes, 256, 255, 1, "something behind its end");
	check_refused(bytes, 256, 48 + 2, 0xff, "a number that is none");
	check_refused(bytes, 256, 6, GPU_OFFLOAD_N3IC20, "something behind its end");
	check_refused(bytes, 256, 6, GPU_OFFLOAD_IMG1600, "more packets than its features take");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_refusals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
