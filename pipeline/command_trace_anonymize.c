/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace anonymize. */
#include "pipeline/command_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { KEY_BYTES = TRACES_ANONYMIZE_KEY_BYTES, KEY_DIGITS = 2 * KEY_BYTES };

/* ---- the key ---- */

/* Digits, and nothing else but white space behind them. */
static bool key_from_digits(uint8_t key[KEY_BYTES], const char *text, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	while (length > KEY_DIGITS && strchr(" \t\r\n", text[length - 1]) != NULL)
		length--;
	if (length != KEY_DIGITS)
		return false;
	for (size_t i = 0; i < KEY_DIGITS; i++) {
		char c = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
		const char *digit = memchr(digits, c, 16);
		if (digit == NULL)
			return false;
		key[i / 2] = (uint8_t)(key[i / 2] << 4 | (digit - digits));
	}
	return true;
}

static enum pipeline_exit refuse_key(struct command *command, const char *path)
{
	return command_error(command, PIPELINE_EXIT_USAGE,
		"--key: got '%s', expected 64 hexadecimal digits, or a file of these or of 32 "
		"bytes",
		path);
}

static enum pipeline_exit key_from_file(
	struct command *command, uint8_t key[KEY_BYTES], const char *path)
{
	char text[KEY_DIGITS + 16];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENAMETOOLONG
			       ? refuse_key(command, path)
			       : command_error(command, PIPELINE_EXIT_USAGE, "%s: %s", path,
					 strerror(errno));
	ssize_t got, used = 0;
	do {
		got = read(fd, text + used, sizeof(text) - (size_t)used);
		used += got > 0 ? got : 0;
	} while (got > 0 && (size_t)used < sizeof(text));
	int error = got < 0 ? errno : 0;
	close(fd);
	if (error != 0)
		return command_error(command, PIPELINE_EXIT_USAGE, "%s: %s", path, strerror(error));
	bool taken = used == KEY_BYTES;
	if (taken)
		memcpy(key, text, KEY_BYTES);
	else
		taken = key_from_digits(key, text, (size_t)used);
	explicit_bzero(text, sizeof(text));
	return taken ? PIPELINE_EXIT_OK : refuse_key(command, path);
}

static void key_text(const uint8_t key[KEY_BYTES], char text[KEY_DIGITS + 1])
{
	for (size_t i = 0; i < KEY_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", key[i]);
}

/* A new file that only its owner reads. */
static enum pipeline_exit write_key(
	struct command *command, const uint8_t key[KEY_BYTES], const char *path)
{
	char text[KEY_DIGITS + 2];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(errno));
	key_text(key, text);
	text[KEY_DIGITS] = '\n';
	ssize_t wrote = write(fd, text, KEY_DIGITS + 1);
	int error = wrote == KEY_DIGITS + 1 ? 0 : wrote < 0 ? errno : ENOSPC;
	explicit_bzero(text, sizeof(text));
	if (fsync(fd) != 0 && errno != EINVAL && error == 0)
		error = errno;
	if (close(fd) != 0 && error == 0)
		error = errno;
	if (error == 0)
		return PIPELINE_EXIT_OK;
	unlink(path);
	return command_error(command, PIPELINE_EXIT_RUN, "%s: %s", path, strerror(error));
}

static bool is_dash(const char *path)
{
	return path != NULL && strcmp(path, "-") == 0;
}

static enum pipeline_exit find_key(
	struct command *command, const struct options *options, uint8_t key[KEY_BYTES])
{
	const char *given = options->anonymize.key, *kept = options->anonymize.write_key;
	if (given != NULL && kept != NULL)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--write-key: got a key with --key, expected one of them");
	if (is_dash(kept) && is_dash(options->files[1]))
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--write-key: got -, expected a file: packets go to standard output");
	if (given != NULL && key_from_digits(key, given, strlen(given)))
		return PIPELINE_EXIT_OK;
	if (given != NULL)
		return key_from_file(command, key, given);
	if (getrandom(key, KEY_BYTES, 0) != KEY_BYTES)
		return command_error(command, PIPELINE_EXIT_RUN, "no random key can be had: %s",
			strerror(errno));
	return kept == NULL || is_dash(kept) ? PIPELINE_EXIT_OK : write_key(command, key, kept);
}

/* ---- what was done ---- */

static const char *macs_text(enum traces_macs macs)
{
	return macs == TRACES_MACS_ZERO   ? "set to zero"
	       : macs == TRACES_MACS_HASH ? "hashed with the key"
					  : "kept";
}

static void print_key(FILE *stream, const struct options *options, const uint8_t key[KEY_BYTES])
{
	char text[KEY_DIGITS + 1];
	const char *kept = options->anonymize.write_key;
	if (is_dash(kept)) {
		key_text(key, text);
		fprintf(stream, "key            %s\n", text);
		explicit_bzero(text, sizeof(text));
	} else if (kept != NULL) {
		fprintf(stream, "key            random, written to %s\n", kept);
	} else {
		fprintf(stream, "key            %s\n",
			options->anonymize.key != NULL ? "as given" : "random, not kept");
	}
}

static void print_report(FILE *stream, const struct options *options, const uint8_t key[KEY_BYTES],
	const struct traces_anonymize_report *report)
{
	fprintf(stream,
		"packets        %" PRIu64 "\n"
		"IP addresses   %" PRIu64 " of IPv4 and %" PRIu64
		" of IPv6 replaced by Crypto-PAn: common prefixes stay\n",
		report->packets, report->ip4_addresses, report->ip6_addresses);
	print_key(stream, options, key);
	fprintf(stream, "MAC addresses  %s", macs_text(options->anonymize.macs));
	if (options->anonymize.macs != TRACES_MACS_KEEP)
		fprintf(stream, ": %" PRIu64, report->mac_addresses);
	fprintf(stream, "\npayload        %s: %" PRIu64 " bytes of %" PRIu64 " packets cut\n",
		options->anonymize.keep_payload
			? "kept where no address is expected, not looked into"
			: "cut behind the transport header",
		report->cut_bytes, report->cut_packets);
	fprintf(stream, "checksums      updated by what changed: right ones stay right\n");
}

/* ---- the command ---- */

static enum pipeline_exit anonymize(struct command *command, const struct options *options,
	struct traces_packets *packets, const uint8_t key[KEY_BYTES],
	const struct traces_load_report *report)
{
	struct traces_anonymize_options anonymize = {
		.macs = options->anonymize.macs,
		.keep_payload = options->anonymize.keep_payload,
	};
	struct traces_anonymize_report done = { 0 };
	struct traces_writer_options writer;
	char comment[256];
	enum pipeline_exit code;
	memcpy(anonymize.key, key, KEY_BYTES);
	snprintf(comment, sizeof(comment),
		"sheaf trace anonymize: IP addresses by Crypto-PAn, MAC addresses %s, payload %s",
		macs_text(anonymize.macs), anonymize.keep_payload ? "kept" : "cut");
	command_convert_writer_options(&writer, options->files[1], &options->convert,
		options->nanoseconds || report->nanoseconds);
	writer.comment = comment;
	int error = traces_packets_anonymize(&packets, packets, &anonymize, &done);
	explicit_bzero(&anonymize, sizeof(anonymize));
	if (error == 0)
		code = command_trace_write_as(command, packets, options->files[1], &writer);
	else
		code = command_error(command, PIPELINE_EXIT_RUN, "trace anonymize: %s",
			error == -EIO ? "libcrypto has no AES" : strerror(-error));
	traces_packets_destroy(packets);
	if (code != PIPELINE_EXIT_OK)
		return code;
	FILE *stream = is_dash(options->files[1]) ? command->err : command->out;
	if (!options->quiet)
		print_report(stream, options, key, &done);
	else if (is_dash(options->anonymize.write_key))
		print_key(stream, options, key); /* it was asked for */
	command_trace_tell_changes(command, options->files[0], report);
	return command_trace_tell_damage(command, options->files[0], report);
}

static enum pipeline_exit check_files(struct command *command, const struct options *options)
{
	const char *const *files = options->files;
	if (options->files_count != 2)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace anonymize: got %zu files, expected one to read and one to write",
			options->files_count);
	const char *kept = options->anonymize.write_key;
	if (kept != NULL && command_same_file(kept, files[1]))
		return command_error(command, PIPELINE_EXIT_USAGE,
			"--write-key: got %s, where the capture goes, expected another file", kept);
	/* The key's file is an input as well. */
	const char *inputs[] = { files[0], options->anonymize.key };
	return command_check_output(command, inputs, options->anonymize.key == NULL ? 1 : 2,
		"trace anonymize", files[1]);
}

enum pipeline_exit command_trace_anonymize(struct command *command, struct options *options)
{
	struct traces_load_options load;
	struct traces_load_report report;
	struct traces_packets *packets;
	uint8_t key[KEY_BYTES] = { 0 };
	enum pipeline_exit code = check_files(command, options);
	if (code != PIPELINE_EXIT_OK)
		return code;
	command_convert_load_options(&load, &options->convert);
	code = command_trace_open_as(command, options->files[0], &load, &packets, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	code = find_key(command, options, key);
	if (code == PIPELINE_EXIT_OK) {
		code = anonymize(command, options, packets, key, &report);
		/* The key of nothing is not kept. */
		const char *kept = options->anonymize.write_key;
		if (code != PIPELINE_EXIT_OK && code != PIPELINE_EXIT_DAMAGED && kept != NULL &&
			!is_dash(kept))
			unlink(kept);
	} else {
		traces_packets_destroy(packets);
	}
	explicit_bzero(key, sizeof(key));
	return code;
}
