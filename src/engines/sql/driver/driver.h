/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between the engine and a client library: five calls, and three events.
 *
 *     engine                                     driver (postgres.c, mysql.c)
 *       open, run, listen, close, forked  ---->
 *                                         <----  ready, broken, notified; and each request's answer
 *
 * One sql_connection is one try to connect and what comes of it. It is never opened again: the
 * engine closes it and opens another, after a pause of its own. Rules for both sides:
 *
 *  1. All calls and all events are on the loop's thread. No call blocks or takes longer than 50 ms.
 *     A library that blocks runs in a thread of the driver's own, which posts to the loop. A thread
 *     that may be inside the library for long is left to itself by `close` and frees what it has.
 *  2. No event and no answer comes from inside of a call.
 *  3. Scripts are executed in the order of `run`, and answered in that order, each exactly once.
 *  4. A script of several statements is one transaction at READ COMMITTED. If a statement fails,
 *     nothing of the script has happened, unless hf__sql_is_open. A script of one statement needs
 *     no transaction around it.
 *  5. When the connection is lost, all requests are answered first, with SQL_LOST, and then
 *     `broken` comes. After `broken` the engine only calls `close`.
 *  6. After `close` has returned, neither event nor answer comes, and the driver does not touch
 *     requests and their values any more. A thread needs a copy of them.
 *  7. The server may go on executing what was sent before `close`. Scripts are written for that. */
#ifndef HF_ENGINES_SQL_DRIVER_H
#define HF_ENGINES_SQL_DRIVER_H

#include "base/list.h"
#include "base/url.h"

#include <holdfast.h>

struct hf_host;
struct hf_route;
struct sql_layout;

enum sql_dialect { SQL_POSTGRES, SQL_MYSQL };

/* ---- Where to connect ---- */

enum sql_tls {
    SQL_TLS_VERIFY,   /* the certificate is signed by an authority, and made out to the host */
    SQL_TLS_INSECURE, /* encrypted, and not checked */
    SQL_TLS_OFF
};

struct sql_place {
    const char *host; /* a name or an address; NULL: `socket` */
    unsigned port;
    const char *socket; /* the path of a Unix socket; PostgreSQL: of its folder */
    /* Of one try to connect. */
    int64_t limit_ms;       /* 0: timeout_ms of the settings */
    struct hf_route *route; /* NULL: a host with several addresses begins at the first */
};

/* What the URL says. NULL: not said, so that the library reads ~/.pgpass, .my.cnf and the like. */
struct sql_settings {
    const struct sql_driver *driver;
    struct sql_place places[HF_URL_HOSTS_MAX];
    unsigned place_count;
    const char *user, *password, *database;
    enum sql_tls tls;
    const char *ca, *cert, *key;     /* PEM files */
    int64_t timeout_ms;              /* for connecting, and for a statement's reply */
    const struct sql_layout *layout; /* tables of other programs; NULL: our own */
    const char *schema;              /* of the tables; "": the search path decides */
    int64_t stale_s;                 /* see SQL_P_STALE_S */
    bool relaxed;                    /* durability=relaxed: a commit need not be on disk */
    unsigned connections;            /* of one client; see hf__sql_part */
    unsigned sessions;               /* layout=session: how many at most; 0: another layout */
    unsigned session_key;            /* ... an enum session_key_form */
    char session[48]; /* what our sessions are called at the server, letters and digits;
                                    no other client's are */
    char shown[400];  /* the places, for sentences */
};

/* ---- What is asked, and what comes back ---- */

enum sql_type { SQL_NULL, SQL_NUMBER, SQL_BYTES, SQL_TEXT };

/* A parameter, or a field of a row. A parameter of type SQL_BYTES or SQL_TEXT with `bytes` NULL is
 * a NULL of that type; a field that is NULL has the type SQL_NULL. */
struct sql_value {
    enum sql_type type;
    uint32_t length;   /* of bytes */
    int64_t number;    /* SQL_NUMBER */
    const char *bytes; /* any bytes; nothing ends them */
};

#define SQL_A_NUMBER(value) ((struct sql_value){ .type = SQL_NUMBER, .number = (value) })
#define SQL_SOME_BYTES(at, size)                                                                   \
    ((struct sql_value){                                                                           \
        .type = SQL_BYTES, .bytes = (const char *)(at), .length = (uint32_t)(size) })
#define SQL_SOME_TEXT(at, size)                                                                    \
    ((struct sql_value){ .type = SQL_TEXT, .bytes = (at), .length = (uint32_t)(size) })

struct sql_statement {
    const char *text;             /* with the placeholders of the dialect: $1, or ? */
    const unsigned char *numbers; /* for each placeholder, which of the request's values it is */
    unsigned count;               /* of placeholders: 32 at most */
};

/* Constants that the build makes of the .sql files, so a statement may be prepared once for each
 * connection, by (number, index). */
struct sql_script {
    const char *name;
    unsigned number; /* below SQL_SCRIPTS_MAX; no two of a dialect have the same */
    unsigned count;
    unsigned answer; /* the statement whose rows are the answer: the last one, or the one below a
                        comment "-- answer" in the .sql file */
    const struct sql_statement *statements;
    bool plain; /* MySQL: one statement, sent as text with its values */
};

/* How long a statement waits for a row that another transaction has locked: MySQL counts in
 * seconds. It is shorter than any time-out for a reply that a URL sensibly has. */
#define SQL_ROW_WAIT_MS 1000
/* MySQL's number for the end of that wait. */
#define SQL_MYSQL_LOCK_WAIT_TIMEOUT 1205

#define SQL_SCRIPTS_MAX 96u
#define SQL_STATEMENTS_MAX 16u

enum sql_trouble {
    SQL_FINE,
    SQL_AGAIN,     /* deadlock, serialization failure, lock time-out: rolled back, and worth
                      another try. No user hears of it */
    SQL_NO_SCHEMA, /* a table, a column or the schema is missing */
    SQL_RANGE,     /* a number, or the one after it, is larger than its column can be */
    SQL_UNFIT,     /* a text that its column cannot hold: its length, or its characters */
    SQL_UNIQUE,    /* a unique key has the value already */
    SQL_READ_ONLY, /* the server takes no writes: a replica, or one that has failed over */
    SQL_DENIED,    /* the user, the password, a privilege, or the certificate */
    SQL_SETTING,   /* a setting of the server's does not let locks work */
    SQL_LIMIT,     /* disk space, connections, the server's memory */
    SQL_NO_MEMORY, /* this process has none: for the request, or if that was sent, for its answer */
    SQL_NOT_READY, /* the server starts or shuts down, or could not be reached */
    SQL_LOST, /* a connection that was ready is gone, or an error leaves open whether the script
                      was executed */
    SQL_WRONG /* a known refusal: an error of ours, or a server that does not know the syntax */
};

struct sql_failure {
    enum sql_trouble trouble;
    int native;    /* MySQL's error number, or a system error, or 0 */
    char state[6]; /* the SQLSTATE, or "" */
    /* The server's or the library's words, on one line, without a password. */
    char text[240];
};

struct sql_answer {
    const struct sql_failure *failure; /* NULL: the script has been committed */
    /* The rows of the script's answering statement; row by row. Valid until `answered` returns. */
    unsigned row_count, column_count;
    const struct sql_value *fields;
    /* MySQL: of the same statement. */
    uint64_t affected, insert_id;
};

struct sql_request {
    /* In: the caller's, constant until the answer. */
    const struct sql_script *script;
    const struct sql_value *values;
    void (*answered)(struct sql_request *request, const struct sql_answer *answer);
    bool reads; /* it changes nothing, so nothing is open without memory for its answer */
    bool sent;  /* out; see hf__sql_is_open */
    /* The driver's, while the request is with it. */
    struct hf_link link;
    void *driver_pointer;
};

/* The script may have been executed, or may be yet. */
static inline bool hf__sql_is_open(const struct sql_request *request,
                                   const struct sql_failure *failure)
{
    bool unheard = failure->trouble == SQL_NO_MEMORY && !request->reads;
    bool heard = failure->trouble != SQL_LOST && !unheard;
    return request->sent && !heard; /* mutant: sql-no-memory-is-definite */
}

/* ---- The driver ---- */

struct sql_connection;

struct sql_events {
    /* Logged in, and the session is set up, whatever the server's defaults are. */
    void (*ready)(void *arg);
    /* Could not connect, or the connection is lost. `why` is valid until it returns. */
    void (*broken)(void *arg, const struct sql_failure *why);
    /* A notification on a channel that is listened to. */
    void (*notified)(void *arg, const char *payload, size_t length);
};

/* What a driver's own struct begins with. Set by `open`. */
struct sql_connection {
    const struct sql_driver *driver;
    const struct hf_host *host;
    const struct sql_settings *settings; /* lives as long as the client */
    const struct sql_place *place;
    const struct sql_events *events;
    void *arg;
    /* Set by the driver before `ready`: two transactions may run in two sessions of the server (a
     * pooler is in between), so nothing of a session lasts, and `listen` is not called. */
    bool pooled;
    /* An earlier session of the client has not ended yet, as far as this one knows. */
    bool crowded;
};

struct sql_driver {
    const char *name; /* "PostgreSQL" */
    enum sql_dialect dialect;
    unsigned port; /* the default */
    /* Begins to connect. NULL: out of memory. `place` lives until `close`. Its limit bounds all
     * steps of it together, also a name look-up, and several addresses share it; then `broken`
     * comes. */
    struct sql_connection *(*open)(const struct hf_host *host, const struct sql_settings *settings,
                                   const struct sql_place *place, const struct sql_events *events,
                                   void *arg);
    /* Only between `ready` and `broken`. A reply that does not come is the engine's matter: it
     * closes the connection. */
    void (*run)(struct sql_connection *connection, struct sql_request *request);
    /* From the answer on, notifications on `channel` (letters, digits and '_') are told. Like a
     * request without rows; request->script and values are not looked at. NULL: there are no
     * notifications. */
    void (*listen)(struct sql_connection *connection, const char *channel,
                   struct sql_request *request);
    void (*close)(struct sql_connection *connection);
    /* In the child after fork(): closes descriptors without a word to the server, and frees
     * nothing that another thread might have been using. */
    void (*forked)(struct sql_connection *connection);
    /* The server's version, and what it is called, once it is ready. */
    const char *(*version)(struct sql_connection *connection);
};

#ifdef HF_SQL_POSTGRES
extern const struct sql_driver hf__sql_postgres;
#endif
#ifdef HF_SQL_MYSQL
extern const struct sql_driver hf__sql_mysql;
#endif

#endif
