/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, as its manual says: a connection that blocks, and prepared statements. */
#include "worker.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define NOW "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

struct session {
    PGconn *connection;
};

static void check(struct session *session, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die("%s", PQerrorMessage(session->connection));
    PQclear(result);
}

static struct session *open_session(const char *const *statements)
{
    struct session *session = allocate(sizeof *session);
    char words[300], name[8];
    snprintf(words, sizeof words, "host=%s port=%u user=locks dbname=holdfast", worker_socket,
             worker_port);
    session->connection = PQconnectdb(words);
    if (PQstatus(session->connection) != CONNECTION_OK)
        die("%s", PQerrorMessage(session->connection));
    check(session, PQexec(session->connection, "SET client_min_messages = warning"));
    check(session, PQexec(session->connection,
                          "SELECT pg_advisory_lock(1); "
                          "CREATE TABLE IF NOT EXISTS bench_row (name bytea PRIMARY KEY, owner "
                          "bytea, token bigint, expires_us bigint) WITH (fillfactor = 50); "
                          "CREATE TABLE IF NOT EXISTS bench_key (name bytea PRIMARY KEY); "
                          "SELECT pg_advisory_unlock(1)"));
    for (unsigned i = 0; i < STATEMENT_COUNT; i++) {
        snprintf(name, sizeof name, "s%u", i);
        check(session, PQprepare(session->connection, name, statements[i], 1, NULL));
    }
    return session;
}

static int run(struct session *session, enum statement statement, const char *name)
{
    char prepared[8];
    const char *values[] = { name };
    snprintf(prepared, sizeof prepared, "s%u", (unsigned)statement);
    PGresult *result = PQexecPrepared(session->connection, prepared, 1, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    int rows =
        status == PGRES_TUPLES_OK ? PQntuples(result) : (int)strtol(PQcmdTuples(result), NULL, 10);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        if (!state || (strcmp(state, "23505") != 0 && strcmp(state, "40P01") != 0))
            die("%s", PQerrorMessage(session->connection));
        rows = -1;
    }
    PQclear(result);
    return rows;
}

const struct session_ops postgres_sessions = {
    "postgres",
    open_session,
    run,
    {
        [STATEMENT_TAKE_ROW] =
            "INSERT INTO bench_row AS l VALUES ($1, '123456789012345678901234', " NOW ", " NOW
            " + 30000000) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = "
            "greatest(l.token + 1, excluded.token), expires_us = excluded.expires_us "
            "WHERE l.expires_us <= " NOW " RETURNING token",
        [STATEMENT_LEAVE_ROW] = "UPDATE bench_row SET expires_us = 0 WHERE name = $1",
        [STATEMENT_TAKE_SESSION] = "SELECT pg_advisory_lock(hashtext($1))",
        [STATEMENT_LEAVE_SESSION] = "SELECT pg_advisory_unlock(hashtext($1))",
        [STATEMENT_INSERT] = "INSERT INTO bench_key VALUES ($1)",
        [STATEMENT_DELETE] = "DELETE FROM bench_key WHERE name = $1",
    },
};
