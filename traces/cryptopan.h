/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: prefix-preserving pseudonyms of addresses. Crypto-PAn (Xu, Fan, Ammar and
 * Moon, ICNP 2002) with AES-128 from libcrypto: bit i of the pseudonym is bit i of the address xor
 * the first bit of AES(first i bits of the address, then those of a secret pad). Two addresses that
 * share k bits get pseudonyms that share exactly k; it is a bijection. IPv6 is the same with 128
 * bits. The same key gives the same pseudonyms as other implementations do.
 *
 * Single-threaded. Cost of a new IPv4 address: 16 AES blocks in one call (the first 16 bits come
 * from a table), of a new IPv6 address 64 (the first 64 bits are remembered); of a known one, a
 * look into a cache. Memory: 1.4 MiB; key and pad are wiped when it is freed.
 */
#pragma once

#include <stdint.h>

enum { TRACES_CRYPTOPAN_KEY_BYTES = 32 };

struct traces_cryptopan;

/* The key's first half is that of AES, the second one gives the pad. -ENOMEM, -EIO (libcrypto). */
int traces_cryptopan_create(
	struct traces_cryptopan **out, const uint8_t key[TRACES_CRYPTOPAN_KEY_BYTES]);
void traces_cryptopan_destroy(struct traces_cryptopan *cryptopan);

/* Network byte order. `from` and `to` may be the same. */
void traces_cryptopan_ip4(struct traces_cryptopan *cryptopan, const uint8_t from[4], uint8_t to[4]);
void traces_cryptopan_ip6(
	struct traces_cryptopan *cryptopan, const uint8_t from[16], uint8_t to[16]);
/* Not Crypto-PAn: 46 bits of AES(address), locally administered, still a group address if it was
 * one; broadcast stays broadcast. */
void traces_cryptopan_mac(struct traces_cryptopan *cryptopan, const uint8_t from[6], uint8_t to[6]);
