/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to flow_*.c and record.c: what is kept of a packet, and how rows are made from it. */
#pragma once

#include "gpu_offload/flow_features.h"

/*
 * spi30: one word per packet. Bytes of the IP packet, at most 32767; 1 << 15: sent by the
 * responder; from bit 16 on the gap to the packet before, as a small float.
 */
enum { SPI_SIZE_MAX = 0x7fff, SPI_REPLY = 0x8000, SPI_GAP_SHIFT = 16 };

/*
 * A gap in 16 bits: that of a float with 11 bits behind the leading one, made from the gap and 2048
 * ns. Exact below 2048 ns, within 1/1024 above; longer than GAP_NS_MAX (8794 s) stands as that.
 * Codes are in the order of the gaps.
 */
#define GAP_NS_MAX ((UINT64_C(4095) << 31) - 2048)

static inline uint32_t gap_encode(uint64_t ns)
{
	ns = ns < GAP_NS_MAX ? ns : GAP_NS_MAX;
	float offset = (float)(int64_t)(ns + 2048);
	uint32_t bits;
	memcpy(&bits, &offset, sizeof(bits));
	return (bits >> 12) - ((127 + 11) << 11);
}

static inline uint64_t gap_decode(uint32_t code)
{
	return ((uint64_t)((code & 2047) | 2048) << (code >> 11)) - 2048;
}

/* stat67 and n3ic20: everything that is counted, as it stood in the packet. */
struct stat_slot {
	uint64_t time_ns;
	uint16_t bytes; /* of the IP packet, at most 65535 */
	uint16_t window;
	uint8_t ttl;
	uint8_t tcp_flags;
	uint8_t kind; /* enum stat_kind */
	uint8_t unused;
};
static_assert(sizeof(struct stat_slot) == 16, "four to a cache line");

enum stat_kind { STAT_REPLY = 1, STAT_TCP = 2 };

static inline uint32_t *spi_slots(struct gpu_offload_flow *flow)
{
	return (uint32_t *)(flow + 1);
}

static inline struct stat_slot *stat_slots(struct gpu_offload_flow *flow)
{
	return (struct stat_slot *)(flow + 1);
}

static inline uint8_t *img_bytes(struct gpu_offload_flow *flow)
{
	return (uint8_t *)(flow + 1);
}

/* Bytes of the IP packet that the key was taken from, by its headers. */
static inline uint32_t ip_bytes(const struct base_packet *packet)
{
	return (uint32_t)packet->payload_offset - packet->l3_offset + packet->payload_len;
}

/* Columns of stat67. */
enum stat_column {
	STAT_DUR,
	STAT_PROTO,
	STAT_S_PORT,
	STAT_D_PORT,
	STAT_S_LOAD,
	STAT_D_LOAD,
	STAT_S_PKT_CNT,
	STAT_D_PKT_CNT,
	STAT_TCP_RTT,
	STAT_SYN_ACK,
	STAT_ACK_DAT,
	STAT_SUMMARIES, /* 4 quantities x 2 directions x 6 */
	STAT_FLAGS = STAT_SUMMARIES + 48,
};
static_assert(STAT_FLAGS + 8 == GPU_OFFLOAD_STAT_INPUTS, "67 columns");

/* Of one quantity in one direction, in this order. */
enum {
	SUMMARY_SUM,
	SUMMARY_MEAN,
	SUMMARY_MIN,
	SUMMARY_MAX,
	SUMMARY_MED,
	SUMMARY_STD,
	SUMMARY_SIZE
};
enum stat_quantity { STAT_BYTES, STAT_IAT, STAT_WINSIZE, STAT_TTL, STAT_QUANTITIES };

static inline uint32_t stat_summary(enum stat_quantity quantity, unsigned int direction)
{
	return STAT_SUMMARIES + ((uint32_t)quantity * 2 + direction) * SUMMARY_SIZE;
}

/* All 67, unrounded. */
void stat_compute(const struct gpu_offload_flow *flow, const struct gpu_offload_identity *identity,
	double out[GPU_OFFLOAD_STAT_INPUTS]);

/* A number as a record holds it: 16 bits behind and with the leading one, so that integers up to
 * 65536 are exact and others are within 1/131072. */
static inline uint32_t float24_encode(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return (bits + 0x80) >> 8;
}

static inline float float24_decode(uint32_t code)
{
	uint32_t bits = code << 8;
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Columns of n3ic20. */
struct n3ic_field {
	const char *name;
	uint8_t bytes;  /* 1, 2 or 3 */
	uint8_t column; /* of stat67 */
	float scale;    /* field = column x scale, cut, at most what its bytes hold */
};
extern const struct n3ic_field n3ic_fields[GPU_OFFLOAD_N3IC_INPUTS];
uint32_t n3ic_quantise(const struct n3ic_field *field, const double stat[GPU_OFFLOAD_STAT_INPUTS]);
