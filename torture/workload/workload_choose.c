/* SPDX-License-Identifier: Apache-2.0 */
/* How a lock is asked for: by which owner, for how long, and what of it. */
#include "torture/workload/workload_hold.h"

/* For the last grant: what is in the way has a lease, or has been told to end. */
enum { CALM_WAIT_MS = 20000, CALM_LEASES = 4 };
enum { OWNERS_OF_THREAD = 8 };

/* How a wait in a crowd that ended without the lock is left at the store is not known for a while,
 * and excuses what is refused meanwhile. So every other lock is spared such waits. */
static int64_t choose_wait_in_crowd(struct torture_client *client, const struct torture_ask *ask)
{
    bool limited = (ask->lock - client->arena->locks) % 2 == 1;

    if (client->tries || torture_chance(&client->dice, 50))
        return 0;
    if (!limited || torture_chance(&client->dice, 50))
        return -1;
    return torture_between(&client->dice, 1, client->plan->lease_ms / 8);
}

static int64_t choose_wait(struct torture_client *client, struct torture_ask *ask)
{
    int64_t lease_ms = client->plan->lease_ms;

    switch (torture_between(&client->dice, 0, 9)) {
    case 0:
    case 1:
    case 2:
        return 0;
    case 3:
        ask->cancel_ms = torture_between(&client->dice, 1, lease_ms / 8);
        return lease_ms * 4;
    case 4:
    case 5:
    case 6:
        return torture_between(&client->dice, 1, lease_ms / 8);
    case 7:
    case 8:
        return torture_between(&client->dice, 1, lease_ms);
    default:
        return torture_between(&client->dice, lease_ms, lease_ms * 4);
    }
}

void torture_choose_owner(struct hold *hold, uint64_t number)
{
    const struct torture_client *client = hold->client;

    hold->ask.owner = client->thread * OWNERS_OF_THREAD + number;
    hold->record.owner = torture_about(client, TORTURE_NO_VERB, 0).owner << 8 | hold->ask.owner;
}

void torture_choose(struct hold *hold, void (*on_lost)(void *arg), bool calm)
{
    struct torture_client *client = hold->client;
    struct torture_ask *ask = &hold->ask;
    struct torture_prng *dice = &client->dice;
    int64_t lease_ms = client->plan->lease_ms;

    ask->lock = hold->lock;
    ask->permits = 1;
    uint64_t owner = (uint64_t)torture_between(dice, 1, TORTURE_OWNERS);
    ask->on_lost = on_lost;
    ask->lost_arg = hold;
    if (hold->lock->form == TORTURE_RW)
        ask->share = (enum torture_share)torture_between(
            dice, 0, client->subject->upgrade ? TORTURE_UPGRADABLE : TORTURE_SHARED);
    if (hold->lock->form == TORTURE_SEMAPHORE)
        ask->permits = (uint32_t)torture_between(dice, 1, hold->lock->permits);
    if (torture_chance(dice, 60))
        ask->lease_ms = torture_between(dice, lease_ms * 6 / 10, lease_ms * 2);
    if (calm)
        ask->wait_ms =
            (client->plan->calm_ms ? client->plan->calm_ms : CALM_WAIT_MS) + lease_ms * CALM_LEASES;
    else
        ask->wait_ms =
            client->thread > 0 ? choose_wait_in_crowd(client, ask) : choose_wait(client, ask);
    hold->record =
        torture_about(client, TORTURE_NO_VERB, (uint16_t)(hold->lock - client->arena->locks));
    hold->record.mode = (uint8_t)ask->share;
    hold->record.permits = ask->permits;
    torture_choose_owner(hold, owner);
}
