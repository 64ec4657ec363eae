/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that two of three servers have granted, its lease, and a token made of three counters.
 *
 * Each server has an owner, what is left of its lease, and a counter. A client asks each server in
 * any order, with any delay; it counts its lease from before the first question. Where the
 * counters of those that have granted it differ, it asks the ones behind to go up to the largest,
 * which they do only while they still have it granted; then it believes, until its own deadline.
 * It gives back what it has after a belief and after a round that failed; any message may be lost.
 * The clock ticks everywhere at once: the margin that real clocks need is left out. A server
 * forgets nothing. Each client comes once, and one of the servers may be ahead of the others.
 *
 * Shown: beliefs never overlap, and each one has a larger token than all before it.
 *
 * BROKEN=1  One server's grant is enough.
 * BROKEN=2  The lease is counted from when the last server has answered.
 * BROKEN=3  The largest counter is the token at once, and nobody is asked to go up to it.
 * BROKEN=4  One server that goes up to it is enough.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define CLIENTS 2
#define SERVERS 3
#define NOBODY CLIENTS
#define LEASE 1
#if BROKEN == 1
#define MAJORITY 1
#else
#define MAJORITY 2
#endif
#define RAISED (BROKEN == 4 -> 1 : MAJORITY)

byte owner[SERVERS] = NOBODY;
byte ttl[SERVERS], counter[SERVERS];
byte left[CLIENTS]; /* What is left of the lease, as the client counts. */
bool believes[CLIENTS];
byte highest; /* The largest token anybody believed with. */

#define held(c) (believes[c] && left[c] > 0)

/* The server decides in one step. Its answer may be lost: then it counts as a no. */
inline ask(s)
{
    atomic {
        if
        :: owner[s] == NOBODY ->
            owner[s] = me;
            ttl[s] = LEASE;
            counter[s]++;
            if
            :: granted = granted | (1 << s);
               level = (counter[s] > seen -> 0 : level) | (counter[s] >= seen -> 1 << s : 0);
               seen = (counter[s] > seen -> counter[s] : seen)
            :: skip
            fi
        :: owner[s] != NOBODY
        :: skip /* The question is lost. */
        fi;
        asked = asked | (1 << s)
    }
}

#define has(set, s) (((set) >> (s)) & 1)
#define is_behind(s)                                                                               \
    (size_of(granted) >= MAJORITY && size_of(level) < RAISED && has(granted & ~level, s))
#define size_of(set) (has(set, 0) + has(set, 1) + has(set, 2))

/* One that is behind is asked once more, and answers in the same step. */
inline raise(s)
{
    atomic {
        if
        :: owner[s] == me ->
            counter[s] = (counter[s] < seen -> seen : counter[s]);
            level = level | (1 << s)
        :: owner[s] != me -> granted = 0 /* It has ended there: the round fails. */
        fi
    }
}

/* What is not given back, or not heard of, ends by itself. */
inline give_back(s)
{
    if
    :: owner[s] == me -> owner[s] = NOBODY; ttl[s] = 0
    :: skip
    fi
}

inline believe()
{
    atomic {
        if
        :: left[me] > 0 ->
            believes[me] = true;
            assert(!(held(0) && held(1)));
            assert(seen > highest);
            highest = seen
        :: else
        fi
    }
}

init
{
    atomic {
        if :: counter[0] = 0 :: counter[0] = 2 fi;
        run Client(0);
        run Client(1);
        run Clock()
    }
}

proctype Client(byte me)
{
    byte granted, asked, level, seen;
    left[me] = LEASE;
    do
    :: !has(asked, 0) -> ask(0)
    :: !has(asked, 1) -> ask(1)
    :: !has(asked, 2) -> ask(2)
    :: size_of(granted) >= MAJORITY || asked == 7 -> break
    od;
    asked = 0;
#if BROKEN == 2
    left[me] = LEASE;
#endif
#if BROKEN == 3
    level = granted;
#endif
    do
    :: is_behind(0) -> raise(0)
    :: is_behind(1) -> raise(1)
    :: is_behind(2) -> raise(2)
    :: size_of(granted) >= MAJORITY && size_of(level) >= RAISED -> believe(); break
    :: break /* The round has failed. */
    od;
    /* It may be paused here for as long as it pleases. */
    atomic { believes[me] = false; left[me] = 0; granted = 0; level = 0; seen = 0 }
    atomic { give_back(0); give_back(1); give_back(2) }
}

inline count_down(counter_)
{
    counter_ = (counter_ > 0 -> counter_ - 1 : 0)
}

proctype Clock()
{
end:
    do
    :: atomic {
            ttl[0] > 0 || ttl[1] > 0 || ttl[2] > 0 || left[0] > 0 || left[1] > 0 ->
            count_down(ttl[0]);
            count_down(ttl[1]);
            count_down(ttl[2]);
            owner[0] = (ttl[0] == 0 -> NOBODY : owner[0]);
            owner[1] = (ttl[1] == 0 -> NOBODY : owner[1]);
            owner[2] = (ttl[2] == 0 -> NOBODY : owner[2]);
            count_down(left[0]);
            count_down(left[1])
        }
    od
}
