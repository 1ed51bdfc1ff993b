/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/routes.h"

#include "base/rng.h"
#include "chain/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int routes_grow(struct chain_routes *routes, uint32_t *capacity)
{
	if (routes->count < *capacity)
		return 0;
	uint32_t larger = *capacity == 0 ? 256 : *capacity * 2;
	struct chain_route *list = realloc(routes->list, larger * sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	routes->list = list;
	*capacity = larger;
	return 0;
}

static int parse_route(struct chain_text *text, struct chain_route *route)
{
	uint32_t next_hop = 0;
	if (text->words_count != 2)
		return chain_text_fail(
			text, "%u words, expected \"prefix/length next_hop\"", text->words_count);
	int rc = chain_prefix_parse(text->words[0], &route->prefix);
	if (rc == -ERANGE)
		return chain_text_fail(text, "\"%.50s\" has bits set beyond its length, expected 0",
			text->words[0]);
	if (rc != 0)
		return chain_text_fail(text,
			"\"%.50s\", expected a prefix such as 10.0.0.0/8 or 2001:db8::/32",
			text->words[0]);
	if (!chain_text_number(text->words[1], UINT16_MAX, &next_hop))
		return chain_text_fail(
			text, "next hop \"%.20s\", expected 0 to 65535", text->words[1]);
	route->next_hop = (uint16_t)next_hop;
	return 0;
}

static int read_routes(struct chain_routes *routes, struct chain_text *text)
{
	uint32_t capacity = 0;
	int rc;
	while ((rc = chain_text_next(text)) == 1) {
		struct chain_route route = { 0 };
		rc = parse_route(text, &route);
		if (rc != 0)
			return rc;
		if (routes->count == CHAIN_ROUTES_MAX)
			return chain_text_fail(
				text, "expected at most %d routes", CHAIN_ROUTES_MAX);
		if (routes_grow(routes, &capacity) != 0) {
			chain_text_fail(text, "out of memory");
			return -ENOMEM;
		}
		routes->list[routes->count++] = route;
	}
	return rc;
}

int chain_routes_read(struct chain_routes *routes, FILE *file, const char *path, char *message)
{
	struct chain_routes result = { 0 };
	struct chain_text text = {
		.file = file, .who = "router", .path = path, .message = message
	};
	int rc = read_routes(&result, &text);
	if (rc != 0) {
		chain_routes_free(&result);
		return rc;
	}
	*routes = result;
	return 0;
}

int chain_routes_load(struct chain_routes *routes, const char *path, char *message)
{
	FILE *file = fopen(path, "r");
	if (file == NULL) {
		int rc = -errno;
		snprintf(message, CHAIN_MESSAGE_SIZE, "router: %.150s: %s", path, strerror(-rc));
		return rc;
	}
	int rc = chain_routes_read(routes, file, path, message);
	fclose(file);
	return rc;
}

/* Share of each length per thousand. /17 to /23 spread, as /16 and /24 dominate real tables. */
static uint8_t length4(struct base_rng *rng)
{
	static const struct {
		uint16_t share;
		uint8_t length;
	} mix[] = {
		{ 40, 8 },
		{ 30, 12 },
		{ 220, 16 },
		{ 60, 18 },
		{ 80, 19 },
		{ 120, 20 },
		{ 60, 21 },
		{ 100, 22 },
		{ 60, 23 },
		{ 200, 24 },
		{ 15, 28 },
		{ 15, 32 },
	};
	uint64_t draw = base_rng_below(rng, 1000);
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(mix); i++) {
		if (draw < mix[i].share)
			return mix[i].length;
		draw -= mix[i].share;
	}
	return 24;
}

static uint8_t length6(struct base_rng *rng)
{
	static const uint8_t lengths[16] = { 48, 48, 48, 48, 48, 48, 32, 32, 32, 32, 40, 44, 36, 56,
		64, 128 };
	return lengths[base_rng_below(rng, 16)];
}

static void generate_route(struct chain_route *route, struct base_rng *rng)
{
	struct chain_prefix *prefix = &route->prefix;
	memset(route, 0, sizeof(*route));
	prefix->family = base_rng_below(rng, 8) == 0 ? 6 : 4;
	uint64_t words[2] = { base_rng_u64(rng), base_rng_u64(rng) };
	if (prefix->family == 4) {
		memcpy(prefix->address, words, 4);
		prefix->address[0] = (uint8_t)(1 + base_rng_below(rng, 223)); /* unicast */
		prefix->length = length4(rng);
	} else {
		memcpy(prefix->address, words, 16);
		prefix->address[0] =
			0x20 | (prefix->address[0] & 0x1f); /* global unicast 2000::/3 */
		prefix->length = length6(rng);
	}
	chain_prefix_mask(prefix);
	route->next_hop = (uint16_t)(1 + base_rng_below(rng, 64));
}

int chain_routes_generate(struct chain_routes *routes, uint32_t count, uint64_t seed)
{
	struct base_rng rng;
	if (count > CHAIN_ROUTES_MAX)
		return -EINVAL;
	struct chain_route *list = calloc(count > 0 ? count : 1, sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	base_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < count; i++)
		generate_route(&list[i], &rng);
	routes->list = list;
	routes->count = count;
	return 0;
}

int chain_routes_write(const struct chain_routes *routes, FILE *file)
{
	for (uint32_t i = 0; i < routes->count; i++) {
		char prefix[CHAIN_PREFIX_TEXT_SIZE];
		chain_prefix_format(&routes->list[i].prefix, prefix);
		fprintf(file, "%s %u\n", prefix, routes->list[i].next_hop);
	}
	return fflush(file) != 0 || ferror(file) ? -EIO : 0;
}

void chain_routes_free(struct chain_routes *routes)
{
	free(routes->list);
	*routes = (struct chain_routes){ 0 };
}

int chain_routes_find(const struct chain_routes *routes, uint8_t family, const uint8_t *address)
{
	int best = -ENOENT;
	for (uint32_t i = 0; i < routes->count; i++) {
		const struct chain_prefix *prefix = &routes->list[i].prefix;
		if (prefix->family != family || !chain_prefix_contains(prefix, address))
			continue;
		if (best < 0 || prefix->length >= routes->list[best].prefix.length)
			best = (int)i;
	}
	return best;
}
