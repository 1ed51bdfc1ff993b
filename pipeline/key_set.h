/* SPDX-License-Identifier: BSD-2-Clause */
/* Set of flow keys that grows; counts the distinct flows of a capture before a run. */
#pragma once

#include "base/flow_key.h"

#include <stdbool.h>

struct key_set;

int key_set_create(struct key_set **out); /* -ENOMEM */
void key_set_destroy(struct key_set *set);
/* 1 when the key is new, 0 when it was there, -ENOMEM. */
int key_set_add(struct key_set *set, const struct base_flow_key *key, uint32_t hash);
bool key_set_has(const struct key_set *set, const struct base_flow_key *key, uint32_t hash);
/* Fetch what an addition of a key with this hash will look at. */
void key_set_prefetch(const struct key_set *set, uint32_t hash);
uint64_t key_set_count(const struct key_set *set);
