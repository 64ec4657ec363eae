/* SPDX-License-Identifier: Apache-2.0 */
/* Holders and waiters: rows of one query, which is one moment. */
#include "base/wait_graph.h"
#include "engines/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum column {
    COLUMN_ROLE,
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_MODE,
    COLUMN_PERMITS,
    COLUMN_VALUE,
    COLUMN_TOKEN,
    COLUMN_OWNER,
    COLUMN_INFO,
    COLUMN_SINCE,
    COLUMN_LEFT,
    COLUMN_RANK,
    COLUMN_TAKEN
};

/* What an entry's strings are, until it has been copied. */
struct texts {
    char name[HF_NAME_MAX + 1], key[HF_OWNER_KEY_SIZE], info[SQL_INFO_SIZE];
    char thread[HF_OWNER_KEY_SIZE];
};

/* The last 8 bytes are the claim's number, which has the thread in front. */
static void name_owner(struct texts *texts, const unsigned char owner[SQL_OWNER_SIZE])
{
    uint64_t number = 0;
    for (unsigned i = SQL_OWNER_SIZE - 8; i < SQL_OWNER_SIZE; i++)
        number = number << 8 | owner[i];
    hf__owner_key(owner, texts->key);
    hf__thread_key(texts->thread, texts->key, number >> HF_CLAIM_BITS);
}

static size_t copy_bytes(char *text, size_t size, const struct sql_value *value)
{
    size_t length = value && value->bytes ? value->length : 0;
    length = length < size ? length : size - 1;
    if (length > 0)
        memcpy(text, value->bytes, length);
    text[length] = '\0';
    return length;
}

/* "PID HOST TEXT" */
static void read_info(hf_entry *entry, char *info)
{
    char *end, *host, *text;
    entry->host = entry->owner_text = "";
    entry->pid = strtol(info, &end, 10);
    host = *end == ' ' ? end + 1 : end;
    text = strchr(host, ' ');
    if (!text)
        return;
    *text = '\0';
    entry->host = strcmp(host, "-") == 0 ? "" : host;
    entry->owner_text = text + 1;
}

/* -1: not known, or without an end. A clock that was set back makes a time negative. */
static int64_t to_ms(int64_t us)
{
    return us == -1 || us == INT64_MAX ? -1 : us < 0 ? 0 : us / 1000;
}

static void read_object(hf_entry *entry, const struct sql_answer *answer, unsigned row)
{
    int64_t value = hf__answer_number(answer, row, COLUMN_VALUE);
    int64_t taken = hf__answer_number(answer, row, COLUMN_TAKEN);
    entry->value = (uint32_t)value;
    if (entry->kind == HF_KIND_SEMAPHORE) {
        entry->total = (uint32_t)value;
        entry->value = value > taken ? (uint32_t)(value - taken) : 0;
    }
    /* An object's row has begun at 0: the column is the clock. */
    if (entry->kind == HF_KIND_RATE)
        entry->value = hf__rate_left_ms(value - hf__answer_number(answer, row, COLUMN_SINCE));
    if (entry->kind != HF_KIND_MUTEX && entry->kind != HF_KIND_FAIR && entry->kind != HF_KIND_RW)
        return;
    entry->value = 0;
}

static void sql_add_entry(struct hf_oneshot *query, const struct sql_answer *answer, unsigned row)
{
    struct texts texts;
    hf_entry entry = { .size = sizeof entry,
                       .name = texts.name,
                       .owner_key = "",
                       .owner_text = "",
                       .host = "",
                       .since_ms = -1,
                       .lease_left_ms = -1 };
    entry.name_length =
        copy_bytes(texts.name, sizeof texts.name, hf__answer_field(answer, row, COLUMN_NAME));
    entry.kind = (hf_kind)hf__answer_number(answer, row, COLUMN_KIND);
    entry.role = (hf_role)hf__answer_number(answer, row, COLUMN_ROLE);
    entry.token = (uint64_t)hf__answer_number(answer, row, COLUMN_TOKEN);
    if (entry.role == HF_ROLE_OBJECT)
        read_object(&entry, answer, row);
    else {
        const struct sql_value *owner = hf__answer_field(answer, row, COLUMN_OWNER);
        copy_bytes(texts.info, sizeof texts.info, hf__answer_field(answer, row, COLUMN_INFO));
        read_info(&entry, texts.info);
        *texts.key = *texts.thread = '\0';
        if (owner && owner->bytes && owner->length == SQL_OWNER_SIZE)
            name_owner(&texts, (const unsigned char *)owner->bytes);
        entry.owner_key = texts.key;
        entry.thread = texts.thread;
        entry.mode = (hf_mode)hf__answer_number(answer, row, COLUMN_MODE);
        entry.permits = (uint32_t)hf__answer_number(answer, row, COLUMN_PERMITS);
        entry.since_ms = to_ms(hf__answer_number(answer, row, COLUMN_SINCE));
        if (entry.role == HF_ROLE_WAITER)
            entry.rank = (uint32_t)hf__answer_number(answer, row, COLUMN_RANK);
        else
            entry.lease_left_ms = to_ms(hf__answer_number(answer, row, COLUMN_LEFT));
    }
    hf__oneshot_entry(query, &entry);
}

/* A name whose row is only kept for its last token is not in use. */
static bool is_unused(const struct sql_answer *answer, unsigned row)
{
    hf_kind kind = (hf_kind)hf__answer_number(answer, row, COLUMN_KIND);
    bool is_full = hf__answer_number(answer, row, COLUMN_VALUE) <=
                   hf__answer_number(answer, row, COLUMN_SINCE);
    bool alone = row + 1 == answer->row_count ||
                 hf__answer_number(answer, row + 1, COLUMN_ROLE) == HF_ROLE_OBJECT;
    return hf__answer_number(answer, row, COLUMN_ROLE) == HF_ROLE_OBJECT && alone &&
           (kind == HF_KIND_FREE || kind == HF_KIND_MUTEX || kind == HF_KIND_FAIR ||
            kind == HF_KIND_RW || (kind == HF_KIND_RATE && is_full));
}

/* No lock has ever been taken here. */
static bool has_no_tables(const struct sql_answer *answer)
{
    const struct sql_failure *failure = answer->failure;
    return failure && failure->trouble == SQL_NO_SCHEMA &&
           (strcmp(failure->state, "42P01") == 0 || strcmp(failure->state, "42S02") == 0);
}

static void inspect_answered(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    struct hf_oneshot *query = task->query;
    bool definite;
    query->code = HF_OK;
    query->contacted = task->contacted;
    if (answer->failure && !has_no_tables(answer))
        query->code = hf__link_explain(sql, task, answer, &query->error, &definite);
    for (unsigned row = 0; row < answer->row_count && !answer->failure && !query->unwanted; row++)
        if (query->name || !is_unused(answer, row))
            sql_add_entry(query, answer, row);
    hf__task_free(task);
    hf__oneshot_done(&sql->base, query);
}

void hf__sql_inspect(struct hf_engine *engine, struct hf_oneshot *query)
{
    struct sql *sql = hf__sql_part(engine, query->name, query->name_length);
    struct sql_task *task =
        hf__task_new(sql, query->name ? query->name : "", query->name ? query->name_length : 0);
    if (!task) {
        hf__explain(&query->error, HF_ENOMEM, 0, "out of memory for a request");
        query->code = HF_ENOMEM;
        hf__oneshot_done(engine, query);
        return;
    }
    task->query = query;
    task->done = inspect_answered;
    task->request.reads = true;
    hf__link_run(sql, task, query->name ? SQL_INSPECT : SQL_INSPECT_ALL);
}
