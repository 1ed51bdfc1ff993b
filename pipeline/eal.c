/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/eal.h"

#include "pipeline/memory.h"
#include "pipeline/pipeline.h"

#include <rte_debug.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_memory.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILES_MIN = 32 };

static int advise(const struct rte_memseg_list *list, void *context)
{
	(void)context;
	if (list->base_va != NULL && list->len != 0)
		(void)madvise(list->base_va, list->len, MADV_HUGEPAGE);
	return 0;
}

void pipeline_eal_advise_huge(void)
{
	(void)rte_memseg_list_walk(advise, NULL);
}

/* "--lcores=0@(0,1)": the main thread floats over every CPU the process may use. */
static void format_lcores(char *text, size_t text_size)
{
	cpu_set_t allowed;
	size_t used = (size_t)snprintf(text, text_size, "--lcores=0");
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	const char *separator = "@(";
	for (int cpu = 0; cpu < CPU_SETSIZE && used + 16 < text_size; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		used += (size_t)snprintf(text + used, text_size - used, "%s%d", separator, cpu);
		separator = ",";
	}
	snprintf(text + used, text_size - used, ")");
}

/* "0000:01:00.0" names a PCI device; everything else is a virtual one, probed later. */
static bool is_pci(const char *device)
{
	unsigned int domain, bus, slot, function;
	return device != NULL &&
	       (sscanf(device, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4 ||
		       sscanf(device, "%x:%x.%x", &bus, &slot, &function) == 3);
}

static int start(size_t plain_bytes, bool huge, const char *const *devices, size_t devices_count)
{
	char lcores[1024], memory[32];
	char *arguments[32];
	int count = 0;
	bool pci = false;
	format_lcores(lcores, sizeof(lcores));
	snprintf(memory, sizeof(memory), "%zu", plain_bytes / (1024 * 1024) + 128);
	arguments[count++] = "sheaf";
	arguments[count++] = lcores;
	arguments[count++] = "--no-telemetry";
	arguments[count++] = "--log-level=critical";
	if (huge) {
		arguments[count++] = "--in-memory";
	} else { /* 22.11 refuses --no-huge with --in-memory */
		arguments[count++] = "--no-huge";
		arguments[count++] = "--no-shconf";
		arguments[count++] = "-m";
		arguments[count++] = memory;
	}
	for (size_t i = 0; i < devices_count && i < 8; i++) {
		if (!is_pci(devices[i]))
			continue;
		pci = true;
		arguments[count++] = "-a";
		arguments[count++] = (char *)devices[i];
	}
	if (!pci)
		arguments[count++] = "--no-pci";
	return rte_eal_init(count, arguments);
}

int pipeline_eal_start(const struct pipeline_eal_need *need, bool no_huge,
	const char *const *devices, size_t devices_count, bool *huge, char *message)
{
	if (rte_lcore_count() != 0) { /* an earlier run started it; a second start only complains */
		*huge = rte_eal_has_hugepages() != 0;
		return 0;
	}
	/* Without files to open, DPDK ends the process instead of failing. */
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MIN) {
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"DPDK could not start: got %llu open files, expected %d or more (ulimit "
			"-n)",
			(unsigned long long)files.rlim_cur, FILES_MIN);
		return -EMFILE;
	}
	bool take_huge = !no_huge && pipeline_memory_huge_free("") >= need->huge_bytes;
	rte_log_set_global_level(RTE_LOG_CRIT);
	if (start(need->plain_bytes, take_huge, devices, devices_count) >= 0) {
		*huge = take_huge;
		return 0;
	}
	snprintf(message, PIPELINE_MESSAGE_SIZE, "DPDK could not start: %s",
		rte_strerror(rte_errno));
	return -EIO;
}
