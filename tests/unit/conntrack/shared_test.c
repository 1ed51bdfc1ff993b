/* SPDX-License-Identifier: BSD-2-Clause */
/* What every sharing model does the same way, by one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "conntrack/shared/core.h"
#include "conntrack/shared_judge.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

struct world {
	struct base_arena *arena;
	struct conntrack_shared *shared;
	unsigned int removed;
	struct conntrack_shared_conn last_removed;
};

static void note_removed(
	void *context, unsigned int worker, const struct conntrack_shared_conn *conn)
{
	struct world *world = context;
	assert_true(worker < 2);
	world->removed++;
	world->last_removed = *conn;
}

static void create(struct world *world, const struct conntrack_sharing_ops *sharing,
	unsigned int workers, uint32_t entries)
{
	struct conntrack_shared_config config;
	memset(world, 0, sizeof(*world));
	assert_int_equal(base_arena_create(&world->arena, false), 0);
	conntrack_shared_config_defaults(&config);
	config.sharing = sharing;
	config.workers = workers;
	config.entries_max = entries;
	config.arena = world->arena;
	config.on_remove = note_removed;
	config.on_remove_context = world;
	assert_int_equal(conntrack_shared_create(&world->shared, &config), 0);
	for (unsigned int i = 0; i < workers; i++)
		conntrack_shared_begin(world->shared, i);
}

static void destroy(struct world *world)
{
	char message[CONNTRACK_SHARED_MESSAGE_SIZE] = "";
	struct conntrack_shared_stats stats;
	int error = conntrack_shared_check(world->shared, message);
	assert_string_equal(message, "");
	assert_int_equal(error, 0);
	conntrack_shared_finish(world->shared, UINT64_MAX);
	assert_int_equal(conntrack_shared_check(world->shared, message), 0);
	conntrack_shared_stats(world->shared, &stats);
	assert_int_equal(stats.live, 0);
	assert_int_equal(stats.inserted, stats.expired);
	assert_int_equal(world->removed, stats.expired);
	conntrack_shared_destroy(world->shared);
	base_arena_destroy(world->arena);
}

static struct base_packet packet_of(uint32_t flow, uint64_t time_ns)
{
	static const struct base_hash_config hash = { .kind = BASE_HASH_CRC32C };
	struct base_packet packet;
	base_packet_reset(&packet);
	memset(&packet.key, 0, sizeof(packet.key));
	memcpy(packet.key.address[0], &flow, sizeof(flow));
	packet.key.family = 4;
	packet.key.protocol = packet.protocol = BASE_PROTOCOL_TCP;
	packet.hash = base_flow_key_hash(&packet.key, &hash);
	packet.flags = BASE_PACKET_FLOW;
	packet.wire_len = 100;
	packet.time_ns = time_ns;
	return packet;
}

static struct base_packet send(struct world *world, unsigned int worker, struct base_packet packet)
{
	struct base_packet *one = &packet;
	conntrack_shared_process(world->shared, worker, &one, 1);
	return packet;
}

static void each(void (*test)(const struct conntrack_sharing_ops *sharing))
{
	const struct conntrack_sharing_ops *sharing;
	for (size_t i = 0; (sharing = conntrack_sharing_at(i)) != NULL; i++) {
		assert_ptr_equal(conntrack_sharing_by_name(sharing->name), sharing);
		test(sharing);
	}
}

static void follow_one(const struct conntrack_sharing_ops *sharing)
{
	struct world world;
	create(&world, sharing, 1, 100);
	struct base_packet first = send(&world, 0, packet_of(1, SECOND_NS));
	assert_int_equal(first.conn_flags, BASE_CONN_NEW);
	assert_int_not_equal(first.conn, BASE_CONN_NONE);
	struct base_packet reply = packet_of(1, 2 * SECOND_NS);
	reply.flags |= BASE_PACKET_REVERSED;
	reply = send(&world, 0, reply);
	assert_int_equal(reply.conn, first.conn);
	assert_int_equal(reply.conn_flags, 0);
	/* replied: 120 s, to the nanosecond */
	struct base_packet later = packet_of(1, 122 * SECOND_NS - 1);
	later.tcp_flags = BASE_TCP_RST;
	assert_int_equal(send(&world, 0, later).conn_flags, 0);
	/* closed: 10 s */
	struct base_packet again = send(&world, 0, packet_of(1, 132 * SECOND_NS - 1));
	assert_int_equal(again.conn_flags, BASE_CONN_NEW);
	conntrack_shared_advance(world.shared, 0, 133 * SECOND_NS, 10);
	struct conntrack_shared_stats stats;
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.inserted, 2);
	assert_int_equal(stats.hits, 2);
	/* unreplied: 30 s, by maintenance */
	conntrack_shared_advance(world.shared, 0, 162 * SECOND_NS - 2, 10);
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.live, 1);
	conntrack_shared_advance(world.shared, 0, 162 * SECOND_NS - 1, 10);
	conntrack_shared_end(world.shared, 0);
	conntrack_shared_finish(world.shared, 0);
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.live, 0);
	assert_int_equal(world.removed, 2);
	assert_int_equal(world.last_removed.packets, 1);
	assert_int_equal(world.last_removed.flags, CONNTRACK_SHARED_SEEN_0);
	destroy(&world);
}

static void one_connection_is_followed(void **)
{
	each(follow_one);
}

static void fill_up(const struct conntrack_sharing_ops *sharing)
{
	struct world world;
	struct conntrack_shared_stats stats;
	create(&world, sharing, 1, 50);
	uint32_t places = conntrack_shared_places(world.shared), sent = 2 * places, refused = 0;
	assert_true(sharing->moves || places == 50);
	for (uint32_t flow = 0; flow < sent; flow++)
		refused += send(&world, 0, packet_of(flow, SECOND_NS)).conn == BASE_CONN_NONE;
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.refused_pool + stats.refused_bucket, refused);
	/* A pool for each bucket is not full when the others are. */
	assert_true(refused >= places && (sharing->moves || refused == places));
	/* all of them go, and as many come again */
	conntrack_shared_advance(world.shared, 0, 100 * SECOND_NS, places);
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.live, 0);
	for (uint32_t flow = 0; flow < sent; flow++)
		refused -= send(&world, 0, packet_of(flow, 100 * SECOND_NS)).conn == BASE_CONN_NONE;
	assert_int_equal(refused, 0);
	conntrack_shared_end(world.shared, 0);
	destroy(&world);
}

static void a_full_pool_refuses_and_is_used_again(void **)
{
	each(fill_up);
}

static void collide(const struct conntrack_sharing_ops *sharing)
{
	struct world world;
	struct conntrack_shared_stats stats;
	create(&world, sharing, 1, 1000);
	for (uint32_t flow = 0; flow < 24; flow++) {
		struct base_packet packet = packet_of(flow, SECOND_NS);
		packet.hash = 77;
		assert_int_equal(send(&world, 0, packet).conn != BASE_CONN_NONE, flow < 23);
	}
	for (uint32_t flow = 0; flow < 23; flow++) {
		struct base_packet packet = packet_of(flow, 2 * SECOND_NS);
		packet.hash = 77;
		assert_int_equal(send(&world, 0, packet).conn_flags, 0);
	}
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.refused_bucket, 1);
	assert_int_equal(stats.hits, 23);
	conntrack_shared_end(world.shared, 0);
	destroy(&world);
}

static void a_bucket_holds_23_and_refuses_more(void **)
{
	each(collide);
}

static void two_workers(const struct conntrack_sharing_ops *sharing)
{
	struct world world;
	struct conntrack_shared_stats stats;
	create(&world, sharing, 2, 100);
	send(&world, 0, packet_of(1, SECOND_NS));
	/* Worker 1 may still have a packet of any time, of any connection when they share. */
	conntrack_shared_advance(world.shared, 0, 50 * SECOND_NS, 100);
	if (sharing->any_worker) {
		conntrack_shared_stats(world.shared, &stats);
		assert_int_equal(stats.expired, 0);
		struct base_packet late = send(&world, 1, packet_of(1, 2 * SECOND_NS));
		assert_int_equal(late.conn_flags, 0);
		/* the other finds it over, and begins anew */
		assert_int_equal(
			send(&world, 1, packet_of(1, 60 * SECOND_NS)).conn_flags, BASE_CONN_NEW);
		conntrack_shared_advance(world.shared, 0, 100 * SECOND_NS, 100);
		conntrack_shared_advance(world.shared, 1, 100 * SECOND_NS, 100);
	}
	for (unsigned int i = 0; i < 2; i++)
		conntrack_shared_end(world.shared, i);
	conntrack_shared_finish(world.shared, 0);
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.live, 0);
	destroy(&world);
}

static void nothing_goes_before_every_worker_is_past_it(void **)
{
	each(two_workers);
}

static void count_views(void *context, const struct conntrack_shared_conn *conn)
{
	unsigned int *count = context;
	assert_int_equal(conn->bytes, 100 * conn->packets);
	(*count)++;
}

static void read_and_dump(const struct conntrack_sharing_ops *sharing)
{
	struct world world;
	struct conntrack_shared_conn conn;
	unsigned int count = 0;
	create(&world, sharing, 1, 100);
	struct base_packet packet = packet_of(3, SECOND_NS);
	send(&world, 0, packet);
	send(&world, 0, packet_of(4, SECOND_NS));
	send(&world, 0, packet_of(3, 5 * SECOND_NS));
	int error = conntrack_shared_read(world.shared, &packet.key, packet.hash, &conn);
	assert_int_equal(error, sharing->readable ? 0 : -ENOTSUP);
	assert_int_equal(conntrack_shared_dump(world.shared, 0, UINT32_MAX, count_views, &count),
		sharing->readable ? 0 : -ENOTSUP);
	if (sharing->readable) {
		assert_int_equal(conn.packets, 2);
		assert_int_equal(conn.last_seen_ns, 5 * SECOND_NS);
		assert_int_equal(count, 2);
		packet = packet_of(9, 0);
		assert_int_equal(
			conntrack_shared_read(world.shared, &packet.key, packet.hash, &conn),
			-ENOENT);
	}
	conntrack_shared_end(world.shared, 0);
	destroy(&world);
}

static void connections_can_be_read_where_that_is_promised(void **)
{
	each(read_and_dump);
}

static void leave_out(const struct conntrack_sharing_ops *sharing)
{
	struct world world;
	struct conntrack_shared_stats stats;
	create(&world, sharing, 1, 100);
	struct base_packet packet = packet_of(3, SECOND_NS);
	packet.flags |= BASE_PACKET_ICMP_ERROR;
	assert_int_equal(send(&world, 0, packet).conn, BASE_CONN_NONE);
	packet.flags = 0;
	assert_int_equal(send(&world, 0, packet).conn, BASE_CONN_NONE);
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.untracked, 2);
	assert_int_equal(stats.packets, 0);
	conntrack_shared_end(world.shared, 0);
	destroy(&world);
}

/* Whole pages of a memory cannot be written, or can again. */
static void protect(const void *memory, size_t size, int how)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)memory + page - 1) / page * page;
	uintptr_t to = ((uintptr_t)memory + size) / page * page;
	assert_true(to > from);
	assert_int_equal(mprotect((void *)from, to - from, how), 0);
}

/* Would die of a reader that wrote to what it shares with workers. */
static void read_without_writing(const struct conntrack_sharing_ops *sharing)
{
	enum { FLOWS = 20000 };
	struct world world;
	struct conntrack_shared_conn conn;
	unsigned int count = 0;
	if (!sharing->readable)
		return;
	create(&world, sharing, 1, FLOWS);
	for (uint32_t flow = 0; flow < FLOWS; flow++)
		send(&world, 0, packet_of(flow, SECOND_NS));
	const struct conntrack_shared *shared = world.shared;
	const struct shared_table *table = &shared->tables[0];
	for (int turn = 0; turn < 2; turn++) {
		int how = turn == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
		protect(shared->entries, shared->places * sizeof(*shared->entries), how);
		protect(table->buckets, shared->buckets_count * sizeof(*table->buckets), how);
		protect(table->further, shared->buckets_count * sizeof(*table->further), how);
		for (uint32_t flow = 0; flow < FLOWS && turn == 0; flow++) {
			struct base_packet packet = packet_of(flow, 0);
			assert_int_equal(
				conntrack_shared_read(shared, &packet.key, packet.hash, &conn), 0);
		}
		if (turn == 0)
			conntrack_shared_dump(shared, 0, UINT32_MAX, count_views, &count);
	}
	assert_int_equal(count, FLOWS);
	conntrack_shared_end(world.shared, 0);
	destroy(&world);
}

static void readers_write_nothing_that_is_shared(void **)
{
	each(read_without_writing);
}

static void hand_over(const struct conntrack_sharing_ops *sharing)
{
	struct world world;
	struct conntrack_shared_stats stats;
	if (!sharing->moves)
		return;
	create(&world, sharing, 2, 1000);
	/* A flow of a bucket that worker 0 owns. */
	uint32_t flow = 0, bucket;
	do {
		bucket = conntrack_shared_bucket(packet_of(++flow, 0).hash);
	} while (conntrack_shared_first_owner(bucket, 2) != 0);
	struct base_packet first = send(&world, 0, packet_of(flow, SECOND_NS));
	/* Two come to worker 1 before the bucket does. */
	struct base_packet early[2] = { packet_of(flow, 3 * SECOND_NS),
		packet_of(flow, 4 * SECOND_NS) };
	struct base_packet *burst[2] = { &early[0], &early[1] };
	conntrack_shared_process(world.shared, 1, burst, 2);
	assert_int_equal(early[0].conn, BASE_CONN_NONE);
	assert_int_equal(send(&world, 0, packet_of(flow, 2 * SECOND_NS)).conn, first.conn);
	conntrack_shared_give(world.shared, 0, bucket, 1);
	struct base_packet last = send(&world, 1, packet_of(flow, 5 * SECOND_NS));
	assert_int_equal(last.conn, first.conn);
	assert_int_equal(early[0].conn, first.conn);
	assert_int_equal(early[1].conn, first.conn);
	conntrack_shared_stats(world.shared, &stats);
	assert_int_equal(stats.parked, 2);
	assert_int_equal(stats.parked_most, 2);
	assert_int_equal(stats.handovers, 1);
	assert_int_equal(stats.pauses, 1);
	assert_int_equal(stats.hits, 4);
	assert_int_equal(stats.backwards, 0);
	/* and back, without a packet that waits */
	conntrack_shared_give(world.shared, 1, bucket, 0);
	assert_int_equal(send(&world, 0, packet_of(flow, 6 * SECOND_NS)).conn, first.conn);
	for (unsigned int i = 0; i < 2; i++)
		conntrack_shared_end(world.shared, i);
	destroy(&world);
	assert_int_equal(world.last_removed.packets, 6);
}

static void a_bucket_changes_its_owner(void **)
{
	each(hand_over);
}

static void errors_and_packets_without_a_flow_pass(void **)
{
	each(leave_out);
}

static void impossible_sizes_are_refused(void **)
{
	struct conntrack_shared_config config;
	struct conntrack_shared *shared;
	struct base_arena *arena;
	assert_int_equal(base_arena_create(&arena, false), 0);
	conntrack_shared_config_defaults(&config);
	assert_int_equal(conntrack_shared_create(&shared, &config), -EINVAL);
	config.arena = arena;
	config.workers = 0;
	assert_int_equal(conntrack_shared_create(&shared, &config), -EINVAL);
	config.workers = CONNTRACK_SHARED_WORKERS_MAX + 1;
	assert_int_equal(conntrack_shared_create(&shared, &config), -EINVAL);
	config.workers = 1;
	config.entries_max = 0;
	assert_int_equal(conntrack_shared_create(&shared, &config), -EINVAL);
	assert_null(conntrack_sharing_by_name("none"));
	base_arena_destroy(arena);
}

/* ---- the judge ---- */

static uint64_t failures_when(
	void (*spoil)(struct conntrack_shared_conn *conn, unsigned int *times))
{
	static const uint64_t timeout_ns[] = { SECOND_NS, SECOND_NS, SECOND_NS };
	struct conntrack_shared_judge *judge;
	struct conntrack_shared_verdict verdict;
	struct base_packet packets[] = { packet_of(1, 0), packet_of(2, 5), packet_of(1, 10),
		packet_of(1, 2 * SECOND_NS) };
	struct conntrack_shared_conn conns[3] = {
		{ .key = packets[0].key,
			.packets = 2,
			.bytes = 200,
			.last_seen_ns = 10,
			.flags = 1 },
		{ .key = packets[0].key,
			.packets = 1,
			.bytes = 100,
			.last_seen_ns = 2 * SECOND_NS,
			.flags = 1 },
		{ .key = packets[1].key,
			.packets = 1,
			.bytes = 100,
			.last_seen_ns = 5,
			.flags = 1 },
	};
	assert_int_equal(conntrack_shared_judge_create(&judge, 2, timeout_ns), 0);
	assert_int_equal(conntrack_shared_judge_expect(judge, packets, 4, NULL), 0);
	for (unsigned int i = 0; i < 3; i++) {
		unsigned int times = 1;
		if (spoil != NULL && i == 1)
			spoil(&conns[i], &times);
		while (times-- != 0)
			conntrack_shared_collect(judge, i % 2, &conns[i]);
	}
	assert_int_equal(conntrack_shared_judge_verdict(judge, false, &verdict), 0);
	assert_int_equal(verdict.connections, 3);
	assert_int_equal(verdict.failures_sum != 0, verdict.first_failure[0] != '\0');
	conntrack_shared_judge_destroy(judge);
	return verdict.failures_sum;
}

static void lose(struct conntrack_shared_conn *, unsigned int *times)
{
	*times = 0;
}

static void twice(struct conntrack_shared_conn *, unsigned int *times)
{
	*times = 2;
}

static void lose_packet(struct conntrack_shared_conn *conn, unsigned int *)
{
	conn->packets--;
}

static void lose_time(struct conntrack_shared_conn *conn, unsigned int *)
{
	conn->last_seen_ns--;
}

static void the_judge_sees_faults(void **)
{
	assert_int_equal(failures_when(NULL), 0);
	assert_int_not_equal(failures_when(lose), 0);
	assert_int_not_equal(failures_when(twice), 0);
	assert_int_not_equal(failures_when(lose_packet), 0);
	assert_int_not_equal(failures_when(lose_time), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_connection_is_followed),
		cmocka_unit_test(a_full_pool_refuses_and_is_used_again),
		cmocka_unit_test(a_bucket_holds_23_and_refuses_more),
		cmocka_unit_test(nothing_goes_before_every_worker_is_past_it),
		cmocka_unit_test(connections_can_be_read_where_that_is_promised),
		cmocka_unit_test(readers_write_nothing_that_is_shared),
		cmocka_unit_test(a_bucket_changes_its_owner),
		cmocka_unit_test(errors_and_packets_without_a_flow_pass),
		cmocka_unit_test(impossible_sizes_are_refused),
		cmocka_unit_test(the_judge_sees_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
