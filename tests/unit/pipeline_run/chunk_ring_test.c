/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of chunks, one step at a time; two threads meet in the stress suite. */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/chunk_ring.h"

static int setup(void **state)
{
	struct chunk_ring *ring = aligned_alloc(BASE_CACHE_LINE, sizeof(*ring));
	*state = ring;
	return chunk_ring_create(ring);
}

static int teardown(void **state)
{
	chunk_ring_destroy(*state);
	free(*state);
	return 0;
}

/* One packet of one byte, which is its number. */
static void put(struct chunk_ring *ring, uint8_t number)
{
	struct chunk *chunk = chunk_ring_open(ring);
	assert_non_null(chunk);
	assert_int_equal(chunk->count, 0);
	chunk_add(chunk, &(struct chunk_packet){ .time_ns = number, .cap_len = 1 }, &number);
	chunk_ring_publish(ring);
}

static void take(struct chunk_ring *ring, uint8_t number)
{
	const struct chunk *chunk = chunk_ring_front(ring);
	assert_non_null(chunk);
	assert_ptr_equal(chunk_ring_front(ring), chunk);
	assert_int_equal(chunk->count, 1);
	assert_int_equal(chunk->packets[0].time_ns, number);
	assert_int_equal(chunk->bytes[chunk->packets[0].offset], number);
	chunk_ring_release(ring);
}

static void chunks_come_in_order_and_go_round(void **state)
{
	struct chunk_ring *ring = *state;
	for (unsigned int fill = 1; fill <= CHUNK_RING_SLOTS; fill++) {
		for (unsigned int round = 0; round < 5; round++) {
			for (unsigned int i = 0; i < fill; i++)
				put(ring, (uint8_t)(round * 10 + i));
			for (unsigned int i = 0; i < fill; i++)
				take(ring, (uint8_t)(round * 10 + i));
			assert_null(chunk_ring_front(ring));
		}
	}
}

static void a_full_ring_opens_again_when_a_chunk_is_released(void **state)
{
	struct chunk_ring *ring = *state;
	for (unsigned int i = 0; i < CHUNK_RING_SLOTS; i++)
		put(ring, (uint8_t)i);
	assert_null(chunk_ring_open(ring));
	assert_non_null(chunk_ring_front(ring)); /* looking at it does not free it */
	assert_null(chunk_ring_open(ring));
	take(ring, 0);
	put(ring, CHUNK_RING_SLOTS);
	assert_null(chunk_ring_open(ring));
	for (unsigned int i = 1; i <= CHUNK_RING_SLOTS; i++)
		take(ring, (uint8_t)i);
}

static void an_open_chunk_is_not_seen_before_it_is_published(void **state)
{
	struct chunk_ring *ring = *state;
	assert_true(chunk_ring_is_hungry(ring));
	struct chunk *chunk = chunk_ring_open(ring);
	chunk_add(chunk, &(struct chunk_packet){ .cap_len = 1 }, (const uint8_t *)"x");
	assert_null(chunk_ring_front(ring));
	assert_true(chunk_ring_is_hungry(ring));
	chunk_ring_publish(ring);
	assert_false(chunk_ring_is_hungry(ring));
	assert_non_null(chunk_ring_front(ring));
	assert_false(chunk_ring_is_hungry(ring));
	chunk_ring_release(ring);
	assert_true(chunk_ring_is_hungry(ring));
}

static void the_end_is_known_behind_the_last_chunk(void **state)
{
	struct chunk_ring *ring = *state;
	put(ring, 1);
	assert_false(chunk_ring_is_over(ring));
	struct chunk *chunk = chunk_ring_open(ring);
	chunk_add(
		chunk, &(struct chunk_packet){ .time_ns = 2, .cap_len = 1 }, (const uint8_t *)"\2");
	chunk_ring_finish(ring, true);
	take(ring, 1);
	assert_false(chunk_ring_is_over(ring));
	take(ring, 2);
	assert_true(chunk_ring_is_over(ring));
	assert_null(chunk_ring_front(ring));
}

static void an_end_without_packets_is_one(void **state)
{
	struct chunk_ring *ring = *state;
	assert_false(chunk_ring_is_over(ring));
	chunk_ring_finish(ring, false);
	assert_true(chunk_ring_is_over(ring));
	assert_null(chunk_ring_front(ring));
}

static void a_chunk_takes_what_fits_and_cuts_what_no_buffer_holds(void **state)
{
	struct chunk_ring *ring = *state;
	static uint8_t frame[CHUNK_FRAME_MAX + 100];
	struct chunk *chunk = chunk_ring_open(ring);
	uint32_t packets = 0;
	for (; chunk_has_room(chunk, sizeof(frame)); packets++) {
		memset(frame, (int)packets + 1, sizeof(frame));
		chunk_add(chunk, &(struct chunk_packet){ .cap_len = sizeof(frame) }, frame);
	}
	assert_int_equal(packets, CHUNK_BYTES / CHUNK_FRAME_MAX);
	assert_int_equal(chunk->bytes_used, packets * CHUNK_FRAME_MAX);
	uint32_t rest = CHUNK_BYTES - chunk->bytes_used;
	assert_true(chunk_has_room(chunk, rest));
	assert_false(chunk_has_room(chunk, rest + 1));
	for (uint32_t i = 0; i < packets; i++) {
		const struct chunk_packet *packet = &chunk->packets[i];
		assert_int_equal(packet->cap_len, sizeof(frame)); /* told in full */
		assert_int_equal(chunk->bytes[packet->offset], i + 1);
		assert_int_equal(chunk->bytes[packet->offset + CHUNK_FRAME_MAX - 1], i + 1);
	}
}

static void a_chunk_takes_so_many_packets_however_small(void **state)
{
	struct chunk_ring *ring = *state;
	struct chunk *chunk = chunk_ring_open(ring);
	uint32_t packets = 0;
	for (; chunk_has_room(chunk, 0); packets++)
		chunk_add(chunk, &(struct chunk_packet){ .time_ns = packets }, (const uint8_t *)"");
	assert_int_equal(packets, CHUNK_PACKETS);
	assert_int_equal(chunk->bytes_used, 0);
	assert_int_equal(chunk->packets[CHUNK_PACKETS - 1].time_ns, CHUNK_PACKETS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chunks_come_in_order_and_go_round, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_full_ring_opens_again_when_a_chunk_is_released, setup, teardown),
		cmocka_unit_test_setup_teardown(
			an_open_chunk_is_not_seen_before_it_is_published, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_end_is_known_behind_the_last_chunk, setup, teardown),
		cmocka_unit_test_setup_teardown(an_end_without_packets_is_one, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_chunk_takes_what_fits_and_cuts_what_no_buffer_holds, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_chunk_takes_so_many_packets_however_small, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
