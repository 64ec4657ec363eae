/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals that the server refuses, by its access control lists: that is no loss before the lease
 * is over, the reason of the loss then says why, and nobody else's renewals fail with them. */
#include "quorum.h"

#include <stdio.h>
#include <stdlib.h>

static void tell(const struct server *server, const char *command)
{
    char line[40] = "";

    CHECK(server_tell(server, command, line, sizeof(line)));
    CHECK_STR(line, "+OK");
}

/* How many things users have tried that they may not. */
static long refusals(const struct server *server)
{
    char line[40] = "";

    CHECK(server_tell(server, "ACL LOG", line, sizeof(line)));
    CHECK(line[0] == '*');
    return strtol(line + 1, NULL, 10);
}

static hf_client *open_as_bob(const struct server *server, int64_t lease_ms, const char *more)
{
    hf_client *client = NULL;
    char url[120];

    snprintf(url, sizeof(url), "redis://bob:word@127.0.0.1:%d?timeout=30000%s", server->port, more);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
}

struct told {
    _Atomic int losses;
    char reason[400];
};

static void lost(void *arg, const hf_loss *loss)
{
    struct told *told = arg;

    snprintf(told->reason, sizeof(told->reason), "%s", loss->reason);
    told->losses++;
}

static hf_hold *take_telling(hf_client *client, const char *name, hf_mode mode, struct told *told)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, name, HF_FOREVER,
                       LOCK_OPTIONS(.mode = mode, .on_lost = lost, .lost_arg = told), &hold),
               HF_OK);
    return hold;
}

enum { MUTEX, READ, PERMIT, FREED, PLAIN, BARRED, LOCKS };

/* Renewed, that is: who is not has less than a third of its lease soon, and no more ever again. */
static bool is_renewed(const hf_hold *hold, int64_t before_ms)
{
    return monotonic_ms() + hf_remaining_ms(hold) > before_ms + 200;
}

static void check_lost_for(const hf_hold *hold, const struct told *told, const char *why)
{
    EVENTUALLY(told->losses > 0, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK(strstr(told->reason, "its lease could not be renewed: Redis at 127.0.0.1"));
    CHECK(strstr(told->reason, why));
}

TEST(a_renewal_that_is_refused_is_no_loss_before_its_lease_is_over)
{
    struct server server = { 0 };
    struct told told[LOCKS] = { 0 };
    hf_hold *holds[LOCKS];
    int64_t lease_ms = 9000 * (int64_t)test_slow(), before_ms[LOCKS];

    TEST_TIMEOUT(60 + 30 * test_slow());
    server_start(&server);
    tell(&server, "ACL SETUSER bob on >word ~* &* +@all");
    hf_client *client = open_as_bob(&server, lease_ms, "");
    hf_client *plain = open_as_bob(&server, lease_ms, "&format=simple");
    CHECK_CODE(hf_semaphore_set(client, "sem", 2), HF_OK);
    holds[MUTEX] = take_telling(client, "mutex", HF_MUTEX, &told[MUTEX]);
    holds[READ] = take_telling(client, "rw", HF_READ, &told[READ]);
    holds[PERMIT] = take_telling(client, "sem", HF_PERMIT, &told[PERMIT]);
    holds[BARRED] = take_telling(client, "barred", HF_MUTEX, &told[BARRED]);
    holds[FREED] = take_telling(plain, "plain", HF_MUTEX, &told[FREED]);
    holds[PLAIN] = take_telling(plain, "barred-plain", HF_MUTEX, &told[PLAIN]);
    for (int i = 0; i < LOCKS; i++)
        before_ms[i] = monotonic_ms() + hf_remaining_ms(holds[i]);

    tell(&server, "ACL SETUSER bob -hexists -zscore -mget");
    EVENTUALLY(refusals(&server) >= 3, SOON_MS);
    /* Two names stay barred, and are renewed in one call with others that are not. */
    tell(&server, "ACL SETUSER bob +@all resetkeys ~mutex ~rw ~sem ~plain ~{* ~redisson_* "
                  "~holdfast_*");
    for (int i = 0; i < PLAIN; i++)
        EVENTUALLY(is_renewed(holds[i], before_ms[i]) || told[i].losses > 0, SOON_MS);
    for (int i = 0; i < PLAIN; i++)
        CHECK_INT(told[i].losses, 0);
    check_lost_for(holds[BARRED], &told[BARRED], "NOPERM");
    check_lost_for(holds[PLAIN], &told[PLAIN], "NOPERM");

    tell(&server, "ACL SETUSER bob allkeys");
    for (int i = 0; i < LOCKS; i++)
        CHECK_CODE(hf_unlock(holds[i]), told[i].losses == 0 ? HF_OK : HF_LOST);
    hf_close(plain);
    hf_close(client);
    server_kill(&server);
}

/* ---- reasons ---- */

struct heard {
    _Atomic int refusals, silences, answers;
    char text[400];
};

static void hear(void *arg, const hf_event *event)
{
    struct heard *heard = arg;

    heard->silences += event->type == HF_EVENT_STORE_DOWN;
    heard->answers += event->type == HF_EVENT_STORE_UP;
    if (event->type != HF_EVENT_NOT_RENEWED)
        return;
    CHECK_STR(event->name, "one");
    CHECK(event->token > 0);
    snprintf(heard->text, sizeof(heard->text), "%s", event->text);
    heard->refusals++;
}

/* Whatever keeps it from being renewed, the server answers: so it is not said to be silent. */
static void check_reason(const char *command, const char *why)
{
    struct server server = { 0 };
    struct told told = { 0 };
    struct heard heard = { 0 };
    hf_client *client = NULL;
    char url[120];

    server_start(&server);
    tell(&server, "ACL SETUSER bob on >word ~* &* +@all");
    snprintf(url, sizeof(url), "redis://bob:word@127.0.0.1:%d?timeout=30000", server.port);
    /* It is refused several times before it ends. */
    CHECK_CODE(hf_open(&client, url,
                       &HF_CLIENT_OPTIONS(.lease_ms = 6000 * (int64_t)test_slow(), .on_event = hear,
                                          .event_arg = &heard)),
               HF_OK);
    hf_hold *hold = take_telling(client, "one", HF_MUTEX, &told);
    tell(&server, command);
    EVENTUALLY(heard.refusals > 0, SOON_MS);
    CHECK(hf_held(hold));
    CHECK(strstr(heard.text, why));
    check_lost_for(hold, &told, why);
    CHECK_STR(told.reason, heard.text);
    CHECK_INT(heard.refusals, 1);
    CHECK_INT(heard.silences, 0);
    hf_unlock(hold);
    hf_close(client);
    server_kill(&server);
}

/* Of what a script calls the server says itself that it may not be called, in words that newer ones
 * have changed. */
TEST(a_loss_says_which_words_the_server_had_for_it)
{
    TEST_TIMEOUT(60 + 30 * test_slow());
    check_reason("ACL SETUSER bob -pexpireat", "command");
}

TEST(a_server_that_writes_nothing_is_not_silent)
{
    TEST_TIMEOUT(60 + 30 * test_slow());
    check_reason("CONFIG SET min-replicas-to-write 1", "NOREPLICAS");
}

TEST(a_server_that_has_become_a_replica_is_not_silent)
{
    TEST_TIMEOUT(60 + 30 * test_slow());
    check_reason("REPLICAOF 127.0.0.1 1", "READONLY");
}

/* To who waits meanwhile it is as good as silent, and its word to renewals is no other answer. */
TEST(who_holds_and_waits_is_told_once_that_the_server_is_not_ready)
{
    struct server server = { 0 };
    struct told told = { 0 };
    struct heard heard = { 0 };
    struct outcome outcome = { 0 };
    hf_client *client = NULL;

    TEST_TIMEOUT(60 + 30 * test_slow());
    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 30000),
                       &HF_CLIENT_OPTIONS(.lease_ms = 6000 * (int64_t)test_slow(), .on_event = hear,
                                          .event_arg = &heard)),
               HF_OK);
    hf_hold *hold = take_telling(client, "one", HF_MUTEX, &told);
    tell(&server, "CONFIG SET min-replicas-to-write 1");
    begin_wait(client, "two", HF_MUTEX, &outcome);
    EVENTUALLY(heard.silences > 0 && heard.refusals > 0, SOON_MS);
    check_lost_for(hold, &told, "NOREPLICAS");
    CHECK_INT(heard.silences, 1);
    CHECK_INT(heard.answers, 0);
    tell(&server, "CONFIG SET min-replicas-to-write 0");
    await_grant(&outcome);
    CHECK_INT(heard.answers, 1);
    hf_unlock(outcome.hold);
    hf_unlock(hold);
    hf_close(client);
    server_kill(&server);
}

/* One of three is no reason to lose it, two are. */
TEST(a_loss_at_a_quorum_says_what_its_servers_say)
{
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct told told = { 0 };
    int64_t lease_ms = 6000 * (int64_t)test_slow();

    TEST_TIMEOUT(60 + 30 * test_slow());
    quorum_start(servers);
    hf_client *client = quorum_open(servers, SLOW_MS, lease_ms);
    hf_hold *hold = take_telling(client, "one", HF_MUTEX, &told);
    int64_t before_ms = monotonic_ms() + hf_remaining_ms(hold);
    tell(&servers[1], "ACL SETUSER default -pexpireat");
    EVENTUALLY(is_renewed(hold, before_ms) && refusals(&servers[1]) > 0, SOON_MS);
    CHECK_INT(told.losses, 0);
    tell(&servers[2], "ACL SETUSER default -pexpireat");
    check_lost_for(hold, &told, "command");
    hf_unlock(hold);
    hf_close(client);
    quorum_end(servers);
}
