/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot verbs: rate limiters, breaking, and what concerns a hold's own lease. Each is one
 * question on the loop; the caller waits for its answer, but not longer than its patience. */
#include "core/oneshot/oneshot_change.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "core/api/args.h"
#include "core/api/client.h"
#include "core/api/explain.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/claim_waiters.h"
#include "core/claim/pool.h"
#include "core/lease/lease.h"
#include "core/table/lock_table.h"

#include "base/testing.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static struct hf_claim *claim_of(const struct hf_change *whole)
{
    return HF_CONTAINER(whole->call.question.op, struct hf_claim, op);
}

void hf__change_discard(struct hf_oneshot_call *call)
{
    struct hf_change *whole = HF_CONTAINER(call, struct hf_change, call);
    if (whole->call.question.op) {
        struct hf_claim *claim = claim_of(whole);
        hf__shard_lock(claim->shard);
        hf__claim_unpin(claim);
        hf__shard_unlock(claim->shard);
    }
    free(whole->call.question.error);
    free(whole);
}

/* `name` is the store's. */
struct hf_change *hf__change_new(struct hf_client *client, enum hf_oneshot_verb verb,
                                 const char *name, uint32_t length, uint64_t hash)
{
    bool guards = verb == HF_ONESHOT_GUARD;
    struct hf_change *whole = hf__calloc(1, sizeof *whole + (guards ? HF_GUARD_SIZE : 0));
    if (!whole)
        return NULL;
    whole->call = (struct hf_oneshot_call){ .client = client, .discard = hf__change_discard };
    whole->call.question.guard = guards ? whole->guard : NULL;
    whole->call.question.verb = verb;
    whole->call.question.name = whole->name;
    whole->call.question.name_length = length;
    whole->call.question.name_hash = hash;
    memcpy(whole->name, name, length + 1);
    return whole;
}

int hf__change_check(struct hf_client *client, unsigned cap, const char *what, bool waits)
{
    int code = hf__args_client(client, waits);
    if (code == HF_OK && !(client->ops->caps & cap))
        return hf__answer_fail(HF_ENOTSUP, "the engine \"%s\" has no %s", client->ops->name, what);
    return code;
}

int hf__change_check_named(struct hf_client *client, unsigned cap, const char *what,
                           const char *name, struct hf_store_name *full, bool waits)
{
    int code = hf__change_check(client, cap, what, waits);
    return code == HF_OK ? hf__args_name(client, name, full) : code;
}

/* Nothing was to be taken, so nothing was "not available". */
static void explain_busy(struct hf_oneshot *change)
{
    static const char *const sentences[HF_ONESHOT_SCHEMA + 1] = {
        [HF_ONESHOT_SEMAPHORE_SET] = "permits of it are held, so it is not removed; hf_inspect or "
                                     "`holdfast show` shows the holders",
        [HF_ONESHOT_LATCH_SET] = "it is not set: it is above 0, and must be counted down first",
        [HF_ONESHOT_BREAK] = "it is held, but not under that key; hf_inspect or `holdfast show` "
                             "shows the holder",
        [HF_ONESHOT_RATE_TAKE] = "not that many permits are there within the wait",
        [HF_ONESHOT_FORGET] = HF_NOT_FORGOTTEN,
    };
    if (!change->error && sentences[change->verb])
        hf__explain(&change->error, HF_BUSY, 0, "\"%.200s\": %s", change->name,
                    sentences[change->verb]);
}

/* What has come of a question that is the caller's again. Ends it. */
struct hf_answer hf__change_take(struct hf_change *whole, uint32_t *ret_result,
                                 int64_t *ret_delay_us, char *ret_key)
{
    struct hf_oneshot *change = &whole->call.question;
    if (change->code == HF_BUSY)
        explain_busy(change);
    struct hf_answer answer = { .code = change->code, .error = change->error };
    change->error = NULL;
    if (ret_result)
        *ret_result = change->result;
    if (ret_delay_us)
        *ret_delay_us = change->delay_us;
    if (ret_key)
        memcpy(ret_key, change->guard ? change->guard : change->key_out,
               change->guard ? HF_GUARD_SIZE : HF_OWNER_KEY_SIZE);
    hf__change_discard(&whole->call);
    return answer;
}

/* Runs the verb; copies out its result and its key; hf_last_error says why it failed. */
int hf__change_run(struct hf_change *whole, uint32_t *ret_result, int64_t *ret_delay_us,
                   char *ret_key)
{
    HF_NO_CANCELLATION;
    struct hf_client *client = whole->call.client;
    char name[200];
    uint64_t name_hash = whole->call.question.name_hash;
    strncpy(name, whole->name, sizeof name - 1);
    name[sizeof name - 1] = 0;
    if (!hf__lock_entry_call_begin(client, name_hash)) {
        hf__change_discard(&whole->call);
        return hf__answer_fail(HF_ECLOSED, "the client is being closed");
    }
    struct hf_answer answer = hf__oneshot_call_run(&whole->call);
    if (answer.code == HF_OK)
        answer = hf__change_take(whole, ret_result, ret_delay_us, ret_key);
    int code = hf__answer_return(client, name, &answer);
    hf__lock_entry_call_ended(client, name_hash);
    return code;
}

const char *hf_schema(hf_client *client)
{
    if (hf__change_check(client, HF_CAP_SCHEMA, "tables", true) != HF_OK)
        return NULL;
    return client->engine->schema;
}

const char *hf_grants(hf_client *client)
{
    if (hf__change_check(client, HF_CAP_SCHEMA, "tables", true) != HF_OK)
        return NULL;
    return client->engine->grants;
}

/* ---- rate limiters ---- */

/* Times this long leave room to add a clock to, in a store whose numbers are exact to 2^53. */
#define RATE_MAX_MS (INT64_C(366) * 86400 * 1000)
/* How long the sleep of a taker may go on once its stop is set. */
#define RATE_SLICE_MS 20

static int check_rate(const hf_rate *rate, uint32_t permits)
{
    if (!rate || rate->size != sizeof *rate)
        return hf__answer_fail(HF_EINVAL, "the rate is %s; make it with HF_RATE",
                               rate ? "of another size" : "NULL");
    if (rate->permits == 0 || rate->period_ms < 1 || rate->period_ms > RATE_MAX_MS)
        return hf__answer_fail(HF_EINVAL,
                               "the rate is %" PRIu32 " permits in %" PRId64 " ms; use at least "
                               "one permit, and a period of 1 ms to 366 days",
                               rate->permits, rate->period_ms);
    uint32_t burst = rate->burst ? rate->burst : rate->permits;
    if ((double)rate->period_ms / rate->permits * burst > (double)RATE_MAX_MS)
        return hf__answer_fail(HF_EINVAL,
                               "a burst of %" PRIu32 " takes more than 366 days to come back at "
                               "%" PRIu32 " permits in %" PRId64 " ms",
                               burst, rate->permits, rate->period_ms);
    if (permits == 0)
        return hf__answer_fail(HF_EINVAL, "no permit is asked for; ask for at least one");
    if (permits > burst)
        return hf__answer_fail(HF_EINVAL,
                               "%" PRIu32 " permits are asked for at once, and the burst is only "
                               "%" PRIu32 "; ask for fewer, or raise the burst",
                               permits, burst);
    return hf__args_stop(rate->stop);
}

/* How long that number of permits takes to come back: rounded up, so that no more than the rate
 * goes. */
static int64_t cost_us(const hf_rate *rate, uint32_t permits)
{
    uint64_t period_us = (uint64_t)rate->period_ms * 1000, whole = period_us / rate->permits;
    uint64_t rest = period_us % rate->permits * permits;
    return (int64_t)(whole * permits + (rest + rate->permits - 1) / rate->permits);
}

/* Without the client, which may be closed meanwhile. */
static int sleep_until(int64_t until_ms, hf_stop *stop)
{
    for (int64_t left_ms; (left_ms = until_ms - hf__clock_ms()) > 0;) {
        int64_t slice_ms = stop && left_ms > RATE_SLICE_MS ? RATE_SLICE_MS : left_ms;
        struct timespec slice = { .tv_sec = slice_ms / 1000, .tv_nsec = slice_ms % 1000 * 1000000 };
        nanosleep(&slice, NULL);
        if (hf_stop_is_set(stop) ||
            (stop && stop->interrupted && stop->interrupted(stop->interrupted_arg)))
            return hf__answer_fail(HF_CANCELED, "the stop was set; what was taken from the rate "
                                                "limiter does not come back");
    }
    return HF_OK;
}

int hf_rate_take(hf_client *client, const char *name, const hf_rate *rate, uint32_t permits,
                 int64_t wait_ms, int64_t *ret_retry_ms)
{
    struct hf_store_name full;
    int64_t delay_us = 0;
    if (ret_retry_ms)
        *ret_retry_ms = 0;
    int code = hf__change_check_named(client, HF_CAP_RATE, "rate limiters", name, &full, true);
    if (code == HF_OK)
        code = hf__args_wait(wait_ms);
    if (code == HF_OK)
        code = check_rate(rate, permits);
    if (code != HF_OK)
        return code;
    struct hf_change *whole =
        hf__change_new(client, HF_ONESHOT_RATE_TAKE, full.text, full.length, full.hash);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    bool waits_long = wait_ms < 0 || wait_ms > RATE_MAX_MS;
    whole->call.question.rate = (struct hf_rate_ask){
        .cost_us = cost_us(rate, permits),
        .burst_us = cost_us(rate, rate->burst ? rate->burst : rate->permits),
        .wait_us = (waits_long ? RATE_MAX_MS : wait_ms) * 1000,
    };
    whole->call.stop = rate->stop;
    code = hf__change_run(whole, NULL, &delay_us, NULL);
    if (delay_us <= 0 || (code != HF_OK && code != HF_BUSY))
        return code;
    int64_t delay_ms = (delay_us + 999) / 1000;
    if (code == HF_OK)
        return sleep_until(hf__clock_ms() + delay_ms + 1, rate->stop);
    if (ret_retry_ms)
        *ret_retry_ms = delay_ms;
    return code;
}

int hf_break(hf_client *client, const char *name, const char *owner_key, uint32_t *ret_count)
{
    HF_NO_CANCELLATION;
    struct hf_store_name full;
    int code =
        hf__change_check_named(client, HF_CAP_BREAK, "way to break a lock", name, &full, true);
    if (code != HF_OK)
        return code;
    if (owner_key && strlen(owner_key) >= HF_OWNER_KEY_SIZE)
        return hf__answer_fail(HF_EINVAL, "\"%.80s\" is no owner key; hf_inspect shows them",
                               owner_key);
    struct hf_change *whole =
        hf__change_new(client, HF_ONESHOT_BREAK, full.text, full.length, full.hash);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    if (owner_key) {
        memcpy(whole->key, owner_key, strlen(owner_key) + 1);
        whole->call.question.key = whole->key;
    }
    return hf__change_run(whole, ret_count, NULL, NULL);
}

/* ---- a hold ---- */

/* The engine may hold on to the op until it answers, and the caller may leave before that. */
static struct hf_change *new_hold_change(struct hf_claim *claim, enum hf_oneshot_verb verb)
{
    const struct hf_op *op = &claim->op;
    struct hf_change *whole =
        hf__change_new(claim->client, verb, op->in.name, op->in.name_length, op->in.name_hash);
    if (!whole)
        return NULL;
    whole->call.question.op = &claim->op;
    hf__shard_lock(claim->shard);
    hf__claim_pin(claim);
    hf__shard_unlock(claim->shard);
    return whole;
}

static void begin_guard(struct hf_oneshot_call *call)
{
    struct hf_change *whole = HF_CONTAINER(call, struct hf_change, call);
    if (!atomic_load(&claim_of(whole)->grant->lost)) {
        hf__oneshot_call_ask(call);
        return;
    }
    whole->call.question.code = HF_LOST;
    hf__loop_defer(&call->client->loop, &whole->call.question.answer);
}

int hf_guard(hf_hold *hold, char guard[HF_GUARD_SIZE])
{
    HF_NO_CANCELLATION;
    if (!hold || !guard)
        return hf__answer_fail(HF_EINVAL, "the %s is NULL", hold ? "guard" : "hold");
    int code = hf__change_check(hold->grant->shard->client, HF_CAP_GUARD, "guards", true);
    if (code != HF_OK)
        return code;
    if (atomic_load(&hold->grant->lost))
        return hf__answer_fail(HF_LOST, "the lock was lost");
    struct hf_change *whole = new_hold_change(hold->grant->claim, HF_ONESHOT_GUARD);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    whole->call.begin = begin_guard;
    return hf__change_run(whole, NULL, NULL, guard);
}

/* ---- a hold's own lease ---- */

static int check_lease_hold(hf_hold *hold)
{
    if (!hold)
        return hf__answer_fail(HF_EINVAL, "the hold is NULL");
    int code = hf__args_client(hold->grant->shard->client, true);
    if (code != HF_OK)
        return code;
    const struct hf_grant *grant = hold->grant;
    const char *name = hf__shown_name(grant->shard->client, grant->entry->name);
    if (!atomic_load(&grant->fixed))
        return hf__answer_fail(HF_EINVAL,
                               "\"%.200s\" is held without a lease of its own; take it "
                               "with lease_ms",
                               name);
    if (atomic_load(&grant->lost))
        return hf__answer_fail(HF_LOST, "\"%.200s\": the lease is over", name);
    return HF_OK;
}

static void begin_on_lease(struct hf_oneshot_call *call)
{
    struct hf_change *whole = HF_CONTAINER(call, struct hf_change, call);
    struct hf_claim *claim = claim_of(whole);
    if (!atomic_load(&claim->grant->lost) && claim->op.out.rests_on) {
        hf__point(call->client, "before_renew", claim->op.in.name);
        hf__oneshot_call_ask(call);
        return;
    }
    whole->call.question.code = HF_LOST;
    hf__loop_defer(&call->client->loop, &whole->call.question.answer);
}

/* True for the claim's lease however late it comes. */
static void renewed(struct hf_oneshot_call *call)
{
    const struct hf_oneshot *change = &call->question;
    struct hf_lease *lease = change->op->out.rests_on;
    hf__point(call->client, "after_renew", change->op->in.name);
    if (lease && change->code == HF_OK)
        hf__lease_extended(lease, change->asked_at_ms, change->lease_ms);
    else if (lease && change->code == HF_LOST)
        hf__lease_answer(lease, change->asked_at_ms, HF_LEASE_GONE, 0, NULL);
}

int hf_renew(hf_hold *hold, int64_t lease_ms)
{
    HF_NO_CANCELLATION;
    int code = check_lease_hold(hold);
    if (code != HF_OK)
        return code;
    if (lease_ms < 10)
        return hf__answer_fail(HF_EINVAL, "lease_ms is %lld; use at least 10", (long long)lease_ms);
    struct hf_change *whole = new_hold_change(hold->grant->claim, HF_ONESHOT_RENEW);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    whole->call.question.lease_ms = hf__args_lease(lease_ms);
    whole->call.begin = begin_on_lease;
    whole->call.ended = renewed;
    return hf__change_run(whole, NULL, NULL, NULL);
}

/* The claim ends without a release: what it had at the store goes on by itself. Unless the answer
 * came too late: then the hold is still in the caller's hand. */
static void detached(struct hf_oneshot_call *call)
{
    struct hf_change *whole = HF_CONTAINER(call, struct hf_change, call);
    struct hf_claim *claim = claim_of(whole);
    /* mutant: detaching-that-is-answered */
    if (whole->call.question.code != HF_OK || call->abandoned)
        return;
    struct hf_shard *shard = claim->shard;
    hf__lease_unwatch(claim);
    hf__shard_lock(shard);
    struct hf_link *link;
    while ((link = hf__list_pop(&claim->grant->holds)))
        hf__pool_put_hold(shard, HF_CONTAINER(link, struct hf_hold, link));
    hf__claim_count_hold_end(claim);
    claim->held_mode = claim->store_mode = HF_KEEP_NOTHING;
    hf__shard_unlock(shard);
    hf__claim_abandon(claim);
    hf__claim_forget(claim);
}

enum apart { APART_DONE, APART_SHARED, APART_TOO_EARLY };

/* Takes the claim out of reach until the reply is there: nothing nests in it, raises or lowers it.
 */
static enum apart try_set_apart(struct hf_claim *claim)
{
    enum apart apart = APART_DONE;
    hf__shard_lock(claim->shard);
    if (claim->grant->holds.next != claim->grant->holds.prev) {
        apart = APART_SHARED;
    } else if (claim->driven || claim->upgrading) {
        apart = APART_TOO_EARLY;
    } else {
        claim->driven = true;
        claim->held_mode = HF_KEEP_NOTHING; /* mutant: others-nest-in-what-is-being */
    }
    hf__shard_unlock(claim->shard);
    return apart;
}

/* Waits for an earlier change of the claim that has not ended, as after a refused hf_upgrade. */
static struct hf_answer set_apart(struct hf_claim *claim)
{
    const struct hf_client *client = claim->client;
    struct hf_answer answer = { .code = HF_OK };
    int64_t now_ms = client->loop.clock(client->loop.arg);
    int64_t until_ms = hf__clock_add(now_ms, client->request_timeout_ms);
    enum apart apart = try_set_apart(claim);
    while (apart == APART_TOO_EARLY && answer.code == HF_OK) {
        answer.code = hf__claim_waiters_await(claim, until_ms, NULL);
        if (answer.code == HF_OK)
            apart = try_set_apart(claim);
    }
    if (apart == APART_SHARED) {
        answer.code = HF_EINVAL;
        hf__explain(&answer.error, HF_EINVAL, 0,
                    "\"%.200s\": this owner has more than one hold on it", claim->op.in.name);
    } else if (answer.code == HF_BUSY) {
        hf__explain(&answer.error, HF_BUSY, 0, HF_REST_TOO_EARLY, claim->op.in.name);
    }
    return answer;
}

int hf_detach(hf_hold *hold, char owner_key[HF_OWNER_KEY_SIZE])
{
    HF_NO_CANCELLATION;
    int code = check_lease_hold(hold);
    if (code != HF_OK)
        return code;
    struct hf_claim *claim = hold->grant->claim;
    struct hf_client *client = claim->client;
    if (!owner_key)
        return hf__answer_fail(HF_EINVAL, "owner_key is NULL");
    if (!(client->ops->caps & HF_CAP_DETACH))
        return hf__answer_fail(HF_ENOTSUP, "the engine \"%s\" cannot detach", client->ops->name);
    uint64_t name_hash = claim->op.in.name_hash;
    struct hf_change *whole = new_hold_change(claim, HF_ONESHOT_DETACH);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    hf__shard_lock(claim->shard);
    claim->shard->calls_begun++;
    hf__shard_unlock(claim->shard);
    struct hf_answer apart = set_apart(claim);
    if (apart.code == HF_OK) {
        whole->call.begin = begin_on_lease;
        whole->call.ended = detached;
        code = hf__change_run(whole, NULL, NULL, owner_key);
        if (code != HF_OK) {
            hf__shard_lock(claim->shard);
            claim->held_mode = (int8_t)hf__lock_entry_needed(claim);
            hf__shard_unlock(claim->shard);
            hf__lock_entry_settle(claim, false);
        }
    } else {
        code = hf__answer_return(client, claim->op.in.name, &apart);
        hf__change_discard(&whole->call);
    }
    hf__lock_entry_call_ended(client, name_hash);
    return code;
}
