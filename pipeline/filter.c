/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/filter.h"

#include "pipeline/pipeline.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

struct filter {
	bool empty;
	bool usable[BASE_LINKS_COUNT]; /* not every expression fits every link type */
	struct bpf_program programs[BASE_LINKS_COUNT];
};

/* DLT_ numbers equal LINKTYPE_ numbers for all but RAW. */
static int dlt_of(enum base_link link)
{
	return link == BASE_LINK_RAW ? DLT_RAW : (int)traces_link_number(link);
}

static bool compile(
	struct filter *filter, enum base_link link, const char *expression, char *message)
{
	pcap_t *dead = pcap_open_dead(dlt_of(link), 262144);
	if (dead == NULL)
		return false;
	bool done = pcap_compile(dead, &filter->programs[link], expression, 1,
			    PCAP_NETMASK_UNKNOWN) == 0;
	if (!done)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "bypass filter '%.200s': %.200s",
			expression, pcap_geterr(dead));
	pcap_close(dead);
	return done;
}

int filter_create(struct filter **out, const char *expression, char *message)
{
	struct filter *filter = calloc(1, sizeof(*filter));
	if (filter == NULL)
		return -ENOMEM;
	filter->empty = expression == NULL;
	for (int link = 0; link < BASE_LINKS_COUNT && !filter->empty; link++)
		filter->usable[link] = compile(filter, (enum base_link)link, expression, message);
	if (!filter->empty && !filter->usable[BASE_LINK_ETHERNET] &&
		!filter->usable[BASE_LINK_RAW]) {
		filter_destroy(filter);
		return -EINVAL;
	}
	*out = filter;
	return 0;
}

void filter_destroy(struct filter *filter)
{
	if (filter == NULL)
		return;
	for (int link = 0; link < BASE_LINKS_COUNT; link++) {
		if (filter->usable[link])
			pcap_freecode(&filter->programs[link]);
	}
	free(filter);
}

bool filter_match(const struct filter *filter, const struct base_packet *packet)
{
	if (BASE_LIKELY(filter->empty) || !filter->usable[packet->link])
		return false;
	return bpf_filter(filter->programs[packet->link].bf_insns, packet->data, packet->wire_len,
		       packet->cap_len) != 0;
}
