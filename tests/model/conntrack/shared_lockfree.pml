/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol of conntrack/shared/lockfree.c on one bucket: three packets of one key come to three
 * workers, a fourth worker removes a connection of it and uses its entry for another key.
 *
 * Shown for every interleaving (of a sequentially consistent machine; the order of single accesses
 * is argued in the code):
 *   - at no time are two valid slots of one key there;
 *   - no packet is lost or counted twice, and none is counted for another key;
 *   - at the end no slot is claimed and not valid.
 *
 * Variants that must fail, so that the check can: BROKEN_PUBLISH publishes without comparing the
 * header that was searched; BROKEN_REUSE does not wait for other workers' bursts to end.
 */
#define PACKETS 3
#define SLOTS   4
#define NONE    255
#define KEY     1
#define OTHER   2

/* The header, read and compared as one: valid bits and version. */
byte valid, version;
byte slot[SLOTS]; /* entry + 1; 0: unclaimed */

/* Entries 0..PACKETS-1 belong to one packet each. */
byte key[PACKETS];
bool dead[PACKETS];
byte count[PACKETS];

/* 0: before its burst, 1: in it, 2: behind it. */
byte burst[PACKETS];
byte reported;
bool removed;

inline assert_unique()
{
	byte a, b;
	a = 0;
	do
	:: a < SLOTS ->
		b = a + 1;
		do
		:: b < SLOTS ->
			assert(!((valid & (1 << a)) && (valid & (1 << b)) &&
				key[slot[a] - 1] == key[slot[b] - 1]));
			b++
		:: else -> break
		od;
		a++
	:: else -> break
	od;
	a = 0;
	b = 0
}

/* found: an entry or NONE, as of the header in seen_valid, seen_version. */
inline find(k)
{
	do
	::	d_step { seen_valid = valid; seen_version = version; found = NONE; i = 0 };
		do
		:: i < SLOTS && (seen_valid & (1 << i)) && found == NONE ->
			word = slot[i];
			if
			:: word != 0 && key[word - 1] == k -> found = word - 1
			:: else
			fi;
			i++
		:: i < SLOTS && !((seen_valid & (1 << i)) && found == NONE) -> i++
		:: i >= SLOTS -> break
		od;
		if
		:: atomic { valid == seen_valid && version == seen_version -> i = 0 } -> break
		:: else
		fi
	od;
	atomic { i = 0; word = 0 }
}

/* Clear the valid bit of the slot that has this entry, unless someone has. */
inline unpublish(e)
{
	do
	::	d_step { seen_valid = valid; seen_version = version; i = 0 };
		do
		:: i < SLOTS && !((seen_valid & (1 << i)) && slot[i] == e + 1) -> i++
		:: else -> break
		od;
		if
		:: i >= SLOTS -> break
		:: else ->
			if
			:: atomic { valid == seen_valid && version == seen_version ->
				valid = valid & ~(1 << i); version++ } -> break
			:: else
			fi
		fi
	od;
	i = 0
}

/* Entry `mine` with key k; ends with found = NONE when it was published, else with the one there. */
inline insert(k, mine)
{
	key[mine] = k;
	d_step { dead[mine] = false; count[mine] = 1; at = 0 };
	do
	:: atomic { slot[at] == 0 -> slot[at] = mine + 1 } -> break
	:: else -> at++; assert(at < SLOTS)
	od;
	do
	::	find(k);
		if
		:: found != NONE ->
			slot[at] = 0;
			count[mine] = 0;
			break
		:: else ->
#ifdef BROKEN_PUBLISH
			atomic { valid = valid | (1 << at); version++; assert_unique() };
			break
#else
			if
			:: atomic { valid == seen_valid && version == seen_version ->
				valid = valid | (1 << at); version++; assert_unique() } -> break
			:: else
			fi
#endif
		fi
	od;
	at = 0
}

proctype packet(byte me)
{
	byte i, word, at, found, seen_valid, seen_version;
	bool gone;
	burst[me] = 1;
	do
	::	find(KEY);
		if
		:: found == NONE -> insert(KEY, me)
		:: else
		fi;
		if
		:: found == NONE -> break
		:: else ->
			gone = dead[found]; /* the compare-and-swap of the time stamp */
			if
			:: gone -> unpublish(found)
			:: else ->
				assert(key[found] == KEY);
				count[found]++;
				break
			fi
		fi
	od;
	burst[me] = 2
}

proctype remover()
{
	byte i, word, at, found, seen_valid, seen_version, e;
	byte waits[PACKETS];
	/* Something to remove, or nothing more to come. */
	do
	:: atomic { e < PACKETS && (valid & 1) && e == slot[0] - 1 && !dead[e] -> dead[e] = true };
		break
	:: atomic { e < PACKETS && (valid & 2) && e == slot[1] - 1 && !dead[e] -> dead[e] = true };
		break
	:: e + 1 < PACKETS -> e++
	:: e > 0 -> e = 0
	:: burst[0] == 2 && burst[1] == 2 && burst[2] == 2 -> goto over
	od;
	unpublish(e);
	at = 0;
	do
	:: slot[at] == e + 1 -> slot[at] = 0; break
	:: else -> at++; assert(at < SLOTS)
	od;
#ifndef BROKEN_REUSE
	/* The epoch behind the removal: who is in a burst now must have left it. */
	atomic { waits[0] = (burst[0] == 1); waits[1] = (burst[1] == 1); waits[2] = (burst[2] == 1) };
	(waits[0] == 0 || burst[0] == 2) && (waits[1] == 0 || burst[1] == 2) &&
		(waits[2] == 0 || burst[2] == 2);
#endif
	atomic { reported = count[e]; count[e] = 0; removed = true };
	/* An entry whose packet has not come yet will be taken by that. */
	if
	:: burst[e] == 2 -> insert(OTHER, e); assert(found == NONE)
	:: else
	fi;
over:
	skip
}

init {
	byte n, sum, s;
	atomic {
		run packet(0);
		run packet(1);
		run packet(2);
		run remover()
	};
	_nr_pr == 1;
	atomic {
		do
		:: n < PACKETS ->
			sum = sum + (key[n] == KEY -> count[n] : 0);
			n++
		:: else -> break
		od;
		assert(sum + reported == PACKETS);
		s = 0;
		do
		:: s < SLOTS -> assert((slot[s] != 0) == ((valid >> s) & 1)); s++
		:: else -> break
		od
	}
}
