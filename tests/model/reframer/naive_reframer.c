/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/model/reframer/naive_reframer.h"

#include "base/rng.h"

#include <string.h>

void naive_reframer_init(struct naive_reframer *naive, const struct reframer_config *config,
	struct seen_filter *seen, unsigned int released_max)
{
	uint64_t salt = config->salt;
	*naive = (struct naive_reframer){
		.config = *config,
		.seen = seen,
		.multiplier = base_rng_splitmix64(&salt) | 1,
	};
	naive->held = calloc(config->held_packets_max + 1, sizeof(*naive->held));
	naive->flows = calloc(config->held_flows_max + 1, sizeof(*naive->flows));
	naive->released = calloc(released_max, sizeof(*naive->released));
	BASE_ASSERT(naive->held != NULL && naive->flows != NULL && naive->released != NULL);
}

void naive_reframer_release(struct naive_reframer *naive)
{
	free(naive->held);
	free(naive->flows);
	free(naive->released);
}

static struct naive_flow *find_flow(struct naive_reframer *naive, const struct base_flow_key *key)
{
	for (unsigned int i = 0; i < naive->flows_count; i++) {
		if (memcmp(&naive->flows[i].key, key, sizeof(*key)) == 0)
			return &naive->flows[i];
	}
	return NULL;
}

static unsigned int count_packets(const struct naive_reframer *naive, const struct naive_flow *flow)
{
	unsigned int count = 0;
	for (unsigned int i = 0; i < naive->held_count; i++)
		count += naive->held[i].flow_number == flow->number;
	return count;
}

static void leave(struct naive_reframer *naive, struct base_packet *packet, uint64_t arrival_ns,
	uint64_t release_ns)
{
	naive->released[naive->released_count++] = (struct naive_released){
		.packet = packet, .arrival_ns = arrival_ns, .release_ns = release_ns
	};
}

/* All packets of a flow leave; returns how many. The flow is gone. */
static unsigned int flow_leaves(
	struct naive_reframer *naive, struct naive_flow *flow, uint64_t release_ns)
{
	unsigned int left = 0, kept = 0;
	for (unsigned int i = 0; i < naive->held_count; i++) {
		struct naive_held held = naive->held[i];
		if (held.flow_number == flow->number) {
			leave(naive, held.packet, held.arrival_ns, release_ns);
			left++;
		} else {
			naive->held[kept++] = held;
		}
	}
	naive->held_count = kept;
	unsigned int index = (unsigned int)(flow - naive->flows);
	naive->flows_count--;
	memmove(flow, flow + 1, (naive->flows_count - index) * sizeof(*flow));
	return left;
}

static void count(struct naive_reframer *naive, enum reframer_release release, unsigned int packets)
{
	naive->stats.releases[release]++;
	naive->stats.release_packets[release] += packets;
}

static bool leaves_before(const struct naive_flow *a, const struct naive_flow *b)
{
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns;
	if (a->class != b->class)
		return a->class < b->class;
	return a->listed < b->listed;
}

static struct naive_flow *soonest(struct naive_reframer *naive)
{
	struct naive_flow *found = NULL;
	for (unsigned int i = 0; i < naive->flows_count; i++) {
		if (found == NULL || leaves_before(&naive->flows[i], found))
			found = &naive->flows[i];
	}
	return found;
}

static struct naive_flow *oldest(struct naive_reframer *naive)
{
	struct naive_flow *found = NULL;
	for (unsigned int i = 0; i < naive->flows_count; i++) {
		if (found == NULL || naive->flows[i].number < found->number)
			found = &naive->flows[i];
	}
	return found;
}

static void due_leave(struct naive_reframer *naive)
{
	for (;;) {
		struct naive_flow *flow = soonest(naive);
		if (flow == NULL || flow->deadline_ns > naive->now_ns)
			return;
		unsigned int left = flow_leaves(naive, flow, flow->deadline_ns);
		count(naive, REFRAMER_RELEASE_DELAY, left);
	}
}

static void oldest_leaves(struct naive_reframer *naive, enum reframer_release release)
{
	count(naive, release, flow_leaves(naive, oldest(naive), naive->now_ns));
}

static enum reframer_class class_of(
	const struct naive_reframer *naive, const struct base_packet *packet)
{
	const struct reframer_config *config = &naive->config;
	if (config->classify != NULL)
		return config->classify(packet, config->classify_arg);
	if (config->operator_bulk && (packet->flags & BASE_PACKET_OPERATOR_BULK))
		return REFRAMER_CLASS_BULK;
	bool tcp = packet->protocol == BASE_PROTOCOL_TCP;
	bool opens = packet->tcp_flags & BASE_TCP_SYN, resets = packet->tcp_flags & BASE_TCP_RST;
	bool fin = packet->tcp_flags & BASE_TCP_FIN, ack = packet->tcp_flags & BASE_TCP_ACK;
	bool is_short = tcp && !opens && !resets && (fin || (ack && packet->payload_len == 0));
	return config->short_acks && is_short ? REFRAMER_CLASS_SHORT : REFRAMER_CLASS_NORMAL;
}

/* REFRAMER_RELEASES_COUNT: none. */
static enum reframer_release bypass_of(
	const struct naive_reframer *naive, const struct base_packet *packet, bool first)
{
	const struct reframer_config *config = &naive->config;
	bool tcp = packet->protocol == BASE_PROTOCOL_TCP;
	if (packet->flags & BASE_PACKET_OPERATOR_BYPASS)
		return REFRAMER_RELEASE_BYPASS_OPERATOR;
	if (config->bypass_syn && tcp && (packet->tcp_flags & BASE_TCP_SYN))
		return REFRAMER_RELEASE_BYPASS_SYN;
	if (config->bypass_rst && tcp && (packet->tcp_flags & BASE_TCP_RST))
		return REFRAMER_RELEASE_BYPASS_RST;
	if (config->bypass_first && first)
		return REFRAMER_RELEASE_BYPASS_FIRST;
	if (config->delay_ns[class_of(naive, packet)] == 0)
		return REFRAMER_RELEASE_BYPASS_OPTION;
	return REFRAMER_RELEASES_COUNT;
}

static void hold(struct naive_reframer *naive, struct base_packet *packet)
{
	if (naive->held_count == naive->config.held_packets_max)
		oldest_leaves(naive, REFRAMER_RELEASE_PRESSURE_PACKETS);
	struct naive_flow *flow = find_flow(naive, &packet->key);
	enum reframer_class class = class_of(naive, packet);
	uint64_t deadline_ns = naive->now_ns + naive->config.delay_ns[class];
	if (deadline_ns < naive->now_ns)
		deadline_ns = UINT64_MAX;
	if (flow == NULL) {
		if (naive->flows_count == naive->config.held_flows_max)
			oldest_leaves(naive, REFRAMER_RELEASE_PRESSURE_FLOWS);
		flow = &naive->flows[naive->flows_count++];
		*flow = (struct naive_flow){ .key = packet->key,
			.number = naive->counter++,
			.listed = naive->counter++,
			.deadline_ns = deadline_ns,
			.class = class };
	} else if (deadline_ns < flow->deadline_ns) {
		flow->deadline_ns = deadline_ns;
		flow->class = class;
		flow->listed = naive->counter++;
	}
	naive->held[naive->held_count++] = (struct naive_held){
		.packet = packet, .arrival_ns = naive->now_ns, .flow_number = flow->number
	};
	if (naive->held_count > naive->stats.peak_held_packets)
		naive->stats.peak_held_packets = naive->held_count;
	if (naive->flows_count > naive->stats.peak_held_flows)
		naive->stats.peak_held_flows = naive->flows_count;
}

static void count_clock(struct naive_reframer *naive, uint64_t time_ns)
{
	if (time_ns < naive->now_ns)
		naive->stats.time_backwards++;
	else
		naive->now_ns = time_ns;
}

void naive_reframer_push(struct naive_reframer *naive, struct base_packet *packet)
{
	count_clock(naive, packet->time_ns);
	due_leave(naive);
	if (!(packet->flags & BASE_PACKET_FLOW)) {
		leave(naive, packet, naive->now_ns, naive->now_ns);
		count(naive, REFRAMER_RELEASE_BYPASS_NO_FLOW, 1);
		return;
	}
	uint64_t mixed = packet->hash * naive->multiplier;
	bool seen = naive->config.bypass_first &&
		    seen_filter_touch(seen_filter_set(naive->seen, mixed), mixed);
	struct naive_flow *flow = find_flow(naive, &packet->key);
	enum reframer_release release = bypass_of(naive, packet, !seen && flow == NULL);
	unsigned int before = flow != NULL ? count_packets(naive, flow) : 0;
	if (release == REFRAMER_RELEASES_COUNT && before + 1 >= naive->config.run_packets_max)
		release = REFRAMER_RELEASE_RUN_FULL;
	if (release == REFRAMER_RELEASES_COUNT) {
		hold(naive, packet);
		return;
	}
	if (flow != NULL)
		flow_leaves(naive, flow, naive->now_ns);
	leave(naive, packet, naive->now_ns, naive->now_ns);
	count(naive, release, before + 1);
}

void naive_reframer_advance(struct naive_reframer *naive, uint64_t now_ns)
{
	if (now_ns > naive->now_ns)
		naive->now_ns = now_ns;
	due_leave(naive);
}

void naive_reframer_flush(struct naive_reframer *naive)
{
	while (naive->flows_count != 0) {
		struct naive_flow *flow = soonest(naive);
		count(naive, REFRAMER_RELEASE_FLUSH, flow_leaves(naive, flow, naive->now_ns));
	}
}

uint64_t naive_reframer_horizon_ns(const struct naive_reframer *naive)
{
	uint64_t horizon_ns = naive->now_ns;
	for (unsigned int i = 0; i < naive->held_count; i++) {
		if (naive->held[i].arrival_ns < horizon_ns)
			horizon_ns = naive->held[i].arrival_ns;
	}
	return horizon_ns;
}

void naive_reframer_take(struct naive_reframer *naive, unsigned int count)
{
	naive->released_count -= count;
	memmove(naive->released, naive->released + count,
		naive->released_count * sizeof(*naive->released));
}
