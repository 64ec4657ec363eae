/* SPDX-License-Identifier: Apache-2.0 */
/* What libpq and PostgreSQL say when something fails, as one of few troubles. */
#include "engines/sql/driver/postgres.h"

#include <stdio.h>
#include <string.h>

/* By the SQLSTATE, or its class. The first match counts. */
static const struct {
    const char *prefix;
    enum sql_trouble trouble;
} troubles[] = {
    { "40001", SQL_AGAIN },     /* serialization failure */
    { "40P01", SQL_AGAIN },     /* deadlock */
    { "55P03", SQL_AGAIN },     /* lock time-out */
    { "57014", SQL_AGAIN },     /* statement time-out, or canceled from outside */
    { "26000", SQL_AGAIN },     /* a pooler has changed the session: no such prepared statement */
    { "42P05", SQL_AGAIN },     /* ... or there is one already */
    { "0A000", SQL_AGAIN },     /* a prepared statement that is older than the tables */
    { "42P01", SQL_NO_SCHEMA }, /* no such table */
    { "42703", SQL_NO_SCHEMA }, /* no such column */
    { "22001", SQL_UNFIT },     /* too long */
    { "22021", SQL_UNFIT },     /* no text in this encoding */
    { "22P05", SQL_UNFIT },     /* ... or none in the database's */
    { "22008", SQL_RANGE },     /* of a time */
    { "22003", SQL_RANGE },
    { "3F000", SQL_NO_SCHEMA },
    { "23505", SQL_UNIQUE },
    { "42P07", SQL_UNIQUE }, /* the table exists: another first user has made it */
    { "42710", SQL_UNIQUE },
    { "25006", SQL_READ_ONLY },
    { "28", SQL_DENIED },
    { "42501", SQL_DENIED },
    { "53", SQL_LIMIT },
    { "54", SQL_LIMIT },
    /* The server ends: in the middle of a commit, perhaps. */
    { "57P01", SQL_LOST },
    { "57P02", SQL_LOST },
    { "57P", SQL_NOT_READY },
    /* What a statement is refused for, of which nothing stays then. */
    { "0A", SQL_WRONG },
    { "2", SQL_WRONG },
    { "3", SQL_WRONG },
    { "42", SQL_WRONG },
    { "44", SQL_WRONG },
    { "55", SQL_WRONG },
    { "P0", SQL_WRONG },
};

static enum sql_trouble trouble_of(const char *state)
{
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++)
        if (strncmp(state, troubles[i].prefix, strlen(troubles[i].prefix)) == 0)
            return troubles[i].trouble;
    /* A pooler or a proxy (08P01) whose server has not replied, or an internal error: the
     * transaction may have been committed. */
    return SQL_LOST; /* mutant: postgres-error-of-a-proxy */
}

/* The words on one line. Where the library repeats the level ("FATAL:"), the rest is enough. */
static void copy_line(char *text, size_t size, const char *words)
{
    size_t used = 0;
    while (*words == '\n' || *words == ' ')
        words++;
    for (; *words && *words != '\n' && used + 1 < size; words++)
        text[used++] = *words == '\t' ? ' ' : *words;
    while (used > 0 && text[used - 1] == ' ')
        used--;
    text[used] = '\0';
}

void hf__pg_failure_of_result(struct sql_failure *failure, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    *failure = (struct sql_failure){ .trouble = state ? trouble_of(state) : SQL_LOST };
    snprintf(failure->state, sizeof failure->state, "%s", state ? state : "");
    copy_line(failure->text, sizeof failure->text, words ? words : PQresultErrorMessage(result));
    /* A server in FIPS mode: an internal error (XX000) to PostgreSQL. */
    if (strstr(failure->text, "MD5 hash"))
        failure->trouble = SQL_SETTING;
}

static bool is_state(const char *text)
{
    return strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && text[5] == ':' &&
           text[6] == ' ';
}

/* "... FATAL:  28P01: password authentication failed": libpq has no call for the state of a server
 * that refuses a connection, so it is asked for verbose words. */
static const char *find_state(const char *words)
{
    for (const char *at = strstr(words, ":  "); at; at = strstr(at + 1, ":  "))
        if (is_state(at + 3))
            return at + 3;
    return NULL;
}

/* 'connection to server at "HOST" (ADDRESS), port N failed: ...': the engine says where. */
static const char *skip_place(const char *words)
{
    static const char failed[] = " failed: ";
    const char *end = strncmp(words, "connection to ", 14) == 0 ? strstr(words, failed) : NULL;
    return end ? end + sizeof failed - 1 : words;
}

static bool mentions_any(const char *words, const char *const *phrases)
{
    for (; *phrases; phrases++)
        if (strstr(words, *phrases))
            return true;
    return false;
}

void hf__pg_failure_of_connection(struct sql_failure *failure, PGconn *pg)
{
    static const char *const refusals[] = { "certificate",    "does not support SSL", "no password",
                                            "authentication", "root certificate",     NULL };
    const char *words = PQerrorMessage(pg), *state = find_state(words);
    *failure = (struct sql_failure){ .trouble = SQL_NOT_READY };
    if (state) {
        memcpy(failure->state, state, 5);
        failure->trouble = trouble_of(failure->state);
        copy_line(failure->text, sizeof failure->text, state + 7);
    } else {
        bool other = strstr(words, "expected authentication request") != NULL;
        copy_line(failure->text, sizeof failure->text,
                  other ? "it is no PostgreSQL server" : skip_place(words));
        if (!other && mentions_any(words, refusals))
            failure->trouble = SQL_DENIED;
    }
    /* The first line alone says nothing of a server that has vanished. */
    if (!*failure->text)
        copy_line(failure->text, sizeof failure->text, "the connection was closed");
}
