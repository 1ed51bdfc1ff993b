/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf help: made from the option table. */
#include "pipeline/command.h"

#include <stdio.h>

enum { NAME_COLUMN = 30 };

struct topic {
	const char *usage;
	const char *summary;
};

static const struct topic topics[OPTIONS_COMMANDS_COUNT] = {
	[OPTIONS_REPLAY] = { "replay [OPTIONS] FILE...",
		"Replay captures through the reframer, connection tracking and a service chain, "
		"and measure it." },
	[OPTIONS_COMPARE] = { "compare [OPTIONS] FILE...",
		"Replay without the reframer, with it, and without each of its optimisations." },
	[OPTIONS_TRACE_INFO] = { "trace info [OPTIONS] FILE...",
		"Tell what is in captures: sizes, flows, protocols, locality." },
	[OPTIONS_TRACE_GEN] = { "trace gen [OPTIONS] FILE",
		"Make a capture: traffic as measured on real links, or flows in a chosen order." },
	[OPTIONS_TRACE_CONVERT] = { "trace convert [OPTIONS] FROM TO",
		"Write a capture in another format: pcap, pcapng, IPSummaryDump, 5-tuples." },
	[OPTIONS_TRACE_ANONYMIZE] = { "trace anonymize [OPTIONS] FROM TO",
		"Replace addresses, keeping prefixes, and cut payloads." },
	[OPTIONS_TRACE_SCALE] = { "trace scale [OPTIONS] FROM TO",
		"Overlay shifted copies with addresses of their own, speed up, and tell what it "
		"did." },
	[OPTIONS_TRACE_SLICE] = { "trace slice [OPTIONS] FROM TO",
		"Keep a span of time, some flows, some packets." },
	[OPTIONS_TRACE_MERGE] = { "trace merge [OPTIONS] -o TO FROM...",
		"Merge captures by time, whatever their precision and link types." },
	[OPTIONS_TRACE_FILTER] = { "trace filter --match EXPRESSION FROM TO",
		"Keep the packets that match a pcap filter." },
	[OPTIONS_TRACE_SHUFFLE] = { "trace shuffle [OPTIONS] FROM TO",
		"Permute packets inside windows of packets or time." },
	[OPTIONS_TRACE_REGROUP] = { "trace regroup [OPTIONS] FROM TO",
		"Group packets by flow under a delay bound, as a reframer would." },
	[OPTIONS_BENCH_DELETION] = { "bench deletion [OPTIONS]",
		"Compare deletion strategies: cost, lateness, pauses, and whether they are "
		"right." },
	[OPTIONS_BENCH_SHARING] = { "bench sharing [OPTIONS]",
		"Compare ways to share connections between workers: cost, scaling, fairness, "
		"answers." },
	[OPTIONS_BENCH_TABLES] = { "bench tables [OPTIONS]",
		"Compare connection tables: lookups, insertions, removals, memory, by load." },
	[OPTIONS_BENCH_LB] = { "bench lb [OPTIONS]",
		"Compare load-balancer policies while backends come and go, with a judge." },
	[OPTIONS_INFER_EXPORT] = { "infer export [OPTIONS] -o FILE.npy CAPTURE",
		"Write the features of a capture's flows, a row each, to train models with." },
	[OPTIONS_INFER_VERIFY] = { "infer verify [OPTIONS] --model FILE.onnx [ROWS.npy...]",
		"Compare every back end that can run a model here with the oracle." },
	[OPTIONS_INFER_BENCH] = { "infer bench [OPTIONS] --model FILE.onnx",
		"Measure how fast back ends run a model, over batch sizes." },
	[OPTIONS_INFER_PROBE] = { "infer probe [OPTIONS]",
		"Show what a GPU says of itself, and whether its memory can be exported." },
	[OPTIONS_REPORT] = { "report -o FILE.html FILE.json...",
		"Draw results documents as one HTML page." },
};

/* target: as options_default_text. */
static void print_row(FILE *stream, const char *indent, const struct options_row *row,
	const char *dashes, const char *separator, const void *target)
{
	char name[96], value[96], otherwise[128] = "";
	int length;
	if (options_default_text(row, target, value, sizeof(value)))
		snprintf(otherwise, sizeof(otherwise), " (default %s)", value);
	if (row->letter != 0)
		length = snprintf(name, sizeof(name), "%s-%c, %s%s%s%s", indent, row->letter,
			dashes, row->name, row->argument == NULL ? "" : separator,
			row->argument == NULL ? "" : row->argument);
	else
		length = snprintf(name, sizeof(name), "%s%s%s%s%s", indent, dashes, row->name,
			row->argument == NULL ? "" : separator,
			row->argument == NULL ? "" : row->argument);
	if (length > NAME_COLUMN - 2)
		fprintf(stream, "%s\n%*s%s%s\n", name, NAME_COLUMN, "", row->help, otherwise);
	else
		fprintf(stream, "%-*s%s%s\n", NAME_COLUMN, name, row->help, otherwise);
}

static void print_items(
	FILE *stream, const struct options_row *items, size_t count, const void *target)
{
	for (size_t i = 0; i < count; i++)
		print_row(stream, "      ", &items[i], "", "=", target);
}

static void print_chain_items(FILE *stream)
{
	for (enum chain_kind kind = 0; kind < CHAIN_KINDS_COUNT; kind++) {
		size_t count;
		struct chain_function_config function;
		const struct options_row *items = options_chain_items(kind, &count);
		chain_function_config_defaults(&function, kind);
		fprintf(stream, "    %s\n", chain_kind_name(kind));
		print_items(stream, items, count, &function);
	}
}

static void print_command(FILE *stream, enum options_command which, const struct options *defaults)
{
	const struct options_row *row;
	fprintf(stream, "sheaf %s\n\n%s\n\n", topics[which].usage, topics[which].summary);
	for (size_t i = 0; (row = options_row_at(i)) != NULL; i++) {
		if ((row->commands >> which & 1) == 0)
			continue;
		print_row(stream, "  ", row, "--", " ", defaults);
		print_items(stream, row->items, row->items_count,
			(const uint8_t *)defaults + row->offset);
		if (row->kind == OPTIONS_KIND_CHAIN)
			print_chain_items(stream);
	}
}

static void print_topics(FILE *stream, const char *first)
{
	size_t length = first == NULL ? 0 : strlen(first);
	for (size_t i = 0; i < OPTIONS_COMMANDS_COUNT; i++) {
		if (length == 0 || (strncmp(topics[i].usage, first, length) == 0 &&
					   topics[i].usage[length] == ' '))
			fprintf(stream, "  sheaf %s\n      %s\n", topics[i].usage,
				topics[i].summary);
	}
}

static void print_overview(FILE *stream)
{
	fprintf(stream, "sheaf: replay traffic through a packet-processing chain and measure what "
			"packet order costs.\n\n");
	print_topics(stream, NULL);
	fprintf(stream,
		"  sheaf help [COMMAND]\n      Show the options of a command, or of a group such "
		"as trace its commands.\n"
		"  sheaf version\n      Show the version.\n\n"
		"Options may stand before or behind files, as --name VALUE or --name=VALUE.\n"
		"Exit codes: 0 done, 1 options refused, 2 input refused, 3 run failed, "
		"4 books do not balance,\n5 done but an input was damaged, 6 interrupted, "
		"7 done but a GPU was lost.\n");
}

/* "replay", "trace gen"; "trace" for the commands that begin with it. */
static enum pipeline_exit print_topic(struct command *command, const char *topic, bool *found)
{
	char second[256];
	*found = true;
	for (enum options_command i = 0; i < OPTIONS_COMMANDS_COUNT; i++) {
		struct options *defaults;
		if (strcmp(topic, options_command_name(i)) != 0)
			continue;
		if (options_create(&defaults, i) != 0)
			return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
		print_command(command->out, i, defaults);
		options_destroy(defaults);
		return PIPELINE_EXIT_OK;
	}
	command_words(topic, NULL, second, sizeof(second));
	*found = second[0] != '\0';
	if (*found) {
		print_topics(command->out, topic);
		fprintf(command->out, "\nsheaf help %s COMMAND shows the options.\n", topic);
	}
	return PIPELINE_EXIT_OK;
}

enum pipeline_exit command_help(struct command *command, const char *topic)
{
	bool found;
	if (topic == NULL) {
		print_overview(command->out);
		return PIPELINE_EXIT_OK;
	}
	enum pipeline_exit code = print_topic(command, topic, &found);
	if (found)
		return code;
	char expected[512] = "";
	size_t used = 0;
	for (enum options_command i = 0; i < OPTIONS_COMMANDS_COUNT; i++)
		used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%s%s",
			i == 0                            ? ""
			: i + 1 == OPTIONS_COMMANDS_COUNT ? " or "
							  : ", ",
			options_command_name(i));
	return command_error(
		command, PIPELINE_EXIT_USAGE, "help: got '%.64s', expected %s", topic, expected);
}

enum pipeline_exit command_version(struct command *command)
{
	fprintf(command->out, "sheaf %s\n", PIPELINE_VERSION);
	return PIPELINE_EXIT_OK;
}
