/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files of 5-tuples in packet order, 13 bytes each in network byte order: source address and port,
 * destination address and port, protocol. Each becomes an IPv4 packet of link type RAW, headers
 * only, with a made time and length.
 */
#include "traces/ipsum.h"
#include "traces/made.h"
#include "traces/reader.h"
#include "traces/tuples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_TUPLES = 4096, WINDOW_BYTES = WINDOW_TUPLES * TRACES_TUPLE_BYTES };

struct tuples_reader {
	struct traces_made made;
	uint32_t ip_bytes;
	uint64_t done_bytes; /* of the file, before the window */
	size_t fill;
	uint8_t window[WINDOW_BYTES];
};
static_assert((int)WINDOW_BYTES > (int)TRACES_HEAD_BYTES, "what was read to find the format fits");

bool traces_tuples_named(const char *path)
{
	static const char *const endings[] = { ".5t", ".tuples" };
	size_t length = traces_plain_name_length(path);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(endings); i++) {
		if (traces_name_ends(path, length, endings[i]))
			return true;
	}
	return false;
}

static int add_tuple(
	struct traces_loader *loader, const struct tuples_reader *reader, const uint8_t *tuple)
{
	struct traces_ipsum_values values;
	values.present = 0;
	traces_ipsum_set(&values, TRACES_IPSUM_IP_SRC, traces_get32(tuple, true));
	traces_ipsum_set(&values, TRACES_IPSUM_SPORT, traces_get16(tuple + 4, true));
	traces_ipsum_set(&values, TRACES_IPSUM_IP_DST, traces_get32(tuple + 6, true));
	traces_ipsum_set(&values, TRACES_IPSUM_DPORT, traces_get16(tuple + 10, true));
	traces_ipsum_set(&values, TRACES_IPSUM_IP_PROTO, tuple[12]);
	traces_ipsum_set(&values, TRACES_IPSUM_IP_LEN, reader->ip_bytes);
	uint8_t frame[TRACES_IPSUM_FRAME_BYTES_MAX];
	const char *reason;
	struct traces_record record = {
		.time_ns = traces_made_time_ns(&reader->made, loader->packets_seen),
		.link = BASE_LINK_RAW,
		.file = loader->file,
	};
	int error = traces_ipsum_to_frame(&values, frame, &record, &reason);
	if (error)
		return traces_loader_fail(loader, error, "%s", reason);
	loader->report->time_missing++;
	return traces_loader_add(loader, &record, frame);
}

static int tuples_open(struct traces_loader *loader, const uint8_t *head, size_t head_size)
{
	struct tuples_reader *reader = malloc(sizeof(*reader));
	if (reader == NULL)
		return traces_loader_fail(loader, -ENOMEM, "out of memory");
	memset(reader, 0, offsetof(struct tuples_reader, window));
	traces_made_set(&reader->made, loader->options);
	reader->ip_bytes = loader->options->made_ip_bytes != 0 ? loader->options->made_ip_bytes
							       : TRACES_MADE_IP_BYTES;
	loader->report->nanoseconds |= traces_made_is_fine(&reader->made);
	memcpy(reader->window, head, head_size);
	reader->fill = head_size;
	loader->state = reader;
	return 0;
}

/* One window. 0, TRACES_LOAD_STOP at the end, or an error. */
static int tuples_step(struct traces_loader *loader, struct tuples_reader *reader)
{
	reader->fill += traces_stream_read(
		loader->stream, reader->window + reader->fill, WINDOW_BYTES - reader->fill);
	traces_loader_progress(loader);
	size_t count = reader->fill / TRACES_TUPLE_BYTES;
	for (size_t i = 0; i < count; i++) {
		int error = add_tuple(loader, reader, reader->window + i * TRACES_TUPLE_BYTES);
		if (error)
			return error;
	}
	reader->done_bytes += count * TRACES_TUPLE_BYTES;
	size_t rest = reader->fill % TRACES_TUPLE_BYTES;
	bool ended = reader->fill < WINDOW_BYTES;
	reader->fill = 0;
	if (ended)
		traces_loader_end(loader, reader->done_bytes, rest, "file ends inside a 5-tuple");
	return ended ? TRACES_LOAD_STOP : 0;
}

static int tuples_fill(struct traces_loader *loader)
{
	int error;
	do {
		error = tuples_step(loader, loader->state);
	} while (error == 0 && !traces_loader_pauses(loader));
	return error;
}

static void tuples_close(struct traces_loader *loader)
{
	free(loader->state);
}

const struct traces_reader_ops traces_tuples_reader = { tuples_open, tuples_fill, tuples_close };
