/* SPDX-License-Identifier: BSD-2-Clause */
/* The operator's filters: libpcap's language, compiled once per link type. */
#pragma once

#include "base/packet.h"

struct filter;

/* bypass and bulk: expressions, NULL matches nothing. -EINVAL with message
 * (PIPELINE_MESSAGE_SIZE), -ENOMEM. */
int filter_create(struct filter **out, const char *bypass, const char *bulk, char *message);
void filter_destroy(struct filter *filter);
/* BASE_PACKET_OPERATOR marks of a packet that has data, lengths and link. */
uint16_t filter_flags(const struct filter *filter, const struct base_packet *packet);
