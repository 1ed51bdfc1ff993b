/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf infer probe: what the GPU says of itself, and whether its memory can be exported. */
#include "pipeline/command.h"

#include <inttypes.h>

static const char *ordering(int value)
{
	return value == 0 ? "none" : value == 100 ? "owner" : value == 200 ? "all devices" : "?";
}

static const char *known(int value)
{
	return value < 0 ? "unknown" : value > 0 ? "yes" : "no";
}

static void print(FILE *stream, const struct gpu_offload_gpu_info *info)
{
	if (info->is_double)
		fprintf(stream, "TEST DOUBLE of libcuda: no line below is about a GPU\n");
	fprintf(stream,
		"device         %s, PCI %s, one of %d\n"
		"driver         CUDA %d.%d\n"
		"capability     %d.%d, %d processors, %d KiB shared memory each, %.0f MHz\n"
		"memory         %.1f GiB, %d bits at %.0f MHz, %.1f MiB L2\n"
		"copy engines   %d, unified addressing: %s\n",
		info->name, info->pci, info->devices, info->driver / 1000, info->driver % 1000 / 10,
		info->major, info->minor, info->processors, info->shared_bytes >> 10,
		info->clock_khz / 1e3, (double)info->memory_bytes / (1 << 30), info->bus_bits,
		info->memory_clock_khz / 1e3, (double)info->l2_bytes / (1 << 20),
		info->copy_engines, known(info->unified_addressing));
	fprintf(stream,
		"GPUDirect RDMA %s, flush options %d, writes ordered for: %s\n"
		"dma-buf        %s by its attribute; export of 2 MiB: %s%s\n",
		known(info->rdma), info->rdma_flush, ordering(info->rdma_ordering),
		known(info->dma_buf),
		info->dma_buf_exported ? "done" : "failed: ", info->dma_buf_text);
}

/* -1 is null: the driver does not know. */
static void put_int(struct results_builder *builder, json_t *object, const char *name, int value)
{
	results_put(builder, object, name, value < 0 ? json_null() : json_integer(value));
}

static json_t *document(const struct command *command, const struct gpu_offload_gpu_info *info)
{
	struct results_builder builder = { .failed = false };
	json_t *object = command_document_begin(command, &builder, "sheaf-infer-probe-1");
	results_put_flag(&builder, object, "test_double", info->is_double);
	results_put_text(&builder, object, "name", info->name);
	results_put_text(&builder, object, "pci", info->pci);
	put_int(&builder, object, "devices", info->devices);
	put_int(&builder, object, "driver", info->driver);
	put_int(&builder, object, "major", info->major);
	put_int(&builder, object, "minor", info->minor);
	put_int(&builder, object, "processors", info->processors);
	put_int(&builder, object, "shared_bytes", info->shared_bytes);
	put_int(&builder, object, "l2_bytes", info->l2_bytes);
	put_int(&builder, object, "clock_khz", info->clock_khz);
	put_int(&builder, object, "memory_clock_khz", info->memory_clock_khz);
	put_int(&builder, object, "bus_bits", info->bus_bits);
	put_int(&builder, object, "copy_engines", info->copy_engines);
	results_put_count(&builder, object, "memory_bytes", info->memory_bytes);
	results_put_flag(&builder, object, "unified_addressing", info->unified_addressing);
	put_int(&builder, object, "rdma", info->rdma);
	put_int(&builder, object, "rdma_flush", info->rdma_flush);
	put_int(&builder, object, "rdma_ordering", info->rdma_ordering);
	put_int(&builder, object, "dma_buf", info->dma_buf);
	results_put_flag(&builder, object, "dma_buf_exported", info->dma_buf_exported);
	results_put_text(&builder, object, "dma_buf_text", info->dma_buf_text);
	if (!builder.failed)
		return object;
	json_decref(object);
	return NULL;
}

enum pipeline_exit command_infer_probe(struct command *command, struct options *options)
{
	struct gpu_offload_gpu_info info;
	char text[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	if (options->files_count > 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"infer probe: got %s, expected options", options->files[0]);
	if (gpu_offload_gpu_probe(&info, options->infer.cuda_library, (int)options->infer.device,
		    text, sizeof(text)) != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "infer probe: %s", text);
	FILE *stream = command_table_stream(command, options);
	if (stream != NULL)
		print(stream, &info);
	return command_json_write(
		command, options, options->json != NULL ? document(command, &info) : NULL);
}
