/* SPDX-License-Identifier: Apache-2.0 */
/* Redis under faults that are aimed: each test breaks one thing at the worst moment. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>

#define LEASE_MS 1000

static hf_client *open_on(const struct server *server, int timeout_ms, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, server_url(server, timeout_ms), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
        HF_OK);
    return client;
}

static void tell(const struct server *server, const char *command)
{
    CHECK(server_tell(server, command, NULL, 0));
}

/* What is left at the server but tokens. */
static void check_no_lock_left(const struct server *server, const char *name)
{
    char command[200], line[40];

    snprintf(command, sizeof(command), "EXISTS %s", name);
    EVENTUALLY(server_tell(server, command, line, sizeof(line)) && strcmp(line, ":0") == 0,
               SOON_MS);
}

/* By the client that waits for the one name. Asked without the library, whose connections are being
 * cut. */
static bool is_listened_to(const struct server *server)
{
    char line[40];

    return server_tell(server, "EVAL \"return #redis.call('pubsub', 'channels', 'holdfast:*')\" 0",
                       line, sizeof(line)) &&
           strcmp(line, ":1") == 0;
}

TEST(a_server_that_stops_ends_the_belief_before_the_lease)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 300, LEASE_MS), *other = open_on(&server, 300, 30000);
    _Atomic int losses = 0;
    hf_hold *hold = take_watched(client, "one", &losses), *next = NULL;
    hf_hold *second = take_watched(client, "two", &losses);
    uint64_t token = hf_token(hold);

    /* No renewal that the server confirms is asked for after this moment. */
    server_stop(&server);
    int64_t stopped_at = monotonic_ms();
    CHECK(hf_remaining_ms(hold) <= LEASE_MS);
    while (monotonic_ms() < stopped_at + LEASE_MS)
        let_pass_ms(5);
    CHECK(!hf_held(hold));
    EVENTUALLY(losses == 2, SOON_MS);
    CHECK_CODE(hf_unlock(second), HF_LOST);
    server_continue(&server);
    CHECK_CODE(hf_lock(other, "one", SOON_MS, NULL, &next), HF_OK);
    CHECK(hf_token(next) > token);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(hf_held(next));
    give_back(next);
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

TEST(a_short_stop_costs_nothing)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 300, 30000);
    _Atomic int losses = 0;
    hf_hold *hold = take_watched(client, "one", &losses);

    server_stop(&server);
    let_pass_ms(500);
    server_continue(&server);
    CHECK(hf_held(hold));
    give_back(hold);
    CHECK_INT(losses, 0);
    check_no_lock_left(&server, "one");
    hf_close(client);
    server_kill(&server);
}

TEST(a_lock_survives_its_connections)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 3000, 30000), *other = open_on(&server, 3000, 30000);
    struct outcome outcome = { 0 };
    _Atomic int losses = 0;
    hf_hold *hold = take_watched(client, "one", &losses);

    begin_wait(other, "one", HF_MUTEX, &outcome);
    for (int i = 0; i < 5; i++) {
        EVENTUALLY(is_listened_to(&server), SOON_MS);
        tell(&server, "CLIENT KILL TYPE pubsub");
        tell(&server, "CLIENT KILL TYPE normal SKIPME yes");
    }
    CHECK_INT(outcome.calls, 0);
    CHECK(hf_held(hold));
    /* Right before the release, so that nobody hears of it. */
    tell(&server, "CLIENT KILL TYPE pubsub");
    give_back(hold);
    /* Much sooner than the lease would end. */
    give_back(await_grant(&outcome));
    CHECK_INT(losses, 0);
    check_no_lock_left(&server, "one");
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

TEST(scripts_that_are_flushed_are_sent_again)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 3000, 0);

    for (int i = 0; i < 20; i++) {
        hf_hold *hold = take(client, "one", HF_MUTEX, 0);
        tell(&server, "SCRIPT FLUSH");
        CHECK_CODE(probe(client, "one", HF_MUTEX, 2), HF_BUSY);
        tell(&server, "SCRIPT FLUSH");
        give_back(hold);
        CHECK_INT(holders(client, "one"), 0);
    }
    hf_close(client);
    server_kill(&server);
}

/* What the server did not know the script of, it has not done. So the repeated release tells. */
TEST(release_that_is_sent_again_after_a_flush_of_scripts_tells_a_loss)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 3000, 0);

    give_back(take(client, "one", HF_MUTEX, 0));
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    tell(&server, "DEL one");
    tell(&server, "SCRIPT FLUSH");
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
    server_kill(&server);
}

TEST(an_empty_server_is_noticed)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 300, 3000);
    _Atomic int losses = 0;
    hf_hold *hold = take_watched(client, "one", &losses);
    uint64_t token = hf_token(hold);

    server_kill(&server);
    server_start_again(&server);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hold = take_watched(client, "one", &losses);
    CHECK(hf_token(hold) > token);
    give_back(hold);
    hf_close(client);
    server_kill(&server);
}

TEST(a_question_without_an_answer_is_asked_again)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 200, 30000);
    struct outcome outcome = { 0 };

    give_back(take_patiently(client, "one"));
    server_stop(&server);
    begin_wait(client, "one", HF_MUTEX, &outcome);
    let_pass_ms(500);
    CHECK_INT(outcome.calls, 0);
    server_kill(&server);
    server_start_again(&server);
    await_grant(&outcome);
    CHECK(hf_held(outcome.hold));
    give_back(outcome.hold);
    hf_close(client);
    server_kill(&server);
}

/* The question may be executed long after its caller has gone. */
TEST(a_question_that_was_given_up_leaves_nothing)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 200, 30000);
    hf_hold *hold = NULL;

    give_back(take_patiently(client, "warm"));
    for (int i = 0; i < 3; i++) {
        server_stop(&server);
        CHECK_CODE(hf_lock(client, "one", 100, NULL, &hold), HF_UNREACHABLE);
        CHECK(hold == NULL);
        let_pass_ms(300);
        server_continue(&server);
        CHECK_CODE(hf_lock(client, "another", SOON_MS, NULL, &hold), HF_OK);
        check_no_lock_left(&server, "one");
        give_back(hold);
    }
    hf_close(client);
    server_kill(&server);
}

/* Also while what an earlier call asked for the same name is still out. */
TEST(a_silent_server_is_never_said_to_be_busy)
{
    static const int64_t waits_ms[] = { 10, 100, 100, 600, 300, 1100, 100 };
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 60000, 30000);
    hf_hold *hold = NULL;

    give_back(take(client, "one", HF_MUTEX, 0));
    server_stop(&server);
    for (size_t i = 0; i < sizeof(waits_ms) / sizeof(waits_ms[0]); i++)
        CHECK_CODE(hf_lock(client, "never-held", waits_ms[i], NULL, &hold), HF_UNREACHABLE);
    server_continue(&server);
    EVENTUALLY(probe(client, "never-held", HF_MUTEX, 0) == HF_OK, SOON_MS);
    hf_close(client);
    server_kill(&server);
}

static bool see_nothing(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return true;
}

/* Before the connection is given up. */
TEST(a_silent_server_is_named)
{
    struct server server = { 0 };
    char said[80];
    server_start(&server);
    hf_client *client = open_on(&server, 60000, 30000);
    hf_hold *hold = NULL;

    snprintf(said, sizeof(said), "Redis at 127.0.0.1:%d: no answer ", server.port);
    give_back(take(client, "one", HF_MUTEX, 0));
    server_stop(&server);
    CHECK_CODE(hf_lock(client, "one", 100, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, said) == hf_last_error()->text);
    CHECK_CODE(hf_inspect(client, NULL, see_nothing, NULL), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, said) == hf_last_error()->text);
    server_continue(&server);
    EVENTUALLY(probe(client, "one", HF_MUTEX, 0) == HF_OK, SOON_MS);
    hf_close(client);
    server_kill(&server);
}

TEST(a_server_that_is_down_is_said_so_and_waited_for)
{
    struct server server = { 0 };
    server_start(&server);
    server_kill(&server);
    hf_client *client = open_on(&server, 300, 0);
    struct outcome outcome = { 0 };
    hf_hold *hold;

    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "127.0.0.1") != NULL);
    begin_wait(client, "one", HF_MUTEX, &outcome);
    server_start_again(&server);
    give_back(await_grant(&outcome));
    hf_close(client);
    server_kill(&server);
}

/* A program that turns the loop itself takes the signals, too. */
TEST(a_server_that_goes_away_kills_nobody)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    CHECK_CODE(
        hf_open(&client, server_url(&server, 300), &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER)),
        HF_OK);
    for (int i = 0; i < 5; i++) {
        give_back(take_patiently(client, "one"));
        server_kill(&server);
        for (int k = 0; k < 3; k++)
            CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
        server_start_again(&server);
        CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
        give_back(hold);
    }
    hf_close(client);
    server_kill(&server);
}

/* Many questions gather while nobody reads; none is lost, and none is half sent. */
TEST(a_server_that_does_not_read_is_caught_up_with)
{
    enum { COUNT = 4000 };
    static struct outcome outcomes[COUNT];
    struct server server = { 0 };
    server_start(&server);
    /* Nothing else is said meanwhile that would push the rest along: no renewal, no new start. */
    hf_client *client = open_on(&server, 60000, 600000);
    char name[HF_NAME_MAX + 1];

    give_back(take(client, "warm", HF_MUTEX, 0));
    server_stop(&server);
    memset(name, 'n', sizeof(name) - 1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name + 1000, sizeof(name) - 1000, "%d", i);
        begin_wait(client, name, HF_MUTEX, &outcomes[i]);
    }
    let_pass_ms(100);
    server_continue(&server);
    for (int i = 0; i < COUNT; i++) {
        await_grant(&outcomes[i]);
    }
    for (int i = 0; i < COUNT; i++)
        hf_unlock_nowait(outcomes[i].hold);
    hf_close(client);
    server_kill(&server);
}

TEST(closing_does_not_wait_for_a_silent_server)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 300, 30000);
    struct outcome outcome = { 0 };

    take_patiently(client, "one");
    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, LOCK_OPTIONS(.owner = 7), record_outcome,
                             &outcome, NULL),
               HF_OK);
    server_stop(&server);
    hf_close(client);
    CHECK_INT(outcome.calls, 1);
    CHECK_CODE(outcome.code, HF_ECLOSED);
    server_kill(&server);
}

/* Its question is still out when closing loses patience. */
TEST(closing_leaves_nobody_waiting_at_a_silent_server)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 60000, 30000), *other = open_on(&server, 300, 30000);
    struct outcome outcome = { 0 };
    hf_hold *hold;
    char line[40];

    take(other, "one", HF_WRITE, 0);
    begin_wait(client, "one", HF_READ, &outcome);
    EVENTUALLY(server_tell(&server,
                           "EVAL \"return #redis.call('pubsub','channels','redisson_rw*')\" 0",
                           line, sizeof(line)) &&
                   strcmp(line, ":1") == 0,
               SOON_MS);
    server_stop(&server);
    /* By then it has asked again. */
    CHECK_CODE(hf_lock(client, "two", 4000, NULL, &hold), HF_UNREACHABLE);
    hf_close(client);
    CHECK_INT(outcome.calls, 1);
    CHECK_CODE(outcome.code, HF_ECLOSED);
    server_kill(&server);
    hf_close(other);
}

TEST(a_password_is_needed_and_never_shown)
{
    struct server server = { .password = "hunter2" };
    char url[100];
    hf_client *client;
    hf_hold *hold;

    server_start(&server);
    static const struct {
        const char *who;
        int code;
    } tries[] = { { "", HF_DENIED },
                  { ":wrong@", HF_DENIED },
                  { "nobody:hunter2@", HF_DENIED },
                  { ":hunter2@", HF_OK },
                  { "default:hunter2@", HF_OK } };
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d/3?timeout=60000", tries[i].who,
                 server.port);
        CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
        CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), tries[i].code);
        CHECK(strstr(hf_last_error()->text, "hunter2") == NULL);
        CHECK(strstr(hf_url(client), "hunter2") == NULL);
        if (hold)
            give_back(hold);
        hf_close(client);
    }
    server_kill(&server);
}

TEST(another_kind_of_thing_is_left_alone)
{
    struct server server = { 0 };
    server_start(&server);
    hf_client *client = open_on(&server, 3000, 0);
    hf_hold *hold;

    tell(&server, "SET one text");
    tell(&server, "HSET rw mode read somebody:1 1");
    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_EKIND);
    CHECK_ERROR(hf_lock(client, "rw", SOON_MS, NULL, &hold), HF_EKIND);
    CHECK_ERROR(hf_lock(client, "rw", 0, LOCK_OPTIONS(.mode = HF_PERMIT), &hold), HF_EKIND);
    CHECK_ERROR(hf_lock(client, "one", 0, LOCK_OPTIONS(.mode = HF_READ), &hold), HF_EKIND);
    CHECK_ERROR(hf_counter_add(client, "one", 1), HF_EKIND);
    CHECK_ERROR(hf_latch_set(client, "rw", 1), HF_EKIND);
    tell(&server, "RPUSH list one");
    CHECK_ERROR(hf_break(client, "list", NULL, NULL), HF_EKIND);
    CHECK_CODE(probe(client, "two", HF_MUTEX, 0), HF_OK);
    hf_close(client);
    server_kill(&server);
}

/* ---- request_timeout_ms ---- */

enum { BUDGET_MS = 200, WELL_BELOW_DEFAULT_MS = 3000 };

static hf_client *open_impatient(const struct server *server)
{
    hf_client *client = NULL;
    CHECK_CODE(hf_open(&client, server_url(server, 60000),
                       &HF_CLIENT_OPTIONS(.request_timeout_ms = BUDGET_MS)),
               HF_OK);
    return client;
}

#define CHECK_IN_BUDGET(call)                                                                      \
    do {                                                                                           \
        int64_t began_ms = monotonic_ms();                                                         \
        CHECK_CODE(call, HF_UNREACHABLE);                                                          \
        CHECK(monotonic_ms() - began_ms >= BUDGET_MS / 2);                                         \
        CHECK(monotonic_ms() - began_ms < WELL_BELOW_DEFAULT_MS);                                  \
    } while (0)

TEST(calls_without_a_wait_keep_the_request_timeout_on_a_stopped_server)
{
    struct server server = { 0 };
    TEST_ALLOW_FD_LEAKS();
    server_start(&server);
    hf_client *client = open_impatient(&server);
    hf_hold *hold = take(client, "held", HF_MUTEX, 0), *other;
    uint32_t value;
    server_stop(&server);
    CHECK_IN_BUDGET(hf_lock(client, "one", 0, NULL, &other));
    CHECK_IN_BUDGET(hf_counter_get(client, "count", &value));
    CHECK_IN_BUDGET(hf_unlock(hold));
    int64_t began_ms = monotonic_ms();
    hf_close(client);
    CHECK(monotonic_ms() - began_ms < WELL_BELOW_DEFAULT_MS);
    server_continue(&server);
}
