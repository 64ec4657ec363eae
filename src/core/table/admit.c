/* SPDX-License-Identifier: Apache-2.0 */
/* Entering an entry: what an owner that holds a name may have besides, and new claims for all
 * others.
 */
#include "base/testing.h"
#include "core/claim/claim_compact.h"
#include "core/claim/claim_waiters.h"
#include "core/claim/fast_path.h"
#include "core/claim/pool.h"
#include "core/table/lock_table.h"

#include <string.h>

/* ---- what an owner that holds something may have besides ---- */

/* The watchdog may be late; the clock is not. */
static bool is_believed(const struct hf_claim *claim)
{
    const struct hf_loop *loop = &claim->client->loop;
    int64_t valid_until_ms = atomic_load(&claim->grant->valid_until_ms);
    return !atomic_load(&claim->grant->lost) &&
           (valid_until_ms == HF_NEVER || loop->clock(loop->arg) < valid_until_ms);
}

static uint64_t without_async(uint64_t owner)
{
    return owner >> 62 == 1 ? owner & ~HF_OWNER_ASYNC : owner;
}

static struct hf_claim *find_nest(const struct hf_lock_entry *entry, const struct hf_lock_args *ask)
{
    if (ask->mode == HF_PERMIT || !hf__mode_leaves_hold(ask->mode) || ask->attach_key)
        return NULL;
    HF_LIST_FOREACH (link, following, &entry->holders) {
        struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, entry_link);
        bool own = without_async(claim->op.in.owner) == without_async(ask->owner);
        bool nests = claim->held_mode != HF_KEEP_NOTHING && claim->held_mode != HF_PERMIT;
        if (own && nests && is_believed(claim))
            return claim;
    }
    return NULL;
}

static void refuse(struct hf_entrance *entrance, int code)
{
    entrance->how = HF_ADMIT_NO;
    entrance->answer.code = code;
}

/* Not every engine has what a reader that means to write should have taken. */
static void tell_reader(const struct hf_claim *claim, hf_error **error)
{
    bool upgradeable = claim->client->ops->caps & HF_CAP_UPGRADE;
    hf__explain(error, HF_EDEADLK, 0,
                "\"%.200s\": a reader that asks for more would wait for itself; %sgive the read "
                "hold back first",
                claim->op.in.name, upgradeable ? "take HF_UPGRADE instead of HF_READ, or " : "");
}

/* READ < UPGRADE < WRITE, and what is held covers what is weaker. Says why not. */
static enum hf_admission how_to_nest(const struct hf_claim *claim, const struct hf_lock_args *ask,
                                     hf_error **error)
{
    hf_mode wanted = ask->mode;
    hf_mode held = (hf_mode)claim->held_mode;
    const char *name = claim->op.in.name;
    if (held != wanted && !(hf__mode_is_rw(held) && hf__mode_is_rw(wanted)))
        hf__explain(error, HF_EKIND, 0, "\"%.200s\": this owner holds it in another mode", name);
    else if (wanted <= held)
        return HF_ADMIT_NESTED;
    else if (held == HF_READ)
        tell_reader(claim, error);
    else if (!claim->driven && !claim->upgrading)
        return HF_ADMIT_UPGRADE;
    else if (ask->blocks && ask->wait_ms != 0) /* mutant: raise-does-not-wait-for-change */
        return HF_ADMIT_EARLY;
    else
        hf__explain(error, HF_BUSY, 0, HF_REST_TOO_EARLY, name);
    return HF_ADMIT_NO;
}

static void fill_hold(struct hf_hold *hold, const struct hf_claim *claim,
                      const struct hf_lock_args *ask)
{
    hold->grant = claim->grant;
    hf__link_init(&hold->link);
    atomic_store_explicit(&hold->mode, ask->mode, memory_order_relaxed);
    hold->on_lost = ask->on_lost;
    hold->lost_arg = ask->lost_arg;
    hold->announced = false;
}

static void admit_nested(struct hf_shard *shard, struct hf_claim *claim,
                         const struct hf_lock_args *ask, struct hf_entrance *entrance)
{
    struct hf_answer *answer = &entrance->answer;
    if (ask->no_reentry) {
        hf__explain(&answer->error, HF_EDEADLK, 0,
                    "\"%.200s\": this owner holds it already, and no_reentry is set; use another "
                    "owner (HF_OWNER_NEW), or give the first hold back",
                    claim->op.in.name);
        refuse(entrance, HF_EDEADLK);
        return;
    }
    entrance->how = how_to_nest(claim, ask, &answer->error);
    entrance->claim = claim;
    if (entrance->how == HF_ADMIT_NO) {
        refuse(entrance, answer->error ? answer->error->code : HF_ENOMEM);
        return;
    }
    if (entrance->how == HF_ADMIT_EARLY) {
        hf__claim_pin(claim);
        return;
    }
    struct hf_hold *hold = hf__pool_get_hold(shard);
    if (!hold) {
        refuse(entrance, HF_ENOMEM);
        return;
    }
    fill_hold(hold, claim, ask);
    if (entrance->how == HF_ADMIT_NESTED) {
        hf__count_alone(&shard->nested, 1);
        hf__lock_entry_add_hold(claim, hold);
        answer->hold = hold;
        return;
    }
    claim->upgrading = claim->driven = true;
    claim->here = claim->here && ask->here && !ask->starts;
    claim->new_hold = hold;
}

/* ---- new claims ---- */

/* The claim may outlive the call that brought a text. False: out of memory. */
static bool admit_copy_text(struct hf_claim *claim, const char *text)
{
    if (!claim->text)
        claim->text = hf__calloc(1, HF_OWNER_KEY_SIZE);
    if (!claim->text)
        return false;
    size_t length = strnlen(text, HF_OWNER_KEY_SIZE - 1);
    memcpy(claim->text, text, length);
    claim->text[length] = 0;
    return true;
}

static struct hf_claim *make_claim(struct hf_shard *shard, struct hf_lock_entry *entry,
                                   const struct hf_lock_args *ask)
{
    struct hf_claim *claim = hf__pool_get_claim(shard, hf__compact_spares(shard));
    struct hf_grant *grant = claim ? hf__pool_get_grant(shard) : NULL;
    const char *text = ask->attach_key ? ask->attach_key : ask->owner_text;
    if (!grant || (text && !admit_copy_text(claim, text))) {
        if (grant)
            hf__pool_put_grant(shard, grant);
        if (claim)
            hf__pool_put_claim(shard, claim);
        return NULL;
    }
    hf__claim_reset(shard, claim);
    claim->entry = entry;
    claim->grant = grant;
    grant->entry = claim->entry;
    grant->claim = claim;
    hf__link_init(&grant->holds);
    atomic_store_explicit(&grant->valid_until_ms, HF_NEVER, memory_order_relaxed);
    atomic_store_explicit(&grant->lost, false, memory_order_relaxed);
    atomic_store_explicit(&grant->loss_counted, false, memory_order_relaxed);
    claim->here = ask->here;
    claim->driven = true;
    entry->claims++;
    if (hf__mode_leaves_hold(ask->mode)) {
        claim->new_hold = &grant->first;
        fill_hold(&grant->first, claim, ask);
    }
    struct hf_op *op = &claim->op;
    op->in.name = entry->name;
    op->in.name_length = ask->name_length;
    op->in.name_hash = ask->name_hash;
    op->in.owner = ask->owner;
    op->in.keep = HF_KEEP_NOTHING;
    op->in.permits = ask->permits;
    op->in.limit = ask->limit;
    op->in.election = ask->election;
    if (ask->attach_key)
        op->in.attach_key = claim->text;
    op->in.owner_text =
        ask->owner_text && !ask->attach_key ? claim->text : claim->client->owner_text;
    return claim;
}

static void admit_new(struct hf_client *client, struct hf_shard *shard, struct hf_lock_entry *entry,
                      const struct hf_lock_args *ask, struct hf_entrance *entrance)
{
    if (!entry)
        entry = hf__lock_entry_make(shard, ask);
    struct hf_claim *claim = entry ? make_claim(shard, entry, ask) : NULL;
    entrance->claim = claim;
    if (!claim) {
        if (entry && entry->claims == 0)
            hf__lock_entry_left(client, shard, entry);
        refuse(entrance, HF_ENOMEM);
        return;
    }
    if (hf__fast_acquire(claim, ask, &entrance->answer)) {
        entrance->how = HF_ADMIT_TAKEN;
        return;
    }
    entrance->contended = !hf__list_empty(&entry->holders) || !hf__list_empty(&entry->queue);
    /* A bare try does not wait for the lock, so it takes no other claim's turn. */
    bool bare = ask->wait_ms == 0;
    /* mutant: attach-meets-its-own */
    bool defers = bare && (ask->attach_key || !atomic_load(&client->silent)) &&
                  /* mutant: try-meets-its-own */
                  hf__lock_entry_is_undone(shard, entry, ask->attach_key);
    bool asks = bare ? !defers : hf__list_empty(&entry->queue);
    if (!bare)
        hf__list_append(&entry->queue, &claim->entry_link);
    else if (defers)
        hf__list_append(&shard->deferred, &claim->entry_link);
    /* What it waits for needs a loop, which may be the caller's to turn. */
    claim->here &= !defers || client->drive_kind == HF_DRIVE_KIND_THREAD;
    claim->here &= asks || !ask->starts;
    atomic_store_explicit(&claim->turn, asks ? HF_TURN_COME : 0, memory_order_relaxed);
    entrance->how = asks ? HF_ADMIT_ASK : HF_ADMIT_QUEUED;
}

void hf__lock_entry_admit(struct hf_client *client, const struct hf_lock_args *ask,
                          struct hf_entrance *entrance)
{
    struct hf_shard *shard = hf__shard_of(client, ask->name_hash);
    entrance->claim = NULL;
    entrance->contended = false;
    entrance->answer = (struct hf_answer){ .code = HF_OK };
    hf__shard_lock(shard);
    if (atomic_load_explicit(&client->closing, memory_order_relaxed)) {
        refuse(entrance, HF_ECLOSED);
    } else {
        struct hf_lock_entry *entry = hf__lock_entry_find(shard, ask);
        bool there =
            !entry || !entry->is_aside || hf__compact_fetch(entry->aside.grant, HF_FETCH_TO_SHARE);
        struct hf_claim *nest = entry && there ? find_nest(entry, ask) : NULL;
        if (!there)
            refuse(entrance, HF_ENOMEM);
        else if (nest)
            admit_nested(shard, nest, ask, entrance);
        else
            admit_new(client, shard, entry, ask, entrance);
        if (entrance->how <= HF_ADMIT_EARLY) {
            shard->calls_begun++;
            entrance->calls++;
        }
    }
    hf__shard_unlock(shard);
}
