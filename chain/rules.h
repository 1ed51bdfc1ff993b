/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Firewall rule lists: what the classifier is built from. Pure: no EAL. The first rule that matches
 * decides.
 *
 * File: one rule a line, `#` begins a comment:
 *
 *	allow|deny protocol source source_ports destination destination_ports
 *
 *	deny  tcp  198.51.100.0/24  any   any            22
 *	allow udp  any              any   2001:db8::/32  1024-65535
 *	allow any  any              any   any            any
 *
 * protocol: any, tcp, udp, sctp, icmp, icmp6 or 0 to 255. Addresses: any, or a prefix; both of one
 * family. Ports: any, a number, or first-last; only TCP, UDP and SCTP have ports, the ports of
 * other packets count as 0.
 */
#pragma once

#include "chain/text.h"

enum { CHAIN_RULES_MAX = 1 << 16 };

struct chain_rule {
	struct chain_prefix source, destination;
	uint16_t source_ports[2]; /* first and last */
	uint16_t destination_ports[2];
	uint8_t protocol;
	bool protocol_any;
	bool allow;
};

/* What a rule is matched against. */
struct chain_tuple {
	uint8_t source[16], destination[16]; /* network order, IPv4 in the first 4 bytes */
	uint16_t source_port, destination_port;
	uint8_t protocol;
	uint8_t family; /* 4 or 6 */
};

struct chain_rules {
	struct chain_rule *list; /* malloc */
	uint32_t count;
};

/* message has CHAIN_MESSAGE_SIZE bytes. -EBADMSG, -EIO, -ENOMEM. */
int chain_rules_read(struct chain_rules *rules, FILE *file, const char *path, char *message);
/* Also -ENOENT and the like from opening. */
int chain_rules_load(struct chain_rules *rules, const char *path, char *message);

/* Mostly single sources, some networks and port ranges, one rule in ten denies, one in eight is
 * IPv6; allow_last makes the last rule allow everything. Same seed, same list. -EINVAL (count >
 * CHAIN_RULES_MAX), -ENOMEM. */
int chain_rules_generate(struct chain_rules *rules, uint32_t count, uint64_t seed, bool allow_last);

/* In the file's format. -EIO. */
int chain_rules_write(const struct chain_rules *rules, FILE *file);

void chain_rules_free(struct chain_rules *rules);

/* Whether a rule can match packets of a family (4 or 6). */
bool chain_rule_has_family(const struct chain_rule *rule, uint8_t family);

bool chain_rule_matches(const struct chain_rule *rule, const struct chain_tuple *tuple);

/* The plain reference: index of the first rule that matches, by linear scan, or -ENOENT. */
int chain_rules_find(const struct chain_rules *rules, const struct chain_tuple *tuple);
