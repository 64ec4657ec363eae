/* SPDX-License-Identifier: Apache-2.0 */
/* Fencing tokens: every exclusive grant of a name has a larger one than all before it. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

static hf_client *open_with_tokens(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_TOKEN);
    return client;
}

TEST(tokens_rise_from_hold_to_hold)
{
    hf_client *clients[2] = { open_with_tokens(), open_client() };
    uint64_t last = 0;

    for (int i = 0; i < 500; i++) {
        hf_hold *hold = take(clients[i % 2], name_of("one"), HF_MUTEX, 0);
        CHECK(hf_token(hold) > last);
        last = hf_token(hold);
        give_back(hold);
    }
    hf_close(clients[0]);
    hf_close(clients[1]);
}

TEST(tokens_rise_from_mode_to_mode)
{
    hf_client *client = open_with_tokens();
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    uint64_t last = 0;

    need(client, HF_CAP_FAIR | HF_CAP_RW);
    for (int i = 0; i < 60; i++) {
        hf_hold *hold = take(client, name_of("one"), modes[i % 3], 0);
        CHECK(hf_token(hold) > last);
        last = hf_token(hold);
        give_back(hold);
    }
    hf_close(client);
}

/* Where each grant has a number by itself, it is not the writer's own, but one after it. */
static void check_readers_token(uint64_t token, uint64_t writers)
{
    CHECK(store_numbers_readers() ? token > writers : token == writers);
}

TEST(readers_carry_the_last_writers_token)
{
    hf_client *client = open_with_tokens(), *other = open_client();
    hf_hold *writer, *reader, *second;
    uint64_t token;

    need(client, HF_CAP_RW);
    writer = take(client, name_of("rw"), HF_WRITE, 0);
    token = hf_token(writer);
    give_back(writer);
    reader = take(client, name_of("rw"), HF_READ, 1);
    second = take(other, name_of("rw"), HF_READ, 1);
    check_readers_token(hf_token(reader), token);
    check_readers_token(hf_token(second), token);
    give_back(reader);
    give_back(second);
    writer = take(other, name_of("rw"), HF_WRITE, 0);
    CHECK(hf_token(writer) > token);
    give_back(writer);
    hf_close(client);
    hf_close(other);
}

TEST(the_first_reader_has_a_token_that_a_writer_exceeds)
{
    hf_client *client = open_with_tokens();
    hf_hold *hold;
    uint64_t token;

    need(client, HF_CAP_RW);
    hold = take(client, name_of("rw"), HF_READ, 0);
    token = hf_token(hold);
    give_back(hold);
    hold = take(client, name_of("rw"), HF_WRITE, 0);
    CHECK(hf_token(hold) > token);
    give_back(hold);
    hf_close(client);
}

TEST(an_upgrade_raises_the_token)
{
    hf_client *client = open_with_tokens();
    hf_hold *hold;
    uint64_t token;

    need(client, HF_CAP_RW | HF_CAP_UPGRADE);
    hold = take(client, name_of("rw"), HF_WRITE, 0);
    token = hf_token(hold);
    give_back(hold);
    hold = take(client, name_of("rw"), HF_UPGRADE, 0);
    CHECK(hf_token(hold) >= token);
    CHECK_CODE(hf_upgrade(hold, 0), HF_OK);
    CHECK(hf_token(hold) > token);
    token = hf_token(hold);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK(hf_token(hold) == token);
    give_back(hold);
    hf_close(client);
}

TEST(nested_holds_share_the_token)
{
    hf_client *client = open_with_tokens();
    hf_hold *outer = take(client, name_of("one"), HF_MUTEX, 0);
    hf_hold *inner = take(client, name_of("one"), HF_MUTEX, 0);

    CHECK(hf_token(outer) == hf_token(inner));
    give_back(outer);
    give_back(inner);
    hf_close(client);
}

struct record {
    volatile uint64_t token;
};

static void note_tokens(void *arg, int index)
{
    struct record *record = arg;
    hf_client *client = open_client();

    (void)index;
    for (int i = 0; i < store_rounds(200); i++) {
        hf_hold *hold;
        CHECK_CODE(hf_lock(client, name_of("one"), HF_FOREVER, NULL, &hold), HF_OK);
        CHECK(hf_token(hold) > record->token);
        record->token = hf_token(hold);
        give_back(hold);
    }
    hf_close(client);
}

TEST(tokens_rise_over_processes_and_their_ends)
{
    /* Behind a pooler each of 2,400 hand-overs waits for a poll. */
    TEST_TIMEOUT(180);
    struct record *record = shared_memory(sizeof(*record));
    hf_client *client = open_with_tokens();

    processes_run(6, note_tokens, record);
    hf_close(client);
    /* Nobody is connected now; then again. */
    processes_run(6, note_tokens, record);
}

TEST(tokens_rise_after_the_store_was_deleted)
{
    uint64_t last;
    hf_client *client = open_with_tokens();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    if (!store_is_local())
        SKIP("deleting this store is not the test's to do");
    last = hf_token(hold);
    give_back(hold);
    hf_close(client);
    remove(temp_path("default.hf"));
    client = open_client();
    hold = take(client, name_of("one"), HF_MUTEX, 0);
    CHECK(hf_token(hold) > last);
    give_back(hold);
    hf_close(client);
}

/* So many names that the first ones' records are reused meanwhile, if the store does that: of those
 * here, the embedded one. */
TEST(tokens_rise_after_a_name_was_forgotten)
{
    hf_client *client = open_with_tokens();
    hf_hold *hold = take(client, "first", HF_MUTEX, 0);
    uint64_t last = hf_token(hold);
    int others = store_is_local() ? 50000 : 5000;
    char name[40];

    give_back(hold);
    for (int i = 0; i < others; i++) {
        snprintf(name, sizeof(name), "passing/%d", i);
        give_back(take(client, name, HF_MUTEX, 0));
    }
    hold = take(client, "first", HF_MUTEX, 0);
    CHECK(hf_token(hold) > last);
    give_back(hold);
    hf_close(client);
}

/* ---- what a transaction at the store compares ---- */

static void check_guard(hf_driver driver)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = driver });
    char first[HF_GUARD_SIZE] = "", second[HF_GUARD_SIZE] = "";
    int wanted = hf_caps(client) & HF_CAP_GUARD ? HF_OK : HF_ENOTSUP;
    hf_hold *hold = take(client, name_of("guarded"), HF_MUTEX, 0);

    CHECK_ERROR(hf_guard(hold, NULL), HF_EINVAL);
    CHECK_CODE(hf_guard(hold, first), wanted);
    give_back(hold);
    hold = take(client, name_of("guarded"), HF_MUTEX, 0);
    CHECK_CODE(hf_guard(hold, second), wanted);
    if (wanted == HF_OK) {
        CHECK(strrchr(first, '@') != NULL && strrchr(second, '@') != NULL);
        CHECK(strcmp(first, second) != 0);
    }
    give_back(hold);
    hf_close(client);
}

TEST(guard_is_of_one_hold_where_the_store_has_guards)
{
    check_guard(HF_DRIVE_THREAD);
    check_guard(HF_DRIVE_CALLER);
}

/* ---- the client's token_floor ---- */

#define FAR (UINT64_C(1) << 60)

static void count_waits(void *arg, const hf_event *event)
{
    *(_Atomic int *)arg += event->type == HF_EVENT_WAITING;
}

/* One that no token of the store has reached. Skips the test where tokens cannot be raised. */
static hf_client *open_above(uint64_t floor, _Atomic int *waits)
{
    hf_client *client = NULL;
    hf_client_options options =
        HF_CLIENT_OPTIONS(.token_floor = floor, .on_event = count_waits, .event_arg = waits);
    int code = hf_open(&client, store_url(), &options);

    if (code == HF_ENOTSUP) {
        CHECK(strstr(hf_last_error()->text, "token_floor") != NULL);
        SKIP("%s", hf_last_error()->text);
    }
    CHECK_CODE(code, HF_OK);
    return client;
}

static const char *name_above(char name[40], int i)
{
    snprintf(name, 40, "%s-%d", name_of("above"), i);
    return name;
}

static void check_floor(hf_client *client, hf_client *other, const char *name,
                        const hf_lock_options *options)
{
    bool reads = options->mode == HF_READ;
    uint64_t last = FAR;
    hf_hold *hold;

    for (int round = 0; round < 3; round++) {
        CHECK_CODE(hf_lock(client, name, SOON_MS, options, &hold), HF_OK);
        CHECK(hf_token(hold) > last || (reads && hf_token(hold) > FAR));
        last = hf_token(hold);
        give_back(hold);
    }
    CHECK_CODE(hf_lock(other, name, SOON_MS, options, &hold), HF_OK);
    CHECK(hf_token(hold) > last || (reads && hf_token(hold) == last));
    give_back(hold);
}

TEST(tokens_are_above_the_floor_of_their_client)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE, HF_PERMIT };
    enum { MODES = sizeof modes / sizeof *modes };
    hf_lock_options options[MODES];
    bool served[MODES];
    _Atomic int waits = 0;
    char name[40];
    hf_client *other = open_with_tokens(), *client = open_above(FAR, &waits);
    hf_hold *hold;

    /* The low tokens come first: the embedded engine gives the record of a forgotten name, and its
     * token, to the next name. */
    for (int i = 0; i < MODES; i++) {
        options[i] = HF_LOCK_OPTIONS(.mode = modes[i], .limit = modes[i] == HF_PERMIT ? 3 : 0);
        served[i] = probe(other, name_of("probe"), modes[i], 0) != HF_ENOTSUP;
        if (!served[i])
            continue;
        CHECK_CODE(hf_lock(other, name_above(name, i), SOON_MS, &options[i], &hold), HF_OK);
        CHECK(hf_token(hold) < FAR);
        give_back(hold);
    }
    for (int i = 0; i < MODES; i++)
        if (served[i])
            check_floor(client, other, name_above(name, i), &options[i]);
    hf_close(client);
    hf_close(other);
}

/* The holder hands the lock on without a word of the waiter's floor. */
TEST(token_of_a_waiter_is_above_its_floor)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    _Atomic int waits = 0;
    hf_client *other = open_with_tokens(), *client = open_above(FAR, &waits);

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct outcome outcome = { 0 };
        int told = waits;
        char name[40];
        if (probe(client, name_of("probe"), modes[i], 0) == HF_ENOTSUP)
            continue;
        snprintf(name, sizeof(name), "%s-%d", name_of("waiter"), (int)i);
        hf_hold *hold = take(other, name, modes[i], 0);
        CHECK_CODE(hf_lock_async(client, name, HF_FOREVER, LOCK_OPTIONS(.mode = modes[i]),
                                 record_outcome, &outcome, NULL),
                   HF_OK);
        EVENTUALLY(waits == told + 1, SOON_MS);
        give_back(hold);
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_OK);
        CHECK(hf_token(outcome.hold) > FAR);
        give_back(outcome.hold);
    }
    hf_close(client);
    hf_close(other);
}

TEST(too_large_a_floor_is_refused)
{
    hf_client *client = NULL;

    CHECK_ERROR(
        hf_open(&client, store_url(), &HF_CLIENT_OPTIONS(.token_floor = (UINT64_C(1) << 62) + 1)),
        HF_EINVAL);
    CHECK(client == NULL);
}
