/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/lb_schedule.h"

#include "pipeline/pipeline.h"
#include "pipeline/units.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_BYTES_MAX = 1 << 20, REASON_SIZE = 160 };

/* As it stands in the file. */
struct entry {
	char *at, *action, *backend;
};

static const cyaml_schema_field_t entry_fields[] = {
	CYAML_FIELD_STRING_PTR("at", CYAML_FLAG_POINTER, struct entry, at, 1, 64),
	CYAML_FIELD_STRING_PTR("action", CYAML_FLAG_POINTER, struct entry, action, 1, 16),
	CYAML_FIELD_STRING_PTR(
		"backend", CYAML_FLAG_POINTER, struct entry, backend, 1, CHAIN_NAME_SIZE - 1),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t entry_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct entry, entry_fields),
};

static const cyaml_schema_value_t list_schema = {
	CYAML_VALUE_SEQUENCE(
		CYAML_FLAG_POINTER, struct entry, &entry_schema, 0, CHAIN_LB_CHANGES_MAX),
};

/* The first reason and the first line that libcyaml names. */
struct report {
	char reason[REASON_SIZE];
	unsigned int line;
};

static void take_log(cyaml_log_t level, void *context, const char *fmt, va_list arguments)
{
	struct report *report = context;
	char text[REASON_SIZE];
	(void)level;
	vsnprintf(text, sizeof(text), fmt, arguments);
	text[strcspn(text, "\n")] = '\0';
	const char *position = strstr(text, "(line: ");
	if (position != NULL && report->line == 0)
		(void)sscanf(position, "(line: %u", &report->line);
	if (position == NULL && report->reason[0] == '\0')
		units_quote(strncmp(text, "Load: ", 6) == 0 ? text + 6 : text, report->reason,
			sizeof(report->reason));
}

static int refuse(
	char *message, const char *path, unsigned int index, const char *got, const char *expected)
{
	char quoted[80];
	units_quote(got, quoted, sizeof(quoted));
	snprintf(message, PIPELINE_MESSAGE_SIZE, "%.300s: change %u: got '%s', expected %s", path,
		index + 1, quoted, expected);
	return -EINVAL;
}

static int convert(const struct entry *entry, unsigned int index, const char *path,
	struct chain_lb_change *change, char *message)
{
	static const char *const actions[] = {
		[CHAIN_LB_ADD] = "add",
		[CHAIN_LB_DRAIN] = "drain",
		[CHAIN_LB_REMOVE] = "remove",
	};
	size_t action = 0;
	if (units_parse_time_ns(entry->at, &change->at_ns) != 0)
		return refuse(
			message, path, index, entry->at, "a time with its unit, such as 250ms");
	while (action < BASE_ARRAY_COUNT(actions) && strcmp(actions[action], entry->action) != 0)
		action++;
	if (action == BASE_ARRAY_COUNT(actions))
		return refuse(message, path, index, entry->action, "add, drain or remove");
	change->action = (enum chain_lb_action)action;
	snprintf(change->backend, sizeof(change->backend), "%s", entry->backend);
	if (index > 0 && change->at_ns < change[-1].at_ns)
		return refuse(message, path, index, entry->at, "changes in order of time");
	return 0;
}

/* Whole file; NULL with *error. */
static uint8_t *read_file(const char *path, size_t *size, int *error)
{
	FILE *file = fopen(path, "r");
	if (file == NULL) {
		*error = -errno;
		return NULL;
	}
	uint8_t *bytes = malloc(FILE_BYTES_MAX);
	*size = bytes == NULL ? 0 : fread(bytes, 1, FILE_BYTES_MAX, file);
	*error = bytes == NULL             ? -ENOMEM
		 : ferror(file)            ? -EIO
		 : *size == FILE_BYTES_MAX ? -EFBIG
					   : 0;
	fclose(file);
	if (*error == 0)
		return bytes;
	free(bytes);
	return NULL;
}

static int parse(const char *path, const uint8_t *bytes, size_t size,
	struct chain_lb_change *changes, uint32_t *changes_count, char *message)
{
	struct report report = { .line = 0 };
	const cyaml_config_t config = {
		.log_fn = take_log,
		.log_ctx = &report,
		.mem_fn = cyaml_mem,
		.log_level = CYAML_LOG_ERROR,
		.flags = CYAML_CFG_NO_ALIAS,
	};
	struct entry *entries = NULL;
	unsigned int count = 0;
	cyaml_err_t failed = cyaml_load_data(
		bytes, size, &config, &list_schema, (cyaml_data_t **)&entries, &count);
	if (failed != CYAML_OK) {
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"%.200s:%u: %.150s; expected a list of changes: at, action, backend", path,
			report.line,
			report.reason[0] != '\0' ? report.reason : cyaml_strerror(failed));
		return -EINVAL;
	}
	int error = 0;
	for (unsigned int i = 0; i < count && error == 0; i++)
		error = convert(&entries[i], i, path, &changes[i], message);
	cyaml_free(&config, &list_schema, entries, count);
	if (error == 0)
		*changes_count = count;
	return error;
}

int lb_schedule_read(
	const char *path, struct chain_lb_change *changes, uint32_t *changes_count, char *message)
{
	size_t size;
	int error;
	uint8_t *bytes = read_file(path, &size, &error);
	if (bytes == NULL) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%.400s: %s", path, strerror(-error));
		return error;
	}
	error = parse(path, bytes, size, changes, changes_count, message);
	free(bytes);
	return error;
}
