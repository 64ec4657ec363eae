/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks: every refusal says which argument, what it was, and what is accepted. */
#include "core/api/args.h"

#include "base/clock.h"
#include "base/rand.h"
#include "base/zero.h"
#include "core/api/explain.h"
#include "core/api/fork.h"
#include "core/api/owner.h"
#include "core/loop/uv_loop.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define LEASE_MS_MIN 10

int hf__args_client(const struct hf_client *client, bool waits)
{
    if (!client)
        return hf__answer_fail(HF_EINVAL, "the client is NULL; hf_open makes one");
    if (hf__forked(client))
        return hf__answer_fail(HF_EFORKED, "the client was opened before fork(); this process "
                                           "needs an hf_open of its own");
    if (waits && hf__uv_loop_inside(client))
        return hf__answer_fail(HF_EDEADLK, "a callback must not block its own client's loop; use "
                                           "hf_lock_async or hf_unlock_nowait");
    return HF_OK;
}

static int name_too_long(const struct hf_client *client, const char *name, size_t length)
{
    if (client->prefix_length)
        return hf__answer_fail(
            HF_EINVAL,
            "the lock's name has %zu bytes (\"%.40s...\") with the URL's prefix; "
            "the limit is %d",
            length, name, HF_NAME_MAX);
    return hf__answer_fail(HF_EINVAL,
                           "the lock's name has %zu bytes (\"%.40s...\"); the limit is %d", length,
                           name, HF_NAME_MAX);
}

int hf__args_name(const struct hf_client *client, const char *name, struct hf_store_name *ret)
{
    if (!name)
        return hf__answer_fail(HF_EINVAL, "the lock's name is NULL; give it 1 to %d bytes",
                               HF_NAME_MAX);
    size_t length = strlen(name);
    if (length == 0)
        return hf__answer_fail(HF_EINVAL, "the lock's name is empty; give it 1 to %d bytes",
                               HF_NAME_MAX);
    if (length + client->prefix_length > HF_NAME_MAX)
        return name_too_long(client, name, length + client->prefix_length);
    ret->text = name;
    if (client->prefix_length) {
        memcpy(ret->room, client->prefix, client->prefix_length);
        memcpy(ret->room + client->prefix_length, name, length + 1);
        ret->text = ret->room;
        length += client->prefix_length;
    }
    ret->length = (uint32_t)length;
    ret->hash = hf__hash(ret->text, length);
    return HF_OK;
}

int hf__args_wait(int64_t wait_ms)
{
    if (wait_ms < HF_FOREVER)
        return hf__answer_fail(HF_EINVAL,
                               "wait_ms is %" PRId64 "; use milliseconds, 0 (do not wait) or "
                               "HF_FOREVER",
                               wait_ms);
    return HF_OK;
}

/* The clock's milliseconds are cut off, not rounded: one more, and no wait is too short. */
int64_t hf__args_until(int64_t now_ms, int64_t wait_ms)
{
    return hf__clock_add(now_ms + 1, wait_ms);
}

/* Ten thousand years are for ever, and leave room to add a clock to. */
int64_t hf__args_lease(int64_t lease_ms)
{
    const int64_t most_ms = INT64_C(10000) * 366 * 86400 * 1000;
    return lease_ms < most_ms ? lease_ms : most_ms;
}

static int check_lease(int64_t lease_ms)
{
    if (lease_ms != 0 && lease_ms < LEASE_MS_MIN)
        return hf__answer_fail(HF_EINVAL,
                               "lease_ms is %" PRId64 "; use 0 (as long as the process lives) or "
                               "at least %d",
                               lease_ms, LEASE_MS_MIN);
    return HF_OK;
}

static const char *mode_name(hf_mode mode)
{
    static const char *const names[] = {
        "mutexes",    "fair mutexes", "read-write locks", "upgradeable reads", "read-write locks",
        "semaphores", "counters",     "latches",          "elections"
    };
    return names[mode];
}

static int check_mode(const struct hf_client *client, hf_mode mode)
{
    static const unsigned needs[] = { HF_CAP_MUTEX,   HF_CAP_FAIR,  HF_CAP_RW,
                                      HF_CAP_UPGRADE, HF_CAP_RW,    HF_CAP_PERMIT,
                                      HF_CAP_COUNTER, HF_CAP_LATCH, HF_CAP_MUTEX };
    if ((unsigned)mode >= sizeof needs / sizeof *needs)
        return hf__answer_fail(HF_EINVAL, "mode %d is none; use an hf_mode", (int)mode);
    bool reads = client->ops->caps & HF_CAP_RW;
    if (!(client->ops->caps & needs[mode]))
        return hf__answer_fail(
            HF_ENOTSUP, "the engine \"%s\" has no %s%s", client->ops->name, mode_name(mode),
            mode != HF_UPGRADE ? ""
            : reads ? ": the format that it shares with other libraries knows readers and "
                      "writers only; take HF_WRITE"
                    : ", as it has no read-write locks; take HF_MUTEX");
    return HF_OK;
}

void hf_client_options_init(hf_client_options *options, size_t size)
{
    memset(options, 0, size); /* mutant: client-options-begin-with-zeros */
    options->size = size;
}

void hf_lock_options_init(hf_lock_options *options, size_t size)
{
    memset(options, 0, size); /* mutant: no-more-than-size-is-written */
    options->size = size;
}

/* The caller's options may be of an older header, and so shorter. */
static int copy_options(hf_lock_options *known, const hf_lock_options *options)
{
    if (options->size < offsetof(hf_lock_options, no_reentry) || options->size > sizeof *options)
        return hf__answer_fail(HF_EINVAL,
                               "the options' size is %zu; begin them with HF_LOCK_OPTIONS_INIT, "
                               "of the header of this library's version",
                               options->size);
    *known = (hf_lock_options)HF_LOCK_OPTIONS_INIT;
    memcpy(known, options, options->size);
    if (known->owner > HF_OWNER_USER_MAX && known->owner != HF_OWNER_NEW &&
        known->owner != HF_OWNER_THREAD)
        return hf__answer_fail(HF_EINVAL, "the owner number %" PRIu64 " is above 2^62 - 1",
                               known->owner);
    return HF_OK;
}

/* A number that the mode has no use for is a mistake: the lock would admit fewer than was meant. */
static int check_numbers(const hf_lock_options *options)
{
    bool takes = options->mode == HF_PERMIT || options->mode == HF_COUNTER;
    if (options->permits > 1 && !takes)
        return hf__answer_fail(HF_EINVAL,
                               "permits is %" PRIu32 ", and %s have none; use HF_PERMIT or "
                               "HF_COUNTER, or leave it 0",
                               options->permits, mode_name(options->mode));
    if (options->limit && options->mode != HF_PERMIT)
        return hf__answer_fail(HF_EINVAL,
                               "limit is %" PRIu32 ", and %s have none; use HF_PERMIT, or leave it "
                               "0",
                               options->limit, mode_name(options->mode));
    return HF_OK;
}

int hf__args_stop(const hf_stop *stop)
{
    if (stop && stop->size != sizeof *stop)
        return hf__answer_fail(HF_EINVAL, "the stop's size is %zu; begin it with HF_STOP_INIT",
                               stop->size);
    if (hf_stop_is_set(stop))
        return hf__answer_fail(HF_CANCELED, "the stop is set; hf_stop_clear makes it usable again");
    return HF_OK;
}

static int read_options(struct hf_lock_args *ask, struct hf_client *client,
                        const hf_lock_options *options)
{
    hf_lock_options known;
    int code = copy_options(&known, options);
    if (code == HF_OK)
        code = check_mode(client, known.mode);
    if (code == HF_OK)
        code = check_numbers(&known);
    if (code == HF_OK)
        code = check_lease(known.lease_ms);
    if (code == HF_OK)
        code = hf__args_stop(known.stop);
    if (code != HF_OK)
        return code;
    ask->mode = known.mode;
    ask->election = known.mode == HF_LEADER;
    if (ask->election)
        ask->mode = client->ops->caps & HF_CAP_FAIR ? HF_FAIR : HF_MUTEX;
    ask->permits = known.permits ? known.permits : 1;
    ask->limit = known.limit;
    ask->lease_ms = hf__args_lease(known.lease_ms);
    ask->owner = known.owner;
    if (known.owner == HF_OWNER_NEW)
        ask->owner = hf__owner_request(client);
    else if (known.owner == HF_OWNER_THREAD)
        ask->owner = hf__owner_thread();
    ask->owner_text = known.owner_text;
    ask->on_lost = known.on_lost;
    ask->lost_arg = known.lost_arg;
    ask->no_reentry = known.no_reentry;
    ask->stop = known.stop;
    if (known.deadlock_ms < HF_FOREVER)
        return hf__answer_fail(HF_EINVAL,
                               "deadlock_ms is %" PRId64 "; use milliseconds, 0 (the default) or "
                               "HF_FOREVER (never)",
                               known.deadlock_ms);
    if (known.deadlock_ms)
        ask->deadlock_ms = known.deadlock_ms == HF_FOREVER ? HF_NEVER : known.deadlock_ms;
    return HF_OK;
}

/* How old the known length of all suspends may be. */
#define SUSPENDED_FRESH_MS 10

/* Where nothing is timed, the time is only shown to others, and a clock that is a few milliseconds
 * behind, at a fraction of the price, will do. It stops in suspend. */
static int64_t now_for(struct hf_client *client, const struct hf_lock_args *ask)
{
    if (!client->here || ask->wait_ms > 0 || ask->lease_ms)
        return client->loop.clock(client->loop.arg);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    int64_t read_ms = atomic_load_explicit(&client->suspended_at_ms, memory_order_relaxed);
    if (now_ms - read_ms >= SUSPENDED_FRESH_MS) {
        atomic_store_explicit(&client->suspended_ms, hf__clock_ms() - now_ms, memory_order_relaxed);
        atomic_store_explicit(&client->suspended_at_ms, now_ms, memory_order_release);
    }
    return now_ms + atomic_load_explicit(&client->suspended_ms, memory_order_relaxed);
}

int hf__args_read(struct hf_lock_args *ask, struct hf_store_name *full, struct hf_client *client,
                  const char *name, int64_t wait_ms, const hf_lock_options *options)
{
    hf__zero(ask, sizeof *ask);
    ask->wait_ms = wait_ms;
    ask->deadlock_ms = client->here ? HF_DEADLOCK_HERE_MS : HF_DEADLOCK_MS;
    ask->permits = 1;
    int code = hf__args_name(client, name, full);
    if (code != HF_OK)
        return code;
    ask->name = full->text;
    ask->name_length = full->length;
    ask->name_hash = full->hash;
    code = hf__args_wait(wait_ms);
    if (code == HF_OK && options)
        code = read_options(ask, client, options);
    ask->now_ms = now_for(client, ask);
    ask->wait_until_ms = hf__args_until(ask->now_ms, wait_ms);
    return code;
}
