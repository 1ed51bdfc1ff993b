/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to chain/: a rule list as two rte_acl classifiers, IPv4 and IPv6, with the list's
 * first-match order. Needs the EAL. Threads: one writer until created, then read only.
 */
#pragma once

#include "chain/rules.h"

#include <stdint.h>

struct chain_acl;

/* A tuple as the classifier reads it: by family, network order, first byte the protocol. */
struct chain_acl_key4 {
	uint8_t protocol;
	uint8_t unused[3];
	uint8_t source[4], destination[4];
	uint16_t source_port, destination_port; /* network order */
};

struct chain_acl_key6 {
	uint8_t protocol;
	uint8_t unused[3];
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port; /* network order */
};
static_assert(sizeof(struct chain_acl_key4) == 16 && sizeof(struct chain_acl_key6) == 40,
	"the classifier reads aligned words");

/* name must differ between classifiers of the process. -ENOMEM, -EINVAL, -ERANGE (tries too large:
 * tens of thousands of overlapping ranges) with a message. Ordinary lists take about 0.1 ms and
 * 15 KB of transient memory for each rule. */
int chain_acl_create(
	struct chain_acl **out, const struct chain_rules *rules, const char *name, char *message);
void chain_acl_destroy(struct chain_acl *acl);

/* results[i] = index of the first rule that matches keys[i], plus 1; 0: none. keys point to key4
 * or key6 by family. scalar: DPDK's plain implementation instead of its vector ones. */
void chain_acl_classify(const struct chain_acl *acl, uint8_t family, const uint8_t **keys,
	uint32_t *results, uint32_t count, bool scalar);
