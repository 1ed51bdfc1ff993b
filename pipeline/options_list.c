/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of names, one rule for all: separated by commas, each once, "all", and "none" where an
 * empty list means something. */
#include "pipeline/options_private.h"

#include <errno.h>

static int add(struct options_list *list, const char *word, uint32_t index, char *message)
{
	BASE_ASSERT(index < OPTIONS_LIST_MAX);
	if ((list->set >> index & 1) != 0)
		return options_refuse(message, word, "each name once");
	list->set |= 1u << index;
	list->indices[list->count++] = (uint8_t)index;
	return 0;
}

int options_list_read(struct options *options, const char *text, const struct options_names *names,
	struct options_list *out, char *message)
{
	struct options_list list = { .count = 0 };
	char *rest = options_keep_text(options, text, strlen(text));
	bool all = strcmp(text, "all") == 0;
	int error = 0;
	if (rest == NULL)
		return options_refuse_memory(message);
	if (all || (names->none && strcmp(text, "none") == 0))
		rest = NULL;
	for (uint32_t i = 0; all && i < names->count; i++)
		error = add(&list, "all", i, message);
	for (char *word; error == 0 && (word = options_split(&rest, ",+")) != NULL;) {
		uint32_t index;
		error = names->find(names->context, word, &index, message);
		if (error == 0)
			error = add(&list, word, index, message);
	}
	if (error == 0)
		*out = list;
	return error;
}
