/* The client and the questions that the tests of the embedded engine share. */
#include "local_fixture.h"

#include "base/rand.h"

struct local *local;

struct hf_op local_op(hf_mode mode, uint64_t owner, uint32_t limit)
{
    return (struct hf_op){ .name = "name",
                           .name_length = 4,
                           .name_hash = hf__hash("name", 4),
                           .owner = owner,
                           .owner_text = "a test",
                           .mode = mode,
                           .keep = HF_KEEP_NOTHING,
                           .permits = 1,
                           .limit = mode == HF_PERMIT ? limit : 0,
                           .asked_at_ms = hf__clock_ms() };
}

enum hf_verdict ask(struct hf_op *op)
{
    op->asked_at_ms = hf__clock_ms();
    return hf__local.attempt_here(&local->base, op);
}

void give(struct hf_op *op)
{
    CHECK_INT(hf__local.release_here(&local->base, op), HF_GONE);
}

void end(void)
{
    CHECK_INT(state_claims(local), 0);
    state_check(local);
    state_close(local);
}

/* ---- breaks ---- */

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

struct hf_change break_all(struct local *breaker)
{
    struct hf_change change = {
        .verb = HF_CHANGE_BREAK, .name = "name", .name_length = 4, .name_hash = hf__hash("name", 4)
    };
    hf__loop_init(breaker->base.host->loop, read_clock, wake, NULL);
    hf__task_init(&change.answer, answer);
    hf__local.change(&breaker->base, &change);
    hf__loop_turn(breaker->base.host->loop);
    return change;
}
