/* SPDX-License-Identifier: BSD-2-Clause */
/* The generator as a stream: options, arrivals, and the loop that sends what is due next. */
#include "traces/generate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
	ETHERNET_BYTES = 14,
	PACKETS_PER_S_MAX = 1000000000,
	NEW_FLOWS_PER_S_MAX = 1000000000,
	VLANS_MAX = 4094,
	FRAME_BYTES_MAX = TRACES_GEN_PAYLOAD_BYTES,
};

static const uint64_t bits_per_s_max = UINT64_C(1000000000000);
/* How fast the load follows what was asked for, and how far rounds stretch or shrink for it. */
static const double control_s = 0.1, stretch_max = 10;
/* The link is the next standard rate above this times the load. */
static const double link_headroom = 2;

static const char *const names[TRACES_PRESETS_COUNT] = {
	[TRACES_PRESET_CAMPUS] = "campus",
	[TRACES_PRESET_BACKBONE] = "backbone",
	[TRACES_PRESET_SCAN] = "scan",
	[TRACES_PRESET_DATACENTER] = "datacenter",
};

const char *traces_preset_name(enum traces_preset preset)
{
	return (unsigned int)preset < TRACES_PRESETS_COUNT ? names[preset] : NULL;
}

void traces_generate_options_defaults(struct traces_generate_options *options)
{
	*options = (struct traces_generate_options){
		.bits_per_s = 1000000000,
		.start_ns = UINT64_C(1700000000000000000),
		.seed = 1,
		.ip6_share = -1,
		.unanswered_share = -1,
		.retransmit_share = -1,
		.reorder_share = -1,
		.fragment_share = -1,
		.icmp_error_share = -1,
	};
}

static double share_or(double share, double preset)
{
	return share < 0 ? preset : share;
}

/* What is left to the preset. */
static void fill_in(struct traces_generate_options *options, const struct traces_gen_model *model)
{
	if (options->ways == TRACES_WAYS_PRESET)
		options->ways = model->one_way ? TRACES_WAYS_ONE : TRACES_WAYS_BOTH;
	if (options->frames == TRACES_FRAMES_PRESET)
		options->frames =
			model->link == BASE_LINK_RAW ? TRACES_FRAMES_RAW : TRACES_FRAMES_ETHERNET;
	if (options->snaplen == 0)
		options->snaplen = model->snaplen;
	options->ip6_share = share_or(options->ip6_share, model->ip6_share);
	options->unanswered_share = share_or(options->unanswered_share, model->unanswered_share);
	options->retransmit_share = share_or(options->retransmit_share, model->retransmit_share);
	options->reorder_share = share_or(options->reorder_share, model->reorder_share);
	options->fragment_share = share_or(options->fragment_share, model->fragment_share);
	options->icmp_error_share = share_or(options->icmp_error_share, model->icmp_error_share);
}

static const char *options_problem(const struct traces_generate_options *options)
{
	const double shares[] = { options->ip6_share, options->unanswered_share,
		options->retransmit_share, options->reorder_share, options->fragment_share,
		options->icmp_error_share };
	if (options->packets_per_s == 0 &&
		(options->bits_per_s < 1000000 || options->bits_per_s > bits_per_s_max))
		return "the load must be between 1 Mb/s and 1 Tb/s";
	if (options->packets_per_s != 0 &&
		(options->packets_per_s < 100 || options->packets_per_s > PACKETS_PER_S_MAX))
		return "packets per second must be between 100 and 10^9";
	if (options->new_flows_per_s > NEW_FLOWS_PER_S_MAX)
		return "at most 10^9 new flows per second";
	if (options->vlans > VLANS_MAX)
		return "at most 4094 VLANs";
	if (options->vlans != 0 && options->frames == TRACES_FRAMES_RAW)
		return "VLANs need Ethernet frames";
	for (size_t i = 0; i < BASE_ARRAY_COUNT(shares); i++)
		if (!(shares[i] <= 1))
			return "a share must be at most 1";
	if (options->start_ns > TRACES_TIME_NS_MAX / 2 ||
		options->duration_ns > TRACES_TIME_NS_MAX / 2)
		return "timestamps would pass the year 2262";
	return NULL;
}

/* ---- arrivals ---- */

/* Shape of the Weibull law with this coefficient of variation (at least 1). */
static double weibull_shape(double cv)
{
	double low = 0.2, high = 1;
	for (int i = 0; i < 50; i++) {
		double k = (low + high) / 2, first = tgamma(1 + 1 / k);
		if (sqrt(tgamma(1 + 2 / k) / (first * first) - 1) > cv)
			low = k;
		else
			high = k;
	}
	return high;
}

static double arrival_gap_ns(struct traces_gen *gen, int class)
{
	double u = -log(1 - base_rng_unit(&gen->rng));
	if (gen->arrival_shape[class] < 1)
		u = pow(u, 1 / gen->arrival_shape[class]);
	return gen->arrival_scale_ns[class] * u;
}

static void arrivals_init(struct traces_gen *gen)
{
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		double per_s = gen->plan.classes[c].flows_per_s;
		double cv = gen->plan.model->classes[c].arrival_cv;
		gen->arrival_shape[c] = cv > 1 ? weibull_shape(cv) : 1;
		gen->arrival_scale_ns[c] =
			per_s > 0 ? 1e9 / per_s / tgamma(1 + 1 / gen->arrival_shape[c]) : 0;
		gen->next_ns[c] = per_s > 0 ? arrival_gap_ns(gen, c) : INFINITY;
	}
}

static int next_class(const struct traces_gen *gen)
{
	int next = 0;
	for (int c = 1; c < TRACES_GEN_CLASSES; c++)
		if (gen->next_ns[c] < gen->next_ns[next])
			next = c;
	return next;
}

/* Begin the flows that are due up to the queue's first event, which may be one of them then. */
static int begin_due(struct traces_gen *gen, struct traces_gen_event *event)
{
	int error = traces_gen_queue_top(gen->queue, event);
	while (error == 0) {
		int class = next_class(gen);
		double next_ns = gen->next_ns[class];
		if (!(next_ns < (double)event->time_ns))
			return 0;
		if (gen->options.flows != 0 && gen->begun >= gen->options.flows) {
			for (int c = 0; c < TRACES_GEN_CLASSES; c++)
				gen->next_ns[c] = INFINITY;
			return 0;
		}
		gen->next_ns[class] += arrival_gap_ns(gen, class);
		error = traces_gen_flow_begin(
			gen, (enum traces_gen_class) class, (uint64_t)next_ns);
		if (error == 0)
			error = traces_gen_queue_top(gen->queue, event);
	}
	return error;
}

/* ---- the load ---- */

/* Rounds stretch when more was sent than asked for, as flows that share a link make them. */
static void follow_load(struct traces_gen *gen, uint64_t now_ns, uint32_t frame_bytes)
{
	gen->offered += gen->packet_s + gen->byte_s * frame_bytes;
	if (gen->emitted % 256 != 0)
		return;
	double ahead = (gen->offered - (double)now_ns / 1e9) / control_s;
	double stretch = exp(ahead);
	stretch = stretch > stretch_max ? stretch_max : stretch;
	gen->stretch = (float)(stretch < 1 / stretch_max ? 1 / stretch_max : stretch);
}

static void load_init(struct traces_gen *gen)
{
	static const double rates[] = { 1e9, 2.5e9, 10e9, 25e9, 40e9, 100e9, 200e9, 400e9 };
	const struct traces_generate_options *options = &gen->options;
	double bytes_per_s =
		gen->plan.packets_per_s * (gen->plan.frame_bytes + TRACES_GEN_OVERHEAD_BYTES);
	double rate = 1600e9;
	for (size_t i = 0; i < BASE_ARRAY_COUNT(rates) && rate == 1600e9; i++)
		if (rates[i] >= bytes_per_s * 8 * link_headroom)
			rate = rates[i];
	gen->link_ns_per_byte = 8e9 / rate;
	gen->stretch = 1;
	if (options->packets_per_s != 0) {
		gen->packet_s = 1 / gen->plan.packets_per_s;
	} else {
		gen->byte_s = 8 / (double)options->bits_per_s;
		gen->packet_s = gen->byte_s * TRACES_GEN_OVERHEAD_BYTES;
	}
}

/* ---- the stream ---- */

/* One packet of the flow that is due, at the time at which the link is free for it. */
static int emit(struct traces_gen *gen, const struct traces_gen_event *event)
{
	struct traces_gen_flow *flow = &gen->flows[event->flow];
	struct traces_buffer *bytes = &gen->batch->bytes;
	struct traces_gen_packet packet;
	uint64_t now_ns = event->time_ns > gen->link_free_ns ? event->time_ns : gen->link_free_ns;
	struct traces_record record = { .offset = bytes->used };
	if (gen->options.duration_ns != 0 && now_ns >= gen->options.duration_ns) {
		gen->packets.ended = true;
		return 0;
	}
	traces_gen_step(gen, flow, &packet);
	traces_gen_frame(&gen->frames, flow, &packet, now_ns, bytes->data + bytes->used, &record);
	record.time_ns = gen->options.start_ns + now_ns;
	if (gen->options.microseconds)
		record.time_ns -= record.time_ns % 1000;
	bytes->used += record.cap_len;
	int error = traces_trace_push(gen->batch, &record);
	if (error)
		return error;
	uint32_t frame_bytes = record.wire_len + (gen->frames.raw ? ETHERNET_BYTES : 0);
	gen->link_free_ns = now_ns + (uint64_t)(gen->link_ns_per_byte *
						(frame_bytes + TRACES_GEN_OVERHEAD_BYTES));
	gen->emitted++;
	follow_load(gen, now_ns, frame_bytes);
	flow->sent++;
	if (--flow->left > 0)
		return traces_gen_queue_move(
			gen->queue, event->time_ns + traces_gen_gap(gen, flow));
	traces_gen_queue_pop(gen->queue);
	traces_gen_flow_end(gen, event->flow);
	return 0;
}

static bool is_over(const struct traces_gen *gen)
{
	return gen->packets.ended ||
	       (gen->options.packets != 0 && gen->emitted >= gen->options.packets);
}

static int generate_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct traces_gen *gen = (struct traces_gen *)packets;
	traces_trace_clear(gen->batch);
	while (traces_trace_count(gen->batch) < TRACES_BATCH_PACKETS &&
		gen->batch->bytes.used < TRACES_BATCH_BYTES && !is_over(gen)) {
		struct traces_gen_event event;
		int error = begin_due(gen, &event);
		if (error == 0 && event.time_ns == UINT64_MAX)
			break; /* no flow is left */
		if (error == 0)
			error = emit(gen, &event);
		if (error)
			return traces_packets_fail(packets, error, "out of memory");
	}
	*batch = traces_trace_batch(gen->batch);
	return 0;
}

static void generate_destroy(struct traces_packets *packets)
{
	struct traces_gen *gen = (struct traces_gen *)packets;
	traces_gen_queue_destroy(gen->queue);
	traces_trace_destroy(gen->batch);
	free(gen->flows);
	free(gen);
}

static const struct traces_packets_ops generate_ops = { generate_next, generate_destroy };

static int set_up(struct traces_gen *gen, char *message)
{
	const struct traces_gen_model *model = traces_gen_model_of(gen->options.preset);
	base_rng_seed(&gen->rng, gen->options.seed);
	gen->salt = base_rng_u64(&gen->rng);
	gen->frames.snaplen = gen->options.snaplen;
	gen->frames.raw = gen->options.frames == TRACES_FRAMES_RAW;
	traces_gen_frames_init(&gen->frames, &gen->rng);
	int error = traces_gen_plan_make(&gen->plan, model, &gen->options, message);
	if (error)
		return error;
	load_init(gen);
	arrivals_init(gen);
	if (traces_trace_create(&gen->batch) != 0 || traces_gen_queue_create(&gen->queue) != 0 ||
		traces_buffer_reserve_exact(
			&gen->batch->bytes, TRACES_BATCH_BYTES + FRAME_BYTES_MAX) != 0)
		return -ENOMEM;
	return gen->options.cold ? 0 : traces_gen_flows_meet(gen);
}

int traces_packets_generate(
	struct traces_packets **out, const struct traces_generate_options *options, char *message)
{
	const struct traces_gen_model *model = traces_gen_model_of(options->preset);
	struct traces_generate_options filled = *options;
	message[0] = '\0';
	if (model != NULL)
		fill_in(&filled, model);
	const char *problem = model == NULL ? "unknown preset" : options_problem(&filled);
	if (problem != NULL) {
		snprintf(message, TRACES_MESSAGE_SIZE, "%s", problem);
		return -EINVAL;
	}
	struct traces_gen *gen = calloc(1, sizeof(*gen));
	if (gen == NULL)
		return -ENOMEM;
	gen->packets.ops = &generate_ops;
	gen->options = filled;
	gen->flows_free = UINT32_MAX;
	int error = set_up(gen, message);
	if (error) {
		generate_destroy(&gen->packets);
		return error;
	}
	*out = &gen->packets;
	return 0;
}
