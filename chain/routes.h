/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Route lists: what the router's tables are built from. Pure: no EAL.
 *
 * File: one route a line, "prefix/length next_hop", next hop 0..65535; IPv4 and IPv6 mixed; `#`
 * begins a comment. A later route replaces an earlier one for the same prefix.
 *
 *	0.0.0.0/0      0
 *	10.0.0.0/8     3
 *	2001:db8::/32  4
 */
#pragma once

#include "chain/text.h"

enum { CHAIN_ROUTES_MAX = 1 << 17 };

struct chain_route {
	struct chain_prefix prefix;
	uint16_t next_hop;
};

struct chain_routes {
	struct chain_route *list; /* malloc */
	uint32_t count;
};

/* message has CHAIN_MESSAGE_SIZE bytes. -EBADMSG, -EIO, -ENOMEM. */
int chain_routes_read(struct chain_routes *routes, FILE *file, const char *path, char *message);
/* Also -ENOENT and the like from opening. */
int chain_routes_load(struct chain_routes *routes, const char *path, char *message);

/* Prefix lengths as in a provider's table: most of /16 to /24, few /8 and /32; one route in eight
 * is IPv6. Same seed, same list. -EINVAL (count > CHAIN_ROUTES_MAX), -ENOMEM. */
int chain_routes_generate(struct chain_routes *routes, uint32_t count, uint64_t seed);

/* In the file's format. -EIO. */
int chain_routes_write(const struct chain_routes *routes, FILE *file);

void chain_routes_free(struct chain_routes *routes);

/* The plain reference: longest prefix by linear scan. Index into list or -ENOENT. */
int chain_routes_find(const struct chain_routes *routes, uint8_t family, const uint8_t *address);
