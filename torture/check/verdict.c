/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a verdict: rules by name, and findings with their sentences. */
#include "torture/check/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

const char *torture_rule_name(enum torture_rule rule)
{
    static const char *const names[TORTURE_RULES] = { "S1", "S2", "S3", "S4", "S5", "S6", "S7",
                                                      "S8", "S9", "L1", "L2", "L3", "L4", "L5" };
    return (unsigned)rule < TORTURE_RULES ? names[rule] : "?";
}

const char *torture_rule_text(enum torture_rule rule)
{
    static const char *const texts[TORTURE_RULES] = {
        [TORTURE_S1] = "no two clients believe at once that they have a mutex",
        [TORTURE_S2] = "nested holds of one owner are one claim, until the last is released",
        [TORTURE_S3] = "tokens of exclusive grants rise",
        [TORTURE_S4] = "no request is refused what is free",
        [TORTURE_S5] = "one writer, or readers with the last writer's token or a larger one",
        [TORTURE_S6] = "no more permits are held than there are",
        [TORTURE_S7] = "a latch opens once, and when it is counted down",
        [TORTURE_S8] = "first come, first served",
        [TORTURE_S9] = "a resource that compares tokens accepts no old one",
        [TORTURE_L1] = "a lock that becomes free soon has its next holder",
        [TORTURE_L2] = "no waiter is passed over for ever",
        [TORTURE_L3] = "nothing is left behind",
        [TORTURE_L4] = "after the last fault, every client gets a turn",
        [TORTURE_L5] = "a hold lasts until it is released, or its lease is over",
    };
    return (unsigned)rule < TORTURE_RULES ? texts[rule] : "?";
}

const char *torture_verdict_name(enum torture_verdict verdict)
{
    static const char *const names[] = { "SAFE-SO-FAR", "VIOLATION", "INCONCLUSIVE" };
    return (unsigned)verdict < sizeof names / sizeof *names ? names[verdict] : "?";
}

/* ---- findings ---- */

/* Where it goes: the first of each rule stand before all others. */
static unsigned place_of(const struct torture_report *report, enum torture_rule rule)
{
    unsigned firsts = 0;
    if (report->broken[rule] > 1)
        return report->finding_count;
    for (unsigned other = 0; other < TORTURE_RULES; other++)
        firsts += other != rule && report->broken[other] > 0;
    return firsts < report->finding_count ? firsts : report->finding_count;
}

void torture_found(struct torture_checking *checking, const struct torture_object *lock,
                   struct torture_finding *finding, const char *format, ...)
{
    struct torture_report *report = checking->report;
    report->broken[finding->rule]++;
    unsigned place = place_of(report, finding->rule);
    if (place >= TORTURE_FINDINGS)
        return;
    va_list arguments;
    finding->lock = lock->id;
    va_start(arguments, format);
    vsnprintf(finding->sentence, sizeof finding->sentence, format, arguments);
    va_end(arguments);
    if (report->finding_count < TORTURE_FINDINGS)
        report->finding_count++;
    for (unsigned i = report->finding_count - 1; i > place; i--)
        report->findings[i] = report->findings[i - 1];
    report->findings[place] = *finding;
}

struct torture_name torture_lock_name(const struct torture_object *lock)
{
    struct torture_name name = { "'" };
    const char *text = lock->description->text;
    size_t length = 1;
    for (size_t i = 0; i < sizeof lock->description->text && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        name.text[length++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    name.text[length] = '\'';
    return name;
}

static int64_t time_of(const struct torture_history *history, uint64_t number)
{
    size_t low = 0, high = history->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (history->records[middle].number >= number)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == history->count)
        low--;
    return history->records[low].at_ns;
}

struct torture_name torture_moment(const struct torture_checking *checking, uint64_t number)
{
    struct torture_name name;
    int64_t since_ns = time_of(checking->history, number) - checking->history->records[0].at_ns;
    snprintf(name.text, sizeof name.text, "%.6f s", (double)since_ns / 1e9);
    return name;
}

struct torture_name torture_holder(const struct torture_hold *hold)
{
    struct torture_name name;
    const struct torture_call *call = hold->call;
    if (call->end->token)
        snprintf(name.text, sizeof name.text, "client %u (token %" PRIu64 ")", call->invoke->client,
                 call->end->token);
    else
        snprintf(name.text, sizeof name.text, "client %u", call->invoke->client);
    return name;
}
