/* SPDX-License-Identifier: Apache-2.0 */
/* What one would write by hand, each lock on a connection of its own. */
#include "worker.h"

enum { PAUSE_MIN_US = 1000, PAUSE_MAX_US = 25000 };

struct hand_lock {
    struct lock lock;
    struct session *session;
};

static struct lock *open_lock(const struct subject *subject, const char *name)
{
    struct hand_lock *lock = allocate(sizeof *lock);
    lock->lock.subject = subject;
    snprintf(lock->lock.name, sizeof lock->lock.name, "%s", name);
    lock->session = worker_sessions->open(worker_sessions->statements);
    return &lock->lock;
}

static int run(const struct lock *base, enum statement statement)
{
    const struct hand_lock *lock = (const struct hand_lock *)base;
    return worker_sessions->run(lock->session, statement, base->name);
}

/* Asks again after pauses that grow, up to the longest. */
static void take_by(const struct lock *lock, enum statement statement, unsigned longest_us)
{
    unsigned pause = PAUSE_MIN_US;
    while (run(lock, statement) <= 0) {
        pause_us(pause);
        pause = pause * 2 > longest_us ? longest_us : pause * 2;
    }
}

static void take_row(struct lock *lock)
{
    take_by(lock, STATEMENT_TAKE_ROW, PAUSE_MIN_US);
}

static void leave_row(struct lock *lock)
{
    while (run(lock, STATEMENT_LEAVE_ROW) < 0)
        continue;
}

static void take_session(struct lock *lock)
{
    take_by(lock, STATEMENT_TAKE_SESSION, PAUSE_MIN_US);
}

static void leave_session(struct lock *lock)
{
    run(lock, STATEMENT_LEAVE_SESSION);
}

static void insert(struct lock *lock)
{
    take_by(lock, STATEMENT_INSERT, PAUSE_MAX_US);
}

/* Without a pause: what does not get it runs into the next one's, and into deadlocks. */
static void insert_at_once(struct lock *lock)
{
    while (run(lock, STATEMENT_INSERT) <= 0)
        continue;
}

/* A deadlock has deleted nothing. */
static void delete (struct lock *lock)
{
    while (run(lock, STATEMENT_DELETE) < 0)
        continue;
}

const struct subject bare = { "bare", open_lock, take_row, leave_row, false, false };
const struct subject session_lock = { "session",     open_lock, take_session,
                                      leave_session, false,     false };
const struct subject unique_key = { "key", open_lock, insert, delete, false, false };
const struct subject eager_key = { "eager", open_lock, insert_at_once, delete, false, false };
const struct subject polled = { "polled", open_lock, take_row, leave_row, false, false };
