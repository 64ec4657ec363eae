/* SPDX-License-Identifier: Apache-2.0 */
/* A run to look at: one page for a browser, and the same idea in characters for a terminal.
 *
 * Both draw what a report found and what a history recorded, and judge nothing themselves. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_H
#define HF_TORTURE_TIMELINE_TIMELINE_H

#include "torture/check/verdict.h"

#include <stdio.h>

#define TORTURE_PICTURE_COLUMNS 100u

/* What a page says of a run besides what its history shows. Texts may be hostile. */
struct torture_timeline_about {
    const char *title;   /* such as the store's URL */
    const char *promise; /* a sentence: does the store promise what was broken? NULL: nothing was */
    const char *facts;   /* one line: version, date and plan. NULL: not known */
};

/* Writes one page that needs nothing else: its script draws the data in it, and there is no other
 * file, and no network. 0, or -1 with a sentence in error, and then a regular file at `path` is
 * removed. */
int torture_timeline_html(const struct torture_history *history,
                          const struct torture_report *report,
                          const struct torture_timeline_about *about, const char *path,
                          char error[256]);

/* Draws at most `width` columns (60 to TORTURE_PICTURE_COLUMNS; others are brought into that range)
 * in UTF-8 or in ASCII. 0, or -1: no memory, or the stream does not take it; errno says which. */
int torture_timeline_text(const struct torture_history *history,
                          const struct torture_report *report, FILE *file, unsigned width,
                          bool utf8);

#endif
