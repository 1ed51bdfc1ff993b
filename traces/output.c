/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum {
	NAME_ATTEMPTS = 100,
	PACKED_BYTES = 256 << 10,
	/* Captures want speed: level 6 takes twice the time of 4 and saves 3 % of the bytes. */
	GZIP_LEVEL = 4,
	GZIP_WINDOW_BITS = 15 + 16, /* the gzip header, not zlib's */
	GZIP_MEMORY_LEVEL = 8,
	ZSTD_LEVEL = 3,
};

struct traces_output_target {
	int fd;
	bool owns_fd;
	char *path;      /* final name */
	char *temporary; /* NULL when writing to the final name directly */
	enum traces_compression compression;
	bool gzip_open;
	z_stream gzip;
	ZSTD_CStream *zstd;
	uint8_t packed[PACKED_BYTES];
};

/* ---- bytes ---- */

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		ssize_t wrote = write(fd, bytes, size);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return wrote < 0 ? -errno : -EIO;
		bytes += wrote;
		size -= (size_t)wrote;
	}
	return 0;
}

static int gzip_write(
	struct traces_output_target *target, const uint8_t *bytes, size_t size, bool last)
{
	z_stream *gzip = &target->gzip;
	gzip->next_in = (uint8_t *)(uintptr_t)bytes; /* zlib does not write to it */
	gzip->avail_in = (uInt)size;
	int result;
	do {
		gzip->next_out = target->packed;
		gzip->avail_out = PACKED_BYTES;
		result = deflate(gzip, last ? Z_FINISH : Z_NO_FLUSH);
		if (result == Z_STREAM_ERROR)
			return -EIO;
		int error = write_all(target->fd, target->packed, PACKED_BYTES - gzip->avail_out);
		if (error)
			return error;
	} while (last ? result != Z_STREAM_END : gzip->avail_in > 0);
	return 0;
}

static int zstd_write(
	struct traces_output_target *target, const uint8_t *bytes, size_t size, bool last)
{
	ZSTD_inBuffer in = { bytes, size, 0 };
	size_t left;
	do {
		ZSTD_outBuffer out = { target->packed, PACKED_BYTES, 0 };
		left = ZSTD_compressStream2(
			target->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return -EIO;
		int error = write_all(target->fd, target->packed, out.pos);
		if (error)
			return error;
	} while (last ? left > 0 : in.pos < in.size);
	return 0;
}

static int target_write(
	struct traces_output_target *target, const uint8_t *bytes, size_t size, bool last)
{
	switch (target->compression) {
	case TRACES_COMPRESSION_GZIP:
		return gzip_write(target, bytes, size, last);
	case TRACES_COMPRESSION_ZSTD:
		return zstd_write(target, bytes, size, last);
	default:
		return write_all(target->fd, bytes, size);
	}
}

int traces_output_flush(struct traces_output *output)
{
	int error = target_write(output->target, output->bytes, output->fill, false);
	if (error == 0)
		output->fill = 0;
	return error;
}

/* ---- files ---- */

/* A name beside the final one that nobody has; it keeps the usual permissions of new files. */
static int open_temporary(struct traces_output_target *target)
{
	size_t size = strlen(target->path) + 40;
	target->temporary = malloc(size);
	if (target->temporary == NULL)
		return -ENOMEM;
	for (int i = 0; i < NAME_ATTEMPTS; i++) {
		snprintf(
			target->temporary, size, "%s.%ld-%d.part", target->path, (long)getpid(), i);
		target->fd = open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (target->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	int error = -errno;
	free(target->temporary);
	target->temporary = NULL;
	return error;
}

static int open_target(struct traces_output_target *target, const char *path)
{
	if (strcmp(path, "-") == 0) {
		target->fd = STDOUT_FILENO;
		return 0;
	}
	target->owns_fd = true;
	struct stat status;
	bool exists = stat(path, &status) == 0;
	if (exists && S_ISDIR(status.st_mode))
		return -EISDIR;
	/* A device or pipe is written to, never replaced; a link keeps pointing where it does. */
	if (exists && !S_ISREG(status.st_mode)) {
		target->fd = open(path, O_WRONLY | O_CLOEXEC);
		return target->fd < 0 ? -errno : 0;
	}
	target->path = exists ? realpath(path, NULL) : strdup(path);
	if (target->path == NULL)
		return -errno;
	return open_temporary(target);
}

static int open_compressor(struct traces_output_target *target)
{
	switch (target->compression) {
	case TRACES_COMPRESSION_GZIP:
		target->gzip_open =
			deflateInit2(&target->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS,
				GZIP_MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
		return target->gzip_open ? 0 : -ENOMEM;
	case TRACES_COMPRESSION_ZSTD:
		target->zstd = ZSTD_createCStream();
		if (target->zstd == NULL)
			return -ENOMEM;
		ZSTD_CCtx_setParameter(target->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(target->zstd, ZSTD_c_checksumFlag, 1);
		return 0;
	default:
		return 0;
	}
}

static void target_destroy(struct traces_output_target *target)
{
	if (target == NULL)
		return;
	if (target->gzip_open)
		deflateEnd(&target->gzip);
	ZSTD_freeCStream(target->zstd);
	if (target->owns_fd && target->fd >= 0)
		close(target->fd);
	if (target->temporary != NULL)
		unlink(target->temporary);
	free(target->path);
	free(target->temporary);
	free(target);
}

int traces_output_create(
	struct traces_output **out, const char *path, enum traces_compression compression)
{
	struct traces_output *output = malloc(sizeof(*output));
	struct traces_output_target *target = malloc(sizeof(*target));
	if (output == NULL || target == NULL) {
		free(output);
		free(target);
		return -ENOMEM;
	}
	memset(target, 0, offsetof(struct traces_output_target, packed));
	output->fill = 0;
	output->target = target;
	target->fd = -1;
	target->compression = compression;
	int error = open_compressor(target);
	if (error == 0)
		error = open_target(target, path);
	if (error) {
		traces_output_abandon(output);
		return error;
	}
	*out = output;
	return 0;
}

void traces_output_abandon(struct traces_output *output)
{
	if (output == NULL)
		return;
	target_destroy(output->target);
	free(output);
}

/* Only data that has reached the disk may take the final name. */
static int finish_temporary(struct traces_output_target *target)
{
	if (fsync(target->fd) != 0 && errno != EINVAL)
		return -errno;
	int fd = target->fd;
	target->fd = -1;
	if (close(fd) != 0)
		return -errno;
	if (rename(target->temporary, target->path) != 0)
		return -errno;
	free(target->temporary);
	target->temporary = NULL;
	return 0;
}

int traces_output_close(struct traces_output *output)
{
	struct traces_output_target *target = output->target;
	int error = target_write(target, output->bytes, output->fill, true);
	if (error == 0 && target->temporary != NULL)
		error = finish_temporary(target);
	traces_output_abandon(output);
	return error;
}
