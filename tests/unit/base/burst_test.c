/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/burst.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct bench {
	struct base_burst burst;
	struct base_packet packets[BASE_BURST_MAX];
	struct base_packet *dropped[BASE_BURST_MAX];
};

static int setup(void **state)
{
	struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
	assert_non_null(b);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* One packet per letter; a letter is a flow, '-' is a packet without one. */
static void fill(struct bench *b, const char *letters)
{
	memset(b, 0, sizeof(*b));
	for (; letters[b->burst.count] != '\0'; b->burst.count++) {
		struct base_packet *packet = &b->packets[b->burst.count];
		char letter = letters[b->burst.count];
		b->burst.packets[b->burst.count] = packet;
		packet->seq = b->burst.count;
		if (letter == '-')
			continue;
		packet->flags = BASE_PACKET_FLOW;
		packet->key.family = 4;
		packet->key.port[0] = (uint8_t)letter;
		packet->hash = 7; /* all collide: keys decide */
	}
}

static void assert_runs(const struct base_burst *burst, const char *lengths)
{
	char text[64] = "";
	size_t at = 0;
	unsigned int next = 0;
	for (unsigned int i = 0; i < burst->run_count; i++) {
		assert_int_equal(burst->runs[i].first, next);
		next += burst->runs[i].count;
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%u", burst->runs[i].count);
	}
	assert_int_equal(next, burst->count);
	assert_string_equal(text, lengths);
}

static void runs_join_neighbours_with_one_key(void **state)
{
	struct bench *b = *state;
	fill(b, "aabbbac--aa");
	base_burst_mark_runs(&b->burst, false);
	assert_runs(&b->burst, "2311112");
	base_burst_mark_runs(&b->burst, true);
	assert_runs(&b->burst, "11111111111");
	fill(b, "");
	base_burst_mark_runs(&b->burst, false);
	assert_runs(&b->burst, "");
}

static void compaction_moves_out_the_dropped_and_mends_runs(void **state)
{
	struct bench *b = *state;
	fill(b, "aaabbcca");
	base_burst_mark_runs(&b->burst, false);
	assert_int_equal(base_burst_compact(&b->burst, b->dropped), 0);
	base_burst_drop(&b->burst, 1, BASE_DROP_ROUTER_TTL);
	base_burst_drop(&b->burst, 1, BASE_DROP_FIREWALL_DENY);
	base_burst_drop(&b->burst, 3, BASE_DROP_FIREWALL_DENY);
	base_burst_drop(&b->burst, 4, BASE_DROP_FIREWALL_DENY);
	assert_int_equal(b->burst.drop_count, 3);
	assert_int_equal(base_burst_compact(&b->burst, b->dropped), 3);
	assert_runs(&b->burst, "221");
	assert_int_equal(b->burst.drop_count, 0);
	assert_int_equal(b->dropped[0]->seq, 1);
	assert_int_equal(b->dropped[0]->drop_reason, BASE_DROP_ROUTER_TTL); /* the first stays */
	assert_int_equal(b->dropped[2]->seq, 4);
	static const unsigned int kept[] = { 0, 2, 5, 6, 7 };
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(b->burst.packets[i]->seq, kept[i]);
}

static void compaction_agrees_with_a_filter(void **state)
{
	struct bench *b = *state;
	struct base_rng rng;
	base_rng_seed(&rng, 5);
	for (int round = 0; round < 2000; round++) {
		char letters[BASE_BURST_MAX + 1] = "";
		unsigned int count = (unsigned int)base_rng_below(&rng, BASE_BURST_MAX + 1);
		for (unsigned int i = 0; i < count; i++)
			letters[i] = "aab-"[base_rng_below(&rng, 4)];
		letters[count] = '\0';
		fill(b, letters);
		base_burst_mark_runs(&b->burst, base_rng_below(&rng, 4) == 0);
		for (unsigned int i = 0; i < count; i++)
			if (base_rng_below(&rng, 3) == 0)
				base_burst_drop(&b->burst, i, BASE_DROP_SINK_FULL);
		unsigned int marked = b->burst.drop_count, kept = 0, gone = 0;
		assert_int_equal(base_burst_compact(&b->burst, b->dropped), marked);
		assert_int_equal(b->burst.count, count - marked);
		for (unsigned int i = 0; i < count; i++) {
			if (b->packets[i].drop_reason != BASE_DROP_NONE)
				assert_ptr_equal(b->dropped[gone++], &b->packets[i]);
			else
				assert_ptr_equal(b->burst.packets[kept++], &b->packets[i]);
		}
		unsigned int covered = 0;
		for (unsigned int r = 0; r < b->burst.run_count; r++) {
			assert_int_equal(b->burst.runs[r].first, covered);
			assert_true(b->burst.runs[r].count >= 1);
			covered += b->burst.runs[r].count;
		}
		assert_int_equal(covered, b->burst.count);
	}
}

static void every_drop_reason_has_a_name_of_its_own(void **)
{
	for (unsigned int i = 0; i < BASE_DROP_REASONS_COUNT; i++) {
		assert_string_not_equal(base_drop_name(i), "unknown");
		for (unsigned int j = 0; j < i; j++)
			assert_string_not_equal(base_drop_name(i), base_drop_name(j));
	}
	assert_string_equal(base_drop_name(BASE_DROP_REASONS_COUNT), "unknown");
	assert_string_equal(base_drop_name(BASE_DROP_IP4_TOTAL_LENGTH), "ip4_total_length");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_join_neighbours_with_one_key),
		cmocka_unit_test(compaction_moves_out_the_dropped_and_mends_runs),
		cmocka_unit_test(compaction_agrees_with_a_filter),
		cmocka_unit_test(every_drop_reason_has_a_name_of_its_own),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
