/* SPDX-License-Identifier: Apache-2.0 */
/* How the embedded engine tells those who wait, without the looks from time to time that would
 * cover up for a wake that never came. */
#include "local_fixture.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SOON_MS = 20000 };

static struct hf_op op_for(hf_mode mode, uint64_t owner)
{
    struct hf_op op = local_op(mode, owner, 1);
    op.in.enqueue = true;
    return op;
}

static void hold_and_wait(hf_mode mode, struct hf_op *holder, struct hf_op *waiter, bool loop)
{
    *holder = op_for(mode, 1);
    *waiter = op_for(mode, 2);
    CHECK_INT(hf__local.sync->attempt(&local->base, holder), HF_GRANTED);
    CHECK_INT(hf__local_attempt(local, waiter, loop), HF_REFUSED);
}

/* ---- those who sleep ---- */

struct sleeper {
    _Atomic uint32_t *word;
    uint32_t seen;
    _Atomic int thread;
    int error; /* of the sleep: 0 if it was woken */
};

static void sleep_once(void *arg)
{
    struct sleeper *sleeper = arg;
    struct timespec limit = { .tv_sec = 10 };
    sleeper->thread = gettid();
    sleeper->error =
        syscall(SYS_futex, sleeper->word, FUTEX_WAIT, sleeper->seen, &limit, NULL, 0) < 0 ? errno
                                                                                          : 0;
}

static bool is_asleep(const struct sleeper *sleeper)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", sleeper->thread);
    FILE *file = sleeper->thread ? fopen(path, "re") : NULL;
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (file)
        fclose(file);
    return state == 'S';
}

/* Sleeps on the word of the op's node as the engine does, and is in the kernel on return. */
static void fall_asleep(struct thread *thread, struct sleeper *sleeper, const struct hf_op *op)
{
    struct local_node *node = hf__local_node(local, local_op_node(op));
    *sleeper = (struct sleeper){ .word = &node->futex };
    sleeper->seen = atomic_fetch_or(&node->futex, 1) | 1;
    thread_start(thread, sleep_once, sleeper);
    EVENTUALLY(is_asleep(sleeper), SOON_MS);
}

static void check_woken_by_a_release(hf_mode mode)
{
    struct hf_op holder, waiter;
    struct sleeper sleeper;
    struct thread thread;
    local = state_open(temp_dir());
    hold_and_wait(mode, &holder, &waiter, false);
    fall_asleep(&thread, &sleeper, &waiter);
    CHECK_INT(hf__local.sync->release(&local->base, &holder), HF_GONE);
    thread_join(&thread);
    CHECK_INT(sleeper.error, 0);
    CHECK_INT(hf__local.sync->attempt(&local->base, &waiter), HF_GRANTED);
    CHECK_INT(hf__local.sync->release(&local->base, &waiter), HF_GONE);
    state_close(local);
}

TEST(a_release_wakes_the_sleeper)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE, HF_PERMIT };
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        check_woken_by_a_release(modes[i]);
}

TEST(the_last_reader_wakes_the_upgrade)
{
    struct sleeper sleeper;
    struct thread thread;
    local = state_open(temp_dir());
    struct hf_op reader = op_for(HF_READ, 1), upgrade = op_for(HF_UPGRADE, 2);
    CHECK_INT(hf__local.sync->attempt(&local->base, &reader), HF_GRANTED);
    CHECK_INT(hf__local.sync->attempt(&local->base, &upgrade), HF_GRANTED);
    upgrade.in.mode = HF_WRITE;
    CHECK_INT(hf__local.sync->attempt(&local->base, &upgrade), HF_REFUSED);
    fall_asleep(&thread, &sleeper, &upgrade);
    CHECK_INT(hf__local.sync->release(&local->base, &reader), HF_GONE);
    thread_join(&thread);
    CHECK_INT(sleeper.error, 0);
    CHECK_INT(hf__local.sync->attempt(&local->base, &upgrade), HF_GRANTED);
    CHECK_INT(hf__local.sync->release(&local->base, &upgrade), HF_GONE);
    state_close(local);
}

TEST(rousing_wakes_the_sleeper)
{
    struct hf_op holder, waiter;
    struct sleeper sleeper;
    struct thread thread;
    local = state_open(temp_dir());
    hold_and_wait(HF_FAIR, &holder, &waiter, false);
    fall_asleep(&thread, &sleeper, &waiter);
    hf__local.sync->wake(&local->base, &waiter);
    thread_join(&thread);
    CHECK_INT(sleeper.error, 0);
    CHECK_INT(hf__local.sync->release(&local->base, &waiter), HF_GONE);
    CHECK_INT(hf__local.sync->release(&local->base, &holder), HF_GONE);
    state_close(local);
}

/* It looks for a while before it sleeps; a holder that is stopped never tells it. */
TEST(the_first_in_the_queue_sees_its_time_run_out)
{
    TEST_TIMEOUT(10);
    struct hf_op holder, waiter;
    local = state_open(temp_dir());
    hold_and_wait(HF_FAIR, &holder, &waiter, false);
    hf__local.sync->sleep(&local->base, &waiter, hf__clock_ms() + 5);
    CHECK_INT(hf__local.sync->attempt(&local->base, &waiter), HF_REFUSED);
    CHECK_INT(hf__local.sync->release(&local->base, &waiter), HF_GONE);
    CHECK_INT(hf__local.sync->release(&local->base, &holder), HF_GONE);
    state_close(local);
}

/* ---- those who turn a loop ---- */

/* Where a client of this slot that has a loop would listen. */
static int listen_here(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    unsigned slot = local_session_slot(local->session);
    int length = snprintf(at.sun_path, sizeof(at.sun_path), "%s/default.%u.sock", temp_dir(), slot);
    CHECK(length > 0 && (size_t)length < sizeof(at.sun_path));
    int receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(receiver >= 0);
    CHECK_INT(bind(receiver, (struct sockaddr *)&at, sizeof(at)), 0);
    atomic_store(&local_session(local, slot)->socket, 1);
    return receiver;
}

TEST(a_release_tells_the_loop)
{
    struct hf_op holder, waiter;
    uint32_t told = 0;
    local = state_open(temp_dir());
    int receiver = listen_here();
    hold_and_wait(HF_FAIR, &holder, &waiter, true);
    CHECK(recv(receiver, &told, sizeof(told), 0) < 0);
    CHECK_INT(hf__local.sync->release(&local->base, &holder), HF_GONE);
    CHECK_INT(recv(receiver, &told, sizeof(told), 0), sizeof(told));
    CHECK_INT(told, local_op_node(&waiter));
    CHECK_INT(hf__local.sync->release(&local->base, &waiter), HF_GONE);
    close(receiver);
    state_close(local);
}

TEST(a_loop_that_is_told_too_much_looks_at_everything)
{
    local = state_open(temp_dir());
    int receiver = listen_here();
    struct local_session *own = local_session(local, local_session_slot(local->session));
    for (unsigned i = 0; i < 100000 && !atomic_load(&own->overflow); i++)
        hf__local_tell_recheck(local, local->session);
    CHECK_INT(atomic_load(&own->overflow), 1);
    close(receiver);
    state_close(local);
}

/* ---- breaks ---- */

TEST(a_break_tells_the_victims_loop)
{
    struct hf_op holder = op_for(HF_FAIR, 1);
    uint32_t told = 1;
    local = state_open(temp_dir());
    struct local *other = state_open(temp_dir());
    int receiver = listen_here();
    CHECK_INT(hf__local.sync->attempt(&local->base, &holder), HF_GRANTED);
    CHECK_INT(break_all(other).result, 1);
    CHECK_INT(recv(receiver, &told, sizeof(told), 0), sizeof(told));
    CHECK_INT(told, 0);
    CHECK_INT(hf__local.sync->release(&local->base, &holder), HF_GONE);
    free(holder.out.error);
    close(receiver);
    state_close(other);
    state_close(local);
}
