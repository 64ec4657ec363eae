/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual time: the heap of events, the random numbers, and the plan of one seed's history. */
#include "world.h"

#include "core/claim/claim_compact.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world world;

/* ---- chance ---- */

static uint64_t random_next(void)
{
    uint64_t z = world.random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t random_below(uint64_t limit)
{
    return random_next() % limit;
}

int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)random_below((uint64_t)(high - low + 1));
}

bool chance(unsigned permille)
{
    return random_below(1000) < permille;
}

/* ---- what is told ---- */

void say(const char *format, ...)
{
    if (!world.trace)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("# [%9.3f] ", (double)world.now_us / 1000.0);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

void violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("not ok - seed %" PRIu64 " at %.3f ms: ", world.seed, (double)world.now_us / 1000.0);
    vprintf(format, arguments);
    printf("\n# replay: sim --engine %s%s --seed %" PRIu64 " --trace\n", world.store->name,
           world.forgetful ? " --forgetful" : "", world.seed);
    va_end(arguments);
    fflush(stdout);
    exit(1);
}

/* ---- the heap: earliest first, and of equals the one that was planned first ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap(unsigned a, unsigned b)
{
    struct event event = world.heap[a];
    world.heap[a] = world.heap[b];
    world.heap[b] = event;
}

void world_at(int64_t at_us, void (*run)(void *, uint64_t), void *subject, uint64_t detail)
{
    if (world.heap_count == world.heap_room) {
        world.heap_room = world.heap_room ? world.heap_room * 2 : 256;
        world.heap = realloc(world.heap, world.heap_room * sizeof *world.heap);
        if (!world.heap)
            violation("the simulation is out of memory");
    }
    unsigned i = world.heap_count++;
    world.heap[i] = (struct event){ at_us, world.order++, run, subject, detail };
    for (; i > 0 && is_before(&world.heap[i], &world.heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(i, (i - 1) / 2);
}

static struct event take_first(void)
{
    struct event first = world.heap[0];
    world.heap[0] = world.heap[--world.heap_count];
    for (unsigned i = 0;;) {
        unsigned child = 2 * i + 1;
        if (child >= world.heap_count)
            break;
        if (child + 1 < world.heap_count && is_before(&world.heap[child + 1], &world.heap[child]))
            child++;
        if (is_before(&world.heap[i], &world.heap[child]))
            break;
        swap(i, child);
        i = child;
    }
    return first;
}

void world_step(void)
{
    if (world.heap_count == 0)
        violation("nothing is left to happen, but somebody still waits");
    struct event event = take_first();
    world.now_us = event.at_us;
    world.totals.events++;
    event.run(event.subject, event.detail);
    world.running = NULL;
    check_beliefs();
}

/* ---- the plan ---- */

static void cut_one(void *subject, uint64_t detail)
{
    (void)subject, (void)detail;
    struct sim_client *client = &world.clients[random_below(world.client_count)];
    network_cut(client, world.now_us + random_between(20, 450) * 1000);
}

static void pause_one(void *subject, uint64_t detail)
{
    (void)subject, (void)detail;
    client_pause(&world.clients[random_below(world.client_count)],
                 world.now_us + random_between(5, 3 * LEASE_MS) * 1000);
}

/* The last client is never taken, so that there is somebody to notice what the others left. */
static struct sim_client *victim(void)
{
    struct sim_client *client = &world.clients[random_below(world.client_count)];
    bool fit = client->index > 0 && client->client && !client->blocked;
    return fit ? client : NULL;
}

static void crash_one(void *subject, uint64_t detail)
{
    (void)subject, (void)detail;
    struct sim_client *client = victim();
    if (client)
        client_crash(client);
}

static void close_one(void *subject, uint64_t detail)
{
    (void)subject, (void)detail;
    struct sim_client *client = victim();
    if (client && !world.blocking && !client->paused)
        client_close(client);
}

/* The store is down for a while: what is under way, or asked meanwhile, is lost. */
static void restart_store(void *subject, uint64_t detail)
{
    (void)subject, (void)detail;
    int64_t up_us = world.now_us + random_between(5, 250) * 1000;
    say("the store restarts%s", world.faults.forgetful ? ", and forgets everything" : "");
    for (unsigned i = 0; i < world.client_count; i++)
        network_stop(&world.clients[i], up_us);
    world.totals.restarts++;
    if (world.faults.forgetful) {
        world.forgot = true;
        world.forgot_us = world.now_us;
        world.forgiven_until_us = world.now_us + 5 * LEASE_MS / 2 * 1000;
    }
    world.store->restarted(world.faults.forgetful);
}

static void plan(unsigned count, void (*run)(void *, uint64_t))
{
    for (unsigned i = 0; i < count; i++)
        world_at(random_between(50, world.calm_us / 1000 - 700) * 1000, run, NULL, 0);
}

/* One history in eight is without faults: there nothing may be lost, and nobody unreachable. */
static void plan_faults(void)
{
    if (chance(125))
        return;
    struct faults *faults = &world.faults;
    faults->any = true;
    faults->loss_permille = chance(700) ? (unsigned)random_below(111) : 0;
    faults->double_permille = chance(400) ? (unsigned)random_below(60) : 0;
    faults->cuts = chance(600) ? (unsigned)random_below(8) : 0;
    faults->pauses = chance(600) ? (unsigned)random_below(8) : 0;
    faults->open_permille = chance(300) ? (unsigned)random_below(80) : 0;
    faults->refusals = chance(250) ? (unsigned)random_between(1, 2) : 0;
    world.refuses = faults->refusals > 0;
    faults->crashes = chance(250) ? 1 : 0;
    faults->closes = chance(250) ? 1 : 0;
    faults->breaks = chance(300);
    faults->restarts = chance(250) ? (unsigned)random_between(1, 3) : 0;
    faults->forgetful = world.forgetful;
    plan(faults->restarts, restart_store);
    plan(faults->cuts, cut_one);
    plan(faults->pauses, pause_one);
    plan(faults->crashes, crash_one);
    plan(faults->closes, close_one);
}

static void look_around(void *subject, uint64_t detail)
{
    (void)subject, (void)detail;
    check_progress();
    check_residue(false);
    if (!world.stopped)
        world_at(world.now_us + 40000, look_around, NULL, 0);
}

static void calm_down(void *subject, uint64_t detail)
{
    (void)subject, (void)detail;
    say("the network heals");
    world.faults.loss_permille = world.faults.double_permille = 0;
    world.faults.open_permille = world.faults.refusals = 0;
}

static void begin(const struct store *store, uint64_t seed)
{
    struct event *heap = world.heap;
    unsigned room = world.heap_room;
    struct totals totals = world.totals;
    bool trace = world.trace, forgetful = world.forgetful;
    memset(&world, 0, sizeof world);
    world.heap = heap;
    world.heap_room = room;
    world.totals = totals;
    world.trace = trace;
    world.forgetful = forgetful;
    world.seed = world.random = seed;
    world.store = store;
    world.calm_us = 1800 * 1000;
    world.stop_us = 2600 * 1000;
    world.end_us = 12000 * 1000;
    for (int name = 0; name < NAMES_MAX; name++)
        world.free_since_us[name] = -1;
}

/* After `stop_us` nobody asks for anything new; everybody must come to rest by `end_us`. */
void world_run(const struct store *store, uint64_t seed)
{
    begin(store, seed);
    /* In every other world whatever comes to rest is set aside, and hardly any memory is spared. */
    hf__compact_bounds.resting = seed % 2 ? 0 : 8;
    hf__compact_bounds.fetched = 1 + (uint32_t)(seed % 3);
    hf__compact_bounds.spared = 2;
    world.client_count = (unsigned)random_between(2, CLIENTS_MAX);
    world.name_count = (unsigned)random_between(1, LOCKS);
    world.think_ms = chance(500) ? 15 : 250;
    store->begin();
    for (unsigned i = 0; i < world.client_count; i++)
        client_open(&world.clients[i], i);
    plan_faults();
    actors_begin();
    world_at(world.calm_us, calm_down, NULL, 0);
    world_at(40000, look_around, NULL, 0);
    while (world.now_us < world.stop_us || !actors_are_done()) {
        world_step();
        if (world.now_us > world.end_us)
            violation("somebody is stuck: not at rest %lld ms after the end",
                      (long long)((world.end_us - world.stop_us) / 1000));
    }
    check_residue(true);
    verbs_check_counter();
    world.stopped = true;
    for (unsigned i = 0; i < world.client_count; i++)
        client_close(&world.clients[i]);
    world.heap_count = 0;
    world.totals.seeds++;
}
