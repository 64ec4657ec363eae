/* SPDX-License-Identifier: Apache-2.0 */
/* Many: holds, names and requests by the hundred thousand in one process. */
#include "conformance.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* A server is asked each time, and its part in this is the same for each. */
static int many(void)
{
    if (store_has_sessions())
        return 4000;
    return store_is_local() ? 200000 : 20000;
}

static void name_number(char *name, size_t size, int number)
{
    snprintf(name, size, "many/%d", number);
}

TEST(holds_by_the_hundred_thousand)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold **holds = calloc(many(), sizeof(*holds));
    char name[40];

    TEST_TIMEOUT(240);
    CHECK(holds != NULL);
    for (int i = 0; i < many(); i++) {
        name_number(name, sizeof(name), i);
        holds[i] = take(client, name, HF_MUTEX, 0);
    }
    for (int i = 0; i < many(); i += 997) {
        name_number(name, sizeof(name), i);
        CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_BUSY);
        CHECK(hf_held(holds[i]));
    }
    for (int i = 0; i < many(); i++)
        give_back(holds[i]);
    for (int i = 0; i < many(); i += 997) {
        name_number(name, sizeof(name), i);
        CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_OK);
    }
    free(holds);
    hf_close(client);
    hf_close(other);
}

TEST(closing_with_many_holds)
{
    hf_client *client = open_client(), *other = open_client();
    char name[40];

    TEST_TIMEOUT(240);
    for (int i = 0; i < many() / 4; i++) {
        name_number(name, sizeof(name), i);
        take(client, name, HF_MUTEX, 0);
    }
    hf_close(client);
    for (int i = 0; i < many() / 4; i += 997) {
        name_number(name, sizeof(name), i);
        CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_OK);
    }
    hf_close(other);
}

TEST(dying_with_many_holds)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_client();
    hf_hold *hold;
    char name[40];

    TEST_TIMEOUT(240);
    if (!store_is_local())
        SKIP("dying takes a lease to show on this store");
    for (int i = 0; i < many() / 4; i++) {
        name_number(name, sizeof(name), i);
        CHECK_CODE(peer_lock(&peer, 0, name, 0, NULL), HF_OK);
    }
    child_kill(&peer.child);
    for (int i = 0; i < many() / 4; i += 97) {
        name_number(name, sizeof(name), i);
        CHECK_CODE(hf_lock(client, name, SOON_MS, NULL, &hold), HF_OK);
        give_back(hold);
    }
    hf_close(client);
}

TEST(ten_thousand_readers_of_one_name)
{
    static hf_hold *holds[10000];
    /* Where each asks for the whole queue, this is a matter of squares. */
    const int readers = store_has_sessions() ? 500 : 10000;
    hf_client *client = open_client(), *other = open_client();

    TEST_TIMEOUT(240);
    need(client, HF_CAP_RW);
    for (int i = 0; i < readers; i++)
        holds[i] = take(client, name_of("rw"), HF_READ, (uint64_t)i + 1);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_BUSY);
    if (hf_caps(client) & HF_CAP_INSPECT)
        CHECK_INT(holders(client, name_of("rw")), readers);
    for (int i = 0; i < readers; i++)
        give_back(holds[i]);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(one_name_nested_a_hundred_thousand_deep)
{
    enum { DEPTH = 100000 };
    hf_hold **holds = calloc(DEPTH, sizeof(*holds));
    hf_client *client = open_client(), *other = open_client();

    TEST_TIMEOUT(240);
    CHECK(holds != NULL);
    for (int i = 0; i < DEPTH; i++)
        holds[i] = take(client, name_of("one"), HF_MUTEX, 0);
    for (int i = 0; i < DEPTH; i++) {
        CHECK(i % 9973 != 0 || probe(other, name_of("one"), HF_MUTEX, 0) == HF_BUSY);
        give_back(holds[i]);
    }
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    free(holds);
    hf_close(client);
    hf_close(other);
}

static void count_done(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)error;
    CHECK_CODE(code, HF_OK);
    hf_unlock_nowait(hold);
    ++*(_Atomic int *)arg;
}

TEST(requests_by_the_ten_thousand_at_once)
{
    _Atomic int done = 0;
    hf_client *client = open_client();
    char name[40];

    TEST_TIMEOUT(240);
    for (int i = 0; i < many() / 4; i++) {
        name_number(name, sizeof(name), i % 1000);
        CHECK_CODE(hf_lock_async(client, name, HF_FOREVER, NULL, count_done, &done, NULL), HF_OK);
    }
    EVENTUALLY(done == many() / 4, SOON_MS);
    hf_close(client);
}

TEST(ten_thousand_names_are_locked_and_released_at_once)
{
    TEST_TIMEOUT(240);
    lock_and_unlock_many(many() < 10000 ? many() : 10000);
}

/* ---- a crowd of holds on a lease that has to be renewed, several times ---- */

enum { CROWD = 3000, BROKEN_EVERY = 101, NESTED_EVERY = 7, THREADS = 6 };

struct crowd {
    hf_hold *holds[CROWD], *nested[CROWD];
    _Atomic int losses[CROWD];
    _Atomic bool unlocked[CROWD];
};

static bool is_broken(int i)
{
    return i % BROKEN_EVERY == 5;
}

static void take_crowd(hf_client *client, struct crowd *crowd)
{
    char name[40];
    for (int i = 0; i < CROWD; i++) {
        const hf_lock_options *options =
            LOCK_OPTIONS(.owner = (uint64_t)i + 1, .on_lost = count_loss,
                         .lost_arg = &crowd->losses[i]);
        name_number(name, sizeof(name), i);
        CHECK_CODE(hf_lock(client, name, 0, options, &crowd->holds[i]), HF_OK);
        if (i % NESTED_EVERY == 0)
            crowd->nested[i] = take(client, name, HF_MUTEX, (uint64_t)i + 1);
    }
}

static void break_some(hf_client *other)
{
    char name[40];
    for (int i = 0; i < CROWD; i++) {
        uint32_t count = 0;
        name_number(name, sizeof(name), i);
        if (!is_broken(i))
            continue;
        CHECK_CODE(hf_break(other, name, NULL, &count), HF_OK);
        CHECK_INT(count, 1);
    }
}

/* From different ends, and each in another order: every hold once. */
static void unlock_some(void *arg, int thread)
{
    struct crowd *crowd = arg;
    for (int n = 0; n < CROWD; n++) {
        int i = (n * (2 * thread + 1) * 7 + thread * 500) % CROWD;
        if (atomic_exchange(&crowd->unlocked[i], true))
            continue;
        int wanted = is_broken(i) ? HF_LOST : HF_OK;
        CHECK_CODE(hf_unlock(crowd->holds[i]), wanted);
        if (crowd->nested[i])
            CHECK_CODE(hf_unlock(crowd->nested[i]), wanted);
    }
}

static int count_held(const struct crowd *crowd)
{
    int held = 0;
    for (int i = 0; i < CROWD; i++)
        held += hf_held(crowd->holds[i]);
    return held;
}

static int count_losses(const struct crowd *crowd)
{
    int losses = 0;
    for (int i = 0; i < CROWD; i++)
        losses += crowd->losses[i];
    return losses;
}

TEST(a_crowd_of_holds_is_renewed_lost_and_given_back)
{
    static struct crowd crowd;
    int broken = 0;
    char name[40];
    client_lease_ms = (int64_t)6000 * test_slow();
    hf_client *client = open_client();
    client_lease_ms = 0;
    hf_client *other = open_client();

    TEST_TIMEOUT(240);
    if (store_is_local() || store_has_sessions())
        SKIP("no lease of its own is behind each lock of this store");
    need(client, HF_CAP_BREAK);
    take_crowd(client, &crowd);
    break_some(other);
    for (int i = 0; i < CROWD; i++)
        broken += is_broken(i);
    let_pass_ms((int64_t)8000 * test_slow());
    EVENTUALLY(count_losses(&crowd) == broken, SOON_MS);
    CHECK_INT(count_held(&crowd), CROWD - broken);
    threads_run(THREADS, unlock_some, &crowd);
    for (int i = 0; i < CROWD; i++)
        CHECK_INT(crowd.losses[i], is_broken(i));
    for (int i = 0; i < CROWD; i += 97) {
        name_number(name, sizeof(name), i);
        CHECK_CODE(probe(other, name, HF_MUTEX, 0), HF_OK);
    }
    hf_close(client);
    hf_close(other);
}
