/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a routes file: a list or a message, and what was read writes and reads back. */
#include "chain/chain.h"
#include "chain/routes.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(const struct chain_routes *routes)
{
	char message[CHAIN_MESSAGE_SIZE];
	char *text = NULL;
	size_t text_size = 0;
	struct chain_routes again;
	FILE *file = open_memstream(&text, &text_size);
	BASE_ASSERT(file != NULL);
	BASE_ASSERT(chain_routes_write(routes, file) == 0);
	fclose(file);
	file = fmemopen(text, text_size, "r");
	BASE_ASSERT(file != NULL);
	BASE_ASSERT(chain_routes_read(&again, file, "again", message) == 0);
	fclose(file);
	BASE_ASSERT(again.count == routes->count);
	BASE_ASSERT(memcmp(again.list, routes->list, again.count * sizeof(*again.list)) == 0);
	chain_routes_free(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_routes routes;
	FILE *file = size == 0 ? NULL : fmemopen((void *)(uintptr_t)data, size, "r");
	if (file == NULL)
		return 0;
	int rc = chain_routes_read(&routes, file, "routes", message);
	fclose(file);
	if (rc != 0) {
		BASE_ASSERT(message[0] != '\0');
		return 0;
	}
	if (routes.count > 0) {
		int found = chain_routes_find(
			&routes, routes.list[0].prefix.family, routes.list[0].prefix.address);
		BASE_ASSERT(found >= 0);
		check_written(&routes);
	}
	chain_routes_free(&routes);
	return 0;
}
