/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/bench_judge.h"

#include <errno.h>
#include <stdlib.h>

enum { SLOTS_FIRST = 1 << 16 };

struct seen {
	struct base_flow_key key;
	uint32_t hash;
	uint32_t backend;
	uint32_t syn_seq;
	bool used, broken, has_syn;
};

struct bench_judge {
	struct seen *slots;
	size_t slots_count, used;
	struct bench_verdict verdict;
};

int bench_judge_create(struct bench_judge **out)
{
	struct bench_judge *judge = calloc(1, sizeof(*judge));
	if (judge == NULL)
		return -ENOMEM;
	judge->slots_count = SLOTS_FIRST;
	judge->slots = calloc(judge->slots_count, sizeof(*judge->slots));
	if (judge->slots == NULL) {
		free(judge);
		return -ENOMEM;
	}
	*out = judge;
	return 0;
}

void bench_judge_destroy(struct bench_judge *judge)
{
	if (judge == NULL)
		return;
	free(judge->slots);
	free(judge);
}

/* The key's slot, or the free one where it would stand. */
static struct seen *find(
	const struct bench_judge *judge, const struct base_flow_key *key, uint32_t hash)
{
	size_t at = hash * UINT64_C(0x9e3779b97f4a7c15) % judge->slots_count;
	while (judge->slots[at].used &&
		!(judge->slots[at].hash == hash && base_flow_key_equal(&judge->slots[at].key, key)))
		at = (at + 1) % judge->slots_count;
	return &judge->slots[at];
}

static int grow(struct bench_judge *judge)
{
	struct bench_judge larger = { .slots_count = 2 * judge->slots_count };
	larger.slots = calloc(larger.slots_count, sizeof(*larger.slots));
	if (larger.slots == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < judge->slots_count; i++) {
		const struct seen *seen = &judge->slots[i];
		if (seen->used)
			*find(&larger, &seen->key, seen->hash) = *seen;
	}
	free(judge->slots);
	judge->slots = larger.slots;
	judge->slots_count = larger.slots_count;
	return 0;
}

static bool is_syn(const struct base_packet *packet)
{
	return packet->protocol == BASE_PROTOCOL_TCP &&
	       (packet->tcp_flags & (BASE_TCP_SYN | BASE_TCP_ACK)) == BASE_TCP_SYN &&
	       (packet->flags & BASE_PACKET_L4) != 0 &&
	       (uint32_t)packet->l4_offset + 8 <= packet->cap_len;
}

static uint32_t seq_of(const struct base_packet *packet)
{
	const uint8_t *b = packet->data + packet->l4_offset + 4;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* It does not go on with what stands there. */
static bool begins(const struct seen *seen, const struct base_packet *packet)
{
	if (!seen->used)
		return true;
	return is_syn(packet) && !(seen->has_syn && seen->syn_seq == seq_of(packet));
}

uint32_t bench_judge_backend(const struct bench_judge *judge, const struct base_packet *packet)
{
	const struct seen *seen = find(judge, &packet->key, packet->hash);
	return begins(seen, packet) ? UINT32_MAX : seen->backend;
}

bool bench_judge_knows(const struct bench_judge *judge, const struct base_packet *packet)
{
	return !begins(find(judge, &packet->key, packet->hash), packet);
}

int bench_judge_see(
	struct bench_judge *judge, const struct base_packet *packet, uint32_t backend, bool gone)
{
	if (2 * judge->used >= judge->slots_count && grow(judge) != 0)
		return -ENOMEM;
	struct seen *seen = find(judge, &packet->key, packet->hash);
	struct bench_verdict *verdict = &judge->verdict;
	if (begins(seen, packet)) {
		judge->used += !seen->used;
		*seen = (struct seen){ .key = packet->key,
			.hash = packet->hash,
			.backend = backend,
			.used = true,
			.has_syn = is_syn(packet) };
		seen->syn_seq = seen->has_syn ? seq_of(packet) : 0;
		verdict->connections++;
		return 0;
	}
	if (seen->backend == backend)
		return 0;
	if (gone) {
		verdict->orphaned_connections++;
	} else {
		verdict->moved_packets++;
		verdict->broken_connections += !seen->broken;
		seen->broken = true;
	}
	seen->backend = backend;
	return 0;
}

struct bench_verdict bench_judge_verdict(const struct bench_judge *judge)
{
	return judge->verdict;
}
