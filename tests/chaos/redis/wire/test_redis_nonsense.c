/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that say what does not belong there, on the connection that listens and as sentinels:
 * whoever waits goes on, elsewhere if there is somewhere else, or is told in a sentence. */
#include "conformance.h"
#include "redis_script.h"
#include "server.h"

#include <stdio.h>

#define GRANT "*2\r\n:1\r\n$2\r\n42\r\n"
/* Another client has it for ten minutes, and is going to hand it on. */
#define REFUSAL "*3\r\n:0\r\n:600000\r\n:0\r\n"
#define DEEP "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"
#define ROOM 12000

struct scene {
    struct script script;
    const char *says; /* to a subscription; in it, @ is the confirmation, # the channel */
    bool breaks_off;  /* nobody listens on after it */
    int attempts;
    char said[ROOM];
};

/* ---- on the connection that listens ---- */

static void add(char *said, const char *text, size_t length)
{
    size_t used = strlen(said);

    CHECK(used + length < ROOM);
    memcpy(said + used, text, length);
    said[used + length] = 0;
}

/* "#" as a text of the protocol. */
static void add_channel(char *said, const char *channel)
{
    char text[200];

    snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(channel), channel);
    add(said, text, strlen(text));
}

static const char *fill_in(struct scene *scene, const struct script_call *call)
{
    *scene->said = 0;
    for (const char *at = scene->says; *at; at++) {
        if (*at == '@')
            add(scene->said, script_usual(call), strlen(script_usual(call)));
        else if (*at == '#')
            add_channel(scene->said, call->words[1]);
        else
            add(scene->said, at, 1);
    }
    return scene->said;
}

/* The third attempt is granted; where the listening connection is of no use any more, not before
 * there has been a second one. */
static const char *hear_nonsense(struct script *script, const struct script_call *call)
{
    struct scene *scene = script->arg;

    if (strcmp(call->words[0], "SUBSCRIBE") == 0)
        return fill_in(scene, call);
    if (!script_is_called(call))
        return script_usual(call);
    if (strcmp(call->words[2], "3") != 0)
        return ":1\r\n";
    bool listened = !scene->breaks_off || script->connections >= 3;
    return ++scene->attempts >= 3 && listened ? GRANT : REFUSAL;
}

/* The wait is over long before a silent server is given up. */
static uint64_t token_of_a_wait(struct scene *scene)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    scene->script = (struct script){ .answer = hear_nonsense, .arg = scene };
    script_start(&scene->script);
    CHECK_CODE(hf_open(&client,
                       server_url(&(struct server){ .port = scene->script.port }, 5 * SOON_MS),
                       NULL),
               HF_OK);
    /* The claim's number is 1 where no thread's is in front of it. */
    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.owner = HF_OWNER_NEW), &hold), HF_OK);
    uint64_t token = hf_token(hold);
    give_back(hold);
    hf_close(client);
    script_end(&scene->script);
    return token;
}

#define GRANTED_TO_1(text) "@*3\r\n$7\r\nmessage\r\n#" text

static const struct {
    const char *says;
    bool breaks_off;
} nonsense[] = {
    { "@#!\r\n", true },
    { "@HTTP/1.1 400 Bad Request\r\n\r\n", true },
    { "@*2000000000\r\n", true },
    { "@$99999999999999999999\r\nx", true },
    { "@" DEEP, true },
    { "@*0\r\n", false },
    { "@*-1\r\n$-1\r\n:5\r\n+OK\r\n", false },
    { "-ERR unknown command\r\n", false },
    { "*3\r\n$9\r\nsubscribe\r\n$-1\r\n:1\r\n", false },
    { "@*2\r\n$7\r\nmessage\r\n#", false },
    { "@*3\r\n$12\r\nsunsubscribe\r\n#:0\r\n", false },
    { "@*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$10\r\n1 43 30000\r\n", false },
    { "@*3\r\n:7\r\n#$10\r\n1 43 30000\r\n", false },
    { GRANTED_TO_1("*1\r\n$10\r\n1 43 30000\r\n"), false },
    { GRANTED_TO_1(":1\r\n"), false },
    { GRANTED_TO_1("$0\r\n\r\n"), false },
    { GRANTED_TO_1("$1\r\n1\r\n"), false },
    { GRANTED_TO_1("$4\r\n1 43\r\n"), false },
    { GRANTED_TO_1("$5\r\n1 43 \r\n"), false },
    { GRANTED_TO_1("$11\r\n1 43 30000x\r\n"), false },
    { GRANTED_TO_1("$11\r\n1 43 -30000\r\n"), false },
    { GRANTED_TO_1("$11\r\n-1 43 30000\r\n"), false },
    { GRANTED_TO_1("$10\r\n2 43 30000\r\n"), false },
    { GRANTED_TO_1("$33\r\n1 99999999999999999999999999 30000\r\n"), false },
};

static void hear_one(void *arg, int index)
{
    struct scene scene = { .says = nonsense[index].says, .breaks_off = nonsense[index].breaks_off };

    (void)arg;
    CHECK_INT((int)token_of_a_wait(&scene), 42);
}

TEST(who_waits_goes_on_whatever_is_said_where_it_listens)
{
    processes_run(sizeof(nonsense) / sizeof(nonsense[0]), hear_one, NULL);
}

TEST(word_of_a_grant_may_come_before_the_confirmation_of_its_channel)
{
    struct scene scene = { .says = "*3\r\n$7\r\nmessage\r\n#$10\r\n1 43 30000\r\n@" };

    CHECK_INT((int)token_of_a_wait(&scene), 43);
    CHECK_INT(scene.attempts, 1);
}

/* ---- as a sentinel ---- */

struct sentinel {
    struct script script;
    const char *_Atomic says; /* where the master is; NULL: here */
    const char *later; /* the same, to whoever asks again on the same connection; NULL: `says` */
    char said[100];
    bool asked_before[SCRIPT_VISITS];
    /* How often it was asked for a master, and asked again; and greeted as one. */
    _Atomic int asked, asked_again, greeted;
};

#define NOWHERE "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n"

static const char *name_master(struct sentinel *sentinel, int connection)
{
    char port[8];

    CHECK(connection < SCRIPT_VISITS);
    bool again = sentinel->asked_before[connection];
    sentinel->asked_before[connection] = true;
    sentinel->asked++;
    sentinel->asked_again += again;
    if (again && sentinel->later)
        return sentinel->later;
    if (sentinel->says)
        return sentinel->says;
    int length = snprintf(port, sizeof(port), "%d", sentinel->script.port);
    snprintf(sentinel->said, sizeof(sentinel->said), "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n",
             length, port);
    return sentinel->said;
}

static const char *point_somewhere(struct script *script, const struct script_call *call)
{
    struct sentinel *sentinel = script->arg;

    if (script_is_called(call) && strcmp(call->words[2], "1") == 0)
        return "*1\r\n:1\r\n"; /* a renewal */
    if (script_is_called(call))
        return strcmp(call->words[2], "3") == 0 ? GRANT : ":1\r\n";
    if (strcmp(call->words[0], "SENTINEL") == 0)
        return name_master(sentinel, call->connection);
    if (strcmp(call->words[0], "ROLE") != 0)
        return script_usual(call);
    sentinel->greeted++;
    return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
}

static void sentinel_start(struct sentinel *sentinel, const char *says)
{
    *sentinel = (struct sentinel){ .asked = 0 };
    sentinel->says = says;
    sentinel->script = (struct script){ .answer = point_somewhere, .arg = sentinel };
    script_start(&sentinel->script);
}

static hf_client *open_by(const struct sentinel *first, const struct sentinel *second,
                          int64_t lease_ms)
{
    char url[200];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/main?timeout=1500",
             first->script.port, second->script.port);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)), HF_OK);
    return client;
}

static int lock_by(const struct sentinel *first, const struct sentinel *second, int64_t wait_ms)
{
    hf_client *client = open_by(first, second, 30000);
    hf_hold *hold = NULL;

    int code = hf_lock(client, "one", wait_ms, NULL, &hold);
    if (code == HF_OK)
        give_back(hold);
    hf_close(client);
    return code;
}

#define NO_PLACE "names no host and port"
static char long_host[ROOM];

static const struct {
    const char *says, *words;
} impostors[] = {
    { "*-1\r\n", "does not know that name" },
    { "$-1\r\n", "does not know that name" },
    { "*0\r\n", NO_PLACE },
    { "*1\r\n$9\r\n127.0.0.1\r\n", NO_PLACE },
    { "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n", NO_PLACE },
    { "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n99999\r\n", NO_PLACE },
    { "*2\r\n$9\r\n127.0.0.1\r\n:-1\r\n", NO_PLACE },
    { "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n6379x\r\n", NO_PLACE },
    { "*2\r\n$0\r\n\r\n$4\r\n6379\r\n", NO_PLACE },
    { "*2\r\n$-1\r\n$-1\r\n", NO_PLACE },
    { "*2\r\n*1\r\n:1\r\n*1\r\n:2\r\n", NO_PLACE },
    { ":6379\r\n", NO_PLACE },
    { long_host, NO_PLACE },
    { "-ERR not here\r\n", "not here" },
    { "+OK\r\n", NO_PLACE },
    { "@#!\r\n", "cannot be read" },
    { NOWHERE, "cannot connect" },
    { "*2\r\n$12\r\nno such host\r\n$4\r\n6379\r\n", "no such host" },
};

static void meet_impostor(void *arg, int index)
{
    struct sentinel impostor, honest;

    (void)arg;
    sentinel_start(&impostor, impostors[index].says);
    sentinel_start(&honest, NULL);
    CHECK_ERROR(lock_by(&impostor, &impostor, 0), HF_UNREACHABLE);
    test_note("%s", hf_last_error()->text);
    CHECK(strstr(hf_last_error()->text, impostors[index].words) != NULL);
    CHECK_CODE(lock_by(&impostor, &honest, SOON_MS), HF_OK);
    script_end(&impostor.script);
    script_end(&honest.script);
}

TEST(a_sentinel_that_talks_nonsense_is_told_and_left_for_another)
{
    int length = snprintf(long_host, sizeof(long_host), "*2\r\n$10000\r\n");

    memset(long_host + length, 'x', 10000);
    snprintf(long_host + length + 10000, sizeof(long_host) - (size_t)length - 10000,
             "\r\n$4\r\n6379\r\n");
    processes_run(sizeof(impostors) / sizeof(impostors[0]), meet_impostor, NULL);
}

/* Sentinels behind one address that do not agree: the client follows the other one's word once, and
 * comes back. The lease is so short that it would soon be seen to leave again. */
TEST(a_master_is_left_once_for_the_same_word)
{
    struct sentinel sentinel;
    hf_hold *hold = NULL;

    sentinel_start(&sentinel, NULL);
    sentinel.later = NOWHERE;
    hf_client *client = open_by(&sentinel, &sentinel, 3000 * (int64_t)test_slow());
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    EVENTUALLY(sentinel.greeted > 1, SOON_MS);
    int asked = sentinel.asked_again;
    EVENTUALLY(sentinel.asked_again > asked + 4, SOON_MS);
    CHECK_INT(sentinel.greeted, 2);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    hf_close(client);
    script_end(&sentinel.script);
}

/* A sentinel that is cut off knows a master of long ago. Who has never heard the true one from it
 * stays where it is. */
TEST(a_sentinel_that_always_named_another_master_does_not_disturb)
{
    struct sentinel sentinel, cut_off, master;
    hf_hold *hold = NULL;

    sentinel_start(&master, NULL);
    sentinel_start(&sentinel, name_master(&master, 0));
    sentinel_start(&cut_off, NOWHERE);
    hf_client *client = open_by(&sentinel, &cut_off, 30000);
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    EVENTUALLY(sentinel.asked_again > 0, SOON_MS);
    script_end(&sentinel.script);
    EVENTUALLY(cut_off.asked > 2, SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(master.greeted, 1);
    hf_close(client);
    script_end(&cut_off.script);
    script_end(&master.script);
}

/* One that is cut off has named the master before the last one, and still does: that is no word
 * on the last one. The other sentinel is asked from then on. */
TEST(a_sentinel_that_named_the_master_before_does_not_lead_back_to_it)
{
    struct sentinel behind, ahead, old, new;
    hf_hold *hold = NULL;

    sentinel_start(&old, NULL);
    sentinel_start(&new, NULL);
    sentinel_start(&behind, name_master(&old, 0));
    sentinel_start(&ahead, name_master(&old, 0));
    hf_client *client = open_by(&behind, &ahead, 3000 * (int64_t)test_slow());
    CHECK_CODE(hf_lock(client, "one", SOON_MS, NULL, &hold), HF_OK);
    EVENTUALLY(behind.asked_again > 0, SOON_MS);
    ahead.says = name_master(&new, 0);
    script_end(&old.script);
    EVENTUALLY(new.greeted > 0, SOON_MS);
    EVENTUALLY(ahead.asked_again > 2, SOON_MS);
    CHECK_INT(new.greeted, 1);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    hf_close(client);
    script_end(&behind.script);
    script_end(&ahead.script);
    script_end(&new.script);
}
