/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock that tells how long it was waited for: a pthread mutex, or one that spins. Taking one that
 * is free reads no clock.
 *
 * Threads: any. A holder that is not running stops all others.
 */
#pragma once

#include "base/compiler.h"
#include "pipeline/sharing.h"

#include <pthread.h>
#include <stdatomic.h>

struct sharing_lock {
	bool spins;
	pthread_mutex_t mutex;
	atomic_uint_least32_t taken; /* 0 or 1; partner: the holder before */
};

/* -errno. */
int sharing_lock_init(struct sharing_lock *lock, bool spins);
void sharing_lock_free(struct sharing_lock *lock);

void sharing_lock_take(struct sharing_lock *lock, struct sharing_waits *waits);
void sharing_lock_release(struct sharing_lock *lock);
