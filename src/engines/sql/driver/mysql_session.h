/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to MySQL or MariaDB in a thread of its own.
 *
 * libmariadb blocks: in the name look-up, in the TLS handshake, and in statements over TLS. Its
 * non-blocking calls run on stacks of their own, which would have to move between the threads that
 * turn the loop. So a session's thread makes the blocking calls, a script at a time, and the loop
 * never waits for it. */
#ifndef HF_ENGINES_SQL_DRIVER_MYSQL_SESSION_H
#define HF_ENGINES_SQL_DRIVER_MYSQL_SESSION_H

#include "engines/sql/driver/driver.h"

#include <mysql.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#define MYSQL_NAME_SIZE 48
#define MYSQL_CHANNELS_MAX 16u

/* A request on its way through the thread, with copies of what the caller gave. */
struct mysql_job {
    struct hf_link link;
    struct sql_request *request; /* the loop's: the thread does not touch it */
    const struct sql_script *script;
    bool sent, failed;
    struct sql_failure failure;
    /* The rows of its answer, and their bytes, in memory of their own. */
    struct sql_value *fields;
    char *bytes;
    unsigned row_count, column_count;
    uint64_t affected, insert_id;
    struct sql_value values[]; /* and the parameters' bytes behind them */
};

struct mysql_session {
    pthread_mutex_t mutex;
    /* Under the mutex. */
    struct hf_link asked, answered;
    uv_async_t *listener; /* NULL: the loop has left it */
    bool ready, broken;
    bool heard; /* a notification has come */
    bool busy;  /* the thread is inside the library */
    int fd;     /* -1: none yet, or none any more */
    unsigned users;
    pthread_t thread; /* the loop's: it waits for its end where that is near, or lets it go */
    struct sql_failure why;
    _Atomic bool ended; /* the loop has left; set under the mutex */
    int wake;           /* readable: the thread has something to look for */
    /* The thread's; the loop's while it is not busy. */
    MYSQL *mysql;
    MYSQL_STMT **prepared[SQL_SCRIPTS_MAX];
    /* The waiters that a script notifies when it has been committed. */
    char channels[MYSQL_CHANNELS_MAX][MYSQL_NAME_SIZE];
    unsigned channel_count;
    /* Set before the thread starts. */
    char *host, *socket, *user, *password, *database, *ca, *cert, *key;
    unsigned port, timeout_s;
    enum sql_tls tls;
    bool keeps_time_zone; /* the server's */
    bool waits;           /* a reply may take for ever */
    char name[MYSQL_NAME_SIZE];
    char channel[MYSQL_NAME_SIZE]; /* not "": it only listens */
    char version[64];              /* written before `ready` */
};

/* Starts the thread, which connects. With a `channel` it only listens there; NULL: it works. NULL:
 * out of memory, or of threads. */
struct mysql_session *hf__mysql_session_open(const struct sql_settings *settings,
                                             const struct sql_place *place, const char *channel,
                                             uv_async_t *listener);
/* NULL: out of memory. */
struct mysql_job *hf__mysql_job_new(struct sql_request *request);
void hf__mysql_job_free(struct mysql_job *job);
void hf__mysql_session_ask(struct mysql_session *session, struct mysql_job *job);
/* The loop leaves it. A thread that is inside the library finds its socket shut down. What was
 * asked and not answered stays with the session. */
void hf__mysql_session_leave(struct mysql_session *session);
/* In the child after fork(): closes its descriptor. */
void hf__mysql_session_forked(struct mysql_session *session);

/* ---- mysql_script.c: the thread executes a script ---- */

/* False: the connection is lost, and the job's failure says why. */
bool hf__mysql_execute(struct mysql_session *session, struct mysql_job *job);

enum sql_type hf__mysql_type(const MYSQL_FIELD *field);

/* ---- mysql_text.c ---- */

/* The whole script in one message. False: the job's failure says why; a transaction may be open. */
bool hf__mysql_execute_text(struct mysql_session *session, struct mysql_job *job);

/* ---- mysql_notify.c ---- */

/* Of a script, from a column hf_notify. */
void hf__mysql_notify_later(struct mysql_session *session, const char *channel, size_t length);
void hf__mysql_notify(struct mysql_session *session);
/* Until the loop leaves (true), or the connection is lost. */
bool hf__mysql_listen(struct mysql_session *session);

/* ---- mysql_failure.c ---- */

void hf__mysql_failure(struct sql_failure *failure, unsigned code, const char *state,
                       const char *text);

#endif
