/* SPDX-License-Identifier: BSD-2-Clause */
/* For benchmarks without DPDK's environment. */
#pragma once

#include <stdint.h>

/* Cycles of the time stamp counter in a second, measured over 20 ms. */
double bench_clock_tsc_hz(void);

/* CPU time of the calling thread. */
uint64_t bench_clock_thread_ns(void);

/* CPU time of all threads of this process: of a driver's too. */
uint64_t bench_clock_process_ns(void);

/* Monotone wall time. */
uint64_t bench_clock_wall_ns(void);
