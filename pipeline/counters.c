/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/counters.h"

#include "base/compiler.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	OWN_TRIES = 16,
	/* Of the time that a group is enabled, in thousandths, it may be without a counter: the
	 * kernel takes both times, but not at the same instant. */
	IDLE_MAX = 1,
	READ_MISSES = PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16,
};

struct event {
	const char *name;
	uint32_t type;
	uint64_t config;
};

static const struct event events[COUNTERS_EVENTS_COUNT] = {
	[COUNTERS_INSTRUCTIONS] = { "instructions", PERF_TYPE_HARDWARE,
		PERF_COUNT_HW_INSTRUCTIONS },
	[COUNTERS_CYCLES] = { "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	[COUNTERS_LLC_MISSES] = { "llc_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES },
	[COUNTERS_L1D_MISSES] = { "l1d_misses", PERF_TYPE_HW_CACHE,
		PERF_COUNT_HW_CACHE_L1D | READ_MISSES },
	[COUNTERS_DTLB_MISSES] = { "dtlb_misses", PERF_TYPE_HW_CACHE,
		PERF_COUNT_HW_CACHE_DTLB | READ_MISSES },
	[COUNTERS_BRANCH_MISSES] = { "branch_misses", PERF_TYPE_HARDWARE,
		PERF_COUNT_HW_BRANCH_MISSES },
};

const char *counters_event_name(enum counters_event event)
{
	BASE_ASSERT(event < COUNTERS_EVENTS_COUNT);
	return events[event].name;
}

/* ---- Linux ----------------------------------------------------------------------------------- */

static int linux_open(void *context, const struct perf_event_attr *attributes, int group)
{
	(void)context;
	long file = syscall(
		SYS_perf_event_open, attributes, 0, -1, group, (unsigned long)PERF_FLAG_FD_CLOEXEC);
	return file < 0 ? -errno : (int)file;
}

static int linux_identify(void *context, int file, uint64_t *id)
{
	(void)context;
	return ioctl(file, PERF_EVENT_IOC_ID, id) < 0 ? -errno : 0;
}

static int linux_enable(void *context, int file)
{
	(void)context;
	return ioctl(file, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) < 0 ? -errno : 0;
}

static ssize_t linux_read(void *context, int file, void *bytes, size_t size)
{
	(void)context;
	ssize_t got = read(file, bytes, size);
	return got < 0 ? -errno : got;
}

static void linux_close(void *context, int file)
{
	(void)context;
	close(file);
}

const struct counters_kernel *counters_linux(void)
{
	static const struct counters_kernel kernel = { NULL, linux_open, linux_identify,
		linux_enable, linux_read, linux_close };
	return &kernel;
}

/* ---- a group --------------------------------------------------------------------------------- */

static int open_event(struct counters *counters, enum counters_event event)
{
	const struct counters_kernel *kernel = counters->kernel;
	struct perf_event_attr attributes = {
		.type = events[event].type,
		.size = sizeof(attributes),
		.config = events[event].config,
		.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = counters->count == 0, /* the first one; the others follow it */
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int file = kernel->open(
		kernel->context, &attributes, counters->count == 0 ? -1 : counters->files[0]);
	if (file < 0)
		return file;
	int error = kernel->identify(kernel->context, file, &counters->ids[counters->count]);
	if (error != 0) {
		kernel->close(kernel->context, file);
		return error;
	}
	counters->files[counters->count] = file;
	counters->events[counters->count++] = event;
	return 0;
}

static void close_group(struct counters *counters)
{
	/* The first one leads: it goes last. */
	while (counters->count != 0)
		counters->kernel->close(
			counters->kernel->context, counters->files[--counters->count]);
}

/* At most so many events, as the machine has them. */
static void open_group(struct counters *counters, unsigned int events_max)
{
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		counters->errors[i] =
			counters->count == events_max ? -EBUSY : open_event(counters, i);
	if (counters->count == 0)
		return;
	int error = counters->kernel->enable(counters->kernel->context, counters->files[0]);
	if (error == 0)
		return;
	close_group(counters);
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		counters->errors[i] = counters->errors[i] != 0 ? counters->errors[i] : error;
}

/* Whether the kernel has found counters for all of the group. Answers that cannot be read are not a
 * reason to try again: each end finds them. */
static bool runs(struct counters *counters)
{
	struct counters_sum sum = { .operations = 0 };
	counters_begin(counters);
	counters_end(counters, &sum, 1);
	return sum.enabled_ns == 0 || sum.running_ns != 0;
}

/* The least that an empty begin and end count. */
static void measure_own(struct counters *counters)
{
	uint64_t least[COUNTERS_EVENTS_COUNT] = { 0 };
	for (int try = 0; try < OWN_TRIES; try++) {
		struct counters_sum sum = { .operations = 0 };
		counters_begin(counters);
		counters_end(counters, &sum, 1);
		for (int i = 0; i < COUNTERS_EVENTS_COUNT; i++)
			least[i] = try == 0 || sum.values[i] < least[i] ? sum.values[i] : least[i];
	}
	memcpy(counters->own, least, sizeof(least));
}

void counters_open(struct counters *counters, const struct counters_kernel *kernel)
{
	unsigned int most = COUNTERS_EVENTS_COUNT;
	*counters = (struct counters){ .kernel = kernel };
	for (int i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		counters->errors[i] = -ECANCELED;
	if (kernel == NULL)
		return;
	open_group(counters, most);
	while (counters->count != 0 && !runs(counters)) {
		most = counters->count - 1;
		close_group(counters);
		open_group(counters, most);
	}
	if (counters->count != 0)
		measure_own(counters);
}

void counters_close(struct counters *counters)
{
	close_group(counters);
}

/* ---- counting -------------------------------------------------------------------------------- */

static ssize_t read_group(struct counters *counters, struct counters_image *image)
{
	return counters->kernel->read(
		counters->kernel->context, counters->files[0], image, sizeof(*image));
}

/* Value of an event, found by its id. */
static bool find_value(const struct counters_image *image, uint64_t id, uint64_t *value)
{
	unsigned int found = 0;
	for (uint64_t i = 0; i < image->count; i++) {
		if (image->events[i].id != id)
			continue;
		*value = image->events[i].value;
		found++;
	}
	return found == 1;
}

/* Whether the kernel's answer has one value for each event, and no more. */
static bool is_whole(
	const struct counters *counters, const struct counters_image *image, ssize_t got)
{
	size_t size = offsetof(struct counters_image, events) +
		      counters->count * sizeof(image->events[0]);
	return got == (ssize_t)size && image->count == counters->count;
}

void counters_begin(struct counters *counters)
{
	if (counters->count != 0)
		counters->got = read_group(counters, &counters->before);
}

static int subtract(const struct counters *counters, const struct counters_image *after,
	struct counters_sum *part)
{
	const struct counters_image *before = &counters->before;
	if (after->enabled_ns < before->enabled_ns || after->running_ns < before->running_ns)
		return -EIO;
	part->enabled_ns = after->enabled_ns - before->enabled_ns;
	part->running_ns = after->running_ns - before->running_ns;
	for (unsigned int i = 0; i < counters->count; i++) {
		enum counters_event event = counters->events[i];
		uint64_t from = 0, to = 0;
		if (!find_value(before, counters->ids[i], &from) ||
			!find_value(after, counters->ids[i], &to) || to < from)
			return -EIO;
		uint64_t value = to - from;
		part->values[event] =
			value > counters->own[event] ? value - counters->own[event] : 0;
	}
	return 0;
}

void counters_end(struct counters *counters, struct counters_sum *sum, uint64_t operations)
{
	struct counters_image after;
	struct counters_sum part = { .operations = operations };
	int error = 0;
	memcpy(part.errors, counters->errors, sizeof(part.errors));
	if (counters->count != 0) {
		ssize_t got = read_group(counters, &after);
		if (counters->got < 0 || got < 0)
			error = (int)(got < 0 ? got : counters->got);
		else if (!is_whole(counters, &counters->before, counters->got) ||
			 !is_whole(counters, &after, got))
			error = -EIO;
		else
			error = subtract(counters, &after, &part);
	}
	for (int i = 0; i < COUNTERS_EVENTS_COUNT && error != 0; i++) {
		part.values[i] = 0;
		part.errors[i] = part.errors[i] != 0 ? part.errors[i] : error;
	}
	counters_add(sum, &part);
}

/* ---- sums ------------------------------------------------------------------------------------ */

void counters_add(struct counters_sum *total, const struct counters_sum *part)
{
	for (int i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		total->values[i] += part->values[i];
		if (total->errors[i] == 0)
			total->errors[i] = part->errors[i];
	}
	total->operations += part->operations;
	total->enabled_ns += part->enabled_ns;
	total->running_ns += part->running_ns;
}

int counters_error(const struct counters_sum *sum, enum counters_event event)
{
	if (sum->errors[event] != 0)
		return sum->errors[event];
	if (sum->operations == 0 || sum->enabled_ns == 0)
		return -ENODATA;
	uint64_t idle_ns = sum->enabled_ns - sum->running_ns;
	bool always =
		sum->running_ns <= sum->enabled_ns && idle_ns <= sum->enabled_ns / 1000 * IDLE_MAX;
	return always ? 0 : -ETIME;
}

bool counters_any(const struct counters_sum *sum)
{
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		if (counters_error(sum, i) == 0)
			return true;
	}
	return false;
}

double counters_per_operation(const struct counters_sum *sum, enum counters_event event)
{
	return counters_error(sum, event) == 0
		       ? (double)sum->values[event] / (double)sum->operations
		       : 0;
}

static const char *reason(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENODEV:
	case -ENXIO:
	case -ENOSYS:
	case -EOPNOTSUPP:
		return "no such hardware counters on this machine";
	case -EACCES:
	case -EPERM:
		return "not allowed, see /proc/sys/kernel/perf_event_paranoid";
	case -EBUSY:
	case -EINVAL:
	case -ENOSPC:
		return "the processor has no counter free for it";
	case -ETIME:
		return "did not count all the time: others use the counters";
	case -EIO:
		return "the kernel's answer is not what was asked for";
	case -ECANCELED:
		return "turned off";
	case -ENODATA:
		return "nothing was counted";
	default:
		return strerror(-error);
	}
}

/* "l1d_misses, dtlb_misses: " and the reason; the events that have this one. */
static size_t write_reason(const struct counters_sum *sum, int error, char *text, size_t size)
{
	const char *name = strerrorname_np(-error);
	size_t used = 0;
	bool own = error == -ECANCELED || error == -ENODATA || error == -ETIME || error == -EIO;
	unsigned int count = 0;
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++)
		count += counters_error(sum, i) == error;
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		if (count == COUNTERS_EVENTS_COUNT || counters_error(sum, i) != error)
			continue;
		used += (size_t)snprintf(
			text + used, size - used, "%s%s", used == 0 ? "" : ", ", events[i].name);
	}
	used += (size_t)snprintf(
		text + used, size - used, "%s%s", used == 0 ? "" : ": ", reason(error));
	if (!own && name != NULL)
		used += (size_t)snprintf(text + used, size - used, " (%s)", name);
	return used;
}

void counters_why(const struct counters_sum *sum, char text[COUNTERS_WHY_SIZE])
{
	size_t used = 0;
	text[0] = '\0';
	for (enum counters_event i = 0; i < COUNTERS_EVENTS_COUNT; i++) {
		int error = counters_error(sum, i);
		bool told = error == 0;
		for (enum counters_event k = 0; k < i && !told; k++)
			told = counters_error(sum, k) == error;
		if (told)
			continue;
		if (used != 0)
			used += (size_t)snprintf(text + used, COUNTERS_WHY_SIZE - used, "; ");
		used += write_reason(sum, error, text + used, COUNTERS_WHY_SIZE - used);
	}
}
