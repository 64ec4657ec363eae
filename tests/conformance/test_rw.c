/* SPDX-License-Identifier: Apache-2.0 */
/* Read-write locks: readers together, writers alone, downgrade without a gap, nobody starves. */
#include "conformance.h"

#include <string.h>

#define PEERS 4

TEST(readers_share)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *readers[20];

    need(client, HF_CAP_RW);
    for (int i = 0; i < 20; i++) {
        readers[i] = take(i % 2 ? client : other, name_of("rw"), HF_READ, (uint64_t)i + 1);
        CHECK_INT(hf_hold_mode(readers[i]), HF_READ);
    }
    CHECK_CODE(probe(client, name_of("rw"), HF_WRITE, 100), HF_BUSY);
    for (int i = 0; i < 20; i++) {
        CHECK(hf_held(readers[i]));
        give_back(readers[i]);
    }
    CHECK_CODE(probe(client, name_of("rw"), HF_WRITE, 100), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(a_writer_is_alone)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *writer;

    need(client, HF_CAP_RW);
    writer = take(client, name_of("rw"), HF_WRITE, 1);
    CHECK_INT(hf_hold_mode(writer), HF_WRITE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 1), HF_BUSY);
    CHECK_CODE(probe(client, name_of("rw"), HF_READ, 2), HF_BUSY);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 1), HF_BUSY);
    if (hf_caps(client) & HF_CAP_UPGRADE)
        CHECK_CODE(probe(other, name_of("rw"), HF_UPGRADE, 1), HF_BUSY);
    give_back(writer);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 1), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(a_waiting_writer_stops_new_readers)
{
    struct peer writer;
    peer_start(&writer);
    hf_client *client = open_client();

    need(client, HF_CAP_RW | HF_CAP_INSPECT);
    for (int i = 0; i < 20; i++) {
        hf_hold *reader = take(client, name_of("rw"), HF_READ, 1);
        peer_begin(&writer, 0, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_WRITE));
        EVENTUALLY(waiters(client, name_of("rw")) == 1, SOON_MS);
        CHECK_CODE(probe(client, name_of("rw"), HF_READ, 2), HF_BUSY);
        give_back(reader);
        CHECK_CODE(peer_answer(&writer), HF_OK);
        CHECK_CODE(probe(client, name_of("rw"), HF_READ, 2), HF_BUSY);
        CHECK_CODE(peer_unlock(&writer, 0), HF_OK);
    }
    hf_close(client);
    peer_end(&writer);
}

static void read_all_the_time(void *arg)
{
    hf_client *client = open_client();
    _Atomic int *stop = arg;

    parent_say("ready");
    while (!*stop) {
        hf_hold *hold;
        CHECK_CODE(hf_lock(client, name_of("rw"), HF_FOREVER,
                           LOCK_OPTIONS(.mode = HF_READ, NO_LOOK), &hold),
                   HF_OK);
        give_back(hold);
    }
    hf_close(client);
}

TEST(a_writer_does_not_starve)
{
    _Atomic int *stop = shared_memory(sizeof(*stop));
    struct child readers[3];
    hf_client *client = open_client();

    need(client, HF_CAP_RW);
    hf_close(client);
    for (int i = 0; i < 3; i++) {
        child_start(&readers[i], read_all_the_time, stop);
        child_wait_for(&readers[i], "ready");
    }
    client = open_client();
    for (int i = 0; i < 100; i++) {
        hf_hold *hold;
        CHECK_CODE(
            hf_lock(client, name_of("rw"), SOON_MS, LOCK_OPTIONS(.mode = HF_WRITE, NO_LOOK), &hold),
            HF_OK);
        give_back(hold);
    }
    *stop = 1;
    for (int i = 0; i < 3; i++)
        child_join(&readers[i]);
    hf_close(client);
}

TEST(waiting_readers_enter_together)
{
    struct peer peers[PEERS];
    hf_client *client;

    for (int i = 0; i < PEERS; i++)
        peer_start(&peers[i]);
    client = open_client();
    need(client, HF_CAP_RW | HF_CAP_INSPECT);
    hf_hold *writer = take(client, name_of("rw"), HF_WRITE, 0);
    for (int i = 0; i < PEERS; i++) {
        peer_begin(&peers[i], 0, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_READ));
        EVENTUALLY(waiters(client, name_of("rw")) == i + 1, SOON_MS);
    }
    give_back(writer);
    /* All of them, while none gives back. */
    for (int i = 0; i < PEERS; i++)
        CHECK_CODE(peer_answer(&peers[i]), HF_OK);
    for (int i = 0; i < PEERS; i++) {
        CHECK(peer_held(&peers[i], 0));
        CHECK_CODE(probe(client, name_of("rw"), HF_WRITE, 0), HF_BUSY);
        CHECK_CODE(peer_unlock(&peers[i], 0), HF_OK);
    }
    CHECK_CODE(probe(client, name_of("rw"), HF_WRITE, 0), HF_OK);
    hf_close(client);
    for (int i = 0; i < PEERS; i++)
        peer_end(&peers[i]);
}

TEST(a_writer_may_read)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *writer, *reader;

    need(client, HF_CAP_RW);
    writer = take(client, name_of("rw"), HF_WRITE, 0);
    reader = take(client, name_of("rw"), HF_READ, 0);
    CHECK_INT(hf_hold_mode(reader), HF_READ);
    CHECK_INT(hf_hold_mode(writer), HF_WRITE);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_BUSY);
    give_back(reader);
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_BUSY);
    give_back(writer);
    hf_close(client);
    hf_close(other);
}

TEST(take_read_unlock_write_is_a_downgrade)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *writer, *reader;

    need(client, HF_CAP_RW);
    writer = take(client, name_of("rw"), HF_WRITE, 0);
    reader = take(client, name_of("rw"), HF_READ, 0);
    give_back(writer);
    CHECK(hf_held(reader));
    CHECK_CODE(probe(other, name_of("rw"), HF_READ, 0), HF_OK);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_BUSY);
    give_back(reader);
    CHECK_CODE(probe(other, name_of("rw"), HF_WRITE, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(downgrading_lets_readers_in_but_no_writer)
{
    struct peer writer, reader;
    peer_start(&writer);
    peer_start(&reader);
    hf_client *client = open_client();

    need(client, HF_CAP_RW | HF_CAP_INSPECT);
    hf_hold *hold = take(client, name_of("rw"), HF_WRITE, 0);
    uint64_t token = hf_token(hold);
    peer_begin(&reader, 0, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_READ));
    EVENTUALLY(waiters(client, name_of("rw")) == 1, SOON_MS);
    peer_begin(&writer, 0, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_WRITE));
    EVENTUALLY(waiters(client, name_of("rw")) == 2, SOON_MS);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_READ);
    CHECK(hf_held(hold));
    CHECK_CODE(peer_answer(&reader), HF_OK);
    CHECK(store_numbers_readers() ? reader.token > token : reader.token == token);
    CHECK_CODE(peer_unlock(&reader, 0), HF_OK);
    CHECK_INT(waiters(client, name_of("rw")), 1);
    give_back(hold);
    CHECK_CODE(peer_answer(&writer), HF_OK);
    CHECK(!(hf_caps(client) & HF_CAP_TOKEN) || writer.token > token);
    CHECK_CODE(peer_unlock(&writer, 0), HF_OK);
    hf_close(client);
    peer_end(&writer);
    peer_end(&reader);
}

/* The advice is one that can be followed on this engine. */
static void check_advice(const hf_client *client)
{
    bool upgradeable = hf_caps(client) & HF_CAP_UPGRADE;

    test_note("%s", hf_last_error()->text);
    CHECK(strstr(hf_last_error()->text, "give the read hold back first") != NULL);
    CHECK_INT(strstr(hf_last_error()->text, "take HF_UPGRADE") != NULL, upgradeable);
}

TEST(a_reader_that_would_write_is_told_so)
{
    hf_client *client = open_client();
    hf_hold *reader, *refused;

    need(client, HF_CAP_RW);
    reader = take(client, name_of("rw"), HF_READ, 0);
    refused = reader;
    CHECK_ERROR(
        hf_lock(client, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_WRITE), &refused),
        HF_EDEADLK);
    CHECK(refused == NULL);
    check_advice(client);
    if (hf_caps(client) & HF_CAP_UPGRADE)
        CHECK_ERROR(
            hf_lock(client, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_UPGRADE), &refused),
            HF_EDEADLK);
    CHECK_ERROR(hf_upgrade(reader, HF_FOREVER), HF_EDEADLK);
    CHECK(hf_held(reader));
    CHECK_INT(hf_hold_mode(reader), HF_READ);
    give_back(reader);
    hf_close(client);
}

TEST(downgrading_goes_down_only)
{
    hf_client *client = open_client();
    hf_hold *hold;

    need(client, HF_CAP_RW);
    hold = take(client, name_of("rw"), HF_READ, 0);
    CHECK_ERROR(hf_downgrade(hold, HF_WRITE), HF_EINVAL);
    CHECK_ERROR(hf_downgrade(hold, HF_UPGRADE), HF_EINVAL);
    CHECK_INT(hf_hold_mode(hold), HF_READ);
    give_back(hold);
    hold = take(client, name_of("rw"), HF_WRITE, 0);
    CHECK_ERROR(hf_downgrade(hold, HF_MUTEX), HF_EINVAL);
    CHECK_ERROR(hf_downgrade(hold, (hf_mode)99), HF_EINVAL);
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    give_back(hold);
    hold = take(client, name_of("mutex"), HF_MUTEX, 0);
    CHECK_ERROR(hf_downgrade(hold, HF_READ), HF_EINVAL);
    CHECK_ERROR(hf_upgrade(hold, 0), HF_EINVAL);
    give_back(hold);
    hf_close(client);
}

/* ---- Readers and writers over a pair of words that must agree ---- */

struct pages {
    volatile long left, right;
};

static void read_and_write(void *arg, int index)
{
    struct pages *pages = arg;
    hf_client *client = open_client();

    for (int i = 0; i < store_rounds(300); i++) {
        hf_hold *hold;
        hf_mode mode = (i + index) % 4 ? HF_READ : HF_WRITE;
        CHECK_CODE(
            hf_lock(client, name_of("rw"), HF_FOREVER, LOCK_OPTIONS(.mode = mode, NO_LOOK), &hold),
            HF_OK);
        CHECK(pages->left == pages->right);
        if (mode == HF_WRITE) {
            pages->left = pages->left + 1;
            pages->right = pages->right + 1;
        }
        give_back(hold);
    }
    hf_close(client);
}

TEST(readers_never_see_half_a_write)
{
    struct pages *pages = shared_memory(sizeof(*pages));
    hf_client *client = open_client();

    need(client, HF_CAP_RW);
    TEST_TIMEOUT(300); /* behind a pooler all of them poll */
    processes_run(8, read_and_write, pages);
    CHECK_INT(pages->left, 8 * store_rounds(300) / 4);
    hf_close(client);
}
