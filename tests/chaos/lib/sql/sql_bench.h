/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that a test turns by itself, with one connection of a driver of the SQL engines. */
#ifndef HF_TESTS_CHAOS_LIB_SQL_BENCH_H
#define HF_TESTS_CHAOS_LIB_SQL_BENCH_H

#include "base/loop.h"
#include "core/engine.h"
#include "engines/sql/driver/driver.h"
#include "sql_server.h"

#include <uv.h>

struct bench {
    struct hf_host host;
    struct hf_loop loop;
    uv_loop_t uv;
    struct sql_settings settings;
    struct sql_place place;
    struct sql_connection *connection;
    bool ready, broken;
    struct sql_failure why;
    int answers;
    int threads;        /* of the process, before */
    int64_t longest_us; /* for which a turn, or a call, has computed or slept */
    int64_t began_us;
};

/* What the drivers are tested with: a table t of numbers, each once. */
enum {
    MAKE,
    INSERT, /* a number */
    COUNT,
    TYPES,
    SLEEP,     /* for so many seconds */
    COUNTED,   /* inserts a number, and counts, in one transaction */
    TWICE,     /* two numbers, in one transaction */
    LOCK_BOTH, /* two numbers' rows, the second one a second later */
    SETTINGS   /* isolation, time zone, and what else the session has been told, in one text */
};

struct subject {
    const struct sql_driver *driver;
    const char *kind;
    const struct sql_script *scripts;
};

extern const struct subject subjects[];
extern const int subject_count;

#define EACH(subject)                                                                              \
    for (const struct subject *subject = subjects; subject < subjects + subject_count; subject++)

/* One turn of the loop. Always true, for EVENTUALLY. */
bool turn(struct bench *bench);
/* At 127.0.0.1, without TLS. */
void bench_open(struct bench *bench, const struct sql_driver *driver, int port);
void bench_connect(struct bench *bench);
void bench_disconnect(struct bench *bench);
/* No turn, and no call, may have taken long. A session's thread outlives its connection: the wait
 * for it keeps the end of the process away from what the thread does at its own end. */
void bench_close(struct bench *bench);
void await_ready(struct bench *bench);
void await_broken(struct bench *bench);

struct asked {
    struct sql_request request;
    struct bench *bench;
    struct sql_value values[4];
    bool answered;
    int turn_of_answer;
    struct sql_failure failure;
    unsigned rows, columns;
    struct sql_value fields[4];
    char bytes[4][100];
    uint64_t affected;
};

void ask(struct bench *bench, const struct subject *subject, struct asked *asked, int script,
         int64_t number, int64_t number2);
/* Runs what is in asked->values. */
void ask_values(struct bench *bench, const struct subject *subject, struct asked *asked,
                int script);
/* Valid until the next one. */
const struct asked *reply(struct bench *bench, const struct subject *subject, int script,
                          int64_t number, int64_t number2);
void check_fine(const struct asked *asked);
int64_t count_rows(struct bench *bench, const struct subject *subject);

/* A connection to the server. */
void bench_join(struct bench *bench, const struct subject *subject,
                const struct sql_server *server);
/* A server, a connection to it, and the table. */
void bench_begin(struct bench *bench, const struct subject *subject, struct sql_server *server);
/* `server` NULL: it goes on. */
void bench_end(struct bench *bench, struct sql_server *server);

#endif
