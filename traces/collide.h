/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: UDP flows over IPv4 that fall into one bucket of a hash table.
 *
 * Under BASE_HASH_CRC32C all get one hash, found by linear algebra, and so one bucket of every
 * table under every salt. Under BASE_HASH_SIPHASH flows are tried until enough of them fall into
 * one bucket, which takes as many tries per flow as the table has buckets.
 */
#pragma once

#include "base/rng.h"
#include "traces/traces.h"

struct traces_collision {
	uint32_t client, server;
	uint16_t client_port, server_port;
};

/* All different; -ERANGE when not enough were found, -EINTR when options->stop was set. */
int traces_collisions_find(struct traces_collision *collisions, uint32_t count,
	const struct traces_attack_options *options, struct base_rng *rng);
