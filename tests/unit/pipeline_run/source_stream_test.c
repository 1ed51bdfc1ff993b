/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader and the sources of its workers, polled from here: the same packets as trace sources of
 * the same capture give, bursts whole whatever the chunks, and under the wall clock no worker's
 * time that waits for another worker.
 */
#include "tests/unit/pipeline_run/test.h"

#include "pipeline/eal.h"
#include "pipeline/source.h"
#include "tests/support/packets.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { PACKETS = 30000, RARE = 1000, BURST = 32 };

struct fixture {
	struct pipeline_config config;
	const char *paths[1];
	char path[32];
	struct reader *reader;
	struct source *sources[2];
	atomic_bool stop;
	char message[PIPELINE_MESSAGE_SIZE];
};

/* One flow, but for every RARE-th packet: that is of a flow of the other worker's. A microsecond
 * apart. */
static void write_capture(struct fixture *fixture, uint32_t rare_client)
{
	struct traces_writer *writer;
	uint8_t frame[256];
	assert_int_equal(traces_writer_create(&writer, fixture->path, TRACES_FORMAT_PCAP_NS, 0), 0);
	for (uint32_t i = 0; i < PACKETS; i++) {
		struct packets_spec spec = packets_ip4(BASE_PROTOCOL_UDP,
			i % RARE == RARE - 1 ? rare_client : 0x0b000000, 1000, 0x0a000001, 53);
		size_t length = packets_build(frame, sizeof(frame), &spec);
		assert_int_equal(
			traces_writer_write(writer, 5000 + i * UINT64_C(1000), BASE_LINK_ETHERNET,
				frame, (uint32_t)length, (uint32_t)length),
			0);
	}
	assert_int_equal(traces_writer_close(writer), 0);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	int fd;
	pipeline_config_defaults(&fixture->config);
	snprintf(fixture->path, sizeof(fixture->path), "stream-XXXXXX");
	if ((fd = mkstemp(fixture->path)) < 0)
		return -1;
	close(fd);
	fixture->paths[0] = fixture->path;
	fixture->config.paths = fixture->paths;
	fixture->config.paths_count = 1;
	fixture->config.rx_ring = 64;
	*state = fixture;
	write_capture(fixture, 0x0b000001);
	return 0;
}

static void stop_reader(struct fixture *fixture)
{
	for (int i = 0; i < 2; i++) {
		if (fixture->sources[i] != NULL)
			fixture->sources[i]->ops->destroy(fixture->sources[i]);
		fixture->sources[i] = NULL;
	}
	if (fixture->reader != NULL)
		reader_stop(fixture->reader, fixture->message);
	reader_destroy(fixture->reader);
	fixture->reader = NULL;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	stop_reader(fixture);
	unlink(fixture->path);
	free(fixture);
	return 0;
}

static void start(struct fixture *fixture)
{
	assert_int_equal(
		reader_create(&fixture->reader, &fixture->config, &fixture->stop, fixture->message),
		PIPELINE_EXIT_OK);
	assert_int_equal(reader_plan(fixture->reader)->epoch_ns, 5000);
	for (unsigned int i = 0; i < fixture->config.workers; i++)
		assert_int_equal(source_stream_create(&fixture->sources[i], &fixture->config,
					 fixture->reader, i, 4 * BURST),
			0);
	assert_int_equal(reader_start(fixture->reader), 0);
	reader_wait_until_ahead(fixture->reader);
}

static void pause_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* Poll until there are packets, the source is done, or (wall clock) nothing is due. */
static unsigned int take(struct source *source, uint64_t limit_ns, uint64_t *last_ns)
{
	struct base_packet *packets[BURST];
	unsigned int count;
	do {
		count = source->ops->poll(source, limit_ns, packets, BURST);
		if (source->starved)
			pause_us(50);
	} while (count == 0 && !source->done && limit_ns == UINT64_MAX);
	for (unsigned int i = 0; i < count; i++) {
		assert_true(packets[i]->time_ns >= *last_ns);
		*last_ns = packets[i]->time_ns;
	}
	source->ops->give_back(source, packets, count);
	return count;
}

static void bursts_are_whole_wherever_chunks_end(void **state)
{
	struct fixture *fixture = *state;
	uint64_t last_ns = 0, packets = 0;
	start(fixture);
	while (!fixture->sources[0]->done) {
		unsigned int count = take(fixture->sources[0], UINT64_MAX, &last_ns);
		packets += count;
		if (packets < PACKETS && count != 0)
			assert_int_equal(count, BURST);
	}
	assert_int_equal(packets, PACKETS);
	assert_int_equal(last_ns, (PACKETS - 1) * UINT64_C(1000));
	assert_int_equal(fixture->sources[0]->end_ns, last_ns);
	assert_false(fixture->sources[0]->failed);
	assert_int_equal(reader_stop(fixture->reader, fixture->message), PIPELINE_EXIT_OK);
	assert_int_equal(reader_plan(fixture->reader)->packets, PACKETS);
	assert_int_equal(reader_plan(fixture->reader)->flows, 2);
}

/* Find a client whose flow goes to another worker than 0x0b000000's; returns that worker. */
static unsigned int find_rare(struct fixture *fixture)
{
	fixture->config.workers = 2;
	for (uint32_t client = 0x0b000001;; client++) {
		uint64_t last_ns = 0, packets = 0;
		write_capture(fixture, client);
		start(fixture); /* all of it fits the chunks */
		while (!fixture->sources[0]->done)
			packets += take(fixture->sources[0], UINT64_MAX, &last_ns);
		stop_reader(fixture);
		if (packets == PACKETS / RARE)
			return 0;
		if (packets == PACKETS - PACKETS / RARE)
			return 1;
	}
}

static void a_worker_without_packets_learns_how_far_time_has_come(void **state)
{
	struct fixture *fixture = *state;
	unsigned int rare = find_rare(fixture);
	fixture->config.clock = PIPELINE_CLOCK_WALL;
	fixture->config.loops = 10; /* more than the other's chunks hold */
	start(fixture);
	struct source *source = fixture->sources[rare];
	uint64_t last_ns = 0, packets = 0;
	/* The other worker does not move: the reader stands before its full ring. */
	for (int i = 0; i < 200; i++) {
		packets += take(source, UINT64_C(1000000000), &last_ns);
		pause_us(100);
	}
	assert_true(packets > 0);
	assert_true(source->starved && !source->done);
	assert_true(source->reached_ns >= last_ns);
	/* The reader has met no packet of this one's since, so time went on without any. */
	assert_true(source->reached_ns > last_ns);
	assert_true(source->reached_ns < last_ns + RARE * UINT64_C(1000));
	/* It goes on where it stood: what comes is not earlier. */
	uint64_t reached_ns = source->reached_ns;
	uint64_t other_ns = 0;
	while (packets < 10 * PACKETS / RARE) {
		take(fixture->sources[1 - rare], UINT64_C(1000000000), &other_ns);
		unsigned int count = take(source, UINT64_C(1000000000), &last_ns);
		assert_true(count == 0 || last_ns >= reached_ns);
		packets += count;
	}
	assert_int_equal(packets, 10 * PACKETS / RARE);
}

static void a_stop_ends_a_reader_before_a_full_ring(void **state)
{
	struct fixture *fixture = *state;
	fixture->config.loops = 1000;
	start(fixture);
	atomic_store(&fixture->stop, true);
	assert_int_equal(reader_stop(fixture->reader, fixture->message), PIPELINE_EXIT_INTERRUPTED);
	assert_false(fixture->sources[0]->done);
	stop_reader(fixture);
	/* and without the user's wish, when the workers are gone */
	atomic_store(&fixture->stop, false);
	start(fixture);
	assert_int_equal(reader_stop(fixture->reader, fixture->message), PIPELINE_EXIT_INTERRUPTED);
	/* one that was never started is only destroyed */
	stop_reader(fixture);
	assert_int_equal(
		reader_create(&fixture->reader, &fixture->config, &fixture->stop, fixture->message),
		PIPELINE_EXIT_OK);
}

int main(void)
{
	char message[PIPELINE_MESSAGE_SIZE];
	bool huge;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			bursts_are_whole_wherever_chunks_end, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_worker_without_packets_learns_how_far_time_has_come, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_stop_ends_a_reader_before_a_full_ring, setup, teardown),
	};
	const struct pipeline_eal_need need = { 64 << 20, 64 << 20 };
	if (pipeline_eal_start(&need, true, NULL, 0, &huge, message) != 0) {
		print_message("skipped: %s\n", message);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
