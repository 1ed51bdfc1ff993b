/* SPDX-License-Identifier: BSD-2-Clause */
/* IPSummaryDump, text and binary. Packets without an IPv4 header are left out and counted. */
#include "traces/headers.h"
#include "traces/ipsum.h"
#include "traces/write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	COMMENT_BYTES_MAX = 1024,
	LINE_BYTES_MAX = TRACES_IPSUM_FIELDS_MAX * (TRACES_IPSUM_TEXT_BYTES + 1),
};

#define NS_PER_S UINT64_C(1000000000)

struct ipsum_writer {
	struct traces_ipsum_columns columns;
	uint64_t wanted;
	bool binary;
	bool seconds32; /* a column holds seconds in 32 bits */
	bool rounds;    /* the finest time column has microseconds */
};

/* Everything that a connection tracker looks at. */
static const char default_fields[] = "timestamp ip_src sport ip_dst dport ip_proto ip_len "
				     "ip_fragoff tcp_flags tcp_seq tcp_ack";

static const char *fields_or_default(const char *fields)
{
	return fields != NULL ? fields : default_fields;
}

int traces_ipsum_check_fields(const char *fields, char *refused)
{
	struct traces_ipsum_columns columns;
	bool named = traces_ipsum_columns_parse(&columns, fields, strlen(fields)) == 0;
	if (named && columns.others_count == 0)
		return 0;
	snprintf(refused, TRACES_MESSAGE_SIZE, "%s", named ? columns.other : fields);
	return -EINVAL;
}

/* In binary, precision is the field's: the finer one is another field. */
static void choose_columns(struct traces_writer *writer, struct ipsum_writer *ipsum)
{
	bool has_time = false, fine = false;
	for (size_t i = 0; i < ipsum->columns.count; i++) {
		struct traces_ipsum_column *column = &ipsum->columns.column[i];
		bool timestamp = column->field == TRACES_IPSUM_TIMESTAMP ||
				 column->field == TRACES_IPSUM_NTIMESTAMP;
		if (timestamp && writer->options.nanoseconds)
			column->field = TRACES_IPSUM_NTIMESTAMP;
		has_time |= timestamp || column->field == TRACES_IPSUM_TS_USEC ||
			    column->field == TRACES_IPSUM_TS_USEC1;
		fine |= column->field == TRACES_IPSUM_NTIMESTAMP;
		ipsum->seconds32 |= timestamp || column->field == TRACES_IPSUM_TS_SEC;
		ipsum->wanted |= TRACES_IPSUM_BIT(column->field);
	}
	ipsum->rounds = has_time && !fine;
}

static int put_text(struct traces_writer *writer, const char *text)
{
	return traces_output_put(writer->output, text, strlen(text));
}

static int put_creator(struct traces_writer *writer)
{
	const char *comment = writer->options.comment;
	if (comment == NULL || comment[0] == '\0')
		return 0;
	int error = put_text(writer, "!creator \"");
	if (error == 0)
		error = traces_output_put(
			writer->output, comment, strnlen(comment, COMMENT_BYTES_MAX));
	return error ? error : put_text(writer, "\"\n");
}

static int put_header(struct traces_writer *writer, const struct ipsum_writer *ipsum)
{
	int error = put_text(writer, "!IPSummaryDump 1.3\n");
	error = error ? error : put_creator(writer);
	error = error ? error : put_text(writer, "!data");
	for (size_t i = 0; i < ipsum->columns.count && error == 0; i++) {
		enum traces_ipsum_field field =
			(enum traces_ipsum_field)ipsum->columns.column[i].field;
		/* A text reader takes any number of digits under one name. */
		if (field == TRACES_IPSUM_NTIMESTAMP && !ipsum->binary)
			field = TRACES_IPSUM_TIMESTAMP;
		error = put_text(writer, " ");
		error = error ? error : put_text(writer, traces_ipsum_field_name(field));
	}
	return error ? error : put_text(writer, ipsum->binary ? "\n!binary\n" : "\n");
}

static int ipsum_start(struct traces_writer *writer, enum base_link link)
{
	const char *fields = fields_or_default(writer->options.fields);
	(void)link;
	struct ipsum_writer *ipsum = calloc(1, sizeof(*ipsum));
	if (ipsum == NULL)
		return -ENOMEM;
	writer->state = ipsum;
	ipsum->binary = writer->options.format == TRACES_FORMAT_IPSUM_BINARY;
	int error = traces_ipsum_columns_parse(&ipsum->columns, fields, strlen(fields));
	if (error || ipsum->columns.others_count > 0)
		return traces_writer_fail(writer, -EINVAL, "unknown field to write");
	choose_columns(writer, ipsum);
	return put_header(writer, ipsum);
}

static uint8_t *put_line(const struct ipsum_writer *ipsum, const struct traces_ipsum_values *values,
	bool ns, uint8_t *at)
{
	for (size_t i = 0; i < ipsum->columns.count; i++) {
		enum traces_ipsum_field field =
			(enum traces_ipsum_field)ipsum->columns.column[i].field;
		if (traces_ipsum_has(values, field))
			at += traces_ipsum_value_print(field, values->value[field], ns, at);
		else
			*at++ = '-';
		*at++ = ' ';
	}
	at[-1] = '\n';
	return at;
}

/* Values that a packet does not have are zeros. */
static uint8_t *put_record(
	const struct ipsum_writer *ipsum, const struct traces_ipsum_values *values, uint8_t *record)
{
	uint8_t *at = record + 4;
	for (size_t i = 0; i < ipsum->columns.count; i++) {
		enum traces_ipsum_field field =
			(enum traces_ipsum_field)ipsum->columns.column[i].field;
		uint64_t value = traces_ipsum_has(values, field) ? values->value[field] : 0;
		size_t bytes = ipsum->columns.column[i].bytes;
		if (field == TRACES_IPSUM_TIMESTAMP)
			value = value / NS_PER_S << 32 | value % NS_PER_S / 1000;
		else if (field == TRACES_IPSUM_NTIMESTAMP)
			value = value / NS_PER_S << 32 | value % NS_PER_S;
		for (size_t byte = bytes; byte-- > 0; value >>= 8)
			at[byte] = (uint8_t)value;
		at += bytes;
	}
	traces_put_net32(record, (uint32_t)(at - record));
	return at;
}

static int put_packet(
	struct traces_writer *writer, const struct traces_record *record, const uint8_t *frame)
{
	struct ipsum_writer *ipsum = writer->state;
	struct traces_ipsum_values values;
	int error = 0;
	if (!traces_ipsum_from_frame(&values, ipsum->wanted, record, frame)) {
		writer->losses.left_out++;
		return 0;
	}
	if (ipsum->binary && ipsum->seconds32 && record->time_ns / NS_PER_S > UINT32_MAX)
		return traces_writer_fail(writer, -ERANGE,
			"the time of packet %" PRIu64 " is after 2106, which a binary dump cannot "
			"hold: write text",
			writer->packets + 1);
	writer->losses.time_rounded += ipsum->rounds && record->time_ns % 1000 != 0;
	uint8_t *room = traces_output_reserve(writer->output, LINE_BYTES_MAX, &error);
	if (room == NULL)
		return error;
	uint8_t *end = ipsum->binary ? put_record(ipsum, &values, room)
				     : put_line(ipsum, &values, writer->options.nanoseconds, room);
	traces_output_commit(writer->output, (size_t)(end - room));
	writer->packets++;
	return 0;
}

static int ipsum_packets(struct traces_writer *writer, const struct traces_batch *batch)
{
	int error = 0;
	for (size_t i = 0; i < batch->count && error == 0; i++)
		error = put_packet(
			writer, &batch->records[i], batch->bytes + batch->records[i].offset);
	return error;
}

static void ipsum_destroy(struct traces_writer *writer)
{
	free(writer->state);
}

const struct traces_write_ops traces_ipsum_write_ops = {
	.start = ipsum_start,
	.packets = ipsum_packets,
	.destroy = ipsum_destroy,
};
