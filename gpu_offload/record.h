/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records: what is known of one flow, in a fixed number of bytes, for files and for other machines.
 * Little-endian, a header of 48 bytes and then by features:
 *
 *	spi30     256 bytes  30 words: size, direction, gap (gpu_offload/flow_features_private.h)
 *	stat67    256        67 floats of 24 bits
 *	n3ic20    128        20 integers of 1, 2 or 3 bytes, 45 in all
 *	img1600  1664        1600 bytes
 *
 * What is left is zero. A record gives the very row that the flow gave: a row is rounded as its
 * record is.
 *
 * Records from outside are hostile: reading checks magic, version, features, packets and padding.
 * Threads: pure functions. Memory: the caller's.
 */
#pragma once

#include "gpu_offload/flow_features.h"

enum {
	GPU_OFFLOAD_RECORD_VERSION = 1,
	GPU_OFFLOAD_RECORD_HEADER_BYTES = 48,
	GPU_OFFLOAD_RECORD_BYTES_MAX = 1664,
};
#define GPU_OFFLOAD_RECORD_MAGIC UINT32_C(0x46414853) /* "SHAF" */

enum gpu_offload_record_flag {
	GPU_OFFLOAD_RECORD_WHOLE = 1
				   << 0, /* depth packets were taken; else the flow ended before */
};

/* The header as it stands in memory on a little-endian machine. */
struct gpu_offload_record {
	uint32_t magic;
	uint16_t version;
	uint8_t features;           /* enum gpu_offload_features */
	uint8_t flags;              /* enum gpu_offload_record_flag */
	uint32_t flow;              /* index of the connection in its shard ... */
	uint32_t generation;        /* ... and which user of that index it is */
	uint64_t flow_id;           /* gpu_offload_flow_id */
	uint64_t first_ns, last_ns; /* of the packets taken, capture time */
	uint32_t host_id;           /* gpu_offload_host_id */
	uint16_t packets;           /* taken */
	uint16_t depth;             /* asked for */
};
static_assert(sizeof(struct gpu_offload_record) == GPU_OFFLOAD_RECORD_HEADER_BYTES, "no padding");
static_assert(offsetof(struct gpu_offload_record, version) == 4, "format");
static_assert(offsetof(struct gpu_offload_record, features) == 6, "format");
static_assert(offsetof(struct gpu_offload_record, flags) == 7, "format");
static_assert(offsetof(struct gpu_offload_record, flow) == 8, "format");
static_assert(offsetof(struct gpu_offload_record, generation) == 12, "format");
static_assert(offsetof(struct gpu_offload_record, flow_id) == 16, "format");
static_assert(offsetof(struct gpu_offload_record, first_ns) == 24, "format");
static_assert(offsetof(struct gpu_offload_record, last_ns) == 32, "format");
static_assert(offsetof(struct gpu_offload_record, host_id) == 40, "format");
static_assert(offsetof(struct gpu_offload_record, packets) == 44, "format");
static_assert(offsetof(struct gpu_offload_record, depth) == 46, "format");

/* Bytes of a record. */
uint32_t gpu_offload_record_bytes(enum gpu_offload_features features);

/* Write one; bytes has room for gpu_offload_record_bytes(). */
void gpu_offload_record_write(enum gpu_offload_features features,
	const struct gpu_offload_flow *flow, const struct gpu_offload_identity *identity,
	uint32_t conn, uint32_t generation, uint32_t depth, uint8_t *bytes);

/*
 * Read the first record of size bytes: its header, and its row (room for
 * gpu_offload_features_inputs() of its features, at most GPU_OFFLOAD_IMG_INPUTS; NULL: not wanted).
 * -ENODATA: nothing there; -EBADMSG: cut short, no record, another version, or out of bounds, with
 * the reason in *why (a constant).
 */
int gpu_offload_record_read(const uint8_t *bytes, size_t size, struct gpu_offload_record *record,
	float *row, const char **why);
