/* SPDX-License-Identifier: Apache-2.0 */
/* Drives claims on the calling thread, for engines that answer without I/O: the same wait loop,
 * with the engine's own futex to sleep on instead of timers. */
#include "base/clock.h"
#include "base/futex.h"
#include "core/api/explain.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/pool.h"
#include "core/table/lock_table.h"
#include "core/trace.h"

static enum hf_claim_event what_happened(struct hf_claim *claim, enum hf_claim_event otherwise)
{
    int64_t now_ms = hf__clock_ms();
    if (atomic_load(&claim->ending))
        return HF_ON_END;
    if (now_ms >= claim->wait_until_ms)
        return HF_ON_DEADLINE;
    return now_ms >= claim->retry_at_ms ? HF_ON_RETRY : otherwise;
}

static int64_t wakes_at_ms(const struct hf_claim *claim)
{
    return claim->wait_until_ms < claim->retry_at_ms ? claim->wait_until_ms : claim->retry_at_ms;
}

static int64_t slice_end_ms(const struct hf_interlude *interlude, int64_t until_ms)
{
    return interlude && interlude->at_ms < until_ms ? interlude->at_ms : until_ms;
}

void hf__claim_rouse(struct hf_claim *claim)
{
    bool asks = claim->store_mode == HF_KEEP_NOTHING || claim->upgrading;
    if (!claim->here || !asks)
        return;
    atomic_fetch_or(&claim->turn, HF_TURN_ENDED);
    hf__futex_wake_all(&claim->turn);
    claim->client->sync->wake(claim->client->engine, &claim->op);
}

/* Until this claim may ask. */
static enum hf_claim_event sleep_in_queue(struct hf_claim *claim, struct hf_interlude *interlude)
{
    int64_t until_ms = wakes_at_ms(claim);
    while (!atomic_load(&claim->turn)) {
        hf__futex_wait_until(&claim->turn, 0, slice_end_ms(interlude, until_ms));
        if (hf__clock_ms() >= until_ms)
            break;
        if (interlude && !atomic_load(&claim->turn))
            interlude->run(interlude);
    }
    if (atomic_load(&claim->turn) & HF_TURN_COME)
        return HF_ON_TURN;
    return what_happened(claim, HF_ON_DEADLINE);
}

/* After REFUSED the engine wakes us; after silence only the clock, a stop or hf_close does. A wake
 * that comes with the end of a slice ends the next sleep at once. */
static enum hf_claim_event sleep_for_wake(struct hf_claim *claim, struct hf_interlude *interlude)
{
    int64_t until_ms = wakes_at_ms(claim), slice_ms;
    do {
        if (atomic_load(&claim->ending))
            return HF_ON_END;
        slice_ms = slice_end_ms(interlude, until_ms);
        if (claim->op.out.verdict == HF_REFUSED)
            claim->client->sync->sleep(claim->client->engine, &claim->op, slice_ms);
        else
            hf__futex_wait_until(&claim->turn, HF_TURN_COME, slice_ms);
        if (interlude)
            interlude->run(interlude);
    } while (slice_ms < until_ms && hf__clock_ms() >= slice_ms);
    return what_happened(claim, HF_ON_WAKE);
}

/* A release that was not answered is repeated, but the caller need not stay for that. */
static void leave_to_loop(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    claim->retry_at_ms = hf__clock_ms();
    hf__shard_lock(shard);
    claim->here = false;
    hf__claim_post(claim, HF_CMD_START);
    hf__shard_unlock(shard);
}

/* What the loop calls, as no thread waits for the answer. */
struct callback {
    hf_done_cb *done;
    void *arg;
};

/* From the refusal on no wake reaches this claim until the loop has asked again. */
static void go_on_on_loop(struct hf_claim *claim, const struct callback *callback)
{
    struct hf_shard *shard = claim->shard;
    hf__uv_loop_request_begins(claim->client);
    hf__shard_lock(shard);
    claim->done = callback->done;
    claim->done_arg = callback->arg;
    claim->here = false;
    hf__claim_post(claim, HF_CMD_START); /* mutant: start-goes-to-loop-too-early */
    hf__shard_unlock(shard);
}

static struct hf_answer drive(struct hf_claim *claim, enum hf_claim_event event, int64_t now_ms,
                              struct hf_interlude *interlude, const struct callback *callback)
{
    const struct hf_engine_sync_ops *sync = claim->client->sync;
    struct hf_engine *engine = claim->client->engine;
    struct hf_answer answer = { .code = HF_EINTERNAL };
    for (;;) {
        enum hf_claim_state before = claim->state;
        bool unanswered = event == HF_ON_ANSWER && claim->op.out.verdict == HF_NO_ANSWER;
        if (event == HF_ON_ANSWER)
            hf__client_heard(claim->client, !unanswered, NULL);
        if (unanswered)
            hf__count(claim->shard->counts, HF_COUNT_UNANSWERED, 1);
        unsigned actions = hf__claim_step(claim, event, now_ms);
        hf__trace_step(claim, event, before);
        if (actions == HF_DO_COMPLETE && claim->state == HF_CLAIM_HELD && claim->outcome == HF_OK &&
            event == HF_ON_ANSWER && claim->op.out.verdict == HF_GRANTED)
            return hf__lock_entry_grant_sync(claim);
        hf__lock_entry_follow(claim, before);
        if (actions & HF_DO_COMPLETE)
            answer = hf__claim_take_answer(claim);
        if (actions & HF_DO_ASK) {
            hf__drop_error(&claim->op);
            hf__count(claim->shard->counts, HF_COUNT_REQUESTS, 1);
            claim->op.out.verdict = sync->attempt(engine, &claim->op);
            event = HF_ON_ANSWER;
        } else if (actions & HF_DO_RELEASE) {
            hf__drop_error(&claim->op);
            hf__count(claim->shard->counts, HF_COUNT_REQUESTS, 1);
            claim->op.out.verdict = sync->release(engine, &claim->op);
            event = HF_ON_ANSWER;
        } else if ((actions & HF_DO_SLEEP) && callback) {
            go_on_on_loop(claim, callback);
            return (struct hf_answer){ .code = HF_ANSWER_FOLLOWS };
        } else if (actions & HF_DO_SLEEP) {
            event = sleep_for_wake(claim, interlude);
        } else {
            if ((actions & HF_DO_PAUSE) && !claim->completed) {
                claim->outcome = HF_UNREACHABLE;
                answer = hf__claim_take_answer(claim);
            }
            if (actions & HF_DO_FORGET)
                hf__claim_forget(claim);
            else if (actions & HF_DO_PAUSE)
                leave_to_loop(claim);
            else
                hf__lock_entry_settle(claim, claim->op.out.rests_on != NULL);
            return answer;
        }
        /* The clock is read anew after sleeping, and where a lease may have ended. A reply without
         * I/O takes time if this thread is stopped, or the process that has the name's guard. */
        if (actions & HF_DO_SLEEP || claim->op.out.rests_on)
            now_ms = hf__clock_ms();
    }
}

struct hf_answer hf__claim_drive_sync(struct hf_claim *claim, enum hf_claim_event event,
                                      int64_t now_ms, struct hf_interlude *interlude)
{
    return drive(claim, event, now_ms, interlude, NULL);
}

struct hf_answer hf__claim_start_sync(struct hf_claim *claim, int64_t now_ms, hf_done_cb *done,
                                      void *arg)
{
    return drive(claim, HF_ON_TURN, now_ms, NULL, &(struct callback){ done, arg });
}

struct hf_answer hf__claim_drive_queued(struct hf_claim *claim, struct hf_interlude *interlude)
{
    enum hf_claim_event event = sleep_in_queue(claim, interlude);
    return hf__claim_drive_sync(claim, event, hf__clock_ms(), interlude);
}
