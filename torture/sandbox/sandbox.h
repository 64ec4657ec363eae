/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of a run's own, thrown away at its end, so that faults may strike them, too. */
#ifndef HF_TORTURE_SANDBOX_SANDBOX_H
#define HF_TORTURE_SANDBOX_SANDBOX_H

#include "torture/sandbox/sandbox_clock.h"
#include "torture/sandbox/sandbox_network.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TORTURE_SERVERS = 3 };

struct torture_sandbox;
struct torture_server;

/* How the servers of a store are put up. */
struct torture_server_kind {
    const char *program; /* for the user that has to install it */
    /* What a server needs besides its directory, before it starts for the first time. May be NULL.
     */
    bool (*prepare)(struct torture_sandbox *sandbox, struct torture_server *server);
    /* In the process that is to be it. Does not return if it can be started. */
    void (*become)(const struct torture_sandbox *sandbox, const struct torture_server *server);
    /* Does it answer, as what it is to be? */
    bool (*is_ready)(const struct torture_sandbox *sandbox, const struct torture_server *server);
    void (*lead)(struct torture_sandbox *sandbox); /* the URL, and clients, to the primary */
    /* Which server leads, of those that can be asked from here, where they choose it themselves.
     * False: none, just now. NULL: they do not. */
    bool (*find_leader)(const struct torture_sandbox *sandbox, unsigned *ret);
    bool (*promote)(const struct torture_server *server); /* asks it to be the primary; or NULL */
    bool (*cut_replicas)(const struct torture_server *primary);
};

extern const struct torture_server_kind torture_etcd_server, torture_mariadb_server,
    torture_memcached_server, torture_postgres_server, torture_redis_server,
    torture_zookeeper_server;

/* What is put up, and what the store does not promise there. */
struct torture_deployment {
    const char *name; /* the word of --sandbox */
    const char *text; /* one line */
    const struct torture_server_kind *kind;
    unsigned servers;       /* the first is the primary, unless they choose one themselves */
    bool durable;           /* every change is written to disk before it is answered */
    unsigned faults;        /* of its servers: bits 1u << torture_fault */
    unsigned promised_over; /* those of them over which locks stay exclusive */
    const char *options;    /* of the URL, from its '?' on; or NULL */
};

struct torture_server {
    pid_t pid;                    /* 0: it does not run */
    unsigned port, peer_ports[2]; /* for clients; for the other servers, as the kind has it */
    char directory[80], socket[96];
};

struct torture_sandbox {
    const struct torture_deployment *deployment;
    char directory[64];
    char url[120]; /* always leads to the primary */
    struct torture_server servers[TORTURE_SERVERS];
    unsigned primary;
    struct torture_network *network;     /* theirs and the clients'; NULL: this machine's */
    char no_network[256];                /* one was wanted, and why there is none; or "" */
    pid_t guardian;                      /* takes the directory away if we are killed */
    struct torture_sandbox_clock *clock; /* of all servers; NULL: the kernel's */
};

/* All of them, one after the other; NULL: there are no more. */
const struct torture_deployment *torture_deployment(unsigned index);

/* Starts the servers, with what these faults need; they die with this process, and what they wrote
 * goes, too. False: nothing is left, and error says why. */
bool torture_sandbox_start(struct torture_sandbox *sandbox,
                           const struct torture_deployment *deployment, unsigned faults,
                           char error[256]);
/* Kills the servers, and removes all they have written. */
void torture_sandbox_end(struct torture_sandbox *sandbox);

/* To the server and to all processes that it has started: PostgreSQL has one a client. */
void torture_sandbox_signal(const struct torture_server *server, int number);
/* SIGKILL, until it is gone. */
void torture_sandbox_kill(struct torture_sandbox *sandbox, unsigned server);
/* Again, with what it has on disk; until it answers. A replica: until it has all its primary has.
 */
bool torture_sandbox_restart(struct torture_sandbox *sandbox, unsigned server, char error[256]);
/* The replica stands still and gets nothing more of what the primary grants. */
bool torture_sandbox_cut_replica(struct torture_sandbox *sandbox);
/* The replica goes on as the primary; clients are not led to it yet. */
bool torture_sandbox_promote(struct torture_sandbox *sandbox);
/* Where the servers choose the leader: finds it. False: there is none just now. */
bool torture_sandbox_look_for_leader(struct torture_sandbox *sandbox);
/* On which side of the network a client is. */
unsigned torture_sandbox_side(const struct torture_sandbox *sandbox, unsigned client);

/* ---- for the kinds ---- */

/* Where the server is found. */
const char *torture_sandbox_address(const struct torture_sandbox *sandbox,
                                    const struct torture_server *server);
/* A connection there, or -1: it does not answer within a second. */
int torture_sandbox_connect(const struct torture_sandbox *sandbox,
                            const struct torture_server *server);
/* A port of 127.0.0.1 that no process listened on a moment ago; 0: there is none. */
unsigned torture_sandbox_port(void);
/* Says `question` to a server, until `wanted` is in its answer. False: it is not. */
bool torture_sandbox_tell(int fd, const char *question, const char *wanted);

#endif
