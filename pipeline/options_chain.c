/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of the service chain: functions in order, each with items of its own. */
#include "pipeline/options_private.h"

#include "pipeline/lb_schedule.h"
#include "pipeline/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#define ROUTER(f)   offsetof(struct chain_function_config, router.f)
#define FIREWALL(f) offsetof(struct chain_function_config, firewall.f)
#define NAT(f)      offsetof(struct chain_function_config, nat.f)
#define LB(f)       offsetof(struct chain_function_config, lb.f)

static const struct options_row router_items[] = {
	{ "routes", "N", "generated routes", OPTIONS_KIND_COUNT32, .offset = ROUTER(routes_count),
		.low = 1, .high = 1 << 17 },
	{ "file", "FILE", "routes, one a line", OPTIONS_KIND_TEXT, .offset = ROUTER(routes_file) },
	{ "seed", "N", "of the generator", OPTIONS_KIND_COUNT64, .offset = ROUTER(seed),
		.high = INT64_MAX },
	{ "default-route", "on|off", "somewhere to go for everything", OPTIONS_KIND_SWITCH,
		.offset = ROUTER(default_route) },
};

static const struct options_row firewall_items[] = {
	{ "rules", "N", "generated rules", OPTIONS_KIND_COUNT32, .offset = FIREWALL(rules_count),
		.low = 1, .high = 1 << 20 },
	{ "file", "FILE", "rules, one a line", OPTIONS_KIND_TEXT, .offset = FIREWALL(rules_file) },
	{ "seed", "N", "of the generator", OPTIONS_KIND_COUNT64, .offset = FIREWALL(seed),
		.high = INT64_MAX },
	{ "default-deny", "on|off", "drop what no rule matches", OPTIONS_KIND_SWITCH,
		.offset = FIREWALL(default_deny) },
	{ "per-packet", "on|off", "classify every packet, not every connection",
		OPTIONS_KIND_SWITCH, .offset = FIREWALL(per_packet) },
};

static const struct options_row nat_items[] = {
	{ "address", "ADDRESS", "first public IPv4 address", OPTIONS_KIND_CUSTOM,
		.parse = options_parse_nat_address, .otherwise = "192.0.2.1" },
	{ "addresses", "N", "consecutive public addresses", OPTIONS_KIND_COUNT32,
		.offset = NAT(addresses_count), .low = 1, .high = 256 },
	{ "ports", "FIRST-LAST", "ports to give out", OPTIONS_KIND_CUSTOM,
		.parse = options_parse_nat_ports, .otherwise = "1024-65535" },
};

static const struct options_row lb_items[] = {
	{ "backends", "N", "generated backends", OPTIONS_KIND_CUSTOM,
		.parse = options_parse_backends, .otherwise = "16" },
	{ "backend", "[NAME@]ADDRESS[*WEIGHT]", "a backend; may be repeated", OPTIONS_KIND_CUSTOMS,
		.parse = options_parse_backend },
	{ "table", "N", "entries of the Maglev table, a prime", OPTIONS_KIND_COUNT32,
		.offset = LB(table_size), .low = 2, .high = 1 << 24 },
	{ "policy", "POLICY", "maglev|round-robin|least-connections|jet|stateless",
		OPTIONS_KIND_CHOICE, .offset = LB(policy),
		.choices = "maglev|round-robin|least-connections|jet|stateless" },
	{ "schedule", "FILE", "YAML: when backends come, drain and go", OPTIONS_KIND_CUSTOM,
		.parse = options_parse_lb_schedule },
	{ "seed", "N", "of the generator and the table", OPTIONS_KIND_COUNT64, .offset = LB(seed),
		.high = INT64_MAX },
};

const struct options_row *options_chain_items(enum chain_kind kind, size_t *count)
{
	switch (kind) {
	case CHAIN_ROUTER:
		*count = BASE_ARRAY_COUNT(router_items);
		return router_items;
	case CHAIN_FIREWALL:
		*count = BASE_ARRAY_COUNT(firewall_items);
		return firewall_items;
	case CHAIN_NAT:
		*count = BASE_ARRAY_COUNT(nat_items);
		return nat_items;
	case CHAIN_LB:
		*count = BASE_ARRAY_COUNT(lb_items);
		return lb_items;
	case CHAIN_STATS:
	case CHAIN_KINDS_COUNT:
		break;
	}
	*count = 0;
	return NULL;
}

int options_chain_clear(struct options *options)
{
	options->config.chain.functions_count = 0;
	return 0;
}

static int refuse_kind(const char *name, char *message)
{
	char names[128] = "";
	size_t used = 0;
	for (enum chain_kind kind = 0; kind < CHAIN_KINDS_COUNT; kind++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
			kind == 0 ? "" : ", ", chain_kind_name(kind));
	return options_refuse(message, name, "one of %s", names);
}

int options_chain_add(struct options *options, const char *name, char *message)
{
	struct chain_config *chain = &options->config.chain;
	enum chain_kind kind;
	if (chain_kind_from_name(name, &kind) != 0)
		return refuse_kind(name, message);
	if (chain->functions_count == CHAIN_FUNCTIONS_MAX)
		return options_refuse(message, name, "at most %d functions", CHAIN_FUNCTIONS_MAX);
	chain_function_config_defaults(&chain->functions[chain->functions_count++], kind);
	return 0;
}

/* The function added last; its items. */
static struct chain_function_config *last_function(
	struct options *options, const struct options_row **items, size_t *items_count)
{
	struct chain_config *chain = &options->config.chain;
	BASE_ASSERT(chain->functions_count > 0);
	struct chain_function_config *function = &chain->functions[chain->functions_count - 1];
	*items = options_chain_items(function->kind, items_count);
	return function;
}

int options_chain_set(struct options *options, const char *key, const char *value, char *message)
{
	const struct options_row *items;
	size_t items_count;
	struct chain_function_config *function = last_function(options, &items, &items_count);
	const struct options_row *row = options_rows_find(items, items_count, key);
	if (row == NULL)
		return options_refuse_key(message, key, items, items_count);
	int error = options_value_set(options, row, function, value, message);
	return error ? options_refuse_at(message, error, "%s", key) : 0;
}

int options_chain_add_text(struct options *options, const char *text, char *message)
{
	const struct options_row *items;
	size_t items_count;
	char *rest = options_keep_text(options, text, strlen(text));
	if (rest == NULL)
		return options_refuse_memory(message);
	char *name = options_split(&rest, ":");
	int error = options_chain_add(options, name, message);
	if (error)
		return error;
	struct chain_function_config *function = last_function(options, &items, &items_count);
	for (char *word; (word = options_split(&rest, ":")) != NULL;) {
		error = options_rows_set_word(options, items, items_count, function, word, message);
		if (error)
			return options_refuse_at(message, error, "%s", name);
	}
	return 0;
}

int options_parse_nat_address(
	struct options *options, void *target, const char *text, char *message)
{
	struct chain_nat_config *nat = &((struct chain_function_config *)target)->nat;
	struct in_addr address;
	(void)options;
	if (inet_pton(AF_INET, text, &address) != 1)
		return options_refuse(message, text, "an IPv4 address such as 192.0.2.1");
	nat->address = ntohl(address.s_addr);
	return 0;
}

int options_parse_nat_ports(struct options *options, void *target, const char *text, char *message)
{
	struct chain_nat_config *nat = &((struct chain_function_config *)target)->nat;
	char *rest = options_keep_text(options, text, strlen(text));
	uint64_t first, last;
	if (rest == NULL)
		return options_refuse_memory(message);
	char *low = options_split(&rest, "-");
	if (rest == NULL || units_parse_count(low, &first) != 0 ||
		units_parse_count(rest, &last) != 0 || first < 1 || last < first ||
		last > UINT16_MAX)
		return options_refuse(message, text, "FIRST-LAST within 1..65535");
	nat->port_first = (uint16_t)first;
	nat->port_last = (uint16_t)last;
	return 0;
}

int options_parse_backends(struct options *options, void *target, const char *text, char *message)
{
	struct chain_lb_config *lb = &((struct chain_function_config *)target)->lb;
	uint64_t count;
	(void)options;
	if (units_parse_count(text, &count) != 0 || count < 1 || count > CHAIN_BACKENDS_MAX)
		return options_refuse(message, text, "1..%d", CHAIN_BACKENDS_MAX);
	if (lb->backends != NULL)
		return options_refuse(message, text, "backends or backend, not both");
	lb->backends_count = (uint32_t)count;
	return 0;
}

int options_parse_lb_schedule(
	struct options *options, void *target, const char *text, char *message)
{
	struct chain_lb_config *lb = &((struct chain_function_config *)target)->lb;
	struct chain_lb_change *changes =
		options_keep(options, CHAIN_LB_CHANGES_MAX * sizeof(*changes));
	if (changes == NULL)
		return options_refuse_memory(message);
	lb->changes = changes;
	int error = lb_schedule_read(text, changes, &lb->changes_count, message);
	return error == -ENOMEM ? error : error != 0 ? -EBADMSG : 0;
}

/* "[NAME@]ADDRESS[*WEIGHT]" apart; IPv6 addresses stand in brackets on the command line, where
 * colons part the items, and may do so in a file. */
static bool read_backend(char *text, struct chain_backend *backend)
{
	uint64_t weight = 1;
	char *at = strchr(text, '@');
	char *address = at == NULL ? text : at + 1;
	char *star = strchr(address, '*');
	if (at != NULL)
		*at = '\0';
	if (star != NULL) {
		*star = '\0';
		if (units_parse_count(star + 1, &weight) != 0 || weight < 1 || weight > 65535)
			return false;
	}
	size_t length = strlen(address);
	if (length > 2 && address[0] == '[' && address[length - 1] == ']') {
		address[length - 1] = '\0';
		address++;
	}
	memset(backend, 0, sizeof(*backend));
	backend->weight = (uint32_t)weight;
	if (inet_pton(AF_INET, address, backend->address) == 1)
		backend->family = 4;
	else if (inet_pton(AF_INET6, address, backend->address) == 1)
		backend->family = 6;
	else
		return false;
	const char *name = at == NULL ? address : text;
	if (*name == '\0' || strlen(name) >= sizeof(backend->name))
		return false;
	memcpy(backend->name, name, strlen(name) + 1);
	return true;
}

int options_parse_backend(struct options *options, void *target, const char *text, char *message)
{
	struct chain_lb_config *lb = &((struct chain_function_config *)target)->lb;
	struct chain_backend backend;
	char *copy = options_keep_text(options, text, strlen(text));
	if (copy == NULL)
		return options_refuse_memory(message);
	if (!read_backend(copy, &backend))
		return options_refuse(
			message, text, "[NAME@]ADDRESS[*WEIGHT] such as web1@10.0.0.1*2");
	/* The list of a function has room for all from its first backend on. */
	struct chain_backend *list = (struct chain_backend *)(uintptr_t)lb->backends;
	if (list == NULL) {
		list = options_keep(options, CHAIN_BACKENDS_MAX * sizeof(*list));
		if (list == NULL)
			return options_refuse_memory(message);
		lb->backends = list;
		lb->backends_count = 0;
	}
	if (lb->backends_count == CHAIN_BACKENDS_MAX)
		return options_refuse(message, text, "at most %d backends", CHAIN_BACKENDS_MAX);
	for (uint32_t i = 0; i < lb->backends_count; i++) {
		if (strcmp(list[i].name, backend.name) == 0)
			return options_refuse(message, text, "a name that no other backend has");
	}
	list[lb->backends_count++] = backend;
	return 0;
}
