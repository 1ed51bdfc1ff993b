/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the oracle's books (oracle.c) and its judgement of packets (oracle_packet.c). */
#pragma once

#include "conntrack/oracle.h"

/* FIN from both sides or RST: a SYN may reuse the tuple. */
bool conntrack_oracle_is_closed(enum conntrack_state state);

/* A connection of the packet's key, begun by it. */
struct conntrack_oracle_conn *conntrack_oracle_add(
	struct conntrack_oracle *oracle, const struct base_packet *packet);

void conntrack_oracle_erase(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn);

/* After any change of its state or of its last packet. */
void conntrack_oracle_schedule(struct conntrack_oracle *oracle, struct conntrack_oracle_conn *conn);
