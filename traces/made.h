/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to traces/: times for inputs that bring none. Packet i is at start + i / rate, rounded
 * down to nanoseconds. */
#pragma once

#include "traces/traces.h"

enum {
	TRACES_MADE_PACKETS_PER_S = 1000000,
	TRACES_MADE_IP_BYTES = 114, /* with an Ethernet header the 128 bytes of `trace gen` */
};

struct traces_made {
	uint64_t start_ns, packets_per_s;
};

static inline void traces_made_set(
	struct traces_made *made, const struct traces_load_options *options)
{
	made->start_ns = options->made_start_ns;
	made->packets_per_s = options->made_packets_per_s != 0 ? options->made_packets_per_s
							       : TRACES_MADE_PACKETS_PER_S;
}

static inline uint64_t traces_made_time_ns(const struct traces_made *made, uint64_t index)
{
	uint64_t seconds = index / made->packets_per_s, rest = index % made->packets_per_s;
	__extension__ typedef unsigned __int128 wide;
	wide time = (wide)made->start_ns + (wide)seconds * 1000000000u +
		    (wide)rest * 1000000000u / made->packets_per_s;
	return time > TRACES_TIME_NS_MAX ? TRACES_TIME_NS_MAX : (uint64_t)time;
}

/* Do these times need nanoseconds? */
static inline bool traces_made_is_fine(const struct traces_made *made)
{
	return made->start_ns % 1000 != 0 || 1000000 % made->packets_per_s != 0;
}
