/* SPDX-License-Identifier: Apache-2.0 */
/* Puts sentences and rows of cells on lines that are never too long. */
#include "torture/timeline/timeline_sheet.h"

#include "torture/timeline/timeline_words.h"

#include <stdarg.h>
#include <string.h>

/* In the order of the cells; then the levels, rising. */
static const char *const fine_glyphs[] = { " ", "░", "█", "▄", "╌", "▒", "▀", "▾", "│",
                                           "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
static const char *const plain_glyphs[] = { " ", ".", "=", "~", "-", "?", "#", "v", "|",
                                            ".", ":", "-", "=", "+", "*", "%", "@" };

_Static_assert(sizeof(fine_glyphs) / sizeof(*fine_glyphs) == CELL_LEVELS + CELL_STEPS &&
                   sizeof(plain_glyphs) == sizeof(fine_glyphs),
               "a glyph for each cell");

const char *timeline_glyph(const struct timeline_sheet *sheet, enum timeline_cell cell)
{
    return (sheet->utf8 ? fine_glyphs : plain_glyphs)[cell];
}

void timeline_put_cells(const struct timeline_sheet *sheet, const char *name, const uint8_t *cells)
{
    unsigned count = sheet->columns;

    while (count > 0 && cells[count - 1] == CELL_EMPTY)
        count--;
    fprintf(sheet->file, "%-*.*s", PICTURE_GUTTER, PICTURE_GUTTER - 1, name);
    for (unsigned i = 0; i < count; i++)
        if (cells[i] < CELL_LEVELS + CELL_STEPS)
            fputs(timeline_glyph(sheet, cells[i]), sheet->file);
        else
            fputc(cells[i], sheet->file);
    fputc('\n', sheet->file);
}

/* How many bytes of the text go on a line of that many columns: whole words, if there are any. */
static size_t line_bytes(const char *text, unsigned columns)
{
    size_t end = 0, space = 0;
    unsigned seen = 0;

    while (text[end]) {
        size_t next = end + 1;

        while (((unsigned char)text[next] & 0xc0) == 0x80)
            next++;
        if (++seen > columns)
            return space ? space : end;
        if (text[end] == ' ')
            space = end;
        end = next;
    }
    return end;
}

void timeline_put(const struct timeline_sheet *sheet, unsigned indent, const char *format, ...)
{
    char raw[1024], text[1024];
    const char *rest = text;
    unsigned margin = 0;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(raw, sizeof(raw), format, arguments);
    va_end(arguments);
    timeline_clean(text, sizeof(text), raw, !sheet->utf8);
    do {
        size_t bytes = line_bytes(rest, sheet->width - margin);

        fprintf(sheet->file, "%*s%.*s\n", (int)margin, "", (int)bytes, rest);
        rest += bytes;
        while (*rest == ' ')
            rest++;
        margin = indent;
    } while (*rest);
}

void timeline_overlay(uint8_t *cells, unsigned columns, unsigned at, const char *word)
{
    size_t length = strlen(word);

    if (at + length <= columns)
        memcpy(cells + at, word, length);
}

/* ---- The axis ---- */

unsigned timeline_sheet_column(const struct timeline_sheet *sheet, const struct timeline_span *span,
                               int64_t at)
{
    double share = (double)(at - span->from) / (double)(span->to - span->from);

    return share <= 0   ? 0
           : share >= 1 ? sheet->columns - 1
                        : (unsigned)(share * (double)sheet->columns);
}

void timeline_put_axis(const struct timeline_sheet *sheet, const struct timeline_span *span)
{
    uint8_t cells[PICTURE_CELLS] = { 0 };
    struct timeline_ticks ticks;

    timeline_ticks_init(&ticks, span->from, span->to, 6);
    for (int64_t at = ticks.first; at <= ticks.last; at += ticks.step) {
        unsigned column = timeline_sheet_column(sheet, span, at);
        char text[32], plain[40];

        timeline_tick_text(text, &ticks, at);
        timeline_clean(plain, sizeof(plain), text, true);
        cells[column] = CELL_RULER;
        timeline_overlay(cells, sheet->columns, column + 1, plain);
    }
    timeline_put_cells(sheet, "", cells);
}
