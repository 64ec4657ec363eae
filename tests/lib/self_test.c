/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner offers, used by itself; misuse.c has the tests that must fail. */
#include "test.h"

#include "internal.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(passes)
{
    CHECK(1 + 1 == 2);
    CHECK_INT(2 + 2, 4);
    CHECK_STR("a", "a");
}

static void echo(void *arg)
{
    char line[100];

    (void)arg;
    while (parent_hear(line, sizeof(line)))
        parent_say("you said %s", line);
}

TEST(talks_with_children)
{
    struct child child;

    child_start(&child, echo, NULL);
    child_say(&child, "hello %d", 7);
    child_wait_for(&child, "you said hello 7");
    child_stop(&child);
    child_continue(&child);
    child_say(&child, "again");
    child_wait_for(&child, "you said again");
    child_kill(&child);
}

static int alive[2];

/* Begins when its parent is dead already. */
static void be_late(pid_t parent)
{
    while (getppid() == parent)
        let_pass_ms(1);
    end_with(parent);
    _exit(write(alive[1], "!", 1) == 1);
}

static void fork_and_die(void *arg)
{
    pid_t parent = getpid();

    (void)arg;
    if (fork() == 0)
        be_late(parent);
    raise(SIGKILL);
}

TEST(ends_with_a_parent_that_was_quicker)
{
    struct child child;
    char byte;

    CHECK(pipe(alive) == 0);
    child_start(&child, fork_and_die, NULL);
    CHECK(WIFSIGNALED(child_wait(&child)));
    close(alive[1]);
    CHECK_INT(read(alive[0], &byte, 1), 0);
    close(alive[0]);
}

struct many {
    struct barrier barrier;
    _Atomic int count;
};

static void count_one(void *arg, int index)
{
    struct many *many = arg;

    barrier_wait(&many->barrier);
    atomic_fetch_add(&many->count, index);
}

static void use_temp_dir(void *arg, int index)
{
    struct many *many = arg;
    struct stat status;

    barrier_wait(&many->barrier);
    CHECK(mkdir(temp_path("%d", index), 0700) == 0);
    barrier_wait(&many->barrier);
    for (int i = 0; i < 8; i++)
        CHECK(stat(temp_path("%d", i), &status) == 0);
}

TEST(all_processes_have_one_directory)
{
    struct many *many = shared_memory(sizeof(*many));

    barrier_init(&many->barrier, 8);
    processes_run(8, use_temp_dir, many);
}

TEST(runs_many)
{
    struct many *many = shared_memory(sizeof(*many));

    barrier_init(&many->barrier, 8);
    processes_run(8, count_one, many);
    threads_run(8, count_one, many);
    CHECK_INT(many->count, 56);
}

enum { DESCRIPTORS = 8 };

static bool open_and_close_sockets(void)
{
    int sockets[DESCRIPTORS];
    bool good = true;

    for (int i = 0; i < DESCRIPTORS; i++)
        good &= (sockets[i] = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0;
    for (int i = 0; i < DESCRIPTORS; i++)
        good &= syscall(SYS_close, sockets[i]) == 0;
    return good;
}

static bool use_timer(void)
{
    struct epoll_event event = { .events = EPOLLIN };
    uint64_t fired;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), poll = epoll_create1(0);

    return epoll_ctl(poll, EPOLL_CTL_ADD, timer, &event) == 0 &&
           read(timer, &fired, sizeof(fired)) < 0 && close(timer) == 0 && close(poll) == 0;
}

/* One thread's sockets are closed as libuv closes them, and the other's timer has such a number
 * afterwards. They wait for each other in a way that the thread sanitizer takes for none, and no
 * check stands in between, which it would take for one. */
static void reuse_number(void *arg, int index)
{
    atomic_int *closed = arg;
    bool good = index == 1 || open_and_close_sockets();

    atomic_fetch_add_explicit(closed, index == 0, memory_order_relaxed);
    while (!atomic_load_explicit(closed, memory_order_relaxed))
        sched_yield();
    good &= index == 0 || use_timer();
    CHECK(good);
}

TEST(a_number_that_another_threads_descriptor_had_is_no_race)
{
    atomic_int closed = 0;

    threads_run(2, reuse_number, &closed);
}
