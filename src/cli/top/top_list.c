/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a picture, with what is counted from one picture to the next, in an order. */
#include "top.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* After this time, what was counted before weighs half as much. */
#define WINDOW_MS 30000

const char *const top_sort_names[TOP_SORTS] = { "waiters", "age", "wait", "changes", "name" };

bool top_sort_parse(const char *text, enum top_sort *ret)
{
    for (int i = 0; i < TOP_SORTS; i++) {
        if (strcmp(text, top_sort_names[i]) != 0)
            continue;
        *ret = (enum top_sort)i;
        return true;
    }
    return false;
}

static uint64_t mix(uint64_t state, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < length; i++)
        state = (state ^ at[i]) * 0x100000001b3u;
    return state;
}

/* Adds a holder or a waiter of the row. */
static void add_owner(struct top_row *row, const hf_entry *entry, size_t index)
{
    if (entry->role == HF_ROLE_WAITER) {
        row->waiters++;
        if (entry->since_ms > row->wait_ms)
            row->wait_ms = entry->since_ms;
        return;
    }
    if (row->holders++ == 0 || entry->since_ms > row->hold_ms) {
        row->holder = index;
        row->hold_ms = entry->since_ms;
    }
    row->state = mix(row->state, entry->owner_key, strlen(entry->owner_key));
    row->state = mix(row->state, &entry->token, sizeof(entry->token));
}

static void make_rows(struct top_list *list)
{
    const struct cli_entry *entries = list->picture.entries;
    struct top_row *row = NULL;

    for (size_t i = 0; i < list->picture.count; i++) {
        const hf_entry *entry = &entries[i].entry;
        if (entry->role != HF_ROLE_OBJECT) {
            if (row && row->end == i) {
                add_owner(row, entry, i);
                row->end++;
            }
            continue;
        }
        if (cli_picture_is_idle(&list->picture, i) &&
            !(list->exact && strcmp(list->exact, entries[i].name) == 0))
            continue;
        row = &list->rows[list->count++];
        *row = (struct top_row){ .first = i, .end = i + 1, .hold_ms = -1, .wait_ms = -1 };
        row->state = mix(0xcbf29ce484222325u, &entry->token, sizeof(entry->token));
        row->state = mix(row->state, &entry->value, sizeof(entry->value));
    }
}

/* A token may be the store's clock, so the difference of two tokens says nothing of how many grants
 * were between them: what counts is that the holders or the token are other ones. */
static void count_changes(struct top_list *list, const struct top_list *before)
{
    size_t old = 0;

    for (size_t i = 0; i < list->count; i++) {
        struct top_row *row = &list->rows[i];
        const struct top_row *known = NULL;
        int order = -1;

        row->counted_from_ms = list->at_ms;
        while (old < before->count &&
               (order = strcmp(before->picture.entries[before->rows[old].first].name,
                               list->picture.entries[row->first].name)) < 0)
            old++;
        if (old < before->count && order == 0)
            known = &before->rows[old++];
        if (known) {
            row->counted_from_ms = known->counted_from_ms;
            row->changes = known->changes + (known->state != row->state);
        }
        if (list->at_ms - row->counted_from_ms > WINDOW_MS) {
            row->counted_from_ms = (row->counted_from_ms + list->at_ms) / 2;
            row->changes /= 2;
        }
    }
}

double top_row_rate(const struct top_list *list, const struct top_row *row)
{
    int64_t counted_ms = list->at_ms - row->counted_from_ms;

    return counted_ms > 0 ? row->changes * 1000 / (double)counted_ms : -1;
}

bool top_list_make(struct top_list *list, struct cli_picture *picture, int64_t at_ms,
                   const struct top_list *before, const char *exact)
{
    *list = (struct top_list){ .picture = *picture,
                               .at_ms = at_ms,
                               .rows = calloc(picture->count + 1, sizeof(struct top_row)),
                               .shown = calloc(picture->count + 1, sizeof(struct top_row *)),
                               .exact = exact };
    *picture = (struct cli_picture){ 0 };
    if (!list->rows || !list->shown) {
        top_list_release(list);
        return false;
    }
    make_rows(list);
    count_changes(list, before);
    for (size_t i = 0; i < list->count; i++) {
        list->held += list->rows[i].holders > 0;
        list->waiters += list->rows[i].waiters;
        if (list->rows[i].wait_ms > list->longest_wait_ms)
            list->longest_wait_ms = list->rows[i].wait_ms;
    }
    return true;
}

void top_list_release(struct top_list *list)
{
    cli_picture_release(&list->picture);
    free(list->rows);
    free(list->shown);
    *list = (struct top_list){ 0 };
}

struct sorting {
    const struct top_list *list;
    const struct top_order *order;
};

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* The largest first; names from a to z. Rows are in the order of their names. */
static int compare(const void *a, const void *b, void *arg)
{
    const struct sorting *sorting = arg;
    const struct top_row *x = *(struct top_row *const *)a, *y = *(struct top_row *const *)b;
    int found = 0;

    switch (sorting->order->sort) {
    case TOP_BY_WAITERS:
        found = compare_numbers(y->waiters, x->waiters);
        break;
    case TOP_BY_AGE:
        found = compare_numbers((double)y->hold_ms, (double)x->hold_ms);
        break;
    case TOP_BY_WAIT:
        found = compare_numbers((double)y->wait_ms, (double)x->wait_ms);
        break;
    case TOP_BY_CHANGES:
        found = compare_numbers(top_row_rate(sorting->list, y), top_row_rate(sorting->list, x));
        break;
    case TOP_BY_NAME:
    case TOP_SORTS:
        break;
    }
    if (found == 0)
        found = (x > y) - (x < y);
    return sorting->order->reversed ? -found : found;
}

static bool passes(const char *filter, const char *name)
{
    if (!filter || !*filter)
        return true;
    return strpbrk(filter, "*?[") ? fnmatch(filter, name, 0) == 0 : strstr(name, filter) != NULL;
}

void top_list_arrange(struct top_list *list, const struct top_order *order)
{
    struct sorting sorting = { list, order };

    list->shown_count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (passes(order->filter, list->picture.entries[list->rows[i].first].name))
            list->shown[list->shown_count++] = &list->rows[i];
    if (list->shown_count > 0)
        qsort_r(list->shown, list->shown_count, sizeof(*list->shown), compare, &sorting);
}
