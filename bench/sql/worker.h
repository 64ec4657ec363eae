/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker share: ways to lock by a database, and measurements of them. */
#ifndef HF_BENCH_SQL_WORKER_H
#define HF_BENCH_SQL_WORKER_H

#include "ours.h"

/* Where the database is, for its own client. */
extern const char *worker_socket;
extern unsigned worker_port;

/* ---- session_mysql.c, session_postgres.c ---- */

/* Statements with one parameter, the name. */
enum statement {
    STATEMENT_TAKE_ROW,  /* one commit: a lease's row, with a token */
    STATEMENT_LEAVE_ROW, /* one commit */
    STATEMENT_TAKE_SESSION,
    STATEMENT_LEAVE_SESSION,
    STATEMENT_INSERT,
    STATEMENT_DELETE,
    STATEMENT_COUNT
};

struct session;

/* A connection of its own, with all statements prepared. */
struct session_ops {
    const char *database;
    struct session *(*open)(const char *const *statements);
    /* How many rows it has changed or answered; -1: the key is there, or a deadlock. */
    int (*run)(struct session *session, enum statement statement, const char *name);
    const char *statements[STATEMENT_COUNT];
};

extern const struct session_ops mysql_sessions, postgres_sessions;
extern const struct session_ops *worker_sessions;

/* ---- subjects.c ---- */

extern const struct subject bare, session_lock, unique_key, eager_key, polled;

#endif
