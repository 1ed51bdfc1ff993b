/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/memory.h"

#include "base/compiler.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 1024, LINE_SIZE = 512, SHARE = 16 };

/* Where a version of control groups says what. */
struct group_files {
	const char *mount, *most, *used, *cached[2];
};

static const struct group_files group_v2 = { "sys/fs/cgroup", "memory.max", "memory.current",
	{ "active_file ", "inactive_file " } };
static const struct group_files group_v1 = { "sys/fs/cgroup/memory", "memory.limit_in_bytes",
	"memory.usage_in_bytes", { "total_active_file ", "total_inactive_file " } };

static FILE *open_below(const char *root, const char *folder, const char *name)
{
	char path[3 * PATH_SIZE];
	snprintf(path, sizeof(path), "%s/%s/%s", root, folder, name);
	return fopen(path, "re");
}

/* The number behind `prefix` in the first line that begins with it, else `otherwise`. */
static uint64_t read_number(const char *root, const char *folder, const char *name,
	const char *prefix, uint64_t otherwise)
{
	char line[LINE_SIZE];
	uint64_t value = otherwise;
	FILE *file = open_below(root, folder, name);
	if (file == NULL)
		return otherwise;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, prefix, strlen(prefix)) != 0)
			continue;
		if (sscanf(line + strlen(prefix), "%" SCNu64, &value) != 1)
			value = otherwise; /* "max" */
		break;
	}
	fclose(file);
	return value;
}

uint64_t pipeline_memory_huge_free(const char *root)
{
	static const char folder[] = "sys/kernel/mm/hugepages";
	uint64_t bytes = 0;
	char path[PATH_SIZE];
	snprintf(path, sizeof(path), "%s/%s", root, folder);
	DIR *directory = opendir(path);
	if (directory == NULL)
		return 0;
	for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		uint64_t size_kb;
		if (sscanf(entry->d_name, "hugepages-%" SCNu64 "kB", &size_kb) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/%.255s", folder, entry->d_name);
		/* Free ones may be promised to who has mapped them and not touched them yet. */
		uint64_t free = read_number(root, path, "free_hugepages", "", 0);
		uint64_t promised = read_number(root, path, "resv_hugepages", "", 0);
		bytes += (free > promised ? free - promised : 0) * size_kb * 1024;
	}
	closedir(directory);
	return bytes;
}

/* What one group leaves. */
static uint64_t group_room(const char *root, const struct group_files *files, const char *folder)
{
	uint64_t most = read_number(root, folder, files->most, "", UINT64_MAX);
	if (most == UINT64_MAX)
		return UINT64_MAX;
	uint64_t used = read_number(root, folder, files->used, "", 0);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(files->cached); i++) {
		uint64_t cached = read_number(root, folder, "memory.stat", files->cached[i], 0);
		used -= cached < used ? cached : used;
	}
	return most > used ? most - used : 0;
}

/* The group and all above it: the least of what they leave. */
static uint64_t groups_room(const char *root, const struct group_files *files, const char *group)
{
	char folder[PATH_SIZE + LINE_SIZE];
	uint64_t least = UINT64_MAX;
	size_t mount = strlen(files->mount);
	snprintf(folder, sizeof(folder), "%s%s", files->mount, group);
	for (;;) {
		uint64_t room = group_room(root, files, folder);
		least = room < least ? room : least;
		char *last = strrchr(folder + mount, '/');
		if (last == NULL)
			return least;
		*last = '\0';
	}
}

/* Lines of /proc/self/cgroup: "0::/group", or "4:memory:/group" in version 1. */
static uint64_t limits_room(const char *root)
{
	char line[LINE_SIZE];
	uint64_t least = UINT64_MAX;
	FILE *file = open_below(root, "proc/self", "cgroup");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		char *kind = strchr(line, ':');
		char *group = kind == NULL ? NULL : strchr(kind + 1, ':');
		if (group == NULL)
			continue;
		*group++ = '\0';
		uint64_t room = UINT64_MAX;
		if (kind[1] == '\0')
			room = groups_room(root, &group_v2, group);
		else if (strcmp(kind + 1, "memory") == 0)
			room = groups_room(root, &group_v1, group);
		least = room < least ? room : least;
	}
	if (file != NULL)
		fclose(file);
	return least;
}

uint64_t pipeline_memory_plain(const char *root)
{
	uint64_t free_kb = read_number(root, "proc", "meminfo", "MemAvailable:", UINT64_MAX);
	uint64_t least = limits_room(root);
	if (free_kb <= UINT64_MAX / 1024 && free_kb * 1024 < least)
		least = free_kb * 1024;
	return least;
}

uint64_t pipeline_memory_available(const char *root)
{
	uint64_t plain = pipeline_memory_plain(root);
	return plain == UINT64_MAX ? UINT64_MAX : plain + pipeline_memory_huge_free(root);
}

/* ---- what a run needs ----------------------------------------------------------------------- */

struct text {
	char *text;
	size_t size;
};

__attribute__((format(printf, 2, 3))) static void append(
	const struct text *text, const char *format, ...)
{
	size_t used = strlen(text->text);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text->text + used, text->size - used, format, arguments);
	va_end(arguments);
}

/* What lowers the parts that count, each knob once. */
static void append_knobs(const struct text *text, const struct pipeline_memory_part *parts,
	size_t count, uint64_t least)
{
	const char *named[PIPELINE_MEMORY_PARTS_MAX * PIPELINE_MEMORY_KNOBS_MAX];
	size_t named_count = 0;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < PIPELINE_MEMORY_KNOBS_MAX; k++) {
			const char *knob = parts[i].knobs[k];
			bool known = knob == NULL || parts[i].bytes < least;
			for (size_t n = 0; n < named_count && !known; n++)
				known = strcmp(named[n], knob) == 0;
			if (!known)
				named[named_count++] = knob;
		}
	}
	for (size_t n = 0; n < named_count; n++)
		append(text, "%s%s",
			n == 0                 ? ": lower "
			: n + 1 == named_count ? " or "
					       : ", ",
			named[n]);
}

int pipeline_memory_check(const struct pipeline_memory_part *parts, size_t count,
	uint64_t available, char message[], size_t size)
{
	const struct text text = { message, size };
	uint64_t sum = 0;
	size_t told = 0;
	BASE_ASSERT(count <= PIPELINE_MEMORY_PARTS_MAX);
	for (size_t i = 0; i < count; i++)
		sum = parts[i].bytes > UINT64_MAX - sum ? UINT64_MAX : sum + parts[i].bytes;
	if (sum <= available)
		return 0;
	uint64_t least = sum / SHARE;
	message[0] = '\0';
	append(&text, "the run needs %" PRIu64 " MB (", sum >> 20);
	for (size_t i = 0; i < count; i++) {
		if (parts[i].bytes >= least)
			append(&text, "%s%s %" PRIu64, told++ == 0 ? "" : ", ", parts[i].name,
				parts[i].bytes >> 20);
	}
	append(&text, "), the machine has %" PRIu64 " MB free", available >> 20);
	append_knobs(&text, parts, count, least);
	return -ENOMEM;
}

int pipeline_memory_check_conns(
	uint64_t conns, uint64_t bytes, const char *knob, char message[], size_t size)
{
	char name[64];
	snprintf(name, sizeof(name), "%" PRIu64 " connections", conns);
	const struct pipeline_memory_part part = {
		.name = name,
		.bytes = conns * bytes,
		.knobs = { knob },
	};
	return pipeline_memory_check(&part, 1, pipeline_memory_available(""), message, size);
}
