/* SPDX-License-Identifier: BSD-2-Clause */
/* Hardware counters in documents and for people: the same for all commands that measure. */
#include "pipeline/results.h"

#include <stdio.h>

enum { NAME_COLUMN = 32, COLUMN = 13 };

void results_put_counters(
	struct results_builder *builder, json_t *object, const struct counters_sum *sum)
{
	json_t *values = json_object();
	if (!counters_any(sum)) {
		json_decref(values);
		results_put(builder, object, "hardware_counters", json_null());
		return;
	}
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		if (counters_error(sum, i) == 0)
			results_put_real(builder, values, counters_event_name(i),
				counters_per_operation(sum, i));
		else
			results_put(builder, values, counters_event_name(i), json_null());
	}
	results_put_count(builder, values, "operations", sum->operations);
	results_put(builder, object, "hardware_counters", values);
}

void results_append_uncounted(
	struct results_builder *builder, json_t *array, const struct counters_sum *sum)
{
	char why[COUNTERS_WHY_SIZE];
	counters_why(sum, why);
	if (why[0] != '\0')
		results_append(builder, array, json_sprintf("hardware_counters: %s", why));
}

void results_put_uncounted(
	struct results_builder *builder, json_t *object, const struct counters_sum *sum)
{
	json_t *missing = json_array();
	results_append_uncounted(builder, missing, sum);
	results_put(builder, object, "not_measured", missing);
}

void results_counters_head(FILE *stream, const struct counters_sum *sum, const char *operation)
{
	if (!counters_any(sum))
		return;
	fprintf(stream, "\ncounted by the processor, per %s\n%-*s", operation, NAME_COLUMN, "");
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		fprintf(stream, " %*s", COLUMN, counters_event_name(i));
	fprintf(stream, "\n");
}

void results_counters_row(FILE *stream, const char *name, const struct counters_sum *sum)
{
	if (!counters_any(sum))
		return;
	fprintf(stream, "%-*s", NAME_COLUMN, name);
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		if (counters_error(sum, i) == 0)
			fprintf(stream, " %*.3f", COLUMN, counters_per_operation(sum, i));
		else
			fprintf(stream, " %*s", COLUMN, "-");
	}
	fprintf(stream, "\n");
}

void results_counters_print_why(FILE *stream, const struct counters_sum *sum)
{
	char why[COUNTERS_WHY_SIZE];
	counters_why(sum, why);
	if (why[0] != '\0')
		fprintf(stream, "%-10s not measured: %s\n", "counters", why);
}

void results_counters_print_line(FILE *stream, const struct counters_sum *sum)
{
	const char *separator = "per packet: ";
	if (counters_any(sum))
		fprintf(stream, "%-10s ", "counters");
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		if (counters_error(sum, i) != 0)
			continue;
		fprintf(stream, "%s%s %.2f", separator, counters_event_name(i),
			counters_per_operation(sum, i));
		separator = ", ";
	}
	if (counters_any(sum))
		fprintf(stream, "\n");
	results_counters_print_why(stream, sum);
}
