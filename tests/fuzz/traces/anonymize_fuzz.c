/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a frame: it is rewritten within its bounds, and what is kept does not depend on what
 * is kept of the payload. */
#include "traces/traces.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How much stays. */
static uint32_t anonymize(const struct traces_trace *trace, bool keep_payload, uint8_t *out)
{
	struct traces_anonymize_options options = { .keep_payload = keep_payload };
	struct traces_anonymize_report report;
	struct traces_packets *packets, *anonymized;
	struct traces_batch batch;
	BASE_ASSERT(traces_packets_of_trace(&packets, trace, 0) == 0);
	BASE_ASSERT(traces_packets_anonymize(&anonymized, packets, &options, &report) == 0);
	BASE_ASSERT(traces_packets_next(anonymized, &batch) == 0 && batch.count == 1);
	uint32_t kept = batch.records->cap_len;
	if (kept > 0)
		memcpy(out, batch.bytes + batch.records->offset, kept);
	traces_packets_destroy(anonymized);
	return kept;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > 65536)
		return 0;
	struct traces_trace *trace;
	struct traces_record record = {
		.cap_len = (uint32_t)size - 1,
		.wire_len = (uint32_t)size - 1,
		.link = data[0] % BASE_LINKS_COUNT,
	};
	uint8_t *cut = malloc(2 * size), *whole = cut + size;
	BASE_ASSERT(cut != NULL && traces_trace_create(&trace) == 0);
	BASE_ASSERT(traces_trace_append(trace, &record, data + 1) == 0);
	uint32_t cut_len = anonymize(trace, false, cut);
	uint32_t whole_len = anonymize(trace, true, whole);
	BASE_ASSERT(cut_len <= whole_len && whole_len <= record.cap_len);
	BASE_ASSERT(memcmp(cut, whole, cut_len) == 0);
	traces_trace_destroy(trace);
	free(cut);
	return 0;
}
