/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/handover.h"

#include "base/cycles.h"

#include <rte_pause.h>

#include <sched.h>

enum { POLLS_PER_YIELD = 64 };

void handover_init(struct handover *handover, uint32_t workers)
{
	handover->workers = workers;
	for (unsigned int i = 0; i < PIPELINE_WORKERS_MAX; i++)
		atomic_init(&handover->seats[i].reached, 0);
}

void handover_reach(struct handover *handover, uint32_t worker, uint64_t epoch)
{
	atomic_store_explicit(&handover->seats[worker].reached, epoch, memory_order_release);
}

/* Whether everybody is through with what the worker will have in this epoch. */
static bool is_free(const struct handover *handover, uint32_t worker, uint64_t epoch)
{
	for (uint32_t back = 1; back < handover->workers && back <= epoch; back++) {
		uint32_t other = (worker + handover->workers - back) % handover->workers;
		if (atomic_load_explicit(&handover->seats[other].reached, memory_order_acquire) <=
			epoch - back)
			return false;
	}
	return true;
}

bool handover_wait(const struct handover *handover, uint32_t worker, uint64_t epoch,
	const atomic_bool *stop, uint64_t *waited_cycles)
{
	if (is_free(handover, worker, epoch))
		return true;
	uint64_t since = base_cycles();
	bool is_ours = false;
	for (unsigned int polls = 1; !is_ours; polls++) {
		if (atomic_load_explicit(stop, memory_order_relaxed)) /* partner: the handler */
			break;
		if (polls % POLLS_PER_YIELD == 0)
			sched_yield();
		rte_pause();
		is_ours = is_free(handover, worker, epoch);
	}
	*waited_cycles += base_cycles() - since;
	return is_ours;
}
