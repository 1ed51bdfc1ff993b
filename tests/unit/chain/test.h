/* SPDX-License-Identifier: BSD-2-Clause */
/* What cmocka wants included before itself, in one place. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
