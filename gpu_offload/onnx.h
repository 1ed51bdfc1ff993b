/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to gpu_offload/: the parts of reading an ONNX file.
 *
 *	onnx_wire.c    bytes to fields
 *	onnx_graph.c   fields to nodes, attributes and tensors; everything stays where it lies
 *	onnx_lower.c   nodes, in the file's order, to layers; shapes are followed and checked
 *	onnx_layers.c  the operators with weights or windows
 *	onnx_shape.c   the operators that only rearrange, and those between two operands
 *	onnx_integer.c QuantizeLinear and MatMulInteger
 *	onnx_trees.c   TreeEnsembleClassifier
 *	onnx_fold.c    a scale behind a layer with weights goes into the weights
 *
 * The first axis of every value is the batch and is left out of shapes here: what would mix rows is
 * refused. Errors are told once, with onnx_fail, and returned as -errno.
 */
#pragma once

#include "base/compiler.h"
#include "gpu_offload/layers.h"
#include "gpu_offload/onnx_wire.h"

enum {
	ONNX_BYTES_MAX = 1 << 27,
	ONNX_NODES_MAX = 1024,
	ONNX_CONSTANTS_MAX = 2048,
	ONNX_ITEMS_MAX = 8192, /* named values of a graph */
	ONNX_NODE_INPUTS_MAX = 8,
	ONNX_NODE_OUTPUTS_MAX = 4,
	ONNX_OPSET_MIN = 7,
	ONNX_OPSET_MAX = 21,
};

/* TensorProto.DataType, those that are read. */
enum onnx_type {
	ONNX_FLOAT = 1,
	ONNX_UINT8 = 2,
	ONNX_INT8 = 3,
	ONNX_INT32 = 6,
	ONNX_INT64 = 7,
	ONNX_BOOL = 9,
	ONNX_FLOAT16 = 10,
	ONNX_DOUBLE = 11,
};

/* A tensor whose numbers are known. Doubles hold all of floats and of the integers in use. */
struct onnx_tensor {
	uint32_t rank;
	uint32_t dims[MODEL_RANK_MAX];
	uint32_t count;
	enum onnx_type type;
	double *data;
};

enum onnx_item_kind { ONNX_CONSTANT, ONNX_VALUE, ONNX_LABELS };

/* A name of the graph and what it stands for. */
struct onnx_item {
	struct onnx_span name;
	enum onnx_item_kind kind;
	struct onnx_tensor constant;
	uint32_t value; /* of ONNX_VALUE; of ONNX_LABELS the value whose highest score they are */
	/* Of ONNX_VALUE: ONNX_UINT8, ONNX_INT8 or ONNX_INT32 when it holds integers, else 0. */
	uint32_t integer;
	bool biased; /* a bias was added to its layer since: nothing may use it any more */
	uint32_t rank;
	uint32_t dims[MODEL_RANK_MAX]; /* of one row */
};

struct onnx_node {
	struct onnx_span name, op, domain;
	struct onnx_span bytes; /* the NodeProto, for its attributes */
	struct onnx_span inputs[ONNX_NODE_INPUTS_MAX];
	struct onnx_span outputs[ONNX_NODE_OUTPUTS_MAX];
	uint32_t inputs_count, outputs_count;
};

struct onnx {
	const char *name; /* of the file, for messages */
	char *error;
	size_t error_size;
	int64_t opset;
	struct onnx_span graph;
	const struct onnx_node *node; /* the one at work, for messages; NULL: none */
	struct onnx_item *items;
	uint32_t items_count;
	uint32_t nodes_count;
	uint64_t constants; /* numbers held in constants */
	uint64_t macs;      /* of the layers so far */
	struct gpu_offload_model *model;
};

/* ---- onnx.c ---- */

/* "<name>: node 'n' (Op): <message>"; returns error. */
int onnx_fail(struct onnx *onnx, int error, const char *format, ...) BASE_PRINTF(3, 4);
/* A name out of the file, fit for a message: printable, cut. text has size 48. */
const char *onnx_text(struct onnx_span span, char text[48]);
bool onnx_is(struct onnx_span span, const char *text);

/* ---- onnx_graph.c ---- */

/* Find the graph and the opset. */
int onnx_open_model(struct onnx *onnx, struct onnx_span file);
/* Read one NodeProto. */
int onnx_read_node(struct onnx *onnx, struct onnx_span bytes, struct onnx_node *node);
/* Read a TensorProto; its name too. tensor->data is the caller's to free. */
int onnx_load_tensor(struct onnx *onnx, struct onnx_span bytes, struct onnx_span *name,
	struct onnx_tensor *tensor);
/* Name, element type and shape of a ValueInfoProto, without its first axis; a symbolic first axis
 * is fine, any other is refused. */
int onnx_read_input(struct onnx *onnx, struct onnx_span bytes, struct onnx_item *item);
/* Only the name. */
int onnx_read_name(struct onnx *onnx, struct onnx_span bytes, struct onnx_span *name);

/* ---- onnx_attribute.c ---- */

/* Attributes of the node at work. They leave *value alone when there is none. */
int onnx_get_int(struct onnx *onnx, const char *name, int64_t *value);
int onnx_get_float(struct onnx *onnx, const char *name, double *value);
int onnx_get_string(struct onnx *onnx, const char *name, struct onnx_span *value);
/* 1: there; 0: not. */
int onnx_get_tensor(struct onnx *onnx, const char *name, struct onnx_span *value);
/* Up to max small integers; count 0: not there. */
int onnx_get_ints(
	struct onnx *onnx, const char *name, int64_t values[], uint32_t max, uint32_t *count);
/* Calls for each element of a list, in order, with its number; *count of them. each returns 0, or
 * -errno after onnx_fail. */
struct onnx_element {
	uint32_t index;
	int64_t integer;
	double number;
	struct onnx_span string;
};
int onnx_get_list(struct onnx *onnx, const char *name, uint32_t *count,
	int (*each)(struct onnx *onnx, const struct onnx_element *element, void *user), void *user);

/* ---- onnx_lower.c ---- */

int onnx_lower(struct onnx *onnx);
/* Input of the node at work; NULL and told when there is none, or not of this kind. */
struct onnx_item *onnx_input(struct onnx *onnx, uint32_t index, enum onnx_item_kind kind);
/* Whether an optional input is given. */
bool onnx_has_input(const struct onnx *onnx, uint32_t index);
/* What an input is; told when it is not there. */
struct onnx_item *onnx_operand(struct onnx *onnx, uint32_t index);
/* A named output: *item is put under the node's output. */
int onnx_add_output(struct onnx *onnx, uint32_t index, struct onnx_item *item);
/*
 * A layer of the input's value, whose output is the node's first, of this shape. On failure the
 * layer's memory is freed.
 */
int onnx_add_layer(struct onnx *onnx, const struct onnx_item *input, struct layer *layer,
	uint32_t rank, const uint32_t dims[]);
/* Product, at most MODEL_VALUE_MAX; 0: more, or none. */
uint32_t onnx_count(uint32_t rank, const uint32_t dims[]);
/* Copy as floats; told when one is not finite, or memory is out. */
float *onnx_load_floats(struct onnx *onnx, const struct onnx_tensor *tensor);

/* ---- operators ---- */

int onnx_gemm(struct onnx *onnx);
int onnx_matmul(struct onnx *onnx);
int onnx_conv(struct onnx *onnx);
int onnx_pool(struct onnx *onnx);
int onnx_global_pool(struct onnx *onnx);
int onnx_batch_normalization(struct onnx *onnx);
int onnx_binary(struct onnx *onnx);
int onnx_flatten(struct onnx *onnx);
int onnx_reshape(struct onnx *onnx);
int onnx_transpose(struct onnx *onnx);
int onnx_softmax(struct onnx *onnx);
int onnx_argmax(struct onnx *onnx);
int onnx_cast(struct onnx *onnx);
int onnx_dequantize(struct onnx *onnx);
int onnx_trees(struct onnx *onnx);
int onnx_quantize(struct onnx *onnx);
int onnx_matmul_integer(struct onnx *onnx);
/* One scale for a block of numbers, in QuantizeLinear and DequantizeLinear: refused. */
int onnx_refuse_blocks(struct onnx *onnx);
/* A bias of 32 bits on what MatMulInteger makes: part of its sums. op: '+', others are refused. */
int onnx_add_integers(struct onnx *onnx, struct onnx_item *a, struct onnx_item *b, char op);

/* Whether all sums of a layer of integers stay exact in 32-bit floats; told. */
int onnx_integer_check(struct onnx *onnx, const struct layer_dense *dense);

/* ---- onnx_fold.c ---- */

/* Layers that scale what a layer with weights makes become part of it; unused ones go. */
int onnx_fold(struct onnx *onnx);
