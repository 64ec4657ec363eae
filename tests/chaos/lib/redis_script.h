/* SPDX-License-Identifier: Apache-2.0 */
/* A server that speaks Redis' protocol and answers what a test wants: what a real one says too
 * rarely, or never. It runs on a thread of its own, and hears one command after the other. */
#ifndef HF_TESTS_CHAOS_LIB_REDIS_SCRIPT_H
#define HF_TESTS_CHAOS_LIB_REDIS_SCRIPT_H

#include "test.h"

#define SCRIPT_VISITS 64
#define SCRIPT_WORDS 400

/* A command, and the how-manieth connection of the server it came on, from 1. */
struct script_call {
    int connection, count;
    char *words[SCRIPT_WORDS];
};

struct script_visit {
    int fd, connection; /* -1: there is none */
    char *heard;
    size_t length;
    bool listens; /* it has subscribed to something */
};

struct script;
/* Its answer, on the server's thread: "" is none, NULL ends the connection. */
typedef const char *script_answer(struct script *script, const struct script_call *call);

struct script {
    script_answer *answer;
    void *arg;      /* the test's */
    bool in_pieces; /* its answers come byte by byte */
    int port, listener, wake[2], connections;
    struct thread thread;
    pthread_mutex_t mutex; /* of the visits, which only its thread adds and ends */
    struct script_visit visits[SCRIPT_VISITS];
    _Atomic bool ends;
};

/* `answer` is set, and `arg` and `in_pieces` where they matter. */
void script_start(struct script *script);
void script_end(struct script *script);
/* Says it to all who have subscribed to something, without having been asked. */
void script_push(struct script *script, const char *text);
/* Ends all connections there are. */
void script_cut(struct script *script);

/* Is it a call of a script, whether by its text or its digest? */
bool script_is_called(const struct script_call *call);
/* What any server answers to all but scripts and maps; NULL: it is something else. A connection's
 * number is 100 and its own in a row, and whoever subscribes is told that it is heard. */
const char *script_usual(const struct script_call *call);

#endif
