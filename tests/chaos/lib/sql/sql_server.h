/* SPDX-License-Identifier: Apache-2.0 */
/* A MariaDB or PostgreSQL server of a test's own: stopped, killed and talked to at will. */
#ifndef HF_TESTS_CHAOS_LIB_SQL_SERVER_H
#define HF_TESTS_CHAOS_LIB_SQL_SERVER_H

#include "conformance.h"

#define SQL_SERVER_OPTIONS 16
#define SQL_SERVER_USER "locks"
#define SQL_SERVER_PASSWORD "not-a-secret"
#define SQL_SERVER_DATABASE "holdfast"

/* A block for each of them. */
#define EACH_DATABASE(kind)                                                                        \
    for (const char *const *kind = (const char *const[]){ "mariadb", "postgres", NULL }; *kind;    \
         kind++)

struct sql_server {
    /* "mariadb", "mysql" or "postgres"; or "pgbouncer": the first option is the port of the server
     * behind it */
    const char *kind;
    const char *options[SQL_SERVER_OPTIONS];
    struct child process;
    int connections; /* of each client; 0: as the library has it */
    int port;
    char directory[200];
};

/* Starts one on a free port of this machine and at a socket in its directory, and waits until it
 * lets clients in. Skips the test where there is none. */
void sql_server_start(struct sql_server *server, const char *kind);
/* As a power cut does; and starts it again with the data that it had. */
void sql_server_kill(struct sql_server *server);
void sql_server_start_again(struct sql_server *server);
/* All its processes stand still, with their connections open; and go on. */
void sql_server_stop(struct sql_server *server);
void sql_server_continue(struct sql_server *server);

/* Or MySQL, which is spoken to in the same words. */
bool sql_server_is_mariadb(const struct sql_server *server);

/* mariadb://... or postgres://... without options but `connections`, over TCP and without TLS, at
 * this port; valid until the thread asks again. */
const char *sql_server_url(const struct sql_server *server, int port);
/* A client at this URL. 0: the library's own time-out or lease. */
hf_client *sql_open(const struct sql_server *server, int port, int timeout_ms, int64_t lease_ms);
/* What the server's own client prints for these statements, executed as the administrator: lines,
 * with tabs between the fields. Valid until the thread asks again. */
__attribute__((format(printf, 2, 3))) const char *sql_server_says(const struct sql_server *server,
                                                                  const char *format, ...);
/* Does it print just that for this statement? */
bool sql_server_shows(const struct sql_server *server, const char *statement, const char *wanted);
/* The server's time in microseconds, as an expression. */
const char *sql_server_now_us(const struct sql_server *server);
/* Lines of PostgreSQL's log that have these words. */
long sql_server_logged(const struct sql_server *server, const char *words);

#endif
