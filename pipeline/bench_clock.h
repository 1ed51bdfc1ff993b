/* SPDX-License-Identifier: BSD-2-Clause */
/* For benchmarks without DPDK's environment. */
#pragma once

/* Cycles of the time stamp counter in a second, measured over 20 ms. */
double bench_clock_tsc_hz(void);
