/* SPDX-License-Identifier: Apache-2.0 */
/* Who is next in the embedded engine: late, stopped and dead waiters, breaks, lists that are
 * damaged. */
#include "base/rand.h"
#include "local_fixture.h"

enum { MANY = 2 * LOCAL_WANTED + 8, OFFER_LAPSED_MS = 1100, WAKE_STALE_MS = 20, TURN_MS = 2 };

static struct hf_op op_for(hf_mode mode, uint64_t owner)
{
    struct hf_op op = local_op(mode, owner, MANY);
    op.in.enqueue = true;
    return op;
}

/* ---- mutexes barge, but not for ever ---- */

TEST(who_comes_too_late_when_a_turn_is_over_is_handed_the_mutex)
{
    struct hf_op hasty = op_for(HF_MUTEX, 1), late = op_for(HF_MUTEX, 2);
    local = state_open(temp_dir());
    CHECK_INT(ask(&hasty), HF_GRANTED);
    CHECK_INT(ask(&late), HF_REFUSED);
    give(&hasty);
    CHECK_INT(ask(&hasty), HF_GRANTED);
    let_pass_ms(TURN_MS);
    CHECK_INT(ask(&late), HF_REFUSED);
    give(&hasty);
    CHECK_INT(ask(&hasty), HF_REFUSED);
    CHECK_INT(ask(&late), HF_GRANTED);
    give(&late);
    CHECK_INT(ask(&hasty), HF_GRANTED);
    give(&hasty);
    end();
}

TEST(a_stopped_waiter_does_not_keep_the_next_from_being_handed_the_mutex)
{
    struct hf_op hasty = op_for(HF_MUTEX, 1), stopped = op_for(HF_MUTEX, 2),
                 late = op_for(HF_MUTEX, 3);
    local = state_open(temp_dir());
    CHECK_INT(ask(&hasty), HF_GRANTED);
    CHECK_INT(ask(&stopped), HF_REFUSED);
    CHECK_INT(ask(&late), HF_REFUSED);
    for (int times = 0; times < 2; times++) {
        give(&hasty);
        CHECK_INT(ask(&hasty), HF_GRANTED);
        CHECK_INT(ask(&late), HF_REFUSED);
        let_pass_ms(WAKE_STALE_MS);
    }
    give(&hasty);
    CHECK_INT(ask(&hasty), HF_REFUSED);
    CHECK_INT(ask(&late), HF_GRANTED);
    give(&late);
    give(&hasty);
    give(&stopped);
    end();
}

/* ---- offers ---- */

TEST(an_offer_that_nobody_fetches_goes_to_the_next)
{
    struct hf_op holder = op_for(HF_FAIR, 1), stopped = op_for(HF_FAIR, 2),
                 next = op_for(HF_FAIR, 3);
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    CHECK_INT(ask(&stopped), HF_REFUSED);
    CHECK_INT(ask(&next), HF_REFUSED);
    give(&holder);
    CHECK_INT(ask(&next), HF_REFUSED);
    let_pass_ms(OFFER_LAPSED_MS);
    CHECK_INT(ask(&next), HF_GRANTED);
    CHECK_INT(ask(&stopped), HF_REFUSED);
    give(&next);
    CHECK_INT(ask(&stopped), HF_GRANTED);
    give(&stopped);
    end();
}

TEST(an_offer_that_was_fetched_is_a_hold_like_any)
{
    struct hf_op holder = op_for(HF_FAIR, 1), next = op_for(HF_FAIR, 2), other = op_for(HF_FAIR, 3);
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    CHECK_INT(ask(&next), HF_REFUSED);
    give(&holder);
    CHECK_INT(ask(&next), HF_GRANTED);
    let_pass_ms(OFFER_LAPSED_MS);
    CHECK_INT(ask(&other), HF_REFUSED);
    CHECK(hf__local.sync->held(&local->base, &next));
    give(&other);
    give(&next);
    end();
}

/* ---- a semaphore becomes smaller ---- */

/* Nor does it have to look again before the others have their turn: it may be stopped. */
TEST(who_waits_for_more_than_there_are_by_now_is_taken_out_of_the_queue)
{
    struct hf_op holder = op_for(HF_PERMIT, 1), stopped = op_for(HF_PERMIT, 2),
                 next = op_for(HF_PERMIT, 3);
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    stopped.in.limit = next.in.limit = 0;
    stopped.in.permits = MANY;
    CHECK_INT(ask(&stopped), HF_REFUSED);
    CHECK_INT(ask(&next), HF_REFUSED);
    CHECK_INT(set_permits(local, 2).code, HF_OK);
    CHECK_INT(ask(&next), HF_GRANTED);
    CHECK_INT(ask(&stopped), HF_FAILED);
    CHECK_INT(stopped.out.error->code, HF_EINVAL);
    CHECK(!stopped.out.lost);
    free(stopped.out.error);
    give(&next);
    give(&holder);
    end();
}

TEST(who_was_taken_out_of_the_queue_may_give_up_instead)
{
    struct hf_op holder = op_for(HF_PERMIT, 1), waiter = op_for(HF_PERMIT, 2);
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    waiter.in.permits = MANY;
    CHECK_INT(ask(&waiter), HF_REFUSED);
    CHECK_INT(set_permits(local, 1).code, HF_OK);
    give(&waiter);
    CHECK(!waiter.out.lost && !waiter.out.error);
    give(&holder);
    end();
}

/* ---- the dead ---- */

TEST(a_dead_waiter_that_asks_for_too_much_is_skipped)
{
    struct hf_op holder = op_for(HF_PERMIT, 1), dead = op_for(HF_PERMIT, 2),
                 next = op_for(HF_PERMIT, 3);
    struct local *other = state_open(temp_dir());
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    dead.in.permits = MANY;
    CHECK_INT(hf__local.sync->attempt(&other->base, &dead), HF_REFUSED);
    state_close(other);
    CHECK_INT(ask(&next), HF_GRANTED);
    give(&next);
    give(&holder);
    end();
}

/* ---- breaks ---- */

/* More than one round tells of. */
TEST(a_break_takes_from_those_who_hold_and_not_from_those_who_come_after)
{
    struct hf_op holders[MANY], waiters[MANY];
    local = state_open(temp_dir());
    for (unsigned i = 0; i < MANY; i++) {
        holders[i] = op_for(HF_PERMIT, 1 + i);
        CHECK_INT(ask(&holders[i]), HF_GRANTED);
    }
    for (unsigned i = 0; i < MANY; i++) {
        waiters[i] = op_for(HF_PERMIT, 1000 + i);
        CHECK_INT(ask(&waiters[i]), HF_REFUSED);
    }
    struct hf_oneshot change = break_all(local);
    CHECK_INT(change.code, HF_OK);
    CHECK_INT(change.result, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK(!hf__local.sync->held(&local->base, &holders[i]));
        CHECK_INT(ask(&waiters[i]), HF_GRANTED);
        CHECK_INT(hf__local.sync->release(&local->base, &holders[i]), HF_GONE);
        free(holders[i].out.error);
        give(&waiters[i]);
    }
    end();
}

/* ---- what is read from the file is checked ---- */

static struct txn visit;

static void enter(const char *name)
{
    hf_error *error = NULL;
    uint32_t length = (uint32_t)strlen(name);
    CHECK_INT(hf__txn_name(&visit, local, name, length, hf__hash(name, length), true, &error),
              HF_OK);
}

TEST(references_to_what_cannot_be_are_damage)
{
    local = state_open(temp_dir());
    uint32_t node = local_reference(local, local_node_in(local, 0, 0));
    const uint32_t bad[] = { 1,
                             LOCAL_SESSIONS_AT / 64,
                             local_reference(local, local_lock_in(local, 0, 0)),
                             local_reference(local, local_cell_in(local, 0, 0)),
                             node + 1,
                             node + (uint32_t)(local_segment_at(1) / 64),
                             UINT32_MAX };
    enter("name");
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        local_put(&visit.lock->holders, local_pair(bad[i], bad[i]));
        visit.damaged = false;
        CHECK(hf__wait_list_first(&visit, &visit.lock->holders) == NULL);
        CHECK(visit.damaged);
    }
    local_put(&visit.lock->holders, 0);
    visit.damaged = false;
    hf__txn_leave(&visit);
    state_close(local);
}

TEST(another_locks_node_is_damage)
{
    struct hf_op holder = op_for(HF_FAIR, 1);
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    uint32_t node = local_op_node(&holder);
    enter("other");
    local_put(&visit.lock->holders, local_pair(node, node));
    CHECK(hf__wait_list_first(&visit, &visit.lock->holders) == NULL);
    CHECK(visit.damaged);
    local_put(&visit.lock->holders, 0);
    hf__txn_leave(&visit);
    give(&holder);
    end();
}

TEST(a_list_that_goes_in_a_circle_is_damage)
{
    struct hf_op holder = op_for(HF_FAIR, 1);
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    uint32_t reference = local_op_node(&holder);
    enter("name");
    struct local_node *node = hf__wait_list_first(&visit, &visit.lock->holders);
    CHECK(node != NULL);
    local_put(&node->link, local_pair(reference, 0));
    unsigned steps = 0;
    for (; node && steps < 10000000; steps++)
        node = hf__wait_list_next(&visit, node);
    CHECK(!node && visit.damaged);
    local_put(&hf__local_node(local, reference)->link, 0);
    hf__txn_leave(&visit);
    give(&holder);
    end();
}
