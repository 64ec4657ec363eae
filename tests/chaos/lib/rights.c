/* SPDX-License-Identifier: Apache-2.0 */
/* Bob, what there is to be had, and what is at the server. */
#include "rights.h"

#include <stdio.h>

#define SNAPSHOT_SIZE 8000

const char *const commands[COMMANDS] = {
    "decrby",  "del",     "exists", "get",           "hdel",    "hexists", "hget",
    "hgetall", "hkeys",   "hlen",   "hscan",         "hset",    "incrby",  "lindex",
    "lpop",    "lrange",  "lrem",   "mget",          "persist", "pexpire", "pexpireat",
    "pttl",    "rename",  "rpush",  "set",           "time",    "type",    "zadd",
    "zcard",   "zpopmin", "zrange", "zrangebyscore", "zrem",    "zscore",
};

/* Who has it is somebody else's client of ours. */
#define OTHER "01234567-89ab-8def-8123-456789abcdef:1"

const struct kind kinds[KINDS] = {
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
    { .name = "upgradeable read lock",
      .mode = HF_UPGRADE,
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

static void tell(const struct server *server, const char *command)
{
    CHECK(server_tell(server, command, NULL, 0));
}

hf_client *open_as_bob(const struct server *server, const char *more, hf_driver driver)
{
    hf_client *client = NULL;
    char url[120];

    snprintf(url, sizeof(url), "redis://bob:word@127.0.0.1:%d?timeout=30000%s", server->port,
             more ? more : "");
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS, .driver = driver)),
               HF_OK);
    return client;
}

void let_bob(const struct server *server, const char *rights)
{
    char command[120];

    snprintf(command, sizeof(command), "ACL SETUSER bob on >word ~* &* +@all %s", rights);
    CHECK(server_says(server, command, "+OK"));
}

void forbid(const struct server *server, const char *name)
{
    char rights[40];

    snprintf(rights, sizeof(rights), "-%s", name);
    let_bob(server, rights);
}

const char *snapshot(const struct server *server)
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

void set_up(const struct server *server, const char *before, bool known)
{
    tell(server, "FLUSHALL");
    if (before)
        tell(server, before);
    if (known)
        tell(server, "SET redisson_lock_token:{one} 5 PX 600000");
}

int ask_for(hf_client *client, const struct kind *kind, int64_t wait_ms, hf_hold **hold)
{
    *hold = NULL;
    return hf_lock(client, "one", wait_ms,
                   LOCK_OPTIONS(.mode = kind->mode, .permits = kind->permits, .limit = kind->limit),
                   hold);
}

void check_unchanged(const struct kind *kind, const char *command, const char *before,
                     const char *after)
{
    if (strcmp(before, after) != 0)
        FAIL("%s without %s: it was \"%s\", and is \"%s\"", kind->name, command, before, after);
}
