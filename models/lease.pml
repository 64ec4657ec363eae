/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that rests on a lease: compare-and-delete, a deadline of our own, and a fence.
 *
 * The store grants the name for LEASE ticks. A question leaves, arrives and is answered in three
 * steps, with any delay between them; the client may be paused anywhere. It counts its lease from
 * the step in which the question left, believes in the lock only until its own deadline, and gives
 * a grant back that comes too late. A renewal counts from when it left, too. The clock ticks
 * everywhere at once: the margin that real clocks need is left out.
 *
 * Shown: beliefs never overlap, and with a fence no write follows one with a larger token. The
 * deadline alone excludes beliefs, not effects: between the last look and the write is a gap.
 *
 * BROKEN=1  Release deletes the name, whoever has it now.
 * BROKEN=2  Release looks whose the name is and then deletes it, in two steps.
 * BROKEN=3  The lease is counted from when the answer is heard.
 * BROKEN=4  A renewal whose fate is not known moves the deadline nevertheless.
 * BROKEN=5  The resource takes every write: there is no fence.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define when(condition, change) if :: condition -> change :: else fi
#define CLIENTS 2
#define NOBODY CLIENTS
#define LEASE 2
#define GRANTS 4

#define held(c) (believes[c] && left[c] > 0)

byte owner = NOBODY, ttl, token; /* The store. */
byte highest;                    /* The resource: the largest token it has seen. */
byte left[CLIENTS];              /* What is left of the lease, as the client counts. */
byte asked[CLIENTS];             /* The same for a renewal that is on its way. */
bool believes[CLIENTS];

/* Three writes in one step: nobody is between them. */
inline store_gives(client)
{
    owner = client;
    ttl = LEASE;
    token++;
    mine = token
}

inline hear_grant()
{
    atomic {
#if BROKEN == 3
        left[me] = LEASE;
#endif
        when(left[me] > 0, believes[me] = true);
        assert(!(held(0) && held(1)))
    }
}

inline renew()
{
    asked[me] = LEASE;
    atomic {
        if
        :: owner == me -> ttl = LEASE; renewed = true
        :: renewed = false /* It was lost on its way, or refused. */
        fi
    }
    atomic {
        when((renewed || BROKEN == 4) && left[me] > 0, left[me] = asked[me]);
        renewed = false;
        asked[me] = 0
    }
}

/* The gap between the look and the write is where a pause does its harm. */
inline write()
{
    if
    :: held(me) ->
        atomic {
            if
            :: BROKEN == 5 || mine >= highest ->
                assert(mine >= highest);
                highest = mine
            :: else
            fi
        }
    :: else
    fi
}

inline release()
{
    believes[me] = false;
#if BROKEN == 1
    atomic { owner = NOBODY; ttl = 0 }
#elif BROKEN == 2
    if
    :: owner == me -> atomic { owner = NOBODY; ttl = 0 }
    :: owner != me
    fi;
#else
    atomic {
        when(owner == me, owner = NOBODY; ttl = 0)
    }
#endif
    mine = 0
}

active [CLIENTS] proctype Client()
{
    byte me = _pid, mine;
    bool renewed;
    do
    :: token < GRANTS ->
        left[me] = LEASE;
        if
        :: atomic { owner == NOBODY && token < GRANTS -> store_gives(me) }
            hear_grant();
            do
            :: renew()
            :: write()
            :: break
            od;
            release()
        :: owner != NOBODY || token == GRANTS
        fi;
        left[me] = 0
    :: break
    :: token == GRANTS -> break
    od
}

inline count_down(counter)
{
    counter = (counter > 0 -> counter - 1 : 0)
}

active proctype Clock()
{
end:
    do
    :: atomic {
            ttl > 0 || left[0] > 0 || left[1] > 0 || asked[0] > 0 || asked[1] > 0 ->
            count_down(ttl);
            owner = (ttl == 0 -> NOBODY : owner);
            count_down(left[0]);
            count_down(left[1]);
            count_down(asked[0]);
            count_down(asked[1])
        }
    od
}
