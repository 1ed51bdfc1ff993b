/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/cryptopan.h"
#include "tests/unit/traces/test.h"

#include "base/rng.h"

#include <arpa/inet.h>
#include <stdlib.h>

/* The key and pairs that Crypto-PAn was published with, and pairs of its authors' sample trace.
 * anonymize_test.py has an implementation of its own and agrees with them. */
static const uint8_t sample_key[] = { 21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144,
	125, 16, 216, 152, 143, 131, 121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2 };

static const char *const sample_pairs[][2] = {
	{ "128.11.68.132", "135.242.180.132" },
	{ "129.118.74.4", "134.136.186.123" },
	{ "130.132.252.244", "133.68.164.234" },
	{ "141.223.7.43", "141.167.8.160" },
	{ "0.0.0.0", "120.255.240.1" },
	{ "255.255.255.255", "206.120.97.255" },
	{ "2001:db8::1", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e" },
	{ "2001:db8::2", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c" },
	{ "::1", "78ff:f001:9fc0:20df:8380:b1f1:704:ed" },
	{ "ff02::1", "cef2:fc0c:1fff:dffe:ff8f:de7f:10f9:3f01" },
};

static struct traces_cryptopan *create(const uint8_t *key)
{
	struct traces_cryptopan *cryptopan;
	assert_int_equal(traces_cryptopan_create(&cryptopan, key), 0);
	return cryptopan;
}

static uint32_t map4(struct traces_cryptopan *cryptopan, uint32_t address)
{
	uint32_t net = htonl(address);
	uint8_t bytes[4];
	memcpy(bytes, &net, sizeof(net));
	traces_cryptopan_ip4(cryptopan, bytes, bytes);
	memcpy(&net, bytes, sizeof(net));
	return ntohl(net);
}

static void published_pairs_come_out(void **state)
{
	(void)state;
	struct traces_cryptopan *cryptopan = create(sample_key);
	for (size_t i = 0; i < 2 * BASE_ARRAY_COUNT(sample_pairs);
		i++) { /* twice: from the cache */
		const char *const *pair = sample_pairs[i % BASE_ARRAY_COUNT(sample_pairs)];
		bool ip6 = strchr(pair[0], ':') != NULL;
		uint8_t from[16], expected[16], to[16];
		assert_int_equal(inet_pton(ip6 ? AF_INET6 : AF_INET, pair[0], from), 1);
		assert_int_equal(inet_pton(ip6 ? AF_INET6 : AF_INET, pair[1], expected), 1);
		if (ip6)
			traces_cryptopan_ip6(cryptopan, from, to);
		else
			traces_cryptopan_ip4(cryptopan, from, to);
		assert_memory_equal(to, expected, ip6 ? 16 : 4);
	}
	traces_cryptopan_destroy(cryptopan);
}

static unsigned int common_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int i = 0;
	while (i < bits && ((a[i / 8] ^ b[i / 8]) & (0x80 >> i % 8)) == 0)
		i++;
	return i;
}

/* Pairs that share a chosen number of bits share exactly as many afterwards. */
static void common_prefixes_stay_as_long_as_they_were(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct base_rng rng;
		uint8_t key[32];
		base_rng_seed(&rng, seed);
		for (size_t i = 0; i < sizeof(key); i++)
			key[i] = (uint8_t)base_rng_u64(&rng);
		struct traces_cryptopan *cryptopan = create(key);
		for (int round = 0; round < 20000; round++) {
			unsigned int bits = round % 2 ? 32 : 128;
			uint8_t a[16], b[16], x[16], y[16];
			for (int i = 0; i < 16; i++)
				a[i] = (uint8_t)base_rng_u64(&rng);
			memcpy(b, a, sizeof(b));
			unsigned int shared = (unsigned int)base_rng_below(&rng, bits + 1);
			for (unsigned int i = shared; i < bits; i++) {
				bool differs = i == shared || base_rng_below(&rng, 2);
				b[i / 8] ^= differs ? (uint8_t)(0x80 >> i % 8) : 0;
			}
			if (bits == 32) {
				traces_cryptopan_ip4(cryptopan, a, x);
				traces_cryptopan_ip4(cryptopan, b, y);
			} else {
				traces_cryptopan_ip6(cryptopan, a, x);
				traces_cryptopan_ip6(cryptopan, b, y);
			}
			if (common_bits(a, b, bits) != common_bits(x, y, bits))
				fail_msg("seed %llu, round %d", (unsigned long long)seed, round);
		}
		traces_cryptopan_destroy(cryptopan);
	}
}

/* On 2^17 neighbours, and on the first 2^16 networks: no two addresses meet. */
static void no_two_addresses_get_the_same(void **state)
{
	(void)state;
	enum { COUNT = 1 << 17 };
	struct traces_cryptopan *cryptopan = create(sample_key);
	uint8_t *seen = calloc(1, (UINT64_C(1) << 32) / 8);
	assert_non_null(seen);
	for (uint32_t i = 0; i < 2 * COUNT; i++) {
		uint32_t address = i < COUNT ? 0x0a000000 + i : (i - COUNT) << 15 | 1;
		if (i >= COUNT && address - 0x0a000000 < COUNT)
			continue; /* one of the neighbours */
		uint32_t mapped = map4(cryptopan, address);
		assert_false(seen[mapped / 8] >> mapped % 8 & 1);
		seen[mapped / 8] |= (uint8_t)(1 << mapped % 8);
	}
	free(seen);
	traces_cryptopan_destroy(cryptopan);
}

/* Whatever was asked before, an address gets what a fresh instance gives it. */
static void caches_do_not_show(void **state)
{
	(void)state;
	struct base_rng rng;
	base_rng_seed(&rng, 3);
	struct traces_cryptopan *used = create(sample_key);
	for (int i = 0; i < 300000; i++) {
		uint8_t address[16] = { 0x20, 1, 0, (uint8_t)base_rng_below(&rng, 3) };
		for (int j = 4; j < 16; j++)
			address[j] = (uint8_t)base_rng_below(&rng, j < 14 ? 2 : 256);
		traces_cryptopan_ip6(used, address, address);
		map4(used, (uint32_t)base_rng_below(&rng, 1 << 20));
	}
	for (int i = 0; i < 300; i++) {
		struct traces_cryptopan *fresh = create(sample_key);
		uint32_t ip4 = (uint32_t)base_rng_below(&rng, 1 << 20);
		uint8_t ip6[16] = { 0x20, 1, 0, 1 }, a[16], b[16], mac[6] = { 2, 0, 0, 0, 0 };
		ip6[15] = (uint8_t)i;
		mac[5] = (uint8_t)i;
		assert_int_equal(map4(used, ip4), map4(fresh, ip4));
		traces_cryptopan_ip6(used, ip6, a);
		traces_cryptopan_ip6(fresh, ip6, b);
		assert_memory_equal(a, b, 16);
		traces_cryptopan_mac(used, mac, a);
		traces_cryptopan_mac(fresh, mac, b);
		assert_memory_equal(a, b, 6);
		traces_cryptopan_destroy(fresh);
	}
	traces_cryptopan_destroy(used);
}

static void hardware_addresses_keep_their_kind(void **state)
{
	(void)state;
	struct traces_cryptopan *cryptopan = create(sample_key);
	uint8_t mac[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, to[6], again[6];
	traces_cryptopan_mac(cryptopan, mac, to);
	assert_memory_equal(to, mac, 6);
	struct base_rng rng;
	base_rng_seed(&rng, 4);
	for (int i = 0; i < 1000; i++) {
		for (int j = 0; j < 6; j++)
			mac[j] = (uint8_t)base_rng_u64(&rng);
		traces_cryptopan_mac(cryptopan, mac, to);
		traces_cryptopan_mac(cryptopan, mac, again);
		assert_memory_equal(to, again, 6);
		assert_int_equal(to[0] & 1, mac[0] & 1);
		assert_int_equal(to[0] & 2, 2);
		assert_memory_not_equal(to + 1, mac + 1, 5);
	}
	memset(mac, 0, sizeof(mac));
	traces_cryptopan_mac(cryptopan, mac, to);
	assert_memory_not_equal(to, mac, 6);
	traces_cryptopan_destroy(cryptopan);
}

static void another_key_gives_other_names(void **state)
{
	(void)state;
	uint8_t key[32];
	struct traces_cryptopan *first = create(sample_key);
	for (size_t i = 0; i < sizeof(key); i += 7) { /* of the cipher's half and of the pad's */
		memcpy(key, sample_key, sizeof(key));
		key[i] ^= 1;
		struct traces_cryptopan *second = create(key);
		unsigned int same = 0;
		for (uint32_t j = 0; j < 1000; j++)
			same += map4(first, j << 22) == map4(second, j << 22);
		assert_true(same < 5);
		traces_cryptopan_destroy(second);
	}
	traces_cryptopan_destroy(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_pairs_come_out),
		cmocka_unit_test(common_prefixes_stay_as_long_as_they_were),
		cmocka_unit_test(no_two_addresses_get_the_same),
		cmocka_unit_test(caches_do_not_show),
		cmocka_unit_test(hardware_addresses_keep_their_kind),
		cmocka_unit_test(another_key_gives_other_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
