/* SPDX-License-Identifier: Apache-2.0 */
/* The waiters for a claim that is being changed. Each has a patience of its own, and a timer for it
 * on the loop: the change itself may be repeated for as long as the store is silent. */
#include "core/claim/claim_waiters.h"

#include "base/clock.h"
#include "core/api/explain.h"
#include "core/api/stop.h"
#include "core/claim/claim_fsm.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"

void hf__claim_waiters_line_up(struct hf_claim *claim, struct hf_waiter *waiter)
{
    if (waiter) {
        waiter->claim = claim;
        waiter->next = claim->unlock_waiter;
        claim->unlock_waiter = waiter;
    }
    hf__claim_post(claim, HF_CMD_SETTLE);
}

/* A caller that knows of the loss waits for a store that answers, so that the name is free there
 * when the call returns; the rest is cleaned up without the caller. What is given back altogether
 * is not renewed any more: if its lease is its own, it is over then, whether or not the store has
 * heard.
 */
static int64_t patience_of(const struct hf_claim *claim, const struct hf_waiter *waiter,
                           int64_t now_ms)
{
    const struct hf_client *client = claim->client;
    int64_t left_ms = atomic_load(&claim->grant->valid_until_ms) - now_ms;
    bool ends = claim->op.out.rests_on == &claim->op.engine.own_lease &&
                hf__lock_entry_needed(claim) == HF_KEEP_NOTHING;
    if (waiter->lost && atomic_load(&client->silent))
        return 0;
    if (waiter->lost || (ends && left_ms < HF_SILENCE_MS))
        left_ms = HF_SILENCE_MS;
    else if (!ends)
        return client->request_timeout_ms;
    return left_ms < client->request_timeout_ms ? left_ms : client->request_timeout_ms;
}

static bool leave_line(struct hf_waiter **at, const struct hf_waiter *waiter)
{
    while (*at && *at != waiter)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = waiter->next;
    return true;
}

/* It was silence, unless an earlier raise is waiting for what the store has refused. */
static void patience_over(struct hf_timer *timer)
{
    struct hf_waiter *waiter = HF_CONTAINER(timer, struct hf_waiter, patience);
    struct hf_claim *claim = waiter->claim;
    hf__shard_lock(claim->shard);
    /* A waiter that is not in this line waits for a lowering, which the loop drives. */
    if (!leave_line(&claim->unlock_waiter, waiter))
        leave_line(&claim->waiter, waiter);
    /* A raise that has ended already, and is being given back, waits for the store alone. */
    bool leaving = !claim->here && claim->state == HF_CLAIM_LEAVING;
    bool refused =
        waiter->asks && claim->upgrading && !leaving && !atomic_load(&claim->entry->silent);
    hf__shard_unlock(claim->shard);
    if (!waiter->asks) /* mutant: silence-that-unlock-ends */
        hf__client_heard(claim->client, false, NULL);
    waiter->answer.code = refused ? HF_BUSY : HF_UNREACHABLE;
    if (!waiter->asks) {
        /* What the release was answered last, or why the store is silent. */
        const struct hf_engine_ops *ops = claim->client->ops;
        const hf_error *last = claim->op.out.error;
        if (last)
            hf__explain(&waiter->answer.error, last->code, last->native, "%s", last->text);
        else if (ops->why_silent)
            ops->why_silent(claim->client->engine, &claim->op, &waiter->answer.error);
    }
    hf__waiter_tell(claim->client, waiter);
}

void hf__claim_waiters_begin_waits(struct hf_claim *claim)
{
    struct hf_loop *loop = &claim->client->loop;
    for (struct hf_waiter *waiter = claim->unlock_waiter; waiter; waiter = waiter->next) {
        if (waiter->patience.fire)
            continue;
        if (!waiter->asks)
            waiter->until_ms =
                hf__clock_add(hf__loop_now(loop), patience_of(claim, waiter, hf__loop_now(loop)));
        hf__timer_init(&waiter->patience, patience_over);
        /* mutant: owner-waits-behind-silent */
        hf__timer_start(loop, &waiter->patience, waiter->until_ms);
    }
}

struct hf_waiter *hf__claim_waiters_take_unlocks(struct hf_claim *claim)
{
    struct hf_waiter *taken = NULL, **at = &claim->unlock_waiter;
    while (*at) {
        struct hf_waiter *waiter = *at;
        if (waiter->asks) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->next = taken;
        taken = waiter;
    }
    return taken;
}

void hf__waiters_complete(struct hf_client *client, struct hf_waiter *first,
                          struct hf_answer answer)
{
    for (struct hf_waiter *waiter = first, *next; waiter; waiter = next) {
        next = waiter->next;
        hf__timer_stop(&client->loop, &waiter->patience);
        waiter->answer = answer;
        answer.error = NULL;
        hf__waiter_tell(client, waiter);
    }
}

void hf__claim_waiters_complete(struct hf_claim *claim)
{
    struct hf_answer answer = { .code = atomic_load(&claim->grant->lost) ? HF_LOST : HF_OK };
    struct hf_waiter *first = claim->unlock_waiter;
    claim->unlock_waiter = NULL;
    hf__waiters_complete(claim->client, first, answer);
}

void hf__claim_waiters_end_waits(struct hf_claim *claim)
{
    struct hf_waiter *unlocks = hf__claim_waiters_take_unlocks(claim);
    struct hf_waiter *first = claim->unlock_waiter;
    claim->unlock_waiter = unlocks;
    hf__waiters_complete(claim->client, first, (struct hf_answer){ .code = HF_ECLOSED });
}

/* On the loop. */
static void end_waiter(struct hf_stop_wait *wait)
{
    struct hf_waiter *waiter = wait->waiter;
    struct hf_claim *claim = waiter->claim;
    hf__shard_lock(claim->shard);
    bool waits = leave_line(&claim->unlock_waiter, waiter);
    hf__shard_unlock(claim->shard);
    waiter->next = NULL;
    if (waits)
        hf__waiters_complete(claim->client, waiter, (struct hf_answer){ .code = HF_CANCELED });
}

int hf__claim_waiters_await(struct hf_claim *claim, int64_t until_ms, hf_stop *stop)
{
    struct hf_waiter waiter = { .until_ms = until_ms, .asks = true };
    struct hf_stop_wait wait = { .waiter = &waiter };
    hf__shard_lock(claim->shard);
    bool busy = (claim->driven || claim->upgrading) && !claim->forgotten;
    bool turns = busy && hf__uv_loop_begin_wait(claim->client);
    if (busy)
        hf__claim_waiters_line_up(claim, &waiter);
    hf__shard_unlock(claim->shard);
    if (!busy)
        return HF_OK;
    hf__uv_loop_wait(claim->client, &waiter.answered, turns,
                     hf__stop_wait_begin(&wait, claim->client, stop, end_waiter));
    hf__stop_wait_end(&wait);
    int code = waiter.answer.code;
    return code == HF_LOST ? HF_OK : code;
}
