/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/chain.h"

#include "base/rng.h"
#include "chain/function.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Position is the kind: the one place where functions are listed. */
static const struct chain_function_ops *const kinds[CHAIN_KINDS_COUNT] = {
	[CHAIN_STATS] = &chain_stats_ops,
	[CHAIN_ROUTER] = &chain_router_ops,
	[CHAIN_FIREWALL] = &chain_firewall_ops,
	[CHAIN_NAT] = &chain_nat_ops,
	[CHAIN_LB] = &chain_lb_ops,
};

struct chain_slot {
	const struct chain_function_ops *ops;
	void (*process)(void *function, struct base_burst *burst, uint64_t now_ns);
	void *function;
	struct chain_function_context context;
	uint64_t in;
	uint64_t drops[BASE_DROP_REASONS_COUNT];
	uint64_t early_drops[BASE_DROP_REASONS_COUNT]; /* by translate */
};

struct chain {
	struct base_arena *arena;
	uint32_t functions_count;
	uint32_t user_bytes;
	const struct conntrack *tracker;
	uint64_t digest;
	bool translates;
	bool filters; /* not every connection need be tracked */
	bool no_runs;
	struct chain_slot slots[CHAIN_FUNCTIONS_MAX];
};

int chain_kind_from_name(const char *name, enum chain_kind *kind)
{
	for (unsigned int i = 0; i < CHAIN_KINDS_COUNT; i++) {
		if (strcmp(kinds[i]->name, name) == 0) {
			*kind = (enum chain_kind)i;
			return 0;
		}
	}
	return -ENOENT;
}

const char *chain_kind_name(enum chain_kind kind)
{
	return (unsigned int)kind < CHAIN_KINDS_COUNT ? kinds[kind]->name : "?";
}

uint32_t chain_kind_user_bytes(enum chain_kind kind)
{
	return kinds[kind]->user_bytes;
}

void chain_function_config_defaults(struct chain_function_config *config, enum chain_kind kind)
{
	memset(config, 0, sizeof(*config));
	config->kind = kind;
	switch (kind) {
	case CHAIN_ROUTER:
		config->router.routes_count = 200;
		config->router.default_route = true;
		break;
	case CHAIN_FIREWALL:
		config->firewall.rules_count = 10000;
		break;
	case CHAIN_NAT:
		config->nat.address = 0xc0000201; /* 192.0.2.1, RFC 5737 */
		config->nat.addresses_count = 1;
		config->nat.port_first = 1024;
		config->nat.port_last = 65535;
		config->nat.workers = 1;
		config->nat.shares = 1;
		break;
	case CHAIN_LB:
		config->lb.backends_count = 16;
		config->lb.table_size = 65537;
		config->lb.policy = CHAIN_LB_MAGLEV;
		break;
	case CHAIN_STATS:
	case CHAIN_KINDS_COUNT:
		break;
	}
}

static int check_config(const struct chain_config *config, char *message)
{
	if (config->arena == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "chain: expected an arena");
		return -EINVAL;
	}
	if (config->functions_count > CHAIN_FUNCTIONS_MAX) {
		snprintf(message, CHAIN_MESSAGE_SIZE,
			"chain: %u functions given, expected at most %d", config->functions_count,
			CHAIN_FUNCTIONS_MAX);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < config->functions_count; i++) {
		if ((unsigned int)config->functions[i].kind >= CHAIN_KINDS_COUNT) {
			snprintf(message, CHAIN_MESSAGE_SIZE,
				"chain: function %u has the unknown kind %u", i,
				(unsigned int)config->functions[i].kind);
			return -EINVAL;
		}
	}
	return 0;
}

static int add_function(
	struct chain *chain, const struct chain_config *config, uint32_t index, char *message)
{
	const struct chain_function_config *function = &config->functions[index];
	struct chain_slot *slot = &chain->slots[index];
	slot->ops = kinds[function->kind];
	slot->process = config->scalar ? slot->ops->process_scalar : slot->ops->process;
	slot->context = (struct chain_function_context){
		.user_offset = chain->user_bytes,
		.hash = config->hash,
		.arena = config->arena,
		.instance = config->instance,
		.index = (uint16_t)index,
		.scalar = config->scalar,
		.no_runs = config->no_runs,
		.no_prefetch = config->no_prefetch,
		.lender = config->tables == NULL ? NULL : config->tables->slots[index].function,
	};
	int rc = slot->ops->create(&slot->function, &slot->context, function, message);
	if (rc != 0)
		return rc;
	BASE_ASSERT(slot->ops->user_bytes % 8 == 0);
	chain->user_bytes += slot->ops->user_bytes;
	chain->translates |= slot->ops->translate != NULL;
	chain->functions_count++;
	return 0;
}

/* Nobody but balancers that do without most choices looks at connections. */
static bool filters(const struct chain_config *config)
{
	bool any = false;
	for (uint32_t i = 0; i < config->functions_count; i++) {
		const struct chain_function_config *function = &config->functions[i];
		bool hashing = function->kind == CHAIN_LB &&
			       (function->lb.policy == CHAIN_LB_JET ||
				       function->lb.policy == CHAIN_LB_STATELESS);
		if (!hashing && function->kind != CHAIN_ROUTER)
			return false;
		any |= hashing;
	}
	return any;
}

int chain_create(struct chain **out, const struct chain_config *config, char *message)
{
	message[0] = '\0';
	int rc = check_config(config, message);
	if (rc != 0)
		return rc;
	struct chain *chain = base_arena_alloc(config->arena, sizeof(*chain), BASE_CACHE_LINE);
	if (chain == NULL) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "chain: out of memory");
		return -ENOMEM;
	}
	chain->arena = config->arena;
	chain->no_runs = config->no_runs;
	for (uint32_t i = 0; i < config->functions_count; i++) {
		rc = add_function(chain, config, i, message);
		if (rc != 0) {
			chain_destroy(chain);
			return rc;
		}
	}
	chain->filters = filters(config);
	*out = chain;
	return 0;
}

void chain_destroy(struct chain *chain)
{
	if (chain == NULL)
		return;
	for (uint32_t i = chain->functions_count; i-- > 0;)
		chain->slots[i].ops->destroy(chain->slots[i].function);
	base_arena_free(chain->arena, chain, sizeof(*chain));
}

uint32_t chain_user_bytes(const struct chain *chain)
{
	return chain->user_bytes;
}

void chain_attach(struct chain *chain, const struct conntrack *tracker)
{
	chain->tracker = tracker;
	for (uint32_t i = 0; i < chain->functions_count; i++)
		chain->slots[i].context.tracker = tracker;
}

/* The same result at two positions of the chain must not cancel or look like one result twice. */
static uint64_t mix_digest(uint64_t digest, uint32_t index)
{
	uint64_t state = digest ^ ((uint64_t)(index + 1) << 56);
	return base_rng_splitmix64(&state);
}

void chain_on_remove(void *context, uint32_t conn, void *user)
{
	struct chain *chain = context;
	struct conntrack_conn view;
	int rc = conntrack_conn_get(chain->tracker, conn, &view);
	BASE_ASSERT(rc == 0); /* it is still there while we are told */
	/* Digests first: on_remove may wipe what they are made of. */
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		const struct chain_slot *slot = &chain->slots[i];
		if (slot->ops->digest == NULL)
			continue;
		uint64_t digest = slot->ops->digest(slot->function, &view, user);
		if (digest != 0)
			chain->digest += mix_digest(digest, i);
	}
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		const struct chain_slot *slot = &chain->slots[i];
		if (slot->ops->on_remove != NULL)
			slot->ops->on_remove(slot->function, conn, user);
	}
}

static bool translate_slot(struct chain_slot *slot, struct base_burst *burst)
{
	bool rewritten = false;
	for (unsigned int i = 0; i < burst->count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (packet->drop_reason != BASE_DROP_NONE)
			continue;
		rewritten |= slot->ops->translate(slot->function, packet);
		if (BASE_UNLIKELY(packet->drop_reason != BASE_DROP_NONE)) {
			burst->drop_count++;
			slot->early_drops[packet->drop_reason]++;
		}
	}
	return rewritten;
}

void chain_translate_burst(
	struct chain *chain, struct base_burst *burst, struct base_parser *parser)
{
	(void)parser; /* a translation knows its new key without another parse */
	if (!chain->translates)
		return;
	bool rewritten = false;
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		if (chain->slots[i].ops->translate != NULL)
			rewritten |= translate_slot(&chain->slots[i], burst);
	}
	if (rewritten)
		base_burst_mark_runs(burst, chain->no_runs);
}

void chain_use_share(struct chain *chain, uint32_t share)
{
	for (uint32_t i = 0; i < chain->functions_count && chain->translates; i++) {
		if (chain->slots[i].ops->use_share != NULL)
			chain->slots[i].ops->use_share(chain->slots[i].function, share);
	}
}

bool chain_filters_connections(const struct chain *chain)
{
	return chain->filters;
}

bool chain_admit(void *context, const struct base_packet *packet)
{
	struct chain *chain = context;
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		const struct chain_slot *slot = &chain->slots[i];
		if (slot->ops->admit != NULL && slot->ops->admit(slot->function, packet))
			return true;
	}
	return false;
}

uint32_t chain_functions_count(const struct chain *chain)
{
	return chain->functions_count;
}

void chain_function_process(
	struct chain *chain, uint32_t index, struct base_burst *burst, uint64_t now_ns)
{
	struct chain_slot *slot = &chain->slots[index];
	BASE_DEBUG_ASSERT(index < chain->functions_count && burst->drop_count == 0);
	slot->in += burst->count;
	slot->process(slot->function, burst, now_ns);
	if (BASE_LIKELY(burst->drop_count == 0))
		return;
	for (unsigned int i = 0; i < burst->count; i++) {
		uint8_t reason = burst->packets[i]->drop_reason;
		if (reason != BASE_DROP_NONE)
			slot->drops[reason]++;
	}
}

void chain_function_stats(
	const struct chain *chain, uint32_t index, struct chain_function_stats *stats)
{
	const struct chain_slot *slot = &chain->slots[index];
	BASE_ASSERT(index < chain->functions_count);
	memset(stats, 0, sizeof(*stats));
	stats->name = slot->ops->name;
	stats->in = slot->in;
	stats->out = slot->in;
	for (unsigned int i = 0; i < BASE_DROP_REASONS_COUNT; i++) {
		stats->drops[i] = slot->drops[i];
		stats->early_drops[i] = slot->early_drops[i];
		stats->out -= slot->drops[i];
	}
	if (slot->ops->counters != NULL)
		slot->ops->counters(slot->function, stats);
}

int chain_target_find(const struct chain *chain, const char *name, struct chain_target *target)
{
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		const struct chain_slot *slot = &chain->slots[i];
		if (slot->ops->target != NULL &&
			slot->ops->target(slot->function, name, target) == 0)
			return 0;
	}
	return -ENOENT;
}

bool chain_steer(struct chain *chain, uint32_t conn, const struct chain_target *target)
{
	bool steered = false;
	for (uint32_t i = 0; i < chain->functions_count; i++) {
		const struct chain_slot *slot = &chain->slots[i];
		if (slot->ops->steer != NULL)
			steered |= slot->ops->steer(slot->function, conn, target);
	}
	return steered;
}

uint64_t chain_flow_digest(const struct chain *chain)
{
	return chain->digest;
}
