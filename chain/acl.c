/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/acl.h"

#include "chain/chain.h"

#include <errno.h>
#include <rte_acl.h>
#include <rte_errno.h>
#include <rte_memory.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	FIELDS4_COUNT = 5,
	FIELDS6_COUNT = 11,
	WORDS6_COUNT = 4,
	NAME_SIZE = 32,
};

/* The classifier's nodes; beyond it rte_acl splits the rules into more tries. */
static const size_t trie_bytes_max = (size_t)96 << 20;

struct rule4 {
	struct rte_acl_rule_data data;
	struct rte_acl_field field[FIELDS4_COUNT];
};

struct rule6 {
	struct rte_acl_rule_data data;
	struct rte_acl_field field[FIELDS6_COUNT];
};

struct chain_acl {
	struct rte_acl_ctx *contexts[2]; /* IPv4, IPv6; NULL: no rule of that family */
};

static struct rte_acl_field_def field_def(
	uint8_t type, uint8_t size, unsigned int field, unsigned int input, size_t offset)
{
	return (struct rte_acl_field_def){
		.type = type,
		.size = size,
		.field_index = (uint8_t)field,
		.input_index = (uint8_t)input, /* fields of one input share 4 bytes */
		.offset = (uint32_t)offset,
	};
}

static void define_fields4(struct rte_acl_config *config)
{
	struct rte_acl_field_def *defs = config->defs;
	config->num_fields = FIELDS4_COUNT;
	defs[0] = field_def(RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, 0);
	defs[1] = field_def(
		RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(struct chain_acl_key4, source));
	defs[2] = field_def(
		RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, offsetof(struct chain_acl_key4, destination));
	defs[3] = field_def(
		RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, offsetof(struct chain_acl_key4, source_port));
	defs[4] = field_def(RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3,
		offsetof(struct chain_acl_key4, destination_port));
}

static void define_fields6(struct rte_acl_config *config)
{
	struct rte_acl_field_def *defs = config->defs;
	config->num_fields = FIELDS6_COUNT;
	defs[0] = field_def(RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, 0);
	for (unsigned int i = 0; i < 2 * WORDS6_COUNT; i++) {
		defs[1 + i] = field_def(RTE_ACL_FIELD_TYPE_MASK, 4, 1 + i, 1 + i,
			offsetof(struct chain_acl_key6, source) + 4 * i);
	}
	defs[9] = field_def(
		RTE_ACL_FIELD_TYPE_RANGE, 2, 9, 9, offsetof(struct chain_acl_key6, source_port));
	defs[10] = field_def(RTE_ACL_FIELD_TYPE_RANGE, 2, 10, 9,
		offsetof(struct chain_acl_key6, destination_port));
}

/* `words` fields of 32 bits each for one prefix. */
static void fill_prefix(
	struct rte_acl_field *fields, const struct chain_prefix *prefix, unsigned int words)
{
	unsigned int bits = prefix->length;
	for (unsigned int i = 0; i < words; i++) {
		uint32_t word;
		unsigned int keep = bits > 32 ? 32 : bits;
		memcpy(&word, prefix->address + 4 * (size_t)i, sizeof(word));
		fields[i].value.u32 = __builtin_bswap32(word);
		fields[i].mask_range.u32 = keep;
		bits -= keep;
	}
}

static void fill_fields(
	struct rte_acl_field *fields, const struct chain_rule *rule, unsigned int words)
{
	fields[0].value.u8 = rule->protocol_any ? 0 : rule->protocol;
	fields[0].mask_range.u8 = rule->protocol_any ? 0 : UINT8_MAX;
	fill_prefix(&fields[1], &rule->source, words);
	fill_prefix(&fields[1 + words], &rule->destination, words);
	struct rte_acl_field *ports = &fields[1 + 2 * words];
	ports[0].value.u16 = rule->source_ports[0];
	ports[0].mask_range.u16 = rule->source_ports[1];
	ports[1].value.u16 = rule->destination_ports[0];
	ports[1].mask_range.u16 = rule->destination_ports[1];
}

static int add_rules(struct rte_acl_ctx *context, const struct chain_rules *rules, uint8_t family)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		const struct chain_rule *rule = &rules->list[i];
		if (!chain_rule_has_family(rule, family))
			continue;
		struct rte_acl_rule_data data = {
			.category_mask = 1,
			.priority = (int32_t)(RTE_ACL_MAX_PRIORITY - i), /* first match wins */
			.userdata = i + 1,
		};
		struct rule4 rule4 = { .data = data };
		struct rule6 rule6 = { .data = data };
		int rc;
		if (family == 4) {
			fill_fields(rule4.field, rule, 1);
			rc = rte_acl_add_rules(context, (const struct rte_acl_rule *)&rule4, 1);
		} else {
			fill_fields(rule6.field, rule, WORDS6_COUNT);
			rc = rte_acl_add_rules(context, (const struct rte_acl_rule *)&rule6, 1);
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int build_family(
	struct rte_acl_ctx **out, const struct chain_rules *rules, uint8_t family, const char *name)
{
	uint32_t count = 0;
	char family_name[NAME_SIZE];
	for (uint32_t i = 0; i < rules->count; i++)
		count += chain_rule_has_family(&rules->list[i], family);
	if (count == 0)
		return 0;
	snprintf(family_name, sizeof(family_name), "%.24s_%u", name, family);
	struct rte_acl_param param = {
		.name = family_name,
		.socket_id = SOCKET_ID_ANY,
		.rule_size = family == 4 ? sizeof(struct rule4) : sizeof(struct rule6),
		.max_rule_num = count,
	};
	struct rte_acl_ctx *context = rte_acl_create(&param);
	if (context == NULL)
		return rte_errno > 0 ? -rte_errno : -ENOMEM;
	struct rte_acl_config config = { .num_categories = 1, .max_size = trie_bytes_max };
	if (family == 4)
		define_fields4(&config);
	else
		define_fields6(&config);
	int rc = add_rules(context, rules, family);
	if (rc == 0)
		rc = rte_acl_build(context, &config);
	if (rc != 0) {
		rte_acl_free(context);
		return rc;
	}
	*out = context;
	return 0;
}

int chain_acl_create(
	struct chain_acl **out, const struct chain_rules *rules, const char *name, char *message)
{
	struct chain_acl *acl = calloc(1, sizeof(*acl));
	int rc = acl == NULL ? -ENOMEM : 0;
	for (unsigned int i = 0; rc == 0 && i < 2; i++)
		rc = build_family(&acl->contexts[i], rules, i == 0 ? 4 : 6, name);
	if (rc != 0) {
		snprintf(message, CHAIN_MESSAGE_SIZE,
			"firewall: cannot build the classifier for %u rules: %s "
			"(expected fewer or simpler rules, or more DPDK memory)",
			rules->count, strerror(-rc));
		chain_acl_destroy(acl);
		return rc;
	}
	*out = acl;
	return 0;
}

void chain_acl_destroy(struct chain_acl *acl)
{
	if (acl == NULL)
		return;
	for (unsigned int i = 0; i < 2; i++)
		rte_acl_free(acl->contexts[i]);
	free(acl);
}

void chain_acl_classify(const struct chain_acl *acl, uint8_t family, const uint8_t **keys,
	uint32_t *results, uint32_t count, bool scalar)
{
	const struct rte_acl_ctx *context = acl->contexts[family == 6];
	int rc;
	if (context == NULL) {
		memset(results, 0, count * sizeof(*results));
		return;
	}
	if (scalar)
		rc = rte_acl_classify_alg(
			context, keys, results, count, 1, RTE_ACL_CLASSIFY_SCALAR);
	else
		rc = rte_acl_classify(context, keys, results, count, 1);
	BASE_ASSERT(rc == 0);
}
