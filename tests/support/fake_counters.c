/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/fake_counters.h"

#include "base/compiler.h"

#include <errno.h>
#include <string.h>

enum { FIRST_FILE = 100, FIRST_ID = 7000 };

/* What an event must ask the kernel for. */
static const struct {
	uint32_t type;
	uint64_t config;
} asked[COUNTERS_EVENTS_COUNT] = {
	[COUNTERS_INSTRUCTIONS] = { 0, 1 },
	[COUNTERS_CYCLES] = { 0, 0 },
	[COUNTERS_LLC_MISSES] = { 0, 3 },
	[COUNTERS_L1D_MISSES] = { 3, 0x10000 },
	[COUNTERS_DTLB_MISSES] = { 3, 0x10003 },
	[COUNTERS_BRANCH_MISSES] = { 0, 5 },
};

static int fake_open(void *context, const struct perf_event_attr *attributes, int group)
{
	struct fake_counters *fake = context;
	unsigned int event = 0;
	while (event < COUNTERS_EVENTS_COUNT && (asked[event].type != attributes->type ||
							asked[event].config != attributes->config))
		event++;
	fake->leader = group;
	fake->all_user_mode = fake->all_user_mode && attributes->exclude_kernel &&
			      attributes->exclude_hv && !attributes->inherit;
	if (event == COUNTERS_EVENTS_COUNT || attributes->size != sizeof(*attributes))
		return -EINVAL;
	if (fake->refuse[event] != 0)
		return fake->refuse[event];
	if (group != (fake->open_count == 0 ? -1 : FIRST_FILE) ||
		attributes->disabled != (fake->open_count == 0))
		return -EBADF;
	fake->open[fake->open_count] = event;
	fake->opens++;
	return FIRST_FILE + (int)fake->open_count++;
}

static int fake_identify(void *context, int file, uint64_t *id)
{
	struct fake_counters *fake = context;
	*id = FIRST_ID + (uint64_t)(fake->same_ids ? 0 : file);
	return fake->identify_error;
}

static int fake_enable(void *context, int file)
{
	struct fake_counters *fake = context;
	fake->enabled = file == FIRST_FILE && fake->enable_error == 0;
	return fake->enable_error;
}

static void pass_time(struct fake_counters *fake)
{
	bool fits = fake->room == 0 || fake->open_count <= fake->room;
	if (!fake->enabled)
		return;
	fake->enabled_ns += FAKE_COUNTERS_STEP_NS;
	if (fits)
		fake->running_ns += FAKE_COUNTERS_STEP_NS * (100 - fake->idle_percent) / 100;
	for (unsigned int i = 0; i < COUNTERS_EVENTS_COUNT && fits; i++)
		fake->values[i] += FAKE_COUNTERS_OWN;
}

/* Events in the order that nobody expects: last first. */
static ssize_t fake_read(void *context, int file, void *bytes, size_t size)
{
	struct fake_counters *fake = context;
	struct counters_image image = { .count = fake->open_count + fake->events_surplus };
	size_t used = offsetof(struct counters_image, events) +
		      fake->open_count * sizeof(image.events[0]);
	fake->reads++;
	pass_time(fake);
	if (fake->read_error != 0)
		return fake->read_error;
	if (file != FIRST_FILE || size < used)
		return -EINVAL;
	image.enabled_ns = fake->enabled_ns;
	image.running_ns = fake->running_ns;
	for (unsigned int i = 0; i < fake->open_count; i++) {
		unsigned int from = fake->open_count - 1 - i;
		uint64_t value = fake->values[fake->open[from]];
		image.events[i].value = fake->backwards ? UINT64_MAX / 2 - value : value;
		(void)fake_identify(fake, FIRST_FILE + (int)from, &image.events[i].id);
	}
	if (fake->strange_id)
		image.events[0].id += 1000;
	memcpy(bytes, &image, used - fake->short_by);
	return (ssize_t)(used - fake->short_by);
}

static void fake_close(void *context, int file)
{
	struct fake_counters *fake = context;
	BASE_ASSERT(file == FIRST_FILE + (int)fake->open_count - 1);
	fake->open_count--;
	fake->closes++;
	if (fake->open_count == 0)
		fake->enabled = false;
}

void fake_counters_init(struct fake_counters *fake)
{
	*fake = (struct fake_counters){ .all_user_mode = true };
	fake->kernel = (struct counters_kernel){ fake, fake_open, fake_identify, fake_enable,
		fake_read, fake_close };
}
