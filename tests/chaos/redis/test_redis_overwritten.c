/* SPDX-License-Identifier: Apache-2.0 */
/* Another program writes its data under the name of a lock that is held: the hold is lost, and the
 * data stays as it is. */
#include "turns.h"

#include <stdio.h>

static const struct kind {
    hf_mode mode;
    const char *options;
} kinds[] = {
    { HF_MUTEX, "" }, { HF_FAIR, "" },   { HF_READ, "" },
    { HF_WRITE, "" }, { HF_PERMIT, "" }, { HF_MUTEX, "&format=simple" },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* The last one is a semaphore's number, too. */
static const char *const writes[] = { "SET one x", "HSET one a b", "RPUSH one x",
                                      "HSET one 0f000000-0000-4000-8000-000000000000:1 1",
                                      "SET one 17" };
enum { WRITES = sizeof(writes) / sizeof(writes[0]) };

static hf_hold *take_kind(hf_client *client, const struct kind *kind, int64_t lease_ms)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", 0,
                       LOCK_OPTIONS(.mode = kind->mode, .lease_ms = lease_ms,
                                    .limit = kind->mode == HF_PERMIT ? 3 : 0),
                       &hold),
               HF_OK);
    return hold;
}

static void get_data(const struct server *server, char text[100])
{
    CHECK(
        server_ask(server, "EVAL \"return redis.sha1hex(redis.call('dump','one'))\" 0", text, 100));
}

static void overwrite(const struct server *server, const char *write, char before[100])
{
    run(server, "DEL one");
    run(server, write);
    get_data(server, before);
}

static void check_untouched(const struct server *server, const char *before)
{
    char after[100];

    get_data(server, after);
    CHECK_STR(after, before);
}

/* ---- what the holder hears ---- */

static void unlock(hf_client *client, const struct server *server, const struct kind *kind,
                   const char *write)
{
    hf_hold *hold = take_kind(client, kind, 0);
    char before[100];

    (void)client;
    overwrite(server, write, before);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    check_untouched(server, before);
}

static void renew(hf_client *client, const struct server *server, const struct kind *kind,
                  const char *write)
{
    hf_hold *hold = take_kind(client, kind, 600000);
    char before[100];

    overwrite(server, write, before);
    CHECK_CODE(hf_renew(hold, 700000), HF_LOST);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    check_untouched(server, before);
}

static void downgrade(hf_client *client, const struct server *server, const struct kind *kind,
                      const char *write)
{
    if (kind->mode != HF_WRITE)
        return;
    hf_hold *hold = take_kind(client, kind, 0);
    char before[100];

    overwrite(server, write, before);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_LOST);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    check_untouched(server, before);
}

typedef void use_fn(hf_client *client, const struct server *server, const struct kind *kind,
                    const char *write);

static void try_all(use_fn *use)
{
    struct server server = { 0 };

    server_start(&server);
    for (int i = 0; i < KINDS; i++) {
        for (int k = 0; k < WRITES - (kinds[i].mode == HF_PERMIT); k++) {
            test_note("mode %d%s: %s", kinds[i].mode, kinds[i].options, writes[k]);
            hf_client *client = open_with(&server, kinds[i].options);
            use(client, &server, &kinds[i], writes[k]);
            hf_close(client);
            run(&server, "FLUSHALL");
        }
    }
    server_kill(&server);
}

TEST(a_release_of_an_overwritten_lock_says_that_it_is_lost)
{
    try_all(unlock);
}

TEST(a_longer_lease_of_an_overwritten_lock_is_a_loss)
{
    try_all(renew);
}

TEST(a_downgrade_of_an_overwritten_lock_is_a_loss)
{
    try_all(downgrade);
}

/* ---- renewals ---- */

static void lose_by_renewal(void *arg, int index)
{
    const struct kind *kind = &kinds[index / WRITES];
    const char *write = writes[index % WRITES];
    struct server server = { 0 };
    hf_client *client = NULL;
    char url[100], before[100];

    (void)arg;
    if (kind->mode == HF_PERMIT && index % WRITES == WRITES - 1)
        return;
    server_start(&server);
    snprintf(url, sizeof(url), "%s%s", server_url(&server, 3000), kind->options);
    /* A lease that nobody has renewed would last for as long as the test. */
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = 9000 * (int64_t)test_slow())),
               HF_OK);
    hf_hold *hold = take_kind(client, kind, 0);
    overwrite(&server, write, before);
    EVENTUALLY(!hf_held(hold), SOON_MS);
    check_untouched(&server, before);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
    server_kill(&server);
}

static void lose_by_renewals(void *arg, int kind)
{
    for (int k = 0; k < WRITES; k += 2)
        lose_by_renewal(arg, kind * WRITES + k);
}

TEST(a_renewal_of_an_overwritten_lock_tells_the_loss)
{
    TEST_TIMEOUT(120);
    processes_run(KINDS, lose_by_renewals, NULL);
}

/* ---- several in one batch ---- */

static void give_both(const char *options, const char *write)
{
    struct server server = { 0 };
    struct told told[2] = { 0 };
    char before[100];

    server_start(&server);
    hf_client *client = open_with(&server, options);
    ask(client, "one", 0, &told[0]);
    ask(client, "beside", 0, &told[1]);
    turn_until_told(client, told, 2);
    overwrite(&server, write, before);
    hf_unlock_nowait(told[1].hold);
    CHECK_CODE(hf_unlock(told[0].hold), HF_LOST);
    check_untouched(&server, before);
    CHECK(server_says(&server, "EXISTS beside", ":0"));
    hf_close(client);
    server_kill(&server);
}

TEST(an_overwritten_lock_among_others_is_lost_alone)
{
    for (int k = 0; k < WRITES; k++) {
        give_both("", writes[k]);
        give_both("&format=simple", writes[k]);
    }
}
