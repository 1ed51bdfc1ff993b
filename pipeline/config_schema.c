/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/config_schema.h"

#include "pipeline/options_private.h"

#include <errno.h>
#include <string.h>

static const cyaml_schema_value_t text_entry = {
	.type = CYAML_STRING,
	.flags = CYAML_FLAG_POINTER,
	.data_size = 1,
	.string = { .min = 0, .max = CONFIG_SCAN_VALUE_MAX },
};

/* Field number `slot` of a map, as text. */
static cyaml_schema_field_t text_field(const char *key, size_t slot)
{
	cyaml_schema_field_t field = { .key = key };
	field.data_offset = (uint32_t)(slot * sizeof(struct config_slot));
	field.count_offset = field.data_offset + (uint32_t)offsetof(struct config_slot, count);
	field.count_size = sizeof(uint64_t);
	field.value = text_entry;
	field.value.flags |= CYAML_FLAG_OPTIONAL;
	return field;
}

static void make_list(cyaml_schema_field_t *field, const cyaml_schema_value_t *entry)
{
	field->value.type = CYAML_SEQUENCE;
	field->value.data_size = entry->type == CYAML_MAPPING ? entry->data_size : sizeof(char *);
	field->value.sequence.entry = entry;
	field->value.sequence.min = 0;
	field->value.sequence.max = CONFIG_SCAN_NODES_MAX;
}

static void make_map(
	cyaml_schema_value_t *value, const cyaml_schema_field_t *fields, size_t fields_count)
{
	value->type = CYAML_MAPPING;
	value->data_size = (uint32_t)(fields_count * sizeof(struct config_slot));
	value->mapping.fields = fields;
}

/* The node of a top-level key; NULL when the document has none. */
static const struct config_scan_node *top_node(
	const struct config_scan *scan, const char *name, const struct config_scan_node **child)
{
	for (uint32_t i = 1; i < scan->count; i++) {
		if (scan->nodes[i].parent != 0 || strcmp(scan->nodes[i].name, name) != 0)
			continue;
		bool has_child = i + 1 < scan->count && scan->nodes[i + 1].parent == i;
		*child = has_child ? &scan->nodes[i + 1] : NULL;
		return &scan->nodes[i];
	}
	return NULL;
}

static int items_schema(
	struct options *options, const struct options_row *row, cyaml_schema_value_t *value)
{
	cyaml_schema_field_t *fields =
		options_keep(options, (row->items_count + 1) * sizeof(*fields));
	if (fields == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < row->items_count; i++)
		fields[i] = text_field(row->items[i].name, i);
	make_map(value, fields, row->items_count);
	return 0;
}

static bool known(const struct config_schema *schema, const char *key)
{
	return config_schema_chain_find(schema, key) >= 0;
}

/* A map of the chain may hold any function's items; which belong to its function is checked when
 * they are set. */
static int chain_entry_schema(
	struct options *options, struct config_schema *schema, cyaml_schema_value_t *entry)
{
	size_t room = 1, count;
	for (enum chain_kind kind = 0; kind < CHAIN_KINDS_COUNT; kind++) {
		options_chain_items(kind, &count);
		room += count;
	}
	schema->chain_keys = options_keep(options, room * sizeof(*schema->chain_keys));
	cyaml_schema_field_t *fields = options_keep(options, (room + 1) * sizeof(*fields));
	if (schema->chain_keys == NULL || fields == NULL)
		return -ENOMEM;
	fields[0] = text_field("name", 0);
	fields[0].value.flags = CYAML_FLAG_POINTER;
	schema->chain_keys[schema->chain_keys_count++] = "name";
	for (enum chain_kind kind = 0; kind < CHAIN_KINDS_COUNT; kind++) {
		const struct options_row *items = options_chain_items(kind, &count);
		for (size_t i = 0; i < count; i++) {
			if (known(schema, items[i].name))
				continue;
			size_t slot = schema->chain_keys_count++;
			schema->chain_keys[slot] = items[i].name;
			fields[slot] = text_field(items[i].name, slot);
			if (items[i].kind == OPTIONS_KIND_CUSTOMS)
				make_list(&fields[slot], &text_entry);
		}
	}
	make_map(entry, fields, schema->chain_keys_count);
	return 0;
}

/* How this document writes the option. */
static int shape_field(struct options *options, struct config_schema *schema,
	const struct config_scan *scan, const struct options_row *row, cyaml_schema_field_t *field)
{
	const struct config_scan_node *child = NULL;
	const struct config_scan_node *node = top_node(scan, field->key, &child);
	bool may_be_list =
		row == NULL || row->kind == OPTIONS_KIND_SET || row->kind == OPTIONS_KIND_CHAIN;
	if (node == NULL)
		return 0;
	if (row != NULL && row->kind == OPTIONS_KIND_ITEMS && node->kind == CONFIG_SCAN_MAP)
		return items_schema(options, row, &field->value);
	if (!may_be_list || node->kind != CONFIG_SCAN_LIST)
		return 0;
	bool of_maps = row != NULL && row->kind == OPTIONS_KIND_CHAIN && child != NULL &&
		       child->kind == CONFIG_SCAN_MAP;
	if (!of_maps) {
		make_list(field, &text_entry);
		return 0;
	}
	cyaml_schema_value_t *entry = options_keep(options, sizeof(*entry));
	if (entry == NULL || chain_entry_schema(options, schema, entry) != 0)
		return -ENOMEM;
	make_list(field, entry);
	field->value.flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL;
	return 0;
}

/* Options that make sense in a file. */
static bool in_files(const struct options_row *row, enum options_command command)
{
	return (row->commands >> command & 1) != 0 && strcmp(row->name, "config") != 0 &&
	       strcmp(row->name, "help") != 0;
}

int config_schema_create(
	struct config_schema **out, struct options *options, const struct config_scan *scan)
{
	size_t table_count = 0;
	while (options_row_at(table_count) != NULL)
		table_count++;
	struct config_schema *schema = options_keep(options, sizeof(*schema));
	cyaml_schema_field_t *fields = options_keep(options, (table_count + 2) * sizeof(*fields));
	if (schema == NULL || fields == NULL)
		return -ENOMEM;
	schema->rows = options_keep(options, (table_count + 1) * sizeof(*schema->rows));
	if (schema->rows == NULL)
		return -ENOMEM;
	for (size_t i = 0; i <= table_count; i++) {
		const struct options_row *row = options_row_at(i); /* NULL: the files */
		if (row != NULL && !in_files(row, options->command))
			continue;
		size_t slot = schema->rows_count++;
		schema->rows[slot] = row;
		fields[slot] = text_field(row == NULL ? "files" : row->name, slot);
		if (shape_field(options, schema, scan, row, &fields[slot]) != 0)
			return -ENOMEM;
	}
	make_map(&schema->root, fields, schema->rows_count);
	schema->root.flags = CYAML_FLAG_POINTER;
	*out = schema;
	return 0;
}

int config_schema_find(const struct config_schema *schema, const char *name)
{
	for (size_t i = 0; i < schema->rows_count; i++) {
		const char *key = schema->rows[i] == NULL ? "files" : schema->rows[i]->name;
		if (strcmp(key, name) == 0)
			return (int)i;
	}
	return -1;
}

int config_schema_chain_find(const struct config_schema *schema, const char *key)
{
	for (size_t i = 0; i < schema->chain_keys_count; i++) {
		if (strcmp(schema->chain_keys[i], key) == 0)
			return (int)i;
	}
	return -1;
}
