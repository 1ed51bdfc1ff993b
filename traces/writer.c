/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/traces.h"

#include "base/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	BUFFER_BYTES = 1 << 20,
	SNAPLEN_DEFAULT = 262144,
	NAME_ATTEMPTS = 100,
};

#define NO_INTERFACE UINT32_MAX

struct traces_writer {
	int fd;
	bool owns_fd;
	enum traces_format format;
	uint32_t snaplen;
	int error;
	bool started;
	enum base_link link;                   /* pcap: the one of the first packet */
	uint32_t interfaces[BASE_LINKS_COUNT]; /* pcapng: interface of a link type */
	uint32_t interfaces_count;
	char *path;      /* final name */
	char *temporary; /* NULL when writing to the final name directly */
	size_t fill;
	uint8_t buffer[BUFFER_BYTES];
};

static int flush(struct traces_writer *writer)
{
	size_t done = 0;
	while (done < writer->fill) {
		ssize_t wrote = write(writer->fd, writer->buffer + done, writer->fill - done);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return wrote < 0 ? -errno : -EIO;
		done += (size_t)wrote;
	}
	writer->fill = 0;
	return 0;
}

static int put(struct traces_writer *writer, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;
	while (size > 0) {
		if (writer->fill == BUFFER_BYTES) {
			int error = flush(writer);
			if (error)
				return error;
		}
		size_t room = BUFFER_BYTES - writer->fill;
		size_t part = size < room ? size : room;
		memcpy(writer->buffer + writer->fill, from, part);
		writer->fill += part;
		from += part;
		size -= part;
	}
	return 0;
}

static int start_pcap(struct traces_writer *writer)
{
	struct {
		uint32_t magic;
		uint16_t major, minor;
		uint32_t zone, accuracy, snaplen, linktype;
	} header = {
		.magic = writer->format == TRACES_FORMAT_PCAP_NS ? 0xa1b23c4d : 0xa1b2c3d4,
		.major = 2,
		.minor = 4,
		.snaplen = writer->snaplen,
		.linktype = traces_link_number(writer->link),
	};
	static_assert(sizeof(header) == 24, "as in the file");
	return put(writer, &header, sizeof(header));
}

static int start_pcapng(struct traces_writer *writer)
{
	struct {
		uint32_t type, length, magic;
		uint16_t major, minor;
		uint32_t section_length[2], length_again;
	} section = {
		.type = 0x0a0d0d0a,
		.length = sizeof(section),
		.magic = 0x1a2b3c4d,
		.major = 1,
		.section_length = { UINT32_MAX, UINT32_MAX }, /* not stated */
		.length_again = sizeof(section),
	};
	static_assert(sizeof(section) == 28, "as in the file");
	return put(writer, &section, sizeof(section));
}

static int start(struct traces_writer *writer, enum base_link link)
{
	if (writer->started)
		return 0;
	writer->started = true;
	writer->link = link;
	return writer->format == TRACES_FORMAT_PCAPNG ? start_pcapng(writer) : start_pcap(writer);
}

static int describe_interface(struct traces_writer *writer, enum base_link link)
{
	struct {
		uint32_t type, length;
		uint16_t linktype, reserved;
		uint32_t snaplen;
		uint16_t option, option_length;
		uint8_t tsresol, padding[3];
		uint32_t end_of_options, length_again;
	} block = {
		.type = 1,
		.length = sizeof(block),
		.linktype = (uint16_t)traces_link_number(link),
		.snaplen = writer->snaplen,
		.option = 9,
		.option_length = 1,
		.tsresol = 9, /* nanoseconds */
		.length_again = sizeof(block),
	};
	static_assert(sizeof(block) == 32, "as in the file");
	writer->interfaces[link] = writer->interfaces_count++;
	return put(writer, &block, sizeof(block));
}

static int write_pcapng(struct traces_writer *writer, uint64_t time_ns, enum base_link link,
	const uint8_t *frame, uint32_t cap_len, uint32_t wire_len)
{
	if (writer->interfaces[link] == NO_INTERFACE) {
		int error = describe_interface(writer, link);
		if (error)
			return error;
	}
	static const uint8_t zeros[4];
	uint32_t padding = -cap_len & 3;
	struct {
		uint32_t type, length, interface, time_high, time_low, cap_len, wire_len;
	} block = {
		.type = 6,
		.length = 32 + cap_len + padding,
		.interface = writer->interfaces[link],
		.time_high = (uint32_t)(time_ns >> 32),
		.time_low = (uint32_t)time_ns,
		.cap_len = cap_len,
		.wire_len = wire_len,
	};
	static_assert(sizeof(block) == 28, "as in the file");
	int error = put(writer, &block, sizeof(block));
	error = error ? error : put(writer, frame, cap_len);
	error = error ? error : put(writer, zeros, padding);
	return error ? error : put(writer, &block.length, sizeof(block.length));
}

static int write_pcap(struct traces_writer *writer, uint64_t time_ns, const uint8_t *frame,
	uint32_t cap_len, uint32_t wire_len)
{
	uint64_t seconds = time_ns / 1000000000, fraction = time_ns % 1000000000;
	if (seconds > UINT32_MAX)
		return -ERANGE;
	struct {
		uint32_t seconds, fraction, cap_len, wire_len;
	} header = {
		.seconds = (uint32_t)seconds,
		.fraction = (uint32_t)(writer->format == TRACES_FORMAT_PCAP_NS ? fraction
									       : fraction / 1000),
		.cap_len = cap_len,
		.wire_len = wire_len,
	};
	int error = put(writer, &header, sizeof(header));
	return error ? error : put(writer, frame, cap_len);
}

int traces_writer_write(struct traces_writer *writer, uint64_t time_ns, enum base_link link,
	const uint8_t *frame, uint32_t cap_len, uint32_t wire_len)
{
	if (BASE_UNLIKELY(writer->error))
		return writer->error;
	if ((unsigned int)link >= BASE_LINKS_COUNT)
		return writer->error = -EPROTONOSUPPORT;
	if (wire_len < cap_len)
		wire_len = cap_len;
	if (cap_len > writer->snaplen)
		cap_len = writer->snaplen;
	int error = start(writer, link);
	if (error == 0 && writer->format == TRACES_FORMAT_PCAPNG)
		error = write_pcapng(writer, time_ns, link, frame, cap_len, wire_len);
	else if (error == 0 && link != writer->link)
		error = -EPROTONOSUPPORT;
	else if (error == 0)
		error = write_pcap(writer, time_ns, frame, cap_len, wire_len);
	writer->error = error;
	return error;
}

/* A name beside the final one that nobody has; it keeps the usual permissions of new files. */
static int open_temporary(struct traces_writer *writer)
{
	size_t size = strlen(writer->path) + 40;
	writer->temporary = malloc(size);
	if (writer->temporary == NULL)
		return -ENOMEM;
	for (int i = 0; i < NAME_ATTEMPTS; i++) {
		snprintf(
			writer->temporary, size, "%s.%ld-%d.part", writer->path, (long)getpid(), i);
		writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (writer->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	int error = -errno;
	free(writer->temporary);
	writer->temporary = NULL;
	return error;
}

static int open_output(struct traces_writer *writer, const char *path)
{
	if (strcmp(path, "-") == 0) {
		writer->fd = STDOUT_FILENO;
		return 0;
	}
	writer->owns_fd = true;
	struct stat status;
	bool exists = stat(path, &status) == 0;
	if (exists && S_ISDIR(status.st_mode))
		return -EISDIR;
	/* A device or pipe is written to, never replaced; a link keeps pointing where it does. */
	if (exists && !S_ISREG(status.st_mode)) {
		writer->fd = open(path, O_WRONLY | O_CLOEXEC);
		return writer->fd < 0 ? -errno : 0;
	}
	writer->path = exists ? realpath(path, NULL) : strdup(path);
	if (writer->path == NULL)
		return -errno;
	return open_temporary(writer);
}

static void writer_free(struct traces_writer *writer)
{
	if (writer->owns_fd && writer->fd >= 0)
		close(writer->fd);
	free(writer->path);
	free(writer->temporary);
	free(writer);
}

int traces_writer_create(
	struct traces_writer **out, const char *path, enum traces_format format, uint32_t snaplen)
{
	if ((unsigned int)format > TRACES_FORMAT_PCAPNG)
		return -EINVAL;
	struct traces_writer *writer = malloc(sizeof(*writer));
	if (writer == NULL)
		return -ENOMEM;
	memset(writer, 0, offsetof(struct traces_writer, buffer));
	writer->fd = -1;
	writer->format = format;
	writer->snaplen = snaplen > 0 ? snaplen : SNAPLEN_DEFAULT;
	for (int i = 0; i < BASE_LINKS_COUNT; i++)
		writer->interfaces[i] = NO_INTERFACE;
	int error = open_output(writer, path);
	if (error) {
		writer_free(writer);
		return error;
	}
	*out = writer;
	return 0;
}

/* Only data that has reached the disk may take the final name. */
static int finish_temporary(struct traces_writer *writer)
{
	if (fsync(writer->fd) != 0 && errno != EINVAL)
		return -errno;
	int fd = writer->fd;
	writer->fd = -1;
	if (close(fd) != 0)
		return -errno;
	return rename(writer->temporary, writer->path) != 0 ? -errno : 0;
}

/* Without packets the file is still one that every reader takes: libpcap refuses a pcapng file that
 * describes no interface. */
static int complete(struct traces_writer *writer)
{
	int error = start(writer, BASE_LINK_ETHERNET);
	if (error == 0 && writer->format == TRACES_FORMAT_PCAPNG && writer->interfaces_count == 0)
		error = describe_interface(writer, BASE_LINK_ETHERNET);
	return error;
}

void traces_writer_abandon(struct traces_writer *writer)
{
	if (writer == NULL)
		return;
	writer->error = -ECANCELED;
	(void)traces_writer_close(writer);
}

int traces_writer_close(struct traces_writer *writer)
{
	if (writer == NULL)
		return 0;
	int error = writer->error;
	if (error == 0)
		error = complete(writer);
	if (error == 0)
		error = flush(writer);
	if (writer->temporary != NULL) {
		if (error == 0)
			error = finish_temporary(writer);
		if (error)
			unlink(writer->temporary);
	}
	writer_free(writer);
	return error;
}

static bool ends_with(const char *text, const char *end)
{
	size_t text_length = strlen(text), end_length = strlen(end);
	return text_length >= end_length && strcmp(text + text_length - end_length, end) == 0;
}

enum traces_format traces_format_from_path(const char *path, bool nanoseconds)
{
	if (ends_with(path, ".pcapng"))
		return TRACES_FORMAT_PCAPNG;
	return nanoseconds || ends_with(path, ".ns.pcap") ? TRACES_FORMAT_PCAP_NS
							  : TRACES_FORMAT_PCAP_US;
}
