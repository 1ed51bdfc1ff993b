/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * First look at a configuration file: the shape of the YAML and on which line each node stands.
 * libcyaml checks names and types and loads the values, but forgets the lines, and a value that is
 * refused later must be found again (docs/decisions/0002-yaml-lines.md).
 *
 * Also bounds what follows: no aliases, anchors or tags, one document, limited depth, nodes and
 * lengths, printable keys, no control characters, no key twice.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	CONFIG_SCAN_DEPTH_MAX = 6,
	CONFIG_SCAN_NODES_MAX = 4096,
	CONFIG_SCAN_KEY_MAX = 64,
	CONFIG_SCAN_VALUE_MAX = 4096,
};

enum config_scan_kind { CONFIG_SCAN_VALUE, CONFIG_SCAN_LIST, CONFIG_SCAN_MAP };

struct config_scan_node {
	uint32_t parent;   /* index; the root is its own parent */
	uint32_t line;     /* 1-based; of a key's name, or of a list's entry */
	uint32_t position; /* among its parent's children */
	enum config_scan_kind kind;
	char name[CONFIG_SCAN_KEY_MAX + 1]; /* "" in lists and for the root */
};

/* Nodes in document order; node 0 is the root. No node at all: an empty file. */
struct config_scan {
	uint32_t count;
	struct config_scan_node nodes[CONFIG_SCAN_NODES_MAX];
};

/* 0, or -EINVAL with line and message (message_size bytes), -ENOMEM. */
int config_scan_read(struct config_scan *scan, const uint8_t *text, size_t text_size,
	uint32_t *line, char *message, size_t message_size);
