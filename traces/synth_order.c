/* SPDX-License-Identifier: BSD-2-Clause */
/* Which flow is next: in turn, at random, by popularity, or by how long ago it was last chosen. */
#include "traces/synth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
	REDRAWS_MAX = 64,
	LOOK = 1 << 20, /* places between looks at the stop flag */
};

/*
 * Zipf by rejection-inversion (Hoermann and Derflinger 1996): a draw costs the same for any number
 * of flows and needs no table. H is the integral of x^-s, helped near s = 1 where it is a log.
 */
static double zipf_h_integral(const struct traces_zipf *zipf, double x)
{
	double log_x = log(x), t = (1 - zipf->exponent) * log_x;
	return (fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2) * log_x;
}

static double zipf_h_inverse(const struct traces_zipf *zipf, double y)
{
	double t = y * (1 - zipf->exponent);
	if (t < -1)
		t = -1; /* rounding at the far end */
	return exp((fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2) * y);
}

void traces_zipf_init(struct traces_zipf *zipf, double exponent, uint64_t n)
{
	zipf->exponent = exponent;
	zipf->n = (double)n;
	zipf->h_first = zipf_h_integral(zipf, 1.5) - 1;
	zipf->h_last = zipf_h_integral(zipf, zipf->n + 0.5);
	zipf->threshold = 2 - zipf_h_inverse(zipf, zipf_h_integral(zipf, 2.5) - pow(2, -exponent));
}

uint64_t traces_zipf_draw(const struct traces_zipf *zipf, struct base_rng *rng)
{
	for (;;) {
		double u = zipf->h_last + base_rng_unit(rng) * (zipf->h_first - zipf->h_last);
		double x = zipf_h_inverse(zipf, u);
		double k = floor(x + 0.5);
		if (k < 1)
			k = 1;
		if (k > zipf->n)
			k = zipf->n;
		if (k - x <= zipf->threshold ||
			u >= zipf_h_integral(zipf, k + 0.5) - pow(k, -zipf->exponent))
			return (uint64_t)k - 1;
	}
}

/* ---- by recency ---- */

/* Places are numbered from 1 in the tree: sums[i] is that of the (i & -i) places up to i. */
static void sums_add(struct traces_recency *recency, uint32_t place, uint32_t value)
{
	for (uint32_t i = place + 1; i <= recency->places; i += i & -i)
		recency->sums[i] += value;
}

/* The place with exactly `before` taken ones in front of it. */
static uint32_t sums_find(const struct traces_recency *recency, uint32_t before)
{
	uint32_t at = 0;
	for (uint32_t step = recency->places; step > 0; step /= 2) {
		if (at + step <= recency->places && recency->sums[at + step] <= before) {
			at += step;
			before -= recency->sums[at];
		}
	}
	return at;
}

/* Sums of the first `taken` places. Each hands its value on to the next one that covers it. */
static int sum_up(struct traces_recency *recency, uint32_t taken, const atomic_bool *stop)
{
	for (uint32_t i = 1; i <= recency->places; i++) {
		if (i % LOOK == 0 && traces_is_stopped(stop))
			return -EINTR;
		recency->sums[i] += i <= taken;
		uint32_t above = i + (i & -i);
		if (above <= recency->places)
			recency->sums[above] += recency->sums[i];
	}
	recency->next = taken;
	return 0;
}

/* The flows in order of their last choice to the first places. */
static void compact(struct traces_recency *recency)
{
	uint32_t taken = 0;
	for (uint32_t place = 0; place < recency->places; place++)
		if (recency->owner[place] != UINT32_MAX)
			recency->owner[taken++] = recency->owner[place];
	for (uint32_t place = 0; place < recency->places; place++) {
		recency->sums[place + 1] = 0;
		if (place >= taken)
			recency->owner[place] = UINT32_MAX;
	}
	(void)sum_up(recency, taken, NULL);
}

int traces_recency_init(struct traces_recency *recency, uint32_t flows, const atomic_bool *stop)
{
	uint32_t places = 2;
	while (places < 2 * (uint64_t)flows)
		places *= 2;
	recency->owner = malloc(places * sizeof(*recency->owner));
	recency->sums = malloc(((size_t)places + 1) * sizeof(*recency->sums));
	recency->places = places;
	recency->flows = flows;
	if (recency->owner == NULL || recency->sums == NULL)
		return -ENOMEM;
	recency->sums[0] = 0;
	for (uint32_t i = 0; i < places; i++) {
		if (i % LOOK == 0 && traces_is_stopped(stop))
			return -EINTR;
		recency->owner[i] = i < flows ? i : UINT32_MAX;
		recency->sums[i + 1] = 0;
	}
	return sum_up(recency, flows, stop);
}

void traces_recency_destroy(struct traces_recency *recency)
{
	free(recency->owner);
	free(recency->sums);
}

uint32_t traces_recency_take(struct traces_recency *recency, uint32_t depth)
{
	if (recency->next == recency->places)
		compact(recency);
	uint32_t place = sums_find(recency, recency->flows - 1 - depth);
	uint32_t flow = recency->owner[place];
	recency->owner[place] = UINT32_MAX;
	sums_add(recency, place, UINT32_MAX); /* less one */
	recency->owner[recency->next] = flow;
	sums_add(recency, recency->next++, 1);
	return flow;
}

/* ---- the orders ---- */

int traces_synth_order_init(
	struct traces_synth_order *order, const struct traces_synth_options *options)
{
	bool zipf_depth =
		options->order == TRACES_ORDER_RECENCY && options->reuse.law == TRACES_REUSE_ZIPF;
	memset(order, 0, sizeof(*order));
	order->kind = options->order;
	order->flows = options->flows;
	order->reuse = options->reuse;
	if (options->order == TRACES_ORDER_ZIPF)
		traces_zipf_init(&order->zipf, options->zipf_exponent, options->flows);
	if (zipf_depth && options->flows > 1)
		traces_zipf_init(&order->zipf, options->reuse.value, options->flows - 1);
	if (options->order == TRACES_ORDER_RECENCY)
		return traces_recency_init(
			&order->recency, (uint32_t)options->flows, options->stop);
	return 0;
}

void traces_synth_order_destroy(struct traces_synth_order *order)
{
	traces_recency_destroy(&order->recency);
}

/* How many other flows stand between two choices of one: 1 to flows - 1. */
static uint32_t draw_depth(const struct traces_synth_order *order, struct base_rng *rng)
{
	uint64_t most = order->flows - 1;
	uint64_t value = order->reuse.value < (double)most ? (uint64_t)order->reuse.value : most;
	switch (order->reuse.law) {
	case TRACES_REUSE_UNIFORM:
		return (uint32_t)(1 + base_rng_below(rng, value));
	case TRACES_REUSE_GEOMETRIC: {
		/* Given that it is at most `most`; without that its mean is the value. */
		double stay = 1 - 1 / order->reuse.value;
		double u = base_rng_unit(rng) * (1 - pow(stay, (double)most));
		double depth = stay > 0 ? 1 + floor(log1p(-u) / log(stay)) : 1;
		return (uint32_t)(depth < (double)most ? depth : (double)most);
	}
	case TRACES_REUSE_ZIPF:
		return (uint32_t)(1 + traces_zipf_draw(&order->zipf, rng));
	case TRACES_REUSE_FIXED:
	default:
		return (uint32_t)value;
	}
}

static uint64_t next_flow(struct traces_synth_order *order, struct base_rng *rng)
{
	uint64_t flows = order->flows, previous = order->previous;
	switch (order->kind) {
	case TRACES_ORDER_UNIFORM: {
		if (!order->started)
			return base_rng_below(rng, flows);
		uint64_t other = base_rng_below(rng, flows - 1);
		return other + (other >= previous);
	}
	case TRACES_ORDER_ZIPF:
		/* Steep laws draw the first rank nearly always: give up, take a neighbour. */
		for (int i = 0; i < REDRAWS_MAX; i++) {
			uint64_t flow = traces_zipf_draw(&order->zipf, rng);
			if (!order->started || flow != previous)
				return flow;
		}
		return (previous + 1) % flows;
	case TRACES_ORDER_RECENCY:
		return traces_recency_take(&order->recency, draw_depth(order, rng));
	case TRACES_ORDER_ROUND_ROBIN:
	default:
		return !order->started || previous + 1 == flows ? 0 : previous + 1;
	}
}

uint64_t traces_synth_order_next(struct traces_synth_order *order, struct base_rng *rng)
{
	if (order->flows == 1)
		return 0;
	order->previous = next_flow(order, rng);
	order->started = true;
	return order->previous;
}
