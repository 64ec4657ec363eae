/* SPDX-License-Identifier: Apache-2.0 */
/* The driver for PostgreSQL from the inside: libpq in pipeline mode, on the loop.
 *
 *     postgres.c    a connection: begins, is watched, is set up, ends
 *     postgres_pipeline.c  scripts on their way, and their results
 *     postgres_failure.c   what went wrong */
#ifndef HF_ENGINES_SQL_DRIVER_POSTGRES_H
#define HF_ENGINES_SQL_DRIVER_POSTGRES_H

#include "base/loop.h"
#include "engines/sql/driver/addresses.h"
#include "engines/sql/driver/driver.h"

#include <libpq-fe.h>
#include <uv.h>

enum pg_state { PG_CONNECTING, PG_GREETING, PG_SETTING_UP, PG_READY, PG_BROKEN };

struct pg {
    struct sql_connection base;
    enum pg_state state;
    PGconn *pg;
    uv_poll_t *poll; /* on descriptor `fd` */
    int fd;
    struct hf_task begin, flush;
    struct sql_addresses addresses;
    struct hf_timer limit; /* of a socket in the file system */
    struct hf_link sent, free_items;
    struct pg_item *setup;
    uint16_t prepared[SQL_SCRIPTS_MAX]; /* a bit for each statement */
    struct sql_failure why;
    bool inside; /* an event is being told */
    bool closed;
    char version[80];
    char prelude[400]; /* pooled: what each transaction begins with */
};

typedef void pg_finished(struct pg *pg, PGresult *rows, const struct sql_failure *failure);

/* A script on its way, or a statement of the driver's own (request NULL). */
struct pg_item {
    struct hf_link link;
    struct sql_request *request;
    pg_finished *finished;
    unsigned prepares; /* a bit for each statement that is prepared in front of it */
    unsigned position; /* the statement whose result comes next */
    bool preparing;    /* the result that comes next is that of preparing it */
    bool preluding;    /* ... or that of the prelude */
    bool failed;
    struct sql_failure failure;
    PGresult *rows;
};

/* ---- postgres_pipeline.c ---- */

/* False: the connection cannot go on, for this reason. */
bool hf__pg_send(struct pg *pg, struct sql_request *request, struct sql_failure *why);
/* One statement of the driver's own, without parameters. */
bool hf__pg_send_text(struct pg *pg, const char *text, struct sql_request *request,
                      pg_finished *finished, struct sql_failure *why);
/* Results that have come. */
void hf__pg_read_results(struct pg *pg);
/* The connection is lost: all requests are answered so. */
void hf__pg_lose_requests(struct pg *pg, const struct sql_failure *why);
void hf__pg_drop_items(struct pg *pg);

/* ---- postgres.c ---- */

void hf__pg_watch(struct pg *pg);

/* ---- postgres_failure.c ---- */

void hf__pg_failure_of_result(struct sql_failure *failure, const PGresult *result);
void hf__pg_failure_of_connection(struct sql_failure *failure, PGconn *pg);

#endif
