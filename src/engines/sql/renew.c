/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals: one statement each, which never makes a row. So many as fall due together are on their
 * way together. */
#include "engines/sql/sql.h"

void hf__renewal_forget(struct sql *sql, struct hf_op *op)
{
    if (!(op->engine.word[1] & SQL_RENEWING))
        return;
    op->engine.word[1] &= ~(uint64_t)SQL_RENEWING;
    HF_LIST_FOREACH (link, following, &sql->renewals) {
        struct sql_task *task = HF_CONTAINER(link, struct sql_task, renewal_link);
        if (task->op == op)
            task->op = NULL;
    }
}

static void renewal_answered(struct sql_task *task, const struct sql_answer *answer)
{
    static const char refusal[] = "its lease could not be renewed: the database refuses it";
    struct hf_op *op = task->op;
    int64_t asked_at_ms = task->sent_at_ms;
    enum hf_lease_answer word = hf__answer_changed(answer) ? HF_LEASE_RENEWED : HF_LEASE_GONE;
    if (answer->failure) {
        enum sql_trouble trouble = answer->failure->trouble;
        bool refused = trouble == SQL_DENIED || trouble == SQL_LIMIT || trouble == SQL_WRONG ||
                       trouble == SQL_SETTING;
        word = refused ? HF_LEASE_REFUSED : HF_LEASE_NO_ANSWER;
    }
    hf__link_remove(&task->renewal_link);
    hf__task_free(task);
    if (!op)
        return;
    op->engine.word[1] &= ~(uint64_t)SQL_RENEWING;
    hf__lease_answer(&op->engine.own_lease, asked_at_ms, word, 0,
                     word == HF_LEASE_REFUSED ? refusal : NULL);
}

void hf__sql_renew(struct hf_engine *engine, struct hf_lease *lease)
{
    struct sql *sql = (struct sql *)engine;
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    if (op->engine.word[1] & SQL_RENEWING)
        return;
    struct sql_task *task = hf__task_about(sql, op);
    if (!task) {
        hf__lease_answer(lease, hf__sql_now(sql), HF_LEASE_NO_ANSWER, 0, NULL);
        return;
    }
    bool mutex = op->in.mode == HF_MUTEX || op->in.mode == HF_FAIR;
    op->engine.word[1] |= SQL_RENEWING;
    hf__task_number(task, SQL_P_LEASE_US, lease->lease_ms * 1000);
    hf__link_init(&task->renewal_link);
    hf__list_append(&sql->renewals, &task->renewal_link);
    task->done = renewal_answered;
    /* hf__op_explain may have been called about memory only. */
    hf__link_run(sql, task, mutex ? SQL_MUTEX_RENEW : SQL_SHARED_RENEW);
}
