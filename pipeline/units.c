/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/units.h"

#include "base/compiler.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit count_units[] = {
	{ "", 1 },
	{ "k", 1000 },
	{ "M", 1000000 },
	{ "G", 1000000000 },
	{ "T", UINT64_C(1000000000000) },
	{ "Ki", UINT64_C(1) << 10 },
	{ "Mi", UINT64_C(1) << 20 },
	{ "Gi", UINT64_C(1) << 30 },
	{ "Ti", UINT64_C(1) << 40 },
};

/* Largest first: units_format_time_ns takes the first that divides. */
static const struct unit time_units[] = {
	{ "d", UINT64_C(86400000000000) },
	{ "h", UINT64_C(3600000000000) },
	{ "m", UINT64_C(60000000000) },
	{ "min", UINT64_C(60000000000) },
	{ "s", 1000000000 },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "ns", 1 },
};

static const struct unit rate_units[] = {
	{ "b", 1 },
	{ "kb", 1000 },
	{ "Mb", 1000000 },
	{ "Gb", 1000000000 },
	{ "Tb", UINT64_C(1000000000000) },
};

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* value * 10 + next; false when that does not fit. */
static bool append_digit(uint64_t *value, char next)
{
	return !__builtin_mul_overflow(*value, UINT64_C(10), value) &&
	       !__builtin_add_overflow(*value, (uint64_t)(next - '0'), value);
}

/*
 * Split "12.5ms" into digits 125, one decimal, and "ms". Zeros that end the fraction are not
 * counted, so that 1.50000000000000000000000 is 1.5.
 */
static int split(const char *text, uint64_t *digits, unsigned int *decimals, const char **unit)
{
	uint64_t value = 0;
	unsigned int zeros = 0, places = 0;
	const char *at = text;
	if (!digit(*at))
		return -EINVAL;
	for (; digit(*at); at++) {
		if (!append_digit(&value, *at))
			return -ERANGE;
	}
	if (*at == '.') {
		at++;
		if (!digit(*at))
			return -EINVAL;
		for (; digit(*at); at++) {
			if (*at == '0') {
				zeros++;
				continue;
			}
			for (; zeros > 0; zeros--, places++) {
				if (!append_digit(&value, '0'))
					return -ERANGE;
			}
			if (!append_digit(&value, *at))
				return -ERANGE;
			places++;
		}
	}
	*digits = value;
	*decimals = places;
	*unit = at;
	return 0;
}

static int scale(uint64_t digits, unsigned int decimals, uint64_t factor, uint64_t *out)
{
	__extension__ typedef unsigned __int128 wide;
	wide value = (wide)digits * factor;
	for (; decimals > 0; decimals--) {
		if (value % 10 != 0)
			return -EINVAL;
		value /= 10;
	}
	if (value > UINT64_MAX)
		return -ERANGE;
	*out = (uint64_t)value;
	return 0;
}

static int parse_with(const char *text, const struct unit *units, size_t units_count, uint64_t *out)
{
	uint64_t digits;
	unsigned int decimals;
	const char *unit;
	int error = split(text, &digits, &decimals, &unit);
	if (error)
		return error;
	for (size_t i = 0; i < units_count; i++) {
		if (strcmp(unit, units[i].name) == 0)
			return scale(digits, decimals, units[i].factor, out);
	}
	return -EINVAL;
}

int units_parse_count(const char *text, uint64_t *count)
{
	return parse_with(text, count_units, BASE_ARRAY_COUNT(count_units), count);
}

int units_parse_time_ns(const char *text, uint64_t *time_ns)
{
	if (strcmp(text, "0") == 0) {
		*time_ns = 0;
		return 0;
	}
	return parse_with(text, time_units, BASE_ARRAY_COUNT(time_units), time_ns);
}

int units_parse_rate_bits(const char *text, uint64_t *bits_per_s)
{
	static const char *const endings[] = { "it", "ps", "/s" };
	char plain[64];
	size_t length = strlen(text);
	if (length >= sizeof(plain))
		return -EINVAL;
	memcpy(plain, text, length + 1);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(endings); i++) {
		if (length > 3 && plain[length - 3] == 'b' &&
			strcmp(plain + length - 2, endings[i]) == 0)
			plain[length - 2] = '\0';
	}
	return parse_with(plain, rate_units, BASE_ARRAY_COUNT(rate_units), bits_per_s);
}

int units_parse_factor(const char *text, double *factor)
{
	uint64_t digits;
	unsigned int decimals;
	const char *unit;
	int error = split(text, &digits, &decimals, &unit);
	if (error)
		return error;
	if (*unit != '\0' && strcmp(unit, "x") != 0)
		return -EINVAL;
	if (digits == 0)
		return -ERANGE;
	*factor = (double)digits / pow(10, decimals);
	return 0;
}

int units_parse_share(const char *text, double *share)
{
	uint64_t digits;
	unsigned int decimals;
	const char *unit;
	int error = split(text, &digits, &decimals, &unit);
	if (error)
		return error;
	bool percent = strcmp(unit, "%") == 0;
	if (*unit != '\0' && !percent)
		return -EINVAL;
	double value = (double)digits / pow(10, decimals) / (percent ? 100 : 1);
	if (value > 1)
		return -ERANGE;
	*share = value;
	return 0;
}

void units_format_time_ns(uint64_t time_ns, char *text, size_t text_size)
{
	if (time_ns == 0) {
		snprintf(text, text_size, "0");
		return;
	}
	for (size_t i = 0; i < BASE_ARRAY_COUNT(time_units); i++) {
		const struct unit *unit = &time_units[i];
		if (time_ns % unit->factor == 0) {
			snprintf(text, text_size, "%" PRIu64 "%s", time_ns / unit->factor,
				unit->name);
			return;
		}
	}
}

void units_format_time_short(uint64_t time_ns, char *text, size_t text_size)
{
	static const struct unit steps[] = {
		{ "s", 1000000000 },
		{ "ms", 1000000 },
		{ "us", 1000 },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(steps); i++) {
		if (time_ns < steps[i].factor)
			continue;
		double value = (double)time_ns / (double)steps[i].factor;
		int places = value < 10 ? 2 : value < 100 ? 1 : 0;
		snprintf(text, text_size, "%.*f %s", places, value, steps[i].name);
		return;
	}
	snprintf(text, text_size, "%" PRIu64 " ns", time_ns);
}

void units_format_grouped(uint64_t value, char *text, size_t text_size)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	size_t used = 0;
	for (int i = 0; i < length && used + 2 < text_size; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			text[used++] = ',';
		text[used++] = digits[i];
	}
	if (text_size > 0)
		text[used] = '\0';
}

void units_quote(const char *text, char *quoted, size_t quoted_size)
{
	size_t used = 0;
	if (quoted_size < 4)
		return;
	for (; *text != '\0' && used < quoted_size - 4; text++)
		quoted[used++] = *text >= 0x20 && *text < 0x7f ? *text : '?';
	if (*text != '\0') {
		memcpy(quoted + used, "...", 3);
		used += 3;
	}
	quoted[used] = '\0';
}
