/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows for one bucket. */
#include "traces/collide.h"

#include "base/flow_key.h"
#include "traces/packets.h"

#include <errno.h>

enum { PORT_MIN = 1024, PORTS = 65536 - PORT_MIN, CLIENT_BYTE = 10, WORD_BITS = 32 };

/* One server above all clients, so that the client is always endpoint 0 of the key. */
#define SERVER      UINT32_C(0xc6130001)
#define CLIENT_NET  UINT32_C(0x0a000000)
#define CLIENT_MASK UINT32_C(0x00ffffff)
#define TRIES_MAX   (UINT64_C(1) << 34)
#define LOOK        (UINT64_C(1) << 20) /* tries between looks at the stop flag */

static void put32(uint8_t *bytes, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

static struct base_flow_key key_of(const struct traces_collision *ends)
{
	struct base_flow_key key = { .protocol = BASE_PROTOCOL_UDP, .family = 4 };
	uint8_t client[16] = { 0 }, server[16] = { 0 };
	put32(client, ends->client);
	put32(server, ends->server);
	base_flow_key_order(&key, client, ends->client_port, server, ends->server_port);
	return key;
}

/* ---- CRC32C: its state is linear in the client's address and in what follows ---- */

static uint32_t crc_byte(uint32_t crc, uint8_t byte)
{
	crc ^= byte;
	for (int bit = 0; bit < 8; bit++)
		crc = crc & 1 ? crc >> 1 ^ UINT32_C(0x82f63b78) : crc >> 1;
	return crc;
}

/* What base/flow_key_private.h feeds to the first of its two streams: endpoint 0's address, then
 * ports, zone, protocol and family. */
static uint32_t crc_client(uint32_t client, uint16_t client_port, uint16_t server_port)
{
	struct base_flow_key key =
		key_of(&(struct traces_collision){ client, SERVER, client_port, server_port });
	uint8_t bytes[sizeof(key)];
	uint32_t crc = 0;
	memcpy(bytes, &key, sizeof(key));
	for (int i = 0; client != 0 && i < 16; i++) /* nothing changes nothing */
		crc = crc_byte(crc, bytes[i]);
	for (int i = 32; i < 40; i++)
		crc = crc_byte(crc, bytes[i]);
	return crc;
}

/* For each bit of the state, the client addresses whose difference flips just that bit. */
static void invert(uint32_t inverse[WORD_BITS])
{
	uint32_t state[WORD_BITS], zero = crc_client(0, 0, 0);
	for (int i = 0; i < WORD_BITS; i++) {
		state[i] = crc_client(UINT32_C(1) << i, 0, 0) ^ zero;
		inverse[i] = UINT32_C(1) << i;
	}
	/* Gauss and Jordan over two elements: row i gets bit i for itself. */
	for (int i = 0; i < WORD_BITS; i++) {
		int pivot = i;
		while (!(state[pivot] >> i & 1))
			pivot++; /* there is one: CRC of a word is a bijection */
		uint32_t swap_state = state[i], swap_inverse = inverse[i];
		state[i] = state[pivot], inverse[i] = inverse[pivot];
		state[pivot] = swap_state, inverse[pivot] = swap_inverse;
		for (int j = 0; j < WORD_BITS; j++) {
			if (j != i && (state[j] >> i & 1)) {
				state[j] ^= state[i];
				inverse[j] ^= inverse[i];
			}
		}
	}
}

static int solve(struct traces_collision *collisions, uint32_t count,
	const struct base_hash_config *hash, struct base_rng *rng)
{
	uint32_t inverse[WORD_BITS], found = 0, wanted = 0, wanted_hash = 0;
	uint64_t first = base_rng_u64(rng) % PORTS;
	invert(inverse);
	wanted = (uint32_t)base_rng_u64(rng);
	/* 16 million pairs of ports, 1 of 256 of which leads into 10.0.0.0/8. */
	for (uint64_t i = 0; i < 256 * (uint64_t)PORTS && found < count; i++) {
		struct traces_collision ends = {
			.server = SERVER,
			.client_port = (uint16_t)(PORT_MIN + (first + i) % PORTS),
			.server_port = (uint16_t)(PORT_MIN + i / PORTS),
		};
		uint32_t difference = wanted ^ crc_client(0, ends.client_port, ends.server_port);
		for (int bit = 0; bit < WORD_BITS; bit++)
			ends.client ^= difference >> bit & 1 ? inverse[bit] : 0;
		if (ends.client >> 24 != CLIENT_BYTE)
			continue;
		struct base_flow_key key = key_of(&ends);
		uint32_t got = base_flow_key_hash(&key, hash);
		wanted_hash = found == 0 ? got : wanted_hash;
		BASE_ASSERT(got == wanted_hash);
		collisions[found++] = ends;
	}
	return found == count ? 0 : -ERANGE;
}

/* ---- any hash: try ---- */

static int try_all(struct traces_collision *collisions, uint32_t count,
	const struct traces_attack_options *options, struct base_rng *rng)
{
	uint32_t found = 0, bucket = 0;
	uint32_t client = (uint32_t)base_rng_u64(rng);
	for (uint64_t i = 0; i < TRIES_MAX && found < count; i++) {
		struct traces_collision ends = {
			.client = CLIENT_NET | ((client + (uint32_t)i) & CLIENT_MASK),
			.server = SERVER,
			.client_port = (uint16_t)(PORT_MIN + (i >> 24) % PORTS),
			.server_port = PORT_MIN,
		};
		if (i % LOOK == 0 && traces_is_stopped(options->stop))
			return -EINTR;
		struct base_flow_key key = key_of(&ends);
		uint32_t hash = base_flow_key_hash(&key, &options->hash);
		uint32_t got = options->bucket_of(options->bucket_context, hash);
		if (found == 0)
			bucket = got;
		if (got == bucket)
			collisions[found++] = ends;
	}
	return found == count ? 0 : -ERANGE;
}

int traces_collisions_find(struct traces_collision *collisions, uint32_t count,
	const struct traces_attack_options *options, struct base_rng *rng)
{
	if (options->hash.kind == BASE_HASH_CRC32C)
		return solve(collisions, count, &options->hash, rng);
	if (options->bucket_of == NULL)
		return -ERANGE;
	return try_all(collisions, count, options, rng);
}
