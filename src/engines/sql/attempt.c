/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts: a lock, a permit, units of a counter, an open latch.
 *
 *   a mutex:   one statement --no row--> a place behind its owner --no row--> a full look
 *              (where it was last found held, the place is asked for first)
 *   others:    one script, which decides, queues and says why
 *
 * Every script answers with one row: verdict, token, microseconds that the obstacle has left, and
 * the place in the queue. */
#include "base/error.h"
#include "base/rand.h"
#include "engines/common/other_kind.h"
#include "engines/sql/sql.h"

/* No database's clock shows an earlier moment than 2001, in microseconds. */
#define TOKEN_LEAST UINT64_C(1000000000000000)

enum verdict {
    VERDICT_REFUSED = 0,
    VERDICT_GRANTED = 1,
    VERDICT_NO_SEMAPHORE = 3,
    VERDICT_OTHER_LIMIT = 4,
    VERDICT_LOST = 5,
    VERDICT_TOO_MANY = 6
    /* From SQL_OTHER_KIND on: it is in use as that kind. */
};

static void explain_verdict(const struct sql_task *task, int64_t verdict,
                            const struct sql_answer *answer)
{
    struct hf_op *op = task->op;
    long long total = (long long)hf__answer_number(answer, 0, 4);
    if (verdict == VERDICT_NO_SEMAPHORE)
        hf__op_explain(op, HF_EKIND, 0,
                       "\"%.200s\" does not exist; set how many permits it has, or name a limit",
                       op->in.name);
    else if (verdict == VERDICT_OTHER_LIMIT)
        hf__op_explain(op, HF_EKIND, 0, "\"%.200s\" has %lld permit%s, not %u", op->in.name, total,
                       hf__plural(total), op->in.limit);
    else if (verdict == VERDICT_TOO_MANY)
        hf__op_explain(op, HF_EINVAL, 0,
                       "\"%.200s\" has %lld permit%s: %u can never be had; ask for fewer",
                       op->in.name, total, hf__plural(total), op->in.permits);
    else
        hf__refuse_other_kind(&op->out.error, op->in.name, (hf_kind)(verdict - SQL_OTHER_KIND),
                              hf__kind_of(op->in.mode));
}

static void verdict_came(struct sql_task *task, const struct sql_answer *answer);
static enum sql_script_number script_of(const struct sql *sql, const struct hf_op *op);

/* No row: its lease is over already, so it is asked for again. */
static void token_raised(struct sql_task *task, const struct sql_answer *answer)
{
    task->done = verdict_came;
    if (answer->failure || answer->row_count > 0) {
        verdict_came(task, answer);
        return;
    }
    task->asked_at_ms = 0;
    task->raised = false;
    hf__link_run(task->sql, task, script_of(task->sql, task->op));
}

/* A waiter is handed its lock by a client that knows nothing of its floor. And a statement reads
 * the clock before it waits for the row. If the row is forgotten meanwhile, it inserts a smaller
 * token. */
static bool token_may_be_too_low(const struct sql_task *task, int64_t token, int64_t asked_at_ms)
{
    const struct sql *sql = task->sql;
    hf_mode mode = task->op->in.mode;
    uint64_t floor = sql->base.host->token_floor;
    bool unheard = (task->op->engine.word[1] & SQL_UNSURE) && !task->asked_at_ms;
    bool slow = hf__sql_now(sql) - asked_at_ms >= SQL_SLOW_GRANT_MS;
    if (mode == HF_COUNTER || mode == HF_LATCH || task->raised)
        return false;
    /* mutant: token-of-a-database-is-below-the-floor */
    if (floor > 0 && token <= (int64_t)floor)
        return true;
    /* mutant: slow-grant-of-a-database-keeps-its-token */
    return !sql->settings.layout && (unheard || slow);
}

/* A proxy that leaves out a reply makes the next request hear another one's. Here only a reply is
 * seen that has no token; one to the same script for another name looks right. */
static bool is_foreign(struct sql_task *task, int64_t token)
{
    hf_mode mode = task->op->in.mode;
    if (token > 0 || mode == HF_COUNTER || mode == HF_LATCH)
        return false;
    hf__link_misheard(task->sql);
    task->op->engine.word[1] |= SQL_UNSURE;
    hf__op_explain(
        task->op, HF_UNREACHABLE, 0,
        "%s at %.100s: a reply is not that to its request; is a proxy in between broken?",
        task->sql->settings.driver->name, task->sql->settings.shown);
    return true;
}

static void granted(struct sql_task *task, int64_t token)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    if (is_foreign(task, token)) {
        hf__task_free(task);
        hf__op_finish(sql, op, HF_NO_ANSWER);
        return;
    }
    bool raised = op->engine.word[1] & SQL_HOLDS;
    int64_t asked_at_ms = task->asked_at_ms ? task->asked_at_ms : task->sent_at_ms;
    if (token_may_be_too_low(task, token, asked_at_ms)) {
        int64_t floor = (int64_t)sql->base.host->token_floor;
        /* The lease is that of the grant. */
        task->asked_at_ms = asked_at_ms;
        task->raised = true;
        op->engine.word[1] |= SQL_UNSURE;
        hf__task_number(task, SQL_P_VALUE, floor > token ? floor : token);
        task->done = token_raised;
        hf__link_run(sql, task, SQL_RAISE_TOKEN);
        return;
    }
    op->engine.word[1] = SQL_HOLDS | (op->engine.word[1] & (SQL_RENEWING | SQL_WAITED));
    if (op->in.mode != HF_COUNTER && op->in.mode != HF_LATCH) {
        op->out.token = (uint64_t)token;
        /* A raise leaves a lease of its own as it is. */
        if (!raised || op->in.lease_ms == 0)
            hf__op_set_lease(sql, op, asked_at_ms, hf__op_lease_ms(sql, op));
        else
            op->out.rests_on = &op->engine.own_lease;
    }
    if (op->in.mode == HF_LATCH || op->in.mode == HF_COUNTER)
        op->out.rests_on = NULL;
    hf__task_free(task);
    hf__op_finish(sql, op, HF_GRANTED);
    /* After the answer, which may be a release. */
    if (op->in.mode == HF_COUNTER)
        hf__counter_taken(sql, op);
}

static void refused(struct sql_task *task, int64_t left_us, int64_t rank)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    if (!(op->engine.word[1] & SQL_HOLDS))
        op->out.rests_on = NULL;
    if (op->in.enqueue)
        op->engine.word[1] |= SQL_QUEUED | SQL_WAITED;
    op->engine.word[1] &= ~(uint64_t)SQL_UNSURE;
    op->out.retry_at_ms = hf__waiting_retry_at(sql, op, rank, left_us);
    hf__task_free(task);
    hf__op_finish(sql, op, HF_REFUSED);
}

/* ---- what cannot be leaves no place in a queue ---- */

static void left_queue(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    if (answer->failure) {
        hf__op_failed(task, answer);
        return;
    }
    op->engine.word[1] &= SQL_HOLDS | SQL_RENEWING;
    hf__task_free(task);
    hf__op_finish(sql, op, HF_FAILED);
}

static void cannot_be(struct sql_task *task, int64_t verdict, const struct sql_answer *answer)
{
    struct hf_op *op = task->op;
    if (verdict == VERDICT_LOST)
        op->out.lost = true;
    else
        explain_verdict(task, verdict, answer);
    task->done = left_queue;
    if (op->engine.word[1] & (SQL_QUEUED | SQL_UNSURE))
        hf__link_run(task->sql, task, SQL_LEAVE_QUEUE);
    else
        left_queue(task, &(struct sql_answer){ .failure = NULL });
}

/* ---- failures ---- */

/* A place that may not be deleted ends by itself. */
static void left_after_failure(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    bool definite = true;
    if (answer->failure)
        hf__link_explain(sql, task, answer, &op->out.error, &definite);
    if (definite) /* mutant: place-hides-why-a-wait-has-failed */
        op->engine.word[1] &= SQL_HOLDS | SQL_RENEWING;
    hf__task_free(task);
    hf__op_finish(sql, op, definite ? HF_FAILED : HF_NO_ANSWER);
}

/* What has a place, and can never have the lock, leaves the place first. */
static void attempt_failed(struct sql_task *task, const struct sql_answer *answer)
{
    bool placed = (task->op->engine.word[1] & (SQL_QUEUED | SQL_UNSURE)) == SQL_QUEUED, definite;
    enum sql_trouble trouble = answer->failure->trouble;
    if (!placed || (trouble != SQL_DENIED && trouble != SQL_WRONG)) {
        hf__op_failed(task, answer);
        return;
    }
    hf__link_explain(task->sql, task, answer, &task->op->out.error, &definite);
    task->done = left_after_failure;
    hf__link_run(task->sql, task, SQL_LEAVE_QUEUE);
}

/* ---- where a mutex was last found held, a place is asked for at once ---- */

static uint64_t contended_bit(const struct hf_op *op)
{
    return UINT64_C(1) << (hf__hash(op->in.name, op->in.name_length) & 63);
}

static bool seems_held(const struct sql *sql, const struct hf_op *op)
{
    bool known = op->engine.word[1] & (SQL_HOLDS | SQL_UNSURE | SQL_QUEUED);
    return !known && !sql->settings.layout && (sql->contended & contended_bit(op));
}

/* ---- answers ---- */

/* No row: it has become free, or is another kind of lock. */
static void place_answered(struct sql_task *task, const struct sql_answer *answer)
{
    task->done = verdict_came;
    if (answer->failure || answer->row_count > 0)
        verdict_came(task, answer);
    else
        hf__link_run(task->sql, task, SQL_MUTEX_QUEUE);
}

/* A trigger on the table puts another number, or 0, in the place of the token. The full look finds
 * the lock to be this owner's, and has its token. The lease is that of the grant. */
static void read_token(struct sql_task *task)
{
    task->op->engine.word[1] |= SQL_UNSURE;
    task->asked_at_ms = task->sent_at_ms;
    task->done = verdict_came;
    hf__link_run(task->sql, task, SQL_MUTEX_QUEUE);
}

static void first_try_answered(struct sql_task *task, const struct sql_answer *answer)
{
    /* The tables of other programs have no queue. */
    bool queues = !task->sql->settings.layout;
    if (answer->failure) {
        hf__op_failed(task, answer);
    } else if (answer->row_count > 0) {
        /* It has two columns: a row of another script is another request's. */
        bool right = answer->column_count == 2 && hf__answer_number(answer, 0, 0) == 1;
        granted(task, right ? hf__answer_number(answer, 0, 1) : 0);
    } else if (answer->affected > 0 && answer->insert_id < TOKEN_LEAST) {
        read_token(task);
    } else if (answer->affected > 0) {
        granted(task, (int64_t)answer->insert_id);
    } else {
        if (task->op->in.enqueue)
            hf__waiting_add(task->sql, task->op);
        task->sql->contended |= contended_bit(task->op);
        task->done = queues ? place_answered : verdict_came;
        hf__link_run(task->sql, task, queues ? SQL_MUTEX_WAIT : SQL_MUTEX_QUEUE);
    }
}

/* No row: it is not held by now, or is another kind of lock. */
static void guess_answered(struct sql_task *task, const struct sql_answer *answer)
{
    task->done = verdict_came;
    if (answer->failure || answer->row_count > 0) {
        verdict_came(task, answer);
        return;
    }
    task->sql->contended &= ~contended_bit(task->op); /* mutant: wrong-guess-is-refusal */
    task->done = first_try_answered;
    hf__link_run(task->sql, task, SQL_MUTEX_ACQUIRE);
}

static void verdict_came(struct sql_task *task, const struct sql_answer *answer)
{
    int64_t verdict = hf__answer_number(answer, 0, 0);
    if (answer->failure) {
        attempt_failed(task, answer);
    } else if (answer->row_count == 0) {
        /* The row of an unused name was cleaned away in between. */
        task->done = first_try_answered;
        hf__link_run(task->sql, task, SQL_MUTEX_ACQUIRE);
    } else if (verdict == VERDICT_GRANTED) {
        granted(task, hf__answer_number(answer, 0, 1));
    } else if (verdict == VERDICT_REFUSED) {
        refused(task, hf__answer_number(answer, 0, 2), hf__answer_number(answer, 0, 3));
    } else {
        cannot_be(task, verdict, answer);
    }
}

/* ---- asking ---- */

static enum sql_script_number script_of(const struct sql *sql, const struct hf_op *op)
{
    bool looks = (op->engine.word[1] & (SQL_QUEUED | SQL_WOKEN)) == SQL_QUEUED;
    switch (op->in.mode) {
    case HF_READ:
    case HF_UPGRADE:
    case HF_WRITE:
    case HF_PERMIT:
        return SQL_SHARED_ACQUIRE;
    case HF_COUNTER:
        return SQL_COUNTER_TAKE;
    case HF_LATCH:
        return SQL_LATCH_WAIT;
    case HF_MUTEX:
    case HF_FAIR:
    default:
        if (looks)
            return SQL_MUTEX_QUEUE;
        return seems_held(sql, op) ? SQL_MUTEX_WAIT : SQL_MUTEX_ACQUIRE;
    }
}

void hf__sql_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct sql *sql = (struct sql *)engine;
    if (!hf__lease_fits(sql, hf__op_lease_ms(sql, op), &op->out.error)) {
        hf__op_finish(sql, op, HF_FAILED);
        return;
    }
    if (!op->engine.word[0])
        op->engine.word[0] = ++sql->claims;
    struct sql_task *task = hf__task_about(sql, op);
    if (!task) {
        hf__op_finish(sql, op, op->engine.word[1] ? HF_NO_ANSWER : HF_FAILED);
        return;
    }
    if (op->in.attach_key) {
        hf__attach(sql, task);
        return;
    }
    enum sql_script_number script = script_of(sql, op);
    op->engine.word[1] &= ~(uint64_t)SQL_WOKEN;
    if (op->in.enqueue && script != SQL_MUTEX_ACQUIRE)
        hf__waiting_add(sql, op);
    task->done = verdict_came;
    if (script == SQL_MUTEX_ACQUIRE)
        task->done = first_try_answered;
    else if (script == SQL_MUTEX_WAIT)
        task->done = guess_answered;
    hf__link_run(sql, task, script);
}
