/* SPDX-License-Identifier: Apache-2.0 */
/* A quorum of three real servers, of which some die, hang, forget, or belong to somebody else. */
#include "quorum.h"

#include <stdio.h>

/* Far beyond the test's end: what is left does not go by itself. */
#define LEASE_MS 600000

static void expect(const struct server *server, const char *command, const char *line)
{
    char got[200] = "";

    CHECK(server_tell(server, command, got, sizeof(got)));
    if (strcmp(got, line) != 0)
        FAIL("%s: \"%s\", not \"%s\"", command, got, line);
}

static void come_and_go(hf_client *client)
{
    hf_hold *hold = NULL;

    for (int i = 0; i < 20; i++) {
        CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
        give_back(hold);
    }
}

TEST(every_server_has_the_same_text_and_nothing_is_left_of_it)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    quorum_start(servers);
    hf_client *client = quorum_open(servers, SLOW_MS, LEASE_MS);
    char first[100] = "", other[100] = "";
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);

    for (int i = 0; i < QUORUM_SERVERS; i++)
        EVENTUALLY(server_ask(&servers[i], "GET one", i ? other : first, sizeof(first)), SOON_MS);
    CHECK_STR(other, first);
    give_back(hold);
    hf_close(client);
    quorum_expect_nothing_left(servers);
    quorum_end(servers);
}

TEST(one_that_hangs_or_is_dead_is_not_waited_for)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_client *client;
    quorum_start(servers);

    for (int i = 0; i < QUORUM_SERVERS; i++) {
        client = quorum_open(servers, NEVER_MS, LEASE_MS);
        come_and_go(client);
        server_stop(&servers[i]);
        come_and_go(client);
        hf_close(client);
        client = quorum_open(servers, NEVER_MS, LEASE_MS);
        come_and_go(client);
        server_continue(&servers[i]);
        hf_close(client);
        /* What it had not heard before it has been told, too. */
        quorum_expect_nothing_left(servers);
    }
    server_kill(&servers[1]);
    client = quorum_open(servers, SLOW_MS, LEASE_MS);
    come_and_go(client);
    hf_close(client);
    server_start_again(&servers[1]);
    quorum_expect_nothing_left(servers);
    quorum_end(servers);
}

/* At each grant another one cannot be heard, so that no two majorities follow each other that are
 * the same. */
TEST(tokens_rise_whichever_servers_grant)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    uint64_t last = 0;
    quorum_start(servers);

    for (int i = 0; i < 12; i++) {
        struct server *deaf = &servers[(i * 2 + i / 6) % QUORUM_SERVERS];
        server_stop(deaf);
        hf_client *client = quorum_open(servers, NEVER_MS, 500);
        hf_hold *hold = NULL;
        CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
        if (hf_token(hold) <= last)
            FAIL("%llu after %llu", (unsigned long long)hf_token(hold), (unsigned long long)last);
        last = hf_token(hold);
        hf_unlock(hold);
        hf_close(client);
        server_continue(deaf);
        EVENTUALLY(server_says(deaf, "PING", "+PONG"), SOON_MS);
    }
    quorum_end(servers);
}

TEST(two_dead_are_too_many)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    _Atomic int losses = 0;
    hf_hold *hold, *none = NULL;
    quorum_start(servers);
    hf_client *client = quorum_open(servers, SLOW_MS, 2000);

    hold = take_watched(client, "one", &losses);
    server_kill(&servers[0]);
    server_kill(&servers[1]);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK_ERROR(hf_lock(client, "two", 0, NULL, &none), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "2 of the quorum's 3 servers cannot be had") != NULL);
    CHECK_ERROR(hf_lock(client, "two", 300, NULL, &none), HF_UNREACHABLE);
    EVENTUALLY(server_says(&servers[2], "EXISTS one two", ":0"), SOON_MS);
    server_start_again(&servers[0]);
    CHECK_CODE(hf_lock(client, "two", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
    server_start_again(&servers[1]);
    quorum_end(servers);
}

/* Patience ends long before the servers' time-out does. */
TEST(who_waits_in_vain_hears_how_many_are_silent)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_hold *none = NULL;
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, LEASE_MS);

    come_and_go(client);
    server_stop(&servers[0]);
    server_stop(&servers[1]);
    CHECK_ERROR(hf_lock(client, "one", 1000 * test_slow(), NULL, &none), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "2 of the quorum's 3 servers") != NULL);
    server_continue(&servers[0]);
    server_continue(&servers[1]);
    hf_close(client);
    quorum_end(servers);
}

/* Whoever waits gets it only when the lease is over at two, and by then its holder knows. */
TEST(who_is_cut_off_from_two_has_stopped_believing_before_the_next_one_begins)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    _Atomic int losses = 0;
    struct outcome outcome = { 0 };
    hf_hold *hold;
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, 1500);
    hf_client *other = quorum_open(servers, NEVER_MS, 60000);

    hold = take_watched(client, "one", &losses);
    server_stop(&servers[1]);
    server_stop(&servers[2]);
    begin_wait(other, "one", HF_MUTEX, &outcome);
    EVENTUALLY(!hf_held(hold), SOON_MS);
    CHECK_INT(outcome.calls, 0);
    server_continue(&servers[1]);
    server_continue(&servers[2]);
    EVENTUALLY(losses == 1, SOON_MS);
    await_grant(&outcome);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK_CODE(hf_unlock(outcome.hold), HF_OK);
    hf_close(client);
    hf_close(other);
    quorum_end(servers);
}

TEST(what_others_have_at_two_servers_is_theirs)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_hold *hold = NULL;
    quorum_start(servers);
    hf_client *client = quorum_open(servers, SLOW_MS, LEASE_MS);

    expect(&servers[0], "SET one theirs NX PX 600000", "+OK");
    give_back(take(client, "one", HF_MUTEX, 0));
    expect(&servers[2], "SET one theirs NX PX 600000", "+OK");
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_BUSY);
    CHECK_IN_VAIN(hf_lock(client, "one", 300, NULL, &hold));
    EVENTUALLY(server_says(&servers[1], "EXISTS one", ":0"), SOON_MS);
    expect(&servers[0], "DEL one", ":1");
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
    expect(&servers[2], "GET one", "$6");
    hf_close(client);
    quorum_end(servers);
}

/* A server answers late what it was asked in a round that has failed meanwhile: whatever it says,
 * it has been told to forget it. Its token is the largest, so that nobody asks it once more. */
TEST(what_was_given_back_behind_a_question_is_no_vote)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct outcome outcome = { 0 };
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, LEASE_MS);

    give_back(take(client, "two", HF_MUTEX, 0));
    for (int i = 0; i < 2; i++)
        expect(&servers[i], "SET one theirs PX 600000", "+OK");
    expect(&servers[2], "SET redisson_lock_token:{one} 5000000000000000 PX 600000", "+OK");
    server_stop(&servers[2]);
    begin_wait(client, "one", HF_MUTEX, &outcome);
    let_pass_ms(200);
    expect(&servers[1], "DEL one", ":1");
    server_stop(&servers[1]);
    /* By then there is a round in which two are to be heard; if not, nothing is shown. */
    let_pass_ms(700);
    server_continue(&servers[2]);
    EVENTUALLY(server_says(&servers[2], "PING", "+PONG"), SOON_MS);
    server_continue(&servers[1]);
    await_grant(&outcome);
    expect(&servers[1], "EXISTS one", ":1");
    expect(&servers[2], "EXISTS one", ":1");
    give_back(outcome.hold);
    hf_close(client);
    quorum_end(servers);
}

/* Questions of all kinds are out at servers that hang; what they find later has an end. */
TEST(a_client_is_closed_while_most_servers_hang)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct outcome outcome = { 0 };
    quorum_start(servers);

    for (int stopped = 1; stopped <= 2; stopped++) {
        hf_client *client = quorum_open(servers, 1000, 2000);
        hf_hold *hold = take(client, "one", HF_MUTEX, 0);
        for (int i = 0; i < stopped; i++)
            server_stop(&servers[i]);
        begin_wait(client, "two", HF_MUTEX, &outcome);
        hf_unlock_nowait(hold);
        hf_close(client);
        WAIT_OUTCOME(&outcome);
        CHECK(outcome.code == HF_ECLOSED || outcome.code == HF_OK);
        for (int i = 0; i < stopped; i++)
            server_continue(&servers[i]);
        quorum_expect_nothing_left(servers);
        outcome = (struct outcome){ 0 };
    }
    quorum_end(servers);
}

/* A client whose caller drives it, with a connection to each server. */
static hf_client *open_connected(struct server *servers)
{
    hf_client *client = NULL;
    CHECK_CODE(hf_open(&client, quorum_url(servers, SLOW_MS),
                       &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = LEASE_MS)),
               HF_OK);
    for (int i = 0; i < 3; i++)
        give_back(take(client, "two", HF_MUTEX, 0));
    return client;
}

/* The client's loop does not turn any more, so it hears of no attempt that succeeds late. */
TEST(attempt_at_a_server_that_hangs_is_given_back_right_behind_it)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_hold *hold = NULL;
    quorum_start(servers);
    hf_client *client = open_connected(servers);
    for (int i = 0; i < 2; i++)
        expect(&servers[i], "SET one theirs PX 600000", "+OK");
    server_stop(&servers[2]);
    CHECK_ERROR(hf_lock(client, "one", 100, NULL, &hold), HF_BUSY);
    CHECK_CODE(hf_dispatch(client), HF_OK);
    server_continue(&servers[2]);
    EVENTUALLY(server_says(&servers[2], "PING", "+PONG"), SOON_MS);
    expect(&servers[2], "EXISTS one", ":0");
    hf_close(client);
    quorum_end(servers);
}

TEST(another_kind_of_thing_at_two_servers_cannot_be_locked)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_hold *hold = NULL;
    quorum_start(servers);
    hf_client *client = quorum_open(servers, SLOW_MS, LEASE_MS);

    expect(&servers[0], "RPUSH one something", ":1");
    give_back(take(client, "one", HF_MUTEX, 0));
    expect(&servers[1], "RPUSH one something", ":1");
    CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_EKIND);
    CHECK(strstr(hf_last_error()->text, "2 of the quorum's 3 servers refuse") != NULL);
    EVENTUALLY(server_says(&servers[2], "EXISTS one", ":0"), SOON_MS);
    CHECK_ERROR(hf_lock(client, "two", 0, LOCK_OPTIONS(.mode = HF_READ), &hold), HF_ENOTSUP);
    hf_close(client);
    quorum_end(servers);
}

TEST(breaking_takes_it_away_at_all_servers)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    _Atomic int losses = 0;
    uint32_t broken = 9;
    quorum_start(servers);
    /* So long that its end is not what is noticed, but what the servers say at the renewal. */
    hf_client *client = quorum_open(servers, SLOW_MS, 30000);

    CHECK_CODE(hf_break(client, "one", NULL, &broken), HF_OK);
    CHECK_INT(broken, 0);
    hf_hold *hold = take_watched(client, "one", &losses);
    CHECK_CODE(hf_break(client, "one", "somebody", &broken), HF_BUSY);
    CHECK(hf_held(hold));
    CHECK_CODE(hf_break(client, "one", NULL, &broken), HF_OK);
    CHECK_INT(broken, 1);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
    quorum_end(servers);
}

/* Two servers have lost it, of which one is slow: what the first two say leaves open whether most
 * had it. */
TEST(release_of_a_lock_that_one_server_has_lost_waits_for_the_deciding_vote)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct outcome outcome = { 0 };
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, LEASE_MS);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);

    quorum_expect_everywhere(servers);
    expect(&servers[0], "DEL one", ":1");
    expect(&servers[1], "DEL one", ":1");
    server_stop(&servers[1]);
    CHECK_CODE(hf_unlock_async(hold, record_outcome, &outcome), HF_OK);
    EVENTUALLY(server_says(&servers[2], "EXISTS one", ":0"), SOON_MS);
    let_pass_ms(100);
    CHECK_INT(outcome.calls, 0);
    server_continue(&servers[1]);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_LOST);
    hf_close(client);
    quorum_end(servers);
}

/* All have answered before the client's caller lets it hear them, in one turn. */
TEST(release_hears_all_that_has_been_answered_before_it_decides)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct outcome outcome = { 0 };
    quorum_start(servers);
    hf_client *client = open_connected(servers);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);

    quorum_expect_everywhere(servers);
    expect(&servers[1], "DEL one", ":1");
    expect(&servers[2], "DEL one", ":1");
    CHECK_CODE(hf_unlock_async(hold, record_outcome, &outcome), HF_OK);
    CHECK_CODE(hf_dispatch(client), HF_OK);
    EVENTUALLY(server_says(&servers[0], "EXISTS one", ":0"), SOON_MS);
    let_pass_ms(100); /* if the others have not answered by then, nothing is shown */
    EVENTUALLY(hf_dispatch(client) == HF_OK && outcome.calls == 1, SOON_MS);
    CHECK_CODE(outcome.code, HF_LOST);
    hf_close(client);
    quorum_end(servers);
}

/* Most have done it: one that says nothing makes no failure of that. */
TEST(breaking_does_not_wait_for_ever_for_one_that_hangs)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    uint32_t broken = 9;
    char word[100] = "";
    quorum_start(servers);
    hf_client *client = quorum_open(servers, NEVER_MS, LEASE_MS);

    for (int i = 0; i < QUORUM_SERVERS; i++) {
        snprintf(word, sizeof(word), "SET one somebody%d", i);
        CHECK(server_tell(&servers[i], word, NULL, 0));
    }
    server_stop(&servers[1]);
    CHECK_CODE(hf_break(client, "one", NULL, &broken), HF_OK);
    CHECK_INT(broken, 1);
    CHECK_CODE(hf_break(client, "one", NULL, &broken), HF_OK);
    CHECK_INT(broken, 0);
    server_continue(&servers[1]);
    EVENTUALLY(server_says(&servers[1], "EXISTS one", ":0"), SOON_MS);
    hf_close(client);
    quorum_end(servers);
}

TEST(a_lease_of_its_own_is_longer_when_most_have_made_it_so)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    hf_hold *hold = NULL;
    quorum_start(servers);
    hf_client *client = quorum_open(servers, SLOW_MS, 0);

    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 60000), &hold), HF_OK);
    server_kill(&servers[1]);
    CHECK_CODE(hf_renew(hold, 600000), HF_OK);
    CHECK(hf_remaining_ms(hold) > 300000);
    server_kill(&servers[0]);
    CHECK_ERROR(hf_renew(hold, 900000), HF_UNREACHABLE);
    CHECK(hf_held(hold));
    server_start_again(&servers[0]);
    server_start_again(&servers[1]);
    EVENTUALLY(hf_renew(hold, 900000) == HF_LOST, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
    quorum_end(servers);
}

TEST(urls_that_name_no_quorum_are_refused)
{
    static const struct {
        const char *url, *words;
    } refused[] = {
        { "quorum:redis://a,redis://b", "odd number" },
        { "quorum:redis://a", "odd number" },
        { "quorum:redis://a,redis://b,redis://c,redis://d", "odd number" },
        { "quorum://a,b,c", "odd number" },
        { "quorum:", "odd number" },
        { "quorum:redis://a,redis://b,redis://a", "each server but once" },
        { "quorum:redis+unix:///a,redis+unix:///a,redis://a", "each server but once" },
        { "quorum:redis://a,redis://b,redis+sentinel://c/main", "single servers" },
        { "quorum:redis://a,redis://b,local:", "single servers" },
        { "quorum:redis://a,redis://b,quorum:redis://c", "single servers" },
        { "quorum:redis://a,redis://b,", "scheme" },
        { "quorum:redis://a?timeout=500,redis://b,redis://c", "at the end" },
        { "quorum:redis://a,redis://b,redis://c?format=redisson", "format" },
        { "quorum:redis://a,redis://b,redis://c?sync=1", "sync" },
        { "quorum:redis://a,redis://b,redis://c?colour=red", "colour" },
        { "quorum:redis://a,redis://b/x,redis://c", "database" },
    };
    hf_client *client = NULL;

    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        CHECK_ERROR(hf_open(&client, refused[i].url, NULL), HF_EINVAL);
        if (!strstr(hf_last_error()->text, refused[i].words))
            FAIL("%s: %s", refused[i].url, hf_last_error()->text);
    }
    CHECK_ERROR(hf_open(&client, "quorum:redis://u:hush@a,redis://b,redis://v:hush@b", NULL),
                HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "hush") == NULL);
}

TEST(each_server_has_a_password_of_its_own)
{
    struct server servers[QUORUM_SERVERS] = { { .password = "a%b" }, { .password = "c,d" } };
    char url[300];
    hf_client *client = NULL;
    quorum_start(servers);

    snprintf(
        url, sizeof(url),
        "quorum:redis://:a%%25b@127.0.0.1:%d,redis://:c%%2Cd@127.0.0.1:%d/3,redis://127.0.0.1:%d",
        servers[0].port, servers[1].port, servers[2].port);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    for (int i = 0; i < QUORUM_SERVERS; i++)
        EVENTUALLY(server_says(&servers[i], i == 1 ? "DBSIZE" : "EXISTS one", i == 1 ? ":0" : ":1"),
                   SOON_MS);
    give_back(hold);
    hf_close(client);
    quorum_end(servers);
}
