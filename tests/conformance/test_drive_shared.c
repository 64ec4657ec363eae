/* SPDX-License-Identifier: Apache-2.0 */
/* Clients with a thread whose loop the program may run as well, when it awaits one request: which
 * of the two answers, and that each request is answered once. */
#include "conformance.h"

#include <poll.h>
#include <stdio.h>

static hf_client *open_shared(void)
{
    return open_client_with((hf_client_options){ .driver = HF_DRIVE_SHARED });
}

/* What an event loop does that watches the descriptor until the thread has the loop. */
static void watch_until(hf_client *client, const struct outcome *outcome)
{
    int64_t until = monotonic_ms() + SOON_MS;
    bool watches = true;

    while (outcome->calls == 0) {
        struct pollfd pollfd = { .fd = watches ? hf_fd(client) : -1, .events = POLLIN };
        CHECK(monotonic_ms() < until);
        if (poll(&pollfd, 1, watches ? 20 : 1) <= 0)
            continue;
        int code = hf_dispatch(client);
        CHECK(code == HF_OK || code == HF_BUSY);
        watches = code == HF_OK;
    }
}

/* True: all of it was answered on this thread. */
static bool lock_and_unlock(hf_client *client, const char *name)
{
    struct outcome locked = { 0 }, unlocked = { 0 };

    begin_wait(client, name, HF_MUTEX, &locked);
    watch_until(client, &locked);
    CHECK_CODE(locked.code, HF_OK);
    CHECK_CODE(hf_unlock_async(locked.hold, record_outcome, &unlocked), HF_OK);
    watch_until(client, &unlocked);
    CHECK_CODE(unlocked.code, HF_OK);
    CHECK_INT(locked.calls + unlocked.calls, 2);
    return pthread_equal(locked.thread, pthread_self()) &&
           pthread_equal(unlocked.thread, pthread_self());
}

/* So often that the client's thread parks, as far as this machine is quick enough: the thread takes
 * its loop back from a program that has none to run for a hundredth of a second. */
static void warm_up(hf_client *client)
{
    for (int i = 0; i < 20 && !lock_and_unlock(client, name_of("warm")); i++)
        ;
}

TEST(lone_requests_are_answered_on_the_thread_that_watches)
{
    hf_client *client = open_shared();

    CHECK(hf_fd(client) >= 0);
    if (store_is_local())
        SKIP("its requests are answered by the client's thread, or at once");
    int64_t until = monotonic_ms() + SOON_MS;
    while (!lock_and_unlock(client, name_of("one")))
        CHECK(monotonic_ms() < until);
    hf_close(client);
}

TEST(program_that_stops_watching_is_answered_by_the_clients_thread)
{
    hf_client *client = open_shared();

    for (int i = 0; i < 10; i++) {
        struct outcome outcome = { 0 };
        if (!store_is_local())
            warm_up(client);
        begin_wait(client, name_of("one"), HF_MUTEX, &outcome);
        CHECK_CODE(hf_unlock(await_grant(&outcome)), HF_OK);
        CHECK_INT(outcome.calls, 1);
    }
    hf_close(client);
}

TEST(request_that_waits_leaves_blocking_calls_alone)
{
    hf_client *client = open_shared(), *other = open_client();

    for (int i = 0; i < 10; i++) {
        hf_hold *hold = take_patiently(other, name_of("one"));
        struct outcome outcome = { 0 };
        if (!store_is_local())
            warm_up(client);
        begin_wait(client, name_of("one"), HF_MUTEX, &outcome);
        give_back(take_patiently(client, name_of("two")));
        CHECK_INT(outcome.calls, 0);
        give_back(hold);
        watch_until(client, &outcome);
        CHECK_CODE(outcome.code, HF_OK);
        give_back(outcome.hold);
    }
    hf_close(client);
    hf_close(other);
}

TEST(closing_answers_a_request_that_the_program_has_begun)
{
    hf_client *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    for (int i = 0; i < 10; i++) {
        hf_client *client = open_shared();
        struct outcome outcome = { 0 };
        if (!store_is_local())
            warm_up(client);
        begin_wait(client, name_of("one"), HF_MUTEX, &outcome);
        if (i % 2)
            hf_dispatch(client);
        hf_close(client);
        CHECK_INT(outcome.calls, 1);
        CHECK_CODE(outcome.code, HF_ECLOSED);
    }
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(other);
}

/* ---- several locks at once ---- */

struct all_outcome {
    struct outcome outcome;
    hf_hold_set *set;
};

static void record_set(void *arg, int code, hf_hold_set *set, const hf_error *error)
{
    struct all_outcome *all = arg;
    all->set = set;
    record_outcome(&all->outcome, code, NULL, error);
}

TEST(several_locks_are_answered_where_each_reply_comes_at_once)
{
    hf_client *client = open_shared();
    char names[3][HF_NAME_MAX + 1];
    hf_lock_item items[3] = { 0 };

    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s", name_of((const char *[]){ "a", "b", "c" }[i]));
        items[i] = (hf_lock_item){ .client = client, .name = names[i] };
    }
    for (int i = 0; i < store_rounds(20); i++) {
        struct all_outcome all = { 0 };
        struct outcome unlocked = { 0 };
        for (int warm = 0; warm < 6; warm++)
            lock_and_unlock(client, name_of("warm"));
        CHECK_CODE(hf_lock_all_async(items, 1 + i % 3, SOON_MS, NULL, record_set, &all), HF_OK);
        watch_until(client, &all.outcome);
        CHECK_CODE(all.outcome.code, HF_OK);
        for (int warm = 0; warm < 6; warm++)
            lock_and_unlock(client, name_of("warm"));
        CHECK_CODE(hf_unlock_all_async(all.set, record_outcome, &unlocked), HF_OK);
        watch_until(client, &unlocked);
        CHECK_CODE(unlocked.code, HF_OK);
        CHECK_INT(all.outcome.calls + unlocked.calls, 2);
    }
    hf_close(client);
}

TEST(blocking_set_is_granted_beside_the_clients_thread)
{
    hf_client *client = open_shared(), *other = open_shared();
    char names[3][HF_NAME_MAX + 1];
    hf_lock_item items[3];

    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s", name_of((const char *[]){ "a", "b", "c" }[i]));
        items[i] = (hf_lock_item){ .client = i < 2 ? client : other, .name = names[i] };
    }
    for (int i = 0; i < store_rounds(200); i++) {
        hf_hold_set *set = NULL;
        CHECK_CODE(hf_lock_all(items, i % 4 ? 2 : 3, SOON_MS / 4, NULL, &set), HF_OK);
        CHECK_CODE(hf_unlock_all(set), HF_OK);
    }
    hf_close(client);
    hf_close(other);
}

static void hear_nothing(void *arg, const hf_leader *leader)
{
    (void)arg, (void)leader;
}

TEST(leader_is_watched_beside_the_clients_thread)
{
    hf_client *client = open_shared();
    hf_watch *watch = NULL;

    CHECK_CODE(hf_election_watch(client, name_of("one"), 0, hear_nothing, NULL, &watch), HF_OK);
    hf_watch_end(watch);
    hf_close(client);
}

/* ---- one name, at one moment, in each way ---- */

enum { WATCHES, BLOCKS, LISTENS, WAYS };

struct player {
    hf_client *client;
    int way, rounds;
    _Atomic int *inside;
    pthread_t thread;
};

static void enter_and_leave(_Atomic int *inside)
{
    CHECK_INT(++*inside, 1);
    sched_yield();
    CHECK_INT(--*inside, 0);
}

static void *play(void *arg)
{
    struct player *player = arg;

    for (int i = 0; i < player->rounds; i++) {
        struct outcome locked = { 0 }, unlocked = { 0 };
        if (player->way == BLOCKS) {
            hf_hold *hold = take_patiently(player->client, name_of("one"));
            enter_and_leave(player->inside);
            give_back(hold);
            continue;
        }
        begin_wait(player->client, name_of("one"), HF_MUTEX, &locked);
        if (player->way == WATCHES)
            watch_until(player->client, &locked);
        hf_hold *hold = await_grant(&locked);
        enter_and_leave(player->inside);
        CHECK_CODE(hf_unlock_async(hold, record_outcome, &unlocked), HF_OK);
        if (player->way == WATCHES)
            watch_until(player->client, &unlocked);
        WAIT_OUTCOME(&unlocked);
        CHECK_CODE(unlocked.code, HF_OK);
    }
    return NULL;
}

static void play_together(const int *ways, int count)
{
    _Atomic int inside = 0;
    struct player players[4];
    hf_client *client = open_shared();

    CHECK(count <= 4);
    if (!store_is_local())
        warm_up(client);
    for (int i = 0; i < count; i++) {
        players[i] = (struct player){ client, ways[i], 60, &inside, 0 };
        CHECK_INT(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    }
    for (int i = 0; i < count; i++)
        CHECK_INT(pthread_join(players[i].thread, NULL), 0);
    hf_close(client);
}

TEST(loops_that_watch_one_client_never_hold_one_name_together)
{
    play_together((int[]){ WATCHES, WATCHES, WATCHES }, 3);
}

TEST(all_ways_of_asking_never_hold_one_name_together)
{
    play_together((int[]){ WATCHES, BLOCKS, LISTENS, WATCHES }, 4);
}
