/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/checksum.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* RFC 1071 word by word, in host arithmetic on big-endian words. */
static uint16_t reference(const uint8_t *bytes, size_t size)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < size; i++)
		sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint16_t as_written(uint16_t checksum)
{
	uint8_t bytes[2];
	memcpy(bytes, &checksum, 2);
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static void sum_matches_the_textbook(void **)
{
	struct base_rng rng;
	uint8_t bytes[300];
	base_rng_seed(&rng, 8);
	for (int round = 0; round < 5000; round++) {
		size_t size = base_rng_below(&rng, 257), shift = base_rng_below(&rng, 8);
		for (size_t i = 0; i < size; i++)
			bytes[shift + i] = round % 5 == 0 ? 0xff : (uint8_t)base_rng_u64(&rng);
		uint16_t got = base_checksum_finish(base_checksum_add(bytes + shift, size, 0));
		assert_int_equal(as_written(got), reference(bytes + shift, size));
		size_t cut = size / 4 * 2;
		uint32_t sum = base_checksum_add(bytes + shift, cut, 0);
		sum = base_checksum_add(bytes + shift + cut, size - cut, sum);
		assert_int_equal(base_checksum_finish(sum), got);
	}
}

static void example_of_the_rfc(void **)
{
	static const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };
	uint16_t got = base_checksum_finish(base_checksum_add(bytes, sizeof(bytes), 0));
	assert_int_equal(as_written(got), (uint16_t)~0xddf2);
}

static void longest_datagram_does_not_overflow(void **)
{
	uint8_t *bytes = malloc(1 << 20);
	assert_non_null(bytes);
	memset(bytes, 0xff, 1 << 20);
	assert_int_equal(base_checksum_finish(base_checksum_add(bytes, 1 << 20, 0xffffffff)), 0);
	free(bytes);
}

/* An updated checksum must verify, and equal the recomputed one (up to the two zeros). */
static void incremental_update_equals_recomputation(void **)
{
	struct base_rng rng;
	base_rng_seed(&rng, 9);
	for (int round = 0; round < 20000; round++) {
		uint8_t bytes[20], changed[20];
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = round % 3 == 0 ? (uint8_t)(0 - base_rng_below(&rng, 2))
						  : (uint8_t)base_rng_u64(&rng);
		memcpy(changed, bytes, sizeof(bytes));
		for (size_t i = 4; i < 12; i++)
			changed[i] = round % 3 == 0 ? (uint8_t)(0 - base_rng_below(&rng, 2))
						    : (uint8_t)base_rng_u64(&rng);
		bytes[0] = changed[0] = 0x45; /* never all zero, as in real headers */
		uint16_t before = base_checksum_finish(base_checksum_add(bytes, 20, 0));
		uint16_t after = base_checksum_finish(base_checksum_add(changed, 20, 0));
		uint16_t got = base_checksum_update_bytes(before, bytes + 4, changed + 4, 8);
		assert_int_equal(got, after);
		uint32_t words[4];
		memcpy(words, bytes + 4, 8);
		memcpy(words + 2, changed + 4, 8);
		got = base_checksum_update32(before, words[0], words[2]);
		got = base_checksum_update32(got, words[1], words[3]);
		assert_int_equal(got, after);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sum_matches_the_textbook),
		cmocka_unit_test(example_of_the_rfc),
		cmocka_unit_test(longest_datagram_does_not_overflow),
		cmocka_unit_test(incremental_update_equals_recomputation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
