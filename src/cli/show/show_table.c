/* SPDX-License-Identifier: Apache-2.0 */
/* The picture as a table: columns as wide as what stands in them, the owner last. A long name is
 * cut, on a terminal to what the other columns leave. */
#include "show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME, KIND, STATE, MODE, TOKEN, AGE, LEASE, OWNER, COLUMNS };

/* A name of a thousand bytes must not push everything else off the screen. */
#define NAME_WIDTH_MAX 40
#define NAME_WIDTH_MIN 12
/* What of an owner's column a name leaves. */
#define OWNER_WIDTH_MIN 16
#define CELL_SIZE (4 * HF_NAME_MAX + 1)

struct row {
    char *cells[COLUMNS];
};

struct table {
    struct row *rows;
    size_t count;
    int width[COLUMNS];
};

static const char *const titles[COLUMNS] = { "NAME",  "KIND", "STATE", "MODE",
                                             "TOKEN", "AGE",  "LEASE", "OWNER" };

/* Characters, as far as UTF-8 tells: wide and combining ones are counted as one. */
static int display_width(const char *text)
{
    int width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* Cuts to `width` characters; a '~' at the end says that something is missing. */
static void cut(char *text, int width)
{
    int seen = 0;

    if (width < 1 || display_width(text) <= width)
        return;
    for (; *text; text++) {
        seen += ((unsigned char)*text & 0xc0) != 0x80;
        if (seen == width)
            break;
    }
    text[0] = '~';
    text[1] = '\0';
}

/* A client that only listens for its turn has said nothing of itself. */
static void format_owner(char *buffer, size_t size, const hf_entry *entry)
{
    char text[512];

    if (entry->owner_text[0])
        snprintf(text, sizeof(text), "%s", entry->owner_text);
    else if (!entry->host[0] && !entry->pid)
        snprintf(text, sizeof(text), "another client");
    else
        snprintf(text, sizeof(text), "%s:%" PRId64, entry->host, entry->pid);
    cli_make_printable(buffer, size, text, strlen(text));
}

static void format_cell(char *buffer, size_t size, const hf_entry *entry, int column)
{
    bool owner = entry->role != HF_ROLE_OBJECT;

    buffer[0] = '\0';
    if (column == NAME) {
        cli_make_printable(buffer, size, entry->name, entry->name_length);
    } else if (column == KIND) {
        snprintf(buffer, size, "%s", cli_kind_name(entry->kind));
    } else if (column == STATE) {
        bool has_value = entry->kind == HF_KIND_COUNTER || entry->kind == HF_KIND_LATCH;

        if (entry->role == HF_ROLE_HOLDER)
            snprintf(buffer, size, "held");
        else if (entry->role == HF_ROLE_WAITER)
            snprintf(buffer, size, "waits %" PRIu32, entry->rank);
        else if (entry->kind == HF_KIND_SEMAPHORE)
            snprintf(buffer, size, "%" PRIu32 " of %" PRIu32 " free", entry->value, entry->total);
        else if (has_value)
            snprintf(buffer, size, "%" PRIu32, entry->value);
        else if (entry->kind == HF_KIND_RATE)
            snprintf(buffer, size, "full in %.3f s", entry->value / 1000.0);
        else
            snprintf(buffer, size, "free");
    } else if (column == MODE && owner) {
        bool counted = entry->mode == HF_PERMIT || entry->mode == HF_COUNTER;

        if (counted)
            snprintf(buffer, size, "%s x%" PRIu32, cli_mode_name(entry->mode), entry->permits);
        else
            snprintf(buffer, size, "%s", cli_mode_name(entry->mode));
    } else if (column == TOKEN && entry->token && entry->role != HF_ROLE_WAITER) {
        snprintf(buffer, size, "%" PRIu64, entry->token);
    } else if (column == AGE && owner) {
        cli_duration_format(buffer, size, entry->since_ms);
    } else if (column == LEASE && entry->role == HF_ROLE_HOLDER) {
        cli_duration_format(buffer, size, entry->lease_left_ms);
    } else if (column == OWNER && owner) {
        format_owner(buffer, size, entry);
    }
}

/* The object of a mutex says nothing that its holders do not say. */
static bool is_shown(const struct cli_picture *picture, size_t i)
{
    const hf_entry *entry = &picture->entries[i].entry;
    bool followed = i + 1 < picture->count && picture->entries[i + 1].entry.role != HF_ROLE_OBJECT;
    bool has_numbers = entry->kind == HF_KIND_SEMAPHORE || entry->kind == HF_KIND_COUNTER ||
                       entry->kind == HF_KIND_LATCH || entry->kind == HF_KIND_RATE;

    return entry->role != HF_ROLE_OBJECT || !followed || has_numbers;
}

static void add_row(struct table *table, const hf_entry *entry)
{
    struct row *row = &table->rows[table->count++];
    char cell[CELL_SIZE];

    for (int column = 0; column < COLUMNS; column++) {
        int width;
        format_cell(cell, sizeof(cell), entry, column);
        row->cells[column] = strdup(cell);
        width = display_width(cell);
        if (width > table->width[column])
            table->width[column] = width;
    }
}

static void cut_names(struct table *table, int width)
{
    int owner = table->width[OWNER], room = width - 2 * OWNER;

    room -= owner < OWNER_WIDTH_MIN ? owner : OWNER_WIDTH_MIN;
    for (int column = KIND; column < OWNER; column++)
        room -= table->width[column];
    if (room < NAME_WIDTH_MIN)
        room = NAME_WIDTH_MIN;
    if (width == 0)
        room = NAME_WIDTH_MAX;
    if (table->width[NAME] <= room)
        return;
    table->width[NAME] = room;
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].cells[NAME])
            cut(table->rows[i].cells[NAME], room);
}

/* `width` 0: as long as it gets. */
static void print_row(FILE *out, const struct table *table, char *const *cells, int width)
{
    int used = 0, last = OWNER;

    while (last > 0 && (!cells[last] || !cells[last][0]))
        last--;
    for (int column = 0; column < OWNER && column <= last; column++) {
        const char *cell = cells[column] ? cells[column] : "";
        bool right = column == TOKEN || column == AGE || column == LEASE;
        int padding = table->width[column] - display_width(cell);
        fprintf(out, "%*s%s", right ? padding : 0, "", cell);
        if (column < last)
            fprintf(out, "%*s  ", right ? 0 : padding, "");
        used += table->width[column] + 2;
    }
    if (cells[OWNER] && width > used)
        cut(cells[OWNER], width - used);
    fprintf(out, "%s\n", last == OWNER ? cells[OWNER] : "");
}

void cli_table_print(FILE *out, const struct cli_picture *picture, const bool *wanted, int width)
{
    struct table table = { .rows = calloc(picture->count + 1, sizeof(struct row)) };

    for (int column = 0; column < COLUMNS; column++)
        table.width[column] = display_width(titles[column]);
    for (size_t i = 0; table.rows && i < picture->count; i++)
        if (wanted[i] && is_shown(picture, i))
            add_row(&table, &picture->entries[i].entry);
    cut_names(&table, width);
    if (table.count > 0) {
        char *cells[COLUMNS];

        for (int column = 0; column < COLUMNS; column++)
            cells[column] = strdup(titles[column]);
        print_row(out, &table, cells, 0);
        for (int column = 0; column < COLUMNS; column++)
            free(cells[column]);
    }
    for (size_t i = 0; i < table.count; i++) {
        print_row(out, &table, table.rows[i].cells, width);
        for (int column = 0; column < COLUMNS; column++)
            free(table.rows[i].cells[column]);
    }
    free(table.rows);
}
