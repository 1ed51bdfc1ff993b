/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TreeEnsembleClassifier: parallel lists of attributes, one entry per node, made into node arrays.
 * Every node must hang under exactly one root of its tree, which rules cycles out.
 */
#include "gpu_offload/onnx.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A node as the file names it, with the index of its entry. */
struct named {
	int64_t tree, node;
	uint32_t index;
};

struct leaf_entry {
	struct named at;
	int64_t class;
	double weight;
};

struct reading {
	uint32_t count;  /* nodes */
	uint32_t leaves; /* entries of weights */
	struct named *names;
	int64_t *yes, *no;
	struct leaf_entry *entries;
	struct tree_node *nodes;
	uint8_t *parents; /* 1: hangs under another node */
	uint32_t classes;
	const char *list; /* the one at work */
};

/* ---- lists -------------------------------------------------------------------------------- */

enum list_kind {
	LIST_TREE,
	LIST_NODE,
	LIST_FEATURE,
	LIST_VALUE,
	LIST_MODE,
	LIST_YES,
	LIST_NO,
	LIST_NAN,
	LIST_CLASS_TREE,
	LIST_CLASS_NODE,
	LIST_CLASS,
	LIST_WEIGHT,
};

struct list {
	struct reading *reading;
	enum list_kind kind;
};

static int count_only(struct onnx *onnx, const struct onnx_element *element, void *user)
{
	(void)user;
	if (element->index >= MODEL_NODES_MAX)
		return onnx_fail(onnx, -E2BIG, "more than %d nodes", MODEL_NODES_MAX);
	return 0;
}

static int take_mode(struct onnx *onnx, struct onnx_span name, struct tree_node *node)
{
	static const char *const modes[] = { "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT",
		"BRANCH_EQ", "BRANCH_NEQ", "LEAF" };
	char text[48];
	for (uint8_t mode = TREE_LEQ; mode <= TREE_LEAF; mode++) {
		if (onnx_is(name, modes[mode])) {
			node->mode = mode;
			return 0;
		}
	}
	return onnx_fail(onnx, -ENOTSUP, "nodes_modes: got '%s'", onnx_text(name, text));
}

static int take_feature(struct onnx *onnx, int64_t feature, struct tree_node *node)
{
	if (feature < 0 || feature > UINT32_MAX)
		return onnx_fail(onnx, -EINVAL, "nodes_featureids: got %" PRId64, feature);
	node->feature = (uint32_t)feature;
	return 0;
}

static int take_node(struct onnx *onnx, const struct onnx_element *element, struct reading *reading,
	enum list_kind kind)
{
	uint32_t i = element->index;
	struct tree_node *node = &reading->nodes[i];
	switch (kind) {
	case LIST_TREE:
		reading->names[i].tree = element->integer;
		break;
	case LIST_NODE:
		reading->names[i].node = element->integer;
		break;
	case LIST_FEATURE:
		return take_feature(onnx, element->integer, node);
	case LIST_VALUE:
		if (!isfinite(element->number))
			return onnx_fail(onnx, -EINVAL,
				"nodes_values: got %g, expected a finite number", element->number);
		node->threshold = (float)element->number;
		break;
	case LIST_MODE:
		return take_mode(onnx, element->string, node);
	case LIST_YES:
		reading->yes[i] = element->integer;
		break;
	case LIST_NO:
		reading->no[i] = element->integer;
		break;
	default:
		node->nan_yes = element->integer != 0;
		break;
	}
	return 0;
}

static int take_entry(struct onnx *onnx, const struct onnx_element *element,
	struct reading *reading, enum list_kind kind)
{
	struct leaf_entry *entry = &reading->entries[element->index];
	switch (kind) {
	case LIST_CLASS_TREE:
		entry->at.tree = element->integer;
		break;
	case LIST_CLASS_NODE:
		entry->at.node = element->integer;
		break;
	case LIST_CLASS:
		if (element->integer < 0 || element->integer >= reading->classes)
			return onnx_fail(onnx, -EINVAL,
				"class_ids: got %" PRId64 ", expected 0 .. %" PRIu32,
				element->integer, reading->classes - 1);
		entry->class = element->integer;
		break;
	default:
		if (!isfinite(element->number))
			return onnx_fail(onnx, -EINVAL,
				"class_weights: got %g, expected a finite number", element->number);
		entry->weight = element->number;
		break;
	}
	return 0;
}

static int take_element(struct onnx *onnx, const struct onnx_element *element, void *user)
{
	const struct list *list = user;
	struct reading *reading = list->reading;
	bool entry = list->kind >= LIST_CLASS_TREE;
	uint32_t count = entry ? reading->leaves : reading->count;
	if (element->index >= count)
		return onnx_fail(onnx, -EINVAL, "%s: got more than %" PRIu32 " numbers",
			reading->list, count);
	return entry ? take_entry(onnx, element, reading, list->kind)
		     : take_node(onnx, element, reading, list->kind);
}

static int read_list(struct onnx *onnx, struct reading *reading, const char *name,
	enum list_kind kind, bool needed)
{
	struct list list = { reading, kind };
	uint32_t count, expected = kind >= LIST_CLASS_TREE ? reading->leaves : reading->count;
	reading->list = name;
	int error = onnx_get_list(onnx, name, &count, take_element, &list);
	if (error == 0 && count != expected && (needed || count != 0))
		error = onnx_fail(onnx, -EINVAL, "%s: got %" PRIu32 " numbers, expected %" PRIu32,
			name, count, expected);
	return error;
}

static int read_lists(struct onnx *onnx, struct reading *reading)
{
	static const struct {
		const char *name;
		enum list_kind kind;
		bool needed;
	} lists[] = {
		{ "nodes_treeids", LIST_TREE, true },
		{ "nodes_nodeids", LIST_NODE, true },
		{ "nodes_featureids", LIST_FEATURE, true },
		{ "nodes_values", LIST_VALUE, true },
		{ "nodes_modes", LIST_MODE, true },
		{ "nodes_truenodeids", LIST_YES, true },
		{ "nodes_falsenodeids", LIST_NO, true },
		{ "nodes_missing_value_tracks_true", LIST_NAN, false },
		{ "class_treeids", LIST_CLASS_TREE, true },
		{ "class_nodeids", LIST_CLASS_NODE, true },
		{ "class_ids", LIST_CLASS, true },
		{ "class_weights", LIST_WEIGHT, true },
	};
	int error = 0;
	for (size_t i = 0; error == 0 && i < BASE_ARRAY_COUNT(lists); i++)
		error = read_list(onnx, reading, lists[i].name, lists[i].kind, lists[i].needed);
	return error;
}

/* ---- trees -------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

static int by_index(const void *a, const void *b)
{
	const struct leaf_entry *x = a, *y = b;
	return (x->at.index > y->at.index) - (x->at.index < y->at.index);
}

static const struct named *find(const struct reading *reading, int64_t tree, int64_t node)
{
	const struct named key = { tree, node, 0 };
	return bsearch(&key, reading->names, reading->count, sizeof(key), by_name);
}

static int link_branch(
	struct onnx *onnx, struct reading *reading, int64_t tree, int64_t node, uint32_t *to)
{
	const struct named *child = find(reading, tree, node);
	if (child == NULL)
		return onnx_fail(
			onnx, -EINVAL, "tree %" PRId64 " has no node %" PRId64, tree, node);
	if (reading->parents[child->index])
		return onnx_fail(onnx, -EINVAL,
			"node %" PRId64 " of tree %" PRId64 " hangs under two nodes", node, tree);
	reading->parents[child->index] = 1;
	*to = child->index;
	return 0;
}

static int check_names(struct onnx *onnx, const struct reading *reading)
{
	for (uint32_t i = 1; i < reading->count; i++) {
		const struct named *name = &reading->names[i];
		if (by_name(name - 1, name) == 0)
			return onnx_fail(onnx, -EINVAL,
				"node %" PRId64 " of tree %" PRId64 " is given twice", name->node,
				name->tree);
	}
	return 0;
}

static int link_nodes(struct onnx *onnx, struct reading *reading, uint32_t inputs)
{
	qsort(reading->names, reading->count, sizeof(*reading->names), by_name);
	int error = check_names(onnx, reading);
	for (uint32_t i = 0; error == 0 && i < reading->count; i++) {
		const struct named *name = &reading->names[i];
		struct tree_node *node = &reading->nodes[name->index];
		if (node->mode == TREE_LEAF) {
			node->yes = node->no = 0;
			continue;
		}
		if (node->feature >= inputs)
			return onnx_fail(onnx, -EINVAL,
				"nodes_featureids: got %" PRIu32 ", expected 0 .. %" PRIu32,
				node->feature, inputs - 1);
		error = link_branch(
			onnx, reading, name->tree, reading->yes[name->index], &node->yes);
		if (error == 0)
			error = link_branch(
				onnx, reading, name->tree, reading->no[name->index], &node->no);
	}
	return error;
}

/* Weights stand together for each leaf, in the file's order of leaves' nodes. */
static int fill_weights(struct onnx *onnx, struct reading *reading, struct layer_trees *trees)
{
	for (uint32_t i = 0; i < reading->leaves; i++) {
		struct leaf_entry *entry = &reading->entries[i];
		const struct named *leaf = find(reading, entry->at.tree, entry->at.node);
		if (leaf == NULL || reading->nodes[leaf->index].mode != TREE_LEAF)
			return onnx_fail(onnx, -EINVAL,
				"class weights: tree %" PRId64 " has no leaf %" PRId64,
				entry->at.tree, entry->at.node);
		entry->at.index = leaf->index;
	}
	qsort(reading->entries, reading->leaves, sizeof(*reading->entries), by_index);
	for (uint32_t i = 0; i < reading->leaves; i++) {
		const struct leaf_entry *entry = &reading->entries[i];
		struct tree_node *leaf = &reading->nodes[entry->at.index];
		if (leaf->no++ == 0)
			leaf->yes = i;
		trees->weights[i] =
			(struct tree_weight){ (uint32_t)entry->class, (float)entry->weight };
	}
	return 0;
}

/* Nodes under a root; depth is bounded, so that walking a tree is. */
static int count_nodes(
	struct onnx *onnx, const struct reading *reading, uint32_t root, uint32_t *count)
{
	uint32_t stack[MODEL_TREE_DEPTH_MAX + 2], depths[MODEL_TREE_DEPTH_MAX + 2], used = 0;
	stack[used] = root;
	depths[used++] = 0;
	while (used > 0) {
		uint32_t at = stack[--used], depth = depths[used];
		const struct tree_node *node = &reading->nodes[at];
		++*count;
		if (node->mode == TREE_LEAF)
			continue;
		if (depth == MODEL_TREE_DEPTH_MAX)
			return onnx_fail(
				onnx, -E2BIG, "a tree deeper than %d", MODEL_TREE_DEPTH_MAX);
		stack[used] = node->no;
		depths[used++] = depth + 1;
		stack[used] = node->yes;
		depths[used++] = depth + 1;
	}
	return 0;
}

/* Every root once; the nodes under all roots must be all nodes, else some lie on a cycle. Names
 * are sorted, so the roots of one tree follow each other. */
static int fill_roots(struct onnx *onnx, struct reading *reading, struct layer_trees *trees)
{
	uint32_t reached = 0;
	int64_t last = 0;
	int error = 0;
	for (uint32_t i = 0; error == 0 && i < reading->count; i++) {
		const struct named *name = &reading->names[i];
		if (reading->parents[name->index])
			continue;
		if (trees->trees > 0 && name->tree == last)
			return onnx_fail(
				onnx, -EINVAL, "tree %" PRId64 " has two roots", name->tree);
		last = name->tree;
		trees->roots[trees->trees++] = name->index;
		error = count_nodes(onnx, reading, name->index, &reached);
	}
	if (error == 0 && reached != reading->count)
		error = onnx_fail(onnx, -EINVAL, "a tree with a cycle");
	return error;
}

static int read_post(struct onnx *onnx, enum tree_post *post)
{
	struct onnx_span name = { 0 };
	char text[48];
	int error = onnx_get_string(onnx, "post_transform", &name);
	*post = onnx_is(name, "SOFTMAX")    ? TREE_POST_SOFTMAX
		: onnx_is(name, "LOGISTIC") ? TREE_POST_LOGISTIC
					    : TREE_POST_NONE;
	if (error == 0 && *post == TREE_POST_NONE && name.length > 0 && !onnx_is(name, "NONE"))
		error = onnx_fail(
			onnx, -ENOTSUP, "post_transform: got '%s'", onnx_text(name, text));
	return error;
}

static int take_base(struct onnx *onnx, const struct onnx_element *element, void *user)
{
	const struct layer_trees *trees = user;
	if (element->index >= trees->classes || !isfinite(element->number))
		return onnx_fail(onnx, -EINVAL, "base_values: expected %" PRIu32 " finite numbers",
			trees->classes);
	trees->base[element->index] = (float)element->number;
	return 0;
}

/*
 * With two classes and weights for one of them only, ONNX derives the other's score by rules that
 * depend on the weights' signs: refused rather than guessed.
 */
static int check_binary(struct onnx *onnx, const struct layer_trees *trees)
{
	bool both = trees->classes != 2;
	for (uint32_t i = 1; i < trees->weights_count && !both; i++)
		both = trees->weights[i].class != trees->weights[0].class;
	return both ? 0
		    : onnx_fail(onnx, -ENOTSUP,
			      "two classes with weights for one: give both their weights");
}

static int count_lists(struct onnx *onnx, struct reading *reading)
{
	uint32_t strings, integers;
	int error = onnx_get_list(onnx, "nodes_nodeids", &reading->count, count_only, NULL);
	if (error == 0)
		error = onnx_get_list(onnx, "class_ids", &reading->leaves, count_only, NULL);
	if (error == 0)
		error = onnx_get_list(onnx, "classlabels_int64s", &integers, count_only, NULL);
	if (error == 0)
		error = onnx_get_list(onnx, "classlabels_strings", &strings, count_only, NULL);
	if (error != 0)
		return error;
	reading->classes = integers > 0 ? integers : strings;
	if (reading->count == 0 || reading->leaves == 0 || reading->classes == 0 ||
		reading->classes > GPU_OFFLOAD_CLASSES_MAX)
		return onnx_fail(onnx, -EINVAL,
			"got %" PRIu32 " nodes, %" PRIu32 " weights and %" PRIu32 " classes",
			reading->count, reading->leaves, reading->classes);
	return 0;
}

static int fill_trees(struct onnx *onnx, struct reading *reading, struct layer_trees *trees)
{
	uint32_t count;
	int error = read_lists(onnx, reading);
	if (error == 0)
		error = link_nodes(onnx, reading, trees->features);
	if (error == 0)
		error = fill_roots(onnx, reading, trees);
	if (error == 0)
		error = fill_weights(onnx, reading, trees);
	if (error == 0)
		error = check_binary(onnx, trees);
	if (error == 0)
		error = read_post(onnx, &trees->post);
	if (error == 0)
		error = onnx_get_list(onnx, "base_values", &count, take_base, trees);
	if (error == 0 && count != 0 && count != trees->classes)
		error = onnx_fail(onnx, -EINVAL,
			"base_values: got %" PRIu32 " numbers, expected %" PRIu32, count,
			trees->classes);
	return error;
}

static int take_label(struct onnx *onnx, const struct onnx_element *element, void *user)
{
	struct layer_trees *trees = user;
	if (element->integer < 0 || element->integer >= GPU_OFFLOAD_CLASSES_MAX)
		return onnx_fail(onnx, -ENOTSUP,
			"classlabels_int64s: got %" PRId64 ", expected 0 .. %d", element->integer,
			GPU_OFFLOAD_CLASSES_MAX - 1);
	for (uint32_t i = 0; i < element->index; i++) {
		if (trees->labels[i] == (uint32_t)element->integer)
			return onnx_fail(onnx, -EINVAL, "classlabels_int64s: got %" PRId64 " twice",
				element->integer);
	}
	trees->labels[element->index] = (uint32_t)element->integer;
	return 0;
}

static int take_name(struct onnx *onnx, const struct onnx_element *element, void *user)
{
	struct layer_trees *trees = user;
	(void)onnx;
	(void)onnx_text(element->string, trees->names[element->index]);
	return 0;
}

/* Labels of the file's own, as numbers or in words. */
static int read_labels(struct onnx *onnx, struct layer_trees *trees)
{
	uint32_t integers, strings;
	int error = onnx_get_list(onnx, "classlabels_int64s", &integers, count_only, NULL);
	if (error == 0)
		error = onnx_get_list(onnx, "classlabels_strings", &strings, count_only, NULL);
	if (error != 0)
		return error;
	if (integers > 0)
		trees->labels = calloc(trees->classes, sizeof(*trees->labels));
	else
		trees->names = calloc(trees->classes, sizeof(*trees->names));
	if (trees->labels == NULL && trees->names == NULL)
		return onnx_fail(onnx, -ENOMEM, "out of memory");
	return integers > 0
		       ? onnx_get_list(onnx, "classlabels_int64s", &integers, take_label, trees)
		       : onnx_get_list(onnx, "classlabels_strings", &strings, take_name, trees);
}

static int load_trees(struct onnx *onnx, struct reading *reading, struct layer_trees *trees)
{
	trees->nodes_count = reading->count;
	trees->weights_count = reading->leaves;
	trees->classes = reading->classes;
	trees->roots = calloc(reading->count, sizeof(*trees->roots));
	trees->nodes = calloc(reading->count, sizeof(*trees->nodes));
	trees->weights = calloc(reading->leaves, sizeof(*trees->weights));
	trees->base = calloc(reading->classes, sizeof(*trees->base));
	reading->nodes = trees->nodes;
	reading->names = calloc(reading->count, sizeof(*reading->names));
	reading->yes = calloc(reading->count, sizeof(*reading->yes));
	reading->no = calloc(reading->count, sizeof(*reading->no));
	reading->parents = calloc(reading->count, sizeof(*reading->parents));
	reading->entries = calloc(reading->leaves, sizeof(*reading->entries));
	int error = 0;
	if (trees->roots == NULL || trees->nodes == NULL || trees->weights == NULL ||
		trees->base == NULL || reading->names == NULL || reading->yes == NULL ||
		reading->no == NULL || reading->parents == NULL || reading->entries == NULL)
		error = onnx_fail(onnx, -ENOMEM, "out of memory");
	for (uint32_t i = 0; error == 0 && i < reading->count; i++)
		reading->names[i].index = i;
	if (error == 0)
		error = read_labels(onnx, trees);
	if (error == 0)
		error = fill_trees(onnx, reading, trees);
	free(reading->names);
	free(reading->yes);
	free(reading->no);
	free(reading->parents);
	free(reading->entries);
	return error;
}

int onnx_trees(struct onnx *onnx)
{
	struct onnx_item *input = onnx_input(onnx, 0, ONNX_VALUE);
	struct layer layer = { .kind = LAYER_TREES };
	struct onnx_node node = *onnx->node, *given = &node;
	struct reading reading = { 0 };
	if (input == NULL)
		return -EINVAL;
	if (input->rank != 1)
		return onnx_fail(onnx, -ENOTSUP, "only of rows of numbers");
	layer.trees.features = input->dims[0];
	int error = count_lists(onnx, &reading);
	if (error == 0)
		error = load_trees(onnx, &reading, &layer.trees);
	if (error != 0) {
		layer_free(&layer);
		return error;
	}
	/* Labels are the first output and scores the second; layers make the first. */
	const struct onnx_node *before = onnx->node;
	const uint32_t classes = layer.trees.classes;
	node.outputs[0] = before->outputs_count > 1 ? before->outputs[1] : (struct onnx_span){ 0 };
	if (node.outputs[0].length == 0)
		node.outputs[0] = (struct onnx_span){ (const uint8_t *)" scores", 7 };
	onnx->node = given;
	error = onnx_add_layer(onnx, input, &layer, 1, &classes);
	onnx->node = before;
	if (error != 0)
		return error;
	struct onnx_item labels = { .kind = ONNX_LABELS, .value = onnx->model->values_count - 1 };
	return before->outputs_count > 0 && before->outputs[0].length > 0
		       ? onnx_add_output(onnx, 0, &labels)
		       : 0;
}
