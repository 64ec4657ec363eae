/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of top share: a list of names, its lines of text, and the thread that asks the
 * store. */
#ifndef HF_CLI_TOP_TOP_H
#define HF_CLI_TOP_TOP_H

#include "cli/show/show.h"

/* ---- top_list.c ---- */

enum top_sort { TOP_BY_WAITERS, TOP_BY_AGE, TOP_BY_WAIT, TOP_BY_CHANGES, TOP_BY_NAME, TOP_SORTS };

extern const char *const top_sort_names[TOP_SORTS];

/* A name: its object is entry `first` of the picture, and its owners follow up to `end`. */
struct top_row {
    size_t first, end, holder; /* the holder with the oldest hold; `end`: there is none */
    uint32_t holders, waiters;
    int64_t hold_ms, wait_ms; /* the oldest of each; -1: none, or not known */
    uint64_t state;           /* differs where the holders or the token do */
    int64_t counted_from_ms;  /* since when changes are counted */
    double changes;
};

struct top_list {
    struct cli_picture picture; /* by name, as the rows are */
    int64_t at_ms;
    struct top_row *rows, **shown; /* `shown`: those that pass the filter, in order */
    size_t count, shown_count;
    uint64_t held, waiters;
    int64_t longest_wait_ms;
    const char *exact; /* the name that was asked for, or NULL: idle names are left out */
};

/* How the rows are chosen and ordered. An empty filter lets all pass. */
struct top_order {
    enum top_sort sort;
    bool reversed;
    const char *filter; /* a pattern of the shell, or a part of the name */
};

/* Takes the picture over, and counts on from `before`. False: out of memory. */
bool top_list_make(struct top_list *list, struct cli_picture *picture, int64_t at_ms,
                   const struct top_list *before, const char *exact);
void top_list_arrange(struct top_list *list, const struct top_order *order);
void top_list_release(struct top_list *list);
/* Changes in a second, or -1 while that is not known. */
double top_row_rate(const struct top_list *list, const struct top_row *row);
bool top_sort_parse(const char *text, enum top_sort *ret);

/* ---- top_text.c: text of a certain width, which garbles no terminal ---- */

#define TOP_WIDTH_MAX 400
/* A column takes at most four bytes for a character, and some for what combines with it. */
#define TOP_LINE_SIZE (8 * TOP_WIDTH_MAX + 1)

/* Chooses the characters that this terminal, or a file, can have. */
void top_text_begin(bool screen);
/* The columns of the text, as top_text_fit makes it. */
int top_text_width(const char *text);
/* Cuts or fills to exactly `width` columns: a '~' says that something is missing. */
void top_text_fit(char *line, const char *text, int width, bool right);
/* What the lines of the list have room for, from its names and the width of the screen. */
struct top_columns {
    int width[9];
};
void top_columns_choose(struct top_columns *columns, const struct top_list *list, int width);
void top_titles_format(char *line, const struct top_columns *columns);
void top_row_format(char *line, const struct top_columns *columns, const struct top_list *list,
                    const struct top_row *row);
void top_totals_format(char *line, const struct top_list *list, int width);
/* Holders and waiters of one name. */
void top_owner_titles_format(char *line, int width);
void top_owner_format(char *line, const hf_entry *entry, int width);

/* ---- top_watch.c ---- */

struct top_watch;

struct top_answer {
    int code;          /* an hf_code */
    hf_error error;    /* with any code but HF_OK */
    bool is_fatal;     /* asking again would change nothing */
    unsigned caps;     /* the store's */
    int64_t at_ms;     /* when it was complete */
    int64_t took_ms;   /* how long the store was asked */
    int64_t period_ms; /* from one picture to the next */
    struct cli_picture picture;
};

/* Begins to take pictures. `wake_fd` is an eventfd that is written for each. NULL: it has been said
 * why. The settings and the URL must outlive it. */
struct top_watch *top_watch_begin(const struct cli_settings *settings, const char *url,
                                  const char *exact, int wake_fd);
/* The newest answer, whose picture is the caller's from then on. False: there is no new one. */
bool top_watch_take(struct top_watch *watch, struct top_answer *ret);
/* When the request that is out was begun, or 0. */
int64_t top_watch_asking_since(struct top_watch *watch);
void top_watch_now(struct top_watch *watch);
/* As `holdfast break -y`, which says on standard error what came of it. `key` NULL: all holders. */
void top_watch_break(struct top_watch *watch, const char *name, const char *key);
/* False: the store is silent, and the thread goes on until the process ends. */
bool top_watch_end(struct top_watch *watch);

/* ---- top_screen.c ---- */

/* An exit code. */
int top_screen_run(const struct cli_settings *settings, const char *url, const char *exact,
                   struct top_order *order);

#endif
