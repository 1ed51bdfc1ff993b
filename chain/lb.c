/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Load balancer: the first packet of a connection chooses a backend, and every packet of its
 * original direction gets that backend's address as destination. A tuple that is used again is a
 * new connection and a new choice.
 *
 * Choice: chain/lb_backends.h. By Maglev table (default), the same on every worker and for every
 * order of the backends in the configuration; round robin and least connections count per worker
 * and so differ with their number. All honour weights; weight 0 takes no new connections. A
 * connection whose backend has been removed chooses again, once, and is counted (orphaned).
 *
 * The policies jet and stateless do without a choice for most or all connections: their packets
 * take what the table of their time says. They balance packets without a connection too, and take
 * them for the clients'.
 *
 * IPv4 goes to IPv4 backends and IPv6 to IPv6 backends. Without any backend of its family a
 * connection passes unchanged and is counted; with backends that all have weight 0 its packets are
 * dropped (BASE_DROP_LB_NO_BACKEND).
 *
 * The reply direction passes unchanged (direct server return). ICMP errors that the client's side
 * sends about replies follow the connection: they go to the backend, and the source that they quote
 * becomes the backend's address. SCTP and protocols without ports are balanced by address alike.
 *
 * Passed unchanged and counted: packets without a connection (nothing tells their direction), and
 * inner headers of tunnels.
 *
 * Generated backends: backends_count IPv4 ones from 198.18.0.0/15 (RFC 2544) and as many IPv6 ones
 * from 2001:2::/48 (RFC 5180).
 */
#include "chain/digest.h"
#include "chain/function.h"
#include "chain/lb_backends.h"
#include "chain/maglev.h"
#include "chain/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	PREFETCH_AHEAD = 6,
	COUNTERS_FIXED = 10, /* the rest of CHAIN_COUNTERS_MAX is for backends */
	COUNTER_NAME_SIZE = CHAIN_NAME_SIZE + 16,
};

/* Values of lb_flow.choice; a backend's position follows from FIRST on. HASHED: what the table
 * says, packet by packet. */
enum { CHOICE_NOT_YET, CHOICE_NONE, CHOICE_DRAINED, CHOICE_HASHED, CHOICE_FIRST };

struct lb_flow {
	uint32_t choice;
	uint32_t unused;
};
static_assert(sizeof(struct lb_flow) == 8, "the tracker's block holds several functions");

struct lb {
	const struct chain_function_context *context;
	struct base_hash_config hash;
	char (*counter_names)[COUNTER_NAME_SIZE];
	uint64_t connections, rewritten_packets, sticky_packets, reply_packets, related_packets;
	uint64_t unbalanced_packets, untracked_packets;
	uint64_t kept_connections, orphaned_connections, steered_connections;
	struct lb_backends backends;
};

const char *chain_lb_policy_name(enum chain_lb_policy policy)
{
	static const char *const names[CHAIN_LB_POLICIES_COUNT] = {
		[CHAIN_LB_MAGLEV] = "maglev",
		[CHAIN_LB_ROUND_ROBIN] = "round-robin",
		[CHAIN_LB_LEAST_CONNECTIONS] = "least-connections",
		[CHAIN_LB_JET] = "jet",
		[CHAIN_LB_STATELESS] = "stateless",
	};
	return (unsigned int)policy < CHAIN_LB_POLICIES_COUNT ? names[policy] : "unknown";
}

static void lb_destroy(void *function)
{
	struct lb *lb = function;
	struct base_arena *arena = lb->context->arena;
	base_arena_free(arena, lb->counter_names, lb->backends.count * sizeof(*lb->counter_names));
	lb_backends_release(&lb->backends);
	base_arena_free(arena, lb, sizeof(*lb));
}

static int create_counter_names(struct lb *lb)
{
	lb->counter_names = base_arena_alloc(lb->context->arena,
		lb->backends.count * sizeof(*lb->counter_names), BASE_CACHE_LINE);
	if (lb->counter_names == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < lb->backends.count; i++)
		snprintf(lb->counter_names[i], COUNTER_NAME_SIZE, "connections_%s",
			lb->backends.list[i].name);
	return 0;
}

static int lb_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *function_config, char *message)
{
	const struct chain_lb_config *config = &function_config->lb;
	struct lb *lb = base_arena_alloc(context->arena, sizeof(*lb), BASE_CACHE_LINE);
	if (lb == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "lb: out of memory");
		return -ENOMEM;
	}
	lb->context = context;
	/* Keyed apart from the flow tables and steering, or the flows of one bucket or one worker
	 * would go to a few backends; and by the seed alone, so that every worker agrees. */
	uint64_t state = config->seed;
	lb->hash.kind = BASE_HASH_SIPHASH;
	lb->hash.salt[0] = base_rng_splitmix64(&state);
	lb->hash.salt[1] = base_rng_splitmix64(&state);
	int rc = lb_backends_init(&lb->backends, config, context->arena, message);
	if (rc == 0)
		rc = create_counter_names(lb);
	if (rc == -ENOMEM)
		snprintf(message, CHAIN_MESSAGE_SIZE, "lb: out of memory");
	if (rc != 0) {
		lb_destroy(lb);
		return rc;
	}
	*out = lb;
	return 0;
}

static bool is_ip6(const struct base_packet *packet)
{
	return (packet->flags & BASE_PACKET_IP6) != 0;
}

static uint32_t hash_of(const struct lb *lb, const struct base_packet *packet)
{
	return lb_policy_has_table(lb->backends.policy)
		       ? base_flow_key_hash(&packet->key, &lb->hash)
		       : 0;
}

static uint32_t choice_of(uint32_t index)
{
	return index == LB_NONE      ? CHOICE_NONE
	       : index == LB_DRAINED ? CHOICE_DRAINED
				     : CHOICE_FIRST + index;
}

static uint32_t choose(
	struct lb *lb, const struct lb_epoch *epoch, const struct base_packet *packet)
{
	uint32_t hash = hash_of(lb, packet);
	bool ip6 = is_ip6(packet);
	if (lb->backends.policy == CHAIN_LB_STATELESS ||
		(lb->backends.policy == CHAIN_LB_JET &&
			!lb_backends_must_keep(&lb->backends, epoch, ip6, hash))) {
		lb->connections++;
		return CHOICE_HASHED;
	}
	uint32_t index = lb_backends_choose(&lb->backends, epoch, ip6, hash);
	if (index >= LB_DRAINED)
		return choice_of(index);
	lb->connections++;
	lb->kept_connections++;
	lb->backends.targets[index].connections++;
	lb->backends.targets[index].live++;
	return CHOICE_FIRST + index;
}

/* The connection's choice for a packet at this time. */
static uint32_t settle(struct lb *lb, struct lb_flow *flow, const struct lb_epoch *epoch,
	const struct base_packet *packet)
{
	bool error = (packet->flags & BASE_PACKET_ICMP_ERROR) != 0;
	if (flow->choice == CHOICE_NOT_YET && !error)
		flow->choice = choose(lb, epoch, packet);
	if (flow->choice >= CHOICE_FIRST &&
		epoch->status[flow->choice - CHOICE_FIRST] == LB_ABSENT) {
		lb->backends.targets[flow->choice - CHOICE_FIRST].live--;
		lb->orphaned_connections++;
		flow->choice = choose(lb, epoch, packet);
	}
	return flow->choice;
}

/* The backend of a packet that has no choice to follow. */
static uint32_t hashed(
	const struct lb *lb, const struct lb_epoch *epoch, const struct base_packet *packet)
{
	return choice_of(
		lb_backends_look_up(&lb->backends, epoch, is_ip6(packet), hash_of(lb, packet)));
}

static bool is_hashing(const struct lb *lb)
{
	return lb->backends.policy == CHAIN_LB_JET || lb->backends.policy == CHAIN_LB_STATELESS;
}

/* The whole decision for one packet, nothing assumed. */
static void process_packet(struct lb *lb, struct base_burst *burst, unsigned int index)
{
	struct base_packet *packet = burst->packets[index];
	bool tracked = packet->conn != BASE_CONN_NONE;
	if (!tracked && (!is_hashing(lb) || (packet->flags & BASE_PACKET_FLOW) == 0)) {
		lb->untracked_packets++;
		return;
	}
	if (packet->flags & BASE_PACKET_TUNNEL) {
		lb->unbalanced_packets++;
		return;
	}
	const struct lb_epoch *epoch = lb_backends_epoch(&lb->backends, packet->time_ns);
	bool error = (packet->flags & BASE_PACKET_ICMP_ERROR) != 0;
	uint32_t choice = CHOICE_HASHED;
	bool sticky = false;
	if (tracked) {
		struct lb_flow *flow = chain_function_user(lb->context, packet->conn);
		sticky = flow->choice != CHOICE_NOT_YET;
		choice = settle(lb, flow, epoch, packet);
	}
	if (tracked && (packet->conn_flags & BASE_CONN_REPLY) != 0) {
		lb->reply_packets++;
		return;
	}
	if (choice == CHOICE_HASHED)
		choice = hashed(lb, epoch, packet);
	if (choice == CHOICE_DRAINED) {
		base_burst_drop(burst, index, BASE_DROP_LB_NO_BACKEND);
		return;
	}
	if (choice < CHOICE_FIRST) {
		lb->unbalanced_packets++;
		return;
	}
	const struct chain_rewrite to = {
		.address = lb->backends.list[choice - CHOICE_FIRST].address
	};
	if (error)
		chain_rewrite_quote(packet, CHAIN_SIDE_SOURCE, &to);
	chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &to);
	lb->rewritten_packets++;
	lb->related_packets += error;
	lb->sticky_packets += sticky;
}

static void lb_process_scalar(void *function, struct base_burst *burst, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++)
		process_packet(function, burst, i);
}

/* Whether the backend of a kept choice may be gone at this time. */
static bool may_be_gone(struct lb *lb, uint64_t time_ns, uint32_t choice)
{
	const struct lb_epoch *epoch = lb_backends_epoch(&lb->backends, time_ns);
	return epoch->any_absent && epoch->status[choice - CHOICE_FIRST] == LB_ABSENT;
}

/* What the packet before was given, for the next one of its flow. */
struct memory {
	const struct base_packet *packet; /* NULL: none */
	const struct lb_epoch *epoch;
	uint32_t choice;
};

static bool remembers(const struct lb *lb, const struct memory *memory,
	const struct lb_epoch *epoch, const struct base_packet *packet)
{
	return memory->packet != NULL && !lb->context->no_runs && memory->epoch == epoch &&
	       memory->packet->hash == packet->hash &&
	       base_flow_key_equal(&memory->packet->key, &packet->key);
}

/* The same for jet and stateless: one look at the table per flow run, for most packets. */
static void process_hashed(struct lb *lb, struct base_burst *burst)
{
	const unsigned int special = BASE_CONN_REPLY | BASE_CONN_NEW;
	struct memory memory = { 0 };
	for (unsigned int i = 0; i < burst->count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (!lb->context->no_prefetch && i + PREFETCH_AHEAD < burst->count) {
			const struct base_packet *ahead = burst->packets[i + PREFETCH_AHEAD];
			BASE_PREFETCH_W(ahead->data + ahead->l3_offset);
		}
		bool tracked = packet->conn != BASE_CONN_NONE;
		if (!chain_rewrite_is_plain(packet) || (packet->flags & BASE_PACKET_FLOW) == 0 ||
			(tracked && (packet->conn_flags & special) != 0)) {
			process_packet(lb, burst, i);
			continue;
		}
		if (tracked) {
			const struct lb_flow *flow = chain_function_user(lb->context, packet->conn);
			if (flow->choice != CHOICE_HASHED) {
				process_packet(lb, burst, i);
				continue;
			}
		}
		const struct lb_epoch *epoch = lb_backends_epoch(&lb->backends, packet->time_ns);
		if (!remembers(lb, &memory, epoch, packet))
			memory = (struct memory){ packet, epoch, hashed(lb, epoch, packet) };
		if (BASE_UNLIKELY(memory.choice < CHOICE_FIRST)) {
			process_packet(lb, burst, i);
			continue;
		}
		const struct lb_target *target =
			&lb->backends.targets[memory.choice - CHOICE_FIRST];
		chain_rewrite_plain_destination(packet, target->word, target->sum);
		lb->rewritten_packets++;
		lb->sticky_packets += tracked;
	}
}

/* Plain TCP and UDP of connections that have a backend, one look at the connection per run; all
 * else takes the long way. */
static void lb_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct lb *lb = function;
	const struct chain_function_context *context = lb->context;
	uint32_t conn = BASE_CONN_NONE;
	const struct lb_flow *flow = NULL;
	bool timed = lb->backends.epochs_count > 1;
	uint64_t reply_packets = 0, rewritten_packets = 0;
	(void)now_ns;
	if (is_hashing(lb)) {
		process_hashed(lb, burst);
		return;
	}
	for (unsigned int i = 0; i < burst->count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (!context->no_prefetch && i + PREFETCH_AHEAD < burst->count) {
			const struct base_packet *ahead = burst->packets[i + PREFETCH_AHEAD];
			BASE_PREFETCH_W(ahead->data + ahead->l3_offset);
		}
		if (packet->conn == BASE_CONN_NONE || !chain_rewrite_is_plain(packet)) {
			process_packet(lb, burst, i);
			continue;
		}
		if (packet->conn != conn || context->no_runs) {
			conn = packet->conn;
			flow = chain_function_user(context, conn);
			chain_function_prefetch(context, sizeof(*flow), burst, i);
		}
		if (BASE_UNLIKELY(flow->choice < CHOICE_FIRST) ||
			(timed && may_be_gone(lb, packet->time_ns, flow->choice))) {
			process_packet(lb, burst, i);
			continue;
		}
		if (packet->conn_flags & BASE_CONN_REPLY) {
			reply_packets++;
			continue;
		}
		const struct lb_target *target = &lb->backends.targets[flow->choice - CHOICE_FIRST];
		chain_rewrite_plain_destination(packet, target->word, target->sum);
		rewritten_packets++;
	}
	lb->reply_packets += reply_packets;
	lb->rewritten_packets += rewritten_packets;
	lb->sticky_packets += rewritten_packets;
}

/* Backends one by one when all of them find room, none otherwise. */
static void lb_counters(const void *function, struct chain_function_stats *out)
{
	const struct lb *lb = function;
	const struct chain_counter counters[] = {
		{ "connections", lb->connections },
		{ "rewritten_packets", lb->rewritten_packets },
		{ "sticky_packets", lb->sticky_packets },
		{ "reply_packets", lb->reply_packets },
		{ "related_packets", lb->related_packets },
		{ "unbalanced_packets", lb->unbalanced_packets },
		{ "untracked_packets", lb->untracked_packets },
		{ "kept_connections", lb->kept_connections },
		{ "orphaned_connections", lb->orphaned_connections },
		{ "steered_connections", lb->steered_connections },
	};
	static_assert(BASE_ARRAY_COUNT(counters) <= COUNTERS_FIXED, "the rest is for backends");
	chain_function_counters_add(out, counters, BASE_ARRAY_COUNT(counters));
	if (lb->backends.count > CHAIN_COUNTERS_MAX - COUNTERS_FIXED)
		return;
	for (uint32_t i = 0; i < lb->backends.count; i++) {
		const struct chain_counter counter = { lb->counter_names[i],
			lb->backends.targets[i].connections };
		chain_function_counters_add(out, &counter, 1);
	}
}

static int lb_target(const void *function, const char *name, struct chain_target *target)
{
	const struct lb *lb = function;
	int error = -ENOENT;
	target->position[0] = target->position[1] = LB_NONE;
	for (uint32_t i = 0; i < lb->backends.count; i++) {
		if (strcmp(lb->backends.list[i].name, name) != 0)
			continue;
		target->position[lb->backends.list[i].family == 6] = i;
		error = 0;
	}
	return error;
}

static bool lb_steer(void *function, uint32_t conn, const struct chain_target *target)
{
	struct lb *lb = function;
	struct conntrack_conn view;
	if (conntrack_conn_get(lb->context->tracker, conn, &view) != 0)
		return false;
	uint32_t position = target->position[view.key.family == 6];
	if (position >= lb->backends.count)
		return false;
	struct lb_flow *flow = chain_function_user(lb->context, conn);
	if (flow->choice == CHOICE_FIRST + position)
		return true;
	if (flow->choice >= CHOICE_FIRST)
		lb->backends.targets[flow->choice - CHOICE_FIRST].live--;
	lb->connections += flow->choice == CHOICE_NOT_YET;
	flow->choice = CHOICE_FIRST + position;
	lb->backends.targets[position].connections++;
	lb->backends.targets[position].live++;
	lb->steered_connections++;
	return true;
}

static uint64_t lb_digest(const void *function, const struct conntrack_conn *conn, const void *user)
{
	const struct lb *lb = function;
	const struct lb_flow *flow = chain_function_part_const(lb->context, user);
	if (flow->choice < CHOICE_FIRST)
		return 0;
	return chain_digest_conn(conn) +
	       chain_digest_pair(CHAIN_DIGEST_FIRST,
		       lb->backends.targets[flow->choice - CHOICE_FIRST].identity, 0);
}

/* What the table says of a packet without a connection suffices, unless a backend to come would
 * take it. */
static bool lb_admit(void *function, const struct base_packet *packet)
{
	struct lb *lb = function;
	if (!is_hashing(lb))
		return true;
	return lb->backends.policy == CHAIN_LB_JET &&
	       lb_backends_must_keep(&lb->backends,
		       lb_backends_epoch(&lb->backends, packet->time_ns), is_ip6(packet),
		       hash_of(lb, packet));
}

static void lb_on_remove(void *function, uint32_t conn, void *user)
{
	struct lb *lb = function;
	const struct lb_flow *flow = chain_function_part(lb->context, user);
	(void)conn;
	if (flow->choice >= CHOICE_FIRST)
		lb->backends.targets[flow->choice - CHOICE_FIRST].live--;
}

const struct chain_function_ops chain_lb_ops = {
	.name = "lb",
	.user_bytes = sizeof(struct lb_flow),
	.create = lb_create,
	.destroy = lb_destroy,
	.process = lb_process,
	.process_scalar = lb_process_scalar,
	.on_remove = lb_on_remove,
	.target = lb_target,
	.steer = lb_steer,
	.admit = lb_admit,
	.counters = lb_counters,
	.digest = lb_digest,
};
