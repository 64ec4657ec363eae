/* SPDX-License-Identifier: Apache-2.0 */
/* Which owner waits for which, of lists that stores have shown, and circles in it. Asks no store.
 *
 * A list is not one moment. So there are two of each store, one after the other, and what counts is
 * a claim that is the same one in both: it was there all the time from the end of the first to the
 * beginning of the second. No second one is asked for before all first ones are there. All claims
 * of a circle were there together at that moment (docs/adr/0013). */
#ifndef HF_BASE_WAIT_GRAPH_H
#define HF_BASE_WAIT_GRAPH_H

#include <holdfast.h>

/* A hold or a wait of one owner. The graph copies the strings. */
struct hf_graph_claim {
    const char *name;  /* of the lock */
    const char *owner; /* equal for all claims of one thread; "": it is in no circle */
    const char *key;   /* equal in two lists if the claim is the same */
    const char *text;  /* names the owner in a sentence */
    uint64_t store;    /* the same name at another store is another lock */
    const char *at;    /* names the store in a sentence; or NULL */
    uint64_t token;    /* hold: its own, where that is known */
    int64_t began_ms; /* wait: not later than this by the clock of asked_ms; INT64_MIN: not known */
    hf_mode mode;
    bool waits;
    bool unique; /* no other claim ever has this key; else the time when it began tells */
    bool here;   /* wait: other processes do not see it */
    uint32_t name_hash, owner_hash; /* the graph's own, as `strings` */
    char *strings;
};

struct hf_graph_edge {
    uint32_t from, to; /* waits, by index */
    uint32_t hold;     /* of the owner of `to`: what `from` waits for */
};

struct hf_graph {
    int64_t asked_ms; /* when the lists were asked for; the clock is hf__clock_ms */
    uint64_t store;   /* of the entries that are added, as `at` */
    const char *at;
    struct hf_graph_claim *claims;
    uint32_t count, room;
    struct hf_graph_edge *edges; /* of the circles that hf__graph_find has found */
    uint32_t edge_count, edge_room;
    bool out_of_memory;
};

#define HF_GRAPH_NONE UINT32_MAX

void hf__graph_add(struct hf_graph *graph, const struct hf_graph_claim *claim);
/* The same of what hf_inspect has shown; an object is no claim. */
void hf__graph_add_entry(struct hf_graph *graph, const hf_entry *entry);
void hf__graph_free(struct hf_graph *graph);

/* Keeps of the second list what was the same claim in the first. */
void hf__graph_confirm(struct hf_graph *second, const struct hf_graph *first);

/* Does a hold keep such a request from its lock, whatever other holders do? */
bool hf__graph_excludes(hf_mode held, hf_mode wanted);
bool hf__graph_blocks(const struct hf_graph_claim *hold, const struct hf_graph_claim *wait);

/* Finds the circles that go through the wait `of`.
 *
 * Returns: of all waits in them the one that is to end, the same for all that ask: the youngest;
 * HF_GRAPH_NONE: there is none. graph->edges are those circles. */
uint32_t hf__graph_find(struct hf_graph *graph, uint32_t of);

/* Writes the shortest circle through `wait`, after hf__graph_find, as far as there is room:
 * "A waits for "b", held by B, which waits for "a", held by A". */
void hf__graph_tell(const struct hf_graph *graph, uint32_t wait, char *text, size_t size);

/* The hexadecimal digits at the begin of a client's id that are those of its process. */
#define HF_PROCESS_DIGITS 11u

/* Names a thread for hf_entry.thread, by its process and its number there: it is the same at all
 * stores. `client`: in hexadecimal digits, with or without hyphens. "": `thread` is 0. */
void hf__thread_key(char key[HF_OWNER_KEY_SIZE], const char *client, uint64_t thread);
/* The same by the client's 128 bits. */
void hf__thread_key_of(char key[HF_OWNER_KEY_SIZE], const uint64_t client[2], uint64_t thread);

#endif
