/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for circles of waits in the lock entries of all clients of this process: from the call that
 * looks to the threads that hold its lock, to their calls, and so on, until one waits for it. All
 * waits stand still meanwhile. Holds do not, so each one of a circle is looked at twice. */
#include "core/api/own_circle.h"

#include "base/wait_graph.h"
#include "core/api/stop.h"
#include "core/table/lock_table.h"

#include <stdio.h>
#include <string.h>

/* With more holders it is worth looking in any case. */
#define HOLDERS_MAX 64
/* Of a longer circle the sentence has no room for the end. */
#define TOLD_MAX 16

static int64_t clock_of(const struct hf_blocked *blocked)
{
    return blocked->client->loop.clock(blocked->client->loop.arg);
}

bool hf__blocked_is_kept_out(const struct hf_blocked *blocked, const struct hf_claim *holder)
{
    return holder->held_mode != HF_KEEP_NOTHING && holder->op.in.owner != blocked->ask->owner &&
           !atomic_load(&holder->grant->lost) &&
           atomic_load(&holder->grant->valid_until_ms) > clock_of(blocked) &&
           hf__graph_excludes((hf_mode)holder->held_mode, blocked->ask->mode);
}

bool hf__blocked_still_waits(const struct hf_blocked *blocked)
{
    return !blocked->ended && blocked->ask->wait_until_ms > clock_of(blocked) &&
           !hf_stop_is_set(blocked->ask->stop);
}

struct hf_shard *hf__blocked_shard(const struct hf_blocked *blocked)
{
    return hf__shard_of(blocked->client, blocked->ask->name_hash);
}

struct hf_lock_entry *hf__blocked_entry(const struct hf_blocked *blocked)
{
    struct hf_lock_entry *entry = hf__lock_entry_find(hf__blocked_shard(blocked), blocked->ask);
    return entry && !entry->is_aside ? entry : NULL;
}

uint64_t hf__blocked_thread(const struct hf_blocked *blocked)
{
    return hf__owner_thread_number(blocked->ask->owner);
}

void hf__store_tell(const struct hf_client *client, char text[HF_STORE_TEXT_SIZE])
{
    const char *url = client->url.redacted;
    int length = (int)strcspn(url, "?"), room = HF_STORE_TEXT_SIZE - 1;
    snprintf(text, HF_STORE_TEXT_SIZE, "%.*s", length < room ? length : room, url);
}

/* ---- the way ---- */

struct way {
    struct hf_blocked *from, *last; /* of those that are to be looked at */
    struct hf_blocked *end;         /* it waits for `from` */
    hf_request end_hold;            /* which holds its lock by this; 0: it is in front of it */
};

/* The calls of the owner of a hold; or, in the queue of its entry, the call of this claim. */
static void add_calls(struct way *way, struct hf_blocked *at, const struct hf_claim *claim,
                      bool holds)
{
    uint64_t owner = claim->op.in.owner;
    hf_request request = hf__claim_id(claim);
    HF_LIST_FOREACH (link, following, &hf__blocked_stripe(owner)->calls) {
        struct hf_blocked *blocked = HF_CONTAINER(link, struct hf_blocked, link);
        bool is_claim = blocked->request == request && blocked->client == at->client;
        if (blocked->ask->owner != owner || blocked->seen_by == way->from ||
            (!holds && !is_claim) ||
            /* mutant: circle-in-process-crosses-clients */
            !hf__blocked_still_waits(blocked))
            continue;
        blocked->seen_by = way->from;
        blocked->from = at;
        blocked->by_hold = holds ? request : 0;
        blocked->next = NULL;
        way->last->next = blocked;
        way->last = blocked;
    }
}

/* May share the lock with what is held, and yet wait for its turn. */
static bool is_shared(const struct hf_blocked *blocked)
{
    return !hf__graph_excludes(HF_READ, blocked->ask->mode);
}

/* One that has just been granted is not, though its call still is among those that wait. */
static bool is_in_queue(const struct hf_blocked *blocked, const struct hf_lock_entry *entry)
{
    HF_LIST_FOREACH (link, following, &entry->queue)
        if (hf__claim_id(HF_CONTAINER(link, struct hf_claim, entry_link)) == blocked->request)
            return true;
    return false; /* mutant: reader-that-was-granted-is-behind-none */
}

/* Only the first of an entry's queue asks the store, so a reader behind a writer waits for it. What
 * shares with no holder waits for the same holders as those in front of it. A claim whose call has
 * ended is no call's wait. With the shard locked. */
static void go_on_from_queue(struct way *way, struct hf_blocked *at,
                             const struct hf_lock_entry *entry)
{
    if (!is_in_queue(at, entry))
        return;
    HF_LIST_FOREACH (link, following, &entry->queue) {
        const struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, entry_link);
        hf_request request = hf__claim_id(claim);
        if (request == at->request)
            break;
        if (request == way->from->request && at->client == way->from->client) {
            way->end = at;
            way->end_hold = 0;
            break;
        }
        add_calls(way, at, claim, false);
    }
}

static void go_on_from(struct way *way, struct hf_blocked *at)
{
    struct hf_shard *shard = hf__blocked_shard(at);
    hf__shard_lock(shard);
    struct hf_lock_entry *entry = hf__blocked_entry(at);
    for (struct hf_link *link = entry ? entry->holders.next : NULL;
         entry && link != &entry->holders && !way->end; link = link->next) {
        const struct hf_claim *holder = HF_CONTAINER(link, struct hf_claim, entry_link);
        if (!hf__blocked_is_kept_out(at, holder))
            continue;
        if (holder->op.in.owner == way->from->ask->owner) {
            way->end = at;
            way->end_hold = hf__claim_id(holder);
        }
        add_calls(way, at, holder, true);
    }
    if (entry && !way->end && is_shared(at)) /* mutant: reader-behind-writer-waits-for-it */
        go_on_from_queue(way, at, entry);
    hf__shard_unlock(shard);
}

/* By the hold, or in the queue behind the call in front. */
static bool is_still_kept_out(const struct hf_blocked *at, const struct hf_blocked *front,
                              hf_request by_hold)
{
    bool found = false;
    struct hf_shard *shard = hf__blocked_shard(at);
    hf__shard_lock(shard);
    struct hf_lock_entry *entry = hf__blocked_entry(at);
    for (struct hf_link *link = entry ? entry->holders.next : NULL;
         entry && link != &entry->holders && !found; link = link->next) {
        const struct hf_claim *holder = HF_CONTAINER(link, struct hf_claim, entry_link);
        found = hf__claim_id(holder) == by_hold && hf__blocked_is_kept_out(at, holder);
    }
    if (entry && by_hold == 0)
        found = is_in_queue(at, entry) && is_in_queue(front, entry);
    hf__shard_unlock(shard);
    return found;
}

/* All of its holds were there between the end of the first look and this one. */
static bool is_still_there(const struct way *way)
{
    hf_request by_hold = way->end_hold;
    const struct hf_blocked *front = way->from;
    for (const struct hf_blocked *at = way->end; at; front = at, at = at->from) {
        if (!is_still_kept_out(at, front, by_hold))
            return false;
        by_hold = at->by_hold;
    }
    return true;
}

static bool leads_back(struct way *way)
{
    for (unsigned i = 0; i < HF_BLOCKED_STRIPES; i++)
        HF_LIST_FOREACH (link, following, &hf__blocked_stripes[i].calls)
            HF_CONTAINER(link, struct hf_blocked, link)->seen_by = NULL;
    way->from->seen_by = way->from;
    way->from->from = way->from->next = NULL;
    way->last = way->from;
    for (struct hf_blocked *at = way->from; at && !way->end; at = at->next)
        go_on_from(way, at);
    return way->end && is_still_there(way);
}

/* "thread 7 waits for "b", held by thread 9, which waits for "a", held by thread 7". */
static void tell_way(const struct way *way, char *text, size_t size)
{
    const struct hf_blocked *steps[TOLD_MAX];
    unsigned count = 0, told = 0;
    bool one_client = true;
    for (const struct hf_blocked *at = way->end; at; at = at->from, count++)
        one_client &= at->client == way->from->client;
    unsigned index = count;
    for (const struct hf_blocked *at = way->end; at; at = at->from)
        if (--index < TOLD_MAX)
            steps[index] = at;
    size_t length = 0;
    for (; told < count && told < TOLD_MAX; told++) {
        const struct hf_blocked *at = steps[told];
        const struct hf_blocked *next = told + 1 < count ? steps[(told + 1) % TOLD_MAX] : way->from;
        hf_request by_hold = told + 1 < count ? next->by_hold : way->end_hold;
        char who[40] = ", which", where[4 + HF_STORE_TEXT_SIZE] = "";
        if (told == 0)
            snprintf(who, sizeof who, "thread %llu", (unsigned long long)hf__blocked_thread(at));
        if (!one_client) {
            memcpy(where, " at ", 4);
            hf__store_tell(at->client, where + 4);
        }
        int added = snprintf(text + length, size - length, "%s waits for \"%.64s\"%s%s thread %llu",
                             who, hf__shown_name(at->client, at->ask->name), where,
                             by_hold ? ", held by" : " behind",
                             (unsigned long long)hf__blocked_thread(next));
        if (added < 0 || length + (size_t)added + sizeof ", ..." >= size)
            break;
        length += (size_t)added;
    }
    if (told < count)
        snprintf(text + length, size - length, ", ...");
}

/* ---- whether to look ---- */

/* The owners, of its client, that keep the call from its lock, or those before it. Returns how
 * many. */
static unsigned find_holders(const struct hf_blocked *blocked, uint64_t owners[HOLDERS_MAX])
{
    struct hf_shard *shard = hf__blocked_shard(blocked);
    unsigned count = 0;
    hf__shard_lock(shard);
    struct hf_lock_entry *entry = hf__blocked_entry(blocked);
    for (struct hf_link *link = entry ? entry->holders.next : NULL;
         entry && link != &entry->holders && count < HOLDERS_MAX; link = link->next) {
        const struct hf_claim *holder = HF_CONTAINER(link, struct hf_claim, entry_link);
        if (hf__owner_thread_number(holder->op.in.owner) &&
            (is_shared(blocked) || hf__blocked_is_kept_out(blocked, holder)))
            owners[count++] = holder->op.in.owner;
    }
    hf__shard_unlock(shard);
    return count;
}

/* Only where one of them waits, too, is it worth looking further. */
static bool may_close_circle(const struct hf_blocked *blocked)
{
    uint64_t owners[HOLDERS_MAX];
    unsigned count = find_holders(blocked, owners);
    bool one_waits = count == HOLDERS_MAX;
    for (unsigned i = 0; i < count && !one_waits; i++) {
        struct hf_blocked_stripe *stripe = hf__blocked_stripe(owners[i]);
        pthread_mutex_lock(&stripe->mutex);
        HF_LIST_FOREACH (link, following, &stripe->calls)
            one_waits |= HF_CONTAINER(link, struct hf_blocked, link)->ask->owner == owners[i];
        pthread_mutex_unlock(&stripe->mutex);
    }
    return one_waits;
}

bool hf__own_circle_end(struct hf_blocked *blocked, char *text, size_t size)
{
    if (!may_close_circle(blocked))
        return false;
    struct way way = { .from = blocked };
    hf__blocked_lock_all();
    bool found = leads_back(&way);
    blocked->ended = found;
    if (found)
        tell_way(&way, text, size);
    hf__blocked_unlock_all();
    return found;
}
