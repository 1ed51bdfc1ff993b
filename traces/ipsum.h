/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to traces/: Click's IPSummaryDump, a packet per line of fields, or per binary record
 * (elements/analysis/toipsumdump.hh in Click's repository describes it).
 *
 *	!IPSummaryDump 1.3
 *	!data timestamp ip_src sport ip_dst dport ip_proto ip_len
 *	996033261.451094 192.0.2.1 22 198.51.100.7 2943 T 132
 *
 * ipsum.c        field names, their width in binary records, numbers as text
 * ipsum_frame.c  field values to a frame, and back
 * read_ipsum.c   the reader
 * write_ipsum.c  the writer
 */
#pragma once

#include "traces/traces.h"

enum { TRACES_IPSUM_FIELDS_MAX = 64 };

enum traces_ipsum_field {
	/* read and written */
	TRACES_IPSUM_TIMESTAMP,  /* ns; in binary seconds and microseconds */
	TRACES_IPSUM_NTIMESTAMP, /* ns; in binary seconds and nanoseconds */
	TRACES_IPSUM_TS_SEC,
	TRACES_IPSUM_TS_USEC,  /* of the second */
	TRACES_IPSUM_TS_USEC1, /* since 1970 */
	TRACES_IPSUM_IP_SRC,
	TRACES_IPSUM_IP_DST,
	TRACES_IPSUM_SPORT,
	TRACES_IPSUM_DPORT,
	TRACES_IPSUM_IP_PROTO,
	TRACES_IPSUM_IP_LEN,
	TRACES_IPSUM_IP_HL, /* bytes */
	TRACES_IPSUM_IP_ID,
	TRACES_IPSUM_IP_TOS,
	TRACES_IPSUM_IP_DSCP,
	TRACES_IPSUM_IP_ECN,
	TRACES_IPSUM_IP_TTL,
	TRACES_IPSUM_IP_SUM,
	TRACES_IPSUM_IP_FRAG,    /* a character */
	TRACES_IPSUM_IP_FRAGOFF, /* as in the header: flags and offset in 8 bytes */
	TRACES_IPSUM_TCP_SEQ,
	TRACES_IPSUM_TCP_ACK,
	TRACES_IPSUM_TCP_OFF, /* bytes */
	TRACES_IPSUM_TCP_FLAGS,
	TRACES_IPSUM_TCP_WINDOW,
	TRACES_IPSUM_TCP_URP,
	TRACES_IPSUM_UDP_LEN,
	TRACES_IPSUM_ICMP_TYPE,
	TRACES_IPSUM_ICMP_CODE,
	TRACES_IPSUM_ICMP_FLOWID,
	TRACES_IPSUM_ICMP_SEQ,
	TRACES_IPSUM_PAYLOAD_LEN,
	TRACES_IPSUM_WIRE_LEN,
	TRACES_IPSUM_COUNT,
	/* written only: a frame made from a line has no place for them */
	TRACES_IPSUM_IP_CAPTURE_LEN,
	TRACES_IPSUM_ETH_SRC,
	TRACES_IPSUM_ETH_DST,
	/* neither */
	TRACES_IPSUM_OTHER,
	TRACES_IPSUM_FIELDS_COUNT = TRACES_IPSUM_OTHER
};
static_assert(TRACES_IPSUM_FIELDS_COUNT < 64, "a bit each");

#define TRACES_IPSUM_BIT(field) (UINT64_C(1) << (field))

/* Binary widths that are no number of bytes. */
enum { TRACES_IPSUM_VARIABLE = 0xfe /* a length byte, then so many */, TRACES_IPSUM_NONE = 0xff };

/* A column of a dump. */
struct traces_ipsum_column {
	uint8_t field; /* enum traces_ipsum_field */
	uint8_t bytes; /* in a binary record */
};

struct traces_ipsum_columns {
	struct traces_ipsum_column column[TRACES_IPSUM_FIELDS_MAX];
	size_t count;
	size_t others_count; /* known to Click, of no use here */
	char other[32];      /* the first of them; empty: none */
	char strange[32];    /* a name that Click does not know either; empty: none */
};

/* What a line or a frame says. value[field] is valid where the field's bit is set. */
struct traces_ipsum_values {
	uint64_t present;
	uint64_t value[TRACES_IPSUM_FIELDS_COUNT];
};

/* Is it of use to a reader? */
static inline bool traces_ipsum_is_read(enum traces_ipsum_field field)
{
	return field <= TRACES_IPSUM_COUNT;
}

static inline bool traces_ipsum_has(
	const struct traces_ipsum_values *values, enum traces_ipsum_field field)
{
	return (values->present >> field & 1) != 0;
}

static inline void traces_ipsum_set(
	struct traces_ipsum_values *values, enum traces_ipsum_field field, uint64_t value)
{
	values->value[field] = value;
	values->present |= TRACES_IPSUM_BIT(field);
}

/* The names behind "!data", old spellings and quotes included. -EINVAL: none, or too many. */
int traces_ipsum_columns_parse(
	struct traces_ipsum_columns *columns, const char *text, size_t length);
const char *traces_ipsum_field_name(enum traces_ipsum_field field);

/* A value as text. minor: the file's version 1.minor. false: it is none. */
bool traces_ipsum_value_parse(enum traces_ipsum_field field, const char *text, size_t length,
	unsigned int minor, uint64_t *value);
enum { TRACES_IPSUM_TEXT_BYTES = 40 };
/* Writes at most TRACES_IPSUM_TEXT_BYTES; how many. ns: timestamps with nine digits, not six. */
size_t traces_ipsum_value_print(
	enum traces_ipsum_field field, uint64_t value, bool ns, uint8_t *text);

/* ---- ipsum_frame.c ---- */

enum { TRACES_IPSUM_FRAME_BYTES_MAX = 120 };

/*
 * The IPv4 headers that values describe, options and payload left as zeros, checksums valid for
 * that. What is not said: protocol TCP, TTL 64, TCP flags ACK, length that of the headers. Sets
 * cap_len and wire_len. -EINVAL: lengths that no packet has, with *reason.
 */
int traces_ipsum_to_frame(const struct traces_ipsum_values *values, uint8_t *frame,
	struct traces_record *record, const char **reason);
/* Values of all fields in `wanted` that the frame has. false: no IPv4 header. */
bool traces_ipsum_from_frame(struct traces_ipsum_values *values, uint64_t wanted,
	const struct traces_record *record, const uint8_t *frame);
