/* SPDX-License-Identifier: BSD-2-Clause */
/* One pass: a thread per worker, and one that dumps. */
#include "base/cycles.h"
#include "base/burst.h"
#include "pipeline/bench_clock.h"
#include "pipeline/bench_sharing_private.h"
#include "pipeline/worker_threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	STOP_CHECK_BURSTS = 256,
	DUMP_SLICE = 1024, /* places between looks at the time */
	DUMP_PAUSE_NS = 20000,
	PREFETCH_PACKETS = 64, /* records that lie ahead in a worker's list */
};

/* What the threads of a pass share. */
struct crew {
	const struct bench_sharing *bench;
	struct conntrack_shared *shared;
	const struct bench_sharing_route *route;
	pthread_barrier_t barrier;
	struct bench_sharing_how how;
	/* Said by the workers, relaxed: how many have ended. */
	atomic_uint_least32_t ended;
	/* Main to the others before the barrier: not all threads could be started. */
	bool abandoned;
	pthread_mutex_t gate;
};

struct hand {
	struct crew *crew;
	uint32_t index, next_move;
	pthread_t thread;
	uint64_t packets, start_cycles, end_cycles, cpu_ns;
	struct counters counters;
	struct counters_sum counted;
	bool interrupted;
	/* the dumper's */
	uint64_t views;
	bool whole;
};

/* ---- workers --------------------------------------------------------------------------------- */

static bool stopped(const struct bench_sharing *bench)
{
	/* no partner: a hint */
	return bench->stop != NULL && atomic_load_explicit(bench->stop, memory_order_relaxed);
}

/* Hands over what is due at this position; how many packets may be taken before the next. */
static uint64_t move_buckets(struct hand *hand, uint64_t at)
{
	const struct bench_sharing_route *route = hand->crew->route;
	for (; hand->next_move < route->moves_count; hand->next_move++) {
		const struct bench_sharing_move *move = &route->moves[hand->next_move];
		if (move->from != hand->index)
			continue;
		if (move->at > at)
			return move->at - at;
		conntrack_shared_give(hand->crew->shared, hand->index, move->bucket, move->to);
	}
	return UINT64_MAX;
}

static void work(struct hand *hand)
{
	struct crew *crew = hand->crew;
	const struct bench_sharing *bench = crew->bench;
	const struct bench_sharing_route *route = crew->route;
	struct base_packet *const *list = bench->list + route->first[hand->index];
	uint64_t count = route->first[hand->index + 1] - route->first[hand->index];
	uint64_t taken = 0;
	for (uint64_t at = 0, bursts = 0; at < count; at += taken, bursts++) {
		uint64_t most = move_buckets(hand, at);
		taken = count - at < bench->options->burst ? count - at : bench->options->burst;
		taken = taken < most ? taken : most;
		for (uint64_t i = at + taken; i < at + taken + PREFETCH_PACKETS && i < count; i++) {
			BASE_PREFETCH_W(list[i]);
			BASE_PREFETCH(&list[i]->key);
		}
		conntrack_shared_process(crew->shared, hand->index, list + at, (unsigned int)taken);
		conntrack_shared_advance(crew->shared, hand->index, list[at + taken - 1]->time_ns,
			(unsigned int)taken);
		/* Who stops hands over all the same: others may wait for it. */
		if (bursts % STOP_CHECK_BURSTS == 0 && stopped(bench)) {
			hand->interrupted = true;
			break;
		}
	}
	move_buckets(hand, UINT64_MAX);
	hand->packets = count;
}

/* Packets of a worker come that much later, or earlier again. */
static void shift_times(const struct hand *hand, uint64_t by_ns)
{
	const struct bench_sharing_route *route = hand->crew->route;
	for (uint64_t i = route->first[hand->index]; i < route->first[hand->index + 1]; i++)
		hand->crew->bench->list[i]->time_ns += by_ns;
}

/* False: the pass does not take place. */
static bool wait_for_all(struct crew *crew)
{
	pthread_mutex_lock(&crew->gate);
	bool abandoned = crew->abandoned;
	pthread_mutex_unlock(&crew->gate);
	if (!abandoned)
		pthread_barrier_wait(&crew->barrier);
	return !abandoned;
}

static void *worker_thread(void *context)
{
	struct hand *hand = context;
	struct crew *crew = hand->crew;
	uint64_t lap_ns = crew->how.warm ? crew->bench->packets.duration_ns + 1 : 0;
	worker_threads_pin(hand->index);
	conntrack_shared_begin(crew->shared, hand->index);
	if (crew->how.warm) {
		work(hand);
		shift_times(hand, lap_ns);
	}
	counters_open(&hand->counters, crew->how.counts ? crew->bench->options->counters : NULL);
	bool takes_place = wait_for_all(crew);
	if (takes_place) {
		counters_begin(&hand->counters);
		hand->start_cycles = base_cycles();
		uint64_t cpu_ns = bench_clock_thread_ns();
		work(hand);
		/* Part of the work: packets may wait for a bucket. */
		conntrack_shared_end(crew->shared, hand->index);
		hand->cpu_ns = bench_clock_thread_ns() - cpu_ns;
		hand->end_cycles = base_cycles();
		counters_end(&hand->counters, &hand->counted, hand->packets);
	}
	counters_close(&hand->counters);
	shift_times(hand, -lap_ns);
	atomic_fetch_add_explicit(&crew->ended, 1, memory_order_relaxed);
	return NULL;
}

/* ---- the dump -------------------------------------------------------------------------------- */

static void count_view(void *context, const struct conntrack_shared_conn *conn)
{
	*(uint64_t *)context += conn->packets != 0;
}

static void *dump_thread(void *context)
{
	const struct timespec pause = { .tv_nsec = DUMP_PAUSE_NS };
	struct hand *hand = context;
	struct crew *crew = hand->crew;
	uint32_t places = conntrack_shared_places(crew->shared);
	worker_threads_pin(hand->index);
	if (!wait_for_all(crew))
		return NULL;
	hand->start_cycles = base_cycles();
	for (uint32_t first = 0; first < places; first += DUMP_SLICE) {
		uint64_t due = (uint64_t)((double)crew->how.dump_cycles * first / places);
		while (base_cycles() - hand->start_cycles < due &&
			atomic_load_explicit(&crew->ended, memory_order_relaxed) == 0)
			nanosleep(&pause, NULL);
		conntrack_shared_dump(crew->shared, first, DUMP_SLICE, count_view, &hand->views);
	}
	hand->whole = atomic_load_explicit(&crew->ended, memory_order_relaxed) == 0;
	hand->end_cycles = base_cycles();
	return NULL;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static int start_all(struct crew *crew, struct hand *hands, uint32_t count, bool dumps)
{
	uint32_t started = 0;
	int error = 0;
	pthread_mutex_lock(&crew->gate);
	while (started < count && error == 0) {
		hands[started].crew = crew;
		hands[started].index = started;
		error = pthread_create(&hands[started].thread, NULL,
			dumps && started + 1 == count ? dump_thread : worker_thread,
			&hands[started]);
		started += error == 0;
	}
	crew->abandoned = error != 0;
	pthread_mutex_unlock(&crew->gate);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(hands[i].thread, NULL);
	return -error;
}

static int run_crew(struct crew *crew, struct hand *hands, uint32_t count, bool dumps)
{
	int error = pthread_barrier_init(&crew->barrier, NULL, count);
	if (error != 0)
		return -error;
	pthread_mutex_init(&crew->gate, NULL);
	error = start_all(crew, hands, count, dumps);
	pthread_mutex_destroy(&crew->gate);
	pthread_barrier_destroy(&crew->barrier);
	if (error != 0)
		snprintf(crew->bench->result->message, BENCH_SHARING_MESSAGE_SIZE,
			"cannot start %u threads: %s", count, strerror(-error));
	for (uint32_t i = 0; i < count && error == 0; i++)
		error = hands[i].interrupted ? -EINTR : 0;
	return error;
}

static void read_times(const struct bench_sharing *bench, const struct hand *hands,
	uint32_t workers, struct bench_sharing_pass *pass)
{
	uint64_t start = UINT64_MAX, end = 0, cpu_ns = 0, packets = 0;
	double slowest = 0, fastest = 0, tsc_hz = bench->result->tsc_hz;
	for (uint32_t i = 0; i < workers; i++) {
		const struct hand *hand = &hands[i];
		double rate =
			(double)hand->packets / (double)(hand->end_cycles - hand->start_cycles + 1);
		start = hand->start_cycles < start ? hand->start_cycles : start;
		end = hand->end_cycles > end ? hand->end_cycles : end;
		cpu_ns += hand->cpu_ns;
		packets += hand->packets;
		counters_add(&pass->counted, &hand->counted);
		slowest = i == 0 || rate < slowest ? rate : slowest;
		fastest = rate > fastest ? rate : fastest;
	}
	pass->wall_cycles = end - start;
	pass->packets_per_s = (double)packets / (double)(end - start + 1) * tsc_hz;
	pass->cycles = (double)cpu_ns * 1e-9 * tsc_hz / (double)packets;
	pass->fairness = fastest > 0 ? slowest / fastest : 0;
}

/* Books, and what one thread would have done. */
static int check_pass(const struct bench_sharing *bench, struct conntrack_shared *shared,
	const struct conntrack_sharing_ops *sharing, uint32_t workers, bool warm,
	struct bench_sharing_pass *pass)
{
	char reason[CONNTRACK_SHARED_MESSAGE_SIZE] = "";
	struct conntrack_shared_stats *stats = &pass->stats;
	int error = conntrack_shared_check(shared, reason);
	conntrack_shared_stats(shared, stats);
	conntrack_shared_finish(shared, UINT64_MAX);
	if (error == 0)
		error = conntrack_shared_check(shared, reason);
	bool refused = stats->refused_pool + stats->refused_bucket != 0;
	if (error == 0 && sharing->moves && stats->backwards != 0) {
		snprintf(reason, sizeof(reason), "%llu packets reordered",
			(unsigned long long)stats->backwards);
		error = -EUCLEAN;
	}
	if (error == 0 && !bench->options->spread && !refused && !warm &&
		bench->expected_connections != 0 &&
		stats->inserted != bench->expected_connections) {
		snprintf(reason, sizeof(reason), "%llu connections inserted, expected %llu",
			(unsigned long long)stats->inserted,
			(unsigned long long)bench->expected_connections);
		error = -EUCLEAN;
	}
	if (error != 0)
		snprintf(bench->result->message, BENCH_SHARING_MESSAGE_SIZE,
			"%s with %u workers: %s", sharing->name, workers, reason);
	return error;
}

static int create_shared(const struct bench_sharing *bench, struct base_arena *arena,
	const struct conntrack_sharing_ops *sharing, uint32_t workers, bool judged,
	struct conntrack_shared **out)
{
	struct conntrack_shared_config config;
	conntrack_shared_config_defaults(&config);
	config.sharing = sharing;
	config.workers = workers;
	config.entries_max = bench->result->conns;
	config.salt = bench->options->seed;
	config.arena = arena;
	for (unsigned int i = 0; i < CONNTRACK_SHARED_TIMEOUTS_COUNT; i++)
		config.timeout_ns[i] = bench->options->timeout_ns;
	if (judged) {
		config.on_remove = conntrack_shared_collect;
		config.on_remove_context = bench->judge;
	}
	return conntrack_shared_create(out, &config);
}

int bench_sharing_pass(struct bench_sharing *bench, const struct conntrack_sharing_ops *sharing,
	uint32_t workers, struct bench_sharing_how how, struct bench_sharing_pass *pass)
{
	struct hand hands[CONNTRACK_SHARED_WORKERS_MAX + 1] = { 0 };
	struct crew crew = {
		.bench = bench, .route = sharing->moves ? &bench->moving : &bench->still, .how = how
	};
	struct base_arena *arena;
	bool dumps = how.dumps;
	memset(pass, 0, sizeof(*pass));
	bench_sharing_route_lay(bench, crew.route);
	int error = base_arena_create(&arena, true);
	if (error != 0)
		return error;
	error = create_shared(bench, arena, sharing, workers, how.judged, &crew.shared);
	if (error == 0) {
		error = run_crew(&crew, hands, workers + dumps, dumps);
		if (error == 0) {
			const struct hand *dumper = &hands[workers];
			read_times(bench, hands, workers, pass);
			pass->dump = (struct bench_sharing_dump){
				.measured = dumps,
				.whole = dumper->whole,
				.places = conntrack_shared_places(crew.shared),
				.views = dumper->views,
				.seconds = (double)(dumper->end_cycles - dumper->start_cycles) /
					   bench->result->tsc_hz,
			};
			error = check_pass(bench, crew.shared, sharing, workers, how.warm, pass);
		}
		conntrack_shared_destroy(crew.shared);
	}
	base_arena_destroy(arena);
	return error;
}
