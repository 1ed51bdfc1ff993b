/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/hw/random_talk.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CLIENT, SERVER, SEGMENTS_MIN = 10, SEGMENTS_MAX = 20, LINE_MAX = 160 };

struct talk {
	struct base_rng *rng;
	char *at;
	size_t left;
	uint32_t next[2]; /* number that each side would send */
	bool sacks;
};

static uint32_t pick(struct talk *talk, uint32_t bound)
{
	return (uint32_t)base_rng_below(talk->rng, bound);
}

static bool chance(struct talk *talk, uint32_t percent)
{
	return pick(talk, 100) < percent;
}

static void put(struct talk *talk, const char *line)
{
	int size = snprintf(talk->at, talk->left, "%s : ?\n", line);
	if (size > 0 && (size_t)size < talk->left) {
		talk->at += size;
		talk->left -= (size_t)size;
	} else {
		*talk->at = 0;
	}
}

/* A number near to what it should be, or far from it. */
static uint32_t off(struct talk *talk, uint32_t number)
{
	switch (pick(talk, 12)) {
	case 0:
		return number + pick(talk, 200);
	case 1:
		return number - pick(talk, 3000);
	case 2:
		return number + pick(talk, 100000);
	case 3:
		return number - 80000;
	default:
		return number;
	}
}

static void open_talk(struct talk *talk)
{
	char line[LINE_MAX], offers[2][40];
	uint32_t client = chance(talk, 20) ? UINT32_MAX - 500 : 1000;
	talk->sacks = true;
	for (unsigned int side = 0; side < 2; side++) {
		bool sacks = chance(talk, 60);
		bool scales = chance(talk, 60);
		snprintf(offers[side], sizeof(offers[side]), " win %u%s", 1 + pick(talk, 4000),
			sacks ? " sackok" : "");
		if (scales)
			snprintf(offers[side] + strlen(offers[side]), 12, " ws %u", pick(talk, 4));
		talk->sacks = talk->sacks && sacks;
	}
	snprintf(line, sizeof(line), "> S %u%s", client, offers[CLIENT]);
	put(talk, line);
	if (chance(talk, 20))
		put(talk, line);
	if (chance(talk, 10))
		client += 700000;
	snprintf(line, sizeof(line), "> S %u%s", client, offers[CLIENT]);
	if (client > 700000 && client < UINT32_MAX - 500)
		put(talk, line);
	if (chance(talk, 10)) {
		snprintf(line, sizeof(line), "< SA 50000 %u%s", off(talk, client + 1),
			offers[SERVER]);
		put(talk, line);
	}
	snprintf(line, sizeof(line), "< SA 50000 %u%s", client + 1, offers[SERVER]);
	put(talk, line);
	snprintf(line, sizeof(line), "> A %u 50001 win %u", client + 1, pick(talk, 3000));
	put(talk, line);
	talk->next[CLIENT] = client + 1;
	talk->next[SERVER] = 50001;
}

static void say(struct talk *talk)
{
	static const char *const kinds[] = { "A", "A", "A", "A", "AP", "AP", "AP", "R", "RA" };
	const char *kind = kinds[pick(talk, sizeof(kinds) / sizeof(*kinds))];
	unsigned int side = pick(talk, 2);
	uint32_t seq = off(talk, talk->next[side]), ack = off(talk, talk->next[!side]);
	bool acks = strchr(kind, 'A') != NULL, rst = kind[0] == 'R';
	uint32_t len = !rst && chance(talk, 40) ? 1 + pick(talk, 600) : 0;
	char line[LINE_MAX], *at = line;
	at += snprintf(at, 40, "%c %s %u", side == CLIENT ? '>' : '<', kind, seq);
	if (acks)
		at += snprintf(at, 20, " %u", ack);
	if (len != 0)
		at += snprintf(at, 20, " +%u", len);
	at += snprintf(at, 20, " win %u", chance(talk, 10) ? 0 : pick(talk, 4000));
	if (acks && !rst && chance(talk, 15))
		snprintf(at, 40, " sack %u-%u", ack + 100, off(talk, ack + 200));
	put(talk, line);
	if (len != 0 && seq == talk->next[side])
		talk->next[side] = seq + len;
}

void random_talk(struct base_rng *rng, char *text)
{
	struct talk talk = { .rng = rng, .at = text, .left = RANDOM_TALK_MAX };
	open_talk(&talk);
	uint32_t count = SEGMENTS_MIN + pick(&talk, SEGMENTS_MAX - SEGMENTS_MIN + 1);
	for (uint32_t i = 0; i < count; i++)
		say(&talk);
}
