/* SPDX-License-Identifier: BSD-2-Clause */
#include "chain/text.h"

#include "chain/chain.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

int chain_text_fail(struct chain_text *text, const char *fmt, ...)
{
	char what[CHAIN_MESSAGE_SIZE];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	/* The end of a long path says more than its beginning, and the fault more than both. */
	const char *path = text->path;
	size_t length = strlen(path);
	if (length > CHAIN_NAME_SIZE)
		path += length - CHAIN_NAME_SIZE;
	snprintf(text->message, CHAIN_MESSAGE_SIZE, "%s: %s:%u: %.150s", text->who, path,
		text->line, what);
	/* Words come from the file: keep terminals safe. */
	for (char *c = text->message; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	return -EBADMSG;
}

static int read_line(struct chain_text *text)
{
	size_t length = 0;
	int c;
	text->line++;
	while ((c = getc(text->file)) != EOF && c != '\n') {
		if (c == '\0')
			return chain_text_fail(text, "NUL byte, expected text");
		if (length + 1 >= sizeof(text->buffer))
			return chain_text_fail(text, "line too long, expected at most %d bytes",
				CHAIN_TEXT_LINE_MAX - 1);
		text->buffer[length++] = (char)c;
	}
	text->buffer[length] = '\0';
	if (c == EOF && ferror(text->file)) {
		int error = errno;
		chain_text_fail(text, "%s", strerror(error));
		return error == 0 ? -EIO : -error;
	}
	return c != EOF || length > 0;
}

static int split_words(struct chain_text *text)
{
	text->words_count = 0;
	text->buffer[strcspn(text->buffer, "#")] = '\0';
	char *rest = text->buffer;
	for (;;) {
		rest += strspn(rest, " \t\r\v\f");
		if (*rest == '\0')
			return 0;
		if (text->words_count == CHAIN_TEXT_WORDS_MAX)
			return chain_text_fail(text, "more than %d words", CHAIN_TEXT_WORDS_MAX);
		text->words[text->words_count++] = rest;
		rest += strcspn(rest, " \t\r\v\f");
		if (*rest != '\0')
			*rest++ = '\0';
	}
}

int chain_text_next(struct chain_text *text)
{
	for (;;) {
		int rc = read_line(text);
		if (rc <= 0)
			return rc;
		rc = split_words(text);
		if (rc != 0)
			return rc;
		if (text->words_count > 0)
			return 1;
	}
}

bool chain_text_number(const char *word, uint32_t max, uint32_t *value)
{
	uint64_t number = 0;
	if (*word == '\0')
		return false;
	for (; *word != '\0'; word++) {
		if (*word < '0' || *word > '9')
			return false;
		number = number * 10 + (uint64_t)(*word - '0');
		if (number > max)
			return false;
	}
	*value = (uint32_t)number;
	return true;
}

void chain_prefix_mask(struct chain_prefix *prefix)
{
	unsigned int bits = prefix->length;
	for (unsigned int i = 0; i < 16; i++) {
		unsigned int keep = bits >= 8 ? 8 : bits;
		prefix->address[i] &= (uint8_t)(0xff00u >> keep);
		bits -= keep;
	}
}

int chain_prefix_parse(const char *word, struct chain_prefix *prefix)
{
	char address[INET6_ADDRSTRLEN];
	struct chain_prefix result = { 0 };
	size_t length = strcspn(word, "/");
	if (length >= sizeof(address))
		return -EINVAL;
	memcpy(address, word, length);
	address[length] = '\0';
	if (inet_pton(AF_INET, address, result.address) == 1)
		result.family = 4;
	else if (inet_pton(AF_INET6, address, result.address) == 1)
		result.family = 6;
	else
		return -EINVAL;
	uint32_t bits = result.family == 4 ? 32 : 128;
	if (word[length] == '/' && !chain_text_number(word + length + 1, bits, &bits))
		return -EINVAL;
	result.length = (uint8_t)bits;
	struct chain_prefix masked = result;
	chain_prefix_mask(&masked);
	if (memcmp(masked.address, result.address, sizeof(masked.address)) != 0)
		return -ERANGE;
	*prefix = result;
	return 0;
}

void chain_prefix_format(const struct chain_prefix *prefix, char *text)
{
	char address[INET6_ADDRSTRLEN] = "";
	if (prefix->family == 0) {
		snprintf(text, CHAIN_PREFIX_TEXT_SIZE, "any");
		return;
	}
	inet_ntop(prefix->family == 4 ? AF_INET : AF_INET6, prefix->address, address,
		sizeof(address));
	snprintf(text, CHAIN_PREFIX_TEXT_SIZE, "%s/%u", address, prefix->length);
}

bool chain_prefix_contains(const struct chain_prefix *prefix, const uint8_t *address)
{
	unsigned int bytes = prefix->length / 8;
	unsigned int bits = prefix->length % 8;
	if (memcmp(prefix->address, address, bytes) != 0)
		return false;
	return bits == 0 || ((prefix->address[bytes] ^ address[bytes]) >> (8 - bits)) == 0;
}
