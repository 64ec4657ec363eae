/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters that send a client about, played by a server that knows five commands: nothing hangs,
 * and what is asked has a limit. */
#include "conformance.h"
#include "redis_script.h"

#include <stdio.h>

struct player {
    struct script script;
    _Atomic int scripts, asking, maps;
    const char *map;    /* what CLUSTER SLOTS is answered; NULL: that it has all slots itself */
    const char *answer; /* to a script; an @ in it is its own port */
    const char *then;   /* to a script after ASKING; NULL: the same */
    bool synced;        /* a replica is to confirm what is granted, and does so */
    const char *_Atomic mark; /* to what marks a grant for replicas; NULL: as to a script */
    _Atomic int waited_on;    /* the connection on which replicas were asked about last */
    bool asked;               /* what comes now comes after ASKING */
    _Atomic bool down;        /* every connection ends at its first word */
    _Atomic int refused;      /* how many have ended that way */
    char said[100];
};

static const char *with_port(struct player *player, const char *answer)
{
    size_t length = strcspn(answer, "@");

    if (!answer[length])
        return answer;
    snprintf(player->said, sizeof(player->said), "%.*s%d%s", (int)length, answer,
             player->script.port, answer + length + 1);
    return player->said;
}

static const char *play(struct script *script, const struct script_call *call)
{
    struct player *player = script->arg;
    const char *usual = script_usual(call);
    const char *mark = player->mark;
    bool asked = player->asked;

    if (player->down) {
        player->refused++;
        return NULL;
    }
    player->asked = strcmp(call->words[0], "ASKING") == 0;
    player->asking += player->asked;
    if (strcmp(call->words[0], "CLUSTER") == 0) {
        player->maps++;
        return with_port(player, player->map
                                     ? player->map
                                     : "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:@\r\n");
    }
    if (strcmp(call->words[0], "WAIT") == 0) {
        player->waited_on = call->connection;
        return ":1\r\n";
    }
    if (strcmp(call->words[0], "SET") == 0 && !asked)
        return with_port(player, mark ? mark : player->answer);
    if (!script_is_called(call))
        return usual ? usual : "+OK\r\n";
    player->scripts++;
    return with_port(player, asked && player->then ? player->then : player->answer);
}

static hf_client *open_on(struct player *player)
{
    hf_client *client = NULL;
    char url[100];

    player->script = (struct script){ .answer = play, .arg = player };
    script_start(&player->script);
    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d?timeout=%d%s", player->script.port,
             5000 * test_slow(), player->synced ? "&sync=1" : "");
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static void end(struct player *player, hf_client *client)
{
    script_end(&player->script);
    hf_close(client);
}

/* However long it is: each attempt goes on five times, and then there is a pause. */
TEST(who_is_sent_in_circles_goes_slowly)
{
    struct player player = { .answer = "-MOVED 100 127.0.0.1:@\r\n" };
    hf_client *client = open_on(&player);
    hf_hold *hold = NULL;

    CHECK_ERROR(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, "MOVED") != NULL);
    CHECK_INT(player.scripts, 6);
    CHECK_CODE(hf_lock(client, "one", 2000, NULL, &hold), HF_UNREACHABLE);
    test_note("%d scripts, %d maps", player.scripts, player.maps);
    CHECK(player.scripts < 400);
    CHECK(player.maps < 100);
    end(&player, client);
}

/* Longer than the pause between two tries to connect. */
#define QUIET_MS 3000

static bool is_quiet(const struct player *player)
{
    int refused = player->refused;

    let_pass_ms(QUIET_MS);
    return player->refused == refused;
}

TEST(idle_client_stops_connecting_while_every_server_is_down)
{
    struct player player = { .answer = "*2\r\n:0\r\n:1000\r\n" };
    hf_client *client = open_on(&player);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_BUSY);
    player.down = true;
    script_cut(&player.script);
    EVENTUALLY(player.refused > 0, SOON_MS);
    EVENTUALLY(is_quiet(&player), SOON_MS);
    player.down = false;
    EVENTUALLY(hf_lock(client, "one", 0, NULL, &hold) == HF_BUSY, SOON_MS);
    end(&player, client);
}

TEST(an_exception_is_asked_for_and_does_not_change_the_map)
{
    struct player player = { .answer = "-ASK 100 127.0.0.1:@\r\n",
                             .then = "*2\r\n:1\r\n:12345\r\n" };
    hf_client *client = open_on(&player);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(player.asking, 1);
    CHECK_INT(player.scripts, 2);
    CHECK_INT(player.maps, 1);
    end(&player, client);
}

TEST(what_was_granted_as_an_exception_is_confirmed_as_one)
{
    struct player player = { .answer = "-ASK 100 127.0.0.1:@\r\n",
                             .then = "*2\r\n:1\r\n:12345\r\n",
                             .synced = true };
    hf_client *client = open_on(&player);
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(player.asking, 2);
    CHECK_INT(player.scripts, 2);
    end(&player, client);
}

/* What others wait for on the same connection is not to be asked for again. */
TEST(a_slot_that_is_not_there_any_more_concerns_no_other_grant)
{
    static const char *const marks[] = { "-CLUSTERDOWN Hash slot not served\r\n",
                                         "-MOVED 100 127.0.0.1:@\r\n" };
    hf_hold *hold = NULL;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        struct player player = { .answer = "*2\r\n:1\r\n:12345\r\n", .synced = true };
        hf_client *client = open_on(&player);
        CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
        int connection = player.waited_on;
        player.mark = marks[i];
        CHECK_ERROR(hf_lock(client, "two", 0, NULL, &hold), HF_UNREACHABLE);
        test_note("%s", hf_last_error()->text);
        CHECK(strstr(hf_last_error()->text, "the lock's slot"));
        player.mark = NULL;
        CHECK_CODE(hf_lock(client, "three", SOON_MS, NULL, &hold), HF_OK);
        CHECK_INT(player.waited_on, connection);
        end(&player, client);
    }
}

TEST(maps_that_are_nonsense_end_nothing_but_the_attempt)
{
    static const char *const maps[] = {
        "*0\r\n",
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*3\r\n:-5\r\n:99999999\r\n*2\r\n$4\r\nhost\r\n:99999\r\n",
        "*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\n?\r\n:6379\r\n",
        "*1\r\n*3\r\n$1\r\nx\r\n*0\r\n:7\r\n",
        "-ERR something\r\n",
    };
    hf_hold *hold = NULL;

    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        struct player player = { .map = maps[i], .answer = "-MOVED x y\r\n" };
        hf_client *client = open_on(&player);
        CHECK(hf_lock(client, "one", 0, NULL, &hold) != HF_OK);
        test_note("%s", hf_last_error()->text);
        CHECK(strlen(hf_last_error()->text) > 10);
        end(&player, client);
    }
}

TEST(directions_that_are_nonsense_are_not_followed)
{
    static const char *const answers[] = {
        "-MOVED \r\n",
        "-MOVED 99999 127.0.0.1:1\r\n",
        "-MOVED 5 127.0.0.1\r\n",
        "-MOVED 5 127.0.0.1:0\r\n",
        "-MOVED 5 127.0.0.1:123456\r\n",
        "-MOVED 5:1\r\n",
        "-ASK\r\n",
        "-ASK 5 ::\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    };
    hf_hold *hold = NULL;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct player player = { .answer = answers[i] };
        hf_client *client = open_on(&player);
        int code = hf_lock(client, "one", 0, NULL, &hold);
        test_note("%d: %s", code, hf_last_error()->text);
        CHECK(code == HF_UNREACHABLE || code == HF_EINTERNAL);
        end(&player, client);
    }
}
