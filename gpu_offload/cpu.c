/* SPDX-License-Identifier: BSD-2-Clause */
/* The back end `cpu`: the best kernels that this machine has, computed within submit. */
#include "gpu_offload/backend_private.h"
#include "gpu_offload/cpu_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The best first. */
static const struct cpu_kernels *const sets[] = {
#if defined(__x86_64__)
	&cpu_kernels_avx512,
	&cpu_kernels_avx2,
#endif
	&cpu_kernels_plain,
};

const struct cpu_kernels *cpu_kernels_nth(size_t index)
{
	return index < sizeof(sets) / sizeof(sets[0]) ? sets[index] : NULL;
}

struct cpu {
	struct gpu_offload_backend backend;
	struct backend_done done;
	struct cpu_plan *plan;
};

static int cpu_submit(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct cpu *cpu = (struct cpu *)backend;
	if (backend_done_full(&cpu->done, backend->config.batches_max))
		return -EAGAIN;
	cpu_plan_run(cpu->plan, batch->inputs, batch->count, batch->labels, batch->scores);
	batch->status = 0;
	backend_done_push(&cpu->done, batch);
	return 0;
}

static uint32_t cpu_poll(
	struct gpu_offload_backend *backend, struct gpu_offload_batch *done[], uint32_t max)
{
	return backend_done_pop(&((struct cpu *)backend)->done, done, max);
}

static void cpu_destroy(struct gpu_offload_backend *backend)
{
	struct cpu *cpu = (struct cpu *)backend;
	cpu_plan_destroy(cpu->plan);
	free(cpu);
}

int backend_cpu_create_with(struct gpu_offload_backend **out,
	const struct gpu_offload_backend_config *config, const struct cpu_kernels *kernels,
	char text[], size_t size)
{
	struct cpu *cpu = calloc(1, sizeof(*cpu));
	int error = cpu == NULL ? -ENOMEM : cpu_plan_create(&cpu->plan, config->model, kernels);
	if (error != 0) {
		free(cpu);
		snprintf(text, size, "out of memory");
		return error;
	}
	cpu->backend = (struct gpu_offload_backend){ &backend_cpu, *config };
	snprintf(text, size, "%s", kernels->name);
	*out = &cpu->backend;
	return 0;
}

static int cpu_create(struct gpu_offload_backend **out,
	const struct gpu_offload_backend_config *config, char text[], size_t size)
{
	static const char *const names[] = {
		[GPU_OFFLOAD_CPU_AVX512] = "AVX-512",
		[GPU_OFFLOAD_CPU_AVX2] = "AVX2",
		[GPU_OFFLOAD_CPU_PLAIN] = "plain C",
	};
	const char *name = names[config->cpu_kernels];
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (sets[i]->usable() && (name == NULL || strcmp(name, sets[i]->name) == 0))
			return backend_cpu_create_with(out, config, sets[i], text, size);
	}
	snprintf(text, size, "this machine has no %s", name);
	return -ENOTSUP;
}

const struct gpu_offload_backend_ops backend_cpu = {
	.name = "cpu",
	.summary = "32-bit floats with the vector units of this machine",
	.create = cpu_create,
	.destroy = cpu_destroy,
	.submit = cpu_submit,
	.poll = cpu_poll,
};
