/* SPDX-License-Identifier: Apache-2.0 */
/* When a holder learnt of a loss, as its records say it: a process may stand still between the
 * moment in which the library marks a hold as lost and the one in which the holder writes that
 * down. */
#include "torture/workload/workload.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEASE_MS = 100 };

static struct torture_client client;
static int64_t granted_ns;
static struct torture_ask asked;
static bool by_the_store, tells, told;

static int64_t left_ms(void)
{
    return LEASE_MS - (torture_clock_ns() - granted_ns) / 1000000;
}

/* A hold that is lost at once by the word of the store, or at its deadline. The process then stands
 * still until the deadline is over. */
static enum torture_answer grant(void *session, const struct torture_ask *ask,
                                 struct torture_grip **ret)
{
    granted_ns = torture_clock_ns();
    asked = *ask;
    *ret = session;
    return TORTURE_GRANTED;
}

/* This is asked soon after the grant. */
static bool still(void *session, const struct torture_grip *grip)
{
    (void)session, (void)grip;
    if (by_the_store)
        torture_note_loss(&client, asked.lock->name);
    while (left_ms() > -2)
        let_pass_ms(1);
    if (!by_the_store)
        torture_note_loss(&client, asked.lock->name);
    if (tells && !told)
        asked.on_lost(asked.lost_arg);
    told = true;
    return false;
}

static int64_t remaining(void *session, const struct torture_grip *grip)
{
    (void)session, (void)grip;
    return left_ms() > 0 ? left_ms() : 0;
}

static uint64_t token(void *session, const struct torture_grip *grip)
{
    (void)session, (void)grip;
    return 1;
}

static enum torture_answer release(void *session, struct torture_grip *grip)
{
    (void)session, (void)grip;
    return TORTURE_GONE;
}

static const struct torture_subject subject = {
    .acquire = grant,
    .still = still,
    .remaining_ms = remaining,
    .token = token,
    .release = release,
};

static void lose_one(const char *path)
{
    static const struct torture_plan plan = { .clients = 1, .rate = 1000, .lease_ms = LEASE_MS };
    struct torture_shared *arena = calloc(1, sizeof *arena);
    int session;

    CHECK(arena != NULL);
    arena->lock_count = 1;
    arena->locks[0] = (struct torture_lock){ .name = "run:stock", .flags = TORTURE_FENCED };
    torture_resource_open(&arena->resources[0]);
    client = (struct torture_client){ .plan = &plan,
                                      .subject = &subject,
                                      .arena = arena,
                                      .writer = torture_writer_create(path, 1000, 1),
                                      .seat = &arena->seats[0],
                                      .session = &session };
    CHECK(client.writer != NULL);
    CHECK(torture_use_lock(&client, 0, false));
    torture_writer_close(client.writer);
    free(arena);
}

/* The flags of the only record of a loss. */
static unsigned flags_of_loss(void)
{
    const char *path = temp_path("history");
    struct torture_history history;
    char error[256];
    unsigned count = 0, flags = 0;

    told = false;
    lose_one(path);
    CHECK_INT(torture_history_read(&history, path, error), 0);
    for (size_t i = 0; i < history.count; i++)
        if (history.records[i].kind == TORTURE_LOST) {
            count++;
            flags = history.records[i].flags;
        }
    torture_history_free(&history);
    CHECK_INT(count, 1);
    return flags;
}

TEST(loss_marked_early_and_told_late_is_no_belief_until_the_deadline)
{
    by_the_store = tells = true;
    CHECK_INT(flags_of_loss(), TORTURE_TOLD);
}

TEST(loss_marked_early_and_found_by_the_release_is_recorded_before_it)
{
    by_the_store = true;
    tells = false;
    CHECK_INT(flags_of_loss(), TORTURE_TOLD);
}

TEST(loss_at_the_deadline_is_by_the_clock)
{
    by_the_store = false;
    tells = true;
    CHECK_INT(flags_of_loss(), 0);
}
