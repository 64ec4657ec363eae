/* SPDX-License-Identifier: Apache-2.0 */
/* See own_threads.h. */
#include "own_threads.h"

#define HOLD_MS 20
#define SHORT_HOLD_MS 1 /* the next thread asks meanwhile, is refused, and waits to be woken */
#define PAUSE_MS 50

struct own_threads {
    hf_client *many, *other;
    int rounds;
    _Atomic int grants, left; /* of `many`; that `other` still wants */
};

static void take_turn(hf_client *client, int hold_ms)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", HF_FOREVER, LOCK_OPTIONS(.owner = HF_OWNER_NEW), &hold),
               HF_OK);
    let_pass_ms(hold_ms);
    CHECK_CODE(hf_unlock(hold), HF_OK);
}

static void take_turns(void *arg, int index)
{
    struct own_threads *threads = arg;

    (void)index;
    for (int i = 0; i < threads->rounds; i++)
        take_turn(threads->many, SHORT_HOLD_MS);
}

int64_t own_threads_hand_over_ms(hf_client *client, int rounds)
{
    struct own_threads threads = { .many = client, .rounds = rounds };
    int64_t before_ms = monotonic_ms();

    threads_run(OWN_THREADS, take_turns, &threads);
    return monotonic_ms() - before_ms;
}

static void contend(void *arg, int index)
{
    struct own_threads *threads = arg;

    while (threads->left > 0) {
        /* It has left the lock to them, and comes again. */
        if (index == 0)
            let_pass_ms(PAUSE_MS);
        take_turn(index == 0 ? threads->other : threads->many, HOLD_MS);
        if (index == 0)
            threads->left--;
        else
            threads->grants++;
    }
}

int own_threads_beside(hf_client *many, hf_client *other, int wanted)
{
    struct own_threads threads = { .many = many, .other = other, .left = wanted };

    threads_run(1 + OWN_THREADS, contend, &threads);
    test_note("%d grants of %d threads beside %d of another client", threads.grants, OWN_THREADS,
              wanted);
    return threads.grants;
}
