/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline/test.h"

#include "pipeline/units.h"

#include "base/rng.h"

#include <errno.h>

typedef int parse_fn(const char *text, uint64_t *value);

struct number {
	const char *text;
	int error;
	uint64_t value;
};

static void check_numbers(parse_fn *parse, const struct number *rows, size_t rows_count)
{
	for (size_t i = 0; i < rows_count; i++) {
		uint64_t value = 12345;
		int error = parse(rows[i].text, &value);
		if (error != rows[i].error)
			fail_msg("'%s': %d, expected %d", rows[i].text, error, rows[i].error);
		/* Refused: the output stays. */
		uint64_t expected = rows[i].error == 0 ? rows[i].value : 12345;
		if (value != expected)
			fail_msg("'%s': %llu, expected %llu", rows[i].text,
				(unsigned long long)value, (unsigned long long)expected);
	}
}

static void counts_have_decimal_and_binary_units(void **state)
{
	static const struct number rows[] = {
		{ "0", 0, 0 },
		{ "65536", 0, 65536 },
		{ "128k", 0, 128000 },
		{ "1M", 0, 1000000 },
		{ "1.5M", 0, 1500000 },
		{ "0.001k", 0, 1 },
		{ "1Ki", 0, 1024 },
		{ "0.5Mi", 0, 524288 },
		{ "2G", 0, 2000000000 },
		{ "3T", 0, UINT64_C(3000000000000) },
		{ "4Ti", 0, UINT64_C(4398046511104) },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "1.50000000000000000000000000000", -EINVAL, 0 }, /* one packet and a half */
		{ "1.000000000000000000000000000000k", 0, 1000 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999G", -ERANGE, 0 },
		{ "18446744073709551615k", -ERANGE, 0 },
		{ "0.5", -EINVAL, 0 },
		{ "1.0005k", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ ".5k", -EINVAL, 0 },
		{ "1.5.0k", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1e6", -EINVAL, 0 },
		{ "1K", -EINVAL, 0 },
		{ "1m", -EINVAL, 0 },
		{ "1kk", -EINVAL, 0 },
		{ "k", -EINVAL, 0 },
		{ "many", -EINVAL, 0 },
	};
	(void)state;
	check_numbers(units_parse_count, rows, BASE_ARRAY_COUNT(rows));
}

static void times_need_a_unit(void **state)
{
	static const struct number rows[] = {
		{ "0", 0, 0 },
		{ "0s", 0, 0 },
		{ "64us", 0, 64000 },
		{ "1ns", 0, 1 },
		{ "1.5ms", 0, 1500000 },
		{ "5s", 0, UINT64_C(5000000000) },
		{ "3m", 0, UINT64_C(180000000000) },
		{ "3min", 0, UINT64_C(180000000000) },
		{ "2h", 0, UINT64_C(7200000000000) },
		{ "5d", 0, UINT64_C(432000000000000) },
		{ "64", -EINVAL, 0 },
		{ "64 us", -EINVAL, 0 },
		{ "64u", -EINVAL, 0 },
		{ "64US", -EINVAL, 0 },
		{ "0.5ns", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "1000000d", -ERANGE, 0 },
	};
	(void)state;
	check_numbers(units_parse_time_ns, rows, BASE_ARRAY_COUNT(rows));
}

static void rates_are_bits(void **state)
{
	static const struct number rows[] = {
		{ "10Gb", 0, UINT64_C(10000000000) },
		{ "10Gbit", 0, UINT64_C(10000000000) },
		{ "10Gb/s", 0, UINT64_C(10000000000) },
		{ "2.5Gbps", 0, UINT64_C(2500000000) },
		{ "100b", 0, 100 },
		{ "1kb", 0, 1000 },
		{ "10G", -EINVAL, 0 },
		{ "10GB", -EINVAL, 0 },
		{ "10", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "b", -EINVAL, 0 },
		{ "it", -EINVAL, 0 },
		{ "99999999999999999999999999999999999999999999999999999999999999999999Gb", -EINVAL,
			0 },
	};
	(void)state;
	check_numbers(units_parse_rate_bits, rows, BASE_ARRAY_COUNT(rows));
}

static void factors_are_above_zero(void **state)
{
	double value = 7;
	(void)state;
	assert_int_equal(units_parse_factor("1.5x", &value), 0);
	assert_true(value == 1.5);
	assert_int_equal(units_parse_factor("0.25", &value), 0);
	assert_true(value == 0.25);
	assert_int_equal(units_parse_factor("20", &value), 0);
	assert_true(value == 20);
	assert_int_equal(units_parse_factor("0", &value), -ERANGE);
	assert_int_equal(units_parse_factor("-1", &value), -EINVAL);
	assert_int_equal(units_parse_factor("nan", &value), -EINVAL);
	assert_int_equal(units_parse_factor("inf", &value), -EINVAL);
	assert_int_equal(units_parse_factor("2xx", &value), -EINVAL);
	assert_true(value == 20);
}

static void formatted_times_read_back_the_same(void **state)
{
	uint64_t seed = 20240607;
	struct base_rng rng;
	(void)state;
	base_rng_seed(&rng, seed);
	for (int i = 0; i < 20000; i++) {
		char text[32];
		uint64_t value = base_rng_u64(&rng) >> base_rng_below(&rng, 64), back;
		units_format_time_ns(value, text, sizeof(text));
		if (units_parse_time_ns(text, &back) != 0 || back != value)
			fail_msg("seed %llu: %llu is written '%s'", (unsigned long long)seed,
				(unsigned long long)value, text);
	}
}

static void texts_for_people_are_short(void **state)
{
	char text[32];
	(void)state;
	units_format_time_short(64000, text, sizeof(text));
	assert_string_equal(text, "64.0 us");
	units_format_time_short(999, text, sizeof(text));
	assert_string_equal(text, "999 ns");
	units_format_time_short(1234567890, text, sizeof(text));
	assert_string_equal(text, "1.23 s");
	units_format_grouped(0, text, sizeof(text));
	assert_string_equal(text, "0");
	units_format_grouped(1234567, text, sizeof(text));
	assert_string_equal(text, "1,234,567");
	units_format_grouped(UINT64_MAX, text, sizeof(text));
	assert_string_equal(text, "18,446,744,073,709,551,615");
	units_format_grouped(1234567, text, 6);
	assert_true(strlen(text) < 6);
}

static void quoting_keeps_one_line_and_its_room(void **state)
{
	char text[12];
	(void)state;
	units_quote("a\nb\x1b[2Jc", text, sizeof(text));
	assert_string_equal(text, "a?b?[2Jc");
	units_quote("a very long value", text, sizeof(text));
	assert_string_equal(text, "a very l...");
	units_quote("gr\xc3\xb6\xc3\x9f", text, sizeof(text));
	assert_string_equal(text, "gr????");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_have_decimal_and_binary_units),
		cmocka_unit_test(times_need_a_unit),
		cmocka_unit_test(rates_are_bits),
		cmocka_unit_test(factors_are_above_zero),
		cmocka_unit_test(formatted_times_read_back_the_same),
		cmocka_unit_test(texts_for_people_are_short),
		cmocka_unit_test(quoting_keeps_one_line_and_its_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
