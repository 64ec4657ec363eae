/* SPDX-License-Identifier: Apache-2.0 */
/* The same report for programs: one object. */
#include "command.h"

#include <inttypes.h>
#include <string.h>

static void print_text(const char *key, const char *value)
{
    printf("\"%s\":", key);
    cli_json_string(stdout, value, strlen(value));
}

static void print_number(const char *key, uint64_t value)
{
    printf(",\"%s\":%" PRIu64, key, value);
}

/* Of a history that is checked alone, the plan is not known. */
static void print_plan(const struct cli_torture *torture)
{
    const struct torture_plan *plan = &torture->plan;
    const char *text, *comma = "";

    if (!torture->url)
        return;
    fputs(",\n\"plan\":{", stdout);
    print_text("store", torture->shown_url);
    print_number("seed", plan->seed);
    print_number("time_ms", (uint64_t)plan->time_ms);
    print_number("lease_ms", (uint64_t)plan->lease_ms);
    print_number("clients", plan->clients);
    print_number("threads", plan->threads);
    print_number("rate", plan->rate);
    fputs(",\"left_out\":[", stdout);
    for (unsigned place = 0; (text = cli_torture_left_out(torture, &place)); comma = ",") {
        fputs(comma, stdout);
        cli_json_string(stdout, text, strlen(text));
    }
    fputs("],", stdout);
    print_text("unavailable", torture->sandbox.no_network[0] ? "partition" : "");
    putchar(',');
    print_text("unavailable_why", torture->sandbox.no_network);
    fputs("},\n\"unfenced\":{", stdout);
    printf("\"writes\":%" PRIu64, torture->outcome.plain_writes);
    print_number("written_over_unseen", torture->outcome.clobbers);
    putchar('}');
}

static void print_counts(const struct torture_report *report)
{
    printf(",\n\"counts\":{\"operations\":%" PRIu64, report->operations);
    print_number("grants", report->grants);
    print_number("contended", report->contended);
    print_number("refusals", report->refusals);
    print_number("unknown", report->unknowns);
    print_number("lost", report->losses);
    print_number("crashes", report->crashes);
    print_number("late_writes", report->late_writes);
    print_number("longest_wait_ns", (uint64_t)report->longest_wait_ns);
    print_number("median_hand_over_ns", (uint64_t)report->median_hand_over_ns);
    print_number("longest_hand_over_ns", (uint64_t)report->longest_hand_over_ns);
    printf(",\"evenness\":%.4f}", report->evenness);
}

static void print_rules(const struct torture_report *report)
{
    fputs(",\n\"rules\":[", stdout);
    for (unsigned i = 0; i < TORTURE_RULES; i++) {
        printf("%s\n {", i ? "," : "");
        print_text("rule", torture_rule_name((enum torture_rule)i));
        print_number("checked", report->checked[i]);
        print_number("broken", report->broken[i]);
        putchar('}');
    }
    putchar(']');
}

static void print_findings(const struct torture_report *report)
{
    fputs(",\n\"findings\":[", stdout);
    for (unsigned i = 0; i < report->finding_count; i++) {
        printf("%s\n {", i ? "," : "");
        print_text("rule", torture_rule_name(report->findings[i].rule));
        putchar(',');
        print_text("sentence", report->findings[i].sentence);
        putchar('}');
    }
    putchar(']');
}

static void print_faults(const struct cli_torture *torture)
{
    fputs(",\n\"faults\":[", stdout);
    for (unsigned i = 0; i < torture->fault_count; i++) {
        printf("%s\n {", i ? "," : "");
        print_text("fault", torture->faults[i].name);
        print_number("tried", torture->faults[i].on);
        print_number("hit", torture->faults[i].hit);
        putchar('}');
    }
    putchar(']');
}

void cli_torture_print_json(const struct cli_torture *torture)
{
    const struct torture_report *report = &torture->report;

    putchar('{');
    print_text("verdict", torture_verdict_name(report->verdict));
    putchar(',');
    print_text("reason", report->reason);
    putchar(',');
    printf("\"promised\":%s,", torture->unpromised[0] ? "false" : "true");
    print_text("version", hf_version());
    print_plan(torture);
    print_counts(report);
    print_faults(torture);
    print_rules(report);
    print_findings(report);
    if (report->verdict == TORTURE_SAFE_SO_FAR)
        printf(",\n\"at_most_per_fault\":%.6f", cli_torture_bound(torture));
    printf(",\n\"verdict_ms\":%lld,\"verdict_cpu_ms\":%lld", (long long)torture->verdict_ms,
           (long long)torture->verdict_cpu_ms);
    puts("}");
}
