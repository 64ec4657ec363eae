/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: their parameters, those about a claim, and the fields of answers. */
#include "base/error.h"
#include "base/testing.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sql_task *hf__task_new(struct sql *sql, const char *name, uint32_t name_length)
{
    struct hf_link *link = hf__list_pop(&sql->free_tasks);
    struct sql_task *task =
        link ? HF_CONTAINER(link, struct sql_task, link) : hf__calloc(1, sizeof *task);
    if (!task)
        return NULL;
    memset(task, 0, offsetof(struct sql_task, owner));
    task->sql = sql;
    hf__link_init(&task->link);
    hf__link_init(&task->request.link);
    hf__timer_init(&task->again, NULL);
    for (unsigned i = 0; i < SQL_PARAMETER_COUNT; i++)
        task->values[i].type = SQL_NUMBER;
    const struct sql_settings *settings = &sql->settings;
    task->values[SQL_P_NAME] = SQL_SOME_BYTES(name, name_length);
    task->values[SQL_P_NAME_TEXT] = SQL_SOME_TEXT(name, name_length);
    task->values[SQL_P_KEY] = task->values[SQL_P_OWNER] = task->values[SQL_P_INFO] =
        SQL_SOME_BYTES(NULL, 0);
    task->values[SQL_P_INFO_TEXT] = SQL_SOME_TEXT(NULL, 0);
    task->values[SQL_P_STALE_S] = SQL_A_NUMBER(settings->stale_s);
    task->values[SQL_P_SESSION] = SQL_SOME_TEXT(settings->session, strlen(settings->session));
    task->values[SQL_P_SCHEMA] = SQL_SOME_TEXT(settings->schema, strlen(settings->schema));
    task->values[SQL_P_PLACE_US] = SQL_A_NUMBER(SQL_PLACE_MS * INT64_C(1000));
    task->values[SQL_P_HAND_US] = SQL_A_NUMBER(SQL_HAND_MS * INT64_C(1000));
    return task;
}

void hf__task_free(struct sql_task *task)
{
    hf__timer_stop(task->sql->base.host->loop, &task->again);
    hf__link_remove(&task->link);
    free(task->memory);
    task->memory = NULL;
    hf__list_append(&task->sql->free_tasks, &task->link);
}

void hf__task_number(struct sql_task *task, enum sql_parameter parameter, int64_t number)
{
    task->values[parameter] = SQL_A_NUMBER(number);
}

void hf__task_bytes(struct sql_task *task, enum sql_parameter parameter, const void *bytes,
                    size_t length)
{
    task->values[parameter] = SQL_SOME_BYTES(bytes, length);
}

/* ---- about a claim ---- */

/* What a column of text takes: UTF-8, or of that only what is ASCII. */
static void make_text(char *text, bool ascii)
{
    char *to = text;
    for (size_t length; *text; text += length ? length : 1) {
        length = hf__utf8_length(text);
        if (length == 0 || (ascii && length > 1)) {
            *to++ = '?';
        } else {
            memmove(to, text, length);
            to += length;
        }
    }
    *to = '\0';
}

/* The last character may be cut in its middle. */
static void end_with_character(char *text, size_t length)
{
    while (length > 0 && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
        length--;
    if (length > 0 && hf__utf8_length(&text[length - 1]) == 0)
        text[length - 1] = '\0';
}

static void set_info(struct sql_task *task)
{
    size_t length = strlen(task->info);
    task->values[SQL_P_INFO] = SQL_SOME_BYTES(task->info, length);
    task->values[SQL_P_INFO_TEXT] = SQL_SOME_TEXT(task->info, length);
}

/* "PID HOST TEXT": read back by inspect.c. Bytes in our own tables, text in those of others. */
static void describe(const struct sql *sql, struct sql_task *task, const struct hf_op *op)
{
    const char *text = op->in.owner_text ? op->in.owner_text : sql->base.host->owner_text;
    const char *host = sql->base.host->host_name;
    int length = snprintf(task->info, sizeof task->info, "%ld %.100s %s", (long)getpid(),
                          host && *host ? host : "-", text ? text : "");
    if ((size_t)length >= sizeof task->info)
        end_with_character(task->info, sizeof task->info - 1);
    if (sql->settings.layout)
        make_text(task->info, sql->ascii_info);
    set_info(task);
}

bool hf__task_shorten_info(struct sql_task *task)
{
    struct sql *sql = task->sql;
    if (!sql->settings.layout || task->values[SQL_P_INFO_TEXT].length == 0)
        return false;
    if (sql->ascii_info)
        *task->info = '\0';
    else
        make_text(task->info, true);
    sql->ascii_info = true;
    set_info(task);
    return true;
}

struct sql_task *hf__task_about(struct sql *sql, struct hf_op *op)
{
    struct sql_task *task = hf__task_new(sql, op->in.name, op->in.name_length);
    if (!task) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a request");
        return NULL;
    }
    task->op = op;
    hf__owner_write(sql, op, task->owner);
    describe(sql, task, op);
    task->values[SQL_P_OWNER] = SQL_SOME_BYTES(task->owner, SQL_OWNER_SIZE);
    task->values[SQL_P_KIND] = SQL_A_NUMBER(hf__kind_of(op->in.mode));
    task->values[SQL_P_MODE] = SQL_A_NUMBER(op->in.mode);
    task->values[SQL_P_PERMITS] = SQL_A_NUMBER(op->in.permits ? op->in.permits : 1);
    task->values[SQL_P_LIMIT] = SQL_A_NUMBER(op->in.limit);
    task->values[SQL_P_LEASE_US] = SQL_A_NUMBER(hf__op_lease_ms(sql, op) * 1000);
    task->values[SQL_P_FIXED] = SQL_A_NUMBER(op->in.lease_ms > 0);
    task->values[SQL_P_ENQUEUE] = SQL_A_NUMBER(op->in.enqueue);
    task->values[SQL_P_BARGE] = SQL_A_NUMBER(op->in.mode == HF_MUTEX);
    task->values[SQL_P_KEEP] = SQL_A_NUMBER(op->in.keep);
    task->values[SQL_P_HELD] = SQL_A_NUMBER(hf__known_holds(&op->engine.known));
    return task;
}

/* ---- answers ---- */

int64_t hf__answer_number(const struct sql_answer *answer, unsigned row, unsigned column)
{
    const struct sql_value *field = hf__answer_field(answer, row, column);
    return field && field->type == SQL_NUMBER ? field->number : 0;
}

const struct sql_value *hf__answer_field(const struct sql_answer *answer, unsigned row,
                                         unsigned column)
{
    bool there = row < answer->row_count && column < answer->column_count;
    return there ? &answer->fields[row * answer->column_count + column] : NULL;
}
