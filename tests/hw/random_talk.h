/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversations by chance, for who has another tracker to ask: scripts
 * (tests/support/conn_script.h) that say nothing. */
#pragma once

#include "base/rng.h"

#include <stddef.h>

enum { RANDOM_TALK_MAX = 4096 };

/* A connection opens, with or without scaled windows and SACK, its SYN repeated, renewed or, at
 * times, answered wrongly; then both sides send data, ACKs and RSTs whose numbers are right, off
 * or far away. No SYN and no FIN inside the connection: there both trackers differ for reasons
 * that docs/conntrack-semantics.md gives. text: RANDOM_TALK_MAX bytes. */
void random_talk(struct base_rng *rng, char *text);
