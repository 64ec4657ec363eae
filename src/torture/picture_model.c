/* Gathers a history's records into what is drawn: one walk, in the order of the numbers. */
#include "torture/picture_model.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_acquisition(const struct torture_record *record)
{
    return record->verb == TORTURE_ACQUIRE || record->verb == TORTURE_TRY;
}

static bool has_bar(const struct torture_record *record)
{
    return is_acquisition(record) || record->verb == TORTURE_AWAIT ||
           record->verb == TORTURE_LOOK || record->verb == TORTURE_COUNT_DOWN;
}

static bool begins_bar(const struct torture_record *record)
{
    return record->kind == TORTURE_INVOKE && record->client != TORTURE_NOBODY && has_bar(record);
}

/* An upgraded hold is a writer from the answer on, a downgraded one a reader from the call on. */
static bool is_mark(const struct torture_record *record)
{
    if (record->kind == TORTURE_CRASH)
        return true;
    if (record->verb == TORTURE_WRITE)
        return record->kind == TORTURE_OK || record->kind == TORTURE_REFUSED;
    return (record->verb == TORTURE_UPGRADE && record->kind == TORTURE_OK) ||
           (record->verb == TORTURE_DOWNGRADE && record->kind == TORTURE_INVOKE);
}

/* Nine years after the machine's start; a few times as much does not overflow. */
#define LAST_TIME (INT64_MAX / 32)

static int64_t clamp(int64_t ns)
{
    return ns < 0 ? 0 : ns > LAST_TIME ? LAST_TIME : ns;
}

int64_t picture_when(const struct picture_model *model, int64_t ns)
{
    int64_t at = clamp(ns) - model->start;

    return at < 0 ? 0 : at > model->length ? model->length : at;
}

static int64_t deadline_of(const struct picture_model *model, const struct torture_record *record)
{
    if (record->deadline_ns == TORTURE_NEVER || record->deadline_ns <= 0)
        return PICTURE_NEVER;
    return clamp(record->deadline_ns) - model->start;
}

/* ---- Room ---- */

static int compare_clients(const void *left, const void *right)
{
    const struct picture_lane *a = left, *b = right;

    return (a->client > b->client) - (a->client < b->client);
}

static int make_lanes(struct picture_model *model)
{
    const struct torture_history *history = model->history;
    struct picture_lane *lanes = calloc(history->count + 1, sizeof(*lanes));
    uint32_t count = 0, kept = 0;

    if (!lanes)
        return -1;
    for (size_t i = 0; i < history->count; i++)
        if (begins_bar(&history->records[i]) || (history->records[i].kind == TORTURE_CLIENT &&
                                                 history->records[i].client != TORTURE_NOBODY))
            lanes[count++] = (struct picture_lane){ .client = history->records[i].client,
                                                    .first_open = PICTURE_NONE };
    qsort(lanes, count, sizeof(*lanes), compare_clients);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || lanes[kept - 1].client != lanes[i].client)
            lanes[kept++] = lanes[i];
    model->lanes = lanes;
    model->lane_count = kept;
    return 0;
}

uint32_t picture_lane_of(const struct picture_model *model, uint32_t client)
{
    struct picture_lane wanted = { .client = client };
    const struct picture_lane *lane =
        bsearch(&wanted, model->lanes, model->lane_count, sizeof(*model->lanes), compare_clients);

    return lane ? (uint32_t)(lane - model->lanes) : PICTURE_NONE;
}

static int make_room(struct picture_model *model)
{
    const struct torture_history *history = model->history;
    size_t bars = 0, marks = 0, faults = 0;
    uint32_t locks = 0;

    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];

        bars += begins_bar(record);
        marks += is_mark(record);
        faults += record->kind == TORTURE_FAULT_ON;
        if (record->kind == TORTURE_LOCK && record->lock >= locks)
            locks = record->lock + 1u;
    }
    model->bars = calloc(bars + 1, sizeof(*model->bars));
    model->by_hold = calloc(bars + 1, sizeof(*model->by_hold));
    model->marks = calloc(marks + 1, sizeof(*model->marks));
    model->faults = calloc(faults + 1, sizeof(*model->faults));
    model->locks = calloc(locks + 1, sizeof(*model->locks));
    model->lock_count = locks;
    return model->bars && model->by_hold && model->marks && model->faults && model->locks ? 0 : -1;
}

static void find_length(struct picture_model *model)
{
    const struct torture_history *history = model->history;
    int64_t first = INT64_MAX, last = 0;

    for (size_t i = 0; i < history->count; i++) {
        int64_t at = clamp(history->records[i].at_ns);

        if (at > 0 && at < first)
            first = at;
        if (at > last)
            last = at;
    }
    model->start = first > last ? 0 : first;
    model->length = first < last ? last - first : 1;
}

/* ---- Bars ---- */

/* Calls that are about no hold are known by their operation. */
static uint64_t bar_of(const struct torture_record *record)
{
    return record->hold && (is_acquisition(record) || !has_bar(record)) ? record->hold
                                                                        : record->operation;
}

static void begin_bars(struct picture_model *model)
{
    const struct torture_history *history = model->history;

    for (size_t i = 0; i < history->count; i++) {
        const struct torture_record *record = &history->records[i];

        if (!begins_bar(record))
            continue;
        model->bars[model->bar_count++] = (struct picture_bar){
            .hold = bar_of(record),
            .asked = picture_when(model, record->at_ns),
            .granted = PICTURE_NEVER,
            .deadline = PICTURE_NEVER,
            .raised = PICTURE_NEVER,
            .lowered = PICTURE_NEVER,
            .lane = picture_lane_of(model, record->client),
            .permits = record->permits,
            .next_open = PICTURE_NONE,
            .lock = record->lock,
            .verb = record->verb,
            .mode = record->mode,
        };
    }
}

static int compare_holds(const void *left, const void *right, void *arg)
{
    const struct picture_bar *bars = arg;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    if (bars[a].hold != bars[b].hold)
        return bars[a].hold < bars[b].hold ? -1 : 1;
    return (a > b) - (a < b);
}

static struct picture_bar *find(const struct picture_model *model, uint64_t hold)
{
    uint32_t low = 0, high = model->bar_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (model->bars[model->by_hold[middle]].hold < hold)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == model->bar_count || model->bars[model->by_hold[low]].hold != hold)
        return NULL;
    return &model->bars[model->by_hold[low]];
}

const struct picture_bar *picture_find_bar(const struct picture_model *model, uint64_t hold)
{
    return find(model, hold);
}

/* Numbers have put things in order; a clock that disagrees must not turn a bar round. */
static void close_bar(struct picture_bar *bar, int64_t at, enum picture_end end)
{
    int64_t begin = bar->granted == PICTURE_NEVER ? bar->asked : bar->granted;

    if (bar->end != PICTURE_OPEN)
        return;
    at = at < begin ? begin : at;
    bar->end = (uint8_t)end;
    bar->ended = bar->freed = bar->doubtful = at;
    if (bar->granted == PICTURE_NEVER || bar->deadline >= at)
        return;
    bar->end = PICTURE_EXPIRED;
    bar->ended = bar->deadline < begin ? begin : bar->deadline;
    bar->freed = bar->doubtful = bar->ended;
}

static void doubt(struct picture_model *model, struct picture_bar *bar,
                  const struct torture_record *record)
{
    int64_t until = bar->deadline;

    if (record->until_ns > 0)
        until = clamp(record->until_ns) - model->start;
    if (until > model->length)
        until = model->length;
    if (until > bar->doubtful)
        bar->doubtful = until;
}

static void open_bar(struct picture_model *model, struct picture_bar *bar,
                     const struct torture_record *record)
{
    struct picture_lane *lane = &model->lanes[bar->lane];

    bar->granted = picture_when(model, record->at_ns);
    bar->granted = bar->granted < bar->asked ? bar->asked : bar->granted;
    if (bar->mode == TORTURE_EXCLUSIVE)
        bar->raised = bar->granted;
    bar->token = record->token;
    bar->deadline = deadline_of(model, record);
    bar->next_open = lane->first_open;
    lane->first_open = (uint32_t)(bar - model->bars);
    lane->grants++;
}

static void answer_acquisition(struct picture_model *model, struct picture_bar *bar,
                               const struct torture_record *record)
{
    int64_t at = picture_when(model, record->at_ns);

    if (record->kind == TORTURE_OK && !is_acquisition(record))
        close_bar(bar, at, PICTURE_DONE);
    else if (record->kind == TORTURE_OK && bar->granted == PICTURE_NEVER)
        open_bar(model, bar, record);
    else if (record->kind == TORTURE_REFUSED)
        close_bar(bar, at, PICTURE_REFUSED);
    else if (record->kind == TORTURE_UNKNOWN) {
        close_bar(bar, at, PICTURE_UNKNOWN);
        doubt(model, bar, record);
    }
}

static void answer_release(struct picture_model *model, struct picture_bar *bar,
                           const struct torture_record *record)
{
    int64_t at = picture_when(model, record->at_ns);

    if (record->kind == TORTURE_INVOKE)
        close_bar(bar, at, PICTURE_RELEASED);
    else if (record->kind == TORTURE_UNKNOWN)
        doubt(model, bar, record);
    else if (bar->end == PICTURE_RELEASED && at > bar->freed)
        bar->freed = bar->doubtful = at;
}

static void change_mode(struct picture_bar *bar, const struct torture_record *record, int64_t at)
{
    if (record->verb == TORTURE_UPGRADE && record->kind == TORTURE_OK) {
        bar->raised = at;
        bar->lowered = PICTURE_NEVER;
    } else if (record->verb == TORTURE_DOWNGRADE && record->kind == TORTURE_INVOKE)
        bar->lowered = at;
}

/* A grant that was never asked for is drawn nowhere: the checker has a word about it. */
static void tell_bar(struct picture_model *model, const struct torture_record *record)
{
    bool own = has_bar(record);
    struct picture_bar *bar = find(model, bar_of(record));

    if (!bar)
        return;
    if (record->kind == TORTURE_LOST) {
        close_bar(bar, picture_when(model, record->at_ns), PICTURE_LOST);
        if (record->until_ns)
            doubt(model, bar, record);
    } else if (record->kind == TORTURE_STILL)
        bar->deadline = deadline_of(model, record);
    else if (own)
        answer_acquisition(model, bar, record);
    else if (record->verb == TORTURE_RELEASE)
        answer_release(model, bar, record);
    else if (record->verb == TORTURE_RENEW && record->kind == TORTURE_OK && record->deadline_ns)
        bar->deadline = deadline_of(model, record);
    else
        change_mode(bar, record, picture_when(model, record->at_ns));
}

/* The dead believe nothing; the store finds out later. */
static void crash(struct picture_model *model, const struct torture_record *record)
{
    uint32_t lane = picture_lane_of(model, record->client);
    uint32_t next;

    if (lane == PICTURE_NONE)
        return;
    for (uint32_t i = model->lanes[lane].first_open; i != PICTURE_NONE; i = next) {
        struct picture_bar *bar = &model->bars[i];

        next = bar->next_open;
        if (bar->end != PICTURE_OPEN)
            continue;
        close_bar(bar, picture_when(model, record->at_ns), PICTURE_CRASHED);
        doubt(model, bar, record);
    }
    model->lanes[lane].first_open = PICTURE_NONE;
}

/* ---- The walk ---- */

static void add_mark(struct picture_model *model, const struct torture_record *record)
{
    uint32_t lane = picture_lane_of(model, record->client);

    if (lane != PICTURE_NONE)
        model->marks[model->mark_count++] =
            (struct picture_mark){ .at = picture_when(model, record->at_ns),
                                   .token = record->token,
                                   .lane = lane,
                                   .lock = record->lock,
                                   .kind = record->kind,
                                   .verb = record->verb };
}

static void name_lock(struct picture_model *model, const struct torture_record *record)
{
    struct picture_lock *lock = &model->locks[record->lock];

    snprintf(lock->name, sizeof(lock->name), "%.32s", record->text);
    lock->form = record->mode;
    lock->flags = record->flags;
}

static void tell(struct picture_model *model, const struct torture_record *record)
{
    if (is_mark(record))
        add_mark(model, record);
    if (record->kind == TORTURE_LOCK)
        name_lock(model, record);
    else if (record->kind == TORTURE_CRASH)
        crash(model, record);
    else if (record->kind == TORTURE_FAULT_ON)
        picture_fault_on(model, record);
    else if (record->kind == TORTURE_FAULT_HIT)
        picture_fault_hit(model, record);
    else if (record->kind == TORTURE_FAULT_OFF)
        picture_fault_off(model, record);
    else if (record->kind == TORTURE_HEALED)
        model->healed = picture_when(model, record->at_ns);
    else if (record->kind >= TORTURE_INVOKE && record->kind <= TORTURE_LOST)
        tell_bar(model, record);
}

static void close_all(struct picture_model *model)
{
    for (uint32_t i = 0; i < model->bar_count; i++) {
        struct picture_bar *bar = &model->bars[i];

        if (bar->end != PICTURE_OPEN)
            continue;
        bar->ended = bar->freed = bar->doubtful = model->length;
        if (bar->granted != PICTURE_NEVER && bar->deadline < model->length)
            close_bar(bar, model->length, PICTURE_OPEN);
    }
    for (uint32_t i = 0; i < model->fault_count; i++)
        if (model->faults[i].off == PICTURE_NEVER)
            model->faults[i].off = model->length;
}

int picture_model_init(struct picture_model *model, const struct torture_history *history)
{
    *model = (struct picture_model){ .history = history, .healed = PICTURE_NEVER };
    find_length(model);
    if (make_lanes(model) || make_room(model)) {
        picture_model_release(model);
        return -1;
    }
    begin_bars(model);
    for (uint32_t i = 0; i < model->bar_count; i++)
        model->by_hold[i] = i;
    qsort_r(model->by_hold, model->bar_count, sizeof(*model->by_hold), compare_holds, model->bars);
    for (size_t i = 0; i < history->count; i++)
        tell(model, &history->records[i]);
    close_all(model);
    return 0;
}

int64_t picture_bar_last(const struct picture_bar *bar)
{
    int64_t last = bar->ended > bar->freed ? bar->ended : bar->freed;

    return last > bar->doubtful ? last : bar->doubtful;
}

int64_t picture_time_of(const struct picture_model *model, uint64_t number)
{
    const struct torture_history *history = model->history;
    size_t low = 0, high = history->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (history->records[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < history->count ? picture_when(model, history->records[low].at_ns) : model->length;
}

void picture_model_release(struct picture_model *model)
{
    free(model->lanes);
    free(model->bars);
    free(model->by_hold);
    free(model->marks);
    free(model->faults);
    free(model->locks);
}
