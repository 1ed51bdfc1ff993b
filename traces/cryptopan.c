/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/cryptopan.h"

#include "base/compiler.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

enum {
	AES_BYTES = 16,
	BATCH_BLOCKS = 64, /* encrypted by one call */
	PREFIX_BITS = 16,
	PREFIXES = 1 << PREFIX_BITS,
	IP4_CACHE = 1 << 16,
	IP6_CACHE = 1 << 14,
	IP6_HALVES = 1 << 12,
	MAC_CACHE = 1 << 10,
	MAC_GROUP_BIT = 1,
	MAC_LOCAL_BIT = 2,
};

/* Addresses as their 128 bits in two numbers, the first bit on top. */
struct bits {
	uint64_t high, low;
};

struct pair {
	struct bits from, to;
};

struct half {
	uint64_t from, to;
};

struct traces_cryptopan {
	EVP_CIPHER_CTX *aes;
	struct bits pad;
	uint32_t prefixes[PREFIXES]; /* pseudonyms of the first 16 bits; above 16 bits: known */
	/* Direct-mapped; all zeros: nothing is known yet. */
	uint64_t ip4[IP4_CACHE]; /* address and pseudonym */
	struct pair ip6[IP6_CACHE];
	struct half ip6_halves[IP6_HALVES];
	uint64_t macs[MAC_CACHE][2];
};

static uint64_t load64(const uint8_t *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return __builtin_bswap64(value);
}

static void store64(uint8_t *bytes, uint64_t value)
{
	value = __builtin_bswap64(value);
	memcpy(bytes, &value, sizeof(value));
}

/* Fibonacci hashing into 2^bits places. */
static size_t place(uint64_t value, unsigned int bits)
{
	return (size_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

/* Blocks in place. ECB over independent blocks is what lets the processor work on several. */
static void encrypt(struct traces_cryptopan *cryptopan, uint8_t *blocks, int count)
{
	int written = 0;
	int done = EVP_EncryptUpdate(cryptopan->aes, blocks, &written, blocks, count * AES_BYTES);
	BASE_ASSERT(done == 1 && written == count * AES_BYTES); /* whole blocks cannot fail */
}

/* Bits [from, from + count) of what the address is xored with, in the low bits of the result. */
static uint64_t mask_bits(
	struct traces_cryptopan *cryptopan, struct bits address, unsigned int from, int count)
{
	uint8_t blocks[BATCH_BLOCKS * AES_BYTES];
	for (int i = 0; i < count; i++) {
		unsigned int kept = from + (unsigned int)i;
		uint64_t high = kept >= 64 ? UINT64_MAX : kept == 0 ? 0 : UINT64_MAX << (64 - kept);
		uint64_t low = kept <= 64 ? 0 : UINT64_MAX << (128 - kept);
		store64(blocks + i * AES_BYTES,
			(address.high & high) | (cryptopan->pad.high & ~high));
		store64(blocks + i * AES_BYTES + 8,
			(address.low & low) | (cryptopan->pad.low & ~low));
	}
	encrypt(cryptopan, blocks, count);
	uint64_t bits = 0;
	for (int i = 0; i < count; i++)
		bits = bits << 1 | blocks[i * AES_BYTES] >> 7;
	return bits;
}

static uint16_t prefix_mask(struct traces_cryptopan *cryptopan, struct bits address)
{
	uint32_t *known = &cryptopan->prefixes[address.high >> 48];
	if (*known == 0)
		*known =
			1u << PREFIX_BITS | (uint32_t)mask_bits(cryptopan, address, 0, PREFIX_BITS);
	return (uint16_t)*known;
}

static uint32_t map_ip4(struct traces_cryptopan *cryptopan, uint32_t address)
{
	struct bits bits = { (uint64_t)address << 32, 0 };
	uint32_t mask = (uint32_t)prefix_mask(cryptopan, bits) << 16;
	/* Whatever stands behind the bits that are kept is the pad's: of the address no more than
	 * 32 bits are ever looked at. */
	mask |= (uint32_t)mask_bits(cryptopan, bits, PREFIX_BITS, 32 - PREFIX_BITS);
	return address ^ mask;
}

static uint64_t map_ip6_high(struct traces_cryptopan *cryptopan, struct bits address)
{
	uint64_t mask = (uint64_t)prefix_mask(cryptopan, address) << 48;
	mask |= mask_bits(cryptopan, address, PREFIX_BITS, 64 - PREFIX_BITS);
	return address.high ^ mask;
}

static struct bits map_ip6(struct traces_cryptopan *cryptopan, struct bits address)
{
	struct half *half = &cryptopan->ip6_halves[place(address.high, 12)];
	if (half->from != address.high || half->to == 0) {
		half->from = address.high;
		half->to = map_ip6_high(cryptopan, address);
	}
	return (struct bits){ half->to, address.low ^ mask_bits(cryptopan, address, 64, 64) };
}

void traces_cryptopan_ip4(struct traces_cryptopan *cryptopan, const uint8_t from[4], uint8_t to[4])
{
	uint32_t address;
	memcpy(&address, from, sizeof(address));
	address = __builtin_bswap32(address);
	uint64_t *entry = &cryptopan->ip4[place(address, 16)];
	if (*entry >> 32 != address || *entry == 0)
		*entry = (uint64_t)address << 32 | map_ip4(cryptopan, address);
	uint32_t mapped = __builtin_bswap32((uint32_t)*entry);
	memcpy(to, &mapped, sizeof(mapped));
}

void traces_cryptopan_ip6(
	struct traces_cryptopan *cryptopan, const uint8_t from[16], uint8_t to[16])
{
	struct bits address = { load64(from), load64(from + 8) };
	struct pair *entry = &cryptopan->ip6[place(address.high ^ address.low << 1, 14)];
	bool known = (entry->to.high | entry->to.low) != 0;
	if (!known || entry->from.high != address.high || entry->from.low != address.low) {
		entry->from = address;
		entry->to = map_ip6(cryptopan, address);
	}
	store64(to, entry->to.high);
	store64(to + 8, entry->to.low);
}

static uint64_t map_mac(struct traces_cryptopan *cryptopan, uint64_t address)
{
	/* The text keeps these blocks apart from those of IP addresses, which end with the pad. */
	uint8_t block[AES_BYTES] = "........MACnames";
	store64(block, address);
	encrypt(cryptopan, block, 1);
	uint64_t mapped = load64(block) >> 16;
	mapped &= ~((uint64_t)(MAC_GROUP_BIT | MAC_LOCAL_BIT) << 40);
	return mapped | (address & (uint64_t)MAC_GROUP_BIT << 40) | (uint64_t)MAC_LOCAL_BIT << 40;
}

void traces_cryptopan_mac(struct traces_cryptopan *cryptopan, const uint8_t from[6], uint8_t to[6])
{
	static const uint8_t broadcast[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	uint8_t bytes[8] = { 0 };
	if (memcmp(from, broadcast, sizeof(broadcast)) == 0) {
		memcpy(to, broadcast, sizeof(broadcast));
		return;
	}
	memcpy(bytes + 2, from, 6);
	uint64_t address = load64(bytes), *entry = cryptopan->macs[place(address, 10)];
	if (entry[0] != address || entry[1] == 0) {
		entry[0] = address;
		entry[1] = map_mac(cryptopan, address);
	}
	store64(bytes, entry[1]);
	memcpy(to, bytes + 2, 6);
}

static bool start_aes(struct traces_cryptopan *cryptopan, const uint8_t *key)
{
	cryptopan->aes = EVP_CIPHER_CTX_new();
	if (cryptopan->aes == NULL ||
		EVP_EncryptInit_ex(cryptopan->aes, EVP_aes_128_ecb(), NULL, key, NULL) != 1)
		return false;
	return EVP_CIPHER_CTX_set_padding(cryptopan->aes, 0) == 1;
}

int traces_cryptopan_create(
	struct traces_cryptopan **out, const uint8_t key[TRACES_CRYPTOPAN_KEY_BYTES])
{
	struct traces_cryptopan *cryptopan = calloc(1, sizeof(*cryptopan));
	if (cryptopan == NULL)
		return -ENOMEM;
	if (!start_aes(cryptopan, key)) {
		traces_cryptopan_destroy(cryptopan);
		return -EIO;
	}
	uint8_t pad[AES_BYTES];
	memcpy(pad, key + AES_BYTES, sizeof(pad));
	encrypt(cryptopan, pad, 1);
	cryptopan->pad = (struct bits){ load64(pad), load64(pad + 8) };
	OPENSSL_cleanse(pad, sizeof(pad));
	*out = cryptopan;
	return 0;
}

void traces_cryptopan_destroy(struct traces_cryptopan *cryptopan)
{
	if (cryptopan == NULL)
		return;
	EVP_CIPHER_CTX_free(cryptopan->aes); /* wipes the key */
	OPENSSL_cleanse(&cryptopan->pad, sizeof(cryptopan->pad));
	free(cryptopan);
}
