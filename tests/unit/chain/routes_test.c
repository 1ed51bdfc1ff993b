/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/routes.h"

#include "chain/chain.h"
#include "tests/unit/chain/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_text(struct chain_routes *routes, const char *text, size_t size, char *message)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, size, "r");
	assert_non_null(file);
	int rc = chain_routes_read(routes, file, "some/file.routes", message);
	fclose(file);
	return rc;
}

static int find(const struct chain_routes *routes, const char *address)
{
	uint8_t bytes[16] = { 0 };
	bool ip6 = strchr(address, ':') != NULL;
	assert_int_equal(inet_pton(ip6 ? AF_INET6 : AF_INET, address, bytes), 1);
	int index = chain_routes_find(routes, ip6 ? 6 : 4, bytes);
	return index < 0 ? index : routes->list[index].next_hop;
}

static void both_families_comments_and_line_ends_are_read(void **state)
{
	static const char text[] = "# a comment\n\n10.0.0.0/8 3\r\n  2001:db8::/32\t65535 # end\n"
				   "192.0.2.7 9";
	char message[CHAIN_MESSAGE_SIZE];
	struct chain_routes routes;
	(void)state;
	assert_int_equal(read_text(&routes, text, sizeof(text) - 1, message), 0);
	assert_int_equal(routes.count, 3);
	assert_int_equal(routes.list[0].prefix.length, 8);
	assert_int_equal(routes.list[1].prefix.family, 6);
	assert_int_equal(routes.list[1].next_hop, 65535);
	assert_int_equal(routes.list[2].prefix.length, 32);
	chain_routes_free(&routes);
}

static void the_longest_prefix_wins_and_later_routes_replace(void **state)
{
	static const char text[] = "0.0.0.0/0 1\n10.1.0.0/16 2\n10.0.0.0/8 3\n10.1.0.0/16 4\n"
				   "2001:db8::/33 5\n2001:db8::/32 6\n";
	char message[CHAIN_MESSAGE_SIZE];
	struct chain_routes routes;
	(void)state;
	assert_int_equal(read_text(&routes, text, sizeof(text) - 1, message), 0);
	assert_int_equal(find(&routes, "11.0.0.1"), 1);
	assert_int_equal(find(&routes, "10.2.0.1"), 3);
	assert_int_equal(find(&routes, "10.1.255.255"), 4);
	assert_int_equal(find(&routes, "2001:db8:7fff::1"), 5);
	assert_int_equal(find(&routes, "2001:db8:8000::1"), 6);
	assert_int_equal(find(&routes, "2001:db9::1"), -ENOENT);
	chain_routes_free(&routes);
}

static void bad_lines_are_refused_with_file_line_and_expectation(void **state)
{
	static const struct {
		const char *text;
		const char *place, *expectation;
	} cases[] = {
		{ "10.0.0.0/8\n", "some/file.routes:1:", "prefix/length next_hop" },
		{ "\n\n10.0.0.0/8 1 2\n", ":3:", "prefix/length next_hop" },
		{ "10.0.0.0/33 1\n", ":1:", "expected a prefix" },
		{ "10.0.0.0/ 1\n", ":1:", "expected a prefix" },
		{ "10.0.0.0/-1 1\n", ":1:", "expected a prefix" },
		{ "10.0.0.0/8x 1\n", ":1:", "expected a prefix" },
		{ "2001:db8::/129 1\n", ":1:", "expected a prefix" },
		{ "10.0.0/8 1\n", ":1:", "expected a prefix" },
		{ "1234567890123456789012345678901234567890123456789012/8 1\n",
			":1:", "expected a prefix" },
		{ "10.0.0.1/8 1\n", ":1:", "bits set beyond" },
		{ "2001:db8::1/64 1\n", ":1:", "bits set beyond" },
		{ "10.0.0.0/8 65536\n", ":1:", "0 to 65535" },
		{ "10.0.0.0/8 99999999999999999999999\n", ":1:", "0 to 65535" },
		{ "10.0.0.0/8 0x1\n", ":1:", "0 to 65535" },
		{ "# fine\n10.0.0.0/8 \x1b[31m\n", ":2:", "0 to 65535" },
		{ "a b c d e f g h i j k l m n o p q\n", ":1:", "words" },
	};
	(void)state;
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		char message[CHAIN_MESSAGE_SIZE] = "";
		struct chain_routes routes = { .count = 77 };
		int rc = read_text(&routes, cases[i].text, strlen(cases[i].text), message);
		assert_int_equal(rc, -EBADMSG);
		assert_int_equal(routes.count, 77); /* written on success only */
		if (strstr(message, "router: ") == NULL ||
			strstr(message, cases[i].place) == NULL ||
			strstr(message, cases[i].expectation) == NULL ||
			strchr(message, '\x1b') != NULL)
			fail_msg("case %u: \"%s\"", i, message);
	}
}

static void nul_bytes_and_endless_lines_are_refused(void **state)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_routes routes;
	char line[2000];
	(void)state;
	assert_int_equal(read_text(&routes, "10.0.0.0/8 1\n\0\n", 15, message), -EBADMSG);
	assert_non_null(strstr(message, ":2: NUL byte"));
	memset(line, 'x', sizeof(line));
	assert_int_equal(read_text(&routes, line, sizeof(line), message), -EBADMSG);
	assert_non_null(strstr(message, "line too long"));
}

static void more_routes_than_the_limit_are_refused(void **state)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_routes routes;
	size_t line = strlen("1.0.0.0/8 1\n");
	size_t size = line * (CHAIN_ROUTES_MAX + 1);
	char *text = malloc(size + 1);
	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i <= CHAIN_ROUTES_MAX; i++)
		memcpy(text + i * line, "1.0.0.0/8 1\n", line);
	assert_int_equal(read_text(&routes, text, size, message), -EBADMSG);
	assert_non_null(strstr(message, "at most"));
	assert_int_equal(read_text(&routes, text, size - line, message), 0);
	assert_int_equal(routes.count, CHAIN_ROUTES_MAX);
	chain_routes_free(&routes);
	free(text);
}

static void a_missing_file_is_named(void **state)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_routes routes;
	(void)state;
	assert_int_equal(chain_routes_load(&routes, "/nonexistent/x.routes", message), -ENOENT);
	assert_non_null(strstr(message, "/nonexistent/x.routes"));
}

static void generated_routes_follow_the_seed_and_the_mix(void **state)
{
	struct chain_routes a, b, c;
	unsigned int ip6 = 0, middle = 0, hosts = 0, ip4 = 0;
	(void)state;
	assert_int_equal(chain_routes_generate(&a, 4000, 7), 0);
	assert_int_equal(chain_routes_generate(&b, 4000, 7), 0);
	assert_int_equal(chain_routes_generate(&c, 4000, 8), 0);
	assert_int_equal(a.count, 4000);
	assert_memory_equal(a.list, b.list, 4000 * sizeof(*a.list));
	assert_memory_not_equal(a.list, c.list, 4000 * sizeof(*a.list));
	for (uint32_t i = 0; i < a.count; i++) {
		const struct chain_prefix *prefix = &a.list[i].prefix;
		struct chain_prefix masked = *prefix;
		chain_prefix_mask(&masked);
		assert_memory_equal(&masked, prefix, sizeof(masked));
		ip6 += prefix->family == 6;
		ip4 += prefix->family == 4;
		middle += prefix->family == 4 && prefix->length >= 16 && prefix->length <= 24;
		hosts += prefix->family == 4 && prefix->length == 32;
	}
	assert_in_range(ip6, 400, 600);
	assert_in_range(middle, ip4 * 8 / 10, ip4);
	assert_in_range(hosts, 1, ip4 / 20);
	chain_routes_free(&a);
	chain_routes_free(&b);
	chain_routes_free(&c);
	assert_int_equal(chain_routes_generate(&a, CHAIN_ROUTES_MAX + 1, 1), -EINVAL);
}

static void written_routes_read_back_the_same(void **state)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_routes routes, again;
	char *text = NULL;
	size_t size = 0;
	(void)state;
	assert_int_equal(chain_routes_generate(&routes, 500, 3), 0);
	FILE *file = open_memstream(&text, &size);
	assert_non_null(file);
	assert_int_equal(chain_routes_write(&routes, file), 0);
	fclose(file);
	assert_int_equal(read_text(&again, text, size, message), 0);
	assert_int_equal(again.count, 500);
	assert_memory_equal(routes.list, again.list, 500 * sizeof(*routes.list));
	chain_routes_free(&routes);
	chain_routes_free(&again);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_families_comments_and_line_ends_are_read),
		cmocka_unit_test(the_longest_prefix_wins_and_later_routes_replace),
		cmocka_unit_test(bad_lines_are_refused_with_file_line_and_expectation),
		cmocka_unit_test(nul_bytes_and_endless_lines_are_refused),
		cmocka_unit_test(more_routes_than_the_limit_are_refused),
		cmocka_unit_test(a_missing_file_is_named),
		cmocka_unit_test(generated_routes_follow_the_seed_and_the_mix),
		cmocka_unit_test(written_routes_read_back_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
