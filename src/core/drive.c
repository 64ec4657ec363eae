/* Turns the loop with libuv: one timerfd on a clock that goes on in suspend for all timers, one
 * async handle for what other threads post, and whatever handles the engine adds. */
#include "core/drive.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/testing.h"
#include "core/wheel.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

enum turner { PROGRAM, THREAD, BORROWER }; /* the last: a caller, in the thread's place */

struct hf_drive {
    struct hf_client *client;
    struct hf_wheel wheel;
    enum turner turner;
    struct hf_link aside;   /* tasks that only the thread may run */
    _Atomic uint32_t *told; /* to be set when the thread has parked; or NULL */
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t before_io;
    uv_check_t after_io;
    uv_poll_t timer;
    int timer_fd;
    int64_t timer_at_ms; /* what timer_fd is set to */
    bool thread_runs, stopping;
    _Atomic uint32_t *until; /* the loop is turned until this is set; or NULL */
    pthread_t thread;
};

/* The loops that this thread is inside of: a callback of one client may turn another's. Asked at
 * every call, so found without a function call; a library that is loaded late may have a few words
 * of such storage. */
struct turning {
    const struct hf_client *client;
    const struct turning *outer;
};
static _Thread_local const struct turning *inside __attribute__((tls_model("initial-exec")));

static int64_t read_clock(void *arg)
{
    (void)arg;
    return hf__clock_ms();
}

static void wake_loop(void *arg)
{
    struct hf_drive *drive = arg;
    if (!hf__wheel_call(&drive->wheel))
        uv_async_send(&drive->wake);
}

/* One that fires too early only makes the loop look again, which is cheaper than moving it at every
 * question that comes and goes. */
static void set_timer(struct hf_drive *drive, int64_t at_ms)
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

/* A caller returns with its answer as soon as it is there: what follows from it (the grant that is
 * to be made longer, say) nobody waits for, and the next call takes it along, or the thread. */
static bool may_stop_early(const struct hf_drive *drive)
{
    return drive->turner == BORROWER && atomic_load(&drive->wheel.waiting) <= 1 &&
           atomic_load(&drive->wheel.requests) == 0;
}

/* What is to be done at once needs no timer: see rest. */
static void turn(struct hf_drive *drive)
{
    struct hf_loop *loop = &drive->client->loop;
    loop->until = may_stop_early(drive) ? drive->until : NULL;
    int64_t next_ms = hf__loop_turn(loop);
    if (next_ms > loop->now_ms)
        set_timer(drive, next_ms);
}

static bool must_leave(const struct hf_drive *drive)
{
    return drive->turner == BORROWER &&
           (!hf__list_empty(&drive->aside) || atomic_load(&drive->wheel.wanted));
}

/* Has who turns the loop no reason to go on? */
static bool is_over(const struct hf_drive *drive)
{
    return drive->stopping || (drive->until && atomic_load(drive->until)) || must_leave(drive);
}

/* Has libuv something to do that it would not sleep for? */
static bool is_io_due(const struct hf_drive *drive)
{
    return uv_backend_timeout(&drive->uv) == 0;
}

/* The program may be in no hurry to be told: it is, if it watches. */
static bool may_tell_later(const struct hf_drive *drive)
{
    const struct hf_client *client = drive->client;
    return drive->turner == THREAD && !drive->told && !client->on_point && !client->on_event &&
           hf__wheel_may_park(&drive->wheel, 1);
}

static bool may_park(const struct hf_drive *drive)
{
    return drive->turner == THREAD && hf__wheel_may_park(&drive->wheel, drive->told != NULL) &&
           !atomic_load(&drive->client->closing);
}

static void on_before_io(uv_prepare_t *handle)
{
    struct hf_drive *drive = handle->data;
    struct hf_loop *loop = &drive->client->loop;
    if (drive->turner != PROGRAM)
        atomic_store(&loop->awake, true);
    turn(drive);
    /* Then libuv looks what has come meanwhile, and does not sleep. */
    if (!hf__loop_rest(loop) || is_over(drive) || drive->told || may_park(drive))
        uv_stop(&drive->uv);
}

/* The thread comes to before_io next; who else turns the loop may not. */
static void on_after_io(uv_check_t *handle)
{
    struct hf_drive *drive = handle->data;
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
    struct hf_drive *drive = handle->data;
    uint64_t ticks;
    if (read(drive->timer_fd, &ticks, sizeof ticks) < 0)
        assert(errno == EAGAIN || errno == EINTR || errno == ECANCELED);
    drive->timer_at_ms = HF_NEVER;
}

/* A handle that could not be opened must not be closed, so they are opened in the order in which
 * nothing fails after the first that needs closing: libuv's own opening calls fail for bad
 * arguments only, once the loop and the descriptor exist. */
static int open_handles(struct hf_drive *drive)
{
    int code = uv_async_init(&drive->uv, &drive->wake, on_wake);
    if (code != 0)
        return code;
    code = uv_poll_init(&drive->uv, &drive->timer, drive->timer_fd);
    if (code != 0)
        return code;
    uv_prepare_init(&drive->uv, &drive->before_io);
    uv_check_init(&drive->uv, &drive->after_io);
    drive->before_io.data = drive->after_io.data = drive->timer.data = drive;
    uv_prepare_start(&drive->before_io, on_before_io);
    uv_check_start(&drive->after_io, on_after_io);
    return uv_poll_start(&drive->timer, UV_READABLE, on_timer);
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void free_drive(struct hf_drive *drive)
{
    uv_walk(&drive->uv, close_handle, NULL);
    uv_run(&drive->uv, UV_RUN_DEFAULT);
    uv_loop_close(&drive->uv);
    close(drive->timer_fd);
    free(drive);
}

int hf__drive_open(struct hf_client *client, enum hf_drive_kind kind, hf_error *error)
{
    struct hf_drive *drive = hf__calloc(1, sizeof *drive);
    if (!drive)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for the client's loop");
    drive->client = client;
    drive->timer_at_ms = HF_NEVER;
    drive->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    int code = drive->timer_fd < 0 ? -errno : uv_loop_init(&drive->uv);
    if (code != 0) {
        if (drive->timer_fd >= 0)
            close(drive->timer_fd);
        free(drive);
        return hf__error_set(error, HF_ELIMIT, -code, "cannot make an event loop: %s",
                             uv_strerror(code));
    }
    code = open_handles(drive);
    if (code != 0) {
        free_drive(drive);
        return hf__error_set(error, HF_ELIMIT, -code, "cannot make an event loop: %s",
                             uv_strerror(code));
    }
    hf__loop_init(&client->loop, read_clock, wake_loop, drive);
    hf__wheel_init(&drive->wheel, &client->loop);
    hf__link_init(&drive->aside);
    client->host.uv = &drive->uv;
    client->drive = drive;
    client->drive_kind = kind;
    return HF_OK;
}

#define SET 1u
#define SLEEPS 2u /* somebody waits for it to be set */

static void set(_Atomic uint32_t *flag)
{
    if (atomic_exchange(flag, SET) == SLEEPS)
        hf__futex_wake_all(flag);
}

/* A caller that is told before the thread has parked may come back earlier than that, and then the
 * thread would never get to it. */
void hf__drive_notify(struct hf_client *client, _Atomic uint32_t *flag)
{
    struct hf_drive *drive = client->drive;
    if (drive && inside && inside->client == client && may_tell_later(drive))
        drive->told = flag;
    else
        set(flag);
}

static void tell(struct hf_drive *drive)
{
    _Atomic uint32_t *told = drive->told;
    drive->told = NULL;
    if (told)
        set(told);
}

static bool is_due(const struct hf_drive *drive)
{
    const struct hf_loop *loop = &drive->client->loop;
    return !hf__list_empty(&loop->ready) || hf__loop_next(loop) <= hf__clock_ms();
}

static void park(struct hf_drive *drive)
{
    struct hf_wheel *wheel = &drive->wheel;
    uint32_t taken = atomic_load(&wheel->taken);
    _Atomic uint32_t *told = drive->told;
    drive->told = NULL;
    hf__wheel_put_down(wheel);
    if (told)
        set(told);
    hf__wheel_get_back(wheel);
    drive->turner = THREAD;
    struct hf_link *link;
    while ((link = hf__list_pop(&drive->aside)))
        hf__loop_defer(&drive->client->loop, HF_CONTAINER(link, struct hf_task, link));
    if (taken == atomic_load(&wheel->taken))
        atomic_store(&wheel->alone, 0);
}

static void *run_thread(void *arg)
{
    struct hf_drive *drive = arg;
    struct turning turning = { drive->client, NULL };
    inside = &turning;
    drive->turner = THREAD;
    while (!drive->stopping) {
        uv_run(&drive->uv, UV_RUN_ONCE);
        /* Between two parks it looks at the descriptors: who only gives back does not. */
        if (may_park(drive) && !is_io_due(drive) && !is_due(drive))
            park(drive);
        tell(drive);
    }
    inside = NULL;
    return NULL;
}

/* Signals are the program's business: the thread takes none. */
int hf__drive_start(struct hf_client *client, hf_error *error)
{
    if (client->drive_kind != HF_DRIVE_KIND_THREAD) {
        /* libuv watches a descriptor from its next turn on: the caller may poll before that. */
        hf__drive_dispatch(client);
        return HF_OK;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&client->drive->thread, NULL, run_thread, client->drive);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    client->drive->thread_runs = code == 0;
    if (code != 0)
        return hf__error_set(error, HF_ELIMIT, code, "cannot start the client's thread (errno %d)",
                             code);
    return HF_OK;
}

struct stop {
    struct hf_task task;
    struct hf_drive *drive;
};

static void stop_thread(struct hf_task *task)
{
    HF_CONTAINER(task, struct stop, task)->drive->stopping = true;
}

void hf__drive_close(struct hf_client *client)
{
    struct hf_drive *drive = client->drive;
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
void hf__drive_abandon(struct hf_client *client)
{
    client->drive = NULL;
}

bool hf__drive_inside(const struct hf_client *client)
{
    for (const struct turning *at = inside; at; at = at->outer)
        if (at->client == client)
            return true;
    return false;
}

/* What has come up since the last turn makes the descriptor readable. */
static void rest(struct hf_drive *drive)
{
    if (!hf__loop_rest(&drive->client->loop))
        wake_loop(drive);
}

void hf__drive_dispatch(struct hf_client *client)
{
    struct turning turning = { client, inside };
    inside = &turning;
    /* Descriptors that one round adds come under the kernel's watch in the next one. */
    do {
        client->loop.watches_more = false;
        uv_run(&client->drive->uv, UV_RUN_NOWAIT);
    } while (client->loop.watches_more);
    inside = turning.outer;
    rest(client->drive);
}

static void sleep_until_set(_Atomic uint32_t *flag)
{
    for (uint32_t now = 0; now != SET; now = atomic_load(flag))
        if (now == SLEEPS || atomic_compare_exchange_strong(flag, &now, SLEEPS))
            hf__futex_wait(flag, SLEEPS, NULL);
}

static void turn_until_set(struct hf_client *client, _Atomic uint32_t *flag)
{
    struct hf_drive *drive = client->drive;
    struct turning turning = { client, inside };
    inside = &turning;
    drive->until = flag;
    while (!is_over(drive))
        uv_run(&drive->uv, UV_RUN_ONCE);
    drive->until = NULL;
    inside = turning.outer;
}

/* In the thread's place. */
static void borrow(struct hf_client *client, _Atomic uint32_t *flag)
{
    struct hf_drive *drive = client->drive;
    int cancel_state;
    /* Waiting is no point of cancellation, and the loop must not be left in the middle. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    drive->turner = BORROWER;
    if (flag) {
        turn_until_set(client, flag);
    } else {
        struct turning turning = { client, inside };
        inside = &turning;
        turn(drive);
        inside = turning.outer;
    }
    bool answered = !flag || atomic_load(flag);
    bool others = atomic_load(&drive->wheel.waiting) > (flag ? 1u : 0u);
    hf__wheel_leave(&drive->wheel, !answered || others || must_leave(drive) || is_io_due(drive));
    pthread_setcancelstate(cancel_state, NULL);
}

bool hf__drive_begin_wait(struct hf_client *client)
{
    if (client->drive_kind == HF_DRIVE_KIND_MYSELF)
        atomic_store(&client->loop.awake, true);
    if (client->drive_kind != HF_DRIVE_KIND_THREAD)
        return true;
    hf__wheel_enter(&client->drive->wheel);
    return hf__wheel_take(&client->drive->wheel);
}

void hf__drive_wait(struct hf_client *client, _Atomic uint32_t *flag, bool turns)
{
    if (client->drive_kind == HF_DRIVE_KIND_TEST) {
        while (!atomic_load(flag))
            client->test_pump(client);
        return;
    }
    if (client->drive->thread_runs) {
        if (turns)
            borrow(client, flag);
        sleep_until_set(flag);
        hf__wheel_exit(&client->drive->wheel);
        return;
    }
    turn_until_set(client, flag);
    if (client->drive_kind == HF_DRIVE_KIND_MYSELF && client->loop.watches_more)
        hf__drive_dispatch(client);
    else
        rest(client->drive);
}

/* What is due besides is not for who does not even wait. A point may block. */
bool hf__drive_begin_push(struct hf_client *client)
{
    if (client->drive_kind != HF_DRIVE_KIND_THREAD || client->on_point)
        return false;
    struct hf_wheel *wheel = &client->drive->wheel;
    if (!hf__wheel_take(wheel))
        return false;
    if (!is_due(client->drive))
        return true;
    hf__wheel_leave(wheel, true);
    return false;
}

void hf__drive_push(struct hf_client *client, bool turns)
{
    if (turns)
        borrow(client, NULL);
}

/* ---- what only the thread may do ---- */

void hf__drive_request_begins(struct hf_client *client)
{
    if (client->drive)
        atomic_fetch_add(&client->drive->wheel.requests, 1);
}

void hf__drive_request_ended(struct hf_client *client)
{
    if (client->drive)
        atomic_fetch_sub(&client->drive->wheel.requests, 1);
}

bool hf__drive_is_borrowed(const struct hf_client *client)
{
    return client->drive && client->drive->turner == BORROWER;
}

bool hf__drive_put_aside(struct hf_client *client, struct hf_task *task)
{
    if (!hf__drive_is_borrowed(client))
        return false;
    hf__list_append(&client->drive->aside, &task->link);
    return true;
}

void hf__drive_before_callback(struct hf_client *client)
{
    assert(!hf__drive_is_borrowed(client));
    if (client->drive)
        tell(client->drive);
}

int hf__drive_fd(const struct hf_client *client)
{
    return uv_backend_fd(&client->drive->uv);
}
