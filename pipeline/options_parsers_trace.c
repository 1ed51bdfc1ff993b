/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsers of the trace commands' options: points in time, flows. */
#include "pipeline/options_private.h"

#include "pipeline/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBER_SIZE = 64 };

/* "1.5s" since the first packet, "@1700000000.25" since 1970. */
static int parse_time(struct traces_slice_time *time, const char *text, char *message)
{
	char number[NUMBER_SIZE];
	bool absolute = text[0] == '@';
	uint64_t time_ns;
	int length = snprintf(number, sizeof(number), absolute ? "%ss" : "%s", text + absolute);
	if (length < 0 || (size_t)length >= sizeof(number) ||
		units_parse_time_ns(number, &time_ns) != 0 || time_ns > TRACES_TIME_NS_MAX)
		return options_refuse(message, text,
			"a time such as 1.5s, or @SECONDS since 1970 such as @1700000000.25");
	*time = (struct traces_slice_time){ .given = true, .absolute = absolute, time_ns };
	return 0;
}

int options_parse_slice_from(struct options *options, void *target, const char *text, char *message)
{
	(void)target;
	return parse_time(&options->transform.slice.from, text, message);
}

int options_parse_slice_to(struct options *options, void *target, const char *text, char *message)
{
	(void)target;
	return parse_time(&options->transform.slice.to, text, message);
}

/* "tcp", "47"; -1. */
static int parse_protocol(const char *text)
{
	static const struct {
		const char *name;
		uint8_t number;
	} known[] = {
		{ "tcp", BASE_PROTOCOL_TCP },
		{ "udp", BASE_PROTOCOL_UDP },
		{ "sctp", BASE_PROTOCOL_SCTP },
		{ "icmp", BASE_PROTOCOL_ICMP },
		{ "icmp6", BASE_PROTOCOL_ICMP6 },
	};
	uint64_t number;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(known); i++) {
		if (strcmp(text, known[i].name) == 0)
			return known[i].number;
	}
	return units_parse_count(text, &number) == 0 && number <= UINT8_MAX ? (int)number : -1;
}

struct endpoint {
	uint8_t address[16]; /* as in a flow key */
	uint16_t port;
	uint8_t family;
};

/* "10.0.0.1:80", "[2001:db8::1]:80", either without its port. Cuts text apart. */
static int parse_endpoint(struct endpoint *endpoint, char *text)
{
	uint64_t port = 0;
	char *host = text, *rest = NULL;
	memset(endpoint, 0, sizeof(*endpoint));
	if (text[0] == '[') {
		rest = strchr(text, ']');
		if (rest == NULL)
			return -EINVAL;
		host++;
		*rest++ = '\0';
		if (*rest != ':' && *rest != '\0')
			return -EINVAL;
	} else {
		rest = text + strcspn(text, ":");
	}
	if (*rest == ':') {
		*rest = '\0';
		if (units_parse_count(rest + 1, &port) != 0 || port > UINT16_MAX)
			return -EINVAL;
	}
	bool ip6 = host != text;
	endpoint->port = (uint16_t)port;
	endpoint->family = ip6 ? 6 : 4;
	return inet_pton(ip6 ? AF_INET6 : AF_INET, host, endpoint->address) == 1 ? 0 : -EINVAL;
}

int options_parse_slice_flow(struct options *options, void *target, const char *text, char *message)
{
	struct traces_slice_options *slice = &options->transform.slice;
	struct endpoint ends[2];
	(void)target;
	char *copy = options_keep_text(options, text, strlen(text));
	if (copy == NULL)
		return options_refuse_memory(message);
	char *slash = strrchr(copy, '/');
	char *second = strchr(copy, '-');
	int protocol = slash == NULL ? -1 : parse_protocol(slash + 1);
	if (slash != NULL)
		*slash = '\0';
	if (second != NULL)
		*second++ = '\0';
	if (protocol < 0 || second == NULL || parse_endpoint(&ends[0], copy) != 0 ||
		parse_endpoint(&ends[1], second) != 0 || ends[0].family != ends[1].family)
		return options_refuse(message, text,
			"ADDRESS:PORT-ADDRESS:PORT/PROTOCOL such as "
			"10.0.0.1:4000-10.0.0.2:80/tcp or [::1]:4000-[::2]:53/udp");
	memset(&slice->flow, 0, sizeof(slice->flow));
	base_flow_key_order(
		&slice->flow, ends[0].address, ends[0].port, ends[1].address, ends[1].port);
	slice->flow.protocol = (uint8_t)protocol;
	slice->flow.family = ends[0].family;
	slice->one_flow = true;
	return 0;
}
