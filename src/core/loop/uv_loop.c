/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the loop with libuv: one timerfd on a clock that goes on in suspend for all timers, one
 * async handle for what other threads post, and whatever handles the engine adds. */
#include "core/loop/loop_handoff.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "base/thread_local.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* A poll set, two pipes and an event. */
#define LIBUV_DESCRIPTORS 6

_Thread_local const struct turning *hf__turning HF_THREAD_LOCAL_NEAR;
static _Thread_local unsigned watches_nothing HF_THREAD_LOCAL_NEAR;

static int64_t read_clock(void *arg)
{
    (void)arg;
    return hf__clock_ms();
}

static void wake_loop(void *arg)
{
    struct hf_uv_loop *drive = arg;
    if (hf__loop_owner_wake(&drive->wheel))
        return;
    HF_NO_CANCELLATION;
    uv_async_send(&drive->wake);
}

/* One that fires too early only makes the loop look again, which is cheaper than moving it at every
 * question that comes and goes. */
static void set_timer(struct hf_uv_loop *drive, int64_t at_ms)
{
    if (at_ms >= drive->timer_at_ms)
        return;
    drive->timer_at_ms = at_ms;
    struct itimerspec when = { 0 };
    /* Zero would switch the timer off. */
    when.it_value.tv_sec = at_ms / 1000;
    when.it_value.tv_nsec = (at_ms % 1000) * 1000000 + 1;
    timerfd_settime(drive->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* What is to be done at once needs no timer: see rest. A caller in the thread's place returns with
 * its answer as soon as it is there: no caller waits for what follows from it (the grant that is to
 * be made longer, say). The next call takes it along, or the thread. */
static void turn(struct hf_uv_loop *drive)
{
    struct hf_loop *loop = &drive->client->loop;
    bool alone = drive->turner == BORROWER && atomic_load(&drive->wheel.waiting) <= 1 &&
                 atomic_load(&drive->wheel.requests) == 0;
    loop->until = alone ? drive->until : NULL;
    int64_t next_ms = hf__loop_turn(loop);
    hf__futex_group_wake(&drive->sleepers); /* mutant: turn-ends-without-waking-those */
    if (next_ms > loop->now_ms)
        set_timer(drive, next_ms);
}

/* Has the thread that turns the loop no reason to go on? */
static bool is_over(const struct hf_uv_loop *drive)
{
    return drive->stopping || (drive->until && atomic_load(drive->until)) ||
           (drive->until_ms != HF_NEVER && drive->client->loop.now_ms >= drive->until_ms) ||
           hf__loop_handoff_is_over(drive);
}

static bool is_io_due(const struct hf_uv_loop *drive)
{
    return uv_backend_timeout(&drive->uv) == 0;
}

/* One round: what is ready, and then what libuv has. `sleeps`: it waits until something comes,
 * unless there is a reason to go on. */
static void run_once(struct hf_uv_loop *drive, bool sleeps)
{
    struct hf_loop *loop = &drive->client->loop;
    if (drive->turner != PROGRAM)
        atomic_store(&loop->awake, true);
    turn(drive);
    sleeps = hf__loop_rest(loop) && sleeps && !is_over(drive) && !drive->told &&
             !hf__loop_handoff_may_park(drive);
    uv_run(&drive->uv, sleeps ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    if (drive->turner == WATCHER) /* it looks for what is posted before it leaves */
        atomic_store(&loop->awake, true);
    /* The thread begins the next round at once; another thread that turns the loop may not. */
    if (drive->turner != THREAD)
        turn(drive);
}

/* The turn itself runs after the I/O. */
static void on_wake(uv_async_t *handle)
{
    (void)handle;
}

static void on_timer(uv_poll_t *handle, int status, int events)
{
    (void)status, (void)events;
    struct hf_uv_loop *drive = handle->data;
    uint64_t ticks;
    if (read(drive->timer_fd, &ticks, sizeof ticks) < 0)
        assert(errno == EAGAIN || errno == EINTR || errno == ECANCELED);
    drive->timer_at_ms = HF_NEVER;
}

/* A handle that could not be opened must not be closed, so they are opened in the order in which
 * nothing fails after the first that needs closing: libuv's own opening calls fail for bad
 * arguments only, once the loop and the descriptor exist. */
static int open_handles(struct hf_uv_loop *drive)
{
    int code = uv_async_init(&drive->uv, &drive->wake, on_wake);
    if (code != 0)
        return code;
    code = uv_poll_init(&drive->uv, &drive->timer, drive->timer_fd);
    if (code != 0)
        return code;
    drive->timer.data = drive;
    return uv_poll_start(&drive->timer, UV_READABLE, on_timer);
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void free_drive(struct hf_uv_loop *drive)
{
    uv_walk(&drive->uv, close_handle, NULL);
    uv_run(&drive->uv, UV_RUN_DEFAULT);
    uv_loop_close(&drive->uv);
    close(drive->timer_fd);
    free(drive);
}

/* Without those that libuv keeps for itself from the first loop on, it ends the process. */
static bool has_enough_descriptors(void)
{
    int descriptors[LIBUV_DESCRIPTORS], count = 0;
    while (count < LIBUV_DESCRIPTORS && (descriptors[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    int error = errno;
    for (int i = 0; i < count; i++)
        close(descriptors[i]);
    errno = error;
    return count == LIBUV_DESCRIPTORS;
}

static int refuse_loop(hf_error *error, int code)
{
    bool descriptors = code == UV_EMFILE;
    return hf__error_set(error, HF_ELIMIT, -code, "cannot make an event loop: %s%s",
                         uv_strerror(code), descriptors ? "; raise 'ulimit -n'" : "");
}

int hf__uv_loop_open(struct hf_client *client, enum hf_drive_kind kind, bool shared,
                     hf_error *error)
{
    struct hf_uv_loop *drive = hf__calloc(1, sizeof *drive);
    if (!drive)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for the client's loop");
    drive->client = client;
    drive->timer_at_ms = drive->until_ms = HF_NEVER;
    drive->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    int code = drive->timer_fd < 0 || !has_enough_descriptors() ? -errno : uv_loop_init(&drive->uv);
    if (code != 0) {
        if (drive->timer_fd >= 0)
            close(drive->timer_fd);
        free(drive);
        return refuse_loop(error, code);
    }
    code = open_handles(drive);
    if (code != 0) {
        free_drive(drive);
        return refuse_loop(error, code);
    }
    hf__loop_init(&client->loop, read_clock, wake_loop, drive);
    hf__loop_owner_init(&drive->wheel, &client->loop);
    drive->wheel.shared = shared;
    hf__busy_poll_init(&drive->busy_poll);
    hf__futex_group_init(&drive->sleepers);
    hf__link_init(&drive->aside);
    client->host.uv = &drive->uv;
    client->drive = drive;
    client->drive_kind = kind;
    return HF_OK;
}

static void *run_thread(void *arg)
{
    struct hf_uv_loop *drive = arg;
    const struct hf_loop *loop = &drive->client->loop;
    struct turning turning = { drive->client, NULL };
    hf__turning = &turning;
    drive->turner = THREAD;
    while (!drive->stopping) {
        run_once(drive, true);
        hf__futex_group_wake(&drive->sleepers);
        /* Between two parks it looks at the descriptors: a caller that only gives back does not. */
        /* mutant: between-two-parks-descriptors */
        if (hf__loop_handoff_may_park(drive) && !is_io_due(drive) && hf__list_empty(&loop->ready) &&
            hf__loop_next(loop) > hf__clock_ms())
            hf__loop_handoff_park(drive);
        hf__loop_handoff_tell(drive);
    }
    hf__turning = NULL;
    return NULL;
}

/* Signals are the program's business: the thread takes none. */
int hf__uv_loop_start(struct hf_client *client, hf_error *error)
{
    if (client->drive_kind != HF_DRIVE_KIND_THREAD) {
        /* libuv watches a descriptor from its next turn on: the caller may poll before that. */
        hf__uv_loop_dispatch(client);
        return HF_OK;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&client->drive->thread, NULL, run_thread, client->drive);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    client->drive->thread_runs = code == 0;
    if (code != 0)
        return hf__error_set(error, HF_ELIMIT, code,
                             "cannot start the client's thread: %s; raise 'ulimit -u' (threads), "
                             "'ulimit -v' (memory) or the control group's pids.max",
                             uv_strerror(-code));
    return HF_OK;
}

struct stop {
    struct hf_task task;
    struct hf_uv_loop *drive;
};

static void stop_thread(struct hf_task *task)
{
    HF_CONTAINER(task, struct stop, task)->drive->stopping = true;
}

void hf__uv_loop_close(struct hf_client *client)
{
    struct hf_uv_loop *drive = client->drive;
    if (drive->thread_runs) {
        struct stop stop = { .drive = drive };
        hf__task_init(&stop.task, stop_thread);
        hf__loop_post(&client->loop, &stop.task);
        pthread_join(drive->thread, NULL);
    }
    free_drive(drive);
    client->drive = NULL;
}

/* The epoll descriptor is shared with the parent: closing libuv's handles here would take them out
 * of the parent's loop too. What cannot be freed safely is left to the end of the process. */
void hf__uv_loop_abandon(struct hf_client *client)
{
    client->drive = NULL;
}

bool hf__uv_loop_inside(const struct hf_client *client)
{
    for (const struct turning *at = hf__turning; at; at = at->outer)
        if (at->client == client)
            return true;
    return false;
}

/* What has come up since the last turn makes the descriptor readable. So does a handle that the
 * turn has closed: the next address may be waiting for that. */
static void rest(struct hf_uv_loop *drive)
{
    /* mutant: what-libuv-has-left */
    if (!hf__loop_rest(&drive->client->loop) || is_io_due(drive))
        wake_loop(drive);
}

/* The most that a watcher goes on for what is posted meanwhile. */
#define WATCHER_ROUNDS 4u

static void run_rounds(struct hf_client *client)
{
    struct turning turning = { client, hf__turning };
    hf__turning = &turning;
    unsigned rounds = 0;
    bool more;
    /* Descriptors that one round adds come under the kernel's watch in the next one. What answers a
     * release is posted by its reply. */
    do {
        client->loop.watches_more = false;
        run_once(client->drive, false);
        more = client->drive->turner == WATCHER && atomic_load(&client->loop.posted);
    } while (client->loop.watches_more || (more && ++rounds < WATCHER_ROUNDS));
    hf__futex_group_wake(&client->drive->sleepers);
    hf__turning = turning.outer;
}

void hf__uv_loop_dispatch(struct hf_client *client)
{
    run_rounds(client);
    rest(client->drive);
}

void hf__uv_loop_refused(struct hf_client *client)
{
    if (client->drive)
        hf__busy_poll_refused(&client->drive->busy_poll);
}

void hf__uv_loop_yield_processor(struct hf_client *client)
{
    if (client->drive)
        hf__busy_poll_skip_once(&client->drive->busy_poll);
}

/* Or until then. */
static void turn_until(struct hf_uv_loop *drive, _Atomic uint32_t *flag, int64_t until_ms)
{
    struct turning turning = { drive->client, hf__turning };
    hf__turning = &turning;
    drive->until = flag;
    drive->until_ms = until_ms;
    /* In between, the server may have the processor. */
    if (hf__busy_poll_pays(&drive->busy_poll)) {
        int64_t now_us, began_us = hf__clock_us();
        /* What is asked leaves; nothing can have come yet. */
        turn(drive);
        while (!is_over(drive) &&
               (now_us = hf__clock_us()) - began_us < hf__busy_poll_time_us(&drive->busy_poll)) {
            sched_yield();
            hf__busy_poll_gave_away(&drive->busy_poll, hf__clock_us() - now_us);
            uv_run(&drive->uv, UV_RUN_NOWAIT);
            turn(drive);
        }
        hf__busy_poll_ended(&drive->busy_poll, atomic_load(drive->until));
    }
    while (!is_over(drive)) {
        if (until_ms != HF_NEVER)
            set_timer(drive, until_ms);
        run_once(drive, true);
    }
    hf__futex_group_wake(&drive->sleepers);
    drive->until = NULL;
    drive->until_ms = HF_NEVER;
    hf__turning = turning.outer;
}

/* In the thread's place. */
static void borrow(struct hf_uv_loop *drive, _Atomic uint32_t *flag, int64_t until_ms)
{
    drive->turner = BORROWER;
    if (flag) {
        turn_until(drive, flag, until_ms);
    } else {
        struct turning turning = { drive->client, hf__turning };
        hf__turning = &turning;
        turn(drive);
        hf__turning = turning.outer;
    }
    bool answered = !flag || atomic_load(flag);
    /* mutant: owner-leaves-wheel-leaves */
    bool others = atomic_load(&drive->wheel.waiting) > (flag ? 1u : 0u);
    hf__loop_owner_release(&drive->wheel, !answered || others || hf__loop_handoff_is_over(drive) ||
                                              is_io_due(drive));
}

void hf__uv_loop_push(struct hf_client *client, bool turns)
{
    if (turns)
        borrow(client->drive, NULL, HF_NEVER);
}

void hf__uv_loop_watch_nothing(bool nothing)
{
    if (nothing)
        watches_nothing++;
    else
        watches_nothing--;
}

bool hf__uv_loop_begin_watched(struct hf_client *client)
{
    if (watches_nothing) /* mutant: set-is-answered-inside-its-own-call */
        return false;
    return client->drive_kind == HF_DRIVE_KIND_THREAD && !client->on_point &&
           hf__loop_owner_acquire_watched(&client->drive->wheel);
}

/* A whole round, since what the turn begins to watch comes under the kernel's watch in the next. */
void hf__uv_loop_watched(struct hf_client *client, bool turns)
{
    struct hf_uv_loop *drive = client->drive;
    if (!turns)
        return;
    drive->turner = WATCHER;
    run_rounds(client);
    const struct hf_loop_owner *wheel = &drive->wheel;
    bool others = atomic_load(&wheel->waiting) > 0 || atomic_load(&wheel->requests) > 1;
    bool due = is_io_due(drive) || !hf__list_empty(&client->loop.ready) ||
               hf__loop_next(&client->loop) <= hf__clock_ms();
    hf__loop_owner_release(&drive->wheel, others || due || hf__loop_handoff_is_over(drive));
}

bool hf__uv_loop_begin_wait(struct hf_client *client)
{
    if (client->drive_kind == HF_DRIVE_KIND_CALLER)
        atomic_store(&client->loop.awake, true);
    if (client->drive_kind != HF_DRIVE_KIND_THREAD)
        return true;
    hf__loop_owner_enter(&client->drive->wheel);
    return hf__loop_owner_acquire(&client->drive->wheel);
}

void hf__uv_loop_wait(struct hf_client *client, _Atomic uint32_t *flag, bool turns,
                      struct hf_interlude *interlude)
{
    if (client->drive_kind == HF_DRIVE_KIND_TEST) {
        while (!atomic_load(flag))
            client->test_pump(client);
        return;
    }
    if (client->drive->thread_runs) {
        if (turns)
            borrow(client->drive, flag, interlude ? interlude->at_ms : HF_NEVER);
        /* An interlude may take its time, and use the client: the loop is the thread's again. */
        while (interlude && interlude->at_ms != HF_NEVER) {
            int64_t left_ms = interlude->at_ms - hf__clock_ms();
            if (hf__futex_group_wait_for(&client->drive->sleepers, flag, left_ms > 0 ? left_ms : 0))
                break;
            interlude->run(interlude);
        }
        hf__futex_group_wait(&client->drive->sleepers, flag);
        hf__loop_owner_exit(&client->drive->wheel);
        return;
    }
    do {
        turn_until(client->drive, flag, interlude ? interlude->at_ms : HF_NEVER);
        if (interlude && !atomic_load(flag))
            interlude->run(interlude);
    } while (!atomic_load(flag));
    /* mutant: what-call-opens-is-not-watched */
    if (client->drive_kind == HF_DRIVE_KIND_CALLER && client->loop.watches_more)
        hf__uv_loop_dispatch(client);
    else
        rest(client->drive);
}

bool hf__uv_loop_is_shared(const struct hf_client *client)
{
    return client->drive && client->drive->wheel.shared;
}

int hf__uv_loop_fd(const struct hf_client *client)
{
    return uv_backend_fd(&client->drive->uv);
}
