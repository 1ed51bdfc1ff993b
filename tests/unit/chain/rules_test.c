/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/rules.h"

#include "base/packet.h"
#include "chain/chain.h"
#include "tests/unit/chain/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_text(struct chain_rules *rules, const char *text, size_t size, char *message)
{
	FILE *file = fmemopen((void *)(uintptr_t)text, size, "r");
	assert_non_null(file);
	int rc = chain_rules_read(rules, file, "some/file.rules", message);
	fclose(file);
	return rc;
}

static struct chain_tuple tuple4(uint8_t protocol, const char *source, uint16_t source_port,
	const char *destination, uint16_t destination_port)
{
	struct chain_tuple tuple = { .protocol = protocol,
		.family = 4,
		.source_port = source_port,
		.destination_port = destination_port };
	assert_int_equal(inet_pton(AF_INET, source, tuple.source), 1);
	assert_int_equal(inet_pton(AF_INET, destination, tuple.destination), 1);
	return tuple;
}

static void the_first_matching_rule_decides(void **state)
{
	static const char text[] = "deny tcp 10.0.0.0/8 any any 22   # no shells\n"
				   "allow tcp 10.0.0.0/8 1024-65535 any any\n"
				   "deny any 10.0.0.0/8 any 192.0.2.0/24 any\n"
				   "deny 17 any any any 5000-5010\n"
				   "allow any 2001:db8::/32 any any any\n";
	char message[CHAIN_MESSAGE_SIZE];
	struct chain_rules rules;
	(void)state;
	assert_int_equal(read_text(&rules, text, sizeof(text) - 1, message), 0);
	assert_int_equal(rules.count, 5);

	struct chain_tuple tuple = tuple4(BASE_PROTOCOL_TCP, "10.1.1.1", 5000, "192.0.2.1", 22);
	assert_int_equal(chain_rules_find(&rules, &tuple), 0);
	tuple.destination_port = 23;
	assert_int_equal(chain_rules_find(&rules, &tuple), 1);
	tuple.source_port = 1023;
	assert_int_equal(chain_rules_find(&rules, &tuple), 2);
	tuple = tuple4(BASE_PROTOCOL_UDP, "10.1.1.1", 1, "192.0.3.1", 5010);
	assert_int_equal(chain_rules_find(&rules, &tuple), 3);
	tuple.destination_port = 5011;
	assert_int_equal(chain_rules_find(&rules, &tuple), -ENOENT);
	tuple.family = 6;
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::5", tuple.source), 1);
	assert_int_equal(chain_rules_find(&rules, &tuple), 4);
	chain_rules_free(&rules);
}

static void bad_lines_are_refused_with_file_line_and_expectation(void **state)
{
	static const struct {
		const char *text;
		const char *place, *expectation;
	} cases[] = {
		{ "allow tcp any any any\n", "some/file.rules:1:", "allow|deny protocol source" },
		{ "#\nallow tcp any any any any any\n", ":2:", "allow|deny protocol source" },
		{ "permit tcp any any any any\n", ":1:", "\"allow\" or \"deny\"" },
		{ "allow tcpp any any any any\n", ":1:", "0 to 255" },
		{ "allow 256 any any any any\n", ":1:", "0 to 255" },
		{ "allow tcp 10.0.0.0/40 any any any\n", ":1:", "a prefix" },
		{ "allow tcp any any 10.0.0.1/8 any\n", ":1:", "bits set beyond" },
		{ "allow tcp 10.0.0.0/8 any 2001:db8::/32 any\n", ":1:", "one family" },
		{ "allow tcp any 65536 any any\n", ":1:", "source ports" },
		{ "allow tcp any any any 2-1\n", ":1:", "destination ports \"2-1\"" },
		{ "allow tcp any 1- any any\n", ":1:", "source ports" },
		{ "allow tcp any -1 any any\n", ":1:", "source ports" },
		{ "allow tcp any 1-2-3 any any\n", ":1:", "source ports" },
	};
	(void)state;
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		char message[CHAIN_MESSAGE_SIZE] = "";
		struct chain_rules rules = { .count = 77 };
		int rc = read_text(&rules, cases[i].text, strlen(cases[i].text), message);
		assert_int_equal(rc, -EBADMSG);
		assert_int_equal(rules.count, 77);
		if (strstr(message, "firewall: ") == NULL ||
			strstr(message, cases[i].place) == NULL ||
			strstr(message, cases[i].expectation) == NULL)
			fail_msg("case %u: \"%s\"", i, message);
	}
}

static void a_missing_file_is_named(void **state)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_rules rules;
	(void)state;
	assert_int_equal(chain_rules_load(&rules, "/nonexistent/x.rules", message), -ENOENT);
	assert_non_null(strstr(message, "/nonexistent/x.rules"));
}

static void generated_rules_follow_the_seed_and_end_with_allow(void **state)
{
	struct chain_rules a, b, c;
	unsigned int denies = 0, ip6 = 0;
	(void)state;
	assert_int_equal(chain_rules_generate(&a, 10000, 7, true), 0);
	assert_int_equal(chain_rules_generate(&b, 10000, 7, true), 0);
	assert_int_equal(chain_rules_generate(&c, 10000, 7, false), 0);
	assert_memory_equal(a.list, b.list, a.count * sizeof(*a.list));
	assert_memory_equal(a.list, c.list, (a.count - 1) * sizeof(*a.list));
	for (uint32_t i = 0; i < a.count; i++) {
		denies += !a.list[i].allow;
		ip6 += a.list[i].source.family == 6;
	}
	assert_in_range(denies, 800, 1200);
	assert_in_range(ip6, 1000, 1500);
	const struct chain_rule *last = &a.list[a.count - 1];
	assert_true(last->allow && last->protocol_any && last->source.family == 0);
	assert_int_equal(c.list[c.count - 1].source.family == 0, 0);

	/* Traffic that the rules do not mean gets through. */
	unsigned int passed = 0;
	for (unsigned int i = 0; i < 200; i++) {
		struct chain_tuple tuple =
			tuple4(BASE_PROTOCOL_TCP, "10.1.1.1", (uint16_t)(1024 + i), "10.2.2.2", 80);
		tuple.source[2] = (uint8_t)i;
		int rule = chain_rules_find(&a, &tuple);
		assert_true(rule >= 0);
		passed += a.list[rule].allow;
	}
	assert_in_range(passed, 190, 200);
	chain_rules_free(&a);
	chain_rules_free(&b);
	chain_rules_free(&c);
	assert_int_equal(chain_rules_generate(&a, CHAIN_RULES_MAX + 1, 1, true), -EINVAL);
}

static void written_rules_read_back_the_same(void **state)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_rules rules, again;
	char *text = NULL;
	size_t size = 0;
	(void)state;
	assert_int_equal(chain_rules_generate(&rules, 1000, 3, true), 0);
	FILE *file = open_memstream(&text, &size);
	assert_non_null(file);
	assert_int_equal(chain_rules_write(&rules, file), 0);
	fclose(file);
	assert_int_equal(read_text(&again, text, size, message), 0);
	assert_int_equal(again.count, 1000);
	assert_memory_equal(rules.list, again.list, 1000 * sizeof(*rules.list));
	chain_rules_free(&rules);
	chain_rules_free(&again);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_matching_rule_decides),
		cmocka_unit_test(bad_lines_are_refused_with_file_line_and_expectation),
		cmocka_unit_test(a_missing_file_is_named),
		cmocka_unit_test(generated_rules_follow_the_seed_and_end_with_allow),
		cmocka_unit_test(written_rules_read_back_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
