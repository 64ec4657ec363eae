/* SPDX-License-Identifier: Apache-2.0 */
/* Lock entries: the local queue per name, what each owner holds, and whose turn it is to ask the
 * store. */
#include "core/table/lock_table.h"
#include "base/futex.h"
#include "base/testing.h"
#include "core/api/explain.h"
#include "core/claim/claim_compact.h"
#include "core/claim/claim_fsm.h"
#include "core/claim/pool.h"
#include "core/table/blocked.h"

#include <assert.h>
#include <string.h>

struct hf_shard *hf__shard_of(struct hf_client *client, uint64_t name_hash)
{
    /* The high bits choose the shard, the low ones the bucket. */
    return &client->shards[name_hash >> 58];
}

int hf__lock_table_open(struct hf_client *client)
{
    hf__blocked_open();
    for (unsigned i = 0; i < HF_SHARDS; i++) {
        client->shards[i].client = client;
        client->shards[i].counts = &client->counts[i % HF_COUNT_PARTS];
        hf__link_init(&client->shards[i].undone);
        hf__link_init(&client->shards[i].deferred);
        hf__compact_init(&client->shards[i]);
        if (hf__pool_open(&client->shards[i]) != HF_OK)
            return HF_ENOMEM;
    }
    return HF_OK;
}

void hf__lock_table_close(struct hf_client *client)
{
    for (unsigned i = 0; i < HF_SHARDS; i++)
        hf__pool_close(&client->shards[i]);
}

struct hf_lock_entry *hf__lock_entry_find(struct hf_shard *shard, const struct hf_lock_args *ask)
{
    struct hf_lock_entry *entry = shard->buckets[ask->name_hash & (shard->bucket_count - 1)];
    for (; entry; entry = entry->next)
        if (entry->hash == ask->name_hash && entry->name_length == ask->name_length &&
            memcmp(entry->name, ask->name, ask->name_length) == 0)
            return entry;
    return NULL;
}

void hf__lock_entry_unlink(struct hf_shard *shard, struct hf_lock_entry *entry)
{
    struct hf_lock_entry **at = &shard->buckets[entry->hash & (shard->bucket_count - 1)];
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    shard->entry_count--;
    hf__pool_put_entry(shard, entry);
}

struct hf_lock_entry *hf__lock_entry_make(struct hf_shard *shard, const struct hf_lock_args *ask)
{
    struct hf_lock_entry *entry = hf__pool_get_entry(shard, ask->name, ask->name_length);
    if (!entry)
        return NULL;
    entry->hash = ask->name_hash;
    hf__link_init(&entry->queue);
    hf__link_init(&entry->holders);
    entry->claims = 0;
    entry->is_aside = false;
    entry->kept = 0;
    atomic_store_explicit(&entry->silent, false, memory_order_relaxed);
    atomic_store_explicit(&entry->heard_at_ms, INT64_MIN, memory_order_relaxed);
    hf__pool_grow_buckets(shard);
    struct hf_lock_entry **bucket = &shard->buckets[entry->hash & (shard->bucket_count - 1)];
    entry->next = *bucket;
    *bucket = entry;
    shard->entry_count++;
    return entry;
}

void hf__lock_entry_add_hold(struct hf_claim *claim, struct hf_hold *hold)
{
    hold->grant = claim->grant;
    hf__list_append(&claim->grant->holds, &hold->link);
}

bool hf__lock_entry_call_begin(struct hf_client *client, uint64_t name_hash)
{
    struct hf_shard *shard = hf__shard_of(client, name_hash);
    hf__shard_lock(shard);
    bool open = !atomic_load(&client->closing);
    if (open)
        shard->calls_begun++;
    hf__shard_unlock(shard);
    return open;
}

void hf__lock_entry_call_ended(struct hf_client *client, uint64_t name_hash)
{
    struct hf_shard *shard = hf__shard_of(client, name_hash);
    atomic_fetch_add_explicit(&shard->calls_ended, 1, memory_order_release);
    HF_POINT("core:call:ended");
}

uint64_t hf__lock_entry_calls(struct hf_client *client)
{
    uint64_t calls = 0;
    for (unsigned s = 0; s < HF_SHARDS; s++) {
        /* Under the mutex, no thread is between looking at `closing` and counting in. */
        hf__shard_lock(&client->shards[s]);
        calls += client->shards[s].calls_begun - atomic_load(&client->shards[s].calls_ended);
        hf__shard_unlock(&client->shards[s]);
    }
    return calls;
}

/* ---- entries without a claim ---- */

static bool drop_kept(struct hf_client *client, struct hf_lock_entry *entry)
{
    /* mutant: forgotten-name-is-not-given-up */
    return !entry->kept || client->sync->fast_drop(client->engine, &entry->kept);
}

/* False: the entry that stays there now cannot be forgotten at the moment. */
static bool make_place(struct hf_client *client, struct hf_shard *shard)
{
    struct hf_lock_entry *there = shard->idle;
    if (!there || there->claims)
        return true;
    if (!drop_kept(client, there))
        return false;
    hf__lock_entry_unlink(shard, there);
    return true;
}

void hf__lock_entry_left(struct hf_client *client, struct hf_shard *shard,
                         struct hf_lock_entry *entry)
{
    if (shard->idle == entry)
        return;
    if (entry->kept && make_place(client, shard))
        shard->idle = entry;
    else if (drop_kept(client, entry))
        hf__lock_entry_unlink(shard, entry);
    /* Else it stays in the table: the next claim on the name finds it there, or closing does. */
}

void hf__lock_table_drop_idle(struct hf_client *client)
{
    for (unsigned s = 0; s < HF_SHARDS && client->sync; s++) {
        struct hf_shard *shard = &client->shards[s];
        hf__shard_lock(shard);
        for (uint32_t i = 0; i < shard->bucket_count; i++)
            for (struct hf_lock_entry *entry = shard->buckets[i]; entry; entry = entry->next)
                drop_kept(client, entry);
        hf__shard_unlock(shard);
    }
}

/* ---- the queue's turn ---- */

static void give_turn(struct hf_claim *claim, bool heard)
{
    uint32_t heard_too = heard && !claim->here ? HF_TURN_HEARD : 0;
    uint32_t before = atomic_fetch_or(&claim->turn, HF_TURN_COME | heard_too);
    if (before & HF_TURN_COME)
        return;
    /* A claim whose caller is still preparing it finds its turn when it starts. */
    if (claim->here)
        hf__futex_wake_all(&claim->turn);
    else if (claim->started)
        hf__claim_post(claim, HF_CMD_TURN);
}

void hf__lock_entry_leave_queue(struct hf_claim *claim)
{
    if (!hf__link_linked(&claim->entry_link))
        return;
    hf__link_remove(&claim->entry_link);
    struct hf_link *next = hf__list_first(&claim->entry->queue);
    if (next) /* mutant: turn-is-not-passed-on */
        give_turn(HF_CONTAINER(next, struct hf_claim, entry_link), claim->store_seen);
}

void hf__lock_entry_judge_head(struct hf_claim *claim, int64_t now_ms)
{
    struct hf_lock_entry *entry = claim->entry;
    hf__shard_lock(claim->shard);
    struct hf_link *first = hf__list_first(&entry->queue);
    /* mutant: question-that-is-out-for-long */
    if (first && hf__claim_is_unanswered(HF_CONTAINER(first, struct hf_claim, entry_link), now_ms))
        atomic_store(&entry->silent, true);
    hf__shard_unlock(claim->shard);
}

/* ---- the end of a claim ---- */

void hf__claim_free(struct hf_shard *shard, struct hf_claim *claim)
{
    struct hf_lock_entry *entry = claim->entry;
    assert(hf__list_empty(&claim->grant->holds));
    hf__lock_entry_leave_queue(claim);
    if (claim->new_hold)
        hf__pool_put_hold(shard, claim->new_hold);
    hf__claim_count_hold_end(claim);
    hf__pool_put_grant(shard, claim->grant);
    hf__compact_leaves(claim);
    hf__pool_put_claim(shard, claim);
    if (--entry->claims == 0)
        hf__lock_entry_left(claim->client, shard, entry);
    hf__compact_end(shard);
}

void hf__claim_unpin(struct hf_claim *claim)
{
    if (--claim->pins == 0 && claim->forgotten)
        hf__claim_free(claim->shard, claim);
}

void hf__claim_forget(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    hf__shard_lock(shard);
    if (claim->unlock_waiter)
        hf__claim_post(claim, HF_CMD_SETTLE);
    if (claim->pins)
        claim->forgotten = true;
    else
        hf__claim_free(shard, claim);
    hf__shard_unlock(shard);
}

/* ---- what is undone behind the caller's back ---- */

bool hf__lock_entry_is_undone(const struct hf_shard *shard, const struct hf_lock_entry *entry,
                              const char *attach_key)
{
    HF_LIST_FOREACH (link, following, &shard->undone) {
        const struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, undo_link);
        const char *key = claim->op.in.attach_key;
        /* A release that has met silence is not waited for, unless it puts back what is asked for.
         */
        bool puts_back = attach_key && key && strcmp(attach_key, key) == 0;
        if (claim->entry == entry && (!claim->undone_unheard || puts_back))
            return true;
    }
    return false;
}

static void end_deferring(struct hf_shard *shard, const struct hf_lock_entry *entry)
{
    HF_LIST_FOREACH (link, following, &shard->deferred) {
        struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, entry_link);
        if (claim->entry != entry ||
            hf__lock_entry_is_undone(shard, entry, claim->op.in.attach_key))
            continue;
        hf__link_remove(link);
        give_turn(claim, false);
    }
}

/* A thread that drives its own claim returns when the claim is over. */
static void follow_undoing(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    bool out = claim->state == HF_CLAIM_ASKING || claim->state == HF_CLAIM_LEAVING;
    bool undone =
        out && claim->outcome != HF_OK && claim->store_mode == HF_KEEP_NOTHING && !claim->here;
    if (!undone && !claim->undone)
        return;
    hf__shard_lock(shard);
    claim->undone = undone;
    claim->undone_unheard = claim->state == HF_CLAIM_LEAVING && claim->silences > 0;
    hf__link_remove(&claim->undo_link);
    if (undone)
        hf__list_append(&shard->undone, &claim->undo_link);
    end_deferring(shard, claim->entry);
    hf__shard_unlock(shard);
}

/* A claim that comes back from a change may have been lost under way: the answer says so, or a
 * break came when no thread looked. hf_held ends here; the loop tells the holders. */
static void settle_loss(struct hf_claim *claim)
{
    const struct hf_client *client = claim->client;
    bool gone = client->sync && !client->sync->held(client->engine, &claim->op);
    if (atomic_load(&claim->grant->lost) || !(claim->op.out.lost || gone))
        return;
    atomic_store(&claim->grant->valid_until_ms, 0);
    hf__claim_post(claim, HF_CMD_LOSE);
}

static void put_back_new_hold(struct hf_shard *shard, struct hf_claim *claim)
{
    if (claim->new_hold)
        hf__pool_put_hold(shard, claim->new_hold);
    claim->new_hold = NULL;
}

/* Engines may have numbers of their own, and no promise to go with them. */
static uint64_t lock_table_token_of(const struct hf_claim *claim)
{
    /* mutant: number-that-is-no-token */
    return claim->client->ops->caps & HF_CAP_TOKEN ? claim->op.out.token : 0;
}

static void join_holders(struct hf_claim *claim)
{
    if (!claim->upgrading) {
        hf__lock_entry_leave_queue(claim);
        hf__list_append(&claim->entry->holders, &claim->entry_link);
    }
    claim->held_mode = claim->store_mode = (int8_t)claim->op.in.mode;
    const struct hf_lease *lease = claim->op.out.rests_on;
    atomic_store_explicit(&claim->grant->fixed, lease && lease->fixed, memory_order_relaxed);
    atomic_store_explicit(&claim->grant->token, lock_table_token_of(claim), memory_order_relaxed);
    if (claim->op.in.attach_key) {
        claim->new_hold->mode = claim->op.in.mode;
        claim->op.in.attach_key = NULL; /* mutant: what-was-attached-once */
    }
    if (claim->changing)
        claim->changing->mode = claim->op.in.mode;
    if (claim->new_hold) {
        hf__lock_entry_add_hold(claim, claim->new_hold);
        claim->answer_hold = claim->new_hold;
        claim->new_hold = NULL;
    }
}

/* The store has been brought down to op.in.keep; or it refuses that, and then what it has for us is
 * still ours to use. */
static void settle_lower(struct hf_shard *shard, struct hf_claim *claim)
{
    /* mutant: lowering-that-store-refuses */
    bool refused = claim->op.out.verdict == HF_FAILED && !claim->op.out.lost;
    put_back_new_hold(shard, claim);
    settle_loss(claim);
    claim->refused_keep = refused ? (int8_t)claim->op.in.keep : 0;
    if (!refused)
        claim->store_mode = (int8_t)claim->op.in.keep;
    else if (!hf__list_empty(&claim->grant->holds))
        claim->held_mode = claim->store_mode;
}

static void come_to_rest(struct hf_claim *claim, bool watch)
{
    claim->driven = claim->upgrading = false;
    claim->changing = NULL;
    claim->generation++; /* the request is over: its id must not reach a later one of this claim */
    /* While the claim was being changed, holds may have been given back, and a thread may wait for
     * it. */
    bool settled = hf__lock_entry_is_settled(claim, hf__lock_entry_needed(claim));
    /* A calling thread lowers afterwards what was released meanwhile. After the loop no thread
     * does, so the claim stays with the loop until it is settled. With nothing to renew or to time
     * out, any thread may end it without the loop. */
    /* mutant: after-change-by-loop */
    claim->here = claim->client->here && !claim->op.out.rests_on && (claim->here || settled) &&
                  !(claim->commands & HF_CMD_SETTLE) && !claim->unlock_waiter;
    if (watch)
        hf__claim_post(claim, HF_CMD_START);
    /* mutant: what-is-given-back-during */
    if (!claim->here && (!settled || claim->unlock_waiter))
        hf__claim_post(claim, HF_CMD_SETTLE);
}

void hf__lock_entry_settle(struct hf_claim *claim, bool watch)
{
    struct hf_shard *shard = claim->shard;
    hf__shard_lock(shard);
    settle_loss(claim);
    put_back_new_hold(shard, claim);
    come_to_rest(claim, watch);
    hf__compact_rests(claim);
    hf__shard_unlock(shard);
}

static bool is_asking(enum hf_claim_state state)
{
    return state == HF_CLAIM_QUEUED || state == HF_CLAIM_ASKING || state == HF_CLAIM_WAITING;
}

static void say_granted(const struct hf_claim *claim)
{
    if (hf__host_wants_events(&claim->client->host))
        hf__host_event(&claim->client->host, HF_EVENT_GRANTED, claim->op.in.name,
                       lock_table_token_of(claim), "granted");
}

struct hf_answer hf__lock_entry_grant(struct hf_claim *claim)
{
    join_holders(claim);
    struct hf_answer answer = hf__claim_take_answer(claim);
    come_to_rest(claim, claim->op.out.rests_on != NULL);
    return answer;
}

struct hf_answer hf__lock_entry_grant_sync(struct hf_claim *claim)
{
    struct hf_shard *shard = claim->shard;
    say_granted(claim);
    hf__shard_lock(shard);
    if (!claim->upgrading) /* else it is held already */
        hf__claim_count_hold(claim);
    struct hf_answer answer = hf__lock_entry_grant(claim);
    settle_loss(claim);
    hf__shard_unlock(shard);
    return answer;
}

void hf__lock_entry_say_waiting(struct hf_claim *claim)
{
    if (claim->said_waiting || !hf__host_wants_events(&claim->client->host))
        return;
    claim->said_waiting = true;
    hf__host_event(&claim->client->host, HF_EVENT_WAITING, claim->op.in.name, 0,
                   "held by another owner; the request waits");
}

void hf__lock_entry_follow(struct hf_claim *claim, enum hf_claim_state before)
{
    follow_undoing(claim);
    if (claim->state == before)
        return;
    /* mutant: owner-meets-silence-is-said */
    if (claim->state == HF_CLAIM_WAITING && claim->op.out.verdict == HF_REFUSED)
        hf__lock_entry_say_waiting(claim);
    if (claim->state == HF_CLAIM_WAITING && !claim->completed && !claim->done && claim->blocked)
        hf__blocked_list(claim->blocked);
    bool asked = is_asking(before);
    bool granted = asked && claim->state == HF_CLAIM_HELD && claim->op.out.verdict == HF_GRANTED;
    /* One that is going to ask again keeps its turn, and the hold that waits for the grant. */
    bool stopped = asked && !granted && !is_asking(claim->state) && !claim->again;
    bool lowered = before == HF_CLAIM_LEAVING && claim->state == HF_CLAIM_HELD;
    /* A raise that was granted, and goes back: until that is done, the store has it for us. */
    bool raised = claim->upgrading && asked && !granted && claim->op.out.verdict == HF_GRANTED;
    if (!granted && !stopped && !lowered && !raised)
        return;
    struct hf_shard *shard = claim->shard;
    hf__shard_lock(shard);
    if (granted) {
        if (!claim->upgrading) /* else it is held already */
            hf__claim_count_hold(claim);
        join_holders(claim);
    }
    if (stopped) {
        put_back_new_hold(shard, claim);
        if (!claim->upgrading)
            hf__lock_entry_leave_queue(claim);
        else if (claim->state == HF_CLAIM_HELD)
            settle_loss(claim);
    }
    if (raised)
        claim->store_mode = (int8_t)claim->op.in.mode; /* mutant: raise-that-was-granted-too */
    if (lowered)
        settle_lower(shard, claim);
    hf__shard_unlock(shard);
    if (granted)
        say_granted(claim);
}

/* ---- holds ---- */

int hf__lock_entry_needed(const struct hf_claim *claim)
{
    int needed = HF_KEEP_NOTHING;
    HF_LIST_FOREACH (link, following, &claim->grant->holds) {
        const struct hf_hold *hold = HF_CONTAINER(link, struct hf_hold, link);
        if ((int)hold->mode > needed)
            needed = (int)hold->mode;
        /* No hold has more than the store has for us, so a hundred thousand nested ones are not
         * looked at one by one. */
        if (needed >= claim->store_mode)
            break;
    }
    return needed;
}

void hf__lock_entry_drop_hold(struct hf_hold *hold)
{
    struct hf_claim *claim = hold->grant->claim;
    struct hf_shard *shard = claim->shard;
    /* A lost claim is set aside as soon as all of it is told. */
    hf__claim_pin(claim);
    while (atomic_load(&claim->in_callback) &&
           !pthread_equal(claim->client->calling_back, pthread_self())) {
        hf__shard_unlock(shard);
        hf__futex_wait(&claim->in_callback, 1, NULL);
        hf__shard_lock(shard);
    }
    if (claim->changing == hold) /* mutant: hold-that-is-raised-and-gone */
        claim->changing = NULL;
    hf__link_remove(&hold->link);
    hf__pool_put_hold(shard, hold);
    hf__claim_unpin(claim);
}
