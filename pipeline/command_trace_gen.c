/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace gen. */
#include "pipeline/command_trace.h"

#include <errno.h>

enum {
	ETHERNET_OVERHEAD_BYTES = 24, /* preamble, checksum, gap: on the wire, not in a frame */
	PACKETS_DEFAULT = 1000000,
	WORST_CASE_FLOWS = 1000000,
	WORST_CASE_FLOW_PACKETS = 8,
	WORST_CASE_FRAME_BYTES = 64,
	GIGABIT = 1000000000,
};

enum kind { PLAIN = 1, MODEL = 2, WORST_CASE = 4, ATTACK = 8 };

/* Options that not every kind of traffic knows. */
static const struct {
	const char *name;
	unsigned int kinds;
} particular[] = {
	{ "run-length", PLAIN | WORST_CASE },
	{ "slf", PLAIN | WORST_CASE },
	{ "order", PLAIN | WORST_CASE },
	{ "flow-packets", PLAIN | WORST_CASE },
	{ "tcp", PLAIN | WORST_CASE },
	{ "ip6", PLAIN | WORST_CASE },
	{ "frame", PLAIN | WORST_CASE | ATTACK },
	{ "new-flows", MODEL | WORST_CASE },
	{ "ways", MODEL },
	{ "link", MODEL },
	{ "vlans", MODEL },
	{ "cold", MODEL },
	{ "ip6-share", MODEL },
	{ "unanswered", MODEL },
	{ "retransmitted", MODEL },
	{ "reordered", MODEL },
	{ "fragmented", MODEL },
	{ "icmp-errors", MODEL },
	{ "period", ATTACK },
	{ "hash", ATTACK },
	{ "run-seed", ATTACK },
	{ "conns", ATTACK },
};

static enum kind kind_of(const struct options_gen *gen)
{
	if (gen->attack != 0)
		return ATTACK;
	if (gen->preset == OPTIONS_GEN_WORST_CASE)
		return WORST_CASE;
	return gen->preset != 0 ? MODEL : PLAIN;
}

static const char *kinds_text(unsigned int kinds)
{
	if (kinds & PLAIN)
		return kinds & ATTACK ? "without a preset of measured traffic"
				      : "without a preset of measured traffic or an attack";
	if (kinds & ATTACK)
		return "with --attack";
	return "with --preset";
}

static enum pipeline_exit check(
	struct command *command, const struct options *options, enum kind kind)
{
	static const char *const pairs[][2] = { { "preset", "attack" }, { "ns", "us" },
		{ "packets", "duration" }, { "pps", "rate" }, { "run-length", "slf" },
		{ "flow-packets", "new-flows" } };
	if (options->files_count != 1)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace gen: got %zu files, expected one to write", options->files_count);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(pairs); i++)
		if (options_given(options, pairs[i][0]) && options_given(options, pairs[i][1]))
			return command_error(command, PIPELINE_EXIT_USAGE,
				"trace gen: got --%s and --%s, expected one of them", pairs[i][0],
				pairs[i][1]);
	for (size_t i = 0; i < BASE_ARRAY_COUNT(particular); i++)
		if (!(particular[i].kinds & kind) && options_given(options, particular[i].name))
			return command_error(command, PIPELINE_EXIT_USAGE,
				"trace gen: got --%s, expected it %s", particular[i].name,
				kinds_text(particular[i].kinds));
	return PIPELINE_EXIT_OK;
}

/* ---- by a model ---- */

static int open_model(struct options *options, struct traces_packets **packets, char *message)
{
	const struct options_gen *gen = &options->gen;
	struct traces_generate_options *generate = &options->generate;
	generate->preset = (enum traces_preset)(gen->preset - 1);
	generate->packets = gen->packets;
	generate->flows = gen->flows;
	generate->duration_ns = gen->duration_ns;
	generate->packets_per_s = gen->packets_per_s;
	generate->seed = gen->seed;
	generate->snaplen = gen->snaplen;
	generate->microseconds = gen->microseconds;
	if (gen->bits_per_s != 0)
		generate->bits_per_s = gen->bits_per_s;
	if (gen->packets == 0 && gen->flows == 0 && gen->duration_ns == 0)
		generate->packets = PACKETS_DEFAULT;
	return traces_packets_generate(packets, generate, message);
}

/* ---- frames of one size ---- */

/* Packets per second, by one of two options; 0: less than one. */
static uint64_t rate_of(const struct options_gen *gen, uint32_t frame_bytes, uint64_t otherwise)
{
	uint64_t frame_bits = 8 * ((uint64_t)frame_bytes + ETHERNET_OVERHEAD_BYTES);
	if (gen->bits_per_s != 0)
		return gen->bits_per_s / frame_bits;
	return gen->packets_per_s != 0 ? gen->packets_per_s : otherwise;
}

static int refuse_rate(char *message)
{
	snprintf(message, TRACES_MESSAGE_SIZE,
		"--rate: got less than a packet per second, expected more");
	return -EINVAL;
}

static void worst_case_defaults(const struct options *options, struct traces_synth_options *synth)
{
	const struct options_gen *gen = &options->gen;
	synth->flows = WORST_CASE_FLOWS;
	synth->frame_bytes = WORST_CASE_FRAME_BYTES;
	synth->packets_per_s = GIGABIT / 8 / (synth->frame_bytes + ETHERNET_OVERHEAD_BYTES);
	if (synth->flow_packets != 0)
		return;
	uint64_t rate = rate_of(gen, synth->frame_bytes, synth->packets_per_s);
	uint64_t new_flows = options->generate.new_flows_per_s;
	synth->flow_packets = new_flows == 0         ? WORST_CASE_FLOW_PACKETS
			      : rate < 2 * new_flows ? 1
						     : rate / new_flows;
}

static int open_plain(struct options *options, enum kind kind, const atomic_bool *stop,
	struct traces_packets **packets, char *message)
{
	const struct options_gen *gen = &options->gen;
	struct traces_synth_options *synth = &options->synth;
	synth->packets = PACKETS_DEFAULT;
	synth->stop = stop;
	if (kind == WORST_CASE)
		worst_case_defaults(options, synth);
	if (gen->flows != 0)
		synth->flows = gen->flows;
	if (gen->frame_bytes != 0)
		synth->frame_bytes = gen->frame_bytes;
	synth->packets_per_s = rate_of(gen, synth->frame_bytes, synth->packets_per_s);
	if (synth->packets_per_s == 0)
		return refuse_rate(message);
	if (gen->packets != 0)
		synth->packets = gen->packets;
	else if (gen->duration_ns != 0)
		synth->packets =
			(uint64_t)((double)synth->packets_per_s * (double)gen->duration_ns / 1e9);
	synth->protocol = gen->tcp ? BASE_PROTOCOL_TCP : BASE_PROTOCOL_UDP;
	synth->seed = gen->seed;
	synth->microseconds = gen->microseconds;
	return traces_packets_synth(packets, synth, message);
}

static uint32_t bucket_of(const void *context, uint32_t hash)
{
	const struct options_gen *gen = context;
	uint64_t salts[2];
	pipeline_hash_salts(gen->run_seed, salts);
	return conntrack_bucket_of(gen->conns, salts[0], hash);
}

static int open_attack(const struct options *options, const atomic_bool *stop,
	struct traces_packets **packets, char *message)
{
	const struct options_gen *gen = &options->gen;
	struct traces_attack_options attack;
	traces_attack_options_defaults(&attack, (enum traces_attack)(gen->attack - 1));
	if (gen->flows != 0)
		attack.flows = gen->flows;
	if (gen->frame_bytes != 0)
		attack.frame_bytes = gen->frame_bytes;
	if (gen->period_ns != 0)
		attack.period_ns = gen->period_ns;
	attack.packets_per_s = rate_of(gen, attack.frame_bytes, attack.packets_per_s);
	if (attack.packets_per_s == 0)
		return refuse_rate(message);
	attack.packets = gen->packets;
	attack.duration_ns = gen->duration_ns;
	attack.microseconds = gen->microseconds;
	attack.seed = gen->seed;
	attack.hash.kind = (enum base_hash_kind)gen->hash;
	pipeline_hash_salts(gen->run_seed, attack.hash.salt);
	attack.bucket_of = bucket_of;
	attack.bucket_context = gen;
	attack.stop = stop;
	return traces_packets_attack(packets, &attack, message);
}

/* ---- all ---- */

/* Whether a pcap file must have nanoseconds. */
static bool needs_nanoseconds(const struct options *options, enum kind kind)
{
	if (options->gen.microseconds)
		return false;
	/* Packets of a burst are less than a microsecond apart. */
	if (options->nanoseconds || kind == MODEL || kind == ATTACK)
		return true;
	return 1000000 % options->synth.packets_per_s != 0;
}

enum pipeline_exit command_trace_gen(struct command *command, struct options *options)
{
	char message[TRACES_MESSAGE_SIZE] = "";
	struct traces_packets *packets = NULL;
	enum kind kind = kind_of(&options->gen);
	enum pipeline_exit code = check(command, options, kind);
	int error;
	if (code != PIPELINE_EXIT_OK)
		return code;
	if (kind == MODEL)
		error = open_model(options, &packets, message);
	else if (kind == ATTACK)
		error = open_attack(options, command->stop, &packets, message);
	else
		error = open_plain(options, kind, command->stop, &packets, message);
	if (error == -EINVAL)
		return command_error(command, PIPELINE_EXIT_USAGE, "%s%s",
			message[0] == '-' ? "" : "trace gen: ", message);
	if (error == -EINTR)
		return command_error(command, PIPELINE_EXIT_INTERRUPTED, "interrupted");
	if (error != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "trace gen: %s", strerror(-error));
	uint32_t snaplen = options->gen.snaplen;
	code = command_trace_write(command, packets, options->files[0],
		needs_nanoseconds(options, kind), snaplen == 0 ? TRACES_RECORD_BYTES_MAX : snaplen);
	traces_packets_destroy(packets);
	return code;
}
