/* SPDX-License-Identifier: BSD-2-Clause */
/* Of the emulation of CUDA's device language: the place of nvcuda::wmma. A TEST DOUBLE. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#include "tests/support/cuda_wmma.hpp"
#endif
