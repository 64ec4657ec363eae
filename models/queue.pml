/* SPDX-License-Identifier: Apache-2.0 */
/* A fair lock: a queue in the store, and a release that hands the lock to the next waiter itself.
 *
 * Whoever gives back makes the first in the queue the holder, in one step, and sends word. The
 * store sees a death only by a lease that ends some time later. Until then a dead waiter may be
 * granted the lock like any other; afterwards whoever looks passes it on. A waiter sleeps until it
 * is told, or until the holder's lease has ended, and may give up at any moment: also when it has
 * just been granted the lock and does not know it yet. A grant begins with a short lease, which
 * only its heir makes longer: if he is held up for too long, the lock goes on to the next, and the
 * word that he hears at last is too old to be believed.
 *
 * Shown: never two holders; the queue's order is kept; nobody is stalled by a death or by somebody
 * who gives up; a waiter that stays is served, if only every process goes on (ltl served).
 *
 * BROKEN=1  Who gives up leaves the queue, but not the lock if that was granted meanwhile.
 * BROKEN=2  Waiters only listen: nobody looks when the lease of a dead holder has ended.
 * BROKEN=3  Word is sent to whom the lock is given, but a newcomer takes it if it is faster.
 * BROKEN=4  Word of a grant is believed, however old it is.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define CLIENTS 3
#define NOBODY CLIENTS
#define DEATHS 1
#define DELAYS 1

chan queue = [CLIENTS] of { byte };
byte holder = NOBODY, inside = NOBODY;
bool told[CLIENTS], waits[CLIENTS], dead[CLIENTS], gone[CLIENTS];
byte deaths, delays;

#define holder_gone (holder != NOBODY && gone[holder])

/* A step of the store. A waiter whose lease has ended is skipped. */
inline pass_on()
{
    holder = NOBODY;
    do
    :: holder == NOBODY && len(queue) > 0 ->
        queue ? next;
        when(!gone[next], holder = next; told[next] = true)
    :: else -> break
    od;
    next = 0
}

inline attempt()
{
    atomic {
        told[me] = false;
        when(holder_gone, pass_on());
        if
        :: holder == me || holder == NOBODY ->
            assert(holder == me || len(queue) == 0);
            holder = me;
            waits[me] = false
        :: BROKEN == 3 && holder != NOBODY && told[holder] -> holder = me; waits[me] = false
        :: else ->
            when(!(queue ?? [eval(me)]), queue ! me);
            waits[me] = true
        fi
    }
}

/* The one way out, for a holder and for a waiter, whichever it is by now. */
inline leave()
{
    atomic {
        waits[me] = false;
        told[me] = false;
        if
        :: holder == me && (BROKEN != 1 || inside == me) -> pass_on()
        :: queue ?? [eval(me)] -> queue ?? eval(me)
        :: else
        fi;
        inside = (inside == me -> NOBODY : inside)
    }
}

active [CLIENTS] proctype Client()
{
    byte me = _pid, next;
    bool patient;
    {
        patient = false;
again:  if
        :: attempt()
        :: goto away
        fi;
        atomic { select (patient : 0 .. 1) }
        do
        :: atomic { !waits[me] -> break }
        :: atomic { waits[me] && told[me] && BROKEN != 4 -> attempt() }
        :: atomic { waits[me] && told[me] && BROKEN == 4 -> told[me] = false; waits[me] = false }
        :: atomic { waits[me] && holder_gone && BROKEN != 2 -> attempt() }
        :: atomic { waits[me] && !patient -> goto out }
        od;
        atomic { assert(inside == NOBODY || dead[inside]); inside = me }
out:    leave();
        goto again;
away:   skip
    } unless { atomic { dead[me] -> patient = false } }
}

active proctype Fate()
{
    byte p, next;
end:
    do
    :: atomic {
            delays < DELAYS && holder != NOBODY && told[holder] && waits[holder] ->
            delays++;
            pass_on()
        }
    :: atomic {
            deaths < DEATHS -> select (p : 0 .. 2);
            deaths = deaths + !dead[p];
            dead[p] = true;
            waits[p] = false
        }
        atomic { gone[p] = true; p = 0 }
    :: deaths < DEATHS -> break
    od
}

ltl served { [] (waits[0] -> <> !waits[0]) }
