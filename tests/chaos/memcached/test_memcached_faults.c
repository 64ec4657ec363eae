/* SPDX-License-Identifier: Apache-2.0 */
/* A memcached server that forgets, is killed, stands still or is full: a loss is seen, and no grant
 * outlives its item. */
#include "memcached_server.h"
#include "own_threads.h"

#include <stdio.h>

#define LEASE_MS 3000

static hf_client *open_at(int port, int64_t lease_ms)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, memcached_url(port, 3000), &HF_CLIENT_OPTIONS(.lease_ms = lease_ms)),
        HF_OK);
    return client;
}

static hf_hold *take_losing(hf_client *client, const char *name, _Atomic int *losses)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, name, SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = losses), &hold),
               HF_OK);
    return hold;
}

/* What the server has lost its holder hears of with the next renewal, and the next owner's token is
 * larger all the same. */
static void expect_loss(struct memcached_server *server, int64_t lease_ms,
                        void (*forget)(struct memcached_server *))
{
    hf_client *client, *other;
    _Atomic int losses = 0;
    hf_hold *next = NULL;

    memcached_start(server);
    client = open_at(server->port, lease_ms);
    other = open_at(server->port, lease_ms);
    hf_hold *hold = take_losing(client, "one", &losses);
    uint64_t token = hf_token(hold);
    CHECK(token > 0);
    CHECK(memcached_has(server, "hf:one"));
    forget(server);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_lock(other, "one", SOON_MS, NULL, &next), HF_OK);
    CHECK(hf_token(next) > token);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(memcached_has(server, "hf:one"));
    CHECK(hf_held(next));
    give_back(next);
    CHECK(!memcached_has(server, "hf:one"));
    hf_close(client);
    hf_close(other);
    memcached_kill(server);
}

static void restart(struct memcached_server *server)
{
    memcached_kill(server);
    /* Its next beginning is another second: that is what tokens rise by. */
    let_pass_ms(1100);
    memcached_start_again(server);
}

static void flush(struct memcached_server *server)
{
    char line[100];

    CHECK(memcached_tell(server, "flush_all", line, sizeof(line)));
    CHECK_STR(line, "OK");
}

static void delete_item(struct memcached_server *server)
{
    char line[100];

    CHECK(memcached_tell(server, "delete hf:one", line, sizeof(line)));
    CHECK_STR(line, "DELETED");
}

static void evict(struct memcached_server *server)
{
    memcached_fill(server, memcached_size(server, "hf:one"), "hf:one", 4000000);
    CHECK(!memcached_has(server, "hf:one"));
}

TEST(restarted_server_has_lost_the_lock)
{
    expect_loss(&(struct memcached_server){ .port = 0 }, LEASE_MS, restart);
}

TEST(flushed_server_has_lost_the_lock)
{
    expect_loss(&(struct memcached_server){ .port = 0 }, LEASE_MS, flush);
}

TEST(deleted_lock_is_lost)
{
    expect_loss(&(struct memcached_server){ .port = 0 }, LEASE_MS, delete_item);
}

TEST(evicted_lock_is_lost)
{
    static const char *const small[] = { "-m", "8", NULL };

    TEST_TIMEOUT(180);
    /* A renewal moves the item to the front: the next one comes after the eviction. */
    expect_loss(&(struct memcached_server){ .arguments = small }, 10 * LEASE_MS, evict);
}

/* With -M nothing is evicted. New locks are refused; what is held is renewed without memory, and
 * shown to be held. A waiter for it goes on waiting, and takes the room that the release leaves. */
TEST(full_server_refuses_locks_and_renews_what_is_held)
{
    static const char *const full[] = { "-m", "8", "-M", NULL };
    struct memcached_server server = { .arguments = full };
    struct outcome outcome = { 0 };
    _Atomic int losses = 0;
    hf_hold *none = NULL, *waited_for = NULL;
    char name[20];

    memcached_start(&server);
    hf_client *client = open_at(server.port, LEASE_MS), *other = open_at(server.port, LEASE_MS);
    hf_hold *hold = take_losing(client, "one", &losses);
    CHECK_CODE(hf_lock(other, "one", 0, NULL, &none), HF_BUSY);
    /* No renewal makes this item larger than that of the waiter. */
    CHECK_CODE(hf_lock(client, "two", 0, LOCK_OPTIONS(.lease_ms = INT64_C(3600000)), &waited_for),
               HF_OK);
    /* The item gets its token with the first renewal. Both sizes are of a class of their own. */
    size_t first = memcached_size(&server, "hf:one"), next = first;
    EVENTUALLY((next = memcached_size(&server, "hf:one")) != first, SOON_MS);
    memcached_fill(&server, first, "hf:one", 200000);
    memcached_fill(&server, next, "hf:one", 200000);
    /* Whatever memory is left of the item's class. */
    int code = HF_OK;
    for (int i = 100; i < 400 && code == HF_OK; i++) {
        snprintf(name, sizeof(name), "%d", i);
        code = hf_lock(client, name, 0, LOCK_OPTIONS(.lease_ms = 60000), &none);
    }
    CHECK_CODE(code, HF_ELIMIT);
    CHECK(strstr(hf_last_error()->text, "memory") != NULL);
    CHECK_CODE(hf_lock(other, "one", 0, NULL, &none), HF_BUSY);
    CHECK_CODE(hf_lock(other, "one", 500, NULL, &none), HF_BUSY);
    begin_wait(other, "two", HF_MUTEX, &outcome);
    let_pass_ms(2 * (LEASE_MS + 3000) + 500);
    CHECK_INT(outcome.calls, 0);
    give_back(waited_for);
    give_back(await_grant(&outcome));
    CHECK_INT(losses, 0);
    CHECK(hf_held(hold));
    CHECK(memcached_has(&server, "hf:one"));
    give_back(hold);
    CHECK(!memcached_has(&server, "hf:one"));
    hf_close(client);
    hf_close(other);
    memcached_kill(&server);
}

TEST(stopped_server_is_unreachable_and_keeps_nothing)
{
    struct memcached_server server = { 0 };
    hf_hold *none = NULL;

    memcached_start(&server);
    hf_client *client = open_at(server.port, LEASE_MS);
    give_back(take_patiently(client, "one"));
    memcached_stop(&server);
    CHECK_CODE(hf_lock(client, "one", 1500, NULL, &none), HF_UNREACHABLE);
    CHECK(none == NULL);
    memcached_continue(&server);
    EVENTUALLY(!memcached_has(&server, "hf:one"), SOON_MS);
    give_back(take_patiently(client, "one"));
    hf_close(client);
    memcached_kill(&server);
}

/* The server answers again with the renewal that waited in its socket: no belief comes of it. */
TEST(server_that_stands_still_beyond_the_lease_loses_the_lock)
{
    struct memcached_server server = { 0 };
    _Atomic int losses = 0;
    hf_hold *next = NULL;

    memcached_start(&server);
    hf_client *client = open_at(server.port, 2000), *other = open_at(server.port, LEASE_MS);
    hf_hold *hold = take_losing(client, "one", &losses);
    uint64_t token = hf_token(hold);
    memcached_stop(&server);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    memcached_continue(&server);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    EVENTUALLY(!memcached_has(&server, "hf:one"), SOON_MS);
    CHECK_CODE(hf_lock(other, "one", SOON_MS, NULL, &next), HF_OK);
    CHECK(hf_token(next) > token);
    CHECK_INT(losses, 1);
    give_back(next);
    hf_close(client);
    hf_close(other);
    memcached_kill(&server);
}

TEST(waiter_gets_the_lock_of_a_server_that_was_started_anew)
{
    struct memcached_server server = { 0 };
    struct outcome outcome = { 0 };
    _Atomic int losses = 0;

    memcached_start(&server);
    hf_client *client = open_at(server.port, LEASE_MS), *other = open_at(server.port, LEASE_MS);
    hf_hold *hold = take_losing(client, "one", &losses);
    uint64_t token = hf_token(hold);
    begin_wait(other, "one", HF_MUTEX, &outcome);
    restart(&server);
    await_grant(&outcome);
    CHECK(hf_token(outcome.hold) > token);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(hf_held(outcome.hold));
    give_back(outcome.hold);
    hf_close(client);
    hf_close(other);
    memcached_kill(&server);
}

/* ---- evenness ---- */

#define ROUNDS 30

struct contest {
    hf_client *greedy, *waiter;
    _Atomic int waits, done;
    uint64_t tokens[2];
    int firsts;
};

static void wait_politely(struct contest *contest)
{
    hf_hold *hold = NULL;

    contest->waits = 1;
    CHECK_CODE(hf_lock(contest->waiter, "one", SOON_MS, NULL, &hold), HF_OK);
    contest->tokens[1] = hf_token(hold);
    give_back(hold);
}

/* Holds it until the other client has asked, gives it back and asks again at once. */
static void be_greedy(struct contest *contest)
{
    hf_hold *hold = take_patiently(contest->greedy, "one");

    contest->done = 1;
    EVENTUALLY(contest->waits, SOON_MS);
    /* Some polls: each leaves a mark. */
    let_pass_ms(50);
    give_back(hold);
    hold = take_patiently(contest->greedy, "one");
    contest->tokens[0] = hf_token(hold);
    give_back(hold);
}

static void contend(void *arg, int index)
{
    struct contest *contest = arg;

    if (index == 0) {
        be_greedy(contest);
        return;
    }
    EVENTUALLY(contest->done, SOON_MS);
    wait_politely(contest);
}

/* Without the courtesy the client that releases a lock is the first to ask for it again: the other
 * one is asleep for most of the time. */
TEST(client_that_releases_lets_a_waiter_go_first)
{
    struct memcached_server server = { 0 };
    struct contest contest = { 0 };

    memcached_start(&server);
    contest.greedy = open_at(server.port, LEASE_MS);
    contest.waiter = open_at(server.port, LEASE_MS);
    for (int i = 0; i < ROUNDS; i++) {
        contest.waits = contest.done = 0;
        threads_run(2, contend, &contest);
        contest.firsts += contest.tokens[1] < contest.tokens[0];
    }
    CHECK(contest.firsts >= ROUNDS / 2);
    hf_close(contest.greedy);
    hf_close(contest.waiter);
    memcached_kill(&server);
}

/* A client's release wakes the next one of its own waiters. A mark of another client's prevents
 * that. */
TEST(threads_of_a_client_that_hand_over_let_another_client_in)
{
    struct memcached_server server = { 0 };

    TEST_TIMEOUT(180);
    memcached_start(&server);
    hf_client *client = open_at(server.port, LEASE_MS), *other = open_at(server.port, LEASE_MS);
    int64_t took_ms = own_threads_hand_over_ms(client, 200);
    test_note("%lld ms", (long long)took_ms);
    CHECK(took_ms < 5000 * test_slow());
    CHECK(own_threads_beside(client, other, 10) < 150);
    hf_close(client);
    hf_close(other);
    memcached_kill(&server);
}

struct crowd {
    const struct memcached_server *server;
    hf_client *owner, *client;
    int count;
    _Atomic int waiting;
    long long reads;
};

/* Counts the server's commands that read, over two seconds in which the others wait. */
static void count_reads(struct crowd *crowd)
{
    hf_hold *hold = take_patiently(crowd->owner, "one");
    long long before;

    crowd->waiting = 0;
    EVENTUALLY(crowd->waiting == crowd->count, SOON_MS);
    before = memcached_count(crowd->server, "cmd_get");
    let_pass_ms(2000);
    crowd->reads = memcached_count(crowd->server, "cmd_get") - before;
    give_back(hold);
}

static void wait_in_crowd(void *arg, int index)
{
    struct crowd *crowd = arg;
    hf_hold *hold = NULL;

    if (index == 0) {
        count_reads(crowd);
        return;
    }
    EVENTUALLY(crowd->waiting >= 0, SOON_MS);
    crowd->waiting++;
    CHECK_CODE(hf_lock(crowd->client, "one", SOON_MS, NULL, &hold), HF_OK);
    give_back(hold);
}

static long long reads_of_waiters(struct crowd *crowd, int count)
{
    crowd->waiting = -1;
    crowd->count = count;
    threads_run(count + 1, wait_in_crowd, crowd);
    return crowd->reads;
}

/* Polls cost the server work: a client has one poller for a name, however many threads wait. */
TEST(threads_of_a_client_that_wait_for_one_name_poll_as_one)
{
    struct memcached_server server = { 0 };
    struct crowd crowd = { .server = &server };

    memcached_start(&server);
    crowd.owner = open_at(server.port, LEASE_MS);
    crowd.client = open_at(server.port, LEASE_MS);
    long long alone = reads_of_waiters(&crowd, 1);
    long long together = reads_of_waiters(&crowd, 16);
    printf("# reads in two seconds: %lld by one waiter, %lld by sixteen\n", alone, together);
    CHECK(alone > 20 && together > 20);
    CHECK(together < 3 * alone);
    hf_close(crowd.owner);
    hf_close(crowd.client);
    memcached_kill(&server);
}

/* What such a server stores ends as soon as its clock goes on: it may be over at once. */
TEST(grant_of_a_server_whose_clock_stands_still_is_not_believed)
{
    struct memcached_server server = { 0 };
    hf_hold *hold = NULL;

    memcached_start(&server);
    hf_client *client = open_at(server.port, LEASE_MS);
    give_back(take_patiently(client, "one"));
    if (!memcached_stop_clock(&server))
        SKIP("no process may trace another here");
    let_pass_ms(3000);
    CHECK_ERROR(hf_lock(client, "one", 2000, LOCK_OPTIONS(.lease_ms = 1000), &hold),
                HF_UNREACHABLE);
    CHECK(hold == NULL);
    CHECK(strstr(hf_last_error()->text, "clock") != NULL);
    memcached_start_clock(&server);
    hold = take_patiently(client, "one");
    CHECK(memcached_has(&server, "hf:one") && hf_held(hold));
    give_back(hold);
    hf_close(client);
    memcached_kill(&server);
}

/* ---- servers that do not let in ---- */

static void expect_refusal(const char *const *arguments, const char *user, int code,
                           const char *word)
{
    struct memcached_server server = { .arguments = arguments };
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    char url[100];

    memcached_start(&server);
    snprintf(url, sizeof(url), "memcached://%s127.0.0.1:%d", user, server.port);
    CHECK_CODE(hf_open(&client, url, NULL), HF_OK);
    CHECK_ERROR(hf_lock(client, "one", SOON_MS, NULL, &hold), code);
    CHECK(strstr(hf_last_error()->text, word) != NULL);
    hf_close(client);
    memcached_kill(&server);
}

TEST(server_without_cas_is_refused)
{
    static const char *const without[] = { "-C", NULL };

    expect_refusal(without, "", HF_ENOTSUP, "-C");
}

TEST(wrong_and_missing_passwords_are_denied)
{
    static const char *users[3] = { "-Y" };
    char path[200];

    snprintf(path, sizeof(path), "%s", temp_path("users"));
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("me:right\n", file) >= 0 && fclose(file) == 0);
    users[1] = path;
    expect_refusal(users, "", HF_DENIED, "password");
    expect_refusal(users, "me:wrong@", HF_DENIED, "password");
}

/* The limit is in milliseconds: the exptime of an item counts seconds, 30 days at most. */
TEST(lease_beyond_what_an_item_keeps_is_refused)
{
    static const int64_t most_ms = INT64_C(2591997000);
    static const int64_t large[] = { 2591997001, INT64_C(1) << 40, INT64_MAX };
    struct memcached_server server = { 0 };
    hf_client *none = NULL;
    hf_hold *hold = NULL;

    memcached_start(&server);
    hf_client *client = open_at(server.port, most_ms);
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        CHECK_ERROR(hf_open(&none, memcached_url(server.port, 3000),
                            &HF_CLIENT_OPTIONS(.lease_ms = large[i])),
                    HF_EINVAL);
        CHECK(strstr(hf_last_error()->text, "2591997000 ms") != NULL);
        CHECK_ERROR(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = large[i]), &hold),
                    HF_EINVAL);
        CHECK(strstr(hf_last_error()->text, "2591997000 ms") != NULL);
        CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = 60000), &hold), HF_OK);
        CHECK_ERROR(hf_renew(hold, large[i]), HF_EINVAL);
        CHECK(strstr(hf_last_error()->text, "2591997000 ms") != NULL);
        CHECK(hf_held(hold) && hf_remaining_ms(hold) <= 60000);
        CHECK_CODE(hf_renew(hold, most_ms), HF_OK);
        CHECK(hf_remaining_ms(hold) > most_ms / 2);
        give_back(hold);
    }
    hf_close(client);
    memcached_kill(&server);
}

static bool look_past(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return true;
}

/* A list at a server is compared with those of other clients: one that only looks has no locks. */
TEST(client_leaves_its_list_of_servers_with_its_first_lock)
{
    struct memcached_server server = { 0 };

    memcached_start(&server);
    hf_client *client = open_at(server.port, LEASE_MS);
    CHECK_CODE(hf_inspect(client, "one", look_past, NULL), HF_OK);
    CHECK(!memcached_has(&server, "%hf.lists"));
    give_back(take_patiently(client, "one"));
    EVENTUALLY(memcached_has(&server, "%hf.lists"), SOON_MS);
    hf_close(client);
    memcached_kill(&server);
}

static void count_advisory(void *arg, const hf_event *event)
{
    *(_Atomic int *)arg += event->type == HF_EVENT_ADVISORY;
}

TEST(client_says_that_its_locks_are_advisory)
{
    _Atomic int told = 0;
    hf_client *client = NULL;

    CHECK_CODE(hf_open(&client, memcached_url(1, 1000),
                       &HF_CLIENT_OPTIONS(.on_event = count_advisory, .event_arg = &told)),
               HF_OK);
    CHECK_INT(told, 1);
    hf_close(client);
}
