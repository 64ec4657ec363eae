/* SPDX-License-Identifier: Apache-2.0 */
/* Who may hold what together in the embedded engine, and what a hold that ends leaves to others. */
#include "local_fixture.h"

enum { PERMITS = 3, LEASE_MS = 20 };

static struct hf_op op_for(hf_mode mode, uint64_t owner)
{
    return local_op(mode, owner, PERMITS);
}

static void wait_for(struct hf_op *op)
{
    op->in.enqueue = true;
    CHECK_INT(ask(op), HF_REFUSED);
}

TEST(who_may_share_with_whom)
{
    static const struct {
        hf_mode held, wanted;
        bool granted;
    } pairs[] = {
        { HF_MUTEX, HF_MUTEX, false },   { HF_FAIR, HF_FAIR, false },
        { HF_READ, HF_READ, true },      { HF_READ, HF_UPGRADE, true },
        { HF_READ, HF_WRITE, false },    { HF_UPGRADE, HF_READ, true },
        { HF_UPGRADE, HF_WRITE, false }, { HF_UPGRADE, HF_UPGRADE, false },
        { HF_WRITE, HF_READ, false },    { HF_WRITE, HF_WRITE, false },
        { HF_WRITE, HF_UPGRADE, false }, { HF_PERMIT, HF_PERMIT, true },
    };
    local = state_open(temp_dir());
    for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct hf_op held = op_for(pairs[i].held, 1), wanted = op_for(pairs[i].wanted, 2);
        CHECK_INT(ask(&held), HF_GRANTED);
        CHECK_INT(ask(&wanted), pairs[i].granted ? HF_GRANTED : HF_REFUSED);
        state_check(local);
        give(&wanted);
        give(&held);
    }
    end();
}

TEST(an_upgrade_waits_for_the_readers_and_no_new_ones_come)
{
    struct hf_op reader = op_for(HF_READ, 1), upgrade = op_for(HF_UPGRADE, 2),
                 late = op_for(HF_READ, 3);
    local = state_open(temp_dir());
    CHECK_INT(ask(&reader), HF_GRANTED);
    CHECK_INT(ask(&upgrade), HF_GRANTED);
    upgrade.in.mode = HF_WRITE;
    wait_for(&upgrade);
    CHECK_INT(ask(&late), HF_REFUSED);
    give(&reader);
    CHECK_INT(ask(&upgrade), HF_GRANTED);
    CHECK_INT(ask(&late), HF_REFUSED);
    give(&upgrade);
    CHECK_INT(ask(&late), HF_GRANTED);
    give(&late);
    end();
}

TEST(an_upgrade_leaves_the_lease_as_it_is)
{
    struct hf_op reader = op_for(HF_READ, 1), upgrade = op_for(HF_UPGRADE, 2);
    local = state_open(temp_dir());
    upgrade.in.lease_ms = 100000;
    CHECK_INT(ask(&reader), HF_GRANTED);
    CHECK_INT(ask(&upgrade), HF_GRANTED);
    upgrade.engine.own_lease.asked_at_ms -= 1000;
    struct hf_lease before = upgrade.engine.own_lease;
    upgrade.in.mode = HF_WRITE;
    wait_for(&upgrade);
    CHECK(upgrade.out.rests_on == &upgrade.engine.own_lease);
    give(&reader);
    CHECK_INT(ask(&upgrade), HF_GRANTED);
    CHECK(upgrade.out.rests_on == &upgrade.engine.own_lease);
    CHECK_INT(upgrade.engine.own_lease.asked_at_ms, before.asked_at_ms);
    CHECK_INT(upgrade.engine.own_lease.lease_ms, before.lease_ms);
    give(&upgrade);
    end();
}

TEST(newcomers_do_not_overtake_a_writer)
{
    struct hf_op reader = op_for(HF_READ, 1), writer = op_for(HF_WRITE, 2),
                 late = op_for(HF_READ, 3);
    local = state_open(temp_dir());
    CHECK_INT(ask(&reader), HF_GRANTED);
    wait_for(&writer);
    CHECK_INT(ask(&late), HF_REFUSED);
    give(&reader);
    CHECK_INT(ask(&writer), HF_GRANTED);
    give(&writer);
    end();
}

TEST(a_place_that_was_given_up_is_skipped)
{
    struct hf_op holder = op_for(HF_FAIR, 1), leaving = op_for(HF_FAIR, 2),
                 next = op_for(HF_FAIR, 3);
    local = state_open(temp_dir());
    CHECK_INT(ask(&holder), HF_GRANTED);
    wait_for(&leaving);
    wait_for(&next);
    give(&leaving);
    state_check(local);
    give(&holder);
    CHECK_INT(ask(&next), HF_GRANTED);
    give(&next);
    end();
}

TEST(permits_come_back)
{
    struct hf_op all = op_for(HF_PERMIT, 1), other = op_for(HF_PERMIT, 2);
    local = state_open(temp_dir());
    all.in.permits = PERMITS;
    for (int times = 0; times < 3; times++) {
        CHECK_INT(ask(&all), HF_GRANTED);
        CHECK_INT(ask(&other), HF_REFUSED);
        give(&all);
        CHECK_INT(ask(&other), HF_GRANTED);
        give(&other);
    }
    end();
}

TEST(what_the_dead_held_comes_back)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_READ, HF_UPGRADE, HF_WRITE, HF_PERMIT };
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct hf_op lost = op_for(modes[i], 1), wanted = op_for(modes[i], 2);
        struct local *other = state_open(temp_dir());
        local = state_open(temp_dir());
        lost.in.permits = wanted.in.permits = modes[i] == HF_PERMIT ? PERMITS : 1;
        wanted.in.mode = modes[i] == HF_READ || modes[i] == HF_UPGRADE ? HF_WRITE : modes[i];
        CHECK_INT(hf__local.sync->attempt(&other->base, &lost), HF_GRANTED);
        CHECK_INT(ask(&wanted), HF_REFUSED);
        state_close(other);
        CHECK_INT(ask(&wanted), HF_GRANTED);
        give(&wanted);
        end();
    }
}

TEST(a_lease_that_ran_out_is_the_next_ones)
{
    struct hf_op leased = op_for(HF_FAIR, 1), next = op_for(HF_FAIR, 2);
    local = state_open(temp_dir());
    leased.in.lease_ms = LEASE_MS;
    CHECK_INT(ask(&leased), HF_GRANTED);
    let_pass_ms(2 * LEASE_MS);
    CHECK_INT(ask(&next), HF_GRANTED);
    CHECK(!hf__local.sync->held(&local->base, &leased));
    give(&leased);
    CHECK(leased.out.error && leased.out.error->code == HF_LOST);
    free(leased.out.error);
    CHECK(hf__local.sync->held(&local->base, &next));
    give(&next);
    end();
}
