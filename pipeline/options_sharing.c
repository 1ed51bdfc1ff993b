/* SPDX-License-Identifier: BSD-2-Clause */
/* Sharing models on the command line, and the rows of sheaf bench sharing. */
#include "conntrack/shared.h"
#include "pipeline/options_private.h"
#include "pipeline/sharing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES_SIZE = 256 };

static const struct conntrack_sharing_ops *find(const char *name, char *message)
{
	char names[NAMES_SIZE] = "";
	const struct conntrack_sharing_ops *sharing = conntrack_sharing_by_name(name);
	if (sharing != NULL)
		return sharing;
	for (size_t i = 0, used = 0; (sharing = conntrack_sharing_at(i)) != NULL; i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
			i == 0 ? "" : "|", sharing->name);
	options_refuse(message, name, "%s", names);
	return NULL;
}

/* Models of the bench that the whole path cannot have, and why. */
struct refusal {
	const char *name, *why;
};

static const struct refusal refusals[] = {
	{ "readers", "a replay has nobody who only reads" },
	{ "lockfree", "states, timers and a chain's memory cannot change in one atomic step" },
	{ "rwlock", "every packet changes its connection, its counters and its chain's memory" },
};

static const struct options_row handover_rows[] = {
	{ "every", "T", "of capture time, after which groups change workers", OPTIONS_KIND_TIME,
		.offset = offsetof(struct pipeline_config, handover_ns), .low = 1000,
		.high = OPTIONS_YEAR_NS },
};

/* "handover,every=1ms" */
static int parse_handover(struct options *options, const char *text, char *message)
{
	char *rest = options_keep_text(options, text, strlen(text));
	int error = 0;
	if (rest == NULL)
		return options_refuse_memory(message);
	char *word = options_split(&rest, ","); /* the name */
	while (error == 0 && (word = options_split(&rest, ",")) != NULL)
		error = options_rows_set_word(options, handover_rows,
			BASE_ARRAY_COUNT(handover_rows), &options->config, word, message);
	if (error == 0)
		options->config.sharing = PIPELINE_SHARING_HANDOVER;
	return error;
}

/* Of a replay: the whole path, not the table alone. */
int options_parse_sharing(struct options *options, void *target, const char *text, char *message)
{
	char names[NAMES_SIZE] = "";
	const char *why = "";
	(void)target;
	if (strncmp(text, "handover,", 9) == 0)
		return parse_handover(options, text, message);
	for (size_t i = 0, used = 0; i < PIPELINE_SHARING_KINDS_COUNT; i++) {
		const char *name = sharing_name((enum pipeline_sharing_kind)i);
		if (strcmp(text, name) == 0) {
			options->config.sharing = (enum pipeline_sharing_kind)i;
			return 0;
		}
		used += (size_t)snprintf(
			names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : "|", name);
	}
	for (size_t i = 0; i < BASE_ARRAY_COUNT(refusals); i++) {
		if (strcmp(text, refusals[i].name) == 0)
			why = refusals[i].why;
	}
	return options_refuse(message, text, "%s%s%s", names, why[0] == '\0' ? "" : "; ", why);
}

static int find_index(const void *context, const char *name, uint32_t *index, char *message)
{
	const struct conntrack_sharing_ops *sharing = find(name, message);
	(void)context;
	if (sharing == NULL)
		return -EINVAL;
	for (*index = 0; conntrack_sharing_at(*index) != sharing;)
		(*index)++;
	return 0;
}

static int parse_models(struct options *options, void *target, const char *text, char *message)
{
	struct options_names names = { .find = find_index };
	struct options_list list;
	(void)target;
	while (conntrack_sharing_at(names.count) != NULL)
		names.count++;
	int error = options_list_read(options, text, &names, &list, message);
	if (error == 0)
		options->bench_sharing.models = list.set;
	return error;
}

/* "1,2,4" */
static int parse_workers(struct options *options, void *target, const char *text, char *message)
{
	struct bench_sharing_options *bench = &options->bench_sharing;
	char *rest = options_keep_text(options, text, strlen(text));
	uint32_t counts[BENCH_SHARING_COUNTS_MAX], used = 0;
	(void)target;
	if (rest == NULL)
		return options_refuse_memory(message);
	for (char *word; (word = options_split(&rest, ",")) != NULL;) {
		char *end;
		unsigned long count = strtoul(word, &end, 10);
		if (word[0] < '0' || word[0] > '9' || *end != '\0' || count == 0 ||
			count > CONNTRACK_SHARED_WORKERS_MAX || used == BENCH_SHARING_COUNTS_MAX ||
			(used != 0 && count <= counts[used - 1]))
			return options_refuse(message, text,
				"up to %d rising counts from 1 to %d, such as 1,2,4",
				BENCH_SHARING_COUNTS_MAX, CONNTRACK_SHARED_WORKERS_MAX);
		counts[used++] = (uint32_t)count;
	}
	memcpy(bench->workers, counts, used * sizeof(*counts));
	bench->workers_count = used;
	return 0;
}

#define BENCH        .commands = OPTIONS_OF(OPTIONS_BENCH_SHARING)
#define FIELD(field) .offset = OPTIONS_FIELD(bench_sharing.field)

static const struct options_row rows[] = {
	{ "sharing", "LIST", "models to compare, by name", OPTIONS_KIND_CUSTOM, BENCH,
		.parse = parse_models, .otherwise = "all" },
	{ "workers", "LIST", "numbers of workers, such as 1,2,4", OPTIONS_KIND_CUSTOM, BENCH,
		.parse = parse_workers, .otherwise = "1,2" },
	{ "trace", "FILE", "a capture; made traffic unless given", OPTIONS_KIND_TEXT, BENCH,
		FIELD(trace) },
	{ "flows", "N", "connections of made traffic", OPTIONS_KIND_COUNT64, BENCH, FIELD(flows),
		.low = 1, .high = 1 << 24 },
	{ "packets", "N", "of made traffic, at least three per connection; of a capture at most",
		OPTIONS_KIND_COUNT64, BENCH, FIELD(packets), .low = 1, .high = 1 << 26 },
	{ "duration", "T", "of made traffic", OPTIONS_KIND_TIME, BENCH, FIELD(duration_ns),
		.low = 1000000, .high = OPTIONS_YEAR_NS },
	{ "timeout", "T", "of every connection; 0 means never", OPTIONS_KIND_TIME, BENCH,
		FIELD(timeout_ns), .low = 0, .high = OPTIONS_YEAR_NS },
	{ "conns", "N", "entries of all workers; 0 is a quarter more than there are flows",
		OPTIONS_KIND_COUNT32, BENCH, FIELD(conns), .low = 0, .high = 1 << 28 },
	{ "spread", NULL, "bursts go to workers in turn, not to their connection's worker",
		OPTIONS_KIND_SWITCH, BENCH, FIELD(spread) },
	{ "moves", "N", "buckets handed over in a pass with several workers", OPTIONS_KIND_COUNT32,
		BENCH, FIELD(moves), .low = 0, .high = 1 << 20 },
	{ "dump-time", "T", "that a dump of the table takes; 0 is four fifths of a pass",
		OPTIONS_KIND_TIME, BENCH, FIELD(dump_ns), .low = 0, .high = OPTIONS_YEAR_NS },
	{ "no-dump", NULL, "do not measure what a dump costs", OPTIONS_KIND_SWITCH, BENCH,
		FIELD(no_dump) },
	{ "no-judge", NULL, "do not compare connections with those of one thread",
		OPTIONS_KIND_SWITCH, BENCH, FIELD(no_judge) },
	{ "burst", "N", "packets that are worked on together", OPTIONS_KIND_COUNT32, BENCH,
		FIELD(burst), .low = 1, .high = BASE_BURST_MAX },
	{ "rounds", "N", "timed passes of each row", OPTIONS_KIND_COUNT32, BENCH, FIELD(rounds),
		.low = 1, .high = BENCH_SHARING_ROUNDS_MAX },
	{ "seed", "N", "of made traffic and tables", OPTIONS_KIND_COUNT64, BENCH, FIELD(seed),
		.low = 0, .high = INT64_MAX },
};

const struct options_row *options_sharing_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(rows);
	return rows;
}
