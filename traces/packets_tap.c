/* SPDX-License-Identifier: BSD-2-Clause */
#include "traces/packets.h"

#include <errno.h>
#include <stdlib.h>

struct tap {
	struct traces_packets packets;
	struct traces_packets *from;
	int (*see)(void *context, const struct traces_batch *batch);
	void *context;
};

static int tap_next(struct traces_packets *packets, struct traces_batch *batch)
{
	struct tap *tap = (struct tap *)packets;
	int error = traces_packets_pull(packets, tap->from, batch);
	if (error || batch->count == 0)
		return error;
	return tap->see(tap->context, batch);
}

static void tap_destroy(struct traces_packets *packets)
{
	struct tap *tap = (struct tap *)packets;
	traces_packets_destroy(tap->from);
	free(tap);
}

static const struct traces_packets_ops tap_ops = { tap_next, tap_destroy };

int traces_packets_tap(struct traces_packets **out, struct traces_packets *from,
	int (*see)(void *context, const struct traces_batch *batch), void *context)
{
	struct tap *tap = calloc(1, sizeof(*tap));
	if (tap == NULL)
		return -ENOMEM;
	tap->packets.ops = &tap_ops;
	tap->from = from;
	tap->see = see;
	tap->context = context;
	*out = &tap->packets;
	return 0;
}
