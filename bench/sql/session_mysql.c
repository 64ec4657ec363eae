/* SPDX-License-Identifier: Apache-2.0 */
/* libmariadb, as its manual says: a connection that blocks, and prepared statements. */
#include "worker.h"

#include <mysql.h>
#include <string.h>

#define NOW "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

enum { DUPLICATE = 1062, DEADLOCK = 1213, WAITED_TOO_LONG = 1205 };

struct session {
    MYSQL *connection;
    MYSQL_STMT *prepared[STATEMENT_COUNT];
};

static void must_query(MYSQL *connection, const char *text)
{
    if (mysql_query(connection, text) != 0)
        die("%s", mysql_error(connection));
}

static struct session *open_session(const char *const *statements)
{
    struct session *session = allocate(sizeof *session);
    MYSQL *connection = session->connection = mysql_init(NULL);
    if (!connection || !mysql_real_connect(connection, NULL, "locks", "not-a-secret", "holdfast", 0,
                                           worker_socket, 0))
        die("%s", connection ? mysql_error(connection) : "out of memory");
    must_query(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    must_query(connection, "CREATE TABLE IF NOT EXISTS bench_row (name VARBINARY(1024) PRIMARY "
                           "KEY, owner VARBINARY(24), token BIGINT, expires_us BIGINT) "
                           "ENGINE = InnoDB ROW_FORMAT = DYNAMIC");
    must_query(connection, "CREATE TABLE IF NOT EXISTS bench_key (name VARBINARY(64) PRIMARY KEY) "
                           "ENGINE = InnoDB");
    for (unsigned i = 0; i < STATEMENT_COUNT; i++) {
        session->prepared[i] = mysql_stmt_init(connection);
        if (mysql_stmt_prepare(session->prepared[i], statements[i], strlen(statements[i])) != 0)
            die("%s", mysql_stmt_error(session->prepared[i]));
    }
    return session;
}

static int run(struct session *session, enum statement statement, const char *name)
{
    MYSQL_STMT *prepared = session->prepared[statement];
    char text[64];
    unsigned long length = (unsigned long)snprintf(text, sizeof text, "%s", name);
    long long number = 0;
    MYSQL_BIND parameter = {
        .buffer_type = MYSQL_TYPE_STRING, .buffer = text, .buffer_length = length, .length = &length
    };
    MYSQL_BIND answer = { .buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &number };
    mysql_stmt_bind_param(prepared, &parameter);
    if (mysql_stmt_execute(prepared) != 0) {
        unsigned code = mysql_stmt_errno(prepared);
        if (code != DUPLICATE && code != DEADLOCK && code != WAITED_TOO_LONG)
            die("%s", mysql_stmt_error(prepared));
        return -1;
    }
    if (mysql_stmt_field_count(prepared) == 0)
        return (int)mysql_stmt_affected_rows(prepared);
    mysql_stmt_bind_result(prepared, &answer);
    if (mysql_stmt_store_result(prepared) != 0 || mysql_stmt_fetch(prepared) != 0)
        die("%s", mysql_stmt_error(prepared));
    mysql_stmt_free_result(prepared);
    return (int)number;
}

const struct session_ops mysql_sessions = {
    "mariadb",
    open_session,
    run,
    {
        [STATEMENT_TAKE_ROW] =
            "INSERT INTO bench_row VALUES (?, '123456789012345678901234', LAST_INSERT_ID(" NOW
            "), " NOW " + 30000000) ON DUPLICATE KEY UPDATE "
            "owner = IF(expires_us <= " NOW ", VALUES(owner), owner), "
            "token = IF(expires_us <= " NOW ", LAST_INSERT_ID(GREATEST(token + 1, " NOW
            ")), token), expires_us = IF(expires_us <= " NOW ", VALUES(expires_us), expires_us)",
        [STATEMENT_LEAVE_ROW] = "UPDATE bench_row SET expires_us = 0 WHERE name = ?",
        [STATEMENT_TAKE_SESSION] = "SELECT GET_LOCK(?, 60)",
        [STATEMENT_LEAVE_SESSION] = "SELECT RELEASE_LOCK(?)",
        [STATEMENT_INSERT] = "INSERT INTO bench_key VALUES (?)",
        [STATEMENT_DELETE] = "DELETE FROM bench_key WHERE name = ?",
    },
};
