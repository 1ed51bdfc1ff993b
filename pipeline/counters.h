/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hardware performance counters of the calling thread: what the processor did for the program's own
 * instructions (user mode), by Linux's perf events (perf_event_open(2)).
 *
 * All events are one group, so that they count at the same time or not at all; events that the
 * machine lacks, or that do not fit beside the others, are left out, and the reason is kept. Values
 * are never scaled: what did not count all the time is not measured.
 *
 *	counters_open(&counters, counters_linux());
 *	counters_begin(&counters);
 *	... work ...
 *	counters_end(&counters, &sum, packets);
 *	counters_close(&counters);
 *
 * What begin and end themselves cost the program is measured at open and taken off.
 *
 * Threads: open, begin and end belong to one thread. Memory: none but the struct; a file for each
 * event. Cost: begin and end are a system call each, nothing when there are no counters.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In the order in which they are left out when the processor has too few counters: last first. */
enum counters_event {
	COUNTERS_INSTRUCTIONS,
	COUNTERS_CYCLES, /* of the core, unlike those of the time stamp counter */
	COUNTERS_LLC_MISSES,
	COUNTERS_L1D_MISSES, /* loads */
	COUNTERS_DTLB_MISSES,
	COUNTERS_BRANCH_MISSES,
	COUNTERS_EVENTS_COUNT
};

enum { COUNTERS_WHY_SIZE = 1024 /* six events, each with a reason of its own */ };

/* "instructions", "l1d_misses". */
const char *counters_event_name(enum counters_event event);

/* System calls; tests have their own. open: a file or -errno. */
struct counters_kernel {
	void *context;
	int (*open)(void *context, const struct perf_event_attr *attributes, int group);
	int (*identify)(void *context, int file, uint64_t *id); /* 0 or -errno */
	int (*enable)(void *context, int file);                 /* the whole group; 0 or -errno */
	ssize_t (*read)(void *context, int file, void *bytes, size_t size); /* or -errno */
	void (*close)(void *context, int file);
};

/* Linux's, counting the events above. */
const struct counters_kernel *counters_linux(void);

/* What was counted, over any number of begins and ends, of one or more threads. All zeros: nothing
 * yet. */
struct counters_sum {
	uint64_t values[COUNTERS_EVENTS_COUNT];
	int errors[COUNTERS_EVENTS_COUNT]; /* 0, or -errno: this event was not counted */
	uint64_t operations;               /* that the values are for */
	uint64_t enabled_ns, running_ns;
};

/* As the kernel gives a group. */
struct counters_image {
	uint64_t count, enabled_ns, running_ns;
	struct {
		uint64_t value, id;
	} events[COUNTERS_EVENTS_COUNT];
};

/* Private. */
struct counters {
	const struct counters_kernel *kernel;
	unsigned int count; /* of events that are counted; 0: none */
	int files[COUNTERS_EVENTS_COUNT];
	uint64_t ids[COUNTERS_EVENTS_COUNT];
	enum counters_event events[COUNTERS_EVENTS_COUNT];
	int errors[COUNTERS_EVENTS_COUNT];
	uint64_t own[COUNTERS_EVENTS_COUNT]; /* of an empty begin and end */
	struct counters_image before;
	ssize_t got;
};

/* Of the calling thread. Cannot fail: what is not counted says why in the sums. kernel NULL:
 * nothing is counted, because nobody asked. */
void counters_open(struct counters *counters, const struct counters_kernel *kernel);
void counters_close(struct counters *counters);

/* Whether begin and end count anything. */
static inline bool counters_work(const struct counters *counters)
{
	return counters->count != 0;
}

void counters_begin(struct counters *counters);
/* Adds what was counted since begin, for so many operations. */
void counters_end(struct counters *counters, struct counters_sum *sum, uint64_t operations);

/* total += part. An event that part lacks is lacking in both. */
void counters_add(struct counters_sum *total, const struct counters_sum *part);

/* 0, or -errno when the event was not counted, or not all the time. */
int counters_error(const struct counters_sum *sum, enum counters_event event);
/* Whether at least one event was. */
bool counters_any(const struct counters_sum *sum);
/* Per operation; 0 when it was not counted. */
double counters_per_operation(const struct counters_sum *sum, enum counters_event event);
/* One line that says what was not counted and why; "" when all events were. */
void counters_why(const struct counters_sum *sum, char text[COUNTERS_WHY_SIZE]);
