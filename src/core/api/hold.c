/* SPDX-License-Identifier: Apache-2.0 */
/* Holds: what they know, giving them back, upgrading and lowering them. */

#include "base/cancel.h"
#include "core/api/args.h"
#include "core/api/explain.h"
#include "core/api/fork.h"
#include "core/api/reply.h"
#include "core/api/request.h"
#include "core/claim/claim_change.h"
#include "core/claim/claim_compact.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/claim_waiters.h"
#include "core/claim/fast_path.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"

#include <stdlib.h>
#include <string.h>

static struct hf_shard *shard_of(const struct hf_claim *claim)
{
    return claim->shard;
}

/* ---- what needs no question ---- */

static struct hf_client *client_of(const struct hf_hold *hold)
{
    return hold->grant->shard->client;
}

static const char *name_of(const struct hf_hold *hold)
{
    return hf__shown_name(client_of(hold), hold->grant->entry->name);
}

static int64_t left_ms(const struct hf_grant *grant)
{
    if (atomic_load(&grant->lost))
        return 0;
    int64_t valid_until = atomic_load(&grant->valid_until_ms);
    if (valid_until == HF_NEVER)
        return INT64_MAX;
    struct hf_loop *loop = &grant->shard->client->loop;
    int64_t left = valid_until - loop->clock(loop->arg);
    return left > 0 ? left : 0;
}

bool hf_held(const hf_hold *hold)
{
    return hf_remaining_ms(hold) > 0;
}

int64_t hf_remaining_ms(const hf_hold *hold)
{
    if (!hold || hf__forked(client_of(hold)))
        return 0;
    return left_ms(hold->grant);
}

uint64_t hf_token(const hf_hold *hold)
{
    return hold ? atomic_load(&hold->grant->token) : 0;
}

const char *hf_hold_name(const hf_hold *hold)
{
    return hold ? name_of(hold) : "";
}

hf_mode hf_hold_mode(const hf_hold *hold)
{
    return hold ? hold->mode : HF_MUTEX;
}

/* ---- giving back ---- */

/* Not a code: the reply will tell. It may be gone already. */
#define REPLY_FOLLOWS (-1)

/* Lowers a claim whose holds have changed. With the shard locked; returns with it unlocked, and the
 * claim possibly gone. A hold that was lost stays so, whatever the store has to say, or has not.
 * `reply`: NULL, or it waits in the caller's place. */
static struct hf_answer lower(struct hf_claim *claim, bool wait, struct hf_reply *reply)
{
    struct hf_client *client = claim->client;
    struct hf_shard *shard = shard_of(claim);
    bool lost = left_ms(claim->grant) == 0;
    struct hf_answer answer = { .code = lost ? HF_LOST : HF_OK };
    int needed = hf__lock_entry_needed(claim);
    claim->refused_keep = 0;
    if (needed == HF_KEEP_NOTHING || needed < claim->held_mode)
        claim->held_mode = (int8_t)needed;
    if (needed == HF_KEEP_NOTHING)
        hf__claim_count_hold_end(claim);
    if (lost)
        hf__claim_count_loss(claim);
    if (needed == claim->store_mode) {
        hf__shard_unlock(shard);
        return answer;
    }
    HF_NO_CANCELLATION; /* mutant: unlock-that-asks-may-be-canceled */
    if (claim->here)
        return hf__claim_settle_here(claim);
    struct hf_waiter waiter = { .lost = lost };
    bool waits = wait && !claim->upgrading && !hf__uv_loop_inside(client);
    bool replies = reply && !claim->upgrading;
    if (replies)
        reply->waiter.lost = lost;
    bool turns = waits     ? hf__uv_loop_begin_wait(client)
                 : replies ? hf__uv_loop_begin_watched(client)
                           : hf__uv_loop_begin_push(client);
    hf__claim_waiters_line_up(claim, waits ? &waiter : replies ? &reply->waiter : NULL);
    hf__shard_unlock(shard);
    if (waits) {
        hf__uv_loop_wait(client, &waiter.answered, turns, NULL);
        answer = waiter.answer;
        if (lost && answer.code != HF_OK)
            answer.code = HF_LOST;
    } else {
        (replies ? hf__uv_loop_watched : hf__uv_loop_push)(client, turns);
        answer.code = replies ? REPLY_FOLLOWS : answer.code;
    }
    return answer;
}

/* What a caller, or a log, is told after the claim is gone. */
struct parting {
    bool events; /* the whole name is wanted, else its begin will do for a sentence */
    uint64_t token;
    char name[HF_NAME_MAX + 1];
};

static int unlock(struct hf_hold *hold, bool wait, struct hf_reply *reply)
{
    struct hf_shard *shard = hold->grant->shard;
    struct hf_client *client = shard->client;
    uint64_t name_hash = hold->grant->entry->hash;
    struct parting parting;
    hf__shard_lock(shard);
    struct hf_claim *claim = hf__compact_fetch(hold->grant, HF_FETCH_TO_UNLOCK);
    if (claim && hf__fast_release(shard, hold)) {
        hf__shard_unlock(shard);
        return HF_OK;
    }
    const struct hf_grant *grant = hold->grant;
    parting.events = hf__host_wants_events(&grant->shard->client->host);
    size_t length = grant->entry->name_length, enough = 47 + grant->shard->client->prefix_length;
    if (length > enough && !parting.events)
        length = enough;
    memcpy(parting.name, grant->entry->name, length);
    parting.name[length] = 0;
    parting.token = atomic_load(&grant->token);
    if (!claim) {
        struct hf_answer answer = { .code = hf__compact_drop_hold(hold) };
        hf__shard_unlock(shard);
        return hf__answer_return(client, parting.name, &answer);
    }
    /* Dropping it may wait for its on_lost, with the shard unlocked. */
    bool counted = atomic_load(&claim->in_callback) != 0;
    if (counted)
        shard->calls_begun++;
    hf__lock_entry_drop_hold(hold);
    bool last = hf__list_empty(&claim->grant->holds);
    if (!counted && hf__lock_entry_needed(claim) != claim->store_mode) {
        counted = true;
        shard->calls_begun++;
    }
    if (reply) {
        reply->says_released = last && parting.events;
        reply->token = parting.token;
    }
    struct hf_answer answer = lower(claim, wait, reply);
    if (last && parting.events && answer.code == HF_OK)
        hf__host_event(&client->host, HF_EVENT_RELEASED, parting.name, parting.token, "released");
    int code = answer.code == REPLY_FOLLOWS ? REPLY_FOLLOWS
                                            : hf__answer_return(client, parting.name, &answer);
    if (counted)
        hf__lock_entry_call_ended(client, name_hash);
    return code;
}

int hf_unlock(hf_hold *hold)
{
    if (!hold)
        return HF_OK;
    int code = hf__args_client(client_of(hold), false);
    return code == HF_OK ? unlock(hold, true, NULL) : code;
}

void hf_unlock_nowait(hf_hold *hold)
{
    if (hold && hf__args_client(client_of(hold), false) == HF_OK)
        unlock(hold, false, NULL);
}

/* Counted in until `done` has run, so that hf_close waits for it. */
int hf_unlock_async(hf_hold *hold, hf_done_cb *done, void *arg)
{
    HF_NO_CANCELLATION;
    if (!hold || !done)
        return hf__answer_fail(HF_EINVAL, "%s is NULL", hold ? "done" : "the hold");
    struct hf_client *client = client_of(hold);
    int code = hf__args_client(client, false);
    if (code != HF_OK)
        return code;
    const struct hf_lock_entry *entry = hold->grant->entry;
    struct hf_reply *reply;
    code = hf__reply_new(&reply, client, entry->name, entry->hash, done, arg);
    if (code != HF_OK)
        return code;
    code = unlock(hold, false, reply);
    if (code == REPLY_FOLLOWS)
        return HF_OK;
    reply->says_released = false; /* it has been said */
    hf__reply_send(reply, code);
    return HF_OK;
}

/* ---- changing ---- */

static int check_change(const struct hf_hold *hold, bool waits)
{
    if (!hold)
        return hf__answer_fail(HF_EINVAL, "the hold is NULL");
    int code = hf__args_client(client_of(hold), waits);
    if (code != HF_OK)
        return code;
    if (!hf__mode_is_rw(hold->mode))
        return hf__answer_fail(HF_EINVAL, "\"%.200s\" is not held as a read-write lock",
                               name_of(hold));
    if (atomic_load(&hold->grant->lost))
        return hf__answer_fail(HF_LOST, "\"%.200s\" was lost; give the hold back", name_of(hold));
    return HF_OK;
}

int hf_downgrade(hf_hold *hold, hf_mode mode)
{
    HF_NO_CANCELLATION;
    int code = check_change(hold, true);
    if (code != HF_OK)
        return code;
    if (!hf__mode_is_rw(mode) || mode > hold->mode)
        return hf__answer_fail(HF_EINVAL,
                               "\"%.200s\": a hold goes down from HF_WRITE to "
                               "HF_UPGRADE to HF_READ, not up; use hf_upgrade",
                               name_of(hold));
    if (mode == hold->mode)
        return HF_OK;
    struct hf_claim *claim = hold->grant->claim;
    struct hf_client *client = claim->client;
    if (mode == HF_UPGRADE && !(client->ops->caps & HF_CAP_UPGRADE))
        return hf__answer_fail(HF_ENOTSUP,
                               "the engine \"%s\" has no upgradeable reads; go down to HF_READ",
                               client->ops->name);
    struct hf_shard *shard = shard_of(claim);
    hf_mode before = hold->mode;
    hf__shard_lock(shard);
    shard->calls_begun++;
    hold->mode = mode;
    struct hf_answer answer = lower(claim, true, NULL);
    hf__shard_lock(shard);
    if (answer.code != HF_OK && claim->refused_keep)
        hold->mode = before;
    hf__shard_unlock(shard);
    code = hf__answer_return(claim->client, claim->op.in.name, &answer);
    hf__lock_entry_call_ended(client, claim->op.in.name_hash);
    return code;
}

enum raise { RAISE_DONE, RAISE_GO, RAISE_TOO_EARLY, RAISE_IMPOSSIBLE, RAISE_LOST };

static enum raise begin_raise(struct hf_shard *shard, struct hf_hold *hold, bool here)
{
    struct hf_claim *claim = hold->grant->claim;
    enum raise raise = RAISE_GO;
    hf__shard_lock(shard);
    if (atomic_load(&claim->grant->lost)) {
        raise = RAISE_LOST;
    } else if (claim->held_mode == HF_WRITE) {
        hold->mode = HF_WRITE;
        raise = RAISE_DONE;
    } else if (claim->held_mode == HF_UPGRADE && (claim->driven || claim->upgrading)) {
        raise = RAISE_TOO_EARLY;
    } else if (claim->held_mode != HF_UPGRADE) {
        raise = RAISE_IMPOSSIBLE;
    } else {
        claim->upgrading = claim->driven = true;
        claim->here = claim->here && here;
        claim->changing = hold;
    }
    hf__shard_unlock(shard);
    return raise;
}

/* Why a hold is not raised now. */
static struct hf_answer refuse_raise(const struct hf_claim *claim, enum raise raise)
{
    struct hf_answer answer = { .code = HF_OK };
    if (raise == RAISE_LOST)
        answer.code = HF_LOST;
    if (raise == RAISE_TOO_EARLY) {
        answer.code = HF_BUSY;
        hf__explain(&answer.error, HF_BUSY, 0, HF_REST_TOO_EARLY, claim->op.in.name);
    }
    if (raise == RAISE_IMPOSSIBLE) {
        answer.code = HF_EDEADLK;
        hf__explain(&answer.error, HF_EDEADLK, 0,
                    "\"%.200s\": only HF_UPGRADE goes up to HF_WRITE; two readers that did would "
                    "wait for each other",
                    claim->op.in.name);
    }
    return answer;
}

/* What hf_upgrade answers, before it asks the store or after. */
static struct hf_answer raise_hold(struct hf_hold *hold, struct hf_lock_args *ask)
{
    struct hf_claim *claim = hold->grant->claim;
    struct hf_answer answer = { .code = HF_OK };
    bool here = hf__claim_may_run_here(claim->client, ask->wait_ms);
    enum raise raise = begin_raise(shard_of(claim), hold, here);
    while (raise == RAISE_TOO_EARLY && ask->wait_ms != 0 && answer.code == HF_OK) {
        answer.code = hf__claim_waiters_await(claim, ask->wait_until_ms, ask->stop);
        if (answer.code == HF_OK)
            raise = begin_raise(shard_of(claim), hold, here);
    }
    if (raise == RAISE_GO)
        return hf__claim_raise(claim, ask);
    return answer.code == HF_OK ? refuse_raise(claim, raise) : answer;
}

/* Counts the call in. */
static int begin_upgrade(struct hf_lock_args *ask, struct hf_hold *hold, int64_t wait_ms,
                         hf_stop *stop, bool waits)
{
    int code = check_change(hold, waits);
    if (code == HF_OK)
        code = hf__args_wait(wait_ms);
    if (code == HF_OK)
        code = hf__args_stop(stop);
    if (code != HF_OK)
        return code;
    struct hf_client *client = client_of(hold);
    *ask = (struct hf_lock_args){ .wait_ms = wait_ms,
                                  .mode = HF_WRITE,
                                  .stop = stop,
                                  .now_ms = client->loop.clock(client->loop.arg) };
    ask->wait_until_ms = hf__args_until(ask->now_ms, wait_ms);
    hf__shard_lock(hold->grant->shard);
    hold->grant->shard->calls_begun++;
    hf__shard_unlock(hold->grant->shard);
    return HF_OK;
}

int hf_upgrade(hf_hold *hold, int64_t wait_ms)
{
    return hf_upgrade_stoppable(hold, wait_ms, NULL);
}

int hf_upgrade_stoppable(hf_hold *hold, int64_t wait_ms, hf_stop *stop)
{
    HF_NO_CANCELLATION;
    struct hf_lock_args ask;
    int code = begin_upgrade(&ask, hold, wait_ms, stop, true);
    if (code != HF_OK)
        return code;
    struct hf_claim *claim = hold->grant->claim;
    struct hf_client *client = claim->client;
    struct hf_answer answer = raise_hold(hold, &ask);
    code = hf__answer_return(claim->client, claim->op.in.name, &answer);
    hf__lock_entry_call_ended(client, claim->op.in.name_hash);
    return code;
}

/* The hold is HF_WRITE already. */
static int tell_raised(const struct hf_claim *claim, hf_done_cb *done, void *arg)
{
    const struct hf_op *op = &claim->op;
    struct hf_reply *reply;
    int code = hf__reply_new(&reply, claim->client, op->in.name, op->in.name_hash, done, arg);
    if (code == HF_OK)
        hf__reply_send(reply, HF_OK);
    return code;
}

int hf_upgrade_async(hf_hold *hold, int64_t wait_ms, hf_stop *stop, hf_done_cb *done, void *arg,
                     hf_request *ret)
{
    HF_NO_CANCELLATION;
    struct hf_lock_args ask;
    struct hf_stoppable *stoppable = NULL;
    if (ret)
        *ret = 0;
    if (!done)
        return hf__answer_fail(HF_EINVAL, "done is NULL: the result would be lost");
    int code = begin_upgrade(&ask, hold, wait_ms, stop, false);
    if (code != HF_OK)
        return code;
    struct hf_claim *claim = hold->grant->claim;
    struct hf_client *client = claim->client;
    uint64_t name_hash = claim->op.in.name_hash;
    code = hf__stoppable_new(&stoppable, client, stop);
    enum raise raise = RAISE_DONE;
    if (code == HF_OK)
        raise = begin_raise(shard_of(claim), hold, false);
    if (raise == RAISE_GO) {
        if (ret)
            *ret = hf__claim_id(claim);
        hf__request_start(claim, &ask, true, stoppable, done, arg);
    } else if (code == HF_OK) {
        free(stoppable);
        struct hf_answer answer = refuse_raise(claim, raise);
        code = hf__answer_return(client, claim->op.in.name, &answer);
        if (code == HF_OK)
            code = tell_raised(claim, done, arg);
    }
    hf__lock_entry_call_ended(client, name_hash);
    return code;
}
