/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SCTP association states (RFC 9260) as one table over chunk types, and a pure function that walks
 * the chunks of a packet. The states and what leads to them are Linux's; verification tags are not
 * compared (they would need eight bytes per connection), only that an INIT has none and every other
 * chunk has one (RFC 9260 8.5.1). An association of several addresses is several connections.
 *
 * Cost: one table look-up per chunk. Threads: pure.
 */
#pragma once

#include "conntrack/conntrack.h"

#include <stddef.h>

enum {
	CONNTRACK_SCTP_HEADER = 12,
	CONNTRACK_SCTP_CHUNKS_MAX = 32, /* of a packet that are looked at */
};

struct conntrack_sctp_step {
	uint8_t state;    /* enum conntrack_state; unchanged where invalid */
	bool invalid;     /* does not belong here, or chunks that nobody sends together */
	bool from_server; /* begins a connection, and its sender is not who opened it */
};

struct conntrack_sctp_input {
	enum conntrack_state state; /* NONE or an SCTP state; with NONE reply is false */
	bool reply;
	bool pickup;          /* may begin with what is not an INIT */
	const uint8_t *bytes; /* from the common header on */
	size_t size;          /* captured; the header at least */
};

struct conntrack_sctp_step conntrack_sctp_step(const struct conntrack_sctp_input *input);
