/* SPDX-License-Identifier: Apache-2.0 */
/* Circles of waits: sentences and choices by example, and random histories of a store against its
 * true state at each instant. Lists are read at different instants, and may lag. */
#include "base/wait_graph.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- by example ---- */

static struct hf_graph_claim claim_of(const char *owner, const char *name, hf_mode mode, bool waits)
{
    return (struct hf_graph_claim){ .name = name,
                                    .owner = owner,
                                    .key = owner,
                                    .text = owner,
                                    .mode = mode,
                                    .waits = waits,
                                    .unique = true };
}

static void add(struct hf_graph *graph, const char *owner, const char *name, hf_mode mode,
                bool waits)
{
    struct hf_graph_claim claim = claim_of(owner, name, mode, waits);
    hf__graph_add(graph, &claim);
}

/* Of `count` owners, each holds one name and waits for the next owner's. The last is the youngest.
 */
static void add_circle(struct hf_graph *graph, unsigned count, hf_mode mode)
{
    static const char *const owners[] = { "A", "B", "C", "D", "E", "F", "G", "H" };
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    for (unsigned i = 0; i < count; i++) {
        add(graph, owners[i], names[i], mode, false);
        struct hf_graph_claim wait = claim_of(owners[i], names[(i + 1) % count], mode, true);
        wait.began_ms = 10000 * i;
        hf__graph_add(graph, &wait);
    }
}

TEST(circle_is_found_by_each_owner_and_ends_with_youngest)
{
    for (unsigned count = 2; count <= 8; count++) {
        struct hf_graph graph = { 0 };
        add_circle(&graph, count, HF_MUTEX);
        add(&graph, "X", "a", HF_MUTEX, true); /* it waits for the circle, and is in none */
        for (uint32_t i = 0; i < count; i++)
            CHECK(hf__graph_find(&graph, 2 * i + 1) == 2 * count - 1);
        CHECK(hf__graph_find(&graph, 2 * count) == HF_GRAPH_NONE);
        hf__graph_free(&graph);
    }
}

TEST(circle_is_told_from_its_youngest_wait_on)
{
    char text[360], small[40];
    struct hf_graph graph = { 0 };
    add_circle(&graph, 2, HF_MUTEX);
    uint32_t wait = hf__graph_find(&graph, 1);
    hf__graph_tell(&graph, wait, text, sizeof text);
    CHECK_STR(text, "B waits for \"a\", held by A, which waits for \"b\", held by B");
    hf__graph_tell(&graph, wait, small, sizeof small);
    CHECK_STR(small, "B waits for \"a\", held by A, ...");
    hf__graph_free(&graph);
}

TEST(names_of_two_stores_are_two_locks)
{
    char text[360];
    struct hf_graph graph = { 0 };
    add_circle(&graph, 2, HF_MUTEX);
    graph.claims[0].store = graph.claims[3].store = 1;
    for (uint32_t i = 0; i < 4; i++)
        graph.claims[i].at = i % 3 == 0 ? "local:" : "etcd://host";
    uint32_t wait = hf__graph_find(&graph, 1);
    CHECK(wait == 3);
    hf__graph_tell(&graph, wait, text, sizeof text);
    CHECK_STR(text, "B waits for \"a\" at local:, held by A, which waits for \"b\" at etcd://host, "
                    "held by B");
    graph.claims[3].store = 2;
    CHECK(hf__graph_find(&graph, 1) == HF_GRAPH_NONE);
    hf__graph_free(&graph);
}

TEST(waits_that_began_together_end_by_owner)
{
    struct hf_graph graph = { 0 };
    add_circle(&graph, 3, HF_FAIR);
    graph.claims[1].began_ms = graph.claims[3].began_ms = 20900;
    graph.claims[5].began_ms = 21000;
    CHECK(hf__graph_find(&graph, 1) == 5);
    graph.claims[5].began_ms = 20100; /* younger by less than the lists can tell */
    CHECK(hf__graph_find(&graph, 1) == 5);
    graph.claims[5].began_ms = 19000;
    CHECK(hf__graph_find(&graph, 1) == 3);
    hf__graph_free(&graph);
}

TEST(wait_that_one_process_sees_ends_before_younger_ones)
{
    struct hf_graph graph = { 0 };
    add_circle(&graph, 3, HF_MUTEX);
    graph.claims[1].here = true;
    CHECK(hf__graph_find(&graph, 5) == 1);
    hf__graph_free(&graph);
}

TEST(readers_wait_for_writers_alone)
{
    static const struct {
        hf_mode hold, wait;
        bool blocks;
    } pairs[] = {
        { HF_MUTEX, HF_MUTEX, true },    { HF_FAIR, HF_MUTEX, true },
        { HF_READ, HF_READ, false },     { HF_READ, HF_UPGRADE, false },
        { HF_UPGRADE, HF_READ, false },  { HF_UPGRADE, HF_UPGRADE, true },
        { HF_READ, HF_WRITE, true },     { HF_WRITE, HF_READ, true },
        { HF_PERMIT, HF_PERMIT, false }, { HF_PERMIT, HF_MUTEX, false },
        { HF_COUNTER, HF_MUTEX, false }, { HF_MUTEX, HF_LATCH, false },
        { HF_UPGRADE, HF_WRITE, true },  { HF_WRITE, HF_WRITE, true },
    };
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct hf_graph_claim hold = claim_of("A", "a", pairs[i].hold, false);
        struct hf_graph_claim wait = claim_of("B", "a", pairs[i].wait, true);
        CHECK(hf__graph_blocks(&hold, &wait) == pairs[i].blocks);
        wait.owner = "A";
        CHECK(!hf__graph_blocks(&hold, &wait));
    }
}

/* ---- random histories ---- */

enum { OWNERS = 5, NAMES = 4, INSTANTS = 120, RECEIVED_LATE = 3, LAG = 6, SPREAD = 7 };

/* Owners are threads: one that waits acquires nothing else. A hold may be released by another
 * thread all the same. */
struct instant {
    unsigned held[OWNERS][NAMES]; /* 0: not held; else which acquisition it is */
    unsigned waits[OWNERS];       /* 0: does not wait; else which request it is */
    unsigned wanted[OWNERS];      /* the name that it waits for */
    unsigned began[OWNERS];
    hf_mode held_mode[OWNERS][NAMES], wait_mode[OWNERS];
};

static struct instant history[INSTANTS];
static const char *const owner_names[OWNERS] = { "0", "1", "2", "3", "4" };
static bool two_stores; /* with the same names */

static const char *lock_name(unsigned name)
{
    static const char *const names[NAMES] = { "a", "b", "c", "rw" };
    return names[two_stores ? name % 2 : name];
}

static unsigned store_of(unsigned name)
{
    return two_stores ? name / 2 : 0;
}

static unsigned numbers;

static unsigned below(unsigned limit)
{
    static uint64_t seed = 88172645463325252u;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % limit;
}

static bool may_hold(const struct instant *now, unsigned owner, unsigned name, hf_mode mode)
{
    for (unsigned o = 0; o < OWNERS; o++)
        if (o != owner && now->held[o][name] &&
            (mode != HF_READ || now->held_mode[o][name] != mode))
            return false;
    return true;
}

static void take(struct instant *now, unsigned owner, unsigned name, hf_mode mode)
{
    now->held[owner][name] = ++numbers;
    now->held_mode[owner][name] = mode;
    now->waits[owner] = 0;
}

static void grant_waiters(struct instant *now)
{
    unsigned first = below(OWNERS);
    for (unsigned i = 0; i < OWNERS; i++) {
        unsigned o = (first + i) % OWNERS;
        if (now->waits[o] && may_hold(now, o, now->wanted[o], now->wait_mode[o]))
            take(now, o, now->wanted[o], now->wait_mode[o]);
    }
}

static void act(struct instant *now, unsigned at)
{
    unsigned owner = below(OWNERS), name = below(NAMES);
    hf_mode mode = name < NAMES - 1 ? HF_MUTEX : below(2) ? HF_READ : HF_WRITE;
    if (now->held[owner][name] && below(now->waits[owner] ? 8 : 2) == 0) {
        now->held[owner][name] = 0;
    } else if (now->waits[owner]) {
        if (below(8) == 0)
            now->waits[owner] = 0; /* timed out */
    } else if (!now->held[owner][name]) {
        if (may_hold(now, owner, name, mode)) {
            take(now, owner, name, mode);
        } else {
            now->waits[owner] = ++numbers;
            now->wanted[owner] = name;
            now->wait_mode[owner] = mode;
            now->began[owner] = at;
        }
    }
    grant_waiters(now);
}

static void make_history(void)
{
    memset(history, 0, sizeof history);
    for (unsigned at = 1; at < INSTANTS; at++) {
        history[at] = history[at - 1];
        act(&history[at], at);
    }
}

/* An owner that goes on while the list is read may be seen to wait for several names. */
enum { SEEN_MAX = 2 * OWNERS * NAMES };

/* The text of a claim is the number that says which one it was. */
static void add_seen(struct hf_graph *graph, char *text, unsigned number, bool unique,
                     struct hf_graph_claim claim)
{
    snprintf(text, 16, "%u", number);
    claim.text = text;
    claim.key = unique ? text : claim.owner;
    claim.unique = unique;
    claim.store = graph->store;
    hf__graph_add(graph, &claim);
}

/* What the store shows of one name, as of this instant. */
static void look_at(struct hf_graph *graph, char (*texts)[16], unsigned *used, unsigned name,
                    unsigned at, bool unique)
{
    const struct instant *then = &history[at];
    for (unsigned o = 0; o < OWNERS; o++) {
        if (then->held[o][name])
            add_seen(graph, texts[(*used)++], then->held[o][name], unique,
                     claim_of(owner_names[o], lock_name(name), then->held_mode[o][name], false));
        if (!then->waits[o] || then->wanted[o] != name)
            continue;
        struct hf_graph_claim wait =
            claim_of(owner_names[o], lock_name(name), then->wait_mode[o], true);
        wait.began_ms = then->began[o] + below(RECEIVED_LATE);
        add_seen(graph, texts[(*used)++], then->waits[o], unique, wait);
    }
}

/* Returns: the last instant that it has seen. A list that lags does not go back in time. Of two
 * stores, both are asked at once, and what is seen is not older than the question. */
static unsigned look(struct hf_graph *graph, char (*texts)[16], unsigned from, unsigned seen,
                     bool unique, bool lags)
{
    unsigned used = 0, at = from;
    graph->asked_ms = from;
    unsigned last = 0;
    for (unsigned name = 0; name < NAMES; name++) {
        if (two_stores && name % 2 == 0)
            at = seen = from;
        at += below(SPREAD);
        unsigned lag = lags ? below(LAG) : 0;
        seen = at - lag > seen ? at - lag : seen;
        graph->store = store_of(name);
        look_at(graph, texts, &used, name, seen, unique);
        last = seen > last ? seen : last;
    }
    return last;
}

static bool was_there(const struct hf_graph_claim *claim, unsigned at)
{
    const struct instant *then = &history[at];
    unsigned number = (unsigned)strtoul(claim->text, NULL, 10);
    unsigned owner = (unsigned)(*claim->owner - '0');
    if (claim->waits)
        return then->waits[owner] == number;
    for (unsigned name = 0; name < NAMES; name++)
        if (strcmp(lock_name(name), claim->name) == 0 && store_of(name) == claim->store)
            return then->held[owner][name] == number;
    return false;
}

static bool was_whole(const struct hf_graph *graph, unsigned from, unsigned to)
{
    for (unsigned at = from; at <= to; at++) {
        bool whole = true;
        for (uint32_t e = 0; e < graph->edge_count && whole; e++)
            whole = was_there(&graph->claims[graph->edges[e].from], at) &&
                    was_there(&graph->claims[graph->edges[e].hold], at);
        if (whole)
            return true;
    }
    return false;
}

/* The brute force: does this owner wait for itself by any way of four steps or five? */
static bool waits_for(const struct instant *then, unsigned one, unsigned other)
{
    unsigned name = then->wanted[one];
    bool shared = then->wait_mode[one] == HF_READ && then->held_mode[other][name] == HF_READ;
    return one != other && then->waits[one] && then->waits[other] && then->held[other][name] &&
           !shared;
}

static bool is_in_circle(const struct instant *then, unsigned owner)
{
    bool reached[OWNERS] = { false };
    for (unsigned step = 0; step < OWNERS; step++)
        for (unsigned o = 0; o < OWNERS; o++)
            for (unsigned p = 0; p < OWNERS; p++)
                reached[p] |= (o == owner || reached[o]) && waits_for(then, o, p);
    return reached[owner];
}

static struct {
    unsigned circles, phantoms, stable;
} seen_circles;

static void check_looks(unsigned from, bool unique, bool lags)
{
    static char texts[2][SEEN_MAX][16];
    struct hf_graph first = { 0 }, second = { 0 }, alone = { 0 };
    unsigned oldest = from - LAG;
    unsigned between = look(&first, texts[0], from, oldest, unique, lags);
    unsigned last =
        look(&second, texts[1], from + SPREAD * NAMES + below(3), between, unique, lags);
    for (uint32_t i = 0; i < second.count; i++)
        hf__graph_add(&alone, &second.claims[i]);
    hf__graph_confirm(&second, &first);
    unsigned counted = 0;
    for (uint32_t i = 0; i < second.count; i++) {
        if (!second.claims[i].waits || hf__graph_find(&second, i) == HF_GRAPH_NONE)
            continue;
        seen_circles.circles++;
        counted |= 1u << (*second.claims[i].owner - '0');
        if (!was_whole(&second, oldest, last))
            FAIL("a circle was told that was never there (looks from %u on)", from);
    }
    for (uint32_t i = 0; i < alone.count; i++)
        if (alone.claims[i].waits && hf__graph_find(&alone, i) != HF_GRAPH_NONE)
            seen_circles.phantoms += !was_whole(&alone, oldest, last);
    for (unsigned o = 0; o < OWNERS; o++) {
        bool stable = history[oldest].began[o] + RECEIVED_LATE <= from;
        for (unsigned at = oldest; at <= last; at++)
            stable &=
                is_in_circle(&history[at], o) && history[at].waits[o] == history[last].waits[o];
        stable = stable && memcmp(&history[oldest], &history[last], sizeof *history) == 0;
        seen_circles.stable += stable;
        if (stable && !(counted & 1u << o))
            FAIL("owner %u was in a circle all the time, and is not told (looks from %u on)", o,
                 from);
    }
    hf__graph_free(&first);
    hf__graph_free(&second);
    hf__graph_free(&alone);
}

TEST(circle_is_told_only_if_it_was_there_at_one_moment)
{
    for (unsigned round = 0; round < 2400; round++) {
        make_history();
        for (unsigned i = 0; i < 4; i++) {
            unsigned from = LAG + below(INSTANTS - LAG - 3 - 2 * SPREAD * NAMES);
            check_looks(from, false, false);
            check_looks(from, true, false);
            check_looks(from, true, true);
        }
        two_stores = round % 2 == 0;
    }
    fprintf(stderr, "# %u circles told, %u would be wrong with one list, %u lasted\n",
            seen_circles.circles, seen_circles.phantoms, seen_circles.stable);
    CHECK(seen_circles.circles > 100);
    CHECK(seen_circles.phantoms > 100);
    CHECK(seen_circles.stable > 10);
}

/* Strings that begin alike, and an owner that is no thread. */
TEST(owners_without_a_thread_are_in_no_circle)
{
    struct hf_graph first = { 0 }, second = { 0 };
    add_circle(&first, 2, HF_MUTEX);
    add_circle(&second, 2, HF_MUTEX);
    for (uint32_t i = 0; i < 4; i++)
        if (*second.claims[i].owner == 'A')
            first.claims[i].owner = second.claims[i].owner = "";
    hf__graph_confirm(&second, &first);
    for (uint32_t i = 0; i < second.count; i++)
        CHECK(hf__graph_find(&second, i) == HF_GRAPH_NONE);
    hf__graph_free(&first);
    hf__graph_free(&second);
}
