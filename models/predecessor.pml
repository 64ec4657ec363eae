/* SPDX-License-Identifier: Apache-2.0 */
/* ZooKeeper's recipe: numbered nodes, and each waiter watches the one before its own.
 *
 * A client creates a node, which gets the next number, and lists them all. The lowest has the lock.
 * Any other reads the node before its own and so sets a watch on it; if that has gone by now, it
 * lists again, as it does when the watch fires. A session may end at any time: the server then
 * removes the node. The client has stopped believing before that, by its own clock; it may be cut
 * off and begin anew, or dead, which is to do no step until the session has ended, and to go away
 * then. A client may also give up and remove its node.
 *
 * Shown: never two holders; nobody sleeps for ever behind a node that is gone (an invalid end
 * state); one removal wakes one client at most: no herd.
 *
 * BROKEN=1  The watch is set without seeing whether the node is there: it may have gone before.
 * BROKEN=2  Who is told that its predecessor has gone takes the lock without listing again, while
 *           the holder may be further ahead.
 * BROKEN=3  Every waiter watches the lowest node: each release wakes them all.
 * BROKEN=4  The client goes on believing until the server tells it that its session has ended.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define CLIENTS 3
#define NOBODY CLIENTS
#define ENDS 2

byte place[CLIENTS];            /* The node's place in the order; 0: there is none. */
byte watched[CLIENTS] = NOBODY; /* By the client: whose node. */
bool fired[CLIENTS];
bool late[CLIENTS];             /* The client's own clock says that the session may end. */
bool expired[CLIENTS];          /* The server has ended it. */
byte inside = NOBODY, ends;

#define last_place ((place[0] > 0) + (place[1] > 0) + (place[2] > 0))
#define at(n) (place[0] == n -> 0 : (place[1] == n -> 1 : 2))

inline fire(client, gone)
{
    place[client] = (place[client] > place[gone] -> place[client] - 1 : place[client]);
    when(watched[client] == gone, watched[client] = NOBODY; fired[client] = true; woken++)
}

/* A step of the server. Only the order of the numbers matters, so those behind move up. */
inline remove(gone)
{
    if
    :: place[gone] > 0 ->
        fire(0, gone);
        fire(1, gone);
        fire(2, gone);
        place[gone] = 0;
        watched[gone] = NOBODY;
        assert(woken <= 1);
        woken = 0
    :: else
    fi
}

/* A node ahead of ours is the one that was listed: a new one would be behind. */
inline watch()
{
    atomic {
        if
        :: (place[before] > 0 && place[before] < place[me]) || BROKEN == 1 ->
            watched[me] = before
        :: else -> before = NOBODY; goto list
        fi;
        before = NOBODY
    }
}

active [CLIENTS] proctype Client()
{
    byte me = _pid, before = NOBODY, woken;
    bool patient;
create: if
        :: atomic { !late[me] || expired[me] ->
                late[me] = false;
                expired[me] = false;
                fired[me] = false;
                place[me] = last_place + 1
            }
        :: goto away
        fi;
list:   atomic {
            fired[me] = false;
            if
            :: expired[me] -> goto create
            :: place[me] == 1 -> goto critical
            :: else
            fi;
            before = (BROKEN == 3 -> at(1) : at(place[me] - 1))
        }
        watch();
        atomic { select (patient : 0 .. 1) }
        if
        :: atomic { fired[me] && BROKEN != 2 -> patient = false; goto list }
        :: atomic { fired[me] && BROKEN == 2 -> patient = false; goto critical }
        :: atomic { expired[me] -> patient = false; goto create }
        :: atomic { !patient -> goto out }
        fi;
critical:
        atomic {
            if
            :: late[me]
            :: else -> assert(inside == NOBODY); inside = me
            fi
        }
        inside = (inside == me -> NOBODY : inside);
out:    atomic { fired[me] = false; remove(me); goto create }
away:   skip
}

/* First the client's own clock says so; then the server acts. */
active proctype Server()
{
    byte p, woken;
end:
    do
    :: atomic {
            ends < ENDS -> select (p : 0 .. 2);
            when(place[p] > 0, ends++; late[p] = true);
            when(late[p] && inside == p && BROKEN != 4, inside = NOBODY)
        }
        atomic { when(late[p], remove(p); expired[p] = true); p = 0 }
    :: ends < ENDS -> break
    od
}
