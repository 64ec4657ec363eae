/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for circles of threads that wait for each other (docs/adr/0013-deadlocks.md), in what the
 * stores of this process show. */
#include "core/api/deadlock.h"

#include "base/clock.h"
#include "base/rand.h"
#include "base/wait_graph.h"
#include "core/api/fork.h"
#include "core/api/own_circle.h"
#include "core/api/owner.h"
#include "core/api/stop.h"
#include "core/claim/claim_change.h"
#include "core/oneshot/oneshot.h"
#include "core/table/lock_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A wait that goes on looks again, later and later. */
#define PAUSE_MAX_MS 300000
/* How often a call looks whether its lists are there. */
#define POLL_MS 10
/* After this time from the list of its own store on, it goes without those of others. */
#define OTHERS_MS 1000

static void end_wait(struct hf_deadlock_wait *wait)
{
    wait->next_ms = HF_NEVER;
    hf__claim_end(wait->blocked.client, wait->blocked.request, HF_EDEADLK);
}

static bool end_own_circle(struct hf_deadlock_wait *wait)
{
    bool ends = hf__own_circle_end(&wait->blocked, wait->circle, sizeof wait->circle);
    if (ends)
        end_wait(wait);
    return ends;
}

/* Clients with one URL have one store, and one number. */
static uint64_t store_of(const struct hf_client *client)
{
    return hf__hash(client->url.redacted, strlen(client->url.redacted));
}

/* ---- which stores to ask ---- */

static bool holds_at(struct hf_client *client, uint64_t owner)
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

struct visit {
    struct hf_deadlock_wait *wait;
    bool holds; /* the thread holds something; or: a client counts only if it does there */
};

static void see_whether_holds(struct hf_client *client, void *arg)
{
    struct visit *visit = arg;
    visit->holds = visit->holds || holds_at(client, visit->wait->blocked.ask->owner);
}

static void ask_for_list(struct hf_deadlock_wait *wait, struct hf_client *client)
{
    struct hf_deadlock_list *list = &wait->lists[wait->list_count];
    uint64_t store = store_of(client);
    for (unsigned i = 0; i < wait->list_count; i++)
        if (wait->lists[i].store == store)
            return;
    if (wait->list_count == HF_DEADLOCK_STORES || !client->ops->names_threads)
        return;
    *list = (struct hf_deadlock_list){ .store = store, .peek = hf__peek_begin(client) };
    hf__store_tell(client, list->at);
    wait->list_count += list->peek != NULL;
}

/* The loop of a client without a thread is turned by its caller, which need not do so. */
static bool is_asked(const struct visit *visit, struct hf_client *client)
{
    return client->drive_kind == HF_DRIVE_KIND_THREAD && !atomic_load(&client->closing) &&
           (!visit->holds || holds_at(client, visit->wait->blocked.ask->owner));
}

static void ask_other(struct hf_client *client, void *arg)
{
    const struct visit *visit = arg;
    if (is_asked(visit, client))
        ask_for_list(visit->wait, client);
}

/* The stores that a look would ask, and whether one of the clients of each has no list out. */
struct turn {
    struct visit visit;
    uint64_t stores[HF_DEADLOCK_STORES];
    bool free[HF_DEADLOCK_STORES];
    unsigned count;
};

static void add_to_turn(struct hf_client *client, void *arg)
{
    struct turn *turn = arg;
    uint64_t store = store_of(client);
    unsigned i = 0;
    if (!client->ops->names_threads || !is_asked(&turn->visit, client))
        return;
    while (i < turn->count && turn->stores[i] != store)
        i++;
    if (i == HF_DEADLOCK_STORES)
        return;
    turn->count += i == turn->count;
    turn->stores[i] = store;
    turn->free[i] |= !atomic_load(&client->peeks);
}

/* A client has one list out at a time, so a look waits for those of others; in the end it goes
 * without the lists of other stores. */
static bool is_turn(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    struct hf_client *client = wait->blocked.client;
    struct turn turn = { .visit = { .wait = wait } };
    if (atomic_load(&client->peeks))
        return false;
    if (client->drive_kind == HF_DRIVE_KIND_THREAD && now_ms - wait->due_ms < OTHERS_MS)
        hf__clients_visit(add_to_turn, &turn);
    for (unsigned i = 0; i < turn.count; i++)
        if (!turn.free[i])
            return false;
    return true;
}

/* Circles may go through any store of this process. First come those where the thread holds a lock.
 * False: not yet. */
static bool ask_for_lists(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    struct hf_client *client = wait->blocked.client;
    wait->list_count = 0;
    wait->own_at_ms = HF_NEVER;
    if (!is_turn(wait, now_ms))
        return false;
    ask_for_list(wait, client);
    wait->own_is_listed = wait->list_count > 0;
    /* Another thread has been faster, or there is no memory. */
    if (!wait->own_is_listed && client->ops->names_threads && client->ops->caps & HF_CAP_INSPECT)
        return false;
    if (client->drive_kind != HF_DRIVE_KIND_THREAD) /* mutant: circle-over-stores-is-looked-for */
        return true;
    hf__clients_visit(ask_other, &(struct visit){ wait, .holds = true });
    hf__clients_visit(ask_other, &(struct visit){ wait, .holds = false });
    return true;
}

/* ---- what this process knows by itself ---- */

static void name_thread(const struct hf_blocked *blocked, uint64_t owner,
                        char key[HF_OWNER_KEY_SIZE])
{
    hf__thread_key_of(key, blocked->client->host.id, hf__owner_thread_number(owner));
}

static uint32_t find_wait(const struct hf_graph *graph, uint32_t count, const char *thread,
                          const struct hf_blocked *blocked)
{
    const char *name = hf__shown_name(blocked->client, blocked->ask->name);
    uint64_t store = store_of(blocked->client);
    for (uint32_t i = 0; i < count; i++)
        if (graph->claims[i].waits && strcmp(graph->claims[i].owner, thread) == 0 &&
            graph->claims[i].store == store && strcmp(graph->claims[i].name, name) == 0)
            return i;
    return HF_GRAPH_NONE;
}

/* The claim of a thread of this process on what the call waits for. */
static void add_own(struct hf_graph *graph, const struct hf_blocked *blocked, uint64_t owner,
                    const char *key, int hold_mode)
{
    char thread[HF_OWNER_KEY_SIZE], text[256], at[HF_STORE_TEXT_SIZE];
    bool waits = hold_mode == HF_KEEP_NOTHING;
    name_thread(blocked, owner, thread);
    hf__store_tell(blocked->client, at);
    snprintf(text, sizeof text, "thread %llu of %s",
             (unsigned long long)hf__owner_thread_number(owner), blocked->client->owner_text);
    hf__graph_add(graph, &(struct hf_graph_claim){
                             .name = hf__shown_name(blocked->client, blocked->ask->name),
                             .owner = thread,
                             .key = key,
                             .text = text,
                             .store = store_of(blocked->client),
                             .at = at,
                             .began_ms = waits ? blocked->ask->now_ms : INT64_MIN,
                             .mode = waits ? blocked->ask->mode : (hf_mode)hold_mode,
                             .waits = waits,
                             .unique = true,
                             .here = waits,
                         });
}

static void add_own_holds(struct hf_graph *graph, const struct hf_blocked *blocked)
{
    char key[60];
    struct hf_shard *shard = hf__blocked_shard(blocked);
    hf__shard_lock(shard);
    struct hf_lock_entry *entry = hf__blocked_entry(blocked);
    for (struct hf_link *link = entry ? entry->holders.next : NULL;
         entry && link != &entry->holders; link = link->next) {
        const struct hf_claim *holder = HF_CONTAINER(link, struct hf_claim, entry_link);
        if (!hf__owner_thread_number(holder->op.in.owner) ||
            !hf__blocked_is_kept_out(blocked, holder))
            continue;
        snprintf(key, sizeof key, "hold %llu", (unsigned long long)hf__claim_id(holder));
        add_own(graph, blocked, holder->op.in.owner, key, holder->held_mode);
    }
    hf__shard_unlock(shard);
}

/* Where the store names threads, what it does not list has its turn after others of its client.
 * Elsewhere this process alone knows the wait, and the holds of its own threads. */
static void add_blocked(struct hf_graph *graph, uint32_t listed, const struct hf_blocked *blocked,
                        const struct hf_deadlock_wait *wait)
{
    char thread[HF_OWNER_KEY_SIZE], key[60];
    bool names_threads = blocked->client->ops->names_threads, complete = !names_threads;
    for (unsigned i = 0; i < wait->list_count; i++)
        complete |= wait->lists[i].store == store_of(blocked->client) && wait->lists[i].complete;
    if (!complete)
        return;
    if (!names_threads)
        add_own_holds(graph, blocked);
    name_thread(blocked, blocked->ask->owner, thread);
    if (find_wait(graph, listed, thread, blocked) != HF_GRAPH_NONE)
        return;
    snprintf(key, sizeof key, "%llu/%lld", (unsigned long long)blocked->request,
             (long long)blocked->ask->now_ms);
    add_own(graph, blocked, blocked->ask->owner, key, HF_KEEP_NOTHING);
}

static void add_all_blocked(struct hf_graph *graph, const struct hf_deadlock_wait *wait)
{
    uint32_t listed = graph->count;
    for (unsigned i = 0; i < HF_BLOCKED_STRIPES; i++) {
        struct hf_blocked_stripe *stripe = &hf__blocked_stripes[i];
        pthread_mutex_lock(&stripe->mutex);
        HF_LIST_FOREACH (link, following, &stripe->calls) {
            const struct hf_blocked *blocked = HF_CONTAINER(link, struct hf_blocked, link);
            if (hf__blocked_still_waits(blocked))
                add_blocked(graph, listed, blocked, wait);
        }
        pthread_mutex_unlock(&stripe->mutex);
    }
}

/* ---- looks ---- */

static bool deadlock_add_entry(void *arg, const hf_entry *entry)
{
    if (*entry->thread)
        hf__graph_add_entry(arg, entry);
    return true;
}

static void drop_first(struct hf_deadlock_wait *wait)
{
    if (wait->has_first)
        hf__graph_free(&wait->first);
    wait->has_first = false;
}

/* A thread that waits takes nothing more; without a hold it is in no circle. */
static bool needs_look(struct hf_deadlock_wait *wait)
{
    struct visit visit = { .wait = wait };
    if (wait->has_first)
        return true;
    if (end_own_circle(wait))
        return false;
    see_whether_holds(wait->blocked.client, &visit);
    if (!visit.holds)
        hf__clients_visit(see_whether_holds, &visit);
    return visit.holds;
}

static void begin_look(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    wait->next_ms = HF_NEVER;
    if (!needs_look(wait))
        return;
    wait->asked_ms = now_ms;
    if (!ask_for_lists(wait, now_ms) || wait->list_count > 0)
        wait->next_ms = now_ms + POLL_MS;
}

/* Is this call the one that ends the circle? */
static bool ends_circle(struct hf_deadlock_wait *wait, struct hf_graph *graph, bool *in_circle)
{
    char thread[HF_OWNER_KEY_SIZE];
    name_thread(&wait->blocked, wait->blocked.ask->owner, thread);
    uint32_t own = find_wait(graph, graph->count, thread, &wait->blocked);
    uint32_t chosen = hf__graph_find(graph, own);
    *in_circle = chosen != HF_GRAPH_NONE;
    if (!*in_circle || chosen != own)
        return false;
    hf__graph_tell(graph, own, wait->circle, sizeof wait->circle);
    return true;
}

/* What there is of all lists. False: not what the call's own store has. */
static bool take_lists(struct hf_deadlock_wait *wait, struct hf_graph *graph)
{
    for (unsigned i = 0; i < wait->list_count; i++) {
        struct hf_deadlock_list *list = &wait->lists[i];
        graph->store = list->store;
        graph->at = list->at;
        list->complete = hf__peek_end(list->peek, deadlock_add_entry, graph);
    }
    bool complete = !wait->own_is_listed || wait->lists[0].complete;
    add_all_blocked(graph, wait);
    wait->list_count = 0;
    return complete;
}

static void end_look(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    struct hf_graph graph = { .asked_ms = wait->asked_ms };
    bool in_circle = false;
    bool complete = take_lists(wait, &graph);
    if (complete && wait->has_first)
        hf__graph_confirm(&graph, &wait->first);
    bool ends = complete && ends_circle(wait, &graph, &in_circle);
    if (in_circle && !wait->has_first) {
        wait->first = graph;
        wait->has_first = true;
        wait->due_ms = now_ms;
        begin_look(wait, now_ms);
        return;
    }
    hf__graph_free(&graph);
    if (ends) {
        struct hf_blocked_stripe *stripe = hf__blocked_stripe(wait->blocked.ask->owner);
        pthread_mutex_lock(&stripe->mutex);
        wait->blocked.ended = true;
        pthread_mutex_unlock(&stripe->mutex);
        end_wait(wait);
        return;
    }
    drop_first(wait);
    wait->due_ms = wait->next_ms = hf__clock_add(now_ms, wait->pause_ms);
    wait->pause_ms = 2 * wait->pause_ms < PAUSE_MAX_MS ? 2 * wait->pause_ms : PAUSE_MAX_MS;
}

static bool are_lists_there(struct hf_deadlock_wait *wait, int64_t now_ms)
{
    bool all = true;
    for (unsigned i = 0; i < wait->list_count; i++)
        all &= hf__peek_is_there(wait->lists[i].peek);
    bool own = !wait->own_is_listed || hf__peek_is_there(wait->lists[0].peek);
    if (own && wait->own_at_ms == HF_NEVER)
        wait->own_at_ms = now_ms;
    return all || (own && now_ms - wait->own_at_ms >= OTHERS_MS);
}

static void look_in_between(struct hf_interlude *interlude)
{
    struct hf_deadlock_wait *wait = HF_CONTAINER(interlude, struct hf_deadlock_wait, interlude);
    int64_t now_ms = hf__clock_ms();
    if (wait->stop && (now_ms >= wait->stop->at_ms || now_ms < wait->next_ms))
        wait->stop->run(wait->stop);
    if (now_ms >= wait->next_ms && wait->list_count == 0)
        begin_look(wait, now_ms);
    else if (wait->list_count > 0 && are_lists_there(wait, now_ms))
        end_look(wait, now_ms);
    else if (now_ms >= wait->next_ms)
        wait->next_ms = now_ms + POLL_MS;
    interlude->at_ms = wait->next_ms;
    if (wait->stop && wait->stop->at_ms < interlude->at_ms)
        interlude->at_ms = wait->stop->at_ms;
}

/* ---- the call ---- */

struct hf_interlude *hf__deadlock_wait_begin(struct hf_deadlock_wait *wait, struct hf_claim *claim,
                                             const struct hf_lock_args *ask, bool contended,
                                             struct hf_interlude *stop)
{
    struct hf_client *client = claim->client;
    int64_t least_ms = ask->deadlock_ms == HF_NEVER ? HF_DEADLOCK_MS : ask->deadlock_ms;
    /* Which calls may be part of a circle: those of threads, for locks that have holders, and that
     * last long enough. */
    wait->watches = (ask->wait_ms == HF_FOREVER || ask->wait_ms >= least_ms) &&
                    hf__owner_thread_number(ask->owner) && !ask->attach_key && !ask->election &&
                    hf__graph_excludes(HF_WRITE, ask->mode);
    if (!wait->watches)
        return stop;
    wait->blocked =
        (struct hf_blocked){ .client = client, .ask = ask, .request = hf__claim_id(claim) };
    wait->has_first = false;
    wait->list_count = 0;
    wait->stop = stop;
    wait->circle[0] = '\0';
    wait->pause_ms = ask->deadlock_ms;
    wait->due_ms = wait->next_ms = hf__clock_add(ask->now_ms, wait->pause_ms);
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
    while (wait->list_count > 0)
        hf__peek_end(wait->lists[--wait->list_count].peek, NULL, NULL);
    drop_first(wait);
    if (answer->code == HF_EDEADLK)
        hf__explain(&answer->error, HF_EDEADLK, 0, "a circle of waits: %s", wait->circle);
}
