/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow inference: what a model sees of a flow (flow_features.h), the same in files (record.h),
 * models and the back ends that run them (model.h, backend.h). The folder's public header; each
 * part states its contract in its own.
 */
#pragma once

#include "gpu_offload/backend.h"
#include "gpu_offload/batcher.h"
#include "gpu_offload/flow_features.h"
#include "gpu_offload/gpu.h"
#include "gpu_offload/model.h"
#include "gpu_offload/record.h"
#include "gpu_offload/stage.h"
