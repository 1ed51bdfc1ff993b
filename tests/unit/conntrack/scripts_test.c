/* SPDX-License-Identifier: BSD-2-Clause */
/* Every script of tests/support/conn_script.h, line by line. Linux has the same ones
 * (tests/hw/linux_conntrack_test.c). */
#include "tests/support/conn_script.h"
#include "tests/unit/conntrack/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static struct conn_saying take(
	struct harness *harness, const struct conn_step *step, uint64_t time_ns)
{
	struct conn_saying saying = { .expires_s = -1, .state = CONNTRACK_STATE_NONE };
	uint32_t conn = BASE_CONN_NONE;
	for (unsigned int i = 0; i < step->frames_count; i++) {
		struct base_packet *packet = packets_pool_set(&harness->pool, 0, BASE_LINK_RAW,
			step->frame[i], step->frame_len[i], 0, time_ns);
		harness_process(harness, packet);
		saying.invalid |= (packet->conn_flags & BASE_CONN_INVALID) != 0;
		saying.related |= (packet->conn_flags & BASE_CONN_RELATED) != 0;
		saying.fresh |= (packet->conn_flags & BASE_CONN_NEW) != 0;
		conn = packet->conn;
	}
	struct conntrack_conn seen;
	if (conn != BASE_CONN_NONE && conntrack_conn_get(harness->tracker, conn, &seen) == 0) {
		saying.state = seen.state;
		saying.assured = seen.assured;
		saying.expires_s = (int)((seen.due_ns - time_ns) / S);
	}
	return saying;
}

static void run_script(const struct conn_script *script, uint32_t number)
{
	struct harness h;
	struct conn_reader reader;
	uint64_t time_ns = 1000 * S;
	harness_init(&h);
	h.config.tcp_pickup = !script->no_pickup;
	h.config.tcp_windows = script->windows;
	h.parse.verify_checksums = true;
	harness_start(&h);
	conn_reader_init(&reader, script, number);
	for (const struct conn_step *step; (step = conn_reader_next(&reader)) != NULL;) {
		char wanted[64], said[64];
		time_ns += step->wait_ns;
		if (step->frames_count == 0)
			continue;
		struct conn_saying saying = take(&h, step, time_ns);
		if (step->ours.expires_s < 0)
			saying.expires_s = -1;
		conn_saying_format(&step->ours, wanted, sizeof(wanted));
		conn_saying_format(&saying, said, sizeof(said));
		if (strcmp(wanted, said) != 0)
			fail_msg("%s: '%.*s': got '%s'", script->name, step->line_len, step->line,
				said);
	}
	harness_stop(&h);
}

static void every_script_is_followed(void **unused)
{
	(void)unused;
	const struct conn_script *script;
	uint32_t number = 0;
	for (; (script = conn_script_at(number)) != NULL; number++)
		run_script(script, number + 1);
	assert_true(number > 60);
}

/* An item that no script names may be another test's; one that nobody knows is a mistake. */
static void every_script_has_a_name_of_its_own(void **unused)
{
	(void)unused;
	const struct conn_script *script;
	for (size_t i = 0; (script = conn_script_at(i)) != NULL; i++) {
		assert_non_null(script->item);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(script->name, conn_script_at(j)->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_script_is_followed),
		cmocka_unit_test(every_script_has_a_name_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
