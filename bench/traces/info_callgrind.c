/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fixed capture through the collector of `trace info`, for scripts/callgrind_budgets.py.
 *
 *	info_callgrind hit      packets of known flows
 *	info_callgrind churn    every packet is of a new flow, one expires for each
 *	info_callgrind few      the same with a full table: sketches count the flows
 */
#include "traces/packets.h"

#include <stdio.h>
#include <string.h>

enum { FLOWS = 1024, ROUNDS = 40, PACKETS = FLOWS * ROUNDS, GAP_NS = 1000, LIVE = 4096 };

static struct traces_trace *make_trace(bool churn)
{
	struct traces_synth_options options;
	char message[TRACES_MESSAGE_SIZE];
	struct traces_trace *trace;
	traces_synth_options_defaults(&options);
	options.flows = churn ? PACKETS : FLOWS;
	options.packets = PACKETS;
	options.run_length = 1;
	return traces_synth_generate(&trace, &options, message) == 0 ? trace : NULL;
}

int main(int argc, char **argv)
{
	const char *kind = argc == 2 ? argv[1] : "hit";
	bool few = strcmp(kind, "few") == 0, churn = few || strcmp(kind, "churn") == 0;
	struct traces_info_options options;
	struct traces_info_collector *collector;
	struct traces_info info;
	struct traces_trace *trace = make_trace(churn);
	traces_info_options_defaults(&options);
	if (churn)
		options.idle_timeout_ns = (uint64_t)LIVE * GAP_NS;
	if (few)
		options.flows_max = 2 * LIVE;
	if (trace == NULL || traces_info_collector_create(&collector, &options) != 0)
		return 1;
	struct traces_batch batch = traces_trace_batch(trace);
	int error = traces_info_collector_add(collector, &batch);
	traces_info_collector_finish(collector, &info);
	bool right = error == 0 && info.flow_packets == PACKETS &&
		     info.insertions == (churn ? PACKETS : FLOWS) &&
		     (info.flows_exactness == TRACES_ESTIMATED) == few;
	printf("operations: %d\n", PACKETS);
	traces_info_collector_destroy(collector);
	traces_trace_destroy(trace);
	return !right;
}
