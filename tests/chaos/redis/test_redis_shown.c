/* SPDX-License-Identifier: Apache-2.0 */
/* What inspecting says of holders: whose token it shows. The store keeps the last one of a name,
 * and not whose it is. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

#define THEIRS "12345678-1234-4123-8123-123456789012:7"

static struct server server;

static hf_client *open_with(const char *options)
{
    char url[160];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "%s%s", server_url(&server, 20000), options);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static uint64_t token_shown(hf_client *client, const char *name)
{
    const struct picture *picture = look(client, name);

    CHECK_INT(picture->holders, 1);
    return find_role(picture, HF_ROLE_HOLDER, 0)->token;
}

static void tell(const char *command)
{
    CHECK(server_says(&server, command, ":1"));
}

TEST(ours_are_shown_with_their_tokens)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_WRITE };
    server_start(&server);
    hf_client *client = open_with("");

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        hf_hold *hold = take(client, "one", modes[i], 0);
        CHECK(hf_token(hold) > 0 || modes[i] == HF_READ);
        CHECK(token_shown(client, "one") == hf_token(hold));
        give_back(hold);
    }
    hf_close(client);
    server_kill(&server);
}

/* The last token is that of a lock that was given back long ago. */
TEST(javas_are_shown_without_a_token_of_ours)
{
    server_start(&server);
    hf_client *client = open_with("");

    give_back(take(client, "one", HF_MUTEX, 0));
    tell("HSET one " THEIRS " 1");
    CHECK_INT(token_shown(client, "one"), 0);
    CHECK(look(client, "one")->seen[0].token > 0);
    tell("DEL one");
    give_back(take(client, "one", HF_WRITE, 0));
    CHECK(server_says(&server, "HSET one mode write " THEIRS ":write 1", ":2"));
    CHECK_INT(token_shown(client, "one"), 0);
    hf_close(client);
    server_kill(&server);
}

TEST(who_wants_no_token_is_shown_without_one)
{
    server_start(&server);
    hf_client *client = open_with(""), *unfenced = open_with("&fence=off");

    give_back(take(client, "one", HF_MUTEX, 0));
    hf_hold *hold = take(unfenced, "one", HF_MUTEX, 0);
    CHECK_INT(token_shown(client, "one"), 0);
    give_back(hold);
    hf_close(unfenced);
    hf_close(client);
    server_kill(&server);
}

TEST(a_plain_lock_of_others_is_shown_without_a_token)
{
    server_start(&server);
    hf_client *client = open_with("&format=simple");
    hf_hold *hold = take(client, "one", HF_MUTEX, 0);

    CHECK(token_shown(client, "one") == hf_token(hold));
    give_back(hold);
    CHECK(server_says(&server, "SET one theirs NX PX 60000", "+OK"));
    CHECK_INT(token_shown(client, "one"), 0);
    hf_close(client);
    server_kill(&server);
}

/* Names that differ in braces alone: Redisson's keys beside them are the same. */

struct census {
    int objects, holders, waiters, with_braces;
};

static bool count_entry(void *arg, const hf_entry *entry)
{
    struct census *census = arg;

    census->objects += entry->role == HF_ROLE_OBJECT;
    census->holders += entry->role == HF_ROLE_HOLDER;
    census->waiters += entry->role == HF_ROLE_WAITER;
    census->with_braces += entry->name[0] == '{';
    return true;
}

static struct census count_all(hf_client *client)
{
    struct census census = { 0 };

    CHECK_CODE(hf_inspect(client, NULL, count_entry, &census), HF_OK);
    return census;
}

TEST(a_waiter_is_shown_under_its_own_name)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE, HF_PERMIT };
    static const char *const names[] = { "one", "{one}" };
    server_start(&server);
    hf_client *client = open_with(""), *other = open_with("");

    for (size_t i = 0; i < 2 * sizeof(modes) / sizeof(modes[0]); i++) {
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = modes[i / 2]);
        struct outcome outcome = { 0 };
        hf_hold *hold;
        options.limit = options.mode == HF_PERMIT;
        CHECK_CODE(hf_lock(client, names[i % 2], 0, &options, &hold), HF_OK);
        CHECK_CODE(hf_lock_async(other, names[i % 2], HF_FOREVER, &options, record_outcome,
                                 &outcome, NULL),
                   HF_OK);
        EVENTUALLY(waiters(client, names[i % 2]) == 1, SOON_MS);
        struct census census = count_all(client);
        CHECK_INT(census.objects, 1);
        CHECK_INT(census.holders, 1);
        CHECK_INT(census.waiters, 1);
        CHECK_INT(census.with_braces, i % 2 ? 3 : 0);
        give_back(hold);
        WAIT_OUTCOME(&outcome);
        give_back(outcome.hold);
        CHECK(server_says(&server, "FLUSHALL", "+OK"));
    }
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

/* Ours have never had it, so there is no token and no mark of it. */
TEST(what_ours_wait_for_is_listed_whoever_has_it)
{
    static const struct {
        hf_mode mode;
        const char *verb, *theirs; /* what makes a name a Java client's */
    } wishes[] = {
        { HF_MUTEX, "HSET", THEIRS " 1" },
        { HF_FAIR, "HSET", THEIRS " 1" },
        { HF_READ, "HSET", "mode write " THEIRS ":write 1" },
        { HF_WRITE, "HSET", "mode write " THEIRS ":write 1" },
        { HF_COUNTER, "SET", "0" },
        { HF_LATCH, "SET", "1" },
    };
    static const char *const names[] = { "one", "{one}" };
    server_start(&server);
    hf_client *client = open_with(""), *waiter = open_with("&fence=off");

    for (size_t i = 0; i < 2 * sizeof(wishes) / sizeof(wishes[0]); i++) {
        const char *name = names[i % 2];
        struct outcome outcome = { 0 };
        hf_request request;
        char command[120];
        snprintf(command, sizeof(command), "%s %s %s", wishes[i / 2].verb, name,
                 wishes[i / 2].theirs);
        CHECK(server_tell(&server, command, NULL, 0));
        CHECK_INT(count_all(client).objects, 0);
        CHECK_CODE(hf_lock_async(waiter, name, HF_FOREVER, LOCK_OPTIONS(.mode = wishes[i / 2].mode),
                                 record_outcome, &outcome, &request),
                   HF_OK);
        EVENTUALLY(waiters(client, name) == 1, SOON_MS);
        /* A waiter listens for the release first, which shows it under the name; its place in the
         * queue, by which the name is listed, follows. */
        EVENTUALLY(count_all(client).objects == 1, SOON_MS);
        struct census census = count_all(client);
        CHECK_INT(census.holders, wishes[i / 2].mode < HF_PERMIT);
        CHECK_INT(census.waiters, 1);
        CHECK_INT(census.with_braces, i % 2 ? census.objects + census.holders + 1 : 0);
        hf_cancel(waiter, request);
        WAIT_OUTCOME(&outcome);
        CHECK(server_says(&server, "FLUSHALL", "+OK"));
    }
    hf_close(waiter);
    hf_close(client);
    server_kill(&server);
}

TEST(counters_and_latches_are_shown_under_their_own_names)
{
    server_start(&server);
    hf_client *client = open_with("");

    CHECK_CODE(hf_counter_set(client, "{one}", 1), HF_OK);
    CHECK_CODE(hf_latch_set(client, "two", 1), HF_OK);
    CHECK_INT(count_all(client).objects, 2);
    CHECK_INT(count_all(client).with_braces, 1);
    hf_close(client);
    server_kill(&server);
}

TEST(a_release_is_for_who_waits_for_that_name)
{
    server_start(&server);
    hf_client *client = open_with(""), *other = open_with("");
    struct outcome outcome = { 0 };

    hf_hold *hold = take(client, "{one}", HF_MUTEX, 0);
    begin_wait(other, "{one}", HF_MUTEX, &outcome);
    EVENTUALLY(waiters(client, "{one}") == 1, SOON_MS);
    for (int i = 0; i < 3; i++)
        give_back(take(client, "one", HF_MUTEX, 0));
    CHECK(server_says(&server, "EXISTS one", ":0"));
    give_back(hold);
    give_back(await_grant(&outcome));
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

/* ---- who it is ---- */

static const char *text_shown(hf_client *client, hf_role role)
{
    static char text[200];

    snprintf(text, sizeof(text), "%s", find_role(look(client, "one"), role, 0)->owner_text);
    return text;
}

TEST(an_owner_is_shown_by_what_it_says_of_itself)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_WRITE, HF_PERMIT };
    server_start(&server);
    hf_client *client = open_with(""), *holder = NULL, *waiter = NULL;
    const char *url = server_url(&server, 20000);

    CHECK_CODE(hf_open(&holder, url, &HF_CLIENT_OPTIONS(.owner_text = "100 % B\303\266b")), HF_OK);
    CHECK_CODE(hf_open(&waiter, url, &HF_CLIENT_OPTIONS(.owner_text = "Eve")), HF_OK);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = modes[i]);
        struct outcome outcome = { 0 };
        hf_hold *hold;
        options.limit = modes[i] == HF_PERMIT;
        CHECK_CODE(hf_lock(holder, "one", 0, &options, &hold), HF_OK);
        CHECK_CODE(
            hf_lock_async(waiter, "one", HF_FOREVER, &options, record_outcome, &outcome, NULL),
            HF_OK);
        EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
        CHECK_STR(text_shown(client, HF_ROLE_HOLDER), "100 % B\303\266b");
        CHECK_STR(text_shown(client, HF_ROLE_WAITER), "Eve");
        give_back(hold);
        WAIT_OUTCOME(&outcome);
        CHECK_STR(text_shown(client, HF_ROLE_HOLDER), "Eve");
        give_back(outcome.hold);
        CHECK(server_says(&server, "FLUSHALL", "+OK"));
    }
    hf_close(waiter);
    hf_close(holder);
    hf_close(client);
    server_kill(&server);
}

TEST(who_is_not_connected_is_shown_by_its_key)
{
    server_start(&server);
    hf_client *client = open_with(""), *holder = open_with("");
    char key[HF_OWNER_KEY_SIZE];

    hf_hold *hold;

    CHECK_CODE(hf_lock(holder, "one", 0, LOCK_OPTIONS(.lease_ms = 60000), &hold), HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    hf_close(holder);
    CHECK_STR(text_shown(client, HF_ROLE_HOLDER), key);
    hf_close(client);
    server_kill(&server);
}

struct watched {
    _Atomic int calls, with_text;
};

static void note_leader(void *arg, const hf_leader *leader)
{
    struct watched *watched = arg;

    CHECK(leader->leads);
    watched->with_text += strcmp(leader->text, "Eve") == 0;
    watched->calls++;
}

static bool is_told_while_leader_runs(struct watched *watched, hf_client *leader)
{
    CHECK_CODE(hf_dispatch(leader), HF_OK);
    return watched->calls == 2;
}

/* Its connection is gone when the watch begins, and comes back later. */
TEST(watch_tells_the_text_of_a_leader_that_connects_again)
{
    struct watched watched = { 0 };
    hf_client *leader = NULL;
    hf_hold *leadership;
    hf_watch *watch;
    server_start(&server);
    hf_client *client = open_with("");

    CHECK_CODE(hf_open(&leader, server_url(&server, 20000),
                       &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .owner_text = "Eve")),
               HF_OK);
    CHECK_CODE(hf_campaign(leader, "one", SOON_MS, NULL, &leadership), HF_OK);
    CHECK(server_tell(&server, "CLIENT KILL TYPE normal SKIPME yes", NULL, 0));
    CHECK_CODE(hf_election_watch(client, "one", 20, note_leader, &watched, &watch), HF_OK);
    EVENTUALLY(watched.calls == 1, SOON_MS);
    CHECK_INT(watched.with_text, 0);
    EVENTUALLY(is_told_while_leader_runs(&watched, leader), SOON_MS);
    CHECK_INT(watched.with_text, 1);
    hf_watch_end(watch);
    CHECK_CODE(hf_resign(leadership), HF_OK);
    hf_close(leader);
    hf_close(client);
    server_kill(&server);
}

static hf_client *open_without(const char *right)
{
    char words[120], url[160];
    hf_client *client = NULL;

    snprintf(words, sizeof(words), "ACL SETUSER poor on >secret ~* &* +@all -%s", right);
    CHECK(server_says(&server, words, "+OK"));
    const char *address = strstr(server_url(&server, 20000), "://") + 3;
    snprintf(url, sizeof(url), "redis://poor:secret@%s", address);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    return client;
}

TEST(who_may_not_ask_is_shown_keys)
{
    server_start(&server);
    hf_client *client = open_with(""), *poor = open_without("client|list");

    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    CHECK_INT(look(poor, "one")->holders, 1);
    const struct seen *holder = find_role(look(poor, "one"), HF_ROLE_HOLDER, 0);
    CHECK_STR(holder->owner_text, holder->owner_key);
    CHECK_CODE(hf_inspect(poor, NULL, count_entry, &(struct census){ 0 }), HF_OK);
    give_back(hold);
    hf_close(poor);
    hf_close(client);
    server_kill(&server);
}

static void wait_for_ever(void *arg)
{
    hf_hold *hold;

    (void)arg;
    parent_wait_for("wait");
    any_code(hf_lock(open_with(""), "one", HF_FOREVER, NULL, &hold));
}

/* The queue lives on with who still waits in it. */
TEST(a_killed_waiter_is_shown_no_more)
{
    struct child dying;
    struct outcome outcome = { 0 };
    server_start(&server);
    child_start(&dying, wait_for_ever, NULL);
    hf_client *client = open_with(""), *other = open_with(""), *poor = open_without("pubsub");

    hf_hold *hold = take(client, "one", HF_MUTEX, 0);
    child_say(&dying, "wait");
    EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
    begin_wait(other, "one", HF_MUTEX, &outcome);
    EVENTUALLY(waiters(client, "one") == 2, SOON_MS);
    child_kill(&dying);
    EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
    CHECK_INT(waiters(poor, "one"), 2);
    CHECK(server_says(&server, "EXISTS holdfast_lock_queue:{one}", ":1"));
    give_back(hold);
    WAIT_OUTCOME(&outcome);
    give_back(outcome.hold);
    hf_close(poor);
    hf_close(other);
    hf_close(client);
    server_kill(&server);
}

/* Their places stay in the queue until somebody comes by. */
TEST(whose_place_in_a_fair_queue_is_over_is_shown_no_more)
{
    char command[200];
    server_start(&server);
    hf_client *client = open_with("");

    for (int i = 1; i <= 3; i++) {
        snprintf(command, sizeof(command),
                 "RPUSH redisson_lock_queue:{one} f81d4fae-7dec-41d0-a765-00a0c91e6bf6:%d", i);
        CHECK(server_tell(&server, command, NULL, 0));
        /* One is dead, one lives, one has no time. */
        snprintf(command, sizeof(command),
                 "ZADD redisson_lock_timeout:{one} %s "
                 "f81d4fae-7dec-41d0-a765-00a0c91e6bf6:%d",
                 i == 1 ? "1000" : "1e15", i);
        if (i < 3)
            CHECK(server_tell(&server, command, NULL, 0));
    }
    CHECK_INT(waiters(client, "one"), 1);
    CHECK(server_tell(&server, "FLUSHALL", NULL, 0));
    hf_close(client);
    server_kill(&server);
}

TEST(how_long_it_has_waited_is_shown)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_READ, HF_PERMIT };
    server_start(&server);
    hf_client *client = open_with(""), *waiter = open_with("");

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = modes[i]);
        struct outcome outcome = { 0 };
        hf_hold *hold;
        options.limit = modes[i] == HF_PERMIT;
        CHECK_CODE(hf_lock(client, "one", 0,
                           LOCK_OPTIONS(.mode = modes[i] == HF_READ ? HF_WRITE : modes[i],
                                        .limit = options.limit),
                           &hold),
                   HF_OK);
        CHECK_CODE(
            hf_lock_async(waiter, "one", HF_FOREVER, &options, record_outcome, &outcome, NULL),
            HF_OK);
        EVENTUALLY(waiters(client, "one") == 1, SOON_MS);
        int64_t before = find_role(look(client, "one"), HF_ROLE_WAITER, 0)->since_ms;
        CHECK(before >= 0 && before < SOON_MS);
        EVENTUALLY(find_role(look(client, "one"), HF_ROLE_WAITER, 0)->since_ms > before + 50,
                   SOON_MS);
        give_back(hold);
        WAIT_OUTCOME(&outcome);
        give_back(outcome.hold);
        CHECK(server_says(&server, "FLUSHALL", "+OK"));
    }
    hf_close(waiter);
    hf_close(client);
    server_kill(&server);
}
