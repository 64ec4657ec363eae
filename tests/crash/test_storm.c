/* Processes are killed at random while all of them fight for few locks: no two are inside at once,
 * no lock gets stuck, tokens rise, and in the end nothing is left. */
#include "mix.h"
#include "state.h"
#include "test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 5, LIVES_MOST = 8192, LOCKS = 4, STORM_MS = 6000 };

struct shared {
    _Atomic int inside[LOCKS]; /* the life that is inside, or 0 */
    _Atomic uint64_t token[LOCKS];
    _Atomic uint64_t rounds;
    _Atomic bool killed[LIVES_MOST]; /* said before it is done */
    struct mix_seen seen;
};

static struct shared *shared;
static const char *directory;

static const hf_mode modes[LOCKS] = { HF_MUTEX, HF_FAIR, HF_WRITE, HF_PERMIT };
static const char *const names[LOCKS] = { "mutex", "fair", "write", "permit" };

static void go_inside(hf_client *client, int i, int life)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = modes[i], .limit = modes[i] == HF_PERMIT);
    hf_hold *hold;
    int code = hf_lock(client, names[i], 20000, &options, &hold);
    if (code != HF_OK)
        FAIL("%s: %s", hf_code_name(code), hf_last_error()->text);
    int other = atomic_exchange(&shared->inside[i], life);
    CHECK(other == 0 || atomic_load(&shared->killed[other]));
    CHECK(hf_token(hold) > atomic_load(&shared->token[i]));
    atomic_store(&shared->token[i], hf_token(hold));
    atomic_fetch_add(&shared->rounds, 1);
    CHECK(hf_held(hold));
    CHECK_INT(atomic_exchange(&shared->inside[i], 0), life);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

/* Every third turns its own loop, so that there are waiters of both sorts. */
static void work(void *arg)
{
    int life = *(int *)arg;
    unsigned seed = (unsigned)life;
    hf_client_options options =
        HF_CLIENT_OPTIONS(.driver = life % 3 ? HF_DRIVE_THREAD : HF_DRIVE_MYSELF);
    hf_client *client;
    if (hf_open(&client, mix_url(directory), &options) != HF_OK)
        FAIL("%s", hf_last_error()->text);
    for (;;) {
        go_inside(client, rand_r(&seed) % LOCKS, life);
        if (rand_r(&seed) % 8 == 0) {
            hf_lock_options reader = HF_LOCK_OPTIONS(.mode = HF_READ);
            hf_hold *hold;
            CHECK_INT(hf_lock(client, "write", 20000, &reader, &hold), HF_OK);
            CHECK_INT(hf_unlock(hold), HF_OK);
        }
    }
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
    while (monotonic_ms() < until && life < LIVES_MOST - 1) {
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
