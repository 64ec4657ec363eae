/* SPDX-License-Identifier: Apache-2.0 */
/* Takes over what hf_detach has left. An attach without a reply may have been executed, and is
 * undone (release.c); until then, one that is asked again finds nothing under its key. */
#include "base/testing.h"
#include "engines/sql/sql.h"

#include <stdlib.h>
#include <string.h>

struct attaching {
    struct hf_link link;
    unsigned char owner[SQL_OWNER_SIZE], key[SQL_OWNER_SIZE];
};

static void note(struct sql *sql, const struct sql_task *task)
{
    struct attaching *attaching = hf__calloc(1, sizeof *attaching);
    if (!attaching)
        return; /* one that is asked again too early is lost then */
    memcpy(attaching->owner, task->owner, SQL_OWNER_SIZE);
    memcpy(attaching->key, task->key, SQL_OWNER_SIZE);
    hf__link_init(&attaching->link);
    hf__list_append(&sql->attaches, &attaching->link);
}

/* By another claim of this client. Those that came later wait for this one: else several that find
 * nothing would wait for each other. */
static bool is_earlier_out(const struct sql_task *task)
{
    HF_LIST_FOREACH (link, following, &task->sql->attaches) {
        const struct attaching *each = HF_CONTAINER(link, struct attaching, link);
        if (memcmp(each->owner, task->owner, SQL_OWNER_SIZE) == 0)
            return false;
        if (memcmp(each->key, task->key, SQL_OWNER_SIZE) == 0)
            return true;
    }
    return false;
}

void hf__attach_settled(struct sql *sql, const unsigned char owner[SQL_OWNER_SIZE])
{
    HF_LIST_FOREACH (link, following, &sql->attaches) {
        struct attaching *each = HF_CONTAINER(link, struct attaching, link);
        if (memcmp(each->owner, owner, SQL_OWNER_SIZE) == 0) {
            hf__link_remove(link);
            free(each);
        }
    }
}

static void attach_failed(struct sql_task *task, const struct sql_answer *answer)
{
    /* One that was sent stays noted until it is undone. */
    if (!task->request.sent || answer->failure->trouble != SQL_LOST)
        hf__attach_settled(task->sql, task->owner);
    hf__op_failed(task, answer);
}

static void not_there(struct sql_task *task)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    /* mutant: attach-waits-for-an-earlier-one */
    bool unknown = is_earlier_out(task);
    if (unknown && hf__link_repeat(task))
        return;
    hf__attach_settled(sql, task->owner);
    if (unknown)
        hf__op_explain(op, HF_UNREACHABLE, 0,
                       "\"%.200s\": an earlier hf_attach under this key has no reply yet",
                       op->in.name);
    else
        op->out.lost = true;
    op->engine.word[1] = 0;
    hf__task_free(task);
    hf__op_finish(sql, op, unknown ? HF_NO_ANSWER : HF_FAILED);
}

static void attach_answered(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    if (answer->failure) {
        attach_failed(task, answer);
        return;
    }
    int64_t left_ms = hf__answer_number(answer, 0, 2) / 1000;
    if (answer->row_count == 0) {
        not_there(task);
        return;
    }
    hf__attach_settled(sql, task->owner);
    op->engine.word[1] = SQL_HOLDS;
    op->out.token = (uint64_t)hf__answer_number(answer, 0, 1);
    op->in.mode = (hf_mode)hf__answer_number(answer, 0, 3);
    op->in.permits = (uint32_t)hf__answer_number(answer, 0, 4);
    op->in.lease_ms = left_ms > 0 ? left_ms : 1;
    hf__op_set_lease(sql, op, task->sent_at_ms, op->in.lease_ms);
    hf__task_free(task);
    hf__op_finish(sql, op, HF_GRANTED);
}

void hf__attach(struct sql *sql, struct sql_task *task)
{
    task->done = attach_answered;
    if (!hf__owner_read(task->op->in.attach_key, task->key)) {
        attach_answered(task, &(struct sql_answer){ .failure = NULL });
        return;
    }
    note(sql, task);
    hf__task_bytes(task, SQL_P_KEY, task->key, SQL_OWNER_SIZE);
    hf__link_run(sql, task, SQL_ATTACH);
}

void hf__attach_open(struct sql *sql)
{
    hf__link_init(&sql->attaches);
}

void hf__attach_close(struct sql *sql)
{
    struct hf_link *link;
    while ((link = hf__list_pop(&sql->attaches)))
        free(HF_CONTAINER(link, struct attaching, link));
}
