/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/anon.h"

#include "base/compiler.h"
#include "traces/headers.h"

#include <string.h>

bool traces_anon_cover(struct traces_anon_walk *walk, const struct traces_anon_cover *cover)
{
	if (walk->covers_count == TRACES_ANON_COVERS_MAX)
		return false;
	walk->covers[walk->covers_count++] = *cover;
	return true;
}

/* Where byte `at` stands in what is summed: 0 is the upper half of a word, 1 the lower, -1 not in
 * it. */
static int half_of(const struct traces_anon_cover *cover, uint32_t at)
{
	if (at >= cover->start && at < cover->end)
		return (int)((at - cover->start) & 1);
	if (at >= cover->source && at - cover->source < cover->address_bytes)
		return (int)((at - cover->source) & 1);
	if (at >= cover->destination && at - cover->destination < cover->address_bytes)
		return (int)((at - cover->destination) & 1);
	return -1;
}

/* How much the sum changes, modulo 65535. */
static uint32_t difference(const struct traces_anon_cover *cover, const uint8_t *old_bytes,
	const uint8_t *new_bytes, uint32_t at, uint32_t size)
{
	int32_t sum = 0;
	for (uint32_t i = 0; i < size; i++) {
		int half = half_of(cover, at + i);
		if (half >= 0)
			sum += (new_bytes[i] - old_bytes[i]) * (half == 0 ? 256 : 1);
	}
	sum %= 65535;
	return (uint32_t)(sum < 0 ? sum + 65535 : sum);
}

static void patch_below(struct traces_anon_walk *walk, uint32_t at, const uint8_t *bytes,
	uint32_t size, uint32_t covers_count)
{
	uint8_t *place = walk->frame + at;
	BASE_ASSERT(traces_anon_has(walk->cap_len, at, size));
	for (uint32_t i = covers_count; i-- > 0;) {
		const struct traces_anon_cover *cover = &walk->covers[i];
		uint32_t delta = difference(cover, place, bytes, at, size);
		if (delta == 0)
			continue;
		uint8_t *field = walk->frame + cover->field;
		uint32_t sum = (uint16_t)~traces_net16(field) + delta;
		sum = (sum & 0xffff) + (sum >> 16);
		uint16_t checksum = (uint16_t)~sum;
		if (checksum == 0 && cover->zero_is_none)
			checksum = UINT16_MAX;
		uint8_t updated[2];
		traces_put_net16(updated, checksum);
		/* The field is itself among the bytes of the covers around it. */
		patch_below(walk, cover->field, updated, sizeof(updated), i);
	}
	memcpy(place, bytes, size);
}

void traces_anon_patch(
	struct traces_anon_walk *walk, uint32_t at, const uint8_t *bytes, uint32_t size)
{
	patch_below(walk, at, bytes, size, walk->covers_count);
}

void traces_anon_ip4_address(struct traces_anon_walk *walk, uint32_t at)
{
	uint8_t address[4];
	traces_cryptopan_ip4(walk->cryptopan, walk->frame + at, address);
	traces_anon_patch(walk, at, address, sizeof(address));
	walk->report->ip4_addresses++;
}

void traces_anon_ip6_address(struct traces_anon_walk *walk, uint32_t at)
{
	uint8_t address[16];
	traces_cryptopan_ip6(walk->cryptopan, walk->frame + at, address);
	traces_anon_patch(walk, at, address, sizeof(address));
	walk->report->ip6_addresses++;
}

void traces_anon_mac(struct traces_anon_walk *walk, uint32_t at)
{
	uint8_t address[TRACES_ANON_MAC_BYTES] = { 0 };
	if (walk->options->macs == TRACES_MACS_KEEP)
		return;
	if (walk->options->macs == TRACES_MACS_HASH)
		traces_cryptopan_mac(walk->cryptopan, walk->frame + at, address);
	traces_anon_patch(walk, at, address, sizeof(address));
	walk->report->mac_addresses++;
}

void traces_anon_fill(struct traces_anon_walk *walk, uint32_t at, uint32_t size, uint8_t value)
{
	uint8_t bytes[64];
	memset(bytes, value, sizeof(bytes));
	while (size > 0) {
		uint32_t part = size < sizeof(bytes) ? size : (uint32_t)sizeof(bytes);
		traces_anon_patch(walk, at, bytes, part);
		at += part;
		size -= part;
	}
}
