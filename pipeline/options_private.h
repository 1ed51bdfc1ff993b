/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to options*.c: memory that lives with the options, messages, and the table's parsers. */
#pragma once

#include "pipeline/options.h"

/* For the rows of the table. */
#define OPTIONS_OF(command) (1u << (command))
#define OPTIONS_FIELD(path) offsetof(struct options, path)
#define OPTIONS_YEAR_NS     UINT64_C(31536000000000000)

/* options_table_gen.c */
const struct options_row *options_gen_rows(size_t *count);
/* options_table_trace.c */
const struct options_row *options_trace_rows(size_t *count);
/* options_table_transform.c */
const struct options_row *options_transform_rows(size_t *count);
/* options_table_bench.c */
const struct options_row *options_bench_rows(size_t *count);
/* options_table_infer.c */
const struct options_row *options_infer_rows(size_t *count);
/* options_deletion.c */
const struct options_row *options_deletion_rows(size_t *count);
/* options_sharing.c */
const struct options_row *options_sharing_rows(size_t *count);

/* options_infer.c */
enum { OPTIONS_INFER_ITEMS = 26 };
extern const struct options_row options_infer_items[OPTIONS_INFER_ITEMS];
int options_parse_infer(struct options *options, void *target, const char *text, char *message);

/* Zeroed, freed with the options; NULL when out of memory. */
void *options_keep(struct options *options, size_t size);
/* A copy with a terminator. */
char *options_keep_text(struct options *options, const char *text, size_t length);

/* message = "got '<value>', expected <expected>"; returns -EINVAL. */
int options_refuse(char *message, const char *value, const char *expected, ...) BASE_PRINTF(3, 4);
int options_refuse_memory(char *message); /* returns -ENOMEM */

/* Put "<where>: " before the message; returns error. */
int options_refuse_at(char *message, int error, const char *where, ...) BASE_PRINTF(3, 4);

/* Value of a row into the field at target + offset. Not for items and chains. */
int options_value_set(struct options *options, const struct options_row *row, void *target,
	const char *text, char *message);

const struct options_row *options_rows_find(
	const struct options_row *rows, size_t count, const char *name);

/* "key=value" or, for a switch, "key"; word is cut apart. message names the key. */
int options_rows_set_word(struct options *options, const struct options_row *rows, size_t count,
	void *target, char *word, char *message);
/* Refuse a key: "'<key>': expected one of delay, run, ...". */
int options_refuse_key(
	char *message, const char *key, const struct options_row *rows, size_t count);

/*
 * Cut the next part off *rest at one of the separators, outside of square brackets (IPv6
 * addresses). NULL when nothing is left; an empty part is "".
 */
char *options_split(char **rest, const char *separators);

/* A list of names: "a,b" or "a+b", "all", and "none" where nothing is a choice too. */
enum { OPTIONS_LIST_MAX = 32 };
struct options_names {
	/* -EINVAL with a message when there is no such name. */
	int (*find)(const void *context, const char *name, uint32_t *index, char *message);
	const void *context;
	uint32_t count; /* of names; "all" is each of them in order; at most OPTIONS_LIST_MAX */
	bool none;
};
struct options_list {
	uint32_t set; /* bit per index */
	uint32_t count;
	uint8_t indices[OPTIONS_LIST_MAX]; /* as listed */
};
/* Each name once; out is written only on success. */
int options_list_read(struct options *options, const char *text, const struct options_names *names,
	struct options_list *out, char *message);

/* For every command that measures; NULL: off. */
void options_set_counters(struct options *options, const struct counters_kernel *kernel);

/* Parsers of the table (struct options_row.parse). */
int options_parse_backend(struct options *options, void *target, const char *text, char *message);
int options_parse_backends(struct options *options, void *target, const char *text, char *message);
int options_parse_bulk(struct options *options, void *target, const char *text, char *message);
int options_parse_counters(struct options *options, void *target, const char *text, char *message);
int options_parse_deletion(struct options *options, void *target, const char *text, char *message);
int options_parse_bypass(struct options *options, void *target, const char *text, char *message);
int options_parse_lb_schedule(
	struct options *options, void *target, const char *text, char *message);
int options_parse_nat_address(
	struct options *options, void *target, const char *text, char *message);
int options_parse_nat_ports(struct options *options, void *target, const char *text, char *message);
int options_parse_destination_mac(
	struct options *options, void *target, const char *text, char *message);
int options_parse_source_mac(
	struct options *options, void *target, const char *text, char *message);
int options_parse_fields(struct options *options, void *target, const char *text, char *message);
int options_parse_order(struct options *options, void *target, const char *text, char *message);
int options_parse_reframer(struct options *options, void *target, const char *text, char *message);
int options_parse_sharing(struct options *options, void *target, const char *text, char *message);
int options_parse_short(struct options *options, void *target, const char *text, char *message);
int options_parse_sink(struct options *options, void *target, const char *text, char *message);
int options_parse_slice_flow(
	struct options *options, void *target, const char *text, char *message);
int options_parse_slice_from(
	struct options *options, void *target, const char *text, char *message);
int options_parse_slice_to(struct options *options, void *target, const char *text, char *message);
int options_parse_source(struct options *options, void *target, const char *text, char *message);
int options_parse_entries(struct options *options, void *target, const char *text, char *message);
int options_parse_hit_ratios(
	struct options *options, void *target, const char *text, char *message);
int options_parse_loads(struct options *options, void *target, const char *text, char *message);
int options_parse_tables(struct options *options, void *target, const char *text, char *message);
int options_parse_table(struct options *options, void *target, const char *text, char *message);
int options_parse_zone(struct options *options, void *target, const char *text, char *message);
