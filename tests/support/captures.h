/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture files for tests, byte by byte, in either byte order, valid or spoilt; and a folder of the
 * test's own to put them in. Out of memory or out of disk aborts: these are tests.
 */
#pragma once

#include "traces/traces.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTURES_MAGIC_US UINT32_C(0xa1b2c3d4)
#define CAPTURES_MAGIC_NS UINT32_C(0xa1b23c4d)

struct captures_bytes {
	uint8_t *data;
	size_t size;
	size_t capacity;
	bool big_endian; /* order of what put16 and on write */
};

void captures_release(struct captures_bytes *bytes);
void captures_put(struct captures_bytes *bytes, const void *data, size_t size);
void captures_put8(struct captures_bytes *bytes, uint8_t value);
void captures_put16(struct captures_bytes *bytes, uint16_t value);
void captures_put32(struct captures_bytes *bytes, uint32_t value);
void captures_put64(struct captures_bytes *bytes, uint64_t value);

/* Bytes that differ from frame to frame: seed, seed + 1, ... */
void captures_put_pattern(struct captures_bytes *bytes, uint8_t seed, size_t size);

void captures_pcap_header(
	struct captures_bytes *bytes, uint32_t magic, uint32_t snaplen, uint32_t linktype);
/* The frame is cap_len bytes of captures_put_pattern(seed). */
void captures_pcap_record(struct captures_bytes *bytes, uint32_t seconds, uint32_t fraction,
	uint32_t cap_len, uint32_t wire_len, uint8_t seed);

/* Any block: type, length, body padded to 4, length. */
void captures_block(
	struct captures_bytes *bytes, uint32_t type, const void *body, size_t body_size);
void captures_section(struct captures_bytes *bytes);
/* tsresol < 0 and tsoffset_s == 0 leave their options out. */
void captures_interface(struct captures_bytes *bytes, uint16_t linktype, uint32_t snaplen,
	int tsresol, int64_t tsoffset_s);
void captures_enhanced_packet(struct captures_bytes *bytes, uint32_t interface, uint64_t ticks,
	uint32_t cap_len, uint32_t wire_len, uint8_t seed);
void captures_obsolete_packet(struct captures_bytes *bytes, uint16_t interface, uint64_t ticks,
	uint32_t cap_len, uint32_t wire_len, uint8_t seed);
void captures_simple_packet(
	struct captures_bytes *bytes, uint32_t cap_len, uint32_t wire_len, uint8_t seed);

/* One gzip member, one zstd frame, appended to `to`. */
void captures_gzip(struct captures_bytes *to, const void *data, size_t size);
void captures_zstd(struct captures_bytes *to, const void *data, size_t size);

/* ---- files ---- */

struct captures_directory {
	char path[512];
	char file[600]; /* of the latest captures_path */
};

/* A new folder in $TMPDIR, or else in the working directory. */
void captures_directory_create(struct captures_directory *directory);
/* With everything in it. */
void captures_directory_destroy(struct captures_directory *directory);
/* Path of a file in the folder; valid until the next call. */
const char *captures_path(struct captures_directory *directory, const char *name);
/* Write the file; returns its path like captures_path. */
const char *captures_write(
	struct captures_directory *directory, const char *name, const struct captures_bytes *bytes);
/* Whole file. */
struct captures_bytes captures_read(const char *path);

/* Load one file with default options. */
int captures_load(struct traces_trace **trace, const char *path, struct traces_load_report *report);
