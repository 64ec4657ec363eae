/* SPDX-License-Identifier: Apache-2.0 */
/* Names whose rows, or tables, another transaction keeps locked: that of an administrator, of a
 * backup, or of a client which was stopped. A request that waits for such a row holds up all that
 * is sent after it on the one connection. So the database lets it wait for SQL_ROW_WAIT_MS only,
 * and then one request at a time tries such a row, with a pause in which all other names have the
 * connection. */
#include "base/error.h"
#include "base/rand.h"
#include "engines/sql/sql.h"

#include <string.h>

/* From the time-out of one such request to the next one. */
#define PAUSE_MS (2 * SQL_ROW_WAIT_MS)
/* A request that is held back looks again then, if the row has come free meanwhile. */
#define LOOK_MS 50

static uint64_t *find(struct sql *sql, uint64_t hash)
{
    for (unsigned i = 0; i < sql->locked_row_count; i++)
        if (sql->locked_rows[i] == hash)
            return &sql->locked_rows[i];
    return NULL;
}

static uint64_t hash_of(const struct sql_task *task)
{
    const struct sql_value *name = &task->values[SQL_P_NAME];
    return name->length ? hf__hash(name->bytes, name->length) : 0;
}

void hf__row_lock_note(struct sql_task *task, const struct sql_failure *failure)
{
    struct sql *sql = task->sql;
    bool waited =
        failure && failure->trouble == SQL_AGAIN &&
        (strcmp(failure->state, "55P03") == 0 || failure->native == SQL_MYSQL_LOCK_WAIT_TIMEOUT);
    if (sql->row_probe == task)
        sql->row_probe = NULL;
    if (waited)
        sql->row_probe_at_ms = hf__sql_now(sql) + PAUSE_MS;
    if ((!waited && sql->locked_row_count == 0) || (failure && failure->trouble == SQL_LOST))
        return;
    uint64_t hash = hash_of(task), *found = find(sql, hash);
    if (found && !waited)
        *found = sql->locked_rows[--sql->locked_row_count];
    else if (!found && waited && sql->locked_row_count < SQL_LOCKED_ROWS)
        sql->locked_rows[sql->locked_row_count++] = hash;
}

int64_t hf__row_lock_pause_ms(struct sql_task *task)
{
    struct sql *sql = task->sql;
    if (sql->locked_row_count == 0 || !find(sql, hash_of(task)))
        return 0;
    if (sql->row_probe || hf__sql_now(sql) < sql->row_probe_at_ms)
        return LOOK_MS; /* mutant: row-lock-holds-up-other-names */
    sql->row_probe = task;
    return 0;
}

bool hf__row_lock_explain(struct sql *sql, const struct hf_op *op, hf_error **error)
{
    if (!op || !find(sql, hf__hash(op->in.name, op->in.name_length)))
        return false;
    hf__explain(error, HF_UNREACHABLE, 0,
                "\"%.200s\": another transaction keeps the row of this name, or its table, locked "
                "at %.200s; end that transaction",
                op->in.name, sql->settings.shown);
    return true;
}
