/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite as a baseline: a table of locks with owner and expiry, as one builds it in an afternoon.
 */
#include "bench.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_MS = 30000, BUSY_TIMEOUT_MS = 20000, POLL_US = 1000 };

struct sqlite_lock {
    struct cli_bench_lock base;
    sqlite3 *db;
    sqlite3_stmt *take, *give;
};

static const char schema[] =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS lock(name INTEGER PRIMARY KEY, owner INTEGER, expires INTEGER)";

/* One statement each: a grant is a row of ours. */
static const char take[] = "INSERT INTO lock VALUES(?1, ?2, ?3) ON CONFLICT(name) DO UPDATE "
                           "SET owner = ?2, expires = ?3 WHERE expires < ?4";
static const char give[] = "DELETE FROM lock WHERE name = ?1 AND owner = ?2";

static void check(struct sqlite_lock *lock, int code)
{
    if (code != SQLITE_OK && code != SQLITE_DONE)
        cli_bench_die(lock->base.bench, CLI_INTERNAL, "SQLite in %s: %s",
                      lock->base.bench->directory,
                      lock->db ? sqlite3_errmsg(lock->db) : sqlite3_errstr(code));
}

static struct cli_bench_lock *sqlite_open(struct cli_bench *bench,
                                          const struct cli_bench_subject *subject)
{
    struct sqlite_lock *lock = calloc(1, sizeof(*lock));
    char path[320];

    if (!lock)
        cli_bench_die(bench, CLI_INTERNAL, "out of memory");
    lock->base = (struct cli_bench_lock){ bench, subject };
    snprintf(path, sizeof(path), "%s/locks.sqlite", bench->directory);
    check(lock, sqlite3_open(path, &lock->db));
    check(lock, sqlite3_busy_timeout(lock->db, BUSY_TIMEOUT_MS));
    /* Turning to WAL while another process does the same is refused at once, busy timeout or
     * not. */
    int code;

    while ((code = sqlite3_exec(lock->db, schema, NULL, NULL, NULL)) == SQLITE_BUSY)
        cli_bench_pause();
    check(lock, code);
    while ((code = sqlite3_prepare_v2(lock->db, take, -1, &lock->take, NULL)) == SQLITE_BUSY)
        cli_bench_pause();
    check(lock, code);
    while ((code = sqlite3_prepare_v2(lock->db, give, -1, &lock->give, NULL)) == SQLITE_BUSY)
        cli_bench_pause();
    check(lock, code);
    return &lock->base;
}

static bool sqlite_try(struct sqlite_lock *lock, unsigned name)
{
    int64_t now_ms = cli_now_ms();

    sqlite3_bind_int64(lock->take, 1, name);
    sqlite3_bind_int64(lock->take, 2, getpid());
    sqlite3_bind_int64(lock->take, 3, now_ms + LEASE_MS);
    sqlite3_bind_int64(lock->take, 4, now_ms);
    check(lock, sqlite3_step(lock->take));
    check(lock, sqlite3_reset(lock->take));
    return sqlite3_changes(lock->db) == 1;
}

/* SQLite cannot tell another process of a change, so its users ask again and again. */
static void sqlite_lock(struct cli_bench_lock *base, unsigned name)
{
    const struct timespec pause = { .tv_nsec = POLL_US * 1000 };

    while (!sqlite_try((struct sqlite_lock *)base, name))
        nanosleep(&pause, NULL);
}

static void sqlite_unlock(struct cli_bench_lock *base, unsigned name)
{
    struct sqlite_lock *lock = (struct sqlite_lock *)base;

    sqlite3_bind_int64(lock->give, 1, name);
    sqlite3_bind_int64(lock->give, 2, getpid());
    check(lock, sqlite3_step(lock->give));
    check(lock, sqlite3_reset(lock->give));
}

static void sqlite_close(struct cli_bench_lock *base)
{
    struct sqlite_lock *lock = (struct sqlite_lock *)base;

    sqlite3_finalize(lock->take);
    sqlite3_finalize(lock->give);
    sqlite3_close(lock->db);
    free(lock);
}

/* Held for a random part of the polling interval, for else each hand-over would meet the poll at
 * the same moment. */
const struct cli_bench_subject cli_bench_sqlite = { .key = "sqlite",
                                                    .title = "SQLite, WAL, synchronous=NORMAL",
                                                    .batch = 1,
                                                    .hold_us = POLL_US,
                                                    .no_takeover = "when the lease ends",
                                                    .open = sqlite_open,
                                                    .lock = sqlite_lock,
                                                    .unlock = sqlite_unlock,
                                                    .close = sqlite_close };
