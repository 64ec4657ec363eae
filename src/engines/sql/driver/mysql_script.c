/* SPDX-License-Identifier: Apache-2.0 */
/* Executing a script at MySQL or MariaDB: prepared statements, their parameters and rows. */
#include "engines/sql/driver/mysql_session.h"

#include "base/testing.h"

#include <errmsg.h>
#include <mysqld_error.h>

#define PARAMETERS_MAX 32u
#define COLUMNS_MAX 32u
/* No answer is larger: a listing has a limit of its own. */
#define ANSWER_MAX (16u << 20)

/* ---- jobs ---- */

static unsigned count_values(const struct sql_script *script)
{
    unsigned count = 0;
    for (unsigned i = 0; i < script->count; i++)
        for (unsigned j = 0; j < script->statements[i].count; j++)
            if (script->statements[i].numbers[j] >= count)
                count = script->statements[i].numbers[j] + 1u;
    return count;
}

static bool has_bytes(const struct sql_value *value)
{
    return (value->type == SQL_BYTES || value->type == SQL_TEXT) && value->bytes;
}

/* Which of the values a script uses; others need not be set. */
static void mark_used(const struct sql_script *script, bool used[static UINT8_MAX + 1])
{
    for (unsigned i = 0; i < script->count; i++)
        for (unsigned j = 0; j < script->statements[i].count; j++)
            used[script->statements[i].numbers[j]] = true;
}

struct mysql_job *hf__mysql_job_new(struct sql_request *request)
{
    bool used[UINT8_MAX + 1] = { false };
    unsigned count = count_values(request->script);
    size_t size = sizeof(struct mysql_job) + count * sizeof(struct sql_value);
    mark_used(request->script, used);
    for (unsigned i = 0; i < count; i++)
        if (used[i] && has_bytes(&request->values[i]))
            size += request->values[i].length;
    struct mysql_job *job = hf__calloc(1, size);
    if (!job)
        return NULL;
    hf__link_init(&job->link);
    job->request = request;
    job->script = request->script;
    char *bytes = (char *)&job->values[count];
    for (unsigned i = 0; i < count; i++) {
        if (!used[i])
            continue;
        job->values[i] = request->values[i];
        if (!has_bytes(&job->values[i]))
            continue;
        job->values[i].bytes = memcpy(bytes, request->values[i].bytes, job->values[i].length);
        bytes += job->values[i].length;
    }
    return job;
}

void hf__mysql_job_free(struct mysql_job *job)
{
    free(job->fields);
    free(job->bytes);
    free(job);
}

/* ---- failures ---- */

static bool fail_by_statement(struct mysql_job *job, MYSQL_STMT *statement)
{
    job->failed = true;
    hf__mysql_failure(&job->failure, mysql_stmt_errno(statement), mysql_stmt_sqlstate(statement),
                      mysql_stmt_error(statement));
    return false;
}

static bool fail_by_connection(struct mysql_job *job, MYSQL *mysql)
{
    job->failed = true;
    hf__mysql_failure(&job->failure, mysql_errno(mysql), mysql_sqlstate(mysql), mysql_error(mysql));
    return false;
}

static bool fail_by_words(struct mysql_job *job, enum sql_trouble trouble, const char *words)
{
    job->failed = true;
    job->failure = (struct sql_failure){ .trouble = trouble };
    memcpy(job->failure.text, words, strlen(words) + 1);
    return false;
}

static bool fail_by_memory(struct mysql_job *job)
{
    return fail_by_words(job, SQL_NO_MEMORY, "out of memory for an answer");
}

/* ---- rows ---- */

struct columns {
    unsigned count;
    MYSQL_BIND binds[COLUMNS_MAX];
    long long numbers[COLUMNS_MAX];
    unsigned long lengths[COLUMNS_MAX];
    my_bool nulls[COLUMNS_MAX];
    enum sql_type types[COLUMNS_MAX];
};

static void bind_columns(struct columns *columns, char *bytes, MYSQL_RES *described)
{
    memset(columns->binds, 0, sizeof columns->binds);
    for (unsigned i = 0; i < columns->count; i++) {
        MYSQL_BIND *bind = &columns->binds[i];
        bind->is_null = &columns->nulls[i];
        bind->length = &columns->lengths[i];
        if (columns->types[i] == SQL_NUMBER) {
            bind->buffer_type = MYSQL_TYPE_LONGLONG;
            bind->buffer = &columns->numbers[i];
            continue;
        }
        bind->buffer_type = columns->types[i] == SQL_BYTES ? MYSQL_TYPE_BLOB : MYSQL_TYPE_STRING;
        bind->buffer = bytes;
        bind->buffer_length = mysql_fetch_field_direct(described, i)->max_length;
        bytes += bind->buffer_length;
    }
}

static bool fetch_rows(struct mysql_job *job, MYSQL_STMT *statement, MYSQL_RES *described)
{
    struct columns columns;
    /* Says how long the longest of each column is; what a row needs. */
    size_t size = 0;
    columns.count = mysql_num_fields(described);
    for (unsigned i = 0; i < columns.count && i < COLUMNS_MAX; i++) {
        const MYSQL_FIELD *field = mysql_fetch_field_direct(described, i);
        columns.types[i] = hf__mysql_type(field);
        columns.lengths[i] = 0;
        if (columns.types[i] != SQL_NUMBER)
            size += field->max_length;
    }
    size_t row_size = size;
    size_t count = (size_t)mysql_stmt_num_rows(statement);
    if (columns.count > COLUMNS_MAX || count * (row_size + sizeof *job->fields) > ANSWER_MAX)
        return fail_by_words(job, SQL_LIMIT, "the answer is too large");
    job->column_count = columns.count;
    job->fields = hf__calloc(count * columns.count + 1, sizeof *job->fields);
    job->bytes = hf__calloc(1, count * row_size + 1);
    if (!job->fields || !job->bytes)
        return fail_by_memory(job);
    for (; job->row_count < count; job->row_count++) {
        bind_columns(&columns, job->bytes + job->row_count * row_size, described);
        if (mysql_stmt_bind_result(statement, columns.binds) || mysql_stmt_fetch(statement))
            return fail_by_statement(job, statement);
        struct sql_value *fields = &job->fields[job->row_count * columns.count];
        for (unsigned i = 0; i < columns.count; i++) {
            if (columns.nulls[i])
                continue; /* SQL_NULL is what zeroed memory has */
            fields[i].type = columns.types[i];
            if (fields[i].type == SQL_NUMBER) {
                fields[i].number = columns.numbers[i];
                continue;
            }
            fields[i].bytes = columns.binds[i].buffer;
            fields[i].length = (uint32_t)columns.lengths[i];
        }
    }
    return true;
}

/* ---- statements ---- */

static MYSQL_STMT *prepare(struct mysql_session *session, struct mysql_job *job, unsigned index)
{
    MYSQL_STMT ***of_script = &session->prepared[job->script->number];
    if (!*of_script)
        *of_script = hf__calloc(SQL_STATEMENTS_MAX, sizeof **of_script);
    if (!*of_script) {
        fail_by_memory(job);
        return NULL;
    }
    if ((*of_script)[index])
        return (*of_script)[index];
    const char *text = job->script->statements[index].text;
    my_bool yes = 1;
    MYSQL_STMT *statement = mysql_stmt_init(session->mysql);
    if (!statement) {
        fail_by_memory(job);
        return NULL;
    }
    mysql_stmt_attr_set(statement, STMT_ATTR_UPDATE_MAX_LENGTH, &yes);
    if (mysql_stmt_prepare(statement, text, strlen(text))) {
        fail_by_statement(job, statement);
        mysql_stmt_close(statement);
        return NULL;
    }
    return (*of_script)[index] = statement;
}

static bool execute_prepared(struct mysql_session *session, struct mysql_job *job, unsigned index)
{
    MYSQL_BIND binds[PARAMETERS_MAX];
    unsigned long lengths[PARAMETERS_MAX];
    const struct sql_statement *asked = &job->script->statements[index];
    MYSQL_STMT *statement = prepare(session, job, index);
    if (!statement)
        return false;
    for (unsigned i = 0; i < asked->count; i++) {
        const struct sql_value *value = &job->values[asked->numbers[i]];
        binds[i] = (MYSQL_BIND){ .buffer_type = MYSQL_TYPE_NULL };
        if (value->type == SQL_NUMBER) {
            binds[i].buffer_type = MYSQL_TYPE_LONGLONG;
            binds[i].buffer = (void *)(uintptr_t)&value->number;
        } else if (has_bytes(value)) {
            binds[i].buffer_type = value->type == SQL_BYTES ? MYSQL_TYPE_BLOB : MYSQL_TYPE_STRING;
            binds[i].buffer = (void *)(uintptr_t)value->bytes;
            binds[i].buffer_length = lengths[i] = value->length;
            binds[i].length = &lengths[i];
        }
    }
    if (asked->count > 0 && mysql_stmt_bind_param(statement, binds))
        return fail_by_statement(job, statement);
    job->sent = true;
    HF_POINT("sql:message");
    /* KILL for a session that there is not has done what it is for. */
    if (mysql_stmt_execute(statement))
        return mysql_stmt_errno(statement) == ER_NO_SUCH_THREAD ||
               fail_by_statement(job, statement);
    if (mysql_stmt_field_count(statement) > 0) {
        if (mysql_stmt_store_result(statement))
            return fail_by_statement(job, statement);
        MYSQL_RES *described = mysql_stmt_result_metadata(statement);
        bool taken = described ? fetch_rows(job, statement, described) : fail_by_memory(job);
        if (described)
            mysql_free_result(described);
        mysql_stmt_free_result(statement);
        return taken;
    }
    job->affected = mysql_stmt_affected_rows(statement);
    job->insert_id = mysql_stmt_insert_id(statement);
    return true;
}

static bool execute_text(struct mysql_session *session, struct mysql_job *job, const char *text)
{
    HF_POINT("sql:message");
    return mysql_query(session->mysql, text) == 0 || fail_by_connection(job, session->mysql);
}

/* Some statements cannot be prepared. They have no parameters and no rows. */
static bool execute(struct mysql_session *session, struct mysql_job *job, unsigned index)
{
    const struct sql_statement *statement = &job->script->statements[index];
    if (execute_prepared(session, job, index))
        return true;
    if (job->failure.native != ER_UNSUPPORTED_PS || statement->count > 0)
        return false;
    job->failed = false;
    job->failure = (struct sql_failure){ .trouble = SQL_FINE };
    job->sent = true;
    return execute_text(session, job, statement->text);
}

bool hf__mysql_execute(struct mysql_session *session, struct mysql_job *job)
{
    session->channel_count = 0;
    bool prepared = job->script->count == 1 && !job->script->plain;
    if (prepared ? execute(session, job, 0) : hf__mysql_execute_text(session, job)) {
        hf__mysql_notify(session);
        return true;
    }
    /* What the library has not read for want of memory would be taken for the next reply. */
    if (job->sent && job->failure.native == CR_OUT_OF_MEMORY)
        job->failure.trouble = SQL_LOST;
    if (job->failure.trouble == SQL_LOST)
        return false;
    struct sql_failure failure = job->failure;
    if (job->script->count > 1 && !execute_text(session, job, "ROLLBACK"))
        return false;
    job->failure = failure;
    return true;
}
