/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that get lost after Redis has done what was asked of an exclusive lock: it is done once,
 * and nothing is left of it. */
#include "relayed.h"

#include <stdio.h>

/* A mutex has its owner's field alone, a write lock the mode before it. */
static const struct exclusive {
    hf_mode mode;
    int fields;
} exclusives[] = { { HF_MUTEX, 1 }, { HF_FAIR, 1 }, { HF_WRITE, 2 } };
#define EXCLUSIVES ((int)(sizeof(exclusives) / sizeof(exclusives[0])))

static uint64_t last_token(const struct server *server)
{
    return (uint64_t)value(server, "tonumber(redis.call('get','redisson_lock_token:{one}'))");
}

/* By one owner, who waits for nothing. */
static void check_held_once(const struct server *server, int kind, const hf_hold *hold)
{
    char expression[100];
    int fields = exclusives[kind].fields;

    CHECK(hf_held(hold));
    CHECK_INT(hf_token(hold), last_token(server));
    CHECK_INT(value(server, "redis.call('hlen','one')"), fields);
    snprintf(expression, sizeof(expression), "tonumber(redis.call('hvals','one')[%d])", fields);
    CHECK_INT(value(server, expression), 1);
    CHECK_INT(keys_like(server, "*one*"), 2 /* the lock, and its token */);
}

static void give_back_all(const struct server *server, hf_hold *hold)
{
    give_back(hold);
    CHECK_INT(keys_like(server, "*one*"), 1 /* the token */);
}

static void ask(hf_client *client, int kind, struct outcome *outcome)
{
    begin_wait(client, "one", exclusives[kind].mode, outcome);
}

static void lock_unheard(void *arg, int kind)
{
    struct relayed relayed = { 0 };
    const struct server *server = &relayed.server;
    struct outcome outcome = { 0 };

    (void)arg;
    begin_relayed(&relayed);
    relay_swallow(&relayed.relay);
    ask(relayed.client, kind, &outcome);
    EVENTUALLY(keys_like(server, "one") == 1, SOON_MS);
    uint64_t token = last_token(server);
    relay_cut(&relayed.relay);
    await_grant(&outcome);
    CHECK_INT(hf_token(outcome.hold), token);
    check_held_once(server, kind, outcome.hold);
    give_back_all(server, outcome.hold);
    end_relayed(&relayed);
}

TEST(a_lock_whose_answer_was_lost_is_taken_once)
{
    processes_run(EXCLUSIVES, lock_unheard, NULL);
}

struct unlocking {
    hf_hold *hold;
    int code;
};

static void unlock(void *arg)
{
    struct unlocking *unlocking = arg;

    unlocking->code = hf_unlock(unlocking->hold);
}

/* Somebody else has it when the release is said again, because he came then, or had waited. */
static void unlock_unheard(int kind, bool waits)
{
    struct relayed relayed = { 0 };
    const struct server *server = &relayed.server;
    struct unlocking unlocking = { 0 };
    struct outcome next = { 0 };
    struct thread thread;
    hf_client *other = NULL;

    begin_relayed(&relayed);
    CHECK_CODE(hf_open(&other, server_url(server, 20000), NULL), HF_OK);
    unlocking.hold = take(relayed.client, "one", exclusives[kind].mode, 0);
    uint64_t token = hf_token(unlocking.hold);
    if (waits)
        ask(other, kind, &next);
    EVENTUALLY(!waits || keys_like(server, "*_queue:{one}") == 1, SOON_MS);
    relay_swallow(&relayed.relay);
    thread_start(&thread, unlock, &unlocking);
    EVENTUALLY(waits || keys_like(server, "one") == 0, SOON_MS);
    if (!waits)
        ask(other, kind, &next);
    await_grant(&next);
    relay_cut(&relayed.relay);
    thread_join(&thread);
    CHECK_CODE(unlocking.code, HF_OK);
    CHECK(hf_token(next.hold) > token);
    check_held_once(server, kind, next.hold);
    give_back_all(server, next.hold);
    hf_close(other);
    end_relayed(&relayed);
}

static void unlock_for_who_comes(void *arg, int kind)
{
    (void)arg;
    unlock_unheard(kind, false);
}

static void unlock_for_who_waits(void *arg, int kind)
{
    (void)arg;
    unlock_unheard(kind, true);
}

TEST(a_release_whose_answer_was_lost_takes_nothing_from_who_comes)
{
    processes_run(EXCLUSIVES, unlock_for_who_comes, NULL);
}

TEST(a_release_whose_answer_was_lost_takes_nothing_from_who_waited)
{
    processes_run(EXCLUSIVES, unlock_for_who_waits, NULL);
}
