/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring: hf_lock and what is built on it, hf_lock_async, hf_cancel. */

#include "base/cancel.h"
#include "base/clock.h"
#include "base/testing.h"
#include "core/api/args.h"
#include "core/api/deadlock.h"
#include "core/api/explain.h"
#include "core/api/owner.h"
#include "core/api/reply.h"
#include "core/api/request.h"
#include "core/api/stop.h"
#include "core/claim/claim_change.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/claim_waiters.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"

#include <stdlib.h>
#include <string.h>

static struct hf_answer drive_new(const struct hf_entrance *entrance,
                                  const struct hf_lock_args *ask)
{
    struct hf_answer answer;
    struct hf_claim *claim = entrance->claim;
    struct hf_stop_wait wait = { .request = hf__claim_id(claim) };
    struct hf_deadlock_wait circle;
    hf__request_begin(claim, ask);
    struct hf_interlude *interlude =
        hf__stop_wait_begin(&wait, claim->client, ask->stop, hf__claim_end_by_stop);
    interlude = hf__deadlock_wait_begin(&circle, claim, ask, entrance->contended, interlude);
    if (!claim->here)
        answer = hf__claim_ask_on_loop(claim, HF_CMD_START, interlude);
    else if (entrance->how == HF_ADMIT_QUEUED)
        answer = hf__claim_drive_queued(claim, interlude);
    else
        answer = hf__claim_drive_sync(claim, HF_ON_TURN, ask->now_ms, interlude);
    hf__deadlock_wait_end(&circle, &answer);
    hf__stop_wait_end(&wait);
    return answer;
}

/* Waits until the owner's claim is at rest, and tries to enter again. The call that was counted in
 * goes on. */
static void enter_later(struct hf_client *client, const struct hf_lock_args *ask,
                        struct hf_entrance *entrance)
{
    struct hf_claim *claim = entrance->claim;
    int code = hf__claim_waiters_await(claim, ask->wait_until_ms, ask->stop);
    hf__shard_lock(claim->shard);
    hf__claim_unpin(claim);
    hf__shard_unlock(claim->shard);
    entrance->how = HF_ADMIT_NO;
    entrance->answer.code = code;
    if (code == HF_OK)
        hf__lock_entry_admit(client, ask, entrance);
}

/* For what was not answered when it was admitted. */
static void ask_blocking(struct hf_client *client, struct hf_lock_args *ask,
                         struct hf_entrance *entrance)
{
    HF_NO_CANCELLATION; /* mutant: lock-that-asks-may-be-canceled */
    while (entrance->how == HF_ADMIT_EARLY)
        enter_later(client, ask, entrance);
    if (entrance->how > HF_ADMIT_EARLY)
        return;
    entrance->answer = entrance->how == HF_ADMIT_UPGRADE ? hf__claim_raise(entrance->claim, ask)
                                                         : drive_new(entrance, ask);
    hf__point(client, "before_return", ask->name);
}

/* What blocks in hf_lock and hf_attach: an hf_code, with its sentence in hf_last_error. */
static int lock_blocking(struct hf_client *client, struct hf_lock_args *ask, hf_hold **ret)
{
    struct hf_entrance entrance;
    struct hf_answer *answer = &entrance.answer;
    entrance.calls = 0;
    ask->here = hf__claim_may_run_here(client, ask->wait_ms);
    ask->blocks = true;
    hf__lock_entry_admit(client, ask, &entrance);
    if (entrance.calls)
        ask_blocking(client, ask, &entrance);
    if (ret)
        *ret = answer->hold;
    if (ask->attach_key && answer->code == HF_LOST && !answer->error)
        hf__explain(
            &answer->error, HF_LOST, 0,
            "\"%.200s\" is not held under the key %.100s: its lease has ended, or a renewal has "
            "given it another key",
            ask->name, ask->attach_key);
    int code = hf__answer_return(client, ask->name, answer);
    while (entrance.calls--)
        hf__lock_entry_call_ended(client, ask->name_hash);
    return code;
}

int hf_lock(hf_client *client, const char *name, int64_t wait_ms, const hf_lock_options *options,
            hf_hold **ret)
{
    if (ret)
        *ret = NULL;
    struct hf_lock_args ask;
    struct hf_store_name full;
    int code = hf__args_client(client, true);
    if (code == HF_OK)
        code = hf__args_read(&ask, &full, client, name, wait_ms, options);
    if (code != HF_OK)
        return code;
    if (!ret && hf__mode_leaves_hold(ask.mode))
        return hf__answer_fail(HF_EINVAL,
                               "ret is NULL: without the hold, \"%.200s\" could never "
                               "be released",
                               name);
    if (!ask.owner)
        ask.owner = hf__owner_thread();
    return lock_blocking(client, &ask, ret);
}

/* ---- asynchronous ---- */

/* An answer that needed no question still comes from the loop. A call until it is delivered, so
 * that hf_close does not take the hold away before. */
static int answer_nested(struct hf_client *client, const struct hf_lock_args *ask, hf_hold *hold,
                         hf_done_cb *done, void *arg)
{
    struct hf_reply *reply;
    int code = hf__reply_new(&reply, client, ask->name, ask->name_hash, done, arg);
    if (code == HF_ENOMEM)
        hf_unlock_nowait(hold);
    if (code != HF_OK)
        return code;
    reply->hold = hold;
    hf__reply_send(reply, HF_OK);
    return HF_OK;
}

static int lock_async(struct hf_client *client, struct hf_lock_args *ask, hf_done_cb *done,
                      void *arg, hf_request *ret, hf_hold **ret_hold)
{
    struct hf_entrance entrance;
    struct hf_answer *answer = &entrance.answer;
    struct hf_stoppable *stoppable;
    entrance.calls = 0;
    int code = hf__stoppable_new(&stoppable, client, ask->stop);
    if (code != HF_OK)
        return code;
    hf__lock_entry_admit(client, ask, &entrance);
    bool starts = entrance.calls > 0;
    if (!starts)
        free(stoppable);
    if (entrance.how == HF_ADMIT_NESTED && !ret_hold)
        return answer_nested(client, ask, answer->hold, done, arg);
    if (starts && ret)
        *ret = hf__claim_id(entrance.claim);
    if (starts && ret_hold && entrance.claim->here) {
        *answer = hf__request_start_here(entrance.claim, ask, stoppable, done, arg);
        hf__point(client, "before_return", ask->name);
    } else if (starts) {
        hf__request_start(entrance.claim, ask, entrance.how == HF_ADMIT_UPGRADE, stoppable, done,
                          arg);
        answer->code = HF_ANSWER_FOLLOWS;
    }
    bool follows = answer->code == HF_ANSWER_FOLLOWS;
    if (ret && !follows)
        *ret = 0;
    if (ret_hold && !follows)
        *ret_hold = answer->hold;
    code = follows ? HF_OK : hf__answer_return(client, ask->name, answer);
    if (starts)
        hf__lock_entry_call_ended(client, ask->name_hash);
    return code;
}

/* `ret_hold`: NULL, or what can be had at once is had. */
static int request(hf_client *client, const char *name, int64_t wait_ms,
                   const hf_lock_options *options, hf_done_cb *done, void *arg, hf_request *ret,
                   hf_hold **ret_hold)
{
    if (ret)
        *ret = 0;
    struct hf_lock_args ask;
    struct hf_store_name full;
    int code = hf__args_client(client, false);
    if (code == HF_OK)
        code = hf__args_read(&ask, &full, client, name, wait_ms, options);
    if (code != HF_OK)
        return code;
    if (!done)
        return hf__answer_fail(HF_EINVAL, "done is NULL: the result would be lost");
    if (!ask.owner)
        ask.owner = hf__owner_request(client);
    if (hf__owner_thread_number(ask.owner))
        ask.owner |= HF_OWNER_ASYNC;
    /* Without a hold, "granted" could not be told from "pending". */
    ask.starts = ret_hold != NULL;
    ask.here = ask.starts && client->here && hf__mode_leaves_hold(ask.mode);
    return lock_async(client, &ask, done, arg, ret, ret_hold);
}

int hf_lock_async(hf_client *client, const char *name, int64_t wait_ms,
                  const hf_lock_options *options, hf_done_cb *done, void *arg, hf_request *ret)
{
    HF_NO_CANCELLATION;
    return request(client, name, wait_ms, options, done, arg, ret, NULL);
}

int hf_lock_start(hf_client *client, const char *name, int64_t wait_ms,
                  const hf_lock_options *options, hf_done_cb *done, void *arg, hf_request *ret,
                  hf_hold **ret_hold)
{
    HF_NO_CANCELLATION;
    if (!ret_hold)
        return hf__answer_fail(HF_EINVAL, "ret_hold is NULL: what is granted at once would be "
                                          "lost; hf_lock_async needs none");
    *ret_hold = NULL;
    return request(client, name, wait_ms, options, done, arg, ret, ret_hold);
}

void hf_cancel(hf_client *client, hf_request request)
{
    HF_NO_CANCELLATION;
    if (hf__args_client(client, false) == HF_OK)
        hf__claim_end(client, request, HF_CANCELED);
}

/* ---- what is a lock by another name ---- */

int hf_attach(hf_client *client, const char *name, const char *owner_key, hf_hold **ret)
{
    HF_NO_CANCELLATION;
    if (ret)
        *ret = NULL;
    struct hf_lock_args ask;
    struct hf_store_name full;
    int code = hf__args_client(client, true);
    if (code == HF_OK)
        code = hf__args_read(&ask, &full, client, name, 0, NULL);
    if (code != HF_OK)
        return code;
    if (!ret || !owner_key || !*owner_key || strlen(owner_key) >= HF_OWNER_KEY_SIZE)
        return hf__answer_fail(HF_EINVAL, "attaching needs the owner key that hf_detach gave, and "
                                          "where to put the hold");
    if (!(client->ops->caps & HF_CAP_DETACH))
        return hf__answer_fail(HF_ENOTSUP, "the engine \"%s\" cannot attach", client->ops->name);
    /* What is left of the lease is counted from here, so about now will not do. */
    ask.now_ms = client->loop.clock(client->loop.arg);
    ask.attach_key = owner_key;
    ask.owner = hf__owner_request(client);
    return lock_blocking(client, &ask, ret);
}

static int no_amount(void)
{
    return hf__answer_fail(HF_EINVAL, "taking 0 from a counter is nothing; take at least 1");
}

int hf_counter_take(hf_client *client, const char *name, uint32_t amount, int64_t wait_ms)
{
    if (amount == 0)
        return no_amount();
    return hf_lock(client, name, wait_ms, &HF_LOCK_OPTIONS(.mode = HF_COUNTER, .permits = amount),
                   NULL);
}

int hf_counter_take_async(hf_client *client, const char *name, uint32_t amount, int64_t wait_ms,
                          hf_done_cb *done, void *arg, hf_request *ret)
{
    if (amount == 0)
        return no_amount();
    return hf_lock_async(client, name, wait_ms,
                         &HF_LOCK_OPTIONS(.mode = HF_COUNTER, .permits = amount), done, arg, ret);
}

int hf_latch_wait(hf_client *client, const char *name, int64_t wait_ms)
{
    return hf_lock(client, name, wait_ms, &HF_LOCK_OPTIONS(.mode = HF_LATCH), NULL);
}

int hf_latch_wait_async(hf_client *client, const char *name, int64_t wait_ms, hf_done_cb *done,
                        void *arg, hf_request *ret)
{
    return hf_lock_async(client, name, wait_ms, &HF_LOCK_OPTIONS(.mode = HF_LATCH), done, arg, ret);
}
