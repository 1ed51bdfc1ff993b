/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes, assertions and small helpers that every folder uses. libc only. */
#pragma once

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#define BASE_CACHE_LINE 64u

#define BASE_LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define BASE_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
/* gcc takes a function that only prefetches for one without effects and deletes calls to it; the
 * empty asm is an effect. */
#define BASE_PREFETCH(address)                                                                     \
	__extension__({                                                                            \
		__builtin_prefetch((address), 0, 3);                                               \
		__asm__ __volatile__("");                                                          \
	})
/* Into the second-level cache, for many at a time: the first level has places for about a dozen
 * lines under way, and a further prefetch waits for one. */
#define BASE_PREFETCH_FAR(address)                                                                 \
	__extension__({                                                                            \
		__builtin_prefetch((address), 0, 2);                                               \
		__asm__ __volatile__("");                                                          \
	})
#define BASE_PREFETCH_W(address)                                                                   \
	__extension__({                                                                            \
		__builtin_prefetch((address), 1, 3);                                               \
		__asm__ __volatile__("");                                                          \
	})
#define BASE_ALIGNED(bytes)    __attribute__((aligned(bytes)))
#define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* For our own bugs only: stays on in every build, cheap enough off the per-packet path. */
#define BASE_ASSERT(condition) ((condition) ? (void)0 : abort())

/* On the per-packet path: checked in debug and sanitizer builds. */
#ifdef BASE_SANITIZED
#define BASE_DEBUG_ASSERT(condition) BASE_ASSERT(condition)
#else
#define BASE_DEBUG_ASSERT(condition) ((void)sizeof(condition))
#endif

#define BASE_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
