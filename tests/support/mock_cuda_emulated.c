/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the test double of libcuda computes with the kernels themselves, compiled for the CPU. Still
 * a TEST DOUBLE: MOCK_CUDA_WRONG has no effect here, and no time of it means anything.
 */
#include "tests/support/mock_cuda_private.h"

#include <unistd.h>

/* A device that hangs does not see what others write either. */
static void wait_while_hanging(void)
{
	while (mock_control.hang)
		usleep(20);
}

void mock_launch(const struct kernel_launch *launch)
{
	cuda_kernels_run(launch, mock_control.seed + mock_control.launches, NULL);
}

void *mock_persistent(void *argument)
{
	struct stream *stream = argument;
	cuda_kernels_run(&stream->stays, mock_control.seed, wait_while_hanging);
	stream->thread_ended = true;
	return NULL;
}
