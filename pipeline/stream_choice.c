/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/stream_choice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A packet of the first N in memory: a whole Ethernet frame, its record and its schedule. */
enum { PACKET_BYTES = 2048 };

static bool is_packed(const char *path)
{
	static const uint8_t gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
	uint8_t head[4] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t got = read(fd, head, sizeof(head));
	close(fd);
	return got == (ssize_t)sizeof(head) &&
	       (memcmp(head, gzip, sizeof(gzip)) == 0 || memcmp(head, zstd, sizeof(zstd)) == 0);
}

void stream_files_look(struct stream_files *files, const char *const *paths, size_t paths_count)
{
	*files = (struct stream_files){ 0 };
	for (size_t i = 0; i < paths_count; i++) {
		struct stat status;
		bool standard_input = strcmp(paths[i], "-") == 0;
		if (!standard_input && (stat(paths[i], &status) != 0 || S_ISDIR(status.st_mode)))
			continue;
		if (standard_input || !S_ISREG(status.st_mode)) {
			if (files->once == NULL)
				files->once = standard_input ? "standard input" : paths[i];
		} else if (is_packed(paths[i])) {
			files->packed_bytes += (uint64_t)status.st_size;
		} else {
			files->plain_bytes += (uint64_t)status.st_size;
		}
	}
}

/* Bytes that the captures would take in memory. */
static uint64_t estimate(const struct pipeline_config *config, const struct stream_files *files)
{
	double bytes =
		STREAM_MEMORY_FACTOR *
		((double)files->plain_bytes + STREAM_PACKED_FACTOR * (double)files->packed_bytes);
	/* Merging needs so many of each file. */
	double limit = (double)config->packets_max * (double)config->paths_count * PACKET_BYTES;
	if (config->packets_max != 0 && limit < bytes)
		bytes = limit;
	return bytes < 1e18 ? (uint64_t)bytes : UINT64_C(1000000000000000000);
}

int stream_choose(struct stream_choice *choice, const struct pipeline_config *config,
	const struct stream_files *files, uint64_t passes, uint64_t available, char *message)
{
	double gigabyte = 1e9;
	uint64_t need = estimate(config, files);
	bool fits = (double)need <= (double)available * STREAM_MEMORY_PERCENT / 100;
	choice->stream = config->stream == PIPELINE_STREAM_ON;
	if (config->sharing == PIPELINE_SHARING_HANDOVER) {
		snprintf(choice->why, sizeof(choice->why), "handover plays from memory");
	} else if (config->stream != PIPELINE_STREAM_AUTO) {
		snprintf(choice->why, sizeof(choice->why), "asked for");
	} else if (files->once != NULL) {
		snprintf(choice->why, sizeof(choice->why), "%.80s has no known size", files->once);
	} else {
		choice->stream = !fits;
		snprintf(choice->why, sizeof(choice->why),
			"estimated %.3g GB in memory, %s %d %% of %.3g GB available",
			(double)need / gigabyte, fits ? "within" : "above", STREAM_MEMORY_PERCENT,
			(double)available / gigabyte);
	}
	if (!choice->stream || files->once == NULL || passes <= 1)
		return 0;
	snprintf(message, PIPELINE_MESSAGE_SIZE,
		"stream: got %.300s, which can be read only once, expected a file for several "
		"passes, copies, repeats or runs",
		files->once);
	return -EINVAL;
}
