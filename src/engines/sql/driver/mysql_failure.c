/* SPDX-License-Identifier: Apache-2.0 */
/* What the error numbers of MySQL, MariaDB and their client library mean for locks. */
#include "engines/sql/driver/mysql_session.h"

#include <errmsg.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <string.h>

/* Those of MySQL 8, and of later versions of MariaDB, that the header has not. */
#define ALREADY_SHUT_DOWN 4031      /* the server has closed an idle connection */
#define SESSION_KILLED_MARIADB 1927 /* KILL, at MariaDB */
#define SESSION_KILLED_MYSQL 3169
#define ACCOUNT_LOCKED_MYSQL 3118
#define ACCOUNT_LOCKED_MARIADB 4151
#define STATEMENT_TIMED_OUT_MARIADB 1969
#define STATEMENT_TIMED_OUT_MYSQL 3024
#define CANNOT_CONVERT_STRING_MYSQL 3854
#define CHECK_FAILED_MARIADB 4025
#define CHECK_FAILED_MYSQL 3819
#define READ_ONLY_MYSQL 3989 /* the server is in super_read_only mode by an operator */

/* The classes of SQLSTATE of which a statement is refused. In the general class HY000 some numbers
 * say that. */
static bool is_refusal(unsigned code, const char *state)
{
    static const char *const classes[] = { "21", "22", "23", "25", "2F", "38", "39",
                                           "3D", "3F", "42", "44", "45", "0A" };
    static const unsigned codes[] = { ER_UNKNOWN_SYSTEM_VARIABLE,
                                      ER_CANT_AGGREGATE_2COLLATIONS,
                                      ER_NO_DEFAULT_FOR_FIELD,
                                      ER_TRUNCATED_WRONG_VALUE_FOR_FIELD,
                                      ER_NO_PARTITION_FOR_GIVEN_VALUE,
                                      ER_UNSUPPORTED_PS,
                                      CHECK_FAILED_MARIADB,
                                      CHECK_FAILED_MYSQL };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strncmp(state, classes[i], 2) == 0)
            return true;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (code == codes[i])
            return true;
    return false;
}

static enum sql_trouble trouble_of_server(unsigned code, const char *state)
{
    switch (code) {
    case ER_LOCK_DEADLOCK:
    case ER_LOCK_WAIT_TIMEOUT:
    case ER_CHECKREAD:
    case ER_QUERY_INTERRUPTED:
    case ER_AUTOINC_READ_FAILED: /* a deadlock with the table's lock for new numbers */
        return SQL_AGAIN;
    case ER_NO_SUCH_TABLE:
    case ER_BAD_FIELD_ERROR:
        return SQL_NO_SCHEMA;
    case ER_DATA_OUT_OF_RANGE:
    case ER_WARN_DATA_OUT_OF_RANGE:
        return SQL_RANGE;
    case ER_TRUNCATED_WRONG_VALUE_FOR_FIELD:
    case ER_DATA_TOO_LONG:
    case ER_CANT_AGGREGATE_2COLLATIONS:
    case ER_INVALID_CHARACTER_STRING:
    case CANNOT_CONVERT_STRING_MYSQL:
        return SQL_UNFIT;
    case ER_DUP_ENTRY:
    case ER_DUP_KEY:
        return SQL_UNIQUE;
    case ER_OPTION_PREVENTS_STATEMENT:
    case ER_READ_ONLY_MODE:
    case ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION:
    case READ_ONLY_MYSQL:
        return SQL_READ_ONLY;
    case ER_DBACCESS_DENIED_ERROR:
    case ER_ACCESS_DENIED_ERROR:
    case ER_ACCESS_DENIED_NO_PASSWORD_ERROR:
    case ER_TABLEACCESS_DENIED_ERROR:
    case ER_COLUMNACCESS_DENIED_ERROR:
    case ER_SPECIFIC_ACCESS_DENIED_ERROR:
    case ER_PROCACCESS_DENIED_ERROR:
    case ER_KILL_DENIED_ERROR:
    case ER_HOST_NOT_PRIVILEGED:
    case ER_HOST_IS_BLOCKED:
    case ER_MUST_CHANGE_PASSWORD:
    case ER_MUST_CHANGE_PASSWORD_LOGIN:
    case ACCOUNT_LOCKED_MYSQL:
    case ACCOUNT_LOCKED_MARIADB:
        return SQL_DENIED;
    case ER_CON_COUNT_ERROR:
    case ER_TOO_MANY_USER_CONNECTIONS:
    case ER_USER_LIMIT_REACHED:
    case ER_DISK_FULL:
    case ER_RECORD_FILE_FULL:
    case ER_OUTOFMEMORY:
    case ER_OUT_OF_SORTMEMORY:
    case ER_OUT_OF_RESOURCES:
    case ER_CANT_CREATE_THREAD:
    case ER_MAX_PREPARED_STMT_COUNT_REACHED:
    case STATEMENT_TIMED_OUT_MARIADB:
    case STATEMENT_TIMED_OUT_MYSQL:
        return SQL_LIMIT;
    case ER_SERVER_SHUTDOWN:
    case ER_NORMAL_SHUTDOWN:
    case ER_UNKNOWN_COM_ERROR: /* Galera: this node has not joined yet, or is cut off */
        return SQL_NOT_READY;
    case ER_NEW_ABORTING_CONNECTION:
    case ER_ABORTING_CONNECTION:
    case ER_NET_READ_ERROR:
    case ER_NET_READ_INTERRUPTED:
    case ER_NET_ERROR_ON_WRITE:
    case ER_NET_WRITE_INTERRUPTED:
    case SESSION_KILLED_MARIADB:
    case SESSION_KILLED_MYSQL:
    case ALREADY_SHUT_DOWN:
        return SQL_LOST;
    default:
        break;
    }
    /* ProxySQL (9001), Vitess and others have numbers of their own for a server behind them that
     * has not replied. It may have executed the statement. */
    return is_refusal(code, state) ? SQL_WRONG : SQL_LOST; /* mutant: mysql-error-of-a-proxy */
}

/* Some numbers need their text. In the library's own numbers, a connection that is not usable any
 * more is told by several. */
static enum sql_trouble trouble_of(unsigned code, const char *state, const char *text)
{
    switch (code) {
    case ER_TRUNCATED_WRONG_VALUE:
        return strstr(text, "datetime value") ? SQL_SETTING : SQL_WRONG;
    case ER_SP_DOES_NOT_EXIST:
        return strstr(text, "MD5 ") ? SQL_SETTING : SQL_WRONG;
    case ER_BINLOG_STMT_MODE_AND_ROW_ENGINE:
    case ER_UPDATE_WITHOUT_KEY_IN_SAFE_MODE:
    case ER_TOO_BIG_SELECT:
        return SQL_SETTING;
    case CR_OUT_OF_MEMORY:
        return SQL_NO_MEMORY;
    case CR_SOCKET_CREATE_ERROR:
    case CR_CONNECTION_ERROR:
    case CR_CONN_HOST_ERROR:
    case CR_IPSOCK_ERROR:
    case CR_UNKNOWN_HOST:
    case CR_SERVER_HANDSHAKE_ERR:
        return SQL_NOT_READY;
    case CR_SSL_CONNECTION_ERROR:
        return strstr(text, "ertificate") || strstr(text, "alidation") ||
                       strstr(text, "does not support")
                   ? SQL_DENIED
                   : SQL_NOT_READY;
    case CR_AUTH_PLUGIN_CANNOT_LOAD:
    case CR_AUTH_PLUGIN_ERR:
    case CR_SECURE_AUTH:
        return SQL_DENIED;
    default:
        break;
    }
    if ((code >= CR_MIN_ERROR && code <= CR_MAX_ERROR) || IS_MARIADB_ERROR(code))
        return SQL_LOST;
    return trouble_of_server(code, state);
}

void hf__mysql_failure(struct sql_failure *failure, unsigned code, const char *state,
                       const char *text)
{
    *failure =
        (struct sql_failure){ .trouble = trouble_of(code, state, text), .native = (int)code };
    snprintf(failure->state, sizeof failure->state, "%s", state);
    snprintf(failure->text, sizeof failure->text, "%s", text);
    for (char *at = failure->text; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}
