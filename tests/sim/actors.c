/* SPDX-License-Identifier: Apache-2.0 */
/* People who lock and unlock: what they ask for, and when, is chance. */
#include "world.h"

#include <string.h>

static void act(void *subject, uint64_t detail);

static void act_at(struct actor *actor, int64_t at_us)
{
    actor->act_us = at_us;
    world_at(at_us, act, actor, (uint64_t)at_us);
}

static void rest(struct actor *actor)
{
    int64_t ms = actor->grip_count ? LEASE_MS * 3 / 2 : world.think_ms;
    act_at(actor, world.now_us + random_between(0, ms * 1000));
}

/* ---- holds in hand ---- */

struct grip *reserve_grip(struct sim_client *client)
{
    for (unsigned i = 0; i < GRIPS_MAX; i++) {
        struct grip *grip = &world.grips[i];
        if (grip->client)
            continue;
        *grip = (struct grip){ .client = client, .unlock_when_lost = chance(300) };
        return grip;
    }
    violation("more holds than the simulation has room for");
}

static void let_go(struct actor *actor, struct grip *grip)
{
    for (unsigned i = 0; i < actor->grip_count; i++)
        if (actor->grips[i] == grip)
            actor->grips[i--] = actor->grips[--actor->grip_count];
    grip->hold = NULL;
}

void drop_grip(struct actor *actor, struct grip *grip)
{
    let_go(actor, grip);
    grip->client = NULL;
}

static struct actor *owner_of(const struct grip *grip)
{
    for (unsigned a = 0; a < world.actor_count; a++)
        for (unsigned i = 0; i < world.actors[a].grip_count; i++)
            if (world.actors[a].grips[i] == grip)
                return &world.actors[a];
    return NULL;
}

static void take_loss(void *arg, const hf_loss *loss)
{
    struct grip *grip = arg;
    hf_hold *hold = grip->hold;
    if (grip->lost)
        violation("on_lost runs a second time for %s", loss->name);
    world.totals.lost++;
    grip->lost = true;
    if (!hold)
        return;
    if (hf_held(hold))
        violation("on_lost runs while hf_held is true");
    if (grip->unlock_when_lost) {
        drop_grip(owner_of(grip), grip);
        hf_unlock_nowait(hold);
    }
}

/* A call that blocks turns the world until it comes back; one at a time. */
void block(struct actor *actor, bool blocked)
{
    world.blocking = actor->blocked = actor->client->blocked = blocked;
}

static void give_back(struct actor *actor, unsigned index, bool may_block)
{
    struct grip *grip = actor->grips[index];
    hf_hold *hold = grip->hold;
    struct sim_client *client = actor->client;
    say("c%u actor %llu unlocks %s%s", client->index, (unsigned long long)actor->owner,
        world.store->names[grip->name], grip->lost ? ", which it lost" : "");
    drop_grip(actor, grip);
    if (!may_block || world.blocking || chance(800)) {
        hf_unlock_nowait(hold);
        return;
    }
    block(actor, true);
    int code = hf_unlock(hold);
    block(actor, false);
    say("c%u actor %llu has unlocked: %s", client->index, (unsigned long long)actor->owner,
        hf_code_name(code));
    check_call(actor, "hf_unlock", code);
}

/* ---- asking ---- */

static void note_grant(struct actor *actor, hf_hold *hold)
{
    const struct request *request = &actor->request;
    struct grip *grip = request->reserved;
    world.totals.grants++;
    grip->hold = hold;
    grip->name = request->name;
    grip->permits = request->permits;
    actor->grips[actor->grip_count++] = grip;
    say("c%u actor %llu has %s in mode %d, token %llu", actor->client->index,
        (unsigned long long)actor->owner, world.store->names[request->name],
        (int)hf_hold_mode(hold), (unsigned long long)hf_token(hold));
}

static void take_answer(struct actor *actor, int code, hf_hold *hold, const hf_error *error)
{
    struct request *request = &actor->request;
    if (!request->pending)
        violation("a request is answered twice");
    say("c%u actor %llu hears %s", actor->client->index, (unsigned long long)actor->owner,
        hf_code_name(code));
    check_answer(actor, code, hold, error);
    request->pending = false;
    /* hf_close takes back what is granted while it runs. */
    if (code == HF_OK && !actor->client->closing)
        note_grant(actor, hold);
    else if (code != HF_OK)
        request->reserved->client = NULL;
}

static void done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct actor *actor = arg;
    take_answer(actor, code, hold, error);
    if (actor->grip_count > 0 && code == HF_OK && chance(150))
        give_back(actor, actor->grip_count - 1, false);
    rest(actor);
}

static void cancel(void *subject, uint64_t detail)
{
    struct actor *actor = subject;
    struct request *request = &actor->request;
    const struct sim_client *client = actor->client;
    if (!client->client || client->closing || client->paused || request->id != detail)
        return;
    if (request->pending && !request->canceled) {
        request->canceled = true;
        request->canceled_us = world.now_us;
        say("c%u actor %llu cancels", actor->client->index, (unsigned long long)actor->owner);
    }
    hf_cancel(actor->client->client, detail);
}

static hf_mode mode_for(int name)
{
    const char *text = world.store->names[name];
    if (text[0] == 'm')
        return HF_MUTEX;
    if (text[0] == 'f')
        return HF_FAIR;
    if (text[0] == 's')
        return HF_PERMIT;
    bool upgrades = hf_caps(world.clients[0].client) & HF_CAP_UPGRADE;
    uint64_t which = random_below(upgrades ? 3 : 2);
    return which == 0 ? HF_READ : which == 1 ? HF_WRITE : HF_UPGRADE;
}

static int64_t choose_wait(void)
{
    if (chance(200))
        return 0;
    if (chance(200))
        return HF_FOREVER;
    return chance(300) ? random_between(1, 40) : random_between(40, 900);
}

static void ask_blocking(struct actor *actor, const hf_lock_options *options)
{
    struct request *request = &actor->request;
    struct sim_client *client = actor->client;
    hf_hold *hold = NULL;
    block(actor, true);
    int code = hf_lock(client->client, world.store->names[request->name], request->wait_ms, options,
                       &hold);
    block(actor, false);
    take_answer(actor, code, hold, code == HF_OK ? NULL : hf_last_error());
    rest(actor);
}

static void ask_async(struct actor *actor, const hf_lock_options *options)
{
    struct request *request = &actor->request;
    hf_client *client = actor->client->client;
    const char *name = world.store->names[request->name];
    int code = hf_lock_async(client, name, request->wait_ms, options, done, actor, &request->id);
    if (code != HF_OK) {
        take_answer(actor, code, NULL, hf_last_error());
        rest(actor);
    } else if (request->id && chance(250)) {
        world_at(world.now_us + random_between(0, 250000), cancel, actor, request->id);
    }
}

static void ask(struct actor *actor, int name, hf_mode mode, bool nested)
{
    struct request *request = &actor->request;
    struct grip *grip = reserve_grip(actor->client);
    *request = (struct request){ .pending = true,
                                 .nested = nested,
                                 .reserved = grip,
                                 .name = name,
                                 .mode = mode,
                                 .permits = (uint32_t)random_between(1, SEMAPHORE_PERMITS),
                                 .asked_us = world.now_us,
                                 .asked_at_ms = client_clock(actor->client),
                                 .wait_ms = choose_wait() };
    bool owner = nested || (mode != HF_PERMIT && chance(700));
    bool takes = mode == HF_PERMIT || mode == HF_COUNTER;
    hf_lock_options options =
        HF_LOCK_OPTIONS(.mode = mode, .permits = takes ? request->permits : 0,
                        .limit = mode == HF_PERMIT ? SEMAPHORE_PERMITS : 0,
                        .lease_ms = chance(150) ? random_between(60, 2 * LEASE_MS) : 0,
                        .owner = owner ? actor->owner : 0, .on_lost = take_loss, .lost_arg = grip);
    say("c%u actor %llu asks for %s in mode %d, waits %lld ms, lease %lld ms", actor->client->index,
        (unsigned long long)options.owner, world.store->names[name], (int)mode,
        (long long)request->wait_ms, (long long)options.lease_ms);
    if (owner && !world.blocking && chance(80))
        ask_blocking(actor, &options);
    else
        ask_async(actor, &options);
}

/* ---- what to do next ---- */

static void change_grip(struct actor *actor, struct grip *grip)
{
    hf_mode mode = hf_hold_mode(grip->hold);
    bool up = mode == HF_UPGRADE;
    if (!up && mode != HF_WRITE)
        return;
    block(actor, true);
    bool upgrades = hf_caps(actor->client->client) & HF_CAP_UPGRADE;
    hf_mode to = upgrades && chance(500) ? HF_UPGRADE : HF_READ;
    int code = up ? hf_upgrade(grip->hold, random_between(0, 200)) : hf_downgrade(grip->hold, to);
    block(actor, false);
    say("c%u actor %llu %s: %s", actor->client->index, (unsigned long long)actor->owner,
        up ? "upgrades" : "downgrades", hf_code_name(code));
    check_call(actor, up ? "hf_upgrade" : "hf_downgrade", code);
}

static uint64_t owner_number(const hf_hold *hold)
{
    const struct hf_grant *grant = hold->grant;
    return grant->claim ? grant->claim->op.in.owner : grant->entry->aside.owner;
}

/* Somebody who asked as nobody in particular would wait for himself. */
static bool may_nest(const struct actor *actor, const struct grip *grip)
{
    return actor->grip_count < GRIPS_PER_ACTOR && hf_hold_mode(grip->hold) != HF_PERMIT &&
           owner_number(grip->hold) == actor->owner;
}

/* Asks for the same name again, or changes what it has, or gives something back. */
static void go_on_holding(struct actor *actor)
{
    struct grip *grip = actor->grips[random_below(actor->grip_count)];
    hf_mode mode = hf_hold_mode(grip->hold);
    bool rw = mode == HF_READ || mode == HF_UPGRADE || mode == HF_WRITE;
    if (!world.blocking && rw && !grip->lost && chance(250)) {
        change_grip(actor, grip);
    } else if (!world.blocking && !grip->lost && chance(300) && verbs_act_on(actor, grip)) {
        rest(actor);
        return;
    } else if (may_nest(actor, grip) && world.now_us < world.stop_us && chance(250)) {
        ask(actor, grip->name, mode_for(grip->name), true);
        return;
    } else {
        give_back(actor, (unsigned)random_below(actor->grip_count), true);
    }
    rest(actor);
}

static void act(void *subject, uint64_t detail)
{
    struct actor *actor = subject;
    struct sim_client *client = actor->client;
    if (!client->client || client->closing || actor->act_us != (int64_t)detail)
        return;
    if (client->paused || actor->blocked) {
        act_at(actor, world.now_us + 1000);
        return;
    }
    if (actor->request.pending)
        return;
    if (!world.blocking && world.now_us < world.stop_us &&
        chance(verbs_are_pressing() ? 500 : 100)) {
        verbs_act(actor);
        rest(actor);
        return;
    }
    if (actor->grip_count > 0)
        go_on_holding(actor);
    else if (world.now_us < world.stop_us) {
        int name = (int)random_below(world.name_count);
        ask(actor, name, mode_for(name), false);
    }
}

void actors_begin(void)
{
    verbs_begin();
    for (unsigned c = 0; c < world.client_count; c++)
        for (int64_t i = random_between(1, ACTORS_MAX); i > 0; i--) {
            struct actor *actor = &world.actors[world.actor_count++];
            actor->client = &world.clients[c];
            actor->owner = world.actor_count;
            act_at(actor, random_between(0, 50000));
        }
}

bool actors_are_done(void)
{
    for (unsigned a = 0; a < world.actor_count; a++) {
        const struct actor *actor = &world.actors[a];
        if (actor->client->client && (actor->request.pending || actor->grip_count > 0))
            return false;
    }
    for (unsigned c = 0; c < world.client_count; c++) {
        struct sim_client *client = &world.clients[c];
        if (client->client && (client->to_store.count > 0 || client->to_client.count > 0))
            return false;
        if (client->client && client_claims(client) > 0)
            return false;
    }
    return true;
}

void actors_drop(struct sim_client *client)
{
    for (unsigned i = 0; i < GRIPS_MAX; i++)
        if (world.grips[i].client == client && world.grips[i].hold)
            let_go(owner_of(&world.grips[i]), &world.grips[i]);
}

void actors_free_grips(const struct sim_client *client)
{
    for (unsigned i = 0; i < GRIPS_MAX; i++)
        if (world.grips[i].client == client)
            world.grips[i].client = NULL;
}
