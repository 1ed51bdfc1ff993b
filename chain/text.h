/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: reading route and rule files. Line by line, words apart, `#` begins a comment.
 * Bytes are hostile: a NUL byte, a line too long or a number out of range ends the reading with
 * -EBADMSG and a message "<who>: <path>:<line>: <what is wrong, what was expected>".
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
	CHAIN_TEXT_LINE_MAX = 512,
	CHAIN_TEXT_WORDS_MAX = 16,
};

struct chain_text {
	FILE *file;
	const char *who;  /* "router" */
	const char *path; /* for messages */
	uint32_t line;
	char *message; /* CHAIN_MESSAGE_SIZE bytes */
	unsigned int words_count;
	char *words[CHAIN_TEXT_WORDS_MAX]; /* into buffer, until the next line */
	char buffer[CHAIN_TEXT_LINE_MAX];
};

/* An IP prefix; bits beyond the length are 0. */
struct chain_prefix {
	uint8_t address[16]; /* network order, IPv4 in the first 4 bytes */
	uint8_t family;      /* 4 or 6; 0 in a rule: any address of any family */
	uint8_t length;
};

/* Next line that has words: 1; 0 at the end; -EBADMSG, -EIO with a message. */
int chain_text_next(struct chain_text *text);

/* Write the message with file and line; returns -EBADMSG. */
int chain_text_fail(struct chain_text *text, const char *fmt, ...) BASE_PRINTF(2, 3);

/* Decimal digits only, at most `max`. False leaves value as it was. */
bool chain_text_number(const char *word, uint32_t max, uint32_t *value);

/* "10.0.0.0/8", "2001:db8::/32", or an address (its whole length). -EINVAL: not that; -ERANGE:
 * bits set beyond the length. */
int chain_prefix_parse(const char *word, struct chain_prefix *prefix);

/* "10.0.0.0/8"; text has CHAIN_PREFIX_TEXT_SIZE bytes. */
enum { CHAIN_PREFIX_TEXT_SIZE = 64 };
void chain_prefix_format(const struct chain_prefix *prefix, char *text);

/* Clear the bits beyond the length. */
void chain_prefix_mask(struct chain_prefix *prefix);

/* Whether a 16-byte address of the prefix's family lies in it. */
bool chain_prefix_contains(const struct chain_prefix *prefix, const uint8_t *address);
