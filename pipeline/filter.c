/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/filter.h"

#include "pipeline/pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXPRESSIONS = 2 };

/* One expression and the mark of packets that match. */
struct expression {
	struct traces_filter *matcher; /* NULL: none was given */
	uint16_t flag;
};

struct filter {
	bool empty; /* all of them */
	struct expression expressions[EXPRESSIONS];
};

static int refuse(const char *name, const char *text, const char *reason, char *message)
{
	snprintf(message, PIPELINE_MESSAGE_SIZE, "%s filter '%.200s': %.200s", name, text, reason);
	return -EINVAL;
}

static int expression_build(
	struct expression *expression, const char *name, const char *text, char *message)
{
	char reason[TRACES_MESSAGE_SIZE];
	if (text == NULL)
		return 0;
	int error = traces_filter_create(&expression->matcher, text, reason);
	if (error == -EINVAL)
		return refuse(name, text, reason, message);
	if (error != 0)
		return error;
	/* An expression that fits neither of these was meant for something else. */
	const char *misfit = traces_filter_misfit(expression->matcher, BASE_LINK_RAW);
	if (misfit == NULL || traces_filter_misfit(expression->matcher, BASE_LINK_ETHERNET) == NULL)
		return 0;
	return refuse(name, text, misfit, message);
}

int filter_create(struct filter **out, const char *bypass, const char *bulk, char *message)
{
	struct filter *filter = calloc(1, sizeof(*filter));
	if (filter == NULL)
		return -ENOMEM;
	filter->empty = bypass == NULL && bulk == NULL;
	filter->expressions[0].flag = BASE_PACKET_OPERATOR_BYPASS;
	filter->expressions[1].flag = BASE_PACKET_OPERATOR_BULK;
	int error = expression_build(&filter->expressions[0], "bypass", bypass, message);
	if (error == 0)
		error = expression_build(&filter->expressions[1], "bulk", bulk, message);
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
	for (int i = 0; i < EXPRESSIONS; i++)
		traces_filter_destroy(filter->expressions[i].matcher);
	free(filter);
}

uint16_t filter_flags(const struct filter *filter, const struct base_packet *packet)
{
	uint16_t flags = 0;
	if (BASE_LIKELY(filter->empty))
		return 0;
	for (int i = 0; i < EXPRESSIONS; i++) {
		const struct expression *expression = &filter->expressions[i];
		if (expression->matcher != NULL &&
			traces_filter_match(expression->matcher, packet->link, packet->data,
				packet->cap_len, packet->wire_len))
			flags |= expression->flag;
	}
	return flags;
}
