/* SPDX-License-Identifier: Apache-2.0 */
/* A count-down latch: whoever waits goes on when the count has come to nothing.
 *
 * The store counts, and publishes when the count becomes zero; a message reaches those who listen
 * at that moment, and may be lost with a connection. A waiter looks, listens, looks again and then
 * sleeps; a lost connection makes it listen and look anew.
 *
 * Shown: nobody goes on before every unit is counted; nobody sleeps for ever once the count is zero
 * (an invalid end state); a waiter goes on at last if only all processes do (ltl opens).
 *
 * BROKEN=1  The waiter looks before it listens, and not again: the message passes in between.
 * BROKEN=2  Counting down reads and writes in two steps: a unit is lost, the latch never opens.
 * BROKEN=3  Who has lost the connection listens again, but does not look.
 * BROKEN=4  A count whose answer was lost is sent again, and counts twice: it opens too early.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define COUNTERS 2
#define WAITERS 2
#define CUTS 2

byte count = COUNTERS, counted, cuts;
bool listens[WAITERS], told[WAITERS], cut[WAITERS], passed[WAITERS];

/* One step of the store, but for the publishing, which reaches one listener after the other. */
inline count_down()
{
#if BROKEN == 2
    seen = count;
    atomic { count = seen - 1; seen = count }
#else
    atomic { count = (count > 0 -> count - 1 : 0); seen = count }
#endif
}

active [COUNTERS] proctype Counter()
{
    byte seen;
    counted++;
    count_down();
    if
    :: BROKEN == 4 -> count_down()
    :: BROKEN != 4
    :: BROKEN == 4
    fi;
    if
    :: seen == 0 ->
        told[0] = told[0] || listens[0];
        told[1] = told[1] || listens[1]
    :: else
    fi
}

inline listen()
{
    atomic { listens[me] = true; cut[me] = false; told[me] = false }
}

active [WAITERS] proctype Waiter()
{
    byte me = _pid - COUNTERS;
#if BROKEN == 1
    when(count == 0, goto through);
#endif
again:
    listen();
#if BROKEN != 1
look:
    when(count == 0, goto through);
#endif
    if
    :: told[me]
    :: cut[me] ->
#if BROKEN == 3
        listen();
        told[me]
#else
        goto again
#endif
    fi;
through:
    assert(counted == COUNTERS);
    passed[me] = true
}

/* A broken connection takes the subscription with it, and what was under way. */
active proctype Network()
{
    byte p;
end:
    do
    :: atomic {
            cuts < CUTS -> cuts++;
            select (p : 0 .. WAITERS - 1);
            when(listens[p], listens[p] = false; told[p] = false; cut[p] = true);
            p = 0
        }
    :: cuts < CUTS -> break
    od
}

ltl opens { <> passed[0] && <> passed[1] }
