/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys of top do. */
#include "top_screen.h"

#include <curses.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEY_CTRL_L 12
#define KEY_ESCAPE 27

static const struct top_row *chosen_row(const struct top_screen *screen)
{
    return screen->line < screen->list.shown_count ? screen->list.shown[screen->line] : NULL;
}

static void remember_name(struct top_screen *screen)
{
    const struct top_row *row = chosen_row(screen);

    free(screen->name);
    screen->name = row ? strdup(top_screen_name(screen, row)) : NULL;
}

void top_screen_arrange(struct top_screen *screen, bool follow)
{
    top_list_arrange(&screen->list, screen->order);
    for (size_t i = 0; follow && screen->name && i < screen->list.shown_count; i++) {
        if (strcmp(top_screen_name(screen, screen->list.shown[i]), screen->name) != 0)
            continue;
        screen->line = i;
        break;
    }
    top_screen_scroll(&screen->line, &screen->top, screen->list.shown_count);
    if (screen->view != TOP_ONE)
        remember_name(screen);
}

static void end_prompt(struct top_screen *screen, const char *message)
{
    screen->prompt = TOP_NO_PROMPT;
    snprintf(screen->message, sizeof(screen->message), "%s", message);
    free(screen->key);
    screen->key = NULL;
    free(screen->broken);
    screen->broken = NULL;
}

static void ask_before_break(struct top_screen *screen)
{
    const struct top_row *row =
        screen->view == TOP_ONE ? top_screen_viewed(screen) : chosen_row(screen);
    const struct cli_entry *entry = NULL;

    if (row && screen->view == TOP_ONE && row->first + 1 + screen->owner < row->end)
        entry = &screen->list.picture.entries[row->first + 1 + screen->owner];
    else if (row && screen->view == TOP_LIST && row->holders == 1)
        entry = &screen->list.picture.entries[row->holder];
    if (!row || row->holders == 0 || (entry && entry->entry.role != HF_ROLE_HOLDER)) {
        snprintf(screen->message, sizeof(screen->message), "%s",
                 entry ? "A waiter holds nothing: choose a holder."
                       : "It is not held, so there is nothing to break.");
        return;
    }
    screen->broken = strdup(top_screen_name(screen, row));
    screen->key = entry ? strdup(entry->owner_key) : NULL;
    if (!screen->broken || (entry && !screen->key))
        return;
    screen->prompt = TOP_BREAK;
    if (entry)
        snprintf(screen->message, sizeof(screen->message), "Take '%.300s' away from %.300s? [y/N]",
                 screen->broken, entry->owner_text[0] ? entry->owner_text : entry->owner_key);
    else
        snprintf(screen->message, sizeof(screen->message),
                 "Take '%.300s' away from all %" PRIu32 " holders? [y/N]", screen->broken,
                 row->holders);
}

static void answer_break(struct top_screen *screen, int key)
{
    if (key == 'y' || key == 'Y') {
        top_watch_break(screen->watch, screen->broken, screen->key);
        end_prompt(screen, "");
    } else {
        end_prompt(screen, "Not taken away.");
    }
}

static void edit_filter(struct top_screen *screen, int key)
{
    size_t length = strlen(screen->filter);

    if (key == KEY_ESCAPE) {
        memcpy(screen->filter, screen->filter_before, sizeof(screen->filter));
        end_prompt(screen, "");
    } else if (key == '\n' || key == '\r' || key == KEY_ENTER) {
        end_prompt(screen, "");
    } else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
        /* A character may have several bytes. */
        while (length > 0 && ((unsigned char)screen->filter[--length] & 0xc0) == 0x80)
            continue;
        screen->filter[length] = '\0';
    } else if (key == 'U' - 64) {
        screen->filter[0] = '\0';
    } else if (key >= ' ' && key < 256 && length + 1 < sizeof(screen->filter)) {
        screen->filter[length] = (char)key;
        screen->filter[length + 1] = '\0';
    }
    top_screen_arrange(screen, true);
}

static void move_cursor(struct top_screen *screen, int64_t by)
{
    size_t *line = screen->view == TOP_ONE ? &screen->owner : &screen->line;

    if (by < 0 && *line < (size_t)-by)
        *line = 0;
    else
        *line += (size_t)by;
    if (screen->view == TOP_ONE)
        return; /* drawing limits it */
    top_screen_scroll(&screen->line, &screen->top, screen->list.shown_count);
    remember_name(screen);
}

/* False: the key is none of these. */
static bool move_by_key(struct top_screen *screen, int key)
{
    int64_t page = top_screen_room() > 1 ? (int64_t)top_screen_room() - 1 : 1;

    if (key == KEY_UP || key == 'k')
        move_cursor(screen, -1);
    else if (key == KEY_DOWN || key == 'j')
        move_cursor(screen, 1);
    else if (key == KEY_PPAGE)
        move_cursor(screen, -page);
    else if (key == KEY_NPAGE)
        move_cursor(screen, page);
    else if (key == KEY_HOME || key == 'g')
        move_cursor(screen, -INT32_MAX);
    else if (key == KEY_END || key == 'G')
        move_cursor(screen, INT32_MAX);
    else
        return false;
    return true;
}

/* False: the key is none of these. */
static bool sort_by_key(struct top_screen *screen, int key)
{
    static const char keys[] = { [TOP_BY_WAITERS] = 'w',
                                 [TOP_BY_AGE] = 'a',
                                 [TOP_BY_WAIT] = 'l',
                                 [TOP_BY_CHANGES] = 'c',
                                 [TOP_BY_NAME] = 'n' };

    if (screen->view != TOP_LIST || key <= 0 || key > 'z')
        return false;
    if (key == 'r') {
        screen->order->reversed = !screen->order->reversed;
    } else {
        const char *at = memchr(keys, key, sizeof(keys));
        if (!at)
            return false;
        screen->order->sort = (enum top_sort)(at - keys);
    }
    screen->line = screen->top = 0;
    top_screen_arrange(screen, false);
    return true;
}

static void act_on_key(struct top_screen *screen, int key)
{
    screen->message[0] = '\0';
    if (key == 'q' || key == 'Q') {
        screen->ends = true;
    } else if (key == KEY_ESCAPE || (screen->view != TOP_LIST && key == KEY_LEFT)) {
        screen->view = TOP_LIST;
        top_screen_arrange(screen, true);
    } else if (key == 'h' || key == '?' || key == KEY_F(1)) {
        screen->view = TOP_HELP;
    } else if (key == ' ') {
        top_watch_now(screen->watch);
    } else if (key == KEY_CTRL_L) {
        clearok(curscr, TRUE);
    } else if (screen->view == TOP_HELP) {
        return;
    } else if (key == 'b') {
        ask_before_break(screen);
    } else if (screen->view == TOP_LIST && key == '/') {
        memcpy(screen->filter_before, screen->filter, sizeof(screen->filter));
        screen->prompt = TOP_FILTER;
    } else if (screen->view == TOP_LIST && (key == '\n' || key == '\r' || key == KEY_ENTER)) {
        remember_name(screen);
        screen->owner = screen->scroll = 0;
        if (screen->name)
            screen->view = TOP_ONE;
    } else if (!move_by_key(screen, key)) {
        (void)sort_by_key(screen, key);
    }
}

void top_screen_read_keys(struct top_screen *screen)
{
    int key;

    while (!screen->ends && (key = getch()) != ERR) {
        if (key == KEY_RESIZE)
            continue;
        if (screen->prompt == TOP_BREAK)
            answer_break(screen, key);
        else if (screen->prompt == TOP_FILTER)
            edit_filter(screen, key);
        else
            act_on_key(screen, key);
    }
}
