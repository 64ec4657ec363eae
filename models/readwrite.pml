/* SPDX-License-Identifier: Apache-2.0 */
/* A read-write lock with an upgradeable read: counts, a queue, raising and lowering.
 *
 * Readers share. One upgradeable reader may be among them, and may be raised to the writer: it
 * waits for the readers to leave, and no new ones come in meanwhile. A writer may be lowered to a
 * reader. Whoever finds a queue stands at its end; whatever may be granted after a change is
 * granted inside the change, first come, first served. A waiter, or who waits to be raised, may
 * give up at any moment, also when it has just been granted what it asked for.
 *
 * Shown: a writer is alone; after no change is anything left ungranted that is due, so that no
 * wake-up is lost; no deadlock; a waiter that stays is served, if only all go on (ltl served).
 *
 * BROKEN=1  Lowering grants nothing: the readers in the queue sleep on beside a reader.
 * BROKEN=2  Any reader may ask to be raised: two wait for each other to leave.
 * BROKEN=3  A raise does not wait for the readers.
 * BROKEN=4  A reader does not mind the queue, and so the writer starves (refutes served).
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define PROCESSES 3
#define NOBODY PROCESSES

mtype = { NOTHING, READ, UPGRADE, WRITE };

chan queue = [PROCESSES] of { byte };
mtype holds[PROCESSES] = NOTHING;
mtype wants[PROCESSES] = NOTHING; /* Of who is in the queue, or waits to be raised. */
byte readers, upgraders, writers, raises;

#define raise_is_due (raises > 0 && (readers + upgraders == 1 || BROKEN == 3))
#define is_due(mode)                                                                           \
    (writers == 0 && raises == 0 &&                                                            \
     (mode == READ || (upgraders == 0 && (mode == UPGRADE || readers == 0))))

inline count(mode, change)
{
    if
    :: mode == READ -> readers = readers + change
    :: mode == UPGRADE -> upgraders = upgraders + change
    :: mode == WRITE -> writers = writers + change
    :: else
    fi
}

inline hold(p, mode)
{
    count(holds[p], -1);
    holds[p] = mode;
    count(holds[p], 1);
    wants[p] = NOTHING;
    assert(writers == 0 || (writers == 1 && readers + upgraders == 0))
}

inline raise_if_due(p)
{
    if
    :: raise_is_due && holds[p] != NOTHING && wants[p] == WRITE -> raises--; hold(p, WRITE)
    :: else
    fi
}

/* The last part of every change: what is due is granted. */
inline pump()
{
    raise_if_due(0);
    raise_if_due(1);
    raise_if_due(2);
    do
    :: len(queue) > 0 ->
        queue ? <first>;
        if
        :: is_due(wants[first]) -> queue ? first; hold(first, wants[first])
        :: else -> break
        fi
    :: else -> break
    od;
    first = 0
}

inline settled()
{
    when(len(queue) > 0, queue ? <first>; assert(!is_due(wants[first])); first = 0);
    assert(!raise_is_due)
}

inline ask(mode)
{
    atomic {
        wants[me] = mode;
        if
        :: is_due(mode) && (len(queue) == 0 || (BROKEN == 4 && mode == READ)) -> hold(me, mode)
        :: else -> queue ! me
        fi;
        settled()
    }
}

inline ask_to_be_raised()
{
    atomic { wants[me] = WRITE; raises++; pump(); settled() }
    if
    :: wants[me] == NOTHING
    :: atomic {
            impatient && wants[me] == WRITE ->
            wants[me] = NOTHING;
            raises--;
            pump();
            settled()
        }
    fi
}

inline lower()
{
    atomic {
        hold(me, READ);
        when(BROKEN != 1, pump());
        settled()
    }
}

active [PROCESSES] proctype Process()
{
    byte me = _pid, first;
    bool impatient;
again:
    if
    :: ask(READ)
    :: ask(UPGRADE)
    :: ask(WRITE)
    :: goto away
    fi;
    atomic { select (impatient : 0 .. 1) }
    if
    :: wants[me] == NOTHING
    :: impatient -> goto leave
    fi;
    if
    :: holds[me] == UPGRADE || (BROKEN == 2 && holds[me] == READ) -> ask_to_be_raised()
    :: true
    fi;
    if
    :: holds[me] == WRITE -> lower()
    :: true
    fi;
leave:
    atomic {
        impatient = false;
        if
        :: holds[me] == NOTHING -> queue ?? eval(me); wants[me] = NOTHING
        :: else -> hold(me, NOTHING)
        fi;
        pump();
        settled();
        goto again
    }
away:
    skip
}

ltl served { [] (wants[0] != NOTHING -> <> (wants[0] == NOTHING)) }
