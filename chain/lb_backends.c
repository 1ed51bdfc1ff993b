/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/lb_backends.h"

#include "chain/maglev.h"
#include "chain/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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
	if ((unsigned int)config->policy >= CHAIN_LB_POLICIES_COUNT) {
		snprintf(message, CHAIN_MESSAGE_SIZE,
			"lb: expected policy maglev, round_robin, least_connections, jet or "
			"stateless");
		return -EINVAL;
	}
	if (lb_policy_has_table(config->policy) &&
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
	if (config->changes_count > CHAIN_LB_CHANGES_MAX) {
		snprintf(message, CHAIN_MESSAGE_SIZE, "lb: expected at most %d changes, not %u",
			CHAIN_LB_CHANGES_MAX, config->changes_count);
		return -EINVAL;
	}
	return 0;
}

/* Sort the backends, and tell apart what cannot be told apart. */
static int arrange(struct lb_backends *backends, char *message)
{
	bool weighted = false;
	qsort(backends->list, backends->count, sizeof(*backends->list), compare);
	for (uint32_t i = 0; i < backends->count; i++) {
		const struct chain_backend *backend = &backends->list[i];
		struct lb_target *target = &backends->targets[i];
		if (i > 0 && compare(backend - 1, backend) == 0) {
			snprintf(message, CHAIN_MESSAGE_SIZE,
				"lb: backend \"%s\" is listed twice with one address",
				backend->name);
			return -EINVAL;
		}
		weighted |= backend->weight != 0;
		memcpy(&target->word, backend->address, 4);
		target->sum = chain_rewrite_sum32(target->word);
		target->identity = chain_maglev_identity(backend, 0);
	}
	if (weighted)
		return 0;
	snprintf(message, CHAIN_MESSAGE_SIZE, "lb: expected a backend with a weight above 0");
	return -EINVAL;
}

/* All backends of that name, of either family. */
static int apply_change(const struct lb_backends *backends, const struct chain_lb_change *change,
	uint32_t number, struct lb_epoch *epoch, char *message)
{
	static const uint8_t after[] = {
		[CHAIN_LB_ADD] = LB_PRESENT,
		[CHAIN_LB_DRAIN] = LB_DRAINING,
		[CHAIN_LB_REMOVE] = LB_ABSENT,
	};
	bool found = false;
	for (uint32_t i = 0; i < backends->count; i++) {
		if (strncmp(backends->list[i].name, change->backend, CHAIN_NAME_SIZE) != 0)
			continue;
		epoch->status[i] = after[change->action];
		found = true;
	}
	if (found)
		return 0;
	snprintf(message, CHAIN_MESSAGE_SIZE,
		"lb: change %u: got '%.63s', expected a backend's name", number, change->backend);
	return -EBADMSG; /* mostly from a file */
}

/* A backend whose first change adds it was not there before. */
static bool comes_later(const struct chain_backend *backend, const struct chain_lb_config *config)
{
	for (uint32_t i = 0; i < config->changes_count; i++) {
		if (strncmp(backend->name, config->changes[i].backend, CHAIN_NAME_SIZE) == 0)
			return config->changes[i].action == CHAIN_LB_ADD;
	}
	return false;
}

/* Statuses of every epoch; changes at one time make one. */
static int plan(struct lb_backends *backends, const struct chain_lb_config *config, char *message)
{
	struct lb_epoch *epoch = &backends->epochs[0];
	for (uint32_t i = 0; i < backends->count; i++)
		epoch->status[i] = comes_later(&backends->list[i], config) ? LB_ABSENT : LB_PRESENT;
	epoch->until_ns = UINT64_MAX;
	backends->epochs_count = 1;
	for (uint32_t i = 0; i < config->changes_count; i++) {
		const struct chain_lb_change *change = &config->changes[i];
		if ((unsigned int)change->action > CHAIN_LB_REMOVE ||
			change->at_ns < epoch->from_ns) {
			snprintf(message, CHAIN_MESSAGE_SIZE,
				"lb: change %u: expected add, drain or remove, in order of time",
				i + 1);
			return -EINVAL;
		}
		if (change->at_ns > epoch->from_ns) {
			struct lb_epoch *next = &backends->epochs[backends->epochs_count++];
			memcpy(next->status, epoch->status, sizeof(epoch->status));
			epoch->until_ns = next->from_ns = change->at_ns;
			next->until_ns = UINT64_MAX;
			epoch = next;
		}
		int rc = apply_change(backends, change, i + 1, epoch, message);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void collect(struct lb_backends *backends, struct lb_epoch *epoch)
{
	for (uint32_t i = 0; i < backends->count; i++) {
		struct lb_group *group = &epoch->groups[backends->list[i].family == 6];
		if (epoch->status[i] == LB_ABSENT) {
			epoch->any_absent = true;
			continue;
		}
		group->members[group->members_count++] = (uint16_t)i;
		group->weighted_count +=
			epoch->status[i] == LB_PRESENT && backends->list[i].weight != 0;
	}
}

/* Whether it takes new connections in this epoch, or (horizon) in this or a later one. */
static bool takes(const struct lb_backends *backends, uint32_t at, uint32_t index, bool horizon)
{
	uint32_t last = horizon ? backends->epochs_count - 1 : at;
	bool draining = backends->epochs[at].status[index] == LB_DRAINING;
	for (uint32_t i = at; i <= last && !draining; i++) {
		if (backends->epochs[i].status[index] == LB_PRESENT)
			return backends->list[index].weight != 0;
	}
	return false;
}

/* *table stays NULL when no backend takes any. */
static int create_table(struct lb_backends *backends, uint32_t at, unsigned int family6,
	bool horizon, uint64_t seed, uint16_t **table)
{
	uint16_t members[CHAIN_BACKENDS_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < backends->count; i++) {
		if ((backends->list[i].family == 6) == (family6 != 0) &&
			takes(backends, at, i, horizon))
			members[count++] = (uint16_t)i;
	}
	if (count == 0)
		return 0;
	*table = base_arena_alloc(
		backends->arena, backends->table_size * sizeof(**table), BASE_CACHE_LINE);
	if (*table == NULL)
		return -ENOMEM;
	return chain_maglev_populate(
		*table, backends->table_size, backends->list, members, count, seed);
}

static int populate(struct lb_backends *backends, uint64_t seed)
{
	if (!lb_policy_has_table(backends->policy))
		return 0;
	for (uint32_t at = 0; at < backends->epochs_count; at++) {
		for (unsigned int g = 0; g < 2; g++) {
			struct lb_group *group = &backends->epochs[at].groups[g];
			int rc = create_table(backends, at, g, false, seed, &group->table);
			if (rc == 0 && backends->policy == CHAIN_LB_JET)
				rc = create_table(backends, at, g, true, seed, &group->horizon);
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

int lb_backends_init(struct lb_backends *backends, const struct chain_lb_config *config,
	struct base_arena *arena, char *message)
{
	memset(backends, 0, sizeof(*backends));
	int rc = check_config(config, message);
	if (rc != 0)
		return rc;
	backends->arena = arena;
	backends->policy = config->policy;
	backends->table_size = config->table_size;
	backends->count =
		config->backends == NULL ? 2 * config->backends_count : config->backends_count;
	backends->list =
		base_arena_alloc(arena, backends->count * sizeof(*backends->list), BASE_CACHE_LINE);
	backends->targets = base_arena_alloc(
		arena, backends->count * sizeof(*backends->targets), BASE_CACHE_LINE);
	backends->epochs = base_arena_alloc(
		arena, (CHAIN_LB_CHANGES_MAX + 1) * sizeof(*backends->epochs), BASE_CACHE_LINE);
	if (backends->list == NULL || backends->targets == NULL || backends->epochs == NULL)
		return -ENOMEM;
	if (config->backends == NULL)
		generate(backends->list, config->backends_count);
	else
		memcpy(backends->list, config->backends,
			config->backends_count * sizeof(*config->backends));
	rc = arrange(backends, message);
	if (rc == 0)
		rc = plan(backends, config, message);
	for (uint32_t i = 0; rc == 0 && i < backends->epochs_count; i++)
		collect(backends, &backends->epochs[i]);
	backends->epoch = &backends->epochs[0];
	return rc != 0 ? rc : populate(backends, config->seed);
}

void lb_backends_release(struct lb_backends *backends)
{
	struct base_arena *arena = backends->arena;
	size_t table_bytes = backends->table_size * sizeof(uint16_t);
	for (uint32_t at = 0; at < backends->epochs_count; at++) {
		for (unsigned int g = 0; g < 2; g++) {
			base_arena_free(arena, backends->epochs[at].groups[g].table, table_bytes);
			base_arena_free(arena, backends->epochs[at].groups[g].horizon, table_bytes);
		}
	}
	if (arena == NULL)
		return;
	base_arena_free(arena, backends->list, backends->count * sizeof(*backends->list));
	base_arena_free(arena, backends->targets, backends->count * sizeof(*backends->targets));
	base_arena_free(
		arena, backends->epochs, (CHAIN_LB_CHANGES_MAX + 1) * sizeof(*backends->epochs));
}

const struct lb_epoch *lb_backends_find_epoch(struct lb_backends *backends, uint64_t time_ns)
{
	uint32_t low = 0, high = backends->epochs_count;
	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;
		if (backends->epochs[middle].from_ns <= time_ns)
			low = middle;
		else
			high = middle;
	}
	backends->epoch = &backends->epochs[low];
	return backends->epoch;
}

static bool takes_now(
	const struct lb_backends *backends, const struct lb_epoch *epoch, uint32_t index)
{
	return epoch->status[index] == LB_PRESENT && backends->list[index].weight != 0;
}

/* Each backend gets as many turns in a row as its weight says. Some member takes connections. */
static uint32_t take_turn(
	struct lb_backends *backends, const struct lb_epoch *epoch, unsigned int family6)
{
	const struct lb_group *group = &epoch->groups[family6];
	uint32_t turn = backends->turns[family6].turn % group->members_count;
	uint32_t used = backends->turns[family6].used;
	while (!takes_now(backends, epoch, group->members[turn]) ||
		used >= backends->list[group->members[turn]].weight) {
		turn = (turn + 1) % group->members_count;
		used = 0;
	}
	backends->turns[family6].turn = turn;
	backends->turns[family6].used = used + 1;
	return group->members[turn];
}

/* live / weight is compared without division. */
static uint32_t least_loaded(
	const struct lb_backends *backends, const struct lb_epoch *epoch, unsigned int family6)
{
	const struct lb_group *group = &epoch->groups[family6];
	uint32_t best = LB_NONE;
	for (uint32_t i = 0; i < group->members_count; i++) {
		uint32_t index = group->members[i];
		if (!takes_now(backends, epoch, index))
			continue;
		if (best == LB_NONE ||
			backends->targets[index].live * backends->list[best].weight <
				backends->targets[best].live * backends->list[index].weight)
			best = index;
	}
	return best;
}

/* A 32-bit hash spreads over the table by multiplication, without a division. */
static uint32_t slot_of(const struct lb_backends *backends, uint32_t hash)
{
	return (uint32_t)((uint64_t)hash * backends->table_size >> 32);
}

uint32_t lb_backends_look_up(
	const struct lb_backends *backends, const struct lb_epoch *epoch, bool ip6, uint32_t hash)
{
	const struct lb_group *group = &epoch->groups[ip6];
	if (BASE_UNLIKELY(group->weighted_count == 0))
		return group->members_count == 0 ? LB_NONE : LB_DRAINED;
	return group->table[slot_of(backends, hash)];
}

bool lb_backends_must_keep(
	const struct lb_backends *backends, const struct lb_epoch *epoch, bool ip6, uint32_t hash)
{
	const struct lb_group *group = &epoch->groups[ip6];
	uint32_t slot = slot_of(backends, hash);
	return group->horizon != NULL && group->table != NULL &&
	       group->horizon[slot] != group->table[slot];
}

uint32_t lb_backends_choose(
	struct lb_backends *backends, const struct lb_epoch *epoch, bool ip6, uint32_t hash)
{
	const struct lb_group *group = &epoch->groups[ip6];
	if (group->weighted_count == 0)
		return group->members_count == 0 ? LB_NONE : LB_DRAINED;
	switch (backends->policy) {
	case CHAIN_LB_ROUND_ROBIN:
		return take_turn(backends, epoch, ip6);
	case CHAIN_LB_LEAST_CONNECTIONS:
		return least_loaded(backends, epoch, ip6);
	case CHAIN_LB_MAGLEV:
	case CHAIN_LB_JET:
	case CHAIN_LB_STATELESS:
	case CHAIN_LB_POLICIES_COUNT:
		break;
	}
	return lb_backends_look_up(backends, epoch, ip6, hash);
}
