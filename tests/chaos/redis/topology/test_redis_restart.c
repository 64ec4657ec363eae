/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis server that is started anew while locks are held and waited for: with all that it knew,
 * with nothing of it, and with all but the last of it. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>
#include <sys/stat.h>

#define WAITERS 3
/* Far beyond any test's end. */
#define LEASE_MS 600000

static const char *const keeps_all[] = { "--appendonly", "yes", "--appendfsync", "always", NULL };

static hf_client *open_on(const struct server *server, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, server_url(server, 3000), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
               HF_OK);
    return client;
}

struct crowd {
    struct server server;
    hf_mode mode;
    bool forgets;
    char directory[300];
    const char *arguments[7];
    hf_client *clients[1 + WAITERS]; /* the first one's owner holds it */
    hf_hold *hold;
    uint64_t token; /* of the last grant */
    struct outcome outcomes[WAITERS];
};

static int find_next(const struct crowd *crowd, unsigned served)
{
    for (int i = 0; i < WAITERS; i++)
        if (!(served >> i & 1) && crowd->outcomes[i].calls > 0)
            return i;
    return -1;
}

/* One after the other, in whatever order. */
static void serve_all(struct crowd *crowd)
{
    unsigned served = 0;

    for (int count = 0; count < WAITERS; count++) {
        EVENTUALLY(find_next(crowd, served) >= 0, SOON_MS);
        int next = find_next(crowd, served);
        struct outcome *outcome = &crowd->outcomes[next];
        served |= 1u << next;
        CHECK_CODE(outcome->code, HF_OK);
        CHECK_INT(find_next(crowd, served), -1);
        CHECK(hf_token(outcome->hold) > crowd->token);
        crowd->token = hf_token(outcome->hold);
        give_back(outcome->hold);
    }
}

static void gather(struct crowd *crowd)
{
    struct server *server = &crowd->server;

    snprintf(crowd->directory, sizeof(crowd->directory), "%s/%d", temp_dir(), crowd->mode);
    CHECK(mkdir(crowd->directory, 0700) == 0);
    memcpy(crowd->arguments, keeps_all, sizeof(keeps_all));
    crowd->arguments[4] = "--dir";
    crowd->arguments[5] = crowd->directory;
    server->arguments = crowd->forgets ? NULL : crowd->arguments;
    server_start(server);
    for (int i = 0; i <= WAITERS; i++)
        crowd->clients[i] = open_on(server, crowd->forgets && i == 0 ? 9000 : LEASE_MS);
    crowd->hold = take(crowd->clients[0], "one", crowd->mode, 0);
    crowd->token = hf_token(crowd->hold);
    for (int i = 0; i < WAITERS; i++)
        begin_wait(crowd->clients[1 + i], "one", crowd->mode, &crowd->outcomes[i]);
    EVENTUALLY(waiters(crowd->clients[0], "one") == WAITERS, SOON_MS);
}

static void start_anew(void *arg, int index)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    struct crowd *crowd = arg;

    crowd->mode = modes[index];
    gather(crowd);
    server_kill(&crowd->server);
    server_start_again(&crowd->server);
    if (crowd->forgets) {
        EVENTUALLY(!hf_held(crowd->hold), SOON_MS);
        CHECK_CODE(hf_unlock(crowd->hold), HF_LOST);
    } else {
        CHECK(hf_held(crowd->hold));
        CHECK_INT(find_next(crowd, 0), -1);
        give_back(crowd->hold);
    }
    serve_all(crowd);
    check_nothing_left(crowd->clients[0], "one");
    for (int i = 0; i <= WAITERS; i++)
        hf_close(crowd->clients[i]);
    server_kill(&crowd->server);
}

TEST(a_server_that_comes_back_with_all_keeps_all)
{
    struct crowd crowd = { .forgets = false };

    processes_run(3, start_anew, &crowd);
}

/* Who held it hears that it is lost; all who wait have it, each once. */
TEST(a_server_that_comes_back_empty_serves_who_waits)
{
    struct crowd crowd = { .forgets = true };

    processes_run(3, start_anew, &crowd);
}

/* What was detached is nobody's connection's: it waits for its key at the server. */
TEST(detached_holds_survive_the_server)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_UPGRADE, HF_WRITE, HF_PERMIT };
    enum { COUNT = sizeof(modes) / sizeof(modes[0]) };
    struct server server = { .arguments = keeps_all };
    char keys[COUNT][HF_OWNER_KEY_SIZE], name[20];
    uint64_t tokens[COUNT];
    hf_hold *hold = NULL;

    server_start(&server);
    hf_client *client = open_on(&server, LEASE_MS);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "name-%d", i);
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = modes[i], .lease_ms = LEASE_MS);
        options.limit = options.permits = modes[i] == HF_PERMIT ? 3 : 0;
        CHECK_CODE(hf_lock(client, name, 0, &options, &hold), HF_OK);
        tokens[i] = hf_token(hold);
        CHECK_CODE(hf_detach(hold, keys[i]), HF_OK);
    }
    hf_close(client);
    server_kill(&server);
    server_start_again(&server);
    client = open_on(&server, LEASE_MS);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "name-%d", i);
        CHECK_CODE(hf_attach(client, name, keys[i], &hold), HF_OK);
        CHECK_INT(hf_hold_mode(hold), modes[i]);
        CHECK(hf_token(hold) == tokens[i] || modes[i] == HF_READ || modes[i] == HF_UPGRADE);
        CHECK(hf_held(hold));
        give_back(hold);
        check_nothing_left(client, name);
    }
    hf_close(client);
    server_kill(&server);
}

static uint64_t next_token(hf_client *client, hf_mode mode)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.mode = mode), &hold), HF_OK);
    uint64_t token = hf_token(hold);
    give_back(hold);
    return token;
}

static void check_it_rises(uint64_t *token, hf_client *client, hf_mode mode)
{
    uint64_t before = *token;

    *token = next_token(client, mode);
    CHECK(*token > before);
}

static void go_through_all_of_it(void *arg, int index)
{
    const hf_mode mode = ((const hf_mode *)arg)[index];
    struct server server = { 0 }, replica = { 0 };
    char port[8], line[40];
    const char *const arguments[] = {
        "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", port, NULL
    };

    server_start(&server);
    snprintf(port, sizeof(port), "%d", server.port);
    hf_client *client = open_on(&server, LEASE_MS);
    uint64_t token = next_token(client, mode);
    CHECK(server_tell(&server, "FLUSHALL", NULL, 0));
    check_it_rises(&token, client, mode);
    server_kill(&server);
    server_start_again(&server);
    check_it_rises(&token, client, mode);
    replica.arguments = arguments;
    server_start(&replica);
    EVENTUALLY(server_tell(&server, "WAIT 1 1000", line, sizeof(line)) && strcmp(line, ":1") == 0,
               SOON_MS);
    hf_client *other = open_on(&replica, LEASE_MS);
    /* The last grant of the old master is one that the next one has never heard of. */
    CHECK(server_tell(&replica, "REPLICAOF NO ONE", NULL, 0));
    check_it_rises(&token, client, mode);
    server_kill(&server);
    check_it_rises(&token, other, mode);
    hf_close(client);
    hf_close(other);
    server_kill(&replica);
}

/* Whatever the server has forgotten of them. */
TEST(tokens_rise_through_all_of_it)
{
    hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };

    processes_run(3, go_through_all_of_it, modes);
}
