/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol of conntrack/shared/handover.c: two buckets, three workers (LONG: two), and every
 * script of four events (LONG: six), each a packet of a bucket or its move to another worker. A
 * packet goes to the worker that the steering names when it comes; a move is done by the worker that
 * has the bucket, behind its packets that came before. Workers go through their events at any speed,
 * so packets come before their bucket does, and buckets to workers that give them on without a
 * packet of them. Maintenance may touch a bucket that a worker holds at any time.
 *
 * Shown for every script and every interleaving (of a sequentially consistent machine):
 *   - nobody touches a bucket while another worker does, and one at most holds it;
 *   - packets of a bucket are processed in the order in which they came, each once;
 *   - no worker waits for ever, although one keeps KEPT packets at most and waits when it has more;
 *   - at the end each bucket is where the last move sent it.
 *
 * Variants that must fail, so that the check can: BROKEN_EARLY hands over before the last access;
 * BROKEN_TAKE takes a bucket with its first packet, whoever has it; BROKEN_ORDER processes a packet
 * before those that waited; BROKEN_GIVE gives on what has not come; BROKEN_LEAVE ends with packets
 * that wait.
 */
#ifdef LONG
#define WORKERS 2
#define EVENTS  6
#define KEPT    2
#else
#define WORKERS 3
#define EVENTS  4
#define KEPT    1
#endif
#define BUCKETS 2
#define NONE    255

/* The script. */
byte bucket[EVENTS], by[EVENTS], to[EVENTS]; /* to NONE: a packet */

byte owner[BUCKETS];
bool mine[WORKERS * BUCKETS]; /* each worker's own */

/* What is shown. */
bool busy[BUCKETS];
byte last[BUCKETS]; /* packet + 1 that was processed latest */
bool done[EVENTS];

#define HOLDS(w, b)  mine[(w) * BUCKETS + (b)]
#define HAS_COME(b)  (owner[b] == me)
#define ONE_HOLDS(b) (HOLDS(0, b) + HOLDS(1, b) + HOLDS(WORKERS - 1, b) * (WORKERS - 2) <= 1)

inline touch(b)
{
	d_step { assert(!busy[b]); busy[b] = true };
	busy[b] = false
}

inline step(b, p)
{
	d_step { assert(!busy[b]); busy[b] = true };
	d_step {
		assert(last[b] <= p && !done[p]);
		last[b] = p + 1;
		done[p] = true;
		busy[b] = false
	}
}

inline take_over(b)
{
	d_step { HOLDS(me, b) = true; assert(ONE_HOLDS(b)); waits[b] = false; i = 0 };
	do
	:: i < kept_count && bucket[kept[i]] == b ->
		step(b, kept[i]);
		d_step {
			j = i;
			do
			:: j + 1 < kept_count -> kept[j] = kept[j + 1]; j++
			:: else -> break
			od;
			kept_count--;
			kept[kept_count] = 0;
			j = 0
		}
	:: i < kept_count && bucket[kept[i]] != b -> i++
	:: i >= kept_count -> break
	od;
	i = 0
}

inline look_for_buckets()
{
	at = 0;
	do
	:: at < BUCKETS ->
		if
		:: waits[at] && HAS_COME(at) -> take_over(at)
		:: else
		fi;
		at++
	:: else -> break
	od;
	at = 0
}

/* As long as none has come, another look finds none. */
inline wait_for_a_bucket()
{
	(waits[0] && HAS_COME(0)) || (waits[1] && HAS_COME(1));
	look_for_buckets()
}

inline park(b)
{
	do
	:: kept_count == KEPT && !HOLDS(me, b) -> wait_for_a_bucket()
	:: else -> break
	od;
	if
	:: HOLDS(me, b) -> step(b, e)
	:: else -> d_step { waits[b] = true; kept[kept_count] = e; kept_count++ }
	fi
}

inline process(b)
{
#ifdef BROKEN_TAKE
	if
	:: !HOLDS(me, b) -> take_over(b)
	:: else
	fi;
#endif
#ifdef BROKEN_ORDER
	if
	:: !HOLDS(me, b) && HAS_COME(b) -> step(b, e); take_over(b)
	:: HOLDS(me, b) -> step(b, e)
	:: else -> park(b)
	fi
#else
	if
	:: !HOLDS(me, b) && HAS_COME(b) -> take_over(b)
	:: else
	fi;
	if
	:: HOLDS(me, b) -> step(b, e)
	:: else -> park(b)
	fi
#endif
}

inline give(b, other)
{
#ifndef BROKEN_GIVE
	if
	:: !HOLDS(me, b) -> HAS_COME(b); take_over(b)
	:: else
	fi;
#endif
#ifdef BROKEN_EARLY
	owner[b] = other;
	touch(b);
	HOLDS(me, b) = false
#else
	HOLDS(me, b) = false;
	owner[b] = other
#endif
}

proctype worker(byte me)
{
	byte e, i, j, at, kept[KEPT], kept_count;
	bool waits[BUCKETS];
	do
	:: d_step { e < EVENTS && by[e] != me -> e++ }
	/* maintenance */
	:: e < EVENTS && by[e] == me && HOLDS(me, 0) -> touch(0)
	:: e < EVENTS && by[e] == me && to[e] == NONE ->
		if
		:: kept_count != 0 -> look_for_buckets() /* a burst begins */
		:: skip
		fi;
		process(bucket[e]);
		e++
	:: e < EVENTS && by[e] == me && to[e] != NONE -> give(bucket[e], to[e]); e++
	:: e >= EVENTS -> break
	od;
#ifndef BROKEN_LEAVE
	do
	:: kept_count != 0 -> wait_for_a_bucket()
	:: else -> break
	od
#endif
}

init {
	byte n, b, w, now[BUCKETS];
	atomic {
		do
		:: b < BUCKETS -> now[b] = b; owner[b] = b; HOLDS(b, b) = true; b++
		:: else -> break
		od;
		do
		:: n < EVENTS ->
			if
			:: b = 0
			:: b = 1
			fi;
			bucket[n] = b;
			by[n] = now[b];
			to[n] = NONE;
			if
			:: skip
			:: now[b] != 0 -> to[n] = 0
			:: now[b] != 1 -> to[n] = 1
			:: WORKERS > 2 && now[b] != 2 -> to[n] = 2
			fi;
			now[b] = (to[n] == NONE -> now[b] : to[n]);
			n++
		:: else -> break
		od;
		n = 0;
		b = 0;
		run worker(0);
		run worker(1);
		if
		:: WORKERS > 2 -> run worker(2)
		:: else
		fi
	};
	_nr_pr == 1;
	d_step {
		do
		:: n < EVENTS -> assert(done[n] == (to[n] == NONE)); n++
		:: else -> break
		od;
		assert(owner[0] == now[0] && owner[1] == now[1])
	}
}
