/* SPDX-License-Identifier: Apache-2.0 */
/* Beliefs under a storm: whatever the server and the connections suffer, as long as the server
 * keeps what it has, no two owners believe at the same time, and tokens rise from owner to owner.
 */
#include "conformance.h"
#include "server.h"

#include <sched.h>
#include <stdlib.h>

#define WORKERS 4
#define THREADS 4
#define BELIEFS_MAX 16000
#define LEASE_MS 400
#define STORM_MS 8000
/* Fewer of them say little; a slow machine has a longer storm. */
#define BELIEFS_MIN 60

/* From the first to the last moment at which its owner was sure; in microseconds. */
struct belief {
    int64_t from_us, to_us;
    uint64_t token;
};

struct storm {
    struct server servers[QUORUM_SERVERS]; /* copies, for where they are */
    bool is_quorum;                        /* or there is but the first */
    _Atomic int stop, lost;
    _Atomic int count, believed; /* not all of them for any time */
    struct belief beliefs[BELIEFS_MAX + 3 * WORKERS * THREADS];
};

/* The clock is read before asking: who is sure now was sure then. */
static void believe(struct storm *storm, hf_hold *hold, int64_t for_us)
{
    int64_t at_us = monotonic_us();
    struct belief belief = { at_us, at_us, hf_token(hold) };
    bool sure = hf_held(hold);

    for (bool still = sure; still && at_us - belief.from_us < for_us;) {
        belief.to_us = at_us;
        at_us = monotonic_us();
        still = hf_held(hold);
    }
    int place = storm->count++;
    storm->believed += sure;
    if (sure)
        storm->beliefs[place] = belief;
}

struct worker {
    struct child child;
    struct storm *storm;
    unsigned seed;
};

struct shift {
    struct storm *storm;
    hf_client *client;
    unsigned seed;
};

struct answer {
    _Atomic bool there;
    hf_hold *hold;
};

static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct answer *answer = arg;

    (void)error;
    CHECK(code == HF_OK || code == HF_BUSY || code == HF_UNREACHABLE);
    answer->hold = hold;
    answer->there = true;
}

static void believe_in(void *arg, int index)
{
    struct shift *shift = ((struct shift **)arg)[0];
    struct answer *answers = ((void **)arg)[1];

    if (answers[index].hold)
        believe(shift->storm, answers[index].hold, 1000);
}

/* Several tries at once. Whatever is granted is believed in at the same time. */
static void try_several_times(struct shift *shift)
{
    enum { TRIES = 3 };
    struct answer answers[TRIES] = { 0 };
    bool granted = false;

    for (int i = 0; i < TRIES; i++)
        CHECK_CODE(hf_lock_async(shift->client, "hot", 0, NULL, note_answer, &answers[i], NULL),
                   HF_OK);
    for (int i = 0; i < TRIES; i++)
        while (!answers[i].there)
            sched_yield();
    for (int i = 0; i < TRIES; i++)
        granted |= answers[i].hold != NULL;
    if (granted)
        threads_run(TRIES, believe_in, (void *[]){ shift, answers });
    for (int i = 0; i < TRIES; i++)
        shift->storm->lost += hf_unlock(answers[i].hold) == HF_LOST;
}

/* Several threads of a client wait, with and without a limit, and try. */
static void work_in_a_thread(void *arg, int index)
{
    static const int64_t waits_ms[] = { HF_FOREVER, 50, 0 };
    struct shift *shift = arg;
    struct storm *storm = shift->storm;
    unsigned seed = shift->seed * THREADS + (unsigned)index;

    while (!storm->stop && storm->count < BELIEFS_MAX) {
        hf_hold *hold;
        if (rand_r(&seed) % 4 == 0) {
            try_several_times(shift);
            continue;
        }
        int64_t lease_ms = rand_r(&seed) % 3 ? 0 : 30 + rand_r(&seed) % 300;
        int code = hf_lock(shift->client, "hot", waits_ms[rand_r(&seed) % 3],
                           LOCK_OPTIONS(.lease_ms = lease_ms), &hold);
        if (code != HF_OK) {
            CHECK(code == HF_BUSY || code == HF_UNREACHABLE);
            continue;
        }
        /* Most are short; one in ten outlives its lease if the server lets it. */
        believe(storm, hold, rand_r(&seed) % 10 ? 1000 : 2000 * LEASE_MS);
        storm->lost += hf_unlock(hold) == HF_LOST;
    }
}

static void work(void *arg)
{
    const struct worker *worker = arg;
    struct shift shift = { .storm = worker->storm, .seed = worker->seed };
    const struct server *servers = worker->storm->servers;

    CHECK_CODE(
        hf_open(&shift.client,
                worker->storm->is_quorum ? quorum_url(servers, 150) : server_url(&servers[0], 150),
                &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)),
        HF_OK);
    threads_run(THREADS, work_in_a_thread, &shift);
    hf_close(shift.client);
}

/* One server at a time. */
static void rage(struct server *servers, unsigned count, const struct storm *storm)
{
    int64_t until_ms = monotonic_ms() + STORM_MS;
    unsigned seed = 99;

    while (monotonic_ms() < until_ms || storm->believed < BELIEFS_MIN) {
        struct server *server = &servers[rand_r(&seed) % count];
        let_pass_ms(50 + rand_r(&seed) % 200);
        switch (rand_r(&seed) % 4) {
        case 0:
            server_stop(server);
            let_pass_ms(rand_r(&seed) % (2 * LEASE_MS));
            server_continue(server);
            break;
        case 1:
            server_tell(server, "CLIENT KILL TYPE normal SKIPME yes", NULL, 0);
            break;
        case 2:
            server_tell(server, "CLIENT KILL TYPE pubsub", NULL, 0);
            break;
        default:
            server_tell(server, "SCRIPT FLUSH", NULL, 0);
        }
    }
}

static int by_begin(const void *a, const void *b)
{
    const struct belief *one = a, *other = b;

    return one->from_us < other->from_us ? -1 : one->from_us > other->from_us;
}

static void go_through(bool is_quorum)
{
    struct storm *storm = shared_memory(sizeof(*storm));
    struct server servers[QUORUM_SERVERS] = { 0 };
    struct worker workers[WORKERS];
    unsigned server_count = is_quorum ? QUORUM_SERVERS : 1;
    int count = 0;

    TEST_TIMEOUT(120);
    for (unsigned i = 0; i < server_count; i++)
        server_start(&servers[i]);
    memcpy(storm->servers, servers, sizeof(servers));
    storm->is_quorum = is_quorum;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){ .storm = storm, .seed = i + 1 };
        child_start(&workers[i].child, work, &workers[i]);
    }
    rage(servers, server_count, storm);
    storm->stop = 1;
    for (unsigned i = 0; i < WORKERS; i++)
        child_join(&workers[i].child);
    for (unsigned i = 0; i < server_count; i++)
        server_kill(&servers[i]);
    qsort(storm->beliefs, (size_t)storm->count, sizeof(storm->beliefs[0]), by_begin);
    for (int i = 0; i < storm->count; i++) {
        const struct belief *belief = &storm->beliefs[i], *last = belief - 1;
        if (!belief->token)
            continue;
        if (count++ == 0)
            continue;
        if (belief->from_us <= last->to_us || belief->token <= last->token)
            FAIL("%llu believed until %lld, %llu from %lld", (unsigned long long)last->token,
                 (long long)last->to_us, (unsigned long long)belief->token,
                 (long long)belief->from_us);
    }
    test_note("%d beliefs, %d of them lost", count, storm->lost);
    CHECK(count >= BELIEFS_MIN);
}

TEST(no_two_beliefs_overlap_in_a_storm)
{
    go_through(false);
}

TEST(nor_do_they_at_a_quorum)
{
    go_through(true);
}
