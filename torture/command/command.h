/* SPDX-License-Identifier: Apache-2.0 */
/* What torture's files share: the plan as the options make it, and what is printed of a run. */
#ifndef HF_TORTURE_COMMAND_COMMAND_H
#define HF_TORTURE_COMMAND_COMMAND_H

#include "cli/cli.h"
#include "torture/check/verdict.h"
#include "torture/run.h"

#define CLI_TORTURE_KINDS (TORTURE_FAULTS + TORTURE_HOOKS_MAX)

/* One kind of fault, as the history counts it. */
struct cli_torture_fault {
    char name[sizeof((struct torture_record *)0)->text + 1];
    unsigned on, hit;
};

struct cli_torture {
    const struct cli_settings *settings;
    char *url; /* NULL: a history is checked */
    char shown_url[200];
    unsigned caps; /* what the store's engine has: HF_CAP_... */
    bool connects; /* the store is reached by connections, which can be cut */
    struct torture_subject subject;
    const struct torture_deployment *deployment; /* of the sandbox, or NULL */
    struct torture_sandbox sandbox;
    bool misses_partition; /* it was asked for by name, and sandbox.no_network says why not */
    char unpromised[32];   /* the fault, or TORTURE_REMOVED_NOTE, over which the store does not
                              promise what was broken; or "" */
    struct torture_plan plan;
    struct torture_hook hooks[TORTURE_HOOKS_MAX];
    struct torture_outcome outcome;
    struct torture_history history;
    struct torture_report report;
    int64_t verdict_ms, verdict_cpu_ms; /* from the end of the run, with the picture */
    struct cli_torture_fault faults[CLI_TORTURE_KINDS];
    unsigned fault_count;
};

/* ---- config.c ---- */

/* CLI_OK, or CLI_USAGE having said why. */
int cli_torture_plan(struct cli_torture *torture);
/* May this store be tortured without being asked? */
bool cli_torture_is_near(const char *url);

/* ---- probe.c ---- */

/* Asks the store for a lock, so that what is wrong with it is said before anything begins, and
 * fills `caps` and `subject`. CLI_OK, or the exit code of what is wrong, having said it. */
int cli_torture_probe(struct cli_torture *torture);
/* What the store has not, one after the other, NULL at the end: begin with *place = 0. */
const char *cli_torture_left_out(const struct cli_torture *torture, unsigned *place);
/* After a run: no reply could be replaced by an error, and nothing asked for that by name. */
bool cli_torture_leaves_out_errors(const struct cli_torture *torture);

/* ---- guarantees.c ---- */

/* Fills `unpromised`. */
void cli_torture_look_for_a_promise(struct cli_torture *torture);
/* Of a violation: does the store promise what was broken? */
void cli_torture_describe_promise(const struct cli_torture *torture, char *text, size_t size);
/* Version, date and plan, in one line. */
void cli_torture_describe_run(const struct cli_torture *torture, char *text, size_t size);

/* ---- report.c, json.c ---- */
void cli_torture_print_list(FILE *out);
void cli_torture_print_plan(const struct cli_torture *torture);
void cli_torture_progress(void *arg, const struct torture_progress *progress);
void cli_torture_print_report(const struct cli_torture *torture);
void cli_torture_print_json(const struct cli_torture *torture);
/* After n faults that hit, and nothing found: the bound of violations a fault, which is 3/n with 95
 * % confidence. */
double cli_torture_bound(const struct cli_torture *torture);

#endif
