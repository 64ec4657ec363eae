/* SPDX-License-Identifier: Apache-2.0 */
/* The client and the questions that the tests of the embedded engine share. */
#include "local_fixture.h"

#include "base/rand.h"

struct local *local;

struct hf_op local_op(hf_mode mode, uint64_t owner, uint32_t limit)
{
    return (struct hf_op){ .in.name = "name",
                           .in.name_length = 4,
                           .in.name_hash = hf__hash("name", 4),
                           .in.owner = owner,
                           .in.owner_text = "a test",
                           .in.mode = mode,
                           .in.keep = HF_KEEP_NOTHING,
                           .in.permits = 1,
                           .in.limit = mode == HF_PERMIT ? limit : 0,
                           .in.asked_at_ms = hf__clock_ms() };
}

enum hf_verdict ask(struct hf_op *op)
{
    op->in.asked_at_ms = hf__clock_ms();
    return hf__local.sync->attempt(&local->base, op);
}

void give(struct hf_op *op)
{
    CHECK_INT(hf__local.sync->release(&local->base, op), HF_GONE);
}

void end(void)
{
    CHECK_INT(state_claims(local), 0);
    state_check(local);
    state_close(local);
}

/* ---- changes ---- */

static int64_t read_clock(void *arg)
{
    (void)arg;
    return hf__clock_ms();
}

static void wake(void *arg)
{
    (void)arg;
}

static void answer(struct hf_task *task)
{
    (void)task;
}

static struct hf_oneshot change_name(struct local *changer, enum hf_oneshot_verb verb,
                                     uint32_t value)
{
    struct hf_oneshot change = { .verb = verb,
                                 .name = "name",
                                 .name_length = 4,
                                 .name_hash = hf__hash("name", 4),
                                 .value = value };
    hf__loop_init(changer->base.host->loop, read_clock, wake, NULL);
    hf__task_init(&change.answer, answer);
    hf__local.oneshot(&changer->base, &change);
    hf__loop_turn(changer->base.host->loop);
    return change;
}

struct hf_oneshot break_all(struct local *breaker)
{
    return change_name(breaker, HF_ONESHOT_BREAK, 0);
}

struct hf_oneshot set_permits(struct local *setter, uint32_t total)
{
    return change_name(setter, HF_ONESHOT_SEMAPHORE_SET, total);
}
