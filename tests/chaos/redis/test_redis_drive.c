/* SPDX-License-Identifier: Apache-2.0 */
/* A client that is driven by its caller: what a call begins is watched when it returns. */
#include "core/loop/loop_handoff.h"

#include "conformance.h"
#include "server.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Counts our sockets, and which of them the descriptor of the client's loop watches. */
static int count_sockets(const hf_client *client, int *watched)
{
    char path[300], line[200];
    bool watches[1024] = { false };
    int sockets = 0, fd;
    struct dirent *entry;
    struct stat what;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", hf_fd(client));
    FILE *info = fopen(path, "re");
    CHECK(info != NULL);
    while (fgets(line, sizeof(line), info))
        if (sscanf(line, "tfd: %d", &fd) == 1 && fd >= 0 && fd < 1024)
            watches[fd] = true;
    fclose(info);
    *watched = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    while ((entry = readdir(directory))) {
        fd = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] == '.' || fd >= 1024 || fstat(fd, &what) != 0 ||
            !S_ISSOCK(what.st_mode))
            continue;
        sockets++;
        *watched += watches[fd];
    }
    closedir(directory);
    return sockets;
}

static void ignore(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg, (void)code, (void)hold, (void)error;
}

/* The refusal of one request, which is why the client opens a connection to be told of the release,
 * comes together with the grant of the other, with which the call returns. */
TEST(what_is_opened_in_a_call_is_watched_after_it)
{
    struct server server = { 0 };
    hf_client *client = NULL;
    char line[100];
    int watched;

    server_start(&server);
    CHECK_CODE(
        hf_open(&client, server_url(&server, 30000), &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER)),
        HF_OK);
    give_back(take_patiently(client, "warm"));
    CHECK(server_tell(&server, "HSET theirs 12345678-1234-4123-8123-123456789012:7 1", line,
                      sizeof(line)));
    int before = count_sockets(client, &watched);
    CHECK_CODE(hf_lock_async(client, "theirs", HF_FOREVER, NULL, ignore, NULL, NULL), HF_OK);
    hf_hold *hold = take_patiently(client, "one");
    CHECK_INT(count_sockets(client, &watched), before + 1);
    CHECK_INT(watched, 2);
    give_back(hold);
    hf_close(client);
    server_kill(&server);
}

static long renewals_at(const struct server *server)
{
    char said[40] = "";

    CHECK(server_tell(server,
                      "EVAL \"return tonumber(string.match(redis.call('info','commandstats'),"
                      "'cmdstat_pexpireat:calls=(%d+)')or'0')\" 0",
                      said, sizeof(said)));
    return strtol(said + 1, NULL, 10);
}

/* When there is another turn, nobody knows. */
TEST(what_is_due_in_a_turn_is_renewed_in_it)
{
    struct server server = { 0 };
    hf_client *client = NULL;
    int64_t lease_ms = 12000 * (int64_t)test_slow();

    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 30000),
                       &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = lease_ms)),
               HF_OK);
    hf_hold *hold = take_patiently(client, "one");
    CHECK_INT(renewals_at(&server), 0);
    let_pass_ms(lease_ms / 3 + 10);
    CHECK_CODE(hf_dispatch(client), HF_OK);
    EVENTUALLY(renewals_at(&server) == 1, SOON_MS);
    CHECK_CODE(hf_dispatch(client), HF_OK);
    CHECK(hf_remaining_ms(hold) > lease_ms / 2);
    give_back(hold);
    hf_close(client);
    server_kill(&server);
}

static long calls_by_digest(const struct server *server)
{
    return server_counts(server, "commandstats", "cmdstat_evalsha:calls=");
}

/* The first of the calls has the script's text, those behind it its digest. */
TEST(very_many_permits_are_not_renewed_in_one_call)
{
    enum { CLAIMS = 4, PERMITS = 500 };
    struct server server = { 0 };
    hf_client *client = NULL;
    hf_hold *holds[CLAIMS];
    int64_t lease_ms = 12000 * (int64_t)test_slow();

    server_start(&server);
    CHECK_CODE(hf_open(&client, server_url(&server, 30000),
                       &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = lease_ms)),
               HF_OK);
    CHECK_CODE(hf_semaphore_set(client, "sem", CLAIMS * PERMITS), HF_OK);
    for (uint64_t i = 0; i < CLAIMS; i++)
        CHECK_CODE(hf_lock(client, "sem", HF_FOREVER,
                           LOCK_OPTIONS(.mode = HF_PERMIT, .permits = PERMITS, .owner = i + 1),
                           &holds[i]),
                   HF_OK);
    long before = calls_by_digest(&server);
    let_pass_ms(lease_ms / 3 + 10);
    for (int i = 0; i < CLAIMS; i++)
        while (hf_remaining_ms(holds[i]) < lease_ms / 4 * 3)
            CHECK_CODE(hf_dispatch(client), HF_OK);
    CHECK_INT(calls_by_digest(&server), before + 1);
    for (int i = 0; i < CLAIMS; i++)
        give_back(holds[i]);
    hf_close(client);
    server_kill(&server);
}

static long times_slept(void)
{
    struct rusage usage;
    CHECK_INT(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

/* However late the answers come here, and whoever had the processor, nobody who looks again long
 * enough sleeps until then. The first calls on a client with a thread are its thread's. */
static void check_looks_again(hf_driver driver)
{
    struct server server = { 0 };
    hf_client *client = NULL;

    server_start(&server);
    hf__busy_poll_us = 60000000;
    hf__busy_poll_away_us = INT64_MAX;
    CHECK_CODE(hf_open(&client, server_url(&server, 60000), &HF_CLIENT_OPTIONS(.driver = driver)),
               HF_OK);
    for (int i = 0; i < 50; i++)
        give_back(take_patiently(client, "warm"));
    long before = times_slept();
    for (int i = 0; i < 500; i++)
        give_back(take_patiently(client, "one"));
    CHECK(times_slept() - before < 250);
    hf_close(client);
    server_kill(&server);
}

TEST(a_caller_that_drives_looks_again_before_it_sleeps)
{
    check_looks_again(HF_DRIVE_CALLER);
}

TEST(a_caller_in_the_threads_place_looks_again_before_it_sleeps)
{
    check_looks_again(HF_DRIVE_THREAD);
}

/* Who has waited in vain for what others have goes on looking for answers, since those come soon.
 */
TEST(who_was_refused_looks_again_before_it_sleeps)
{
    enum { TIMES = 20 };
    struct server server = { 0 };
    hf_client *client = NULL, *other = NULL;
    hf_hold *hold;

    server_start(&server);
    hf__busy_poll_us = 20000;
    hf__busy_poll_away_us = INT64_MAX;
    CHECK_CODE(hf_open(&other, server_url(&server, 60000), NULL), HF_OK);
    hf_hold *held = take_patiently(other, "one");
    CHECK_CODE(
        hf_open(&client, server_url(&server, 60000), &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER)),
        HF_OK);
    for (int i = 0; i < TIMES; i++)
        give_back(take_patiently(client, "warm"));
    for (int i = 0; i < 8; i++)
        CHECK_CODE(hf_lock(client, "one", 60, NULL, &hold), HF_BUSY);
    long before = times_slept();
    for (int i = 0; i < TIMES; i++)
        give_back(take_patiently(client, "two"));
    CHECK(times_slept() - before < TIMES);
    give_back(held);
    hf_close(client);
    hf_close(other);
    server_kill(&server);
}

/* Clients that pass a lock round, each in a thread of its own. */
struct round {
    const struct server *server;
    int clients;
    _Atomic int stood_aside;
};

enum { ROUNDS = 10 };

/* Nobody lets go before all others wait. */
static void pass_round(void *arg, int index)
{
    struct round *round = arg;
    hf_client *client;
    char all[20];
    (void)index;

    CHECK_CODE(hf_open(&client, server_url(round->server, 60000), NULL), HF_OK);
    snprintf(all, sizeof(all), ":%d", round->clients - 1);
    for (int left = ROUNDS; left-- > 0;) {
        hf_hold *hold = take_patiently(client, "one");
        if (left > 0)
            EVENTUALLY(server_says(round->server, "ZCARD holdfast_lock_queue:{one}", all), SOON_MS);
        client->drive->busy_poll.stands_aside = false;
        give_back(hold);
        round->stood_aside += client->drive->busy_poll.stands_aside;
    }
    hf_close(client);
}

static int times_stood_aside(int clients)
{
    struct server server = { 0 };
    struct round round = { &server, clients, 0 };

    TEST_TIMEOUT(120);
    server_start(&server);
    threads_run(clients, pass_round, &round);
    server_kill(&server);
    return round.stood_aside;
}

/* Whose turn it is next should have a processor. Now and then the clock says a token instead. */
TEST(of_two_who_take_turns_who_lets_go_does_not_look_for_its_answer)
{
    CHECK(times_stood_aside(2) >= ROUNDS);
}

/* Of many, all but the next have time. */
TEST(of_many_who_take_turns_who_lets_go_looks_for_its_answer)
{
    CHECK_INT(times_stood_aside(3), 0);
}
