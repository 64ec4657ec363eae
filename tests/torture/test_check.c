/* SPDX-License-Identifier: Apache-2.0 */
/* The rules on histories written by hand, one file each: "S1-bad-..." breaks that rule and no other
 * one, "S1-good-..." breaks none although the rule has looked. */
#include "torture/check/verdict.h"

#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static struct torture_history load(const char *name)
{
    char path[512], error[256];
    struct torture_history history;
    snprintf(path, sizeof path, "%s/%s", HISTORIES, name);
    if (torture_history_read(&history, path, error) != 0)
        FAIL("%s", error);
    CHECK_INT(history.torn + history.missing + history.duplicate + history.dropped, 0);
    return history;
}

static enum torture_rule rule_of(const char *name)
{
    for (unsigned rule = 0; rule < TORTURE_RULES; rule++)
        if (strncmp(name, torture_rule_name(rule), 2) == 0)
            return rule;
    FAIL("%s begins with no rule", name);
}

static void check_finding(const char *name, const struct torture_report *report,
                          enum torture_rule rule)
{
    const struct torture_finding *finding = &report->findings[0];
    CHECK_INT(report->verdict, TORTURE_VIOLATION);
    CHECK(report->finding_count >= 1);
    CHECK_INT(finding->rule, rule);
    CHECK(finding->from <= finding->to && finding->from > 0);
    CHECK(finding->hold_count <= 3);
    CHECK(strlen(finding->sentence) > 30);
    test_note("%s: %s", name, finding->sentence);
}

static void check_file(const char *name)
{
    struct torture_history history = load(name);
    struct torture_report report;
    enum torture_rule wanted = rule_of(name);
    bool bad = strncmp(name + 2, "-bad-", 5) == 0;
    CHECK(bad || strncmp(name + 2, "-good-", 6) == 0);
    torture_check(&history, NULL, &report);
    for (unsigned rule = 0; rule < TORTURE_RULES; rule++)
        if ((report.broken[rule] > 0) != (bad && rule == wanted))
            FAIL("%s: %s is %sbroken: %s %s", name, torture_rule_name(rule),
                 report.broken[rule] ? "" : "not ", report.findings[0].sentence, report.reason);
    if (bad)
        check_finding(name, &report, wanted);
    else if (!report.checked[wanted] && strcmp(name, "L1-good-fault.jsonl") != 0)
        FAIL("%s: the rule has looked at nothing", name);
    torture_history_free(&history);
}

TEST(each_rule_finds_its_own_and_nothing_else)
{
    struct dirent **names;
    unsigned bad = 0, good = 0, seen[TORTURE_RULES][2] = { { 0 } };
    int count = scandir(HISTORIES, &names, NULL, alphasort);
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        if (name[0] != '.') {
            check_file(name);
            bool is_bad = strncmp(name + 2, "-bad-", 5) == 0;
            seen[rule_of(name)][is_bad]++;
            bad += is_bad;
            good += !is_bad;
        }
        free(names[i]);
    }
    free(names);
    for (unsigned rule = 0; rule < TORTURE_RULES; rule++)
        CHECK(seen[rule][false] && seen[rule][true]);
    test_note("%u bad histories, %u good ones", bad, good);
}

/* ---- verdicts ---- */

static const struct torture_limits little = { .enough_grants = 1, .enough_contended = 1 };

static struct torture_report judge(const char *name, const struct torture_limits *limits,
                                   void (*change)(struct torture_history *history))
{
    struct torture_history history = load(name);
    struct torture_report report;
    if (change)
        change(&history);
    torture_check(&history, limits, &report);
    torture_history_free(&history);
    return report;
}

TEST(enough_traffic_is_safe_so_far)
{
    struct torture_report report = judge("S1-good-handover.jsonl", &little, NULL);
    CHECK_STR(report.reason, "");
    CHECK_INT(report.verdict, TORTURE_SAFE_SO_FAR);
    CHECK_INT(report.grants, 2);
    CHECK_INT(report.contended, 1);
    CHECK_INT(report.operations, 4);
    CHECK(report.median_hand_over_ns == 1000000);
    CHECK(report.evenness > 0.99);
}

TEST(too_little_traffic_is_inconclusive)
{
    struct torture_report report = judge("S1-good-handover.jsonl", NULL, NULL);
    CHECK_INT(report.verdict, TORTURE_INCONCLUSIVE);
    CHECK_STR(report.reason, "only 2 grants, of at least 100");
    report = judge("S1-good-after-deadline.jsonl",
                   &(struct torture_limits){ .enough_grants = 1, .enough_contended = 3 }, NULL);
    CHECK(strstr(report.reason, "after a wait"));
}

static void never_hit(struct torture_history *history)
{
    for (size_t i = 0; i < history->count; i++)
        if (history->records[i].kind == TORTURE_FAULT_HIT)
            history->records[i].kind = TORTURE_NOTE;
}

TEST(a_fault_that_never_hits_is_inconclusive)
{
    struct torture_report report = judge("S8-good-stopped.jsonl", &little, NULL);
    CHECK_STR(report.reason, "");
    CHECK_INT(report.faults, 1);
    CHECK_INT(report.fault_hits, 1);
    CHECK_INT(report.verdict, TORTURE_SAFE_SO_FAR);
    report = judge("S8-good-stopped.jsonl", &little, never_hit);
    CHECK_STR(report.reason, "the fault \"pause\" was tried and never hit");
    CHECK_INT(report.verdict, TORTURE_INCONCLUSIVE);
}

static void tear(struct torture_history *history)
{
    history->torn = 1;
}

static void overflow(struct torture_history *history)
{
    history->dropped = 9;
}

/* What a damaged history shows may be the damage; what a full one shows stands. */
TEST(damage_makes_any_history_inconclusive)
{
    CHECK_INT(judge("S1-bad-overlap.jsonl", &little, tear).verdict, TORTURE_INCONCLUSIVE);
    CHECK_INT(judge("S1-good-handover.jsonl", &little, tear).verdict, TORTURE_INCONCLUSIVE);
    CHECK_INT(judge("S1-bad-overlap.jsonl", &little, overflow).verdict, TORTURE_VIOLATION);
    CHECK_INT(judge("S1-good-handover.jsonl", &little, overflow).verdict, TORTURE_INCONCLUSIVE);
}

TEST(liveness_may_be_information)
{
    struct torture_limits limits = little;
    limits.liveness_is_information = true;
    struct torture_report report = judge("L1-bad-forgotten-waiter.jsonl", &limits, NULL);
    CHECK_INT(report.verdict, TORTURE_SAFE_SO_FAR);
    CHECK_INT(report.broken[TORTURE_L1], 1);
    CHECK_INT(report.finding_count, 1);
}

TEST(an_empty_history_is_inconclusive)
{
    struct torture_history history = { .count = 0 };
    struct torture_report report;
    torture_check(&history, NULL, &report);
    CHECK_INT(report.verdict, TORTURE_INCONCLUSIVE);
}
