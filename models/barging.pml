/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine's mutex: who waits is told that it is free, and a newcomer may be faster.
 *
 * A visit inside the guard is one step. A waiter notes its futex's word there, leaves, sets the
 * sleeper's bit by compare-and-swap and asks the kernel to sleep while the word is so: four steps,
 * with a release between any two. A release changes the word of the first waiter and clears the
 * bit inside the guard, and wakes outside of it, only if the bit was set. Who was told and has
 * not come yet is not told again; who came too late twice is handed the lock. A waiter may give up.
 *
 * Shown: never two holders; no wake-up is lost (a sleeper whom nobody will wake is an invalid end
 * state); and though newcomers barge, each waiter that stays has the lock at last (ltl served).
 *
 * BROKEN=1  The kernel sleeps without comparing the word.
 * BROKEN=2  The bit is set by writing the word as it was seen, over a change made meanwhile.
 * BROKEN=3  Who came too late stays marked as told, so that nobody tells it again.
 * BROKEN=4  A waiter that was told, and gives up, leaves without telling the next.
 * BROKEN=5  Nobody is ever handed the lock: newcomers may be faster for ever (refutes served).
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define PROCESSES 3
#define NOBODY PROCESSES
#define LATE_MOST 2

chan queue = [PROCESSES] of { byte };
byte holder = NOBODY, inside = NOBODY;
bool changed[PROCESSES]; /* The futex's word is another one than its waiter has seen. */
bool marked[PROCESSES];  /* The word's lowest bit: somebody sleeps, or is about to. */
bool asleep[PROCESSES];
bool told[PROCESSES];
byte late[PROCESSES];
bool waits[PROCESSES];

/* To be woken when we are out of the guard. */
inline change_word(p)
{
    wake = (marked[p] -> p : NOBODY);
    changed[p] = true;
    marked[p] = false
}

/* Inside the guard, when the lock may have become free. */
inline pump()
{
    if
    :: holder == NOBODY && len(queue) > 0 ->
        queue ? <first>;
        if
        :: told[first]
        :: !told[first] && late[first] == LATE_MOST && BROKEN != 5 ->
            queue ? first;
            holder = first;
            change_word(first)
        :: else ->
            told[first] = true;
            change_word(first)
        fi;
        first = 0
    :: else
    fi
}

inline wake_up()
{
    atomic {
        when(wake != NOBODY, asleep[wake] = false);
        wake = NOBODY
    }
}

inline attempt()
{
    atomic {
        if
        :: holder == NOBODY || holder == me ->
            holder = me;
            if
            :: queue ?? [eval(me)] -> queue ?? eval(me)
            :: !(queue ?? [eval(me)])
            fi;
            told[me] = false;
            late[me] = 0;
            waits[me] = false;
            goto critical
        :: else ->
            if
            :: !(queue ?? [eval(me)]) -> queue ! me
            :: queue ?? [eval(me)]
            fi;
            late[me] = (told[me] && late[me] < LATE_MOST -> late[me] + 1 : late[me]);
            told[me] = told[me] && BROKEN == 3;
            waits[me] = true;
            changed[me] = false
        fi
    }
}

/* The steps between the look inside the guard and the sleep. */
inline go_to_sleep()
{
#if BROKEN == 2
    if
    :: !changed[me]
    :: atomic { changed[me] -> goto again }
    fi;
    atomic { changed[me] = false; marked[me] = true }
#else
    atomic {
        if
        :: !changed[me] -> marked[me] = true
        :: else -> goto again
        fi
    }
#endif
    atomic {
        if
        :: !changed[me] || BROKEN == 1 -> asleep[me] = true
        :: else -> goto again
        fi
    }
}

active [PROCESSES] proctype Process()
{
    byte me = _pid, wake = NOBODY, first;
    bool patient;
idle:
    if
    :: true
    :: goto away
    fi;
again:
    attempt();
    atomic { select (patient : 0 .. 1) }
    go_to_sleep();
    if
    :: atomic { !asleep[me] -> patient = false; goto again }
    :: atomic { !patient -> asleep[me] = false; goto leave }
    fi;
critical:
    atomic { assert(inside == NOBODY); inside = me }
    inside = NOBODY;
leave:
    atomic {
        waits[me] = false;
        told[me] = false;
        late[me] = 0;
        marked[me] = false;
        changed[me] = false;
        if
        :: holder == me -> holder = NOBODY; pump()
        :: holder != me ->
            queue ?? eval(me);
            when(BROKEN != 4, pump())
        fi
    }
    wake_up();
    goto idle;
away:
    skip
}

ltl served { [] (waits[0] -> <> !waits[0]) }
