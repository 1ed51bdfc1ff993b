/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/rules.h"

#include "base/packet.h"
#include "base/rng.h"
#include "chain/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	uint8_t number;
} protocols[] = {
	{ "tcp", BASE_PROTOCOL_TCP },
	{ "udp", BASE_PROTOCOL_UDP },
	{ "sctp", BASE_PROTOCOL_SCTP },
	{ "icmp", BASE_PROTOCOL_ICMP },
	{ "icmp6", BASE_PROTOCOL_ICMP6 },
};

static bool parse_protocol(const char *word, struct chain_rule *rule)
{
	uint32_t number;
	if (strcmp(word, "any") == 0) {
		rule->protocol_any = true;
		return true;
	}
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
		if (strcmp(word, protocols[i].name) == 0) {
			rule->protocol = protocols[i].number;
			return true;
		}
	}
	if (!chain_text_number(word, UINT8_MAX, &number))
		return false;
	rule->protocol = (uint8_t)number;
	return true;
}

static bool parse_ports(char *word, uint16_t ports[2])
{
	uint32_t first, last;
	if (strcmp(word, "any") == 0) {
		ports[0] = 0;
		ports[1] = UINT16_MAX;
		return true;
	}
	char *dash = strchr(word, '-');
	if (dash != NULL)
		*dash = '\0';
	bool good = chain_text_number(word, UINT16_MAX, &first);
	last = first;
	if (good && dash != NULL)
		good = chain_text_number(dash + 1, UINT16_MAX, &last);
	if (dash != NULL)
		*dash = '-'; /* a message shows the whole word */
	if (!good || first > last)
		return false;
	ports[0] = (uint16_t)first;
	ports[1] = (uint16_t)last;
	return true;
}

static int parse_prefix(struct chain_text *text, const char *word, struct chain_prefix *prefix)
{
	if (strcmp(word, "any") == 0)
		return 0;
	int rc = chain_prefix_parse(word, prefix);
	if (rc == -ERANGE)
		return chain_text_fail(
			text, "\"%.50s\" has bits set beyond its length, expected 0", word);
	if (rc != 0)
		return chain_text_fail(
			text, "\"%.50s\", expected \"any\" or a prefix such as 10.0.0.0/8", word);
	return 0;
}

static int parse_rule(struct chain_text *text, struct chain_rule *rule)
{
	char **words = text->words;
	if (text->words_count != 6)
		return chain_text_fail(text,
			"%u words, expected \"allow|deny protocol source source_ports "
			"destination destination_ports\"",
			text->words_count);
	rule->allow = strcmp(words[0], "allow") == 0;
	if (!rule->allow && strcmp(words[0], "deny") != 0)
		return chain_text_fail(text, "\"%.20s\", expected \"allow\" or \"deny\"", words[0]);
	if (!parse_protocol(words[1], rule))
		return chain_text_fail(text,
			"protocol \"%.20s\", expected any, tcp, udp, sctp, icmp, icmp6 or 0 to 255",
			words[1]);
	int rc = parse_prefix(text, words[2], &rule->source);
	if (rc == 0)
		rc = parse_prefix(text, words[4], &rule->destination);
	if (rc != 0)
		return rc;
	if (rule->source.family != 0 && rule->destination.family != 0 &&
		rule->source.family != rule->destination.family)
		return chain_text_fail(
			text, "\"%.50s\" and \"%.50s\", expected one family", words[2], words[4]);
	if (!parse_ports(words[3], rule->source_ports))
		return chain_text_fail(text,
			"source ports \"%.20s\", expected any, a port or first-last", words[3]);
	if (!parse_ports(words[5], rule->destination_ports))
		return chain_text_fail(text,
			"destination ports \"%.20s\", expected any, a port or first-last",
			words[5]);
	return 0;
}

static int read_rules(struct chain_rules *rules, struct chain_text *text)
{
	uint32_t capacity = 0;
	int rc;
	while ((rc = chain_text_next(text)) == 1) {
		struct chain_rule rule = { 0 };
		rc = parse_rule(text, &rule);
		if (rc != 0)
			return rc;
		if (rules->count == CHAIN_RULES_MAX)
			return chain_text_fail(text, "expected at most %d rules", CHAIN_RULES_MAX);
		if (rules->count == capacity) {
			capacity = capacity == 0 ? 256 : capacity * 2;
			struct chain_rule *list = realloc(rules->list, capacity * sizeof(*list));
			if (list == NULL) {
				chain_text_fail(text, "out of memory");
				return -ENOMEM;
			}
			rules->list = list;
		}
		rules->list[rules->count++] = rule;
	}
	return rc;
}

int chain_rules_read(struct chain_rules *rules, FILE *file, const char *path, char *message)
{
	struct chain_rules result = { 0 };
	struct chain_text text = {
		.file = file, .who = "firewall", .path = path, .message = message
	};
	int rc = read_rules(&result, &text);
	if (rc != 0) {
		chain_rules_free(&result);
		return rc;
	}
	*rules = result;
	return 0;
}

int chain_rules_load(struct chain_rules *rules, const char *path, char *message)
{
	FILE *file = fopen(path, "r");
	if (file == NULL) {
		int rc = -errno;
		snprintf(message, CHAIN_MESSAGE_SIZE, "firewall: %.150s: %s", path, strerror(-rc));
		return rc;
	}
	int rc = chain_rules_read(rules, file, path, message);
	fclose(file);
	return rc;
}

static void generate_prefix(struct chain_prefix *prefix, uint8_t family, struct base_rng *rng)
{
	static const uint8_t lengths4[16] = { 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 28, 24, 24,
		24, 20, 16 };
	static const uint8_t lengths6[16] = { 128, 128, 128, 128, 128, 128, 128, 128, 64, 64, 64,
		64, 56, 48, 48, 40 };
	uint64_t words[2] = { base_rng_u64(rng), base_rng_u64(rng) };
	prefix->family = family;
	if (family == 4) {
		memcpy(prefix->address, words, 4);
		prefix->address[0] = (uint8_t)(1 + base_rng_below(rng, 223)); /* unicast */
		prefix->length = lengths4[base_rng_below(rng, 16)];
	} else {
		memcpy(prefix->address, words, 16);
		prefix->address[0] = 0x20 | (prefix->address[0] & 0x1f); /* 2000::/3 */
		prefix->length = lengths6[base_rng_below(rng, 16)];
	}
	chain_prefix_mask(prefix);
}

static void generate_ports(uint16_t ports[2], struct base_rng *rng)
{
	static const uint16_t services[] = { 22, 25, 53, 80, 110, 123, 143, 443, 445, 993, 1433,
		3306, 3389, 5060, 8080, 8443 };
	uint64_t draw = base_rng_below(rng, 8);
	ports[0] = 0;
	ports[1] = UINT16_MAX;
	if (draw >= 5) {
		ports[0] = services[base_rng_below(rng, BASE_ARRAY_COUNT(services))];
		ports[1] = ports[0];
	} else if (draw == 4) {
		ports[0] = 1024;
	}
}

static void generate_rule(struct chain_rule *rule, struct base_rng *rng)
{
	uint8_t family = base_rng_below(rng, 8) == 0 ? 6 : 4;
	uint64_t protocol = base_rng_below(rng, 4);
	memset(rule, 0, sizeof(*rule));
	rule->allow = base_rng_below(rng, 10) != 0;
	generate_prefix(&rule->source, family, rng);
	if (base_rng_below(rng, 8) == 0)
		generate_prefix(&rule->destination, family, rng);
	rule->source_ports[1] = UINT16_MAX;
	rule->destination_ports[1] = UINT16_MAX;
	rule->protocol_any = protocol == 0;
	if (protocol > 0) {
		rule->protocol = protocol == 3 ? BASE_PROTOCOL_UDP : BASE_PROTOCOL_TCP;
		generate_ports(rule->destination_ports, rng);
	}
}

int chain_rules_generate(struct chain_rules *rules, uint32_t count, uint64_t seed, bool allow_last)
{
	struct base_rng rng;
	if (count > CHAIN_RULES_MAX)
		return -EINVAL;
	struct chain_rule *list = calloc(count > 0 ? count : 1, sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	base_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < count; i++)
		generate_rule(&list[i], &rng);
	if (allow_last && count > 0) {
		list[count - 1] = (struct chain_rule){
			.source_ports = { 0, UINT16_MAX },
			.destination_ports = { 0, UINT16_MAX },
			.protocol_any = true,
			.allow = true,
		};
	}
	rules->list = list;
	rules->count = count;
	return 0;
}

static void write_ports(FILE *file, const uint16_t ports[2])
{
	if (ports[0] == 0 && ports[1] == UINT16_MAX)
		fputs(" any", file);
	else if (ports[0] == ports[1])
		fprintf(file, " %u", ports[0]);
	else
		fprintf(file, " %u-%u", ports[0], ports[1]);
}

int chain_rules_write(const struct chain_rules *rules, FILE *file)
{
	char prefix[CHAIN_PREFIX_TEXT_SIZE];
	for (uint32_t i = 0; i < rules->count; i++) {
		const struct chain_rule *rule = &rules->list[i];
		fputs(rule->allow ? "allow" : "deny", file);
		if (rule->protocol_any)
			fputs(" any", file);
		else
			fprintf(file, " %u", rule->protocol);
		chain_prefix_format(&rule->source, prefix);
		fprintf(file, " %s", prefix);
		write_ports(file, rule->source_ports);
		chain_prefix_format(&rule->destination, prefix);
		fprintf(file, " %s", prefix);
		write_ports(file, rule->destination_ports);
		fputc('\n', file);
	}
	return fflush(file) != 0 || ferror(file) ? -EIO : 0;
}

void chain_rules_free(struct chain_rules *rules)
{
	free(rules->list);
	*rules = (struct chain_rules){ 0 };
}

bool chain_rule_has_family(const struct chain_rule *rule, uint8_t family)
{
	return (rule->source.family == 0 || rule->source.family == family) &&
	       (rule->destination.family == 0 || rule->destination.family == family);
}

bool chain_rule_matches(const struct chain_rule *rule, const struct chain_tuple *tuple)
{
	if (!chain_rule_has_family(rule, tuple->family))
		return false;
	if (!rule->protocol_any && rule->protocol != tuple->protocol)
		return false;
	if (tuple->source_port < rule->source_ports[0] ||
		tuple->source_port > rule->source_ports[1] ||
		tuple->destination_port < rule->destination_ports[0] ||
		tuple->destination_port > rule->destination_ports[1])
		return false;
	return chain_prefix_contains(&rule->source, tuple->source) &&
	       chain_prefix_contains(&rule->destination, tuple->destination);
}

int chain_rules_find(const struct chain_rules *rules, const struct chain_tuple *tuple)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		if (chain_rule_matches(&rules->list[i], tuple))
			return (int)i;
	}
	return -ENOENT;
}
