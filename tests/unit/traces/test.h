/* SPDX-License-Identifier: BSD-2-Clause */
/* What every test of traces/ includes: cmocka needs these before its own header. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/captures.h"

#include <errno.h>
#include <string.h>

static inline int test_directory_setup(void **state)
{
	static struct captures_directory directory;
	captures_directory_create(&directory);
	*state = &directory;
	return 0;
}

static inline int test_directory_teardown(void **state)
{
	captures_directory_destroy(*state);
	return 0;
}

/* A packet of the trace carries captures_put_pattern(seed). */
static inline void test_assert_pattern(
	const struct traces_trace *trace, size_t index, uint8_t seed, uint32_t cap_len)
{
	size_t count;
	const struct traces_record *records = traces_trace_records(trace, &count);
	assert_true(index < count);
	assert_int_equal(records[index].cap_len, cap_len);
	const uint8_t *frame = traces_trace_bytes(trace) + records[index].offset;
	for (uint32_t i = 0; i < cap_len; i++)
		assert_int_equal(frame[i], (uint8_t)(seed + i));
}
