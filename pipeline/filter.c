/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/filter.h"

#include "pipeline/pipeline.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

/* One expression and the mark of packets that match. */
struct expression {
	const char *name;
	uint16_t flag;
	bool usable[BASE_LINKS_COUNT]; /* not every expression fits every link type */
	struct bpf_program programs[BASE_LINKS_COUNT];
};

enum { EXPRESSIONS = 2 };

struct filter {
	bool empty; /* all of them */
	struct expression expressions[EXPRESSIONS];
};

/* DLT_ numbers equal LINKTYPE_ numbers for all but RAW. */
static int dlt_of(enum base_link link)
{
	return link == BASE_LINK_RAW ? DLT_RAW : (int)traces_link_number(link);
}

static bool compile(
	struct expression *expression, enum base_link link, const char *text, char *message)
{
	pcap_t *dead = pcap_open_dead(dlt_of(link), 262144);
	if (dead == NULL)
		return false;
	bool done =
		pcap_compile(dead, &expression->programs[link], text, 1, PCAP_NETMASK_UNKNOWN) == 0;
	if (!done)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s filter '%.200s': %.200s",
			expression->name, text, pcap_geterr(dead));
	pcap_close(dead);
	return done;
}

static int expression_set(struct expression *expression, const char *name, uint16_t flag,
	const char *text, char *message)
{
	expression->name = name;
	expression->flag = flag;
	for (int link = 0; link < BASE_LINKS_COUNT && text != NULL; link++)
		expression->usable[link] = compile(expression, (enum base_link)link, text, message);
	bool usable = expression->usable[BASE_LINK_ETHERNET] || expression->usable[BASE_LINK_RAW];
	return text == NULL || usable ? 0 : -EINVAL;
}

int filter_create(struct filter **out, const char *bypass, const char *bulk, char *message)
{
	struct filter *filter = calloc(1, sizeof(*filter));
	if (filter == NULL)
		return -ENOMEM;
	filter->empty = bypass == NULL && bulk == NULL;
	int error = expression_set(
		&filter->expressions[0], "bypass", BASE_PACKET_OPERATOR_BYPASS, bypass, message);
	if (error == 0)
		error = expression_set(
			&filter->expressions[1], "bulk", BASE_PACKET_OPERATOR_BULK, bulk, message);
	if (error != 0) {
		filter_destroy(filter);
		return error;
	}
	*out = filter;
	return 0;
}

void filter_destroy(struct filter *filter)
{
	if (filter == NULL)
		return;
	for (int i = 0; i < EXPRESSIONS; i++) {
		struct expression *expression = &filter->expressions[i];
		for (int link = 0; link < BASE_LINKS_COUNT; link++) {
			if (expression->usable[link])
				pcap_freecode(&expression->programs[link]);
		}
	}
	free(filter);
}

uint16_t filter_flags(const struct filter *filter, const struct base_packet *packet)
{
	uint16_t flags = 0;
	if (BASE_LIKELY(filter->empty))
		return 0;
	for (int i = 0; i < EXPRESSIONS; i++) {
		const struct expression *expression = &filter->expressions[i];
		if (expression->usable[packet->link] &&
			bpf_filter(expression->programs[packet->link].bf_insns, packet->data,
				packet->wire_len, packet->cap_len) != 0)
			flags |= expression->flag;
	}
	return flags;
}
