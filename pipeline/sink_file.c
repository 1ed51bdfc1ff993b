/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PART_PATH_SIZE = 4096 };

struct sink_file {
	struct sink sink;
	struct traces_writer *writer;
	uint64_t epoch_ns;
	double speed;
	const char *path; /* final name, for messages */
	bool released;    /* packets carry a release time (reframer on) */
	bool one_link;    /* the format takes one link type only ... */
	uint8_t link;     /* ... this one */
	int error;        /* of the first failed write */
};

static void part_path(const struct pipeline_config *config, unsigned int worker, char *path)
{
	if (config->workers == 1)
		snprintf(path, PART_PATH_SIZE, "%s", config->sink_path);
	else
		snprintf(path, PART_PATH_SIZE, "%s.%ld.part%u", config->sink_path, (long)getpid(),
			worker);
}

static uint64_t stamp_ns(const struct sink_file *sink, const struct base_packet *packet)
{
	uint64_t time_ns = sink->released ? packet->release_ns : packet->time_ns;
	if (sink->speed != 1.0)
		time_ns = (uint64_t)((double)time_ns / sink->speed);
	return sink->epoch_ns + time_ns;
}

static void write_packet(struct sink_file *sink, struct base_burst *burst, unsigned int index)
{
	struct base_packet *packet = burst->packets[index];
	int error = sink->error;
	if (sink->one_link && packet->link != sink->link)
		error = -EPROTONOSUPPORT;
	if (error == 0)
		error = traces_writer_write(sink->writer, stamp_ns(sink, packet), packet->link,
			packet->data, packet->cap_len, packet->wire_len);
	if (error == -EPROTONOSUPPORT) {
		base_burst_drop(burst, index, BASE_DROP_SINK_LINK);
	} else if (error != 0) {
		sink->error = error;
		base_burst_drop(burst, index, BASE_DROP_SINK_ERROR);
	}
}

static void file_send(struct sink *base, struct base_burst *burst, unsigned int *)
{
	for (unsigned int i = 0; i < burst->count; i++)
		write_packet((struct sink_file *)base, burst, i);
}

static int file_finish(struct sink *base, char *message)
{
	struct sink_file *sink = (struct sink_file *)base;
	int error = traces_writer_close(sink->writer);
	sink->writer = NULL;
	if (sink->error != 0)
		error = sink->error;
	if (error != 0)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "sink: %.400s: %s", sink->path,
			strerror(-error));
	return error;
}

static void file_destroy(struct sink *base)
{
	struct sink_file *sink = (struct sink_file *)base;
	traces_writer_abandon(sink->writer);
	free(sink);
}

static const struct sink_ops file_ops = { file_send, file_finish, file_destroy };

int sink_file_create(struct sink **out, const struct pipeline_config *config, unsigned int worker,
	uint64_t epoch_ns, enum base_link link, char *message)
{
	char path[PART_PATH_SIZE];
	struct sink_file *sink = calloc(1, sizeof(*sink));
	if (sink == NULL)
		return -ENOMEM;
	part_path(config, worker, path);
	/* Parts may mix link types: pcapng keeps them apart until the join. */
	enum traces_format format =
		config->workers == 1 ? config->sink_format : TRACES_FORMAT_PCAPNG;
	int error = traces_writer_create(&sink->writer, path, format, 0);
	if (error != 0) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "sink: %.400s: %s", config->sink_path,
			strerror(-error));
		free(sink);
		return error;
	}
	sink->sink.ops = &file_ops;
	sink->epoch_ns = epoch_ns;
	sink->speed = config->speed;
	sink->path = config->sink_path;
	sink->released = config->reframer_enabled;
	sink->one_link = config->sink_format != TRACES_FORMAT_PCAPNG;
	sink->link = (uint8_t)link;
	*out = &sink->sink;
	return 0;
}

static int copy_all(struct traces_packets *packets, const struct pipeline_config *config)
{
	struct traces_writer *writer;
	int error = traces_writer_create(&writer, config->sink_path, config->sink_format, 0);
	if (error != 0)
		return error;
	error = traces_writer_pump(writer, packets, NULL, NULL);
	int closed = traces_writer_close(writer);
	return error != 0 ? error : closed;
}

void sink_file_discard_parts(const struct pipeline_config *config)
{
	char path[PART_PATH_SIZE];
	for (unsigned int i = 0; i < config->workers && config->workers > 1; i++) {
		part_path(config, i, path);
		(void)unlink(path);
	}
}

int sink_file_join(const struct pipeline_config *config, char *message)
{
	char paths[PIPELINE_WORKERS_MAX][PART_PATH_SIZE];
	const char *names[PIPELINE_WORKERS_MAX];
	struct traces_packets *packets;
	struct traces_load_options options;
	struct traces_load_report *report = calloc(1, sizeof(*report));
	if (report == NULL) {
		sink_file_discard_parts(config);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < config->workers; i++) {
		part_path(config, i, paths[i]);
		names[i] = paths[i];
	}
	traces_load_options_defaults(&options);
	options.merge = true;
	int error = traces_packets_open_files(&packets, names, config->workers, &options, report);
	if (error == 0) {
		error = copy_all(packets, config);
		traces_packets_destroy(packets);
	}
	if (error != 0)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "sink: %.400s: joining parts: %s",
			config->sink_path, strerror(-error));
	sink_file_discard_parts(config);
	free(report);
	return error;
}
