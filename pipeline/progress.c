/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/progress.h"

#include "pipeline/units.h"

enum { BAR_WIDTH = 30 };

void progress_show(void *context, const char *what, uint64_t done, uint64_t total)
{
	struct progress *progress = context;
	char bar[BAR_WIDTH + 1], count[32];
	if (progress->stream == NULL)
		return;
	progress->shown = true;
	if (total == 0) {
		units_format_grouped(done, count, sizeof(count));
		fprintf(progress->stream, "\r%-10s %s\x1b[K", what, count);
		fflush(progress->stream);
		return;
	}
	double part = done >= total ? 1 : (double)done / (double)total;
	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = i < (int)(part * BAR_WIDTH) ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	fprintf(progress->stream, "\r%-10s [%s] %3d %%\x1b[K", what, bar, (int)(100 * part));
	fflush(progress->stream);
}

void progress_end(struct progress *progress)
{
	if (progress->stream == NULL || !progress->shown)
		return;
	fprintf(progress->stream, "\r\x1b[K");
	fflush(progress->stream);
	progress->shown = false;
}
