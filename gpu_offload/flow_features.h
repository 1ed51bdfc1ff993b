/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a model sees of a flow: numbers made from its first packets, both directions together.
 *
 *	spi30    size, direction and gap of the first 30 packets: 90 inputs
 *	stat67   the 67 statistics that CATO chooses from (Wan et al., NSDI 2025)
 *	n3ic20   20 of UNSW-NB15's features as integers of 8, 16 and 24 bits, after N3IC (Siracusano
 *	         et al., NSDI 2022)
 *	img1600  bytes of the first 5 packets as a picture of 40 x 40, after YaTC (Zhao et al.,
 *	         AAAI 2023)
 *
 * docs/inference.md gives each formula. `depth` packets of a flow are looked at, and what is taken
 * of a packet is stored as it is, in memory beside the connection's entry, whose size depends on
 * depth alone. Statistics are made from that when a row is asked for: medians are exact, sums carry
 * no rounding from packet to packet, and a packet costs a few stores.
 *
 * Not taken: ICMP errors about the flow (they are not its packets).
 *
 * Threads: a flow belongs to its tracker's owner; all else is pure.
 * Memory: gpu_offload_flow_bytes() per connection, zeroed when the connection begins.
 * Cost: instructions per packet stand in bench/callgrind_budgets.txt. Packets of one flow in a row
 * (a segment of a run) are taken by one call, which touches the flow's memory once.
 */
#pragma once

#include "base/burst.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_offload_features {
	GPU_OFFLOAD_SPI30,
	GPU_OFFLOAD_STAT67,
	GPU_OFFLOAD_N3IC20,
	GPU_OFFLOAD_IMG1600,
	GPU_OFFLOAD_FEATURES_COUNT
};

enum {
	GPU_OFFLOAD_SPI_PACKETS = 30,
	GPU_OFFLOAD_SPI_INPUTS = 3 * GPU_OFFLOAD_SPI_PACKETS,
	GPU_OFFLOAD_STAT_INPUTS = 67,
	GPU_OFFLOAD_N3IC_INPUTS = 20,
	GPU_OFFLOAD_IMG_PACKETS = 5,
	GPU_OFFLOAD_IMG_HEADER_BYTES = 80,
	GPU_OFFLOAD_IMG_PACKET_BYTES = 320, /* header bytes and 240 of payload */
	GPU_OFFLOAD_IMG_INPUTS = 1600,
	GPU_OFFLOAD_DEPTH_MAX = 64, /* of any features; each has its own limit */
	GPU_OFFLOAD_COLUMN_SIZE = 24,
};

/* What stands beside a connection: this head, then what the features keep of each packet. The
 * fields behind `packets` are the stage's (gpu_offload/stage.h). */
struct gpu_offload_flow {
	uint64_t first_ns, last_ns; /* of packets taken */
	uint8_t packets;            /* taken, at most depth */
	uint8_t phase;
	uint16_t label;
	uint16_t action;
	uint8_t owner; /* number of the stage that took its latest packet */
	bool ended;    /* its connection is over: what is left of it in this burst is not held */
	uint32_t held_first, held_last;
};
static_assert(sizeof(struct gpu_offload_flow) == 32, "half a cache line");

/* Who the flow is. */
struct gpu_offload_identity {
	struct base_flow_key key;
	bool opener_is_1; /* endpoint 1 of the key sent the first packet */
};

/* "spi30" -> GPU_OFFLOAD_SPI30; -ENOENT. */
int gpu_offload_features_from_name(const char *name, enum gpu_offload_features *features);
const char *gpu_offload_features_name(enum gpu_offload_features features); /* "?" for others */

/* Numbers in a row. */
uint32_t gpu_offload_features_inputs(enum gpu_offload_features features);
/* Packets that can be looked at, and that are unless told otherwise. */
uint32_t gpu_offload_features_depth_max(enum gpu_offload_features features);
uint32_t gpu_offload_features_depth_default(enum gpu_offload_features features);
/* The name of an input: "size_0", "s_bytes_mean", ... text has GPU_OFFLOAD_COLUMN_SIZE bytes. */
void gpu_offload_column_name(
	enum gpu_offload_features features, uint32_t index, char text[GPU_OFFLOAD_COLUMN_SIZE]);

/* Bytes per connection, a multiple of 8. */
uint32_t gpu_offload_flow_bytes(enum gpu_offload_features features, uint32_t depth);

/* Take packets of one flow, in order, until `depth` have been taken; the rest is not looked at.
 * Returns whether the flow has its depth now. */
bool gpu_offload_flow_take(enum gpu_offload_features features, struct gpu_offload_flow *flow,
	struct base_packet *const *packets, unsigned int count, uint32_t depth);

/* The row of a flow, of whatever has been taken: gpu_offload_features_inputs() numbers. */
void gpu_offload_flow_row(enum gpu_offload_features features, const struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity, float *row);

/* Who sent `packet`'s flow, told by one packet of it that the tracker has seen. */
struct gpu_offload_identity gpu_offload_identity_of(const struct base_packet *packet);
/* Numbers that do not depend on salts, workers or seeds: of the flow and when it began (a tuple
 * that is used again is another flow), and of the opener's address. For telling flows apart and for
 * splitting them, not for tables. */
uint64_t gpu_offload_flow_id(const struct gpu_offload_identity *identity, uint64_t first_ns);
uint32_t gpu_offload_host_id(const struct gpu_offload_identity *identity);
