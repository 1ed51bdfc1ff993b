/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/cuda/program.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(CUDA_DENSE == (int)LAYER_DENSE && CUDA_CONV == (int)LAYER_CONV &&
		      CUDA_AFFINE == (int)LAYER_AFFINE && CUDA_ADD == (int)LAYER_ADD &&
		      CUDA_RELU == (int)LAYER_RELU && CUDA_SIGMOID == (int)LAYER_SIGMOID &&
		      CUDA_TANH == (int)LAYER_TANH && CUDA_MAX_POOL == (int)LAYER_MAX_POOL &&
		      CUDA_AVERAGE_POOL == (int)LAYER_AVERAGE_POOL &&
		      CUDA_TRANSPOSE == (int)LAYER_TRANSPOSE &&
		      CUDA_SOFTMAX == (int)LAYER_SOFTMAX && CUDA_TREES == (int)LAYER_TREES,
	"kinds of layers");
static_assert(
	sizeof(struct cuda_tree_node) == sizeof(struct tree_node) &&
		offsetof(struct cuda_tree_node, mode) == offsetof(struct tree_node, mode) &&
		offsetof(struct cuda_tree_node, nan_yes) == offsetof(struct tree_node, nan_yes) &&
		sizeof(struct cuda_tree_weight) == sizeof(struct tree_weight),
	"nodes of trees");
static_assert(sizeof(struct cuda_axis) == sizeof(struct layer_axis), "axes");
static_assert(sizeof(struct cuda_slot) == 192 && offsetof(struct cuda_slot, done) == 64 &&
		      offsetof(struct cuda_ring, slots) == 64,
	"the ring");

enum { SCRATCH_FLOATS_MAX = 1 << 24, GRID_MAX = 1 << 16 };

/* From where on a product of matrices is thought to pay, by counting; not measured. */
enum { PRODUCT_DEPTH_MIN = 32, PRODUCT_COLUMNS_MIN = 16 };

int cuda_device_check(struct cuda_device *device, int result)
{
	if (result == CUDA_OK)
		return 0;
	device->error = result;
	return result == CUDA_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

static int fail(struct cuda_device *device, const char *what, int result, int error, char text[],
	size_t size)
{
	device->error = result;
	snprintf(text, size, "%s: %s", what, cuda_api_error(&device->api, result));
	return error;
}

static int load_kernels(struct cuda_device *device, char text[], size_t size)
{
	const struct cuda_api *api = &device->api;
	const struct {
		const char *name;
		void **function;
	} kernels[] = {
		{ "sheaf_mlp", &device->mlp },
		{ "sheaf_layer", &device->layer },
		{ "sheaf_product", &device->product },
		{ "sheaf_label", &device->label },
		{ "sheaf_persistent", &device->persistent },
	};
	int result = api->module_load(&device->module, cuda_image);
	if (result == CUDA_NO_BINARY)
		return fail(device, "kernels for sm_80 and later", result, -ENOTSUP, text, size);
	if (result != CUDA_OK)
		return fail(device, "kernels", result, -EIO, text, size);
	/* All of them now: a kernel that is loaded while another one stays would wait for it. */
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		result = api->module_function(kernels[i].function, device->module, kernels[i].name);
		if (result != CUDA_OK)
			return fail(device, kernels[i].name, result, -EIO, text, size);
	}
	return 0;
}

static int open_driver(struct cuda_device *device, int index, char text[], size_t size)
{
	const struct cuda_api *api = &device->api;
	int version = 0, count = 0, result = api->init(0);
	if (result == CUDA_NO_DEVICE)
		return fail(device, "no GPU", result, -ENODEV, text, size);
	if (result != CUDA_OK)
		return fail(device, "cuInit", result, -ENODEV, text, size);
	if (api->version(&version) != CUDA_OK || version < CUDA_DRIVER_MIN) {
		snprintf(text, size, "driver: got CUDA %d.%d, expected 12.0 or later",
			version / 1000, version % 1000 / 10);
		return -ENOTSUP;
	}
	result = api->device_count(&count);
	if (result != CUDA_OK)
		return fail(device, "cuDeviceGetCount", result, -ENODEV, text, size);
	if (index < 0 || index >= count) {
		snprintf(text, size, "GPU: got number %d, there are %d", index, count);
		return -ENODEV;
	}
	result = api->device_get(&device->device, index);
	if (result == CUDA_OK)
		result = api->device_name(device->name, sizeof(device->name), device->device);
	if (result == CUDA_OK)
		result = api->device_attribute(
			&device->processors, CUDA_ATTRIBUTE_PROCESSORS, device->device);
	if (result == CUDA_OK)
		result = api->device_attribute(
			&device->shared_bytes, CUDA_ATTRIBUTE_SHARED_OPTIN, device->device);
	if (result == CUDA_OK)
		result = api->context_retain(&device->context, device->device);
	if (result == CUDA_OK)
		result = api->context_set(device->context);
	return result == CUDA_OK
		       ? 0
		       : fail(device, "GPU", result, result == CUDA_OUT_OF_MEMORY ? -ENOMEM : -EIO,
				 text, size);
}

int cuda_driver_open(
	struct cuda_device *device, const char *library, int index, char text[], size_t size)
{
	int error = cuda_api_load(&device->api, library, text, size);
	if (error == 0)
		error = open_driver(device, index, text, size);
	if (error != 0)
		cuda_device_close(device);
	return error;
}

int cuda_device_open(
	struct cuda_device *device, const char *library, int index, char text[], size_t size)
{
	int error = cuda_api_load(&device->api, library, text, size);
	if (error == 0 && cuda_image_size == 0 && !device->api.is_double) {
		snprintf(text, size, "this build has no kernels: nvcc was not there");
		error = -ENOTSUP;
	}
	if (error == 0)
		error = open_driver(device, index, text, size);
	if (error == 0)
		error = load_kernels(device, text, size);
	if (error != 0)
		cuda_device_close(device);
	return error;
}

void cuda_device_close(struct cuda_device *device)
{
	if (device->module != NULL)
		device->api.module_unload(device->module);
	if (device->context != NULL)
		device->api.context_release(device->device);
	device->module = device->context = NULL;
	cuda_api_close(&device->api);
}

/* ---- weights ------------------------------------------------------------------------------ */

/* Bytes for the device, gathered here and copied at once. */
struct image {
	unsigned char *bytes;
	size_t used;
	cuda_address base; /* 0 while counting */
};

static uint64_t image_add(struct image *image, const void *from, size_t size)
{
	size_t at = (image->used + 15) / 16 * 16;
	if (image->bytes != NULL)
		memcpy(image->bytes + at, from, size);
	image->used = at + size;
	return image->base + at;
}

static void fill_windows(
	struct cuda_layer *to, const struct layer_axis *h, const struct layer_axis *w)
{
	memcpy(&to->h, h, sizeof(to->h));
	memcpy(&to->w, w, sizeof(to->w));
}

static void fill_trees(struct cuda_layer *to, const struct layer_trees *trees, struct image *image)
{
	to->units = 1;
	to->inputs = trees->features;
	to->outputs = trees->classes;
	to->trees = trees->trees;
	to->post = trees->post;
	to->roots = image_add(image, trees->roots, trees->trees * sizeof(*trees->roots));
	to->nodes = image_add(image, trees->nodes, trees->nodes_count * sizeof(*trees->nodes));
	to->weights =
		image_add(image, trees->weights, trees->weights_count * sizeof(*trees->weights));
	to->bias = image_add(image, trees->base, trees->classes * sizeof(float));
}

static void fill_transpose(struct cuda_layer *to, const struct layer_transpose *from)
{
	to->rank = from->rank;
	memcpy(to->dims, from->in, sizeof(to->dims));
	memcpy(to->axes, from->axes, sizeof(to->axes));
}

static void fill_weights(struct cuda_layer *to, const struct layer *layer, struct image *image)
{
	const struct layer_dense *dense = &layer->dense;
	const struct layer_conv *conv = &layer->conv;
	const struct layer_affine *affine = &layer->affine;
	if (layer->kind == LAYER_DENSE) {
		to->inputs = dense->inputs;
		to->outputs = dense->outputs;
		to->weights = image_add(image, dense->weights,
			(size_t)dense->inputs * dense->outputs * sizeof(float));
		to->bias = image_add(image, dense->bias, dense->outputs * sizeof(float));
	} else if (layer->kind == LAYER_CONV) {
		size_t taps =
			(size_t)conv->channels_in / conv->groups * conv->h.kernel * conv->w.kernel;
		to->inputs = conv->channels_in;
		to->outputs = conv->channels_out;
		to->groups = conv->groups;
		fill_windows(to, &conv->h, &conv->w);
		to->weights =
			image_add(image, conv->weights, conv->channels_out * taps * sizeof(float));
		to->bias = image_add(image, conv->bias, conv->channels_out * sizeof(float));
	} else {
		to->channels = affine->channels;
		to->inner = affine->inner;
		to->weights = image_add(image, affine->scale, affine->channels * sizeof(float));
		to->bias = image_add(image, affine->shift, affine->channels * sizeof(float));
	}
}

static void fill_layer(const struct gpu_offload_model *model, const struct layer *layer,
	struct cuda_layer *to, struct image *image)
{
	*to = (struct cuda_layer){
		.kind = layer->kind,
		.units = model->values[layer->output],
		.x_count = model->values[layer->input],
		.second_count = layer->kind == LAYER_ADD ? model->values[layer->second] : 0,
		.y_count = model->values[layer->output],
	};
	switch (layer->kind) {
	case LAYER_DENSE:
	case LAYER_CONV:
	case LAYER_AFFINE:
		fill_weights(to, layer, image);
		break;
	case LAYER_MAX_POOL:
	case LAYER_AVERAGE_POOL:
		fill_windows(to, &layer->pool.h, &layer->pool.w);
		to->count_pad = layer->pool.count_pad;
		break;
	case LAYER_TRANSPOSE:
		fill_transpose(to, &layer->transpose);
		break;
	case LAYER_SOFTMAX:
		to->axis = layer->softmax.axis;
		to->inner = layer->softmax.inner;
		to->units = layer->softmax.outer * layer->softmax.inner;
		break;
	case LAYER_TREES:
		fill_trees(to, &layer->trees, image);
		break;
	default:
		break;
	}
}

/* Outputs of each input, then the bias: lines of four floats, the last filled up with zeros, one
 * layer right behind the other. The image is zeros. */
static void fill_mlp_layer(float *to, const struct layer_dense *dense)
{
	uint32_t line = cuda_four(dense->outputs);
	for (uint32_t i = 0; i < dense->inputs; i++)
		memcpy(to + (size_t)i * line, dense->weights + (size_t)i * dense->outputs,
			dense->outputs * sizeof(float));
	memcpy(to + (size_t)dense->inputs * line, dense->bias, dense->outputs * sizeof(float));
}

static void fill_mlp(struct cuda_program *program, struct image *image)
{
	const struct gpu_offload_model *model = program->model;
	struct cuda_mlp *mlp = &program->mlp;
	*mlp = (struct cuda_mlp){ .widths[0] = model->inputs,
		.width_max = cuda_four(model->inputs) };
	for (uint32_t i = 0; i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		if (layer->kind == LAYER_RELU) {
			mlp->relu |= 1u << (mlp->layers - 1);
			continue;
		}
		const struct layer_dense *dense = &layer->dense;
		uint32_t outputs = cuda_four(dense->outputs);
		if (image->bytes != NULL)
			fill_mlp_layer((float *)(void *)image->bytes + mlp->weights_count, dense);
		mlp->weights_count += (dense->inputs + 1) * outputs;
		mlp->widths[++mlp->layers] = dense->outputs;
		if (outputs > mlp->width_max)
			mlp->width_max = outputs;
	}
	image->used = mlp->weights_count * sizeof(float);
	mlp->weights = image->base;
}

static uint32_t dense_layers(const struct gpu_offload_model *model)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < model->layers_count; i++)
		count += model->layers[i].kind == LAYER_DENSE;
	return count;
}

static void fill_image(struct cuda_program *program, struct image *image)
{
	image->used = 0;
	if (program->fused) {
		fill_mlp(program, image);
		return;
	}
	for (uint32_t i = 0; i < program->model->layers_count; i++)
		fill_layer(program->model, &program->model->layers[i], &program->layers[i], image);
}

/* Whether weights and two tiles of values fit into shared memory. */
static bool choose_fused(struct cuda_program *program)
{
	const struct gpu_offload_model *model = program->model;
	struct image image = { 0 };
	if (!model_is_mlp(model) || dense_layers(model) > CUDA_MLP_LAYERS_MAX)
		return false;
	fill_mlp(program, &image);
	uint64_t floats =
		program->mlp.weights_count + 2 * (uint64_t)CUDA_TILE_LINE * program->mlp.width_max;
	program->shared_bytes = (uint32_t)(floats * sizeof(float));
	return floats * sizeof(float) <= (uint64_t)program->device->shared_bytes;
}

/* Whether weights can be taken apart. */
static bool weights_in_reach(const float *weights, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!(fabsf(weights[i]) < CUDA_PRODUCT_MAX))
			return false;
	}
	return true;
}

static bool choose_product(const struct layer *layer, const struct cuda_layer *to,
	enum gpu_offload_cuda_kernels kernels)
{
	if (kernels == GPU_OFFLOAD_CUDA_PLAIN ||
		(layer->kind != LAYER_DENSE && layer->kind != LAYER_CONV))
		return false;
	struct cuda_product product = cuda_product_of(to, 1);
	size_t count = (size_t)product.depth * product.columns * product.groups;
	bool large = product.depth >= PRODUCT_DEPTH_MIN && product.columns >= PRODUCT_COLUMNS_MIN;
	return (large || kernels == GPU_OFFLOAD_CUDA_TENSOR) &&
	       weights_in_reach(
		       layer->kind == LAYER_DENSE ? layer->dense.weights : layer->conv.weights,
		       count);
}

static void choose_products(struct cuda_program *program, enum gpu_offload_cuda_kernels kernels)
{
	for (uint32_t i = 0; i < program->model->layers_count && !program->fused; i++) {
		program->products[i] =
			choose_product(&program->model->layers[i], &program->layers[i], kernels);
		program->products_count += program->products[i];
	}
}

static int fill_device(struct cuda_program *program)
{
	struct cuda_device *device = program->device;
	struct image image = { 0 };
	fill_image(program, &image);
	size_t size = image.used > 0 ? image.used : 1;
	image.bytes = calloc(1, size);
	if (image.bytes == NULL)
		return -ENOMEM;
	int error = cuda_device_check(device, device->api.mem_alloc(&program->weights, size));
	image.base = program->weights;
	if (error == 0) {
		fill_image(program, &image);
		error = cuda_device_check(
			device, device->api.copy_in(program->weights, image.bytes, size));
	}
	free(image.bytes);
	return error;
}

/* Where values lie in a chunk's scratch. The inputs lie elsewhere. */
static void fill_scratch(struct cuda_program *program, uint32_t rows_max)
{
	const struct gpu_offload_model *model = program->model;
	for (uint32_t i = 1; i < model->values_count; i++) {
		program->values[i] = program->row_floats;
		program->row_floats += model->values[i];
	}
	uint64_t chunk = SCRATCH_FLOATS_MAX / program->row_floats;
	program->chunk = chunk == 0 ? 1 : chunk < rows_max ? (uint32_t)chunk : rows_max;
}

int cuda_program_create(struct cuda_program *program, struct cuda_device *device,
	const struct gpu_offload_model *model, uint32_t rows_max,
	enum gpu_offload_cuda_kernels kernels)
{
	*program = (struct cuda_program){ .model = model, .device = device };
	program->fused = kernels == GPU_OFFLOAD_CUDA_BEST && choose_fused(program);
	program->layers = calloc(model->layers_count, sizeof(*program->layers));
	program->values = calloc(model->values_count, sizeof(*program->values));
	program->products = calloc(model->layers_count, sizeof(*program->products));
	int error = program->layers == NULL || program->values == NULL || program->products == NULL
			    ? -ENOMEM
			    : 0;
	if (error == 0) {
		fill_scratch(program, rows_max);
		error = fill_device(program);
	}
	if (error == 0)
		choose_products(program, kernels);
	void *const fused[] = { device->mlp, device->persistent };
	for (size_t i = 0; error == 0 && program->fused && i < 2; i++)
		error = cuda_device_check(
			device, device->api.function_attribute(fused[i], CUDA_FUNCTION_SHARED,
					(int)program->shared_bytes));
	if (error != 0)
		cuda_program_destroy(program);
	return error;
}

void cuda_program_free(struct cuda_program *program)
{
	free(program->layers);
	free(program->values);
	free(program->products);
	program->products = NULL;
	program->layers = NULL;
	program->values = NULL;
}

void cuda_program_destroy(struct cuda_program *program)
{
	if (program->weights != 0)
		program->device->api.mem_free(program->weights);
	program->weights = 0;
	cuda_program_free(program);
}

/* ---- launches ----------------------------------------------------------------------------- */

void cuda_program_describe(const struct cuda_program *program, char text[], size_t size)
{
	if (program->fused)
		snprintf(text, size, "fused perceptron");
	else if (program->products_count == 0)
		snprintf(text, size, "layer by layer");
	else
		snprintf(text, size, "layer by layer, %u of %u on tensor cores",
			program->products_count, program->model->layers_count);
}

size_t cuda_program_scratch(const struct cuda_program *program)
{
	return program->fused ? 0 : program->chunk * program->row_floats * sizeof(float);
}

static unsigned int blocks_for(uint64_t threads)
{
	uint64_t blocks = (threads + CUDA_BLOCK - 1) / CUDA_BLOCK;
	return blocks > GRID_MAX ? GRID_MAX : (unsigned int)blocks;
}

static int launch(struct cuda_device *device, void *function, unsigned int blocks,
	unsigned int shared, void *stream, void **arguments)
{
	return cuda_device_check(device, device->api.launch(function, blocks, 1, 1, CUDA_BLOCK, 1,
						 1, shared, stream, arguments, NULL));
}

static int launch_mlp(struct cuda_program *program, const struct cuda_rows *rows, void *stream)
{
	struct cuda_rows copy = *rows;
	void *arguments[] = { &program->mlp, &copy };
	unsigned int tiles = (rows->rows + CUDA_TILE_ROWS - 1) / CUDA_TILE_ROWS;
	/* A processor keeps 1 kB of its shared memory for itself for each block. */
	unsigned int each = ((unsigned int)program->device->shared_bytes + 1024) /
			    (program->shared_bytes + 1024);
	each = each < CUDA_MLP_BLOCKS ? each : CUDA_MLP_BLOCKS;
	unsigned int most = (unsigned int)program->device->processors * each;
	return launch(program->device, program->device->mlp, tiles < most ? tiles : most,
		program->shared_bytes, stream, arguments);
}

/* One layer over rows. at: addresses of its input, its second one, and its output. */
static int launch_layer(
	struct cuda_program *program, uint32_t number, uint64_t at[3], uint32_t rows, void *stream)
{
	struct cuda_device *device = program->device;
	struct cuda_layer *layer = &program->layers[number];
	void *arguments[] = { layer, &at[0], &at[1], &at[2], &rows };
	if (!program->products[number])
		return launch(device, device->layer, blocks_for((uint64_t)rows * layer->units), 0,
			stream, arguments);
	struct cuda_product product = cuda_product_of(layer, rows);
	uint64_t tiles = cuda_product_tiles(&product);
	return launch(device, device->product, tiles < GRID_MAX ? (unsigned int)tiles : GRID_MAX,
		CUDA_PRODUCT_FLOATS * sizeof(float), stream, arguments);
}

/* All layers over a chunk of rows; scores are the last value, so they are copied by it. */
static int launch_chunk(struct cuda_program *program, const struct cuda_rows *chunk,
	cuda_address scratch, void *stream)
{
	const struct gpu_offload_model *model = program->model;
	uint32_t rows = chunk->rows, classes = model->classes;
	int error = 0;
	for (uint32_t i = 0; error == 0 && i < model->layers_count; i++) {
		const struct layer *layer = &model->layers[i];
		uint64_t at[3];
		const uint32_t numbers[3] = { layer->input, layer->second, layer->output };
		for (int j = 0; j < 3; j++)
			at[j] = numbers[j] == 0 ? chunk->inputs
				: numbers[j] == model->result && chunk->scores != 0
					? chunk->scores
					: scratch + program->values[numbers[j]] * program->chunk *
							    sizeof(float);
		error = launch_layer(program, i, at, rows, stream);
	}
	uint64_t scores = chunk->scores != 0 ? chunk->scores
					     : scratch + program->values[model->result] *
								 program->chunk * sizeof(float);
	uint64_t labels = chunk->labels;
	void *arguments[] = { &scores, &labels, &classes, &rows };
	if (error == 0)
		error = launch(program->device, program->device->label, blocks_for(rows), 0, stream,
			arguments);
	return error;
}

int cuda_program_launch(struct cuda_program *program, const struct cuda_rows *rows,
	cuda_address scratch, void *stream)
{
	const struct gpu_offload_model *model = program->model;
	int error = 0;
	if (program->fused)
		return launch_mlp(program, rows, stream);
	for (uint32_t first = 0; error == 0 && first < rows->rows; first += program->chunk) {
		uint32_t rest = rows->rows - first;
		struct cuda_rows chunk = {
			.inputs = rows->inputs + (uint64_t)first * model->inputs * sizeof(float),
			.labels = rows->labels + (uint64_t)first * sizeof(uint32_t),
			.scores = rows->scores == 0
					  ? 0
					  : rows->scores + (uint64_t)first * model->classes *
								   sizeof(float),
			.rows = rest < program->chunk ? rest : program->chunk,
		};
		error = launch_chunk(program, &chunk, scratch, stream);
	}
	return error;
}
