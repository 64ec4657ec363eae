/* SPDX-License-Identifier: Apache-2.0 */
/* A ZooKeeper server of a test's own, and a wire to it that loses what it is told to lose. */
#ifndef HF_TESTS_CHAOS_LIB_ZOOKEEPER_SERVER_H
#define HF_TESTS_CHAOS_LIB_ZOOKEEPER_SERVER_H

#include "test.h"

struct zookeeper_server {
    struct child process;
    int port;
    bool reaps;        /* empty containers at once, not within a minute */
    int secure_port;   /* with TLS */
    const char *shows; /* the certificate by that name, which it shows there; NULL: no TLS */
    bool wants;        /* one that the authority "ours" has signed */
    char directory[200];
    char more[1400]; /* lines of its configuration */
};

/* Starts one on a free port of this machine, and waits until it lets clients in. Sessions last as
 * long as their clients ask for, from 400 ms to 40 s. Skips the test where there is none. */
void zookeeper_start(struct zookeeper_server *server);
/* How many nodes there are, which it says to everybody; -1: it does not answer. */
int zookeeper_nodes(const struct zookeeper_server *server);
/* How many messages it has received so far; -1: it does not answer. */
long zookeeper_heard(const struct zookeeper_server *server);
/* How many connections to it there are, but for the one that asks; -1: it does not answer. */
int zookeeper_connections(const struct zookeeper_server *server);
bool zookeeper_leads(const struct zookeeper_server *server);
/* On a busy machine, a leader applies from now on what its followers have applied long before: the
 * threads that first tell them of a commit, and then itself, give way to all others. */
void zookeeper_lag(const struct zookeeper_server *leader);
/* Cut off from the others, it lets in whoever is content with that. */
bool zookeeper_is_read_only(const struct zookeeper_server *server);
/* Kills it; and starts it again with the data that it had. */
void zookeeper_kill(struct zookeeper_server *server);
void zookeeper_start_again(struct zookeeper_server *server);
/* As before it ever was started: its data is gone. */
void zookeeper_start_empty(struct zookeeper_server *server);

#define ENSEMBLE 3

/* Three that are one. Sessions last for two to a thousand ticks. */
void zookeeper_start_ensemble(struct zookeeper_server servers[ENSEMBLE], int tick_ms);

/* zk://127.0.0.1:PORT/chaos; valid until the thread asks again. */
const char *zookeeper_url(int port);
const char *zookeeper_ensemble_url(const struct zookeeper_server servers[ENSEMBLE]);

/* One connection at a time is passed on to the server. */
struct wire {
    int port, to_port, listener;
    _Atomic int mute; /* what the server says is lost */
    _Atomic int cut;  /* the connection is ended, once */
    _Atomic int ends; /* the wire itself */
    _Atomic int connections;
    struct thread thread;
};

void wire_start(struct wire *wire, int to_port);
/* Ends a connection that was mute, and returns when there is another one, which is not. */
void wire_mend(struct wire *wire);
void wire_end(struct wire *wire);

#endif
