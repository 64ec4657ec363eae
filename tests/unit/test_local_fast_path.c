/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that nobody else wants, past the guard: what was parked is free to all others, and nobody
 * who waits is forgotten. */
#include "../crash/state.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/testing.h"
#include "core/claim/claim.h"
#include "test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* libuv keeps a pipe of its own from the first loop on. */
__attribute__((constructor)) static void keep_fds(void)
{
    test_fds_kept = 2;
}

static struct local *local, *other;
static uint64_t kept;
static const char *directory;

static struct hf_op op_named(const char *name, hf_mode mode, uint64_t owner)
{
    return (struct hf_op){ .in.name = name,
                           .in.name_length = (uint32_t)strlen(name),
                           .in.name_hash = hf__hash(name, strlen(name)),
                           .in.owner = owner,
                           .in.owner_text = "a test",
                           .in.mode = mode,
                           .in.keep = HF_KEEP_NOTHING,
                           .in.permits = 1,
                           .in.asked_at_ms = hf__clock_ms() };
}

static struct hf_op op_for(hf_mode mode, uint64_t owner)
{
    return op_named("name", mode, owner);
}

static enum hf_verdict ask(struct local *at, struct hf_op *op)
{
    op->in.asked_at_ms = hf__clock_ms();
    return hf__local.sync->attempt(&at->base, op);
}

static void give(struct local *at, struct hf_op *op)
{
    CHECK_INT(hf__local.sync->release(&at->base, op), HF_GONE);
}

static bool take(struct hf_op *op)
{
    op->in.asked_at_ms = hf__clock_ms();
    return hf__local_fast_acquire(&local->base, op, &kept);
}

/* However long this test was kept from running. */
static bool take_again(struct hf_op *op)
{
    return hf__local_fast_acquire(&local->base, op, &kept);
}

static bool leave(struct hf_op *op)
{
    return hf__local_fast_release(&local->base, op, &kept);
}

/* Granted the common way, given back the short one. */
static uint64_t park(hf_mode mode)
{
    struct hf_op op = op_for(mode, 1);
    CHECK_INT(ask(local, &op), HF_GRANTED);
    CHECK(leave(&op));
    CHECK(kept != 0);
    return op.out.token;
}

static void begin(void)
{
    directory = temp_dir();
    local = state_open(directory);
    other = state_open(directory);
    kept = 0;
}

static void end(void)
{
    CHECK(hf__local_fast_drop(&local->base, &kept));
    CHECK_INT(state_claims(local), 0);
    state_check(local);
    state_close(other);
    state_close(local);
}

TEST(what_was_parked_is_taken_again_with_a_larger_token)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE };
    begin();
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        uint64_t token = park(modes[i]);
        for (uint64_t times = 0; times < 3; times++) {
            struct hf_op again = op_for(modes[i], 2 + times);
            CHECK(take(&again));
            CHECK(again.out.token > token);
            token = again.out.token;
            struct hf_op busy = op_for(modes[i], 9);
            CHECK_INT(ask(other, &busy), HF_REFUSED);
            CHECK(leave(&again));
        }
    }
    end();
}

TEST(what_was_parked_is_free_to_others)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE, HF_READ, HF_UPGRADE };
    begin();
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        uint64_t token = park(modes[i] < HF_READ ? modes[i] : HF_WRITE);
        struct hf_op theirs = op_for(modes[i], 1), late = op_for(HF_WRITE, 1);
        CHECK_INT(ask(other, &theirs), HF_GRANTED);
        CHECK(theirs.out.token >= token);
        CHECK(modes[i] == HF_READ || modes[i] == HF_UPGRADE || theirs.out.token > token);
        late.in.mode = modes[i] < HF_READ ? modes[i] : HF_WRITE;
        CHECK(!take(&late));
        CHECK_INT(kept, 0);
        CHECK_INT(ask(local, &late), HF_REFUSED);
        state_check(local);
        give(other, &theirs);
    }
    end();
}

static struct hf_op overtaker;

static void overtake(const char *point)
{
    if (strcmp(point, "local:unpark") != 0)
        return;
    hf__point_hook = NULL;
    CHECK_INT(ask(other, &overtaker), HF_GRANTED);
}

TEST(who_is_overtaken_in_the_last_moment_does_not_get_it)
{
    begin();
    park(HF_MUTEX);
    struct hf_op late = op_for(HF_MUTEX, 1);
    overtaker = op_for(HF_MUTEX, 2);
    hf__point_hook = overtake;
    CHECK(!take(&late));
    CHECK_INT(ask(local, &late), HF_REFUSED);
    give(other, &overtaker);
    end();
}

/* Also a kind of its own: to all others nothing is there. */
TEST(what_was_parked_does_not_fix_the_kind)
{
    begin();
    park(HF_MUTEX);
    struct hf_op fair = op_for(HF_FAIR, 1);
    CHECK_INT(ask(other, &fair), HF_GRANTED);
    give(other, &fair);
    end();
}

TEST(only_the_same_mode_takes_what_was_parked)
{
    begin();
    park(HF_WRITE);
    struct hf_op reader = op_for(HF_READ, 1);
    CHECK(!take(&reader));
    CHECK_INT(ask(local, &reader), HF_GRANTED);
    CHECK(!leave(&reader));
    give(local, &reader);
    end();
}

TEST(what_is_leased_or_waited_for_is_not_parked)
{
    begin();
    struct hf_op leased = op_for(HF_MUTEX, 1), holder = op_for(HF_FAIR, 1),
                 waiter = op_for(HF_FAIR, 2);
    leased.in.lease_ms = 100000;
    CHECK_INT(ask(local, &leased), HF_GRANTED);
    CHECK(!leave(&leased));
    give(local, &leased);
    park(HF_FAIR);
    CHECK(take(&holder));
    waiter.in.enqueue = true;
    CHECK_INT(ask(other, &waiter), HF_REFUSED);
    CHECK(!leave(&holder));
    give(local, &holder);
    CHECK_INT(ask(other, &waiter), HF_GRANTED);
    give(other, &waiter);
    end();
}

/* ---- a mutex is taken before those who wait for it ---- */

static struct hf_op waits(struct local *at, uint64_t owner)
{
    struct hf_op op = op_for(HF_MUTEX, owner);
    op.in.enqueue = true;
    CHECK_INT(ask(at, &op), HF_REFUSED);
    return op;
}

static bool is_told(const struct hf_op *op)
{
    const struct local_node *node = hf__local_node(other, local_op_node(op));
    return (atomic_load(&node->futex) & ~1u) != local_high(op->engine.word[0]);
}

TEST(a_mutex_is_parked_before_a_waiter_that_has_been_told)
{
    begin();
    struct hf_op holder = op_for(HF_MUTEX, 1);
    park(HF_MUTEX);
    CHECK(take(&holder));
    struct hf_op waiter = waits(other, 2);
    uint64_t token = holder.out.token;
    CHECK(leave(&holder));
    CHECK(is_told(&waiter));
    CHECK(take_again(&holder));
    CHECK(holder.out.token > token);
    CHECK(leave(&holder));
    CHECK_INT(ask(other, &waiter), HF_GRANTED);
    CHECK(waiter.out.token > holder.out.token);
    CHECK(!take(&holder));
    give(other, &waiter);
    end();
}

TEST(a_waiter_that_comes_too_late_is_told_again_and_then_handed_the_mutex)
{
    begin();
    struct hf_op holder = op_for(HF_MUTEX, 1);
    struct local_node *node;
    park(HF_MUTEX);
    CHECK(take(&holder));
    struct hf_op waiter = waits(other, 2);
    node = hf__local_node(other, local_op_node(&waiter));
    struct local_lock *lock = hf__local_lock(other, local_state_lock(local_get(&node->state)));
    for (unsigned times = 0; times < 3; times++) {
        CHECK(leave(&holder));
        CHECK(is_told(&waiter));
        CHECK(take_again(&holder));
        local_put(&lock->turn_us, times < 2 ? (uint64_t)hf__clock_us() + 1000000 : 0);
        CHECK_INT(ask(other, &waiter), HF_REFUSED);
        CHECK(!is_told(&waiter));
    }
    CHECK(!leave(&holder));
    give(local, &holder);
    CHECK(is_told(&waiter));
    CHECK_INT(ask(local, &holder), HF_REFUSED);
    CHECK_INT(ask(other, &waiter), HF_GRANTED);
    give(other, &waiter);
    end();
}

/* The one that was told may be stopped. */
TEST(an_owner_looks_after_a_waiter_that_was_told_and_does_not_come)
{
    begin();
    struct hf_op holder = op_for(HF_MUTEX, 1), later = op_for(HF_MUTEX, 1);
    park(HF_MUTEX);
    CHECK(take(&holder));
    struct hf_op stopped = waits(other, 2), next = waits(other, 3);
    CHECK(leave(&holder));
    CHECK(is_told(&stopped) && !is_told(&next));
    let_pass_ms(2 * LOCAL_STALE_WAKE_MS);
    CHECK(!take(&later));
    CHECK_INT(ask(local, &later), HF_GRANTED);
    CHECK(leave(&later));
    CHECK(is_told(&next));
    CHECK_INT(ask(other, &next), HF_GRANTED);
    give(other, &next);
    give(other, &stopped);
    end();
}

TEST(a_waiter_that_was_told_and_gives_up_leaves_the_next_to_be_told)
{
    begin();
    struct hf_op holder = op_for(HF_MUTEX, 1);
    park(HF_MUTEX);
    CHECK(take(&holder));
    struct hf_op first = waits(other, 2), second = waits(other, 3);
    CHECK(leave(&holder));
    CHECK(take_again(&holder));
    give(other, &first);
    CHECK(!is_told(&second));
    CHECK(leave(&holder));
    CHECK(is_told(&second));
    give(other, &second);
    end();
}

/* Whoever only looks does not cost the holder the short way. */
TEST(a_visitor_who_does_not_wait_leaves_the_short_way_open)
{
    begin();
    struct hf_op holder = op_for(HF_MUTEX, 1), bare = op_for(HF_MUTEX, 2);
    CHECK_INT(ask(local, &holder), HF_GRANTED);
    CHECK_INT(ask(other, &bare), HF_REFUSED);
    CHECK(leave(&holder));
    end();
}

/* The next in a fair queue must not park it over those behind. */
TEST(with_waiters_behind_it_a_grant_goes_back_through_the_guard)
{
    begin();
    struct hf_op first = op_for(HF_FAIR, 1), second = op_for(HF_FAIR, 2),
                 third = op_for(HF_FAIR, 3);
    second.in.enqueue = third.in.enqueue = true;
    CHECK_INT(ask(local, &first), HF_GRANTED);
    CHECK_INT(ask(local, &second), HF_REFUSED);
    CHECK_INT(ask(other, &third), HF_REFUSED);
    give(local, &first);
    CHECK_INT(ask(local, &second), HF_GRANTED);
    CHECK(!leave(&second));
    give(local, &second);
    CHECK_INT(ask(other, &third), HF_GRANTED);
    give(other, &third);
    end();
}

/* Readers carry the token of the last writer, also of one that never saw the guard. */
TEST(tokens_go_on_through_all_ways)
{
    begin();
    uint64_t token = park(HF_WRITE);
    for (unsigned times = 0; times < 20; times++) {
        struct hf_op op = op_for(HF_WRITE, 1), reader = op_for(HF_READ, 2);
        if (!take(&op))
            CHECK_INT(ask(local, &op), HF_GRANTED);
        CHECK(op.out.token > token);
        token = op.out.token;
        if (times % 3 == 0)
            give(local, &op);
        else
            CHECK(leave(&op));
        if (times % 2)
            continue;
        CHECK_INT(ask(other, &reader), HF_GRANTED);
        CHECK(reader.out.token == token);
        give(other, &reader);
    }
    end();
}

TEST(a_downgraded_writer_of_the_short_way_hands_its_token_to_readers)
{
    begin();
    park(HF_WRITE);
    struct hf_op writer = op_for(HF_WRITE, 1), reader = op_for(HF_READ, 2);
    CHECK(take(&writer));
    writer.in.keep = HF_READ;
    CHECK_INT(hf__local.sync->release(&local->base, &writer), HF_GONE);
    CHECK_INT(ask(other, &reader), HF_GRANTED);
    CHECK(reader.out.token == writer.out.token);
    give(other, &reader);
    writer.in.keep = HF_KEEP_NOTHING;
    give(local, &writer);
    end();
}

/* Every eviction gives the node back in the end. */
TEST(evicted_nodes_are_used_again)
{
    begin();
    for (unsigned times = 0; times < 3 * LOCAL_NODES; times++) {
        struct hf_op op = op_for(HF_MUTEX, 1), theirs = op_for(HF_MUTEX, 2);
        if (!take(&op))
            CHECK_INT(ask(local, &op), HF_GRANTED);
        CHECK(leave(&op));
        CHECK_INT(ask(other, &theirs), HF_GRANTED);
        give(other, &theirs);
    }
    CHECK_INT(atomic_load(&local->segments), 1);
    end();
}

/* ---- the dead ---- */

static void park_and_die(void *arg)
{
    (void)arg;
    local = state_open(directory);
    kept = 0;
    park(HF_FAIR);
    raise(SIGKILL);
}

TEST(what_a_dead_one_parked_or_held_is_free)
{
    directory = temp_dir();
    struct child child;
    other = state_open(directory);
    child_start(&child, park_and_die, NULL);
    child_wait(&child);
    struct hf_op op = op_for(HF_FAIR, 1);
    CHECK_INT(ask(other, &op), HF_GRANTED);
    give(other, &op);
    hf__local_sweep(other, 0);
    CHECK_INT(state_claims(other), 0);
    state_check(other);
    state_close(other);
}

static void die_there(const char *point)
{
    if (!strcmp(point, "local:commit"))
        raise(SIGKILL);
}

static void evict_and_die(void *arg)
{
    (void)arg;
    struct local *visitor = state_open(directory);
    struct hf_op op = op_for(HF_FAIR, 7);
    hf__point_hook = die_there;
    ask(visitor, &op);
}

/* What can still be undone is not the owner's to use again. */
TEST(a_visitor_that_dies_over_a_parked_node_does_not_spoil_it)
{
    struct child child;
    begin();
    park(HF_FAIR);
    child_start(&child, evict_and_die, NULL);
    CHECK(WIFSIGNALED(child_wait(&child)));
    struct hf_op op = op_for(HF_FAIR, 1), late = op_for(HF_FAIR, 2);
    CHECK(!take(&op));
    CHECK_INT(ask(local, &op), HF_GRANTED);
    CHECK_INT(ask(other, &late), HF_REFUSED);
    state_check(local);
    give(local, &op);
    end();
}

/* ---- through the client ---- */

static unsigned nodes_in_use(void)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < LOCAL_NODES; i++)
        count += local_get(&local_node_in(other, 0, i)->session) != 0;
    return count;
}

static void lock_and_unlock(hf_client *client, const char *name, hf_mode mode)
{
    hf_hold *hold;
    /* A look for circles would hide a wake-up that is lost. */
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = mode, .deadlock_ms = HF_FOREVER);
    CHECK_INT(hf_lock(client, name, HF_FOREVER, &options, &hold), HF_OK);
    CHECK_INT(hf_unlock(hold), HF_OK);
}

/* What a client keeps has a bound, and is gone when it closes. */
TEST(a_client_keeps_few_names_and_none_in_the_end)
{
    enum { NAMES = 3000, KEPT_MAX = HF_SHARDS + LOCAL_CACHE };
    hf_client *client;
    char name[32], url[600];
    directory = temp_dir();
    snprintf(url, sizeof(url), "local://%s", directory);
    other = state_open(directory);
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    for (unsigned round = 0; round < 2; round++) {
        for (int i = 0; i < NAMES; i++) {
            snprintf(name, sizeof(name), "name %d", i);
            lock_and_unlock(client, name, i % 2 ? HF_MUTEX : HF_FAIR);
            lock_and_unlock(client, name, i % 2 ? HF_MUTEX : HF_FAIR);
            lock_and_unlock(client, name, HF_WRITE);
        }
        CHECK(nodes_in_use() <= KEPT_MAX);
    }
    hf_close(client);
    CHECK_INT(nodes_in_use(), 0);
    state_check(other);
    state_close(other);
}

static bool look(void *arg, const hf_entry *entry)
{
    *(unsigned *)arg += entry->role != HF_ROLE_OBJECT;
    return true;
}

TEST(what_is_parked_is_not_shown)
{
    hf_client *client, *visitor;
    char url[600];
    unsigned shown = 0;
    snprintf(url, sizeof(url), "local://%s", temp_dir());
    CHECK_INT(hf_open(&client, url, NULL), HF_OK);
    CHECK_INT(hf_open(&visitor, url, NULL), HF_OK);
    lock_and_unlock(client, "name", HF_MUTEX);
    CHECK_INT(hf_inspect(visitor, NULL, look, &shown), HF_OK);
    CHECK_INT(hf_inspect(client, "name", look, &shown), HF_OK);
    CHECK_INT(shown, 0);
    lock_and_unlock(client, "name", HF_MUTEX);
    hf_close(visitor);
    hf_close(client);
}

static _Atomic unsigned cancel_changes;

/* In place of libc's. No thread of these tests is canceled. */
int pthread_setcancelstate(int state, int *before)
{
    (void)state;
    cancel_changes++;
    if (before)
        *before = PTHREAD_CANCEL_ENABLE;
    return 0;
}

/* It costs more than the rest of the path. A pair may leave the path where its thread had to wait
 * for a processor. */
TEST(fast_path_does_not_change_whether_its_thread_can_be_canceled)
{
    for (int driver = HF_DRIVE_THREAD; driver <= HF_DRIVE_CALLER; driver++) {
        hf_client *client;
        char url[600];
        unsigned before, pairs = 0;
        snprintf(url, sizeof(url), "local://%s", temp_dir());
        CHECK_INT(hf_open(&client, url, &HF_CLIENT_OPTIONS(.driver = (hf_driver)driver)), HF_OK);
        lock_and_unlock(client, "name", HF_MUTEX);
        do {
            before = cancel_changes;
            lock_and_unlock(client, "name", HF_MUTEX);
            CHECK(++pairs < 10000);
        } while (cancel_changes != before);
        hf_close(client);
        CHECK(cancel_changes != before);
    }
}

/* ---- all at once ---- */

struct crowd {
    hf_mode mode;
    struct local *local[2];
    struct barrier both;
    _Atomic int inside;
    _Atomic uint64_t token;
    _Atomic unsigned at_once;
};

enum { ROUNDS = 60000 };

/* Sleeps in the kernel like the real one; what was forgotten would sleep for ever. */
static void lock_of(struct crowd *crowd, struct local *at, struct hf_op *op, uint64_t *word)
{
    op->in.asked_at_ms = hf__clock_ms();
    if (hf__local_fast_acquire(&at->base, op, word)) {
        crowd->at_once++;
        return;
    }
    op->in.enqueue = true;
    while (ask(at, op) == HF_REFUSED)
        hf__local.sync->sleep(&at->base, op, HF_NEVER);
}

static void contend(void *arg, int index)
{
    struct crowd *crowd = arg;
    struct local *at = crowd->local[index];
    uint64_t word = 0;
    barrier_wait(&crowd->both);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct hf_op op = op_for(crowd->mode, (uint64_t)index + 1);
        lock_of(crowd, at, &op, &word);
        CHECK_INT(atomic_fetch_add(&crowd->inside, 1), 0);
        CHECK(op.out.token > atomic_exchange(&crowd->token, op.out.token));
        if (i % 8 == 0)
            sched_yield();
        atomic_fetch_sub(&crowd->inside, 1);
        if (!hf__local_fast_release(&at->base, &op, &word))
            give(at, &op);
    }
    while (!hf__local_fast_drop(&at->base, &word))
        continue;
}

static void take_turns(hf_mode mode)
{
    begin();
    struct crowd crowd = { .mode = mode, .local = { local, other } };
    barrier_init(&crowd.both, 2);
    threads_run(2, contend, &crowd);
    test_note("%u of %u were taken at once", crowd.at_once, 2 * ROUNDS);
    CHECK(crowd.at_once > 0 && crowd.at_once < 2 * ROUNDS - 100);
    end();
}

TEST(two_sessions_take_turns_both_ways)
{
    TEST_TIMEOUT(20);
    take_turns(HF_FAIR);
}

TEST(two_sessions_share_a_mutex_both_ways)
{
    TEST_TIMEOUT(20);
    take_turns(HF_MUTEX);
}
