/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/captures.h"

#include "base/compiler.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

void captures_release(struct captures_bytes *bytes)
{
	free(bytes->data);
	memset(bytes, 0, sizeof(*bytes));
}

void captures_put(struct captures_bytes *bytes, const void *data, size_t size)
{
	if (bytes->capacity - bytes->size < size) {
		bytes->capacity = 2 * (bytes->size + size);
		bytes->data = realloc(bytes->data, bytes->capacity);
		BASE_ASSERT(bytes->data != NULL);
	}
	if (size > 0)
		memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
}

void captures_put8(struct captures_bytes *bytes, uint8_t value)
{
	captures_put(bytes, &value, 1);
}

void captures_put16(struct captures_bytes *bytes, uint16_t value)
{
	if (bytes->big_endian)
		value = __builtin_bswap16(value);
	captures_put(bytes, &value, 2);
}

void captures_put32(struct captures_bytes *bytes, uint32_t value)
{
	if (bytes->big_endian)
		value = __builtin_bswap32(value);
	captures_put(bytes, &value, 4);
}

void captures_put64(struct captures_bytes *bytes, uint64_t value)
{
	if (bytes->big_endian)
		value = __builtin_bswap64(value);
	captures_put(bytes, &value, 8);
}

void captures_put_pattern(struct captures_bytes *bytes, uint8_t seed, size_t size)
{
	for (size_t i = 0; i < size; i++)
		captures_put8(bytes, seed++);
}

void captures_pcap_header(
	struct captures_bytes *bytes, uint32_t magic, uint32_t snaplen, uint32_t linktype)
{
	captures_put32(bytes, magic);
	captures_put16(bytes, 2);
	captures_put16(bytes, 4);
	captures_put64(bytes, 0);
	captures_put32(bytes, snaplen);
	captures_put32(bytes, linktype);
}

void captures_pcap_record(struct captures_bytes *bytes, uint32_t seconds, uint32_t fraction,
	uint32_t cap_len, uint32_t wire_len, uint8_t seed)
{
	captures_put32(bytes, seconds);
	captures_put32(bytes, fraction);
	captures_put32(bytes, cap_len);
	captures_put32(bytes, wire_len);
	captures_put_pattern(bytes, seed, cap_len);
}

void captures_block(struct captures_bytes *bytes, uint32_t type, const void *body, size_t body_size)
{
	size_t padding = -body_size & 3;
	uint32_t length = (uint32_t)(12 + body_size + padding);
	captures_put32(bytes, type);
	captures_put32(bytes, length);
	captures_put(bytes, body, body_size);
	captures_put(bytes, "\0\0\0", padding);
	captures_put32(bytes, length);
}

static void put_block(struct captures_bytes *bytes, uint32_t type, struct captures_bytes *body)
{
	captures_block(bytes, type, body->data, body->size);
	captures_release(body);
}

void captures_section(struct captures_bytes *bytes)
{
	struct captures_bytes body = { .big_endian = bytes->big_endian };
	captures_put32(&body, 0x1a2b3c4d);
	captures_put16(&body, 1);
	captures_put16(&body, 0);
	captures_put64(&body, UINT64_MAX);
	put_block(bytes, 0x0a0d0d0a, &body);
}

void captures_interface(struct captures_bytes *bytes, uint16_t linktype, uint32_t snaplen,
	int tsresol, int64_t tsoffset_s)
{
	struct captures_bytes body = { .big_endian = bytes->big_endian };
	captures_put16(&body, linktype);
	captures_put16(&body, 0);
	captures_put32(&body, snaplen);
	if (tsresol >= 0) {
		captures_put16(&body, 9);
		captures_put16(&body, 1);
		captures_put8(&body, (uint8_t)tsresol);
		captures_put(&body, "\0\0", 3);
	}
	if (tsoffset_s != 0) {
		captures_put16(&body, 14);
		captures_put16(&body, 8);
		captures_put64(&body, (uint64_t)tsoffset_s);
	}
	put_block(bytes, 1, &body);
}

void captures_enhanced_packet(struct captures_bytes *bytes, uint32_t interface, uint64_t ticks,
	uint32_t cap_len, uint32_t wire_len, uint8_t seed)
{
	struct captures_bytes body = { .big_endian = bytes->big_endian };
	captures_put32(&body, interface);
	captures_put32(&body, (uint32_t)(ticks >> 32));
	captures_put32(&body, (uint32_t)ticks);
	captures_put32(&body, cap_len);
	captures_put32(&body, wire_len);
	captures_put_pattern(&body, seed, cap_len);
	put_block(bytes, 6, &body);
}

void captures_obsolete_packet(struct captures_bytes *bytes, uint16_t interface, uint64_t ticks,
	uint32_t cap_len, uint32_t wire_len, uint8_t seed)
{
	struct captures_bytes body = { .big_endian = bytes->big_endian };
	captures_put16(&body, interface);
	captures_put16(&body, 0xffff); /* drops: not known */
	captures_put32(&body, (uint32_t)(ticks >> 32));
	captures_put32(&body, (uint32_t)ticks);
	captures_put32(&body, cap_len);
	captures_put32(&body, wire_len);
	captures_put_pattern(&body, seed, cap_len);
	put_block(bytes, 2, &body);
}

void captures_simple_packet(
	struct captures_bytes *bytes, uint32_t cap_len, uint32_t wire_len, uint8_t seed)
{
	struct captures_bytes body = { .big_endian = bytes->big_endian };
	captures_put32(&body, wire_len);
	captures_put_pattern(&body, seed, cap_len);
	put_block(bytes, 3, &body);
}

void captures_gzip(struct captures_bytes *to, const void *data, size_t size)
{
	z_stream stream = { 0 };
	BASE_ASSERT(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	size_t bound = deflateBound(&stream, size);
	uint8_t *packed = malloc(bound);
	BASE_ASSERT(packed != NULL);
	stream.next_in = (Bytef *)(uintptr_t)data;
	stream.avail_in = (uInt)size;
	stream.next_out = packed;
	stream.avail_out = (uInt)bound;
	BASE_ASSERT(deflate(&stream, Z_FINISH) == Z_STREAM_END);
	captures_put(to, packed, bound - stream.avail_out);
	deflateEnd(&stream);
	free(packed);
}

void captures_zstd(struct captures_bytes *to, const void *data, size_t size)
{
	size_t bound = ZSTD_compressBound(size);
	uint8_t *packed = malloc(bound);
	BASE_ASSERT(packed != NULL);
	size_t packed_size = ZSTD_compress(packed, bound, data, size, 1);
	BASE_ASSERT(!ZSTD_isError(packed_size));
	captures_put(to, packed, packed_size);
	free(packed);
}

void captures_directory_create(struct captures_directory *directory)
{
	const char *parent = getenv("TMPDIR");
	snprintf(directory->path, sizeof(directory->path), "%s/sheaf-captures-XXXXXX",
		parent != NULL && parent[0] ? parent : ".");
	BASE_ASSERT(mkdtemp(directory->path) != NULL);
}

void captures_directory_destroy(struct captures_directory *directory)
{
	DIR *entries = opendir(directory->path);
	BASE_ASSERT(entries != NULL);
	struct dirent *entry;
	while ((entry = readdir(entries)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(entries), entry->d_name, 0);
	}
	closedir(entries);
	rmdir(directory->path);
}

const char *captures_path(struct captures_directory *directory, const char *name)
{
	int length =
		snprintf(directory->file, sizeof(directory->file), "%s/%s", directory->path, name);
	BASE_ASSERT(length < (int)sizeof(directory->file));
	return directory->file;
}

const char *captures_write(
	struct captures_directory *directory, const char *name, const struct captures_bytes *bytes)
{
	FILE *file = fopen(captures_path(directory, name), "wb");
	BASE_ASSERT(file != NULL);
	BASE_ASSERT(bytes->size == 0 || fwrite(bytes->data, 1, bytes->size, file) == bytes->size);
	BASE_ASSERT(fclose(file) == 0);
	return directory->file;
}

struct captures_bytes captures_read(const char *path)
{
	struct captures_bytes bytes = { 0 };
	FILE *file = fopen(path, "rb");
	BASE_ASSERT(file != NULL);
	uint8_t part[4096];
	size_t got;
	while ((got = fread(part, 1, sizeof(part), file)) > 0)
		captures_put(&bytes, part, got);
	fclose(file);
	return bytes;
}

int captures_load(struct traces_trace **trace, const char *path, struct traces_load_report *report)
{
	struct traces_load_options options;
	traces_load_options_defaults(&options);
	return traces_trace_load(trace, &path, 1, &options, report);
}
