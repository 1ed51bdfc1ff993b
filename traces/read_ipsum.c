/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPSummaryDump as packets of link type RAW. A line or record that cannot be read is located and
 * passed over, the rest of the file is read.
 */
#include "traces/ipsum.h"
#include "traces/made.h"
#include "traces/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW_BYTES = 512 << 10,
	LINE_BYTES_MAX = 256 << 10, /* of a line, and of a binary record */
	RECORD_LENGTH_BYTES = 4,
	MINOR_VERSION = 3,
	WORDS_MAX = 8,
};
static_assert(LINE_BYTES_MAX + 8 < WINDOW_BYTES, "a line fits into the window");

#define METADATA_BIT UINT32_C(0x80000000)
#define NS_PER_S     UINT64_C(1000000000)
#define TIME_FIELDS                                                                                \
	(TRACES_IPSUM_BIT(TRACES_IPSUM_TIMESTAMP) | TRACES_IPSUM_BIT(TRACES_IPSUM_NTIMESTAMP) |    \
		TRACES_IPSUM_BIT(TRACES_IPSUM_TS_SEC) | TRACES_IPSUM_BIT(TRACES_IPSUM_TS_USEC) |   \
		TRACES_IPSUM_BIT(TRACES_IPSUM_TS_USEC1))

struct ipsum_reader {
	struct traces_loader *loader;
	struct traces_made made; /* times for lines without one */
	struct traces_ipsum_columns columns;
	struct traces_ipsum_values defaults; /* !flowid, !proto */
	unsigned int minor;
	bool binary;
	bool skipping;          /* the rest of a line that is too long */
	uint64_t window_offset; /* of window[0] in the file */
	size_t position, fill;
	uint8_t window[WINDOW_BYTES];
};

bool traces_ipsum_known(const uint8_t head[TRACES_HEAD_BYTES], size_t head_size)
{
	static const char *const starts[] = { "!IPSummaryDump", "!data ", "!contents ",
		"!creator " };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(starts); i++) {
		size_t length = strlen(starts[i]);
		if (head_size >= length && memcmp(head, starts[i], length) == 0)
			return true;
	}
	return false;
}

/* ---- the window ---- */

/* Read more behind what is held; false: there is no more, or no room. */
static bool window_fill(struct ipsum_reader *reader)
{
	size_t held = reader->fill - reader->position;
	if (reader->position > 0) {
		memmove(reader->window, reader->window + reader->position, held);
		reader->window_offset += reader->position;
		reader->position = 0;
		reader->fill = held;
	}
	size_t room = WINDOW_BYTES - held;
	size_t got = traces_stream_read(reader->loader->stream, reader->window + held,
		room < reader->loader->chunk_bytes ? room : reader->loader->chunk_bytes);
	reader->fill += got;
	traces_loader_progress(reader->loader);
	return got > 0;
}

static uint64_t file_offset(const struct ipsum_reader *reader)
{
	return reader->window_offset + reader->position;
}

/* A line or record that gives no packet. */
static int damaged(struct ipsum_reader *reader, const char *what, const char *detail)
{
	traces_loader_damage(reader->loader, file_offset(reader), "%s%s", what, detail);
	reader->loader->packets_seen++;
	return 0;
}

/* ---- one packet ---- */

/* False: the line says no time. */
static bool find_time(const struct traces_ipsum_values *values, uint64_t *time_ns, bool *fine)
{
	if (traces_ipsum_has(values, TRACES_IPSUM_NTIMESTAMP))
		*time_ns = values->value[TRACES_IPSUM_NTIMESTAMP];
	else if (traces_ipsum_has(values, TRACES_IPSUM_TIMESTAMP))
		*time_ns = values->value[TRACES_IPSUM_TIMESTAMP];
	else if (traces_ipsum_has(values, TRACES_IPSUM_TS_USEC1))
		*time_ns = values->value[TRACES_IPSUM_TS_USEC1] * 1000;
	else if (traces_ipsum_has(values, TRACES_IPSUM_TS_SEC))
		*time_ns = values->value[TRACES_IPSUM_TS_SEC] * NS_PER_S +
			   (traces_ipsum_has(values, TRACES_IPSUM_TS_USEC)
					   ? values->value[TRACES_IPSUM_TS_USEC] * 1000
					   : 0);
	else
		return false;
	*fine = *time_ns % 1000 != 0;
	return true;
}

static int add_packet(struct ipsum_reader *reader, struct traces_ipsum_values *values)
{
	struct traces_loader *loader = reader->loader;
	uint8_t frame[TRACES_IPSUM_FRAME_BYTES_MAX];
	const char *reason = "";
	bool fine = false;
	for (uint64_t rest = reader->defaults.present & ~values->present; rest != 0;
		rest &= rest - 1) {
		enum traces_ipsum_field field = (enum traces_ipsum_field)__builtin_ctzll(rest);
		traces_ipsum_set(values, field, reader->defaults.value[field]);
	}
	struct traces_record record = { .link = BASE_LINK_RAW, .file = loader->file };
	if (traces_ipsum_to_frame(values, frame, &record, &reason) != 0)
		return damaged(reader, reason, "");
	if (find_time(values, &record.time_ns, &fine)) {
		loader->report->nanoseconds |= fine;
	} else {
		record.time_ns = traces_made_time_ns(&reader->made, loader->packets_seen);
		loader->report->nanoseconds |= traces_made_is_fine(&reader->made);
		loader->report->time_missing++;
	}
	if (traces_ipsum_has(values, TRACES_IPSUM_COUNT) && values->value[TRACES_IPSUM_COUNT] > 1)
		loader->report->packets_folded += values->value[TRACES_IPSUM_COUNT] - 1;
	return traces_loader_add(loader, &record, frame);
}

/* ---- text ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

struct word {
	const char *text;
	size_t length;
};

/* The next word of a line; quotes keep spaces in. False at the end. */
static bool next_word(const char **at, const char *end, struct word *word)
{
	const char *c = *at;
	while (c < end && is_space(*c))
		c++;
	word->text = c;
	for (bool quoted = false; c < end && (quoted || !is_space(*c)); c++) {
		if (*c == '"')
			quoted = !quoted;
		else if (*c == '\\' && quoted && c + 1 < end)
			c++;
	}
	word->length = (size_t)(c - word->text);
	*at = c;
	return word->length > 0;
}

static bool word_is(const struct word *word, const char *text)
{
	return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

static int set_columns(struct ipsum_reader *reader, const char *text, const char *end)
{
	struct traces_load_report *report = reader->loader->report;
	if (traces_ipsum_columns_parse(&reader->columns, text, (size_t)(end - text)) != 0) {
		traces_loader_damage(reader->loader, file_offset(reader),
			"!data with no field, or more than %d", TRACES_IPSUM_FIELDS_MAX);
		return 0;
	}
	report->fields_ignored += reader->columns.others_count;
	if (report->field_strange[0] == '\0')
		memcpy(report->field_strange, reader->columns.strange,
			sizeof(report->field_strange));
	return 0;
}

static void set_default(struct ipsum_reader *reader, enum traces_ipsum_field field,
	const struct word *word, const char *line)
{
	uint64_t value;
	if (word_is(word, "-"))
		reader->defaults.present &= ~TRACES_IPSUM_BIT(field);
	else if (traces_ipsum_value_parse(field, word->text, word->length, reader->minor, &value))
		traces_ipsum_set(&reader->defaults, field, value);
	else
		traces_loader_damage(
			reader->loader, file_offset(reader), "%s that cannot be read", line);
}

/* Binary records need the width of every field. */
static int set_binary(struct ipsum_reader *reader)
{
	for (size_t i = 0; i < reader->columns.count; i++) {
		if (reader->columns.column[i].bytes == TRACES_IPSUM_NONE)
			return traces_loader_fail(reader->loader, -EBADMSG,
				"field %zu of the binary dump has no known width%s%s", i + 1,
				reader->columns.strange[0] != '\0' ? ": " : "",
				reader->columns.strange);
	}
	reader->binary = true;
	return 0;
}

/* A line that begins with '!'. What is not known is a remark. */
static int bang_line(struct ipsum_reader *reader, const char *line, const char *end)
{
	static const enum traces_ipsum_field flow_fields[] = { TRACES_IPSUM_IP_SRC,
		TRACES_IPSUM_SPORT, TRACES_IPSUM_IP_DST, TRACES_IPSUM_DPORT,
		TRACES_IPSUM_IP_PROTO };
	struct word word;
	if (!next_word(&line, end, &word))
		return 0;
	if (word_is(&word, "!data") || word_is(&word, "!contents"))
		return set_columns(reader, line, end);
	if (word_is(&word, "!binary"))
		return set_binary(reader);
	if (word_is(&word, "!IPSummaryDump") && next_word(&line, end, &word)) {
		reader->minor = word_is(&word, "1.0") ? 0 : MINOR_VERSION;
	} else if (word_is(&word, "!proto") && next_word(&line, end, &word)) {
		set_default(reader, TRACES_IPSUM_IP_PROTO, &word, "!proto");
	} else if (word_is(&word, "!flowid")) {
		for (size_t i = 0; i < BASE_ARRAY_COUNT(flow_fields); i++) {
			if (next_word(&line, end, &word))
				set_default(reader, flow_fields[i], &word, "!flowid");
		}
	}
	return 0;
}

static int packet_line(struct ipsum_reader *reader, const char *line, const char *end)
{
	struct traces_ipsum_values values;
	struct word word;
	values.present = 0;
	if (reader->columns.count == 0)
		return damaged(reader, "packet before a !data line", "");
	for (size_t i = 0; i < reader->columns.count && next_word(&line, end, &word); i++) {
		enum traces_ipsum_field field =
			(enum traces_ipsum_field)reader->columns.column[i].field;
		uint64_t value;
		if (!traces_ipsum_is_read(field) || word_is(&word, "-"))
			continue;
		if (!traces_ipsum_value_parse(field, word.text, word.length, reader->minor, &value))
			return damaged(
				reader, "no valid value of ", traces_ipsum_field_name(field));
		traces_ipsum_set(&values, field, value);
	}
	return add_packet(reader, &values);
}

static int text_line(struct ipsum_reader *reader, const char *line, const char *end)
{
	while (end > line && (is_space(end[-1]) || end[-1] == '\0' || end[-1] == '\n'))
		end--;
	if (line == end || line[0] == '#')
		return 0;
	return line[0] == '!' ? bang_line(reader, line, end) : packet_line(reader, line, end);
}

/* A line without an end in sight is passed over. */
static int skip_line(struct ipsum_reader *reader)
{
	if (!reader->skipping)
		damaged(reader, "line is too long", "");
	reader->skipping = true;
	reader->position = reader->fill;
	return 0;
}

/* 0, TRACES_LOAD_STOP at the end, or an error. */
static int next_line(struct ipsum_reader *reader)
{
	const uint8_t *line, *newline;
	for (;;) {
		line = reader->window + reader->position;
		size_t held = reader->fill - reader->position;
		newline = held > 0 ? memchr(line, '\n', held) : NULL;
		if (newline != NULL)
			break;
		if (held > LINE_BYTES_MAX)
			return skip_line(reader);
		if (window_fill(reader))
			continue;
		if (held == 0 || traces_stream_damage(reader->loader->stream) != NULL) {
			traces_loader_end(reader->loader, file_offset(reader), 0, "");
			return TRACES_LOAD_STOP;
		}
		line = reader->window + reader->position;
		newline = line + held; /* the last line lacks its end */
		break;
	}
	int error = 0;
	if (!reader->skipping)
		error = text_line(reader, (const char *)line, (const char *)newline);
	reader->skipping = false;
	size_t size = (size_t)(newline - line) + 1;
	size_t held = reader->fill - reader->position;
	reader->position += size < held ? size : held;
	return error;
}

/* ---- binary ---- */

static uint64_t get_net(const uint8_t *bytes, size_t size)
{
	uint64_t value = 0;
	for (size_t i = 0; i < size; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* A value as the text parser would give it; false: it is none. */
static bool binary_value(struct ipsum_reader *reader, enum traces_ipsum_field field,
	const uint8_t *bytes, size_t size, uint64_t *value)
{
	if (field == TRACES_IPSUM_TIMESTAMP || field == TRACES_IPSUM_NTIMESTAMP) {
		uint64_t unit = field == TRACES_IPSUM_TIMESTAMP ? 1000 : 1;
		uint64_t fraction = get_net(bytes + 4, 4) * unit;
		*value = get_net(bytes, 4) * NS_PER_S + fraction;
		return fraction < NS_PER_S;
	}
	if (field == TRACES_IPSUM_IP_FRAG)
		return traces_ipsum_value_parse(
			field, (const char *)bytes, 1, reader->minor, value);
	*value = get_net(bytes, size);
	if (field == TRACES_IPSUM_TS_USEC1)
		return *value <= TRACES_TIME_NS_MAX / 1000;
	return field != TRACES_IPSUM_TS_USEC || *value < NS_PER_S / 1000;
}

static int binary_packet(struct ipsum_reader *reader, const uint8_t *at, size_t size)
{
	struct traces_ipsum_values values;
	values.present = 0;
	if (reader->columns.count == 0)
		return damaged(reader, "packet before a !data line", "");
	for (size_t i = 0; i < reader->columns.count && size > 0; i++) {
		struct traces_ipsum_column column = reader->columns.column[i];
		enum traces_ipsum_field field = (enum traces_ipsum_field)column.field;
		size_t bytes = column.bytes == TRACES_IPSUM_VARIABLE ? 1u + at[0] : column.bytes;
		if (column.bytes == TRACES_IPSUM_NONE || bytes > size)
			return damaged(reader, "record is shorter than its fields", "");
		uint64_t value;
		if (traces_ipsum_is_read(field)) {
			if (!binary_value(reader, field, at, bytes, &value))
				return damaged(reader, "no valid value of ",
					traces_ipsum_field_name(field));
			traces_ipsum_set(&values, field, value);
		}
		at += bytes;
		size -= bytes;
	}
	return add_packet(reader, &values);
}

static bool window_need(struct ipsum_reader *reader, size_t size)
{
	while (reader->fill - reader->position < size) {
		if (!window_fill(reader))
			return false;
	}
	return true;
}

/* A length that cannot be: what follows cannot be found any more. */
static int lost_record(struct ipsum_reader *reader, const char *reason)
{
	traces_loader_end(reader->loader, file_offset(reader), 1, reason);
	return TRACES_LOAD_STOP;
}

/*
 * Lengths count their own 4 bytes. Click's writer forgets that for metadata, which is text and ends
 * with a newline: where that stands tells which it is.
 */
static uint32_t metadata_length(struct ipsum_reader *reader, uint32_t length)
{
	if (!window_need(reader, length + RECORD_LENGTH_BYTES))
		return length;
	const uint8_t *end = reader->window + reader->position + length;
	bool whole = length > RECORD_LENGTH_BYTES && end[-1] == '\n';
	return whole || end[RECORD_LENGTH_BYTES - 1] != '\n' ? length
							     : length + RECORD_LENGTH_BYTES;
}

static int next_record(struct ipsum_reader *reader)
{
	if (!window_need(reader, RECORD_LENGTH_BYTES)) {
		traces_loader_end(reader->loader, file_offset(reader),
			reader->fill - reader->position, "file ends inside a record's length");
		return TRACES_LOAD_STOP;
	}
	uint32_t word = traces_get32(reader->window + reader->position, true);
	uint32_t length = word & ~METADATA_BIT;
	bool metadata = (word & METADATA_BIT) != 0;
	if (metadata && length <= LINE_BYTES_MAX)
		length = metadata_length(reader, length);
	if (length < RECORD_LENGTH_BYTES)
		return lost_record(reader, "record is shorter than its length field");
	if (length > LINE_BYTES_MAX + RECORD_LENGTH_BYTES)
		return lost_record(reader, "record is longer than any");
	if (!window_need(reader, length))
		return lost_record(reader, "file ends inside a record");
	const uint8_t *body = reader->window + reader->position + RECORD_LENGTH_BYTES;
	uint32_t size = length - RECORD_LENGTH_BYTES;
	int error = metadata ? text_line(reader, (const char *)body, (const char *)body + size)
			     : binary_packet(reader, body, size);
	reader->position += length;
	return error;
}

/* ---- the reader ---- */

static int ipsum_open(struct traces_loader *loader, const uint8_t *head, size_t head_size)
{
	struct ipsum_reader *reader = malloc(sizeof(*reader));
	if (reader == NULL)
		return traces_loader_fail(loader, -ENOMEM, "out of memory");
	memset(reader, 0, offsetof(struct ipsum_reader, window));
	reader->loader = loader;
	reader->minor = MINOR_VERSION;
	traces_made_set(&reader->made, loader->options);
	memcpy(reader->window, head, head_size);
	reader->fill = head_size;
	loader->state = reader;
	return 0;
}

static int ipsum_fill(struct traces_loader *loader)
{
	struct ipsum_reader *reader = loader->state;
	int error;
	do {
		error = reader->binary ? next_record(reader) : next_line(reader);
	} while (error == 0 && !traces_loader_pauses(loader));
	return error;
}

static void ipsum_close(struct traces_loader *loader)
{
	free(loader->state);
}

const struct traces_reader_ops traces_ipsum_reader = { ipsum_open, ipsum_fill, ipsum_close };
