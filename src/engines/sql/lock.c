/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a claim, from top to bottom: attempt, reply, verdict, renewal, release, attach. What
 * the database may have of it is in op->engine.known (core/known.h). link.c tells that table what
 * was sent and what has done nothing; conclude() tells it the rest.
 *
 *   a mutex:    one statement --no row--> a place behind its owner --no row--> a full look
 *               (where it was last found held, the place is asked for first)
 *   others:     one script, which decides, queues and says why
 *   a release:  free, as far as this owner knows ------> one statement --no row--+
 *   (mutex)     others wait ----------------------> to the first of them <-------+ --no row--+
 *               not known to be held, or a place to leave ----> the full script <------------+
 *
 * Every script of an attempt answers with one row: verdict, token, microseconds that the obstacle
 * has left, and the place in the queue. Every request names this claim's owner, so one that is
 * repeated, or comes late, finds nothing of its own. */
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

static void verdict_came(struct sql_task *task, const struct sql_answer *answer);
static void run_way_out(struct sql_task *task);

static bool is_mutex(const struct hf_op *op)
{
    return op->in.mode == HF_MUTEX || op->in.mode == HF_FAIR;
}

/* The others take what has no owner. */
static bool has_lease(const struct hf_op *op)
{
    return op->in.mode != HF_COUNTER && op->in.mode != HF_LATCH;
}

static void run(struct sql_task *task, enum sql_script_number script,
                void (*done)(struct sql_task *, const struct sql_answer *))
{
    task->done = done;
    hf__link_run(task->sql, task, script);
}

/* A reply that is not the end of its question. NEVER: its request has changed nothing. OPEN: what
 * it has changed is found by the next one. */
static void run_next(struct sql_task *task, enum hf_word word, enum sql_script_number script,
                     void (*done)(struct sql_task *, const struct sql_answer *))
{
    hf__known_reply(&task->op->engine.known, word);
    run(task, script, done);
}

/* ---- the end of a question ---- */

/* A claim that can never have the lock leaves its place first. A raise that has lost what it was
 * to raise is over, even if it cannot leave its place: that ends by itself. */
static void conclude(struct sql_task *task, enum hf_word word)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    struct hf_known *known = &op->engine.known;
    enum hf_known_verdict verdict = hf__known_found(known, task->asked, word);
    bool useless =
        verdict == HF_KNOWN_NOT_THERE || (verdict == HF_KNOWN_WITHDRAW && word == HF_WORD_NEVER);
    if (useless && hf__known_is_there(known)) {
        task->meant = (unsigned char)verdict;
        run_way_out(task);
        return;
    }
    hf__op_set_verdict(op, verdict);
    bool lost = task->meant == HF_KNOWN_NOT_THERE;
    if (lost || (task->meant && op->out.verdict == HF_GONE))
        op->out.verdict = HF_FAILED;
    op->out.lost = op->out.lost || lost;
    op->out.contacted = task->contacted;
    if (op->out.verdict != HF_REFUSED && op->out.verdict != HF_NO_ANSWER) {
        hf__waiting_remove(sql, op);
        op->engine.word[1] &= SQL_RENEWING | (op->out.verdict == HF_GRANTED ? SQL_WAITED : 0);
    }
    hf__task_free(task);
    hf__op_done(&sql->base, op);
}

/* Only a refusal that lasts ends a wait. What an earlier request may have left is asked after
 * again, as is a place that may not be left; but a claim that ends anyway leaves it behind. */
static void sql_failed(struct sql_task *task, const struct sql_answer *answer)
{
    const struct hf_known *known = &task->op->engine.known;
    enum sql_trouble trouble = answer->failure->trouble;
    bool lasting = trouble == SQL_DENIED || trouble == SQL_WRONG, definite;
    bool attempts = task->asked == HF_ASKED_TRY || task->asked == HF_ASKED_ATTEMPT;
    bool ends = !hf__known_waits(known) || task->meant || (attempts && lasting);
    hf__link_explain(task->sql, task, answer, &task->op->out.error, &definite);
    /* A release that found no memory is repeated. */
    definite = definite && (task->asked < HF_ASKED_LOWER || trouble != SQL_NO_MEMORY);
    definite = definite && ends; /* mutant: place-hides-why-a-wait-has-failed */
    definite = definite && !hf__known_is_open(known); /* mutant: sql-clean-up-was-refused */
    conclude(task, definite ? HF_WORD_NEVER : HF_WORD_OPEN);
}

/* ---- granted ---- */

/* No row: its lease is over already, so it is asked for again. */
static void token_raised(struct sql_task *task, const struct sql_answer *answer)
{
    if (answer->failure || answer->row_count > 0) {
        verdict_came(task, answer);
        return;
    }
    task->asked_at_ms = 0;
    task->raised = false;
    task->unheard = true;
    run_next(task, HF_WORD_OPEN, is_mutex(task->op) ? SQL_MUTEX_QUEUE : SQL_SHARED_ACQUIRE,
             verdict_came);
}

/* A waiter is handed its lock by a client that knows nothing of its floor. And a statement reads
 * the clock before it waits for the row. If the row is forgotten meanwhile, it inserts a smaller
 * token. */
static bool token_may_be_too_low(const struct sql_task *task, int64_t token, int64_t asked_at_ms)
{
    const struct sql *sql = task->sql;
    uint64_t floor = sql->base.host->token_floor;
    bool slow = hf__sql_now(sql) - asked_at_ms >= SQL_SLOW_GRANT_MS;
    if (task->raised)
        return false;
    /* mutant: token-of-a-database-is-below-the-floor */
    if (floor > 0 && token <= (int64_t)floor)
        return true;
    /* mutant: slow-grant-of-a-database-keeps-its-token */
    return !sql->settings.layout && (task->unheard || slow);
}

static void granted(struct sql_task *task, int64_t token)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    /* The lease is that of the grant, whose token was read or raised since. */
    int64_t asked_at_ms = task->asked_at_ms ? task->asked_at_ms : task->sent_at_ms;
    if (!has_lease(op)) {
        op->out.rests_on = NULL;
        conclude(task, HF_WORD_GRANTED);
        /* After the answer, which may be a release. */
        if (op->in.mode == HF_COUNTER)
            hf__counter_taken(sql, op);
        return;
    }
    if (token <= 0) {
        /* A proxy that leaves out a reply makes the next request hear another one's. Here only a
         * reply is seen that has no token; one to the same script for another name looks right. */
        hf__link_misheard(sql);
        hf__op_explain(
            task->op, HF_UNREACHABLE, 0,
            "%s at %.100s: a reply is not that to its request; is a proxy in between broken?",
            sql->settings.driver->name, sql->settings.shown);
        conclude(task, HF_WORD_OPEN);
        return;
    }
    if (token_may_be_too_low(task, token, asked_at_ms)) {
        int64_t floor = (int64_t)sql->base.host->token_floor;
        task->asked_at_ms = asked_at_ms;
        task->raised = true;
        hf__task_number(task, SQL_P_VALUE, floor > token ? floor : token);
        run_next(task, HF_WORD_OPEN, SQL_RAISE_TOKEN, token_raised);
        return;
    }
    op->out.token = (uint64_t)token;
    /* A raise leaves a lease of its own as it is. */
    if (!hf__known_holds(&op->engine.known) || op->in.lease_ms == 0)
        hf__op_set_lease(sql, op, asked_at_ms, hf__op_lease_ms(sql, op));
    else
        op->out.rests_on = &op->engine.own_lease;
    conclude(task, HF_WORD_GRANTED);
}

/* ---- refused ---- */

/* The tables of other programs have no queue. */
static void refused(struct sql_task *task, int64_t left_us, int64_t rank)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    const struct hf_known *known = &op->engine.known;
    bool queued = !sql->settings.layout && (op->in.enqueue || hf__known_waits(known));
    if (!hf__known_holds(known))
        op->out.rests_on = NULL;
    if (op->in.enqueue)
        op->engine.word[1] |= SQL_WAITED;
    op->out.retry_at_ms = hf__waiting_retry_at(sql, op, rank, left_us);
    conclude(task, queued ? HF_WORD_QUEUED : HF_WORD_REFUSED);
}

static void refuse_for_good(struct sql_task *task, int64_t verdict, const struct sql_answer *answer)
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
    else if (verdict != VERDICT_LOST)
        hf__refuse_other_kind(&op->out.error, op->in.name, (hf_kind)(verdict - SQL_OTHER_KIND),
                              hf__kind_of(op->in.mode));
    conclude(task, verdict == VERDICT_LOST ? HF_WORD_MISSING : HF_WORD_NEVER);
}

/* ---- replies to an attempt ---- */

/* Where a mutex was last found held, a place is asked for at once. */
static uint64_t contended_bit(const struct hf_op *op)
{
    return UINT64_C(1) << (hf__hash(op->in.name, op->in.name_length) & 63);
}

static void first_try_answered(struct sql_task *task, const struct sql_answer *answer);

/* No row: it is not held by now, or is another kind of lock. */
static void place_answered(struct sql_task *task, const struct sql_answer *answer)
{
    if (answer->failure || answer->row_count > 0) {
        verdict_came(task, answer);
    } else if (!task->guesses) {
        run_next(task, HF_WORD_NEVER, SQL_MUTEX_QUEUE, verdict_came);
    } else {
        task->guesses = false;
        task->sql->contended &= ~contended_bit(task->op); /* mutant: wrong-guess-is-refusal */
        run_next(task, HF_WORD_NEVER, SQL_MUTEX_ACQUIRE, first_try_answered);
    }
}

static void first_try_answered(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    if (answer->failure) {
        sql_failed(task, answer);
    } else if (answer->row_count > 0) {
        /* It has two columns: a row of another script is another request's. */
        bool right = answer->column_count == 2 && hf__answer_number(answer, 0, 0) == 1;
        granted(task, right ? hf__answer_number(answer, 0, 1) : 0);
    } else if (answer->affected > 0 && answer->insert_id < TOKEN_LEAST) {
        /* A trigger on the table puts another number, or 0, in the place of the token. The full
         * look finds the lock to be this owner's, and has its token. */
        task->asked_at_ms = task->sent_at_ms;
        run_next(task, HF_WORD_OPEN, SQL_MUTEX_QUEUE, verdict_came);
    } else if (answer->affected > 0) {
        granted(task, (int64_t)answer->insert_id);
    } else {
        if (task->op->in.enqueue && hf__waiting_add(sql, task->op))
            hf__link_listen(sql);
        sql->contended |= contended_bit(task->op);
        if (sql->settings.layout)
            run_next(task, HF_WORD_NEVER, SQL_MUTEX_QUEUE, verdict_came);
        else
            run_next(task, HF_WORD_NEVER, SQL_MUTEX_WAIT, place_answered);
    }
}

static void verdict_came(struct sql_task *task, const struct sql_answer *answer)
{
    int64_t verdict = hf__answer_number(answer, 0, 0);
    if (answer->failure)
        sql_failed(task, answer);
    else if (answer->row_count == 0)
        /* The row of an unused name was cleaned away in between. */
        run_next(task, HF_WORD_NEVER, SQL_MUTEX_ACQUIRE, first_try_answered);
    else if (verdict == VERDICT_GRANTED)
        granted(task, hf__answer_number(answer, 0, 1));
    else if (verdict == VERDICT_REFUSED)
        refused(task, hf__answer_number(answer, 0, 2), hf__answer_number(answer, 0, 3));
    else
        refuse_for_good(task, verdict, answer);
}

/* ---- attempts ---- */

static void attach_answered(struct sql_task *task, const struct sql_answer *answer)
{
    struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    int64_t left_ms = hf__answer_number(answer, 0, 2) / 1000;
    if (answer->failure) {
        sql_failed(task, answer);
    } else if (answer->row_count > 0) {
        op->out.token = (uint64_t)hf__answer_number(answer, 0, 1);
        op->in.mode = (hf_mode)hf__answer_number(answer, 0, 3);
        op->in.permits = (uint32_t)hf__answer_number(answer, 0, 4);
        op->in.lease_ms = left_ms > 0 ? left_ms : 1;
        hf__op_set_lease(sql, op, task->sent_at_ms, op->in.lease_ms);
        conclude(task, HF_WORD_GRANTED);
    } else {
        conclude(task, HF_WORD_REFUSED);
    }
}

static void begin_attempt(struct sql_task *task)
{
    const struct sql *sql = task->sql;
    struct hf_op *op = task->op;
    bool looks = (op->engine.word[1] & (SQL_WAITED | SQL_WOKEN)) == SQL_WAITED;
    task->guesses = is_mutex(op) && !looks && !hf__known_is_there(&op->engine.known) &&
                    !sql->settings.layout && (sql->contended & contended_bit(op));
    enum sql_script_number script = op->in.mode == HF_COUNTER ? SQL_COUNTER_TAKE
                                    : op->in.mode == HF_LATCH ? SQL_LATCH_WAIT
                                    : !is_mutex(op)           ? SQL_SHARED_ACQUIRE
                                    : looks                   ? SQL_MUTEX_QUEUE
                                    : task->guesses           ? SQL_MUTEX_WAIT
                                                              : SQL_MUTEX_ACQUIRE;
    op->engine.word[1] &= ~(uint64_t)SQL_WOKEN;
    if (op->in.enqueue && script != SQL_MUTEX_ACQUIRE && hf__waiting_add(task->sql, op))
        hf__link_listen(task->sql);
    run(task, script,
        script == SQL_MUTEX_ACQUIRE ? first_try_answered
        : task->guesses             ? place_answered
                                    : verdict_came);
}

void hf__sql_attempt(struct hf_engine *engine, struct hf_op *op)
{
    struct sql *sql = hf__sql_part_of(engine, op);
    struct hf_known *known = &op->engine.known;
    enum hf_asked asked = op->in.attach_key                          ? HF_ASKED_ATTACH
                          : op->in.enqueue || hf__known_holds(known) ? HF_ASKED_ATTEMPT
                                                                     : HF_ASKED_TRY;
    bool fits = hf__lease_fits(sql, hf__op_lease_ms(sql, op), &op->out.error);
    if (!op->engine.word[0])
        op->engine.word[0] = hf__claim_number(op->in.owner, ++sql->claims);
    struct sql_task *task = fits ? hf__task_about(sql, op) : NULL;
    if (!task) {
        hf__op_set_verdict(op, hf__known_found(known, asked, HF_WORD_NEVER));
        hf__op_done(engine, op);
        return;
    }
    task->asked = (unsigned char)asked;
    task->unheard = hf__known_is_open(known);
    if (asked == HF_ASKED_ATTACH) {
        /* What hf_detach has left, taken over. What is no key of ours has left nothing. */
        bool is_key = hf__owner_read(task->op->in.attach_key, task->key);
        hf__task_bytes(task, SQL_P_KEY, task->key, SQL_OWNER_SIZE);
        if (is_key)
            run(task, SQL_ATTACH, attach_answered);
        else
            conclude(task, HF_WORD_REFUSED);
    } else
        begin_attempt(task);
}

/* ---- renewals: one statement each, which never makes a row; those that fall due together are on
 * their way together ---- */

static void forget_renewal(struct sql *sql, struct hf_op *op)
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

static void sql_renewal_answered(struct sql_task *task, const struct sql_answer *answer)
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
    struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    struct sql *sql = hf__sql_part_of(engine, op);
    if (op->engine.word[1] & SQL_RENEWING)
        return;
    struct sql_task *task = hf__task_about(sql, op);
    if (!task) {
        hf__lease_answer(lease, hf__sql_now(sql), HF_LEASE_NO_ANSWER, 0, NULL);
        return;
    }
    op->engine.word[1] |= SQL_RENEWING;
    hf__task_number(task, SQL_P_LEASE_US, lease->lease_ms * 1000);
    hf__link_init(&task->renewal_link);
    hf__list_append(&sql->renewals, &task->renewal_link);
    run(task, is_mutex(op) ? SQL_MUTEX_RENEW : SQL_SHARED_RENEW, sql_renewal_answered);
}

/* ---- releases: of a lock, of a place in a queue, of what may have been taken unheard ---- */

/* Of a counter a receipt says what was taken, a latch takes nothing, and the end of what was
 * attached unheard is no loss. */
static void released(struct sql_task *task, const struct sql_answer *answer)
{
    bool fast = task->request.script->number == SQL_MUTEX_RELEASE;
    if (answer->failure)
        sql_failed(task, answer);
    else if (hf__answer_changed(answer) || !has_lease(task->op) || task->asked == HF_ASKED_UNDO)
        conclude(task, HF_WORD_DONE);
    else if (fast && !task->sql->settings.layout)
        run_next(task, HF_WORD_NEVER, SQL_MUTEX_PASS, released);
    else if (fast || task->request.script->number == SQL_MUTEX_PASS)
        run_next(task, HF_WORD_NEVER, SQL_MUTEX_HAND_OVER, released);
    else
        conclude(task, HF_WORD_MISSING);
}

static enum sql_script_number release_script(const struct sql_task *task)
{
    const struct hf_op *op = task->op;
    const struct hf_known *known = &op->engine.known;
    bool sure = hf__known_holds(known) && !hf__known_is_open(known);
    bool waited = op->engine.word[1] & SQL_WAITED;
    if (!is_mutex(op))
        return op->in.mode == HF_COUNTER ? SQL_COUNTER_RETURN
               : op->in.mode == HF_LATCH ? SQL_LEAVE_QUEUE
                                         : SQL_SHARED_RELEASE;
    if (sure && !waited)
        return SQL_MUTEX_RELEASE;
    return sure && !task->sql->settings.layout ? SQL_MUTEX_PASS : SQL_MUTEX_HAND_OVER;
}

static void run_way_out(struct sql_task *task)
{
    static const unsigned char asked[] = { [HF_OUT_RELEASE] = HF_ASKED_RELEASE,
                                           [HF_OUT_LOWER] = HF_ASKED_LOWER,
                                           [HF_OUT_UNDO] = HF_ASKED_UNDO };
    const struct hf_op *op = task->op;
    const struct hf_known *known = &op->engine.known;
    bool keeps = op->in.keep != HF_KEEP_NOTHING;
    enum hf_way_out out = hf__known_way_out(known, op->in.attach_key != NULL, keeps);
    /* Where an upgrade had no reply, its token is not known. */
    bool token_is_known = op->out.token && !(known->now & HF_KNOWN_MAY_HAVE);
    task->asked = asked[out];
    task->values[SQL_P_KEEP] = SQL_A_NUMBER(out == HF_OUT_LOWER ? op->in.keep : HF_KEEP_NOTHING);
    hf__task_number(task, SQL_P_VALUE, token_is_known ? (int64_t)op->out.token : INT64_MAX);
    if (out == HF_OUT_UNDO) {
        /* No caller has heard that it was taken over, so its first key opens it again. */
        hf__owner_read(op->in.attach_key, task->key);
        hf__task_bytes(task, SQL_P_KEY, task->owner, SQL_OWNER_SIZE);
        hf__task_bytes(task, SQL_P_OWNER, task->key, SQL_OWNER_SIZE);
    }
    run(task, out == HF_OUT_UNDO ? SQL_ATTACH : release_script(task), released);
}

void hf__sql_release(struct hf_engine *engine, struct hf_op *op)
{
    struct sql *sql = hf__sql_part_of(engine, op); /* mutant: release-over-another-connection */
    bool is_there = hf__known_is_there(&op->engine.known);
    hf__waiting_remove(sql, op);
    forget_renewal(sql, op);
    if (op->in.mode == HF_COUNTER)
        hf__counter_keep(sql, op);
    /* After a lease nothing of an attempt without a reply is left. */
    if (!op->out.rests_on && has_lease(op) && !op->in.attach_key)
        hf__op_set_lease(sql, op, hf__sql_now(sql), hf__op_lease_ms(sql, op) + SQL_PLACE_MS);
    struct sql_task *task = is_there ? hf__task_about(sql, op) : NULL;
    if (task) {
        run_way_out(task);
        return;
    }
    op->engine.word[1] = 0;
    op->out.verdict = is_there ? HF_NO_ANSWER : HF_GONE;
    hf__op_done(engine, op);
}
