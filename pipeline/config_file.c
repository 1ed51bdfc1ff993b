/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes -> shape and lines (config_scan) -> values (libcyaml) -> options, in document order. */
#include "pipeline/config_file.h"

#include "pipeline/config_schema.h"
#include "pipeline/options_private.h"
#include "pipeline/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { REASON_SIZE = 160 };

/* What libcyaml says about a refusal, line by line. */
struct report {
	char reason[REASON_SIZE];            /* "Unexpected key: foo" */
	char field[CONFIG_SCAN_KEY_MAX + 1]; /* the innermost field, "" when there is none */
	char top[CONFIG_SCAN_KEY_MAX + 1];   /* the outermost */
	uint32_t line;                       /* innermost line; 0: not said */
};

struct reading {
	struct options *options;
	const char *path;
	struct config_scan *scan;
	struct config_schema *schema;
	struct config_slot *slots; /* loaded values; NULL before */
	char *message;
};

/* libcyaml's log callback. Its lines: a reason, "Backtrace:", then "in mapping field 'x' (line: 3,
 * column: 5)" from the inside out. */
static void take_log(cyaml_log_t level, void *context, const char *fmt, va_list arguments)
{
	struct report *report = context;
	char text[REASON_SIZE];
	unsigned int line;
	(void)level;
	vsnprintf(text, sizeof(text), fmt, arguments);
	text[strcspn(text, "\n")] = '\0';
	const char *at = strncmp(text, "Load: ", 6) == 0 ? text + 6 : text;
	const char *position = strstr(at, "(line: ");
	const char *field = strstr(at, "in mapping field '");
	if (report->reason[0] == '\0' && position == NULL)
		memcpy(report->reason, at, strlen(at) + 1);
	if (position != NULL && report->line == 0 && sscanf(position, "(line: %u", &line) == 1)
		report->line = line;
	if (field == NULL)
		return;
	/* From the inside out: the first is the innermost, the last the outermost. */
	field += strlen("in mapping field '");
	size_t length = strcspn(field, "'");
	snprintf(report->top, sizeof(report->top), "%.*s", (int)length, field);
	if (report->field[0] == '\0')
		memcpy(report->field, report->top, sizeof(report->field));
}

static const char *shape_name(const char *word)
{
	if (strncmp(word, "MAPPING", 7) == 0)
		return "a map";
	if (strncmp(word, "SEQUENCE", 8) == 0)
		return "a list";
	return "one value";
}

/* Top-level names that look like an unknown one are not guessed: the list is in the manual. */
static int refuse_key(struct reading *reading, const struct report *report, const char *key)
{
	const struct config_scan *scan = reading->scan;
	uint32_t line = report->line;
	/* libcyaml tells where it stood before the key. */
	for (uint32_t i = 1; i < scan->count; i++) {
		if (scan->nodes[i].line >= report->line && strcmp(scan->nodes[i].name, key) == 0) {
			line = scan->nodes[i].line;
			break;
		}
	}
	const struct options_row *row =
		report->field[0] == '\0' ? NULL
					 : options_find(reading->options->command, report->field);
	if (row != NULL && row->items_count > 0)
		options_refuse_key(reading->message, key, row->items, row->items_count);
	else if (row != NULL && row->kind == OPTIONS_KIND_CHAIN)
		options_refuse(reading->message, key, "name or a setting of a function");
	else
		options_refuse(reading->message, key, "an option of sheaf %s, or files",
			options_command_name(reading->options->command));
	if (row != NULL)
		options_refuse_at(reading->message, -EINVAL, "%s", report->field);
	return options_refuse_at(reading->message, -EINVAL, "%s:%u", reading->path, line);
}

/* Turn libcyaml's refusal into one line of ours. */
static int refuse_load(struct reading *reading, cyaml_err_t error, const struct report *report)
{
	static const char unexpected[] = "Unexpected key: ";
	static const char missing[] = "Missing required mapping field: ";
	char expected[32], got[32];
	char *message = reading->message;
	if (error == CYAML_ERR_OOM)
		return options_refuse_memory(message);
	if (strncmp(report->reason, unexpected, strlen(unexpected)) == 0)
		return refuse_key(reading, report, report->reason + strlen(unexpected));
	if (sscanf(report->reason, "Expecting %31[A-Z_], got event: %31[A-Z_]", expected, got) == 2)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "got %s, expected %s", shape_name(got),
			shape_name(expected));
	else if (strncmp(report->reason, missing, strlen(missing)) == 0)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "got no %s, expected one",
			report->reason + strlen(missing));
	else
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s",
			report->reason[0] == '\0' ? cyaml_strerror(error) : report->reason);
	bool inside =
		error != CYAML_ERR_MAPPING_FIELD_MISSING && strcmp(report->field, report->top) != 0;
	if (inside)
		options_refuse_at(message, -EINVAL, "%s", report->field);
	if (report->top[0] != '\0')
		options_refuse_at(message, -EINVAL, "%s", report->top);
	uint32_t line = report->line == 0 ? reading->scan->nodes[0].line : report->line;
	return options_refuse_at(message, -EINVAL, "%s:%u", reading->path, line);
}

/* Refusal of a value at a node. */
static int refuse_value(struct reading *reading, uint32_t node, int error)
{
	const struct config_scan *scan = reading->scan;
	uint32_t top = node;
	while (scan->nodes[top].parent != 0)
		top = scan->nodes[top].parent;
	return options_refuse_at(reading->message, error, "%s:%u: %s", reading->path,
		scan->nodes[node].line, scan->nodes[top].name);
}

static char **texts(const struct config_slot *slot)
{
	return slot->pointer;
}

/* A list's entries joined, for options that are sets: "prefetch,runs". */
static char *join(struct options *options, const struct config_slot *slot)
{
	size_t size = 1, used = 0;
	for (uint64_t i = 0; i < slot->count; i++)
		size += strlen(texts(slot)[i]) + 1;
	char *text = options_keep(options, size);
	for (uint64_t i = 0; text != NULL && i < slot->count; i++)
		used += (size_t)snprintf(
			text + used, size - used, "%s%s", i == 0 ? "" : ",", texts(slot)[i]);
	return text;
}

static int set_files(struct reading *reading, uint32_t node, const struct config_slot *slot)
{
	struct options *options = reading->options;
	options_files_clear(options);
	if (reading->scan->nodes[node].kind == CONFIG_SCAN_VALUE)
		return options_files_add(options, slot->pointer, reading->message);
	int error = 0;
	for (uint64_t i = 0; i < slot->count && error == 0; i++)
		error = options_files_add(options, texts(slot)[i], reading->message);
	return error;
}

static int set_items(struct reading *reading, uint32_t node, const struct options_row *row,
	const struct config_slot *items)
{
	const struct config_scan *scan = reading->scan;
	for (uint32_t i = node + 1; i < scan->count && scan->nodes[i].parent == node; i++) {
		const struct options_row *item = options_item_find(row, scan->nodes[i].name);
		BASE_ASSERT(item != NULL); /* libcyaml let it pass */
		const char *text = items[item - row->items].pointer;
		int error =
			options_set_item(reading->options, row, item->name, text, reading->message);
		if (error)
			return refuse_value(reading, i, error);
	}
	return 0;
}

/* One entry of the chain that is a map; the name counts first, wherever it stands. */
static int set_function(struct reading *reading, uint32_t node, const struct config_slot *slots)
{
	const struct config_scan *scan = reading->scan;
	const struct config_schema *schema = reading->schema;
	struct options *options = reading->options;
	int error = options_chain_add(options, slots[0].pointer, reading->message);
	if (error)
		return refuse_value(reading, node, error);
	for (uint32_t i = node + 1; i < scan->count; i++) {
		if (scan->nodes[i].parent != node)
			continue;
		int slot = config_schema_chain_find(schema, scan->nodes[i].name);
		BASE_ASSERT(slot >= 0);
		const struct config_slot *value = &slots[slot];
		if (slot == 0)
			continue;
		if (scan->nodes[i].kind == CONFIG_SCAN_VALUE)
			error = options_chain_set(
				options, scan->nodes[i].name, value->pointer, reading->message);
		for (uint64_t k = 0;
			scan->nodes[i].kind == CONFIG_SCAN_LIST && error == 0 && k < value->count;
			k++)
			error = options_chain_set(
				options, scan->nodes[i].name, texts(value)[k], reading->message);
		if (error) {
			options_refuse_at(
				reading->message, error, "%s", (const char *)slots[0].pointer);
			return refuse_value(reading, i, error);
		}
	}
	return 0;
}

static int set_chain(struct reading *reading, uint32_t node, const struct config_slot *slot)
{
	const struct config_scan *scan = reading->scan;
	size_t keys_count = reading->schema->chain_keys_count;
	options_chain_clear(reading->options);
	for (uint32_t i = node + 1; i < scan->count; i++) {
		if (scan->nodes[i].parent != node)
			continue;
		int error;
		uint32_t position = scan->nodes[i].position;
		if (scan->nodes[i].kind == CONFIG_SCAN_MAP) {
			const struct config_slot *entries = slot->pointer;
			error = set_function(reading, i, &entries[position * keys_count]);
			if (error)
				return error;
			continue;
		}
		error = options_chain_add_text(
			reading->options, texts(slot)[position], reading->message);
		if (error)
			return refuse_value(reading, i, error);
	}
	return 0;
}

/* One top-level key. Errors that know their own line come back as they are. */
static int set_top(struct reading *reading, uint32_t node)
{
	const struct config_scan_node *at = &reading->scan->nodes[node];
	int slot_index = config_schema_find(reading->schema, at->name);
	BASE_ASSERT(slot_index >= 0);
	const struct options_row *row = reading->schema->rows[slot_index];
	const struct config_slot *slot = &reading->slots[slot_index];
	const char *text = slot->pointer;
	int error;
	if (row != NULL && row->kind == OPTIONS_KIND_ITEMS && at->kind == CONFIG_SCAN_MAP)
		return set_items(reading, node, row, slot->pointer);
	if (row != NULL && row->kind == OPTIONS_KIND_CHAIN && at->kind == CONFIG_SCAN_LIST)
		return set_chain(reading, node, slot);
	if (row == NULL) {
		error = set_files(reading, node, slot);
	} else {
		if (at->kind == CONFIG_SCAN_LIST)
			text = join(reading->options, slot);
		error = text == NULL ? options_refuse_memory(reading->message)
				     : options_set(reading->options, row, text, reading->message);
	}
	return error ? refuse_value(reading, node, error) : 0;
}

static int load_values(struct reading *reading, const uint8_t *text, size_t text_size)
{
	struct report report = { .line = 0 };
	const cyaml_config_t config = {
		.log_fn = take_log,
		.log_ctx = &report,
		.mem_fn = cyaml_mem,
		.log_level = CYAML_LOG_ERROR,
		.flags = CYAML_CFG_NO_ALIAS,
	};
	const struct config_scan *scan = reading->scan;
	cyaml_data_t *loaded = NULL;
	cyaml_err_t failed =
		cyaml_load_data(text, text_size, &config, &reading->schema->root, &loaded, NULL);
	if (failed != CYAML_OK)
		return refuse_load(reading, failed, &report);
	int error = 0;
	reading->slots = loaded;
	for (uint32_t i = 1; loaded != NULL && i < scan->count && error == 0; i++) {
		if (scan->nodes[i].parent == 0)
			error = set_top(reading, i);
	}
	cyaml_free(&config, &reading->schema->root, loaded, 0);
	return error;
}

int config_file_parse(struct options *options, const char *path, const uint8_t *text,
	size_t text_size, char *message)
{
	char reason[REASON_SIZE], shown[REASON_SIZE];
	uint32_t line = 0;
	units_quote(path, shown, sizeof(shown));
	struct reading reading = { .options = options, .path = shown, .message = message };
	reading.scan = options_keep(options, sizeof(*reading.scan));
	if (reading.scan == NULL)
		return options_refuse_memory(message);
	int error = config_scan_read(reading.scan, text, text_size, &line, reason, sizeof(reason));
	if (error == -ENOMEM)
		return options_refuse_memory(message);
	if (error) {
		units_quote(reason, message, PIPELINE_MESSAGE_SIZE);
		return options_refuse_at(message, error, "%s:%u", shown, line);
	}
	if (reading.scan->count == 0)
		return 0; /* an empty file says nothing */
	error = config_schema_create(&reading.schema, options, reading.scan);
	if (error)
		return options_refuse_memory(message);
	return load_values(&reading, text, text_size);
}

int config_file_read(struct options *options, const char *path, char *message)
{
	char shown[REASON_SIZE];
	units_quote(path, shown, sizeof(shown));
	uint8_t *text = malloc(CONFIG_FILE_BYTES_MAX + 1);
	if (text == NULL)
		return options_refuse_memory(message);
	FILE *file = fopen(path, "rb");
	size_t size = file == NULL ? 0 : fread(text, 1, CONFIG_FILE_BYTES_MAX + 1, file);
	int error = file == NULL || ferror(file) != 0 ? -errno : 0;
	if (file != NULL)
		fclose(file);
	if (error) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s: %s", shown, strerror(-error));
	} else if (size > CONFIG_FILE_BYTES_MAX) {
		error = -EFBIG;
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"%s: got more than %d bytes, expected at most %d", shown,
			CONFIG_FILE_BYTES_MAX, CONFIG_FILE_BYTES_MAX);
	} else {
		error = config_file_parse(options, path, text, size, message);
	}
	free(text);
	return error;
}
