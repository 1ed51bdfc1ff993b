/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/support/conn_script.h"

#include "conntrack/conntrack.h"
#include "tests/support/packets.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 32, WORD_MAX = 48, CLIENT_PORT = 40000, SERVER_PORT = 80 };

static const struct {
	const char *name;
	enum conntrack_state state;
} state_names[] = {
	{ "-", CONNTRACK_STATE_NONE },
	{ "SS", CONNTRACK_STATE_TCP_SYN_SENT },
	{ "S2", CONNTRACK_STATE_TCP_SYN_SENT2 },
	{ "SR", CONNTRACK_STATE_TCP_SYN_RECV },
	{ "ES", CONNTRACK_STATE_TCP_ESTABLISHED },
	{ "FW", CONNTRACK_STATE_TCP_FIN_WAIT },
	{ "CW", CONNTRACK_STATE_TCP_CLOSE_WAIT },
	{ "LA", CONNTRACK_STATE_TCP_LAST_ACK },
	{ "TW", CONNTRACK_STATE_TCP_TIME_WAIT },
	{ "CL", CONNTRACK_STATE_TCP_CLOSE },
	{ "UU", CONNTRACK_STATE_UDP_UNREPLIED },
	{ "UR", CONNTRACK_STATE_UDP_REPLIED },
	{ "US", CONNTRACK_STATE_UDP_STREAM },
	{ "IC", CONNTRACK_STATE_ICMP },
	{ "GU", CONNTRACK_STATE_GRE_UNREPLIED },
	{ "GR", CONNTRACK_STATE_GRE_REPLIED },
	{ "sCL", CONNTRACK_STATE_SCTP_CLOSED },
	{ "sCW", CONNTRACK_STATE_SCTP_COOKIE_WAIT },
	{ "sCE", CONNTRACK_STATE_SCTP_COOKIE_ECHOED },
	{ "sES", CONNTRACK_STATE_SCTP_ESTABLISHED },
	{ "sSS", CONNTRACK_STATE_SCTP_SHUTDOWN_SENT },
	{ "sSR", CONNTRACK_STATE_SCTP_SHUTDOWN_RECD },
	{ "sSA", CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT },
	{ "sHS", CONNTRACK_STATE_SCTP_HEARTBEAT_SENT },
	{ "GE", CONNTRACK_STATE_GENERIC },
};

static const struct {
	const char *name;
	uint8_t type;
} chunk_names[] = { { "data", 0 }, { "init", 1 }, { "init_ack", 2 }, { "sack", 3 },
	{ "heartbeat", 4 }, { "heartbeat_ack", 5 }, { "abort", 6 }, { "shutdown", 7 },
	{ "shutdown_ack", 8 }, { "error", 9 }, { "cookie_echo", 10 }, { "cookie_ack", 11 },
	{ "shutdown_complete", 14 } };

const struct conn_script *conn_script_at(size_t index)
{
	const struct conn_script_list *const lists[] = { &conn_scripts_tcp, &conn_scripts_window,
		&conn_scripts_other };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(lists); i++) {
		if (index < lists[i]->count)
			return &lists[i]->scripts[index];
		index -= lists[i]->count;
	}
	return NULL;
}

/* A line in words. */
struct words {
	char word[WORDS_MAX][WORD_MAX];
	unsigned int count, at;
};

static _Noreturn void cannot_read(const struct conn_reader *reader, const char *what)
{
	fprintf(stderr, "%s: '%.*s': %s\n", reader->script->name, reader->step.line_len,
		reader->step.line, what);
	abort();
}

static void split(const struct conn_reader *reader, const char *text, int len, struct words *words)
{
	words->count = words->at = 0;
	for (int i = 0; i < len;) {
		int size = 0;
		while (i < len && (text[i] == ' ' || text[i] == '\t'))
			i++;
		while (i + size < len && text[i + size] != ' ' && text[i + size] != '\t')
			size++;
		if (size == 0)
			break;
		if (size >= WORD_MAX || words->count == WORDS_MAX)
			cannot_read(reader, "too long");
		snprintf(words->word[words->count++], WORD_MAX, "%.*s", size, text + i);
		i += size;
	}
}

static const char *next_word(struct words *words)
{
	return words->at < words->count ? words->word[words->at++] : NULL;
}

static uint32_t next_number(const struct conn_reader *reader, struct words *words)
{
	const char *word = next_word(words);
	char *end;
	if (word == NULL)
		cannot_read(reader, "a number is missing");
	unsigned long long value = strtoull(word, &end, 10);
	if (*end != 0 || value > UINT32_MAX)
		cannot_read(reader, "not a number");
	return (uint32_t)value;
}

static struct conn_saying read_saying(const struct conn_reader *reader, const char *text, int len)
{
	struct words words;
	struct conn_saying saying = { .state = -1, .expires_s = -1 };
	split(reader, text, len, &words);
	if (words.count == 1 && strcmp(words.word[0], "?") == 0)
		return saying;
	char *state = words.count != 0 ? words.word[0] : words.word[WORDS_MAX - 1];
	words.at = 1;
	size_t size = words.count != 0 ? strlen(state) : 0;
	if (size > 1 && state[size - 1] == '+') {
		saying.assured = true;
		state[size - 1] = 0;
	}
	for (size_t i = 0; size != 0 && i < BASE_ARRAY_COUNT(state_names); i++)
		if (strcmp(state, state_names[i].name) == 0)
			saying.state = (int)state_names[i].state;
	if (saying.state < 0)
		cannot_read(reader, "not a state");
	for (const char *word; (word = next_word(&words)) != NULL;) {
		if (strcmp(word, "new") == 0)
			saying.fresh = true;
		else if (strcmp(word, "invalid") == 0)
			saying.invalid = true;
		else if (strcmp(word, "related") == 0)
			saying.related = true;
		else if (word[strlen(word) - 1] == 's')
			saying.expires_s = atoi(word);
		else
			cannot_read(reader, "not a saying");
	}
	return saying;
}

void conn_saying_format(const struct conn_saying *saying, char *text, size_t text_size)
{
	const char *state = "?";
	char expires[24] = "";
	for (size_t i = 0; i < BASE_ARRAY_COUNT(state_names); i++)
		if (saying->state == (int)state_names[i].state)
			state = state_names[i].name;
	if (saying->expires_s >= 0)
		snprintf(expires, sizeof(expires), " %ds", saying->expires_s);
	snprintf(text, text_size, "%s%s%s%s%s%s", state, saying->assured ? "+" : "",
		saying->fresh ? " new" : "", saying->invalid ? " invalid" : "",
		saying->related ? " related" : "", expires);
}

/* Addresses 10.1.x.y and 10.2.0.1, or the like of IPv6. */
static void set_addresses(const struct conn_reader *reader, struct packets_spec *spec)
{
	uint32_t n = reader->number;
	if (reader->script->family == 6) {
		static const uint8_t prefix[4] = { 0x20, 0x01, 0x0d, 0xb8 };
		memcpy(spec->source, prefix, 4);
		memcpy(spec->destination, prefix, 4);
		spec->source[5] = 1;
		spec->destination[5] = 2;
		spec->source[14] = (uint8_t)(n >> 8);
		spec->source[15] = (uint8_t)n;
		spec->destination[15] = 1;
		return;
	}
	const uint8_t client[4] = { 10, 1, (uint8_t)(n >> 8), (uint8_t)n };
	const uint8_t server[4] = { 10, 2, 0, 1 };
	memcpy(spec->source, client, 4);
	memcpy(spec->destination, server, 4);
}

void conn_client_address(uint32_t number, uint8_t family, char *text, size_t text_size)
{
	struct conn_script script = { .family = family };
	struct conn_reader reader = { .script = &script, .number = number };
	struct packets_spec spec = { 0 };
	set_addresses(&reader, &spec);
	inet_ntop(family == 6 ? AF_INET6 : AF_INET, spec.source, text, (socklen_t)text_size);
}

static uint8_t tcp_flags_of(const struct conn_reader *reader, const char *word)
{
	static const char letters[] = "FSRPAU";
	uint8_t flags = 0;
	if (strcmp(word, "none") == 0)
		return 0;
	for (; *word != 0; word++) {
		const char *letter = strchr(letters, *word);
		if (letter == NULL)
			cannot_read(reader, "not a packet");
		flags |= (uint8_t)(1u << (letter - letters));
	}
	return flags;
}

/* What a packet is built from. */
struct draft {
	struct packets_spec spec;
	uint8_t options[40];
	uint8_t chunks[256];
	bool bad, fragmented, zero_window;
};

static void add_option(struct draft *draft, uint8_t kind, const uint8_t *value, uint8_t size)
{
	uint8_t *at = draft->options + draft->spec.tcp_options_len;
	BASE_ASSERT(draft->spec.tcp_options_len + 12u + size <= sizeof(draft->options));
	unsigned int pad = (4u - (2u + size) % 4) % 4;
	memset(at, 1, pad);
	at[pad] = kind;
	at[pad + 1] = (uint8_t)(2 + size);
	if (size != 0)
		memcpy(at + pad + 2, value, size);
	draft->spec.tcp_options = draft->options;
	draft->spec.tcp_options_len = (uint16_t)(draft->spec.tcp_options_len + pad + 2 + size);
}

static void add_sack(struct conn_reader *reader, struct draft *draft, const char *range)
{
	unsigned int left = 0, right = 0;
	if (range == NULL || sscanf(range, "%u-%u", &left, &right) != 2)
		cannot_read(reader, "not a range");
	uint32_t edges[2] = { htonl(left), htonl(right) };
	uint8_t value[8];
	memcpy(value, edges, 8);
	add_option(draft, 5, value, 8);
}

static void draft_tcp(
	struct conn_reader *reader, struct words *words, const char *flags, struct draft *draft)
{
	struct packets_spec *spec = &draft->spec;
	spec->protocol = BASE_PROTOCOL_TCP;
	spec->tcp_flags = tcp_flags_of(reader, flags);
	spec->seq = next_number(reader, words);
	if ((spec->tcp_flags & BASE_TCP_ACK) != 0)
		spec->ack = next_number(reader, words);
	for (const char *word; (word = next_word(words)) != NULL;) {
		uint8_t scale;
		if (word[0] == '+') {
			spec->payload_len = (uint16_t)atoi(word + 1);
		} else if (strcmp(word, "win") == 0) {
			spec->tcp_window = (uint16_t)next_number(reader, words);
			draft->zero_window = spec->tcp_window == 0;
		} else if (strcmp(word, "ack") == 0) {
			spec->ack = next_number(reader, words);
		} else if (strcmp(word, "ws") == 0) {
			scale = (uint8_t)next_number(reader, words);
			add_option(draft, 3, &scale, 1);
		} else if (strcmp(word, "sackok") == 0) {
			add_option(draft, 4, NULL, 0);
		} else if (strcmp(word, "sack") == 0) {
			add_sack(reader, draft, next_word(words));
		} else if (strcmp(word, "bad") == 0) {
			draft->bad = true;
		} else {
			cannot_read(reader, "not a part of a TCP packet");
		}
	}
}

static void draft_sctp(struct conn_reader *reader, struct words *words, struct draft *draft)
{
	struct packets_spec *spec = &draft->spec;
	const char *list = next_word(words);
	spec->protocol = BASE_PROTOCOL_SCTP;
	spec->payload = draft->chunks;
	while (list != NULL && *list != 0) {
		size_t size = strcspn(list, ","), known = BASE_ARRAY_COUNT(chunk_names), i = 0;
		while (i < known && (strlen(chunk_names[i].name) != size ||
					    strncmp(chunk_names[i].name, list, size) != 0))
			i++;
		if (i == known)
			cannot_read(reader, "not a chunk");
		/* INIT and INIT ACK carry 16 bytes of their own (initiate tag first). */
		uint8_t *chunk = draft->chunks + spec->payload_len;
		bool opening = chunk_names[i].type == 1 || chunk_names[i].type == 2;
		chunk[0] = chunk_names[i].type;
		chunk[3] = opening ? 20 : 4;
		if (opening) /* the tag that the other side must use */
			chunk[7] = reader->step.reply ? 2 : 1;
		spec->payload_len = (uint16_t)(spec->payload_len + chunk[3]);
		if (chunk_names[i].type == 1)
			spec->seq = 0;
		else if (spec->payload_len == chunk[3])
			spec->seq = reader->step.reply ? 1 : 2;
		list += size + (list[size] == ',');
	}
	const char *word = next_word(words);
	if (word != NULL && strcmp(word, "tag") == 0)
		spec->seq = next_number(reader, words);
	else if (word != NULL)
		cannot_read(reader, "not a part of an SCTP packet");
}

static void draft_plain(
	struct conn_reader *reader, struct words *words, uint8_t protocol, struct draft *draft)
{
	bool icmp = protocol == BASE_PROTOCOL_ICMP || protocol == BASE_PROTOCOL_ICMP6;
	draft->spec.protocol = protocol;
	draft->spec.payload_len = 32;
	if (icmp)
		draft->spec.source_port = CLIENT_PORT;
	for (const char *word; (word = next_word(words)) != NULL;) {
		if (strcmp(word, "frag") == 0)
			draft->fragmented = true;
		else if (strcmp(word, "bad") == 0)
			draft->bad = true;
		else
			cannot_read(reader, "not a part of a packet");
	}
}

/* An error about the other side's last packet, from it or from a router beyond. */
static void draft_error(
	struct conn_reader *reader, struct words *words, bool router, struct draft *draft)
{
	bool ip6 = reader->script->family == 6;
	uint32_t quoted = next_number(reader, words);
	size_t last_len = reader->last_len[!reader->step.reply];
	if (last_len == 0)
		cannot_read(reader, "nothing to quote");
	draft->spec.protocol = ip6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP;
	draft->spec.icmp_type = ip6 ? 1 : 3;
	draft->spec.icmp_code = ip6 ? 4 : 3;
	draft->spec.source_port = draft->spec.destination_port = 0;
	draft->spec.payload = reader->last[!reader->step.reply];
	draft->spec.payload_len = (uint16_t)(quoted < last_len ? quoted : last_len);
	if (router)
		draft->spec.source[ip6 ? 13 : 2] = 99;
}

static void draft_packet(struct conn_reader *reader, struct words *words, struct draft *draft)
{
	bool ip6 = reader->script->family == 6;
	const char *what = next_word(words);
	struct packets_spec *spec = &draft->spec;
	uint8_t icmp = ip6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP;
	if (what == NULL)
		cannot_read(reader, "no packet");
	if (strcmp(what, "udp") == 0) {
		draft_plain(reader, words, BASE_PROTOCOL_UDP, draft);
	} else if (strcmp(what, "gre") == 0) {
		static const uint8_t header[36] = { 0, 0, 0x08, 0 };
		draft_plain(reader, words, BASE_PROTOCOL_GRE, draft);
		spec->payload = header;
	} else if (strcmp(what, "esp") == 0) {
		draft_plain(reader, words, BASE_PROTOCOL_ESP, draft);
	} else if (strcmp(what, "echo") == 0) {
		spec->icmp_type = ip6 ? 128 : 8;
		draft_plain(reader, words, icmp, draft);
	} else if (strcmp(what, "reply") == 0) {
		spec->icmp_type = ip6 ? 129 : 0;
		draft_plain(reader, words, icmp, draft);
	} else if (strcmp(what, "unreach") == 0 || strcmp(what, "unreach-from") == 0) {
		draft_error(reader, words, what[7] != 0, draft);
	} else if (strcmp(what, "sctp") == 0) {
		draft_sctp(reader, words, draft);
	} else {
		draft_tcp(reader, words, what, draft);
	}
}

/* Bit by bit (RFC 9260 appendix A). */
static uint32_t crc32c(const uint8_t *bytes, size_t size)
{
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	}
	return ~crc;
}

static void build(struct conn_reader *reader, const struct draft *draft)
{
	struct conn_step *step = &reader->step;
	const struct packets_spec *spec = &draft->spec;
	uint8_t *frame = step->frame[0];
	size_t l4 = spec->family == 6 ? 40 : 20;
	step->frames_count = 1;
	step->frame_len[0] = packets_build(frame, CONN_FRAME_MAX, spec);
	if (draft->zero_window) {
		memset(frame + l4 + 14, 0, 2);
		packets_fix_checksums(frame, step->frame_len[0]);
	}
	if (spec->protocol == BASE_PROTOCOL_SCTP) {
		uint32_t crc = crc32c(frame + l4, step->frame_len[0] - l4);
		for (unsigned int i = 0; i < 4; i++)
			frame[l4 + 8 + i] = (uint8_t)(crc >> 8 * i);
	}
	if (draft->bad)
		frame[step->frame_len[0] - 1] ^= 0x55;
	memcpy(reader->last[step->reply], frame, step->frame_len[0]);
	reader->last_len[step->reply] = step->frame_len[0];
	if (!draft->fragmented)
		return;
	uint16_t whole = (uint16_t)(step->frame_len[0] - l4), part = 24;
	step->frames_count = 2;
	step->frame_len[0] = packets_build_fragment(frame, CONN_FRAME_MAX, spec, 0, part);
	step->frame_len[1] = packets_build_fragment(
		step->frame[1], CONN_FRAME_MAX, spec, part, (uint16_t)(whole - part));
}

static void read_packet(struct conn_reader *reader, const char *text, int len)
{
	struct words words;
	struct draft draft = { .spec = { .link = BASE_LINK_RAW,
				       .family = reader->script->family == 6 ? 6 : 4,
				       .source_port = CLIENT_PORT,
				       .destination_port = SERVER_PORT,
				       .ip_id = (uint16_t)(reader->at - reader->script->text) } };
	split(reader, text, len, &words);
	const char *side = next_word(&words);
	if (side == NULL || (strcmp(side, ">") != 0 && strcmp(side, "<") != 0))
		cannot_read(reader, "neither '>' nor '<'");
	reader->step.reply = side[0] == '<';
	set_addresses(reader, &draft.spec);
	if (reader->step.reply) {
		struct packets_spec swapped = draft.spec;
		memcpy(swapped.source, draft.spec.destination, 16);
		memcpy(swapped.destination, draft.spec.source, 16);
		swapped.source_port = SERVER_PORT;
		swapped.destination_port = CLIENT_PORT;
		draft.spec = swapped;
	}
	draft_packet(reader, &words, &draft);
	build(reader, &draft);
}

void conn_reader_init(struct conn_reader *reader, const struct conn_script *script, uint32_t number)
{
	memset(reader, 0, sizeof(*reader));
	reader->script = script;
	reader->at = script->text;
	reader->number = number;
}

const struct conn_step *conn_reader_next(struct conn_reader *reader)
{
	struct conn_step *step = &reader->step;
	if (*reader->at == 0)
		return NULL;
	memset(step, 0, sizeof(*step));
	step->line = reader->at;
	step->line_len = (int)strcspn(reader->at, "\n");
	reader->at += step->line_len + (step->line[step->line_len] == '\n');

	unsigned int wait_ms;
	if (sscanf(step->line, " wait %ums", &wait_ms) == 1) {
		step->wait_ns = wait_ms * UINT64_C(1000000);
		return step;
	}
	const char *end = step->line + step->line_len;
	const char *colon = memchr(step->line, ':', (size_t)step->line_len);
	if (colon == NULL)
		cannot_read(reader, "says nothing");
	const char *bar = memchr(colon, '|', (size_t)(end - colon));
	read_packet(reader, step->line, (int)(colon - step->line));
	step->ours = read_saying(reader, colon + 1, (int)((bar ? bar : end) - colon - 1));
	step->linux_says = step->ours;
	if (bar != NULL)
		step->linux_says = read_saying(reader, bar + 1, (int)(end - bar - 1));
	if (bar != NULL && reader->script->differs == NULL)
		cannot_read(reader, "gives no reason why Linux differs");
	return step;
}
