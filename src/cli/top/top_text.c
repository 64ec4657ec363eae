/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text of a certain width. Names and owners may be any bytes: what a terminal would obey,
 * or could not show, appears as \xNN. */
#include "top.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <wchar.h>

/* What escapes make of the longest text that is shown. */
#define CELL_SIZE 512
#define OWNER_WIDTH_MIN 12
#define NAME_WIDTH_MIN 10
#define NAME_WIDTH_GOOD 16

static bool has_utf8;

void top_text_begin(bool screen)
{
    const char *locale = setlocale(LC_CTYPE, "");

    /* Files get UTF-8, as from `show`. */
    if (!screen && (!locale || strcmp(nl_langinfo(CODESET), "UTF-8") != 0))
        setlocale(LC_CTYPE, "C.UTF-8");
    has_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Marks that change the direction of a whole line, and others that have no width on purpose. */
static bool is_format(wchar_t character)
{
    return (character >= 0x200b && character <= 0x200f) ||
           (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2060 && character <= 0x206f) || character == 0xfeff ||
           (character >= 0xfff9 && character <= 0xfffb) || character == 0x061c;
}

/* The next piece of the text as it is shown: its columns, bytes, and how many of the text's bytes
 * it stands for. */
struct piece {
    char bytes[32];
    size_t length, taken;
    int width;
};

static void next_piece(struct piece *piece, const char *text)
{
    size_t step = cli_utf8_length(text, strnlen(text, 4));
    wchar_t character = 0;
    mbstate_t state = { 0 };

    *piece = (struct piece){ .taken = step ? step : 1, .width = -1 };
    if (step == 1 && (unsigned char)*text >= 0x20 && *text != 0x7f)
        piece->width = 1;
    else if (step > 1 && has_utf8 && mbrtowc(&character, text, step, &state) == step &&
             !is_format(character))
        piece->width = wcwidth(character);
    if (piece->width >= 0) {
        memcpy(piece->bytes, text, step);
        piece->length = step;
        return;
    }
    for (size_t i = 0; i < piece->taken; i++)
        snprintf(piece->bytes + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
    piece->length = 4 * piece->taken;
    piece->width = (int)piece->length;
}

int top_text_width(const char *text)
{
    struct piece piece;
    int width = 0;

    for (; *text; text += piece.taken) {
        next_piece(&piece, text);
        width += piece.width;
    }
    return width;
}

void top_text_fit(char *line, const char *text, int width, bool right)
{
    int used = 0, cut_width = 0;
    size_t length = 0, cut_length = 0;
    struct piece piece;

    for (; *text; text += piece.taken) {
        next_piece(&piece, text);
        if (used + piece.width > width || length + piece.length + 8 > 8 * (size_t)width)
            break;
        memcpy(line + length, piece.bytes, piece.length);
        length += piece.length;
        used += piece.width;
        if (used < width) {
            cut_length = length;
            cut_width = used;
        }
    }
    if (*text && width > 0) {
        length = cut_length;
        used = cut_width;
        line[length++] = '~';
        used++;
    }
    if (used < width && right) {
        memmove(line + (width - used), line, length);
        memset(line, ' ', (size_t)(width - used));
    } else if (used < width) {
        memset(line + length, ' ', (size_t)(width - used));
    }
    line[length + (size_t)(width > used ? width - used : 0)] = '\0';
}

enum { NAME, HELD, WAIT, HELD_FOR, WAITED, HOLDER, KIND, RATE, TOKEN, COLUMNS };

static const struct {
    const char *title;
    int width;
    bool right;
} columns_known[COLUMNS] = {
    [NAME] = { "NAME", NAME_WIDTH_MIN, false },
    [HELD] = { "HELD", 5, true },
    [WAIT] = { "WAIT", 5, true },
    [HELD_FOR] = { "HELD FOR", 8, true },
    [WAITED] = { "LONGEST", 8, true },
    [HOLDER] = { "HOLDER", OWNER_WIDTH_MIN, false },
    [KIND] = { "KIND", 9, false },
    [RATE] = { "CHG/S", 5, true },
    [TOKEN] = { "TOKEN", 19, true },
};

/* As they stand on the screen; above, in the order in which they are given room. */
static const int places[COLUMNS] = {
    NAME, KIND, HELD, WAIT, HELD_FOR, WAITED, RATE, TOKEN, HOLDER
};

static int name_width(const struct top_list *list, int most)
{
    int widest = NAME_WIDTH_GOOD;

    for (size_t i = 0; i < list->shown_count && widest < most; i++) {
        const char *name = list->picture.entries[list->shown[i]->first].name;
        int width = top_text_width(name);
        if (width > widest)
            widest = width;
    }
    return widest < most ? widest : most;
}

void top_columns_choose(struct top_columns *columns, const struct top_list *list, int width)
{
    int room = width, name;

    _Static_assert(sizeof(columns->width) / sizeof(int) == COLUMNS, "a width for each column");
    *columns = (struct top_columns){ { 0 } };
    for (int i = 0; i < COLUMNS; i++) {
        int wanted = columns_known[i].width + (i > 0);
        int kept = i > WAIT ? NAME_WIDTH_GOOD - NAME_WIDTH_MIN : 0;
        if (room - kept < wanted)
            continue;
        columns->width[i] = columns_known[i].width;
        room -= wanted;
    }
    if (columns->width[NAME] == 0) {
        columns->width[NAME] = width;
        return;
    }
    /* The names have what they need of the rest, up to two thirds; the holder has what is left. */
    name =
        columns->width[HOLDER] ? columns->width[NAME] + 2 * room / 3 : columns->width[NAME] + room;
    name = name_width(list, name < NAME_WIDTH_GOOD ? NAME_WIDTH_GOOD : name);
    if (name > columns->width[NAME] + room)
        name = columns->width[NAME] + room;
    room -= name - columns->width[NAME];
    columns->width[NAME] = name;
    if (columns->width[HOLDER])
        columns->width[HOLDER] += room;
}

static void format_cells(char *line, const struct top_columns *columns,
                         char cells[COLUMNS][CELL_SIZE])
{
    size_t length = 0;

    line[0] = '\0';
    for (int i = 0; i < COLUMNS; i++) {
        int column = places[i], width = columns->width[column];
        if (width == 0)
            continue;
        if (i > 0)
            line[length++] = ' ';
        top_text_fit(line + length, cells[column], width, columns_known[column].right);
        length += strlen(line + length);
    }
}

void top_titles_format(char *line, const struct top_columns *columns)
{
    char cells[COLUMNS][CELL_SIZE];

    for (int i = 0; i < COLUMNS; i++)
        snprintf(cells[i], CELL_SIZE, "%s", columns_known[i].title);
    format_cells(line, columns, cells);
}

static void format_token(char *cell, uint64_t token)
{
    if (token)
        snprintf(cell, CELL_SIZE, "%" PRIu64, token);
    else
        snprintf(cell, CELL_SIZE, "-");
}

static void format_owner(char *cell, const hf_entry *entry)
{
    if (entry->owner_text[0])
        snprintf(cell, CELL_SIZE, "%s", entry->owner_text);
    else if (entry->host[0] || entry->pid)
        snprintf(cell, CELL_SIZE, "%s:%" PRId64, entry->host, entry->pid);
    else
        snprintf(cell, CELL_SIZE, "%s", entry->owner_key);
}

void top_row_format(char *line, const struct top_columns *columns, const struct top_list *list,
                    const struct top_row *row)
{
    const struct cli_entry *entries = list->picture.entries;
    const hf_entry *object = &entries[row->first].entry;
    double rate = top_row_rate(list, row);
    char cells[COLUMNS][CELL_SIZE];

    /* Longer names are cut in any case. */
    snprintf(cells[NAME], CELL_SIZE, "%s", object->name);
    snprintf(cells[KIND], CELL_SIZE, "%s", cli_kind_name(object->kind));
    snprintf(cells[HELD], CELL_SIZE, "%" PRIu32, row->holders);
    snprintf(cells[WAIT], CELL_SIZE, "%" PRIu32, row->waiters);
    cli_duration_format(cells[HELD_FOR], CELL_SIZE, row->hold_ms);
    cli_duration_format(cells[WAITED], CELL_SIZE, row->wait_ms);
    snprintf(cells[RATE], CELL_SIZE, "%.2f", rate);
    if (rate < 0)
        snprintf(cells[RATE], CELL_SIZE, "-");
    format_token(cells[TOKEN], object->token);
    cells[HOLDER][0] = '\0';
    if (row->holders > 0)
        format_owner(cells[HOLDER], &entries[row->holder].entry);
    else if (object->kind == HF_KIND_SEMAPHORE)
        snprintf(cells[HOLDER], CELL_SIZE, "%" PRIu32 " of %" PRIu32 " free", object->value,
                 object->total);
    else if (object->kind == HF_KIND_COUNTER || object->kind == HF_KIND_LATCH)
        snprintf(cells[HOLDER], CELL_SIZE, "at %" PRIu32, object->value);
    format_cells(line, columns, cells);
}

void top_totals_format(char *line, const struct top_list *list, int width)
{
    char text[CELL_SIZE], wait[32] = "";

    if (list->longest_wait_ms > 0)
        cli_duration_format(wait, sizeof(wait), list->longest_wait_ms);
    snprintf(text, sizeof(text), "%zu name%s, %" PRIu64 " held, %" PRIu64 " waiting%s%s",
             list->count, cli_plural(list->count), list->held, list->waiters,
             wait[0] ? ", the longest for " : "", wait);
    top_text_fit(line, text, width, false);
}

/* Role, mode, age, lease and token, in front of the owner. */
static const int owner_widths[] = { 9, 12, 8, 8, 19 };

static void format_owner_cells(char *line, const char *const cells[], const char *owner, int width)
{
    int count = width >= 80 ? 5 : width >= 56 ? 3 : 1, used = 0;
    size_t length = 0;

    for (int i = 0; i < count; i++) {
        top_text_fit(line + length, cells[i], owner_widths[i], i >= 2);
        length += strlen(line + length);
        line[length++] = ' ';
        used += owner_widths[i] + 1;
    }
    top_text_fit(line + length, owner, width > used ? width - used : 1, false);
}

void top_owner_titles_format(char *line, int width)
{
    static const char *const titles[] = { "ROLE", "MODE", "AGE", "LEASE", "TOKEN" };

    format_owner_cells(line, titles, "OWNER", width);
}

void top_owner_format(char *line, const hf_entry *entry, int width)
{
    char role[32], mode[48], age[32], lease[32], token[CELL_SIZE], owner[CELL_SIZE];
    const char *const cells[] = { role, mode, age, lease, token };
    bool holds = entry->role == HF_ROLE_HOLDER;

    snprintf(role, sizeof(role), "waits %" PRIu32, entry->rank);
    if (holds)
        snprintf(role, sizeof(role), "holds");
    snprintf(mode, sizeof(mode), "%s", cli_mode_name(entry->mode));
    if (entry->permits)
        snprintf(mode, sizeof(mode), "%s x%" PRIu32, cli_mode_name(entry->mode), entry->permits);
    cli_duration_format(age, sizeof(age), entry->since_ms);
    cli_duration_format(lease, sizeof(lease), holds ? entry->lease_left_ms : -1);
    format_token(token, holds ? entry->token : 0);
    format_owner(owner, entry);
    format_owner_cells(line, cells, owner, width);
}
