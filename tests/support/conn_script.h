/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scripts of packets between two hosts, and what a connection tracker must say after each. One list
 * serves two judges: tests/unit/conntrack/scripts_test.c runs it through sheaf's tracker, and
 * tests/hw/linux_conntrack_test.c through Linux's.
 *
 * A line of a script is a packet and, behind a colon, what is said after it; behind a bar what
 * Linux says, where it says something else (the script's `differs` gives the reason):
 *
 *	> S 1000              : SS new 120s
 *	< SA 5000 1001 ws 7   : SR 60s
 *	> A 1001 5001 +100    : ES+ 432000s | ES+ 300s
 *	wait 2100ms
 *
 * ">" is sent by the client, "<" by the server. TCP: flags of SAFRPU or "none", sequence number,
 * acknowledgement when there is an A (or after "ack"), then "+N" payload bytes, "win N", "ws N",
 * "sackok", "sack L-R", "bad" (checksum). Others: "udp", "echo", "reply", "unreach N" (an ICMP
 * error that quotes N bytes of the other side's last packet), "unreach-from N" (sent by a router
 * beyond), "gre", "esp", "sctp chunk,chunk..." (init, init_ack, ...). "frag" sends it in two
 * fragments.
 *
 * What is said: the state ("-": no connection; "+": assured), and any of "new" (this packet began
 * it), "invalid", "related", "Ns" (seconds until it expires); or "?" for nothing.
 */
#pragma once

#include "conntrack/conntrack.h"

#include <stdbool.h>
#include <stddef.h>

struct conn_script {
	const char *item; /* of the checklist in docs/conntrack-semantics.md */
	const char *name;
	const char *text;
	const char *differs; /* why Linux says otherwise; NULL: it does not */
	enum conntrack_tcp_windows windows;
	uint8_t family; /* 0: 4 */
	bool no_pickup;
};

/* One after the other; NULL behind the last. */
const struct conn_script *conn_script_at(size_t index);

/* Where they stand: conn_scripts_tcp.c (states), conn_scripts_window.c (sequence numbers),
 * conn_scripts_other.c. */
struct conn_script_list {
	const struct conn_script *scripts;
	size_t count;
};
extern const struct conn_script_list conn_scripts_tcp, conn_scripts_window, conn_scripts_other;

struct conn_saying {
	int state; /* enum conntrack_state; NONE: no connection; -1: nothing is said */
	bool assured, fresh, invalid, related;
	int expires_s; /* -1: not said */
};

enum { CONN_FRAMES_MAX = 2, CONN_FRAME_MAX = 2048 };

struct conn_step {
	const char *line; /* not terminated */
	int line_len;
	uint64_t wait_ns; /* before the next step; then there is no packet */
	bool reply;
	unsigned int frames_count; /* IP packets without a link header */
	uint8_t frame[CONN_FRAMES_MAX][CONN_FRAME_MAX];
	size_t frame_len[CONN_FRAMES_MAX];
	struct conn_saying ours, linux_says;
};

struct conn_reader {
	const struct conn_script *script;
	const char *at;
	uint32_t number; /* the client's address is made of it */
	struct conn_step step;
	uint8_t last[2][CONN_FRAME_MAX]; /* latest packet of each side, for quotes */
	size_t last_len[2];
};

/* number: 1..65000, a client address of the script's own. */
void conn_reader_init(
	struct conn_reader *reader, const struct conn_script *script, uint32_t number);

/* The next step, or NULL at the end. Aborts with the line when it cannot be read. */
const struct conn_step *conn_reader_next(struct conn_reader *reader);

/* "ES+ new 300s" */
void conn_saying_format(const struct conn_saying *saying, char *text, size_t text_size);

/* "10.1.0.7" of the client with this number. */
void conn_client_address(uint32_t number, uint8_t family, char *text, size_t text_size);
