/* SPDX-License-Identifier: BSD-2-Clause */
/* Deletion strategies on the command line, and the rows of sheaf bench deletion. */
#include "conntrack/lab.h"
#include "pipeline/options_private.h"
#include "pipeline/units.h"

#include <errno.h>
#include <stdio.h>

enum { NAMES_SIZE = 384 };

/* Adds "|name"; cut to size. */
static void add_name(char *names, const char *name)
{
	size_t used = strlen(names);
	snprintf(names + used, NAMES_SIZE - used, "%s%s", used == 0 ? "" : "|", name);
}

static const struct conntrack_deletion_ops *find(const char *name, char *message)
{
	char names[NAMES_SIZE] = "";
	const struct conntrack_deletion_ops *deletion = conntrack_deletion_by_name(name);
	if (deletion != NULL)
		return deletion;
	for (size_t i = 0; conntrack_deletion_at(i) != NULL; i++)
		add_name(names, conntrack_deletion_at(i)->name);
	options_refuse(message, name, "%s", names);
	return NULL;
}

/* ---- "wheel,interval=1ms,hints=off" ---------------------------------------------------------- */

#define CONFIG(field) offsetof(struct conntrack_config, field)

static const struct options_row knob_rows[] = {
	{ "interval", "T", "between passes, ticks or rotations", OPTIONS_KIND_TIME,
		.offset = CONFIG(knobs.interval_ns), .low = 1000, .high = OPTIONS_YEAR_NS },
	{ "budget", "N", "entries looked at per call, insertion or lookup", OPTIONS_KIND_COUNT32,
		.offset = CONFIG(knobs.budget), .low = 1, .high = UINT32_MAX },
	{ "slots", "N", "of a wheel; generations; places searched for a victim",
		OPTIONS_KIND_COUNT32, .offset = CONFIG(knobs.slots), .low = 1, .high = 1 << 24 },
	{ "hints", "on|off", "the strategy learns of FIN and RST at once", OPTIONS_KIND_SWITCH_OFF,
		.offset = CONFIG(no_close_hints) },
};

static bool has_knob(const struct conntrack_deletion_ops *deletion, const char *name)
{
	if (strcmp(name, "interval") == 0)
		return deletion->defaults.interval_ns != 0;
	if (strcmp(name, "budget") == 0)
		return deletion->defaults.budget != 0;
	return strcmp(name, "slots") != 0 || deletion->defaults.slots != 0;
}

static int refuse_knob(
	const struct conntrack_deletion_ops *deletion, const char *got, char *message)
{
	int length = snprintf(
		message, PIPELINE_MESSAGE_SIZE, "%s: got '%s', expected", deletion->name, got);
	const char *between = " ";
	for (size_t i = 0; i < BASE_ARRAY_COUNT(knob_rows); i++) {
		if (length < 0 || length >= PIPELINE_MESSAGE_SIZE)
			break;
		if (!has_knob(deletion, knob_rows[i].name))
			continue;
		length += snprintf(message + length, PIPELINE_MESSAGE_SIZE - (size_t)length, "%s%s",
			between, knob_rows[i].name);
		between = "|";
	}
	return -EINVAL;
}

int options_parse_deletion(struct options *options, void *target, const char *text, char *message)
{
	struct conntrack_config *config = &options->config.conntrack;
	char *rest = options_keep_text(options, text, strlen(text));
	(void)target;
	if (rest == NULL)
		return options_refuse_memory(message);
	char *word = options_split(&rest, ",");
	const struct conntrack_deletion_ops *deletion = find(word != NULL ? word : "", message);
	if (deletion == NULL)
		return -EINVAL;
	config->deletion = deletion;
	config->knobs = (struct conntrack_deletion_knobs){ 0 };
	config->no_close_hints = false;
	while ((word = options_split(&rest, ",")) != NULL) {
		char key[32];
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(word, "="), word);
		if (!has_knob(deletion, key))
			return refuse_knob(deletion, key, message);
		int error = options_rows_set_word(
			options, knob_rows, BASE_ARRAY_COUNT(knob_rows), config, word, message);
		if (error != 0)
			return error;
	}
	return 0;
}

/* ---- sheaf bench deletion ------------------------------------------------------------------ */

static int find_index(const void *context, const char *name, uint32_t *index, char *message)
{
	const struct conntrack_deletion_ops *deletion = find(name, message);
	(void)context;
	if (deletion == NULL)
		return -EINVAL;
	for (*index = 0; conntrack_deletion_at(*index) != deletion;)
		(*index)++;
	return 0;
}

static int parse_strategies(struct options *options, void *target, const char *text, char *message)
{
	struct options_names names = { .find = find_index };
	struct options_list list;
	(void)target;
	while (conntrack_deletion_at(names.count) != NULL)
		names.count++;
	int error = options_list_read(options, text, &names, &list, message);
	if (error == 0)
		options->bench_deletion.strategies = list.set;
	return error;
}

static int parse_table(struct options *options, void *target, const char *text, char *message)
{
	const struct conntrack_table_ops *table = conntrack_table_by_name(text);
	char names[NAMES_SIZE] = "";
	(void)target;
	for (size_t i = 0; conntrack_table_at(i) != NULL; i++)
		add_name(names, conntrack_table_at(i)->name);
	if (table == NULL)
		return options_refuse(message, text, "%s", names);
	options->bench_deletion.table = table;
	return 0;
}

static int parse_hints(struct options *options, void *target, const char *text, char *message)
{
	bool off = strcmp(text, "off") == 0;
	(void)target;
	if (!off && strcmp(text, "on") != 0)
		return options_refuse(message, text, "on or off");
	options->bench_deletion.no_close_hints = off;
	return 0;
}

#define BENCH        .commands = OPTIONS_OF(OPTIONS_BENCH_DELETION)
#define FIELD(field) .offset = OPTIONS_FIELD(bench_deletion.field)

static const struct options_row rows[] = {
	{ "strategies", "LIST", "to compare, by name", OPTIONS_KIND_CUSTOM, BENCH,
		.parse = parse_strategies, .otherwise = "all" },
	{ "table", "NAME", "that all use, but for a strategy with its own", OPTIONS_KIND_CUSTOM,
		BENCH, .parse = parse_table, .otherwise = "bucket" },
	{ "trace", "FILE", "a capture; generated packets unless given", OPTIONS_KIND_TEXT, BENCH,
		FIELD(trace) },
	{ "preset", "NAME", "of generated packets", OPTIONS_KIND_CHOICE, BENCH, FIELD(preset),
		.choices = "campus|backbone|scan|datacenter" },
	{ "packets", "N", "at most", OPTIONS_KIND_COUNT64, BENCH, FIELD(packets), .low = 1,
		.high = 1 << 26 },
	{ "pps", "N", "generated packets per second; 0 lets them last six timeouts",
		OPTIONS_KIND_COUNT64, BENCH, FIELD(packets_per_s), .high = 1000000000 },
	{ "timeout", "T", "of every state; 0 takes Linux's", OPTIONS_KIND_TIME, BENCH,
		FIELD(timeout_ns), .low = 0, .high = OPTIONS_YEAR_NS },
	{ "conns", "N", "entries; 0 is what live connections fill to 80 %", OPTIONS_KIND_COUNT32,
		BENCH, FIELD(conns), .low = 0, .high = 1 << 28 },
	{ "due", "N", "connections that fall due at one instant; 0 leaves that out",
		OPTIONS_KIND_COUNT32, BENCH, FIELD(due), .low = 0, .high = 1 << 24 },
	{ "warm", "SHARE", "of the packets' time that is not counted", OPTIONS_KIND_SHARE, BENCH,
		FIELD(warm) },
	{ "close-hints", "on|off", "strategies learn of FIN and RST at once", OPTIONS_KIND_CUSTOM,
		BENCH, .parse = parse_hints, .otherwise = "on" },
	{ "interval", "T", "for every strategy that has this knob", OPTIONS_KIND_TIME, BENCH,
		FIELD(knobs.interval_ns), .low = 1000, .high = OPTIONS_YEAR_NS },
	{ "budget", "N", "the same", OPTIONS_KIND_COUNT32, BENCH, FIELD(knobs.budget), .low = 1,
		.high = UINT32_MAX },
	{ "slots", "N", "the same", OPTIONS_KIND_COUNT32, BENCH, FIELD(knobs.slots), .low = 1,
		.high = 1 << 24 },
	{ "sweep", NULL, "each knob at five values", OPTIONS_KIND_SWITCH, BENCH, FIELD(sweep) },
	{ "no-judge", NULL, "do not compare answers with the oracle", OPTIONS_KIND_SWITCH, BENCH,
		FIELD(no_judge) },
	{ "burst", "N", "packets that are worked on together", OPTIONS_KIND_COUNT32, BENCH,
		FIELD(burst), .low = 1, .high = BASE_BURST_MAX },
	{ "ring", "N", "packets that may wait, for the rate at zero loss", OPTIONS_KIND_COUNT32,
		BENCH, FIELD(ring), .low = BASE_BURST_MAX, .high = 1 << 24 },
	{ "repeat", "N", "timed passes; cost is the median", OPTIONS_KIND_COUNT32, BENCH,
		FIELD(repeats), .low = 1, .high = BENCH_DELETION_REPEATS_MAX },
	{ "seed", "N", "of packets and tables", OPTIONS_KIND_COUNT64, BENCH, FIELD(seed), .low = 0,
		.high = INT64_MAX },
};

const struct options_row *options_deletion_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(rows);
	return rows;
}
