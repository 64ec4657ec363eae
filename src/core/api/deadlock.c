/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for circles of threads that wait for each other (docs/adr/0013-deadlocks.md). */
#include "core/api/deadlock.h"

#include "base/clock.h"
#include "base/wait_graph.h"
#include "core/api/stop.h"
#include "core/claim/claim_change.h"
#include "core/oneshot/oneshot.h"
#include "core/table/lock_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A wait that goes on looks again, later and later. */
#define PAUSE_MAX_MS 300000
/* How often a call looks whether its list is there. */
#define POLL_MS 10
/* A longer circle in one client is left to the store. */
#define DEPTH_MAX 64

/* ---- in one client ---- */

static int64_t clock_of(const struct hf_client *client)
{
    return client->loop.clock(client->loop.arg);
}

static bool keeps_out(const struct hf_claim *holder, const struct hf_lock_args *ask, int64_t now_ms)
{
    return holder->held_mode != HF_KEEP_NOTHING && holder->op.in.owner != ask->owner &&
           !atomic_load(&holder->grant->lost) &&
           atomic_load(&holder->grant->valid_until_ms) > now_ms &&
           hf__graph_excludes((hf_mode)holder->held_mode, ask->mode);
}

static bool still_waits(const struct hf_blocked *blocked, int64_t now_ms)
{
    return !blocked->ended && blocked->ask->wait_until_ms > now_ms &&
           !hf_stop_is_set(blocked->ask->stop);
}

static struct hf_lock_entry *entry_of(const struct hf_blocked *blocked)
{
    struct hf_shard *shard = hf__shard_of(blocked->client, blocked->ask->name_hash);
    struct hf_lock_entry *entry = hf__lock_entry_find(shard, blocked->ask);
    return entry && !entry->is_aside ? entry : NULL;
}

/* A way through calls that wait, from the one that looks. */
struct way {
    const struct hf_blocked *from, *step[DEPTH_MAX];
    bool behind[DEPTH_MAX]; /* that step waits for the next one's turn, and not for its hold */
    unsigned length;
    int64_t now_ms;
};

static bool leads_back(struct way *way, struct hf_blocked *blocked);

/* Does a call of this thread wait, that one if `request` is not 0, and lead back? */
static bool owner_leads_back(struct way *way, uint64_t owner, hf_request request)
{
    struct hf_shard *shard = hf__blocked_shard(way->from->client, owner);
    HF_LIST_FOREACH (link, following, &shard->blocked) {
        struct hf_blocked *blocked = HF_CONTAINER(link, struct hf_blocked, link);
        if (blocked->ask->owner == owner && (!request || blocked->request == request) &&
            blocked->seen_by != way->from && still_waits(blocked, way->now_ms) &&
            leads_back(way, blocked))
            return true;
    }
    return false;
}

/* May share the lock with what is held, and yet wait for its turn. */
static bool is_shared(const struct hf_lock_args *ask)
{
    return !hf__graph_excludes(HF_READ, ask->mode);
}

/* One that has just been granted is not, though its call still is among those that wait. */
static bool is_in_queue(const struct hf_blocked *blocked, const struct hf_lock_entry *entry)
{
    HF_LIST_FOREACH (link, following, &entry->queue)
        if (hf__claim_id(HF_CONTAINER(link, struct hf_claim, entry_link)) == blocked->request)
            return true;
    return false;
}

/* Only the first of an entry's queue asks the store, so a reader behind a writer waits for it. What
 * shares with no holder waits for the same holders as those in front of it. A claim whose call has
 * ended is no call's wait. */
static bool queue_leads_back(struct way *way, const struct hf_blocked *blocked,
                             const struct hf_lock_entry *entry)
{
    if (!is_in_queue(blocked, entry)) /* mutant: reader-that-was-granted-is-behind-none */
        return false;
    HF_LIST_FOREACH (link, following, &entry->queue) {
        const struct hf_claim *claim = HF_CONTAINER(link, struct hf_claim, entry_link);
        hf_request request = hf__claim_id(claim);
        if (request == blocked->request)
            break;
        if (request == way->from->request || owner_leads_back(way, claim->op.in.owner, request))
            return true;
    }
    return false;
}

/* With all shards locked. */
static bool leads_back(struct way *way, struct hf_blocked *blocked)
{
    struct hf_lock_entry *entry = entry_of(blocked);
    if (!entry || way->length == DEPTH_MAX)
        return false;
    way->step[way->length++] = blocked;
    blocked->seen_by = way->from;
    HF_LIST_FOREACH (link, following, &entry->holders) {
        const struct hf_claim *holder = HF_CONTAINER(link, struct hf_claim, entry_link);
        if (keeps_out(holder, blocked->ask, way->now_ms) &&
            (holder->op.in.owner == way->from->ask->owner ||
             owner_leads_back(way, holder->op.in.owner, 0)))
            return true;
    }
    unsigned step = way->length - 1;
    way->behind[step] = is_shared(blocked->ask) && queue_leads_back(way, blocked, entry);
    if (way->behind[step]) /* mutant: reader-behind-writer-waits-for-it */
        return true;
    way->length--;
    return false;
}

static uint64_t thread_of(const struct hf_blocked *blocked)
{
    return hf__owner_thread_number(blocked->ask->owner);
}

/* "thread 7 waits for "b", held by thread 9, which waits for "a", held by thread 7" */
static void tell_way(const struct way *way, char *text, size_t size)
{
    size_t length = 0;
    for (unsigned i = 0; i < way->length; i++) {
        const struct hf_blocked *next = way->step[(i + 1) % way->length];
        char who[40] = ", which";
        if (i == 0)
            snprintf(who, sizeof who, "thread %llu", (unsigned long long)thread_of(way->step[0]));
        int added = snprintf(text + length, size - length, "%s waits for \"%.64s\"%s thread %llu",
                             who, way->step[i]->ask->name, way->behind[i] ? " behind" : ", held by",
                             (unsigned long long)thread_of(next));
        if (added < 0 || length + (size_t)added + sizeof ", ..." >= size) {
            snprintf(text + length, size - length, ", ...");
            return;
        }
        length += (size_t)added;
    }
}

/* All shards together are one moment. No other place locks more than one. */
static bool closes_circle(struct hf_deadlock_wait *wait)
{
    struct hf_client *client = wait->blocked.client;
    struct way way = { .from = &wait->blocked, .now_ms = clock_of(client) };
    for (unsigned s = 0; s < HF_SHARDS; s++)
        hf__shard_lock(&client->shards[s]);
    for (unsigned s = 0; s < HF_SHARDS; s++)
        HF_LIST_FOREACH (link, following, &client->shards[s].blocked)
            HF_CONTAINER(link, struct hf_blocked, link)->seen_by = NULL;
    bool found = leads_back(&way, &wait->blocked);
    wait->blocked.ended = found;
    if (found)
        tell_way(&way, wait->circle, sizeof wait->circle);
    for (unsigned s = 0; s < HF_SHARDS; s++)
        hf__shard_unlock(&client->shards[s]);
    return found;
}

/* The owners, of this client, that keep the call from its lock, or those before it. Returns how
 * many. */
static unsigned find_holders(const struct hf_blocked *blocked, uint64_t owners[DEPTH_MAX])
{
    struct hf_shard *shard = hf__shard_of(blocked->client, blocked->ask->name_hash);
    unsigned count = 0;
    int64_t now_ms = blocked->ask->now_ms;
    hf__shard_lock(shard);
    struct hf_lock_entry *entry = entry_of(blocked);
    for (struct hf_link *link = entry ? entry->holders.next : NULL;
         entry && link != &entry->holders && count < DEPTH_MAX; link = link->next) {
        const struct hf_claim *holder = HF_CONTAINER(link, struct hf_claim, entry_link);
        if (hf__owner_thread_number(holder->op.in.owner) &&
            (is_shared(blocked->ask) || keeps_out(holder, blocked->ask, now_ms)))
            owners[count++] = holder->op.in.owner;
    }
    hf__shard_unlock(shard);
    return count;
}

/* Only where one of them waits, too, is it worth looking further. */
static bool may_close_circle(const struct hf_blocked *blocked)
{
    uint64_t owners[DEPTH_MAX];
    unsigned count = find_holders(blocked, owners);
    bool one_waits = false;
    for (unsigned i = 0; i < count && !one_waits; i++) {
        struct hf_shard *shard = hf__blocked_shard(blocked->client, owners[i]);
        hf__shard_lock(shard);
        HF_LIST_FOREACH (link, following, &shard->blocked)
            one_waits |= HF_CONTAINER(link, struct hf_blocked, link)->ask->owner == owners[i];
        hf__shard_unlock(shard);
    }
    return one_waits;
}

static void end_wait(struct hf_deadlock_wait *wait)
{
    wait->next_ms = HF_NEVER;
    hf__claim_end(wait->blocked.client, wait->blocked.request, HF_EDEADLK);
}

static bool end_own_circle(struct hf_deadlock_wait *wait)
{
    if (!may_close_circle(&wait->blocked) || !closes_circle(wait))
        return false;
    end_wait(wait);
    return true;
}

/* ---- at the store ---- */

/* A thread that waits takes nothing more; without a hold it is in no circle. */
static bool holds_something(struct hf_client *client, uint64_t owner)
{
    bool holds = false;
    for (unsigned s = 0; s < HF_SHARDS && !holds; s++) {
        struct hf_shard *shard = &client->shards[s];
        hf__shard_lock(shard);
        for (uint32_t i = 0; i < shard->bucket_count && !holds; i++)
            for (struct hf_lock_entry *entry = shard->buckets[i]; entry; entry = entry->next) {
                holds |= entry->is_aside && entry->aside.owner == owner;
                for (struct hf_link *link = &entry->holders;
                     !entry->is_aside && link->next != &entry->holders; link = link->next)
                    holds |=
                        HF_CONTAINER(link->next, struct hf_claim, entry_link)->op.in.owner == owner;
            }
        hf__shard_unlock(shard);
    }
    return holds;
}

static bool add_entry(void *arg, const hf_entry *entry)
{
    if (*entry->thread)
        hf__graph_add_entry(arg, entry);
    return true;
}

static void name_thread(const struct hf_blocked *blocked, char key[HF_OWNER_KEY_SIZE])
{
    hf__thread_key_of(key, blocked->client->host.id, thread_of(blocked));
}

static uint32_t find_wait(const struct hf_graph *graph, uint32_t count, const char *thread,
                          const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (graph->claims[i].waits && strcmp(graph->claims[i].owner, thread) == 0 &&
            strcmp(graph->claims[i].name, name) == 0)
            return i;
    return HF_GRAPH_NONE;
}

/* A call that has its turn after others of this client is not at the store. With the shard locked.
 */
static void add_blocked(struct hf_graph *graph, uint32_t listed, const struct hf_blocked *blocked)
{
    char thread[HF_OWNER_KEY_SIZE], text[256], key[60];
    const char *name = hf__shown_name(blocked->client, blocked->ask->name);
    name_thread(blocked, thread);
    if (find_wait(graph, listed, thread, name) != HF_GRAPH_NONE)
        return;
    snprintf(text, sizeof text, "thread %llu of %s", (unsigned long long)thread_of(blocked),
             blocked->client->owner_text);
    snprintf(key, sizeof key, "%llu/%lld", (unsigned long long)blocked->request,
             (long long)blocked->ask->now_ms);
    hf__graph_add(graph, &(struct hf_graph_claim){ .name = name,
                                                   .owner = thread,
                                                   .key = key,
                                                   .text = text,
                                                   .began_ms = blocked->ask->now_ms,
                                                   .mode = blocked->ask->mode,
                                                   .waits = true,
                                                   .unique = true,
                                                   .here = true });
}

static void add_own(struct hf_graph *graph, struct hf_client *client)
{
    uint32_t listed = graph->count;
    int64_t now_ms = clock_of(client);
    for (unsigned s = 0; s < HF_SHARDS; s++) {
        hf__shard_lock(&client->shards[s]);
        HF_LIST_FOREACH (link, following, &client->shards[s].blocked) {
            const struct hf_blocked *blocked = HF_CONTAINER(link, struct hf_blocked, link);
            if (still_waits(blocked, now_ms))
                add_blocked(graph, listed, blocked);
        }
        hf__shard_unlock(&client->shards[s]);
    }
}

static void drop_first(struct hf_deadlock_wait *wait)
{
    if (wait->has_first)
        hf__graph_free(&wait->first);
    wait->has_first = false;
}

static void pause_looks(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    drop_first(wait);
    wait->next_ms = hf__clock_add(now_ms, wait->pause_ms);
    wait->pause_ms = 2 * wait->pause_ms < PAUSE_MAX_MS ? 2 * wait->pause_ms : PAUSE_MAX_MS;
}

static void begin_look(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    if (!wait->has_first && (end_own_circle(wait) ||
                             !holds_something(wait->blocked.client, wait->blocked.ask->owner))) {
        wait->next_ms = HF_NEVER;
        return;
    }
    wait->asked_ms = now_ms;
    wait->looks = hf__peek_begin(&wait->listing, wait->blocked.client);
    wait->next_ms = wait->looks ? now_ms + POLL_MS : HF_NEVER;
}

/* Is this call the one that ends the circle? */
static bool ends_circle(struct hf_deadlock_wait *wait, struct hf_graph *graph, bool *in_circle)
{
    char thread[HF_OWNER_KEY_SIZE];
    name_thread(&wait->blocked, thread);
    const char *name = hf__shown_name(wait->blocked.client, wait->blocked.ask->name);
    uint32_t own = find_wait(graph, graph->count, thread, name);
    uint32_t chosen = hf__graph_find(graph, own);
    *in_circle = chosen != HF_GRAPH_NONE;
    if (!*in_circle || chosen != own)
        return false;
    hf__graph_tell(graph, own, wait->circle, sizeof wait->circle);
    return true;
}

static void end_look(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    struct hf_graph graph = { .asked_ms = wait->asked_ms };
    bool in_circle = false;
    bool complete = hf__peek_end(&wait->listing, add_entry, &graph);
    wait->looks = false;
    add_own(&graph, wait->blocked.client);
    if (complete && wait->has_first)
        hf__graph_confirm(&graph, &wait->first);
    bool ends = complete && ends_circle(wait, &graph, &in_circle);
    if (in_circle && !wait->has_first) {
        wait->first = graph;
        wait->has_first = true;
        begin_look(wait, now_ms);
        return;
    }
    hf__graph_free(&graph);
    if (ends) {
        struct hf_shard *shard = hf__blocked_shard(wait->blocked.client, wait->blocked.ask->owner);
        hf__shard_lock(shard);
        wait->blocked.ended = true;
        hf__shard_unlock(shard);
        end_wait(wait);
        return;
    }
    pause_looks(wait, now_ms);
}

static void look_in_between(struct hf_interlude *interlude)
{
    struct hf_deadlock_wait *wait = HF_CONTAINER(interlude, struct hf_deadlock_wait, interlude);
    int64_t now_ms = hf__clock_ms();
    if (wait->stop && (now_ms >= wait->stop->at_ms || now_ms < wait->next_ms))
        wait->stop->run(wait->stop);
    if (now_ms >= wait->next_ms && !wait->looks)
        begin_look(wait, now_ms);
    else if (wait->looks && hf__peek_is_there(&wait->listing))
        end_look(wait, now_ms);
    else if (now_ms >= wait->next_ms)
        wait->next_ms = now_ms + POLL_MS;
    interlude->at_ms = wait->next_ms;
    if (wait->stop && wait->stop->at_ms < interlude->at_ms)
        interlude->at_ms = wait->stop->at_ms;
}

/* ---- the call ---- */

/* Which calls may be part of a circle: those of threads, for locks that have holders, and that last
 * long enough. */
static bool may_be_in_circle(const struct hf_lock_args *ask)
{
    int64_t least_ms = ask->deadlock_ms == HF_NEVER ? HF_DEADLOCK_MS : ask->deadlock_ms;
    return hf__owner_thread_number(ask->owner) && !ask->attach_key && !ask->election &&
           hf__graph_excludes(HF_WRITE, ask->mode) &&
           (ask->wait_ms == HF_FOREVER || ask->wait_ms >= least_ms);
}

struct hf_interlude *hf__deadlock_wait_begin(struct hf_deadlock_wait *wait, struct hf_claim *claim,
                                             const struct hf_lock_args *ask, bool contended,
                                             struct hf_interlude *stop)
{
    struct hf_client *client = claim->client;
    wait->watches = may_be_in_circle(ask);
    if (!wait->watches)
        return stop;
    wait->blocked =
        (struct hf_blocked){ .client = client, .ask = ask, .request = hf__claim_id(claim) };
    wait->looks = wait->has_first = false;
    wait->stop = stop;
    wait->circle[0] = '\0';
    wait->pause_ms = ask->deadlock_ms;
    wait->next_ms = hf__clock_add(ask->now_ms, wait->pause_ms);
    claim->blocked = &wait->blocked;
    if (contended) {
        hf__blocked_list(&wait->blocked);
        if (ask->deadlock_ms != HF_NEVER) /* mutant: circle-in-client-is-found-at-once */
            end_own_circle(wait);
    }
    if (ask->deadlock_ms == HF_NEVER)
        return stop;
    wait->interlude = (struct hf_interlude){ wait->next_ms, look_in_between };
    if (stop && stop->at_ms < wait->next_ms)
        wait->interlude.at_ms = stop->at_ms;
    return &wait->interlude;
}

void hf__deadlock_wait_end(struct hf_deadlock_wait *wait, struct hf_answer *answer)
{
    if (!wait->watches)
        return;
    hf__blocked_end(&wait->blocked);
    if (wait->looks)
        hf__peek_end(&wait->listing, NULL, NULL);
    drop_first(wait);
    if (answer->code == HF_EDEADLK)
        hf__explain(&answer->error, HF_EDEADLK, 0, "a circle of waits: %s", wait->circle);
}
