/* SPDX-License-Identifier: Apache-2.0 */
/* The store's scripts: what a lease store decides in one piece. */
#include "mutants.h"
#include "store.h"

#include <assert.h>
#include <string.h>

/* ---- lists ---- */

static struct store_claim *find(struct store_claims *claims, uint64_t owner)
{
    for (unsigned i = 0; i < claims->count; i++)
        if (claims->list[i].owner == owner)
            return &claims->list[i];
    return NULL;
}

static struct store_claim *add(struct store_claims *claims, const struct store_claim *claim)
{
    assert(claims->count < STORE_CLAIMS);
    claims->list[claims->count] = *claim;
    return &claims->list[claims->count++];
}

static void drop(struct store_claims *claims, struct store_claim *claim)
{
    struct store_claim *end = claims->list + --claims->count;

    memmove(claim, claim + 1, (size_t)(end - claim) * sizeof *claim);
}

static bool drop_owner(struct store_claims *claims, uint64_t owner)
{
    struct store_claim *claim = find(claims, owner);

    if (claim)
        drop(claims, claim);
    return claim != NULL;
}

static bool drop_expired(struct store_claims *claims, int64_t now_ns)
{
    unsigned before = claims->count;

    for (unsigned i = claims->count; i-- > 0;)
        if (claims->list[i].expires_ns <= now_ns)
            drop(claims, &claims->list[i]);
    return claims->count < before;
}

/* ---- what holds for all scripts ---- */

static int64_t expiry(const struct store_claim *claim, int64_t now_ns)
{
    if (mutant == MUTANT_IMMORTAL_READER && claim->share == TORTURE_SHARED)
        return TORTURE_NEVER;
    return now_ns + claim->lease_ns;
}

/* Who waits in a queue is granted the lock by whoever leaves it: nobody overtakes him on the way.
 */
static void hand_over(struct store_command *command)
{
    struct store_value *value = command->value;
    unsigned next = mutant == MUTANT_UNFAIR ? value->waiters.count - 1 : 0;
    struct store_claim *holder;

    if (value->holders.count || !value->waiters.count)
        return;
    holder = add(&value->holders, &value->waiters.list[next]);
    drop(&value->waiters, &value->waiters.list[next]);
    holder->token = ++value->token;
    holder->expires_ns = expiry(holder, command->now_ns);
    command->tells = true;
}

static struct store_command begin(struct store *store, const char *name)
{
    struct store_command command = store_begin(store, name);

    if (drop_expired(&command.value->holders, command.now_ns))
        command.tells = true;
    drop_expired(&command.value->waiters, command.now_ns);
    hand_over(&command);
    return command;
}

static void commit(struct store_command *command, struct store_answer *ret,
                   struct store_answer answer)
{
    store_commit(command);
    *ret = answer;
}

/* ---- taking ---- */

static bool conflicts(enum torture_share a, enum torture_share b)
{
    if (a == TORTURE_SHARED || b == TORTURE_SHARED)
        return a == TORTURE_EXCLUSIVE || b == TORTURE_EXCLUSIVE;
    return true;
}

static bool fits(const struct store_value *value, const struct store_question *question)
{
    uint32_t out = question->permits;

    for (unsigned i = 0; i < value->holders.count; i++) {
        const struct store_claim *holder = &value->holders.list[i];
        if (question->shares && conflicts(holder->share, question->share))
            return false;
        out += question->shares ? 0 : holder->permits;
    }
    return out <= question->limit && !value->waiters.count;
}

/* A writer has a number of his own, a reader that of the last writer. */
static void grant(struct store_command *command, const struct store_claim *claim)
{
    struct store_value *value = command->value;
    struct store_claim *holder = add(&value->holders, claim);

    value->token += claim->share != TORTURE_SHARED;
    holder->token = value->token;
}

static void stand_in_line(struct store_command *command, const struct store_claim *claim)
{
    struct store_claims *waiters = &command->value->waiters;
    struct store_claim *waiter = find(waiters, claim->owner);

    if (!waiter && waiters->count < STORE_CLAIMS)
        waiter = add(waiters, claim);
    if (waiter)
        waiter->expires_ns = command->now_ns + claim->lease_ns;
}

static int64_t next_change(const struct store_command *command, const struct store_claim *claim)
{
    /* Whoever waits in the queue shows that he is alive. */
    int64_t first_ns = command->now_ns + claim->lease_ns / 3;

    for (unsigned i = 0; i < command->value->holders.count; i++)
        if (command->value->holders.list[i].expires_ns < first_ns)
            first_ns = command->value->holders.list[i].expires_ns;
    return first_ns;
}

void script_take(struct store *store, const char *name, const struct store_question *question,
                 struct store_answer *ret)
{
    struct store_command command = begin(store, name);
    const struct store_claim claim = { .owner = question->owner,
                                       .lease_ns = question->lease_ns,
                                       .permits = question->permits,
                                       .share = question->share };
    struct store_claim *mine;

    if (!find(&command.value->holders, claim.owner) &&
        (question->unchecked || fits(command.value, question)))
        grant(&command, &claim);
    mine = find(&command.value->holders, claim.owner);
    if (mine)
        mine->expires_ns = question->immortal ? TORTURE_NEVER : expiry(&claim, command.now_ns);
    else if (question->queues)
        stand_in_line(&command, &claim);
    commit(&command, ret,
           (struct store_answer){ .yes = mine != NULL,
                                  .token = mine ? mine->token : 0,
                                  .retry_ns = next_change(&command, &claim) });
}

void script_look(struct store *store, const char *name, const struct store_question *question,
                 struct store_answer *ret)
{
    struct store_command command = begin(store, name);
    const struct store_claim claim = { .lease_ns = question->lease_ns };

    commit(&command, ret,
           (struct store_answer){ .yes = fits(command.value, question),
                                  .retry_ns = next_change(&command, &claim) });
}

void script_draw(struct store *store, const char *name, const struct store_question *question,
                 struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    (void)question;
    commit(&command, ret, (struct store_answer){ .yes = true, .token = ++command.value->token });
}

/* ---- giving back ---- */

void script_give(struct store *store, const char *name, const struct store_question *question,
                 struct store_answer *ret)
{
    struct store_command command = begin(store, name);
    bool held = drop_owner(&command.value->holders, question->owner);

    drop_owner(&command.value->waiters, question->owner);
    hand_over(&command);
    command.tells |= held;
    commit(&command, ret, (struct store_answer){ .yes = held });
}

void script_delete(struct store *store, const char *name, const struct store_question *question,
                   struct store_answer *ret)
{
    struct store_command command = begin(store, name);
    bool held = command.value->holders.count > 0;

    (void)question;
    command.value->holders.count = 0;
    hand_over(&command);
    command.tells |= held;
    commit(&command, ret, (struct store_answer){ .yes = held });
}

/* ---- while it is held ---- */

void script_is_owner(struct store *store, const char *name, const struct store_question *question,
                     struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    commit(&command, ret,
           (struct store_answer){ .yes = find(&command.value->holders, question->owner) });
}

static void prolong(struct store_command *command, struct store_claim *holder,
                    const struct store_question *question, struct store_answer *ret)
{
    if (holder) {
        holder->lease_ns = question->lease_ns;
        holder->expires_ns = expiry(holder, command->now_ns);
    }
    commit(command, ret, (struct store_answer){ .yes = holder != NULL });
}

void script_renew(struct store *store, const char *name, const struct store_question *question,
                  struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    prolong(&command, find(&command.value->holders, question->owner), question, ret);
}

void script_extend(struct store *store, const char *name, const struct store_question *question,
                   struct store_answer *ret)
{
    struct store_command command = begin(store, name);
    struct store_claims *holders = &command.value->holders;

    prolong(&command, holders->count ? holders->list : NULL, question, ret);
}

void script_upgrade(struct store *store, const char *name, const struct store_question *question,
                    struct store_answer *ret)
{
    struct store_command command = begin(store, name);
    struct store_claim *mine = find(&command.value->holders, question->owner);
    bool alone = mine && command.value->holders.count == 1;

    if (alone) {
        mine->share = TORTURE_EXCLUSIVE;
        mine->token = ++command.value->token;
    }
    commit(&command, ret,
           (struct store_answer){ .yes = alone,
                                  .token = alone ? mine->token : 0,
                                  .held = mine != NULL,
                                  .retry_ns = command.now_ns + question->lease_ns / 3 });
}

void script_downgrade(struct store *store, const char *name, const struct store_question *question,
                      struct store_answer *ret)
{
    struct store_command command = begin(store, name);
    struct store_claim *mine = find(&command.value->holders, question->owner);

    if (mine) {
        mine->share = TORTURE_SHARED;
        mine->expires_ns = expiry(mine, mine->expires_ns - mine->lease_ns);
        command.tells = true;
    }
    commit(&command, ret, (struct store_answer){ .yes = mine != NULL });
}

/* ---- latches ---- */

void script_latch_set(struct store *store, const char *name, const struct store_question *question,
                      struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    command.value->count = question->permits;
    commit(&command, ret, (struct store_answer){ .yes = true });
}

void script_latch_down(struct store *store, const char *name, const struct store_question *question,
                       struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    (void)question;
    if (command.value->count > 0 && --command.value->count == 0)
        command.tells = true;
    commit(&command, ret, (struct store_answer){ .yes = true });
}

void script_latch_is_open(struct store *store, const char *name,
                          const struct store_question *question, struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    (void)question;
    commit(&command, ret,
           (struct store_answer){ .yes = command.value->count == 0, .retry_ns = TORTURE_NEVER });
}

/* ---- the end ---- */

void script_count(struct store *store, const char *name, const struct store_question *question,
                  struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    (void)question;
    commit(&command, ret,
           (struct store_answer){ .yes = true,
                                  .held = command.value->holders.count,
                                  .waiting = command.value->waiters.count });
}

void script_forget(struct store *store, const char *name, const struct store_question *question,
                   struct store_answer *ret)
{
    struct store_command command = begin(store, name);

    (void)question;
    *command.value = (struct store_value){ 0 };
    commit(&command, ret, (struct store_answer){ .yes = true });
}
