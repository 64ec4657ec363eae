/* SPDX-License-Identifier: Apache-2.0 */
/* A process is killed at each point of each transaction, again and again; those who live on find a
 * file that fits, no lock that is stuck, and tokens that rise. */
#include "base/testing.h"
#include "mix.h"
#include "state.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POINTS_MAX = 128, TRIES = 12 };

struct point {
    char name[32];
    _Atomic unsigned hits;
};

/* Shared with the victims. */
struct shared {
    struct mix_seen seen;
    _Atomic unsigned count;
    struct point points[POINTS_MAX];
    _Atomic unsigned left; /* hits until the kill */
    char target[32];
};

static struct shared *shared;
static const char *directory;

/* ---- hooks, in the victim ---- */

static void count_point(const char *name)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    unsigned i = 0;
    while (i < shared->count && strcmp(shared->points[i].name, name))
        i++;
    CHECK(i < POINTS_MAX);
    if (i == shared->count) {
        snprintf(shared->points[i].name, sizeof(shared->points[i].name), "%s", name);
        shared->count++;
    }
    shared->points[i].hits++;
    pthread_mutex_unlock(&mutex);
}

static void kill_at_point(const char *name)
{
    if (!strcmp(name, shared->target) && atomic_fetch_sub(&shared->left, 1) == 1)
        kill(getpid(), SIGKILL);
}

/* ---- what victims do ---- */

static void alone(void *arg)
{
    (void)arg;
    hf_client *client = mix_open(directory);
    mix_round(client, &shared->seen);
    hf_close(client);
}

static void together(void *arg)
{
    (void)arg;
    hf_client *one = mix_open(directory), *other = mix_open(directory);
    mix_contend(one, other, &shared->seen);
    hf_close(one);
    hf_close(other);
}

/* True: it was killed at the point. */
static bool with_hook(void (*run)(void *), void (*hook)(const char *))
{
    struct child child;
    fflush(stdout);
    hf__point_hook = hook;
    child_start(&child, run, NULL);
    int status = child_wait(&child);
    hf__point_hook = NULL;
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    CHECK(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return killed;
}

/* ---- those who live on ---- */

static void check_afterwards(hf_client *survivor)
{
    struct local *local = state_open(directory);
    state_check(local);
    mix_goes_on(survivor, &shared->seen);
    hf_client *late = mix_open(directory);
    mix_goes_on(late, &shared->seen);
    hf_close(late);
    state_check(local);
    state_close(local);
}

static bool kill_at(void (*run)(void *), hf_client *survivor, const char *name, unsigned hit)
{
    snprintf(shared->target, sizeof(shared->target), "%s", name);
    shared->left = hit;
    bool killed = with_hook(run, kill_at_point);
    check_afterwards(survivor);
    return killed;
}

static const char *find_point(const char *name)
{
    for (unsigned i = 0; i < shared->count; i++) {
        if (!strcmp(shared->points[i].name, name))
            return name;
    }
    return "(never came by)";
}

/* First, last, and in between. */
static void kill_at_all(void (*run)(void *), const char *const *wanted)
{
    directory = temp_path("state");
    shared = shared_memory(sizeof(*shared));
    mix_prepare();
    hf_client *survivor = mix_open(directory);
    with_hook(run, count_point);
    for (; *wanted; wanted++)
        CHECK_STR(find_point(*wanted), *wanted);
    unsigned kills = 0;
    for (unsigned i = 0; i < shared->count; i++) {
        unsigned hits = shared->points[i].hits, before = 0;
        for (unsigned try = 0; try < TRIES; try++) {
            unsigned hit = 1 + (hits - 1) * try / (TRIES - 1);
            if (hit == before)
                continue;
            before = hit;
            kills += kill_at(run, survivor, shared->points[i].name, hit);
        }
    }
    test_note("%u kills at %u points", kills, shared->count);
    CHECK(kills >= 2 * shared->count);
    hf_close(survivor);
}

TEST(killed_anywhere_in_a_round_of_everything)
{
    TEST_TIMEOUT(240);
    static const char *const wanted[] = { "local:set",
                                          "local:forget:hash",
                                          "local:name:cell",
                                          "local:pending",
                                          "local:detached",
                                          "local:attached",
                                          "local:broken",
                                          "local:numbers",
                                          "local:kind",
                                          "local:forget:end",
                                          "local:node:taken",
                                          "local:parked",
                                          "local:unpark",
                                          "local:unparked",
                                          "local:pinned:token",
                                          "local:turned_away",
                                          NULL };
    kill_at_all(alone, wanted);
}

TEST(killed_anywhere_in_contention)
{
    TEST_TIMEOUT(240);
    static const char *const wanted[] = { "local:offered",   "local:accepted",
                                          "local:announced", "local:raised",
                                          "local:wake",      "local:lend",
                                          "local:lent",      NULL };
    kill_at_all(together, wanted);
}

/* The file grows once only, so each victim gets a new one. */
static void crowd(void *arg)
{
    (void)arg;
    hf_client *client = mix_open(directory);
    mix_crowd(client);
    hf_close(client);
}

TEST(killed_while_the_file_grows)
{
    static const char *const points[] = { "local:grow:allocated", "local:grow:end",
                                          "local:names:made", "local:names:guard" };
    shared = shared_memory(sizeof(*shared));
    mix_prepare();
    for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        directory = temp_path("state%u", i);
        hf_client *survivor = mix_open(directory);
        CHECK(kill_at(crowd, survivor, points[i], i < 2 ? 1 : 17));
        mix_crowd(survivor);
        check_afterwards(survivor);
        hf_close(survivor);
    }
}

/* ---- deaths on deaths ---- */

/* Kills inside transactions leave guards and journals behind; whoever cleans up is killed as well.
 */
TEST(killed_while_cleaning_up_after_the_killed)
{
    static const char *const after[] = { "local:undo", "local:undo:end", "local:guard:stolen",
                                         "local:sweep", "local:clear" };
    TEST_TIMEOUT(240);
    directory = temp_path("state");
    shared = shared_memory(sizeof(*shared));
    mix_prepare();
    hf_client *survivor = mix_open(directory);
    for (unsigned hit = 1; hit < 160; hit += 11) {
        for (unsigned i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
            for (unsigned victims = 0; victims < 2; victims++) {
                snprintf(shared->target, sizeof(shared->target), "local:set");
                shared->left = hit + victims;
                with_hook(alone, kill_at_point);
            }
            snprintf(shared->target, sizeof(shared->target), "%s", after[i]);
            shared->left = 1 + hit % 3;
            with_hook(alone, kill_at_point);
            if (i % 2)
                check_afterwards(survivor);
        }
    }
    check_afterwards(survivor);
    hf_close(survivor);
}

/* ---- deaths while a file is begun ---- */

static void open_only(void *arg)
{
    (void)arg;
    hf_close(mix_open(directory));
}

static void other_boot(unsigned char *bytes, size_t size)
{
    struct local_header *header = (void *)bytes;
    (void)size;
    header->boot_id[0] = header->boot_id[0] == 'x' ? 'y' : 'x';
}

TEST(killed_while_a_file_is_begun)
{
    static const char *const points[] = { "local:begin:empty",        "local:begin:allocated",
                                          "local:begin:header",       "local:session:locked",
                                          "local:session:introduced", "local:session:claimed" };
    shared = shared_memory(sizeof(*shared));
    for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        directory = temp_path("state%u", i);
        snprintf(shared->target, sizeof(shared->target), "%s", points[i]);
        shared->left = 1;
        with_hook(open_only, kill_at_point);
        CHECK_INT(shared->left, 0);
        hf_client *client = mix_open(directory);
        check_afterwards(client);
        hf_close(client);
    }
}

TEST(killed_in_the_first_use_after_a_boot)
{
    static const char *const points[] = { "local:boot:floor", "local:boot:void",
                                          "local:boot:allocated", "local:boot:segment" };
    shared = shared_memory(sizeof(*shared));
    directory = temp_path("state");
    hf_client *client = mix_open(directory);
    mix_goes_on(client, &shared->seen);
    hf_close(client);
    for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        state_rewrite(directory, other_boot);
        snprintf(shared->target, sizeof(shared->target), "%s", points[i]);
        shared->left = 1;
        with_hook(open_only, kill_at_point);
        CHECK_INT(shared->left, 0);
        client = mix_open(directory);
        check_afterwards(client);
        hf_close(client);
    }
}
