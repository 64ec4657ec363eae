/* SPDX-License-Identifier: Apache-2.0 */
/* A relay between a client and a server of this machine, which can swallow the server's answers,
 * and hold up what clients say. */
#ifndef HF_TESTS_CHAOS_LIB_RELAY_H
#define HF_TESTS_CHAOS_LIB_RELAY_H

#include "test.h"

#include <pthread.h>

#define RELAY_PAIRS 64
/* In MySQL's protocol this is the command: the byte behind a packet's length and number. */
#define RELAY_KIND_AT 4

struct relay {
    int port;                /* where it listens */
    _Atomic int server_port; /* of new connections */
    int listener, wake[2];
    pthread_t thread;
    int pairs[RELAY_PAIRS][2]; /* a client's socket, and the server's for it; -1: none */
    bool held[RELAY_PAIRS];
    bool muted[RELAY_PAIRS]; /* its answers are swallowed */
    long rooms[RELAY_PAIRS]; /* what of a connection's answers still goes through; 0: all */
    _Atomic long step;
    long stepped;       /* the room of the last one */
    _Atomic long left;  /* what of the answers still goes through, 0: without limit */
    _Atomic long asked; /* what clients have said, in bytes */
    const char *lie;    /* what is sent in the place of an answer, as long as ... */
    size_t lie_length;
    _Atomic int lies; /* ... there are some left */
    const char
        *liable; /* only to requests with one of these bytes at RELAY_KIND_AT; NULL: to all */
    bool spared[RELAY_PAIRS]; /* the connection's last request is none of them */
    _Atomic int delay_ms;     /* each answer is late by this */
    _Atomic bool dripping;    /* each byte of an answer is sent by itself */
    _Atomic bool swallowing, pausing, cutting, holding, muting, letting_go, ending;
};

void relay_start(struct relay *relay, int server_port);
/* From now on the server hears and does, and nobody hears of it. */
void relay_swallow(struct relay *relay);
/* From now on it is heard again; what was swallowed stays so. */
void relay_pass(struct relay *relay);
/* From now on the server hears and does what is said on the connections there are, and its answers
 * are swallowed. New ones work. */
void relay_mute(struct relay *relay);
/* The server hears and does what it is told, and so many next answers are replaced by these bytes,
 * as by a proxy that has heard no reply. An answer is what the server sends at once: each request
 * has to be alone on its connection. The bytes live until then. */
void relay_lie(struct relay *relay, const char *bytes, size_t length, int count);
/* From now on answers wait in the relay; and go on, all of them. */
void relay_pause(struct relay *relay);
void relay_resume(struct relay *relay);
/* From now on so many bytes of answers go through; the connection of the last one is cut then. */
void relay_cut_after(struct relay *relay, long bytes);
/* From now on each new connection stands still behind so many bytes of answers: the first one
 * behind `step`, and each further one behind `step` more. */
void relay_stall_each(struct relay *relay, long step);
/* Cuts all connections, and lets answers through on new ones. Returns when they are cut. */
void relay_cut(struct relay *relay);
/* Nothing goes through the connections there are, and none of them ends, whatever the client does.
 * New ones work. */
void relay_hold(struct relay *relay);
/* The server hears all that was held up, on connections that the client has given up long ago;
 * returns when it has done it. */
void relay_let_go(struct relay *relay);
void relay_stop(struct relay *relay);

#endif
