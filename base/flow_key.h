/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Canonical symmetric flow key and its hash.
 *
 * Both directions of a connection have one key: the endpoint (address, port) that compares lower
 * is endpoint 0. The direction bit (BASE_PACKET_REVERSED) says that the packet's source is
 * endpoint 1. With equal addresses the ports decide; with equal ports too, a packet counts as
 * not reversed and only its first packet tells who opened.
 *
 * Padding-free by assertion: keys may be compared and hashed as 40 bytes.
 * Threads: pure functions. Cost: compare 5 words; CRC32C hash about 12 cycles; SipHash about 60.
 *
 * The hash is salted per run. CRC32C is linear: a salt moves buckets but two keys that collide
 * under one salt collide under all. Against traffic that is chosen by an adversary use
 * BASE_HASH_SIPHASH (SipHash-1-3, Aumasson and Bernstein 2012), which is keyed.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct base_flow_key {
	uint8_t address[2][16]; /* network order; IPv4 in the first 4 bytes, then zeros */
	uint16_t port[2];       /* host order; ICMP queries: identifier in both; none: 0 */
	uint16_t zone;          /* tenant or VLAN id when the configuration asks for it, else 0 */
	uint8_t protocol;       /* IP protocol number of the transport header */
	uint8_t family;         /* 4 or 6; 0 marks "no key" */
};
static_assert(sizeof(struct base_flow_key) == 40, "key is hashed and compared as bytes");

enum base_hash_kind { BASE_HASH_CRC32C, BASE_HASH_SIPHASH };

struct base_hash_config {
	enum base_hash_kind kind;
	uint64_t salt[2]; /* CRC32C uses salt[0] only */
};

static inline bool base_flow_key_equal(const struct base_flow_key *a, const struct base_flow_key *b)
{
	uint64_t x[5], y[5];
	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	return ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4])) == 0;
}

/* Hash of a key; never reads beyond it. The low bits choose the steering bucket (RSS), the whole
 * value chooses table buckets, so tables must mix before they take bits. */
uint32_t base_flow_key_hash(const struct base_flow_key *key, const struct base_hash_config *config);

/* Bit-by-bit CRC32C and textbook SipHash: the reference that tests compare against. */
uint32_t base_flow_key_hash_reference(
	const struct base_flow_key *key, const struct base_hash_config *config);

/*
 * Put the endpoints in canonical order. source and destination are 16-byte addresses in the
 * layout above. Returns true when they were swapped (the packet is "reversed").
 */
bool base_flow_key_order(struct base_flow_key *key, const uint8_t source[16], uint16_t source_port,
	const uint8_t destination[16], uint16_t destination_port);

/* Render as "tcp 10.0.0.1:80 <> 10.0.0.2:4000 zone 5"; returns the length, always terminated. */
int base_flow_key_format(const struct base_flow_key *key, char *text, size_t text_size);
