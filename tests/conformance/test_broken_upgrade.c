/* SPDX-License-Identifier: Apache-2.0 */
/* Upgrades that something comes in between of: a break, or the hold being given back. */
#include "conformance.h"

static hf_client *open_all(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_BREAK);
    return client;
}

static void break_the_upgrader(hf_client *client)
{
    const struct picture *picture = look(client, name_of("rw"));
    uint32_t count = 0;

    for (int i = 0; i < picture->count; i++)
        if (picture->seen[i].role == HF_ROLE_HOLDER && picture->seen[i].mode == HF_UPGRADE)
            CHECK_CODE(hf_break(client, name_of("rw"), picture->seen[i].owner_key, &count), HF_OK);
    CHECK_INT(count, 1);
}

static hf_hold *take_upgrade(hf_client *client, _Atomic int *losses)
{
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, name_of("rw"), 0,
                       LOCK_OPTIONS(.mode = HF_UPGRADE, .owner = 1, .on_lost = count_loss,
                                    .lost_arg = losses),
                       &hold),
               HF_OK);
    return hold;
}

/* The hold that was broken is not held, says so once, and others may write. */
static void check_was_lost(hf_client *other, hf_hold *hold, _Atomic int *losses)
{
    CHECK(!hf_held(hold));
    EVENTUALLY(*losses == 1, SOON_MS);
    hf_hold *writer = take(other, name_of("rw"), HF_WRITE, 3);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(hf_held(writer));
    give_back(writer);
    CHECK_INT(*losses, 1);
    check_nothing_left(other, name_of("rw"));
}

struct upgrade {
    hf_hold *hold;
    int code;
};

static void upgrade_in_thread(void *arg)
{
    struct upgrade *upgrade = arg;

    upgrade->code = hf_upgrade(upgrade->hold, HF_FOREVER);
}

/* A hold that is broken while a thread waits to upgrade it is lost like any other. */
TEST(a_break_during_an_upgrade_is_a_loss)
{
    hf_client *client = open_all(), *other = open_client();
    _Atomic int losses = 0;
    struct upgrade upgrade = { 0 };
    struct thread thread;
    hf_hold *reader = take(other, name_of("rw"), HF_READ, 1);

    upgrade.hold = take_upgrade(client, &losses);
    thread_start(&thread, upgrade_in_thread, &upgrade);
    EVENTUALLY(probe(other, name_of("rw"), HF_READ, 2) == HF_BUSY, SOON_MS);
    break_the_upgrader(other);
    thread_join(&thread);
    CHECK_INT(upgrade.code, HF_LOST);
    give_back(reader);
    check_was_lost(other, upgrade.hold, &losses);
    hf_close(client);
    hf_close(other);
}

static void begin_write(hf_client *client, struct outcome *outcome)
{
    CHECK_CODE(hf_lock_async(client, name_of("rw"), HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_WRITE, .owner = 1), record_outcome, outcome,
                             NULL),
               HF_OK);
}

/* And so it is when a request is what waits for the upgrade. */
TEST(a_break_during_a_requested_upgrade_is_a_loss)
{
    hf_client *client = open_all(), *other = open_client();
    _Atomic int losses = 0;
    struct outcome outcome = { 0 };
    hf_hold *reader = take(other, name_of("rw"), HF_READ, 1);
    hf_hold *hold = take_upgrade(client, &losses);

    begin_write(client, &outcome);
    EVENTUALLY(probe(other, name_of("rw"), HF_READ, 2) == HF_BUSY, SOON_MS);
    break_the_upgrader(other);
    WAIT_OUTCOME(&outcome);
    CHECK_INT(outcome.code, HF_LOST);
    give_back(reader);
    check_was_lost(other, hold, &losses);
    hf_close(client);
    hf_close(other);
}

/* Giving the weaker hold back does not wait for the request that asks for more, nor end it. */
TEST(unlocking_beside_a_requested_upgrade)
{
    hf_client *client = open_all(), *other = open_client();
    _Atomic int losses = 0;
    struct outcome outcome = { 0 };
    hf_hold *reader = take(other, name_of("rw"), HF_READ, 1);
    hf_hold *hold = take_upgrade(client, &losses);

    begin_write(client, &outcome);
    EVENTUALLY(probe(other, name_of("rw"), HF_READ, 2) == HF_BUSY, SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(outcome.calls, 0);
    give_back(reader);
    WAIT_OUTCOME(&outcome);
    CHECK_INT(outcome.code, HF_OK);
    CHECK_INT(hf_hold_mode(outcome.hold), HF_WRITE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_BUSY);
    give_back(outcome.hold);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_OK);
    CHECK_INT(losses, 0);
    hf_close(client);
    hf_close(other);
}
