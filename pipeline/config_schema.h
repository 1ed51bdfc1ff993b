/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to config_*.c: libcyaml's schema, made from the option table and the document's shape.
 *
 * Every value becomes text in a slot; where an option may be written in two ways (`reframer: on`
 * or a map), the schema of this document takes the way that it uses.
 */
#pragma once

#include "pipeline/config_scan.h"
#include "pipeline/options.h"

#include <cyaml/cyaml.h>

/* What libcyaml fills: text, or an array of `count` texts or maps, or a map's slots. */
struct config_slot {
	void *pointer;
	uint64_t count;
};

struct config_schema {
	const struct options_row **rows; /* one per top-level slot; NULL: files */
	size_t rows_count;
	const char **chain_keys; /* slots of a chain's map; the first is "name" */
	size_t chain_keys_count;
	cyaml_schema_value_t root;
};

/* Memory belongs to the options. -ENOMEM. */
int config_schema_create(
	struct config_schema **out, struct options *options, const struct config_scan *scan);

/* Slot of a key; -1 when there is none. */
int config_schema_find(const struct config_schema *schema, const char *name);
int config_schema_chain_find(const struct config_schema *schema, const char *key);
