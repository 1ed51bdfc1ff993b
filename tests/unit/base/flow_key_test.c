/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/flow_key_private.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct base_flow_key random_key(struct base_rng *rng)
{
	struct base_flow_key key;
	uint64_t words[5];
	for (int i = 0; i < 5; i++)
		words[i] = base_rng_u64(rng);
	memcpy(&key, words, sizeof(key));
	return key;
}

static struct base_flow_key key4(uint32_t a, uint16_t a_port, uint32_t b, uint16_t b_port)
{
	uint8_t source[16] = { 0 }, destination[16] = { 0 };
	struct base_flow_key key = { .protocol = 6, .family = 4 };
	for (int i = 0; i < 4; i++) {
		source[i] = (uint8_t)(a >> (24 - 8 * i));
		destination[i] = (uint8_t)(b >> (24 - 8 * i));
	}
	base_flow_key_order(&key, source, a_port, destination, b_port);
	return key;
}

static void order_is_canonical_and_tells_the_direction(void **)
{
	struct base_rng rng;
	base_rng_seed(&rng, 1);
	for (int i = 0; i < 10000; i++) {
		uint8_t a[16] = { 0 }, b[16] = { 0 };
		/* Few values, so that equal addresses and ports are met. */
		a[15] = (uint8_t)base_rng_below(&rng, 3);
		b[15] = (uint8_t)base_rng_below(&rng, 3);
		uint16_t a_port = (uint16_t)base_rng_below(&rng, 3);
		uint16_t b_port = (uint16_t)base_rng_below(&rng, 3);
		struct base_flow_key there = { 0 }, back = { 0 };
		bool there_reversed = base_flow_key_order(&there, a, a_port, b, b_port);
		bool back_reversed = base_flow_key_order(&back, b, b_port, a, a_port);
		bool self = a[15] == b[15] && a_port == b_port;
		assert_true(base_flow_key_equal(&there, &back));
		assert_int_equal(there_reversed != back_reversed, !self);
		if (self)
			assert_false(there_reversed);
		assert_memory_equal(there.address[there_reversed], a, 16);
		assert_int_equal(there.port[there_reversed], a_port);
		assert_true(memcmp(there.address[0], there.address[1], 16) <= 0);
	}
}

static void equality_sees_every_byte(void **)
{
	struct base_rng rng;
	base_rng_seed(&rng, 2);
	struct base_flow_key key = random_key(&rng);
	for (size_t i = 0; i < sizeof(key); i++) {
		struct base_flow_key other = key;
		((uint8_t *)&other)[i] ^= 1;
		assert_false(base_flow_key_equal(&key, &other));
	}
	struct base_flow_key copy = key;
	assert_true(base_flow_key_equal(&key, &copy));
}

static void crc32c_matches_the_published_check_value(void **)
{
	static const uint8_t digits[] = "123456789";
	assert_int_equal(base_crc32c_bits(~0u, digits, 9) ^ ~0u, 0xe3069283);
}

static void crc32c_instruction_and_table_match_the_bits(void **)
{
	struct base_rng rng;
	base_rng_seed(&rng, 3);
	for (int i = 0; i < 1000; i++) {
		uint64_t word = base_rng_u64(&rng);
		uint32_t crc = (uint32_t)base_rng_u64(&rng);
		uint8_t bytes[8];
		memcpy(bytes, &word, 8);
		uint32_t expected = base_crc32c_bits(crc, bytes, 8);
		assert_int_equal(base_crc32c_u64(crc, word), expected);
		assert_int_equal(base_crc32c_u64_table(crc, word), expected);
	}
}

/* SipHash-2-4 of 00 01 .. 0e under key 00 01 .. 0f, from the paper's appendix. The 1-3 values are
 * those of CPython's bytes hash with its key disabled (all zero). */
static void siphash_matches_independent_vectors(void **)
{
	uint8_t bytes[40];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	const uint64_t key[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
	const uint64_t zero[2] = { 0, 0 };
	assert_true(base_siphash_reference(bytes, 15, key, 2, 4) == UINT64_C(0xa129ca6149be45e5));
	assert_true(base_siphash_reference(bytes, 40, zero, 1, 3) == UINT64_C(0x95bc321ab41d8206));
	assert_true(base_siphash_reference(bytes, 15, zero, 1, 3) == UINT64_C(0xf30eb725bb91c9ea));
}

static void hashes_match_their_references(void **)
{
	struct base_rng rng;
	base_rng_seed(&rng, 4);
	for (int i = 0; i < 2000; i++) {
		struct base_flow_key key = random_key(&rng);
		struct base_hash_config config = { .salt = { base_rng_u64(&rng),
							   base_rng_u64(&rng) } };
		config.kind = BASE_HASH_CRC32C;
		assert_int_equal(base_flow_key_hash(&key, &config),
			base_flow_key_hash_reference(&key, &config));
		config.kind = BASE_HASH_SIPHASH;
		assert_int_equal(base_flow_key_hash(&key, &config),
			base_flow_key_hash_reference(&key, &config));
	}
}

static void every_bit_of_a_key_reaches_the_hash(void **)
{
	struct base_flow_key key = key4(0x0a000001, 1000, 0x0a000002, 80);
	for (int kind = BASE_HASH_CRC32C; kind <= BASE_HASH_SIPHASH; kind++) {
		struct base_hash_config config = { .kind = kind, .salt = { 1, 2 } };
		uint32_t hash = base_flow_key_hash(&key, &config);
		for (size_t bit = 0; bit < 8 * sizeof(key); bit++) {
			struct base_flow_key other = key;
			((uint8_t *)&other)[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_not_equal(base_flow_key_hash(&other, &config), hash);
		}
	}
}

static void salt_changes_the_hash(void **)
{
	struct base_flow_key key = key4(0x0a000001, 1000, 0x0a000002, 80);
	for (int kind = BASE_HASH_CRC32C; kind <= BASE_HASH_SIPHASH; kind++) {
		struct base_hash_config a = { .kind = kind, .salt = { 1, 2 } };
		struct base_hash_config b = { .kind = kind, .salt = { 3, 2 } };
		assert_int_not_equal(base_flow_key_hash(&key, &a), base_flow_key_hash(&key, &b));
	}
}

/* Chi-squared of 128 buckets over keys of a regular address plan: mean 127, deviation 16. */
static double chi_squared(unsigned int shift, enum base_hash_kind kind, int plan)
{
	enum { KEYS = 1 << 16, BUCKETS = 128 };
	static unsigned int counts[BUCKETS];
	struct base_hash_config config = { .kind = kind };
	memset(counts, 0, sizeof(counts));
	for (uint32_t i = 0; i < KEYS; i++) {
		struct base_flow_key key = key4(0x0a000000 + i, 1024, 0xc0a80001, 80);
		if (plan == 1)
			key = key4(
				0x0a000000 + i / 256, (uint16_t)(1024 + i % 256), 0xc0a80001, 80);
		else if (plan == 2)
			key = key4(0x0a000001, 1024, 0xc0000000 + i * 256, 80);
		else if (plan == 3)
			key = key4(0x0a000000 + (i & 255), 1024, 0xc0000000 + (i >> 8), 80);
		counts[base_flow_key_hash(&key, &config) >> shift & (BUCKETS - 1)]++;
	}
	double sum = 0, expected = (double)KEYS / BUCKETS;
	for (int i = 0; i < BUCKETS; i++)
		sum += (counts[i] - expected) * (counts[i] - expected) / expected;
	return sum;
}

/* CRC spreads regular keys more evenly than chance, so only the upper side is a fault: six standard
 * deviations. */
static void low_and_high_bits_spread_regular_keys(void **)
{
	static const unsigned int shifts[] = { 0, 7, 14, 25 };
	for (int kind = BASE_HASH_CRC32C; kind <= BASE_HASH_SIPHASH; kind++) {
		for (int plan = 0; plan < 4; plan++) {
			for (size_t i = 0; i < BASE_ARRAY_COUNT(shifts); i++) {
				double chi = chi_squared(shifts[i], kind, plan);
				if (chi > 127 + 6 * 16)
					print_message("hash %d plan %d shift %u: %.0f\n", kind,
						plan, shifts[i], chi);
				assert_true(chi <= 127 + 6 * 16);
			}
		}
	}
}

static void assert_format(const struct base_flow_key *key, const char *expected)
{
	char text[128];
	int len = base_flow_key_format(key, text, sizeof(text));
	assert_string_equal(text, expected);
	assert_int_equal(len, strlen(expected));
}

static void keys_are_rendered_for_people(void **)
{
	struct base_flow_key key = key4(0x0a000002, 4000, 0x0a000001, 80);
	assert_format(&key, "tcp 10.0.0.1:80 <> 10.0.0.2:4000");
	key.zone = 5;
	assert_format(&key, "tcp 10.0.0.1:80 <> 10.0.0.2:4000 zone 5");
	key.protocol = 50;
	key.zone = 0;
	assert_format(&key, "esp 10.0.0.1 <> 10.0.0.2");
	key.protocol = 99;
	assert_format(&key, "protocol-99 10.0.0.1 <> 10.0.0.2");
	struct base_flow_key six = { .family = 6, .protocol = 17, .port = { 53, 54 } };
	six.address[0][15] = 1;
	six.address[1][15] = 2;
	assert_format(&six, "udp [::1]:53 <> [::2]:54");
	struct base_flow_key none = { 0 };
	assert_format(&none, "no flow");
	char small[8];
	assert_true(base_flow_key_format(&key, small, sizeof(small)) > 8);
	assert_int_equal(small[7], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_canonical_and_tells_the_direction),
		cmocka_unit_test(equality_sees_every_byte),
		cmocka_unit_test(crc32c_matches_the_published_check_value),
		cmocka_unit_test(crc32c_instruction_and_table_match_the_bits),
		cmocka_unit_test(siphash_matches_independent_vectors),
		cmocka_unit_test(hashes_match_their_references),
		cmocka_unit_test(every_bit_of_a_key_reaches_the_hash),
		cmocka_unit_test(salt_changes_the_hash),
		cmocka_unit_test(low_and_high_bits_spread_regular_keys),
		cmocka_unit_test(keys_are_rendered_for_people),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
