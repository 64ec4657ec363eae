/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot verbs: semaphores, counters, latches, breaking, and what concerns a hold's own lease.
 * Each is one question on the loop; the caller waits for its answer, but not longer than its
 * patience. */
#include "base/cancel.h"
#include "base/clock.h"
#include "core/api/args.h"
#include "core/api/client.h"
#include "core/api/explain.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/claim_waiters.h"
#include "core/claim/pool.h"
#include "core/lease/lease.h"
#include "core/oneshot/oneshot.h"
#include "core/table/lock_table.h"

#include "base/testing.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

struct change {
    struct hf_oneshot_call call;
    char name[HF_NAME_MAX + 1];
    char key[HF_OWNER_KEY_SIZE];
    char guard[]; /* of HF_GUARD_SIZE bytes, where it is asked for */
};

static struct hf_claim *claim_of(const struct change *whole)
{
    return HF_CONTAINER(whole->call.question.op, struct hf_claim, op);
}

static void discard(struct hf_oneshot_call *call)
{
    struct change *whole = HF_CONTAINER(call, struct change, call);
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
static struct change *new_change(struct hf_client *client, enum hf_oneshot_verb verb,
                                 const char *name, uint32_t length, uint64_t hash)
{
    bool guards = verb == HF_ONESHOT_GUARD;
    struct change *whole = hf__calloc(1, sizeof *whole + (guards ? HF_GUARD_SIZE : 0));
    if (!whole)
        return NULL;
    whole->call = (struct hf_oneshot_call){ .client = client, .discard = discard };
    whole->call.question.guard = guards ? whole->guard : NULL;
    whole->call.question.verb = verb;
    whole->call.question.name = whole->name;
    whole->call.question.name_length = length;
    whole->call.question.name_hash = hash;
    memcpy(whole->name, name, length + 1);
    return whole;
}

static int check(struct hf_client *client, unsigned cap, const char *what)
{
    int code = hf__args_client(client, true);
    if (code == HF_OK && !(client->ops->caps & cap))
        return hf__answer_fail(HF_ENOTSUP, "the engine \"%s\" has no %s", client->ops->name, what);
    return code;
}

static int check_named(struct hf_client *client, unsigned cap, const char *what, const char *name,
                       struct hf_store_name *full)
{
    int code = check(client, cap, what);
    return code == HF_OK ? hf__args_name(client, name, full) : code;
}

#define NOT_FORGOTTEN                                                                              \
    "it is in use, so it is not forgotten; hf_inspect or `holdfast show` shows its holders and "   \
    "waiters"

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
        [HF_ONESHOT_FORGET] = NOT_FORGOTTEN,
    };
    if (!change->error && sentences[change->verb])
        hf__explain(&change->error, HF_BUSY, 0, "\"%.200s\": %s", change->name,
                    sentences[change->verb]);
}

/* Runs the verb; copies out its result and its key; hf_last_error says why it failed. */
static int run(struct change *whole, uint32_t *ret_result, int64_t *ret_delay_us, char *ret_key)
{
    HF_NO_CANCELLATION;
    struct hf_client *client = whole->call.client;
    struct hf_oneshot *change = &whole->call.question;
    char name[200];
    uint64_t name_hash = change->name_hash;
    strncpy(name, change->name, sizeof name - 1);
    name[sizeof name - 1] = 0;
    if (!hf__lock_entry_call_begin(client, name_hash)) {
        discard(&whole->call);
        return hf__answer_fail(HF_ECLOSED, "the client is being closed");
    }
    struct hf_answer answer = hf__oneshot_call_run(&whole->call);
    if (answer.code == HF_OK) {
        if (change->code == HF_BUSY)
            explain_busy(change);
        answer = (struct hf_answer){ .code = change->code, .error = change->error };
        change->error = NULL;
        if (ret_result)
            *ret_result = change->result;
        if (ret_delay_us)
            *ret_delay_us = change->delay_us;
        if (ret_key)
            memcpy(ret_key, change->guard ? change->guard : change->key_out,
                   change->guard ? HF_GUARD_SIZE : HF_OWNER_KEY_SIZE);
        discard(&whole->call);
    }
    int code = hf__answer_return(client, name, &answer);
    hf__lock_entry_call_ended(client, name_hash);
    return code;
}

static int change_value(hf_client *client, unsigned cap, const char *what,
                        enum hf_oneshot_verb verb, const char *name, uint32_t value,
                        uint32_t *ret_result)
{
    struct hf_store_name full;
    int code = check_named(client, cap, what, name, &full);
    if (code != HF_OK)
        return code;
    struct change *whole = new_change(client, verb, full.text, full.length, full.hash);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    whole->call.question.value = value;
    return run(whole, ret_result, NULL, NULL);
}

int hf_semaphore_set(hf_client *client, const char *name, uint32_t permits)
{
    return change_value(client, HF_CAP_PERMIT, "semaphores", HF_ONESHOT_SEMAPHORE_SET, name,
                        permits, NULL);
}

const char *hf_schema(hf_client *client)
{
    if (check(client, HF_CAP_SCHEMA, "tables") != HF_OK)
        return NULL;
    return client->engine->schema;
}

const char *hf_grants(hf_client *client)
{
    if (check(client, HF_CAP_SCHEMA, "tables") != HF_OK)
        return NULL;
    return client->engine->grants;
}

/* It is about no name; the call has one for its place among the others. */
int hf_schema_change(hf_client *client, hf_schema_action action, uint32_t *ret_count)
{
    int code = check(client, HF_CAP_SCHEMA, "tables");
    if (code != HF_OK)
        return code;
    if (action < HF_SCHEMA_CREATE || action > HF_SCHEMA_CLEAN)
        return hf__answer_fail(HF_EINVAL, "there is no schema action %d", (int)action);
    return change_value(client, HF_CAP_SCHEMA, "tables", HF_ONESHOT_SCHEMA, "schema",
                        (uint32_t)action, ret_count);
}

int hf_counter_set(hf_client *client, const char *name, uint32_t value)
{
    return change_value(client, HF_CAP_COUNTER, "counters", HF_ONESHOT_COUNTER_SET, name, value,
                        NULL);
}

int hf_counter_add(hf_client *client, const char *name, uint32_t amount)
{
    return change_value(client, HF_CAP_COUNTER, "counters", HF_ONESHOT_COUNTER_ADD, name, amount,
                        NULL);
}

int hf_counter_get(hf_client *client, const char *name, uint32_t *ret_value)
{
    if (!ret_value)
        return hf__answer_fail(HF_EINVAL, "ret_value is NULL: there is nowhere to put the value");
    return change_value(client, HF_CAP_COUNTER, "counters", HF_ONESHOT_COUNTER_GET, name, 0,
                        ret_value);
}

int hf_counter_remove(hf_client *client, const char *name)
{
    return change_value(client, HF_CAP_COUNTER, "counters", HF_ONESHOT_COUNTER_REMOVE, name, 0,
                        NULL);
}

int hf_latch_set(hf_client *client, const char *name, uint32_t count)
{
    return change_value(client, HF_CAP_LATCH, "latches", HF_ONESHOT_LATCH_SET, name, count, NULL);
}

int hf_latch_down(hf_client *client, const char *name, uint32_t amount, uint32_t *ret_left)
{
    if (amount == 0)
        return hf__answer_fail(HF_EINVAL, "counting a latch down by 0 is nothing; use at least 1");
    return change_value(client, HF_CAP_LATCH, "latches", HF_ONESHOT_LATCH_DOWN, name, amount,
                        ret_left);
}

int hf_latch_get(hf_client *client, const char *name, uint32_t *ret_left)
{
    return change_value(client, HF_CAP_LATCH, "latches", HF_ONESHOT_LATCH_GET, name, 0, ret_left);
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
    if (permits == 0 || permits > burst)
        return hf__answer_fail(
            HF_EINVAL, "%" PRIu32 " permits are never there; take 1 to %" PRIu32 ", the burst",
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
    int code = check_named(client, HF_CAP_RATE, "rate limiters", name, &full);
    if (code == HF_OK)
        code = hf__args_wait(wait_ms);
    if (code == HF_OK)
        code = check_rate(rate, permits);
    if (code != HF_OK)
        return code;
    struct change *whole =
        new_change(client, HF_ONESHOT_RATE_TAKE, full.text, full.length, full.hash);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    bool waits_long = wait_ms < 0 || wait_ms > RATE_MAX_MS;
    whole->call.question.rate = (struct hf_rate_ask){
        .cost_us = cost_us(rate, permits),
        .burst_us = cost_us(rate, rate->burst ? rate->burst : rate->permits),
        .wait_us = (waits_long ? RATE_MAX_MS : wait_ms) * 1000,
    };
    code = run(whole, NULL, &delay_us, NULL);
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
    int code = check_named(client, HF_CAP_BREAK, "way to break a lock", name, &full);
    if (code != HF_OK)
        return code;
    if (owner_key && strlen(owner_key) >= HF_OWNER_KEY_SIZE)
        return hf__answer_fail(HF_EINVAL, "\"%.80s\" is no owner key; hf_inspect shows them",
                               owner_key);
    struct change *whole = new_change(client, HF_ONESHOT_BREAK, full.text, full.length, full.hash);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    if (owner_key) {
        memcpy(whole->key, owner_key, strlen(owner_key) + 1);
        whole->call.question.key = whole->key;
    }
    return run(whole, ret_count, NULL, NULL);
}

static bool note_use(void *arg, const hf_entry *entry)
{
    bool *in_use = arg;
    bool is_value = entry->kind == HF_KIND_SEMAPHORE || entry->kind == HF_KIND_COUNTER ||
                    entry->kind == HF_KIND_LATCH || entry->kind == HF_KIND_RATE;
    *in_use |= is_value || entry->role != HF_ROLE_OBJECT;
    return !*in_use;
}

/* Where nothing is kept of a name that is free, it is enough to see that it is. */
int hf_forget(hf_client *client, const char *name)
{
    struct hf_store_name full;
    bool in_use = false;
    int code = check_named(client, HF_CAP_MUTEX, "mutexes", name, &full);
    if (code != HF_OK)
        return code;
    if (client->ops->forgets)
        return change_value(client, HF_CAP_MUTEX, "mutexes", HF_ONESHOT_FORGET, name, 0, NULL);
    code = hf_inspect(client, name, note_use, &in_use);
    if (code == HF_OK && in_use)
        return hf__answer_fail(HF_BUSY, "\"%.200s\": " NOT_FORGOTTEN, name);
    return code;
}

/* ---- a hold ---- */

/* The engine may hold on to the op until it answers, and the caller may leave before that. */
static struct change *new_hold_change(struct hf_claim *claim, enum hf_oneshot_verb verb)
{
    const struct hf_op *op = &claim->op;
    struct change *whole =
        new_change(claim->client, verb, op->in.name, op->in.name_length, op->in.name_hash);
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
    struct change *whole = HF_CONTAINER(call, struct change, call);
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
    int code = check(hold->grant->shard->client, HF_CAP_GUARD, "guards");
    if (code != HF_OK)
        return code;
    if (atomic_load(&hold->grant->lost))
        return hf__answer_fail(HF_LOST, "the lock was lost");
    struct change *whole = new_hold_change(hold->grant->claim, HF_ONESHOT_GUARD);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    whole->call.begin = begin_guard;
    return run(whole, NULL, NULL, guard);
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
    struct change *whole = HF_CONTAINER(call, struct change, call);
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
    struct change *whole = new_hold_change(hold->grant->claim, HF_ONESHOT_RENEW);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    whole->call.question.lease_ms = hf__args_lease(lease_ms);
    whole->call.begin = begin_on_lease;
    whole->call.ended = renewed;
    return run(whole, NULL, NULL, NULL);
}

/* The claim ends without a release: what it had at the store goes on by itself. Unless the answer
 * came too late: then the hold is still in the caller's hand. */
static void detached(struct hf_oneshot_call *call)
{
    struct change *whole = HF_CONTAINER(call, struct change, call);
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
    struct change *whole = new_hold_change(claim, HF_ONESHOT_DETACH);
    if (!whole)
        return hf__answer_fail(HF_ENOMEM, "out of memory");
    hf__shard_lock(claim->shard);
    hf__lock_entry_count_in(claim->shard);
    hf__shard_unlock(claim->shard);
    struct hf_answer apart = set_apart(claim);
    if (apart.code == HF_OK) {
        whole->call.begin = begin_on_lease;
        whole->call.ended = detached;
        code = run(whole, NULL, NULL, owner_key);
        if (code != HF_OK) {
            hf__shard_lock(claim->shard);
            claim->held_mode = (int8_t)hf__lock_entry_needed(claim);
            hf__shard_unlock(claim->shard);
            hf__lock_entry_settle(claim, false);
        }
    } else {
        code = hf__answer_return(client, claim->op.in.name, &apart);
        discard(&whole->call);
    }
    hf__lock_entry_call_ended(client, name_hash);
    return code;
}
