/* SPDX-License-Identifier: BSD-2-Clause */
/* The locks of a run whose workers share connections, which exist to be compared with. */
#include "pipeline/sharing_lock.h"

#include "base/cycles.h"

#include <rte_pause.h>

#include <sched.h>

enum { SPINS_PER_YIELD = 64 };

int sharing_lock_init(struct sharing_lock *lock, bool spins)
{
	lock->spins = spins;
	atomic_init(&lock->taken, 0);
	return -pthread_mutex_init(&lock->mutex, NULL);
}

void sharing_lock_free(struct sharing_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static bool try(struct sharing_lock *lock)
{
	if (!lock->spins)
		return pthread_mutex_trylock(&lock->mutex) == 0;
	/* acquire: pairs with the release in sharing_lock_release */
	return atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire) == 0;
}

static void wait(struct sharing_lock *lock)
{
	if (!lock->spins) {
		pthread_mutex_lock(&lock->mutex);
		return;
	}
	unsigned int spins = 0;
	do {
		/* relaxed: only to see when it is worth trying */
		while (atomic_load_explicit(&lock->taken, memory_order_relaxed) != 0) {
			if (++spins % SPINS_PER_YIELD == 0)
				sched_yield();
			rte_pause();
		}
	} while (!try(lock));
}

void sharing_lock_take(struct sharing_lock *lock, struct sharing_waits *waits)
{
	waits->locks++;
	if (BASE_LIKELY(try(lock)))
		return;
	uint64_t since = base_cycles();
	wait(lock);
	waits->contended++;
	waits->waited_cycles += base_cycles() - since;
}

void sharing_lock_release(struct sharing_lock *lock)
{
	if (lock->spins)
		atomic_store_explicit(&lock->taken, 0, memory_order_release);
	else
		pthread_mutex_unlock(&lock->mutex);
}
