/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/conn_script.h"

static const struct conn_script scripts[] = {
	{ .item = "tcp-open", .name = "x", .text = "> S 1000 : SS new\n" },
};

const struct conn_script_list conn_scripts_window = { scripts, sizeof(scripts) / sizeof(*scripts) };
