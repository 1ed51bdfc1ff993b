/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/function.h"

static int lb_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *config, char *message)
{
	(void)context;
	(void)config;
	(void)message;
	*out = NULL;
	return 0;
}

static void lb_destroy(void *function)
{
	(void)function;
}

static void lb_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	(void)function;
	(void)burst;
	(void)now_ns;
}

const struct chain_function_ops chain_lb_ops = {
	.name = "lb",
	.user_bytes = 16,
	.create = lb_create,
	.destroy = lb_destroy,
	.process = lb_process,
	.process_scalar = lb_process,
};
