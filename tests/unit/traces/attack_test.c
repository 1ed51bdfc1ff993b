/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "tests/support/generated.h"

#include <math.h>
#include <stdlib.h>

enum { FLOWS_MAX = 1 << 17 };

static struct traces_packets *open_attack(const struct traces_attack_options *options)
{
	char message[TRACES_MESSAGE_SIZE];
	struct traces_packets *packets = NULL;
	if (traces_packets_attack(&packets, options, message) != 0)
		print_error("%s\n", message);
	assert_non_null(packets);
	return packets;
}

struct seen {
	uint64_t packets, syns, victims;
	uint32_t hash;
	bool one_hash;
	uint64_t first_ns, last_ns, instants, before_ns;
	uint32_t count[FLOWS_MAX];
	uint64_t flow_ns[FLOWS_MAX], gap_low_ns, gap_high_ns;
};

static void visit(void *context, const struct generated_packet *packet)
{
	struct seen *seen = context;
	uint64_t now_ns = packet->record->time_ns;
	static const uint8_t victim[] = { 198, 18, 0, 1 };
	if (seen->packets == 0) {
		seen->first_ns = now_ns;
		seen->gap_low_ns = UINT64_MAX;
		seen->hash = packet->parsed->hash;
		seen->one_hash = true;
	}
	seen->instants += seen->packets == 0 || now_ns != seen->before_ns;
	seen->before_ns = seen->last_ns = now_ns;
	seen->packets++;
	seen->syns += packet->parsed->protocol == BASE_PROTOCOL_TCP &&
		      packet->parsed->tcp_flags == BASE_TCP_SYN;
	seen->victims += memcmp(packet->frame + 30, victim, 4) == 0;
	seen->one_hash &= packet->parsed->hash == seen->hash;
	seen->count[packet->flow]++;
	if (!packet->fresh) {
		uint64_t gap_ns = now_ns - seen->flow_ns[packet->flow];
		seen->gap_low_ns = gap_ns < seen->gap_low_ns ? gap_ns : seen->gap_low_ns;
		seen->gap_high_ns = gap_ns > seen->gap_high_ns ? gap_ns : seen->gap_high_ns;
	}
	seen->flow_ns[packet->flow] = now_ns;
}

/* Returns the flows; every packet must be whole, right and in order. */
static uint64_t look(const struct traces_attack_options *options, struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	struct generated_summary summary =
		generated_walk(open_attack(options), FLOWS_MAX, visit, seen);
	assert_int_equal(summary.malformed, 0);
	assert_int_equal(summary.checksums_bad, 0);
	assert_int_equal(summary.backwards, 0);
	assert_int_equal(summary.packets, seen->packets);
	return summary.flows;
}

static void a_syn_flood_is_nothing_but_syns_to_one_server(void **state)
{
	struct seen *seen = *state;
	struct traces_attack_options options;
	traces_attack_options_defaults(&options, TRACES_ATTACK_SYN_FLOOD);
	options.flows = 100000;
	assert_int_equal(look(&options, seen), 100000);
	assert_int_equal(seen->syns, 100000);
	assert_int_equal(seen->victims, 100000);
	assert_int_equal(seen->last_ns - seen->first_ns, 99999000); /* a million a second */
}

static void one_tick_puts_all_flows_into_one_instant(void **state)
{
	struct seen *seen = *state;
	struct traces_attack_options options;
	traces_attack_options_defaults(&options, TRACES_ATTACK_ONE_TICK);
	options.flows = 5000;
	assert_int_equal(look(&options, seen), 5000);
	assert_int_equal(seen->packets, 15000);
	assert_int_equal(seen->instants, 3);
	assert_true(seen->gap_low_ns == options.period_ns);
	assert_true(seen->gap_high_ns == options.period_ns);
}

static void keep_alives_are_a_period_apart(void **state)
{
	struct seen *seen = *state;
	struct traces_attack_options options;
	traces_attack_options_defaults(&options, TRACES_ATTACK_KEEP_ALIVE);
	options.flows = 3000;
	options.period_ns = 4900000000;
	assert_int_equal(look(&options, seen), 3000);
	assert_int_equal(seen->packets, 30000);
	assert_in_range(seen->gap_low_ns, options.period_ns - 1, options.period_ns + 1);
	assert_in_range(seen->gap_high_ns, options.period_ns - 1, options.period_ns + 1);
	options.duration_ns = 49000000000;
	options.packets = 0;
	look(&options, seen);
	assert_int_equal(seen->packets, 30000);
}

static void ever_new_flows_never_come_back(void **state)
{
	struct seen *seen = *state;
	struct traces_attack_options options;
	traces_attack_options_defaults(&options, TRACES_ATTACK_EVER_NEW);
	assert_int_equal(options.flows, 10 * 65536);
	options.flows = 100000;
	assert_int_equal(look(&options, seen), 100000);
	assert_int_equal(seen->packets, 100000);
	options.packets = 150;
	options.flows = 100;
	assert_int_equal(look(&options, seen), 100);
	assert_int_equal(seen->count[0], 2);
}

/* The walk's parser hashes with SipHash; under CRC32C any salt does. */
struct hashes {
	struct base_hash_config config;
	uint32_t first;
	uint64_t packets, others;
};

static void visit_hash(void *context, const struct generated_packet *packet)
{
	struct hashes *hashes = context;
	uint32_t hash = base_flow_key_hash(&packet->parsed->key, &hashes->config);
	assert_int_equal(hash, base_flow_key_hash_reference(&packet->parsed->key, &hashes->config));
	if (hashes->packets++ == 0)
		hashes->first = hash;
	hashes->others += hash != hashes->first;
}

static void one_bucket_is_one_hash_under_every_salt(void **state)
{
	(void)state;
	struct traces_attack_options options;
	traces_attack_options_defaults(&options, TRACES_ATTACK_ONE_BUCKET);
	options.flows = options.packets = 2000;
	for (uint64_t salt = 0; salt < 3; salt++) {
		struct hashes hashes = { .config = {
						 BASE_HASH_CRC32C, { salt * 0x123456789, 0 } } };
		options.seed = salt + 1;
		struct generated_summary summary =
			generated_walk(open_attack(&options), FLOWS_MAX, visit_hash, &hashes);
		assert_int_equal(summary.flows, 2000);
		assert_int_equal(hashes.others, 0);
	}
}

static uint32_t upper_bits(const void *context, uint32_t hash)
{
	return hash >> (32 - *(const unsigned int *)context);
}

static void visit_bucket(void *context, const struct generated_packet *packet)
{
	struct hashes *hashes = context;
	uint32_t bucket = base_flow_key_hash(&packet->parsed->key, &hashes->config) >> 22;
	if (hashes->packets++ == 0)
		hashes->first = bucket;
	hashes->others += bucket != hashes->first;
}

static void one_bucket_is_found_under_a_keyed_hash_too(void **state)
{
	(void)state;
	struct traces_attack_options options;
	unsigned int bits = 10;
	struct hashes hashes = { .config = { BASE_HASH_SIPHASH, { 11, 12 } } };
	traces_attack_options_defaults(&options, TRACES_ATTACK_ONE_BUCKET);
	options.flows = options.packets = 300;
	options.hash = hashes.config;
	options.bucket_of = upper_bits;
	options.bucket_context = &bits;
	assert_int_equal(
		generated_walk(open_attack(&options), FLOWS_MAX, visit_bucket, &hashes).flows, 300);
	assert_int_equal(hashes.others, 0);
	/* The other salt spreads them. */
	hashes = (struct hashes){ .config = { BASE_HASH_SIPHASH, { 13, 12 } } };
	generated_walk(open_attack(&options), FLOWS_MAX, visit_bucket, &hashes);
	assert_true(hashes.others > 250);
}

static void same_options_make_the_same_bytes(void **state)
{
	(void)state;
	for (int kind = 0; kind < TRACES_ATTACKS_COUNT; kind++) {
		struct traces_attack_options options;
		traces_attack_options_defaults(&options, (enum traces_attack)kind);
		assert_non_null(traces_attack_name((enum traces_attack)kind));
		options.packets = 3000;
		uint64_t first = generated_digest(open_attack(&options));
		assert_true(generated_digest(open_attack(&options)) == first);
		options.seed = 2;
		assert_true(generated_digest(open_attack(&options)) != first);
	}
	assert_null(traces_attack_name(TRACES_ATTACKS_COUNT));
}

static void what_cannot_be_is_refused(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		struct traces_attack_options options;
		struct traces_packets *packets = NULL;
		char message[TRACES_MESSAGE_SIZE];
		traces_attack_options_defaults(&options, TRACES_ATTACK_KEEP_ALIVE);
		if (i == 0)
			options.kind = TRACES_ATTACKS_COUNT;
		else if (i == 1)
			options.flows = 0;
		else if (i == 2)
			options.period_ns = 0;
		else if (i == 3)
			options.frame_bytes = 63;
		else if (i == 4)
			options.start_ns = UINT64_MAX;
		else if (i == 5)
			options.packets_per_s = 0;
		else if (i == 6)
			options.kind = TRACES_ATTACK_ONE_BUCKET, options.flows = 65537;
		else
			options.kind = TRACES_ATTACK_ONE_BUCKET,
			options.hash.kind = BASE_HASH_SIPHASH; /* and no buckets */
		assert_int_equal(traces_packets_attack(&packets, &options, message), -EINVAL);
		assert_null(packets);
		assert_string_not_equal(message, "");
	}
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct seen));
	return *state == NULL;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_syn_flood_is_nothing_but_syns_to_one_server),
		cmocka_unit_test(one_tick_puts_all_flows_into_one_instant),
		cmocka_unit_test(keep_alives_are_a_period_apart),
		cmocka_unit_test(ever_new_flows_never_come_back),
		cmocka_unit_test(one_bucket_is_one_hash_under_every_salt),
		cmocka_unit_test(one_bucket_is_found_under_a_keyed_hash_too),
		cmocka_unit_test(same_options_make_the_same_bytes),
		cmocka_unit_test(what_cannot_be_is_refused),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
