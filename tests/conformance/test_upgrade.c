/* SPDX-License-Identifier: Apache-2.0 */
/* Upgradeable reading: one at a time among readers, on to writing with nobody in between. */
#include "conformance.h"

static void need_upgrade(const hf_client *client)
{
    need(client, HF_CAP_RW | HF_CAP_UPGRADE);
}

TEST(one_upgrader_among_readers)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *reader, *upgrader;

    need_upgrade(client);
    reader = take(other, name_of("rw"), HF_READ, 1);
    upgrader = take(client, name_of("rw"), HF_UPGRADE, 1);
    CHECK_INT(hf_hold_mode(upgrader), HF_UPGRADE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 2), HF_OK);
    CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 2), HF_BUSY);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 2), HF_BUSY);
    give_back(upgrader);
    CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 2), HF_OK);
    give_back(reader);
    hf_close(client);
    hf_close(other);
}

TEST(upgrading_alone_is_immediate)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold;

    need_upgrade(client);
    hold = take(client, name_of("rw"), HF_UPGRADE, 0);
    CHECK_CODE(hf_upgrade(hold, 0), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    CHECK(hf_held(hold));
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_BUSY);
    CHECK_CODE(hf_downgrade(hold, HF_UPGRADE), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_UPGRADE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_OK);
    CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 0), HF_BUSY);
    CHECK_CODE(hf_upgrade(hold, 0), HF_OK);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 0), HF_OK);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(an_upgrader_may_become_a_reader)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold;

    need_upgrade(client);
    hold = take(client, name_of("rw"), HF_UPGRADE, 0);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_READ);
    CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 0), HF_OK);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_BUSY);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(upgrading_times_out_and_stays_what_it_was)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold, *reader;

    need_upgrade(client);
    reader = take(other, name_of("rw"), HF_READ, 0);
    hold = take(client, name_of("rw"), HF_UPGRADE, 0);
    CHECK_ERROR(hf_upgrade(hold, 0), HF_BUSY);
    CHECK_IN_VAIN(hf_upgrade(hold, 50));
    CHECK_INT(hf_hold_mode(hold), HF_UPGRADE);
    CHECK(hf_held(hold));
    /* The wish is withdrawn, perhaps just after the answer: readers are let in again. */
    EVENTUALLY(probe(other, name_of("rw"), HF_READ, 7) == HF_OK, SOON_MS);
    give_back(reader);
    CHECK_CODE(hf_upgrade(hold, SOON_MS), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    give_back(hold);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

struct upgrade {
    hf_hold *hold;
    _Atomic int done;
    int code;
};

static void upgrade_in_thread(void *arg)
{
    struct upgrade *upgrade = arg;

    upgrade->code = hf_upgrade(upgrade->hold, HF_FOREVER);
    upgrade->done = 1;
}

TEST(upgrading_waits_for_the_readers)
{
    hf_client *client = open_client(), *other = open_client();
    struct upgrade upgrade = { 0 };
    struct thread thread;
    hf_hold *reader;

    need_upgrade(client);
    reader = take(other, name_of("rw"), HF_READ, 1);
    upgrade.hold = take(client, name_of("rw"), HF_UPGRADE, 1);
    thread_start(&thread, upgrade_in_thread, &upgrade);
    /* It waits once it keeps new readers out. */
    EVENTUALLY(probe(other, name_of("rw"), HF_READ, 2) == HF_BUSY, SOON_MS);
    CHECK(hf_held(upgrade.hold));
    CHECK(!upgrade.done);
    give_back(reader);
    thread_join(&thread);
    CHECK_CODE(upgrade.code, HF_OK);
    CHECK_INT(hf_hold_mode(upgrade.hold), HF_WRITE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 2), HF_BUSY);
    give_back(upgrade.hold);
    hf_close(client);
    hf_close(other);
}

TEST(the_upgrade_goes_before_waiting_writers)
{
    struct peer writer;
    peer_start(&writer);
    hf_client *client = open_client();
    struct upgrade upgrade = { 0 };
    struct thread thread;

    need_upgrade(client);
    need(client, HF_CAP_INSPECT);
    hf_hold *reader = take(client, name_of("rw"), HF_READ, 1);
    upgrade.hold = take(client, name_of("rw"), HF_UPGRADE, 2);
    peer_begin(&writer, 0, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_WRITE));
    EVENTUALLY(waiters(client, name_of("rw")) >= 1, SOON_MS);
    thread_start(&thread, upgrade_in_thread, &upgrade);
    give_back(reader);
    thread_join(&thread);
    CHECK_CODE(upgrade.code, HF_OK);
    CHECK(hf_held(upgrade.hold));
    uint64_t token = hf_token(upgrade.hold);
    give_back(upgrade.hold);
    CHECK_CODE(peer_answer(&writer), HF_OK);
    CHECK(!(hf_caps(client) & HF_CAP_TOKEN) || writer.token > token);
    CHECK_CODE(peer_unlock(&writer, 0), HF_OK);
    hf_close(client);
    peer_end(&writer);
}

TEST(upgrading_by_nesting)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *upgrader, *reader, *writer = NULL;

    need_upgrade(client);
    upgrader = take(client, name_of("rw"), HF_UPGRADE, 0);
    reader = take(other, name_of("rw"), HF_READ, 0);
    CHECK_IN_VAIN(hf_lock(client, name_of("rw"), 50, LOCK_OPTIONS(.mode = HF_WRITE), &writer));
    CHECK(writer == NULL);
    CHECK(hf_held(upgrader));
    give_back(reader);
    CHECK_CODE(hf_lock(client, name_of("rw"), SOON_MS, LOCK_OPTIONS(.mode = HF_WRITE), &writer),
               HF_OK);
    CHECK_INT(hf_hold_mode(writer), HF_WRITE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_BUSY);
    give_back(writer);
    CHECK(hf_held(upgrader));
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_OK);
    CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 0), HF_BUSY);
    give_back(upgrader);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(an_upgrader_may_read)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *upgrader, *reader;

    need_upgrade(client);
    upgrader = take(client, name_of("rw"), HF_UPGRADE, 0);
    reader = take(client, name_of("rw"), HF_READ, 0);
    give_back(upgrader);
    CHECK(hf_held(reader));
    CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 0), HF_OK);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_BUSY);
    give_back(reader);
    hf_close(client);
    hf_close(other);
}

/* Upgraders read a number, and write it one larger: nobody may have written in between. */
static void read_then_increment(void *arg, int index)
{
    volatile long *number = arg;
    hf_client *client = open_client();

    for (int i = 0; i < store_rounds(100); i++) {
        hf_hold *hold;
        hf_mode mode = index % 2 ? HF_READ : HF_UPGRADE;
        CHECK_CODE(
            hf_lock(client, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = mode, NO_LOOK), &hold),
            HF_OK);
        long read = *number;
        if (mode == HF_UPGRADE) {
            CHECK_CODE(hf_upgrade(hold, HF_FOREVER), HF_OK);
            CHECK_INT(*number, read);
            *number = read + 1;
        } else {
            CHECK_INT(*number, read);
        }
        give_back(hold);
    }
    hf_close(client);
}

TEST(nobody_writes_between_reading_and_upgrading)
{
    volatile long *number = shared_memory(sizeof(*number));
    hf_client *client = open_client();

    need_upgrade(client);
    TEST_TIMEOUT(120);
    processes_run(8, read_then_increment, (void *)(uintptr_t)number);
    CHECK_INT(*number, 4 * store_rounds(100));
    hf_close(client);
}

/* ---- released or lowered during an asynchronous upgrade ---- */

/* Begins an asynchronous upgrade that fails, because `other` reads. `outcome` gets the answer. */
static hf_hold *begin_failing_upgrade(hf_client *client, hf_client *other, hf_hold **reader,
                                      struct outcome *outcome)
{
    *reader = take(other, name_of("rw"), HF_READ, 1);
    hf_hold *upgrader = take(client, name_of("rw"), HF_UPGRADE, 5);
    CHECK_CODE(hf_lock_async(client, name_of("rw"), 2000,
                             LOCK_OPTIONS(.mode = HF_WRITE, .owner = 5), record_outcome, outcome,
                             NULL),
               HF_OK);
    /* The upgrade has reached the store once it keeps new readers out. */
    EVENTUALLY(probe(other, name_of("rw"), HF_READ, 2) == HF_BUSY, SOON_MS);
    return upgrader;
}

TEST(hold_released_during_async_upgrade_is_free_after_the_upgrade_fails)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };
    hf_hold *reader;

    need_upgrade(client);
    hf_hold *upgrader = begin_failing_upgrade(client, other, &reader, &outcome);
    CHECK_CODE(hf_unlock(upgrader), HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_BUSY);
    EVENTUALLY(probe(other, name_of("rw"), HF_UPGRADE, 9) == HF_OK, SOON_MS);
    give_back(reader);
    check_nothing_left(other, name_of("rw"));
    hf_close(client);
    hf_close(other);
}

TEST(hold_lowered_during_async_upgrade_stays_lowered_after_the_upgrade_fails)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };
    hf_hold *reader;

    need_upgrade(client);
    hf_hold *upgrader = begin_failing_upgrade(client, other, &reader, &outcome);
    CHECK_CODE(hf_downgrade(upgrader, HF_READ), HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_BUSY);
    EVENTUALLY(probe(other, name_of("rw"), HF_UPGRADE, 9) == HF_OK, SOON_MS);
    CHECK(hf_held(upgrader));
    CHECK_INT(hf_hold_mode(upgrader), HF_READ);
    give_back(reader);
    give_back(upgrader);
    check_nothing_left(other, name_of("rw"));
    hf_close(client);
    hf_close(other);
}

TEST(async_upgrade_waits_for_the_readers_and_is_told_once)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome canceled = { 0 }, stopped = { 0 }, busy = { 0 }, raised = { 0 }, again = { 0 };
    hf_stop stop = HF_STOP_INIT;
    hf_request request = 0;

    need_upgrade(client);
    hf_hold *reader = take(other, name_of("rw"), HF_READ, 1);
    hf_hold *hold = take(client, name_of("rw"), HF_UPGRADE, 1);
    CHECK_ERROR(hf_upgrade_async(hold, 0, NULL, NULL, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_upgrade_async(reader, 0, NULL, record_outcome, &busy, NULL), HF_EDEADLK);
    CHECK_CODE(hf_upgrade_async(hold, HF_FOREVER, NULL, record_outcome, &canceled, &request),
               HF_OK);
    CHECK(request != 0);
    CHECK_ERROR(hf_upgrade_async(hold, 0, NULL, record_outcome, &busy, NULL), HF_BUSY);
    hf_cancel(client, request);
    WAIT_OUTCOME(&canceled);
    CHECK_CODE(canceled.code, HF_CANCELED);
    CHECK_INT(hf_hold_mode(hold), HF_UPGRADE);
    EVENTUALLY(hf_upgrade_async(hold, HF_FOREVER, &stop, record_outcome, &stopped, NULL) == HF_OK,
               SOON_MS);
    hf_stop_set(&stop);
    WAIT_OUTCOME(&stopped);
    CHECK_CODE(stopped.code, HF_CANCELED);
    EVENTUALLY(hf_upgrade_async(hold, 0, NULL, record_outcome, &busy, NULL) == HF_OK, SOON_MS);
    WAIT_OUTCOME(&busy);
    CHECK_CODE(busy.code, HF_BUSY);
    EVENTUALLY(hf_upgrade_async(hold, HF_FOREVER, NULL, record_outcome, &raised, NULL) == HF_OK,
               SOON_MS);
    let_pass_ms(10);
    CHECK_INT(raised.calls, 0);
    give_back(reader);
    CHECK(await_grant(&raised) == NULL);
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 1), HF_BUSY);
    CHECK_CODE(hf_upgrade_async(hold, 0, NULL, record_outcome, &again, NULL), HF_OK);
    CHECK(await_grant(&again) == NULL);
    give_back(hold);
    hf_close(client);
    hf_close(other);
    CHECK_INT(canceled.calls + stopped.calls + busy.calls + raised.calls + again.calls, 5);
}

/* The hold's memory is another lock's by the time that the upgrade is granted. */
TEST(hold_released_during_async_upgrade_leaves_others_alone)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };

    need_upgrade(client);
    hf_hold *reader = take(other, name_of("rw"), HF_READ, 1);
    hf_hold *first = take(client, name_of("rw"), HF_UPGRADE, 1);
    hf_hold *hold = take(client, name_of("rw"), HF_UPGRADE, 1);
    CHECK_CODE(hf_upgrade_async(hold, HF_FOREVER, NULL, record_outcome, &outcome, NULL), HF_OK);
    hf_unlock_nowait(hold);
    hf_hold *next = take(client, name_of("rw"), HF_READ, 1);
    give_back(reader);
    WAIT_OUTCOME(&outcome);
    CHECK_INT(hf_hold_mode(next), HF_READ);
    CHECK_INT(hf_hold_mode(first), HF_UPGRADE);
    give_back(next);
    give_back(first);
    check_nothing_left(other, name_of("rw"));
    hf_close(client);
    hf_close(other);
    CHECK_INT(outcome.calls, 1);
}

TEST(async_upgrade_ends_with_its_client)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };

    need_upgrade(client);
    hf_hold *reader = take(other, name_of("rw"), HF_READ, 1);
    hf_hold *hold = take(client, name_of("rw"), HF_UPGRADE, 1);
    CHECK_CODE(hf_upgrade_async(hold, HF_FOREVER, NULL, record_outcome, &outcome, NULL), HF_OK);
    hf_close(client);
    CHECK_INT(outcome.calls, 1);
    CHECK_CODE(outcome.code, HF_ECLOSED);
    give_back(reader);
    hf_close(other);
}
