/* A ZooKeeper server of a test's own, and a wire to it that loses what it is told to lose. */
#ifndef TESTS_CHAOS_ZOOKEEPER_SERVER_H
#define TESTS_CHAOS_ZOOKEEPER_SERVER_H

#include "test.h"

struct zookeeper_server {
    struct child process;
    int port;
    char directory[200];
};

/* Starts one on a free port of this machine, and waits until it lets clients in. Sessions last as
 * long as their clients ask for, from 400 ms to 40 s. Skips the test where there is none. */
void zookeeper_start(struct zookeeper_server *server);
/* Kills it; and starts it again with the data that it had. */
void zookeeper_kill(struct zookeeper_server *server);
void zookeeper_start_again(struct zookeeper_server *server);

/* zk://127.0.0.1:PORT/chaos; valid until the thread asks again. */
const char *zookeeper_url(int port);

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
void wire_end(struct wire *wire);

#endif
