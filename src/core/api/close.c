/* SPDX-License-Identifier: Apache-2.0 */
/* Closing: each waiter is told, each hold goes back, then the parts end. */
#include "core/api/close.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/testing.h"
#include "core/api/args.h"
#include "core/api/calls.h"
#include "core/api/explain.h"
#include "core/api/fork.h"
#include "core/api/stop.h"
#include "core/claim/claim_change.h"
#include "core/claim/claim_compact.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/claim_waiters.h"
#include "core/loop/uv_loop.h"
#include "core/oneshot/oneshot.h"
#include "core/table/lock_table.h"

#include <stdlib.h>

/* ---- calls ---- */

static int answer_closed(void)
{
    return hf__answer_fail(HF_ECLOSED, "the client is being closed");
}

int hf__call_begin(struct hf_client *client, bool waits)
{
    int code = hf__args_client(client, waits);
    return code == HF_OK && !hf__lock_entry_call_begin(client, 0) ? answer_closed() : code;
}

int hf__call_check(const struct hf_client *client)
{
    return atomic_load(&client->closing) ? answer_closed() : HF_OK;
}

int64_t hf__call_timeout_ms(const struct hf_client *client)
{
    return client->request_timeout_ms;
}

int hf__call_judge(const struct hf_client *client, int64_t had_ms)
{
    if (had_ms >= HF_SILENCE_MS || atomic_load(&client->silent))
        return HF_UNREACHABLE;
    return hf__answer_fail(HF_BUSY,
                           "the wait has ended; its last %lld ms were too short for a reply",
                           (long long)had_ms);
}

bool hf__call_runs_loop(const struct hf_client *client)
{
    return client && client->drive_kind == HF_DRIVE_KIND_CALLER;
}

void hf__call_answers_later(bool later)
{
    hf__uv_loop_watch_nothing(later);
}

void hf__call_ended(struct hf_client *client)
{
    hf__lock_entry_call_ended(client, 0);
}

/* ---- closing ---- */

/* How often the loop looks whether the last claim is over. */
#define LOOK_EVERY_MS 3
/* How long a store that is silent has for hearing what is given back. */
#define SILENT_MS 1000

struct closing {
    struct hf_task task;
    struct hf_timer timer;
    struct hf_client *client;
    int64_t began_ms;
    bool waiting_for_calls;
    _Atomic uint32_t done;
};

/* Blocked threads that drive their own claim see `ending` before they sleep, or are roused. */
static void rouse(struct hf_claim *claim, void *arg)
{
    (void)arg;
    atomic_store(&claim->ending, HF_ECLOSED);
    hf__claim_rouse(claim);
}

/* One claim's way out: what waits is ended, what is held is given back. Returns true while it is
 * there. `holds_too`: no call is inside any more, so no other thread drives it. */
static bool push_out(struct hf_shard *shard, struct hf_claim *claim, bool holds_too)
{
    hf__shard_lock(shard);
    bool there = claim->entry && !claim->forgotten;
    bool held = there && claim->store_mode != HF_KEEP_NOTHING && !claim->upgrading;
    /* What has not been started is still being prepared by its caller. */
    bool begun = claim->started || claim->store_mode != HF_KEEP_NOTHING;
    bool mine = there && !claim->here && begun;
    if (there)
        hf__claim_waiters_end_waits(claim);
    if (held && holds_too) {
        while (!hf__list_empty(&claim->grant->holds))
            hf__lock_entry_drop_hold(HF_CONTAINER(claim->grant->holds.next, struct hf_hold, link));
        claim->held_mode = HF_KEEP_NOTHING;
        uint32_t uses = claim->uses;
        hf__shard_unlock(shard);
        hf__claim_settle(claim, shard, uses);
        return true;
    }
    hf__shard_unlock(shard);
    if (mine && !held && !claim->completed)
        hf__claim_drive(claim, HF_ON_END);
    return there;
}

/* Giving back may add chunks, on another thread. NULL: there are no more. */
static struct hf_claim *chunk_of(struct hf_shard *shard, uint32_t number)
{
    hf__shard_lock(shard);
    struct hf_claim *chunk = number < shard->chunk_count ? shard->chunks[number] : NULL;
    hf__shard_unlock(shard);
    return chunk;
}

static bool push_all_out(struct hf_client *client, bool holds_too)
{
    bool any = false;
    for (unsigned s = 0; s < HF_SHARDS; s++) {
        struct hf_shard *shard = &client->shards[s];
        if (holds_too) /* mutant: closing-leaves-what-is-set */
            any |= hf__compact_fetch_some(shard);
        struct hf_claim *chunk;
        for (uint32_t c = 0; (chunk = chunk_of(shard, c)); c++)
            for (uint32_t i = 0; i < HF_CLAIM_CHUNK; i++)
                any |= push_out(shard, &chunk[i], holds_too);
    }
    return any;
}

/* A caller that has waited for a silent store already does not wait for it once more in full; a
 * store that falls silent for a moment only has that long to come back. */
static bool is_patience_over(const struct closing *closing, int64_t now_ms)
{
    struct hf_client *client = closing->client;
    int64_t since_ms = atomic_load(&client->silent_since_ms);
    if (since_ms < closing->began_ms) /* mutant: closing-does-not-try-store */
        since_ms = closing->began_ms;
    return now_ms >= hf__clock_add(closing->began_ms, client->request_timeout_ms) ||
           /* mutant: closing-waits-for-silent-store */
           (atomic_load(&client->silent) && now_ms >= hf__clock_add(since_ms, SILENT_MS));
}

static void look(struct closing *closing)
{
    struct hf_client *client = closing->client;
    struct hf_loop *loop = &client->loop;
    if (closing->waiting_for_calls) {
        hf__oneshots_end(client); /* mutant: owner-asks-silent-store */
        push_all_out(client, false);
        closing->waiting_for_calls = hf__lock_entry_calls(client) != 0;
    }
    /* The second push only asks whether the first has sufficed. */
    if (!closing->waiting_for_calls &&
        (!push_all_out(client, true) || !push_all_out(client, true) ||
         is_patience_over(closing, hf__loop_now(loop)))) {
        hf__uv_loop_notify(client, &closing->done);
        return;
    }
    hf__timer_start(loop, &closing->timer, hf__loop_now(loop) + LOOK_EVERY_MS);
}

static void looked(struct hf_timer *timer)
{
    look(HF_CONTAINER(timer, struct closing, timer));
}

/* From here on the client's thread does not park any more. */
static void begun(struct hf_task *task)
{
    struct closing *closing = HF_CONTAINER(task, struct closing, task);
    if (hf__uv_loop_defer_to_thread(closing->client, task))
        return;
    closing->began_ms = hf__loop_now(&closing->client->loop);
    look(closing);
}

struct engine_end {
    struct hf_task task;
    struct hf_client *client;
    _Atomic uint32_t done;
};

static void engine_closed(void *arg)
{
    struct engine_end *end = arg;
    hf__uv_loop_notify(end->client, &end->done);
}

/* What is left of it is the store's matter. */
static void still(struct hf_claim *claim, void *arg)
{
    struct hf_client *client = arg;
    hf__claim_still(claim);
    if (client->ops->dismiss && claim->state != HF_CLAIM_OVER)
        client->ops->dismiss(client->engine, &claim->op);
}

static void close_engine(struct hf_task *task)
{
    struct engine_end *end = HF_CONTAINER(task, struct engine_end, task);
    hf__claims_visit(end->client, still, end->client);
    hf__compact_stop(end->client);
    HF_POINT("core:closing");
    end->client->ops->close(end->client->engine, engine_closed, end);
}

void hf__client_free(struct hf_client *client)
{
    hf__stops_close(client);
    hf__oneshots_discard(client);
    hf__lock_table_close(client);
    pthread_mutex_destroy(&client->silence_mutex);
    free(client);
}

void hf__client_close_parts(struct hf_client *client)
{
    /* First, so that a fork() from now on leaves an engine alone that is about to be freed. The
     * engine ends its connections and kernel locks by themselves, not by closing the descriptor, so
     * a child's copies keep nothing. */
    hf__fork_unregister(client);
    if (client->engine) {
        hf__lock_table_drop_idle(client);
        /* An engine that was opened before the thread was started is closed on this one. */
        struct engine_end end = { .client = client };
        hf__task_init(&end.task, close_engine);
        bool turns = hf__uv_loop_begin_wait(client);
        hf__loop_post(&client->loop, &end.task);
        hf__uv_loop_wait(client, &end.done, turns, NULL);
    }
    if (client->drive)
        hf__uv_loop_close(client);
    hf__client_free(client);
}

void hf_close(hf_client *client)
{
    HF_NO_CANCELLATION;
    if (!client)
        return;
    if (hf__forked(client)) {
        hf__uv_loop_abandon(client);
        /* The parent's loop may have been at it. */
        hf__link_init(&client->oneshots);
        hf__client_free(client);
        return;
    }
    if (hf__uv_loop_inside(client)) {
        hf__answer_fail(HF_EDEADLK, "a callback must not close its own client");
        return;
    }
    struct closing closing = { .client = client, .waiting_for_calls = true };
    atomic_store(&client->closing, 1);
    hf__claims_visit(client, rouse, NULL);
    hf__task_init(&closing.task, begun);
    hf__timer_init(&closing.timer, looked);
    bool turns = hf__uv_loop_begin_wait(client);
    hf__loop_post(&client->loop, &closing.task);
    hf__uv_loop_wait(client, &closing.done, turns, NULL);
    hf__client_close_parts(client);
}
