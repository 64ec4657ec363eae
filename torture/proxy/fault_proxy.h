/* SPDX-License-Identifier: Apache-2.0 */
/* A process between the clients and their store, through which their connections go, so that they
 * can be cut, held up and robbed of answers: below TLS, byte by byte, without any rights. */
#ifndef HF_TORTURE_PROXY_FAULT_PROXY_H
#define HF_TORTURE_PROXY_FAULT_PROXY_H

#include "torture/sandbox/sandbox_network.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct torture_driver;
/* On each side of a network, the relay has a door; without a network there is one side. */
struct torture_door {
    struct sockaddr_storage tcp; /* where it listens */
    struct sockaddr_un path;
    socklen_t path_length;
};

/* What befalls the connections of a client just now. */
enum torture_wire {
    TORTURE_WIRE_FINE,
    TORTURE_WIRE_RESET,        /* cut, at once; the relay makes it fine again */
    TORTURE_WIRE_BLACKHOLE,    /* nothing passes, either way; what waits goes on later */
    TORTURE_WIRE_DROP_REPLIES, /* questions pass, answers are thrown away */
    TORTURE_WIRE_TRICKLE,      /* a byte at a time */
    TORTURE_WIRE_ERROR         /* a request passes, an error replaces its reply; then it is cut */
};

/* What the store's connections speak. */
enum torture_protocol {
    TORTURE_UNKNOWN_PROTOCOL,
    TORTURE_REDIS,
    TORTURE_ETCD,
    TORTURE_MYSQL,
    TORTURE_POSTGRES,
    TORTURE_ZOOKEEPER,
    TORTURE_MEMCACHED
};

enum { TORTURE_LINES = 512 };

/* A connection that a client is about to make, so that the relay knows whose it is, and where it
 * was to go. Written by the client, taken by the relay. */
struct torture_line {
    _Atomic uint32_t state; /* 0: free; 1: being written; 2: to be taken */
    uint32_t client;
    uint32_t side; /* of the network, on which it comes in and goes on */
    uint64_t from; /* the name of the client's end */
    socklen_t to_length;
    struct sockaddr_storage to;
};

struct torture_fault_proxy {
    enum torture_protocol protocol;
    char marker[20];          /* what stands in the name of each lock of the run */
    _Atomic uint32_t errors;  /* that the relay has sent */
    _Atomic bool reads_names; /* a request with that has passed: connections are not encrypted */
    struct torture_door doors[TORTURE_SIDES];
    struct torture_line lines[TORTURE_LINES];
};

/* Two at each door, by port and by path. */
enum { TORTURE_LISTENERS = 2 * TORTURE_SIDES };

/* ---- fault_proxy.c ---- */

struct torture_shared;

/* Until the process is killed. */
_Noreturn void torture_fault_proxy_live(struct torture_shared *arena,
                                        const struct torture_network *network,
                                        const int listeners[TORTURE_LISTENERS]);

/* Lines that a client has left and will not use, since it is dead. */
void torture_fault_proxy_forget(struct torture_fault_proxy *relay, uint32_t client);

/* ---- fault_proxy_error.c ---- */

/* By the scheme of a URL. */
enum torture_protocol torture_protocol_of(const char *url);
/* Is there a request about a lock of this run among the bytes that a client has sent? At etcd and
 * ZooKeeper it has to be one that may change it. Then *ret is its stream on HTTP/2, or its number
 * at ZooKeeper; else 0. */
bool torture_error_finds_request(const struct torture_fault_proxy *relay, const char *bytes,
                                 size_t length, uint32_t *ret);
/* The store has sent `length` bytes. If they have the reply to that request, they become an error
 * in its place, one of several by `variant`, and *length is theirs; 0 where an error is a cut
 * connection. False: they have not. */
bool torture_error_replaces_reply(const struct torture_fault_proxy *relay, uint32_t stream,
                                  unsigned variant, char *bytes, size_t size, size_t *length);

/* ---- fault_proxy_start.c ---- */

/* Starts it, as a process that ends with the driver. False: the driver has failed. */
bool torture_fault_proxy_start(struct torture_driver *driver);

/* ---- fault_proxy_connect.c: a client ---- */

/* From now on every connection of this process, which is on that side, goes through the relay. */
void torture_fault_proxy_through(struct torture_fault_proxy *relay, uint32_t client, uint32_t side);
/* How many byte streams this process has opened so far. */
unsigned torture_connections(void);
/* The name of a socket's end, by which client and relay mean the same connection; 0: none. */
uint64_t torture_end_name(const struct sockaddr_storage *address, socklen_t length);

#endif
