/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/lb_schedule.h"

#include "pipeline/config_scan.h"
#include "pipeline/pipeline.h"
#include "pipeline/units.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_BYTES_MAX = 1 << 20, REASON_SIZE = 160, KEYS_COUNT = 3 };

/* As it stands in the file. */
struct entry {
	char *at, *action, *backend;
};

#define TEXT(name)                                                                                 \
	CYAML_FIELD_STRING_PTR(                                                                    \
		#name, CYAML_FLAG_POINTER, struct entry, name, 0, CONFIG_SCAN_VALUE_MAX)
static const cyaml_schema_field_t entry_fields[KEYS_COUNT + 1] = {
	TEXT(at),
	TEXT(action),
	TEXT(backend),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t entry_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct entry, entry_fields),
};

static const cyaml_schema_value_t list_schema = {
	CYAML_VALUE_SEQUENCE(
		CYAML_FLAG_POINTER, struct entry, &entry_schema, 0, CHAIN_LB_CHANGES_MAX),
};

/* A file being read. libcyaml loads the values but forgets the lines; config_scan knows them. */
struct reading {
	const char *path;
	const struct config_scan *scan;
	char *message;
};

static int refuse(const struct reading *reading, uint32_t line, const char *fmt, ...)
	BASE_PRINTF(3, 4);
static int refuse(const struct reading *reading, uint32_t line, const char *fmt, ...)
{
	char text[PIPELINE_MESSAGE_SIZE];
	va_list arguments;
	va_start(arguments, fmt);
	vsnprintf(text, sizeof(text), fmt, arguments);
	va_end(arguments);
	snprintf(reading->message, PIPELINE_MESSAGE_SIZE, "%.200s:%u: %.250s", reading->path, line,
		text);
	return -EINVAL;
}

/* The value of a change's field: refused where it stands. */
static int refuse_value(const struct reading *reading, uint32_t change, const char *field,
	const char *got, const char *expected)
{
	const struct config_scan *scan = reading->scan;
	char quoted[80];
	uint32_t line = 0, entry = 0;
	for (uint32_t i = 1; i < scan->count; i++) {
		const struct config_scan_node *node = &scan->nodes[i];
		if (node->parent == 0 && node->position == change)
			line = scan->nodes[entry = i].line;
		else if (entry != 0 && node->parent == entry && strcmp(node->name, field) == 0)
			line = node->line;
	}
	units_quote(got, quoted, sizeof(quoted));
	return refuse(reading, line, "change %u: %s: got '%s', expected %s", change + 1, field,
		quoted, expected);
}

static int convert(const struct reading *reading, const struct entry *entry, uint32_t index,
	struct chain_lb_change *change)
{
	static const char *const actions[] = {
		[CHAIN_LB_ADD] = "add",
		[CHAIN_LB_DRAIN] = "drain",
		[CHAIN_LB_REMOVE] = "remove",
	};
	size_t action = 0;
	if (units_parse_time_ns(entry->at, &change->at_ns) != 0)
		return refuse_value(
			reading, index, "at", entry->at, "a time with its unit, such as 250ms");
	while (action < BASE_ARRAY_COUNT(actions) && strcmp(actions[action], entry->action) != 0)
		action++;
	if (action == BASE_ARRAY_COUNT(actions))
		return refuse_value(
			reading, index, "action", entry->action, "add, drain or remove");
	change->action = (enum chain_lb_action)action;
	if (entry->backend[0] == '\0' || strlen(entry->backend) >= sizeof(change->backend))
		return refuse_value(reading, index, "backend", entry->backend, "a backend's name");
	snprintf(change->backend, sizeof(change->backend), "%s", entry->backend);
	if (index > 0 && change->at_ns < change[-1].at_ns)
		return refuse_value(reading, index, "at", entry->at, "changes in order of time");
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
	errno = 0;
	*size = bytes == NULL ? 0 : fread(bytes, 1, FILE_BYTES_MAX, file);
	*error = bytes == NULL             ? -ENOMEM
		 : ferror(file)            ? -errno
		 : *size == FILE_BYTES_MAX ? -EFBIG
					   : 0;
	fclose(file);
	if (*error == 0)
		return bytes;
	free(bytes);
	return NULL;
}

/* The node at `at` is a change: a map of the three fields. */
static int check_change(const struct reading *reading, uint32_t at)
{
	const struct config_scan *scan = reading->scan;
	uint32_t seen = 0, number = scan->nodes[at].position + 1, line = scan->nodes[at].line;
	if (scan->nodes[at].kind != CONFIG_SCAN_MAP)
		return refuse(reading, line, "change %u: expected at, action and backend", number);
	if (number > CHAIN_LB_CHANGES_MAX)
		return refuse(reading, line, "change %u: expected at most %d changes", number,
			CHAIN_LB_CHANGES_MAX);
	for (uint32_t i = at + 1; i < scan->count && scan->nodes[i].parent >= at; i++) {
		const struct config_scan_node *node = &scan->nodes[i];
		uint32_t key = 0;
		while (key < KEYS_COUNT && strcmp(entry_fields[key].key, node->name) != 0)
			key++;
		if (key == KEYS_COUNT)
			return refuse(reading, node->line,
				"change %u: got '%s', expected at, action or backend", number,
				node->name);
		if (node->kind != CONFIG_SCAN_VALUE)
			return refuse(reading, node->line, "change %u: %s: expected one value",
				number, node->name);
		seen |= 1u << key;
	}
	for (uint32_t key = 0; key < KEYS_COUNT; key++) {
		if ((seen >> key & 1) == 0)
			return refuse(reading, line, "change %u: got no %s, expected one", number,
				entry_fields[key].key);
	}
	return 0;
}

static int check_shape(const struct reading *reading)
{
	const struct config_scan *scan = reading->scan;
	if (scan->count == 0)
		return refuse(reading, 1, "got nothing, expected a list of changes; [] has none");
	if (scan->nodes[0].kind != CONFIG_SCAN_LIST)
		return refuse(reading, scan->nodes[0].line,
			"expected a list of changes: at, action, backend");
	int error = 0;
	for (uint32_t i = 1; i < scan->count && error == 0; i++) {
		if (scan->nodes[i].parent == 0)
			error = check_change(reading, i);
	}
	return error;
}

static int load(const struct reading *reading, const uint8_t *bytes, size_t size,
	struct chain_lb_change *changes, uint32_t *changes_count)
{
	const cyaml_config_t config = {
		.mem_fn = cyaml_mem,
		.log_level = CYAML_LOG_ERROR,
		.flags = CYAML_CFG_NO_ALIAS,
	};
	struct chain_lb_change read[CHAIN_LB_CHANGES_MAX];
	struct entry *entries = NULL;
	unsigned int count = 0;
	cyaml_err_t failed = cyaml_load_data(
		bytes, size, &config, &list_schema, (cyaml_data_t **)&entries, &count);
	if (failed == CYAML_ERR_OOM)
		return -ENOMEM;
	if (failed != CYAML_OK)
		return refuse(reading, 1, "%s", cyaml_strerror(failed));
	int error = 0;
	for (unsigned int i = 0; i < count && error == 0; i++)
		error = convert(reading, &entries[i], i, &read[i]);
	cyaml_free(&config, &list_schema, entries, count);
	if (error != 0)
		return error;
	memcpy(changes, read, count * sizeof(*read));
	*changes_count = count;
	return 0;
}

static int parse(const char *path, const uint8_t *bytes, size_t size,
	struct chain_lb_change *changes, uint32_t *changes_count, char *message)
{
	char reason[REASON_SIZE], shown[REASON_SIZE];
	uint32_t line = 0;
	struct config_scan *scan = malloc(sizeof(*scan));
	const struct reading reading = { path, scan, message };
	if (scan == NULL)
		return -ENOMEM;
	int error = config_scan_read(scan, bytes, size, &line, reason, sizeof(reason));
	if (error == -EINVAL) {
		units_quote(reason, shown, sizeof(shown));
		refuse(&reading, line, "%s", shown);
	}
	if (error == 0)
		error = check_shape(&reading);
	if (error == 0)
		error = load(&reading, bytes, size, changes, changes_count);
	free(scan);
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
	if (error == -ENOMEM)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%.400s: out of memory", path);
	return error;
}
