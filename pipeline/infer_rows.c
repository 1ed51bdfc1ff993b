/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/infer_rows.h"

#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LOOK = 1 << 20 }; /* numbers between looks at the stop flag */

static int parse_widths(const char *text, uint32_t widths[], size_t *count)
{
	*count = 0;
	while (*count < GPU_OFFLOAD_WIDTHS_MAX) {
		char *end;
		if (*text < '0' || *text > '9')
			return -EINVAL;
		errno = 0;
		unsigned long width = strtoul(text, &end, 10);
		if (errno != 0 || width > UINT32_MAX)
			return -EINVAL;
		widths[(*count)++] = (uint32_t)width;
		if (*end == '\0')
			return 0;
		if (*end != '-')
			return -EINVAL;
		text = end + 1;
	}
	return -EINVAL;
}

int infer_model_load(struct gpu_offload_model **out, const struct infer_model_choice *choice,
	char message[INFER_MESSAGE_SIZE])
{
	uint32_t widths[GPU_OFFLOAD_WIDTHS_MAX];
	size_t count;
	if ((choice->file == NULL) == (choice->widths == NULL)) {
		snprintf(message, INFER_MESSAGE_SIZE,
			"got %s of --model FILE and --widths LIST, expected one",
			choice->file == NULL ? "neither" : "both");
		return -EINVAL;
	}
	if (choice->file != NULL)
		return gpu_offload_model_load(out, choice->file, message, INFER_MESSAGE_SIZE);
	int error = parse_widths(choice->widths, widths, &count);
	if (error == 0)
		error = gpu_offload_model_create_mlp(out, widths, count, choice->seed);
	if (error == -EINVAL)
		snprintf(message, INFER_MESSAGE_SIZE,
			"--widths: got '%s', expected 2 to %d widths such as 64-128-64-16",
			choice->widths, GPU_OFFLOAD_WIDTHS_MAX);
	else if (error != 0)
		snprintf(message, INFER_MESSAGE_SIZE, "%s", strerror(-error));
	return error;
}

static float *alloc_rows(uint64_t count, uint32_t inputs)
{
	enum { PAGE = 4096 }; /* of their own, so that they can be pinned */
	size_t bytes = count * inputs * sizeof(float);
	return aligned_alloc(PAGE, (bytes + PAGE) / PAGE * PAGE);
}

float *infer_rows_make(uint64_t count, uint32_t inputs, uint64_t seed, const atomic_bool *stop)
{
	struct base_rng rng;
	float *rows = alloc_rows(count, inputs);
	base_rng_seed(&rng, seed);
	for (uint64_t i = 0; rows != NULL && i < count * inputs; i++) {
		if (i % LOOK == 0 && stop != NULL &&
			atomic_load_explicit(stop, memory_order_relaxed)) {
			free(rows);
			return NULL;
		}
		/* Box and Muller, 1958. */
		double radius = sqrt(-2 * log(1 - base_rng_unit(&rng)));
		rows[i] = (float)(radius * cos(2 * 3.14159265358979323846 * base_rng_unit(&rng)));
	}
	return rows;
}

/* The header's dictionary, as NumPy writes it. */
static bool parse_header(const char *header, uint64_t *rows, uint64_t *columns)
{
	const char *shape = strstr(header, "'shape': (");
	char rest = 0;
	if (strstr(header, "'descr': '<f4'") == NULL ||
		strstr(header, "'fortran_order': False") == NULL || shape == NULL)
		return false;
	return sscanf(shape, "'shape': (%" SCNu64 ", %" SCNu64 "%c", rows, columns, &rest) == 3 &&
	       rest == ')';
}

static int read_header(FILE *file, uint64_t *rows, uint64_t *columns)
{
	unsigned char start[10];
	char header[4096];
	if (fread(start, 1, sizeof(start), file) != sizeof(start) ||
		memcmp(start, "\x93NUMPY\x01\x00", 8) != 0)
		return -EINVAL;
	size_t length = start[8] | (size_t)start[9] << 8;
	if (length >= sizeof(header) || fread(header, 1, length, file) != length)
		return -EINVAL;
	header[length] = '\0';
	return parse_header(header, rows, columns) ? 0 : -EINVAL;
}

static int read_rows(FILE *file, uint32_t inputs, float **rows, uint64_t *count, const char **why)
{
	uint64_t columns;
	*why = "not a .npy file of rows of 32-bit floats";
	if (read_header(file, count, &columns) != 0)
		return -EINVAL;
	*why = "rows of another number of columns than the model has inputs";
	if (columns != inputs)
		return -EINVAL;
	*why = "no rows, or more than can be read";
	if (*count == 0 || *count > INFER_ROWS_MAX || *count * inputs > INFER_NUMBERS_MAX)
		return -EINVAL;
	*why = "cut short";
	*rows = alloc_rows(*count, inputs);
	if (*rows == NULL)
		return -ENOMEM;
	if (fread(*rows, sizeof(float) * inputs, *count, file) == *count)
		return 0;
	free(*rows);
	return -EINVAL;
}

/* ---- records ---- */

static uint32_t record_bytes(const uint8_t *bytes, size_t size)
{
	struct gpu_offload_record record;
	if (size < sizeof(record))
		return 0;
	memcpy(&record, bytes, sizeof(record));
	return record.features < GPU_OFFLOAD_FEATURES_COUNT
		       ? gpu_offload_record_bytes((enum gpu_offload_features)record.features)
		       : 0;
}

/* All records of a file are of the same features: those whose rows the model takes. */
static int read_records(const uint8_t *bytes, size_t size, uint32_t inputs, float **rows,
	uint64_t *count, const char **why)
{
	struct gpu_offload_record record;
	float row[GPU_OFFLOAD_IMG_INPUTS];
	uint32_t each = record_bytes(bytes, size);
	*why = "records that are cut short, or none";
	if (each == 0 || size % each != 0 || size / each > INFER_ROWS_MAX)
		return -EINVAL;
	*count = size / each;
	*rows = alloc_rows(*count, inputs);
	if (*rows == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < *count; i++) {
		int error = gpu_offload_record_read(bytes + i * each, each, &record, row, why);
		enum gpu_offload_features features = (enum gpu_offload_features)record.features;
		if (error == 0 && gpu_offload_features_inputs(features) != inputs) {
			*why = "records of other features than the model takes";
			error = -EINVAL;
		}
		if (error != 0) {
			free(*rows);
			return -EINVAL;
		}
		memcpy(*rows + i * inputs, row, inputs * sizeof(float));
	}
	return 0;
}

static bool holds_records(const char *path)
{
	size_t length = strlen(path);
	return length > 4 && strcmp(path + length - 4, ".rec") == 0;
}

static int read_record_file(
	FILE *file, uint32_t inputs, float **rows, uint64_t *count, const char **why)
{
	struct stat status;
	*why = "more records than can be read";
	if (fstat(fileno(file), &status) != 0)
		return -errno;
	if (!S_ISREG(status.st_mode)) {
		*why = "not a regular file";
		return -EINVAL;
	}
	if (status.st_size > INFER_ROWS_MAX * (int64_t)GPU_OFFLOAD_RECORD_BYTES_MAX)
		return -EINVAL;
	size_t size = (size_t)status.st_size;
	uint8_t *bytes = malloc(size + 1);
	if (bytes == NULL)
		return -ENOMEM;
	int error = fread(bytes, 1, size, file) == size
			    ? read_records(bytes, size, inputs, rows, count, why)
			    : -EIO;
	free(bytes);
	return error;
}

int infer_rows_load(const char *path, uint32_t inputs, float **rows, uint64_t *count,
	char message[INFER_MESSAGE_SIZE])
{
	const char *why = "";
	FILE *file = fopen(path, "rb");
	int error = file == NULL ? -errno : 0;
	if (error == 0 && holds_records(path))
		error = read_record_file(file, inputs, rows, count, &why);
	else if (error == 0)
		error = read_rows(file, inputs, rows, count, &why);
	if (file != NULL)
		fclose(file);
	if (error != 0)
		snprintf(message, INFER_MESSAGE_SIZE, "%s: %s", path,
			error == -EINVAL ? why : strerror(-error));
	return error;
}
