/* SPDX-License-Identifier: Apache-2.0 */
/* Drives claims on the loop: does what the wait loop says, with timers, the engine's asynchronous
 * slots, and the caller's thread or callback to tell. */
#include "core/api/explain.h"
#include "core/claim/claim_change.h"
#include "core/claim/claim_compact.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/claim_waiters.h"
#include "core/claim/loss.h"
#include "core/claim/pool.h"
#include "core/engine_tap.h"
#include "core/lease/lease.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"
#include "core/trace.h"

#include <assert.h>
#include <stdlib.h>

/* Whichever comes first: its deadline, or when it asks again. */
static void set_alarm(struct hf_claim *claim)
{
    struct hf_loop *loop = &claim->client->loop;
    int64_t at_ms = claim->awaits_deadline ? claim->wait_until_ms : HF_NEVER;
    if (claim->awaits_retry && claim->retry_at_ms < at_ms) /* mutant: later-of-deadline-and-retry */
        at_ms = claim->retry_at_ms;
    if (at_ms == HF_NEVER)
        hf__timer_stop(loop, &claim->alarm);
    else if (!claim->alarm.started || claim->alarm.at_ms != at_ms)
        hf__timer_start(loop, &claim->alarm, at_ms);
}

/* The step that follows sets the alarm for what is left. */
static void alarm_fired(struct hf_timer *timer)
{
    struct hf_claim *claim = HF_CONTAINER(timer, struct hf_claim, alarm);
    bool retry = claim->awaits_retry &&
                 (!claim->awaits_deadline || claim->retry_at_ms < claim->wait_until_ms);
    if (retry)
        claim->awaits_retry = false;
    else
        claim->awaits_deadline = false;
    hf__claim_drive(claim, retry ? HF_ON_RETRY : HF_ON_DEADLINE);
}

static void op_answered(struct hf_task *task)
{
    struct hf_op *op = HF_CONTAINER(task, struct hf_op, core.answer);
    struct hf_claim *claim = HF_CONTAINER(op, struct hf_claim, op);
    claim->not_queued = op->out.verdict == HF_REFUSED_NOT_QUEUED;
    if (claim->not_queued)
        op->out.verdict = HF_REFUSED;
    if (op->out.verdict == HF_REFUSED)
        hf__uv_loop_refused(claim->client); /* mutant: refusal-is-not-heard */
    hf__claim_drive(claim, HF_ON_ANSWER);
}

static void op_woken(struct hf_op *op)
{
    struct hf_claim *claim = HF_CONTAINER(op, struct hf_claim, op);
    struct hf_tap *tap = claim->client->host.tap;
    if (tap)
        tap->op_woken(tap, op);
    hf__claim_drive(claim, HF_ON_WAKE);
}

void hf__op_done(struct hf_engine *engine, struct hf_op *op)
{
    struct hf_tap *tap = engine->host->tap;
    if (tap)
        tap->op_done(tap, op);
    hf__loop_defer(engine->host->loop, &op->core.answer); /* mutant: answer-is-told-from-inside */
}

void hf__op_wake(struct hf_op *op)
{
    op->core.woken(op);
}

struct hf_op *hf__op_next(struct hf_op *op)
{
    struct hf_claim *claim = HF_CONTAINER(op, struct hf_claim, op), *next = NULL;
    hf__shard_lock(claim->shard);
    struct hf_link *first = hf__list_first(&claim->entry->queue);
    if (first)
        next = HF_CONTAINER(first, struct hf_claim, entry_link);
    hf__shard_unlock(claim->shard);
    bool waits = next && (next->state == HF_CLAIM_WAITING || next->state == HF_CLAIM_ASKING);
    return waits && next != claim ? &next->op : NULL;
}

bool hf__op_is_held_here(struct hf_op *op)
{
    struct hf_claim *claim = HF_CONTAINER(op, struct hf_claim, op);
    hf__shard_lock(claim->shard);
    bool held = !hf__list_empty(&claim->entry->holders);
    hf__shard_unlock(claim->shard);
    return held;
}

/* The engine ends meanwhile, and may be gone before the loop comes to this. */
static void op_answered_late(struct hf_task *task)
{
    hf__drop_error(HF_CONTAINER(task, struct hf_op, core.answer));
}

static void op_woken_late(struct hf_op *op)
{
    (void)op;
}

void hf__claim_still(struct hf_claim *claim)
{
    struct hf_loop *loop = &claim->client->loop;
    /* What waits in line has been ended: its turn would ask, driven or not (acquire.c). */
    assert(claim->state != HF_CLAIM_QUEUED);
    hf__lease_unwatch(claim);
    hf__timer_stop(loop, &claim->alarm);
    hf__link_remove(&claim->op.core.answer.link);
    /* mutant: late-reply-begins-nothing */
    hf__task_init(&claim->op.core.answer, op_answered_late);
    claim->op.core.woken = op_woken_late;
    /* mutant: claim-goes-to-engine */
    claim->driven = true; /* so that what is on its way to the loop begins nothing */
}

/* The waiters for the answer: taken out of the claim, which may be gone when it is told. */
struct caller {
    struct hf_client *client;
    struct hf_waiter *waiter;
    hf_done_cb *done;
    void *done_arg;
    struct hf_answer answer;
    hf_error sentence;
};

static void take_caller(struct hf_claim *claim, struct caller *caller)
{
    caller->client = claim->client;
    caller->waiter = claim->waiter;
    caller->done = claim->done;
    caller->done_arg = claim->done_arg;
    caller->answer = hf__claim_take_answer(claim);
    claim->waiter = NULL;
    if (claim->done)
        hf__uv_loop_request_ended(claim->client);
    claim->done = NULL;
    if (caller->done && caller->answer.code != HF_OK)
        hf__answer_explain(claim->client, &caller->sentence, claim->op.in.name, &caller->answer);
}

/* The last thing of a step: a callback may do anything to the claim. */
static void complete_caller(const struct caller *caller)
{
    const struct hf_answer *answer = &caller->answer;
    if (caller->waiter) {
        hf__waiters_complete(caller->client, caller->waiter, *answer);
        return;
    }
    if (caller->done) {
        hf__uv_loop_before_callback(caller->client);
        caller->done(caller->done_arg, answer->code, answer->hold,
                     answer->code == HF_OK ? NULL : &caller->sentence);
    }
    free(answer->error);
}

/* Only the store's word makes a claim rest on a lease: one that was lost must not be watched again.
 * A claim that goes for good is not renewed any more, whether or not its release gets through. */
static void follow_lease(struct hf_claim *claim, enum hf_claim_event event)
{
    bool going = claim->state == HF_CLAIM_LEAVING && claim->op.in.keep == HF_KEEP_NOTHING;
    bool answered = event == HF_ON_ANSWER && !atomic_load(&claim->grant->lost) &&
                    /* mutant: place-in-queue-is-not-renewed */
                    (claim->op.out.verdict == HF_GRANTED || claim->op.out.verdict == HF_REFUSED);
    if (going || claim->state == HF_CLAIM_OVER)
        hf__lease_unwatch(claim);
    else if (answered)
        hf__lease_follow(claim);
}

static void set_timers(struct hf_claim *claim, unsigned actions)
{
    bool waits = !claim->completed && !(actions & HF_DO_FORGET);
    /* mutant: caller-without-answer-waits */
    claim->awaits_deadline = waits && claim->wait_until_ms != HF_NEVER;
    /* A step that only tells the caller leaves the pause before a repeated release as it is. */
    /* mutant: pause-before-repeated-release */
    if (actions & (HF_DO_ASK | HF_DO_RELEASE | HF_DO_FORGET))
        claim->awaits_retry = false;
    if (actions & (HF_DO_SLEEP | HF_DO_PAUSE))
        claim->awaits_retry = claim->retry_at_ms != HF_NEVER;
    set_alarm(claim);
}

/* What a step says about the store as a whole. */
static void note_store(struct hf_claim *claim, enum hf_claim_event event)
{
    struct hf_client *client = claim->client;
    enum hf_verdict verdict = claim->op.out.verdict;
    bool answered = event == HF_ON_ANSWER;
    if (answered && verdict == HF_NO_ANSWER)
        hf__count(claim->shard->counts, HF_COUNT_UNANSWERED, 1);
    if ((answered && verdict == HF_NO_ANSWER) ||
        /* mutant: silence-that-wait-ends */
        (event == HF_ON_DEADLINE && hf__claim_is_unanswered(claim, hf__loop_now(&client->loop))))
        hf__client_heard(client, false, claim->op.out.error);
    else if (answered && /* mutant: store-that-was-never-asked */
             (verdict == HF_GRANTED || verdict == HF_REFUSED || claim->op.out.contacted))
        hf__client_heard(client, true, NULL);
}

void hf__claim_drive(struct hf_claim *claim, enum hf_claim_event event)
{
    struct hf_client *client = claim->client;
    enum hf_claim_state before = claim->state;
    struct caller caller;
    note_store(claim, event);
    /* Without I/O the head may be another thread's to drive, and is answered at once. */
    if (before == HF_CLAIM_QUEUED && event == HF_ON_DEADLINE && !client->here)
        hf__lock_entry_judge_head(claim, hf__loop_now(&client->loop));
    /* The words on a silence stand until the store gives an answer: a caller that times out while
     * the question is out again gets them. */
    if (event == HF_ON_ANSWER &&
        (claim->op.out.verdict == HF_GRANTED || claim->op.out.verdict == HF_REFUSED))
        hf__drop_error(&claim->op);
    unsigned actions = hf__claim_step(claim, event, hf__loop_now(&client->loop));
    hf__trace_step(claim, event, before);
    hf__lock_entry_follow(claim, before);
    follow_lease(claim, event);
    if ((actions & HF_DO_COMPLETE) && claim->done)
        hf__point(client, "before_return", claim->op.in.name);
    /* A caller that loses patience before there are any words may hear from the engine which server
     * is silent. */
    bool impatient =
        (actions & HF_DO_COMPLETE) && before == HF_CLAIM_ASKING && event == HF_ON_DEADLINE;
    if (impatient && claim->outcome == HF_UNREACHABLE && !claim->op.out.error &&
        client->ops->why_silent)
        client->ops->why_silent(client->engine, &claim->op, &claim->op.out.error);
    if (actions & HF_DO_COMPLETE)
        take_caller(claim, &caller);
    set_timers(claim, actions);
    /* Words on an earlier release stand as well. */
    bool first = before != HF_CLAIM_LEAVING;
    if ((actions & HF_DO_RELEASE) && first) /* mutant: why-store-was-silent */
        hf__drop_error(&claim->op);
    if (actions & (HF_DO_ASK | HF_DO_RELEASE)) {
        claim->op.out.contacted = claim->op.out.hands_over = false;
        hf__count(claim->shard->counts, HF_COUNT_REQUESTS, 1);
    }
    if (actions & HF_DO_ASK)
        client->ops->attempt(client->engine, &claim->op);
    if (actions & HF_DO_RELEASE)
        client->ops->release(client->engine, &claim->op);
    if ((actions & HF_DO_RELEASE) && claim->op.out.hands_over)
        hf__uv_loop_yield_processor(client);
    if (actions & HF_DO_FORGET)
        hf__claim_forget(claim);
    else if (claim->state == HF_CLAIM_HELD && (before != HF_CLAIM_HELD || event == HF_ON_UPGRADE))
        hf__lock_entry_settle(claim, false);
    if (actions & HF_DO_COMPLETE)
        complete_caller(&caller);
}

/* ---- commands: what a claim is sent to the loop for ---- */

static void start(struct hf_claim *claim)
{
    bool asks = claim->state == HF_CLAIM_QUEUED || claim->state == HF_CLAIM_WAITING;
    /* A request may be canceled before it has started, or while its caller's thread has asked. */
    if (asks && atomic_load(&claim->ending)) /* mutant: request-that-ends-before-it-starts */
        hf__claim_drive(claim, HF_ON_END);
    else if (claim->state == HF_CLAIM_WAITING)
        hf__claim_drive(claim, HF_ON_WAKE);
    else if (claim->state == HF_CLAIM_QUEUED && (atomic_load(&claim->turn) & HF_TURN_COME))
        hf__claim_drive(claim, HF_ON_TURN);
    else if (claim->state == HF_CLAIM_HELD) {
        hf__lease_follow(claim);
        hf__compact_may_rest(claim);
    } else if (claim->state == HF_CLAIM_QUEUED || claim->state == HF_CLAIM_LEAVING) {
        if (claim->state == HF_CLAIM_QUEUED)
            claim->awaits_deadline = claim->wait_until_ms != HF_NEVER;
        claim->awaits_retry = claim->retry_at_ms != HF_NEVER;
        set_alarm(claim);
    }
}

/* With the shard locked: is the loop to do it? Not if by now a calling thread may be driving the
 * claim: what it is about was done when an earlier one arrived. Nor what ends another request. */
static bool is_for_loop(const struct hf_claim *claim, unsigned command)
{
    if (claim->forgotten)
        return false;
    if (command == HF_CMD_LOSE || command == HF_CMD_SETTLE || command == HF_CMD_ANNOUNCE)
        return true;
    return !claim->here &&
           (command != HF_CMD_CANCEL || claim->generation == claim->canceled_request);
}

/* One command at a time: the others come in the same turn, and find what this one has left. A
 * request with a callback begins when the client's thread turns the loop, and it does so until the
 * answer is there. */
static void command_arrived(struct hf_task *task)
{
    struct hf_claim *claim = HF_CONTAINER(task, struct hf_claim, command);
    struct hf_shard *shard = claim->shard;
    hf__shard_lock(shard);
    unsigned command = claim->commands & (0u - claim->commands);
    if ((claim->done || command == HF_CMD_ANNOUNCE) &&
        hf__uv_loop_defer_to_thread(claim->client, task)) {
        hf__shard_unlock(shard);
        return;
    }
    bool runs = is_for_loop(claim, command);
    if (claim->forgotten && command == HF_CMD_SETTLE)
        hf__claim_waiters_complete(claim);
    claim->commands &= (uint8_t)~command; /* mutant: claim-that-is-sent-to-loop */
    if (claim->commands)
        hf__loop_defer(&claim->client->loop, task);
    else
        hf__claim_unpin(claim);
    if (runs && command == HF_CMD_LOSE)
        hf__claim_lose_suspect(claim);
    if (runs && command == HF_CMD_ANNOUNCE) {
        hf__claim_announce(claim);
        hf__compact_rests(claim);
    }
    if (runs && command == HF_CMD_SETTLE)
        runs = hf__claim_begin_lowering(claim);
    hf__shard_unlock(shard);
    if (!runs)
        return;
    if (command == HF_CMD_START)
        start(claim);
    else if (command == HF_CMD_TURN && claim->state == HF_CLAIM_QUEUED)
        hf__claim_drive(claim, HF_ON_TURN);
    else if (command == HF_CMD_TURN && claim->state == HF_CLAIM_HELD && claim->upgrading)
        hf__claim_drive(claim, HF_ON_UPGRADE);
    else if (command == HF_CMD_CANCEL && claim->state != HF_CLAIM_HELD && !claim->completed)
        hf__claim_drive(claim, HF_ON_END);
    else if (command == HF_CMD_SETTLE)
        hf__claim_drive(claim, HF_ON_DOWNGRADE);
}

/* ---- what the watchdog says ---- */

static void lease_lost(struct hf_claim *claim, const char *reason)
{
    if (claim->store_mode != HF_KEEP_NOTHING)
        hf__claim_lose(claim, reason); /* mutant: lost-lease-is-not-announced */
    /* One that is held may just be prepared, on another thread, for being raised. */
    if (claim->state != HF_CLAIM_HELD)
        hf__claim_drive(claim, HF_ON_LEASE_LOST);
    else
        hf__compact_may_rest(claim);
}

void hf__op_lost(struct hf_op *op, const char *reason)
{
    struct hf_claim *claim = HF_CONTAINER(op, struct hf_claim, op);
    struct hf_tap *tap = claim->client->host.tap;
    if (tap)
        tap->op_lost(tap, op, reason);
    if (claim->store_mode == HF_KEEP_NOTHING)
        return;
    hf__lease_unwatch(claim);
    lease_lost(claim, reason); /* mutant: one-claim-loss-is-none */
}

static void init(struct hf_claim *claim)
{
    hf__timer_init(&claim->alarm, alarm_fired);
    hf__task_init(&claim->op.core.answer, op_answered);
    hf__task_init(&claim->command, command_arrived);
    claim->op.core.woken = op_woken;
}

const struct hf_claim_driver hf__claim_driver = {
    .init = init,
    .lease_lost = lease_lost,
    .lease_renewed = hf__compact_may_rest,
    .lease_unheard = hf__compact_unheard,
};
