/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ordered 5-tuple rules, the first match decides. A connection is judged once, by the tuple of the
 * packet that opened it, and both directions and ICMP errors about it share the verdict, which lies
 * in the tracker's entry memory. Untracked packets, and all packets in per_packet mode, are judged
 * by their own tuple; an ICMP error then by the tuple of the packet that it quotes. Packets that
 * are not IP pass.
 *
 * Tuples come from the flow key, so that an address translation before the firewall does not
 * change what the rules mean.
 *
 * The burst implementation gathers the tuples that no verdict is known for and classifies them
 * together: one for a segment, or one for each direction of it.
 */
#include "chain/acl.h"
#include "chain/digest.h"
#include "chain/function.h"
#include "chain/rules.h"
#include "chain/segment.h"

#include <errno.h>
#include <string.h>

enum firewall_verdict { VERDICT_UNKNOWN, VERDICT_ALLOW, VERDICT_DENY };

enum { NO_LOOKUP = UINT16_MAX };

/* Per connection. */
struct firewall_flow {
	uint8_t verdict; /* enum firewall_verdict */
	uint8_t unused[7];
};
static_assert(sizeof(struct firewall_flow) == 8, "per-connection memory comes in 8 bytes");

struct firewall {
	const struct chain_function_context *context;
	struct chain_acl *acl;
	uint8_t *verdicts; /* by classifier result: [0] no rule matched, [i + 1] rule i */
	uint32_t verdicts_count;
	bool borrowed; /* rules and verdicts are another chain's */
	bool per_packet;
	uint64_t allowed_packets, denied_packets, bridged_packets;
	uint64_t allowed_connections, denied_connections;
};

struct firewall_key {
	union {
		struct chain_acl_key4 key4;
		struct chain_acl_key6 key6;
	};
};

/* Packets that wait for a lookup. */
struct firewall_waiting {
	uint16_t first, count;
	uint16_t lookup;
};

/* What a burst has to classify: keys by family, and where lookup i of the burst went. */
struct firewall_lookups {
	unsigned int count, count4, count6, waiting_count;
	const uint8_t *keys4[BASE_BURST_MAX], *keys6[BASE_BURST_MAX];
	struct firewall_flow *flows[BASE_BURST_MAX]; /* NULL: nowhere to keep the verdict */
	uint16_t position[BASE_BURST_MAX];           /* in its family's arrays */
	bool is6[BASE_BURST_MAX];
	uint8_t verdict[BASE_BURST_MAX];
	struct firewall_waiting waiting[BASE_BURST_MAX];
	struct firewall_key keys[BASE_BURST_MAX];
};

static void firewall_destroy(void *function)
{
	struct firewall *firewall = function;
	struct base_arena *arena = firewall->context->arena;
	if (!firewall->borrowed) {
		chain_acl_destroy(firewall->acl);
		base_arena_free(arena, firewall->verdicts, firewall->verdicts_count);
	}
	base_arena_free(arena, firewall, sizeof(*firewall));
}

static int get_rules(
	struct chain_rules *rules, const struct chain_firewall_config *config, char *message)
{
	if (config->rules_file != NULL)
		return chain_rules_load(rules, config->rules_file, message);
	int rc = chain_rules_generate(
		rules, config->rules_count, config->seed, !config->default_deny);
	if (rc != 0)
		snprintf(message, CHAIN_MESSAGE_SIZE,
			"firewall: cannot generate %u rules, expected at most %d",
			config->rules_count, CHAIN_RULES_MAX);
	return rc;
}

static int fill(struct firewall *firewall, const struct chain_rules *rules,
	const struct chain_firewall_config *config, char *message)
{
	char name[32];
	firewall->verdicts = base_arena_alloc(firewall->context->arena, rules->count + 1, 64);
	if (firewall->verdicts == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "firewall: out of memory");
		return -ENOMEM;
	}
	firewall->verdicts_count = rules->count + 1;
	firewall->verdicts[0] = config->default_deny ? VERDICT_DENY : VERDICT_ALLOW;
	for (uint32_t i = 0; i < rules->count; i++)
		firewall->verdicts[i + 1] = rules->list[i].allow ? VERDICT_ALLOW : VERDICT_DENY;
	snprintf(name, sizeof(name), "chain_acl_%u_%u", firewall->context->instance,
		firewall->context->index);
	return chain_acl_create(&firewall->acl, rules, name, message);
}

static int create_borrowed(void **out, const struct chain_function_context *context, char *message)
{
	const struct firewall *lender = context->lender;
	struct firewall *firewall =
		base_arena_alloc(context->arena, sizeof(*firewall), BASE_CACHE_LINE);
	if (firewall == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "firewall: out of memory");
		return -ENOMEM;
	}
	firewall->context = context;
	firewall->borrowed = true;
	firewall->acl = lender->acl;
	firewall->verdicts = lender->verdicts;
	firewall->verdicts_count = lender->verdicts_count;
	firewall->per_packet = lender->per_packet;
	*out = firewall;
	return 0;
}

static int firewall_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *config, char *message)
{
	struct chain_rules rules;
	if (context->lender != NULL)
		return create_borrowed(out, context, message);
	int rc = get_rules(&rules, &config->firewall, message);
	if (rc != 0)
		return rc;
	struct firewall *firewall =
		base_arena_alloc(context->arena, sizeof(*firewall), BASE_CACHE_LINE);
	if (firewall == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "firewall: out of memory");
		chain_rules_free(&rules);
		return -ENOMEM;
	}
	firewall->context = context;
	firewall->per_packet = config->firewall.per_packet;
	rc = fill(firewall, &rules, &config->firewall, message);
	chain_rules_free(&rules);
	if (rc != 0) {
		firewall_destroy(firewall);
		return rc;
	}
	*out = firewall;
	return 0;
}

/* Endpoint of the key that sent the connection's first packet. */
static inline unsigned int opener_side(const struct base_packet *packet)
{
	bool reversed = packet->flags & BASE_PACKET_REVERSED;
	bool reply = packet->conn_flags & BASE_CONN_REPLY;
	return reversed != reply;
}

/* Endpoint that sent this packet, or the packet that this ICMP error quotes. */
static inline unsigned int sender_side(const struct base_packet *packet)
{
	bool reversed = packet->flags & BASE_PACKET_REVERSED;
	bool error = packet->flags & BASE_PACKET_ICMP_ERROR;
	return reversed != error;
}

static inline bool has_ports(uint8_t protocol)
{
	return protocol == BASE_PROTOCOL_TCP || protocol == BASE_PROTOCOL_UDP ||
	       protocol == BASE_PROTOCOL_SCTP;
}

/* The classifier's view of a flow key as seen from endpoint `side`. */
static inline void make_key(
	struct firewall_key *out, const struct base_flow_key *key, unsigned int side)
{
	bool ports = has_ports(key->protocol);
	uint16_t source_port = ports ? __builtin_bswap16(key->port[side]) : 0;
	uint16_t destination_port = ports ? __builtin_bswap16(key->port[!side]) : 0;
	if (key->family == 4) {
		out->key4 = (struct chain_acl_key4){
			.protocol = key->protocol,
			.source_port = source_port,
			.destination_port = destination_port,
		};
		memcpy(out->key4.source, key->address[side], 4);
		memcpy(out->key4.destination, key->address[!side], 4);
	} else {
		out->key6 = (struct chain_acl_key6){
			.protocol = key->protocol,
			.source_port = source_port,
			.destination_port = destination_port,
		};
		memcpy(out->key6.source, key->address[side], 16);
		memcpy(out->key6.destination, key->address[!side], 16);
	}
}

static inline void keep_verdict(
	struct firewall *firewall, struct firewall_flow *flow, uint8_t verdict)
{
	/* Two segments of a burst may have asked for the same connection. */
	if (flow->verdict != VERDICT_UNKNOWN)
		return;
	flow->verdict = verdict;
	if (verdict == VERDICT_ALLOW)
		firewall->allowed_connections++;
	else
		firewall->denied_connections++;
}

static inline void apply(struct firewall *firewall, struct base_burst *burst, unsigned int first,
	unsigned int count, uint8_t verdict)
{
	if (BASE_LIKELY(verdict == VERDICT_ALLOW)) {
		firewall->allowed_packets += count;
		return;
	}
	firewall->denied_packets += count;
	for (unsigned int i = first; i < first + count; i++)
		base_burst_drop(burst, i, BASE_DROP_FIREWALL_DENY);
}

static uint8_t classify_one(
	const struct firewall *firewall, const struct base_flow_key *flow_key, unsigned int side)
{
	struct firewall_key key;
	const uint8_t *keys[1] = { (const uint8_t *)&key };
	uint32_t result;
	make_key(&key, flow_key, side);
	chain_acl_classify(firewall->acl, flow_key->family, keys, &result, 1, true);
	return firewall->verdicts[result];
}

static void firewall_process_scalar(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct firewall *firewall = function;
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		if (!(packet->flags & BASE_PACKET_FLOW)) {
			firewall->bridged_packets++;
			continue;
		}
		uint8_t verdict;
		if (packet->conn == BASE_CONN_NONE || firewall->per_packet) {
			verdict = classify_one(firewall, &packet->key, sender_side(packet));
		} else {
			struct firewall_flow *flow =
				chain_function_user(firewall->context, packet->conn);
			if (flow->verdict == VERDICT_UNKNOWN)
				keep_verdict(firewall, flow,
					classify_one(firewall, &packet->key, opener_side(packet)));
			verdict = flow->verdict;
		}
		apply(firewall, burst, i, 1, verdict);
	}
}

static uint16_t gather(struct firewall_lookups *lookups, const struct base_flow_key *flow_key,
	unsigned int side, struct firewall_flow *flow)
{
	unsigned int index = lookups->count++;
	struct firewall_key *key = &lookups->keys[index];
	make_key(key, flow_key, side);
	lookups->flows[index] = flow;
	lookups->is6[index] = flow_key->family == 6;
	if (lookups->is6[index]) {
		lookups->keys6[lookups->count6] = (const uint8_t *)key;
		lookups->position[index] = (uint16_t)lookups->count6++;
	} else {
		lookups->keys4[lookups->count4] = (const uint8_t *)key;
		lookups->position[index] = (uint16_t)lookups->count4++;
	}
	return (uint16_t)index;
}

static inline void wait_for(
	struct firewall_lookups *lookups, unsigned int first, unsigned int count, uint16_t lookup)
{
	lookups->waiting[lookups->waiting_count++] = (struct firewall_waiting){
		.first = (uint16_t)first,
		.count = (uint16_t)count,
		.lookup = lookup,
	};
}

/* A segment whose packets are judged one by one: one lookup for each side. */
static void gather_packets(struct firewall *firewall, const struct base_burst *burst,
	unsigned int first, unsigned int next, struct firewall_lookups *lookups)
{
	uint16_t known[2] = { NO_LOOKUP, NO_LOOKUP };
	for (unsigned int i = first; i < next; i++) {
		const struct base_packet *packet = burst->packets[i];
		if (!(packet->flags & BASE_PACKET_FLOW)) {
			firewall->bridged_packets++;
			continue;
		}
		unsigned int side = sender_side(packet);
		if (known[side] == NO_LOOKUP)
			known[side] = gather(lookups, &packet->key, side, NULL);
		wait_for(lookups, i, 1, known[side]);
	}
}

static void classify(struct firewall *firewall, struct firewall_lookups *lookups)
{
	uint32_t results4[BASE_BURST_MAX], results6[BASE_BURST_MAX];
	if (lookups->count4 > 0)
		chain_acl_classify(
			firewall->acl, 4, lookups->keys4, results4, lookups->count4, false);
	if (lookups->count6 > 0)
		chain_acl_classify(
			firewall->acl, 6, lookups->keys6, results6, lookups->count6, false);
	for (unsigned int i = 0; i < lookups->count; i++) {
		unsigned int position = lookups->position[i];
		uint32_t result = lookups->is6[i] ? results6[position] : results4[position];
		lookups->verdict[i] = firewall->verdicts[result];
		if (lookups->flows[i] != NULL)
			keep_verdict(firewall, lookups->flows[i], lookups->verdict[i]);
	}
}

/* Packets first to next - 1, one segment: judged now where the verdict is known. */
static inline void process_segment(struct firewall *firewall, struct base_burst *burst,
	unsigned int first, unsigned int next, struct firewall_lookups *lookups)
{
	const struct chain_function_context *context = firewall->context;
	const struct base_packet *packet = burst->packets[first];
	if (BASE_UNLIKELY(firewall->per_packet || packet->conn == BASE_CONN_NONE)) {
		gather_packets(firewall, burst, first, next, lookups);
		return;
	}
	chain_function_prefetch(context, sizeof(struct firewall_flow), burst, first);
	struct firewall_flow *flow = chain_function_user(context, packet->conn);
	if (BASE_LIKELY(flow->verdict != VERDICT_UNKNOWN)) {
		apply(firewall, burst, first, next - first, flow->verdict);
		return;
	}
	uint16_t lookup = gather(lookups, &packet->key, opener_side(packet), flow);
	wait_for(lookups, first, next - first, lookup);
}

static void firewall_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct firewall *firewall = function;
	struct firewall_lookups lookups;
	bool no_runs = firewall->context->no_runs;
	(void)now_ns;
	lookups.count = 0;
	lookups.count4 = 0;
	lookups.count6 = 0;
	lookups.waiting_count = 0;
	for (unsigned int r = 0; r < burst->run_count; r++) {
		unsigned int end = (unsigned int)burst->runs[r].first + burst->runs[r].count;
		for (unsigned int i = burst->runs[r].first, next; i < end; i = next) {
			next = chain_segment_end(burst, i, end, no_runs);
			process_segment(firewall, burst, i, next, &lookups);
		}
	}
	if (lookups.count == 0)
		return;
	classify(firewall, &lookups);
	for (unsigned int i = 0; i < lookups.waiting_count; i++) {
		const struct firewall_waiting *waiting = &lookups.waiting[i];
		apply(firewall, burst, waiting->first, waiting->count,
			lookups.verdict[waiting->lookup]);
	}
}

static void firewall_counters(const void *function, struct chain_function_stats *out)
{
	const struct firewall *firewall = function;
	const struct chain_counter counters[] = {
		{ "allowed_packets", firewall->allowed_packets },
		{ "denied_packets", firewall->denied_packets },
		{ "bridged_packets", firewall->bridged_packets },
		{ "allowed_connections", firewall->allowed_connections },
		{ "denied_connections", firewall->denied_connections },
	};
	chain_function_counters_add(out, counters, BASE_ARRAY_COUNT(counters));
}

static uint64_t firewall_digest(
	const void *function, const struct conntrack_conn *conn, const void *user)
{
	const struct firewall *firewall = function;
	const struct firewall_flow *flow = chain_function_part_const(firewall->context, user);
	if (flow->verdict == VERDICT_UNKNOWN)
		return 0;
	return chain_digest_conn(conn) + chain_digest_pair(CHAIN_DIGEST_FIRST, flow->verdict, 0);
}

const struct chain_function_ops chain_firewall_ops = {
	.name = "firewall",
	.user_bytes = sizeof(struct firewall_flow),
	.create = firewall_create,
	.destroy = firewall_destroy,
	.process = firewall_process,
	.process_scalar = firewall_process_scalar,
	.counters = firewall_counters,
	.digest = firewall_digest,
};
