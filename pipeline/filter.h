/* SPDX-License-Identifier: BSD-2-Clause */
/* The operator's bypass filter: libpcap's language, compiled once per link type. */
#pragma once

#include "base/packet.h"

struct filter;

/* expression NULL gives a filter that matches nothing. -EINVAL with message
 * (PIPELINE_MESSAGE_SIZE), -ENOMEM. */
int filter_create(struct filter **out, const char *expression, char *message);
void filter_destroy(struct filter *filter);
bool filter_match(const struct filter *filter, const struct base_packet *packet);
