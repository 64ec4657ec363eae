/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex of the embedded engine whose last holder takes it and gives it back without the guard.
 *
 * A lock has a guard, a list of holders and a list of waiters. A claim is a node with one state
 * word. Who gives back a mutex that nobody wants leaves its node in the list, PARKED, and takes the
 * mutex again by one swap (a compare-and-swap). Everybody else goes through the guard: there a
 * parked node is evicted, and a held one marked WANTED (PINNED in the engine), so that its holder
 * comes to the guard, too.
 *
 * A mutex may be taken before its waiters. Who gives it back in the guard tells one of them, and
 * parks its node without the mark: it goes past the guard until that one comes and marks it again.
 *
 * The guard's undo journal makes a change of the lists happen wholly or not at all: here it is one
 * step. The swapped words are not in the journal. Any process may die between any two steps, any
 * may go away for ever and leave a parked node, and any waiter may give up. Who sleeps looks again
 * after a death. Never are there two holders, and nobody patient sleeps for ever, which would be an
 * invalid end state, because all others may go away.
 *
 * BROKEN=1  A waiter does not mark the holder, which parks without knowing that somebody waits.
 * BROKEN=2  A node is evicted by a look and then a write: its owner takes the lock in between.
 * BROKEN=3  Who takes the lock while others wait does not mark its own node, and parks on them.
 * BROKEN=4  The journal restores swapped words: a hold comes back that was given up long ago.
 * BROKEN=5  A waiter that was told, and gives up, tells nobody else.
 * BROKEN=6  Who parks before waiters, in the guard, tells none of them.
 * BROKEN=7  A waiter that was told and comes too late does not mark the holder again.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define NOBODY 3
#ifndef DEATHS
#define DEATHS 1
#endif

mtype = { UNUSED, WAITING, HELD, WANTED, PARKED, EVICTED };

mtype word[NOBODY] = UNUSED; /* WANTED is held, too, with the mark. */
bool listed[NOBODY];         /* In the holder list. */
bool queued[NOBODY];         /* In the waiter list. */
bool told[NOBODY];           /* The futex that a waiter sleeps on. */
bool dead[NOBODY];
byte guard = NOBODY;
byte inside = NOBODY;        /* Who believes that it holds the lock. */
byte deaths;
byte saved_node = NOBODY;    /* What the journal puts back, if BROKEN says so. */
mtype saved_word = UNUSED;

#define somebody_waits (queued[0] || queued[1] || queued[2])

/* What the dead have left goes, and so does a node whose evictor died before it was out. */
inline clear(p)
{
    listed[p] = listed[p] && !dead[p] && word[p] != EVICTED;
    queued[p] = queued[p] && !dead[p]
}

inline enter()
{
    atomic {
        guard == NOBODY || dead[guard] -> guard = me;
        told[me] = false;
#if BROKEN == 4
        when(saved_node != NOBODY, word[saved_node] = saved_word);
#endif
        clear(0); clear(1); clear(2);
        holder = (listed[0] -> 0 : (listed[1] -> 1 : (listed[2] -> 2 : NOBODY)))
    }
}

inline leave()
{
    holder = NOBODY;
    saved_node = NOBODY;
    guard = NOBODY
}

/* Any of the waiters: the order is of no importance here. */
inline tell_one()
{
    if
    :: queued[0] -> told[0] = true
    :: queued[1] -> told[1] = true
    :: queued[2] -> told[2] = true
    :: else
    fi
}

active [NOBODY] proctype Process()
{
    byte me = _pid, holder = NOBODY;
    bool patient;
    {
        patient = false;
again:  if
        :: atomic { word[me] == PARKED -> word[me] = HELD; goto critical }
        :: word[me] != PARKED
        :: goto gone
        fi;
attempt:
        enter();
evict:  when(holder == NOBODY, goto take);
#if BROKEN == 4
        atomic { saved_node = holder; saved_word = word[holder] }
#endif
#if BROKEN == 2
        if
        :: word[holder] == PARKED
        :: atomic { word[holder] != PARKED -> goto mark }
        fi;
        atomic { word[holder] = EVICTED; goto take }
#else
        if
        :: atomic { word[holder] == PARKED -> word[holder] = EVICTED; goto take }
        :: word[holder] != PARKED
        fi;
#endif
mark:   if
        :: atomic { word[holder] == PARKED -> goto evict }
        :: atomic { word[holder] != PARKED ->
#if BROKEN == 7
                when(!queued[me], word[holder] = WANTED)
#elif BROKEN != 1
                word[holder] = WANTED
#endif
           }
        fi;
        atomic {
            queued[me] = true;
            word[me] = WAITING;
            leave();
            select (patient : 0 .. 1)
        }
        if
        :: atomic { told[me] -> patient = false; goto attempt }
        :: atomic { !patient -> goto give_up }
        fi;

take:   atomic {
            clear(0); clear(1); clear(2);
            queued[me] = false;
            listed[me] = true;
            word[me] = (somebody_waits && BROKEN != 3 -> WANTED : HELD);
            leave()
        }
critical:
        atomic { assert(inside == NOBODY || dead[inside]); inside = me }
        inside = NOBODY;
        if
        :: atomic { word[me] == HELD -> word[me] = PARKED; goto again }
        :: word[me] != HELD
        fi;
        enter();
        if
        :: true
        :: atomic { somebody_waits -> when(BROKEN != 6, tell_one()) }
           atomic { word[me] = PARKED; leave(); goto again }
        fi;
        atomic { listed[me] = false; word[me] = UNUSED }
        atomic { tell_one(); leave(); goto again }

give_up:
        enter();
        if
        :: atomic { holder != NOBODY && word[holder] == PARKED ->
                word[holder] = EVICTED;
                holder = NOBODY
           }
        :: atomic { holder != NOBODY && word[holder] != PARKED -> word[holder] = WANTED }
        :: holder == NOBODY
        fi;
        atomic { queued[me] = false; word[me] = UNUSED }
        atomic {
            when(holder == NOBODY && BROKEN != 5, tell_one());
            leave();
            goto again
        }
gone:   skip
    } unless { atomic { dead[me] -> holder = NOBODY; patient = false } }
}

/* Whoever sleeps looks again when somebody dies. */
active proctype Fate()
{
    byte p;
end:
    do
    :: atomic {
            deaths < DEATHS -> select (p : 0 .. 2);
            deaths = deaths + !dead[p];
            dead[p] = true;
            told[0] = true; told[1] = true; told[2] = true;
            p = 0
        }
    :: deaths < DEATHS -> break
    od
}
