/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model at one offered load: how many flows begin per second, how large their packets are, how
 * often they pause. All of it is calculated from the laws, so that the targets are met at every
 * load and not only where they were tried.
 */
#include "traces/generate.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum {
	ETHERNET_BYTES = 14,
	ELEPHANT_ABOVE = 1024, /* packets; what new_flows_per_s makes more or less frequent */
	BYTES_MIN = 46,
};

/* A flow of usual pace has at most this share of the load: windows are smaller on slower links. */
static const double flow_load_max = 0.025;

double traces_gen_waits(double burst, double window, double gaps)
{
	if (gaps <= burst)
		return gaps;
	if (gaps <= window)
		return burst * (1 + log(gaps / burst));
	double grown = window > burst ? burst * (1 + log(window / burst)) : burst;
	double full = window > burst ? window : burst;
	return grown + (gaps - full) * burst / full;
}

double traces_gen_waits_inverse(double burst, double window, double waits)
{
	double grown = window > burst ? burst * (1 + log(window / burst)) : burst;
	if (waits <= burst)
		return waits;
	if (waits <= grown)
		return burst * exp(waits / burst - 1);
	double full = window > burst ? window : burst;
	return full + (waits - grown) * full / burst;
}

/* ---- flows ---- */

static void make_laws(struct traces_gen_plan *plan)
{
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		const struct traces_gen_class_model *model = &plan->model->classes[c];
		struct traces_gen_class_plan *class = &plan->classes[c];
		class->share = model->flow_share;
		traces_law_build(&class->length, &model->length, plan->model->length_max);
		traces_law_shorten(&class->length, model->short_share);
	}
}

struct mean {
	double flows, packets;
};

/* Of flows longer than ELEPHANT_ABOVE, or of the others. */
static struct mean mean_of(const struct traces_gen_plan *plan, bool elephants)
{
	struct mean mean = { 0 };
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		const struct traces_law *law = &plan->classes[c].length;
		for (unsigned int bin = 0; bin < law->bins; bin++) {
			if ((law->last[bin] >= ELEPHANT_ABOVE) != elephants)
				continue;
			double share = plan->classes[c].share * traces_law_probability(law, bin);
			mean.flows += share;
			mean.packets += share * traces_law_middle(law, bin);
		}
	}
	return mean;
}

/* Make elephants more or less frequent, until a load has so many packets for each new flow. */
static int meet_flow_packets(struct traces_gen_plan *plan, double wanted, char *message)
{
	struct mean mice = mean_of(plan, false), elephants = mean_of(plan, true);
	double low = mice.packets / mice.flows;
	double high = elephants.flows > 0 ? elephants.packets / elephants.flows : low;
	if (wanted <= low || wanted >= high) {
		snprintf(message, TRACES_MESSAGE_SIZE,
			"new flows per second: got %.0f, expected %.0f..%.0f at this load",
			plan->packets_per_s / wanted, ceil(plan->packets_per_s / high),
			floor(plan->packets_per_s / low));
		return -EINVAL;
	}
	double factor = (wanted * mice.flows - mice.packets) /
			(elephants.packets - wanted * elephants.flows);
	double whole = 0;
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		struct traces_gen_class_plan *class = &plan->classes[c];
		class->share *= traces_law_tilt(&class->length, ELEPHANT_ABOVE, factor);
		whole += class->share;
	}
	for (int c = 0; c < TRACES_GEN_CLASSES; c++)
		plan->classes[c].share /= whole;
	return 0;
}

static int make_rates(
	struct traces_gen_plan *plan, const struct traces_generate_options *options, char *message)
{
	double asked = (double)options->new_flows_per_s;
	make_laws(plan);
	if (asked > 0) {
		int error = meet_flow_packets(plan, plan->packets_per_s / asked, message);
		if (error)
			return error;
	}
	struct mean mice = mean_of(plan, false), elephants = mean_of(plan, true);
	plan->flow_packets = (mice.packets + elephants.packets) / (mice.flows + elephants.flows);
	plan->flows_per_s = plan->packets_per_s / plan->flow_packets;
	for (int c = 0; c < TRACES_GEN_CLASSES; c++)
		plan->classes[c].flows_per_s =
			plan->flows_per_s * plan->classes[c].share / (mice.flows + elephants.flows);
	return 0;
}

/* ---- sizes ---- */

/*
 * The mean size of a packet by the length of its flow: the length and size laws of a class are
 * matched quantile by quantile (a longer flow is a larger one), which gives small packets to short
 * flows and full ones to long flows.
 */
static double bytes_at(
	const struct traces_gen_class_model *model, const struct traces_law *law, unsigned int bin)
{
	double p = (law->below[bin] + law->below[bin + 1]) / 2;
	p = p > 1 - 1e-9 ? 1 - 1e-9 : p;
	return traces_law_mixture_quantile(&model->bytes, p) / traces_law_middle(law, bin);
}

static double clamp_bytes(int class, double bytes)
{
	double max =
		class == TRACES_GEN_UDP ? TRACES_GEN_UDP_BYTES - 60 : TRACES_GEN_TCP_BYTES - 80;
	return bytes < BYTES_MIN ? BYTES_MIN : bytes > max ? max : bytes;
}

/* Mean over all packets when sizes are multiplied by factor. */
static double mean_bytes(const struct traces_gen_plan *plan, double factor)
{
	double packets = 0, bytes = 0;
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		const struct traces_gen_class_plan *class = &plan->classes[c];
		for (unsigned int bin = 0; bin < class->length.bins; bin++) {
			double weight = class->share * traces_law_probability(&class->length, bin) *
					traces_law_middle(&class->length, bin);
			packets += weight;
			bytes += weight * clamp_bytes(c, (double)class->packet_bytes[bin] * factor);
		}
	}
	return bytes / packets;
}

static void make_sizes(struct traces_gen_plan *plan)
{
	double low = 0.05, high = 20, wanted = plan->model->frame_bytes - ETHERNET_BYTES;
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		struct traces_gen_class_plan *class = &plan->classes[c];
		for (unsigned int bin = 0; bin < class->length.bins; bin++)
			class->packet_bytes[bin] =
				(float)bytes_at(&plan->model->classes[c], &class->length, bin);
	}
	for (int i = 0; i < 50; i++) {
		double middle = sqrt(low * high);
		if (mean_bytes(plan, middle) < wanted)
			low = middle;
		else
			high = middle;
	}
	plan->frame_bytes = mean_bytes(plan, low) + ETHERNET_BYTES;
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		struct traces_gen_class_plan *class = &plan->classes[c];
		for (unsigned int bin = 0; bin < class->length.bins; bin++)
			class->packet_bytes[bin] =
				(float)clamp_bytes(c, (double)class->packet_bytes[bin] * low);
	}
}

/* ---- gaps ---- */

double traces_gen_pausable(enum traces_gen_class class, double packets)
{
	if (class != TRACES_GEN_TCP)
		return packets - 1;
	return packets < 4 ? 0 : packets < 6 ? packets - 3 : packets - 5;
}

static double pause_share(const struct traces_gen_gaps *gaps, double factor)
{
	double most = 1 - gaps->touching - gaps->close;
	return gaps->pause * factor < most ? gaps->pause * factor : most;
}

static double pauses_per_s(const struct traces_gen_plan *plan, double factor)
{
	double sum = 0;
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		const struct traces_gen_class_plan *class = &plan->classes[c];
		for (unsigned int bin = 0; bin < class->length.bins; bin++) {
			double packets = traces_law_middle(&class->length, bin);
			const struct traces_gen_gaps *gaps =
				&plan->model->classes[c].gaps[traces_gen_size(packets)];
			sum += class->flows_per_s * traces_law_probability(&class->length, bin) *
			       traces_gen_pausable((enum traces_gen_class)c, packets) *
			       pause_share(gaps, factor);
		}
	}
	return sum;
}

/* So many pauses that new flows and flows that come back make packets_per_insertion. */
static double pause_factor(const struct traces_gen_plan *plan)
{
	double low = 0, high = 1, per_insertion = plan->model->packets_per_insertion;
	if (per_insertion == 0)
		return 0;
	double wanted = plan->packets_per_s / per_insertion - plan->flows_per_s;
	for (int i = 0; i < 50; i++) {
		double middle = (low + high) / 2;
		if (pauses_per_s(plan, middle) < wanted)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static uint32_t threshold(double probability)
{
	double scaled = probability * 0x1.0p32;
	return scaled >= UINT32_MAX ? UINT32_MAX : (uint32_t)scaled;
}

static void make_gaps(struct traces_gen_plan *plan)
{
	double factor = pause_factor(plan);
	traces_quantiles_build(&plan->close, plan->model->close_sigma);
	traces_quantiles_build(&plan->round, plan->model->round_sigma);
	for (int c = 0; c < TRACES_GEN_CLASSES; c++) {
		const struct traces_gen_class_model *model = &plan->model->classes[c];
		struct traces_gen_class_plan *class = &plan->classes[c];
		traces_quantiles_build(&class->pace, model->pace_sigma);
		double window = flow_load_max * plan->packets_per_s * model->pace_ns / 1e9 *
				class->pace.mean * plan->round.mean;
		class->window_packets =
			window < plan->model->window_packets ? window : plan->model->window_packets;
		for (int size = 0; size < TRACES_GEN_SIZES; size++) {
			const struct traces_gen_gaps *gaps = &model->gaps[size];
			struct traces_gen_gap_plan *gap = &class->gaps[size];
			gap->pause_share = pause_share(gaps, factor);
			/* What is sent again waits a round, whatever was drawn. */
			double again = c == TRACES_GEN_TCP ? plan->model->retransmit_share *
								     (1 - plan->model->ack_share)
							   : 0;
			gap->round_share = again + (1 - again) * (1 - gaps->touching - gaps->close -
									 gap->pause_share);
			gap->burst = 1 / (1 - gaps->touching - gaps->close);
			gap->touching = threshold(gaps->touching);
			gap->close = threshold(gaps->touching + gaps->close);
			gap->pause = threshold(gaps->touching + gaps->close + gap->pause_share);
		}
	}
}

int traces_gen_plan_make(struct traces_gen_plan *plan, const struct traces_gen_model *model,
	const struct traces_generate_options *options, char *message)
{
	double bits = (double)options->bits_per_s;
	memset(plan, 0, sizeof(*plan));
	plan->model = model;
	plan->packets_per_s = options->packets_per_s != 0
				      ? (double)options->packets_per_s
				      : bits / 8 / (model->frame_bytes + TRACES_GEN_OVERHEAD_BYTES);
	int error = make_rates(plan, options, message);
	if (error)
		return error;
	make_sizes(plan);
	make_gaps(plan);
	return 0;
}
