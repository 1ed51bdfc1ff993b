/* SPDX-License-Identifier: BSD-2-Clause */
/* Random packets as the tracker meets them behind the parser: a key, an IP and a transport header.
 * Keys and numbers are few, so that packets meet one another's connections. */
#pragma once

#include "base/packet.h"
#include "base/rng.h"

enum { RANDOM_HEADER_SIZE = 80 }; /* room for IPv6 and a TCP header with options */

/* One of `flows` keys of all protocols. */
void random_key(struct base_rng *rng, struct base_flow_key *key, unsigned int flows);

/* Fills header and what the packet says of it; its key and flags are there. The IP header holds
 * what is read of it: an ICMP error's destination, mostly the right one. windows: TCP's numbers,
 * lengths and options are worth a look; else few numbers do. */
void random_headers(
	struct base_rng *rng, struct base_packet *packet, uint8_t *header, bool windows);
