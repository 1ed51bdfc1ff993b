/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol of `readers` (conntrack/shared/single.c, core.h and read.c): one writer opens, touches
 * and removes connections of two keys in one bucket, and uses their entries and slots again, in every
 * order; an onlooker searches for a key, or looks at every entry as a dump does, and may stop
 * half-way for ever. Each field of an entry is a load or a store of its own; the bucket's header,
 * valid bits and version, is one. Slots have no tags here, which only spare looks at keys.
 *
 * Shown for every interleaving (of a sequentially consistent machine; the order of single accesses is
 * argued in the code):
 *   - a view is of one instant: key, time and traffic are of one write to the entry, and not of one
 *     that had been written over before the look began;
 *   - a search that finds has the key that was asked for, which was in the table at some time
 *     meanwhile; at some time meanwhile it was not when a search finds nothing;
 *   - the writer never waits: it ends whatever the onlooker does.
 *
 * Variants that must fail, so that the check can: BROKEN_BEGIN writes before the version is odd;
 * BROKEN_ODD takes a view while it is; BROKEN_AGAIN does not look at the version again; BROKEN_HEADER
 * does not look at the header behind the view; BROKEN_RAISE changes the valid bits without raising
 * the version; BROKEN_WAIT has the writer wait for onlookers. (The look at the header between search
 * and view, which models with several writers need, could be left out here, and spin agrees.)
 */
#ifndef WRITES
#define WRITES 5 /* touches, openings and removals */
#endif
#define ENTRIES 2
#define KEY     1
#define OTHER   2
#define NONE    255

byte valid, version; /* the header, read and written as one */
byte slot[ENTRIES];  /* entry + 1; 0: unclaimed */

/* An entry's fields; time and traffic are the number of the write. */
byte key[ENTRIES], seen[ENTRIES], traffic[ENTRIES], entry_version[ENTRIES];

/* What is shown. */
byte now;                 /* number of the latest write that has begun */
byte key_at[WRITES + 1];  /* key of the entry that it was to */
byte over[ENTRIES];       /* number of the latest that is over */
bool present;             /* KEY is in the table */
bool was_there, was_away; /* since the onlooker began */
bool looking;             /* BROKEN_WAIT */

/* ---- the writer ----------------------------------------------------------------------------- */

inline write_begin(e)
{
#ifdef BROKEN_WAIT
	!looking;
#endif
#ifdef BROKEN_BEGIN
	skip
#else
	entry_version[e]++
#endif
}

inline write_end(e)
{
	d_step {
#ifdef BROKEN_BEGIN
		entry_version[e]++;
#endif
		entry_version[e]++;
		over[e] = seen[e]
	}
}

inline touch(e)
{
	d_step { now++; key_at[now] = key[e] };
	write_begin(e);
	seen[e] = now;
	traffic[e] = now;
	write_end(e)
}

inline set_header(bits)
{
	d_step {
		valid = bits;
#ifndef BROKEN_RAISE
		version++;
#endif
		present = false;
		present = present || ((valid & 1) && key[slot[0] - 1] == KEY);
		present = present || ((valid & 2) && key[slot[1] - 1] == KEY);
		was_there = was_there || present;
		was_away = was_away || !present
	}
}

inline open(k, e)
{
	d_step { now++; key_at[now] = k; held[e] = k };
	write_begin(e);
	key[e] = k;
	seen[e] = now;
	traffic[e] = now;
	write_end(e);
	s = (valid & 1 -> 1 : 0);
	slot[s] = e + 1;
	set_header(valid | (1 << s))
}

inline remove(e)
{
	d_step { now++; key_at[now] = key[e]; s = (slot[0] == e + 1 -> 0 : 1) };
	set_header(valid & ~(1 << s));
	slot[s] = 0;
	write_begin(e); /* that it is no longer live */
	write_end(e);
	held[e] = NONE
}

#define MAY_OPEN(k, e) (held[e] == NONE && held[1 - e] != k)

proctype writer()
{
	byte s, held[ENTRIES]; /* keys of entries in the table */
	d_step { held[0] = NONE; held[1] = NONE };
	do
	:: now < WRITES && held[0] != NONE -> touch(0)
	:: now < WRITES && held[1] != NONE -> touch(1)
	:: now < WRITES && held[0] != NONE -> remove(0)
	:: now < WRITES && held[1] != NONE -> remove(1)
	:: now < WRITES && MAY_OPEN(KEY, 0) -> open(KEY, 0)
	:: now < WRITES && MAY_OPEN(KEY, 1) -> open(KEY, 1)
	:: now < WRITES && MAY_OPEN(OTHER, 0) -> open(OTHER, 0)
	:: now < WRITES && MAY_OPEN(OTHER, 1) -> open(OTHER, 1)
	:: now == WRITES -> break
	od
}

/* ---- the onlooker --------------------------------------------------------------------------- */

#define SAME_HEADER (valid == seen_valid && version == seen_version)

/* found: an entry or NONE, as of the header in seen_valid, seen_version. */
inline search()
{
	do
	::	atomic { seen_valid = valid; seen_version = version; found = NONE; i = 0 };
		do
		:: i < ENTRIES && found == NONE && (seen_valid & (1 << i)) ->
			word = slot[i];
			if
			:: word != 0 && key[word - 1] == KEY -> found = word - 1
			:: else
			fi;
			i++
		:: i < ENTRIES && !(found == NONE && (seen_valid & (1 << i))) -> i++
		:: i >= ENTRIES -> break
		od;
#ifdef NO_LOOK_BETWEEN
		break
#else
		if
		:: SAME_HEADER -> break
		:: !SAME_HEADER
		fi
#endif
	:: goto stopped
	od;
	atomic { i = 0; word = 0 }
}

inline view(e)
{
	do
	::	atomic { before = entry_version[e]; oldest = over[e] };
		if
#ifdef BROKEN_ODD
		:: true ->
#else
		:: before % 2 == 0 ->
#endif
			view_key = key[e];
			view_seen = seen[e];
			view_traffic = traffic[e];
#ifdef BROKEN_AGAIN
			break
#else
			if
			:: entry_version[e] == before -> break
			:: entry_version[e] != before
			fi
#endif
#ifndef BROKEN_ODD
		:: else
#endif
		fi
	:: goto stopped
	od;
	atomic {
		assert(view_seen == view_traffic);
		assert(view_seen == 0 || key_at[view_seen] == view_key);
		assert(view_seen >= oldest);
		before = 0;
		oldest = 0;
		view_traffic = 0
	}
}

proctype onlooker()
{
	byte i, word, found, seen_valid, seen_version, before, oldest;
	byte view_key, view_seen, view_traffic;
#ifdef BROKEN_WAIT
	looking = true;
#endif
	if
	::	view(0); /* a dump */
		view(1)
	::	atomic { was_there = present; was_away = !present };
		do
		::	search();
			if
			:: found == NONE -> assert(was_away); break
			:: else
			fi;
			view(found);
#ifdef BROKEN_HEADER
			assert(view_key == KEY && was_there);
			break
#else
			if
			:: SAME_HEADER -> assert(view_key == KEY && was_there); break
			:: !SAME_HEADER
			fi
#endif
		od
	fi;
	looking = false;
stopped:
	skip
}

init {
	atomic {
		run writer();
		run onlooker()
	}
}
