/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/large_frames.h"

enum { PLACES = 5 };

static void places_are_taken_apart_and_found_again(void **)
{
	struct large_frames frames;
	struct base_packet packets[PLACES + 1], *given[PLACES + 1];
	uint8_t elsewhere[64];
	assert_int_equal(large_frames_create(&frames, PLACES), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < PLACES; i++) {
			uint8_t *data = large_frames_take(&frames);
			assert_non_null(data);
			/* A write to all of it hurts no neighbour. */
			memset(data, i + 1, SOURCE_FRAME_ROOM_MAX);
			packets[i].data = data;
			given[i] = &packets[i];
		}
		assert_null(large_frames_take(&frames));
		for (int i = 0; i < PLACES; i++) {
			assert_int_equal(packets[i].data[0], i + 1);
			assert_int_equal(packets[i].data[SOURCE_FRAME_ROOM_MAX - 1], i + 1);
		}
		packets[PLACES].data = elsewhere; /* a usual packet among them */
		given[PLACES] = &packets[PLACES];
		large_frames_give(&frames, given + 2, PLACES - 1);
		assert_int_equal(frames.free_count, PLACES - 2);
		/* A stage may have moved the start of the frame. */
		packets[0].data += 1000;
		large_frames_give(&frames, given, 2);
		assert_int_equal(frames.free_count, PLACES);
		/* Nothing is out: nothing to look for. */
		large_frames_give(&frames, given + PLACES, 1);
		assert_int_equal(frames.free_count, PLACES);
	}
	large_frames_destroy(&frames);
	large_frames_destroy(&frames); /* zeros */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_taken_apart_and_found_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
