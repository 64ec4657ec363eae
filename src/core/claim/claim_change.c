/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a held claim: lowering it to what its holds need, and raising it; on the calling thread
 * or on the loop. */
#include "core/claim/claim_change.h"

#include "base/clock.h"
#include "core/claim/claim_compact.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/claim_waiters.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"

#include <stdlib.h>

/* ---- lowering ---- */

/* Takes the lowering on: false if there is nothing to do, or another thread is at it and will look
 * again when done. With the shard locked. */
static bool take_on(struct hf_claim *claim)
{
    int needed = hf__lock_entry_needed(claim);
    if (claim->driven || claim->upgrading || claim->forgotten ||
        claim->store_mode == HF_KEEP_NOTHING || hf__lock_entry_is_settled(claim, needed))
        return false;
    claim->driven = true;
    claim->op.in.keep = needed;
    claim->completed = false;
    claim->outcome = HF_OK;
    return true;
}

struct hf_answer hf__claim_settle_here(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    struct hf_answer answer = { .code = atomic_load(&claim->grant->lost) ? HF_LOST : HF_OK };
    uint32_t uses = claim->uses;
    while (claim->uses == uses && take_on(claim)) {
        bool last = claim->op.in.keep == HF_KEEP_NOTHING;
        hf__shard_unlock(shard);
        free(answer.error);
        /* The time matters only to what is repeated after silence, and then the loop does it. */
        answer = hf__claim_drive_sync(claim, HF_ON_DOWNGRADE, 0, NULL);
        if (last)
            return answer;
        hf__shard_lock(shard);
    }
    hf__shard_unlock(shard);
    return answer;
}

bool hf__claim_begin_lowering(struct hf_claim *claim)
{
    hf__claim_waiters_begin_waits(claim);
    bool at_rest = !claim->driven && !claim->upgrading;
    bool lower = at_rest && claim->state == HF_CLAIM_HELD && take_on(claim);
    if (lower) {
        /* Each waiter has a patience of its own. */
        claim->wait_until_ms = HF_NEVER;
        claim->waiter = hf__claim_waiters_take_unlocks(claim);
        if (claim->op.in.keep == HF_KEEP_NOTHING) /* mutant: owner-is-given-back-keeps */
            hf__compact_make_way(claim);
    } else if (at_rest) {
        /* What was given back while the claim was being changed needs nothing more. */
        hf__claim_waiters_complete(claim);
    }
    return lower;
}

void hf__claim_settle(struct hf_claim *claim, struct hf_shard *shard, uint32_t uses)
{
    hf__shard_lock(shard);
    if (claim->uses == uses && claim->here) {
        struct hf_answer answer = hf__claim_settle_here(claim);
        free(answer.error);
        return;
    }
    if (claim->uses == uses && !hf__lock_entry_is_settled(claim, hf__lock_entry_needed(claim)))
        hf__claim_waiters_line_up(claim, NULL);
    hf__shard_unlock(shard);
}

/* ---- raising ---- */

bool hf__claim_may_run_here(const struct hf_client *client, int64_t wait_ms)
{
    return client->here && (client->drive_kind == HF_DRIVE_KIND_THREAD || wait_ms == 0);
}

void hf__claim_end(struct hf_client *client, hf_request request, int code)
{
    struct hf_claim *claim = hf__claim_find(client, request);
    if (!claim)
        return;
    int none = 0;
    bool begun = claim->started || claim->store_mode != HF_KEEP_NOTHING;
    if (atomic_compare_exchange_strong(&claim->ending, &none, code)) {
        claim->canceled_request = claim->generation;
        if (claim->here)
            hf__claim_rouse(claim);
        else if (begun) /* else it sees that when it starts */
            hf__claim_post(claim, HF_CMD_CANCEL);
    }
    hf__shard_unlock(claim->shard);
}

void hf__claim_end_by_stop(struct hf_stop_wait *wait)
{
    hf__claim_end(wait->client, wait->request, HF_CANCELED); /* mutant: stop-ends-a-request */
}

struct hf_answer hf__claim_ask_on_loop(struct hf_claim *claim, unsigned command,
                                       struct hf_interlude *interlude)
{
    struct hf_waiter waiter = { 0 };
    claim->waiter = &waiter;
    bool turns = hf__uv_loop_begin_wait(claim->client);
    struct hf_shard *shard = claim->shard;
    hf__shard_lock(shard);
    hf__claim_post(claim, command);
    hf__shard_unlock(shard);
    hf__uv_loop_wait(shard->client, &waiter.answered, turns, interlude);
    return waiter.answer;
}

struct hf_answer hf__claim_raise(struct hf_claim *claim, struct hf_lock_args *ask)
{
    uint32_t uses = claim->uses;
    struct hf_shard *shard = claim->shard;
    hf__claim_begin(claim, ask);
    struct hf_stop_wait wait = { .request = hf__claim_id(claim) };
    struct hf_interlude *interlude =
        hf__stop_wait_begin(&wait, claim->client, ask->stop, hf__claim_end_by_stop);
    struct hf_answer answer =
        claim->here ? hf__claim_drive_sync(claim, HF_ON_UPGRADE, hf__clock_ms(), interlude)
                    : hf__claim_ask_on_loop(claim, HF_CMD_TURN, interlude);
    hf__stop_wait_end(&wait);
    hf__claim_settle(claim, shard, uses);
    return answer;
}
