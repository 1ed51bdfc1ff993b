/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stateful load balancer: the first packet of a connection chooses a backend, and every packet of
 * its original direction gets that backend's address as destination. A tuple that is used again is
 * a new connection and a new choice.
 *
 * Choice: by Maglev table (default), the same on every worker and for every order of the backends
 * in the configuration; or round robin, which counts per worker and so differs with their number.
 * Either one honours weights; weight 0 takes no new connections.
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
#include "chain/maglev.h"
#include "chain/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	PREFETCH_AHEAD = 6,
	COUNTERS_FIXED = 8, /* the rest of CHAIN_COUNTERS_MAX is for backends */
	COUNTER_NAME_SIZE = CHAIN_NAME_SIZE + 16,
};

/* Values of lb_flow.choice; a backend's position follows from FIRST on. */
enum { CHOICE_NOT_YET, CHOICE_NONE, CHOICE_DRAINED, CHOICE_FIRST };

struct lb_flow {
	uint32_t choice;
	uint32_t unused;
};
static_assert(sizeof(struct lb_flow) == 8, "the tracker's block holds several functions");

/* What packets need of a backend. */
struct target {
	uint32_t word; /* IPv4 address as it stands in the packet */
	uint32_t sum;  /* of its two 16-bit words */
	uint64_t connections;
	uint64_t identity; /* for the digest */
};

/* Backends of one family: positions in lb->backends, and where new connections go. */
struct group {
	uint32_t members_count, weighted_count;
	uint16_t members[CHAIN_BACKENDS_MAX];
	uint16_t *table; /* NULL when none has a weight */
	uint32_t turn;   /* round robin: position in members, */
	uint32_t used;   /* and how many turns in a row it has had */
};

struct lb {
	const struct chain_function_context *context;
	enum chain_lb_policy policy;
	uint32_t table_size;
	struct base_hash_config hash;
	uint32_t backends_count;
	struct chain_backend *backends; /* sorted */
	struct target *targets;
	char (*counter_names)[COUNTER_NAME_SIZE];
	uint64_t seed;
	uint64_t connections, rewritten_packets, sticky_packets, reply_packets, related_packets;
	uint64_t unbalanced_packets, untracked_packets;
	struct group groups[2]; /* IPv4, IPv6 */
};

static int compare(const void *a, const void *b)
{
	return chain_maglev_compare(a, b);
}

static void generate(struct chain_backend *backends, uint32_t count)
{
	static const uint8_t ip6_prefix[6] = { 0x20, 0x01, 0x00, 0x02, 0x00, 0x00 };
	for (uint32_t i = 0; i < count; i++) {
		struct chain_backend *ip4 = &backends[2 * i], *ip6 = &backends[2 * i + 1];
		uint32_t word = __builtin_bswap32(0xc6120000 + i + 1);
		ip4->family = 4;
		ip6->family = 6;
		ip4->weight = 1;
		ip6->weight = 1;
		memcpy(ip4->address, &word, 4);
		memcpy(ip6->address, ip6_prefix, sizeof(ip6_prefix));
		word = __builtin_bswap32(i + 1);
		memcpy(ip6->address + 12, &word, 4);
		snprintf(ip4->name, sizeof(ip4->name), "ip4_%04u", i + 1);
		snprintf(ip6->name, sizeof(ip6->name), "ip6_%04u", i + 1);
	}
}

static int check_backend(const struct chain_backend *backend, uint32_t index, char *message)
{
	const char *expected = NULL;
	if (memchr(backend->name, '\0', sizeof(backend->name)) == NULL || backend->name[0] == '\0')
		expected = "a name of 1 to 63 bytes";
	else if (backend->family != 4 && backend->family != 6)
		expected = "family 4 or 6";
	if (expected == NULL)
		return 0;
	snprintf(message, CHAIN_MESSAGE_SIZE, "lb: backend %u: expected %s", index, expected);
	return -EINVAL;
}

static int check_config(const struct chain_lb_config *config, char *message)
{
	if (config->backends_count < 1 || config->backends_count > CHAIN_BACKENDS_MAX) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "lb: expected 1 to %d backends, not %u",
			CHAIN_BACKENDS_MAX, config->backends_count);
		return -EINVAL;
	}
	if (config->policy != CHAIN_LB_MAGLEV && config->policy != CHAIN_LB_ROUND_ROBIN) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "lb: expected policy maglev or round_robin");
		return -EINVAL;
	}
	if (config->policy == CHAIN_LB_MAGLEV &&
		!chain_maglev_size_valid(config->table_size, config->backends_count)) {
		snprintf(message, CHAIN_MESSAGE_SIZE,
			"lb: table size %u: expected a prime above %u (100 per backend), at most "
			"%d",
			config->table_size, config->backends_count * 100, CHAIN_MAGLEV_SIZE_MAX);
		return -EINVAL;
	}
	for (uint32_t i = 0; config->backends != NULL && i < config->backends_count; i++) {
		int rc = check_backend(&config->backends[i], i, message);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Sort the backends, and tell apart what cannot be told apart. */
static int arrange(struct lb *lb, char *message)
{
	bool weighted = false;
	qsort(lb->backends, lb->backends_count, sizeof(*lb->backends), compare);
	for (uint32_t i = 0; i < lb->backends_count; i++) {
		const struct chain_backend *backend = &lb->backends[i];
		if (i > 0 && compare(backend - 1, backend) == 0) {
			snprintf(message, CHAIN_MESSAGE_SIZE,
				"lb: backend \"%s\" is listed twice with one address",
				backend->name);
			return -EINVAL;
		}
		struct group *group = &lb->groups[backend->family == 6];
		group->members[group->members_count++] = (uint16_t)i;
		group->weighted_count += backend->weight != 0;
		weighted |= backend->weight != 0;
		memcpy(&lb->targets[i].word, backend->address, 4);
		lb->targets[i].sum = chain_rewrite_sum32(lb->targets[i].word);
		lb->targets[i].identity = chain_maglev_identity(backend, 0);
		snprintf(lb->counter_names[i], COUNTER_NAME_SIZE, "connections_%s", backend->name);
	}
	if (weighted)
		return 0;
	snprintf(message, CHAIN_MESSAGE_SIZE, "lb: expected a backend with a weight above 0");
	return -EINVAL;
}

static int populate(struct lb *lb)
{
	for (unsigned int g = 0; lb->policy == CHAIN_LB_MAGLEV && g < 2; g++) {
		struct group *group = &lb->groups[g];
		if (group->weighted_count == 0)
			continue;
		group->table = base_arena_alloc(lb->context->arena,
			lb->table_size * sizeof(*group->table), BASE_CACHE_LINE);
		if (group->table == NULL)
			return -ENOMEM;
		int rc = chain_maglev_populate(group->table, lb->table_size, lb->backends,
			group->members, group->members_count, lb->seed);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void lb_destroy(void *function)
{
	struct lb *lb = function;
	struct base_arena *arena = lb->context->arena;
	for (unsigned int g = 0; g < 2; g++)
		base_arena_free(
			arena, lb->groups[g].table, lb->table_size * sizeof(*lb->groups[g].table));
	base_arena_free(arena, lb->backends, lb->backends_count * sizeof(*lb->backends));
	base_arena_free(arena, lb->targets, lb->backends_count * sizeof(*lb->targets));
	base_arena_free(arena, lb->counter_names, lb->backends_count * sizeof(*lb->counter_names));
	base_arena_free(arena, lb, sizeof(*lb));
}

static int fill(struct lb *lb, const struct chain_lb_config *config, char *message)
{
	struct base_arena *arena = lb->context->arena;
	lb->backends = base_arena_alloc(
		arena, lb->backends_count * sizeof(*lb->backends), BASE_CACHE_LINE);
	lb->targets =
		base_arena_alloc(arena, lb->backends_count * sizeof(*lb->targets), BASE_CACHE_LINE);
	lb->counter_names = base_arena_alloc(
		arena, lb->backends_count * sizeof(*lb->counter_names), BASE_CACHE_LINE);
	if (lb->backends == NULL || lb->targets == NULL || lb->counter_names == NULL)
		return -ENOMEM;
	if (config->backends == NULL)
		generate(lb->backends, config->backends_count);
	else
		memcpy(lb->backends, config->backends,
			config->backends_count * sizeof(*config->backends));
	int rc = arrange(lb, message);
	return rc != 0 ? rc : populate(lb);
}

static int lb_create(void **out, const struct chain_function_context *context,
	const struct chain_function_config *function_config, char *message)
{
	const struct chain_lb_config *config = &function_config->lb;
	int rc = check_config(config, message);
	if (rc != 0)
		return rc;
	struct lb *lb = base_arena_alloc(context->arena, sizeof(*lb), BASE_CACHE_LINE);
	if (lb == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "lb: out of memory");
		return -ENOMEM;
	}
	lb->context = context;
	lb->policy = config->policy;
	lb->table_size = config->table_size;
	lb->seed = config->seed;
	lb->backends_count =
		config->backends == NULL ? 2 * config->backends_count : config->backends_count;
	/* Keyed apart from the flow tables and steering, or the flows of one bucket or one worker
	 * would go to a few backends; and by the seed alone, so that every worker agrees. */
	uint64_t state = config->seed;
	lb->hash.kind = BASE_HASH_SIPHASH;
	lb->hash.salt[0] = base_rng_splitmix64(&state);
	lb->hash.salt[1] = base_rng_splitmix64(&state);
	rc = fill(lb, config, message);
	if (rc == -ENOMEM)
		snprintf(message, CHAIN_MESSAGE_SIZE, "lb: out of memory");
	if (rc != 0) {
		lb_destroy(lb);
		return rc;
	}
	*out = lb;
	return 0;
}

/* Each backend gets as many turns in a row as its weight says. Some member has one. */
static uint32_t take_turn(struct lb *lb, struct group *group)
{
	while (group->used >= lb->backends[group->members[group->turn]].weight) {
		group->turn = (group->turn + 1) % group->members_count;
		group->used = 0;
	}
	group->used++;
	return group->members[group->turn];
}

static uint32_t choose(struct lb *lb, const struct base_packet *packet)
{
	struct group *group = &lb->groups[(packet->flags & BASE_PACKET_IP6) != 0];
	if (group->members_count == 0)
		return CHOICE_NONE;
	if (group->weighted_count == 0)
		return CHOICE_DRAINED;
	uint32_t index;
	if (lb->policy == CHAIN_LB_ROUND_ROBIN) {
		index = take_turn(lb, group);
	} else {
		/* A 32-bit hash spreads over the table by multiplication, without a division. */
		uint64_t hash = base_flow_key_hash(&packet->key, &lb->hash);
		index = group->table[hash * lb->table_size >> 32];
	}
	lb->connections++;
	lb->targets[index].connections++;
	return CHOICE_FIRST + index;
}

/* The whole decision for one packet, nothing assumed. */
static void process_packet(struct lb *lb, struct base_burst *burst, unsigned int index)
{
	struct base_packet *packet = burst->packets[index];
	if (packet->conn == BASE_CONN_NONE) {
		lb->untracked_packets++;
		return;
	}
	if (packet->flags & BASE_PACKET_TUNNEL) {
		lb->unbalanced_packets++;
		return;
	}
	struct lb_flow *flow = chain_function_user(lb->context, packet->conn);
	bool error = (packet->flags & BASE_PACKET_ICMP_ERROR) != 0;
	bool first = flow->choice == CHOICE_NOT_YET;
	if (first && !error)
		flow->choice = choose(lb, packet);
	if (packet->conn_flags & BASE_CONN_REPLY) {
		lb->reply_packets++;
		return;
	}
	if (flow->choice == CHOICE_DRAINED) {
		base_burst_drop(burst, index, BASE_DROP_LB_NO_BACKEND);
		return;
	}
	if (flow->choice < CHOICE_FIRST) {
		lb->unbalanced_packets++;
		return;
	}
	const struct chain_rewrite to = {
		.address = lb->backends[flow->choice - CHOICE_FIRST].address
	};
	if (error)
		chain_rewrite_quote(packet, CHAIN_SIDE_SOURCE, &to);
	chain_rewrite_packet(packet, CHAIN_SIDE_DESTINATION, &to);
	lb->rewritten_packets++;
	lb->related_packets += error;
	lb->sticky_packets += !first;
}

static void lb_process_scalar(void *function, struct base_burst *burst, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < burst->count; i++)
		process_packet(function, burst, i);
}

/* Plain TCP and UDP of connections that have a backend, one look at the connection per run; all
 * else takes the long way. */
static void lb_process(void *function, struct base_burst *burst, uint64_t now_ns)
{
	struct lb *lb = function;
	const struct chain_function_context *context = lb->context;
	uint32_t conn = BASE_CONN_NONE;
	const struct lb_flow *flow = NULL;
	uint64_t reply_packets = 0, rewritten_packets = 0;
	(void)now_ns;
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
		if (BASE_UNLIKELY(flow->choice < CHOICE_FIRST)) {
			process_packet(lb, burst, i);
			continue;
		}
		if (packet->conn_flags & BASE_CONN_REPLY) {
			reply_packets++;
			continue;
		}
		const struct target *target = &lb->targets[flow->choice - CHOICE_FIRST];
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
	};
	static_assert(BASE_ARRAY_COUNT(counters) <= COUNTERS_FIXED, "the rest is for backends");
	chain_function_counters_add(out, counters, BASE_ARRAY_COUNT(counters));
	if (lb->backends_count > CHAIN_COUNTERS_MAX - COUNTERS_FIXED)
		return;
	for (uint32_t i = 0; i < lb->backends_count; i++) {
		const struct chain_counter counter = { lb->counter_names[i],
			lb->targets[i].connections };
		chain_function_counters_add(out, &counter, 1);
	}
}

static uint64_t lb_digest(const void *function, const struct conntrack_conn *conn, const void *user)
{
	const struct lb *lb = function;
	const struct lb_flow *flow = chain_function_part_const(lb->context, user);
	if (flow->choice < CHOICE_FIRST)
		return 0;
	return chain_digest_word(
		chain_digest_conn(conn), lb->targets[flow->choice - CHOICE_FIRST].identity);
}

const struct chain_function_ops chain_lb_ops = {
	.name = "lb",
	.user_bytes = sizeof(struct lb_flow),
	.create = lb_create,
	.destroy = lb_destroy,
	.process = lb_process,
	.process_scalar = lb_process_scalar,
	.counters = lb_counters,
	.digest = lb_digest,
};
