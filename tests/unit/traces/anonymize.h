/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the anonymisation share: one frame through it, and what it should make of an
 * address. */
#pragma once

#include "traces/cryptopan.h"
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "tests/support/packets.h"

#include <stdlib.h>

static struct traces_anonymize_options options;
static struct traces_cryptopan *cryptopan;

struct result {
	uint8_t frame[2048];
	size_t size;
	struct traces_anonymize_report report;
};

static inline void anonymize(
	struct result *result, enum base_link link, const uint8_t *frame, size_t cap_len)
{
	struct traces_trace *trace;
	struct traces_packets *packets, *anonymized;
	struct traces_batch batch;
	struct traces_record record = {
		.cap_len = (uint32_t)cap_len, .wire_len = 3000, .link = (uint8_t)link
	};
	uint8_t *exact = malloc(cap_len + 1); /* for a sanitizer */
	assert_non_null(exact);
	memcpy(exact, frame, cap_len);
	assert_int_equal(traces_trace_create(&trace), 0);
	assert_int_equal(traces_trace_append(trace, &record, exact), 0);
	assert_int_equal(traces_packets_of_trace(&packets, trace, 0), 0);
	assert_int_equal(
		traces_packets_anonymize(&anonymized, packets, &options, &result->report), 0);
	assert_int_equal(traces_packets_next(anonymized, &batch), 0);
	assert_int_equal(batch.count, 1);
	assert_int_equal(batch.records->wire_len, 3000);
	result->size = batch.records->cap_len;
	assert_true(result->size <= cap_len);
	memcpy(result->frame, batch.bytes + batch.records->offset, result->size);
	traces_packets_destroy(anonymized);
	traces_trace_destroy(trace);
	free(exact);
}

static inline void check_mapped(const uint8_t *got, const uint8_t *address, unsigned int bytes)
{
	uint8_t mapped[16];
	if (bytes == 4)
		traces_cryptopan_ip4(cryptopan, address, mapped);
	else
		traces_cryptopan_ip6(cryptopan, address, mapped);
	assert_memory_equal(got, mapped, bytes);
}

static const uint8_t zeros[16];

static inline int anonymize_setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(options.key); i++)
		options.key[i] = (uint8_t)(255 - i);
	return traces_cryptopan_create(&cryptopan, options.key);
}

static inline int anonymize_teardown(void **state)
{
	(void)state;
	traces_cryptopan_destroy(cryptopan);
	return 0;
}
