/* SPDX-License-Identifier: BSD-2-Clause */
/* What the test double of libcuda does when a stream gets its turn. */
#include "tests/support/mock_cuda_private.h"

#include <stdlib.h>
#include <string.h>

void mock_graph_push(struct graph *graph, const struct op *op)
{
	graph->ops = realloc(graph->ops, (graph->count + 1) * sizeof(*op));
	graph->ops[graph->count++] = *op;
}

bool mock_goes_on(void)
{
	if (mock_control.hang_after > 0 && --mock_control.hang_after == 0)
		mock_control.hang = true;
	return !mock_control.hang;
}

void mock_execute(const struct op *op)
{
	switch (op->kind) {
	case OP_IN:
		memcpy(mock_at(op->copy.device), op->copy.host, op->copy.size);
		break;
	case OP_OUT:
		memcpy(op->copy.host, mock_at(op->copy.device), op->copy.size);
		break;
	case OP_LAUNCH:
		mock_launch(&op->launch);
		break;
	case OP_GRAPH:
		for (size_t i = 0; i < op->graph->count; i++)
			mock_execute(&op->graph->ops[i]);
		break;
	default:
		break;
	}
}
