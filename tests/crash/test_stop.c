/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are stopped: a holder keeps what it holds, a stopped waiter stalls nobody for
 * long, and whoever stopped inside a change is named. */
#include "base/testing.h"
#include "mix.h"
#include "state.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { SOON_MS = 20000 };

static const char *directory;
static struct mix_seen *seen;

static hf_hold *lock(hf_client *client, hf_mode mode)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode);
    hf_hold *hold;
    int code = hf_lock(client, "it", SOON_MS, &options, &hold);
    if (code != HF_OK)
        FAIL("%s: %s", hf_code_name(code), hf_last_error()->text);
    return hold;
}

static void hold_for_parent(void *arg)
{
    hf_client *client = mix_open(directory);
    hf_hold *hold = lock(client, *(hf_mode *)arg);
    parent_say("held");
    parent_wait_for("go");
    CHECK_INT(hf_unlock(hold), HF_OK);
    parent_say("released");
    hf_close(client);
}

TEST(a_stopped_holder_keeps_what_it_holds)
{
    struct child child;
    hf_mode mode = HF_MUTEX;
    hf_hold *hold;
    directory = temp_path("state");
    hf_client *client = mix_open(directory);
    child_start(&child, hold_for_parent, &mode);
    child_wait_for(&child, "held");
    child_stop(&child);
    CHECK_INT(hf_lock(client, "it", 1500, NULL, &hold), HF_BUSY);
    child_continue(&child);
    child_say(&child, "go");
    child_wait_for(&child, "released");
    CHECK_INT(hf_unlock(lock(client, HF_MUTEX)), HF_OK);
    child_join(&child);
    hf_close(client);
}

/* ---- stopped inside a change ---- */

static void stop_here(const char *name)
{
    static bool stopped;
    if (stopped || strcmp(name, "local:set"))
        return;
    stopped = true;
    /* It stops here, wherever exactly the signal meets it. */
    parent_say("inside");
    parent_wait_for("go on");
}

static void stop_inside(void *arg)
{
    hf_client *client = mix_open(directory);
    hf__point_hook = stop_here;
    hf_hold *hold = lock(client, *(hf_mode *)arg);
    CHECK_INT(hf_unlock(hold), HF_OK);
    hf_close(client);
}

static void start_stopped(struct child *child, hf_mode mode)
{
    child_start(child, stop_inside, &mode);
    child_wait_for(child, "inside");
    child_stop(child);
}

TEST(whoever_stopped_inside_a_change_is_named)
{
    struct child child;
    char pid[24];
    hf_hold *hold;
    directory = temp_path("state");
    hf_client *client = mix_open(directory);
    CHECK_INT(hf_unlock(lock(client, HF_MUTEX)), HF_OK);
    start_stopped(&child, HF_MUTEX);
    CHECK_INT(hf_lock(client, "it", 0, NULL, &hold), HF_UNREACHABLE);
    snprintf(pid, sizeof(pid), "process %d ", (int)child.pid);
    if (!strstr(hf_last_error()->text, pid))
        FAIL("'%s' does not name %s", hf_last_error()->text, pid);
    CHECK_INT(hf_lock(client, "it", 1200, NULL, &hold), HF_UNREACHABLE);
    hf_hold *other;
    CHECK_INT(hf_lock(client, "another", 0, NULL, &other), HF_OK);
    CHECK_INT(hf_unlock(other), HF_OK);
    child_continue(&child);
    child_say(&child, "go on");
    child_join(&child);
    CHECK_INT(hf_unlock(lock(client, HF_MUTEX)), HF_OK);
    hf_close(client);
}

/* The loop repeats the downgrade that was not answered, and finds that the hold has gone too. */
TEST(hold_released_during_unanswered_downgrade_is_free_once_the_store_answers)
{
    struct child child;
    hf_hold *hold;
    directory = temp_path("state");
    hf_client *client = mix_open(directory), *other = mix_open(directory);
    hold = lock(client, HF_WRITE);
    start_stopped(&child, HF_READ);
    CHECK_INT(hf_downgrade(hold, HF_READ), HF_UNREACHABLE);
    hf_unlock_nowait(hold);
    child_continue(&child);
    child_say(&child, "go on");
    child_join(&child);
    CHECK_INT(hf_unlock(lock(other, HF_WRITE)), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(whoever_stopped_inside_a_change_and_died_is_undone)
{
    struct child child;
    directory = temp_path("state");
    seen = shared_memory(sizeof(*seen));
    hf_client *client = mix_open(directory);
    start_stopped(&child, HF_MUTEX);
    child_kill(&child);
    hf_hold *hold;
    CHECK_INT(hf_lock(client, "it", 0, NULL, &hold), HF_OK);
    CHECK_INT(hf_unlock(hold), HF_OK);
    mix_goes_on(client, seen);
    hf_close(client);
    struct local *local = state_open(directory);
    state_check(local);
    state_close(local);
}

/* ---- stopped waiters ---- */

static void wait_and_take(void *arg)
{
    hf_client *client = mix_open(directory);
    parent_say("asking");
    hf_hold *hold = lock(client, *(hf_mode *)arg);
    parent_say("held");
    CHECK_INT(hf_unlock(hold), HF_OK);
    hf_close(client);
}

static bool count_waiter(void *arg, const hf_entry *entry)
{
    *(int *)arg += entry->role == HF_ROLE_WAITER;
    return true;
}

static int waiters(hf_client *client)
{
    int count = 0;
    CHECK_INT(hf_inspect(client, "it", count_waiter, &count), HF_OK);
    return count;
}

static void pass_over(hf_mode mode)
{
    struct child stopped, next;
    directory = temp_path("state");
    hf_client *client = mix_open(directory);
    hf_hold *hold = lock(client, mode);
    child_start(&stopped, wait_and_take, &mode);
    EVENTUALLY(waiters(client) == 1, SOON_MS);
    child_wait_for(&stopped, "asking");
    child_stop(&stopped);
    child_start(&next, wait_and_take, &mode);
    EVENTUALLY(waiters(client) == 2, SOON_MS);
    child_wait_for(&next, "asking");
    CHECK_INT(hf_unlock(hold), HF_OK);
    child_wait_for(&next, "held");
    child_join(&next);
    child_continue(&stopped);
    child_wait_for(&stopped, "held");
    child_join(&stopped);
    hf_close(client);
}

TEST(a_stopped_waiter_for_a_mutex_is_passed_over)
{
    pass_over(HF_MUTEX);
}

TEST(a_stopped_waiter_for_a_fair_mutex_is_passed_over)
{
    pass_over(HF_FAIR);
}

TEST(a_stopped_writer_is_passed_over)
{
    pass_over(HF_WRITE);
}

/* With nobody else waiting. Of the kinds with a line, only who waits passes it over. */
TEST(a_stopped_waiter_for_a_mutex_is_passed_over_by_who_only_tries)
{
    struct child stopped;
    hf_mode mode = HF_MUTEX;
    directory = temp_path("state");
    hf_client *client = mix_open(directory);
    hf_hold *hold = lock(client, mode);
    child_start(&stopped, wait_and_take, &mode);
    EVENTUALLY(waiters(client) == 1, SOON_MS);
    child_wait_for(&stopped, "asking");
    child_stop(&stopped);
    CHECK_INT(hf_unlock(hold), HF_OK);
    EVENTUALLY(hf_lock(client, "it", 0, NULL, &hold) == HF_OK, SOON_MS);
    CHECK_INT(hf_unlock(hold), HF_OK);
    child_continue(&stopped);
    child_wait_for(&stopped, "held");
    child_join(&stopped);
    hf_close(client);
}

/* ---- stopped while setting up ---- */

static void stop_in_set_up(const char *name)
{
    if (strcmp(name, "local:begin:header"))
        return;
    parent_say("inside");
    parent_wait_for("go on");
}

static void begin(void *arg)
{
    (void)arg;
    hf__point_hook = stop_in_set_up;
    hf_close(mix_open(directory));
}

TEST(opening_does_not_wait_for_ever_for_a_stopped_one)
{
    struct child child;
    hf_client *client;
    directory = temp_path("state");
    child_start(&child, begin, NULL);
    child_wait_for(&child, "inside");
    child_stop(&child);
    CHECK_INT(hf_open(&client, mix_url(directory), NULL), HF_UNREACHABLE);
    CHECK(strstr(hf_last_error()->text, directory) != NULL);
    child_continue(&child);
    child_say(&child, "go on");
    child_join(&child);
    hf_close(mix_open(directory));
}
