/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A producer and a consumer of one ring of chunks, at full speed and at every relation of speeds:
 * nothing is lost, doubled, reordered or torn, and the end is found. Meant for ThreadSanitizer;
 * passes without it too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "pipeline/chunk_ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum { PACKETS = 300000, FRAME_MAX = 300 };

struct pair {
	struct chunk_ring ring;
	uint64_t seed;
	unsigned int producer_rest; /* one pause in so many chunks; 0: none */
	unsigned int consumer_rest;
	const char *said; /* by the producer before the end, read by the consumer behind it */
};

static void rest(struct base_rng *rng, unsigned int one_in)
{
	if (one_in != 0 && base_rng_below(rng, one_in) == 0) {
		const struct timespec pause = { .tv_nsec = 20000 };
		nanosleep(&pause, NULL);
	}
}

/* Packets of random length, filled with the low byte of their number, in chunks of random size. */
static void *produce(void *context)
{
	struct pair *pair = context;
	struct base_rng rng;
	uint8_t frame[FRAME_MAX];
	struct chunk *chunk = NULL;
	base_rng_seed(&rng, pair->seed);
	for (uint64_t i = 0; i < PACKETS; i++) {
		uint32_t length = (uint32_t)base_rng_below(&rng, FRAME_MAX);
		memset(frame, (int)(i & 0xff), length);
		if (chunk != NULL &&
			(!chunk_has_room(chunk, length) || base_rng_below(&rng, 500) == 0)) {
			chunk_ring_publish(&pair->ring);
			chunk = NULL;
			rest(&rng, pair->producer_rest);
		}
		while (chunk == NULL && (chunk = chunk_ring_open(&pair->ring)) == NULL)
			sched_yield();
		chunk_add(chunk, &(struct chunk_packet){ .time_ns = i, .cap_len = length }, frame);
	}
	bool one_more = pair->seed % 2 == 0; /* else the end comes alone */
	if (!one_more)
		chunk_ring_publish(&pair->ring);
	pair->said = "done";
	chunk_ring_finish(&pair->ring, one_more);
	return NULL;
}

static void check_chunk(const struct chunk *chunk, uint64_t *next)
{
	for (uint32_t i = 0; i < chunk->count; i++, (*next)++) {
		const struct chunk_packet *packet = &chunk->packets[i];
		if (packet->time_ns != *next)
			fail_msg("packet %llu where %llu should be",
				(unsigned long long)packet->time_ns, (unsigned long long)*next);
		for (uint32_t k = 0; k < packet->cap_len; k++)
			if (chunk->bytes[packet->offset + k] != (uint8_t)*next)
				fail_msg("packet %llu is torn", (unsigned long long)*next);
	}
}

static void run(uint64_t seed, unsigned int producer_rest, unsigned int consumer_rest)
{
	struct pair *pair = aligned_alloc(BASE_CACHE_LINE, sizeof(*pair));
	struct base_rng rng;
	pthread_t thread;
	uint64_t next = 0;
	assert_int_equal(chunk_ring_create(&pair->ring), 0);
	pair->seed = seed;
	pair->producer_rest = producer_rest;
	pair->consumer_rest = consumer_rest;
	pair->said = NULL;
	base_rng_seed(&rng, seed + 1);
	assert_int_equal(pthread_create(&thread, NULL, produce, pair), 0);
	for (;;) {
		const struct chunk *chunk = chunk_ring_front(&pair->ring);
		if (chunk != NULL) {
			check_chunk(chunk, &next);
			chunk_ring_release(&pair->ring);
			rest(&rng, pair->consumer_rest);
		} else if (chunk_ring_is_over(&pair->ring)) {
			break;
		} else {
			sched_yield();
		}
	}
	assert_string_equal(pair->said, "done");
	assert_int_equal(next, PACKETS);
	pthread_join(thread, NULL);
	chunk_ring_destroy(&pair->ring);
	free(pair);
}

static void nothing_is_lost_or_torn_at_any_speed(void **)
{
	static const unsigned int rests[] = { 0, 2, 20 };
	uint64_t seed = (uint64_t)time(NULL);
	print_message("seed %llu\n", (unsigned long long)seed);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(rests); i++)
		for (size_t j = 0; j < BASE_ARRAY_COUNT(rests); j++)
			run(seed + i * 10 + j, rests[i], rests[j]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost_or_torn_at_any_speed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
