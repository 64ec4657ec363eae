/* Who waits for what the loop hears. */
#include "core/seat.h"

#include "base/futex.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

/* The client's thread looks so often, at first and at last, whether callers still come and go. */
#define LOOK_FIRST_MS 10
#define LOOK_LAST_MS 80

bool hf__seat_open(struct hf_seat *seat)
{
    seat->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return seat->bell >= 0;
}

void hf__seat_close(struct hf_seat *seat)
{
    close(seat->bell);
}

/* A bell that cannot be rung has been rung very often already. */
static void ring(struct hf_seat *seat)
{
    uint64_t one = 1;
    while (write(seat->bell, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void mute(struct hf_seat *seat)
{
    uint64_t count;
    while (read(seat->bell, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* ---- callers ---- */

/* With several at a time, one thread that hears for all costs less than many that take turns. */
bool hf__seat_take(struct hf_seat *seat)
{
    if (atomic_load(&seat->sleepers) > 0 || atomic_exchange(&seat->taken, true))
        return false;
    atomic_fetch_add(&seat->sittings, 1);
    if (!atomic_exchange(&seat->stands_back, true))
        ring(seat);
    return true;
}

void hf__seat_leave(struct hf_seat *seat)
{
    atomic_store(&seat->taken, false);
    if (atomic_load(&seat->sleepers) > 0)
        hf__seat_call(seat);
}

void hf__seat_sleep(struct hf_seat *seat, _Atomic uint32_t *answered)
{
    atomic_fetch_add(&seat->sleepers, 1);
    hf__seat_call(seat);
    while (!atomic_load(answered))
        hf__futex_wait(answered, 0, NULL);
    atomic_fetch_sub(&seat->sleepers, 1);
}

void hf__seat_call(struct hf_seat *seat)
{
    if (!atomic_load(&seat->taken) && atomic_load(&seat->stands_back) &&
        atomic_exchange(&seat->stands_back, false))
        ring(seat);
}

/* ---- the client's thread ---- */

/* Does it stand back any longer? A caller that has sat down since the last look has not rung, and
 * is seen here; so is one that has left, and has not called. */
static bool goes_on(struct hf_seat *seat, bool needed)
{
    if (!atomic_load(&seat->stands_back))
        return false;
    while (needed) {
        atomic_store(&seat->stands_back, false);
        if (!atomic_load(&seat->taken))
            return false;
        atomic_store(&seat->stands_back, true);
        needed = !atomic_load(&seat->taken);
    }
    return true;
}

/* Who has the seat minds the timers: one that is due is left to it for a moment. */
static void stand_back(struct hf_seat *seat, int timer)
{
    int pause_ms = LOOK_FIRST_MS;
    bool needed, due = false;
    do {
        struct pollfd at[] = { { .fd = seat->bell, .events = POLLIN },
                               { .fd = timer, .events = POLLIN } };
        uint32_t seen = atomic_load(&seat->sittings);
        poll(at, due ? 1 : 2, due ? 1 : pause_ms);
        if (at[0].revents)
            mute(seat);
        due = !due && at[1].revents;
        bool taken = atomic_load(&seat->taken);
        needed = !taken && (due || seen == atomic_load(&seat->sittings));
        pause_ms = pause_ms < LOOK_LAST_MS ? pause_ms * 2 : LOOK_LAST_MS;
    } while (goes_on(seat, needed));
}

void hf__seat_guard(struct hf_seat *seat, int fd, int timer)
{
    struct pollfd at[] = { { .fd = fd, .events = POLLIN }, { .fd = seat->bell, .events = POLLIN } };
    poll(at, 2, -1);
    if (!at[1].revents)
        return;
    mute(seat);
    if (atomic_load(&seat->stands_back))
        stand_back(seat, timer);
}
