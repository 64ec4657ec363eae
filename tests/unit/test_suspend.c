/* SPDX-License-Identifier: Apache-2.0 */
/* The machine has slept: the clock that goes on is ahead of the one that stops. In this program the
 * former jumps when the test says so. */
#include "test.h"

#include <holdfast.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SOON_MS = 20000, HOUR_S = 3600 };

static _Atomic int64_t ahead_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long code = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_BOOTTIME)
        now->tv_sec += ahead_s;
    return (int)code;
}

static hf_client *open_client(void)
{
    char url[300];
    hf_client *client = NULL;
    snprintf(url, sizeof url, "local://%s", temp_path("state"));
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    return client;
}

static bool note_age(void *arg, const hf_entry *entry)
{
    if (entry->role == HF_ROLE_HOLDER)
        *(int64_t *)arg = entry->since_ms;
    return true;
}

/* The first of them makes the client look at the clocks. */
TEST(hold_taken_after_a_suspend_is_as_old_as_it_is)
{
    TEST_ALLOW_FD_LEAKS(); /* libuv keeps some */
    hf_client *client = open_client();
    hf_hold *before = NULL, *after = NULL;
    int64_t age_ms = -1;
    CHECK_INT(hf_lock(client, "before", 0, NULL, &before), HF_OK);
    ahead_s = HOUR_S;
    let_pass_ms(50);
    CHECK_INT(hf_lock(client, "after", 0, NULL, &after), HF_OK);
    CHECK_INT(hf_inspect(client, "after", note_age, &age_ms), HF_OK);
    CHECK(age_ms >= 0 && age_ms < 60000);
    CHECK_INT(hf_unlock(before), HF_OK);
    CHECK_INT(hf_unlock(after), HF_OK);
    hf_close(client);
}

struct queued {
    hf_client *client;
    _Atomic int code;
    struct thread thread;
};

static void wait_in_queue(void *arg)
{
    struct queued *queued = arg;
    hf_hold *hold;
    queued->code = hf_lock(queued->client, "one", 50000, NULL, &hold);
}

static void ignore(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)arg, (void)code, (void)hold, (void)error;
}

static bool count_waiters(void *arg, const hf_entry *entry)
{
    *(int *)arg += entry->role == HF_ROLE_WAITER;
    return true;
}

static bool waits(hf_client *client)
{
    int waiters = 0;
    CHECK_INT(hf_inspect(client, "one", count_waiters, &waiters), HF_OK);
    return waiters > 0;
}

/* It sleeps behind another waiter of its client, which alone asks the store. */
TEST(queued_waiter_whose_time_is_over_after_a_suspend_times_out_soon)
{
    TEST_ALLOW_FD_LEAKS(); /* libuv keeps some */
    hf_client *client = open_client(), *other = open_client();
    struct queued queued = { .client = client, .code = -1 };
    hf_hold *hold = NULL;
    CHECK_INT(hf_lock(other, "one", 0, NULL, &hold), HF_OK);
    CHECK_INT(hf_lock_async(client, "one", HF_FOREVER, NULL, ignore, NULL, NULL), HF_OK);
    EVENTUALLY(waits(other), SOON_MS);
    thread_start(&queued.thread, wait_in_queue, &queued);
    let_pass_ms(300);
    ahead_s += HOUR_S;
    EVENTUALLY(queued.code != -1, SOON_MS);
    CHECK_INT(queued.code, HF_BUSY);
    thread_join(&queued.thread);
    CHECK_INT(hf_unlock(hold), HF_OK);
    hf_close(client);
    hf_close(other);
}
