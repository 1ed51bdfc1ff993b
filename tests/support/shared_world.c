/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/shared_world.h"

#include "base/base.h"
#include "base/burst.h"
#include "base/rng.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_LEAST = 60, LENGTHS = 1000, AHEAD_BURSTS = 4, LOOKS = 2 };

/* ---- packets --------------------------------------------------------------------------------- */

uint32_t shared_world_length(const struct base_flow_key *key)
{
	return LENGTH_LEAST + key->port[0] % LENGTHS;
}

static void make_packet(struct base_packet *packet, uint32_t flow, unsigned int number,
	unsigned int last, uint64_t time_ns)
{
	static const struct base_hash_config hash = { .kind = BASE_HASH_CRC32C };
	base_packet_reset(packet);
	memset(&packet->key, 0, sizeof(packet->key));
	memcpy(packet->key.address[0], &flow, sizeof(flow));
	packet->key.address[1][0] = 10;
	packet->key.port[0] = (uint16_t)(flow * 7);
	packet->key.port[1] = 443;
	packet->key.protocol = BASE_PROTOCOL_TCP;
	packet->key.family = 4;
	packet->hash = base_flow_key_hash(&packet->key, &hash);
	packet->flags = BASE_PACKET_FLOW | (number % 3 == 1 ? BASE_PACKET_REVERSED : 0);
	packet->protocol = BASE_PROTOCOL_TCP;
	packet->tcp_flags = number + 2 >= last && flow % 2 == 0 ? BASE_TCP_FIN : BASE_TCP_ACK;
	packet->wire_len = shared_world_length(&packet->key);
	packet->time_ns = time_ns;
}

static int by_time(const void *a, const void *b)
{
	const struct base_packet *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Moves at random moments, in order, each of a random bucket to a random worker. */
static void steer(struct shared_world *world, const struct shared_world_options *options,
	struct base_rng *rng)
{
	uint8_t owners[CONNTRACK_SHARED_BUCKETS];
	unsigned int next = 0;
	for (unsigned int m = 0; m < world->moves_count; m++)
		world->moves[m] = (struct shared_world_move){
			.at = world->count * m / world->moves_count +
			      base_rng_below(rng, world->count / world->moves_count),
			.bucket = (uint32_t)base_rng_below(rng, CONNTRACK_SHARED_BUCKETS),
			.to = (uint8_t)base_rng_below(rng, options->workers),
		};
	for (uint32_t b = 0; b < CONNTRACK_SHARED_BUCKETS; b++)
		owners[b] = (uint8_t)conntrack_shared_first_owner(b, options->workers);
	for (uint64_t i = 0; i < world->count; i++) {
		for (; next < world->moves_count && world->moves[next].at == i; next++) {
			struct shared_world_move *move = &world->moves[next];
			move->from = owners[move->bucket];
			owners[move->bucket] = move->to;
		}
		world->worker_of[i] =
			options->spread ? (uint8_t)base_rng_below(rng, options->workers)
					: owners[conntrack_shared_bucket(world->packets[i].hash)];
	}
}

void shared_world_create(struct shared_world *world, const struct shared_world_options *options)
{
	unsigned int each = options->packets_per_flow;
	uint64_t span_ns = options->flows * options->step_ns;
	unsigned int resident_packets =
		(unsigned int)(options->flows + each + options->gap_ns / options->step_ns + 1);
	struct base_rng rng;
	memset(world, 0, sizeof(*world));
	world->workers = options->workers;
	world->seed = options->seed;
	uint64_t most = (uint64_t)options->flows * each +
			(uint64_t)options->resident * (resident_packets + 1);
	world->packets = aligned_alloc(BASE_CACHE_LINE, most * sizeof(*world->packets));
	world->worker_of = malloc(most);
	BASE_ASSERT(world->packets != NULL && world->worker_of != NULL);
	base_rng_seed(&rng, options->seed);
	for (uint32_t flow = 0; flow < options->resident; flow++)
		for (unsigned int k = 0; k <= resident_packets; k++)
			make_packet(&world->packets[world->count++], flow, k, UINT32_MAX,
				options->step_ns * (k + 1));
	for (uint32_t flow = 0; flow < options->flows; flow++) {
		uint64_t time_ns = options->step_ns + base_rng_below(&rng, span_ns);
		for (unsigned int k = 0; k < each; k++) {
			make_packet(&world->packets[world->count++], options->resident + flow, k,
				each, time_ns);
			time_ns += options->step_ns;
			if (k == each / 2 && flow % 4 == 0)
				time_ns += options->gap_ns;
		}
	}
	qsort(world->packets, world->count, sizeof(*world->packets), by_time);
	world->moves_count = options->moves;
	world->moves = calloc(options->moves + 1, sizeof(*world->moves));
	BASE_ASSERT(world->moves != NULL);
	steer(world, options, &rng);
}

void shared_world_destroy(struct shared_world *world)
{
	free(world->packets);
	free(world->worker_of);
	free(world->moves);
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct run {
	const struct shared_world *world;
	struct conntrack_shared *shared;
	unsigned int burst;
	/* Packets of the world that each worker has passed: stored and loaded relaxed, to keep them
	 * near each other. */
	atomic_uint_least64_t passed[CONNTRACK_SHARED_WORKERS_MAX];
};

struct thread {
	struct run *run;
	unsigned int worker;
	pthread_t thread;
};

/* Whether some worker is far behind position `at`. */
static bool is_ahead(const struct run *run, uint64_t at)
{
	uint64_t room = (uint64_t)AHEAD_BURSTS * run->burst * run->world->workers;
	for (unsigned int i = 0; i < run->world->workers; i++) {
		if (atomic_load_explicit(&run->passed[i], memory_order_relaxed) + room < at)
			return true;
	}
	return false;
}

static void work(struct run *run, unsigned int worker, struct base_packet *const *burst,
	unsigned int count, uint64_t at)
{
	/* Said before waiting: whoever is last does not wait. */
	atomic_store_explicit(&run->passed[worker], at, memory_order_relaxed);
	while (is_ahead(run, at))
		sched_yield();
	conntrack_shared_process(run->shared, worker, burst, count);
	conntrack_shared_advance(run->shared, worker, burst[count - 1]->time_ns, LOOKS * count);
	atomic_store_explicit(&run->passed[worker], at, memory_order_relaxed);
}

static void *worker_thread(void *context)
{
	struct thread *thread = context;
	struct run *run = thread->run;
	const struct shared_world *world = run->world;
	struct base_packet *burst[BASE_BURST_MAX];
	unsigned int count = 0, next = 0;
	conntrack_shared_begin(run->shared, thread->worker);
	for (uint64_t i = 0; i < world->count; i++) {
		for (; next < world->moves_count && world->moves[next].at == i; next++) {
			if (world->moves[next].from != thread->worker)
				continue;
			if (count != 0)
				work(run, thread->worker, burst, count, i);
			count = 0;
			atomic_store_explicit(
				&run->passed[thread->worker], i, memory_order_relaxed);
			conntrack_shared_give(run->shared, thread->worker,
				world->moves[next].bucket, world->moves[next].to);
		}
		if (world->worker_of[i] == thread->worker)
			burst[count++] = &world->packets[i];
		if (count == run->burst) {
			work(run, thread->worker, burst, count, i);
			count = 0;
		}
	}
	atomic_store_explicit(&run->passed[thread->worker], UINT64_MAX / 2, memory_order_relaxed);
	if (count != 0)
		conntrack_shared_process(run->shared, thread->worker, burst, count);
	conntrack_shared_end(run->shared, thread->worker);
	return NULL;
}

struct conntrack_shared_stats shared_world_run(const struct shared_world *world,
	struct conntrack_shared *shared, unsigned int burst, atomic_bool *stopped)
{
	struct run run = { .world = world, .shared = shared, .burst = burst };
	struct thread threads[CONNTRACK_SHARED_WORKERS_MAX];
	struct conntrack_shared_stats stats;
	char message[CONNTRACK_SHARED_MESSAGE_SIZE];
	for (unsigned int i = 0; i < world->workers; i++) {
		threads[i] = (struct thread){ .run = &run, .worker = i };
		BASE_ASSERT(
			pthread_create(&threads[i].thread, NULL, worker_thread, &threads[i]) == 0);
	}
	for (unsigned int i = 0; i < world->workers; i++)
		pthread_join(threads[i].thread, NULL);
	if (stopped != NULL)
		atomic_store_explicit(stopped, true, memory_order_relaxed);
	for (unsigned int pass = 0; pass < 2; pass++) {
		if (conntrack_shared_check(shared, message) != 0) {
			fprintf(stderr, "seed %llu: %s\n", (unsigned long long)world->seed,
				message);
			abort();
		}
		conntrack_shared_finish(shared, UINT64_MAX);
	}
	conntrack_shared_stats(shared, &stats);
	return stats;
}
