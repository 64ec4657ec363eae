/* SPDX-License-Identifier: Apache-2.0 */
/* Releases: a lock, a place in a queue, or what an attempt without a reply may have taken. Each
 * names this claim's owner, so one that is repeated, or comes late, finds nothing of its own. */
#include "engines/sql/sql.h"

static void gone(struct sql_task *task, bool lost)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    op->out.lost = lost;
    if (op->in.keep == HF_KEEP_NOTHING || lost)
        op->engine.word[1] = 0;
    else
        op->engine.word[1] &= SQL_HOLDS | SQL_RENEWING;
    hf__task_free(task);
    hf__op_finish(sql, op, HF_GONE);
}

static void released(struct sql_task *task, const struct sql_answer *answer)
{
    uint64_t known = task->op->engine.word[1];
    if (answer->failure) {
        hf__op_failed(task, answer);
        return;
    }
    /* An earlier release of the same claim may have done it. */
    bool missing = answer->row_count == 0;
    gone(task, missing && (known & SQL_HOLDS) && !(known & SQL_UNSURE));
}

static void pass_answered(struct sql_task *task, const struct sql_answer *answer)
{
    task->done = released;
    if (answer->failure || answer->row_count > 0)
        released(task, answer);
    else
        hf__link_run(task->sql, task, SQL_MUTEX_HAND_OVER);
}

static void fast_release_answered(struct sql_task *task, const struct sql_answer *answer)
{
    bool queues = !task->sql->settings.layout;
    if (answer->failure) {
        hf__op_failed(task, answer);
    } else if (hf__answer_changed(answer)) {
        gone(task, false);
    } else {
        task->done = queues ? pass_answered : released;
        hf__link_run(task->sql, task, queues ? SQL_MUTEX_PASS : SQL_MUTEX_HAND_OVER);
    }
}

/*  free, as far as this owner knows ------> one statement --no row--+
 *  others wait ----------------------------> to the first of them <-+ --no row--> the full script
 *  not known to be held, or a place to leave ------------------------------------^             */
static void release_mutex(struct sql *sql, struct sql_task *task)
{
    uint64_t known = task->op->engine.word[1];
    bool holds = (known & (SQL_HOLDS | SQL_UNSURE)) == SQL_HOLDS;
    if (holds && !(known & SQL_WAITED)) {
        task->done = fast_release_answered;
        hf__link_run(sql, task, SQL_MUTEX_RELEASE);
    } else if (holds && !sql->settings.layout) {
        task->done = pass_answered;
        hf__link_run(sql, task, SQL_MUTEX_PASS);
    } else {
        task->done = released;
        hf__link_run(sql, task, SQL_MUTEX_HAND_OVER);
    }
}

/* A take of a counter leaves a receipt that says whether it was executed; a latch takes nothing. */
static void left(struct sql_task *task, const struct sql_answer *answer)
{
    if (answer->failure)
        hf__op_failed(task, answer);
    else
        gone(task, false);
}

static void detached_again(struct sql_task *task, const struct sql_answer *answer)
{
    if (!answer->failure)
        hf__attach_settled(task->sql, task->owner);
    left(task, answer);
}

/* No caller has heard that it was taken over, so its first key opens it again. */
static void undo_attach(struct sql *sql, struct sql_task *task)
{
    task->done = detached_again;
    if (!hf__owner_read(task->op->in.attach_key, task->key)) {
        gone(task, false);
        return;
    }
    hf__task_bytes(task, SQL_P_KEY, task->owner, SQL_OWNER_SIZE);
    hf__task_bytes(task, SQL_P_OWNER, task->key, SQL_OWNER_SIZE);
    hf__link_run(sql, task, SQL_ATTACH);
}

static void run_release(struct sql *sql, struct sql_task *task)
{
    const struct hf_op *op = task->op;
    task->done = released;
    if (op->in.mode == HF_MUTEX || op->in.mode == HF_FAIR) {
        release_mutex(sql, task);
    } else if (op->in.mode == HF_COUNTER) {
        task->done = left;
        hf__link_run(sql, task, SQL_COUNTER_RETURN);
    } else if (op->in.mode == HF_LATCH) {
        task->done = left;
        hf__link_run(sql, task, SQL_LEAVE_QUEUE);
    } else {
        /* Where an upgrade had no reply, its token is not known. */
        bool known = op->out.token && !(op->engine.word[1] & SQL_UNSURE);
        hf__task_number(task, SQL_P_VALUE, known ? (int64_t)op->out.token : INT64_MAX);
        hf__link_run(sql, task, SQL_SHARED_RELEASE);
    }
}

void hf__sql_release(struct hf_engine *engine, struct hf_op *op)
{
    struct sql *sql = (struct sql *)engine;
    hf__waiting_remove(sql, op);
    hf__renewal_forget(sql, op);
    if (op->in.mode == HF_COUNTER)
        hf__counter_keep(sql, op);
    bool is_there = op->engine.word[1] & (SQL_HOLDS | SQL_UNSURE | SQL_QUEUED);
    /* After a lease nothing of an attempt without a reply is left. */
    if (!op->out.rests_on && op->in.mode != HF_COUNTER && op->in.mode != HF_LATCH &&
        !op->in.attach_key)
        hf__op_set_lease(sql, op, hf__sql_now(sql), hf__op_lease_ms(sql, op) + SQL_PLACE_MS);
    struct sql_task *task = is_there ? hf__task_about(sql, op) : NULL;
    if (!task)
        hf__op_finish(sql, op, is_there ? HF_NO_ANSWER : HF_GONE);
    else if (op->in.attach_key)
        undo_attach(sql, task);
    else
        run_release(sql, task);
}
