/* SPDX-License-Identifier: BSD-2-Clause */
/* What an option is unless given, as help shows it: read from the defaults themselves. */
#include "pipeline/options_private.h"
#include "pipeline/units.h"

#include <inttypes.h>
#include <stdio.h>

/* As people write it: "4096", "64Ki", "1M". */
static void format_count(uint64_t value, char *text, size_t text_size)
{
	static const struct {
		uint64_t size;
		const char *unit;
	} units[] = {
		{ UINT64_C(1000000), "M" },
		{ UINT64_C(1) << 20, "Mi" },
		{ UINT64_C(1000), "k" },
		{ UINT64_C(1) << 10, "Ki" },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(units) && value >= 10000; i++) {
		if (value % units[i].size == 0) {
			snprintf(text, text_size, "%" PRIu64 "%s", value / units[i].size,
				units[i].unit);
			return;
		}
	}
	snprintf(text, text_size, "%" PRIu64, value);
}

/* UINT64_MAX for one that stands for "not given". */
static uint64_t read_number(const struct options_row *row, const void *field)
{
	uint64_t number = 0;
	if (row->kind == OPTIONS_KIND_COUNT16) {
		number = *(const uint16_t *)field;
	} else if (row->kind == OPTIONS_KIND_COUNT32) {
		number = *(const uint32_t *)field;
		number = number == UINT32_MAX ? UINT64_MAX : number;
	} else {
		number = *(const uint64_t *)field;
	}
	/* Zero mostly stands for that too; the help says where it does not. */
	return number == 0 && strstr(row->help, "; 0 ") == NULL ? UINT64_MAX : number;
}

static bool number_text(
	const struct options_row *row, const void *field, char *text, size_t text_size)
{
	uint64_t number = read_number(row, field);
	if (number == UINT64_MAX)
		return false;
	if (row->kind == OPTIONS_KIND_TIME)
		units_format_time_ns(number, text, text_size);
	else if (row->kind == OPTIONS_KIND_RATE)
		snprintf(text, text_size, "%" PRIu64 "b", number);
	else
		format_count(number, text, text_size);
	return true;
}

static void choice_text(const char *choices, unsigned int index, char *text, size_t text_size)
{
	for (; index > 0 && strchr(choices, '|') != NULL; index--)
		choices = strchr(choices, '|') + 1;
	snprintf(text, text_size, "%.*s", (int)strcspn(choices, "|"), choices);
}

static bool set_text(const struct options_row *row, unsigned int set, char *text, size_t text_size)
{
	unsigned int count = 1, used = 0;
	for (const char *at = row->choices; *at != '\0'; at++)
		count += *at == '|';
	if (set == 0)
		return false;
	if (set == (count < 32 ? (1u << count) - 1 : UINT32_MAX)) {
		snprintf(text, text_size, "all");
		return true;
	}
	for (unsigned int i = 0; i < count && used < text_size; i++) {
		char name[64];
		if ((set >> i & 1) == 0)
			continue;
		choice_text(row->choices, i, name, sizeof(name));
		used += (unsigned int)snprintf(
			text + used, text_size - used, "%s%s", used == 0 ? "" : ",", name);
	}
	return true;
}

bool options_default_text(
	const struct options_row *row, const void *target, char *text, size_t text_size)
{
	const void *field = (const uint8_t *)target + row->offset;
	unsigned int bits;
	if (row->otherwise != NULL) {
		snprintf(text, text_size, "%s", row->otherwise);
		return true;
	}
	switch (row->kind) {
	case OPTIONS_KIND_SWITCH:
		snprintf(text, text_size, "on");
		return *(const bool *)field;
	case OPTIONS_KIND_COUNT16:
	case OPTIONS_KIND_COUNT32:
	case OPTIONS_KIND_COUNT64:
	case OPTIONS_KIND_TIME:
	case OPTIONS_KIND_RATE:
		return number_text(row, field, text, text_size);
	case OPTIONS_KIND_FACTOR:
	case OPTIONS_KIND_SHARE:
		snprintf(text, text_size, "%g", *(const double *)field);
		return *(const double *)field > 0; /* below: not given */
	case OPTIONS_KIND_TEXT:
		if (*(const char *const *)field == NULL)
			return false;
		snprintf(text, text_size, "%s", *(const char *const *)field);
		return true;
	case OPTIONS_KIND_CHOICE:
		memcpy(&bits, field, sizeof(bits));
		choice_text(row->choices, bits, text, text_size);
		return true;
	case OPTIONS_KIND_SET:
		memcpy(&bits, field, sizeof(bits));
		return set_text(row, bits, text, text_size);
	default:
		return false;
	}
}
