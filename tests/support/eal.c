/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/eal.h"

#include "base/compiler.h"

#include <errno.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int support_eal_init(void)
{
	/* rte_eal_init keeps and may permute the pointers; the strings stay untouched. */
	static char words[][24] = { "t", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry",
		"--lcores=0", "-m", "512", "--log-level=error" };
	char *argv[BASE_ARRAY_COUNT(words) + 1];
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(words); i++)
		argv[i] = words[i];
	argv[BASE_ARRAY_COUNT(words)] = NULL;
	if (rte_eal_init((int)BASE_ARRAY_COUNT(words), argv) >= 0)
		return 0;
	if (rte_errno == EALREADY)
		return 0;
	printf("SKIP: the DPDK runtime does not start here: %s\n", rte_strerror(rte_errno));
	exit(SUPPORT_SKIPPED);
}
