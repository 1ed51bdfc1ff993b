/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internet checksum (RFC 1071) and its incremental update (RFC 1624, equation 3). Pure functions on
 * bytes. Values are in network order as they stand in the packet, read and written as uint16_t.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* One's complement sum over bytes; `sum` carries a running sum (start with 0). */
uint32_t base_checksum_add(const uint8_t *bytes, size_t size, uint32_t sum);

/* Fold and complement a running sum. */
uint16_t base_checksum_finish(uint32_t sum);

/* Update `checksum` for a field that changed from old to new (RFC 1624: HC' = ~(~HC + ~m + m')). */
static inline uint16_t base_checksum_update16(uint16_t checksum, uint16_t old, uint16_t new)
{
	uint32_t sum = (uint16_t)~checksum + (uint32_t)(uint16_t)~old + new;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static inline uint16_t base_checksum_update32(uint16_t checksum, uint32_t old, uint32_t new)
{
	checksum = base_checksum_update16(checksum, (uint16_t)old, (uint16_t) new);
	return base_checksum_update16(checksum, (uint16_t)(old >> 16), (uint16_t)(new >> 16));
}

/* size must be even. */
uint16_t base_checksum_update_bytes(
	uint16_t checksum, const uint8_t *old_bytes, const uint8_t *new_bytes, size_t size);
