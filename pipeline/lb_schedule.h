/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a load balancer's backends come, drain and go: a YAML list, in order of time.
 *
 *	- at: 250ms          # since the first packet, in capture time
 *	  action: drain      # add, drain or remove
 *	  backend: ip4_0002
 */
#pragma once

#include "chain/chain.h"

/* Read at most CHAIN_LB_CHANGES_MAX changes. 0, or -errno with "<path>: ..." in message
 * (PIPELINE_MESSAGE_SIZE). */
int lb_schedule_read(
	const char *path, struct chain_lb_change *changes, uint32_t *changes_count, char *message);
