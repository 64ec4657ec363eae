/* SPDX-License-Identifier: Apache-2.0 */
/* A mix of everything that can be asked of the embedded engine. */
#include "mix.h"

#include "base/rand.h"
#include "engines/local/layout.h"
#include "test.h"

#include <stdio.h>

/* libuv keeps a pipe of its own from the first loop on. */
__attribute__((constructor)) static void keep_fds(void)
{
    test_fds_kept = 2;
}

enum { WAIT_MS = 20000, BRIEFLY_MS = 20, CONTENDED_ROUNDS = 4, CROWD = 90, CROWD_HELD = 20 };

static const hf_mode modes[MIX_NAMES] = { HF_MUTEX, HF_FAIR,  HF_WRITE,  HF_PERMIT,
                                          HF_MUTEX, HF_WRITE, HF_PERMIT, HF_FAIR };

const char *mix_url(const char *directory)
{
    static char url[600];
    snprintf(url, sizeof(url), "local://%s", directory);
    return url;
}

hf_client *mix_open(const char *directory)
{
    hf_client *client;
    if (hf_open(&client, mix_url(directory), NULL) != HF_OK)
        FAIL("%s", hf_last_error()->text);
    return client;
}

const char *mix_name(int i)
{
    static char names[MIX_NAMES][HF_NAME_MAX + 1];
    static const int lengths[MIX_NAMES] = { 1, 20, 119, 120, 121, 300, 1023, 1024 };
    if (!names[i][0])
        memset(names[i], 'a' + i, (size_t)lengths[i]);
    return names[i];
}

/* Only tokens of exclusive grants must rise; permits' do too. */
static void note_token(struct mix_seen *seen, int i, const hf_hold *hold)
{
    uint64_t token = hf_token(hold);
    uint64_t before = atomic_load(&seen->token[i]);
    while (before < token && !atomic_compare_exchange_weak(&seen->token[i], &before, token))
        continue;
}

static hf_lock_options options_for(int i)
{
    return HF_LOCK_OPTIONS(.mode = modes[i], .permits = modes[i] == HF_PERMIT ? 2 : 0,
                           .limit = modes[i] == HF_PERMIT ? 3 : 0);
}

static hf_hold *take(hf_client *client, int i, struct mix_seen *seen)
{
    hf_lock_options options = options_for(i);
    hf_hold *hold;
    int code = hf_lock(client, mix_name(i), WAIT_MS, &options, &hold);
    if (code != HF_OK)
        FAIL("%s: %s", hf_code_name(code), hf_last_error()->text);
    uint64_t before = atomic_load(&seen->token[i]);
    CHECK(hf_token(hold) > before);
    note_token(seen, i, hold);
    return hold;
}

static void give(hf_hold *hold)
{
    int code = hf_unlock(hold);
    CHECK(code == HF_OK || code == HF_LOST);
}

/* ---- the parts of a round ---- */

static void read_and_write(hf_client *client, struct mix_seen *seen)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_READ, .owner = 1);
    hf_hold *reader, *upgrader;
    if (hf_lock(client, mix_name(2), WAIT_MS, &options, &reader) != HF_OK)
        FAIL("%s", hf_last_error()->text);
    options.mode = HF_UPGRADE;
    options.owner = 2;
    if (hf_lock(client, mix_name(2), BRIEFLY_MS, &options, &upgrader) == HF_OK) {
        CHECK(hf_upgrade(upgrader, 0) == HF_BUSY);
        give(reader);
        if (hf_upgrade(upgrader, BRIEFLY_MS) == HF_OK)
            note_token(seen, 2, upgrader);
        hf_downgrade(upgrader, HF_READ);
        give(upgrader);
    } else {
        give(reader);
    }
}

static void leased(hf_client *client)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.lease_ms = 60000, .owner = 3);
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold;
    if (hf_lock(client, "leased", BRIEFLY_MS, &options, &hold) != HF_OK)
        return;
    any_code(hf_renew(hold, 70000));
    if (hf_detach(hold, key) == HF_OK && hf_attach(client, "leased", key, &hold) == HF_OK)
        give(hold);
}

static void broken(hf_client *client)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.owner = 4);
    uint32_t count;
    hf_hold *hold;
    if (hf_lock(client, "broken", BRIEFLY_MS, &options, &hold) != HF_OK)
        return;
    CHECK_INT(hf_break(client, "broken", NULL, &count), HF_OK);
    give(hold);
}

static void counted(hf_client *client)
{
    uint32_t value;
    CHECK_INT(hf_counter_add(client, "counter", 3), HF_OK);
    CHECK_INT(hf_counter_take(client, "counter", 1, 0), HF_OK);
    CHECK_INT(hf_counter_get(client, "counter", &value), HF_OK);
    any_code(hf_counter_take(client, "counter", 1000000, 1));
    CHECK_INT(hf_semaphore_set(client, "semaphore", 5), HF_OK);
    CHECK_INT(hf_semaphore_set(client, "semaphore", 0), HF_OK);
    hf_latch_set(client, "latch", 2);
    CHECK_INT(hf_latch_wait(client, "latch", 1) == HF_OK, 0);
    CHECK_INT(hf_latch_down(client, "latch", 2, &value), HF_OK);
    CHECK_INT(hf_latch_wait(client, "latch", WAIT_MS), HF_OK);
}

static bool count_waiter(void *arg, const hf_entry *entry)
{
    *(bool *)arg |= entry->role == HF_ROLE_WAITER;
    return true;
}

static void end_wait(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)error;
    if (code == HF_OK)
        hf_unlock_nowait(hold);
    atomic_store((_Atomic bool *)arg, true);
}

/* Somebody waits for more than there are after a change. */
static void resized(hf_client *client)
{
    hf_lock_options four = HF_LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 4);
    hf_lock_options all = HF_LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 5);
    _Atomic bool ended = false;
    bool waits = false;
    hf_hold *hold;
    CHECK_INT(hf_semaphore_set(client, "resized", 5), HF_OK);
    if (hf_lock(client, "resized", BRIEFLY_MS, &four, &hold) != HF_OK)
        return;
    CHECK_INT(hf_lock_async(client, "resized", WAIT_MS, &all, end_wait, &ended, NULL), HF_OK);
    for (int look = 0; look < 2000 && !waits && !ended; look++) {
        CHECK_INT(hf_inspect(client, "resized", count_waiter, &waits), HF_OK);
        sched_yield();
    }
    CHECK_INT(hf_semaphore_set(client, "resized", 4), HF_OK);
    give(hold);
    while (!ended)
        sched_yield();
}

static bool look(void *arg, const hf_entry *entry)
{
    unsigned *count = arg;
    CHECK(entry->name_length > 0);
    (*count)++;
    return true;
}

/* ---- names that crowd in one window of the file ---- */

static char crowd[CROWD][20];

void mix_prepare(void)
{
    unsigned found = 0;
    for (unsigned i = 0; found < CROWD; i++) {
        char name[20];
        int length = snprintf(name, sizeof(name), "crowd-%u", i);
        if (hf__hash(name, (size_t)length) % LOCAL_LOCKS == 77)
            memcpy(crowd[found++], name, sizeof(name));
    }
}

static hf_hold *take_plain(hf_client *client, const char *name)
{
    hf_hold *hold;
    if (hf_lock(client, name, WAIT_MS, NULL, &hold) != HF_OK)
        FAIL("%s", hf_last_error()->text);
    return hold;
}

/* More at a time than the window has room for, so that the file grows; then one after another, so
 * that idle names are forgotten for new ones. */
void mix_crowd(hf_client *client)
{
    hf_hold *holds[CROWD_HELD];
    for (unsigned i = 0; i < CROWD_HELD; i++)
        holds[i] = take_plain(client, crowd[i]);
    for (unsigned i = 0; i < CROWD_HELD; i++)
        give(holds[i]);
    for (unsigned i = 0; i < CROWD; i++)
        give(take_plain(client, crowd[i]));
}

void mix_round(hf_client *client, struct mix_seen *seen)
{
    unsigned shown = 0;
    for (int i = 0; i < MIX_NAMES; i++)
        give(take(client, i, seen));
    hf_hold *mutex = take(client, 0, seen), *permits = take(client, 3, seen);
    read_and_write(client, seen);
    leased(client);
    broken(client);
    counted(client);
    resized(client);
    CHECK_INT(hf_inspect(client, NULL, look, &shown), HF_OK);
    CHECK(shown > 0);
    give(permits);
    give(mutex);
    mix_crowd(client);
}

/* ---- contention ---- */

struct contender {
    hf_client *client;
    struct mix_seen *seen;
    struct barrier *barrier;
    bool raises;
    struct contender *other;
    _Atomic int turn; /* how many locks it has had */
};

/* Holds until the other waits, unless it has had this turn already. */
static void hold_until_wanted(struct contender *contender, const char *name)
{
    bool wanted = false;
    for (int look = 0; look < 2000 && !wanted; look++) {
        if (atomic_load(&contender->other->turn) > atomic_load(&contender->turn))
            return;
        CHECK_INT(hf_inspect(contender->client, name, count_waiter, &wanted), HF_OK);
        sched_yield();
    }
}

/* Once an upgrade waits, there are no new readers. */
static void read_until_wanted(hf_client *client)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_READ, .owner = 9);
    hf_hold *hold;
    while (hf_lock(client, mix_name(2), 0, &options, &hold) == HF_OK) {
        give(hold);
        sched_yield();
    }
}

/* One reads, the other has UPGRADE and waits until it may write. */
static void raise_past(struct contender *contender)
{
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = contender->raises ? HF_UPGRADE : HF_READ);
    hf_hold *hold;
    barrier_wait(contender->barrier);
    if (hf_lock(contender->client, mix_name(2), WAIT_MS, &options, &hold) != HF_OK)
        FAIL("%s", hf_last_error()->text);
    barrier_wait(contender->barrier);
    if (contender->raises) {
        CHECK_INT(hf_upgrade(hold, WAIT_MS), HF_OK);
        note_token(contender->seen, 2, hold);
    } else {
        read_until_wanted(contender->client);
    }
    give(hold);
}

static void contend(void *arg)
{
    struct contender *contender = arg;
    for (int round = 0; round < CONTENDED_ROUNDS; round++) {
        for (int i = 0; i < MIX_NAMES; i++) {
            hf_hold *hold = take(contender->client, i, contender->seen);
            hold_until_wanted(contender, mix_name(i));
            give(hold);
            atomic_fetch_add(&contender->turn, 1);
        }
        raise_past(contender);
    }
}

void mix_contend(hf_client *one, hf_client *other, struct mix_seen *seen)
{
    struct barrier barrier;
    struct contender here = { one, seen, &barrier, true, NULL, 0 };
    struct contender there = { other, seen, &barrier, false, &here, 0 };
    struct thread thread;
    here.other = &there;
    barrier_init(&barrier, 2);
    thread_start(&thread, contend, &there);
    contend(&here);
    thread_join(&thread);
}

void mix_goes_on(hf_client *client, struct mix_seen *seen)
{
    for (int i = 0; i < MIX_NAMES; i++)
        give(take(client, i, seen));
}
