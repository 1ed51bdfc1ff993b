/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Made traffic in a chosen order. TCP packets are data of an established connection: flags ACK and
 * PSH, sequence numbers that follow one another, no SYN and no FIN.
 */
#include "traces/synth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct synth {
	struct traces_packets packets;
	struct traces_synth_options options;
	struct base_rng rng;
	struct traces_synth_order order;
	uint32_t *sent;    /* per flow, for TCP and renewal; NULL when neither is asked for */
	uint32_t *renewed; /* per flow: how often it gave way to a new one; NULL: never */
	uint64_t done;     /* packets */
	uint64_t runs;     /* begun */
	uint64_t left_in_run;
	uint64_t flow; /* of the run */
	struct traces_trace *batch;
	struct traces_synth_frame frame;
};

void traces_synth_options_defaults(struct traces_synth_options *options)
{
	*options = (struct traces_synth_options){
		.flows = 1024,
		.packets = 1000000,
		.run_length = 1,
		.order = TRACES_ORDER_ROUND_ROBIN,
		.zipf_exponent = 1.0,
		.frame_bytes = 128,
		.packets_per_s = 1000000,
		.start_ns = UINT64_C(1700000000000000000),
		.seed = 1,
		.protocol = BASE_PROTOCOL_UDP,
	};
}

static const char *order_problem(const struct traces_synth_options *options)
{
	const struct traces_reuse *reuse = &options->reuse;
	if ((unsigned int)options->order > TRACES_ORDER_RECENCY)
		return "unknown order";
	if (options->order == TRACES_ORDER_ZIPF &&
		!(options->zipf_exponent > 0 && options->zipf_exponent <= 10))
		return "Zipf exponent must be above 0 and at most 10";
	if (options->order != TRACES_ORDER_RECENCY)
		return NULL;
	if (options->flows > TRACES_SYNTH_RECENCY_FLOWS_MAX)
		return "at most 2^28 flows by recency";
	if ((unsigned int)reuse->law > TRACES_REUSE_ZIPF)
		return "unknown law of reuse distances";
	if (reuse->law == TRACES_REUSE_ZIPF && !(reuse->value > 0 && reuse->value <= 10))
		return "Zipf exponent must be above 0 and at most 10";
	if (reuse->law != TRACES_REUSE_ZIPF && !(reuse->value >= 1 && reuse->value <= 1e9))
		return "reuse distance must be between 1 and 10^9";
	if (reuse->law != TRACES_REUSE_ZIPF && reuse->value >= (double)options->flows)
		return "reuse distance must be below the number of flows";
	return NULL;
}

static const char *options_problem(const struct traces_synth_options *options)
{
	__extension__ typedef unsigned __int128 wide;
	if (options->flows == 0 || options->flows > TRACES_SYNTH_FLOWS_MAX)
		return "flows must be between 1 and 2^24 * 64512";
	const char *problem =
		traces_synth_frame_problem(options->frame_bytes, options->protocol, options->ip6);
	if (problem == NULL)
		problem = order_problem(options);
	if (problem != NULL)
		return problem;
	if (options->flow_packets > UINT32_MAX / 2)
		return "packets per flow must be below 2^31";
	if ((options->protocol == BASE_PROTOCOL_TCP || options->flow_packets != 0) &&
		options->flows > UINT32_MAX)
		return "at most 2^32 flows with TCP or renewal";
	if (options->slf == 0 && options->run_length == 0)
		return "run length must be at least 1";
	if (options->slf != 0 && !(options->slf >= 1 && options->slf <= 1e9))
		return "SLF must be between 1 and 10^9";
	if (options->packets_per_s == 0)
		return "packets per second must be at least 1";
	if ((wide)options->packets * 1000000000u / options->packets_per_s + options->start_ns >
		TRACES_TIME_NS_MAX)
		return "timestamps would pass the year 2262";
	return NULL;
}

/* Runs of n and n + 1 packets, spread so that packets / runs is the SLF from the first run on. */
static uint64_t next_run_length(struct synth *synth)
{
	double slf = synth->options.slf;
	uint64_t run = synth->runs++;
	if (slf == 0)
		return synth->options.run_length;
	return (uint64_t)(slf * (double)(run + 1)) - (uint64_t)(slf * (double)run);
}

/* The number of the flow in a place, which gives way to a new one when it has sent its packets. */
static uint64_t flow_in_place(struct synth *synth, uint64_t place)
{
	uint64_t flows = synth->options.flows;
	if (synth->renewed == NULL)
		return place;
	if (synth->sent[place] >= synth->options.flow_packets) {
		synth->sent[place] = 0;
		synth->renewed[place]++;
	}
	return (place + flows * synth->renewed[place]) % TRACES_SYNTH_FLOWS_MAX;
}

static int put_packet(struct synth *synth, struct traces_trace *trace)
{
	__extension__ typedef unsigned __int128 wide;
	const struct traces_synth_options *options = &synth->options;
	struct traces_synth_frame *frame = &synth->frame;
	uint32_t sequence = 0;
	if (synth->left_in_run == 0) {
		synth->left_in_run = next_run_length(synth);
		synth->flow = traces_synth_order_next(&synth->order, &synth->rng);
		traces_synth_frame_set_flow(frame, flow_in_place(synth, synth->flow));
	}
	synth->left_in_run--;
	if (synth->sent != NULL) {
		uint64_t flow = synth->flow;
		uint32_t sent = synth->sent[flow]++;
		sequence =
			(uint32_t)base_rng_splitmix64(&flow) + sent * (uint32_t)frame->payload_len;
	}
	traces_synth_frame_set_packet(frame, sequence, BASE_TCP_ACK | BASE_TCP_PSH);
	struct traces_record record = {
		.time_ns = options->start_ns +
			   (uint64_t)((wide)synth->done * 1000000000u / options->packets_per_s),
		.cap_len = options->frame_bytes,
		.wire_len = options->frame_bytes,
		.link = BASE_LINK_ETHERNET,
	};
	if (options->microseconds)
		record.time_ns -= record.time_ns % 1000;
	synth->done++;
	return traces_trace_append(trace, &record, frame->data);
}

static int fill(struct synth *synth, struct traces_trace *trace, uint64_t packets)
{
	uint64_t left = synth->options.packets - synth->done;
	for (uint64_t i = 0; i < packets && i < left; i++) {
		int error = put_packet(synth, trace);
		if (error)
			return error;
	}
	return 0;
}

static int synth_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct synth *synth = (struct synth *)packets;
	uint64_t fit = TRACES_BATCH_BYTES / synth->options.frame_bytes + 1;
	traces_trace_clear(synth->batch);
	int error =
		fill(synth, synth->batch, fit < TRACES_BATCH_PACKETS ? fit : TRACES_BATCH_PACKETS);
	if (error)
		return traces_packets_fail(packets, error, "out of memory");
	*batch = traces_trace_batch(synth->batch);
	return 0;
}

static void synth_destroy(struct traces_packets *packets)
{
	struct synth *synth = (struct synth *)packets;
	traces_synth_order_destroy(&synth->order);
	traces_trace_destroy(synth->batch);
	free(synth->sent);
	free(synth->renewed);
	free(synth);
}

static const struct traces_packets_ops synth_ops = { synth_next, synth_destroy };

static int set_up(struct synth *synth)
{
	const struct traces_synth_options *options = &synth->options;
	bool renew = options->flow_packets != 0;
	base_rng_seed(&synth->rng, options->seed);
	traces_synth_frame_init(
		&synth->frame, options->frame_bytes, options->protocol, options->ip6, &synth->rng);
	if (traces_trace_create(&synth->batch) != 0)
		return -ENOMEM;
	int error = traces_synth_order_init(&synth->order, options);
	if (error != 0)
		return error;
	if (renew || options->protocol == BASE_PROTOCOL_TCP)
		synth->sent = calloc(options->flows, sizeof(*synth->sent));
	if (renew)
		synth->renewed = calloc(options->flows, sizeof(*synth->renewed));
	if ((renew && synth->renewed == NULL) ||
		((renew || options->protocol == BASE_PROTOCOL_TCP) && synth->sent == NULL))
		return -ENOMEM;
	/* Not all at once: flows are somewhere in their lives when the trace begins. */
	for (uint64_t i = 0; renew && i < options->flows; i++)
		synth->sent[i] = (uint32_t)(i * options->flow_packets / options->flows);
	return 0;
}

static int synth_open(struct synth **out, const struct traces_synth_options *options, char *message)
{
	const char *problem = options_problem(options);
	message[0] = '\0';
	if (problem != NULL) {
		snprintf(message, TRACES_MESSAGE_SIZE, "%s", problem);
		return -EINVAL;
	}
	struct synth *synth = calloc(1, sizeof(*synth));
	int error = synth != NULL ? 0 : -ENOMEM;
	if (error == 0) {
		synth->packets.ops = &synth_ops;
		synth->options = *options;
		error = set_up(synth);
	}
	if (error) {
		snprintf(message, TRACES_MESSAGE_SIZE, "%s",
			error == -EINTR ? "interrupted" : "out of memory");
		if (synth != NULL)
			synth_destroy(&synth->packets);
		return error;
	}
	*out = synth;
	return 0;
}

int traces_packets_synth(
	struct traces_packets **out, const struct traces_synth_options *options, char *message)
{
	struct synth *synth;
	int error = synth_open(&synth, options, message);
	if (error == 0)
		*out = &synth->packets;
	return error;
}

int traces_synth_generate(
	struct traces_trace **out, const struct traces_synth_options *options, char *message)
{
	struct traces_trace *trace = NULL;
	struct synth *synth;
	int error = synth_open(&synth, options, message);
	if (error)
		return error;
	if (options->packets > SIZE_MAX / 8 / TRACES_SYNTH_FRAME_MAX ||
		traces_trace_create(&trace) != 0 ||
		traces_buffer_reserve_exact(
			&trace->bytes, options->packets * options->frame_bytes) != 0 ||
		traces_buffer_reserve_exact(
			&trace->records, options->packets * sizeof(struct traces_record)) != 0)
		error = -ENOMEM;
	if (error == 0)
		error = fill(synth, trace, options->packets);
	synth_destroy(&synth->packets);
	if (error) {
		snprintf(message, TRACES_MESSAGE_SIZE, "out of memory");
		traces_trace_destroy(trace);
		return error;
	}
	*out = trace;
	return 0;
}
