/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to traces/: records of a trace as packets for the parser. */
#pragma once

#include "base/parse.h"
#include "traces/traces.h"

/* The parser that transforms use: both directions and all fragments of a connection get one key.
 * Its hash is keyed, so that a capture cannot choose keys that collide. -ENOMEM. */
static inline int traces_parser_create(struct base_parser **out)
{
	struct base_parse_config config;
	base_parse_config_defaults(&config);
	config.hash.kind = BASE_HASH_SIPHASH;
	config.hash.salt[0] = 1;
	config.hash.salt[1] = ~UINT64_C(1);
	return base_parser_create(out, &config);
}

static inline void traces_packet_from_record(struct base_packet *packet,
	const struct traces_record *record, const uint8_t *bytes, uint64_t seq)
{
	base_packet_reset(packet);
	/* The parser only reads; the field is not const because chain functions write frames. */
	packet->data = (uint8_t *)(uintptr_t)(bytes + record->offset);
	packet->time_ns = record->time_ns;
	packet->seq = seq;
	packet->wire_len = record->wire_len;
	packet->cap_len = record->cap_len;
	packet->link = record->link;
	packet->interface = record->interface;
}
