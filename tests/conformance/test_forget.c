/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting a name that is free: what is in use stays, and tokens rise all the same. */
#include "conformance.h"

#include <stdatomic.h>
#include <stdio.h>

static hf_client *open_with_tokens(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_TOKEN);
    return client;
}

/* A database keeps a name for a second, so that rounds are few there. */
#define ENOUGH_MS 6000

TEST(token_after_forgetting_is_larger)
{
    hf_client *clients[2] = { open_with_tokens(), open_client() };
    uint64_t last = 0;

    int64_t began_ms = monotonic_ms();
    for (int i = 0; i < 4 || (i < 100 && monotonic_ms() - began_ms < ENOUGH_MS); i++) {
        hf_hold *hold = take(clients[i % 2], name_of("one"), HF_MUTEX, 0);
        CHECK(hf_token(hold) > last);
        last = hf_token(hold);
        give_back(hold);
        CHECK_CODE(hf_forget(clients[i / 2 % 2], name_of("one")), HF_OK);
    }
    hf_close(clients[0]);
    hf_close(clients[1]);
}

TEST(name_that_never_was_is_forgotten)
{
    hf_client *client = open_client();

    CHECK_CODE(hf_forget(client, name_of("never")), HF_OK);
    hf_close(client);
}

TEST(held_name_is_not_forgotten)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE };
    hf_client *client = open_client(), *other = open_client();

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        char name[160];
        snprintf(name, sizeof(name), "%s-%zu", name_of("held"), i);
        if (probe(client, name, modes[i], 0) == HF_ENOTSUP)
            continue;
        hf_hold *hold = take(client, name, modes[i], 0);
        CHECK_CODE(hf_forget(other, name), HF_BUSY);
        CHECK_CODE(hf_forget(client, name), HF_BUSY);
        CHECK(hf_held(hold));
        CHECK_CODE(probe(other, name, modes[i] == HF_READ ? HF_WRITE : modes[i], 0), HF_BUSY);
        give_back(hold);
        CHECK_CODE(hf_forget(other, name), HF_OK);
    }
    hf_close(client);
    hf_close(other);
}

TEST(waiter_is_served_after_forgetting_was_refused)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };

    need(client, HF_CAP_FAIR | HF_CAP_INSPECT);
    hf_hold *hold = take(client, name_of("one"), HF_FAIR, 0), *next;
    uint64_t token = hf_token(hold);
    begin_wait(other, name_of("one"), HF_FAIR, &outcome);
    EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
    CHECK_CODE(hf_forget(client, name_of("one")), HF_BUSY);
    CHECK_INT(waiters(client, name_of("one")), 1);
    give_back(hold);
    next = await_grant(&outcome);
    CHECK(hf_token(next) > token);
    give_back(next);
    CHECK_CODE(hf_forget(client, name_of("one")), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(semaphore_counter_and_latch_are_not_forgotten)
{
    hf_client *client = open_client();
    uint32_t value = 0;

    if (hf_caps(client) & HF_CAP_PERMIT) {
        CHECK_CODE(hf_semaphore_set(client, name_of("semaphore"), 3), HF_OK);
        CHECK_CODE(hf_forget(client, name_of("semaphore")), HF_BUSY);
    }
    if (hf_caps(client) & HF_CAP_COUNTER) {
        CHECK_CODE(hf_counter_set(client, name_of("counter"), 3), HF_OK);
        CHECK_CODE(hf_forget(client, name_of("counter")), HF_BUSY);
        CHECK_CODE(hf_counter_get(client, name_of("counter"), &value), HF_OK);
        CHECK_INT(value, 3);
    }
    if (hf_caps(client) & HF_CAP_LATCH) {
        CHECK_CODE(hf_latch_set(client, name_of("latch"), 3), HF_OK);
        CHECK_CODE(hf_forget(client, name_of("latch")), HF_BUSY);
        CHECK_CODE(hf_latch_get(client, name_of("latch"), &value), HF_OK);
        CHECK_INT(value, 3);
    }
    hf_close(client);
}

/* ---- many at once ---- */

enum { CROWD = 8, ROUNDS = 60 };

struct crowd {
    hf_client *clients[2];
    _Atomic int owners;
    _Atomic uint64_t last_token;
    _Atomic int forgotten;
};

static void lock_and_forget(void *arg, int index)
{
    struct crowd *crowd = arg;
    hf_client *client = crowd->clients[index % 2];

    int64_t began_ms = monotonic_ms();
    for (int i = 0; i < 4 || (i < ROUNDS && monotonic_ms() - began_ms < ENOUGH_MS); i++) {
        hf_hold *hold;
        CHECK_CODE(hf_lock(client, name_of("one"), HF_FOREVER, NULL, &hold), HF_OK);
        CHECK_INT(++crowd->owners, 1);
        CHECK(hf_token(hold) > crowd->last_token);
        crowd->last_token = hf_token(hold);
        crowd->owners--;
        give_back(hold);
        int code = hf_forget(client, name_of("one"));
        if (code != HF_BUSY)
            CHECK_CODE(code, HF_OK);
        crowd->forgotten += code == HF_OK;
    }
}

TEST(crowd_that_forgets_has_one_owner_and_rising_tokens)
{
    struct crowd crowd = { .clients = { open_with_tokens(), open_client() } };

    threads_run(CROWD, lock_and_forget, &crowd);
    CHECK(crowd.forgotten > 0);
    hf_close(crowd.clients[0]);
    hf_close(crowd.clients[1]);
}
