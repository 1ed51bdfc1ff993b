/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows of generated traffic, counted from its packets as anybody would, against the laws that they
 * are drawn from: lengths, arrivals, the share of the largest.
 */
#include "tests/unit/traces/test.h"

#include "tests/support/generated.h"
#include "traces/generate.h"

#include <math.h>
#include <stdlib.h>

enum { FLOWS_MAX = 1 << 16, FLOWS = 15000 };

struct flow {
	uint64_t first_ns;
	uint64_t bytes;
	uint32_t packets;
	uint8_t protocol;
};

struct flows {
	struct flow flows[FLOWS_MAX];
	uint64_t count;
};

static void visit(void *context, const struct generated_packet *packet)
{
	struct flows *flows = context;
	struct flow *flow = &flows->flows[packet->flow];
	if (packet->fresh) {
		flow->first_ns = packet->record->time_ns;
		flow->protocol = packet->parsed->key.protocol;
		flows->count++;
	}
	flow->packets++;
	flow->bytes += packet->record->wire_len;
}

/* So many flows from their first packet to their last. */
static struct flows *whole_flows(enum traces_preset preset, uint64_t count, uint64_t seed)
{
	struct flows *flows = calloc(1, sizeof(*flows));
	struct traces_generate_options options;
	traces_generate_options_defaults(&options);
	options.preset = preset;
	options.bits_per_s = 10000000000;
	options.cold = true;
	options.flows = count;
	options.snaplen = 128; /* with the ports that an ICMP error quotes */
	options.seed = seed;
	struct generated_summary summary =
		generated_walk(generated_open(&options), FLOWS_MAX, visit, flows);
	assert_int_equal(summary.flows, count);
	return flows;
}

static int compare_lengths(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov's distance of a protocol's flow lengths to the mixture. */
static double length_distance(const struct flows *flows, uint8_t protocol,
	const struct traces_law_mixture *mixture, uint32_t max, uint32_t *number)
{
	uint32_t *lengths = calloc(flows->count, sizeof(*lengths)), count = 0;
	double whole = traces_law_mixture_cdf(mixture, max), worst = 0;
	for (uint64_t i = 0; i < flows->count; i++)
		if (flows->flows[i].protocol == protocol)
			lengths[count++] = flows->flows[i].packets;
	qsort(lengths, count, sizeof(*lengths), compare_lengths);
	for (uint32_t i = 0; i < count; i++) {
		if (i + 1 < count && lengths[i + 1] == lengths[i])
			continue;
		double off = fabs((double)(i + 1) / count -
				  traces_law_mixture_cdf(mixture, lengths[i]) / whole);
		worst = off > worst ? off : worst;
	}
	free(lengths);
	*number = count;
	return worst;
}

static void flow_lengths_follow_the_published_mixtures(void **state)
{
	(void)state;
	static const uint8_t protocols[] = { BASE_PROTOCOL_TCP, BASE_PROTOCOL_UDP };
	const struct traces_gen_model *model = traces_gen_model_of(TRACES_PRESET_CAMPUS);
	struct flows *flows = whole_flows(TRACES_PRESET_CAMPUS, FLOWS, 1);
	for (int c = 0; c < 2; c++) {
		uint32_t count;
		double distance = length_distance(
			flows, protocols[c], &model->classes[c].length, model->length_max, &count);
		print_message("campus %s flow lengths: KS distance %.4f of %u flows\n",
			c == 0 ? "TCP" : "UDP", distance, count);
		assert_true(fabs((double)count / FLOWS - model->classes[c].flow_share) < 0.03);
		/* 1.63 / sqrt(n) is exceeded once in 100 seeds. */
		assert_true(distance < 1.63 / sqrt(count));
	}
	free(flows);
}

static int compare_bytes(const void *a, const void *b)
{
	const struct flow *x = a, *y = b;
	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static double share_of_largest(struct flows *flows, double part)
{
	double sum = 0, top = 0;
	qsort(flows->flows, flows->count, sizeof(*flows->flows), compare_bytes);
	for (uint64_t i = 0; i < flows->count; i++) {
		sum += (double)flows->flows[i].bytes;
		if ((double)i < part * (double)flows->count)
			top += (double)flows->flows[i].bytes;
	}
	return top / sum;
}

static void the_largest_flows_carry_the_bytes(void **state)
{
	(void)state;
	/* AGH: flows above 1 MB are 0.4 % and carry 92 %, above 100 kB 1.6 % and 97 %. */
	struct flows *flows = whole_flows(TRACES_PRESET_CAMPUS, FLOWS, 2);
	double share = share_of_largest(flows, 0.01);
	print_message("campus: the top 1 %% of flows carry %.1f %% of bytes\n", share * 100);
	assert_true(share > 0.9 && share < 0.99);
	free(flows);
	/* IMC 2010: 80 % of flows are below 10 kB. */
	flows = whole_flows(TRACES_PRESET_DATACENTER, FLOWS / 4, 3);
	uint64_t small = 0;
	for (uint64_t i = 0; i < flows->count; i++)
		small += flows->flows[i].bytes < 10000;
	double part = (double)small / (double)flows->count;
	print_message("datacenter: %.1f %% of flows are below 10 kB\n", part * 100);
	assert_true(part > 0.75 && part < 0.88);
	free(flows);
}

/* Coefficient of variation of the times between a protocol's flows. */
static double arrival_cv(const struct flows *flows, uint8_t protocol)
{
	double count = 0, sum = 0, squares = 0;
	uint64_t before_ns = 0;
	for (uint64_t i = 0; i < flows->count; i++) {
		const struct flow *flow = &flows->flows[i];
		if (flow->protocol != protocol)
			continue;
		if (before_ns != 0) {
			double gap = (double)(flow->first_ns - before_ns);
			count++;
			sum += gap;
			squares += gap * gap;
		}
		before_ns = flow->first_ns;
	}
	return sqrt(squares / count - sum / count * sum / count) / (sum / count);
}

static void flows_arrive_as_measured(void **state)
{
	(void)state;
	struct flows *flows = whole_flows(TRACES_PRESET_CAMPUS, FLOWS, 4);
	double tcp = arrival_cv(flows, BASE_PROTOCOL_TCP),
	       udp = arrival_cv(flows, BASE_PROTOCOL_UDP);
	print_message("campus: CV of flow arrivals TCP %.2f, UDP %.2f\n", tcp, udp);
	assert_true(tcp > 0.93 && tcp < 1.07); /* Poisson */
	assert_true(udp > 1.35 && udp < 1.65); /* CAIDA: 1.3 to 1.9 */
	free(flows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flow_lengths_follow_the_published_mixtures),
		cmocka_unit_test(the_largest_flows_carry_the_bytes),
		cmocka_unit_test(flows_arrive_as_measured),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
