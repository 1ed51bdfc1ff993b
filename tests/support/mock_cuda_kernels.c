/* SPDX-License-Identifier: BSD-2-Clause */
/* What the test double of libcuda computes in place of the kernels: plain C, row by row. */
#include "tests/support/mock_cuda_private.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void run_mlp_row(const struct cuda_mlp *mlp, const float *inputs, float *scores)
{
	float *x = malloc((mlp->width_max + 1) * sizeof(float));
	float *y = malloc((mlp->width_max + 1) * sizeof(float));
	const float *weights = CUDA_AT(const float, mlp->weights);
	memcpy(x, inputs, mlp->widths[0] * sizeof(float));
	for (uint32_t l = 0; l < mlp->layers; l++) {
		uint32_t in = mlp->widths[l], out = cuda_four(mlp->widths[l + 1]);
		for (uint32_t o = 0; o < out; o++) {
			float sum = weights[in * out + o];
			for (uint32_t i = 0; i < in; i++)
				sum += x[i] * weights[i * out + o];
			y[o] = (mlp->relu >> l & 1) != 0 && sum < 0 ? 0 : sum;
		}
		weights += (in + 1) * out;
		float *swap = x;
		x = y;
		y = swap;
	}
	memcpy(scores, x, mlp->widths[mlp->layers] * sizeof(float));
	free(x);
	free(y);
}

static void run_mlp(
	const struct cuda_mlp *mlp, const struct cuda_rows *rows, uint32_t group, uint32_t groups)
{
	uint32_t classes = mlp->widths[mlp->layers];
	const float *inputs = CUDA_AT(const float, rows->inputs);
	uint32_t *labels = CUDA_AT(uint32_t, rows->labels);
	float *to = rows->scores == 0 ? NULL : CUDA_AT(float, rows->scores);
	float *scores = malloc(classes * sizeof(float));
	for (uint32_t row = 0; row < rows->rows; row++) {
		if (row / CUDA_TILE_ROWS % groups != group)
			continue;
		run_mlp_row(mlp, inputs + (uint64_t)row * mlp->widths[0], scores);
		for (uint32_t c = 0; c < classes && mock_control.wrong; c++)
			scores[c] += (float)(c + 1);
		labels[row] = cuda_label(scores, classes, 1);
		if (to != NULL)
			memcpy(to + (uint64_t)row * classes, scores, classes * sizeof(float));
	}
	free(scores);
}

static void run_layer(const struct kernel_arguments *a)
{
	const float *x = CUDA_AT(const float, a->x), *second = CUDA_AT(const float, a->second);
	float *y = CUDA_AT(float, a->y);
	for (uint64_t row = 0; row < a->count; row++) {
		for (uint32_t u = 0; u < a->layer.units; u++)
			cuda_unit(&a->layer, x + row * a->layer.x_count,
				second + row * a->layer.second_count, y + row * a->layer.y_count,
				u);
	}
}

static void run_label(const struct kernel_arguments *a)
{
	float *scores = CUDA_AT(float, a->x);
	for (uint64_t row = 0; row < a->count; row++) {
		for (uint32_t c = 0; c < a->classes && mock_control.wrong; c++)
			scores[row * a->classes + c] += (float)(c + 1);
		CUDA_AT(uint32_t, a->y)[row] = cuda_label(scores + row * a->classes, a->classes, 1);
	}
}

void mock_launch(const struct kernel_launch *launch)
{
	const struct kernel_arguments *a = &launch->arguments;
	if (launch->kernel == KERNEL_MLP)
		run_mlp(&a->mlp, &a->rows, 0, 1);
	else if (launch->kernel == KERNEL_LABEL)
		run_label(a);
	else
		run_layer(a);
}

static uint32_t load(uint32_t *at)
{
	return atomic_load_explicit((_Atomic uint32_t *)at, memory_order_acquire);
}

static void serve(struct stream *stream, uint32_t s, uint32_t request)
{
	const struct kernel_launch *stays = &stream->stays;
	struct cuda_slot *slot = &CUDA_AT(struct cuda_ring, stays->arguments.x)->slots[s];
	const struct cuda_rows rows = { slot->inputs, slot->labels, slot->scores, slot->rows, 0 };
	for (uint32_t g = 0; g < stays->grid_x; g++) {
		run_mlp(&stays->arguments.mlp, &rows, g, stays->grid_x);
		atomic_store_explicit(
			(_Atomic uint32_t *)&slot->done[g], request, memory_order_release);
	}
}

void *mock_persistent(void *argument)
{
	struct stream *stream = argument;
	struct cuda_ring *ring = CUDA_AT(struct cuda_ring, stream->stays.arguments.x);
	uint32_t served[CUDA_SLOTS_MAX] = { 0 }, at = 0, slots = stream->stays.grid_y;
	while (mock_control.hang || (load(&ring->stop) == 0 && !mock_control.quit)) {
		/* Slots in an order of its own: batches overtake each other. */
		at = (at + slots - 1) % slots;
		uint32_t s = at;
		uint32_t request = load(&ring->slots[s].request);
		if (request != served[s] && mock_goes_on()) {
			serve(stream, s, request);
			served[s] = request;
		} else {
			usleep(20); /* a device that hangs does not hear the host either */
		}
	}
	stream->thread_ended = true;
	return NULL;
}
