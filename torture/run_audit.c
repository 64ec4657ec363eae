/* SPDX-License-Identifier: Apache-2.0 */
/* The last look: nothing is held or waited for, and everything can be had, but not more. */
#include "torture/driver.h"

#include <stdio.h>

/* For what is left to go, beyond its lease; and between two looks. The place of a dead waiter in a
 * fair queue at Redis is what takes longest: ten seconds. */
enum { CALM_MS = 15000, LOOK_AGAIN_MS = 10 };

struct audit {
    struct torture_driver *driver;
    void *session;
    int64_t until_ns; /* what has a lease ends by then */
};

static void no_point(void *arg, const char *point)
{
    (void)arg;
    (void)point;
}

static void no_loss(void *arg)
{
    (void)arg;
}

static void write_audit(struct audit *audit, uint16_t lock, const char *what, uint32_t count)
{
    struct torture_record record = {
        .kind = TORTURE_AUDIT, .client = TORTURE_NOBODY, .lock = lock, .permits = count
    };

    snprintf(record.text, sizeof record.text, "%s", what);
    torture_write(audit->driver->writer, &record);
    audit->driver->outcome->leftovers += count;
}

/* A store that does not answer has left nothing behind that could be known. */
static bool fail(struct audit *audit, const struct torture_lock *lock, enum torture_answer answer)
{
    const char *why = answer == TORTURE_BROKEN ? audit->driver->subject->complain(audit->session)
                                               : "the store has not answered";

    audit->driver->outcome->unreachable |= answer != TORTURE_BROKEN;
    torture_driver_fail(audit->driver, "what is left of '%s' could not be seen: %s", lock->label,
                        why);
    return false;
}

static bool look(struct audit *audit, const struct torture_lock *lock, uint16_t number)
{
    const struct torture_subject *subject = audit->driver->subject;
    struct torture_left left = { 0 };
    enum torture_answer answer;

    if (!subject->inspect)
        return true;
    for (;;) {
        int64_t now_ns = torture_clock_ns();
        answer = subject->inspect(audit->session, lock, &left);
        bool is_clean = answer == TORTURE_GRANTED && left.held == 0 && left.waiting == 0;
        if (is_clean || answer == TORTURE_BROKEN || now_ns >= audit->until_ns)
            break;
        torture_sleep_in_phase(audit->driver->arena, TORTURE_OVER,
                               now_ns + LOOK_AGAIN_MS * INT64_C(1000000));
    }
    if (answer != TORTURE_GRANTED)
        return fail(audit, lock, answer);
    write_audit(audit, number, "held", left.held);
    write_audit(audit, number, "waiting", left.waiting);
    return true;
}

static enum torture_answer take(struct audit *audit, const struct torture_lock *lock,
                                uint32_t permits, int64_t wait_ms, struct torture_grip **ret)
{
    struct torture_ask ask = {
        .lock = lock, .permits = permits, .wait_ms = wait_ms, .owner = 1, .on_lost = no_loss
    };

    return audit->driver->subject->acquire(audit->session, &ask, ret);
}

/* All of it at once; and then a semaphore has nothing more to give. */
static bool take_everything(struct audit *audit, const struct torture_lock *lock, uint16_t number)
{
    const struct torture_subject *subject = audit->driver->subject;
    int64_t left_ms = (audit->until_ns - torture_clock_ns()) / 1000000;
    struct torture_grip *all, *more = NULL;
    uint32_t permits = lock->form == TORTURE_SEMAPHORE ? lock->permits : 1;
    enum torture_answer answer = take(audit, lock, permits, left_ms > 0 ? left_ms : 0, &all);

    if (answer != TORTURE_GRANTED && answer != TORTURE_BUSY && answer != TORTURE_CHANGED)
        return fail(audit, lock, answer);
    write_audit(audit, number, "not to be had", answer == TORTURE_GRANTED ? 0 : permits);
    if (answer != TORTURE_GRANTED)
        return true;
    if (lock->form == TORTURE_SEMAPHORE) {
        bool beyond = take(audit, lock, 1, 0, &more) == TORTURE_GRANTED;
        write_audit(audit, number, "beyond its permits", beyond);
        if (beyond)
            subject->release(audit->session, more);
    }
    subject->release(audit->session, all);
    return true;
}

static void audit_locks(struct audit *audit)
{
    struct torture_driver *driver = audit->driver;

    for (unsigned i = 0; i < driver->arena->lock_count; i++) {
        const struct torture_lock *lock = &driver->arena->locks[i];
        if (!look(audit, lock, (uint16_t)i) || !take_everything(audit, lock, (uint16_t)i))
            return;
        if (driver->subject->forget)
            driver->subject->forget(audit->session, lock);
    }
}

static void audit_latches(struct audit *audit)
{
    struct torture_driver *driver = audit->driver;
    struct torture_lock latch;

    for (uint32_t round = 1; round <= atomic_load(&driver->arena->latch_next); round++) {
        uint16_t number = torture_latch(driver->arena, round, &latch);
        /* One that was never made is none of the history's. */
        if (round == atomic_load(&driver->arena->latch_round) && !look(audit, &latch, number))
            return;
        if (driver->subject->forget)
            driver->subject->forget(audit->session, &latch);
    }
}

void torture_audit(struct torture_driver *driver)
{
    int64_t calm_ms = driver->plan->calm_ms ? driver->plan->calm_ms : CALM_MS;
    int64_t grace_ns = (driver->plan->lease_ms * 3 + calm_ms) * INT64_C(1000000);
    struct audit audit = { .driver = driver, .until_ns = torture_clock_ns() + grace_ns };
    struct torture_setup setup = { .url = driver->plan->url,
                                   .prefix = driver->arena->prefix,
                                   .client = driver->plan->clients,
                                   .lease_ms = driver->plan->lease_ms,
                                   .point = no_point,
                                   .memory = driver->arena->memory,
                                   .memory_size = sizeof driver->arena->memory };

    audit.session = driver->subject->open(&setup);
    if (!audit.session) {
        torture_driver_fail(driver, "the audit could not be made: %s",
                            driver->subject->complain(NULL));
        return;
    }
    audit_locks(&audit);
    if (!driver->outcome->unreachable)
        audit_latches(&audit);
    driver->subject->close(audit.session);
}
