/* SPDX-License-Identifier: Apache-2.0 */
/* Circles of owners that wait for each other: a pure function of two lists. */
#include "base/wait_graph.h"

#include "base/clock.h"
#include "base/rand.h"
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Waits that began within this time count as equally young: the lists of two observers are not read
 * at the same moment. */
#define EQUALLY_YOUNG_MS 1000
/* By this much an owner may believe to have begun earlier than it did: clocks are read in advance,
 * and coarsely. */
#define AGE_MARGIN_MS 50

static bool wait_graph_make_room(struct hf_graph *graph, void **items, uint32_t count,
                                 uint32_t *room, size_t size)
{
    if (count < *room)
        return true;
    uint32_t more = *room ? 2 * *room : 32;
    void *grown = hf__realloc(*items, more * size);
    graph->out_of_memory |= !grown;
    if (!grown)
        return false;
    *items = grown;
    *room = more;
    return true;
}

static const char *copy_string(char **at, const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = memcpy(*at, string, size);
    *at += size;
    return copy;
}

void hf__graph_add(struct hf_graph *graph, const struct hf_graph_claim *claim)
{
    void *claims = graph->claims;
    if (!wait_graph_make_room(graph, &claims, graph->count, &graph->room, sizeof *claim))
        return;
    graph->claims = claims;
    const char *store = claim->at ? claim->at : "";
    char *at = hf__calloc(1, strlen(claim->name) + strlen(claim->owner) + strlen(claim->key) +
                                 strlen(claim->text) + strlen(store) + 5);
    graph->out_of_memory |= !at;
    if (!at)
        return;
    struct hf_graph_claim *added = &graph->claims[graph->count++];
    *added = *claim;
    added->strings = at;
    added->name = copy_string(&at, claim->name);
    added->owner = copy_string(&at, claim->owner);
    added->key = copy_string(&at, claim->key);
    added->text = copy_string(&at, claim->text);
    added->at = copy_string(&at, store);
    added->name_hash = (uint32_t)hf__hash(claim->name, strlen(claim->name));
    added->owner_hash = (uint32_t)hf__hash(claim->owner, strlen(claim->owner));
}

void hf__graph_add_entry(struct hf_graph *graph, const hf_entry *entry)
{
    char text[192], key[HF_OWNER_KEY_SIZE + 24];
    int64_t now_ms = hf__clock_ms();
    bool waits = entry->role == HF_ROLE_WAITER;
    if (entry->role == HF_ROLE_OBJECT)
        return;
    const char *thread = strrchr(entry->thread, ':'), *number = strrchr(entry->owner_key, ':');
    const char *owner = *entry->owner_text ? entry->owner_text : entry->owner_key;
    if (thread)
        snprintf(text, sizeof text, "thread %.20s of %.128s", thread + 1, owner);
    else
        snprintf(text, sizeof text, "%.160s",
                 *owner ? owner : "an owner that the store does not name");
    /* A key that names a thread is that of all its claims: the embedded engine's. */
    bool of_thread = number && strtoull(number + 1, NULL, 10) >= UINT64_C(1) << 62;
    snprintf(key, sizeof key, "%s@%llu", entry->owner_key, (unsigned long long)entry->claim);
    hf__graph_add(
        graph, &(struct hf_graph_claim){ .name = entry->name,
                                         .owner = entry->thread,
                                         .key = key,
                                         .text = text,
                                         .store = graph->store,
                                         .at = graph->at,
                                         .token = waits ? 0 : entry->token,
                                         .began_ms = !waits || entry->since_ms < 0
                                                         ? INT64_MIN
                                                         : now_ms - entry->since_ms + AGE_MARGIN_MS,
                                         .mode = entry->mode,
                                         .waits = waits,
                                         .unique = entry->claim || !of_thread });
}

void hf__thread_key(char key[HF_OWNER_KEY_SIZE], const char *client, uint64_t thread)
{
    char digits[HF_PROCESS_DIGITS + 1];
    unsigned count = 0;
    for (; *client && count < HF_PROCESS_DIGITS; client++)
        if (*client != '-')
            digits[count++] = *client;
    digits[count] = '\0';
    key[0] = '\0';
    if (count == HF_PROCESS_DIGITS && thread)
        snprintf(key, HF_OWNER_KEY_SIZE, "%s:%llu", digits, (unsigned long long)thread);
}

void hf__thread_key_of(char key[HF_OWNER_KEY_SIZE], const uint64_t client[2], uint64_t thread)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%016llx%016llx", (unsigned long long)client[0],
             (unsigned long long)client[1]);
    hf__thread_key(key, digits, thread);
}

void hf__graph_free(struct hf_graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++)
        free(graph->claims[i].strings);
    free(graph->claims);
    free(graph->edges);
    *graph = (struct hf_graph){ 0 };
}

/* ---- two lists ---- */

static bool same_owner(const struct hf_graph_claim *one, const struct hf_graph_claim *other)
{
    return one->owner_hash == other->owner_hash && strcmp(one->owner, other->owner) == 0;
}

static bool same_name(const struct hf_graph_claim *one, const struct hf_graph_claim *other)
{
    return one->name_hash == other->name_hash &&
           one->store == other->store && /* mutant: name-of-another-store-is-another */
           strcmp(one->name, other->name) == 0;
}

static bool is_confirmed(const struct hf_graph_claim *claim, const struct hf_graph *first)
{
    /* Else it waited before the first list was asked for, and so all the time since. */
    bool newer = claim->waits && !claim->unique &&
                 (claim->began_ms > first->asked_ms || claim->began_ms == INT64_MIN);
    if (newer) /* mutant: wait-that-began-between-looks */
        return false;
    for (uint32_t i = 0; i < first->count; i++) {
        const struct hf_graph_claim *other = &first->claims[i];
        if (same_owner(claim, other) && same_name(claim, other) && claim->waits == other->waits &&
            claim->mode == other->mode && claim->token == other->token &&
            strcmp(claim->key, other->key) == 0)
            return true;
    }
    return false;
}

void hf__graph_confirm(struct hf_graph *second, const struct hf_graph *first)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < second->count; i++)
        /* mutant: second-look-is-skipped */
        if (*second->claims[i].owner && is_confirmed(&second->claims[i], first))
            second->claims[kept++] = second->claims[i];
        else
            free(second->claims[i].strings);
    second->count = kept;
}

/* ---- edges ---- */

static bool excludes_all(hf_mode mode)
{
    return mode == HF_MUTEX || mode == HF_FAIR || mode == HF_WRITE || mode == HF_LEADER;
}

static bool is_shared(hf_mode mode)
{
    return mode == HF_READ || mode == HF_UPGRADE;
}

/* Permits come from any holder, so no single one is waited for; counters and latches have none. */
bool hf__graph_excludes(hf_mode held, hf_mode wanted)
{
    bool have_holders =
        (excludes_all(held) || is_shared(held)) && (excludes_all(wanted) || is_shared(wanted));
    bool share = is_shared(held) && is_shared(wanted) && (held == HF_READ || wanted == HF_READ);
    return have_holders && !share; /* mutant: readers-wait-for-readers */
}

bool hf__graph_blocks(const struct hf_graph_claim *hold, const struct hf_graph_claim *wait)
{
    return !hold->waits && wait->waits && same_name(hold, wait) && !same_owner(hold, wait) &&
           hf__graph_excludes(hold->mode, wait->mode);
}

static void add_edges_from(struct hf_graph *graph, uint32_t from)
{
    const struct hf_graph_claim *claims = graph->claims;
    for (uint32_t hold = 0; hold < graph->count; hold++) {
        if (!*claims[hold].owner || !hf__graph_blocks(&claims[hold], &claims[from]))
            continue;
        for (uint32_t to = 0; to < graph->count; to++) {
            void *edges = graph->edges;
            if (!claims[to].waits || !same_owner(&claims[to], &claims[hold]) ||
                !wait_graph_make_room(graph, &edges, graph->edge_count, &graph->edge_room,
                                      sizeof *graph->edges))
                continue;
            graph->edges = edges;
            graph->edges[graph->edge_count++] = (struct hf_graph_edge){ from, to, hold };
        }
    }
}

/* ---- circles ---- */

/* All edges from what can be reached from `of`. */
static void reach(struct hf_graph *graph, uint32_t of, bool *reached)
{
    bool *done = hf__calloc(graph->count, sizeof *done);
    graph->out_of_memory |= !done;
    reached[of] = true;
    for (bool more = done != NULL; more;) {
        more = false;
        for (uint32_t i = 0; i < graph->count; i++) {
            if (!reached[i] || done[i])
                continue;
            uint32_t first = graph->edge_count;
            done[i] = more = true;
            add_edges_from(graph, i);
            for (uint32_t e = first; e < graph->edge_count; e++)
                reached[graph->edges[e].to] = true;
        }
    }
    free(done);
}

/* Of these edges, those that lead back to `of`. */
static void keep_what_returns(struct hf_graph *graph, uint32_t of, bool *returns)
{
    memset(returns, 0, graph->count * sizeof *returns);
    returns[of] = true;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t e = 0; e < graph->edge_count; e++) {
            const struct hf_graph_edge *edge = &graph->edges[e];
            if (!returns[edge->to] || returns[edge->from])
                continue;
            returns[edge->from] = more = true;
        }
    }
    uint32_t kept = 0;
    for (uint32_t e = 0; e < graph->edge_count; e++)
        if (returns[graph->edges[e].from] && returns[graph->edges[e].to])
            graph->edges[kept++] = graph->edges[e];
    graph->edge_count = kept;
}

/* The circles that one process alone sees are its own to end. */
static uint32_t youngest(const struct hf_graph *graph)
{
    const struct hf_graph_claim *claims = graph->claims;
    bool here = false;
    int64_t last_ms = INT64_MIN;
    for (uint32_t e = 0; e < graph->edge_count; e++)
        here |= claims[graph->edges[e].from].here;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct hf_graph_claim *wait = &claims[graph->edges[e].from];
        if (wait->here >= here && wait->began_ms > last_ms)
            last_ms = wait->began_ms;
    }
    uint32_t found = HF_GRAPH_NONE;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        uint32_t at = graph->edges[e].from;
        const struct hf_graph_claim *wait = &claims[at];
        bool young = last_ms == INT64_MIN || wait->began_ms > last_ms - EQUALLY_YOUNG_MS;
        if (wait->here >= here && young &&
            (found == HF_GRAPH_NONE || strcmp(wait->owner, claims[found].owner) > 0))
            found = at;
    }
    return found;
}

uint32_t hf__graph_find(struct hf_graph *graph, uint32_t of)
{
    graph->edge_count = 0;
    if (of >= graph->count || !*graph->claims[of].owner)
        return HF_GRAPH_NONE;
    bool *marks = hf__calloc(graph->count, sizeof *marks);
    graph->out_of_memory |= !marks;
    if (marks) {
        reach(graph, of, marks);
        keep_what_returns(graph, of, marks);
        free(marks);
    }
    /* A list that is not whole could hide which wait is the youngest. */
    if (graph->out_of_memory)
        graph->edge_count = 0;
    return youngest(graph);
}

/* ---- sentences ---- */

/* From each wait the edge on a shortest way to `goal`: HF_GRAPH_NONE where there is none. */
static void find_ways(const struct hf_graph *graph, uint32_t goal, uint32_t *way)
{
    uint32_t *far = way + graph->count;
    for (uint32_t i = 0; i < graph->count; i++)
        way[i] = far[i] = HF_GRAPH_NONE;
    for (uint32_t step = 0; step < graph->edge_count; step++)
        for (uint32_t e = 0; e < graph->edge_count; e++) {
            const struct hf_graph_edge *edge = &graph->edges[e];
            uint32_t there = edge->to == goal ? 0 : far[edge->to];
            if (there == HF_GRAPH_NONE || far[edge->from] <= there + 1)
                continue;
            far[edge->from] = there + 1;
            way[edge->from] = e;
        }
}

static bool is_at_one_store(const struct hf_graph *graph, const uint32_t *way, uint32_t from)
{
    bool one = true;
    uint32_t at = from;
    for (uint32_t step = 0; step < graph->count && way[at] != HF_GRAPH_NONE; step++) {
        one &= graph->claims[at].store == graph->claims[from].store;
        at = graph->edges[way[at]].to;
        if (at == from)
            break;
    }
    return one;
}

void hf__graph_tell(const struct hf_graph *graph, uint32_t wait, char *text, size_t size)
{
    uint32_t *way = hf__calloc(2 * (size_t)graph->count, sizeof *way);
    size_t length = 0;
    text[0] = '\0';
    if (!way)
        return;
    find_ways(graph, wait, way);
    bool one_store = is_at_one_store(graph, way, wait);
    uint32_t at = wait;
    do {
        if (way[at] == HF_GRAPH_NONE)
            break;
        const struct hf_graph_edge *edge = &graph->edges[way[at]];
        const struct hf_graph_claim *claim = &graph->claims[at];
        int added =
            snprintf(text + length, size - length, "%.80s waits for \"%.64s\"%s%s, held by %.80s",
                     length == 0 ? claim->text : ", which", claim->name, one_store ? "" : " at ",
                     one_store ? "" : claim->at, graph->claims[edge->to].text);
        if (added < 0 || length + (size_t)added + sizeof ", ..." >= size) {
            snprintf(text + length, size - length, "%s", length ? ", ..." : "");
            break;
        }
        length += (size_t)added;
        at = edge->to;
    } while (at != wait);
    free(way);
}
