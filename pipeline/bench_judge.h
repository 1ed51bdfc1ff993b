/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to bench_lb*.c: the judge of per-connection consistency. Remembers the backend of every
 * connection, for ever; a SYN with another sequence number begins a new one. Slow and obvious: it
 * trusts nothing that a balancer or a tracker says.
 */
#pragma once

#include "base/packet.h"

#include <stdbool.h>

struct bench_judge;

struct bench_verdict {
	uint64_t connections, moved_packets, broken_connections, orphaned_connections;
};

int bench_judge_create(struct bench_judge **out); /* -ENOMEM */
void bench_judge_destroy(struct bench_judge *judge);
/* A packet went to `backend`; gone: the one its connection had before has been removed by now (the
 * caller asks bench_judge_backend first). -ENOMEM. */
int bench_judge_see(
	struct bench_judge *judge, const struct base_packet *packet, uint32_t backend, bool gone);
/* The backend of the packet's connection so far; UINT32_MAX: none. */
uint32_t bench_judge_backend(const struct bench_judge *judge, const struct base_packet *packet);
/* Whether the packet belongs to a connection that was seen. */
bool bench_judge_knows(const struct bench_judge *judge, const struct base_packet *packet);
struct bench_verdict bench_judge_verdict(const struct bench_judge *judge);
