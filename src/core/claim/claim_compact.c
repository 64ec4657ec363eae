/* SPDX-License-Identifier: Apache-2.0 */
/* Setting claims aside, and fetching them back. */
#include "core/claim/claim_compact.h"

#include "core/claim/pool.h"
#include "core/lease/lease.h"
#include "core/table/lock_table.h"

/* A lease that is due before this number of others at the end of the line stays where it is. */
#define PLACES_LOOKED_AT 64u
/* The number that is fetched, being due or to be given back, before others have their turn. */
#define FETCHED_AT_ONCE 64u
/* Half of what is spared is for what must not wait: giving back, and losing. */
#define TO_RENEW(spared) ((spared) / 2)
/* Without memory, the next look at what is due. */
#define LOOK_AGAIN_MS 10

HF_TUNABLE struct hf_compact_bounds hf__compact_bounds = { .resting = 6,
                                                           .fetched = 32,
                                                           .spared = 8 };

static struct hf_grant *grant_of(struct hf_link *link)
{
    return HF_CONTAINER(link, struct hf_grant, aside);
}

static int64_t valid_until(const struct hf_grant *grant)
{
    return atomic_load_explicit(&grant->valid_until_ms, memory_order_relaxed);
}

static bool is_lost(const struct hf_grant *grant)
{
    return atomic_load_explicit(&grant->lost, memory_order_relaxed);
}

static int64_t asked_at(const struct hf_grant *grant)
{
    return hf__lease_asked_at(valid_until(grant), grant->shard->client->host.lease_ms);
}

/* ---- setting aside ---- */

/* Only the plain common thing is: exclusive, on a lease of its own that has the client's length. */
static bool claim_compact_is_plain(const struct hf_claim *claim)
{
    const struct hf_op *op = &claim->op;
    return (op->in.mode == HF_MUTEX || op->in.mode == HF_FAIR) && !op->in.election &&
           op->out.rests_on == &op->engine.own_lease && !op->engine.own_lease.fixed &&
           op->engine.own_lease.ends_at_ms == 0 && op->in.owner_text == claim->client->owner_text;
}

/* Is it idle, and known to its holds only? */
static bool is_idle(const struct hf_claim *claim)
{
    const struct hf_lock_entry *entry = claim->entry;
    return claim->state == HF_CLAIM_HELD && claim->completed && !claim->driven &&
           !claim->upgrading && !claim->pins && !claim->commands && !claim->in_callback &&
           !claim->done && !claim->waiter && !claim->unlock_waiter && !claim->new_hold &&
           !claim->op.out.error && !hf__link_linked(&claim->op.core.answer.link) &&
           !claim->alarm.started && claim->held_mode == (int8_t)claim->op.in.mode &&
           /* mutant: claim-is-set-aside */
           claim->store_mode == claim->held_mode && entry->claims == 1 &&
           hf__list_empty(&entry->queue) && entry->holders.next == &claim->entry_link;
}

/* Is what is to be known of its lease all in its grant? */
static bool lease_rests(const struct hf_claim *claim)
{
    const struct hf_lease *lease = &claim->op.engine.own_lease;
    if (is_lost(claim->grant))
        return !claim->watched;
    return claim->watched == lease && !lease->renewing && !lease->lost &&
           lease->lease_ms == claim->client->host.lease_ms &&
           hf__lease_valid_until(lease) == valid_until(claim->grant);
}

/* What it is to be put in front of, so that the line stays in order; or NULL. */
static struct hf_link *place_for(struct hf_shard *shard, const struct hf_grant *grant)
{
    struct hf_link *at = &shard->aside;
    if (is_lost(grant))
        return &shard->aside_lost;
    for (unsigned i = 0; i < PLACES_LOOKED_AT; i++, at = at->prev)
        if (at->prev == &shard->aside || valid_until(grant_of(at->prev)) <= valid_until(grant))
            return at;
    return NULL;
}

static void put_into_gate(struct hf_claim *claim)
{
    struct hf_lock_entry *entry = claim->entry;
    struct hf_grant *grant = claim->grant;
    hf__link_remove(&claim->entry_link);
    entry->is_aside = true;
    entry->aside.grant = grant;
    entry->aside.owner = claim->op.in.owner;
    entry->aside.engine_word[0] = claim->op.engine.word[0];
    entry->aside.engine_word[1] = claim->op.engine.word[1];
    entry->held_from_us = claim->held_from_us;
    grant->mode = (int8_t)claim->op.in.mode;
    grant->enqueue = claim->op.in.enqueue;
    grant->known = claim->op.engine.known;
    grant->claim = NULL;
}

/* Will it be had back to be renewed, if no memory comes? One that joins others, or that is lost,
 * leaves more than it takes: its own memory. */
static bool may_come_back(const struct hf_shard *shard, const struct hf_grant *grant)
{
    return !hf__list_empty(&shard->aside) || is_lost(grant) ||
           shard->free_claim_count >= TO_RENEW(hf__compact_bounds.spared);
}

static void set_aside(struct hf_shard *shard, struct hf_claim *claim)
{
    struct hf_client *client = shard->client;
    struct hf_link *place = place_for(shard, claim->grant);
    if (!place || !claim_compact_is_plain(claim) || !is_idle(claim) || !lease_rests(claim) ||
        !may_come_back(shard, claim->grant) || !client->ops->compact(client->engine, &claim->op))
        return;
    hf__lease_unwatch(claim);
    put_into_gate(claim);
    hf__list_append(place, &claim->grant->aside);
    shard->aside_count++;
    hf__pool_put_claim(shard, claim);
}

/* ---- claims at rest ---- */

static void leave_resting(struct hf_claim *claim)
{
    if (!hf__link_linked(&claim->rest_link))
        return;
    hf__link_remove(&claim->rest_link);
    claim->shard->resting_count--;
}

static bool end_fetch(struct hf_claim *claim)
{
    bool was_fetched = claim->fetched;
    claim->shard->fetched_count -= was_fetched;
    claim->fetched = false;
    return was_fetched;
}

void hf__compact_leave(struct hf_claim *claim)
{
    leave_resting(claim);
    end_fetch(claim);
}

void hf__compact_rests(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    struct hf_client *client = shard->client;
    if (!client->ops->compact || !claim_compact_is_plain(claim) || claim->state != HF_CLAIM_HELD)
        return;
    bool was_fetched = end_fetch(claim);
    leave_resting(claim);
    hf__list_append(&shard->resting, &claim->rest_link);
    shard->resting_count++;
    if (was_fetched || shard->resting_count > hf__compact_bounds.resting)
        hf__loop_defer(&client->loop, &shard->compact_task);
}

void hf__compact_may_rest(struct hf_claim *claim)
{
    if (!claim->client->ops->compact)
        return;
    hf__shard_lock(claim->shard);
    hf__compact_rests(claim);
    hf__shard_unlock(claim->shard);
}

void hf__compact_make_way(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    if (end_fetch(claim))
        hf__loop_defer(&shard->client->loop, &shard->compact_task);
}

void hf__compact_unheard(struct hf_claim *claim)
{
    hf__shard_lock(claim->shard);
    hf__compact_make_way(claim);
    hf__shard_unlock(claim->shard);
}

/* ---- fetching ---- */

static void take_out_of_gate(struct hf_claim *claim, struct hf_grant *grant)
{
    struct hf_lock_entry *entry = grant->entry;
    struct hf_op *op = &claim->op;
    op->in.owner = entry->aside.owner;
    op->engine.word[0] = entry->aside.engine_word[0];
    op->engine.word[1] = entry->aside.engine_word[1];
    entry->is_aside = false;
    hf__link_init(&entry->queue);
    hf__link_init(&entry->holders);
    hf__list_append(&entry->holders, &claim->entry_link);
    claim->held_from_us = entry->held_from_us;
    atomic_store_explicit(&entry->heard_at_ms, INT64_MIN, memory_order_relaxed);
    claim->entry = entry;
    claim->grant = grant;
    grant->claim = claim;
    hf__link_remove(&grant->aside);
    grant->shard->aside_count--;
}

static void refill_op(struct hf_op *op, const struct hf_grant *grant)
{
    struct hf_client *client = grant->shard->client;
    op->in.name = grant->entry->name;
    op->in.name_length = grant->entry->name_length;
    op->in.name_hash = grant->entry->hash;
    op->in.owner_text = client->owner_text;
    op->in.mode = (hf_mode)grant->mode;
    op->in.keep = HF_KEEP_NOTHING;
    op->in.permits = 1;
    op->in.enqueue = grant->enqueue;
    op->engine.known = grant->known;
    op->out.verdict = HF_GRANTED;
    op->out.token = atomic_load_explicit(&grant->token, memory_order_relaxed);
    op->out.rests_on = &op->engine.own_lease;
    op->engine.own_lease = (struct hf_lease){ .engine = client->engine,
                                              .lease_ms = client->host.lease_ms,
                                              .asked_at_ms = asked_at(grant),
                                              .lost = is_lost(grant) };
}

struct hf_claim *hf__compact_restore(struct hf_grant *grant, enum hf_fetch fetch)
{
    struct hf_shard *shard = grant->shard;
    uint32_t spared = hf__compact_bounds.spared;
    spared = fetch == HF_FETCH_TO_SHARE   ? spared
             : fetch == HF_FETCH_TO_RENEW ? TO_RENEW(spared)
                                          : 0;
    struct hf_claim *claim = hf__pool_get_claim(shard, spared);
    if (!claim)
        return NULL;
    hf__claim_reset(shard, claim);
    take_out_of_gate(claim, grant);
    refill_op(&claim->op, grant);
    claim->state = HF_CLAIM_HELD;
    claim->held_mode = claim->store_mode = grant->mode;
    claim->completed = claim->started = true;
    if (atomic_load(&shard->client->closing))
        atomic_store(&claim->ending, HF_ECLOSED);
    bool last = grant->holds.next == grant->holds.prev;
    if (hf__list_empty(&grant->holds)) {
        claim->held_mode = HF_KEEP_NOTHING;
        hf__claim_post(claim, HF_CMD_SETTLE);
    } else if (!is_lost(grant) &&
               (fetch == HF_FETCH_TO_SHARE || (fetch == HF_FETCH_TO_UNLOCK && !last))) {
        hf__claim_post(claim, HF_CMD_START);
    }
    return claim;
}

int hf__compact_drop_hold(struct hf_hold *hold)
{
    struct hf_grant *grant = hold->grant;
    struct hf_shard *shard = grant->shard;
    hf__link_remove(&hold->link);
    hf__pool_put_hold(shard, hold);
    int code = is_lost(grant) ? HF_LOST : HF_OK;
    if (!hf__list_empty(&grant->holds))
        return code;
    hf__shard_count_hold_end(shard, grant->entry->held_from_us);
    grant->entry->held_from_us = 0;
    hf__link_remove(&grant->aside);
    hf__list_append(&shard->aside_ended, &grant->aside);
    return code == HF_OK ? HF_UNREACHABLE : code;
}

void hf__compact_end_one(struct hf_shard *shard)
{
    if (shard->free_claims) /* mutant: what-was-given-back-without */
        hf__compact_fetch(grant_of(shard->aside_ended.next), HF_FETCH_TO_END);
}

static struct hf_link *first_of_all(struct hf_shard *shard)
{
    struct hf_link *first = hf__list_first(&shard->aside_ended);
    if (!first)
        first = hf__list_first(&shard->aside_lost);
    return first ? first : hf__list_first(&shard->aside);
}

bool hf__compact_fetch_some(struct hf_shard *shard)
{
    hf__shard_lock(shard);
    struct hf_link *first = first_of_all(shard);
    bool any = first != NULL;
    for (unsigned i = 0; i < FETCHED_AT_ONCE && first; i++) {
        if (!hf__compact_fetch(grant_of(first), HF_FETCH_TO_END))
            break;
        first = first_of_all(shard);
    }
    hf__shard_unlock(shard);
    return any;
}

/* ---- what is due ---- */

/* `not_before_ms`: what is due by now has been looked at. */
static void look_again(struct hf_shard *shard, int64_t not_before_ms)
{
    struct hf_loop *loop = &shard->client->loop;
    struct hf_link *first = hf__list_first(&shard->aside);
    if (!first) {
        hf__timer_stop(loop, &shard->aside_due);
        return;
    }
    int64_t lease_ms = shard->client->host.lease_ms;
    bool may_renew = shard->fetched_count < hf__compact_bounds.fetched;
    int64_t at_ms = may_renew ? asked_at(grant_of(first)) + lease_ms / 3
                              : hf__loop_now(loop) + lease_ms / 100 + 1;
    if (at_ms > valid_until(grant_of(first)))
        at_ms = valid_until(grant_of(first));
    if (at_ms <= hf__loop_now(loop) && at_ms < not_before_ms)
        at_ms = not_before_ms;
    if (!shard->aside_due.started || shard->aside_due.at_ms != at_ms)
        hf__timer_start(loop, &shard->aside_due, at_ms);
}

/* The next one that is to be renewed, or that is lost, which must not wait for what is silent. */
static struct hf_claim *fetch_due(struct hf_shard *shard, int64_t now_ms)
{
    struct hf_link *first = hf__list_first(&shard->aside);
    if (!first)
        return NULL;
    struct hf_grant *grant = grant_of(first);
    bool over = now_ms >= valid_until(grant);
    bool due = over || now_ms >= asked_at(grant) + shard->client->host.lease_ms / 3;
    if (!due || shard->fetched_count >= (over ? FETCHED_AT_ONCE : hf__compact_bounds.fetched))
        return NULL;
    struct hf_claim *claim = hf__compact_fetch(grant, over ? HF_FETCH_TO_END : HF_FETCH_TO_RENEW);
    if (claim) {
        claim->fetched = true;
        shard->fetched_count++;
    }
    return claim;
}

static void look_at_due(struct hf_timer *timer)
{
    struct hf_shard *shard = HF_CONTAINER(timer, struct hf_shard, aside_due);
    int64_t now_ms = hf__loop_now(&shard->client->loop);
    struct hf_claim *claim;
    unsigned fetched = 0;
    hf__shard_lock(shard);
    while (fetched < FETCHED_AT_ONCE && (claim = fetch_due(shard, now_ms))) {
        fetched++;
        hf__shard_unlock(shard);
        hf__lease_follow(claim);
        hf__shard_lock(shard);
    }
    look_again(shard, now_ms + (fetched == FETCHED_AT_ONCE ? 1 : LOOK_AGAIN_MS));
    hf__shard_unlock(shard);
}

static void set_some_aside(struct hf_task *task)
{
    struct hf_shard *shard = HF_CONTAINER(task, struct hf_shard, compact_task);
    hf__shard_lock(shard);
    while (shard->resting_count > hf__compact_bounds.resting) {
        struct hf_claim *claim = HF_CONTAINER(shard->resting.next, struct hf_claim, rest_link);
        leave_resting(claim);
        set_aside(shard, claim);
    }
    hf__compact_end(shard);
    look_again(shard, 0);
    hf__shard_unlock(shard);
}

void hf__compact_init(struct hf_shard *shard)
{
    hf__link_init(&shard->resting);
    hf__link_init(&shard->aside);
    hf__link_init(&shard->aside_lost);
    hf__link_init(&shard->aside_ended);
    hf__task_init(&shard->compact_task, set_some_aside);
    hf__timer_init(&shard->aside_due, look_at_due);
}

void hf__compact_stop(struct hf_client *client)
{
    for (unsigned s = 0; s < HF_SHARDS; s++) {
        hf__timer_stop(&client->loop, &client->shards[s].aside_due);
        hf__link_remove(&client->shards[s].compact_task.link);
    }
}
