/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that die or stand still: their things are freed, and nobody waits for the dead. */
#include "conformance.h"

#include <signal.h>

#define LEASE_MS ((int64_t)3000 * test_slow())

static void need_death_seen(void)
{
    store_url();
    if (!store_is_local())
        SKIP("dying takes a lease to show on this store");
}

TEST(a_killed_holder_frees_its_waiter)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    hf_client *client;
    uint64_t last = 0;

    need_death_seen();
    for (int i = 0; i < 9; i++) {
        struct peer peer;
        hf_hold *hold;
        peer_start(&peer);
        CHECK_CODE(peer_lock(&peer, 0, name_of("one"), 0, LOCK_OPTIONS(.mode = modes[i % 3])),
                   HF_OK);
        CHECK(peer.token > last);
        client = open_client();
        child_signal(&peer.child, SIGKILL);
        CHECK_CODE(
            hf_lock(client, name_of("one"), SOON_MS, LOCK_OPTIONS(.mode = modes[i % 3]), &hold),
            HF_OK);
        CHECK(hf_token(hold) > peer.token);
        last = hf_token(hold);
        give_back(hold);
        child_wait(&peer.child);
        hf_close(client);
    }
}

TEST(a_blocked_waiter_notices_the_death)
{
    struct peer holder, waiter;
    hf_client *client;

    need_death_seen();
    for (int i = 0; i < 10; i++) {
        peer_start(&holder);
        peer_start(&waiter);
        client = open_client();
        CHECK_CODE(peer_lock(&holder, 0, name_of("one"), 0, NULL), HF_OK);
        peer_begin(&waiter, 0, name_of("one"), HF_FOREVER, NULL);
        EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
        child_kill(&holder.child);
        CHECK_CODE(peer_answer(&waiter), HF_OK);
        CHECK(waiter.token > holder.token);
        CHECK_CODE(peer_unlock(&waiter, 0), HF_OK);
        peer_end(&waiter);
        hf_close(client);
    }
}

TEST(an_asynchronous_waiter_notices_the_death)
{
    need_death_seen();
    for (int i = 0; i < 10; i++) {
        struct peer holder;
        struct outcome outcome = { 0 };
        peer_start(&holder);
        hf_client *client = open_client();
        CHECK_CODE(peer_lock(&holder, 0, name_of("one"), 0, NULL), HF_OK);
        CHECK_CODE(
            hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, NULL),
            HF_OK);
        EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
        child_kill(&holder.child);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_OK);
        give_back(outcome.hold);
        hf_close(client);
    }
}

TEST(a_dead_waiter_at_the_head_stalls_nobody)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    struct peer dying, next;
    hf_client *client;

    need_death_seen();
    for (int i = 0; i < 9; i++) {
        const hf_lock_options *options = LOCK_OPTIONS(.mode = modes[i % 3]);
        peer_start(&dying);
        peer_start(&next);
        client = open_client();
        hf_hold *hold = take(client, name_of("one"), modes[i % 3], 0);
        peer_begin(&dying, 0, name_of("one"), HF_FOREVER, options);
        EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
        peer_begin(&next, 0, name_of("one"), HF_FOREVER, options);
        EVENTUALLY(waiters(client, name_of("one")) == 2, SOON_MS);
        child_kill(&dying.child);
        give_back(hold);
        CHECK_CODE(peer_answer(&next), HF_OK);
        CHECK_CODE(peer_unlock(&next, 0), HF_OK);
        check_nothing_left(client, name_of("one"));
        hf_close(client);
        peer_end(&next);
    }
}

/* The signal and the hand-over at about the same time. */
TEST(a_waiter_dies_while_it_is_granted)
{
    struct peer dying, next;
    hf_client *client;

    need_death_seen();
    for (int i = 0; i < 10; i++) {
        const hf_lock_options *options = LOCK_OPTIONS(.mode = HF_FAIR);
        peer_start(&dying);
        peer_start(&next);
        client = open_client();
        hf_hold *hold = take(client, name_of("one"), HF_FAIR, 0);
        peer_begin(&dying, 0, name_of("one"), HF_FOREVER, options);
        EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
        peer_begin(&next, 0, name_of("one"), HF_FOREVER, options);
        EVENTUALLY(waiters(client, name_of("one")) == 2, SOON_MS);
        child_signal(&dying.child, SIGSTOP);
        give_back(hold);
        child_signal(&dying.child, SIGKILL);
        CHECK_CODE(peer_answer(&next), HF_OK);
        CHECK_CODE(peer_unlock(&next, 0), HF_OK);
        child_wait(&dying.child);
        hf_close(client);
        peer_end(&next);
    }
}

TEST(a_stopped_waiter_of_a_mutex_stalls_nobody)
{
    struct peer stopped;
    peer_start(&stopped);
    hf_client *client = open_client(), *other = open_client();

    need(client, HF_CAP_INSPECT);
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    peer_begin(&stopped, 0, name_of("one"), HF_FOREVER, NULL);
    EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
    child_stop(&stopped.child);
    give_back(hold);
    for (int i = 0; i < 20; i++) {
        CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
        give_back(hold);
    }
    child_continue(&stopped.child);
    CHECK_CODE(peer_answer(&stopped), HF_OK);
    CHECK_CODE(peer_unlock(&stopped, 0), HF_OK);
    hf_close(client);
    hf_close(other);
    peer_end(&stopped);
}

TEST(a_stopped_holder_is_still_the_holder)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_client();
    hf_hold *hold;

    if (!store_is_local())
        SKIP("this store's leases run on while a process stands still");
    CHECK_CODE(peer_lock(&peer, 0, name_of("one"), 0, NULL), HF_OK);
    child_stop(&peer.child);
    CHECK_CODE(hf_lock(client, name_of("one"), 1500, NULL, &hold), HF_BUSY);
    child_continue(&peer.child);
    CHECK(peer_held(&peer, 0));
    CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
    peer_end(&peer);
}

/* It has overslept its lease: when it wakes it must know before it acts. */
TEST(a_stopped_holder_that_lost_its_lease_knows)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_client();
    hf_hold *hold;

    /* Where it is the session that ends, each round takes as long as that. */
    TEST_TIMEOUT(120);
    for (int i = 0; i < (store_has_sessions() ? 2 : 5); i++) {
        CHECK_CODE(
            peer_lock(&peer, 0, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(200))),
            HF_OK);
        child_stop(&peer.child);
        CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
        child_continue(&peer.child);
        CHECK(!peer_held(&peer, 0));
        CHECK_CODE(peer_unlock(&peer, 0), HF_LOST);
        CHECK(hf_held(hold));
        give_back(hold);
    }
    hf_close(client);
    peer_end(&peer);
}

TEST(a_dead_readers_share_is_freed)
{
    struct peer readers[2];
    hf_client *client;
    hf_hold *hold;

    need_death_seen();
    for (int i = 0; i < 2; i++) {
        peer_start(&readers[i]);
        CHECK_CODE(peer_lock(&readers[i], 0, name_of("one"), 0, LOCK_OPTIONS(.mode = HF_READ)),
                   HF_OK);
    }
    client = open_client();
    child_kill(&readers[0].child);
    CHECK_IN_VAIN(hf_lock(client, name_of("one"), 200, LOCK_OPTIONS(.mode = HF_WRITE), &hold));
    child_kill(&readers[1].child);
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, LOCK_OPTIONS(.mode = HF_WRITE), &hold),
               HF_OK);
    give_back(hold);
    hf_close(client);
}

/* ---- leases that end with their holders ---- */

/* Somebody holds a name, and is waited for. */
struct contest {
    const char *stem;
    hf_mode held, wanted;
    unsigned cap;
    struct peer holder;
    struct outcome next;
};

static bool is_had(const hf_client *client, const struct contest *contest)
{
    return hf_caps(client) & contest->cap;
}

static void contend(hf_client *client, struct contest *contest)
{
    CHECK_CODE(peer_lock(&contest->holder, 0, name_of(contest->stem), 0,
                         LOCK_OPTIONS(.mode = contest->held)),
               HF_OK);
    CHECK_CODE(hf_lock_async(client, name_of(contest->stem), HF_FOREVER,
                             LOCK_OPTIONS(.mode = contest->wanted), record_outcome, &contest->next,
                             NULL),
               HF_OK);
}

static void kill_holder(struct contest *contest)
{
    CHECK_INT(contest->next.calls, 0);
    CHECK(peer_held(&contest->holder, 0));
    child_kill(&contest->holder.child);
}

static void check_succession(hf_client *client, struct contest *contest)
{
    EVENTUALLY(contest->next.calls > 0, LEASE_MS + 8000);
    CHECK_CODE(contest->next.code, HF_OK);
    CHECK(contest->held == HF_READ || hf_token(contest->next.hold) > contest->holder.token ||
          !(hf_caps(client) & HF_CAP_TOKEN));
    give_back(contest->next.hold);
}

/* What is renewed is held for as long as its holder lives, and not much longer. */
TEST(a_lease_is_renewed_until_the_holder_dies)
{
    static struct contest contests[] = {
        { .stem = "mutex", .held = HF_MUTEX, .wanted = HF_MUTEX, .cap = HF_CAP_MUTEX },
        { .stem = "fair", .held = HF_FAIR, .wanted = HF_FAIR, .cap = HF_CAP_FAIR },
        { .stem = "write", .held = HF_WRITE, .wanted = HF_WRITE, .cap = HF_CAP_RW },
        { .stem = "read", .held = HF_READ, .wanted = HF_WRITE, .cap = HF_CAP_RW },
    };
    enum { CONTESTS = sizeof(contests) / sizeof(contests[0]) };

    TEST_TIMEOUT(60 + 60 * test_slow());
    client_lease_ms = LEASE_MS;
    for (int i = 0; i < CONTESTS; i++)
        peer_start(&contests[i].holder);
    hf_client *client = open_client();
    for (int i = 0; i < CONTESTS; i++) {
        if (is_had(client, &contests[i]))
            contend(client, &contests[i]);
        else
            peer_end(&contests[i].holder);
    }
    let_pass_ms(3 * LEASE_MS);
    for (int i = 0; i < CONTESTS; i++)
        if (is_had(client, &contests[i]))
            kill_holder(&contests[i]);
    for (int i = 0; i < CONTESTS; i++)
        if (is_had(client, &contests[i]))
            check_succession(client, &contests[i]);
    hf_close(client);
}
