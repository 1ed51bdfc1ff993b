/* SPDX-License-Identifier: BSD-2-Clause */
/* From text to the field of a row, by the row's kind. */
#include "pipeline/options_private.h"
#include "pipeline/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { QUOTE_SIZE = 64 };

int options_refuse(char *message, const char *value, const char *expected, ...)
{
	char quoted[QUOTE_SIZE], text[PIPELINE_MESSAGE_SIZE / 2];
	va_list arguments;
	va_start(arguments, expected);
	vsnprintf(text, sizeof(text), expected, arguments);
	va_end(arguments);
	units_quote(value, quoted, sizeof(quoted));
	snprintf(message, PIPELINE_MESSAGE_SIZE, "got '%s', expected %s", quoted, text);
	return -EINVAL;
}

int options_refuse_memory(char *message)
{
	snprintf(message, PIPELINE_MESSAGE_SIZE, "out of memory");
	return -ENOMEM;
}

int options_refuse_at(char *message, int error, const char *where, ...)
{
	char prefix[PIPELINE_MESSAGE_SIZE / 2], whole[2 * PIPELINE_MESSAGE_SIZE];
	va_list arguments;
	va_start(arguments, where);
	vsnprintf(prefix, sizeof(prefix), where, arguments);
	va_end(arguments);
	snprintf(whole, sizeof(whole), "%s: %s", prefix, message);
	whole[PIPELINE_MESSAGE_SIZE - 1] = '\0';
	memcpy(message, whole, strlen(whole) + 1);
	return error;
}

char *options_split(char **rest, const char *separators)
{
	char *part = *rest;
	unsigned int depth = 0;
	if (part == NULL)
		return NULL;
	for (char *at = part; *at != '\0'; at++) {
		if (*at == '[') {
			depth++;
		} else if (*at == ']' && depth > 0) {
			depth--;
		} else if (depth == 0 && strchr(separators, *at) != NULL) {
			*at = '\0';
			*rest = at + 1;
			return part;
		}
	}
	*rest = NULL;
	return part;
}

static int set_switch(bool *field, bool inverted, const char *text, char *message)
{
	static const char *const on[] = { "on", "yes", "true", "1" };
	static const char *const off[] = { "off", "no", "false", "0" };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(on); i++) {
		bool is_on = strcmp(text, on[i]) == 0;
		if (!is_on && strcmp(text, off[i]) != 0)
			continue;
		*field = is_on != inverted;
		return 0;
	}
	return options_refuse(message, text, "on or off");
}

/* A row's limits in its own unit; without limits, an example. */
static int refuse_number(const struct options_row *row, const char *text, char *message)
{
	char low[32], high[32];
	bool time = row->kind == OPTIONS_KIND_TIME;
	if (row->high == 0 && time)
		return options_refuse(message, text, "a time with its unit, such as 64us or 5s");
	if (row->kind == OPTIONS_KIND_RATE)
		return options_refuse(message, text, "bits per second, such as 10Gb");
	if (row->high == 0)
		return options_refuse(message, text, "a whole number, such as 4096 or 128k");
	if (row->high == INT64_MAX)
		return options_refuse(message, text,
			"a whole number from %" PRIu64 ", such as 4096 or 128k", row->low);
	if (!time)
		return options_refuse(message, text, "%" PRIu64 "..%" PRIu64, row->low, row->high);
	units_format_time_ns(row->low, low, sizeof(low));
	units_format_time_ns(row->high, high, sizeof(high));
	return options_refuse(message, text, "a time from %s to %s, such as 64us", low, high);
}

static int set_number(const struct options_row *row, void *field, const char *text, char *message)
{
	uint64_t value, high = row->high == 0 ? UINT64_MAX : row->high;
	int error;
	if (row->kind == OPTIONS_KIND_TIME)
		error = units_parse_time_ns(text, &value);
	else if (row->kind == OPTIONS_KIND_RATE)
		error = units_parse_rate_bits(text, &value);
	else
		error = units_parse_count(text, &value);
	if (error || value < row->low || value > high)
		return refuse_number(row, text, message);
	if (row->kind == OPTIONS_KIND_COUNT16) {
		BASE_ASSERT(value <= UINT16_MAX);
		*(uint16_t *)field = (uint16_t)value;
	} else if (row->kind == OPTIONS_KIND_COUNT32) {
		BASE_ASSERT(value <= UINT32_MAX);
		*(uint32_t *)field = (uint32_t)value;
	} else {
		*(uint64_t *)field = value;
	}
	return 0;
}

/* "a|b|c" -> index of the text; -ENOENT. */
static int choice_find(const char *choices, const char *text, unsigned int *index)
{
	size_t length = strlen(text);
	unsigned int position = 0;
	for (const char *at = choices;; position++) {
		size_t span = strcspn(at, "|");
		if (span == length && memcmp(at, text, span) == 0) {
			*index = position;
			return 0;
		}
		if (at[span] == '\0')
			return -ENOENT;
		at += span + 1;
	}
}

static int set_choice(const struct options_row *row, void *field, const char *text, char *message)
{
	unsigned int index;
	if (choice_find(row->choices, text, &index) != 0)
		return options_refuse(message, text, "%s", row->choices);
	memcpy(field, &index, sizeof(index));
	return 0;
}

static int find_choice(const void *context, const char *name, uint32_t *index, char *message)
{
	const struct options_row *row = context;
	if (choice_find(row->choices, name, index) == 0)
		return 0;
	return options_refuse(message, name, "%sall or a list of %s", row->low == 0 ? "none, " : "",
		row->choices);
}

static int set_bits(struct options *options, const struct options_row *row, void *field,
	const char *text, char *message)
{
	struct options_names names = {
		.find = find_choice, .context = row, .count = 1, .none = row->low == 0
	};
	struct options_list list;
	for (const char *at = row->choices; *at != '\0'; at++)
		names.count += *at == '|';
	int error = options_list_read(options, text, &names, &list, message);
	if (error == 0)
		memcpy(field, &list.set, sizeof(list.set));
	return error;
}

static int set_text(struct options *options, void *field, const char *text, char *message)
{
	if (*text == '\0')
		return options_refuse(message, text, "something");
	const char *copy = options_keep_text(options, text, strlen(text));
	if (copy == NULL)
		return options_refuse_memory(message);
	*(const char **)field = copy;
	return 0;
}

int options_value_set(struct options *options, const struct options_row *row, void *target,
	const char *text, char *message)
{
	void *field = (uint8_t *)target + row->offset;
	double factor;
	switch (row->kind) {
	case OPTIONS_KIND_SWITCH:
	case OPTIONS_KIND_SWITCH_OFF:
		return set_switch(field, row->kind == OPTIONS_KIND_SWITCH_OFF, text, message);
	case OPTIONS_KIND_COUNT16:
	case OPTIONS_KIND_COUNT32:
	case OPTIONS_KIND_COUNT64:
	case OPTIONS_KIND_TIME:
	case OPTIONS_KIND_RATE:
		return set_number(row, field, text, message);
	case OPTIONS_KIND_FACTOR:
		if (units_parse_factor(text, &factor) != 0 || factor > (double)row->high)
			return options_refuse(message, text,
				"a number above 0, at most %" PRIu64 ", such as 1.5", row->high);
		*(double *)field = factor;
		return 0;
	case OPTIONS_KIND_SHARE:
		if (units_parse_share(text, &factor) != 0)
			return options_refuse(message, text, "a share from 0 to 1, or such as 5%%");
		*(double *)field = factor;
		return 0;
	case OPTIONS_KIND_TEXT:
		return set_text(options, field, text, message);
	case OPTIONS_KIND_CHOICE:
		return set_choice(row, field, text, message);
	case OPTIONS_KIND_SET:
		return set_bits(options, row, field, text, message);
	case OPTIONS_KIND_CUSTOM:
	case OPTIONS_KIND_CUSTOMS:
		return row->parse(options, target, text, message);
	case OPTIONS_KIND_ITEMS:
	case OPTIONS_KIND_CHAIN:
		break;
	}
	BASE_ASSERT(false); /* rows with items never come here */
	return -EINVAL;
}

const struct options_row *options_rows_find(
	const struct options_row *rows, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	}
	return NULL;
}

int options_refuse_key(char *message, const char *key, const struct options_row *rows, size_t count)
{
	char names[PIPELINE_MESSAGE_SIZE / 2] = "";
	size_t used = 0;
	for (size_t i = 0; i < count && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
			i == 0 ? "" : ", ", rows[i].name);
	if (count == 0)
		return options_refuse(message, key, "nothing: it has no settings");
	return options_refuse(message, key, "one of %s", names);
}

int options_rows_set_word(struct options *options, const struct options_row *rows, size_t count,
	void *target, char *word, char *message)
{
	char *equals = strchr(word, '=');
	const char *value = equals == NULL ? NULL : equals + 1;
	if (equals != NULL)
		*equals = '\0';
	const struct options_row *row = options_rows_find(rows, count, word);
	if (row == NULL)
		return options_refuse_key(message, word, rows, count);
	if (value == NULL && row->kind == OPTIONS_KIND_SWITCH)
		value = "on";
	if (value == NULL)
		return options_refuse(message, word, "%s=%s", word, row->argument);
	int error = options_value_set(options, row, target, value, message);
	return error ? options_refuse_at(message, error, "%s", row->name) : 0;
}
