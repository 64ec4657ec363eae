/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of the embedded engine rise, whatever is forgotten and whatever the clock does. */
#include "../crash/state.h"
#include "base/clock.h"
#include "base/rand.h"
#include "test.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static struct local *local;

static struct hf_op op_for(const char *name, hf_mode mode, uint64_t owner)
{
    return (struct hf_op){ .in.name = name,
                           .in.name_length = (uint32_t)strlen(name),
                           .in.name_hash = hf__hash(name, strlen(name)),
                           .in.owner = owner,
                           .in.owner_text = "a test",
                           .in.mode = mode,
                           .in.keep = HF_KEEP_NOTHING,
                           .in.permits = 1,
                           .in.limit = mode == HF_PERMIT ? 3 : 0,
                           .in.asked_at_ms = hf__clock_ms() };
}

static uint64_t take(struct hf_op *op)
{
    if (hf__local.sync->attempt(&local->base, op) != HF_GRANTED)
        FAIL("not granted: %s", op->out.error ? op->out.error->text : "");
    return op->out.token;
}

static void give(struct hf_op *op)
{
    CHECK_INT(hf__local.sync->release(&local->base, op), HF_GONE);
}

static uint64_t take_and_give(const char *name, hf_mode mode)
{
    struct hf_op op = op_for(name, mode, 1);
    uint64_t token = take(&op);
    give(&op);
    return token;
}

static void set_token(const char *name, uint64_t token)
{
    struct txn visit;
    hf_error *error = NULL;
    CHECK_INT(hf__txn_name(&visit, local, name, (uint32_t)strlen(name),
                           hf__hash(name, strlen(name)), true, &error),
              HF_OK);
    local_put(&visit.lock->token, token);
    hf__txn_leave(&visit);
}

TEST(each_exclusive_grant_has_a_larger_token)
{
    static const hf_mode modes[] = { HF_MUTEX, HF_FAIR, HF_WRITE, HF_PERMIT };
    uint64_t last = 0;
    local = state_open(temp_dir());
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned round = 0; round < 1000; round++) {
            uint64_t token = take_and_give("name", modes[i]);
            CHECK(token > last);
            last = token;
        }
    }
    state_close(local);
}

TEST(a_clock_that_went_back_stops_no_token)
{
    const uint64_t far = UINT64_C(1) << 60;
    local = state_open(temp_dir());
    set_token("name", far);
    CHECK(take_and_give("name", HF_MUTEX) == far + 1);
    CHECK(take_and_give("name", HF_MUTEX) == far + 2);
    state_close(local);
}

TEST(the_floor_counts_for_new_names)
{
    const uint64_t far = UINT64_C(1) << 60;
    local = state_open(temp_dir());
    local_put(&local_header(local)->token_floor, far);
    CHECK(take_and_give("new", HF_FAIR) == far + 1);
    CHECK(take_and_give("newer", HF_READ) == far + 1);
    state_close(local);
}

TEST(readers_carry_the_last_writers_token)
{
    local = state_open(temp_dir());
    uint64_t written = take_and_give("name", HF_WRITE);
    struct hf_op one = op_for("name", HF_READ, 1), two = op_for("name", HF_UPGRADE, 2);
    CHECK(take(&one) == written);
    CHECK(take(&two) == written);
    give(&one);
    two.in.mode = HF_WRITE;
    CHECK(take(&two) > written);
    give(&two);
    state_close(local);
}

TEST(asking_twice_is_asking_once)
{
    local = state_open(temp_dir());
    struct hf_op holder = op_for("name", HF_FAIR, 1), waiter = op_for("name", HF_FAIR, 2);
    uint64_t token = take(&holder);
    CHECK(take(&holder) == token);
    waiter.in.enqueue = true;
    for (int i = 0; i < 3; i++)
        CHECK_INT(hf__local.sync->attempt(&local->base, &waiter), HF_REFUSED);
    CHECK_INT(state_claims(local), 2);
    give(&holder);
    give(&holder);
    CHECK(take(&waiter) > token);
    CHECK(hf__local.sync->held(&local->base, &waiter));
    give(&waiter);
    CHECK_INT(state_claims(local), 0);
    state_check(local);
    state_close(local);
}

TEST(a_refused_try_leaves_nothing)
{
    local = state_open(temp_dir());
    struct hf_op holder = op_for("name", HF_WRITE, 1), other = op_for("name", HF_READ, 2);
    take(&holder);
    CHECK_INT(hf__local.sync->attempt(&local->base, &other), HF_REFUSED);
    CHECK_INT(state_claims(local), 1);
    give(&other);
    give(&holder);
    CHECK_INT(state_claims(local), 0);
    state_close(local);
}

/* A lock that was taken past its guard has its last token in its node, which nobody visits before
 * the machine goes down. */
TEST(tokens_go_on_after_a_boot_that_found_a_lock_parked)
{
    const char *directory = temp_dir();
    char path[600];
    uint64_t kept = 0;
    struct hf_op op = op_for("name", HF_MUTEX, 1), late = op_for("name", HF_MUTEX, 1);
    local = state_open(directory);
    set_token("name", INT64_C(1) << 60);
    take(&op);
    for (unsigned i = 0; i < 10; i++) {
        CHECK(hf__local_fast_release(&local->base, &op, &kept));
        CHECK(hf__local_fast_acquire(&local->base, &op, &kept));
    }
    uint64_t last = op.out.token;
    CHECK(last > (UINT64_C(1) << 60));
    state_close(local);
    snprintf(path, sizeof(path), "%s/default.hf", directory);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    CHECK_INT(pwrite(file, "x", 1, offsetof(struct local_header, boot_id)), 1);
    close(file);
    local = state_open(directory);
    CHECK(take(&late) > last);
    give(&late);
    state_close(local);
}
