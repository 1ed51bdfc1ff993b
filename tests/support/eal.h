/* SPDX-License-Identifier: BSD-2-Clause */
/* DPDK's runtime for tests: no huge pages, no devices, no files left behind, no privileges. */
#pragma once

enum { SUPPORT_SKIPPED = 77 };

/* Starts it once per process with 512 MB. Returns 0; where it cannot run here, says why and exits
 * with SUPPORT_SKIPPED. */
int support_eal_init(void);
