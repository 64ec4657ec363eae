/* SPDX-License-Identifier: Apache-2.0 */
/* How long a million holds take: for the reader; only far too long is a failure. */
#include "torture/check/verdict.h"

#include "test.h"

#include <stdlib.h>
#include <time.h>

#define CLIENTS 8u
/* One hold of so many meets tries of all others, which are refused. */
#define TRIED_EVERY 16u
/* Numbers of calls from here on are those of tries. */
#define TRIES (UINT64_C(1) << 40)

struct writing {
    struct torture_history history;
    size_t room;
};

static void say(struct writing *writing, struct torture_record record)
{
    struct torture_history *history = &writing->history;
    CHECK(history->count < writing->room);
    record.number = history->count + 1;
    record.at_ns = (int64_t)history->count * 1000;
    history->records[history->count++] = record;
}

static struct torture_record record_of(enum torture_kind kind, enum torture_verb verb, uint64_t i)
{
    return (struct torture_record){ .kind = (uint8_t)kind,
                                    .verb = (uint8_t)verb,
                                    .client = (uint32_t)(i % CLIENTS),
                                    .owner = i % CLIENTS + 1,
                                    .hold = 2 * i + 1,
                                    .permits = 1,
                                    .deadline_ns = TORTURE_NEVER };
}

/* All others, at once: what they ask for is free, and then it is not. */
static void say_tries(struct writing *writing, enum torture_kind kind, uint64_t i)
{
    if (i % TRIED_EVERY)
        return;
    for (uint64_t client = i + 1; client < i + CLIENTS; client++) {
        struct torture_record record = record_of(kind, TORTURE_TRY, client);
        record.operation = record.hold = TRIES + i * CLIENTS + client % CLIENTS;
        say(writing, record);
    }
}

/* One hold: everybody waits for the one before him, and tries are refused now and then. */
static void hold_once(struct writing *writing, uint64_t i)
{
    struct torture_record acquire = record_of(TORTURE_INVOKE, TORTURE_ACQUIRE, i);
    struct torture_record release = record_of(TORTURE_INVOKE, TORTURE_RELEASE, i);
    acquire.operation = 2 * i + 1;
    release.operation = 2 * i + 2;
    say_tries(writing, TORTURE_INVOKE, i);
    say(writing, acquire);
    acquire.kind = TORTURE_OK;
    acquire.token = i + 1;
    say(writing, acquire);
    say_tries(writing, TORTURE_REFUSED, i);
    say(writing, release);
    release.kind = TORTURE_OK;
    say(writing, release);
}

static uint64_t tries_beside(uint64_t holds)
{
    return (holds + TRIED_EVERY - 1) / TRIED_EVERY * (CLIENTS - 1);
}

static void write_holds(struct writing *writing, uint64_t holds)
{
    struct torture_record lock = { .kind = TORTURE_LOCK,
                                   .mode = TORTURE_MUTEX,
                                   .permits = 1,
                                   .flags = TORTURE_FENCED | TORTURE_FIFO };
    writing->room = (size_t)(holds * 4 + tries_beside(holds) * 2 + 1);
    writing->history.records = calloc(writing->room, sizeof *writing->history.records);
    CHECK(writing->history.records);
    say(writing, lock);
    for (uint64_t i = 0; i < holds; i++)
        hold_once(writing, i);
}

TEST(a_million_holds_are_checked_in_about_a_second)
{
    struct writing writing = { .room = 0 };
    struct torture_report report;
    uint64_t holds = 1000000u / (uint64_t)test_slow();
    TEST_TIMEOUT(200);
    write_holds(&writing, holds);
    clock_t begin = clock();
    torture_check(&writing.history, NULL, &report);
    double processor_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    test_note("%llu holds in %.2f s, of which %.2f s on a processor",
              (unsigned long long)report.grants, report.check_seconds, processor_s);
    CHECK_INT(report.grants, holds);
    CHECK_INT(report.checked[TORTURE_S1], holds);
    CHECK_INT(report.checked[TORTURE_S3], holds);
    CHECK_INT(report.checked[TORTURE_S4], tries_beside(holds));
    for (unsigned rule = 0; rule < TORTURE_RULES; rule++)
        CHECK_INT(report.broken[rule], 0);
    /* On a processor, since others may have it for as long as they like. */
    CHECK(processor_s < 30 * test_slow());
    torture_history_free(&writing.history);
}
