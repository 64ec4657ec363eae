/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that fail, each in its own way: check_runner.py expects the runner to notice. */
#include "test.h"

#include <signal.h>
#include <unistd.h>

TEST(fails_a_check)
{
    CHECK_INT(1 + 1, 3);
}

static void differ(void *arg, int index)
{
    (void)arg;
    (void)index;
    CHECK_STR("one thing", "another");
}

TEST(fails_in_a_thread)
{
    threads_run(2, differ, NULL);
}

static void end_at_once(void *arg)
{
    (void)arg;
}

TEST(fails_before_a_thread_is_joined)
{
    struct thread thread;
    /* The sanitizer has one of its own from the first one on. */
    int left = test_count_threads() + test_has_thread_sanitizer();

    thread_start(&thread, end_at_once, NULL);
    EVENTUALLY(test_count_threads() == left, 10000);
    FAIL("not joined");
}

static void fail_here(void *arg)
{
    (void)arg;
    FAIL("in the child");
}

TEST(fails_in_a_child_that_nobody_joins)
{
    struct child child;
    char line[10];

    TEST_ALLOW_FD_LEAKS();
    child_start(&child, fail_here, NULL);
    CHECK(!child_hear(&child, line, sizeof(line)));
}

TEST(leaks_a_descriptor)
{
    CHECK(dup(0) > 0);
}

TEST(is_skipped)
{
    SKIP("because %d", 42);
}

TEST(crashes)
{
    raise(SIGSEGV);
}

TEST(hangs)
{
    TEST_TIMEOUT(1);
    for (;;)
        pause();
}

static void hang(void *arg)
{
    (void)arg;
    parent_say("%d", (int)getpid());
    for (;;)
        pause();
}

/* Passes; check_runner.py then looks whether the process it names is gone. */
TEST(leaves_a_child)
{
    struct child child;
    char line[40];

    TEST_ALLOW_FD_LEAKS();
    child_start(&child, hang, NULL);
    CHECK(child_hear(&child, line, sizeof(line)));
    test_note("left %s in %s", line, temp_dir());
}
