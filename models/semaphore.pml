/* SPDX-License-Identifier: Apache-2.0 */
/* A semaphore whose permits are leased, several units at a time.
 *
 * The store has a number of free units, a record of each permit that is out, and a queue. A permit
 * whose lease has ended is taken back by whoever comes by, waiters included, who look again at the
 * end of the earliest lease. Its owner has stopped using it before, by its own clock, but may still
 * send its release: then the record is gone, and nothing is given back. A waiter that is granted
 * units while it gives up releases them. Whoever finds a queue stands at its end.
 *
 * Shown: free units and recorded ones always make up the whole; never are more in use; after no
 * change is a grant left over that is due; a waiter that stays is served (ltl served).
 *
 * BROKEN=1  A release gives units back without looking whether the permit is still there.
 * BROKEN=2  A release looks in one step and gives back in another: what it saw has changed.
 * BROKEN=3  A change grants to one waiter, though units for two have come back.
 * BROKEN=4  Only releases grant: nobody looks when the lease of a dead owner has ended.
 * BROKEN=5  Who wants one unit does not mind the queue: who wants all starves (refutes served).
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define PROCESSES 3
#define NOBODY PROCESSES
#define PERMITS 2
#define ENDS 2

#define units(p) (p == 0 -> 2 : 1)

chan queue = [PROCESSES] of { byte };
byte free = PERMITS;
byte recorded[PROCESSES], used[PROCESSES];
bool waits[PROCESSES];
bool late[PROCESSES];  /* The lease has ended for its owner, */
bool ended[PROCESSES]; /* and for the store. */
byte ends;

#define something_ended (ended[0] || ended[1] || ended[2])

/* The last part of every change. */
inline pump()
{
    do
    :: len(queue) > 0 ->
        queue ? <first>;
        if
        :: free >= units(first) ->
            queue ? first;
            free = free - units(first);
            recorded[first] = units(first);
            waits[first] = false;
            when(BROKEN == 3, break)
        :: else -> break
        fi
    :: else -> break
    od;
    first = 0
}

inline settled()
{
    when(len(queue) > 0, queue ? <first>; assert(free < units(first)); first = 0);
    assert(free + recorded[0] + recorded[1] + recorded[2] == PERMITS)
}

inline take_back(p)
{
    when(ended[p], free = free + recorded[p]; recorded[p] = 0; ended[p] = false)
}

inline come_by()
{
    take_back(0);
    take_back(1);
    take_back(2);
    pump()
}

inline ask()
{
    atomic {
        come_by();
        if
        :: free >= units(me) && (len(queue) == 0 || (BROKEN == 5 && units(me) == 1)) ->
            free = free - units(me);
            recorded[me] = units(me)
        :: else -> waits[me] = true; queue ! me
        fi;
        settled()
    }
}

inline use()
{
    atomic {
        used[me] = (late[me] -> 0 : units(me));
        assert(used[0] + used[1] + used[2] <= PERMITS)
    }
    used[me] = 0
}

/* The one way out, for an owner, for one whose lease has ended, and for a waiter. */
inline leave()
{
#if BROKEN == 2
    seen = recorded[me];
#endif
    atomic {
        if
        :: waits[me] -> queue ?? eval(me); waits[me] = false
        :: else ->
#if BROKEN == 1
            free = free + units(me);
#elif BROKEN == 2
            free = free + seen;
            seen = 0;
#else
            free = free + recorded[me];
#endif
            recorded[me] = 0;
            late[me] = false;
            ended[me] = false
        fi;
        come_by();
        settled()
    }
}

active [PROCESSES] proctype Process()
{
    byte me = _pid, first, seen;
    bool impatient;
again:
    if
    :: ask()
    :: goto away
    fi;
    atomic { select (impatient : 0 .. 1) }
    do
    :: atomic { !waits[me] -> break }
    :: atomic { waits[me] && impatient -> goto out }
    :: atomic { waits[me] && something_ended && BROKEN != 4 -> come_by(); settled() }
    od;
    use();
    if
    :: true
    :: late[me] -> goto away /* It had died, and sends no release. */
    fi;
out:
    leave();
    impatient = false;
    goto again;
away:
    skip
}

/* An owner that is late has stopped using its units; only then does the store end the lease. */
active proctype Time()
{
    byte p;
end:
    do
    :: atomic {
            ends < ENDS -> ends++;
            select (p : 0 .. 2);
            when(recorded[p] > 0, late[p] = true; used[p] = 0)
        }
        atomic { ended[p] = (recorded[p] > 0 && late[p]); p = 0 }
    :: ends < ENDS -> break
    od
}

ltl served { [] (waits[0] -> <> !waits[0]) }
