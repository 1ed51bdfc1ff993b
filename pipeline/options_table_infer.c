/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of the table of options: the rows of sheaf infer export. */
#include "pipeline/options_private.h"

#define EXPORT       .commands = OPTIONS_OF(OPTIONS_INFER_EXPORT)
#define FIELD(field) .offset = OPTIONS_FIELD(infer_export.field)

static const struct options_row rows[] = {
	{ "features", "NAME", "what is made of a flow: spi30|stat67|n3ic20|img1600",
		OPTIONS_KIND_CHOICE, EXPORT, FIELD(features),
		.choices = "spi30|stat67|n3ic20|img1600" },
	{ "depth", "N", "packets of a flow that are looked at", OPTIONS_KIND_COUNT32, EXPORT,
		FIELD(depth), .low = 1, .high = GPU_OFFLOAD_DEPTH_MAX },
	{ "min-packets", "N", "leave out flows with fewer", OPTIONS_KIND_COUNT32, EXPORT,
		FIELD(packets_min), .low = 1, .high = GPU_OFFLOAD_DEPTH_MAX },
	{ "whole", NULL, "leave out flows with fewer packets than --depth", OPTIONS_KIND_SWITCH,
		EXPORT, FIELD(whole) },
	{ "output", "FILE",
		"rows as .npy, or records as .rec; FILE.csv beside it says whose they are",
		OPTIONS_KIND_TEXT, .letter = 'o', EXPORT, .offset = OPTIONS_FIELD(output) },
	{ "conns", "N", "connections tracked at a time", OPTIONS_KIND_COUNT32, EXPORT, FIELD(conns),
		.low = 1, .high = 1 << 28 },
};

const struct options_row *options_infer_rows(size_t *count)
{
	*count = BASE_ARRAY_COUNT(rows);
	return rows;
}
