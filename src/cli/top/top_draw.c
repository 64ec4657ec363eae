/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the screen of top: a list, one name, or the help, between a head and the keys. */
#include "top_screen.h"

#include <curses.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

/* Title, totals, message, titles of the columns; and the keys at the bottom. */
#define LINES_ABOVE 4
#define LINES_BELOW 1
/* A store that takes longer than this to answer is told of. */
#define SLOW_MS 1500

static const char *const help[] = {
    "Up, Down, PgUp, PgDn, Home, End   move (also k and j)",
    "Enter   holders and waiters of the name      Esc   back to the list",
    "/       show names with a text in them, or by a pattern; empty: all",
    "w       by waiters, the most first           a     by age of the hold",
    "l       by the longest wait                  c     by changes",
    "n       by name                              r     the other way round",
    "b       break: take the lock away from its holder; asks before",
    "Space   look at the store now                q     quit",
    "",
    "HELD and WAIT count holders and waiters, LONGEST is the longest wait.",
    "CHG/S: how often the holders or the token were seen to change, in a second.",
    "A large store is looked at for no more than a fifth of the time.",
};

static int screen_width(void)
{
    return COLS < TOP_WIDTH_MAX ? COLS : TOP_WIDTH_MAX;
}

static void put_line(int y, const char *text, attr_t attributes)
{
    char line[TOP_LINE_SIZE];

    if (y < 0 || y >= LINES)
        return;
    top_text_fit(line, text, screen_width(), false);
    attrset(attributes);
    mvaddstr(y, 0, line);
    attrset(A_NORMAL);
}

size_t top_screen_room(void)
{
    return LINES > LINES_ABOVE + LINES_BELOW ? (size_t)(LINES - LINES_ABOVE - LINES_BELOW) : 0;
}

static attr_t alarming(const struct top_screen *screen)
{
    return screen->has_colours ? A_BOLD | (attr_t)COLOR_PAIR(1) : A_BOLD;
}

void top_screen_scroll(size_t *line, size_t *top, size_t count)
{
    if (*line >= count)
        *line = count > 0 ? count - 1 : 0;
    if (*line < *top)
        *top = *line;
    if (top_screen_room() > 0 && *line >= *top + top_screen_room())
        *top = *line - top_screen_room() + 1;
    if (count <= top_screen_room())
        *top = 0;
}

const char *top_screen_name(const struct top_screen *screen, const struct top_row *row)
{
    return screen->list.picture.entries[row->first].name;
}

const struct top_row *top_screen_viewed(const struct top_screen *screen)
{
    for (size_t i = 0; screen->name && i < screen->list.count; i++)
        if (strcmp(top_screen_name(screen, &screen->list.rows[i]), screen->name) == 0)
            return &screen->list.rows[i];
    return NULL;
}

static void draw_head(const struct top_screen *screen)
{
    char text[TOP_TEXT_SIZE + 16], clock[16] = "", line[TOP_LINE_SIZE];
    time_t now = time(NULL);
    struct tm local;
    int left = screen_width() - 9;

    if (localtime_r(&now, &local))
        strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    snprintf(text, sizeof(text), "holdfast top - %s", screen->shown_url);
    put_line(0, text, A_BOLD);
    if (left >= 20) {
        attrset(A_BOLD);
        mvaddstr(0, left, " ");
        addstr(clock);
        attrset(A_NORMAL);
    }
    line[0] = '\0';
    if (screen->has_list)
        top_totals_format(line, &screen->list, screen_width());
    put_line(1, screen->has_list ? line : "The store has not answered yet.", A_NORMAL);
}

/* What `holdfast break --owner` takes. */
static void draw_key(const struct top_screen *screen)
{
    const struct top_row *row = top_screen_viewed(screen);
    char text[TOP_TEXT_SIZE] = "";

    if (row && row->first + 1 + screen->owner < row->end)
        snprintf(text, sizeof(text), "Key: %s",
                 screen->list.picture.entries[row->first + 1 + screen->owner].owner_key);
    put_line(2, text, A_NORMAL);
}

/* What is wrong comes before what there is to say. */
static void draw_message(const struct top_screen *screen)
{
    char text[TOP_TEXT_SIZE + 64], since[32];
    int64_t now_ms = cli_now_ms(), asking_ms = top_watch_asking_since(screen->watch);

    if (screen->prompt == TOP_FILTER) {
        snprintf(text, sizeof(text), "Filter: %s_", screen->filter);
        put_line(2, text, A_BOLD);
    } else if (screen->prompt == TOP_BREAK) {
        put_line(2, screen->message, alarming(screen));
    } else if (screen->message[0]) {
        put_line(2, screen->message, A_BOLD);
    } else if (screen->has_answer && screen->answer.code != HF_OK) {
        cli_duration_format(since, sizeof(since), now_ms - screen->silent_since_ms);
        snprintf(text, sizeof(text), "No list for %s, trying again: %s", since,
                 screen->answer.error.text);
        put_line(2, text, alarming(screen));
    } else if (asking_ms > 0 && now_ms - asking_ms > SLOW_MS) {
        cli_duration_format(since, sizeof(since), now_ms - asking_ms);
        snprintf(text, sizeof(text), "The store has not answered for %s.", since);
        put_line(2, text, alarming(screen));
    } else if (screen->view == TOP_ONE) {
        draw_key(screen);
    } else if (screen->has_list && !(screen->answer.caps & HF_CAP_INSPECT_ALL) && !screen->exact) {
        put_line(2, "Locks that only other libraries use are not listed.", A_NORMAL);
    } else {
        put_line(2, "", A_NORMAL);
    }
}

static void draw_foot(const struct top_screen *screen)
{
    char text[TOP_TEXT_SIZE], period[32] = "";
    const char *filter = screen->filter[0] ? screen->filter : "all";

    if (screen->has_answer)
        cli_duration_format(period, sizeof(period), screen->answer.period_ms);
    if (screen->view == TOP_LIST)
        snprintf(text, sizeof(text),
                 "h help  q quit  Enter look  b break  / %.300s  by %s%s  %zu shown%s%s", filter,
                 top_sort_names[screen->order->sort], screen->order->reversed ? ", reversed" : "",
                 screen->list.shown_count, period[0] ? ", every " : "", period);
    else
        snprintf(text, sizeof(text), "Esc back  q quit%s",
                 screen->view == TOP_ONE ? "  Up, Down choose  b break the chosen holder" : "");
    put_line(LINES - 1, text, A_REVERSE);
}

static void draw_list(struct top_screen *screen)
{
    struct top_columns columns;
    char line[TOP_LINE_SIZE];

    top_screen_scroll(&screen->line, &screen->top, screen->list.shown_count);
    top_columns_choose(&columns, &screen->list, screen_width());
    top_titles_format(line, &columns);
    put_line(3, line, A_REVERSE);
    for (size_t i = 0; i < top_screen_room() && screen->top + i < screen->list.shown_count; i++) {
        size_t index = screen->top + i;
        const struct top_row *row = screen->list.shown[index];
        top_row_format(line, &columns, &screen->list, row);
        attrset(index == screen->line ? A_REVERSE : row->waiters > 0 ? A_BOLD : A_NORMAL);
        mvaddstr(LINES_ABOVE + (int)i, 0, line);
    }
    attrset(A_NORMAL);
    if (screen->has_list && screen->list.shown_count == 0)
        put_line(LINES_ABOVE,
                 screen->list.count ? "No name passes the filter."
                                    : "No lock is held or waited for.",
                 A_NORMAL);
}

static void draw_one(struct top_screen *screen)
{
    const struct top_row *row = top_screen_viewed(screen);
    char line[TOP_LINE_SIZE], text[TOP_TEXT_SIZE];
    size_t count = row ? row->end - row->first - 1 : 0;

    top_screen_scroll(&screen->owner, &screen->scroll, count);
    if (row)
        snprintf(text, sizeof(text), "%s, %" PRIu32 " holder%s, %" PRIu32 " waiter%s: %.700s",
                 cli_kind_name(screen->list.picture.entries[row->first].entry.kind), row->holders,
                 cli_plural(row->holders), row->waiters, cli_plural(row->waiters), screen->name);
    else
        snprintf(text, sizeof(text), "neither held nor waited for: %.700s", screen->name);
    put_line(1, text, A_BOLD);
    top_owner_titles_format(line, screen_width());
    put_line(3, line, A_REVERSE);
    for (size_t i = 0; i < top_screen_room() && screen->scroll + i < count; i++) {
        size_t index = screen->scroll + i;
        top_owner_format(line, &screen->list.picture.entries[row->first + 1 + index].entry,
                         screen_width());
        attrset(index == screen->owner ? A_REVERSE : A_NORMAL);
        mvaddstr(LINES_ABOVE + (int)i, 0, line);
    }
    attrset(A_NORMAL);
}

void top_screen_draw(struct top_screen *screen)
{
    erase();
    draw_head(screen);
    if (screen->view == TOP_LIST)
        draw_list(screen);
    else if (screen->view == TOP_ONE)
        draw_one(screen);
    else
        for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
            if (i < top_screen_room())
                put_line(LINES_ABOVE + (int)i, help[i], A_NORMAL);
    draw_message(screen);
    draw_foot(screen);
    refresh();
}
