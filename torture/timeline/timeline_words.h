/* SPDX-License-Identifier: Apache-2.0 */
/* The words of both pictures: times, sentences about bars, and texts made harmless. */
#ifndef HF_TORTURE_TIMELINE_TIMELINE_WORDS_H
#define HF_TORTURE_TIMELINE_TIMELINE_WORDS_H

#include "torture/check/verdict.h"
#include "torture/timeline/timeline_model.h"

#include <stdio.h>

/* Names come from a file that any program may have written. What is not a plain printable character
 * becomes "\x1b" for a byte, or '?' for a character that may be of any width or direction; `ascii`
 * leaves nothing else. The result is valid UTF-8, one column a character, and is cut to fit. */
void timeline_clean(char *out, size_t size, const char *text, bool ascii);
size_t timeline_columns(const char *text);

/* For XML, in text and in attributes; cleans it too. */
void timeline_escape(FILE *file, const char *text);

/* "350 µs", "1.25 ms", "12.3 s". */
void timeline_duration(char text[24], int64_t ns);
/* The same without zeros at the end: "2.5 ms". */
void timeline_round(char text[24], int64_t ns);
/* A time of the run, with as many digits as `step_ns` is worth: "12.3456 s". */
void timeline_moment(char text[32], int64_t ns, int64_t step_ns);
/* "1,234,567" */
void timeline_count(char text[32], uint64_t count);

/* "asked at 1.234567 s, held from 1.234801 s for 65.4 ms, released; token 17" */
void timeline_describe(char *text, size_t size, const struct timeline_bar *bar);

/* "shared", "upgradable", or NULL for what needs no word. */
const char *timeline_mode_name(const struct timeline_model *model, const struct timeline_bar *bar);

/* An axis: ticks at multiples of `step`, which is 1, 2 or 5 times a power of ten. */
struct timeline_ticks {
    int64_t first, last, step;
    bool later; /* in a short stretch all but the first say how much later they are */
};

void timeline_ticks_init(struct timeline_ticks *ticks, int64_t from, int64_t to, int most);
void timeline_tick_text(char text[32], const struct timeline_ticks *ticks, int64_t at);

/* "no violation in 512 faults that hit: at most 0.59 % per fault at 95 %"; false if nothing of the
 * kind can be said. */
bool timeline_bound(char text[128], const struct torture_report *report);

#endif
