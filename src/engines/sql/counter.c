/* SPDX-License-Identifier: Apache-2.0 */
/* Receipts of counters: units that were taken have no owner, so only a receipt tells a request
 * without a reply whether they were. Once the reply is heard the receipt is deleted, which is asked
 * for until it is known. A receipt of a client that has ended ends after a day. It is no holder. */
#include "base/testing.h"
#include "engines/sql/sql.h"

#include <stdlib.h>
#include <string.h>

static void forget(struct sql_task *task)
{
    struct sql *sql = task->sql;
    hf__task_free(task);
    if (--sql->unsettled == 0 && sql->closed)
        hf__timer_start(sql->base.host->loop, &sql->closing, hf__sql_now(sql));
}

/* A database that refuses it keeps the receipt, which then ends by itself. After a lost connection
 * the back-off of the next one paces this, too. */
static void settled(struct sql_task *task, const struct sql_answer *answer)
{
    enum sql_trouble trouble = answer->failure ? answer->failure->trouble : SQL_FINE;
    bool lost = trouble == SQL_LOST || trouble == SQL_READ_ONLY || trouble == SQL_NOT_READY;
    bool later = trouble == SQL_AGAIN || trouble == SQL_LIMIT || trouble == SQL_NO_MEMORY;
    if (task->sql->closed)
        forget(task);
    else if (lost) /* mutant: receipt-stays-after-its-connection */
        hf__link_run(task->sql, task, SQL_COUNTER_SETTLE);
    else if (later)
        hf__link_pause(task, SQL_LOOK_MS);
    else
        forget(task);
}

/* Runs after the caller has been told, or has given the units back. */
static void settle_all(struct hf_task *turn)
{
    struct sql *sql = HF_CONTAINER(turn, struct sql, settle);
    struct hf_link *link;
    while ((link = hf__list_pop(&sql->settling)))
        hf__link_run(sql, HF_CONTAINER(link, struct sql_task, link), SQL_COUNTER_SETTLE);
}

void hf__counter_taken(struct sql *sql, struct hf_op *op)
{
    struct sql_task *task = hf__task_about(sql, op);
    char *name = task ? hf__calloc(1, (size_t)op->in.name_length + 1) : NULL;
    if (!name) {
        if (task)
            hf__task_free(task);
        return;
    }
    memcpy(name, op->in.name, op->in.name_length);
    task->memory = name;
    task->done = settled;
    hf__task_bytes(task, SQL_P_NAME, name, op->in.name_length);
    hf__list_append(&sql->settling, &task->link);
    sql->unsettled++;
    /* Behind the answer to this take, even if it waits for that to an earlier one. */
    hf__link_remove(&sql->settle.link); /* mutant: receipt-goes-before-its-reply-is-heard */
    hf__loop_defer(sql->base.host->loop, &sql->settle);
}

void hf__counter_keep(struct sql *sql, struct hf_op *op)
{
    HF_LIST_FOREACH (link, following, &sql->settling) {
        struct sql_task *task = HF_CONTAINER(link, struct sql_task, link);
        if (task->op == op)
            forget(task);
    }
}

void hf__counter_open(struct sql *sql)
{
    hf__link_init(&sql->settling);
    hf__task_init(&sql->settle, settle_all);
}
