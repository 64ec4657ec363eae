/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of top, as its drawing and its keys see it. */
#ifndef HF_CLI_TOP_TOP_SCREEN_H
#define HF_CLI_TOP_TOP_SCREEN_H

#include "top.h"

#define TOP_TEXT_SIZE 1024

enum top_view { TOP_LIST, TOP_ONE, TOP_HELP };
enum top_prompt { TOP_NO_PROMPT, TOP_FILTER, TOP_BREAK };

struct top_screen {
    const char *exact;
    char shown_url[TOP_TEXT_SIZE]; /* without a password */
    struct top_order *order;
    struct top_watch *watch;
    struct top_list list;
    struct top_answer answer; /* the newest; its picture is in the list */
    bool has_answer, has_list;
    int64_t silent_since_ms; /* 0: the newest answer was none of silence */
    enum top_view view;
    enum top_prompt prompt;
    char *name;           /* of the line with the cursor, or of the view of one name */
    size_t line, top;     /* of the list: that of the cursor, and the first one shown */
    size_t owner, scroll; /* the same of the view of one name */
    char *broken, *key;   /* what is to be broken: a name and an owner's key; NULL: all holders */
    char filter[HF_NAME_MAX + 1], filter_before[HF_NAME_MAX + 1];
    char message[TOP_TEXT_SIZE];
    int wake_fd, signal_fd, said_fd, saved_stderr;
    bool has_colours, ends;
    int ended_by; /* a signal */
};

/* ---- top_draw.c ---- */

void top_screen_draw(struct top_screen *screen);
/* The lines that owners or names have. */
size_t top_screen_room(void);
/* Keeps the cursor within `count` lines, and what is shown around the cursor. */
void top_screen_scroll(size_t *line, size_t *top, size_t count);
/* The row of the name that is looked at, or NULL: it is not in use any more. */
const struct top_row *top_screen_viewed(const struct top_screen *screen);
const char *top_screen_name(const struct top_screen *screen, const struct top_row *row);

/* ---- top_keys.c ---- */

/* Orders the list anew. With `follow` the cursor stays on its name, wherever that has gone to. */
void top_screen_arrange(struct top_screen *screen, bool follow);
void top_screen_read_keys(struct top_screen *screen);

#endif
