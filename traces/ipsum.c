/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/ipsum.h"

#include "traces/headers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	NAME_MAX = 24,
	IP_DONT_FRAGMENT = 0x4000,
	IP_MORE_FRAGMENTS = 0x2000,
	IP_OFFSET_MASK = 0x1fff,
	/* "a later fragment": any offset does, this one is Click's */
	FRAGMENT_SOMEWHERE = 100,
	TCP_FLAGS_COUNT = 9,
};

#define NS_PER_S UINT64_C(1000000000)

/* ---- names ---- */

static const struct {
	const char *name;
	uint8_t field, bytes;
} names[] = {
	{ "timestamp", TRACES_IPSUM_TIMESTAMP, 8 },
	{ "utimestamp", TRACES_IPSUM_TIMESTAMP, 8 },
	{ "ts", TRACES_IPSUM_TIMESTAMP, 8 },
	{ "ntimestamp", TRACES_IPSUM_NTIMESTAMP, 8 },
	{ "ts_sec", TRACES_IPSUM_TS_SEC, 4 },
	{ "sec", TRACES_IPSUM_TS_SEC, 4 },
	{ "ts_usec", TRACES_IPSUM_TS_USEC, 4 },
	{ "usec", TRACES_IPSUM_TS_USEC, 4 },
	{ "ts_usec1", TRACES_IPSUM_TS_USEC1, 8 },
	{ "usec1", TRACES_IPSUM_TS_USEC1, 8 },
	{ "ip_src", TRACES_IPSUM_IP_SRC, 4 },
	{ "ip_dst", TRACES_IPSUM_IP_DST, 4 },
	{ "sport", TRACES_IPSUM_SPORT, 2 },
	{ "dport", TRACES_IPSUM_DPORT, 2 },
	{ "ip_proto", TRACES_IPSUM_IP_PROTO, 1 },
	{ "ip_p", TRACES_IPSUM_IP_PROTO, 1 },
	{ "ip_len", TRACES_IPSUM_IP_LEN, 4 },
	{ "length", TRACES_IPSUM_IP_LEN, 4 },
	{ "ip_hl", TRACES_IPSUM_IP_HL, 1 },
	{ "ip_id", TRACES_IPSUM_IP_ID, 2 },
	{ "ip_tos", TRACES_IPSUM_IP_TOS, 1 },
	{ "ip_dscp", TRACES_IPSUM_IP_DSCP, 1 },
	{ "ip_ecn", TRACES_IPSUM_IP_ECN, 1 },
	{ "ip_ttl", TRACES_IPSUM_IP_TTL, 1 },
	{ "ip_sum", TRACES_IPSUM_IP_SUM, 2 },
	{ "ip_frag", TRACES_IPSUM_IP_FRAG, 1 },
	{ "ip_fragoff", TRACES_IPSUM_IP_FRAGOFF, 2 },
	{ "tcp_seq", TRACES_IPSUM_TCP_SEQ, 4 },
	{ "tcp_seqno", TRACES_IPSUM_TCP_SEQ, 4 },
	{ "tcp_ack", TRACES_IPSUM_TCP_ACK, 4 },
	{ "tcp_ackno", TRACES_IPSUM_TCP_ACK, 4 },
	{ "tcp_off", TRACES_IPSUM_TCP_OFF, 1 },
	{ "tcp_flags", TRACES_IPSUM_TCP_FLAGS, 1 },
	{ "tcp_window", TRACES_IPSUM_TCP_WINDOW, 2 },
	{ "tcp_win", TRACES_IPSUM_TCP_WINDOW, 2 },
	{ "tcp_urp", TRACES_IPSUM_TCP_URP, 2 },
	{ "udp_len", TRACES_IPSUM_UDP_LEN, 4 },
	{ "icmp_type", TRACES_IPSUM_ICMP_TYPE, 1 },
	{ "icmp_code", TRACES_IPSUM_ICMP_CODE, 1 },
	{ "icmp_flowid", TRACES_IPSUM_ICMP_FLOWID, 2 },
	{ "icmp_seq", TRACES_IPSUM_ICMP_SEQ, 2 },
	{ "payload_len", TRACES_IPSUM_PAYLOAD_LEN, 4 },
	{ "payload_length", TRACES_IPSUM_PAYLOAD_LEN, 4 },
	{ "wire_len", TRACES_IPSUM_WIRE_LEN, 4 },
	{ "count", TRACES_IPSUM_COUNT, 4 },
	{ "pkt_count", TRACES_IPSUM_COUNT, 4 },
	{ "packet_count", TRACES_IPSUM_COUNT, 4 },
	{ "ip_capture_len", TRACES_IPSUM_IP_CAPTURE_LEN, 4 },
	{ "eth_src", TRACES_IPSUM_ETH_SRC, 6 },
	{ "eth_dst", TRACES_IPSUM_ETH_DST, 6 },
	{ "none", TRACES_IPSUM_OTHER, 0 },
	{ "first_timestamp", TRACES_IPSUM_OTHER, 8 },
	{ "first_utimestamp", TRACES_IPSUM_OTHER, 8 },
	{ "first_ntimestamp", TRACES_IPSUM_OTHER, 8 },
	{ "first_ts", TRACES_IPSUM_OTHER, 8 },
	{ "link", TRACES_IPSUM_OTHER, 1 },
	{ "paint", TRACES_IPSUM_OTHER, 1 },
	{ "direction", TRACES_IPSUM_OTHER, 1 },
	{ "aggregate", TRACES_IPSUM_OTHER, 4 },
	{ "agg", TRACES_IPSUM_OTHER, 4 },
	{ "icmp_nextmtu", TRACES_IPSUM_OTHER, 2 },
	{ "icmp_type_name", TRACES_IPSUM_OTHER, TRACES_IPSUM_NONE },
	{ "icmp_code_name", TRACES_IPSUM_OTHER, TRACES_IPSUM_NONE },
	{ "ip_opt", TRACES_IPSUM_OTHER, TRACES_IPSUM_VARIABLE },
	{ "tcp_opt", TRACES_IPSUM_OTHER, TRACES_IPSUM_VARIABLE },
	{ "tcp_ntopt", TRACES_IPSUM_OTHER, TRACES_IPSUM_VARIABLE },
	{ "tcp_sack", TRACES_IPSUM_OTHER, TRACES_IPSUM_VARIABLE },
	{ "payload", TRACES_IPSUM_OTHER, TRACES_IPSUM_NONE },
	{ "payload_md5", TRACES_IPSUM_OTHER, 16 },
	{ "payload_md5_hex", TRACES_IPSUM_OTHER, 16 },
};

/* Old dumps wrote "src" for ip_src, and spaces for underscores. False: nobody knows it. */
static bool find_column(const char *word, size_t length, struct traces_ipsum_column *column)
{
	char name[NAME_MAX + 4] = "ip_";
	*column = (struct traces_ipsum_column){ TRACES_IPSUM_OTHER, TRACES_IPSUM_NONE };
	if (length == 0 || length > NAME_MAX)
		return false;
	memcpy(name + 3, word, length);
	name[3 + length] = '\0';
	for (char *c = name; *c != '\0'; c++)
		*c = *c == ' ' ? '_' : *c;
	for (int with_ip = 0; with_ip < 2; with_ip++) {
		const char *sought = with_ip ? name : name + 3;
		for (size_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
			if (strcmp(names[i].name, sought) != 0)
				continue;
			column->field = names[i].field;
			column->bytes = names[i].bytes;
			return true;
		}
	}
	return false;
}

const char *traces_ipsum_field_name(enum traces_ipsum_field field)
{
	for (size_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
		if (names[i].field == field)
			return names[i].name;
	}
	return "none";
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void note_name(char noted[32], const char *name, size_t length)
{
	if (noted[0] == '\0')
		snprintf(noted, 32, "%.*s", (int)length, name);
}

int traces_ipsum_columns_parse(
	struct traces_ipsum_columns *columns, const char *text, size_t length)
{
	struct traces_ipsum_columns parsed = { .count = 0 };
	for (size_t at = 0; at < length;) {
		if (is_space(text[at])) {
			at++;
			continue;
		}
		bool quoted = text[at] == '"';
		size_t start = at += quoted;
		while (at < length && (quoted ? text[at] != '"' : !is_space(text[at])))
			at++;
		if (parsed.count == TRACES_IPSUM_FIELDS_MAX)
			return -EINVAL;
		struct traces_ipsum_column *column = &parsed.column[parsed.count++];
		bool known = find_column(text + start, at - start, column);
		parsed.others_count += column->field == TRACES_IPSUM_OTHER;
		if (!known)
			note_name(parsed.strange, text + start, at - start);
		if (column->field == TRACES_IPSUM_OTHER)
			note_name(parsed.other, text + start, at - start);
		at += quoted;
	}
	if (parsed.count == 0)
		return -EINVAL;
	*columns = parsed;
	return 0;
}

/* ---- text to values ---- */

/* Decimal or 0x hexadecimal; how many characters, 0: no number, or (nearly) above 64 bits. */
static size_t parse_number(const char *text, size_t length, uint64_t *value)
{
	size_t at = 0;
	bool hex = length > 2 && text[0] == '0' && (text[1] | 0x20) == 'x';
	if (hex)
		at = 2;
	uint64_t base = hex ? 16 : 10, number = 0;
	uint64_t number_max = hex ? UINT64_MAX / 16 - 1 : UINT64_MAX / 10 - 1;
	size_t start = at;
	for (; at < length; at++) {
		unsigned int digit = (unsigned char)text[at] - '0';
		if (hex && digit > 9) {
			digit = ((unsigned char)text[at] | 0x20u) - 'a' + 10;
			digit = digit < 10 ? base : digit;
		}
		if (digit >= base)
			break;
		if (number > number_max)
			return 0;
		number = number * base + digit;
	}
	*value = number;
	return at > start ? at : 0;
}

static bool parse_whole(const char *text, size_t length, uint64_t limit, uint64_t *value)
{
	return parse_number(text, length, value) == length && length > 0 && *value <= limit;
}

/* "996033261.451094": to nanoseconds; digits beyond them are cut. */
static bool parse_time(const char *text, size_t length, uint64_t *value)
{
	uint64_t seconds, ns = 0, unit = NS_PER_S;
	size_t at = parse_number(text, length, &seconds);
	if (at == 0 || seconds > TRACES_TIME_NS_MAX / NS_PER_S)
		return false;
	if (at < length && text[at++] != '.')
		return false;
	for (; at < length; at++) {
		unsigned int digit = (unsigned char)text[at] - '0';
		if (digit > 9)
			return false;
		unit /= 10;
		ns += digit * unit;
	}
	*value = seconds * NS_PER_S + ns;
	return *value <= TRACES_TIME_NS_MAX;
}

static bool parse_address(const char *text, size_t length, uint64_t *value)
{
	size_t at = 0;
	uint64_t address = 0;
	for (int i = 0; i < 4; i++) {
		uint64_t byte;
		size_t used = parse_number(text + at, length - at, &byte);
		if (used == 0 || used > 3 || byte > 255)
			return false;
		address = address << 8 | byte;
		at += used;
		if (i < 3 && (at == length || text[at++] != '.'))
			return false;
	}
	*value = address;
	return at == length;
}

static bool parse_protocol(const char *text, size_t length, uint64_t *value)
{
	if (length == 1 && (text[0] == 'T' || text[0] == 'U' || text[0] == 'I')) {
		*value = text[0] == 'T'   ? BASE_PROTOCOL_TCP
			 : text[0] == 'U' ? BASE_PROTOCOL_UDP
					  : BASE_PROTOCOL_ICMP;
		return true;
	}
	return parse_whole(text, length, UINT8_MAX, value);
}

/* "0", "1480+", "0!": an offset in bytes (in 8 bytes before version 1.1), MF, DF. */
static bool parse_fragment(const char *text, size_t length, unsigned int minor, uint64_t *value)
{
	if (length == 1 && (unsigned int)(text[0] - '0') > 9) {
		static const char letters[] = ".!Ff";
		static const uint16_t meanings[] = { 0, IP_DONT_FRAGMENT, IP_MORE_FRAGMENTS,
			FRAGMENT_SOMEWHERE };
		const char *letter = memchr(letters, text[0], sizeof(letters) - 1);
		*value = letter == NULL ? 0 : meanings[letter - letters];
		return letter != NULL;
	}
	uint64_t offset;
	size_t at = parse_number(text, length, &offset);
	if (minor > 0)
		offset >>= 3;
	if (at == 0 || offset > IP_OFFSET_MASK)
		return false;
	for (; at < length; at++) {
		if (text[at] != '!' && text[at] != '+')
			return false;
		offset |= text[at] == '!' ? IP_DONT_FRAGMENT : IP_MORE_FRAGMENTS;
	}
	*value = offset;
	return true;
}

/* Letters from FIN up; W, X and Y are spellings of old dumps. */
static bool parse_tcp_flags(const char *text, size_t length, uint64_t *value)
{
	static const char letters[] = "FSRPAUECN";
	if (parse_whole(text, length, 0x1ff, value))
		return true;
	*value = 0;
	if (length == 1 && text[0] == '.')
		return true;
	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		c = c == 'X' ? 'E' : c == 'Y' || c == 'W' ? 'C' : c;
		const char *letter = memchr(letters, c, TCP_FLAGS_COUNT);
		if (letter == NULL)
			return false;
		*value |= UINT64_C(1) << (letter - letters);
	}
	return length > 0;
}

static bool parse_ecn(const char *text, size_t length, uint64_t *value)
{
	static const char *const words[] = { "no", "ect1", "ect2", "ce" };
	for (uint64_t i = 0; i < BASE_ARRAY_COUNT(words); i++) {
		if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) {
			*value = i;
			return true;
		}
	}
	return parse_whole(text, length, 3, value);
}

static uint64_t number_limit(enum traces_ipsum_field field)
{
	switch (field) {
	case TRACES_IPSUM_TS_USEC1:
		return TRACES_TIME_NS_MAX / 1000;
	case TRACES_IPSUM_TS_USEC:
		return 999999;
	case TRACES_IPSUM_IP_DSCP:
		return 63;
	case TRACES_IPSUM_IP_HL:
	case TRACES_IPSUM_IP_TOS:
	case TRACES_IPSUM_IP_TTL:
	case TRACES_IPSUM_TCP_OFF:
	case TRACES_IPSUM_ICMP_TYPE:
	case TRACES_IPSUM_ICMP_CODE:
		return UINT8_MAX;
	case TRACES_IPSUM_SPORT:
	case TRACES_IPSUM_DPORT:
	case TRACES_IPSUM_IP_ID:
	case TRACES_IPSUM_IP_SUM:
	case TRACES_IPSUM_TCP_WINDOW:
	case TRACES_IPSUM_TCP_URP:
	case TRACES_IPSUM_ICMP_FLOWID:
	case TRACES_IPSUM_ICMP_SEQ:
		return UINT16_MAX;
	default:
		return UINT32_MAX;
	}
}

bool traces_ipsum_value_parse(enum traces_ipsum_field field, const char *text, size_t length,
	unsigned int minor, uint64_t *value)
{
	switch (field) {
	case TRACES_IPSUM_TIMESTAMP:
	case TRACES_IPSUM_NTIMESTAMP:
		return parse_time(text, length, value);
	case TRACES_IPSUM_IP_SRC:
	case TRACES_IPSUM_IP_DST:
		return parse_address(text, length, value);
	case TRACES_IPSUM_IP_PROTO:
		return parse_protocol(text, length, value);
	case TRACES_IPSUM_IP_FRAG:
	case TRACES_IPSUM_IP_FRAGOFF:
		return parse_fragment(text, length, minor, value);
	case TRACES_IPSUM_TCP_FLAGS:
		return parse_tcp_flags(text, length, value);
	case TRACES_IPSUM_IP_ECN:
		return parse_ecn(text, length, value);
	default:
		return parse_whole(text, length, number_limit(field), value);
	}
}

/* ---- values to text ---- */

static uint8_t *print_number(uint8_t *at, uint64_t value)
{
	uint8_t digits[20];
	size_t count = 0;
	do {
		digits[count++] = (uint8_t)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	while (count > 0)
		*at++ = digits[--count];
	return at;
}

static uint8_t *print_time(uint8_t *at, uint64_t time_ns, bool ns)
{
	at = print_number(at, time_ns / NS_PER_S);
	*at++ = '.';
	unsigned int digits = ns ? 9 : 6;
	uint64_t fraction = ns ? time_ns % NS_PER_S : time_ns % NS_PER_S / 1000;
	for (unsigned int i = digits; i-- > 0; fraction /= 10)
		at[i] = (uint8_t)('0' + fraction % 10);
	return at + digits;
}

static uint8_t *print_address(uint8_t *at, uint64_t address)
{
	for (int shift = 24; shift >= 0; shift -= 8) {
		at = print_number(at, address >> shift & 255);
		*at++ = '.';
	}
	return at - 1;
}

static uint8_t *print_hardware(uint8_t *at, uint64_t address)
{
	static const char hex[] = "0123456789ABCDEF";
	for (int shift = 40; shift >= 0; shift -= 8) {
		*at++ = (uint8_t)hex[address >> (shift + 4) & 15];
		*at++ = (uint8_t)hex[address >> shift & 15];
		*at++ = '-';
	}
	return at - 1;
}

static uint8_t *print_protocol(uint8_t *at, uint64_t protocol)
{
	if (protocol != BASE_PROTOCOL_TCP && protocol != BASE_PROTOCOL_UDP &&
		protocol != BASE_PROTOCOL_ICMP)
		return print_number(at, protocol);
	*at = protocol == BASE_PROTOCOL_TCP ? 'T' : protocol == BASE_PROTOCOL_UDP ? 'U' : 'I';
	return at + 1;
}

static uint8_t *print_tcp_flags(uint8_t *at, uint64_t flags)
{
	static const char letters[] = "FSRPAUECN";
	if ((flags & 0x1ff) == 0)
		*at++ = '.';
	for (int i = 0; i < TCP_FLAGS_COUNT; i++) {
		if (flags >> i & 1)
			*at++ = (uint8_t)letters[i];
	}
	return at;
}

static uint8_t *print_fragment(uint8_t *at, uint64_t bits)
{
	at = print_number(at, (bits & IP_OFFSET_MASK) << 3);
	if (bits & IP_MORE_FRAGMENTS)
		*at++ = '+';
	if (bits & IP_DONT_FRAGMENT)
		*at++ = '!';
	return at;
}

size_t traces_ipsum_value_print(
	enum traces_ipsum_field field, uint64_t value, bool ns, uint8_t *text)
{
	static const char *const ecn[] = { "no", "ect1", "ect2", "ce" };
	switch (field) {
	case TRACES_IPSUM_TIMESTAMP:
		return (size_t)(print_time(text, value, ns) - text);
	case TRACES_IPSUM_NTIMESTAMP:
		return (size_t)(print_time(text, value, true) - text);
	case TRACES_IPSUM_IP_SRC:
	case TRACES_IPSUM_IP_DST:
		return (size_t)(print_address(text, value) - text);
	case TRACES_IPSUM_ETH_SRC:
	case TRACES_IPSUM_ETH_DST:
		return (size_t)(print_hardware(text, value) - text);
	case TRACES_IPSUM_IP_PROTO:
		return (size_t)(print_protocol(text, value) - text);
	case TRACES_IPSUM_TCP_FLAGS:
		return (size_t)(print_tcp_flags(text, value) - text);
	case TRACES_IPSUM_IP_FRAGOFF:
		return (size_t)(print_fragment(text, value) - text);
	case TRACES_IPSUM_IP_FRAG:
		text[0] = (uint8_t)value;
		return 1;
	case TRACES_IPSUM_IP_ECN:
		memcpy(text, ecn[value & 3], strlen(ecn[value & 3]));
		return strlen(ecn[value & 3]);
	default:
		return (size_t)(print_number(text, value) - text);
	}
}
