/* SPDX-License-Identifier: Apache-2.0 */
/* An attempt whose script the server stops half way, because its user may not call one of the
 * commands: nothing is left of it, whichever command that is, and whatever is asked for. */
#include "rights.h"
#include "turns.h"

#include <stdio.h>

static bool has_word(const char *words, const char *word)
{
    const char *found = strstr(words, word);
    size_t length = strlen(word);

    while (found &&
           ((found > words && found[-1] != ' ') || (found[length] && found[length] != ' ')))
        found = strstr(found + 1, word);
    return found != NULL;
}

static bool takes_it_without(const struct server *server, hf_client *client,
                             const struct kind *kind, const char *command, bool known)
{
    hf_hold *hold;

    set_up(server, kind->free, known);
    const char *before = snapshot(server);
    forbid(server, command);
    int code = ask_for(client, kind, 0, &hold);
    if (code == HF_DENIED)
        check_unchanged(kind, command, before, snapshot(server));
    else
        CHECK_CODE(code, HF_OK);
    let_bob(server, "");
    if (hold)
        give_back(hold);
    return code == HF_OK;
}

static void try_kind(const struct server *server, const struct kind *kind)
{
    hf_client *client = open_as_bob(server, kind->more, HF_DRIVE_THREAD);

    for (size_t i = 0; i < COMMANDS; i++) {
        bool unknown = takes_it_without(server, client, kind, commands[i], false);
        bool known = takes_it_without(server, client, kind, commands[i], true);
        if (unknown && known && has_word(kind->denies, commands[i]))
            FAIL("%s without %s is granted", kind->name, commands[i]);
    }
    hf_close(client);
}

/* The hold stays what it was. Answers whether it was refused. */
static bool may_not_upgrade(const struct server *server, hf_client *client, const char *command)
{
    static const struct kind kind = { .name = "upgrade", .mode = HF_UPGRADE };
    hf_hold *hold;

    set_up(server, NULL, true);
    CHECK_CODE(ask_for(client, &kind, 0, &hold), HF_OK);
    const char *before = snapshot(server);
    forbid(server, command);
    int code = hf_upgrade(hold, 0);
    if (code == HF_DENIED)
        check_unchanged(&kind, command, before, snapshot(server));
    else
        CHECK_CODE(code, HF_OK);
    CHECK_INT(hf_hold_mode(hold), code == HF_OK ? HF_WRITE : HF_UPGRADE);
    CHECK(hf_held(hold));
    let_bob(server, "");
    give_back(hold);
    CHECK_STR(snapshot(server), "");
    return code == HF_DENIED;
}

TEST(upgrade_that_is_stopped_half_way_leaves_the_hold_as_it_was)
{
    static const char denies[] = "del get hdel hexists hscan hset incrby pexpire pttl type zrem";
    struct server server = { 0 };

    server_start(&server);
    let_bob(&server, "");
    hf_client *client = open_as_bob(&server, NULL, HF_DRIVE_THREAD);
    for (size_t i = 0; i < COMMANDS; i++)
        if (has_word(denies, commands[i]) && !may_not_upgrade(&server, client, commands[i]))
            FAIL("an upgrade without %s is granted", commands[i]);
    hf_close(client);
    server_kill(&server);
}

TEST(who_may_not_call_a_command_leaves_nothing)
{
    struct server server = { 0 };

    TEST_TIMEOUT(120 * test_slow());
    server_start(&server);
    let_bob(&server, "");
    for (size_t i = 0; i < KINDS; i++)
        try_kind(&server, &kinds[i]);
    server_kill(&server);
}

static void try_to_wait(const struct server *server, const struct kind *kind)
{
    hf_client *client = open_as_bob(server, kind->more, HF_DRIVE_THREAD);
    hf_hold *hold;

    for (size_t i = 0; i < COMMANDS; i++) {
        if (!has_word(kind->delays, commands[i]))
            continue;
        set_up(server, kind->held, true);
        const char *before = snapshot(server);
        forbid(server, commands[i]);
        CHECK_CODE(ask_for(client, kind, HF_FOREVER, &hold), HF_DENIED);
        check_unchanged(kind, commands[i], before, snapshot(server));
    }
    hf_close(client);
}

TEST(who_may_not_wait_leaves_nothing)
{
    struct server server = { 0 };

    server_start(&server);
    let_bob(&server, "");
    for (size_t i = 0; i < KINDS; i++)
        try_to_wait(&server, &kinds[i]);
    server_kill(&server);
}

/* ---- a server whose memory is full ---- */

/* A script that has written before is let go on by the server. Answers how often it was refused. */
static int try_when_full(const struct server *server, const struct kind *kind)
{
    hf_client *client = open_as_bob(server, kind->more, HF_DRIVE_THREAD);
    hf_hold *hold = NULL;
    int refused = 0;

    for (int known = 0; known < 2; known++) {
        set_up(server, kind->free, known);
        const char *before = snapshot(server);
        CHECK(server_says(server, "CONFIG SET maxmemory 1", "+OK"));
        test_note("%s", kind->name);
        int code = ask_for(client, kind, 0, &hold);
        CHECK(server_says(server, "CONFIG SET maxmemory 0", "+OK"));
        if (code == HF_ELIMIT)
            check_unchanged(kind, "memory", before, snapshot(server));
        else
            CHECK_CODE(code, HF_OK);
        if (hold)
            give_back(hold);
        refused += code == HF_ELIMIT;
    }
    hf_close(client);
    return refused;
}

TEST(what_there_is_no_memory_for_is_refused_and_leaves_nothing)
{
    struct server server = { 0 };
    int refused = 0;

    server_start(&server);
    let_bob(&server, "");
    for (size_t i = 0; i < KINDS; i++)
        refused += try_when_full(&server, &kinds[i]);
    CHECK(refused > 0);
    server_kill(&server);
}

/* ---- after silence ---- */

static void note_silence(void *arg, const hf_event *event)
{
    _Atomic int *silences = arg;

    *silences += event->type == HF_EVENT_STORE_DOWN;
}

TEST(who_is_refused_after_silence_is_told_so)
{
    struct server server = { 0 };
    struct outcome outcome = { 0 };
    _Atomic int silences = 0;
    hf_client *client = NULL;
    char url[120];

    server_start(&server);
    let_bob(&server, "");
    snprintf(url, sizeof(url), "redis://bob:word@127.0.0.1:%d?timeout=500", server.port);
    CHECK_CODE(hf_open(&client, url,
                       &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS, .on_event = note_silence,
                                          .event_arg = &silences)),
               HF_OK);
    give_back(take_patiently(client, "one"));
    forbid(&server, "pexpire");
    server_stop(&server);
    begin_wait(client, "one", HF_MUTEX, &outcome);
    EVENTUALLY(silences > 0, SOON_MS);
    server_continue(&server);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_DENIED);
    CHECK_STR(snapshot(&server), "");
    hf_close(client);
    server_kill(&server);
}

/* ---- together with others ---- */

enum { TOGETHER = 5 };

/* How many of them are refused; what the others have got is given back. */
static int try_together(const struct server *server, hf_client *client, const char *rights)
{
    static const struct kind kind = { .name = "several mutexes" };
    struct told told[TOGETHER] = { 0 };
    char name[32];
    int denied = 0;

    set_up(server, "SET redisson_lock_token:{own/1} 5 PX 600000", false);
    let_bob(server, rights);
    for (int i = 0; i < TOGETHER; i++) {
        snprintf(name, sizeof(name), "own/%d", i);
        ask(client, name, 0, &told[i]);
    }
    turn_until_told(client, told, TOGETHER);
    let_bob(server, "");
    for (int i = 0; i < TOGETHER; i++) {
        denied += told[i].code == HF_DENIED;
        if (told[i].code != HF_DENIED)
            CHECK_CODE(hf_unlock(told[i].hold), HF_OK);
    }
    check_unchanged(&kind, rights, "", snapshot(server));
    return denied;
}

TEST(several_in_one_call_leave_nothing)
{
    struct server server = { 0 };
    char rights[40];

    server_start(&server);
    let_bob(&server, "");
    hf_client *client = open_as_bob(&server, NULL, HF_DRIVE_CALLER);
    for (size_t i = 0; i < COMMANDS; i++) {
        snprintf(rights, sizeof(rights), "-%s", commands[i]);
        try_together(&server, client, rights);
    }
    CHECK_INT(try_together(&server, client, "-hset"), TOGETHER);
    CHECK_INT(try_together(&server, client, "-incrby"), 1);
    CHECK_INT(try_together(&server, client, "-pexpire -pexpireat"), TOGETHER);
    hf_close(client);
    server_kill(&server);
}
