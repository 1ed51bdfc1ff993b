/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of 5-tuples: of every IPv4 packet its addresses, ports (0 where it has none) and protocol.
 * Packets of other protocols are left out and counted. */
#include "traces/headers.h"
#include "traces/ipsum.h"
#include "traces/tuples.h"
#include "traces/write.h"

#define WANTED                                                                                     \
	(TRACES_IPSUM_BIT(TRACES_IPSUM_IP_SRC) | TRACES_IPSUM_BIT(TRACES_IPSUM_SPORT) |            \
		TRACES_IPSUM_BIT(TRACES_IPSUM_IP_DST) | TRACES_IPSUM_BIT(TRACES_IPSUM_DPORT) |     \
		TRACES_IPSUM_BIT(TRACES_IPSUM_IP_PROTO))

static int tuples_start(struct traces_writer *writer, enum base_link link)
{
	(void)writer;
	(void)link;
	return 0;
}

static uint16_t port(const struct traces_ipsum_values *values, enum traces_ipsum_field field)
{
	return traces_ipsum_has(values, field) ? (uint16_t)values->value[field] : 0;
}

static int put_tuple(
	struct traces_writer *writer, const struct traces_record *record, const uint8_t *frame)
{
	struct traces_ipsum_values values;
	int error = 0;
	if (!traces_ipsum_from_frame(&values, WANTED, record, frame)) {
		writer->losses.left_out++;
		return 0;
	}
	uint8_t *tuple = traces_output_reserve(writer->output, TRACES_TUPLE_BYTES, &error);
	if (tuple == NULL)
		return error;
	traces_put_net32(tuple, (uint32_t)values.value[TRACES_IPSUM_IP_SRC]);
	traces_put_net16(tuple + 4, port(&values, TRACES_IPSUM_SPORT));
	traces_put_net32(tuple + 6, (uint32_t)values.value[TRACES_IPSUM_IP_DST]);
	traces_put_net16(tuple + 10, port(&values, TRACES_IPSUM_DPORT));
	tuple[12] = (uint8_t)values.value[TRACES_IPSUM_IP_PROTO];
	traces_output_commit(writer->output, TRACES_TUPLE_BYTES);
	writer->packets++;
	return 0;
}

static int tuples_packets(struct traces_writer *writer, const struct traces_batch *batch)
{
	int error = 0;
	for (size_t i = 0; i < batch->count && error == 0; i++)
		error = put_tuple(
			writer, &batch->records[i], batch->bytes + batch->records[i].offset);
	return error;
}

const struct traces_write_ops traces_tuples_write_ops = {
	.start = tuples_start,
	.packets = tuples_packets,
};
