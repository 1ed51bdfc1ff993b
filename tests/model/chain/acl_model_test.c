/* SPDX-License-Identifier: BSD-2-Clause */
/* Random overlapping rules, random tuples among them: the classifiers, vector and scalar, name the
 * rule that a linear scan finds first. */
#include "chain/acl.h"
#include "chain/chain.h"
#include "base/packet.h"
#include "base/rng.h"
#include "tests/support/eal.h"
#include "tests/unit/chain/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_COUNT = 12, TUPLES_COUNT = 3000, RULES_MAX = 160, BATCH_MAX = 70 };

static uint16_t random_port(struct base_rng *rng)
{
	static const uint16_t ports[8] = { 0, 1, 255, 256, 1023, 1024, 65534, 65535 };
	return base_rng_below(rng, 4) ? ports[base_rng_below(rng, 8)]
				      : (uint16_t)base_rng_below(rng, UINT16_MAX + 1);
}

static void random_ports(uint16_t ports[2], struct base_rng *rng)
{
	ports[0] = 0;
	ports[1] = UINT16_MAX;
	if (base_rng_below(rng, 2))
		return;
	ports[0] = random_port(rng);
	ports[1] = base_rng_below(rng, 2) ? ports[0] : random_port(rng);
	if (ports[0] > ports[1]) {
		uint16_t swap = ports[0];
		ports[0] = ports[1];
		ports[1] = swap;
	}
}

static uint8_t random_protocol(struct base_rng *rng)
{
	static const uint8_t protocols[4] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP, 0, 255 };
	return protocols[base_rng_below(rng, 4)];
}

/* Few distinct bytes, so that prefixes nest. */
static void random_address(uint8_t *address, uint8_t family, struct base_rng *rng)
{
	static const uint8_t bytes[4] = { 0, 1, 128, 255 };
	unsigned int size = family == 4 ? 4 : 16;
	memset(address, 0, 16);
	for (unsigned int i = 0; i < size; i++)
		address[i] = bytes[base_rng_below(rng, 4)];
}

static void random_prefix(struct chain_prefix *prefix, uint8_t family, struct base_rng *rng)
{
	memset(prefix, 0, sizeof(*prefix));
	if (base_rng_below(rng, 3) == 0)
		return; /* any */
	prefix->family = family;
	random_address(prefix->address, family, rng);
	uint64_t bits = base_rng_below(rng, family == 4 ? 33 : 129);
	prefix->length = (uint8_t)base_rng_below(rng, bits + 1);
	chain_prefix_mask(prefix);
}

static void random_rules(struct chain_rules *rules, struct base_rng *rng)
{
	rules->count = (uint32_t)(1 + base_rng_below(rng, RULES_MAX));
	rules->list = calloc(rules->count, sizeof(*rules->list));
	assert_non_null(rules->list);
	for (uint32_t i = 0; i < rules->count; i++) {
		struct chain_rule *rule = &rules->list[i];
		uint8_t family = base_rng_below(rng, 2) ? 4 : 6;
		random_prefix(&rule->source, family, rng);
		random_prefix(&rule->destination, family, rng);
		random_ports(rule->source_ports, rng);
		random_ports(rule->destination_ports, rng);
		rule->protocol_any = base_rng_below(rng, 2);
		rule->protocol = rule->protocol_any ? 0 : random_protocol(rng);
		rule->allow = base_rng_below(rng, 2);
	}
}

/* A tuple that agrees with some rule in part. */
static void random_tuple(
	struct chain_tuple *tuple, const struct chain_rules *rules, struct base_rng *rng)
{
	const struct chain_rule *rule = &rules->list[base_rng_below(rng, rules->count)];
	memset(tuple, 0, sizeof(*tuple));
	tuple->family = base_rng_below(rng, 2) ? 4 : 6;
	random_address(tuple->source, tuple->family, rng);
	random_address(tuple->destination, tuple->family, rng);
	if (rule->source.family == tuple->family)
		memcpy(tuple->source, rule->source.address, rule->source.length / 8);
	if (rule->destination.family == tuple->family)
		memcpy(tuple->destination, rule->destination.address, rule->destination.length / 8);
	tuple->source_port = base_rng_below(rng, 2) ? rule->source_ports[base_rng_below(rng, 2)]
						    : random_port(rng);
	tuple->destination_port = base_rng_below(rng, 2)
					  ? rule->destination_ports[base_rng_below(rng, 2)]
					  : random_port(rng);
	tuple->protocol = base_rng_below(rng, 2) ? rule->protocol : random_protocol(rng);
}

union key {
	struct chain_acl_key4 key4;
	struct chain_acl_key6 key6;
};

static void make_key(union key *key, const struct chain_tuple *tuple)
{
	memset(key, 0, sizeof(*key));
	if (tuple->family == 4) {
		key->key4.protocol = tuple->protocol;
		memcpy(key->key4.source, tuple->source, 4);
		memcpy(key->key4.destination, tuple->destination, 4);
		key->key4.source_port = __builtin_bswap16(tuple->source_port);
		key->key4.destination_port = __builtin_bswap16(tuple->destination_port);
	} else {
		key->key6.protocol = tuple->protocol;
		memcpy(key->key6.source, tuple->source, 16);
		memcpy(key->key6.destination, tuple->destination, 16);
		key->key6.source_port = __builtin_bswap16(tuple->source_port);
		key->key6.destination_port = __builtin_bswap16(tuple->destination_port);
	}
}

static unsigned int check_batch(const struct chain_acl *acl, const struct chain_rules *rules,
	uint8_t family, unsigned int count, uint64_t seed, struct base_rng *rng)
{
	struct chain_tuple tuples[BATCH_MAX];
	union key keys[BATCH_MAX];
	const uint8_t *pointers[BATCH_MAX];
	uint32_t vector[BATCH_MAX], scalar[BATCH_MAX];
	unsigned int matched = 0;
	for (unsigned int i = 0; i < count; i++) {
		do {
			random_tuple(&tuples[i], rules, rng);
		} while (tuples[i].family != family);
		make_key(&keys[i], &tuples[i]);
		pointers[i] = (const uint8_t *)&keys[i];
	}
	chain_acl_classify(acl, family, pointers, vector, count, false);
	chain_acl_classify(acl, family, pointers, scalar, count, true);
	for (unsigned int i = 0; i < count; i++) {
		int expected = chain_rules_find(rules, &tuples[i]);
		uint32_t result = expected < 0 ? 0 : (uint32_t)expected + 1;
		matched += expected >= 0;
		if (vector[i] != result || scalar[i] != result)
			fail_msg("seed %llu: rule %u (vector), %u (scalar), expected %u",
				(unsigned long long)seed, vector[i], scalar[i], result);
	}
	return matched;
}

static unsigned int run_round(uint64_t seed)
{
	struct base_rng rng;
	struct chain_rules rules;
	struct chain_acl *acl;
	char message[CHAIN_MESSAGE_SIZE];
	unsigned int matched = 0;
	base_rng_seed(&rng, seed);
	random_rules(&rules, &rng);
	if (chain_acl_create(&acl, &rules, "model", message) != 0)
		fail_msg("seed %llu: %s", (unsigned long long)seed, message);
	for (unsigned int done = 0; done < TUPLES_COUNT;) {
		unsigned int count = (unsigned int)(1 + base_rng_below(&rng, BATCH_MAX));
		uint8_t family = base_rng_below(&rng, 2) ? 4 : 6;
		matched += check_batch(acl, &rules, family, count, seed, &rng);
		done += count;
	}
	chain_acl_destroy(acl);
	chain_rules_free(&rules);
	return matched;
}

static void classifiers_find_the_first_matching_rule(void **state)
{
	const char *text = getenv("SHEAF_TEST_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1;
	unsigned int matched = 0;
	(void)state;
	for (uint64_t round = 0; round < ROUNDS_COUNT; round++)
		matched += run_round(seed + round);
	assert_in_range(matched, TUPLES_COUNT, ROUNDS_COUNT * (TUPLES_COUNT + BATCH_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classifiers_find_the_first_matching_rule),
	};
	support_eal_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
