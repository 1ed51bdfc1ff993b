/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/record.h"

#include "base/compiler.h"
#include "gpu_offload/flow_features_private.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const uint16_t record_bytes[GPU_OFFLOAD_FEATURES_COUNT] = {
	[GPU_OFFLOAD_SPI30] = 256,
	[GPU_OFFLOAD_STAT67] = 256,
	[GPU_OFFLOAD_N3IC20] = 128,
	[GPU_OFFLOAD_IMG1600] = GPU_OFFLOAD_RECORD_BYTES_MAX,
};

enum { N3IC_BYTES = 45 };

static const uint16_t payload_bytes[GPU_OFFLOAD_FEATURES_COUNT] = {
	[GPU_OFFLOAD_SPI30] = GPU_OFFLOAD_SPI_PACKETS * 4,
	[GPU_OFFLOAD_STAT67] = GPU_OFFLOAD_STAT_INPUTS * 3,
	[GPU_OFFLOAD_N3IC20] = N3IC_BYTES,
	[GPU_OFFLOAD_IMG1600] = GPU_OFFLOAD_IMG_INPUTS,
};
static_assert(GPU_OFFLOAD_RECORD_HEADER_BYTES + GPU_OFFLOAD_STAT_INPUTS * 3 <= 256, "it fits");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are copied as they stand");

uint32_t gpu_offload_record_bytes(enum gpu_offload_features features)
{
	BASE_ASSERT((unsigned int)features < GPU_OFFLOAD_FEATURES_COUNT);
	return record_bytes[features];
}

static uint8_t *put(uint8_t *at, uint32_t value, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		*at++ = (uint8_t)(value >> (8 * i));
	return at;
}

static uint32_t get(const uint8_t *at, unsigned int count)
{
	uint32_t value = 0;
	for (unsigned int i = 0; i < count; i++)
		value |= (uint32_t)at[i] << (8 * i);
	return value;
}

static void write_statistics(enum gpu_offload_features features,
	const struct gpu_offload_flow *flow, const struct gpu_offload_identity *identity,
	uint8_t *at)
{
	double stat[GPU_OFFLOAD_STAT_INPUTS];
	stat_compute(flow, identity, stat);
	if (features == GPU_OFFLOAD_STAT67) {
		for (uint32_t i = 0; i < GPU_OFFLOAD_STAT_INPUTS; i++)
			at = put(at, float24_encode((float)stat[i]), 3);
		return;
	}
	for (uint32_t i = 0; i < GPU_OFFLOAD_N3IC_INPUTS; i++)
		at = put(at, n3ic_quantise(&n3ic_fields[i], stat), n3ic_fields[i].bytes);
}

static void write_payload(enum gpu_offload_features features, const struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity, uint8_t *at)
{
	const uint8_t *kept = (const uint8_t *)(flow + 1);
	switch (features) {
	case GPU_OFFLOAD_SPI30:
		memcpy(at, kept, flow->packets * sizeof(uint32_t));
		break;
	case GPU_OFFLOAD_STAT67:
	case GPU_OFFLOAD_N3IC20:
		write_statistics(features, flow, identity, at);
		break;
	case GPU_OFFLOAD_IMG1600:
		memcpy(at, kept, flow->packets * (size_t)GPU_OFFLOAD_IMG_PACKET_BYTES);
		break;
	case GPU_OFFLOAD_FEATURES_COUNT:
		break;
	}
}

void gpu_offload_record_write(enum gpu_offload_features features,
	const struct gpu_offload_flow *flow, const struct gpu_offload_identity *identity,
	uint32_t conn, uint32_t generation, uint32_t depth, uint8_t *bytes)
{
	const struct gpu_offload_record record = {
		.magic = GPU_OFFLOAD_RECORD_MAGIC,
		.version = GPU_OFFLOAD_RECORD_VERSION,
		.features = (uint8_t)features,
		.flags = flow->packets >= depth ? GPU_OFFLOAD_RECORD_WHOLE : 0,
		.flow = conn,
		.generation = generation,
		.flow_id = gpu_offload_flow_id(identity, flow->first_ns),
		.first_ns = flow->first_ns,
		.last_ns = flow->last_ns,
		.host_id = gpu_offload_host_id(identity),
		.packets = flow->packets,
		.depth = (uint16_t)depth,
	};
	memset(bytes, 0, gpu_offload_record_bytes(features));
	memcpy(bytes, &record, sizeof(record));
	write_payload(features, flow, identity, bytes + sizeof(record));
}

/* ---- reading -------------------------------------------------------------------------------- */

static int refuse(const char **why, const char *reason)
{
	*why = reason;
	return -EBADMSG;
}

static int check_header(const struct gpu_offload_record *record, const char **why)
{
	if (record->magic != GPU_OFFLOAD_RECORD_MAGIC)
		return refuse(why, "not a record");
	if (record->version != GPU_OFFLOAD_RECORD_VERSION)
		return refuse(why, "a version that is not known");
	if (record->features >= GPU_OFFLOAD_FEATURES_COUNT)
		return refuse(why, "features that are not known");
	uint32_t depth_max = gpu_offload_features_depth_max(record->features);
	if (record->depth == 0 || record->depth > depth_max || record->packets > record->depth)
		return refuse(why, "more packets than its features take");
	bool whole = record->packets == record->depth;
	if (record->flags != (whole ? GPU_OFFLOAD_RECORD_WHOLE : 0))
		return refuse(why, "flags that do not fit its packets");
	if (record->last_ns < record->first_ns)
		return refuse(why, "an end before its beginning");
	return 0;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
	uint8_t any = 0;
	for (size_t i = 0; i < count; i++)
		any |= bytes[i];
	return any == 0;
}

/* Bytes that may be other than 0. */
static size_t payload_of(const struct gpu_offload_record *record)
{
	switch ((enum gpu_offload_features)record->features) {
	case GPU_OFFLOAD_SPI30:
		return record->packets * sizeof(uint32_t);
	case GPU_OFFLOAD_IMG1600:
		return record->packets * (size_t)GPU_OFFLOAD_IMG_PACKET_BYTES;
	default:
		return payload_bytes[record->features];
	}
}

static void read_row(const struct gpu_offload_record *record, const uint8_t *at, float *row)
{
	union {
		struct gpu_offload_flow flow;
		uint8_t bytes[sizeof(struct gpu_offload_flow) + GPU_OFFLOAD_IMG_INPUTS];
	} kept = { .flow = { .packets = (uint8_t)record->packets } };
	switch ((enum gpu_offload_features)record->features) {
	case GPU_OFFLOAD_STAT67:
		for (uint32_t i = 0; i < GPU_OFFLOAD_STAT_INPUTS; i++, at += 3)
			row[i] = float24_decode(get(at, 3));
		break;
	case GPU_OFFLOAD_N3IC20:
		for (uint32_t i = 0; i < GPU_OFFLOAD_N3IC_INPUTS; at += n3ic_fields[i++].bytes)
			row[i] = (float)get(at, n3ic_fields[i].bytes);
		break;
	case GPU_OFFLOAD_SPI30:
	case GPU_OFFLOAD_IMG1600:
		memcpy(&kept.flow + 1, at, payload_bytes[record->features]);
		gpu_offload_flow_row(record->features, &kept.flow, NULL, row);
		break;
	case GPU_OFFLOAD_FEATURES_COUNT:
		break;
	}
}

/* Numbers that no flow gives: a statistic that is not finite, or below 0. */
static bool has_bad_numbers(const struct gpu_offload_record *record, const uint8_t *at)
{
	bool bad = false;
	if (record->features != GPU_OFFLOAD_STAT67)
		return false;
	for (uint32_t i = 0; i < GPU_OFFLOAD_STAT_INPUTS; i++, at += 3) {
		float value = float24_decode(get(at, 3));
		bad |= !isfinite(value) || signbit(value);
	}
	return bad;
}

int gpu_offload_record_read(const uint8_t *bytes, size_t size, struct gpu_offload_record *record,
	float *row, const char **why)
{
	struct gpu_offload_record head;
	*why = "";
	if (size == 0)
		return -ENODATA;
	if (size < sizeof(head))
		return refuse(why, "cut short");
	memcpy(&head, bytes, sizeof(head));
	int error = check_header(&head, why);
	if (error != 0)
		return error;
	size_t whole = record_bytes[head.features];
	size_t used = sizeof(head) + payload_of(&head);
	if (size < whole)
		return refuse(why, "cut short");
	if (!is_zero(bytes + used, whole - used))
		return refuse(why, "something behind its end");
	if (has_bad_numbers(&head, bytes + sizeof(head)))
		return refuse(why, "a number that is none");
	if (row != NULL)
		read_row(&head, bytes + sizeof(head), row);
	*record = head;
	return 0;
}
