/* SPDX-License-Identifier: Apache-2.0 */
/* A server that speaks ZooKeeper's protocol just as a test wants it: what a real one says too
 * rarely, or never. It has one connection at a time, and knows the nodes that its clients have
 * made. */
#ifndef HF_TESTS_CHAOS_LIB_ZOOKEEPER_SCRIPT_H
#define HF_TESTS_CHAOS_LIB_ZOOKEEPER_SCRIPT_H

#include "conformance.h"

#define SCRIPT_NODES 8

struct script {
    int port, listener;
    struct thread thread;
    int64_t session;               /* of the last client that was let in */
    char nodes[SCRIPT_NODES][300]; /* its thread's, while a client asks for something */
    _Atomic int there;             /* nodes that are left after what it has answered last */
    _Atomic int creates;           /* asked for */
    _Atomic int looks;             /* at a node's data */
    _Atomic int watches;           /* asked for, of nodes that are there */
    _Atomic int changes;           /* of data */
    const char *data;              /* of nodes whose path ends like this: */
    const char *data_at;
    _Atomic int data_size;
    _Atomic int timeout_ms; /* what a session is let in with */
    /* What it does with the next so many: */
    _Atomic int bad_lists;       /* lists that end before their last node */
    _Atomic int bad_creates;     /* nodes that are made, with an answer that says nothing */
    _Atomic int lost_creates;    /* nodes that are made: the connection ends without an answer */
    _Atomic int lost_exists;     /* questions for a node: the connection ends without an answer */
    _Atomic int last_lease;      /* not 0: the connection ends with this one, unanswered */
    _Atomic int taken;           /* looks at data that tell of a child below it */
    _Atomic int freed;           /* watched lists after which the watcher is told of a change */
    _Atomic int refused_creates; /* nodes that it refuses, for want of rights */
    _Atomic int refusal;         /* not 0: the error that it refuses them with instead */
    _Atomic int refused_leases;  /* the same, of permits only */
    _Atomic int refused_deletes; /* nodes that it does not delete */
    _Atomic int failed_deletes;  /* the same, for a reason of its own that may pass */
    _Atomic int refused_reads;   /* and whose data it keeps for itself */
    _Atomic int old_versions;    /* changes that somebody else was faster with */
    _Atomic int ended_sessions;  /* sessions that it does not know any more */
    _Atomic int barred;          /* while not 0: no node is there, and none may be made */
    _Atomic int wrapped;         /* while not 0: the numbers of queues have come round */
    _Atomic int lose;            /* not 0: the node before this one goes, and its watcher is told */
    _Atomic int lost_readers; /* nodes without a number that are made: the connection ends then */
    _Atomic int busy_readers; /* the same, which it has no time to make just now */
    _Atomic int late_readers; /* the same, which are made when it hears of a deletion */
    _Atomic int late_deletes; /* deletions that it does when it hears of another one */
    _Atomic int late_leases;  /* while not 0: it says nothing of a permit before it hears more */
    _Atomic int silent;       /* while not 0: it hears, and says nothing */
    _Atomic int cut;          /* ends the connection, once */
    _Atomic int ends;
};

/* Is it the server that runs on this thread? */
bool script_is_here(void);
void script_start(struct script *script, int timeout_ms);
/* A client of it; its locks are below /locks. */
hf_client *script_open(const struct script *script, int64_t lease_ms);
void script_end(struct script *script);

#endif
