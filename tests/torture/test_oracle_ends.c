/* SPDX-License-Identifier: Apache-2.0 */
/* The rules about liveness that only count (L2, L3, L4), against the same said in another way: by
 * looking at all pairs of records of small random histories. */
#include "oracle.h"
#include "torture/check/verdict.h"

#include "test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 4, RECORDS = STORY_RECORDS + 16, PASSED_OVER = 1 };

static const struct story_kind queue = {
    .name = "queue",
    .form = TORTURE_MUTEX,
    .flags = TORTURE_FIFO,
    .clients = CLIENTS,
    .calls = STORY_CALLS,
    .errors = 12,
    .tries = true,
    .nesting = true,
    .quitting = true,
};

struct tale {
    struct torture_record records[RECORDS];
    size_t count;
    uint64_t random;
};

static uint64_t below(struct tale *tale, uint64_t limit)
{
    tale->random = tale->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (tale->random >> 33) % limit;
}

static void insert(struct tale *tale, size_t place, struct torture_record record)
{
    memmove(&tale->records[place + 1], &tale->records[place],
            (tale->count - place) * sizeof tale->records[0]);
    tale->records[place] = record;
    tale->count++;
}

/* A story with clients that begin and crash, the end of all faults, and a last look. */
static void write_tale(struct tale *tale, uint64_t seed)
{
    struct story story;
    story_write(&story, &queue, seed);
    *tale = (struct tale){ .count = story.count, .random = seed };
    memcpy(tale->records, story.records, story.count * sizeof story.records[0]);
    for (uint32_t client = 0; client < CLIENTS; client++)
        insert(tale, 1, (struct torture_record){ .kind = TORTURE_CLIENT, .client = client });
    for (unsigned crashes = (unsigned)below(tale, 3); crashes > 0; crashes--) {
        struct torture_record crash = { .kind = TORTURE_CRASH,
                                        .client = (uint32_t)below(tale, CLIENTS) };
        size_t place = CLIENTS + 1 + below(tale, tale->count - CLIENTS);
        insert(tale, place, crash);
        crash.kind = TORTURE_CLIENT;
        if (below(tale, 2))
            insert(tale, place + 1 + below(tale, tale->count - place), crash);
    }
    if (below(tale, 8))
        insert(tale, CLIENTS + 1 + below(tale, tale->count - CLIENTS),
               (struct torture_record){ .kind = TORTURE_HEALED, .client = TORTURE_NOBODY });
    for (unsigned looks = (unsigned)below(tale, 4); looks > 0; looks--)
        insert(tale, tale->count,
               (struct torture_record){ .kind = TORTURE_AUDIT,
                                        .client = TORTURE_NOBODY,
                                        .permits = (uint32_t)below(tale, 2) });
    for (size_t i = 0; i < tale->count; i++) {
        tale->records[i].number = i + 1;
        tale->records[i].at_ns = (int64_t)(i + 1) * 10;
    }
}

/* ---- the rules, said once more ---- */

static bool acquires(const struct torture_record *record)
{
    return record->verb == TORTURE_ACQUIRE || record->verb == TORTURE_TRY;
}

static bool is_grant(const struct torture_record *record)
{
    return acquires(record) && record->kind == TORTURE_OK;
}

/* The number of the call's record of this kind, or 0. */
static uint64_t find(const struct tale *tale, uint64_t operation, enum torture_kind kind)
{
    for (size_t i = 0; i < tale->count; i++)
        if (tale->records[i].operation == operation && tale->records[i].kind == kind && operation)
            return tale->records[i].number;
    return 0;
}

/* L2: grants that came to others who asked after this one was queued. */
static uint64_t count_passed_over(const struct tale *tale)
{
    uint64_t broken = 0;
    for (size_t i = 0; i < tale->count; i++) {
        const struct torture_record *mine = &tale->records[i];
        uint64_t queued = find(tale, mine->operation, TORTURE_ENQUEUED), others = 0;
        if (!is_grant(mine) || !queued)
            continue;
        for (size_t j = 0; j < i; j++)
            others += is_grant(&tale->records[j]) &&
                      find(tale, tale->records[j].operation, TORTURE_INVOKE) > queued;
        broken += others > PASSED_OVER;
    }
    return broken;
}

/* L3 */
static uint64_t count_leftovers(const struct tale *tale)
{
    uint64_t broken = 0;
    for (size_t i = 0; i < tale->count; i++)
        broken += tale->records[i].kind == TORTURE_AUDIT && tale->records[i].permits > 0;
    return broken;
}

static bool has_turn(const struct tale *tale, uint32_t client, size_t healed)
{
    bool dead = false, wants = false, granted = false;
    for (size_t i = 0; i < tale->count; i++) {
        const struct torture_record *record = &tale->records[i];
        if (record->client != client)
            continue;
        if (record->kind == TORTURE_CRASH || record->kind == TORTURE_CLIENT)
            dead = record->kind == TORTURE_CRASH;
        if (!acquires(record) || record->kind == TORTURE_ENQUEUED)
            continue;
        bool open = record->kind == TORTURE_INVOKE && !find(tale, record->operation, TORTURE_OK) &&
                    !find(tale, record->operation, TORTURE_REFUSED);
        wants = wants || i > healed || open;
        granted = granted || (i > healed && is_grant(record));
    }
    return dead || !wants || granted;
}

/* L4: only if somebody looked for what is left, after the last fault. */
static uint64_t count_without_turn(const struct tale *tale)
{
    size_t healed = 0, looked = 0;
    uint64_t broken = 0;
    for (size_t i = 0; i < tale->count; i++) {
        if (tale->records[i].kind == TORTURE_HEALED)
            healed = i;
        if (tale->records[i].kind == TORTURE_AUDIT)
            looked = i;
    }
    for (uint32_t client = 0; client < CLIENTS && healed && looked > healed; client++)
        broken += !has_turn(tale, client, healed);
    return broken;
}

/* ---- both ---- */

static uint64_t compare(uint64_t seed, const struct tale *tale, const struct torture_report *report,
                        enum torture_rule rule, uint64_t broken)
{
    if (report->broken[rule] != broken)
        FAIL("seed %" PRIu64 ", %zu records: %s was broken %" PRIu64 " times, not %" PRIu64, seed,
             tale->count, torture_rule_name(rule), broken, report->broken[rule]);
    return broken > 0;
}

TEST(what_is_counted_is_counted_right)
{
    const struct torture_limits limits = { .passed_over = PASSED_OVER };
    uint64_t stories = 40000 / (uint64_t)test_slow(), passed_over = 0, leftovers = 0, turns = 0;
    TEST_TIMEOUT(240);
    for (uint64_t seed = 1; seed <= stories; seed++) {
        struct tale tale;
        struct torture_report report;
        write_tale(&tale, seed);
        struct torture_history history = { .records = tale.records, .count = tale.count };
        torture_check(&history, &limits, &report);
        CHECK(!strstr(report.reason, "makes no sense"));
        passed_over += compare(seed, &tale, &report, TORTURE_L2, count_passed_over(&tale));
        leftovers += compare(seed, &tale, &report, TORTURE_L3, count_leftovers(&tale));
        turns += compare(seed, &tale, &report, TORTURE_L4, count_without_turn(&tale));
    }
    test_note("%" PRIu64 " histories: L2 broken in %" PRIu64 ", L3 in %" PRIu64 ", L4 in %" PRIu64,
              stories, passed_over, leftovers, turns);
    CHECK(passed_over > stories / 100 && leftovers > stories / 100 && turns > stories / 100);
}
