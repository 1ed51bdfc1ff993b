/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t onnx_count(uint32_t rank, const uint32_t dims[])
{
	uint64_t count = 1;
	for (uint32_t a = 0; a < rank; a++) {
		count *= dims[a];
		if (count == 0 || count > MODEL_VALUE_MAX)
			return 0;
	}
	return (uint32_t)count;
}

static bool same(struct onnx_span a, struct onnx_span b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

static struct onnx_item *find_item(struct onnx *onnx, struct onnx_span name)
{
	for (uint32_t i = 0; i < onnx->items_count; i++) {
		if (same(onnx->items[i].name, name))
			return &onnx->items[i];
	}
	return NULL;
}

/* Takes what the item holds, also when it fails. */
static int add_item(struct onnx *onnx, const struct onnx_item *item)
{
	char text[48];
	int error = 0;
	if (find_item(onnx, item->name) != NULL)
		error = onnx_fail(
			onnx, -EINVAL, "the name '%s' is given twice", onnx_text(item->name, text));
	else if (onnx->items_count == ONNX_ITEMS_MAX)
		error = onnx_fail(onnx, -E2BIG, "more than %d names", ONNX_ITEMS_MAX);
	if (error == 0)
		onnx->items[onnx->items_count++] = *item;
	else if (item->kind == ONNX_CONSTANT)
		free(item->constant.data);
	return error;
}

bool onnx_has_input(const struct onnx *onnx, uint32_t index)
{
	return index < onnx->node->inputs_count && onnx->node->inputs[index].length > 0;
}

struct onnx_item *onnx_operand(struct onnx *onnx, uint32_t index)
{
	char text[48];
	if (!onnx_has_input(onnx, index)) {
		onnx_fail(onnx, -EINVAL, "has no input %" PRIu32, index);
		return NULL;
	}
	struct onnx_item *item = find_item(onnx, onnx->node->inputs[index]);
	if (item == NULL)
		onnx_fail(onnx, -EINVAL,
			"input '%s' is neither a tensor nor made by an earlier node",
			onnx_text(onnx->node->inputs[index], text));
	else if (item->biased)
		onnx_fail(onnx, -ENOTSUP, "input '%s': integers without the bias that is added",
			onnx_text(onnx->node->inputs[index], text));
	return item == NULL || item->biased ? NULL : item;
}

struct onnx_item *onnx_input(struct onnx *onnx, uint32_t index, enum onnx_item_kind kind)
{
	static const char *const kinds[] = { "a constant", "a value of each row", "labels" };
	struct onnx_item *item = onnx_operand(onnx, index);
	if (item != NULL && item->kind != kind) {
		onnx_fail(onnx, -ENOTSUP, "input %" PRIu32 ": got %s, expected %s", index,
			kinds[item->kind], kinds[kind]);
		return NULL;
	}
	if (item != NULL && kind == ONNX_VALUE && item->integer != 0) {
		onnx_fail(
			onnx, -ENOTSUP, "input %" PRIu32 ": got integers, expected floats", index);
		return NULL;
	}
	return item;
}

int onnx_add_output(struct onnx *onnx, uint32_t index, struct onnx_item *item)
{
	if (index >= onnx->node->outputs_count || onnx->node->outputs[index].length == 0) {
		if (item->kind == ONNX_CONSTANT)
			free(item->constant.data);
		return index > 0 ? 0 : onnx_fail(onnx, -EINVAL, "has no output");
	}
	item->name = onnx->node->outputs[index];
	return add_item(onnx, item);
}

float *onnx_load_floats(struct onnx *onnx, const struct onnx_tensor *tensor)
{
	float *floats = malloc(tensor->count * sizeof(float));
	if (floats == NULL) {
		onnx_fail(onnx, -ENOMEM, "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < tensor->count; i++) {
		floats[i] = (float)tensor->data[i];
		if (isfinite(floats[i]))
			continue;
		onnx_fail(onnx, -EINVAL, "got %g at %" PRIu32 ", which no 32-bit float holds",
			tensor->data[i], i);
		free(floats);
		return NULL;
	}
	return floats;
}

static uint64_t total(const struct gpu_offload_model *model)
{
	uint64_t elements = 0;
	for (uint32_t i = 0; i < model->values_count; i++)
		elements += model->values[i];
	return elements;
}

static int check_limits(struct onnx *onnx, const struct layer *layer)
{
	struct gpu_offload_model *model = onnx->model;
	if (total(model) > MODEL_VALUES_MAX)
		return onnx_fail(onnx, -E2BIG, "more than %d numbers in all values of a row",
			MODEL_VALUES_MAX);
	onnx->macs += layer_macs(model, layer);
	if (onnx->macs > MODEL_MACS_MAX)
		return onnx_fail(onnx, -E2BIG, "more than %" PRIu64 " multiply-adds for a row",
			MODEL_MACS_MAX);
	return 0;
}

int onnx_add_layer(struct onnx *onnx, const struct onnx_item *input, struct layer *layer,
	uint32_t rank, const uint32_t dims[])
{
	struct gpu_offload_model *model = onnx->model;
	struct onnx_item output = {
		.kind = ONNX_VALUE, .value = model->values_count, .rank = rank
	};
	uint32_t count = onnx_count(rank, dims);
	int error = 0;
	if (count == 0)
		error = onnx_fail(
			onnx, -E2BIG, "makes more than %d numbers a row", MODEL_VALUE_MAX);
	else if (model->layers_count == MODEL_LAYERS_MAX)
		error = onnx_fail(onnx, -E2BIG, "more than %d layers", MODEL_LAYERS_MAX);
	if (error != 0) {
		layer_free(layer);
		return error;
	}
	memcpy(output.dims, dims, rank * sizeof(*dims));
	layer->input = input->value;
	layer->output = model->values_count;
	model->values[model->values_count++] = count;
	error = check_limits(onnx, layer);
	if (error == 0)
		error = onnx_add_output(onnx, 0, &output);
	if (error != 0)
		layer_free(layer);
	else
		model->layers[model->layers_count++] = *layer;
	return error;
}

/* ---- operators ---------------------------------------------------------------------------- */

static int lower_elements(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	struct layer layer = { .kind = LAYER_RELU };
	if (input == NULL)
		return -EINVAL;
	if (onnx_is(onnx->node->op, "Sigmoid"))
		layer.kind = LAYER_SIGMOID;
	else if (onnx_is(onnx->node->op, "Tanh"))
		layer.kind = LAYER_TANH;
	return onnx_add_layer(onnx, input, &layer, input->rank, input->dims);
}

static int lower_constant(struct onnx *onnx)
{
	struct onnx_item output = { .kind = ONNX_CONSTANT };
	struct onnx_span bytes, name;
	int found = onnx_get_tensor(onnx, "value", &bytes);
	if (found == 0)
		return onnx_fail(onnx, -ENOTSUP, "only the attribute value is supported");
	if (found < 0)
		return found;
	int error = onnx_load_tensor(onnx, bytes, &name, &output.constant);
	return error != 0 ? error : onnx_add_output(onnx, 0, &output);
}

static int lower_identity(struct onnx *onnx)
{
	struct onnx_item *input = onnx_operand(onnx, 0);
	if (input == NULL)
		return -EINVAL;
	struct onnx_item output = *input;
	if (input->kind == ONNX_CONSTANT)
		return onnx_fail(onnx, -ENOTSUP, "of a constant");
	return onnx_add_output(onnx, 0, &output);
}

struct operator
{
	const char *name, *domain;
	int (*lower)(struct onnx * onnx);
	const char *attributes; /* that are read, or change nothing; each with a blank behind it */
};

#define WINDOW "auto_pad dilations kernel_shape pads strides "

static const char trees_attributes[] =
	"base_values class_ids class_nodeids class_treeids class_weights classlabels_int64s "
	"classlabels_strings nodes_falsenodeids nodes_featureids nodes_hitrates "
	"nodes_missing_value_tracks_true nodes_modes nodes_nodeids nodes_treeids "
	"nodes_truenodeids nodes_values post_transform ";

static const struct operator operators[] = {
	{ "Add", "", onnx_binary, "" },
	{ "ArgMax", "", onnx_argmax, "axis keepdims select_last_index " },
	{ "AveragePool", "", onnx_pool, WINDOW "ceil_mode count_include_pad " },
	{ "BatchNormalization", "", onnx_batch_normalization,
		"epsilon momentum spatial training_mode " },
	{ "Cast", "", onnx_cast, "to saturate " },
	{ "Constant", "", lower_constant, NULL },
	{ "Conv", "", onnx_conv, WINDOW "group " },
	{ "DequantizeLinear", "", onnx_dequantize, "axis block_size " },
	{ "Flatten", "", onnx_flatten, "axis " },
	{ "Gemm", "", onnx_gemm, "alpha beta transA transB " },
	{ "GlobalAveragePool", "", onnx_global_pool, "" },
	{ "Identity", "", lower_identity, "" },
	{ "MatMul", "", onnx_matmul, "" },
	{ "MatMulInteger", "", onnx_matmul_integer, "" },
	{ "MaxPool", "", onnx_pool, WINDOW "ceil_mode storage_order " },
	{ "Mul", "", onnx_binary, "" },
	{ "QuantizeLinear", "", onnx_quantize, "axis block_size output_dtype saturate " },
	{ "Relu", "", lower_elements, "" },
	{ "Reshape", "", onnx_reshape, "allowzero " },
	{ "Sigmoid", "", lower_elements, "" },
	{ "Softmax", "", onnx_softmax, "axis " },
	{ "Sub", "", onnx_binary, "" },
	{ "Tanh", "", lower_elements, "" },
	{ "Transpose", "", onnx_transpose, "perm " },
	{ "TreeEnsembleClassifier", "ai.onnx.ml", onnx_trees, trees_attributes },
};

static bool is_listed(struct onnx_span name, const char *list)
{
	for (const char *end; (end = strchr(list, ' ')) != NULL; list = end + 1) {
		if ((size_t)(end - list) == name.length && memcmp(list, name.at, name.length) == 0)
			return true;
	}
	return false;
}

/* What is not read could change what the operator means. */
static int check_attributes(struct onnx *onnx, const char *known)
{
	struct onnx_span node = onnx->node->bytes, name;
	struct onnx_field field;
	char text[48];
	while (known != NULL && onnx_wire_next(&node, &field) == 1) {
		if (field.number != 5 || field.type != ONNX_WIRE_BYTES)
			continue;
		int error = onnx_read_name(onnx, field.bytes, &name);
		if (error != 0)
			return error;
		if (!is_listed(name, known))
			return onnx_fail(onnx, -ENOTSUP, "attribute '%s' is not supported",
				onnx_text(name, text));
	}
	return 0;
}

static int lower_node(struct onnx *onnx, const struct onnx_node *node)
{
	char text[48];
	onnx->node = node;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(operators); i++) {
		const char *domain = operators[i].domain;
		bool here = onnx_is(node->domain, domain) ||
			    (domain[0] == 0 && onnx_is(node->domain, "ai.onnx"));
		if (!here || !onnx_is(node->op, operators[i].name))
			continue;
		int error = check_attributes(onnx, operators[i].attributes);
		return error != 0 ? error : operators[i].lower(onnx);
	}
	if (node->domain.length > 0)
		return onnx_fail(onnx, -ENOTSUP, "the operator is not supported (domain %s)",
			onnx_text(node->domain, text));
	return onnx_fail(onnx, -ENOTSUP, "the operator is not supported");
}

/* ---- the graph ---------------------------------------------------------------------------- */

/* Calls for each field of that number. */
static int each_in_graph(
	struct onnx *onnx, uint32_t number, int (*each)(struct onnx *onnx, struct onnx_span bytes))
{
	struct onnx_span graph = onnx->graph;
	struct onnx_field field;
	int more, error;
	while ((more = onnx_wire_next(&graph, &field)) == 1) {
		if (field.number != number || field.type != ONNX_WIRE_BYTES)
			continue;
		error = each(onnx, field.bytes);
		if (error != 0)
			return error;
	}
	return more < 0 ? onnx_fail(onnx, -EINVAL, "damaged or cut short") : 0;
}

static int refuse_sparse(struct onnx *onnx, struct onnx_span bytes)
{
	(void)bytes;
	return onnx_fail(onnx, -ENOTSUP, "sparse tensors are not supported");
}

static int load_initializer(struct onnx *onnx, struct onnx_span bytes)
{
	struct onnx_item item = { .kind = ONNX_CONSTANT };
	if (onnx->items_count == ONNX_CONSTANTS_MAX)
		return onnx_fail(onnx, -E2BIG, "more than %d tensors", ONNX_CONSTANTS_MAX);
	int error = onnx_load_tensor(onnx, bytes, &item.name, &item.constant);
	return error != 0 ? error : add_item(onnx, &item);
}

/* Older files list their tensors among the inputs as well. */
static int read_graph_input(struct onnx *onnx, struct onnx_span bytes)
{
	struct gpu_offload_model *model = onnx->model;
	struct onnx_item item = { .kind = ONNX_VALUE };
	int error = onnx_read_name(onnx, bytes, &item.name);
	if (error != 0)
		return error;
	const struct onnx_item *known = find_item(onnx, item.name);
	if (known != NULL && known->kind == ONNX_CONSTANT)
		return 0;
	if (model->values_count > 0)
		return onnx_fail(onnx, -ENOTSUP, "got more than one input");
	error = onnx_read_input(onnx, bytes, &item);
	if (error != 0)
		return error;
	model->inputs = model->values[0] = onnx_count(item.rank, item.dims);
	model->values_count = 1;
	return add_item(onnx, &item);
}

static int lower_graph_node(struct onnx *onnx, struct onnx_span bytes)
{
	struct onnx_node node;
	onnx->node = NULL;
	if (onnx->nodes_count++ == ONNX_NODES_MAX)
		return onnx_fail(onnx, -E2BIG, "more than %d nodes", ONNX_NODES_MAX);
	int error = onnx_read_node(onnx, bytes, &node);
	if (error == 0)
		error = lower_node(onnx, &node);
	onnx->node = NULL;
	return error;
}

/* The value that a value is the softmax of, or itself: both have the same highest score. */
static uint32_t before_softmax(const struct gpu_offload_model *model, uint32_t value)
{
	const struct layer *layer = value > 0 ? &model->layers[value - 1] : NULL;
	return layer != NULL && layer->kind == LAYER_SOFTMAX &&
			       layer->softmax.axis == model->values[value]
		       ? layer->input
		       : value;
}

/* Scores are the result; labels say which value's highest score they are. */
static int read_graph_output(struct onnx *onnx, struct onnx_span bytes)
{
	struct gpu_offload_model *model = onnx->model;
	struct onnx_span name;
	char text[48];
	int error = onnx_read_name(onnx, bytes, &name);
	if (error != 0)
		return error;
	onnx_text(name, text);
	const struct onnx_item *item = find_item(onnx, name);
	if (item == NULL || item->kind == ONNX_CONSTANT)
		return onnx_fail(onnx, -EINVAL, "output '%s' is made by no node", text);
	if (item->value == 0)
		return onnx_fail(onnx, -EINVAL, "output '%s' is the input", text);
	if (item->biased)
		return onnx_fail(onnx, -ENOTSUP,
			"output '%s': integers without the bias that is added", text);
	if (model->result == 0) {
		model->result = item->value;
		return 0;
	}
	if (before_softmax(model, model->result) != before_softmax(model, item->value))
		return onnx_fail(onnx, -ENOTSUP,
			"output '%s': got outputs of different scores, expected one of scores and "
			"one of their labels",
			text);
	if (item->kind == ONNX_VALUE)
		model->result = item->value;
	return 0;
}

static int check_result(struct onnx *onnx)
{
	struct gpu_offload_model *model = onnx->model;
	if (model->result == 0)
		return onnx_fail(onnx, -EINVAL, "the graph has no output");
	model->classes = model->values[model->result];
	if (model->classes > GPU_OFFLOAD_CLASSES_MAX)
		return onnx_fail(onnx, -E2BIG, "classes: got %" PRIu32 ", expected 1 .. %d",
			model->classes, GPU_OFFLOAD_CLASSES_MAX);
	return 0;
}

int onnx_lower(struct onnx *onnx)
{
	struct gpu_offload_model *model = onnx->model;
	model->layers = calloc(MODEL_LAYERS_MAX, sizeof(*model->layers));
	model->values = calloc(MODEL_LAYERS_MAX + 1, sizeof(*model->values));
	if (model->layers == NULL || model->values == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	int error = each_in_graph(onnx, 15, refuse_sparse);
	if (error == 0)
		error = each_in_graph(onnx, 5, load_initializer);
	if (error == 0)
		error = each_in_graph(onnx, 11, read_graph_input);
	if (error == 0 && model->values_count == 0)
		error = onnx_fail(onnx, -EINVAL, "the graph has no input");
	if (error == 0)
		error = each_in_graph(onnx, 1, lower_graph_node);
	if (error == 0)
		error = each_in_graph(onnx, 12, read_graph_output);
	return error != 0 ? error : check_result(onnx);
}
