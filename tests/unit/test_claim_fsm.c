/* SPDX-License-Identifier: Apache-2.0 */
/* The wait loop's table: every state with every event and every answer, in every condition that the
 * step looks at. Nothing leaves the table, and what is to be done fits where the claim went. */
#include "core/claim/claim_fsm.h"

#include "test.h"

#include <stdlib.h>

#define BIT(state) (1u << (state))
#define QUEUED BIT(HF_CLAIM_QUEUED)
#define ASKING BIT(HF_CLAIM_ASKING)
#define WAITING BIT(HF_CLAIM_WAITING)
#define HELD BIT(HF_CLAIM_HELD)
#define LEAVING BIT(HF_CLAIM_LEAVING)
#define OVER BIT(HF_CLAIM_OVER)

/* Where an event may lead. 0: it changes nothing. */
/* clang-format off */
static const unsigned table[][HF_ON_LEASE_LOST + 1] = {
    [HF_CLAIM_QUEUED]  = { [HF_ON_TURN] = ASKING, [HF_ON_RETRY] = ASKING,
                           [HF_ON_DEADLINE] = OVER, [HF_ON_END] = OVER },
    [HF_CLAIM_ASKING]  = { [HF_ON_ANSWER] = ASKING | WAITING | HELD | LEAVING | OVER },
    [HF_CLAIM_WAITING] = { [HF_ON_WAKE] = ASKING, [HF_ON_RETRY] = ASKING,
                           [HF_ON_DEADLINE] = LEAVING, [HF_ON_END] = LEAVING,
                           [HF_ON_LEASE_LOST] = ASKING | LEAVING },
    [HF_CLAIM_HELD]    = { [HF_ON_UPGRADE] = ASKING, [HF_ON_DOWNGRADE] = LEAVING },
    [HF_CLAIM_LEAVING] = { [HF_ON_ANSWER] = LEAVING | HELD | ASKING | OVER },
    [HF_CLAIM_OVER]    = { 0 },
};

static const unsigned answers[][HF_FAILED + 1] = {
    [HF_CLAIM_ASKING]  = { [HF_GRANTED] = HELD | LEAVING | OVER,
                           [HF_REFUSED] = WAITING | ASKING | LEAVING | HELD | OVER,
                           [HF_NO_ANSWER] = WAITING | LEAVING,
                           [HF_FAILED] = HELD | OVER },
    [HF_CLAIM_LEAVING] = { [HF_GONE] = OVER | HELD | ASKING,
                           [HF_NO_ANSWER] = LEAVING | HELD | OVER | ASKING,
                           [HF_FAILED] = HELD | OVER },
};
/* clang-format on */

/* The conditions, a bit each. */
enum {
    ENQUEUES = 1,
    TOLD = 2,
    GIVEN_UP = 4,
    WOKEN = 8,
    AGAIN = 16,
    HOLDS = 32,
    LEASED = 64,
    LEASE_OVER = 128,
    LATE = 256,
    CONDITIONS = 512
};

static struct hf_client *client;
static struct hf_claim claim;
static struct hf_shard shard = { .mutex = PTHREAD_MUTEX_INITIALIZER };
static struct hf_lock_entry entry;
static struct hf_grant grant;
static unsigned seen[HF_CLAIM_OVER + 1];
static bool place_is_news; /* "queued" or "displaced" was said */

static void hear(void *arg, const char *point, const char *name)
{
    (void)arg, (void)name;
    place_is_news |= strcmp(point, "queued") == 0 || strcmp(point, "displaced") == 0;
}

static void prepare(enum hf_claim_state state, enum hf_verdict verdict, unsigned with)
{
    grant = (struct hf_grant){ .claim = &claim };
    claim = (struct hf_claim){
        .client = client, .shard = &shard, .entry = &entry, .grant = &grant, .state = state
    };
    hf__link_init(&entry.queue);
    claim.op.in.name = "name";
    claim.op.out.verdict = verdict;
    claim.op.in.mode = with & HOLDS ? HF_WRITE : HF_MUTEX;
    claim.op.in.keep = with & HOLDS ? HF_UPGRADE : HF_KEEP_NOTHING;
    claim.op.in.enqueue = with & ENQUEUES;
    claim.completed = with & TOLD;
    claim.leaving = with & GIVEN_UP;
    claim.woken = with & WOKEN;
    claim.again = (with & AGAIN) && state == HF_CLAIM_LEAVING;
    claim.upgrading = with & HOLDS;
    claim.held_mode = claim.store_mode = with & HOLDS ? HF_UPGRADE : HF_KEEP_NOTHING;
    claim.wait_until_ms = with & LATE ? 500 : 5000;
    claim.leave_until_ms = with & LATE ? 500 : 5000;
    claim.op.out.retry_at_ms = 1500;
    claim.op.engine.own_lease.lease_ms = 1000;
    claim.op.engine.own_lease.asked_at_ms = with & LEASE_OVER ? 0 : 900;
    claim.op.out.rests_on = with & LEASED ? &claim.op.engine.own_lease : NULL;
    hf__link_init(&grant.holds);
    place_is_news = false;
}

static void check_actions(enum hf_claim_state before, unsigned actions, unsigned with)
{
    bool moved_on = claim.state != before;
    CHECK(!(actions & HF_DO_COMPLETE) || !(with & TOLD));
    CHECK(!(actions & HF_DO_ASK) || claim.state == HF_CLAIM_ASKING);
    CHECK(!(actions & HF_DO_SLEEP) || claim.state == HF_CLAIM_WAITING);
    CHECK(!(actions & (HF_DO_RELEASE | HF_DO_PAUSE)) || claim.state == HF_CLAIM_LEAVING);
    CHECK(!(actions & HF_DO_FORGET) == !(moved_on && claim.state == HF_CLAIM_OVER));
    if (moved_on && claim.state == HF_CLAIM_ASKING)
        CHECK(actions & HF_DO_ASK);
    if (moved_on && claim.state == HF_CLAIM_WAITING)
        CHECK(actions & HF_DO_SLEEP);
    if (moved_on && claim.state == HF_CLAIM_LEAVING)
        CHECK(actions & HF_DO_RELEASE);
    /* Nobody is left waiting for an answer. */
    if (claim.state == HF_CLAIM_OVER && moved_on)
        CHECK((actions & HF_DO_COMPLETE) || (with & TOLD));
    /* Whose call is over may be in the next one, and takes it for that one's. */
    if (before == HF_CLAIM_ASKING)
        CHECK(!place_is_news || !(with & GIVEN_UP));
}

static void try(enum hf_claim_state state, enum hf_claim_event event, enum hf_verdict verdict,
                unsigned with)
{
    prepare(state, verdict, with);
    unsigned actions = hf__claim_step(&claim, event, 1000);
    unsigned allowed = table[state][event];
    if (event == HF_ON_ANSWER && allowed)
        allowed &= answers[state][verdict];
    if (!allowed)
        allowed = BIT(state);
    if (!(allowed & BIT(claim.state)))
        FAIL("%s, event %d, verdict %d, conditions %u: came to %s", hf__claim_state_name(state),
             (int)event, (int)verdict, with, hf__claim_state_name(claim.state));
    check_actions(state, actions, with);
    seen[state] |= BIT(claim.state);
}

static bool is_possible(enum hf_claim_state state, enum hf_claim_event event,
                        enum hf_verdict verdict, unsigned with)
{
    /* What is held is leased or not before anything is asked; only a raise holds while it asks. */
    if (state == HF_CLAIM_HELD && !(with & HOLDS))
        return false;
    if (state == HF_CLAIM_QUEUED && (with & (HOLDS | TOLD | GIVEN_UP)))
        return false;
    return event != HF_ON_ANSWER || !table[state][event] || answers[state][verdict];
}

TEST(nothing_leaves_the_table)
{
    client = calloc(1, sizeof *client);
    CHECK(client != NULL);
    client->host.lease_ms = 1000;
    client->on_point = hear;
    for (int state = HF_CLAIM_QUEUED; state <= HF_CLAIM_OVER; state++)
        for (int event = HF_ON_TURN; event <= HF_ON_LEASE_LOST; event++)
            for (int verdict = HF_GRANTED; verdict <= HF_FAILED; verdict++)
                for (unsigned with = 0; with < CONDITIONS; with++)
                    if (is_possible(state, event, verdict, with))
                        try(state, event, verdict, with);
    CHECK_INT(seen[HF_CLAIM_QUEUED], QUEUED | ASKING | OVER);
    CHECK_INT(seen[HF_CLAIM_ASKING], ASKING | WAITING | HELD | LEAVING | OVER);
    CHECK_INT(seen[HF_CLAIM_WAITING], WAITING | ASKING | LEAVING);
    CHECK_INT(seen[HF_CLAIM_HELD], HELD | ASKING | LEAVING);
    CHECK_INT(seen[HF_CLAIM_LEAVING], LEAVING | HELD | ASKING | OVER);
    CHECK_INT(seen[HF_CLAIM_OVER], OVER);
    free(client);
}

TEST(each_state_has_a_name)
{
    for (int state = HF_CLAIM_QUEUED; state <= HF_CLAIM_OVER; state++)
        for (int other = HF_CLAIM_QUEUED; other < state; other++)
            CHECK(strcmp(hf__claim_state_name(state), hf__claim_state_name(other)) != 0);
}
