/* Whether what was broken in a run is anything that its store had promised. */
#include "torture.h"

#include <string.h>

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
