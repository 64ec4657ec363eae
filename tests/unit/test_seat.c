/* The seat at the loop's descriptors: one caller at a time has it, the client's thread stands back
 * meanwhile, and comes back when it is needed. */
#include "core/seat.h"

#include "base/futex.h"
#include "test.h"

#include <poll.h>
#include <sys/eventfd.h>

#define SOON_MS 20000
#define CALLERS 4
#define CALLS 2000

static struct hf_seat seat;
static int events, timer; /* what the loop would hear of */
static _Atomic unsigned returned;
static atomic_bool over;

static void open_seat(void)
{
    CHECK(hf__seat_open(&seat));
    events = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    timer = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(events >= 0 && timer >= 0);
}

static void close_seat(void)
{
    close(events);
    close(timer);
    hf__seat_close(&seat);
}

static void ring(int fd)
{
    uint64_t one = 1;
    CHECK(write(fd, &one, sizeof one) == sizeof one);
}

/* ---- callers ---- */

TEST(one_caller_has_the_seat)
{
    open_seat();
    CHECK(hf__seat_take(&seat));
    CHECK(!hf__seat_take(&seat));
    hf__seat_leave(&seat);
    CHECK(hf__seat_take(&seat));
    hf__seat_leave(&seat);
    close_seat();
}

static void *sleep_until_answered(void *flag)
{
    hf__seat_sleep(&seat, flag);
    return NULL;
}

TEST(nobody_takes_it_while_others_sleep)
{
    _Atomic uint32_t answered = 0;
    pthread_t sleeper;

    open_seat();
    CHECK_INT(pthread_create(&sleeper, NULL, sleep_until_answered, &answered), 0);
    EVENTUALLY(atomic_load(&seat.sleepers) == 1, SOON_MS);
    CHECK(!hf__seat_take(&seat));
    atomic_store(&answered, 1);
    hf__futex_wake_all(&answered);
    pthread_join(sleeper, NULL);
    CHECK(hf__seat_take(&seat));
    close_seat();
}

TEST(who_leaves_calls_the_clients_thread_for_those_who_sleep)
{
    _Atomic uint32_t answered = 0;
    pthread_t sleeper;

    open_seat();
    CHECK(hf__seat_take(&seat));
    CHECK_INT(pthread_create(&sleeper, NULL, sleep_until_answered, &answered), 0);
    EVENTUALLY(atomic_load(&seat.sleepers) == 1, SOON_MS);
    CHECK(atomic_load(&seat.stands_back));
    hf__seat_leave(&seat);
    CHECK(!atomic_load(&seat.stands_back));
    atomic_store(&answered, 1);
    hf__futex_wake_all(&answered);
    pthread_join(sleeper, NULL);
    close_seat();
}

/* ---- the client's thread ---- */

static void *guard(void *arg)
{
    uint64_t count;
    (void)arg;
    while (!atomic_load(&over)) {
        hf__seat_guard(&seat, events, timer);
        if (read(events, &count, sizeof count) == sizeof count)
            atomic_fetch_add(&returned, 1);
    }
    return NULL;
}

static void start_guard(pthread_t *thread)
{
    open_seat();
    CHECK_INT(pthread_create(thread, NULL, guard, NULL), 0);
}

static void end_guard(pthread_t thread)
{
    atomic_store(&over, true);
    ring(events);
    pthread_join(thread, NULL);
    close_seat();
}

TEST(the_clients_thread_hears_what_happens)
{
    pthread_t thread;

    start_guard(&thread);
    ring(events);
    EVENTUALLY(atomic_load(&returned) == 1, SOON_MS);
    end_guard(thread);
}

static bool rings_heard(void)
{
    struct pollfd bell = { .fd = seat.bell, .events = POLLIN };
    return poll(&bell, 1, 0) == 0;
}

/* Looks at its own leisure for as long as the test goes on. */
static void begin_to_stand_back(void)
{
    CHECK(hf__seat_take(&seat));
    EVENTUALLY(rings_heard(), SOON_MS);
}

TEST(it_stands_back_while_a_caller_waits)
{
    pthread_t thread;

    start_guard(&thread);
    begin_to_stand_back();
    ring(events);
    let_pass_ms(200);
    CHECK_INT(atomic_load(&returned), 0);
    hf__seat_leave(&seat);
    EVENTUALLY(atomic_load(&returned) == 1, SOON_MS);
    EVENTUALLY(!atomic_load(&seat.stands_back), SOON_MS);
    end_guard(thread);
}

TEST(it_comes_back_by_itself_after_the_last_caller)
{
    pthread_t thread;

    start_guard(&thread);
    for (int i = 0; i < 100; i++) {
        CHECK(hf__seat_take(&seat));
        hf__seat_leave(&seat);
    }
    ring(events);
    EVENTUALLY(atomic_load(&returned) == 1, SOON_MS);
    end_guard(thread);
}

TEST(it_is_called_by_who_sleeps)
{
    _Atomic uint32_t answered = 0;
    pthread_t thread, sleeper;

    start_guard(&thread);
    begin_to_stand_back();
    CHECK_INT(pthread_create(&sleeper, NULL, sleep_until_answered, &answered), 0);
    EVENTUALLY(atomic_load(&seat.sleepers) == 1, SOON_MS);
    CHECK(atomic_load(&seat.stands_back));
    hf__seat_leave(&seat);
    EVENTUALLY(!atomic_load(&seat.stands_back), SOON_MS);
    ring(events);
    EVENTUALLY(atomic_load(&returned) == 1, SOON_MS);
    atomic_store(&answered, 1);
    hf__futex_wake_all(&answered);
    pthread_join(sleeper, NULL);
    end_guard(thread);
}

TEST(a_call_is_for_the_time_without_a_caller)
{
    pthread_t thread;

    start_guard(&thread);
    begin_to_stand_back();
    hf__seat_call(&seat);
    CHECK(atomic_load(&seat.stands_back));
    hf__seat_leave(&seat);
    hf__seat_call(&seat);
    EVENTUALLY(!atomic_load(&seat.stands_back), SOON_MS);
    end_guard(thread);
}

/* ---- all together ---- */

static _Atomic(_Atomic uint32_t *) asked[CALLERS];

/* What a turn of the loop does: all who have asked are answered. */
static void turn(void)
{
    uint64_t count;
    if (read(events, &count, sizeof count) < 0)
        count = 0;
    for (int i = 0; i < CALLERS; i++) {
        _Atomic uint32_t *answered = atomic_exchange(&asked[i], NULL);
        if (!answered)
            continue;
        atomic_store(answered, 1);
        hf__futex_wake_all(answered);
    }
}

static void *turn_when_it_happens(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        hf__seat_guard(&seat, events, timer);
        turn();
    }
    return NULL;
}

static void *call_many_times(void *arg)
{
    static _Atomic uint32_t answered[CALLERS];
    int self = (int)(intptr_t)arg;
    for (int i = 0; i < CALLS; i++) {
        atomic_store(&answered[self], 0);
        bool sits = hf__seat_take(&seat);
        atomic_store(&asked[self], &answered[self]);
        ring(events);
        if (!sits)
            hf__seat_sleep(&seat, &answered[self]);
        while (!atomic_load(&answered[self])) {
            struct pollfd at = { .fd = events, .events = POLLIN };
            /* The client's thread may have heard before it stood back. */
            poll(&at, 1, 1);
            turn();
        }
        if (sits)
            hf__seat_leave(&seat);
    }
    return NULL;
}

TEST(everybody_is_answered)
{
    pthread_t thread, callers[CALLERS];

    open_seat();
    CHECK_INT(pthread_create(&thread, NULL, turn_when_it_happens, NULL), 0);
    for (intptr_t i = 0; i < CALLERS; i++)
        CHECK_INT(pthread_create(&callers[i], NULL, call_many_times, (void *)i), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    CHECK_INT(atomic_load(&seat.sleepers), 0);
    CHECK(!atomic_load(&seat.taken));
    end_guard(thread);
}
