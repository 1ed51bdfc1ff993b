/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as records: each is refused with a reason or gives a row of finite numbers. */
#include "base/compiler.h"
#include "gpu_offload/record.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	float row[GPU_OFFLOAD_IMG_INPUTS];
	struct gpu_offload_record record;
	const char *why = NULL;
	size_t at = 0;
	while (gpu_offload_record_read(data + at, size - at, &record, row, &why) == 0) {
		uint32_t inputs = gpu_offload_features_inputs(record.features);
		BASE_ASSERT(record.packets <= record.depth);
		for (uint32_t i = 0; i < inputs; i++)
			BASE_ASSERT(isfinite(row[i]));
		at += gpu_offload_record_bytes(record.features);
		BASE_ASSERT(at <= size);
	}
	BASE_ASSERT(at == size || why[0] != '\0');
	return 0;
}
