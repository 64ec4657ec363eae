/* SPDX-License-Identifier: Apache-2.0 */
/* The client, the clock and the obliging engine of the unit tests. */
#include "fixture.h"

#include "core/api/client.h"
#include "core/api/fork.h"
#include "core/loop/uv_loop.h"

#include <stdio.h>

struct fixture fixture;

/* The core must not hear of the answer before the question has returned. */
static void answer(struct hf_engine *engine, struct hf_op *op, enum hf_verdict verdict)
{
    const struct hf_claim *claim = HF_CONTAINER(op, struct hf_claim, op);
    enum hf_claim_state before = claim->state;
    op->out.verdict = verdict;
    op->out.contacted = claim->store_mode != HF_KEEP_NOTHING || fixture.contacted;
    if (verdict == HF_FAILED && !fixture.lost)
        hf__op_explain(op, HF_DENIED, 0, "the fixture refuses");
    op->out.lost = fixture.lost && (verdict == HF_GONE || verdict == HF_FAILED);
    hf__op_done(engine, op);
    CHECK_INT(claim->state, before);
}

static void answer_in_time(struct hf_engine *engine, struct hf_op *op, enum hf_verdict verdict)
{
    if (fixture.answer_by)
        fixture.answer_by(op, verdict);
    else
        answer(engine, op, verdict);
}

static void set_lease(struct hf_engine *engine, struct hf_op *op)
{
    if (fixture.attempt_verdict != HF_GRANTED || !fixture.leases)
        return;
    op->engine.own_lease.engine = engine;
    op->engine.own_lease.lease_ms = op->in.lease_ms ? op->in.lease_ms : fixture.lease_ms;
    op->engine.own_lease.asked_at_ms = op->in.asked_at_ms;
    op->engine.own_lease.fixed = op->in.lease_ms > 0;
    op->out.rests_on = &op->engine.own_lease;
}

static void attempt(struct hf_engine *engine, struct hf_op *op)
{
    fixture.attempts++;
    fixture.last_attempt = op;
    if (!op->engine.word[0])
        op->engine.word[0] = fixture.attempts;
    op->engine.word[1] = FIXTURE_WORD;
    if (fixture.attempt_verdict == HF_NO_ANSWER)
        return;
    op->out.retry_at_ms = HF_NEVER;
    op->out.token = fixture.attempts;
    set_lease(engine, op);
    answer_in_time(engine, op, fixture.attempt_verdict);
}

/* In virtual time nothing else would end a release that is asked for again and again. */
#define MANY_RELEASES 100000

static void release(struct hf_engine *engine, struct hf_op *op)
{
    fixture.releases++;
    CHECK(fixture.releases < MANY_RELEASES);
    fixture.last_release = op;
    fixture.last_keep = op->in.keep;
    if (fixture.release_verdict == HF_NO_ANSWER)
        return;
    answer_in_time(engine, op, fixture.release_verdict);
}

static void refuse(struct hf_lease *lease)
{
    enum hf_lease_answer answer = !fixture.refusal    ? HF_LEASE_NO_ANSWER
                                  : fixture.not_ready ? HF_LEASE_NOT_READY
                                                      : HF_LEASE_REFUSED;
    hf__lease_answer(lease, hf__loop_now(lease->engine->host->loop), answer, 0, fixture.refusal);
}

static void renew(struct hf_engine *engine, struct hf_lease *lease)
{
    const struct hf_op *op = HF_CONTAINER(lease, struct hf_op, engine.own_lease);
    fixture.renewals++;
    if (fixture.refuses_renewals_from && op->in.owner >= fixture.refuses_renewals_from)
        refuse(lease);
    else if (fixture.answers_renewals)
        hf__lease_answer(lease, hf__loop_now(engine->host->loop), HF_LEASE_RENEWED, 0, NULL);
}

static bool set_aside(struct hf_engine *engine, struct hf_op *op)
{
    (void)engine, (void)op;
    return fixture.sets_aside;
}

void fixture_answer(struct hf_op *op, enum hf_verdict verdict)
{
    answer(&fixture.engine, op, verdict);
}

static void change(struct hf_engine *engine, struct hf_oneshot *asked)
{
    (void)engine;
    fixture.last_change = asked;
    atomic_fetch_add(&fixture.changes, 1);
    if (!fixture.silent_changes)
        fixture_answer_change(fixture.change_code);
}

void fixture_answer_change(int code)
{
    fixture.last_change->code = code;
    fixture.last_change->contacted = !fixture.not_contacted;
    snprintf(fixture.last_change->key_out, HF_OWNER_KEY_SIZE, "key");
    hf__oneshot_done(&fixture.engine, fixture.last_change);
}

static void forked(struct hf_engine *engine)
{
    (void)engine;
}

static struct {
    struct hf_timer timer;
    void (*closed)(void *arg);
    void *arg;
} engine_end;

static void end_now(struct hf_timer *timer)
{
    (void)timer;
    engine_end.closed(engine_end.arg);
}

/* What is out is never answered, but for what the test asks for. */
static void end(struct hf_engine *engine, void (*closed)(void *arg), void *arg)
{
    if (!fixture.answers_at_its_end) {
        closed(arg);
        return;
    }
    answer(engine, fixture.last_attempt, HF_GRANTED);
    engine_end.closed = closed;
    engine_end.arg = arg;
    hf__timer_init(&engine_end.timer, end_now);
    hf__timer_start(&fixture.client->loop, &engine_end.timer, fixture.now_ms + 1);
}

static const struct hf_engine_ops ops = {
    .name = "fixture",
    .caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_PERMIT |
            HF_CAP_COUNTER | HF_CAP_DETACH,
    .close = end,
    .oneshot = change,
    .detach = change,
    .attempt = attempt,
    .release = release,
    .renew = renew,
    .compact = set_aside,
    .forked = forked,
};

/* ---- the same for an engine that answers on the calling thread ---- */

static enum hf_verdict attempt_sync(struct hf_engine *engine, struct hf_op *op)
{
    fixture.attempts++;
    set_lease(engine, op);
    if (fixture.attempt_takes_ms)
        let_pass_ms(fixture.attempt_takes_ms);
    fixture.attempt_takes_ms = 0;
    return fixture.attempt_verdict;
}

static enum hf_verdict release_sync(struct hf_engine *engine, struct hf_op *op)
{
    (void)engine, (void)op;
    fixture.releases++;
    return fixture.release_verdict;
}

static bool held_sync(struct hf_engine *engine, const struct hf_op *op)
{
    (void)engine, (void)op;
    return !fixture.lost;
}

/* None of its claims waits, or has a name that it keeps. */
static void sleep_sync(struct hf_engine *engine, struct hf_op *op, int64_t until_ms)
{
    (void)engine, (void)op, (void)until_ms;
}

static void wake_sync(struct hf_engine *engine, struct hf_op *op)
{
    (void)engine, (void)op;
}

static bool fast_path_is_closed(struct hf_engine *engine, struct hf_op *op, uint64_t *kept)
{
    (void)engine, (void)op, (void)kept;
    return false;
}

static bool fast_drop(struct hf_engine *engine, uint64_t *kept)
{
    (void)engine, (void)kept;
    return true;
}

static const struct hf_engine_sync_ops sync_ops = {
    .attempt = attempt_sync,
    .release = release_sync,
    .sleep = sleep_sync,
    .wake = wake_sync,
    .held = held_sync,
    .fast_acquire = fast_path_is_closed,
    .fast_release = fast_path_is_closed,
    .fast_drop = fast_drop,
};

static const struct hf_engine_ops ops_here = {
    .name = "fixture",
    .caps = HF_CAP_MUTEX,
    .close = end,
    .attempt = attempt,
    .release = release,
    .forked = forked,
    .sync = &sync_ops,
};

static int64_t read_clock(void *arg)
{
    (void)arg;
    return fixture.now_ms;
}

static void wake(void *arg)
{
    (void)arg;
}

/* Time passes when there is nothing else to do. */
static void pump(struct hf_client *client)
{
    struct hf_loop *loop = &client->loop;
    bool busy = atomic_load(&loop->posted) || !hf__list_empty(&loop->ready);
    if (!busy && loop->heap && loop->heap->at_ms > fixture.now_ms)
        fixture.now_ms = loop->heap->at_ms;
    hf__loop_turn(loop);
}

static void make_client(const struct hf_engine_ops *its_ops)
{
    fixture = (struct fixture){ .attempt_verdict = HF_GRANTED,
                                .release_verdict = HF_GONE,
                                .lease_ms = FIXTURE_LEASE_MS,
                                .answers_renewals = true };
    fixture.client =
        hf__client_new(&HF_CLIENT_OPTIONS(.lease_ms = FIXTURE_LEASE_MS, .owner_text = "unit"));
    CHECK(fixture.client != NULL);
    fixture.engine = (struct hf_engine){ .ops = its_ops, .host = &fixture.client->host };
    hf__client_set_engine(fixture.client, &fixture.engine);
    CHECK_INT(hf__fork_register(fixture.client), HF_OK);
}

static void begin(const struct hf_engine_ops *its_ops)
{
    make_client(its_ops);
    hf__loop_init(&fixture.client->loop, read_clock, wake, NULL);
    fixture.client->drive_kind = HF_DRIVE_KIND_TEST;
    fixture.client->test_pump = pump;
}

void fixture_begin(void)
{
    begin(&ops);
}

void fixture_begin_here(void)
{
    begin(&ops_here);
}

void fixture_begin_threaded(void)
{
    hf_error error;
    make_client(&ops);
    CHECK_INT(hf__uv_loop_open(fixture.client, HF_DRIVE_KIND_THREAD, false, &error), HF_OK);
    CHECK_INT(hf__uv_loop_start(fixture.client, &error), HF_OK);
}

void fixture_turn(void)
{
    while (hf__loop_turn(&fixture.client->loop) <= fixture.now_ms)
        continue;
}

void fixture_pass_ms(int64_t ms)
{
    int64_t until_ms = fixture.now_ms + ms;
    for (int64_t next_ms; (next_ms = hf__loop_turn(&fixture.client->loop)) <= until_ms;)
        if (next_ms > fixture.now_ms)
            fixture.now_ms = next_ms;
    fixture.now_ms = until_ms;
    fixture_turn();
}

static void done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg, (void)error;
    fixture.answers++;
    fixture.code = code;
    fixture.hold = hold;
}

int fixture_ask(const char *name, hf_mode mode, uint64_t owner, int64_t wait_ms,
                hf_request *request)
{
    fixture.hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode, .owner = owner);
    return hf_lock_async(fixture.client, name, wait_ms, &options, done, NULL, request);
}

int fixture_take(const char *name, hf_mode mode, uint64_t owner, int64_t wait_ms,
                 hf_request *request)
{
    int code = fixture_ask(name, mode, owner, wait_ms, request);
    fixture_turn();
    return code == HF_OK ? fixture.code : code;
}

hf_hold *fixture_take_leased(const char *name, int64_t lease_ms)
{
    hf_hold *hold = NULL;
    hf_lock_options options = HF_LOCK_OPTIONS(.lease_ms = lease_ms);
    fixture.leases = true;
    CHECK_INT(hf_lock(fixture.client, name, 0, &options, &hold), HF_OK);
    return hold;
}
