/* SPDX-License-Identifier: BSD-2-Clause */
/* Taking packets, and the rows of spi30 and img1600. */
#include "gpu_offload/flow_features.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "gpu_offload/flow_features_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- taking packets ------------------------------------------------------------------------- */

static inline bool is_taken(const struct base_packet *packet)
{
	return BASE_LIKELY((packet->conn_flags & BASE_CONN_RELATED) == 0);
}

static __attribute__((noinline)) bool spi_take(struct gpu_offload_flow *flow,
	struct base_packet *const *packets, unsigned int count, uint32_t depth)
{
	uint32_t *slots = spi_slots(flow);
	uint32_t taken = flow->packets;
	uint64_t last_ns = flow->last_ns;
	for (unsigned int i = 0; i < count && taken < depth; i++) {
		const struct base_packet *packet = packets[i];
		if (!is_taken(packet))
			continue;
		uint64_t now_ns = packet->time_ns;
		if (BASE_UNLIKELY(taken == 0)) {
			flow->first_ns = now_ns;
			last_ns = now_ns;
		}
		uint64_t gap_ns = now_ns > last_ns ? now_ns - last_ns : 0;
		uint32_t size = ip_bytes(packet);
		uint32_t reply = (packet->conn_flags & BASE_CONN_REPLY) != 0 ? SPI_REPLY : 0;
		size = size < SPI_SIZE_MAX ? size : SPI_SIZE_MAX;
		slots[taken++] = size | reply | gap_encode(gap_ns) << SPI_GAP_SHIFT;
		last_ns = now_ns;
	}
	flow->last_ns = last_ns;
	flow->packets = (uint8_t)taken;
	return taken == depth;
}

/* The TTL or hop limit; 0 when it was not captured. */
static inline uint8_t ttl_of(const struct base_packet *packet)
{
	uint32_t at = packet->l3_offset + ((packet->flags & BASE_PACKET_IP6) != 0 ? 7u : 8u);
	return BASE_LIKELY(at < packet->cap_len) ? packet->data[at] : 0;
}

static inline void stat_put(struct stat_slot *slot, const struct base_packet *packet)
{
	uint32_t size = ip_bytes(packet), window = 0, at = packet->l4_offset + 14u;
	unsigned int kind = (packet->conn_flags & BASE_CONN_REPLY) != 0 ? STAT_REPLY : 0;
	unsigned int tcp_flags = 0;
	if (packet->protocol == BASE_PROTOCOL_TCP && (packet->flags & BASE_PACKET_L4) != 0 &&
		at + 2 <= packet->cap_len) {
		uint16_t word;
		memcpy(&word, packet->data + at, sizeof(word));
		window = __builtin_bswap16(word);
		tcp_flags = packet->tcp_flags;
		kind |= STAT_TCP;
	}
	slot->time_ns = packet->time_ns;
	slot->bytes = (uint16_t)(size < UINT16_MAX ? size : UINT16_MAX);
	slot->window = (uint16_t)window;
	slot->ttl = ttl_of(packet);
	slot->tcp_flags = (uint8_t)tcp_flags;
	slot->kind = (uint8_t)kind;
	slot->unused = 0;
}

static __attribute__((noinline)) bool stat_take(struct gpu_offload_flow *flow,
	struct base_packet *const *packets, unsigned int count, uint32_t depth)
{
	struct stat_slot *slots = stat_slots(flow);
	uint32_t taken = flow->packets;
	uint64_t last_ns = flow->last_ns;
	for (unsigned int i = 0; i < count && taken < depth; i++) {
		const struct base_packet *packet = packets[i];
		if (!is_taken(packet))
			continue;
		last_ns = packet->time_ns;
		if (BASE_UNLIKELY(taken == 0))
			flow->first_ns = last_ns;
		stat_put(&slots[taken++], packet);
	}
	flow->last_ns = last_ns;
	flow->packets = (uint8_t)taken;
	return taken == depth;
}

static void zero_range(uint8_t *header, uint32_t header_len, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count && i < header_len; i++)
		header[i] = 0;
}

/* Headers without addresses and ports, then payload. out is zeroed. */
static void img_copy(uint8_t *out, const struct base_packet *packet)
{
	uint32_t at = packet->l3_offset, payload = packet->payload_offset;
	uint32_t end = payload + packet->payload_len;
	uint32_t cap_len = packet->cap_len;
	end = end < cap_len ? end : cap_len;
	payload = payload < end ? payload : end;
	uint32_t header_len = payload > at ? payload - at : 0;
	if (header_len > GPU_OFFLOAD_IMG_HEADER_BYTES)
		header_len = GPU_OFFLOAD_IMG_HEADER_BYTES;
	uint32_t payload_len = end - payload;
	const uint32_t room = GPU_OFFLOAD_IMG_PACKET_BYTES - GPU_OFFLOAD_IMG_HEADER_BYTES;
	payload_len = payload_len < room ? payload_len : room;
	memcpy(out, packet->data + at, header_len);
	memcpy(out + GPU_OFFLOAD_IMG_HEADER_BYTES, packet->data + payload, payload_len);
	if ((packet->flags & BASE_PACKET_IP6) != 0)
		zero_range(out, header_len, 8, 32);
	else
		zero_range(out, header_len, 12, 8);
	bool ports = packet->protocol == BASE_PROTOCOL_TCP ||
		     packet->protocol == BASE_PROTOCOL_UDP ||
		     packet->protocol == BASE_PROTOCOL_SCTP;
	if (ports && packet->l4_offset > at)
		zero_range(out, header_len, packet->l4_offset - at, 4);
}

static __attribute__((noinline)) bool img_take(struct gpu_offload_flow *flow,
	struct base_packet *const *packets, unsigned int count, uint32_t depth)
{
	for (unsigned int i = 0; i < count && flow->packets < depth; i++) {
		const struct base_packet *packet = packets[i];
		if (!is_taken(packet))
			continue;
		img_copy(img_bytes(flow) + flow->packets * (size_t)GPU_OFFLOAD_IMG_PACKET_BYTES,
			packet);
		if (flow->packets++ == 0)
			flow->first_ns = packet->time_ns;
		flow->last_ns = packet->time_ns;
	}
	return flow->packets == depth;
}

bool gpu_offload_flow_take(enum gpu_offload_features features, struct gpu_offload_flow *flow,
	struct base_packet *const *packets, unsigned int count, uint32_t depth)
{
	switch (features) {
	case GPU_OFFLOAD_SPI30:
		return spi_take(flow, packets, count, depth);
	case GPU_OFFLOAD_STAT67:
	case GPU_OFFLOAD_N3IC20:
		return stat_take(flow, packets, count, depth);
	case GPU_OFFLOAD_IMG1600:
		return img_take(flow, packets, count, depth);
	case GPU_OFFLOAD_FEATURES_COUNT:
		break;
	}
	return false;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Three channels of 30: sizes, directions, gaps. What is not there is 0 in all three. */
static void spi_row(const struct gpu_offload_flow *flow, float *row)
{
	const uint32_t *slots = (const uint32_t *)(flow + 1);
	memset(row, 0, GPU_OFFLOAD_SPI_INPUTS * sizeof(*row));
	for (uint32_t i = 0; i < flow->packets; i++) {
		float gap_us = (float)gap_decode(slots[i] >> SPI_GAP_SHIFT) / 1e3f;
		row[i] = (float)(slots[i] & SPI_SIZE_MAX);
		row[GPU_OFFLOAD_SPI_PACKETS + i] = (slots[i] & SPI_REPLY) != 0 ? -1.0f : 1.0f;
		row[2 * GPU_OFFLOAD_SPI_PACKETS + i] = log2f(1 + gap_us);
	}
}

static void stat_row(const struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity, float *row)
{
	double stat[GPU_OFFLOAD_STAT_INPUTS];
	stat_compute(flow, identity, stat);
	for (uint32_t i = 0; i < GPU_OFFLOAD_STAT_INPUTS; i++)
		row[i] = float24_decode(float24_encode((float)stat[i]));
}

static void n3ic_row(const struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity, float *row)
{
	double stat[GPU_OFFLOAD_STAT_INPUTS];
	stat_compute(flow, identity, stat);
	for (uint32_t i = 0; i < GPU_OFFLOAD_N3IC_INPUTS; i++)
		row[i] = (float)n3ic_quantise(&n3ic_fields[i], stat);
}

static void img_row(const struct gpu_offload_flow *flow, float *row)
{
	const uint8_t *bytes = (const uint8_t *)(flow + 1);
	size_t known = flow->packets * (size_t)GPU_OFFLOAD_IMG_PACKET_BYTES;
	for (size_t i = 0; i < known; i++)
		row[i] = (float)bytes[i] / 255.0f;
	memset(row + known, 0, (GPU_OFFLOAD_IMG_INPUTS - known) * sizeof(*row));
}

void gpu_offload_flow_row(enum gpu_offload_features features, const struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity, float *row)
{
	switch (features) {
	case GPU_OFFLOAD_SPI30:
		spi_row(flow, row);
		break;
	case GPU_OFFLOAD_STAT67:
		stat_row(flow, identity, row);
		break;
	case GPU_OFFLOAD_N3IC20:
		n3ic_row(flow, identity, row);
		break;
	case GPU_OFFLOAD_IMG1600:
		img_row(flow, row);
		break;
	case GPU_OFFLOAD_FEATURES_COUNT:
		break;
	}
}

/* ---- names and sizes ------------------------------------------------------------------------ */

static const struct {
	const char *name;
	uint16_t inputs;
	uint8_t depth_default, depth_max;
	uint16_t slot_bytes; /* of one packet */
} kinds[GPU_OFFLOAD_FEATURES_COUNT] = {
	[GPU_OFFLOAD_SPI30] = { "spi30", GPU_OFFLOAD_SPI_INPUTS, GPU_OFFLOAD_SPI_PACKETS,
		GPU_OFFLOAD_SPI_PACKETS, sizeof(uint32_t) },
	[GPU_OFFLOAD_STAT67] = { "stat67", GPU_OFFLOAD_STAT_INPUTS, 10, GPU_OFFLOAD_DEPTH_MAX,
		sizeof(struct stat_slot) },
	[GPU_OFFLOAD_N3IC20] = { "n3ic20", GPU_OFFLOAD_N3IC_INPUTS, 10, GPU_OFFLOAD_DEPTH_MAX,
		sizeof(struct stat_slot) },
	[GPU_OFFLOAD_IMG1600] = { "img1600", GPU_OFFLOAD_IMG_INPUTS, GPU_OFFLOAD_IMG_PACKETS,
		GPU_OFFLOAD_IMG_PACKETS, GPU_OFFLOAD_IMG_PACKET_BYTES },
};

int gpu_offload_features_from_name(const char *name, enum gpu_offload_features *features)
{
	for (unsigned int i = 0; i < GPU_OFFLOAD_FEATURES_COUNT; i++) {
		if (strcmp(kinds[i].name, name) == 0) {
			*features = (enum gpu_offload_features)i;
			return 0;
		}
	}
	return -ENOENT;
}

const char *gpu_offload_features_name(enum gpu_offload_features features)
{
	return (unsigned int)features < GPU_OFFLOAD_FEATURES_COUNT ? kinds[features].name : "?";
}

uint32_t gpu_offload_features_inputs(enum gpu_offload_features features)
{
	BASE_ASSERT((unsigned int)features < GPU_OFFLOAD_FEATURES_COUNT);
	return kinds[features].inputs;
}

uint32_t gpu_offload_features_depth_max(enum gpu_offload_features features)
{
	BASE_ASSERT((unsigned int)features < GPU_OFFLOAD_FEATURES_COUNT);
	return kinds[features].depth_max;
}

uint32_t gpu_offload_features_depth_default(enum gpu_offload_features features)
{
	BASE_ASSERT((unsigned int)features < GPU_OFFLOAD_FEATURES_COUNT);
	return kinds[features].depth_default;
}

uint32_t gpu_offload_flow_bytes(enum gpu_offload_features features, uint32_t depth)
{
	BASE_ASSERT(depth >= 1 && depth <= gpu_offload_features_depth_max(features));
	uint32_t bytes = sizeof(struct gpu_offload_flow) + depth * kinds[features].slot_bytes;
	return (bytes + 7) & ~7u;
}

/* ---- identity ------------------------------------------------------------------------------- */

struct gpu_offload_identity gpu_offload_identity_of(const struct base_packet *packet)
{
	bool reversed = (packet->flags & BASE_PACKET_REVERSED) != 0;
	bool reply = (packet->conn_flags & BASE_CONN_REPLY) != 0;
	return (struct gpu_offload_identity){
		.key = packet->key,
		.opener_is_1 = reversed != reply,
	};
}

/* Order matters, and every bit of a word reaches every bit of the result. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	uint64_t state = hash ^ word;
	return base_rng_splitmix64(&state);
}

uint64_t gpu_offload_flow_id(const struct gpu_offload_identity *identity, uint64_t first_ns)
{
	uint64_t words[sizeof(identity->key) / sizeof(uint64_t)];
	uint64_t hash = mix(0, first_ns);
	memcpy(words, &identity->key, sizeof(words));
	for (size_t i = 0; i < BASE_ARRAY_COUNT(words); i++)
		hash = mix(hash, words[i]);
	return mix(hash, identity->opener_is_1);
}

uint32_t gpu_offload_host_id(const struct gpu_offload_identity *identity)
{
	uint64_t words[2];
	memcpy(words, identity->key.address[identity->opener_is_1], sizeof(words));
	return (uint32_t)(mix(mix(identity->key.family, words[0]), words[1]) >> 32);
}
