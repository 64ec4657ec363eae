/* SPDX-License-Identifier: Apache-2.0 */
/* The mutex: one owner at a time, whatever the number of threads and processes. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

TEST(a_second_owner_is_refused)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 1), *refused = hold;

    CHECK_INT(hf_hold_mode(hold), HF_MUTEX);
    CHECK(hf_held(hold));
    CHECK(hf_remaining_ms(hold) > 0);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 2), HF_BUSY);
    CHECK_ERROR(hf_lock(other, name_of("one"), 0, NULL, &refused), HF_BUSY);
    CHECK(strstr(hf_last_error()->text, "permit") == NULL);
    CHECK(refused == NULL);
    give_back(hold);
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 1), HF_OK);
    hf_close(client);
    hf_close(other);
}

static void refuse(hf_client *client, const char *name, char *ret_text, size_t size)
{
    hf_hold *refused;

    CHECK_CODE(hf_lock(client, name, 0, NULL, &refused), HF_BUSY);
    snprintf(ret_text, size, "%s", hf_last_error()->text);
}

/* A password is not shown, so a command with it would not be one to paste. */
TEST(busy_sentence_has_a_command_to_paste)
{
    char text[400], command[3000];
    hf_client *client = open_client(), *other = open_client();
    const char *url = hf_url(other), *odd = name_of("it's");
    hf_hold *holds[2];

    CHECK_CODE(hf_lock(client, name_of("one"), 0, NULL, &holds[0]), HF_OK);
    CHECK_CODE(hf_lock(client, odd, 0, NULL, &holds[1]), HF_OK);
    for (int i = 0; i < 2; i++) {
        refuse(other, i ? odd : name_of("one"), text, sizeof(text));
        int length = snprintf(command, sizeof(command), "`holdfast -e '%s' show%s%s%s` shows them",
                              url, i ? "" : " '", i ? "" : name_of("one"), i ? "" : "'");
        if (strstr(url, "***"))
            snprintf(command, sizeof(command), "`holdfast show` shows them");
        else if (length > 220)
            continue; /* the sentence may have no room for it */
        if (!strstr(text, command))
            FAIL("\"%s\" has no %s", text, command);
        CHECK_CODE(hf_unlock(holds[i]), HF_OK);
        holds[i] = NULL;
    }
    for (int i = 0; i < 2; i++)
        if (holds[i])
            CHECK_CODE(hf_unlock(holds[i]), HF_OK);
    hf_close(other);
    hf_close(client);
}

TEST(a_wait_in_vain_ends)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0), *refused = hold;

    CHECK_IN_VAIN(hf_lock(other, name_of("one"), 100, NULL, &refused));
    CHECK(refused == NULL);
    CHECK_IN_VAIN(hf_lock(client, name_of("one"), 100, LOCK_OPTIONS(.owner = 9), &refused));
    if (hf_caps(client) & HF_CAP_INSPECT)
        EVENTUALLY(waiters(client, name_of("one")) == 0, SOON_MS);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(unlocking_without_waiting_frees_it)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    hf_unlock_nowait(hold);
    CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_unlock_nowait(NULL);
    CHECK_CODE(hf_unlock(NULL), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(a_waiter_in_another_process_gets_it)
{
    struct peer peer;
    peer_start(&peer);
    hf_client *client = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    /* A store without queues shows nobody who waits: there it may come when the lock is free. */
    const unsigned shows_waiters = HF_CAP_INSPECT | HF_CAP_FAIR;
    peer_begin(&peer, 0, name_of("one"), HF_FOREVER, NULL);
    if ((hf_caps(client) & shows_waiters) == shows_waiters)
        EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
    give_back(hold);
    CHECK_CODE(peer_answer(&peer), HF_OK);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_OK);
    hf_close(client);
    peer_end(&peer);
}

/* ---- Exclusion ---- */

struct shared {
    struct barrier start;
    /* Unprotected on purpose: lost additions show two owners at a time. */
    volatile long sum;
    volatile uint64_t last_token;
    _Atomic int inside;
};

struct crowd {
    struct shared *shared;
    const char *name;
    hf_client *client;
    hf_mode mode;
    int threads, rounds;
};

static void work_in_turn(void *arg, int index)
{
    struct crowd *crowd = arg;
    struct shared *shared = crowd->shared;

    (void)index;
    for (int i = 0; i < crowd->rounds; i++) {
        hf_hold *hold;
        CHECK_CODE(hf_lock(crowd->client, crowd->name, HF_FOREVER,
                           LOCK_OPTIONS(.mode = crowd->mode, NO_LOOK), &hold),
                   HF_OK);
        CHECK_INT(shared->inside++, 0);
        CHECK(hf_held(hold));
        CHECK(!(hf_caps(crowd->client) & HF_CAP_TOKEN) || hf_token(hold) > shared->last_token);
        shared->last_token = hf_token(hold);
        shared->sum = shared->sum + 1;
        shared->inside--;
        give_back(hold);
    }
}

static void work_in_process(void *arg, int index)
{
    struct crowd crowd = *(const struct crowd *)arg;

    (void)index;
    crowd.client = open_client();
    barrier_wait(&crowd.shared->start);
    threads_run(crowd.threads, work_in_turn, &crowd);
    hf_close(crowd.client);
}

static void check_exclusion(hf_mode mode, int processes, int threads, int rounds)
{
    struct crowd crowd = { .shared = shared_memory(sizeof(struct shared)),
                           .name = name_of("crowd"),
                           .mode = mode,
                           .threads = threads,
                           .rounds = rounds };
    hf_client *client = open_client();

    TEST_TIMEOUT(240);
    if (mode == HF_FAIR)
        need(client, HF_CAP_FAIR);
    if (mode == HF_WRITE)
        need(client, HF_CAP_RW);
    barrier_init(&crowd.shared->start, (unsigned)processes);
    processes_run(processes, work_in_process, &crowd);
    CHECK_INT(crowd.shared->sum, (long)processes * threads * rounds);
    check_nothing_left(client, crowd.name);
    hf_close(client);
}

TEST(eight_processes_of_eight_threads_exclude_each_other)
{
    check_exclusion(HF_MUTEX, 8, 8, store_rounds(200));
}

TEST(fair_owners_exclude_each_other)
{
    check_exclusion(HF_FAIR, 8, 8, store_rounds(50));
}

TEST(writers_exclude_each_other)
{
    check_exclusion(HF_WRITE, 8, 8, store_rounds(50));
}

TEST(eight_processes_of_64_threads_exclude_each_other)
{
    check_exclusion(HF_MUTEX, 8, 64, 5);
}

/* ---- Barging starves nobody ---- */

static void hammer(void *arg)
{
    hf_client *client = open_client();
    _Atomic int *stop = arg;

    parent_say("ready");
    while (!*stop) {
        hf_hold *hold;
        CHECK_CODE(hf_lock(client, name_of("hot"), HF_FOREVER, LOCK_OPTIONS(NO_LOOK), &hold),
                   HF_OK);
        give_back(hold);
    }
    hf_close(client);
}

TEST(a_waiter_is_not_overtaken_for_ever)
{
    _Atomic int *stop = shared_memory(sizeof(*stop));
    struct child hammers[2];
    hf_client *client;
    hf_hold *hold;

    store_url();
    name_of("hot");
    for (int i = 0; i < 2; i++) {
        child_start(&hammers[i], hammer, stop);
        child_wait_for(&hammers[i], "ready");
    }
    client = open_client();
    for (int i = 0; i < 200; i++) {
        CHECK_CODE(hf_lock(client, name_of("hot"), SOON_MS, LOCK_OPTIONS(NO_LOOK), &hold), HF_OK);
        give_back(hold);
    }
    *stop = 1;
    for (int i = 0; i < 2; i++)
        child_join(&hammers[i]);
    hf_close(client);
}
