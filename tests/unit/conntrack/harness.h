/* SPDX-License-Identifier: BSD-2-Clause */
/* A parser and a tracker behind one another: frames in, tracked packets out. */
#pragma once

#include "base/parse.h"
#include "conntrack/conntrack.h"
#include "tests/support/packets.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

enum {
	SYN = BASE_TCP_SYN,
	ACK = BASE_TCP_ACK,
	FIN = BASE_TCP_FIN | BASE_TCP_ACK,
	RST = BASE_TCP_RST,
	SYN_ACK = BASE_TCP_SYN | BASE_TCP_ACK,
	PSH = BASE_TCP_PSH | BASE_TCP_ACK,
};

struct harness {
	struct base_arena *arena;
	struct base_parser *parser;
	struct conntrack *tracker;
	struct conntrack_config config;
	struct base_parse_config parse;
	struct packets_pool pool;
	uint64_t removed;
	uint32_t removed_conn; /* latest */
};

/* Defaults into config and parse; change them, then start. */
void harness_init(struct harness *harness);
void harness_start(struct harness *harness);
void harness_stop(struct harness *harness);

/* A packet of the pool through both, as a burst of one. */
const struct base_packet *harness_process(struct harness *harness, struct base_packet *packet);

/* One frame through both, as a burst of one. The packet is valid until the next call. */
const struct base_packet *harness_frame(struct harness *harness, const uint8_t *frame,
	size_t cap_len, size_t wire_len, uint64_t time_ns);
const struct base_packet *harness_send(
	struct harness *harness, const struct packets_spec *spec, uint64_t time_ns);

/* TCP between 10.1.0.1:port (client) and 10.2.0.2:80. */
const struct base_packet *harness_client(
	struct harness *harness, uint16_t port, uint8_t flags, uint32_t seq, uint64_t time_ns);
const struct base_packet *harness_server(
	struct harness *harness, uint16_t port, uint8_t flags, uint32_t seq, uint64_t time_ns);

struct conntrack_stats harness_stats(const struct harness *harness);
/* NONE when the packet has no connection. */
enum conntrack_state harness_state(const struct harness *harness, const struct base_packet *packet);

/* Structures are sound and the books balance; fails the test otherwise. */
void harness_check(const struct harness *harness);
