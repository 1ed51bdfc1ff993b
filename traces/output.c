/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum {
	NAME_ATTEMPTS = 100,
	LINKS_MAX = 40, /* as Linux follows */
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
	char *path;              /* final name */
	char *temporary;         /* NULL when writing to the final name directly */
	const atomic_bool *stop; /* may be NULL */
	enum traces_compression compression;
	bool gzip_open;
	z_stream gzip;
	ZSTD_CStream *zstd;
	uint8_t packed[PACKED_BYTES];
};

/* ---- bytes ---- */

static bool is_stopped(const struct traces_output_target *target)
{
	/* relaxed: a hint, nothing is read behind it */
	return target->stop != NULL && atomic_load_explicit(target->stop, memory_order_relaxed);
}

static int write_all(const struct traces_output_target *target, const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		ssize_t wrote = write(target->fd, bytes, size);
		if (wrote == 0 || (wrote < 0 && errno != EINTR))
			return wrote < 0 ? -errno : -EIO;
		if (wrote > 0) {
			bytes += wrote;
			size -= (size_t)wrote;
		}
		/* A pipe that nobody empties: a signal cuts the write short. */
		if (size > 0 && is_stopped(target))
			return -EINTR;
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
		int error = write_all(target, target->packed, PACKED_BYTES - gzip->avail_out);
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
		int error = write_all(target, target->packed, out.pos);
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
		return write_all(target, bytes, size);
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

/* Length of the part of a path before its last name, with the slash. */
static int folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash == NULL ? 0 : (int)(slash - path) + 1;
}

/* Where a chain of links ends, whether something stands there or not; from malloc. What else is
 * wrong with it, opening says. */
static int follow_links(const char *path, char **out)
{
	char *name = strdup(path);
	for (int i = 0; name != NULL && i < LINKS_MAX; i++) {
		char link[PATH_MAX];
		ssize_t length = readlink(name, link, sizeof(link) - 1);
		if (length < 0) {
			*out = name;
			return 0;
		}
		link[length] = '\0';
		int folder = link[0] == '/' ? 0 : folder_length(name);
		size_t size = (size_t)folder + (size_t)length + 1;
		char *next = malloc(size);
		if (next != NULL)
			snprintf(next, size, "%.*s%s", folder, name, link);
		free(name);
		name = next;
	}
	int error = name == NULL ? -ENOMEM : -ELOOP;
	free(name);
	return error;
}

/* A name beside the final one that nobody has. A final name may be so long that no ending fits. */
static void name_temporary(const struct traces_output_target *target, size_t size, int attempt)
{
	const char *path = target->path;
	int folder = folder_length(path);
	if (strlen(path + folder) + 40 <= NAME_MAX)
		snprintf(target->temporary, size, "%s.%ld-%d.part", path, (long)getpid(), attempt);
	else
		snprintf(target->temporary, size, "%.*s.sheaf.%ld-%d.part", folder, path,
			(long)getpid(), attempt);
}

static int open_temporary(struct traces_output_target *target)
{
	size_t size = strlen(target->path) + 64;
	target->temporary = malloc(size);
	if (target->temporary == NULL)
		return -ENOMEM;
	for (int i = 0; i < NAME_ATTEMPTS; i++) {
		name_temporary(target, size, i);
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
	int error = follow_links(path, &target->path);
	if (error == 0)
		error = open_temporary(target);
	/* What was there keeps its permissions, new files get the usual ones. */
	if (error == 0 && exists && fchmod(target->fd, status.st_mode & 07777) != 0)
		error = -errno;
	return error;
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

void traces_output_watch(struct traces_output *output, const atomic_bool *stop)
{
	output->target->stop = stop;
}

int traces_file_save(const char *path, const void *bytes, size_t size)
{
	struct traces_output *output;
	int error = traces_output_create(&output, path, TRACES_COMPRESSION_NONE);
	if (error)
		return error;
	const uint8_t *rest = bytes;
	while (size > 0 && error == 0) {
		size_t part = size < TRACES_OUTPUT_ROOM_MAX ? size : TRACES_OUTPUT_ROOM_MAX;
		error = traces_output_put(output, rest, part);
		rest += part;
		size -= part;
	}
	if (error == 0)
		return traces_output_close(output);
	traces_output_abandon(output);
	return error;
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
