/* A server that speaks ZooKeeper's protocol just as a test wants it: what a real one says too
 * rarely, or never. It has one connection at a time, and knows the nodes that its clients have
 * made. */
#ifndef TESTS_CHAOS_ZOOKEEPER_SCRIPT_H
#define TESTS_CHAOS_ZOOKEEPER_SCRIPT_H

#include "test.h"

#define SCRIPT_NODES 8

struct script {
    int port, listener;
    struct thread thread;
    int64_t session; /* of the last client that was let in */
    char nodes[SCRIPT_NODES][300];
    _Atomic int creates;    /* asked for */
    _Atomic int looks;      /* at a node's data */
    _Atomic int timeout_ms; /* what a session is let in with */
    /* What it does with the next so many: */
    _Atomic int bad_lists;       /* lists that end before their last node */
    _Atomic int bad_creates;     /* nodes that are made, with an answer that says nothing */
    _Atomic int refused_creates; /* nodes that it refuses, for want of rights */
    _Atomic int ended_sessions;  /* sessions that it does not know any more */
    _Atomic int silent;          /* while not 0: it hears, and says nothing */
    _Atomic int cut;             /* ends the connection, once */
    _Atomic int ends;
};

void script_start(struct script *script, int timeout_ms);
void script_end(struct script *script);

#endif
