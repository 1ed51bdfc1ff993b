/* SPDX-License-Identifier: BSD-2-Clause */
/* Which worker gets which packet, as a device's indirection table would say it. */
#include "pipeline/bench_sharing_private.h"

#include <errno.h>
#include <stdlib.h>

enum { BUCKET_STRIDE = 37 }; /* buckets move in this order: odd, so that all do in turn */

int bench_sharing_route_create(
	struct bench_sharing *bench, struct bench_sharing_route *route, uint32_t moves_max)
{
	route->packets = malloc(bench->packets.count * sizeof(*route->packets));
	route->moves = malloc((moves_max + 1) * sizeof(*route->moves));
	return route->packets != NULL && route->moves != NULL ? 0 : -ENOMEM;
}

void bench_sharing_route_destroy(struct bench_sharing_route *route)
{
	free(route->packets);
	free(route->moves);
}

/* The next move; the table changes with it. */
static void move(struct bench_sharing_route *route, uint8_t *owners, const uint64_t *counts,
	uint32_t workers)
{
	uint32_t number = route->moves_count++;
	uint32_t bucket = number * BUCKET_STRIDE % CONNTRACK_SHARED_BUCKETS;
	uint8_t from = owners[bucket];
	owners[bucket] = (uint8_t)((from + 1u) % workers);
	route->moves[number] = (struct bench_sharing_move){
		.bucket = bucket, .from = from, .to = owners[bucket], .at = counts[from]
	};
}

void bench_sharing_route_plan(struct bench_sharing *bench, struct bench_sharing_route *route,
	uint32_t workers, uint32_t moves)
{
	uint64_t count = bench->packets.count, counts[CONNTRACK_SHARED_WORKERS_MAX] = { 0 };
	uint8_t owners[CONNTRACK_SHARED_BUCKETS];
	uint32_t burst = bench->options->burst;
	for (uint32_t b = 0; b < CONNTRACK_SHARED_BUCKETS; b++)
		owners[b] = (uint8_t)conntrack_shared_first_owner(b, workers);
	route->moves_count = 0;
	bench->laid_by = NULL;
	for (uint64_t i = 0; i < count; i++) {
		/* evenly, none at either end */
		while (route->moves_count < moves &&
			i >= count * (route->moves_count + 1) / (moves + 1))
			move(route, owners, counts, workers);
		uint32_t bucket = conntrack_shared_bucket(bench->packets.packets[i].hash);
		bench->worker_of[i] =
			bench->options->spread ? (uint8_t)(i / burst % workers) : owners[bucket];
		counts[bench->worker_of[i]]++;
	}
	route->first[0] = 0;
	for (uint32_t worker = 0; worker < workers; worker++) {
		route->first[worker + 1] = route->first[worker] + counts[worker];
		counts[worker] = route->first[worker];
	}
	for (uint64_t i = 0; i < count; i++)
		route->packets[counts[bench->worker_of[i]]++] = &bench->packets.packets[i];
}

void bench_sharing_route_lay(struct bench_sharing *bench, const struct bench_sharing_route *route)
{
	if (bench->laid_by == route)
		return;
	for (uint64_t i = 0; i < bench->packets.count; i++)
		bench->laid[i] = *route->packets[i];
	bench->laid_by = route;
}
