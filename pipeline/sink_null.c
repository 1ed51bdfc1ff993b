/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/sink.h"

#include <errno.h>
#include <stdlib.h>

/* The worker counts what is left in the burst; nothing else happens to it. */
static void null_send(struct sink *, struct base_burst *, unsigned int *)
{
}

static int null_finish(struct sink *, char *)
{
	return 0;
}

static void null_destroy(struct sink *sink)
{
	free(sink);
}

static const struct sink_ops null_ops = { null_send, null_finish, null_destroy };

int sink_null_create(struct sink **out)
{
	struct sink *sink = calloc(1, sizeof(*sink));
	if (sink == NULL)
		return -ENOMEM;
	sink->ops = &null_ops;
	*out = sink;
	return 0;
}
