/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the oracle's books (oracle.c) and its judgement of packets (oracle_packet.c). */
#pragma once

#include "conntrack/oracle.h"

/* FIN from both sides or RST: a SYN may reuse the tuple. */
bool conntrack_oracle_is_closed(enum conntrack_state state);

/* When it is due if nothing more comes; UINT64_MAX: never. */
uint64_t conntrack_oracle_due_ns(
	const struct conntrack_oracle *oracle, const struct conntrack_oracle_conn *conn);

/* A connection of the packet's key, begun by it. */
struct conntrack_oracle_conn *conntrack_oracle_add(
	struct conntrack_oracle *oracle, const struct base_packet *packet);

void conntrack_oracle_erase(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn);

/* oracle_window.c. The packet has a whole TCP header. */

enum conntrack_oracle_fit {
	CONNTRACK_ORACLE_FITS,
	CONNTRACK_ORACLE_FITS_AS_IS, /* an RST that may be forged */
	CONNTRACK_ORACLE_STRAY,
	CONNTRACK_ORACLE_MISFIT,
	CONNTRACK_ORACLE_FORGED /* an RST that is older than what is acknowledged */
};

/* It begins the connection; whole: its header was captured. */
void conntrack_oracle_tcp_begin(struct conntrack_oracle_conn *conn,
	const struct base_packet *packet, bool reply, bool whole);
/* The states take it. broken: it broke a bound. */
enum conntrack_oracle_fit conntrack_oracle_tcp_judge(struct conntrack_oracle_conn *conn,
	const struct base_packet *packet, bool reply, bool liberal, bool *broken);
/* The states ignore it. */
void conntrack_oracle_tcp_ignore(
	struct conntrack_oracle_conn *conn, const struct base_packet *packet, bool reply);
/* Its SYN, of number seq, was ignored and is answered now. */
void conntrack_oracle_tcp_resync(struct conntrack_oracle_conn *conn, uint32_t seq);
/* Refused. True: it closes, and the other side did. */
bool conntrack_oracle_tcp_refused(
	struct conntrack_oracle_conn *conn, const struct base_packet *packet, bool reply);
bool conntrack_oracle_tcp_stuck(const struct conntrack_oracle_conn *conn);

/* After any change of its state or of its last packet. */
void conntrack_oracle_schedule(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn);
