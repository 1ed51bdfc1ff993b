/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/config_scan.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

struct scanner {
	struct config_scan *scan;
	yaml_parser_t parser;
	uint32_t open[CONFIG_SCAN_DEPTH_MAX]; /* nodes that are being filled */
	uint32_t children[CONFIG_SCAN_DEPTH_MAX];
	unsigned int depth;
	unsigned int documents;
	bool has_key; /* the map's next node belongs to this key */
	uint32_t key_line;
	char key[CONFIG_SCAN_KEY_MAX + 1];
	const char *wrong; /* why the file is refused */
	uint32_t wrong_line;
};

static bool refuse(struct scanner *scanner, const char *wrong, size_t line)
{
	scanner->wrong = wrong;
	scanner->wrong_line = (uint32_t)line + 1;
	return false;
}

static bool in_map(const struct scanner *scanner)
{
	return scanner->depth > 0 &&
	       scanner->scan->nodes[scanner->open[scanner->depth - 1]].kind == CONFIG_SCAN_MAP;
}

static bool take_key(struct scanner *scanner, const yaml_event_t *event)
{
	const yaml_char_t *text = event->data.scalar.value;
	size_t length = event->data.scalar.length, line = event->start_mark.line;
	const struct config_scan *scan = scanner->scan;
	uint32_t parent = scanner->open[scanner->depth - 1];
	if (length == 0 || length > CONFIG_SCAN_KEY_MAX)
		return refuse(scanner, "key: expected a name of 1..64 characters", line);
	for (size_t i = 0; i < length; i++) {
		if (text[i] <= 0x20 || text[i] >= 0x7f)
			return refuse(scanner, "key: expected letters, digits, - and _", line);
	}
	memcpy(scanner->key, text, length);
	scanner->key[length] = '\0';
	for (uint32_t i = parent + 1; i < scan->count; i++) {
		if (scan->nodes[i].parent == parent &&
			strcmp(scan->nodes[i].name, scanner->key) == 0)
			return refuse(scanner, "key: stands twice, expected once", line);
	}
	scanner->key_line = (uint32_t)line + 1;
	scanner->has_key = true;
	return true;
}

static bool add_node(struct scanner *scanner, const yaml_event_t *event, enum config_scan_kind kind)
{
	struct config_scan *scan = scanner->scan;
	size_t line = event->start_mark.line;
	if (scan->count == CONFIG_SCAN_NODES_MAX)
		return refuse(scanner, "too many values, expected at most 4096", line);
	if (kind != CONFIG_SCAN_VALUE && scanner->depth == CONFIG_SCAN_DEPTH_MAX)
		return refuse(scanner, "nested too deep, expected at most 6 levels", line);
	if (in_map(scanner) && !scanner->has_key)
		return refuse(scanner, "key: expected a name, not a list or a map", line);
	struct config_scan_node *node = &scan->nodes[scan->count];
	memset(node, 0, sizeof(*node));
	node->kind = kind;
	node->line = (uint32_t)line + 1;
	if (in_map(scanner)) {
		node->line = scanner->key_line;
		memcpy(node->name, scanner->key, sizeof(node->name));
	}
	if (scanner->depth > 0) {
		node->parent = scanner->open[scanner->depth - 1];
		node->position = scanner->children[scanner->depth - 1]++;
	}
	scanner->has_key = false;
	if (kind != CONFIG_SCAN_VALUE) {
		scanner->open[scanner->depth] = scan->count;
		scanner->children[scanner->depth++] = 0;
	}
	scan->count++;
	return true;
}

static bool take_scalar(struct scanner *scanner, const yaml_event_t *event)
{
	const yaml_char_t *text = event->data.scalar.value;
	size_t length = event->data.scalar.length, line = event->start_mark.line;
	if (event->data.scalar.anchor != NULL)
		return refuse(scanner, "anchors: not supported", line);
	if (event->data.scalar.tag != NULL)
		return refuse(scanner, "tags: not supported", line);
	if (in_map(scanner) && !scanner->has_key)
		return take_key(scanner, event);
	if (length > CONFIG_SCAN_VALUE_MAX)
		return refuse(scanner, "value: expected at most 4096 bytes", line);
	for (size_t i = 0; i < length; i++) {
		if (text[i] < 0x20 || text[i] == 0x7f)
			return refuse(scanner, "value: expected no control characters", line);
	}
	return add_node(scanner, event, CONFIG_SCAN_VALUE);
}

static bool take_event(struct scanner *scanner, const yaml_event_t *event)
{
	size_t line = event->start_mark.line;
	switch (event->type) {
	case YAML_ALIAS_EVENT:
		return refuse(scanner, "aliases: not supported", line);
	case YAML_DOCUMENT_START_EVENT:
		if (++scanner->documents > 1)
			return refuse(scanner, "second document: expected one", line);
		return true;
	case YAML_SCALAR_EVENT:
		return take_scalar(scanner, event);
	case YAML_SEQUENCE_START_EVENT:
		if (event->data.sequence_start.anchor != NULL)
			return refuse(scanner, "anchors: not supported", line);
		if (event->data.sequence_start.tag != NULL)
			return refuse(scanner, "tags: not supported", line);
		return add_node(scanner, event, CONFIG_SCAN_LIST);
	case YAML_MAPPING_START_EVENT:
		if (event->data.mapping_start.anchor != NULL)
			return refuse(scanner, "anchors: not supported", line);
		if (event->data.mapping_start.tag != NULL)
			return refuse(scanner, "tags: not supported", line);
		return add_node(scanner, event, CONFIG_SCAN_MAP);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		scanner->depth--;
		return true;
	default:
		return true;
	}
}

/* Line of the problem that libyaml tells of, from 0. Of bytes that are no text it tells only the
 * offset; of an end that comes too early, what was begun says more. */
static size_t problem_line(const yaml_parser_t *parser, const uint8_t *text, size_t text_size)
{
	size_t line = 0;
	if (parser->error != YAML_READER_ERROR && parser->context != NULL &&
		parser->problem_mark.index >= text_size)
		return parser->context_mark.line;
	if (parser->error != YAML_READER_ERROR)
		return parser->problem_mark.line;
	for (size_t i = 0; i < parser->problem_offset && i < text_size; i++)
		line += text[i] == '\n';
	return line;
}

static int read_events(struct scanner *scanner, const uint8_t *text, size_t text_size)
{
	yaml_event_t event;
	for (bool more = true; more;) {
		if (yaml_parser_parse(&scanner->parser, &event) == 0) {
			const char *problem = scanner->parser.problem;
			if (scanner->parser.error == YAML_MEMORY_ERROR)
				return -ENOMEM;
			refuse(scanner, problem == NULL ? "not YAML" : problem,
				problem_line(&scanner->parser, text, text_size));
			return -EINVAL;
		}
		more = event.type != YAML_STREAM_END_EVENT;
		bool taken = take_event(scanner, &event);
		yaml_event_delete(&event);
		if (!taken)
			return -EINVAL;
	}
	return 0;
}

int config_scan_read(struct config_scan *scan, const uint8_t *text, size_t text_size,
	uint32_t *line, char *message, size_t message_size)
{
	struct scanner scanner = { .scan = scan };
	scan->count = 0;
	if (yaml_parser_initialize(&scanner.parser) == 0)
		return -ENOMEM;
	yaml_parser_set_input_string(&scanner.parser, text, text_size);
	int error = read_events(&scanner, text, text_size);
	yaml_parser_delete(&scanner.parser);
	if (error == -EINVAL) {
		*line = scanner.wrong_line;
		snprintf(message, message_size, "%s", scanner.wrong);
	}
	return error;
}
