/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as records: each is refused with a reason or gives a row of finite numbers. And, beyond
 * what a corpus holds: the same bytes as what is kept of a flow, written as a record, and that
 * record damaged in places that the bytes choose, the same for the same bytes.
 */
#include "base/compiler.h"
#include "base/rng.h"
#include "gpu_offload/record.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FLOW_BYTES = 32 + 320 * GPU_OFFLOAD_DEPTH_MAX, DAMAGES = 32 };

static void read_all(const uint8_t *data, size_t size)
{
	float row[GPU_OFFLOAD_IMG_INPUTS];
	struct gpu_offload_record record;
	const char *why = NULL;
	size_t at = 0;
	while (gpu_offload_record_read(data + at, size - at, &record, row, &why) == 0) {
		uint32_t inputs = gpu_offload_features_inputs(record.features);
		BASE_ASSERT(record.packets <= record.depth);
		for (uint32_t i = 0; i < inputs; i++)
			BASE_ASSERT(isfinite(row[i]));
		at += gpu_offload_record_bytes(record.features);
		BASE_ASSERT(at <= size);
	}
	BASE_ASSERT(at == size || why[0] != '\0');
}

/* A flow of `packets` packets whose kept bytes are the input's, over and over. */
static void fill_flow(struct gpu_offload_flow *flow, enum gpu_offload_features features,
	uint32_t packets, const uint8_t *data, size_t size)
{
	uint8_t *kept = (uint8_t *)(flow + 1);
	uint32_t bytes = gpu_offload_flow_bytes(features, packets) - sizeof(*flow);
	for (uint32_t i = 0; i < bytes && size > 0; i++)
		kept[i] = data[i % size];
	flow->packets = (uint8_t)packets;
	flow->last_ns = size;
}

/* Change a byte, a bit, or where it ends; headers most of all. */
static void damage(uint8_t *record, uint32_t *bytes, struct base_rng *rng)
{
	uint32_t reach = base_rng_below(rng, 2) ? GPU_OFFLOAD_RECORD_HEADER_BYTES : *bytes;
	uint32_t at = (uint32_t)base_rng_below(rng, reach < *bytes ? reach : *bytes);
	switch (base_rng_below(rng, 4)) {
	case 0:
		record[at] = (uint8_t)base_rng_below(rng, 256);
		break;
	case 1:
		record[at] ^= (uint8_t)(1u << base_rng_below(rng, 8));
		break;
	case 2:
		record[at] = 0xff;
		break;
	default:
		*bytes = at + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct gpu_offload_identity identity = { .opener_is_1 = true };
	_Alignas(16) uint8_t flow[FLOW_BYTES] = { 0 };
	uint8_t whole[GPU_OFFLOAD_RECORD_BYTES_MAX], record[GPU_OFFLOAD_RECORD_BYTES_MAX];
	struct base_rng rng;
	read_all(data, size);
	base_rng_seed(&rng, size > 0 ? size * 257 + data[size / 2] : 0);
	enum gpu_offload_features features =
		(enum gpu_offload_features)base_rng_below(&rng, GPU_OFFLOAD_FEATURES_COUNT);
	uint32_t depth = gpu_offload_features_depth_max(features);
	uint32_t packets = 1 + (uint32_t)base_rng_below(&rng, depth);
	fill_flow((struct gpu_offload_flow *)flow, features, packets, data, size);
	gpu_offload_record_write(
		features, (const struct gpu_offload_flow *)flow, &identity, 1, 2, depth, whole);
	for (int i = 0; i < DAMAGES; i++) {
		uint32_t bytes = gpu_offload_record_bytes(features);
		memcpy(record, whole, bytes);
		for (uint64_t hits = base_rng_below(&rng, 4); hits > 0; hits--)
			damage(record, &bytes, &rng);
		read_all(record, bytes);
	}
	return 0;
}
