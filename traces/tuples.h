/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to traces/: files of 5-tuples, and endings of names. */
#pragma once

#include "traces/traces.h"

enum { TRACES_TUPLE_BYTES = 13 };

/* .5t and .tuples, compressed or not: nothing in such a file tells what it is. */
bool traces_tuples_named(const char *path);

/* Without an ending that says how the file is compressed (writer.c). */
size_t traces_plain_name_length(const char *path);
/* Do the first `length` characters of the name end so? */
bool traces_name_ends(const char *name, size_t length, const char *end);
