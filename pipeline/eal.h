/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DPDK's environment, once per process. Takes huge pages when there are free ones and says so;
 * without them it runs as an ordinary user on plain pages. Workers are threads of our own,
 * registered with DPDK, so that their number is not fixed at initialisation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { PIPELINE_EAL_NOTE_SIZE = 128 };

/* Ask for transparent huge pages for DPDK's memory, where it did not take explicit ones: before
 * much of it has been used. */
void pipeline_eal_advise_huge(void);

/* What packet buffers and DPDK's tables will ask for, on huge pages and on plain ones, where DPDK
 * lets no packet buffer cross from one page into the next. */
struct pipeline_eal_need {
	size_t huge_bytes, plain_bytes;
};

/*
 * *huge says which memory was
 * taken (of the first call: later calls return what it chose). devices (may hold NULL) are the
 * ports the run wants; the PCI bus is scanned only for those. -ENOMEM, -EIO with message
 * (PIPELINE_MESSAGE_SIZE).
 */
int pipeline_eal_start(const struct pipeline_eal_need *need, bool no_huge,
	const char *const *devices, size_t devices_count, bool *huge, char *message);
