/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with a callback: sent to the loop, and ended by a stop. */
#include "core/api/request.h"

#include "base/testing.h"
#include "core/api/explain.h"
#include "core/api/stop.h"
#include "core/claim/claim_change.h"
#include "core/claim/claim_fsm.h"
#include "core/loop/uv_loop.h"
#include "core/table/lock_table.h"

#include <stdlib.h>

/* A claim that has to queue in its entry waits, whatever the store would say. */
void hf__request_begin(struct hf_claim *claim, const struct hf_lock_args *ask)
{
    hf__claim_begin(claim, ask);
    if (claim->state == HF_CLAIM_QUEUED && claim->op.in.enqueue && !atomic_load(&claim->turn))
        hf__lock_entry_say_waiting(claim);
}

/* A request that a stop may end. */
struct hf_stoppable {
    struct hf_stop_wait wait;
    hf_done_cb *done;
    void *arg;
};

static void stoppable_done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct hf_stoppable *stoppable = arg, own = *stoppable;
    hf__stop_wait_end(&stoppable->wait);
    free(stoppable);
    own.done(own.arg, code, hold, error);
}

static void begin_stoppable(struct hf_stoppable *stoppable, const struct hf_claim *claim,
                            hf_stop *stop, hf_done_cb **done, void **arg)
{
    if (!stoppable)
        return;
    *stoppable = (struct hf_stoppable){ { .request = hf__claim_id(claim) }, *done, *arg };
    hf__stop_wait_begin(&stoppable->wait, claim->client, stop, hf__claim_end_by_stop);
    *done = stoppable_done;
    *arg = stoppable;
}

int hf__stoppable_new(struct hf_stoppable **ret, struct hf_client *client, const hf_stop *stop)
{
    *ret = NULL;
    if (!stop)
        return HF_OK;
    if (hf__stop_reaches(client))
        *ret = hf__calloc(1, sizeof **ret);
    return *ret ? HF_OK : hf__answer_fail(HF_ENOMEM, "out of memory for the request");
}

void hf__request_start(struct hf_claim *claim, const struct hf_lock_args *ask, bool raise,
                       struct hf_stoppable *stoppable, hf_done_cb *done, void *arg)
{
    hf__request_begin(claim, ask);
    begin_stoppable(stoppable, claim, ask->stop, &done, &arg);
    struct hf_client *client = claim->client;
    hf__uv_loop_request_begins(client);
    bool turns = hf__uv_loop_begin_watched(client);
    struct hf_shard *shard = claim->shard;
    hf__shard_lock(shard);
    claim->done = done;
    claim->done_arg = arg;
    hf__claim_post(claim, raise ? HF_CMD_TURN : HF_CMD_START);
    hf__shard_unlock(shard);
    hf__uv_loop_watched(client, turns);
}

struct hf_answer hf__request_start_here(struct hf_claim *claim, const struct hf_lock_args *ask,
                                        struct hf_stoppable *stoppable, hf_done_cb *done, void *arg)
{
    hf__request_begin(claim, ask);
    begin_stoppable(stoppable, claim, ask->stop, &done, &arg);
    struct hf_answer answer = hf__claim_start_sync(claim, ask->now_ms, done, arg);
    if (stoppable && answer.code != HF_ANSWER_FOLLOWS) {
        hf__stop_wait_end(&stoppable->wait);
        free(stoppable);
    }
    return answer;
}
