/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a rules file: a list or a message, and what was read writes and reads back. */
#include "chain/chain.h"
#include "chain/rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(const struct chain_rules *rules)
{
	char message[CHAIN_MESSAGE_SIZE];
	char *text = NULL;
	size_t text_size = 0;
	struct chain_rules again;
	FILE *file = open_memstream(&text, &text_size);
	BASE_ASSERT(file != NULL);
	BASE_ASSERT(chain_rules_write(rules, file) == 0);
	fclose(file);
	file = fmemopen(text, text_size, "r");
	BASE_ASSERT(file != NULL);
	BASE_ASSERT(chain_rules_read(&again, file, "again", message) == 0);
	fclose(file);
	BASE_ASSERT(again.count == rules->count);
	BASE_ASSERT(memcmp(again.list, rules->list, again.count * sizeof(*again.list)) == 0);
	chain_rules_free(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char message[CHAIN_MESSAGE_SIZE] = "";
	struct chain_rules rules;
	FILE *file = size == 0 ? NULL : fmemopen((void *)(uintptr_t)data, size, "r");
	if (file == NULL)
		return 0;
	int rc = chain_rules_read(&rules, file, "rules", message);
	fclose(file);
	if (rc != 0) {
		BASE_ASSERT(message[0] != '\0');
		return 0;
	}
	if (rules.count > 0)
		check_written(&rules);
	chain_rules_free(&rules);
	return 0;
}
