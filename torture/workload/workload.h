/* SPDX-License-Identifier: Apache-2.0 */
/* What a client of a run does: everything that the API has, at random, and a record of it all. */
#ifndef HF_TORTURE_WORKLOAD_WORKLOAD_H
#define HF_TORTURE_WORKLOAD_WORKLOAD_H

#include "torture/prng.h"
#include "torture/shared_state.h"

#include <pthread.h>

/* An acquisition under way whose place in the queue matters. Sync points may come on another
 * thread. */
struct torture_wait {
    pthread_mutex_t mutex;
    uint64_t operation; /* 0: there is none */
    uint64_t owner;
    uint16_t lock;
    bool placed; /* it has a place, as far as we know */
};

/* One thread of a client. The client is a process of its own; its first thread has a session of its
 * own, and the others have one together. */
struct torture_client {
    const struct torture_plan *plan;
    const struct torture_subject *subject;
    struct torture_shared *arena;
    struct torture_writer *writer;
    struct torture_seat *seat;
    struct torture_setup setup;
    void *session;
    struct torture_prng dice;
    unsigned number, thread;
    uint32_t incarnation;
    int64_t next_at_ns;  /* keeps to the rate */
    uint32_t errors;     /* of the seat's, when the latest call began */
    bool tries;          /* its next question is a bare try */
    uint32_t latch_seen; /* the last round that this client knows to be open */
    struct torture_wait wait;
};

/* A child's life, in its first thread; does not return. */
_Noreturn void torture_client_live(struct torture_client *client);

/* ---- between the files of the workload ---- */

/* Takes on one of the locks, once, with all that may be done with it. `calm`: no cancelling, no
 * bare try, and patience: for the grant that everybody is to get in the end. True: granted. */
bool torture_use_lock(struct torture_client *client, uint16_t number, bool calm);
/* Tries for a quiet lock, once, and keeps it for a while, with a look at it now and then. What the
 * nemesis has set a trap for befalls the client here. */
void torture_use_quiet_lock(struct torture_client *client, uint16_t number);
/* Tries for several locks, mostly for one of them several times, before it looks at any answer. */
void torture_use_several(struct torture_client *client);
/* Counts down, looks, waits, or makes the next latch. False: there is none to use just now. */
bool torture_use_latch(struct torture_client *client);

/* ---- workload_call.c ---- */

/* A record of this client about a lock, with the owner that it goes by. */
struct torture_record torture_about(const struct torture_client *client, enum torture_verb verb,
                                    uint16_t lock);
/* Lets as much time pass as the operations so far should have taken. */
void torture_keep_to_the_rate(struct torture_client *client);
/* Begins a call: draws its number and writes the invocation. */
uint64_t torture_begin(struct torture_client *client, struct torture_record *record);
/* Writes how a call has ended. BROKEN ends the process. */
void torture_end(struct torture_client *client, struct torture_record *record,
                 enum torture_answer answer);
/* Ends the process: the run is broken, for this reason. */
_Noreturn void torture_give_up(struct torture_client *client, const char *sentence);

/* From here on, and no longer, sync points are about the place in the queue of this call. */
void torture_wait_begin(struct torture_client *client, const struct torture_record *record);
void torture_wait_end(struct torture_client *client);
/* Something that is held under this name is about to be lost. `arg` is the client. */
void torture_note_loss(void *arg, const char *name);
/* A sync point: may pause this thread, if the nemesis has chosen it. `arg` is the client. */
void torture_at_point(void *arg, const char *point);
/* Notes that this client has read its bent wall clock, if it is bent. */
void torture_look_at_clock(struct torture_client *client);

#endif
