/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that sleep until their flag is set: all of those whose flag was set wake, nobody else
 * goes on, and no waking is slept through. What is slept through is seen by a test that never ends.
 */
#include "base/testing.h"
#include "core/loop/futex_group.h"

#include "test.h"

#include <pthread.h>
#include <sched.h>

#define MOST 100u
#define ROUNDS 300u
#define PATIENCE_SECONDS 10

static struct hf_futex_group sleepers;

struct sleeper {
    _Atomic uint32_t flag;
    _Atomic bool woke;
    pthread_t thread;
};

static struct sleeper sleeper[MOST];

static void *sleep_once(void *arg)
{
    struct sleeper *self = arg;
    hf__futex_group_wait(&sleepers, &self->flag);
    self->woke = true;
    return NULL;
}

static void begin(struct sleeper *self)
{
    self->flag = 0;
    self->woke = false;
    CHECK_INT(pthread_create(&self->thread, NULL, sleep_once, self), 0);
}

static void end(struct sleeper *self)
{
    CHECK_INT(pthread_join(self->thread, NULL), 0);
    CHECK(self->woke);
}

/* Until it is asleep, or about to be. What the flag says then. */
static uint32_t await_change(struct sleeper *self, uint32_t from)
{
    while (self->flag == from)
        sched_yield();
    return self->flag;
}

TEST(those_whose_flag_was_set_wake_and_nobody_else)
{
    TEST_TIMEOUT(PATIENCE_SECONDS);
    hf__futex_group_init(&sleepers);
    for (unsigned i = 0; i < MOST; i++)
        begin(&sleeper[i]);
    for (unsigned i = 0; i < MOST; i++)
        await_change(&sleeper[i], 0);
    for (unsigned i = 0; i < MOST; i += 2)
        CHECK(hf__futex_group_set_soon(&sleepers, &sleeper[i].flag));
    hf__futex_group_wake(&sleepers);
    for (unsigned i = 0; i < MOST; i += 2)
        end(&sleeper[i]);
    for (unsigned i = 1; i < MOST; i += 2)
        CHECK(!sleeper[i].woke);
    for (unsigned i = 1; i < MOST; i += 2)
        CHECK(hf__futex_group_set_soon(&sleepers, &sleeper[i].flag));
    hf__futex_group_wake(&sleepers);
    for (unsigned i = 1; i < MOST; i += 2)
        end(&sleeper[i]);
}

TEST(one_is_woken_at_once)
{
    TEST_TIMEOUT(PATIENCE_SECONDS);
    hf__futex_group_init(&sleepers);
    for (unsigned i = 0; i < MOST; i++) {
        begin(&sleeper[i]);
        if (i % 2)
            await_change(&sleeper[i], 0);
        hf__futex_group_set(&sleepers, &sleeper[i].flag);
        end(&sleeper[i]);
    }
}

TEST(a_flag_that_is_set_is_not_waited_for)
{
    TEST_TIMEOUT(PATIENCE_SECONDS);
    _Atomic uint32_t flag = 0;
    hf__futex_group_init(&sleepers);
    CHECK(!hf__futex_group_set_soon(&sleepers, &flag));
    hf__futex_group_wait(&sleepers, &flag);
    CHECK_INT(sleepers.beds, 0);
    flag = 0;
    hf__futex_group_set(NULL, &flag);
    hf__futex_group_wait(&sleepers, &flag);
    CHECK_INT(sleepers.beds, 0);
}

/* ---- who is told at the moment at which it falls asleep ---- */

static _Atomic uint32_t own_flag;

static void tell_at_once(const char *point)
{
    (void)point;
    hf__futex_group_set(&sleepers, &own_flag);
}

static void tell_soon(const char *point)
{
    (void)point;
    CHECK(hf__futex_group_set_soon(&sleepers, &own_flag));
    hf__futex_group_wake(&sleepers);
}

TEST(a_bell_that_rings_before_the_sleep_is_heard)
{
    TEST_TIMEOUT(PATIENCE_SECONDS);
    hf__futex_group_init(&sleepers);
    hf__point_hook = tell_at_once;
    hf__futex_group_wait(&sleepers, &own_flag);
    own_flag = 0;
    hf__point_hook = tell_soon;
    hf__futex_group_wait(&sleepers, &own_flag);
    CHECK_INT(sleepers.beds, 2);
}

/* ---- who sleeps for long ---- */

/* The first sleeps for so long that its bed is given again. It is disturbed once, and then sleeps
 * where nobody else does. */
TEST(who_shares_a_bed_is_disturbed_once)
{
    TEST_TIMEOUT(PATIENCE_SECONDS);
    struct sleeper *first = &sleeper[0], *second = &sleeper[1];
    for (unsigned in_time = 0; in_time < 2; in_time++) {
        hf__futex_group_init(&sleepers);
        begin(first);
        uint32_t bed = await_change(first, 0);
        sleepers.beds = HF_FUTEX_GROUP_SLOTS;
        begin(second);
        CHECK_INT(await_change(second, 0), bed);
        if (in_time)
            CHECK(hf__futex_group_set_soon(&sleepers, &second->flag));
        else
            hf__futex_group_set(&sleepers, &second->flag);
        hf__futex_group_wake(&sleepers);
        end(second);
        uint32_t alone = await_change(first, bed);
        CHECK(!first->woke);
        CHECK(alone < bed);
        if (in_time)
            CHECK(hf__futex_group_set_soon(&sleepers, &first->flag));
        else
            hf__futex_group_set(&sleepers, &first->flag);
        end(first);
    }
}

/* ---- again and again, while others are told ---- */

static _Atomic unsigned round_of[MOST];

static void *sleep_often(void *arg)
{
    struct sleeper *self = arg;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        hf__futex_group_wait(&sleepers, &self->flag);
        self->flag = 0;
        round_of[self - sleeper] = round;
    }
    return NULL;
}

static unsigned told[MOST];

/* Each is told once a round, asleep or not, in one of the two ways. */
static bool tell_who_is_ready(unsigned step)
{
    bool all = true;
    for (unsigned i = 0; i < MOST; i++) {
        bool ready = told[i] < ROUNDS && round_of[i] == told[i];
        all = all && told[i] == ROUNDS;
        if (!ready || (step + i) % 3 == 0)
            continue;
        told[i]++;
        if ((step + i) % 3 == 1)
            hf__futex_group_set(&sleepers, &sleeper[i].flag);
        else
            hf__futex_group_set_soon(&sleepers, &sleeper[i].flag);
    }
    hf__futex_group_wake(&sleepers);
    return all;
}

TEST(no_waking_is_slept_through)
{
    TEST_TIMEOUT(PATIENCE_SECONDS);
    hf__futex_group_init(&sleepers);
    for (unsigned i = 0; i < MOST; i++) {
        sleeper[i].flag = 0;
        CHECK_INT(pthread_create(&sleeper[i].thread, NULL, sleep_often, &sleeper[i]), 0);
    }
    for (unsigned step = 0; !tell_who_is_ready(step); step++)
        sched_yield();
    for (unsigned i = 0; i < MOST; i++) {
        CHECK_INT(pthread_join(sleeper[i].thread, NULL), 0);
        CHECK_INT(round_of[i], ROUNDS);
    }
}
