/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random packet sequences against a model that looks at every packet of a window and at every
 * flow's last packet, in quadratic time.
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

static void measure(const struct sequence *sequence, struct traces_info *info, uint32_t hash_mask)
{
	struct traces_locality locality;
	assert_int_equal(traces_locality_init(&locality, sequence->idle_timeout_ns), 0);
	for (size_t i = 0; i < sequence->count; i++) {
		if (sequence->flow[i] == NO_FLOW) {
			traces_locality_add_other(&locality, sequence->time_ns[i]);
			continue;
		}
		struct base_flow_key key = { .protocol = 6, .family = 4 };
		memcpy(key.address[1], &sequence->flow[i], sizeof(int));
		uint32_t hash = (uint32_t)sequence->flow[i] * 2654435761u & hash_mask;
		assert_int_equal(traces_locality_add(&locality, sequence->time_ns[i], &key, hash,
					 sequence->reversed[i]),
			0);
	}
	memset(info, 0, sizeof(*info));
	traces_locality_finish(&locality, info);
	traces_locality_destroy(&locality);
}

static void check(const struct sequence *sequence, uint64_t seed, uint32_t hash_mask)
{
	struct traces_info info;
	measure(sequence, &info, hash_mask);
	uint64_t insertions, peak_live, runs = model_runs(sequence);
	model_concurrency(sequence, &insertions, &peak_live);
	bool same = info.flow_runs == runs && info.insertions == insertions &&
		    info.peak_live == peak_live && info.flows == model_flows(sequence, false) &&
		    info.flows_unidirectional == model_flows(sequence, true);
	for (int i = 0; i < 2 * TRACES_WINDOWS; i++) {
		double slf = i < TRACES_WINDOWS ? info.slf_window_packets[i]
						: info.slf_window_time[i - TRACES_WINDOWS];
		double model = (double)sequence->count / (double)model_groups(sequence, i);
		same = same && slf > model - 1e-9 && slf < model + 1e-9;
		same = same && slf >= info.slf; /* grouping never adds runs */
	}
	if (!same)
		fail_msg("seed %llu differs from the model", (unsigned long long)seed);
}

static void locality_agrees_with_the_model(void **state)
{
	(void)state;
	static struct sequence sequence;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		sequence_make(&sequence, &rng);
		check(&sequence, seed, seed % 4 == 0 ? 7 : UINT32_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locality_agrees_with_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
