/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random packet sequences against a model that looks at every packet of a window and at every
 * flow's last packet, in quadratic time. With a table too small for all flows, what is said to be
 * exact is so and what is said to be a bound is one.
 */
#include "tests/unit/traces/test.h"

#include "base/rng.h"
#include "traces/locality.h"

#include <stdio.h>
#include <stdlib.h>

enum { PACKETS_MAX = 3000, NO_FLOW = -1 };

struct sequence {
	size_t count;
	uint64_t idle_timeout_ns;
	uint64_t time_ns[PACKETS_MAX];  /* as given */
	uint64_t clock_ns[PACKETS_MAX]; /* never backwards */
	int flow[PACKETS_MAX];
	bool reversed[PACKETS_MAX];
};

static void sequence_make(struct sequence *sequence, struct base_rng *rng)
{
	sequence->count = base_rng_below(rng, PACKETS_MAX) + 1;
	sequence->idle_timeout_ns = base_rng_below(rng, 200000);
	int flows = (int)base_rng_below(rng, base_rng_below(rng, 2) ? 1500 : 40) + 1;
	uint64_t step = base_rng_below(rng, 3000) + 1, now_ns = 1000000000, clock_ns = 0;
	for (size_t i = 0; i < sequence->count; i++) {
		now_ns += base_rng_below(rng, step);
		if (base_rng_below(rng, 200) == 0)
			now_ns += base_rng_below(rng, 500000);
		if (base_rng_below(rng, 50) == 0)
			now_ns -= base_rng_below(rng, 50000);
		if (now_ns > clock_ns)
			clock_ns = now_ns;
		sequence->time_ns[i] = now_ns;
		sequence->clock_ns[i] = clock_ns;
		bool repeat = i > 0 && base_rng_below(rng, 3) == 0;
		sequence->flow[i] = repeat ? sequence->flow[i - 1]
					   : (int)base_rng_below(rng, (uint64_t)flows + 1) - 1;
		sequence->reversed[i] = base_rng_below(rng, 2);
	}
}

static uint64_t model_runs(const struct sequence *sequence)
{
	uint64_t runs = 0;
	for (size_t i = 0; i < sequence->count; i++)
		runs += i == 0 || sequence->flow[i] == NO_FLOW ||
			sequence->flow[i] != sequence->flow[i - 1];
	return runs;
}

/* Window of a packet: by its number, or by its time since the first. */
static uint64_t window_of(const struct sequence *sequence, size_t i, int kind)
{
	static const uint64_t sizes[] = { 64, 256, 1024, 16000, 64000, 128000 };
	uint64_t position =
		kind < TRACES_WINDOWS ? i : sequence->clock_ns[i] - sequence->clock_ns[0];
	return position / sizes[kind];
}

static uint64_t distinct_in(const struct sequence *sequence, size_t start, size_t end)
{
	uint64_t distinct = 0;
	for (size_t i = start; i < end; i++) {
		bool seen = false;
		for (size_t j = start; j < i && sequence->flow[i] != NO_FLOW; j++)
			seen = seen || sequence->flow[j] == sequence->flow[i];
		distinct += !seen;
	}
	return distinct;
}

/* Window after window: its distinct flows, less one when its first packet goes on with the flow of
 * the packet before, unless that flow's group is needed at the other end of the window before. */
static uint64_t model_groups(const struct sequence *sequence, int kind)
{
	uint64_t groups = 0, distinct_before = 0;
	int at_front = NO_FLOW;
	for (size_t start = 0, end; start < sequence->count; start = end) {
		end = start + 1;
		while (end < sequence->count &&
			window_of(sequence, end, kind) == window_of(sequence, start, kind))
			end++;
		int flow = sequence->flow[start];
		bool joins = start > 0 && flow != NO_FLOW && flow == sequence->flow[start - 1] &&
			     (distinct_before == 1 || flow != at_front);
		distinct_before = distinct_in(sequence, start, end);
		groups += distinct_before - joins;
		at_front = joins ? flow : NO_FLOW;
	}
	return groups;
}

static void model_concurrency(
	const struct sequence *sequence, uint64_t *insertions, uint64_t *peak_live)
{
	uint64_t last_ns[PACKETS_MAX];
	bool known[PACKETS_MAX] = { false };
	*insertions = *peak_live = 0;
	for (size_t i = 0; i < sequence->count; i++) {
		int flow = sequence->flow[i];
		if (flow == NO_FLOW)
			continue;
		uint64_t now_ns = sequence->clock_ns[i];
		*insertions += !known[flow] || now_ns - last_ns[flow] > sequence->idle_timeout_ns;
		known[flow] = true;
		last_ns[flow] = now_ns;
		uint64_t live = 0;
		for (int j = 0; j < PACKETS_MAX; j++)
			live += known[j] && now_ns - last_ns[j] <= sequence->idle_timeout_ns;
		if (live > *peak_live)
			*peak_live = live;
	}
}

static uint64_t model_flows(const struct sequence *sequence, bool one_way)
{
	bool seen[PACKETS_MAX][2] = { { false } };
	uint64_t flows = 0;
	for (size_t i = 0; i < sequence->count; i++) {
		if (sequence->flow[i] == NO_FLOW)
			continue;
		bool *entry = &seen[sequence->flow[i]][one_way && sequence->reversed[i]];
		flows += !*entry;
		*entry = true;
	}
	return flows;
}

static void measure(const struct sequence *sequence, struct traces_info *info, uint32_t hash_mask,
	uint64_t flows_max)
{
	struct traces_locality locality;
	struct traces_info_options options;
	traces_info_options_defaults(&options);
	options.idle_timeout_ns = sequence->idle_timeout_ns;
	options.flows_max = flows_max;
	assert_int_equal(traces_locality_init(&locality, &options), 0);
	for (size_t i = 0; i < sequence->count; i++) {
		if (sequence->flow[i] == NO_FLOW) {
			assert_int_equal(
				traces_locality_add_other(&locality, sequence->time_ns[i]), 0);
			continue;
		}
		struct base_flow_key key = { .protocol = 6, .family = 4 };
		memcpy(key.address[1], &sequence->flow[i], sizeof(int));
		uint32_t hash = (uint32_t)sequence->flow[i] * 2654435761u & hash_mask;
		assert_int_equal(traces_locality_add(&locality, sequence->time_ns[i], &key, hash,
					 sequence->reversed[i]),
			0);
		assert_true(flows_max == 0 || locality.table.given <= flows_max);
	}
	memset(info, 0, sizeof(*info));
	traces_locality_finish(&locality, info);
	traces_locality_destroy(&locality);
}

/* What the model says about a sequence. */
struct truth {
	uint64_t runs, flows, flows_unidirectional, insertions, peak_live;
	double slf[2 * TRACES_WINDOWS];
};

static void truth_find(struct truth *truth, const struct sequence *sequence)
{
	truth->runs = model_runs(sequence);
	truth->flows = model_flows(sequence, false);
	truth->flows_unidirectional = model_flows(sequence, true);
	model_concurrency(sequence, &truth->insertions, &truth->peak_live);
	for (int i = 0; i < 2 * TRACES_WINDOWS; i++)
		truth->slf[i] = (double)sequence->count / (double)model_groups(sequence, i);
}

static double slf_of(const struct traces_info *info, int i)
{
	return i < TRACES_WINDOWS ? info->slf_window_packets[i]
				  : info->slf_window_time[i - TRACES_WINDOWS];
}

static enum traces_exactness slf_exactness(const struct traces_info *info, int i)
{
	return i < TRACES_WINDOWS ? info->slf_window_packets_exactness[i]
				  : info->slf_window_time_exactness[i - TRACES_WINDOWS];
}

static bool near(double a, double b)
{
	return a > b - 1e-9 && a < b + 1e-9;
}

static bool exact(const struct traces_info *info)
{
	bool all = info->flows_exactness == TRACES_EXACT && info->flows_standard_error == 0 &&
		   info->peak_live_exactness == TRACES_EXACT &&
		   info->insertions_exactness == TRACES_EXACT && info->early_evictions == 0;
	for (int i = 0; i < 2 * TRACES_WINDOWS; i++)
		all = all && slf_exactness(info, i) == TRACES_EXACT;
	return all;
}

/* So few are counted all but exactly by a sketch. */
static bool counted(uint64_t found, uint64_t true_count, enum traces_exactness exactness)
{
	double error = (double)found / (double)true_count - 1;
	return exactness == TRACES_EXACT ? found == true_count : error < 0.02 && error > -0.02;
}

/* Everything as the model has it, or within what is said about it. */
static bool agrees(const struct traces_info *info, const struct truth *truth)
{
	bool live_exact = info->peak_live_exactness == TRACES_EXACT;
	bool same = info->flow_runs == truth->runs &&
		    counted(info->flows, truth->flows, info->flows_exactness) &&
		    counted(info->flows_unidirectional, truth->flows_unidirectional,
			    info->flows_exactness);
	same = same && live_exact == (info->insertions_exactness == TRACES_EXACT) &&
	       live_exact == (info->early_evictions == 0);
	if (live_exact)
		same = same && info->insertions == truth->insertions &&
		       info->peak_live == truth->peak_live;
	same = same && info->insertions >= truth->insertions &&
	       info->insertions - info->early_evictions <= truth->insertions &&
	       info->peak_live <= truth->peak_live;
	for (int i = 0; i < 2 * TRACES_WINDOWS; i++) {
		double slf = slf_of(info, i);
		same = same && slf >= info->slf && slf < truth->slf[i] + 1e-9;
		if (slf_exactness(info, i) == TRACES_EXACT)
			same = same && near(slf, truth->slf[i]);
	}
	return same;
}

static void locality_agrees_with_the_model(void **state)
{
	(void)state;
	static struct sequence sequence;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct base_rng rng;
		struct truth truth;
		struct traces_info info;
		base_rng_seed(&rng, seed);
		sequence_make(&sequence, &rng);
		truth_find(&truth, &sequence);
		uint32_t mask = seed % 4 == 0 ? 7 : UINT32_MAX;
		measure(&sequence, &info, mask, 0);
		if (!exact(&info) || !agrees(&info, &truth))
			fail_msg("seed %llu differs from the model", (unsigned long long)seed);
		measure(&sequence, &info, mask, truth.flows);
		if (!exact(&info) || !agrees(&info, &truth))
			fail_msg("seed %llu: a table for all flows", (unsigned long long)seed);
	}
}

static void a_table_too_small_says_what_it_does_not_know(void **state)
{
	(void)state;
	static struct sequence sequence;
	unsigned int exact_live = 0, exact_slf = 0, bounds = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct base_rng rng;
		struct truth truth;
		base_rng_seed(&rng, seed);
		sequence_make(&sequence, &rng);
		truth_find(&truth, &sequence);
		for (uint64_t flows_max = 1; flows_max < truth.flows;
			flows_max += 1 + flows_max / 2) {
			struct traces_info info;
			measure(&sequence, &info, UINT32_MAX, flows_max);
			bool live_exact = info.peak_live_exactness == TRACES_EXACT;
			exact_live += live_exact;
			exact_slf += slf_exactness(&info, 0) == TRACES_EXACT;
			bounds += !live_exact && slf_exactness(&info, 2) == TRACES_AT_LEAST;
			/* Nobody leaves early without need. */
			if (info.flows_exactness != TRACES_ESTIMATED || !agrees(&info, &truth) ||
				live_exact != (truth.peak_live <= flows_max))
				fail_msg("seed %llu, %llu flows kept", (unsigned long long)seed,
					(unsigned long long)flows_max);
		}
	}
	/* All of it was tried. */
	assert_true(exact_live >= 5 && exact_slf >= 5 && bounds >= 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locality_agrees_with_the_model),
		cmocka_unit_test(a_table_too_small_says_what_it_does_not_know),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
