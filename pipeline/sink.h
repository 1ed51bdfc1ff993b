/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sinks of one worker: null (counts), a capture file, a DPDK port's queue. send() takes a burst;
 * packets it cannot take are marked with a drop reason and stay in the burst. Packets that a device
 * keeps (until its driver frees them) are removed from the burst by setting their slot to NULL and
 * counting them in *kept.
 */
#pragma once

#include "pipeline/pipeline.h"

struct sink;

struct sink_ops {
	void (*send)(struct sink *sink, struct base_burst *burst, unsigned int *kept);
	/* End of input: write out and close. 0 or -errno with message. */
	int (*finish)(struct sink *sink, char *message);
	void (*destroy)(struct sink *sink);
};

struct sink {
	const struct sink_ops *ops;
};

int sink_null_create(struct sink **out); /* -ENOMEM */

/*
 * Writes what leaves, stamped with the time it leaves: epoch_ns + release time / speed. Several
 * workers write parts beside the final name, which sink_file_join merges by time. pcap holds one
 * link type, `link`; packets with another are dropped by name.
 */
int sink_file_create(struct sink **out, const struct pipeline_config *config, unsigned int worker,
	uint64_t epoch_ns, enum base_link link, char *message);
/* Merge the parts into the file. The parts are gone afterwards, on error too. */
int sink_file_join(const struct pipeline_config *config, char *message);
/* After a run that failed. Nothing to do for one worker, which writes no parts. */
void sink_file_discard_parts(const struct pipeline_config *config);

int sink_port_create(struct sink **out, uint16_t port, uint16_t queue); /* -ENOMEM */
