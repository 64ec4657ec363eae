/* SPDX-License-Identifier: Apache-2.0 */
/* A lock service in virtual time: clients think, ask, wait, hold and release; a nemesis stops the
 * holder beyond his lease, kills him, or cuts everybody off. */
#include "timeline_example.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS_MAX = 64, LOCKS_MAX = 8 };
enum state { THINKING, ASKING, WAITING, GRANTED, HOLDING, RELEASING, DEAD };

#define LEASE INT64_C(300000000)
#define MARGIN INT64_C(1000000)
#define START INT64_C(5000000000000)
#define FIRST_TOKEN UINT64_C(1767225600123000)

struct example_client {
    enum state state;
    int64_t next; /* when it goes on; TORTURE_NEVER: when it is granted something */
    uint64_t hold, release, token;
    int64_t deadline, stopped_until;
    uint16_t lock;
};

struct example_lock {
    unsigned holder; /* CLIENTS_MAX: nobody */
    int64_t expires;
    unsigned queue[CLIENTS_MAX], queued;
    uint64_t token;
};

struct world {
    struct example *example;
    const struct example_plan *plan;
    size_t room;
    int64_t now, next_fault, cut_until;
    uint64_t random, operation, grants;
    struct example_client clients[CLIENTS_MAX];
    struct example_lock locks[LOCKS_MAX];
};

uint64_t example_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int64_t between(struct world *world, int64_t low, int64_t high)
{
    return low + (int64_t)(example_random(&world->random) % (uint64_t)(high - low + 1));
}

static void write_record(struct world *world, struct torture_record record)
{
    struct torture_history *history = &world->example->history;

    if (history->count == world->room) {
        world->room = world->room ? 2 * world->room : 4096;
        history->records = realloc(history->records, world->room * sizeof(*history->records));
        if (!history->records)
            abort();
    }
    record.number = history->count + 1;
    if (record.at_ns == 0)
        record.at_ns = world->now;
    history->records[history->count++] = record;
}

static void tell(struct world *world, unsigned client, enum torture_kind kind,
                 enum torture_verb verb)
{
    const struct example_client *c = &world->clients[client];
    bool granted = kind == TORTURE_OK && verb == TORTURE_ACQUIRE;
    bool unclear = kind == TORTURE_UNKNOWN || kind == TORTURE_CRASH;

    write_record(world, (struct torture_record){
                            .kind = (uint8_t)kind,
                            .verb = (uint8_t)verb,
                            .client = client,
                            .process = client + 1,
                            .owner = client + 1,
                            .lock = c->lock,
                            .operation = verb == TORTURE_RELEASE ? c->release : c->hold,
                            .hold = c->hold,
                            .permits = 1,
                            .token = granted ? c->token : 0,
                            .deadline_ns = !granted              ? 0
                                           : world->plan->broken ? TORTURE_NEVER
                                                                 : c->deadline,
                            .until_ns = unclear ? world->now + LEASE : 0,
                        });
}

static void tell_fault(struct world *world, unsigned client, enum torture_kind kind,
                       const char *name, int64_t at)
{
    struct torture_record record = { .kind = (uint8_t)kind, .client = client, .at_ns = at };

    snprintf(record.text, sizeof(record.text), "%s", name);
    write_record(world, record);
}

/* ---- The service ---- */

static void grant(struct world *world, struct example_lock *lock, unsigned client, int64_t after)
{
    lock->holder = client;
    lock->expires = world->now + after + LEASE;
    world->clients[client].state = GRANTED;
    world->clients[client].next = world->now + after;
    world->clients[client].token = ++lock->token;
    world->clients[client].deadline = lock->expires - MARGIN;
}

static void free_lock(struct world *world, struct example_lock *lock)
{
    unsigned next = lock->queue[0];

    lock->holder = CLIENTS_MAX;
    if (lock->queued == 0)
        return;
    memmove(lock->queue, lock->queue + 1, --lock->queued * sizeof(*lock->queue));
    grant(world, lock, next, between(world, 5000, 60000));
}

static void ask(struct world *world, unsigned client)
{
    struct example_client *c = &world->clients[client];
    struct example_lock *lock = &world->locks[c->lock];

    if (world->now < world->cut_until) {
        tell(world, client, TORTURE_UNKNOWN, TORTURE_ACQUIRE);
        c->state = THINKING;
        c->next = world->now + between(world, 1000000, 20000000);
    } else if (lock->holder == CLIENTS_MAX)
        grant(world, lock, client, 2000);
    else if (example_random(&world->random) % 8 == 0) {
        tell(world, client, TORTURE_REFUSED, TORTURE_ACQUIRE);
        c->state = THINKING;
        c->next = world->now + between(world, 100000, 3000000);
    } else {
        lock->queue[lock->queued++] = client;
        c->state = WAITING;
        c->next = TORTURE_NEVER;
    }
}

static void go_on(struct world *world, unsigned client)
{
    struct example_client *c = &world->clients[client];
    struct example_lock *lock = &world->locks[c->lock];

    switch (c->state) {
    case THINKING:
        c->lock = (uint16_t)between(world, 0, world->plan->locks - 1);
        c->hold = ++world->operation;
        tell(world, client, TORTURE_INVOKE, TORTURE_ACQUIRE);
        c->state = ASKING;
        c->next = world->now + between(world, 4000, 30000);
        break;
    case ASKING:
        ask(world, client);
        break;
    case GRANTED:
        tell(world, client, TORTURE_OK, TORTURE_ACQUIRE);
        world->grants++;
        c->state = HOLDING;
        c->next = world->now + between(world, 200000, 8000000);
        break;
    case HOLDING:
        c->release = ++world->operation;
        tell(world, client, TORTURE_INVOKE, TORTURE_RELEASE);
        c->state = RELEASING;
        c->next = world->now + between(world, 4000, 40000);
        if (lock->holder == client)
            free_lock(world, lock);
        break;
    case RELEASING:
        tell(world, client, TORTURE_OK, TORTURE_RELEASE);
        c->state = THINKING;
        c->next = world->now + between(world, 50000, 5000000);
        break;
    case DEAD:
        write_record(world, (struct torture_record){
                                .kind = TORTURE_CLIENT, .client = client, .process = client + 1 });
        c->state = THINKING;
        c->next = world->now + 1000000;
        break;
    case WAITING:
    default:
        abort();
    }
}

/* ---- The nemesis ---- */

static void stop(struct world *world, unsigned client)
{
    struct example_client *c = &world->clients[client];

    c->stopped_until = world->now + LEASE + between(world, 50000000, 200000000);
    c->next = c->stopped_until;
    tell_fault(world, client, TORTURE_FAULT_ON, "stop the holder", 0);
}

static void kill_client(struct world *world, unsigned client)
{
    struct example_client *c = &world->clients[client];

    tell_fault(world, client, TORTURE_FAULT_ON, "kill", 0);
    tell(world, client, TORTURE_CRASH, TORTURE_NO_VERB);
    tell_fault(world, client, TORTURE_FAULT_HIT, "kill", 0);
    tell_fault(world, client, TORTURE_FAULT_OFF, "kill", 0);
    c->state = DEAD;
    c->next = world->now + 100000000;
}

static void strike(struct world *world)
{
    uint64_t dice = example_random(&world->random) % 4;
    struct example_lock *lock = &world->locks[between(world, 0, world->plan->locks - 1)];
    unsigned holder = lock->holder;

    world->next_fault = world->now + between(world, 1, 2 * world->plan->fault_every_ns);
    if (dice == 0 && !world->cut_until) {
        world->cut_until = world->now + between(world, 30000000, 150000000);
        tell_fault(world, TORTURE_NOBODY, TORTURE_FAULT_ON, "cut everybody off", 0);
    } else if (holder < CLIENTS_MAX && world->clients[holder].state == HOLDING &&
               !world->clients[holder].stopped_until) {
        if (dice == 1)
            kill_client(world, holder);
        else
            stop(world, holder);
    }
}

static void wake(struct world *world, unsigned client)
{
    struct example_client *c = &world->clients[client];

    tell_fault(world, client, TORTURE_FAULT_HIT, "stop the holder", 0);
    tell_fault(world, client, TORTURE_FAULT_OFF, "stop the holder", 0);
    c->stopped_until = 0;
    if (!world->plan->broken) {
        tell(world, client, TORTURE_LOST, TORTURE_NO_VERB);
        c->state = THINKING;
        c->next = world->now + 1000000;
    }
}

/* ---- Time ---- */

static bool expire(struct world *world, int64_t before)
{
    for (unsigned i = 0; i < world->plan->locks; i++) {
        struct example_lock *lock = &world->locks[i];

        if (lock->holder == CLIENTS_MAX || lock->expires > before)
            continue;
        world->now = lock->expires;
        free_lock(world, lock);
        return true;
    }
    return false;
}

static void step(struct world *world)
{
    unsigned first = 0;

    for (unsigned i = 1; i < world->plan->clients; i++)
        if (world->clients[i].next < world->clients[first].next)
            first = i;
    if (expire(world, world->clients[first].next))
        return;
    if (world->plan->fault_every_ns && world->next_fault <= world->clients[first].next) {
        world->now = world->next_fault;
        strike(world);
        return;
    }
    world->now = world->clients[first].next;
    if (world->cut_until && world->now >= world->cut_until) {
        tell_fault(world, TORTURE_NOBODY, TORTURE_FAULT_HIT, "cut everybody off", 0);
        tell_fault(world, TORTURE_NOBODY, TORTURE_FAULT_OFF, "cut everybody off", world->cut_until);
        world->cut_until = 0;
    }
    if (world->clients[first].stopped_until)
        wake(world, first);
    else
        go_on(world, first);
}

void example_run(struct example *example, const struct example_plan *plan)
{
    static const char *const names[LOCKS_MAX] = { "stock", "orders", "cache",   "ledger",
                                                  "seats", "jobs",   "tickets", "mail" };
    struct world *world = calloc(1, sizeof(*world));

    if (!world)
        abort();
    *example = (struct example){ .history.run = plan->seed };
    *world = (struct world){ .example = example,
                             .plan = plan,
                             .now = START,
                             .next_fault = START + plan->fault_every_ns,
                             .random = plan->seed };
    for (unsigned i = 0; i < plan->locks; i++) {
        struct torture_record record = {
            .kind = TORTURE_LOCK, .lock = (uint16_t)i, .permits = 1, .flags = TORTURE_FENCED
        };

        snprintf(record.text, sizeof(record.text), "%s",
                 plan->lock_name ? plan->lock_name : names[i]);
        write_record(world, record);
        world->locks[i] = (struct example_lock){ .holder = CLIENTS_MAX, .token = FIRST_TOKEN };
    }
    for (unsigned i = 0; i < plan->clients; i++) {
        write_record(world, (struct torture_record){
                                .kind = TORTURE_CLIENT, .client = i, .process = i + 1 });
        world->clients[i].next = START + between(world, 0, 3000000);
    }
    while (world->grants < plan->grants)
        step(world);
    tell_fault(world, TORTURE_NOBODY, TORTURE_HEALED, "", 0);
    free(world);
    torture_check(&example->history, &(struct torture_limits){ 0 }, &example->report);
}

void example_free(struct example *example)
{
    free(example->history.records);
    *example = (struct example){ 0 };
}

/* ---- Noise ---- */

static void make_noise(struct torture_record *record, uint64_t *random, size_t count)
{
    unsigned char *bytes = (unsigned char *)record;

    for (size_t i = 0; i < sizeof(*record); i++)
        bytes[i] = (unsigned char)example_random(random);
    record->kind = (uint8_t)(example_random(random) % TORTURE_KINDS);
    record->verb = (uint8_t)(example_random(random) % TORTURE_VERBS);
    record->client =
        example_random(random) % 9 ? (uint32_t)(example_random(random) % 7) : record->client;
    record->operation = example_random(random) % count;
    record->hold = example_random(random) % count;
    if (example_random(random) % 3)
        record->lock %= 3;
    if (example_random(random) % 16)
        record->at_ns = START + (int64_t)(example_random(random) % 1000000000);
    if (example_random(random) % 4)
        record->deadline_ns = record->at_ns / 2 + (int64_t)(example_random(random) % 900000000);
}

void example_noise(struct example *example, uint64_t seed, size_t count)
{
    struct torture_report *report = &example->report;

    *example = (struct example){ .history.run = seed, .history.count = count };
    example->history.records = calloc(count + 1, sizeof(*example->history.records));
    if (!example->history.records)
        abort();
    for (size_t i = 0; i < count; i++) {
        make_noise(&example->history.records[i], &seed, count + 1);
        example->history.records[i].number = i + 1;
    }
    report->verdict = (enum torture_verdict)(example_random(&seed) % 3);
    report->finding_count = (unsigned)(example_random(&seed) % 5);
    for (unsigned i = 0; i < report->finding_count; i++) {
        struct torture_finding *finding = &report->findings[i];

        finding->rule = (enum torture_rule)(example_random(&seed) % TORTURE_RULES);
        finding->lock = (uint16_t)(example_random(&seed) % 3);
        finding->hold_count = (unsigned)(example_random(&seed) % 4);
        for (unsigned j = 0; j < finding->hold_count; j++)
            finding->holds[j] = example_random(&seed) % (count + 1);
        finding->from = example_random(&seed) % (count + 1);
        finding->to = example_random(&seed) % (count + 1);
        for (size_t j = 0; j < sizeof(finding->sentence) - 1; j++)
            finding->sentence[j] = (char)(1 + example_random(&seed) % 255);
    }
}
