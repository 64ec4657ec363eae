/* SPDX-License-Identifier: Apache-2.0 */
/* What torture prints: the plan before, a line while it runs, the report at the end. */
#include "command.h"

#include "torture/timeline/timeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The lines of the report, and the rules behind each. */
struct group {
    const char *title;
    unsigned rules; /* bits */
    const char *clean;
};

#define BIT(rule) (1u << TORTURE_##rule)

static const struct group groups[] = {
    { "beliefs", BIT(S1) | BIT(S2) | BIT(S5) | BIT(S6) | BIT(S7),
      "never two owners where there may be one" },
    { "tokens", BIT(S3), "every grant's is larger than the last one's" },
    { "refusals", BIT(S4) | BIT(S8), "no request was refused, or passed over, without a reason" },
    { "fenced effects", BIT(S9), "the resource took no old token" },
    { "liveness", BIT(L1) | BIT(L2) | BIT(L4), "every waiter got the lock" },
    { "leaks", BIT(L3), "nothing is left behind" },
};

void cli_torture_print_list(FILE *out)
{
    fputs("FAULTS\n", out);
    for (unsigned i = 0; i < TORTURE_FAULTS; i++)
        fprintf(out, "  %-12s %s\n", torture_fault_name((enum torture_fault)i),
                torture_fault_text((enum torture_fault)i));
    fputs("  --hook       yours\n"
          "  The six from reset on need a store that is reached by connections: local: is not.\n"
          "  The last five strike servers of a --sandbox; partition needs network namespaces.\n"
          "\nSANDBOXES\n",
          out);
    for (unsigned i = 0; torture_deployment(i); i++)
        fprintf(out, "  %-14s %s\n", torture_deployment(i)->name, torture_deployment(i)->text);
    fputs("\nRULES\n", out);
    for (unsigned i = 0; i < TORTURE_RULES; i++)
        fprintf(out, "  %-3s %s\n", torture_rule_name((enum torture_rule)i),
                torture_rule_text((enum torture_rule)i));
}

/* ---- before ---- */

static void print_faults(const struct torture_plan *plan)
{
    const char *comma = "";

    for (unsigned i = 0; i < TORTURE_FAULTS; i++)
        if (plan->faults & 1u << i) {
            printf("%s%s", comma, torture_fault_name((enum torture_fault)i));
            comma = ", ";
        }
    for (unsigned i = 0; i < plan->hook_count; i++) {
        cli_say(stdout, "", "%s%s", comma, plan->hooks[i].name);
        comma = ", ";
    }
    puts(*comma ? "" : "none");
}

static void print_left_out(const struct cli_torture *torture)
{
    unsigned place = 0;
    const char *text, *comma = "left out        ";

    while ((text = cli_torture_left_out(torture, &place))) {
        printf("%s%s", comma, text);
        comma = ", ";
    }
    if (comma[0] == ',')
        puts(": this store has none");
}

void cli_torture_print_plan(const struct cli_torture *torture)
{
    const struct torture_plan *plan = &torture->plan;
    char time[32], lease[32];

    cli_duration_format(time, sizeof(time), plan->time_ms);
    cli_duration_format(lease, sizeof(lease), plan->lease_ms);
    cli_say(stdout, "\n", "store           %s, under holdfast:torture:*", torture->shown_url);
    printf("plan            %s, %u clients of %u threads, leases about %s, at most %u operations a "
           "second\n",
           time, plan->clients, plan->threads, lease, plan->rate);
    printf("faults          ");
    print_faults(plan);
    print_left_out(torture);
    if (torture->sandbox.no_network[0])
        cli_say(stdout, "\n", "unavailable     partition: %s", torture->sandbox.no_network);
    printf("seed            %" PRIu64 "\n", plan->seed);
    cli_flush();
}

/* ---- meanwhile ---- */

void cli_torture_progress(void *arg, const struct torture_progress *progress)
{
    (void)arg;
    if (!progress) {
        fputs("\r\033[K", stderr);
        return;
    }
    fprintf(stderr,
            "\r\033[K%" PRId64 " s of %" PRId64 " s: %" PRIu64 " operations, %" PRIu64
            " grants, %u of %u faults hit  %s",
            progress->at_ms / 1000, progress->of_ms / 1000, progress->operations, progress->grants,
            progress->hits, progress->faults, progress->now);
}

/* ---- the report ---- */

double cli_torture_bound(const struct cli_torture *torture)
{
    uint64_t hits = torture->report.fault_hits;

    return hits > 3 ? 3.0 / (double)hits : 1.0;
}

static void print_group(const struct torture_report *report, const struct group *group)
{
    uint64_t checked = 0, broken = 0;

    for (unsigned i = 0; i < TORTURE_RULES; i++)
        if (group->rules & 1u << i) {
            checked += report->checked[i];
            broken += report->broken[i];
        }
    if (broken)
        printf("%-15s BROKEN %" PRIu64 " times, in %" PRIu64 " looked at\n", group->title, broken,
               checked);
    else if (checked)
        printf("%-15s %s (%" PRIu64 " looked at)\n", group->title, group->clean, checked);
    else
        printf("%-15s nothing to look at\n", group->title);
}

/* What an unfenced resource would have suffered is no fault of the lock: no lock can help it. */
static void print_effects(const struct cli_torture *torture)
{
    const struct torture_report *report = &torture->report;
    const struct torture_outcome *outcome = &torture->outcome;

    printf("%-15s unfenced: %" PRIu64 " late writes would have got through", "effects",
           report->late_writes);
    if (outcome->plain_writes)
        printf("; %" PRIu64 " of %" PRIu64 " wrote over what they had not seen", outcome->clobbers,
               outcome->plain_writes);
    puts(" (information)");
}

static void print_groups(const struct cli_torture *torture)
{
    const size_t effects = 3;

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (i == effects)
            print_effects(torture);
        print_group(&torture->report, &groups[i]);
    }
}

static void print_counts(const struct cli_torture *torture)
{
    const struct torture_report *report = &torture->report;

    printf("operations      %" PRIu64 ": %" PRIu64 " grants (%" PRIu64 " after waiting), %" PRIu64
           " refusals, %" PRIu64 " unknown, %" PRIu64 " lost, %" PRIu64 " crashes\n",
           report->operations, report->grants, report->contended, report->refusals,
           report->unknowns, report->losses, report->crashes);
    printf("waiting         free to granted %.1f ms at the median, %.1f ms at most; longest wait "
           "%.1f s; evenness %.2f\n",
           (double)report->median_hand_over_ns / 1e6, (double)report->longest_hand_over_ns / 1e6,
           (double)report->longest_wait_ns / 1e9, report->evenness);
    for (unsigned i = 0; i < torture->fault_count; i++)
        cli_say(stdout, "\n", "%-15s %s: %u of %u hit", i ? "" : "faults", torture->faults[i].name,
                torture->faults[i].hit, torture->faults[i].on);
    if (cli_torture_leaves_out_errors(torture))
        puts("                error-reply: left out, as no request could be read (TLS, or another "
             "protocol)");
}

static void print_verdict(const struct cli_torture *torture)
{
    const struct torture_report *report = &torture->report;

    if (report->verdict == TORTURE_SAFE_SO_FAR && report->fault_hits > 3)
        printf("so              no violation in %" PRIu64
               " faults that hit: at most %.2g %% per fault, at 95 %% confidence\n",
               report->fault_hits, 100 * cli_torture_bound(torture));
    if (report->reason[0])
        cli_say(stdout, "\n", "why             %s", report->reason);
    if (torture->unpromised[0]) {
        char promise[600];
        cli_torture_describe_promise(torture, promise, sizeof(promise));
        cli_say(stdout, "\n", "promise         %s", promise);
    }
    printf("%s\n", torture_verdict_name(report->verdict));
}

static bool speaks_utf8(void)
{
    static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);
        if (value && value[0])
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

/* For a user that looks; and for a log, if there is something to see: the findings stand in it. */
static void print_picture(const struct cli_torture *torture)
{
    const struct torture_report *report = &torture->report;
    int width = cli_screen_width();

    if (width == 0 && report->finding_count == 0)
        return;
    torture_timeline_text(&torture->history, report, stdout,
                          width ? (unsigned)width : TORTURE_PICTURE_COLUMNS, speaks_utf8());
    putchar('\n');
}

void cli_torture_print_report(const struct cli_torture *torture)
{
    putchar('\n');
    print_groups(torture);
    print_counts(torture);
    putchar('\n');
    print_picture(torture);
    print_verdict(torture);
}
