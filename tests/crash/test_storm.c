/* SPDX-License-Identifier: Apache-2.0 */
/* Processes are killed at random while all of them fight for few locks, in several threads and in
 * all ways of asking: no two are inside at once, no lock gets stuck, tokens rise, and in the end
 * nothing is left. */
#include "mix.h"
#include "state.h"
#include "test.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 5, THREADS = 4, LIVES_MAX = 8192, LOCKS = 4, STORM_MS = 6000 };

struct shared {
    _Atomic int inside[LOCKS]; /* the life and the thread that are inside, or 0 */
    _Atomic uint64_t token[LOCKS];
    _Atomic uint64_t rounds;
    _Atomic bool killed[LIVES_MAX]; /* said before it is done */
    struct mix_seen seen;
};

static struct shared *shared;
static const char *directory;

static const hf_mode modes[LOCKS] = { HF_MUTEX, HF_FAIR, HF_WRITE, HF_PERMIT };
static const char *const names[LOCKS] = { "mutex", "fair", "write", "permit" };

struct worker {
    hf_client *client;
    int life, thread;
    bool drives_itself;
    unsigned seed;
};

struct answer {
    _Atomic bool there;
    int code;
    hf_hold *hold;
};

static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct answer *answer = arg;

    (void)error;
    answer->code = code;
    answer->hold = hold;
    answer->there = true;
}

/* Several tries before the loop runs: at most one of an exclusive lock is granted. */
static hf_hold *try_several_times(struct worker *worker, const char *name,
                                  const hf_lock_options *options)
{
    enum { TRIES = 3 };
    struct answer answers[TRIES] = { 0 };
    hf_hold *hold = NULL;

    for (int i = 0; i < TRIES; i++)
        CHECK_INT(hf_lock_async(worker->client, name, 0, options, note_answer, &answers[i], NULL),
                  HF_OK);
    for (int i = 0; i < TRIES; i++) {
        while (!answers[i].there)
            if (worker->drives_itself)
                CHECK_INT(hf_dispatch(worker->client), HF_OK);
            else
                sched_yield();
        if (answers[i].code != HF_OK) {
            CHECK_INT(answers[i].code, HF_BUSY);
            continue;
        }
        CHECK(!hold);
        hold = answers[i].hold;
    }
    return hold;
}

/* NULL: it was busy. */
static hf_hold *lock_somehow(struct worker *worker, const char *name,
                             const hf_lock_options *options)
{
    static const int64_t waits_ms[] = { 0, 20000, 20000, HF_FOREVER };
    int64_t wait_ms = waits_ms[rand_r(&worker->seed) % 4];
    hf_hold *hold = NULL;

    if (rand_r(&worker->seed) % 4 == 0)
        return try_several_times(worker, name, options);
    int code = hf_lock(worker->client, name, wait_ms, options, &hold);
    if (code != HF_OK && (wait_ms || code != HF_BUSY))
        FAIL("%s: %s", hf_code_name(code), hf_last_error()->text);
    return hold;
}

static void go_inside(struct worker *worker, int i)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = modes[i], .limit = modes[i] == HF_PERMIT);
    hf_hold *hold = lock_somehow(worker, names[i], &options);
    int me = worker->life * THREADS + worker->thread;
    if (!hold)
        return;
    int other = atomic_exchange(&shared->inside[i], me);
    CHECK(other == 0 || atomic_load(&shared->killed[other / THREADS]));
    CHECK(hf_token(hold) > atomic_load(&shared->token[i]));
    atomic_store(&shared->token[i], hf_token(hold));
    atomic_fetch_add(&shared->rounds, 1);
    CHECK(hf_held(hold));
    CHECK_INT(atomic_exchange(&shared->inside[i], 0), me);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

static void read_and_upgrade(struct worker *worker)
{
    bool upgrades = rand_r(&worker->seed) % 2;
    hf_lock_options reader = HF_LOCK_OPTIONS(.mode = upgrades ? HF_UPGRADE : HF_READ);
    hf_hold *hold;
    CHECK_INT(hf_lock(worker->client, "write", 20000, &reader, &hold), HF_OK);
    if (upgrades) {
        int code = hf_upgrade(hold, rand_r(&worker->seed) % 3);
        CHECK(code == HF_OK || code == HF_BUSY);
    }
    CHECK_INT(hf_unlock(hold), HF_OK);
}

static void work_for_ever(struct worker *worker)
{
    worker->seed = (unsigned)(worker->life * THREADS + worker->thread);
    for (;;) {
        go_inside(worker, rand_r(&worker->seed) % LOCKS);
        if (rand_r(&worker->seed) % 8 == 0)
            read_and_upgrade(worker);
    }
}

static void work_in_a_thread(void *arg, int index)
{
    struct worker worker = *(const struct worker *)arg;
    worker.thread = index;
    work_for_ever(&worker);
}

/* Every third turns its own loop, in its only thread, so that there are waiters of both sorts. */
static void work(void *arg)
{
    struct worker worker = { .life = *(int *)arg };
    worker.drives_itself = worker.life % 3 == 0;
    hf_client_options options =
        HF_CLIENT_OPTIONS(.driver = worker.drives_itself ? HF_DRIVE_CALLER : HF_DRIVE_THREAD);
    if (hf_open(&worker.client, mix_url(directory), &options) != HF_OK)
        FAIL("%s", hf_last_error()->text);
    if (worker.drives_itself)
        work_for_ever(&worker);
    threads_run(THREADS, work_in_a_thread, &worker);
}

TEST(a_storm_of_kills)
{
    struct child workers[WORKERS];
    int lives[WORKERS], life = 0;
    unsigned seed = (unsigned)getpid();
    TEST_TIMEOUT(120);
    directory = temp_path("state");
    shared = shared_memory(sizeof(*shared));
    test_note("seed %u", seed);
    for (int i = 0; i < WORKERS; i++) {
        lives[i] = ++life;
        child_start(&workers[i], work, &lives[i]);
    }
    int64_t until = monotonic_ms() + STORM_MS;
    while (monotonic_ms() < until && life < LIVES_MAX - 1) {
        let_pass_ms(1 + rand_r(&seed) % 6);
        int i = rand_r(&seed) % WORKERS;
        atomic_store(&shared->killed[lives[i]], true);
        child_kill(&workers[i]);
        lives[i] = ++life;
        child_start(&workers[i], work, &lives[i]);
    }
    uint64_t rounds = atomic_load(&shared->rounds);
    EVENTUALLY(atomic_load(&shared->rounds) > rounds + 100, 20000);
    for (int i = 0; i < WORKERS; i++)
        child_kill(&workers[i]);
    test_note("%d lives, %llu rounds", life, (unsigned long long)atomic_load(&shared->rounds));
    struct local *local = state_open(directory);
    state_check(local);
    hf__local_sweep(local, 0);
    CHECK_INT(state_claims(local), 0);
    state_close(local);
}
