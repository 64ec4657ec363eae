/* SPDX-License-Identifier: Apache-2.0 */
/* A script of several statements in one message to MySQL or MariaDB: the server executes it from
 * START TRANSACTION to COMMIT without waiting for the client in between. So a client that is
 * stopped in the middle keeps no row locked. Values are written as decimal numbers and as
 * hexadecimal digits, so none can be anything but a value. A KILL at the end of a script, which
 * notifies a waiter, is sent behind the COMMIT. */
#include "engines/sql/driver/mysql_session.h"

#include "base/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN "START TRANSACTION;"
#define END "COMMIT"
/* The longest number, or what is around the digits of bytes. */
#define VALUE_SIZE 32u

static size_t size_of(const struct sql_value *value)
{
    return VALUE_SIZE + (value->bytes ? 2 * (size_t)value->length : 0);
}

static size_t text_size(const struct mysql_job *job)
{
    size_t size = sizeof BEGIN + sizeof END;
    for (unsigned i = 0; i < job->script->count; i++) {
        const struct sql_statement *statement = &job->script->statements[i];
        size += strlen(statement->text) + 1;
        for (unsigned j = 0; j < statement->count; j++)
            size += size_of(&job->values[statement->numbers[j]]);
    }
    return size;
}

static char *put_value(char *to, const struct sql_value *value)
{
    static const char digits[] = "0123456789abcdef";
    if (value->type == SQL_NUMBER)
        return to + snprintf(to, VALUE_SIZE, "%" PRId64, value->number);
    if (!value->bytes || value->type == SQL_NULL)
        return stpcpy(to, "NULL");
    to = stpcpy(to, value->type == SQL_TEXT ? "_utf8mb4 x'" : "x'");
    for (uint32_t i = 0; i < value->length; i++) {
        *to++ = digits[(unsigned char)value->bytes[i] >> 4];
        *to++ = digits[(unsigned char)value->bytes[i] & 15];
    }
    return stpcpy(to, "'");
}

/* Question marks are nothing but placeholders in the scripts. */
static char *put_statement(char *to, const struct mysql_job *job, unsigned index)
{
    const struct sql_statement *statement = &job->script->statements[index];
    unsigned used = 0;
    for (const char *at = statement->text; *at; at++)
        if (*at == '?' && used < statement->count)
            to = put_value(to, &job->values[statement->numbers[used++]]);
        else
            *to++ = *at;
    *to++ = ';';
    return to;
}

static bool ends_with_kill(const struct sql_script *script)
{
    return !script->plain && strncmp(script->statements[script->count - 1].text, "KILL ", 5) == 0;
}

static char *write_text(const struct mysql_job *job, size_t *ret_length)
{
    char *text = hf__calloc(1, text_size(job));
    if (!text)
        return NULL;
    char *to = job->script->plain ? text : stpcpy(text, BEGIN);
    unsigned inside = job->script->count - ends_with_kill(job->script);
    for (unsigned i = 0; i < inside; i++)
        to = put_statement(to, job, i);
    if (job->script->plain)
        to--; /* the semicolon */
    else
        to = stpcpy(to, END);
    if (inside < job->script->count) {
        *to++ = ';';
        to = put_statement(to, job, inside);
    }
    *ret_length = (size_t)(to - text);
    return text;
}

/* ---- results ---- */

static bool fail(struct mysql_job *job, MYSQL *mysql)
{
    job->failed = true;
    hf__mysql_failure(&job->failure, mysql_errno(mysql), mysql_sqlstate(mysql), mysql_error(mysql));
    return false;
}

static bool fail_by_memory(struct mysql_job *job)
{
    job->failed = true;
    job->failure = (struct sql_failure){ .trouble = SQL_NO_MEMORY, .text = "out of memory" };
    return false;
}

static bool is_number(enum enum_field_types type)
{
    return type == MYSQL_TYPE_TINY || type == MYSQL_TYPE_SHORT || type == MYSQL_TYPE_INT24 ||
           type == MYSQL_TYPE_LONG || type == MYSQL_TYPE_LONGLONG;
}

/* Character set 63 is "binary". */
enum sql_type hf__mysql_type(const MYSQL_FIELD *field)
{
    if (is_number(field->type))
        return SQL_NUMBER;
    bool bytes = field->type == MYSQL_TYPE_VAR_STRING || field->type == MYSQL_TYPE_STRING ||
                 field->type == MYSQL_TYPE_BLOB;
    return bytes && field->charsetnr == 63 ? SQL_BYTES : SQL_TEXT;
}

static size_t bytes_of(MYSQL_RES *result)
{
    size_t size = 1;
    MYSQL_ROW row;
    while ((row = mysql_fetch_row(result))) {
        const unsigned long *lengths = mysql_fetch_lengths(result);
        for (unsigned i = 0; row && i < mysql_num_fields(result); i++)
            size += lengths[i];
    }
    mysql_data_seek(result, 0);
    return size;
}

static bool keep_rows(struct mysql_job *job, MYSQL_RES *result)
{
    size_t count = (size_t)mysql_num_rows(result);
    unsigned columns = mysql_num_fields(result);
    MYSQL_ROW row;
    job->fields = hf__calloc(count * columns + 1, sizeof *job->fields);
    job->bytes = hf__calloc(1, bytes_of(result));
    if (!job->fields || !job->bytes)
        return fail_by_memory(job);
    struct sql_value *field = job->fields;
    char *bytes = job->bytes;
    job->column_count = columns;
    while ((row = mysql_fetch_row(result))) {
        const unsigned long *lengths = mysql_fetch_lengths(result);
        for (unsigned i = 0; i < columns; i++, field++) {
            field->type = row[i] ? hf__mysql_type(mysql_fetch_field_direct(result, i)) : SQL_NULL;
            if (field->type == SQL_NUMBER)
                field->number = strtoll(row[i], NULL, 10);
            if (field->type == SQL_NUMBER || !row[i])
                continue;
            field->bytes = memcpy(bytes, row[i], lengths[i]);
            field->length = (uint32_t)lengths[i];
            bytes += lengths[i];
        }
        job->row_count++;
    }
    return true;
}

static void note_channels(struct mysql_session *session, MYSQL_RES *result)
{
    MYSQL_ROW row;
    if (strcmp(mysql_fetch_field_direct(result, 0)->name, "hf_notify") != 0)
        return;
    while ((row = mysql_fetch_row(result)))
        if (row[0])
            hf__mysql_notify_later(session, row[0], mysql_fetch_lengths(result)[0]);
}

/* `index` is the statement's in the script; START TRANSACTION is before the first. */
static bool take_result(struct mysql_session *session, struct mysql_job *job, unsigned index)
{
    bool wanted = index == job->script->answer;
    uint64_t affected = mysql_affected_rows(session->mysql);
    MYSQL_RES *result = mysql_store_result(session->mysql);
    bool fine = true;
    if (!result && mysql_errno(session->mysql))
        return fail(job, session->mysql);
    if (!result && wanted) {
        job->affected = affected;
        job->insert_id = mysql_insert_id(session->mysql);
    }
    if (result && wanted)
        fine = keep_rows(job, result);
    else if (result && mysql_num_rows(result) > 0)
        note_channels(session, result);
    if (result)
        mysql_free_result(result);
    return fine;
}

/* The server stops at the first statement that fails. */
static bool take_results(struct mysql_session *session, struct mysql_job *job)
{
    bool fine = true;
    int more;
    unsigned index = job->script->plain ? 0 : (unsigned)-1;
    do {
        fine = take_result(session, job, index++) && fine;
        more = mysql_next_result(session->mysql);
    } while (more == 0);
    /* "No more results" is also what a connection that breaks within one is called. */
    bool broke = more > 0 || mysql_errno(session->mysql); /* mutant: reply-ends-where-it-is-cut */
    /* Behind the commit is the KILL alone: that no session has the name is no matter. */
    bool committed = ends_with_kill(job->script) && index == job->script->count;
    return broke && !committed ? fail(job, session->mysql) : fine;
}

bool hf__mysql_execute_text(struct mysql_session *session, struct mysql_job *job)
{
    size_t length;
    char *text = write_text(job, &length);
    if (!text)
        return fail_by_memory(job);
    job->sent = true;
    HF_POINT("sql:message");
    bool fine = mysql_real_query(session->mysql, text, length) == 0;
    free(text);
    return fine ? take_results(session, job) : fail(job, session->mysql);
}
