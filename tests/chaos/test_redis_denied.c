/* An attempt whose script the server stops half way, because its user may not call one of the
 * commands: nothing is left of it, whichever command that is, and whatever is asked for. */
#include "server.h"
#include "turns.h"

#include <stdio.h>

/* Far beyond any test's end: nothing goes by itself. */
#define LEASE_MS 600000
#define SNAPSHOT_SIZE 8000

/* What our scripts call. */
static const char *const commands[] = {
    "decrby",  "del",    "exists",        "get",   "hdel",    "hexists",   "hget",
    "hgetall", "hkeys",  "hlen",          "hscan", "hset",    "incrby",    "lindex",
    "lpop",    "lrange", "lrem",          "mget",  "pexpire", "pexpireat", "pttl",
    "rename",  "rpush",  "set",           "time",  "type",    "zadd",      "zcard",
    "zpopmin", "zrange", "zrangebyscore", "zrem",  "zscore",
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

/* Who has it is somebody else's client of ours. */
#define OTHER "01234567-89ab-8def-8123-456789abcdef:1"

struct kind {
    const char *name;
    hf_mode mode;
    uint32_t permits, limit;
    const char *more;   /* of the URL */
    const char *free;   /* what the server is told before it is free to be taken, or NULL */
    const char *held;   /* the same before somebody else has it */
    const char *denies; /* among what may stop who takes it */
    const char *delays; /* among what may stop who begins to wait for it; or "" */
};

static const struct kind kinds[] = {
    { .name = "mutex",
      .mode = HF_MUTEX,
      .held = "HSET one " OTHER " 1",
      .denies = "hkeys hset pexpire incrby",
      .delays = "zadd pexpire pttl" },
    { .name = "fair mutex",
      .mode = HF_FAIR,
      .held = "HSET one " OTHER " 1",
      .denies = "hexists lindex hset pexpire incrby",
      .delays = "zadd lrange rpush pttl" },
    { .name = "read lock",
      .mode = HF_READ,
      .held = "HSET one mode write " OTHER ":write 1",
      .denies = "type hset set pttl pexpire zrem",
      .delays = "zadd pexpire" },
    { .name = "write lock",
      .mode = HF_WRITE,
      .held = "HSET one mode write " OTHER ":write 1",
      .denies = "type hset pexpire incrby zrem",
      .delays = "zadd pexpire" },
    { .name = "permit",
      .mode = HF_PERMIT,
      .permits = 3,
      .free = "MSET one 5 holdfast_kind:{one} \"a semaphore\"",
      .held = "MSET one 0 holdfast_kind:{one} \"a semaphore\"",
      .denies = "zadd decrby zrem exists pttl incrby",
      .delays = "" },
    { .name = "permit of a new semaphore",
      .mode = HF_PERMIT,
      .permits = 2,
      .limit = 5,
      .denies = "zadd zrem exists pttl incrby set",
      .delays = "" },
    { .name = "counter",
      .mode = HF_COUNTER,
      .permits = 3,
      .free = "SET one 5",
      .held = "SET one 2",
      .denies = "decrby set zrem exists",
      .delays = "zadd pexpire" },
    { .name = "latch",
      .mode = HF_LATCH,
      .held = "SET one 2",
      .denies = "zrem type",
      .delays = "zadd pexpire" },
    { .name = "plain lock",
      .mode = HF_MUTEX,
      .more = "&format=simple",
      .held = "SET one somebody",
      .denies = "set get",
      .delays = "" },
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

static hf_client *open_as_bob(const struct server *server, const char *more, hf_driver driver)
{
    hf_client *client = NULL;
    char url[120];

    snprintf(url, sizeof(url), "redis://bob:word@127.0.0.1:%d?timeout=30000%s", server->port,
             more ? more : "");
    CHECK_CODE(hf_open(&client, url,
                       &(hf_client_options){ HF_CLIENT_OPTIONS_INIT, .lease_ms = LEASE_MS,
                                             .driver = driver }),
               HF_OK);
    return client;
}

/* He may do all but these: words like "-hset". */
static void let_bob(const struct server *server, const char *rights)
{
    char command[120];

    snprintf(command, sizeof(command), "ACL SETUSER bob on >word ~* &* +@all %s", rights);
    CHECK(server_says(server, command, "+OK"));
}

static void forbid(const struct server *server, const char *name)
{
    char rights[40];

    snprintf(rights, sizeof(rights), "-%s", name);
    let_bob(server, rights);
}

/* All that there is, but for the token's key, if it ends by itself: the text is the test's until it
 * asks again. */
static const char *snapshot(const struct server *server)
{
    static char texts[2][SNAPSHOT_SIZE];
    static int turn;
    char *text = texts[turn++ % 2];

    CHECK(server_ask(
        server,
        "EVAL \"local all = {} for _, key in ipairs(redis.call('keys', '*')) do "
        "local is = redis.call('type', key).ok "
        "local what = is == 'string' and {redis.call('get', key)} or "
        "is == 'hash' and redis.call('hgetall', key) or "
        "is == 'list' and redis.call('lrange', key, 0, -1) or "
        "redis.call('zrange', key, 0, -1, 'withscores') "
        "local ends = redis.call('pttl', key) > 0 "
        "if not ends or not string.find(key, 'redisson_lock_token:', 1, true) then "
        "all[#all + 1] = key .. (ends and ' (ends): ' or ': ') .. table.concat(what, ' ') end end "
        "table.sort(all) return table.concat(all, '; ')\" 0",
        text, SNAPSHOT_SIZE));
    return text;
}

static void set_up(const struct server *server, const char *before, bool known)
{
    run(server, "FLUSHALL");
    if (before)
        run(server, before);
    /* A token that is counted on, and whose life begins anew. */
    if (known)
        run(server, "SET redisson_lock_token:{one} 5 PX 600000");
}

static bool has_word(const char *words, const char *word)
{
    const char *found = strstr(words, word);
    size_t length = strlen(word);

    while (found &&
           ((found > words && found[-1] != ' ') || (found[length] && found[length] != ' ')))
        found = strstr(found + 1, word);
    return found != NULL;
}

static int ask_for(hf_client *client, const struct kind *kind, int64_t wait_ms, hf_hold **hold)
{
    *hold = NULL;
    return hf_lock(client, "one", wait_ms,
                   LOCK_OPTIONS(.mode = kind->mode, .permits = kind->permits, .limit = kind->limit),
                   hold);
}

static void check_unchanged(const struct kind *kind, const char *command, const char *before,
                            const char *after)
{
    if (strcmp(before, after) != 0)
        FAIL("%s without %s: it was \"%s\", and is \"%s\"", kind->name, command, before, after);
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
                       &(hf_client_options){ HF_CLIENT_OPTIONS_INIT, .lease_ms = LEASE_MS,
                                             .on_event = note_silence, .event_arg = &silences }),
               HF_OK);
    give_back(take_patiently(client, "one"));
    forbid(&server, "pexpire");
    server_stop(&server);
    CHECK_CODE(hf_lock_async(client, "one", HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    EVENTUALLY(silences > 0, SOON_MS);
    server_continue(&server);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_DENIED);
    CHECK_STR(snapshot(&server), "");
    hf_close(client);
    server_kill(&server);
}

/* ---- permits of others ---- */

/* Free ones and those that are taken. */
static void check_permits(const struct server *server, const char *number)
{
    CHECK(server_says(server,
                      "EVAL \"return redis.call('get', 'one') + redis.call('zcard', "
                      "'{one}:timeout')\" 0",
                      number));
}

TEST(a_permit_that_has_run_out_is_not_lost_to_who_may_not_count_it)
{
    static const struct kind kind = { .mode = HF_PERMIT, .permits = 2 };
    struct server server = { 0 };
    int denied = 0;
    hf_hold *hold;

    server_start(&server);
    let_bob(&server, "");
    hf_client *client = open_as_bob(&server, NULL, HF_DRIVE_THREAD);
    for (size_t i = 0; i < COMMANDS; i++) {
        set_up(&server, "MSET one 2 holdfast_kind:{one} \"a semaphore\"", false);
        run(&server, "ZADD {one}:timeout 1 nobody 2 anybody 3 somebody");
        forbid(&server, commands[i]);
        int code = ask_for(client, &kind, 0, &hold);
        CHECK(code == HF_OK || code == HF_DENIED);
        check_permits(&server, ":5");
        let_bob(&server, "");
        if (hold)
            give_back(hold);
        denied += code == HF_DENIED && strcmp(commands[i], "incrby") == 0;
    }
    CHECK_INT(denied, 1);
    hf_close(client);
    server_kill(&server);
}

TEST(a_permit_is_not_lost_to_who_may_not_count_what_goes_back)
{
    static const struct kind some = { .mode = HF_PERMIT, .permits = 3 };
    static const struct kind all = { .mode = HF_PERMIT, .permits = 5 };
    struct server server = { 0 };
    hf_hold *hold;

    server_start(&server);
    let_bob(&server, "");
    hf_client *client = open_as_bob(&server, NULL, HF_DRIVE_THREAD);
    CHECK_CODE(hf_semaphore_set(client, "one", 5), HF_OK);
    CHECK_CODE(ask_for(client, &some, 0, &hold), HF_OK);
    forbid(&server, "incrby");
    CHECK_CODE(hf_unlock(hold), HF_DENIED);
    let_bob(&server, "");
    CHECK_CODE(ask_for(client, &all, 0, &hold), HF_OK);
    forbid(&server, "incrby");
    CHECK_CODE(hf_break(client, "one", NULL, NULL), HF_DENIED);
    let_bob(&server, "");
    check_permits(&server, ":5");
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK_CODE(ask_for(client, &all, 0, &hold), HF_OK);
    give_back(hold);
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
    hf_client *client = open_as_bob(&server, NULL, HF_DRIVE_MYSELF);
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
