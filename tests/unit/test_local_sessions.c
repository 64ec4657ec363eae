/* SPDX-License-Identifier: Apache-2.0 */
/* Who lives, for the embedded engine, and what is left of those who do not. */
#include "../crash/state.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/testing.h"
#include "test.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct local *one, *other;

static void begin(void)
{
    one = state_open(temp_dir());
    other = state_open(temp_dir());
}

static void end(void)
{
    state_close(other);
    state_close(one);
}

static struct hf_op op_for(const char *name, uint64_t owner)
{
    return (struct hf_op){ .in.name = name,
                           .in.name_length = (uint32_t)strlen(name),
                           .in.name_hash = hf__hash(name, strlen(name)),
                           .in.owner = owner,
                           .in.owner_text = "a test",
                           .in.mode = HF_FAIR,
                           .in.keep = HF_KEEP_NOTHING,
                           .in.permits = 1,
                           .in.enqueue = true,
                           .in.asked_at_ms = hf__clock_ms() };
}

TEST(a_client_that_is_there_lives)
{
    begin();
    CHECK(hf__local_alive(one, other->session));
    CHECK(hf__local_alive(one, one->session));
    end();
}

TEST(a_client_that_left_is_dead)
{
    begin();
    uint64_t session = other->session;
    state_close(other);
    CHECK(!hf__local_alive(one, session));
    state_close(one);
}

static void live_on(void *arg)
{
    (void)arg;
    hf__local.forked(&other->base);
    parent_say("forked");
    parent_wait_for("never");
}

TEST(a_client_whose_forked_child_lives_on_is_dead)
{
    struct child child;
    begin();
    uint64_t session = other->session;
    child_start(&child, live_on, NULL);
    child_wait_for(&child, "forked");
    CHECK(hf__local_alive(one, session));
    state_close(other);
    CHECK(!hf__local_alive(one, session));
    child_kill(&child);
    state_close(one);
}

/* The slot is in use, but by somebody else. */
TEST(an_earlier_client_of_a_slot_is_dead)
{
    begin();
    CHECK(!hf__local_alive(one, other->session - LOCAL_SESSIONS));
    CHECK(!hf__local_alive(one, other->session + LOCAL_SESSIONS));
    CHECK_INT(hf__local_session_pid(one, other->session - LOCAL_SESSIONS), 0);
    CHECK_INT(hf__local_session_pid(one, other->session), getpid());
    end();
}

/* ---- a slot that changes hands ---- */

static uint64_t dead_session;
static const char *moment;
static unsigned looks;

static void look_at_the_dead(const char *name)
{
    if (strcmp(name, moment))
        return;
    looks++;
    CHECK(!hf__local_alive(one, dead_session));
}

/* As the end of its process does. */
static uint64_t end_process_of(struct local *local)
{
    close(local->liveness);
    local->liveness = -1;
    return local->session;
}

static struct local *open_watched(const char *point)
{
    moment = point;
    looks = 0;
    hf__point_hook = look_at_the_dead;
    struct local *newcomer = state_open(temp_dir());
    hf__point_hook = NULL;
    CHECK(looks > 0);
    return newcomer;
}

TEST(dead_client_stays_dead_while_a_newcomer_takes_its_slot)
{
    begin();
    dead_session = end_process_of(other);
    struct local *newcomer = open_watched("local:session:locked");
    CHECK_INT(newcomer->slot, local_session_slot(dead_session));
    CHECK(newcomer->session != dead_session);
    CHECK(hf__local_alive(one, newcomer->session));
    state_close(newcomer);
    end();
}

TEST(dead_client_stays_dead_while_its_socket_is_removed)
{
    begin();
    struct local *third = state_open(temp_dir());
    atomic_store(&local_session(one, third->slot)->socket, 1);
    end_process_of(other); /* Its slot is the newcomer's. */
    dead_session = end_process_of(third);
    struct local *newcomer = open_watched("local:socket:cleared");
    CHECK(newcomer->slot != local_session_slot(dead_session));
    state_close(newcomer);
    state_close(third);
    end();
}

TEST(processes_of_unknown_namespaces_have_no_pid_here)
{
    begin();
    one->pid_namespace = 0;
    local_session(one, local_session_slot(other->session))->pid_namespace = 0;
    CHECK_INT(hf__local_session_pid(one, other->session), 0);
    end();
}

TEST(a_detached_claim_needs_nobody)
{
    begin();
    CHECK(hf__local_alive(one, LOCAL_DETACHED));
    CHECK_INT(hf__local_session_pid(one, LOCAL_DETACHED), 0);
    end();
}

TEST(a_guard_is_left_to_one_who_lives)
{
    struct txn first, second;
    hf_error *error = NULL;
    begin();
    CHECK_INT(hf__txn_name(&first, other, "name", 4, 7, true, &error), HF_OK);
    CHECK_INT(hf__txn_enter(&second, one, first.reference, &error), HF_UNREACHABLE);
    CHECK(error && strstr(error->text, "in the middle of a change"));
    CHECK(local_get(&first.lock->guard) == other->session);
    hf__txn_leave(&first);
    CHECK_INT(hf__txn_enter(&second, one, first.reference, &error), HF_OK);
    hf__txn_leave(&second);
    free(error);
    end();
}

/* ---- boots ---- */

/* Containers may have a boot_id of their own. */
TEST(another_boot_id_voids_nothing_while_somebody_lives)
{
    begin();
    struct hf_op held = op_for("name", 1), wanted = op_for("name", 2);
    CHECK_INT(hf__local.sync->attempt(&one->base, &held), HF_GRANTED);
    state_close(other);
    local_header(one)->boot_id[0] ^= 1;
    other = state_open(temp_dir());
    CHECK_INT(hf__local.sync->attempt(&other->base, &wanted), HF_REFUSED);
    CHECK_INT(hf__local.sync->release(&one->base, &held), HF_GONE);
    CHECK_INT(hf__local.sync->release(&other->base, &wanted), HF_GONE);
    state_check(one);
    end();
}

/* ---- what the dead leave ---- */

static jmp_buf dead;
static const char *death;
static unsigned hits;

static void die(const char *name)
{
    if (!strcmp(name, death) && hits-- == 1)
        longjmp(dead, 1);
}

/* As if a process had been killed in the middle: its locks of bytes end, its stores stay. */
static bool dies_in(enum hf_verdict (*ask)(struct hf_engine *, struct hf_op *), struct hf_op *op,
                    const char *point, unsigned hit)
{
    death = point;
    hits = hit;
    hf__point_hook = die;
    bool survived = !setjmp(dead);
    if (survived)
        ask(&other->base, op);
    hf__point_hook = NULL;
    close(other->liveness);
    other->liveness = -1;
    return !survived;
}

static void check_swept(struct hf_op *holder)
{
    uint32_t reference =
        local_state_lock(local_get(&hf__local_node(one, local_op_node(holder))->state));
    struct local_lock *lock = hf__local_lock(one, reference);
    CHECK(atomic_load(&lock->journal_count) > 0);
    hf__local_sweep(one, 0);
    CHECK_INT(atomic_load(&lock->journal_count), 0);
    CHECK_INT(state_claims(one), 1);
    state_check(one);
    CHECK_INT(hf__local.sync->release(&one->base, holder), HF_GONE);
    CHECK_INT(state_claims(one), 0);
}

/* A node that a journal still names must not be given to anybody else. */
TEST(a_node_is_freed_after_the_change_that_names_it_is_undone)
{
    for (unsigned hit = 1; hit <= 3; hit++) {
        begin();
        struct hf_op holder = op_for("name", 1), waiter = op_for("name", 2);
        CHECK_INT(hf__local.sync->attempt(&one->base, &holder), HF_GRANTED);
        CHECK(dies_in(hf__local.sync->attempt, &waiter, "local:set", hit));
        check_swept(&holder);
        end();
    }
}

TEST(a_waiter_that_dies_while_it_leaves_is_undone_first)
{
    for (unsigned hit = 1; hit <= 2; hit++) {
        begin();
        struct hf_op holder = op_for("name", 1), waiter = op_for("name", 2);
        CHECK_INT(hf__local.sync->attempt(&one->base, &holder), HF_GRANTED);
        CHECK_INT(hf__local.sync->attempt(&other->base, &waiter), HF_REFUSED);
        CHECK(dies_in(hf__local.sync->release, &waiter, "local:set", hit));
        check_swept(&holder);
        end();
    }
}

/* ---- what the next client of a slot finds ---- */

static void check_next_client_finds_nothing(unsigned slot)
{
    struct local *next = state_open(temp_dir());
    CHECK_INT(next->slot, slot);
    CHECK_INT(state_claims(next), 0);
    state_check(next);
    state_close(next);
}

TEST(killed_client_held_a_lock_next_client_of_its_slot_clears_it)
{
    begin();
    struct hf_op held = op_for("name", 1);
    CHECK_INT(hf__local.sync->attempt(&other->base, &held), HF_GRANTED);
    end_process_of(other);
    check_next_client_finds_nothing(other->slot);
    end();
}

TEST(client_closes_with_a_node_next_client_of_its_slot_clears_it)
{
    begin();
    unsigned slot = other->slot;
    struct hf_op held = op_for("name", 1);
    CHECK_INT(hf__local.sync->attempt(&other->base, &held), HF_GRANTED);
    state_close(other);
    check_next_client_finds_nothing(slot);
    state_close(one);
}

/* What of the state file is resident in this process through `local`. */
static uint64_t resident_kb(const struct local *local)
{
    char line[512];
    uint64_t kb = 0, part, from, to;
    bool ours = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps);
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2)
            ours = from >= (uintptr_t)local->map &&
                   to <= (uintptr_t)local->map + local_segment_at(local->segments_limit);
        if (ours && sscanf(line, "Rss: %" SCNu64, &part) == 1)
            kb += part;
    }
    fclose(maps);
    return kb;
}

/* A page that is touched brings up to fifteen others. */
TEST(client_closes_without_a_node_next_client_of_its_slot_reads_no_nodes)
{
    begin();
    unsigned slot = other->slot;
    struct hf_op held = op_for("name", 1);
    CHECK_INT(hf__local.sync->attempt(&other->base, &held), HF_GRANTED);
    CHECK_INT(hf__local.sync->release(&other->base, &held), HF_GONE);
    state_close(other);
    other = state_open(temp_dir());
    CHECK_INT(other->slot, slot);
    CHECK_INT(hf__local.sync->attempt(&other->base, &held), HF_GRANTED);
    CHECK(resident_kb(other) > 0);
    CHECK(resident_kb(other) < LOCAL_NODES_SIZE / 1024);
    CHECK_INT(hf__local.sync->release(&other->base, &held), HF_GONE);
    end();
}
