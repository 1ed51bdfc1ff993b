/* SPDX-License-Identifier: BSD-2-Clause */
/* sheaf trace convert. */
#include "pipeline/command_trace.h"

#include <inttypes.h>
#include <sys/stat.h>

void command_convert_load_options(
	struct traces_load_options *load, const struct options_convert *convert)
{
	traces_load_options_defaults(load);
	load->packets_max = convert->packets_max;
	load->input = convert->from;
	load->made_start_ns = convert->start_ns;
	load->made_packets_per_s = convert->packets_per_s;
	load->made_ip_bytes = convert->ip_bytes;
}

void command_convert_writer_options(struct traces_writer_options *writer, const char *path,
	const struct options_convert *convert, bool nanoseconds)
{
	static const enum traces_format formats[] = {
		[OPTIONS_TO_PCAP_US] = TRACES_FORMAT_PCAP_US,
		[OPTIONS_TO_PCAP_NS] = TRACES_FORMAT_PCAP_NS,
		[OPTIONS_TO_PCAPNG] = TRACES_FORMAT_PCAPNG,
		[OPTIONS_TO_IPSUM] = TRACES_FORMAT_IPSUM,
		[OPTIONS_TO_IPSUM_BINARY] = TRACES_FORMAT_IPSUM_BINARY,
		[OPTIONS_TO_TUPLES] = TRACES_FORMAT_TUPLES,
	};
	traces_writer_options_defaults(writer, path, nanoseconds);
	if (convert->to == OPTIONS_TO_PCAP)
		writer->format = nanoseconds ? TRACES_FORMAT_PCAP_NS : TRACES_FORMAT_PCAP_US;
	else if (convert->to != OPTIONS_TO_AUTO)
		writer->format = formats[convert->to];
	writer->snaplen = convert->snaplen;
	writer->fields = convert->fields;
}

/* What was done to the packets on their way. */
struct changes {
	struct traces_relink_report relink;
	struct traces_repair_report repair;
};

static void tell_relink(
	struct command *command, const char *path, const struct traces_relink_report *relink)
{
	if (relink->left_out != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " packets that the link type cannot carry left out", path,
			relink->left_out);
	if (relink->tags_dropped != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " packets lost VLAN tags, labels or PPPoE headers", path,
			relink->tags_dropped);
	if (relink->ends_dropped != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " packets lost bytes behind their datagram", path,
			relink->ends_dropped);
}

static void tell_repair(
	struct command *command, const char *path, const struct traces_repair_report *repair)
{
	if (repair->padded != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: %" PRIu64 " packets filled with zeros", path, repair->padded);
	if (repair->corrected != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: checksums of %" PRIu64 " packets corrected", path, repair->corrected);
	if (repair->unknown != 0)
		command_error(command, PIPELINE_EXIT_OK,
			"%s: checksums of %" PRIu64 " packets left alone: cut, or fragments", path,
			repair->unknown);
}

/* Put the wanted transforms behind a stream, which is destroyed when that fails. */
static int transform(struct traces_packets **packets, const struct options_convert *convert,
	struct changes *changes)
{
	int error = 0;
	if (convert->link != OPTIONS_LINK_KEEP) {
		struct traces_relink_options relink = convert->relink;
		relink.link =
			convert->link == OPTIONS_LINK_RAW ? BASE_LINK_RAW : BASE_LINK_ETHERNET;
		error = traces_packets_relink(packets, *packets, &relink, &changes->relink);
	}
	if (error == 0 && (convert->repair.pad || convert->repair.checksums))
		error = traces_packets_repair(
			packets, *packets, &convert->repair, &changes->repair);
	return error;
}

static bool is_pcap(enum traces_format format)
{
	return format == TRACES_FORMAT_PCAP_US || format == TRACES_FORMAT_PCAP_NS;
}

/*
 * A pcap file holds one link type. Where the input has described several, look whether it also has
 * packets of several before anything is written. Standard input cannot be read twice: there the
 * writer finds out.
 */
static enum pipeline_exit check_links(struct command *command, const struct options *options,
	const struct traces_load_options *load, const struct traces_load_report *report)
{
	const char *path = options->files[0];
	struct stat status;
	if (options->convert.link != OPTIONS_LINK_KEEP || __builtin_popcount(report->links) < 2 ||
		stat(path, &status) != 0 || !S_ISREG(status.st_mode))
		return PIPELINE_EXIT_OK;
	struct traces_packets *packets;
	struct traces_load_report again;
	struct traces_batch batch;
	uint32_t links = 0;
	enum pipeline_exit code = command_trace_open_as(command, path, load, &packets, &again);
	if (code != PIPELINE_EXIT_OK)
		return code;
	while (traces_packets_next(packets, &batch) == 0 && batch.count > 0 &&
		__builtin_popcount(links) < 2 && !atomic_load(command->stop)) {
		for (size_t i = 0; i < batch.count; i++)
			links |= 1u << batch.records[i].link;
	}
	traces_packets_destroy(packets);
	if (__builtin_popcount(links) < 2)
		return PIPELINE_EXIT_OK;
	return command_error(command, PIPELINE_EXIT_INPUT,
		"%s: got packets of several link types, expected one for pcap: write pcapng, or "
		"convert with --link",
		path);
}

static enum pipeline_exit convert(struct command *command, const struct options *options,
	struct traces_packets *packets, const struct traces_writer_options *writer,
	const struct traces_load_report *report)
{
	const char *from = options->files[0], *to = options->files[1];
	struct changes changes = { 0 };
	enum pipeline_exit code;
	if (transform(&packets, &options->convert, &changes) == 0)
		code = command_trace_write_as(command, packets, to, writer);
	else
		code = command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	traces_packets_destroy(packets);
	if (code != PIPELINE_EXIT_OK)
		return code;
	command_trace_tell_changes(command, from, report);
	to = command_trace_output_name(to);
	tell_relink(command, to, &changes.relink);
	tell_repair(command, to, &changes.repair);
	return command_trace_tell_damage(command, from, report);
}

enum pipeline_exit command_trace_convert(struct command *command, struct options *options)
{
	struct traces_load_options load;
	struct traces_load_report report;
	struct traces_writer_options writer;
	struct traces_packets *packets;
	if (options->files_count != 2)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"trace convert: got %zu files, expected one to read and one to write",
			options->files_count);
	enum pipeline_exit code = command_check_output(
		command, options->files, 1, "trace convert", options->files[1]);
	if (code != PIPELINE_EXIT_OK)
		return code;
	command_convert_load_options(&load, &options->convert);
	code = command_trace_open_as(command, options->files[0], &load, &packets, &report);
	if (code != PIPELINE_EXIT_OK)
		return code;
	/* Nanoseconds are known once packets were read: a pcap file's header tells. */
	command_convert_writer_options(&writer, options->files[1], &options->convert,
		options->nanoseconds || report.nanoseconds);
	if (is_pcap(writer.format))
		code = check_links(command, options, &load, &report);
	if (code == PIPELINE_EXIT_OK)
		return convert(command, options, packets, &writer, &report);
	traces_packets_destroy(packets);
	return code;
}
