/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast as a subject of bench: the public API, as any program would call it. */
#include "bench.h"

#include <stdlib.h>

struct holdfast_lock {
    struct cli_bench_lock base;
    hf_client *client;
    hf_lock_options options;
    char names[CLI_BENCH_NAMES][48];
    hf_hold *holds[CLI_BENCH_NAMES][2]; /* nested once at most */
    unsigned depth[CLI_BENCH_NAMES];
};

static _Noreturn void die(struct cli_bench *bench, int code)
{
    cli_bench_die(bench, cli_exit_code(code), "%s", hf_last_error()->text);
}

static struct cli_bench_lock *holdfast_open(struct cli_bench *bench,
                                            const struct cli_bench_subject *subject)
{
    struct holdfast_lock *lock = calloc(1, sizeof(*lock));
    int code;

    if (!lock)
        cli_bench_die(bench, CLI_INTERNAL, "out of memory");
    lock->base = (struct cli_bench_lock){ bench, subject };
    lock->options = HF_LOCK_OPTIONS(.mode = subject->mode);
    for (unsigned i = 0; i < CLI_BENCH_NAMES; i++)
        snprintf(lock->names[i], sizeof(lock->names[i]), "holdfast-bench/%s/%u",
                 subject->mode == HF_FAIR ? "fair" : "mutex", i);
    code = hf_open(&lock->client, bench->url, &HF_CLIENT_OPTIONS(.driver = subject->driver));
    if (code != HF_OK)
        die(bench, code);
    return &lock->base;
}

static void holdfast_lock(struct cli_bench_lock *base, unsigned name)
{
    struct holdfast_lock *lock = (struct holdfast_lock *)base;
    hf_hold **hold = &lock->holds[name][lock->depth[name]++];
    int code = hf_lock(lock->client, lock->names[name], HF_FOREVER, &lock->options, hold);

    if (code != HF_OK)
        die(base->bench, code);
}

static void holdfast_unlock(struct cli_bench_lock *base, unsigned name)
{
    struct holdfast_lock *lock = (struct holdfast_lock *)base;
    int code = hf_unlock(lock->holds[name][--lock->depth[name]]);

    if (code != HF_OK)
        die(base->bench, code);
}

static void holdfast_close(struct cli_bench_lock *base)
{
    struct holdfast_lock *lock = (struct holdfast_lock *)base;

    hf_close(lock->client);
    free(lock);
}

/* A wait without a limit would not say that no server is there. */
static void expect_an_answer(const struct cli_bench_child *child)
{
    struct holdfast_lock *lock = (struct holdfast_lock *)child->lock;
    hf_hold *hold;
    int code = hf_lock(lock->client, lock->names[0], 0, &lock->options, &hold);

    if (code == HF_OK)
        code = hf_unlock(hold);
    if (code != HF_OK && code != HF_BUSY)
        die(child->bench, code);
}

void cli_bench_probe(struct cli_bench_child *child)
{
    struct cli_bench_shared *shared = child->bench->shared;
    struct holdfast_lock *lock = (struct holdfast_lock *)child->lock;

    snprintf(shared->url, sizeof(shared->url), "%s", hf_url(lock->client));
    shared->caps = hf_caps(lock->client);
    expect_an_answer(child); /* mutant: bench-waits-for-store */
    holdfast_lock(child->lock, 0);
    shared->lease_free = hf_remaining_ms(lock->holds[0][0]) == INT64_MAX;
    holdfast_unlock(child->lock, 0);
}

#define FUNCTIONS                                                                                  \
    .open = holdfast_open, .lock = holdfast_lock, .unlock = holdfast_unlock, .close = holdfast_close

const struct cli_bench_subject cli_bench_holdfast = {
    .key = "holdfast", .title = "holdfast", .batch = 100, .mode = HF_MUTEX, FUNCTIONS
};

const struct cli_bench_subject cli_bench_fair = {
    .key = "holdfast_fair", .title = "holdfast, fair", .batch = 100, .mode = HF_FAIR, FUNCTIONS
};

const struct cli_bench_subject cli_bench_driven = { .key = "holdfast_driven",
                                                    .title = "holdfast, HF_DRIVE_CALLER",
                                                    .batch = 100,
                                                    .mode = HF_FAIR,
                                                    .driver = HF_DRIVE_CALLER,
                                                    FUNCTIONS };
