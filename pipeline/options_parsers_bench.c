/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsers of the bench commands' options: tables by name, lists of numbers. */
#include "pipeline/options_private.h"

#include "pipeline/table_names.h"
#include "pipeline/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define PLACES_MAX        (UINT64_C(1) << 27)
#define SAME_SHARE        5e-7 /* ranges are rounded to six digits */
#define STEP_UNLESS_GIVEN 0.1  /* of a range */

/* NULL with a message. */
static const struct conntrack_table_ops *find_table(const char *name, char *message)
{
	char names[PIPELINE_MESSAGE_SIZE / 2];
	const struct conntrack_table_ops *table = table_names_find(name);
	const char *absence = table_names_absence(name);
	if (table != NULL)
		return table;
	table_names_list(names, sizeof(names));
	if (absence != NULL)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s: %s", name, absence);
	else
		options_refuse(message, name, "%s", names);
	return NULL;
}

int options_parse_table(struct options *options, void *target, const char *text, char *message)
{
	(void)target;
	const struct conntrack_table_ops *table = find_table(text, message);
	if (table == NULL)
		return -EINVAL;
	options->config.conntrack.table = table;
	return 0;
}

static int find_table_index(const void *context, const char *name, uint32_t *index, char *message)
{
	const struct conntrack_table_ops *table = find_table(name, message);
	(void)context;
	if (table == NULL)
		return -EINVAL;
	for (*index = 0; table_names_at(*index) != table;)
		(*index)++;
	return 0;
}

int options_parse_tables(struct options *options, void *target, const char *text, char *message)
{
	struct bench_tables_options *bench = &options->bench_tables;
	struct options_names names = { .find = find_table_index };
	struct options_list list;
	static_assert((int)OPTIONS_LIST_MAX == (int)BENCH_TABLES_MAX, "a list may hold all tables");
	(void)target;
	while (table_names_at(names.count) != NULL)
		names.count++;
	int error = options_list_read(options, text, &names, &list, message);
	if (error != 0)
		return error;
	bench->tables_count = list.count;
	for (uint32_t i = 0; i < list.count; i++)
		bench->tables[i] = table_names_at(list.indices[i]);
	return 0;
}

/* What a table of so many places has: a power of two. */
static uint64_t power_of_two(uint64_t count)
{
	uint64_t power = 1;
	while (power < count)
		power *= 2;
	return power;
}

int options_parse_entries(struct options *options, void *target, const char *text, char *message)
{
	struct bench_tables_options *bench = &options->bench_tables;
	char *rest = options_keep_text(options, text, strlen(text));
	(void)target;
	bench->entries_count = 0;
	if (rest == NULL)
		return options_refuse_memory(message);
	for (char *word; (word = options_split(&rest, ",")) != NULL;) {
		uint64_t count;
		if (bench->entries_count == BENCH_TABLES_VALUES_MAX)
			return options_refuse(
				message, word, "at most %d sizes", BENCH_TABLES_VALUES_MAX);
		if (units_parse_count(word, &count) != 0 || count < 64 || count > PLACES_MAX)
			return options_refuse(message, word, "a list of sizes, 64..134217728 each");
		for (uint32_t i = 0; i < bench->entries_count; i++) {
			if (power_of_two(bench->entries[i]) == power_of_two(count))
				return options_refuse(message, word,
					"each size once, rounded up to a power of two");
		}
		bench->entries[bench->entries_count++] = count;
	}
	return 0;
}

/* A list of shares being read. */
struct shares {
	double *values;
	uint32_t *count;
	bool zero; /* 0 is one of them; else none below 0.01 */
	char *message;
};

static int refuse_share(const struct shares *shares, const char *word)
{
	return options_refuse(shares->message, word,
		"a list of numbers or ranges such as 0.5..0.98 or 0.5..0.9..0.1, %s to 1 each",
		shares->zero ? "0" : "0.01");
}

static bool parse_share(const struct shares *shares, const char *text, double *value)
{
	return units_parse_share(text, value) == 0 && (shares->zero || *value >= 0.01);
}

static int add_share(const struct shares *shares, const char *word, double value)
{
	if (*shares->count == BENCH_TABLES_VALUES_MAX)
		return options_refuse(
			shares->message, word, "at most %d numbers", BENCH_TABLES_VALUES_MAX);
	for (uint32_t i = 0; i < *shares->count; i++) {
		if (fabs(shares->values[i] - value) < SAME_SHARE)
			return options_refuse(
				shares->message, word, "each number once, but got %g again", value);
	}
	shares->values[(*shares->count)++] = value;
	return 0;
}

/* "LOW..HIGH..STEP": LOW, LOW + STEP, ... below HIGH, and HIGH. */
static int add_range(const struct shares *shares, const char *word, char *rest)
{
	const char *ends[3] = { NULL };
	double low, high, step = STEP_UNLESS_GIVEN;
	size_t count = 0;
	while (count < BASE_ARRAY_COUNT(ends) && rest != NULL) {
		char *dots = strstr(rest, "..");
		ends[count++] = rest;
		if (dots != NULL)
			*dots = '\0';
		rest = dots != NULL ? dots + 2 : NULL;
	}
	if (count < 2 || rest != NULL || !parse_share(shares, ends[0], &low) ||
		!parse_share(shares, ends[1], &high) || low >= high ||
		(count == 3 && (units_parse_share(ends[2], &step) != 0 || step < 0.001)))
		return refuse_share(shares, word);
	int error = 0;
	for (unsigned int i = 0; error == 0; i++) {
		/* Six digits: sums of what was written as decimals stay what is read. */
		double value = round((low + i * step) * 1e6) / 1e6;
		if (value >= high)
			break;
		error = add_share(shares, word, value);
	}
	return error != 0 ? error : add_share(shares, word, high);
}

static int parse_shares(struct options *options, const struct shares *shares, const char *text)
{
	char *rest = options_keep_text(options, text, strlen(text));
	*shares->count = 0;
	if (rest == NULL)
		return options_refuse_memory(shares->message);
	for (char *word; (word = options_split(&rest, ",")) != NULL;) {
		double value;
		int error;
		if (strstr(word, "..") != NULL) {
			char *own = options_keep_text(options, word, strlen(word));
			error = own != NULL ? add_range(shares, word, own)
					    : options_refuse_memory(shares->message);
		} else if (!parse_share(shares, word, &value)) {
			error = refuse_share(shares, word);
		} else {
			error = add_share(shares, word, value);
		}
		if (error != 0)
			return error;
	}
	return 0;
}

int options_parse_loads(struct options *options, void *target, const char *text, char *message)
{
	struct bench_tables_options *bench = &options->bench_tables;
	(void)target;
	return parse_shares(options,
		&(struct shares){ bench->loads, &bench->loads_count, false, message }, text);
}

int options_parse_hit_ratios(struct options *options, void *target, const char *text, char *message)
{
	struct bench_tables_options *bench = &options->bench_tables;
	(void)target;
	return parse_shares(options,
		&(struct shares){ bench->hit_ratios, &bench->hit_ratios_count, true, message },
		text);
}

void options_set_counters(struct options *options, const struct counters_kernel *kernel)
{
	options->config.counters = kernel;
	options->bench_tables.counters = kernel;
	options->bench_deletion.counters = kernel;
	options->bench_sharing.counters = kernel;
	options->bench_lb.counters = kernel;
}

int options_parse_counters(struct options *options, void *target, const char *text, char *message)
{
	bool on = strcmp(text, "on") == 0;
	(void)target;
	if (!on && strcmp(text, "off") != 0)
		return options_refuse(message, text, "on|off");
	options_set_counters(options, on ? counters_linux() : NULL);
	return 0;
}
