/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow inference: models and the back ends that run them (model.h, backend.h). The folder's public
 * header; each part states its contract in its own.
 */
#pragma once

#include "gpu_offload/backend.h"
#include "gpu_offload/model.h"
