/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what was broken in a run is anything that its store had promised. */
#include "command.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* Notes come before the first fault. */
static bool is_unpromised(const struct torture_history *history, size_t fault)
{
    const size_t prefix = strlen(TORTURE_UNPROMISED_NOTE);
    const struct torture_record *records = history->records;

    for (size_t i = 0; i < fault; i++)
        if (records[i].kind == TORTURE_NOTE &&
            strncmp(records[i].text, TORTURE_UNPROMISED_NOTE, prefix) == 0 &&
            strncmp(records[i].text + prefix, records[fault].text,
                    sizeof(records[i].text) - prefix) == 0)
            return true;
    return false;
}

/* A store whose file is gone promises nothing from then on, either. */
static int64_t last_seen_whole_ns(const struct torture_history *history)
{
    for (size_t i = 0; i < history->count; i++)
        if (history->records[i].kind == TORTURE_NOTE &&
            strncmp(history->records[i].text, TORTURE_REMOVED_NOTE,
                    sizeof(history->records[i].text)) == 0)
            return history->records[i].until_ns;
    return TORTURE_NEVER;
}

/* All of it came after a fault over which this store promises nothing: no bug of the library, but a
 * reason not to trust the store with more than it promises. */
void cli_torture_look_for_a_promise(struct cli_torture *torture)
{
    const struct torture_history *history = &torture->history;
    const struct torture_report *report = &torture->report;
    int64_t whole_ns = last_seen_whole_ns(history);

    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];
        bool removed = record->at_ns >= whole_ns;
        if (!removed && (record->kind != TORTURE_FAULT_ON || !is_unpromised(history, i)))
            continue;
        snprintf(torture->unpromised, sizeof(torture->unpromised), "%.20s",
                 removed ? TORTURE_REMOVED_NOTE : record->text);
        for (unsigned f = 0; f < report->finding_count; f++)
            if (report->findings[f].to < record->number)
                torture->unpromised[0] = '\0';
        return;
    }
}

/* ---- in words ---- */

void cli_torture_describe_promise(const struct cli_torture *torture, char *text, size_t size)
{
    if (strcmp(torture->unpromised, TORTURE_REMOVED_NOTE) == 0)
        snprintf(text, size,
                 "none: a file of the store was removed, or another put in its place, while "
                 "clients had it%s%s. Clients of the old and of the new file do not see each "
                 "other. It is no bug of the library",
                 torture->outcome.removed[0] ? ": " : "", torture->outcome.removed);
    else if (torture->unpromised[0])
        snprintf(text, size,
                 "none: all that was broken came after \"%s\", over which this store promises "
                 "nothing; no bug of the library",
                 torture->unpromised);
    else
        snprintf(text, size,
                 "broken: no fault came before it over which this store promises nothing; please "
                 "report it, with the history");
}

static void add(char *text, size_t size, const char *what, const char *comma)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%s", comma, what);
}

static void add_faults(const struct torture_plan *plan, char *text, size_t size)
{
    const char *comma = "; faults: ";

    for (unsigned i = 0; i < TORTURE_FAULTS; i++)
        if (plan->faults & 1u << i) {
            add(text, size, torture_fault_name((enum torture_fault)i), comma);
            comma = ", ";
        }
    for (unsigned i = 0; i < plan->hook_count; i++) {
        add(text, size, plan->hooks[i].name, comma);
        comma = ", ";
    }
    if (*comma == ';')
        add(text, size, "none", comma);
}

void cli_torture_describe_run(const struct cli_torture *torture, char *text, size_t size)
{
    const struct torture_plan *plan = &torture->plan;
    time_t now = time(NULL);
    char date[40] = "", lease[32];
    struct tm tm;

    if (gmtime_r(&now, &tm))
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
    snprintf(text, size, "holdfast %s; judged on %s", hf_version(), date);
    if (!torture->url) {
        add(text, size, "the plan of a history that is judged alone is not known", "; ");
        return;
    }
    cli_duration_format(lease, sizeof(lease), plan->lease_ms);
    size_t used = strlen(text);
    snprintf(text + used, size - used,
             "; seed %" PRIu64 "; leases about %s; %u clients of %u threads", plan->seed, lease,
             plan->clients, plan->threads);
    if (torture->deployment)
        add(text, size, torture->deployment->name, "; sandbox ");
    add_faults(plan, text, size);
}
