/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/function.h"

static int nat_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *config, char *message)
{
	(void)context;
	(void)config;
	(void)message;
	*out = NULL;
	return 0;
}

static void nat_destroy(void *function)
{
	(void)function;
}

static void nat_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	(void)function;
	(void)burst;
	(void)now_ns;
}

const struct chain_function_ops chain_nat_ops = {
	.name = "nat",
	.user_bytes = 16,
	.create = nat_create,
	.destroy = nat_destroy,
	.process = nat_process,
	.process_scalar = nat_process,
};

int chain_nat_worker(const struct chain_nat_config *config, const struct base_packet *packet,
	uint16_t workers, uint16_t *worker)
{
	(void)config;
	(void)packet;
	(void)workers;
	(void)worker;
	return -2;
}
