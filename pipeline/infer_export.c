/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/infer_export.h"
#include "pipeline/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_SIZE = 4096, NPY_HEADER_SIZE = 128, EXPIRY_LOOKS = 4 };

/* What the connection's memory says of a flow. */
enum { PHASE_TAKING, PHASE_DONE };

/* A file that gets its name at the end. */
struct output {
	char name[NAME_SIZE], beside[NAME_SIZE + 8];
	FILE *file;
};

struct infer_export {
	enum gpu_offload_features features;
	struct infer_export_options options;
	struct infer_export_report report;
	bool records; /* .rec, else .npy */
	int error;    /* of writing, the first */
	struct output rows, index;
	struct base_arena *arena;
	struct base_parser *parser;
	struct conntrack *tracker;
	bool started;
	uint64_t epoch_ns, now_ns;
	struct base_burst burst;
	struct base_packet packets[BASE_BURST_MAX];
	float row[GPU_OFFLOAD_IMG_INPUTS];
	uint8_t record[GPU_OFFLOAD_RECORD_BYTES_MAX];
};

void infer_export_options_defaults(struct infer_export_options *options)
{
	struct conntrack_config tracker;
	conntrack_config_defaults(&tracker);
	*options = (struct infer_export_options){
		.packets_min = 1,
		.conns = tracker.entries_max,
	};
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A file with a name of its own beside where the name leads. */
static int open_beside(struct output *output)
{
	struct stat status;
	char full[PATH_MAX];
	if (realpath(output->name, full) != NULL)
		snprintf(output->name, sizeof(output->name), "%s", full);
	if (lstat(output->name, &status) == 0 && !S_ISREG(status.st_mode))
		return -EINVAL; /* its header is written last: a pipe or a device will not do */
	snprintf(output->beside, sizeof(output->beside), "%s.XXXXXX", output->name);
	int file = mkstemp(output->beside);
	if (file < 0)
		return -errno;
	mode_t mask = umask(0);
	(void)umask(mask);
	(void)fchmod(file, 0666 & ~mask);
	output->file = fdopen(file, "wb");
	if (output->file != NULL)
		return 0;
	int error = -errno;
	close(file);
	unlink(output->beside);
	return error;
}

static int open_output(struct output *output, char *message)
{
	int error = open_beside(output);
	if (error != 0)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%.900s: %s", output->name,
			error == -EINVAL ? "not a regular file" : strerror(-error));
	return error == -EINVAL ? -EPERM : error;
}

static int close_output(struct output *output, bool keep)
{
	int error = 0;
	if (output->file == NULL)
		return 0;
	if (fclose(output->file) != 0)
		error = -errno;
	output->file = NULL;
	if (keep && error == 0 && rename(output->beside, output->name) != 0)
		error = -errno;
	if (!keep || error != 0)
		unlink(output->beside);
	return error;
}

/* NumPy's format 1.0; always as long, so that it can be written again with the number of rows. */
static int write_npy_header(FILE *file, uint64_t rows, uint32_t inputs)
{
	char header[NPY_HEADER_SIZE];
	const size_t dict_size = NPY_HEADER_SIZE - 10;
	memset(header, ' ', sizeof(header));
	memcpy(header, "\x93NUMPY\x01\x00", 8);
	header[8] = (char)(dict_size & 0xff);
	header[9] = (char)(dict_size >> 8);
	int length = snprintf(header + 10, dict_size,
		"{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %u), }", rows,
		inputs);
	header[10 + length] = ' ';
	header[NPY_HEADER_SIZE - 1] = '\n';
	return fwrite(header, sizeof(header), 1, file) == 1 ? 0 : -EIO;
}

static int open_outputs(struct infer_export *export, const char *path, char *message)
{
	static const char header[] = "flow_id,host_id,protocol,opener,opener_port,responder,"
				     "responder_port,packets,first_ns,last_ns,whole\n";
	size_t length = strlen(path);
	const char *suffix = length > 4 ? path + length - 4 : "";
	export->records = strcmp(suffix, ".rec") == 0;
	if (!export->records && strcmp(suffix, ".npy") != 0) {
		snprintf(message, PIPELINE_MESSAGE_SIZE,
			"-o: got '%.900s', expected a name that ends in .npy or .rec", path);
		return -EINVAL;
	}
	if (length >= NAME_SIZE) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "-o: %s", strerror(ENAMETOOLONG));
		return -ENAMETOOLONG;
	}
	snprintf(export->rows.name, NAME_SIZE, "%s", path);
	snprintf(export->index.name, NAME_SIZE, "%.*s.csv", (int)(length - 4), path);
	int error = open_output(&export->rows, message);
	if (error == 0)
		error = open_output(&export->index, message);
	if (error != 0)
		return error;
	if (!export->records)
		export->error = write_npy_header(export->rows.file, 0, export->report.inputs);
	if (fputs(header, export->index.file) < 0)
		export->error = -EIO;
	return 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void write_index(struct infer_export *export, const struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity)
{
	const struct base_flow_key *key = &identity->key;
	unsigned int opener = identity->opener_is_1;
	int family = key->family == 6 ? AF_INET6 : AF_INET;
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];
	inet_ntop(family, key->address[opener], from, sizeof(from));
	inet_ntop(family, key->address[!opener], to, sizeof(to));
	int length = fprintf(export->index.file,
		"%016" PRIx64 ",%08x,%u,%s,%u,%s,%u,%u,%" PRIu64 ",%" PRIu64 ",%u\n",
		gpu_offload_flow_id(identity, flow->first_ns), gpu_offload_host_id(identity),
		key->protocol, from, key->port[opener], to, key->port[!opener], flow->packets,
		flow->first_ns, flow->last_ns, flow->packets >= export->options.depth);
	if (length < 0 && export->error == 0)
		export->error = -EIO;
}

static void write_row(struct infer_export *export, const struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity, uint32_t conn)
{
	const void *bytes = export->row;
	size_t size = export->report.inputs * sizeof(float);
	if (export->records) {
		gpu_offload_record_write(export->features, flow, identity, conn,
			conntrack_generation(export->tracker, conn), export->options.depth,
			export->record);
		bytes = export->record;
		size = gpu_offload_record_bytes(export->features);
	} else {
		gpu_offload_flow_row(export->features, flow, identity, export->row);
	}
	errno = EIO;
	if (fwrite(bytes, size, 1, export->rows.file) != 1 && export->error == 0)
		export->error = -errno;
	write_index(export, flow, identity);
	export->report.rows++;
}

/* The flow gives its row now, or never. */
static void finish_flow(struct infer_export *export, struct gpu_offload_flow *flow,
	const struct gpu_offload_identity *identity, uint32_t conn)
{
	const struct infer_export_options *options = &export->options;
	flow->phase = PHASE_DONE;
	export->report.flows++;
	if (flow->packets < options->packets_min ||
		(options->whole && flow->packets < options->depth))
		export->report.short_flows++;
	else
		write_row(export, flow, identity, conn);
}

static void on_remove(void *context, uint32_t conn, void *user)
{
	struct infer_export *export = context;
	struct gpu_offload_flow *flow = user;
	struct conntrack_conn view;
	if (flow->phase == PHASE_DONE || flow->packets == 0 ||
		conntrack_conn_get(export->tracker, conn, &view) != 0)
		return;
	const struct gpu_offload_identity identity = { .key = view.key,
		.opener_is_1 = view.origin_reversed };
	finish_flow(export, flow, &identity, conn);
}

/* Packets first to end - 1 are of one run; its connection may change within. */
static void take_run(struct infer_export *export, unsigned int first, unsigned int end)
{
	struct base_packet *const *packets = export->burst.packets;
	while (first < end) {
		uint32_t conn = packets[first]->conn;
		unsigned int next = first + 1;
		while (next < end && packets[next]->conn == conn)
			next++;
		if (conn == BASE_CONN_NONE) {
			export->report.untracked += next - first;
			first = next;
			continue;
		}
		struct gpu_offload_flow *flow = conntrack_user(export->tracker, conn);
		if (flow->phase == PHASE_TAKING &&
			gpu_offload_flow_take(export->features, flow, &packets[first], next - first,
				export->options.depth)) {
			const struct gpu_offload_identity identity =
				gpu_offload_identity_of(packets[first]);
			finish_flow(export, flow, &identity, conn);
		}
		first = next;
	}
}

/* ---- packets -------------------------------------------------------------------------------- */

static void run_burst(struct infer_export *export)
{
	struct base_burst *burst = &export->burst;
	struct base_packet *dropped[BASE_BURST_MAX];
	base_parse_burst(export->parser, burst, false);
	if (burst->drop_count > 0)
		export->report.malformed += base_burst_compact(burst, dropped);
	conntrack_process_burst(export->tracker, burst);
	if (burst->drop_count > 0)
		export->report.untracked += base_burst_compact(burst, dropped);
	for (unsigned int r = 0; r < burst->run_count; r++)
		take_run(export, burst->runs[r].first, burst->runs[r].first + burst->runs[r].count);
	conntrack_advance(export->tracker, export->now_ns, EXPIRY_LOOKS * (burst->count + 1));
}

/* Time since the first packet, made monotone. */
static uint64_t move_clock(struct infer_export *export, uint64_t time_ns)
{
	if (!export->started)
		export->epoch_ns = time_ns;
	export->started = true;
	uint64_t since_ns = time_ns > export->epoch_ns ? time_ns - export->epoch_ns : 0;
	export->now_ns = since_ns > export->now_ns ? since_ns : export->now_ns;
	return export->now_ns;
}

int infer_export_add(struct infer_export *export, const struct traces_batch *batch)
{
	for (size_t at = 0; at < batch->count;) {
		struct base_burst *burst = &export->burst;
		burst->drop_count = burst->run_count = burst->count = 0;
		for (; at < batch->count && burst->count < BASE_BURST_MAX; at++) {
			const struct traces_record *record = &batch->records[at];
			struct base_packet *packet = &export->packets[burst->count];
			base_packet_reset(packet);
			packet->data = (uint8_t *)(uintptr_t)(batch->bytes + record->offset);
			packet->time_ns = move_clock(export, record->time_ns);
			packet->seq = export->report.packets++;
			packet->cap_len = record->cap_len;
			packet->wire_len = record->wire_len;
			packet->link = record->link;
			burst->packets[burst->count++] = packet;
		}
		run_burst(export);
	}
	return export->error;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void destroy(struct infer_export *export, bool keep)
{
	int error = close_output(&export->rows, keep);
	int index_error = close_output(&export->index, keep && error == 0);
	if (export->error == 0)
		export->error = error != 0 ? error : index_error;
	if (index_error != 0 && error == 0)
		unlink(export->rows.name);
	conntrack_destroy(export->tracker);
	base_parser_destroy(export->parser);
	if (export->arena != NULL)
		base_arena_destroy(export->arena);
	export->tracker = NULL;
	export->parser = NULL;
	export->arena = NULL;
}

/* message: set when there is more to say than the error. */
static int create_stages(struct infer_export *export, char *message)
{
	struct base_parse_config parse;
	struct conntrack_config tracker;
	uint32_t user_bytes = gpu_offload_flow_bytes(export->features, export->options.depth);
	int error = pipeline_memory_check_conns(export->options.conns,
		PIPELINE_MEMORY_CONN_BYTES + user_bytes, "--conns or --depth", message,
		PIPELINE_MESSAGE_SIZE);
	if (error == 0)
		error = base_arena_create(&export->arena, false);
	if (error != 0)
		return error;
	base_parse_config_defaults(&parse);
	error = base_parser_create(&export->parser, &parse);
	if (error != 0)
		return error;
	conntrack_config_defaults(&tracker);
	tracker.entries_max = export->options.conns;
	tracker.user_bytes = user_bytes;
	tracker.arena = export->arena;
	tracker.on_remove = on_remove;
	tracker.on_remove_context = export;
	return conntrack_create(&export->tracker, &tracker);
}

int infer_export_create(struct infer_export **out, const struct infer_export_options *options,
	const char *path, char *message)
{
	enum gpu_offload_features features = (enum gpu_offload_features)options->features;
	uint32_t depth_max = gpu_offload_features_depth_max(features);
	if (options->depth > depth_max) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "--depth: got '%u', expected 1..%u for %s",
			options->depth, depth_max, gpu_offload_features_name(features));
		return -EINVAL;
	}
	struct infer_export *export = calloc(1, sizeof(*export));
	int error = -ENOMEM;
	message[0] = '\0';
	if (export != NULL) {
		export->features = features;
		export->options = *options;
		if (options->depth == 0)
			export->options.depth = gpu_offload_features_depth_default(features);
		export->report.inputs = gpu_offload_features_inputs(features);
		export->report.depth = export->options.depth;
		error = create_stages(export, message);
	}
	if (error != 0 && message[0] == '\0')
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%s", strerror(-error));
	if (error == 0)
		error = open_outputs(export, path, message);
	if (error != 0) {
		infer_export_abandon(export);
		return error;
	}
	*out = export;
	return 0;
}

int infer_export_close(
	struct infer_export *export, struct infer_export_report *report, char *message)
{
	conntrack_finish(export->tracker, export->now_ns);
	(void)conntrack_purge(export->tracker, NULL, NULL);
	(void)conntrack_advance(export->tracker, export->now_ns, 1); /* tells what was retired */
	if (export->error == 0 && !export->records) {
		rewind(export->rows.file);
		export->error = write_npy_header(
			export->rows.file, export->report.rows, export->report.inputs);
	}
	destroy(export, export->error == 0);
	int error = export->error;
	if (error != 0)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "%.900s: %s", export->rows.name,
			strerror(-error));
	else
		*report = export->report;
	free(export);
	return error;
}

void infer_export_abandon(struct infer_export *export)
{
	if (export == NULL)
		return;
	destroy(export, false);
	free(export);
}
