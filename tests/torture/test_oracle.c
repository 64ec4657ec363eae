/* SPDX-License-Identifier: Apache-2.0 */
/* The rules against an exhaustive search, on random histories: they must say the same. */
#include "oracle.h"
#include "torture/check/verdict.h"

#include "test.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct story_kind kinds[] = {
    { .name = "mutex",
      .form = TORTURE_MUTEX,
      .clients = 3,
      .calls = 6,
      .errors = 4,
      .exact = true },
    { .name = "mutex_with_tries",
      .form = TORTURE_MUTEX,
      .clients = 3,
      .calls = 6,
      .errors = 5,
      .tries = true,
      .exact = true },
    { .name = "mutex_with_leases",
      .form = TORTURE_MUTEX,
      .clients = 3,
      .calls = 6,
      .errors = 4,
      .leases = true,
      .exact = true },
    { .name = "mutex_with_renewals",
      .form = TORTURE_MUTEX,
      .clients = 3,
      .calls = 5,
      .errors = 4,
      .leases = true,
      .renewals = true,
      .exact = true },
    { .name = "mutex_with_nesting",
      .form = TORTURE_MUTEX,
      .flags = TORTURE_FENCED,
      .clients = 3,
      .calls = 6,
      .errors = 4,
      .nesting = true,
      .exact = true },
    { .name = "mutex_with_tokens",
      .form = TORTURE_MUTEX,
      .flags = TORTURE_FENCED,
      .clients = 3,
      .calls = 6,
      .errors = 4,
      .exact = true },
    { .name = "mutex_with_all",
      .form = TORTURE_MUTEX,
      .flags = TORTURE_FENCED,
      .clients = 3,
      .calls = 6,
      .errors = 4,
      .tries = true,
      .leases = true,
      .renewals = true,
      .unknowns = true,
      .nesting = true,
      .quitting = true },
    { .name = "mutex_with_haste",
      .form = TORTURE_MUTEX,
      .clients = 3,
      .calls = 6,
      .errors = 1,
      .haste = 2 },
    { .name = "mutex_with_haste_and_all",
      .form = TORTURE_MUTEX,
      .clients = 3,
      .calls = 5,
      .errors = 1,
      .haste = 2,
      .tries = true,
      .leases = true,
      .renewals = true,
      .unknowns = true,
      .nesting = true,
      .quitting = true },
    { .name = "fifo_with_haste",
      .form = TORTURE_MUTEX,
      .flags = TORTURE_FIFO,
      .clients = 3,
      .calls = 6,
      .errors = 1,
      .haste = 3 },
    { .name = "fifo",
      .form = TORTURE_MUTEX,
      .flags = TORTURE_FIFO,
      .clients = 4,
      .calls = 6,
      .errors = 4,
      .exact = true },
    { .name = "fifo_with_quitting",
      .form = TORTURE_MUTEX,
      .flags = TORTURE_FIFO,
      .clients = 4,
      .calls = 6,
      .errors = 7,
      .tries = true,
      .leases = true,
      .quitting = true },
    { .name = "line",
      .form = TORTURE_MUTEX,
      .flags = TORTURE_LINE,
      .clients = 4,
      .calls = 7,
      .errors = 5,
      .tries = true,
      .leases = true,
      .exact = true },
    { .name = "line_for_permits",
      .form = TORTURE_SEMAPHORE,
      .flags = TORTURE_LINE,
      .permits = 3,
      .clients = 4,
      .calls = 7,
      .errors = 20,
      .tries = true,
      .unknowns = true,
      .quitting = true },
    { .name = "line_of_readers_and_writers",
      .form = TORTURE_RW,
      .flags = TORTURE_LINE,
      .clients = 4,
      .calls = 7,
      .errors = 6,
      .tries = true,
      .unknowns = true,
      .changes = true },
    { .name = "rw", .form = TORTURE_RW, .clients = 4, .calls = 6, .errors = 4, .exact = true },
    { .name = "rw_with_changes",
      .form = TORTURE_RW,
      .flags = TORTURE_FENCED,
      .clients = 4,
      .calls = 6,
      .errors = 4,
      .changes = true,
      .exact = true },
    { .name = "rw_with_changes_and_leases",
      .form = TORTURE_RW,
      .flags = TORTURE_FENCED,
      .clients = 4,
      .calls = 6,
      .errors = 5,
      .leases = true,
      .renewals = true,
      .changes = true,
      .exact = true },
    { .name = "rw_with_all",
      .form = TORTURE_RW,
      .flags = TORTURE_FENCED,
      .clients = 4,
      .calls = 6,
      .errors = 6,
      .tries = true,
      .leases = true,
      .renewals = true,
      .unknowns = true,
      .changes = true,
      .quitting = true },
    { .name = "semaphore",
      .form = TORTURE_SEMAPHORE,
      .permits = 3,
      .clients = 4,
      .calls = 7,
      .errors = 6,
      .exact = true },
    { .name = "semaphore_with_all",
      .form = TORTURE_SEMAPHORE,
      .permits = 3,
      .clients = 4,
      .calls = 7,
      .errors = 12,
      .tries = true,
      .leases = true,
      .renewals = true,
      .unknowns = true,
      .quitting = true },
    { .name = "latch",
      .form = TORTURE_LATCH,
      .permits = 3,
      .clients = 3,
      .calls = 8,
      .errors = 4,
      .unknowns = true,
      .exact = true },
};

#define KINDS (sizeof kinds / sizeof *kinds)

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

/* Does one of the rules about safety complain, or the one about haste, if there is any? */
static bool is_broken(const struct story_kind *kind, struct story *story,
                      struct torture_report *report)
{
    struct torture_history history = { .records = story->records, .count = story->count };
    struct torture_limits limits = { .hand_over_ns = 10 * kind->haste, .passed_over = UINT64_MAX };
    torture_check(&history, kind->haste ? &limits : NULL, report);
    if (strstr(report->reason, "makes no sense"))
        FAIL("%s", report->reason);
    for (unsigned rule = TORTURE_S1; rule <= TORTURE_S9; rule++)
        if (report->broken[rule])
            return true;
    return report->broken[TORTURE_L5] || (kind->haste && report->broken[TORTURE_L1]);
}

static void show(const struct story *story)
{
    for (size_t i = 0; i < story->count; i++) {
        const struct torture_record *r = &story->records[i];
        test_note("%2" PRIu64 " client %u owner %" PRIu64 " %s %s op %" PRIu64 " hold %" PRIu64
                  " mode %u permits %u token %" PRIu64 " deadline %" PRId64 " until %" PRId64,
                  r->number, r->client, r->owner, torture_kind_name(r->kind),
                  torture_verb_name(r->verb), r->operation, r->hold, r->mode, r->permits, r->token,
                  r->deadline_ns == TORTURE_NEVER ? -1 : r->deadline_ns / 10, r->until_ns / 10);
    }
}

struct tally {
    uint64_t stories, plain, broken, missed;
};

static void compare(const struct story_kind *kind, uint64_t seed, struct tally *tally)
{
    struct story story;
    struct torture_report report;
    story_write(&story, kind, seed);
    bool broken = is_broken(kind, &story, &report);
    bool plain = true, latch = kind->form == TORTURE_LATCH;
    bool allowed = latch ? oracle_allows_latch(story.records, story.count)
                         : oracle_allows(story.records, story.count, kind->haste, &plain);
    tally->stories++;
    tally->plain += plain;
    tally->broken += !allowed;
    tally->missed += !broken && !allowed;
    if (broken && allowed) {
        show(&story);
        FAIL("%s, seed %" PRIu64 ": a false alarm: %s: %s", kind->name, seed,
             torture_rule_name(report.findings[0].rule), report.findings[0].sentence);
    }
    if (!broken && !allowed && kind->exact && plain) {
        show(&story);
        FAIL("%s, seed %" PRIu64 ": no correct store can have answered like that", kind->name,
             seed);
    }
}

static void compare_many(const struct story_kind *kind)
{
    uint64_t seed = number_from("TORTURE_SEED", 1);
    uint64_t usual = (kind->haste ? 5000 : 29000) / (uint64_t)test_slow();
    uint64_t count = number_from("TORTURE_HISTORIES", usual);
    struct tally tally = { 0, 0, 0 };
    TEST_TIMEOUT(600);
    for (uint64_t i = 0; i < count; i++)
        compare(kind, seed + i, &tally);
    test_note("%" PRIu64 " histories from TORTURE_SEED=%" PRIu64 " on, %.1f %% illegal, of which "
              "%.1f %% were not seen; %.1f %% plain",
              tally.stories, seed, 100.0 * (double)tally.broken / (double)tally.stories,
              tally.broken ? 100.0 * (double)tally.missed / (double)tally.broken : 0.0,
              100.0 * (double)tally.plain / (double)tally.stories);
    CHECK(tally.broken * 10 >= tally.stories);
    CHECK(tally.broken * 10 <= tally.stories * 9);
}

#define ORACLE_TEST(index, test_name)                                                              \
    TEST(test_name)                                                                                \
    {                                                                                              \
        compare_many(&kinds[index]);                                                               \
    }

ORACLE_TEST(0, mutex)
ORACLE_TEST(1, mutex_with_tries)
ORACLE_TEST(2, mutex_with_leases)
ORACLE_TEST(3, mutex_with_renewals)
ORACLE_TEST(4, mutex_with_nesting)
ORACLE_TEST(5, mutex_with_tokens)
ORACLE_TEST(6, mutex_with_all)
ORACLE_TEST(7, mutex_with_haste)
ORACLE_TEST(8, mutex_with_haste_and_all)
ORACLE_TEST(9, fifo_with_haste)
ORACLE_TEST(10, fifo)
ORACLE_TEST(11, fifo_with_quitting)
ORACLE_TEST(12, line)
ORACLE_TEST(13, line_for_permits)
ORACLE_TEST(14, line_of_readers_and_writers)
ORACLE_TEST(15, rw)
ORACLE_TEST(16, rw_with_changes)
ORACLE_TEST(17, rw_with_changes_and_leases)
ORACLE_TEST(18, rw_with_all)
ORACLE_TEST(19, semaphore)
ORACLE_TEST(20, semaphore_with_all)
ORACLE_TEST(21, latch)

_Static_assert(KINDS == 22, "each kind has a test");
