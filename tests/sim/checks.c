/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true at every event, and what must come true in time. */
#include "world.h"

#include "core/claim/claim.h"
#include "engine.h"

#include <string.h>

/* Its name at the store, also while its claim is set aside. */
static uint64_t store_claim_of(const hf_hold *hold)
{
    const struct hf_grant *grant = hold->grant;
    return grant->claim ? CLAIM_OF(&grant->claim->op) : grant->entry->aside.engine_word[0];
}

static uint64_t store_claim(const struct grip *grip)
{
    return store_claim_of(grip->hold);
}

/* ---- beliefs ---- */

static void check_pair(const struct grip *a, const struct grip *b)
{
    if (a->name != b->name || a->hold->grant == b->hold->grant)
        return;
    hf_mode mode_a = hf_hold_mode(a->hold), mode_b = hf_hold_mode(b->hold);
    if (modes_conflict(mode_a, mode_b))
        violation("two beliefs: c%u has %s in mode %d (token %llu), c%u in mode %d (token %llu)",
                  a->client->index, world.store->names[a->name], (int)mode_a,
                  (unsigned long long)hf_token(a->hold), b->client->index, (int)mode_b,
                  (unsigned long long)hf_token(b->hold));
}

/* Who believes must be known to the store, and may not meet anybody else's belief. */
void check_beliefs(void)
{
    const struct grip *believed[GRIPS_MAX];
    unsigned count = 0;
    uint32_t permits = 0;
    for (unsigned i = 0; i < GRIPS_MAX; i++) {
        const struct grip *grip = &world.grips[i];
        if (!grip->hold || !hf_held(grip->hold))
            continue;
        if (check_is_forgiven(grip))
            continue;
        hf_mode mode = hf_hold_mode(grip->hold);
        if (!world.store->holds(grip->name, grip->client->index, store_claim(grip), mode))
            violation("c%u believes that it has %s in mode %d (claim %llu), and the store does not",
                      grip->client->index, world.store->names[grip->name], (int)mode,
                      (unsigned long long)store_claim(grip));
        for (unsigned j = 0; j < count; j++)
            check_pair(believed[j], grip);
        if (mode == HF_PERMIT)
            permits += grip->permits;
        believed[count++] = grip;
    }
    if (permits > SEMAPHORE_PERMITS)
        violation("%u permits are believed, of %u", permits, SEMAPHORE_PERMITS);
}

/* A break is not foretold, but noticed at the next renewal; and what a store has forgotten is
 * believed until then. */
#define NOTICED_US (3 * LEASE_MS * INT64_C(1000))

static const struct broken *find_broken(unsigned client, uint64_t claim)
{
    for (unsigned i = 0; i < world.broken_count; i++)
        if (world.broken[i].client == client && world.broken[i].claim == claim)
            return &world.broken[i];
    return NULL;
}

bool check_is_forgiven(const struct grip *grip)
{
    const struct broken *broken = find_broken(grip->client->index, store_claim(grip));
    if (broken && world.now_us > broken->at_us + NOTICED_US && hf_held(grip->hold))
        violation("c%u still believes that it has %s, which was broken", broken->client,
                  world.store->names[grip->name]);
    return broken || world.now_us < world.forgiven_until_us;
}

void check_granted(unsigned client, uint64_t claim)
{
    for (unsigned i = world.broken_count; i-- > 0;)
        if (world.broken[i].client == client && world.broken[i].claim == claim)
            world.broken[i] = world.broken[--world.broken_count];
}

void check_broken(unsigned client, uint64_t claim)
{
    if (world.broken_count == BROKEN_MAX)
        violation("more was broken than the simulation has room for");
    world.broken[world.broken_count++] = (struct broken){ client, claim, world.now_us };
    world.totals.broken++;
}

/* A client that runs must have told its people of the loss before the store lets others in. */
void check_loss_was_told(int name, unsigned client, uint64_t claim, hf_mode mode)
{
    for (unsigned i = 0; i < GRIPS_MAX; i++) {
        const struct grip *grip = &world.grips[i];
        if (!grip->hold || grip->name != name || grip->client->paused || grip->lost)
            continue;
        if (check_is_forgiven(grip) || (grip->attached && !hf_held(grip->hold)))
            continue;
        if (grip->client->index == client && store_claim(grip) == claim)
            continue;
        if (modes_conflict(hf_hold_mode(grip->hold), mode))
            violation("c%u gets %s while c%u has not been told that it lost it", client,
                      world.store->names[name], grip->client->index);
    }
}

/* ---- answers ---- */

static bool was_disturbed(const struct actor *actor, int64_t since_us)
{
    return actor->client->paused || actor->client->resumed_us >= since_us;
}

/* Its patience was over before the first answer could be there. */
static bool asked_just_now(const struct actor *actor)
{
    return actor->client->engine->asked_at_ms > client_clock(actor->client) - 15;
}

static bool is_expected(const struct actor *actor, int code)
{
    const struct request *request = &actor->request;
    switch (code) {
    case HF_OK:
        return true;
    case HF_BUSY:
        return request->wait_ms >= 0 || request->nested;
    case HF_CANCELED:
        return request->canceled;
    case HF_UNREACHABLE:
        return world.faults.any || asked_just_now(actor);
    case HF_DENIED:
        return world.refuses;
    case HF_LOST:
    case HF_EDEADLK:
        return request->nested;
    case HF_ECLOSED:
        return actor->client->blocked;
    default:
        return false;
    }
}

void check_call(const struct actor *actor, const char *call, int code)
{
    bool silent = code == HF_UNREACHABLE && (world.faults.any || asked_just_now(actor));
    static const char *const may_be_busy[] = { "hf_upgrade", "hf_counter_take", "hf_latch_set",
                                               "hf_latch_wait" };
    bool busy = false;
    for (unsigned i = 0; i < sizeof may_be_busy / sizeof *may_be_busy; i++)
        busy |= code == HF_BUSY && strcmp(call, may_be_busy[i]) == 0;
    bool refused = code == HF_DENIED && world.refuses;
    if (code != HF_OK && code != HF_LOST && !silent && !busy && !refused)
        violation("%s answers %s: %s", call, hf_code_name(code), hf_last_error()->text);
}

/* Neither before its time nor long after it. */
static void check_time(const struct actor *actor, int code)
{
    const struct request *request = &actor->request;
    int64_t waited_ms = client_clock(actor->client) - request->asked_at_ms;
    bool asks_to_the_end = code == HF_BUSY || code == HF_UNREACHABLE;
    if (asks_to_the_end && !request->nested && waited_ms < request->wait_ms)
        violation("%s after %lld ms, of %lld ms to wait", hf_code_name(code), (long long)waited_ms,
                  (long long)request->wait_ms);
    int64_t limit_ms = request->wait_ms == 0 ? PATIENCE_MS : request->wait_ms;
    if (request->wait_ms != HF_FOREVER && waited_ms > limit_ms + 4 &&
        !was_disturbed(actor, request->asked_us))
        violation("%s after %lld ms, which is more than %lld ms", hf_code_name(code),
                  (long long)waited_ms, (long long)limit_ms);
    if (request->canceled && world.now_us > request->canceled_us + 4000 &&
        !was_disturbed(actor, request->canceled_us))
        violation("cancelling took %lld ms",
                  (long long)(world.now_us - request->canceled_us) / 1000);
}

static void check_token(const struct actor *actor, const hf_hold *hold)
{
    const struct request *request = &actor->request;
    if (find_broken(actor->client->index, store_claim_of(hold)))
        return;
    uint64_t token = hf_token(hold), *last = &world.last_token[request->name];
    bool first = mode_is_exclusive(hf_hold_mode(hold)) && !request->nested;
    /* Readers carry what the store remembers. A grant may be older than what was forgotten, and
     * heard of later: tokens are times of the store. */
    bool forgotten = world.forgot &&
                     (!mode_is_exclusive(hf_hold_mode(hold)) || (int64_t)token < world.forgot_us);
    bool rises = first ? token > *last : token >= *last || request->nested;
    if (!rises && !forgotten)
        violation("%s: token %llu after %llu", world.store->names[request->name],
                  (unsigned long long)token, (unsigned long long)*last);
    if (token > *last && mode_is_exclusive(hf_hold_mode(hold)))
        *last = token;
}

void check_answer(const struct actor *actor, int code, const hf_hold *hold, const hf_error *error)
{
    struct totals *totals = &world.totals;
    if (!is_expected(actor, code))
        violation("the answer is %s (%s), which cannot be", hf_code_name(code),
                  error ? error->text : "without a sentence");
    if ((code == HF_OK) != (hold != NULL) || (code == HF_OK) != (error == NULL))
        violation("%s comes with a hold or a sentence too many or too few", hf_code_name(code));
    if (error && (error->code != code || !*error->text))
        violation("the sentence for %s is %s: \"%s\"", hf_code_name(code),
                  hf_code_name(error->code), error->text);
    check_time(actor, code);
    totals->busy += code == HF_BUSY;
    totals->canceled += code == HF_CANCELED;
    totals->unreachable += code == HF_UNREACHABLE;
    if (!hold)
        return;
    if (!hf_held(hold) && !actor->request.nested)
        violation("a hold is granted that is over already");
    totals->raised += actor->request.nested && hf_hold_mode(hold) == HF_WRITE;
    check_token(actor, hold);
}

/* ---- progress ---- */

static bool is_wanted(int name)
{
    for (unsigned a = 0; a < world.actor_count; a++) {
        const struct actor *actor = &world.actors[a];
        if (actor->client->client && !actor->client->paused && actor->request.pending &&
            actor->request.name == name && !actor->request.nested)
            return true;
    }
    return false;
}

/* Once the network has healed, nobody waits long for what is free. Who met silence before asks
 * again after up to two seconds. */
#define PATIENCE_END_MS 2200

void check_progress(void)
{
    for (int name = 0; name < LOCKS; name++) {
        bool idle = world.now_us > world.calm_us && is_wanted(name) && world.store->is_free(name);
        if (!idle)
            world.free_since_us[name] = -1;
        else if (world.free_since_us[name] < 0)
            world.free_since_us[name] = world.now_us;
        else if (world.now_us - world.free_since_us[name] > PATIENCE_END_MS * 1000)
            violation("%s has been free for %lld ms, and somebody waits for it",
                      world.store->names[name],
                      (long long)(world.now_us - world.free_since_us[name]) / 1000);
    }
}

static bool is_at_rest(struct sim_client *client)
{
    if (!client->client || client->paused || client->to_store.count || client->to_client.count)
        return false;
    for (unsigned i = 0; i < GRIPS_MAX; i++)
        if (world.grips[i].client == client)
            return false;
    return client_claims(client) == 0;
}

/* A client that wants nothing and has nothing has left nothing. What a silent store forgets by
 * itself does not count: it is over as soon as the slowest message. */
void check_residue(bool at_the_end)
{
    for (unsigned i = 0; i < world.client_count; i++) {
        struct sim_client *client = &world.clients[i];
        if (!client->client || !is_at_rest(client))
            continue;
        unsigned left = world.store->residue(i, at_the_end ? 0 : 70000);
        if (left)
            violation("c%u has nothing any more, and left %u things at the store", i, left);
    }
}
