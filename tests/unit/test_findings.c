/* SPDX-License-Identifier: Apache-2.0 */
/* Remarks of a doctor, and the pause of waiters that nothing wakes. */
#include "engines/common/findings.h"
#include "engines/common/poll.h"

#include "test.h"

#include <stdio.h>

static char said[2000];

static void add(struct hf_oneshot *examination, const hf_remark *remark)
{
    (void)examination;
    size_t used = strlen(said);
    CHECK_INT(remark->size, sizeof *remark);
    if (remark->id)
        snprintf(said + used, sizeof said - used, "[%s] %s; %s; %s\n", remark->id, remark->what,
                 remark->consequence, remark->cure);
    else
        snprintf(said + used, sizeof said - used, "%s: %s\n", remark->what, remark->value);
}

static const struct hf_findings findings = { .add = add };

TEST(findings_have_the_form_of_the_core)
{
    hf__finding_fact(&findings, "server", "version %d", 7);
    hf__finding_danger(&findings, "old", "faults", "a new one", "%s is %d years old", "it", 7);
    hf__finding_unknown(&findings, "limits", "host:1", "it does not say");
    hf__finding_not_asked(&findings, "silent", "the server host:1", "no answer", "no lock",
                          "start it");
    CHECK_STR(said, "server: version 7\n"
                    "[old] it is 7 years old; faults; a new one\n"
                    "limits: host:1: not known: it does not say\n"
                    "[silent] the server host:1 cannot be asked: no answer; no lock; start it\n");
}

static void clock_says(int64_t server_ms, int64_t asked_ms, int64_t answered_ms, const char *wanted)
{
    *said = '\0';
    hf__finding_clock(&findings, "the server's", server_ms, asked_ms, answered_ms, "wrong", "NTP");
    CHECK_STR(said, wanted);
}

TEST(finding_clock_between_question_and_answer_is_right)
{
    clock_says(10000, 10000, 12000, "its clock: 0.000 s off this machine's\n");
    clock_says(12000, 10000, 12000, "its clock: 0.000 s off this machine's\n");
    clock_says(13999, 10000, 12000, "its clock: 1.999 s ahead of this machine's\n");
    clock_says(8001, 10000, 12000, "its clock: 1.999 s behind this machine's\n");
}

TEST(finding_clock_two_seconds_off_is_a_danger)
{
    clock_says(14000, 10000, 12000,
               "its clock: 2.000 s ahead of this machine's\n"
               "[clock] the server's clock is 2 s ahead of this machine's; wrong; NTP\n");
    clock_says(6900, 10000, 12000,
               "its clock: 3.100 s behind this machine's\n"
               "[clock] the server's clock is 3 s behind this machine's; wrong; NTP\n");
}

TEST(finding_clock_of_a_server_that_lies_is_far_off)
{
    clock_says(INT64_MIN, 10000, 12000,
               "its clock: 1152921504606856.976 s behind this machine's\n"
               "[clock] the server's clock is 1152921504606856 s behind this machine's; wrong; "
               "NTP\n");
    clock_says(hf__finding_ms(INT64_MAX), 0, 0,
               "its clock: 1152921504606846.000 s ahead of this machine's\n"
               "[clock] the server's clock is 1152921504606846 s ahead of this machine's; wrong; "
               "NTP\n");
    CHECK_INT(hf__finding_ms(-2), -2000);
}

TEST(poll_pauses_differ_within_their_range)
{
    int64_t least_ms = INT64_MAX, most_ms = 0;
    for (unsigned i = 0; i < 10000; i++) {
        int64_t pause_ms = hf__poll_pause_ms(-1, 0);
        least_ms = pause_ms < least_ms ? pause_ms : least_ms;
        most_ms = pause_ms > most_ms ? pause_ms : most_ms;
    }
    CHECK_INT(least_ms, HF_POLL_MIN_MS);
    CHECK_INT(most_ms, HF_POLL_MAX_MS - 1);
    most_ms = 0;
    for (unsigned i = 0; i < 10000; i++) {
        int64_t pause_ms = hf__poll_pause_ms(-1, 50);
        most_ms = pause_ms > most_ms ? pause_ms : most_ms;
    }
    CHECK_INT(most_ms, HF_POLL_MAX_MS + 49);
}

TEST(poll_pause_ends_with_the_lease_of_the_holder)
{
    for (unsigned i = 0; i < 100; i++) {
        CHECK_INT(hf__poll_pause_ms(0, 0), 0);
        CHECK_INT(hf__poll_pause_ms(24, 1000), 24);
        CHECK(hf__poll_pause_ms(50, 0) <= 50);
    }
}

static void grows_to(uint64_t tries, int64_t least_ms, int64_t most_ms)
{
    for (unsigned i = 0; i < 1000; i++) {
        int64_t pause_ms = hf__poll_growing_ms(tries, 10, 100);
        CHECK(pause_ms >= least_ms && pause_ms <= most_ms);
    }
}

TEST(poll_growing_doubles_with_each_try_up_to_its_limit)
{
    grows_to(0, 5, 15);
    grows_to(1, 10, 30);
    grows_to(3, 40, 120);
    grows_to(4, 50, 150);
    grows_to(UINT64_MAX, 50, 150);
    CHECK_INT(hf__poll_growing_ms(0, 1, 1), 1);
}
