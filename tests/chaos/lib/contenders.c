/* SPDX-License-Identifier: Apache-2.0 */
/* Who contends, and what it is told to do; see the header. */
#include "contenders.h"

#include <stdio.h>
#include <stdlib.h>

static void lock(struct contender *contender, hf_client *client, int64_t lease_ms, hf_hold **hold)
{
    CHECK_CODE(hf_lock(client, "one", HF_FOREVER,
                       LOCK_OPTIONS(.mode = contender->mode, .lease_ms = lease_ms), hold),
               HF_OK);
    contender->state->token = hf_token(*hold);
    contender->state->holds = hf_held(*hold);
}

/* Where the machine stood still for so long, the wait was over before the server had answered. */
static void give_up(const struct contender *contender, hf_client *client)
{
    hf_hold *hold = NULL;
    int code = hf_lock(client, "one", 500, LOCK_OPTIONS(.mode = contender->mode), &hold);

    CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
}

static void contend(void *arg)
{
    struct contender *contender = arg;
    hf_client *client;
    hf_hold *hold = NULL;
    char line[20];

    CHECK_CODE(hf_open(&client, server_url(contender->server, 3000), NULL), HF_OK);
    while (parent_hear(line, sizeof(line)) && strcmp(line, "end") != 0) {
        if (strcmp(line, "lock") == 0) {
            lock(contender, client, contender->lease_ms, &hold);
        } else if (strcmp(line, "fixed") == 0) {
            lock(contender, client, SHORT_LEASE_MS, &hold);
        } else if (strcmp(line, "renewed") == 0) {
            hf_close(client);
            CHECK_CODE(hf_open(&client, server_url(contender->server, 3000),
                               &HF_CLIENT_OPTIONS(.lease_ms = SHORT_LEASE_MS)),
                       HF_OK);
            lock(contender, client, 0, &hold);
        } else if (strcmp(line, "look") == 0) {
            parent_say(hf_lock(client, "one", 0, LOCK_OPTIONS(.mode = contender->mode), &hold) ==
                               HF_OK
                           ? "free"
                           : "busy");
        } else if (strcmp(line, "try") == 0) {
            give_up(contender, client);
            parent_say("refused");
        } else {
            contender->state->holds = false;
            CHECK_CODE(hf_unlock(hold), HF_OK);
            parent_say("released");
        }
    }
    hf_close(client);
}

struct scene *begin_with(hf_mode mode, int64_t lease_ms)
{
    static struct scene scene;
    struct state *states = shared_memory(CONTENDERS * sizeof(*states));

    TEST_TIMEOUT(120);
    memset(&scene, 0, sizeof(scene));
    server_start(&scene.server);
    for (int i = 0; i < CONTENDERS; i++) {
        struct contender *contender = &scene.contenders[i];
        contender->server = &scene.server;
        contender->mode = mode;
        contender->lease_ms = lease_ms;
        contender->state = &states[i];
        child_start(&contender->child, contend, contender);
    }
    return &scene;
}

struct scene *begin(hf_mode mode)
{
    return begin_with(mode, 0);
}

void leave(struct contender *contender)
{
    child_say(&contender->child, "end");
    child_join(&contender->child);
}

int ask(const struct scene *scene, const char *script)
{
    char command[700], line[40];

    CHECK(snprintf(command, sizeof(command), "EVAL \"%s\" 0", script) < (int)sizeof(command));
    CHECK(server_tell(&scene->server, command, line, sizeof(line)));
    if (line[0] != ':')
        FAIL("%s: %s", script, line);
    return (int)strtol(line + 1, NULL, 10);
}

int waiting(const struct scene *scene)
{
    int listen = ask(scene, "return #redis.call('pubsub', 'channels', 'holdfast:*')");
    int queued = ask(scene, "return redis.call('zcard', " QUEUE ") + "
                            "redis.call('llen', 'redisson_lock_queue:{one}')");

    return listen < queued ? listen : queued;
}

void take_it(struct contender *contender)
{
    child_say(&contender->child, "lock");
    EVENTUALLY(contender->state->holds, SOON_MS);
}

static void wait_as(struct scene *scene, int place, struct contender *contender, const char *word)
{
    child_say(&contender->child, "%s", word);
    EVENTUALLY(waiting(scene) == place, SOON_MS);
}

void wait_for_it(struct scene *scene, int place, struct contender *contender)
{
    wait_as(scene, place, contender, "lock");
}

void wait_for_fixed_lease(struct scene *scene, int place, struct contender *contender)
{
    wait_as(scene, place, contender, "fixed");
}

void wait_for_renewed_lease(struct scene *scene, int place, struct contender *contender)
{
    wait_as(scene, place, contender, "renewed");
}

void let_go(struct contender *contender)
{
    child_say(&contender->child, "unlock");
    child_wait_for(&contender->child, "released");
}

/* Nothing but tokens. */
void check_nothing_is_left(const struct scene *scene)
{
    EVENTUALLY(ask(scene, "local n = 0 for _, k in ipairs(redis.call('keys', '*')) do "
                          "if not k:find('^redisson_lock_token') then n = n + 1 end end "
                          "return n") == 0,
               SOON_MS);
}

void end(struct scene *scene)
{
    for (int i = 0; i < CONTENDERS; i++)
        if (scene->contenders[i].child.pid > 0)
            leave(&scene->contenders[i]);
    check_nothing_is_left(scene);
    server_kill(&scene->server);
}
