/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/anon.h"
#include "traces/packets.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

struct anonymize {
	struct traces_packets packets;
	struct traces_packets *from;
	struct traces_anonymize_options options;
	struct traces_anonymize_report *report;
	struct traces_cryptopan *cryptopan;
	struct traces_trace *built;
};

static int anonymize_packet(
	struct anonymize *anonymize, const struct traces_record *record, const uint8_t *frame)
{
	struct traces_trace *built = anonymize->built;
	struct traces_anon_walk walk;
	walk.cap_len = record->cap_len;
	walk.cryptopan = anonymize->cryptopan;
	walk.options = &anonymize->options;
	walk.report = anonymize->report;
	walk.covers_count = 0;
	walk.depth = 0;
	int error = traces_trace_extend(built, record, &walk.frame);
	if (error)
		return error;
	if (record->cap_len > 0)
		memcpy(walk.frame, frame, record->cap_len);
	uint32_t keep = traces_anon_link(&walk, (enum base_link)record->link);
	BASE_ASSERT(keep <= record->cap_len);
	uint32_t cut = record->cap_len - keep;
	/* The frame is the last one in the batch: what is cut makes room for the next. */
	traces_trace_mutable_records(built)[traces_trace_count(built) - 1].cap_len = keep;
	built->bytes.used -= cut;
	anonymize->report->packets++;
	anonymize->report->cut_packets += cut > 0;
	anonymize->report->cut_bytes += cut;
	return 0;
}

static int anonymize_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct anonymize *anonymize = (struct anonymize *)packets;
	struct traces_batch input;
	traces_trace_clear(anonymize->built);
	int error = traces_packets_pull(packets, anonymize->from, &input);
	for (size_t i = 0; i < input.count && error == 0; i++)
		error = anonymize_packet(
			anonymize, &input.records[i], input.bytes + input.records[i].offset);
	*batch = traces_trace_batch(anonymize->built);
	return error;
}

static void anonymize_free(struct anonymize *anonymize)
{
	traces_cryptopan_destroy(anonymize->cryptopan);
	traces_trace_destroy(anonymize->built);
	OPENSSL_cleanse(&anonymize->options, sizeof(anonymize->options));
	free(anonymize);
}

static void anonymize_destroy(struct traces_packets *packets)
{
	struct anonymize *anonymize = (struct anonymize *)packets;
	traces_packets_destroy(anonymize->from);
	anonymize_free(anonymize);
}

static const struct traces_packets_ops anonymize_ops = { anonymize_next, anonymize_destroy };

int traces_packets_anonymize(struct traces_packets **out, struct traces_packets *from,
	const struct traces_anonymize_options *options, struct traces_anonymize_report *report)
{
	struct anonymize *anonymize = calloc(1, sizeof(*anonymize));
	if (anonymize == NULL)
		return -ENOMEM;
	int error = traces_trace_create(&anonymize->built);
	if (error == 0)
		error = traces_cryptopan_create(&anonymize->cryptopan, options->key);
	if (error) {
		anonymize_free(anonymize);
		return error;
	}
	*report = (struct traces_anonymize_report){ 0 };
	anonymize->packets.ops = &anonymize_ops;
	anonymize->from = from;
	anonymize->options = *options;
	anonymize->report = report;
	*out = &anonymize->packets;
	return 0;
}
