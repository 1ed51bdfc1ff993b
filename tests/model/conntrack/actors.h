/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random traffic that connections could have sent: actors open, talk, fall silent, close in one of
 * several ways, and begin anew with the same or another key. Seeded; packets come in bursts.
 */
#pragma once

#include "base/burst.h"
#include "base/rng.h"

enum { ACTORS_MAX = 1024, ACTORS_PACKETS_MAX = 8192, ACTORS_HEADER_BYTES = 20 };

struct actors_config {
	unsigned int actors;  /* at a time */
	uint64_t step_ns;     /* mean between packets */
	uint64_t pause_ns;    /* now and then, all are silent for up to this */
	uint64_t lag_ns;      /* a packet is up to so much earlier than one before it; 0: never */
	unsigned int flood;   /* percent of packets that are SYNs of nobody */
	unsigned int packets; /* <= ACTORS_PACKETS_MAX */
};

struct actors {
	struct base_packet packets[ACTORS_PACKETS_MAX];
	uint8_t headers[ACTORS_PACKETS_MAX][ACTORS_HEADER_BYTES];
	uint64_t horizon_ns[ACTORS_PACKETS_MAX + 1]; /* no packet from here on is earlier */
};

void actors_fill(struct actors *actors, const struct actors_config *config, struct base_rng *rng);
