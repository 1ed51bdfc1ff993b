/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to the stage: writing a DSCP into a packet. Pure. */
#pragma once

#include "base/burst.h"

#include <stdbool.h>

/* The new value of the DSCP (RFC 2474), 0 .. 63; the two bits of ECN stay (RFC 3168), and IPv4's
 * checksum is kept right (RFC 1624). False, and nothing is written, when there is no IP header, or
 * one of IPv6 inside a tunnel, which a checksum of the tunnel's may cover. */
bool gpu_offload_mark(struct base_packet *packet, uint32_t dscp);
