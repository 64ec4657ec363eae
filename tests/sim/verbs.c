/* SPDX-License-Identifier: Apache-2.0 */
/* What people do besides locking: count, wait for latches, renew, detach, attach, break. Each of
 * these calls blocks, so there is one of them at a time in the world. */
#include "engine.h"

#include <string.h>

#define DETACHED_MAX 8
#define TOLD_MAX 256u

struct detached {
    bool used;
    int name;
    uint32_t permits;
    char key[HF_OWNER_KEY_SIZE];
};

static struct detached detached[DETACHED_MAX];

/* Attached locks that a caller has heard of: all others go back under their key. */
static struct sim_key told[TOLD_MAX];
static unsigned told_count;

/* What must be in the counter at the end: what was surely put in, and what perhaps was. */
static int64_t counted, perhaps_counted;

void verbs_begin(void)
{
    memset(detached, 0, sizeof detached);
    counted = perhaps_counted = 0;
    told_count = 0;
}

static const char *name_of(int name)
{
    return world.store->names[name];
}

static int said(struct actor *actor, const char *call, int name, int code)
{
    block(actor, false);
    say("c%u actor %llu: %s of %s: %s", actor->client->index, (unsigned long long)actor->owner,
        call, name_of(name), hf_code_name(code));
    check_call(actor, call, code);
    return code;
}

/* ---- counters and latches ---- */

static void add(struct actor *actor)
{
    uint32_t amount = (uint32_t)random_between(1, 3);
    block(actor, true);
    int code = hf_counter_add(actor->client->client, name_of(COUNTER), amount);
    if (said(actor, "hf_counter_add", COUNTER, code) == HF_OK)
        counted += amount;
    else
        perhaps_counted += amount;
}

/* Whatever the answer is, it is the truth: what was not granted is not taken. */
static void take(struct actor *actor)
{
    uint32_t amount = (uint32_t)random_between(1, 3);
    int64_t wait_ms = chance(300) ? 0 : random_between(1, 120);
    block(actor, true);
    int code = hf_counter_take(actor->client->client, name_of(COUNTER), amount, wait_ms);
    if (said(actor, "hf_counter_take", COUNTER, code) == HF_OK) {
        counted -= amount;
        world.totals.taken++;
    }
}

static void look_at_counter(struct actor *actor)
{
    uint32_t value = 0;
    block(actor, true);
    int code = hf_counter_get(actor->client->client, name_of(COUNTER), &value);
    said(actor, "hf_counter_get", COUNTER, code);
}

static void use_latch(struct actor *actor)
{
    hf_client *client = actor->client->client;
    uint32_t left = 0;
    uint64_t which = random_below(4);
    block(actor, true);
    if (which == 0)
        said(actor, "hf_latch_set", LATCH, hf_latch_set(client, name_of(LATCH), 2));
    else if (which == 1)
        said(actor, "hf_latch_down", LATCH, hf_latch_down(client, name_of(LATCH), 1, &left));
    else if (which == 2)
        said(actor, "hf_latch_get", LATCH, hf_latch_get(client, name_of(LATCH), &left));
    else
        said(actor, "hf_latch_wait", LATCH,
             hf_latch_wait(client, name_of(LATCH), random_between(0, 120)));
}

/* A crash leaves takes behind that nobody was told of, and a forgetful store is not asked. */
void verbs_check_counter(void)
{
    if (world.forgot || world.faults.crashes || world.faults.closes)
        return;
    int64_t value = values_counter();
    if (value < counted || value > counted + perhaps_counted)
        violation("the counter is at %lld, and should be from %lld to %lld", (long long)value,
                  (long long)counted, (long long)(counted + perhaps_counted));
}

/* ---- taking away, taking over ---- */

static void break_something(struct actor *actor)
{
    int name = (int)random_below(world.name_count);
    uint32_t count = 0;
    block(actor, true);
    said(actor, "hf_break", name, hf_break(actor->client->client, name_of(name), NULL, &count));
}

static struct detached *choose_detached(void)
{
    unsigned from = (unsigned)random_below(DETACHED_MAX);
    for (unsigned i = 0; i < DETACHED_MAX; i++)
        if (detached[(from + i) % DETACHED_MAX].used)
            return &detached[(from + i) % DETACHED_MAX];
    return NULL;
}

bool verbs_are_pressing(void)
{
    return choose_detached() != NULL;
}

void verbs_check_attached(unsigned client, uint64_t claim)
{
    for (unsigned i = 0; i < told_count && i < TOLD_MAX; i++)
        if (told[i].client == client && told[i].claim == claim)
            return;
    if (!world.clients[client].closing)
        violation("c%u releases a lock that no caller has heard to be attached", client);
}

static void attach(struct actor *actor, struct detached *what)
{
    struct grip *grip = reserve_grip(actor->client);
    hf_hold *hold = NULL;
    block(actor, true);
    int code = hf_attach(actor->client->client, name_of(what->name), what->key, &hold);
    what->used = code == HF_UNREACHABLE;
    if (code == HF_OK)
        told[told_count++ % TOLD_MAX] =
            (struct sim_key){ actor->client->index, CLAIM_OF(&hold->grant->claim->op) };
    if (said(actor, "hf_attach", what->name, code) != HF_OK || actor->client->closing) {
        grip->client = NULL;
        return;
    }
    grip->hold = hold;
    grip->name = what->name;
    grip->permits = what->permits;
    grip->attached = true;
    actor->grips[actor->grip_count++] = grip;
    world.totals.attached++;
}

void verbs_act(struct actor *actor)
{
    unsigned caps = hf_caps(actor->client->client);
    struct detached *what = choose_detached();
    if (what && actor->grip_count < GRIPS_PER_ACTOR && chance(600))
        attach(actor, what);
    else if ((caps & HF_CAP_BREAK) && world.faults.breaks && chance(150))
        break_something(actor);
    else if (chance(300))
        add(actor);
    else if (chance(500))
        take(actor);
    else if (chance(200))
        look_at_counter(actor);
    else
        use_latch(actor);
}

/* ---- a lease of its own ---- */

static void renew(struct actor *actor, struct grip *grip)
{
    block(actor, true);
    /* A long one outlasts an attach without an answer. */
    int64_t most_ms = !world.forgetful && chance(300) ? 3 * PATIENCE_MS : 2 * LEASE_MS;
    int code = hf_renew(grip->hold, random_between(60, most_ms));
    world.totals.renewed += said(actor, "hf_renew", grip->name, code) == HF_OK;
}

static void detach(struct actor *actor, struct grip *grip)
{
    struct detached what = { .used = true, .name = grip->name, .permits = grip->permits };
    block(actor, true);
    int code = hf_detach(grip->hold, what.key);
    /* It was given back in its on_lost, or by hf_close. */
    bool gone = grip->hold == NULL;
    if (said(actor, "hf_detach", what.name, code) != HF_OK)
        return;
    if (!gone)
        drop_grip(actor, grip);
    detached[random_below(DETACHED_MAX)] = what;
    world.totals.detached++;
}

bool verbs_act_on(struct actor *actor, struct grip *grip)
{
    const struct hf_grant *grant = grip->hold->grant;
    if (!atomic_load(&grant->fixed) || grip->unlock_when_lost)
        return false;
    bool only = grant->holds.next == grant->holds.prev && !grant->claim->driven;
    if (only && chance(400))
        detach(actor, grip);
    else
        renew(actor, grip);
    return true;
}
