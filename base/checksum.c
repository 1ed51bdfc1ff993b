/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/checksum.h"

#include <string.h>

/* One's complement addition does not care where carries are folded, nor how wide the words are, so
 * the sum runs over 32-bit words in a 64-bit accumulator, which cannot overflow below 16 GiB. */
uint32_t base_checksum_add(const uint8_t *bytes, size_t size, uint32_t sum)
{
	uint64_t wide = sum;
	for (; size >= 4; size -= 4, bytes += 4) {
		uint32_t word;
		memcpy(&word, bytes, sizeof(word));
		wide += word;
	}
	if (size >= 2) {
		uint16_t half;
		memcpy(&half, bytes, sizeof(half));
		wide += half;
		bytes += 2;
		size -= 2;
	}
	if (size != 0) {
		uint8_t padded[2] = { bytes[0], 0 };
		uint16_t half;
		memcpy(&half, padded, sizeof(half));
		wide += half;
	}
	wide = (wide & 0xffffffff) + (wide >> 32);
	wide = (wide & 0xffffffff) + (wide >> 32);
	/* Leave headroom, so that a caller may add a few words of its own. */
	return (uint32_t)((wide & 0xffff) + (wide >> 16));
}

uint16_t base_checksum_finish(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

uint16_t base_checksum_update_bytes(
	uint16_t checksum, const uint8_t *old_bytes, const uint8_t *new_bytes, size_t size)
{
	for (size_t i = 0; i + 1 < size; i += 2) {
		uint16_t old, new;
		memcpy(&old, old_bytes + i, sizeof(old));
		memcpy(&new, new_bytes + i, sizeof(new));
		checksum = base_checksum_update16(checksum, old, new);
	}
	return checksum;
}
