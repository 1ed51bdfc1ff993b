/* SPDX-License-Identifier: BSD-2-Clause */
/* Cycle counter: cost measurement only, never a decision. TSC on x86-64, virtual counter on ARM. */
#pragma once

#include <stdint.h>

static inline uint64_t base_cycles(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t value;
	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
#error "no cycle counter for this architecture"
#endif
}
