/* SPDX-License-Identifier: BSD-2-Clause */
#include "conntrack/judge.h"

#include "conntrack/oracle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_STEP_NS_MIN UINT64_C(1000000)

enum {
	DRAIN_STEPS = 20000, /* each longer than the one before: years in the end */
	SAMPLE_COST = 64,    /* dead connections counted per advance, on average */
};

/* What the tracker's index was given to. */
struct place {
	uint64_t id; /* the oracle's; 0: to nobody */
	struct base_flow_key key;
};

/* A live connection that a packet of this burst did not find: it must have been evicted. */
struct lost {
	uint64_t id;
	bool evicted;
};

struct conntrack_judge {
	struct conntrack *tracker;
	struct conntrack_oracle oracle;
	struct conntrack_verdict verdict;
	struct place *places; /* by index */
	size_t places_count;
	struct lost lost[BASE_BURST_MAX];
	unsigned int lost_count;
	uint64_t horizon_ns;
	uint64_t early; /* removed before they were due, since counted */
	uint64_t advances, next_sample;
	bool stale_hits, may_evict, finishing;
};

static const char *const failure_names[CONNTRACK_FAILURES_COUNT] = {
	[CONNTRACK_FAILURE_LIVE_REPORTED_NEW] = "live_reported_new",
	[CONNTRACK_FAILURE_PAST_SLACK] = "past_slack",
	[CONNTRACK_FAILURE_WRONG_STATE] = "wrong_state",
	[CONNTRACK_FAILURE_WRONG_CONNECTION] = "wrong_connection",
	[CONNTRACK_FAILURE_WRONG_USER] = "wrong_user",
	[CONNTRACK_FAILURE_REFUSED_WITH_ROOM] = "refused_with_room",
	[CONNTRACK_FAILURE_REMOVED_EARLY] = "removed_early",
	[CONNTRACK_FAILURE_LEFT_OVER] = "left_over",
};

const char *conntrack_failure_name(enum conntrack_failure failure)
{
	return (unsigned int)failure < CONNTRACK_FAILURES_COUNT ? failure_names[failure]
								: "unknown";
}

static BASE_PRINTF(3, 4) void fail(
	struct conntrack_judge *judge, enum conntrack_failure failure, const char *format, ...)
{
	struct conntrack_verdict *verdict = &judge->verdict;
	verdict->failures[failure]++;
	if (verdict->failures_sum++ != 0)
		return;
	int used = snprintf(verdict->first_failure, sizeof(verdict->first_failure),
		"packet %llu: %s: ", (unsigned long long)verdict->packets, failure_names[failure]);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(verdict->first_failure + used, sizeof(verdict->first_failure) - (size_t)used,
		format, arguments);
	va_end(arguments);
}

/* ---- removals ---- */

static struct place *place_of(struct conntrack_judge *judge, uint32_t conn)
{
	if (conn >= judge->places_count) {
		size_t count = 2 * (size_t)conn + 1024;
		judge->places = realloc(judge->places, count * sizeof(*judge->places));
		if (judge->places == NULL)
			abort();
		memset(judge->places + judge->places_count, 0,
			(count - judge->places_count) * sizeof(*judge->places));
		judge->places_count = count;
	}
	return &judge->places[conn];
}

/* The oracle's connection that an index was given to; NULL when that has none any more. */
static struct conntrack_oracle_conn *owner_of(
	const struct conntrack_judge *judge, const struct place *place)
{
	struct conntrack_oracle_conn *conn = conntrack_oracle_find(&judge->oracle, &place->key);
	return conn != NULL && conn->id == place->id && place->id != 0 ? conn : NULL;
}

static void judge_removal(struct conntrack_judge *judge, const struct place *place)
{
	struct conntrack_oracle_conn *conn = owner_of(judge, place);
	if (conn == NULL) {
		for (unsigned int i = 0; i < judge->lost_count; i++) {
			if (judge->lost[i].id != place->id)
				continue;
			judge->lost[i].evicted = true;
			judge->early++;
		}
		return; /* a packet found it due, or reopened it: the oracle has seen the same */
	}
	if (conn->due_ns <= judge->horizon_ns && conn->due_ns != UINT64_MAX) {
		if (!judge->finishing)
			base_histogram_add(&judge->verdict.late, judge->horizon_ns - conn->due_ns);
		conntrack_oracle_expire(&judge->oracle, conn);
		return;
	}
	judge->early++;
	conntrack_oracle_forget(&judge->oracle, conn);
}

static void check_mark(struct conntrack_judge *judge, const struct place *place, const void *user)
{
	uint64_t mark;
	memcpy(&mark, user, sizeof(mark));
	/* 0: opened and removed within a burst, before the mark was made. */
	if (mark != 0 && mark != place->id)
		fail(judge, CONNTRACK_FAILURE_WRONG_USER,
			"connection %llu has the memory of connection %llu",
			(unsigned long long)place->id, (unsigned long long)mark);
}

static void on_remove(void *context, uint32_t conn, void *user)
{
	struct conntrack_judge *judge = context;
	struct place *place = place_of(judge, conn);
	if (place->id == 0) {
		fail(judge, CONNTRACK_FAILURE_WRONG_CONNECTION,
			"index %u is removed and was given to nobody", conn);
		return;
	}
	check_mark(judge, place, user);
	judge_removal(judge, place);
	place->id = 0;
}

/* Every removal before its time must have been counted as an eviction, and been allowed. */
static void check_evictions(struct conntrack_judge *judge, uint64_t evicted_before)
{
	struct conntrack_stats stats;
	conntrack_stats(judge->tracker, &stats);
	uint64_t evicted = stats.evicted - evicted_before;
	for (unsigned int i = 0; i < judge->lost_count; i++) {
		if (!judge->lost[i].evicted)
			fail(judge, CONNTRACK_FAILURE_LIVE_REPORTED_NEW,
				"connection %llu was live and is there, and was not found",
				(unsigned long long)judge->lost[i].id);
	}
	if (judge->early > evicted || (judge->early != 0 && !judge->may_evict))
		fail(judge, CONNTRACK_FAILURE_REMOVED_EARLY,
			"%llu connections were removed before they were due, %llu as evicted",
			(unsigned long long)judge->early, (unsigned long long)evicted);
	judge->verdict.evicted_live += judge->early;
	judge->early = 0;
	judge->lost_count = 0;
}

/* ---- answers ---- */

static void lose(struct conntrack_judge *judge, const struct base_packet *packet, uint64_t id)
{
	/* The packet itself may have ended it for the oracle: then it is there no more. */
	struct conntrack_oracle_conn *conn = conntrack_oracle_find(&judge->oracle, &packet->key);
	judge->lost[judge->lost_count++] = (struct lost){ .id = id };
	if (conn != NULL && conn->id == id)
		conntrack_oracle_forget(&judge->oracle, conn);
}

static void compare(struct conntrack_judge *judge, const struct base_packet *packet,
	const struct conntrack_oracle_answer *answer)
{
	bool dropped = packet->drop_reason != BASE_DROP_NONE;
	if (packet->conn_flags != answer->conn_flags)
		fail(judge, CONNTRACK_FAILURE_WRONG_STATE, "flags %#x, expected %#x",
			packet->conn_flags, answer->conn_flags);
	else if (dropped != answer->dropped)
		fail(judge, CONNTRACK_FAILURE_WRONG_STATE, "%s, expected the contrary",
			dropped ? "dropped" : "not dropped");
}

static bool is_expired(const struct conntrack_oracle_conn *conn, uint64_t time_ns)
{
	return conn->due_ns <= time_ns && conn->due_ns != UINT64_MAX;
}

/* The tracker says: it belongs to a connection that was there. */
static void judge_hit(struct conntrack_judge *judge, const struct base_packet *packet)
{
	struct conntrack_verdict *verdict = &judge->verdict;
	struct conntrack_oracle_conn *conn = conntrack_oracle_find(&judge->oracle, &packet->key);
	const struct place *place = place_of(judge, packet->conn);
	if (conn == NULL || conn->id != place->id) {
		fail(judge, CONNTRACK_FAILURE_WRONG_CONNECTION,
			"index %u is connection %llu, expected %llu", packet->conn,
			(unsigned long long)place->id,
			conn != NULL ? (unsigned long long)conn->id : 0ULL);
		conntrack_oracle_packet(&judge->oracle, packet, true);
		return;
	}
	bool stale = is_expired(conn, packet->time_ns);
	uint64_t age_ns = stale ? packet->time_ns - conn->due_ns : 0;
	uint64_t slack_ns = conntrack_slack_ns(judge->tracker);
	if (stale && !judge->stale_hits)
		fail(judge, CONNTRACK_FAILURE_WRONG_STATE,
			"connection %llu was due %llu ns ago, expected a new one",
			(unsigned long long)conn->id, (unsigned long long)age_ns);
	if (stale && slack_ns != UINT64_MAX && conn->due_ns + slack_ns < judge->horizon_ns)
		fail(judge, CONNTRACK_FAILURE_PAST_SLACK,
			"connection %llu was met %llu ns after it was due",
			(unsigned long long)conn->id, (unsigned long long)age_ns);
	if (age_ns > verdict->stale_age_max_ns)
		verdict->stale_age_max_ns = age_ns;
	verdict->hits += !stale;
	verdict->stale_hits += stale;
	struct conntrack_oracle_answer answer =
		conntrack_oracle_packet(&judge->oracle, packet, stale);
	compare(judge, packet, &answer);
}

/* The tracker says: it began a connection. */
static void judge_new(struct conntrack_judge *judge, const struct base_packet *packet)
{
	struct conntrack_oracle_conn *conn = conntrack_oracle_find(&judge->oracle, &packet->key);
	bool expired = conn != NULL && is_expired(conn, packet->time_ns);
	struct conntrack_oracle_answer answer =
		conntrack_oracle_packet(&judge->oracle, packet, false);
	judge->verdict.found_dead += expired;
	if ((answer.conn_flags & BASE_CONN_NEW) == 0 && answer.id != 0) {
		lose(judge, packet, answer.id);
		answer = conntrack_oracle_packet(&judge->oracle, packet, false);
	}
	judge->verdict.misses++;
	compare(judge, packet, &answer);
	if (answer.id == 0)
		return;
	struct place *place = place_of(judge, packet->conn);
	if (owner_of(judge, place) != NULL)
		fail(judge, CONNTRACK_FAILURE_WRONG_CONNECTION,
			"index %u is given twice: connection %llu has it", packet->conn,
			(unsigned long long)place->id);
	*place = (struct place){ .id = answer.id, .key = packet->key };
	conntrack_oracle_find(&judge->oracle, &packet->key)->conn = packet->conn;
}

struct room {
	uint64_t live, half_open; /* at most, at any time in the burst so far */
	uint64_t refused;
};

static bool is_half_open(enum conntrack_state state)
{
	return state == CONNTRACK_STATE_TCP_SYN_SENT || state == CONNTRACK_STATE_TCP_SYN_SENT2 ||
	       state == CONNTRACK_STATE_TCP_SYN_RECV;
}

/* Connections of the oracle's that are due by then, from the heap's node `at` on. */
static uint64_t count_due(const struct conntrack_oracle *oracle, size_t at, uint64_t now_ns)
{
	if (at >= oracle->count || oracle->heap[at]->due_ns > now_ns)
		return 0;
	return 1 + count_due(oracle, 2 * at + 1, now_ns) + count_due(oracle, 2 * at + 2, now_ns);
}

static void judge_refusal(
	struct conntrack_judge *judge, const struct base_packet *packet, struct room *room)
{
	const struct conntrack_config *config = &judge->oracle.config;
	struct conntrack_oracle_conn *conn = conntrack_oracle_find(&judge->oracle, &packet->key);
	uint32_t half_open_max = config->half_open_max;
	if (half_open_max == 0)
		half_open_max = config->entries_max / 2 + (config->entries_max == 1);
	bool at_cap = is_half_open(conn->state) && room->half_open >= half_open_max;
	if (room->live < config->entries_max && !at_cap)
		fail(judge, CONNTRACK_FAILURE_REFUSED_WITH_ROOM,
			"refused with %llu connections of %u, %llu half open of %u",
			(unsigned long long)room->live, config->entries_max,
			(unsigned long long)room->half_open, half_open_max);
	if ((packet->drop_reason != BASE_DROP_NONE) !=
		(config->full_policy == CONNTRACK_FULL_DROP_NEW))
		fail(judge, CONNTRACK_FAILURE_WRONG_STATE, "refused, and dropped or not");
	conntrack_oracle_forget(&judge->oracle, conn);
	judge->verdict.refused++;
	judge->verdict.misses++;
	room->refused++;
	if (judge->oracle.count - count_due(&judge->oracle, 0, packet->time_ns) <
		config->entries_max)
		judge->verdict.refused_by_dead++;
}

/* The tracker says: no connection. */
static void judge_none(
	struct conntrack_judge *judge, const struct base_packet *packet, struct room *room)
{
	struct conntrack_oracle_conn *conn =
		(packet->flags & BASE_PACKET_FLOW) != 0
			? conntrack_oracle_find(&judge->oracle, &packet->key)
			: NULL;
	bool found_dead = conn != NULL && is_expired(conn, packet->time_ns) &&
			  (packet->flags & BASE_PACKET_ICMP_ERROR) == 0;
	struct conntrack_oracle_answer answer =
		conntrack_oracle_packet(&judge->oracle, packet, false);
	judge->verdict.found_dead += found_dead;
	if (answer.id != 0 && (answer.conn_flags & BASE_CONN_NEW) == 0) {
		lose(judge, packet, answer.id);
		answer = conntrack_oracle_packet(&judge->oracle, packet, false);
	}
	if (answer.id != 0) {
		judge_refusal(judge, packet, room);
		return;
	}
	judge->verdict.untracked++;
	compare(judge, packet, &answer);
}

/* What the tracker holds for the packet's connection, now that the burst is over. */
static void judge_entry(struct conntrack_judge *judge, const struct base_packet *packet)
{
	struct conntrack_conn seen;
	if ((packet->flags & BASE_PACKET_FLOW) == 0)
		return;
	const struct conntrack_oracle_conn *conn =
		conntrack_oracle_find(&judge->oracle, &packet->key);
	if (conn == NULL || conn->conn != packet->conn)
		return;
	uint32_t found = BASE_CONN_NONE;
	if (conntrack_find(judge->tracker, &packet->key, packet->hash, &found) != 0 ||
		found != conn->conn || conntrack_conn_get(judge->tracker, found, &seen) != 0) {
		fail(judge, CONNTRACK_FAILURE_LIVE_REPORTED_NEW,
			"the key of connection %llu does not lead to its index %u",
			(unsigned long long)conn->id, conn->conn);
		return;
	}
	if (seen.state != conn->state || seen.assured != conn->assured ||
		seen.origin_reversed != conn->reversed || seen.packets != conn->packets ||
		seen.last_seen_ns != conn->last_seen_ns || seen.due_ns != conn->due_ns)
		fail(judge, CONNTRACK_FAILURE_WRONG_STATE,
			"connection %llu: state %s, due at %llu, expected %s, %llu",
			(unsigned long long)conn->id, conntrack_state_name(seen.state),
			(unsigned long long)seen.due_ns, conntrack_state_name(conn->state),
			(unsigned long long)conn->due_ns);
	void *user = conntrack_user(judge->tracker, found);
	check_mark(judge, &judge->places[found], user);
	memcpy(user, &conn->id, sizeof(conn->id));
}

static void judge_packet(
	struct conntrack_judge *judge, const struct base_packet *packet, struct room *room)
{
	judge->verdict.packets++;
	if (packet->conn == BASE_CONN_NONE) {
		judge_none(judge, packet, room);
	} else if ((packet->conn_flags & BASE_CONN_NEW) != 0) {
		judge_new(judge, packet);
		room->live++;
		room->half_open++; /* if it is; never too few */
	} else {
		judge_hit(judge, packet);
	}
}

void conntrack_judge_process(struct conntrack_judge *judge, struct base_burst *burst)
{
	struct conntrack_stats before, after;
	bool judged[BASE_BURST_MAX];
	for (unsigned int i = 0; i < burst->count; i++)
		judged[i] = burst->packets[i]->drop_reason == BASE_DROP_NONE;
	conntrack_stats(judge->tracker, &before);
	conntrack_process_burst(judge->tracker, burst);
	conntrack_stats(judge->tracker, &after);

	struct room room = { .live = before.live, .half_open = before.half_open };
	for (unsigned int i = 0; i < burst->count; i++) {
		if (judged[i])
			judge_packet(judge, burst->packets[i], &room);
	}
	if (room.refused != after.insert_failures - before.insert_failures)
		fail(judge, CONNTRACK_FAILURE_LEFT_OVER,
			"%llu insertions were refused, %llu counted",
			(unsigned long long)room.refused,
			(unsigned long long)(after.insert_failures - before.insert_failures));
	/* What the burst removed is told now, while it is known which burst it was. */
	conntrack_advance(judge->tracker, judge->horizon_ns, 0);
	check_evictions(judge, before.evicted);
	for (unsigned int i = 0; i < burst->count; i++) {
		if (judged[i])
			judge_entry(judge, burst->packets[i]);
	}
}

/* ---- time ---- */

static void sample(struct conntrack_judge *judge)
{
	struct conntrack_verdict *verdict = &judge->verdict;
	if (judge->advances++ < judge->next_sample)
		return;
	uint64_t resident = judge->oracle.count;
	uint64_t dead = count_due(&judge->oracle, 0, judge->horizon_ns);
	verdict->samples++;
	verdict->resident_sum += resident;
	verdict->live_sum += resident - dead;
	if (resident > verdict->resident_max)
		verdict->resident_max = resident;
	if (resident - dead > verdict->live_max)
		verdict->live_max = resident - dead;
	judge->next_sample = judge->advances + dead / SAMPLE_COST;
}

static void check_slack(struct conntrack_judge *judge)
{
	uint64_t slack_ns = conntrack_slack_ns(judge->tracker);
	const struct conntrack_oracle_conn *first = conntrack_oracle_first(&judge->oracle);
	if (first == NULL || slack_ns > judge->horizon_ns ||
		first->due_ns >= judge->horizon_ns - slack_ns)
		return;
	fail(judge, CONNTRACK_FAILURE_PAST_SLACK,
		"connection %llu was due %llu ns ago, slack is %llu ns",
		(unsigned long long)first->id,
		(unsigned long long)(judge->horizon_ns - first->due_ns),
		(unsigned long long)slack_ns);
}

void conntrack_judge_advance(
	struct conntrack_judge *judge, uint64_t horizon_ns, unsigned int budget)
{
	struct conntrack_stats before;
	conntrack_stats(judge->tracker, &before);
	if (horizon_ns > judge->horizon_ns)
		judge->horizon_ns = horizon_ns;
	conntrack_advance(judge->tracker, horizon_ns, budget);
	check_evictions(judge, before.evicted);
	check_slack(judge);
	sample(judge);
}

/* Due times end here; UINT64_MAX are left out. */
static uint64_t last_due_ns(const struct conntrack_oracle *oracle)
{
	uint64_t last_ns = 0;
	for (size_t i = 0; i < oracle->count; i++) {
		if (oracle->heap[i]->due_ns != UINT64_MAX && oracle->heap[i]->due_ns > last_ns)
			last_ns = oracle->heap[i]->due_ns;
	}
	return last_ns;
}

static void drain_by_maintenance(struct conntrack_judge *judge, uint64_t last_ns)
{
	uint64_t start_ns = judge->horizon_ns;
	uint64_t step_ns = (last_ns > start_ns ? last_ns - start_ns : 0) / 64 + DRAIN_STEP_NS_MIN;
	for (unsigned int i = 0; i < DRAIN_STEPS && !judge->verdict.drained; i++) {
		conntrack_judge_advance(judge, judge->horizon_ns + step_ns, UINT32_MAX);
		judge->verdict.drained = last_due_ns(&judge->oracle) == 0;
		step_ns += step_ns / 1024;
	}
	if (!judge->verdict.drained)
		fail(judge, CONNTRACK_FAILURE_LEFT_OVER,
			"connections are left %llu ns after the last was due",
			(unsigned long long)(judge->horizon_ns - last_ns));
	else if (judge->horizon_ns > last_ns)
		judge->verdict.drained_ns = judge->horizon_ns - last_ns;
}

void conntrack_judge_drain(struct conntrack_judge *judge)
{
	struct conntrack_stats stats;
	char message[200];
	uint64_t last_ns = last_due_ns(&judge->oracle);
	if (conntrack_slack_ns(judge->tracker) != UINT64_MAX && last_ns != 0)
		drain_by_maintenance(judge, last_ns);
	judge->finishing = true;
	if (last_ns > judge->horizon_ns)
		judge->horizon_ns = last_ns;
	conntrack_finish(judge->tracker, judge->horizon_ns);
	conntrack_stats(judge->tracker, &stats);
	if (last_due_ns(&judge->oracle) != 0 || stats.live != judge->oracle.count)
		fail(judge, CONNTRACK_FAILURE_LEFT_OVER,
			"%llu connections are left after the end, expected %zu",
			(unsigned long long)stats.live, judge->oracle.count);
	if (conntrack_check(judge->tracker, message, sizeof(message)) != 0)
		fail(judge, CONNTRACK_FAILURE_LEFT_OVER, "%s", message);
}

/* ---- life ---- */

int conntrack_judge_create(struct conntrack_judge **out, const struct conntrack_config *config)
{
	struct conntrack_config own = *config;
	struct conntrack_judge *judge = calloc(1, sizeof(*judge));
	if (judge == NULL)
		return -ENOMEM;
	if (own.user_bytes < sizeof(uint64_t))
		own.user_bytes = sizeof(uint64_t);
	own.on_remove = on_remove;
	own.on_remove_context = judge;
	int error = conntrack_create(&judge->tracker, &own);
	if (error != 0) {
		free(judge);
		return error;
	}
	conntrack_oracle_init(&judge->oracle, &own);
	base_histogram_reset(&judge->verdict.late);
	judge->stale_hits = own.deletion != NULL && own.deletion->stale_hits;
	judge->may_evict = (own.deletion != NULL && own.deletion->evicts) ||
			   own.full_policy == CONNTRACK_FULL_EVICT_TRANSIENT;
	*out = judge;
	return 0;
}

void conntrack_judge_destroy(struct conntrack_judge *judge)
{
	if (judge == NULL)
		return;
	judge->finishing = true;
	conntrack_destroy(judge->tracker);
	conntrack_oracle_release(&judge->oracle);
	free(judge->places);
	free(judge);
}

struct conntrack *conntrack_judge_tracker(const struct conntrack_judge *judge)
{
	return judge->tracker;
}

const struct conntrack_verdict *conntrack_judge_verdict(const struct conntrack_judge *judge)
{
	return &judge->verdict;
}
