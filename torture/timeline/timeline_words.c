/* SPDX-License-Identifier: Apache-2.0 */
/* Times, counts and names as people read them. */
#include "torture/timeline/timeline_words.h"

#include <inttypes.h>
#include <string.h>

/* The length of the UTF-8 sequence at `text`, and its character; 0: it is none. */
static size_t decode(const unsigned char *text, uint32_t *character)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t length = text[0] < 0xc2   ? 0
                    : text[0] < 0xe0 ? 2
                    : text[0] < 0xf0 ? 3
                    : text[0] < 0xf5 ? 4
                                     : 0;

    if (length == 0)
        return 0;
    *character = text[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *character = *character << 6 | (text[i] & 0x3fu);
    }
    if (*character < smallest[length] || *character > 0x10ffff ||
        (*character >= 0xd800 && *character <= 0xdfff))
        return 0;
    return length;
}

/* Letters of Latin, Greek and Cyrillic, a few signs and blocks: one column wide, left to right, and
 * no mark on the letter before. */
static bool is_plain(uint32_t character)
{
    return (character >= 0xa1 && character <= 0x2ff && character != 0xad) ||
           (character >= 0x370 && character <= 0x482) ||
           (character >= 0x48a && character <= 0x52f) ||
           (character >= 0x2010 && character <= 0x2027) || character == 0x20ac ||
           (character >= 0x2500 && character <= 0x25cf);
}

/* One character of `text` into `piece`; how many bytes it was. */
static size_t take(const unsigned char *text, bool ascii, char piece[8])
{
    uint32_t character = 0;
    size_t length;

    if (text[0] >= 0x20 && text[0] < 0x7f) {
        snprintf(piece, 8, "%c", text[0]);
        return 1;
    }
    length = decode(text, &character);
    if (length == 0)
        snprintf(piece, 8, "\\x%02x", text[0]);
    else if (character == 0xb5 && ascii)
        snprintf(piece, 8, "u");
    else if (is_plain(character) && !ascii)
        snprintf(piece, 8, "%.*s", (int)length, (const char *)text);
    else
        snprintf(piece, 8, "?");
    return length ? length : 1;
}

void timeline_clean(char *out, size_t size, const char *text, bool ascii)
{
    size_t used = 0;
    char piece[8];

    while (*text) {
        size_t taken = take((const unsigned char *)text, ascii, piece), length = strlen(piece);

        if (used + length >= size)
            break;
        memcpy(out + used, piece, length);
        used += length;
        text += taken;
    }
    out[used] = '\0';
}

size_t timeline_columns(const char *text)
{
    size_t columns = 0;

    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

void timeline_escape(FILE *file, const char *text)
{
    char piece[8];

    while (*text) {
        text += take((const unsigned char *)text, false, piece);
        switch (piece[0]) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default:
            fputs(piece, file);
        }
    }
}

static const char *choose_unit(double *value)
{
    static const char *const units[] = { "ns", "µs", "ms", "s" };
    unsigned unit = 0;

    while (unit < 3 && *value >= 999.5) {
        *value /= 1000;
        unit++;
    }
    return units[unit];
}

void timeline_duration(char text[24], int64_t ns)
{
    double value = (double)ns;
    const char *unit = choose_unit(&value);

    snprintf(text, 24, "%.*f %s",
             ns < 1000 || value >= 99.95 ? 0
             : value >= 9.995            ? 1
                                         : 2,
             value, unit);
}

void timeline_round(char text[24], int64_t ns)
{
    double value = (double)ns;
    const char *unit = choose_unit(&value);

    snprintf(text, 24, "%.4g %s", value, unit);
}

void timeline_moment(char text[32], int64_t ns, int64_t step_ns)
{
    int digits = 0;

    for (int64_t unit = 1000000000; digits < 9 && step_ns < unit; unit /= 10)
        digits++;
    snprintf(text, 32, "%.*f s", digits, (double)ns / 1e9);
}

void timeline_count(char text[32], uint64_t count)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count), out = 0;

    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[out++] = ',';
        text[out++] = digits[i];
    }
    text[out] = '\0';
}

static const char *end_name(const struct timeline_bar *bar)
{
    static const char *const names[] = {
        [PICTURE_OPEN] = "still so when the history ends",
        [PICTURE_RELEASED] = "released",
        [PICTURE_EXPIRED] = "its lease ran out",
        [PICTURE_LOST] = "told that it was lost",
        [PICTURE_CRASHED] = "the client was killed",
        [PICTURE_REFUSED] = "refused",
        [PICTURE_UNKNOWN] = "no answer, so it may have been done",
        [PICTURE_DONE] = "done",
    };

    if (bar->verb == TORTURE_LOOK && bar->end == PICTURE_REFUSED)
        return "closed";
    if ((bar->verb == TORTURE_LOOK || bar->verb == TORTURE_AWAIT) && bar->end == PICTURE_DONE)
        return "open";
    return names[bar->end];
}

static const char *begin_name(const struct timeline_bar *bar)
{
    switch (bar->verb) {
    case TORTURE_COUNT_DOWN:
        return "counted down";
    case TORTURE_LOOK:
        return "looked whether it was open";
    case TORTURE_AWAIT:
        return "waited for it to open";
    default:
        return "asked";
    }
}

void timeline_describe(char *text, size_t size, const struct timeline_bar *bar)
{
    char asked[32], granted[32], lasted[24], token[32] = "";

    timeline_moment(asked, bar->asked, 1000);
    if (bar->granted == PICTURE_NEVER) {
        timeline_duration(lasted, bar->ended - bar->asked);
        snprintf(text, size, "%s at %s; after %s: %s", begin_name(bar), asked, lasted,
                 end_name(bar));
        return;
    }
    timeline_moment(granted, bar->granted, 1000);
    timeline_duration(lasted, bar->ended - bar->granted);
    if (bar->token)
        snprintf(token, sizeof(token), "token %" PRIu64 ", ", bar->token);
    snprintf(text, size, "%sasked at %s, held from %s for %s: %s", token, asked, granted, lasted,
             end_name(bar));
}

const char *timeline_mode_name(const struct timeline_model *model, const struct timeline_bar *bar)
{
    if (bar->lock >= model->lock_count || model->locks[bar->lock].form != TORTURE_RW)
        return NULL;
    return bar->mode == TORTURE_SHARED       ? "shared"
           : bar->mode == TORTURE_UPGRADABLE ? "upgradable"
                                             : "exclusive";
}

void timeline_lock_name(const struct timeline_model *model, uint16_t lock, char name[40])
{
    if (lock < model->lock_count && model->locks[lock].name[0])
        snprintf(name, 40, "%s", model->locks[lock].name);
    else
        snprintf(name, 40, "lock %u", (unsigned)lock);
}

static int64_t choose_step(int64_t span_ns, int most)
{
    static const int factors[] = { 1, 2, 5 };
    int64_t power = 1;

    for (;; power *= 10)
        for (unsigned i = 0; i < 3; i++)
            if (span_ns / power / factors[i] < most || power > INT64_MAX / 100)
                return power * factors[i];
}

void timeline_ticks_init(struct timeline_ticks *ticks, int64_t from, int64_t to, int most)
{
    int64_t step = choose_step(to - from, most);

    ticks->step = step;
    ticks->first = (from + step - 1) / step * step;
    ticks->last = to;
    ticks->later = to - from < 2000000000;
}

void timeline_tick_text(char text[32], const struct timeline_ticks *ticks, int64_t at)
{
    int64_t later = at - ticks->first;

    if (later == 0 || !ticks->later)
        timeline_moment(text, at, ticks->step);
    else {
        text[0] = '+';
        timeline_round(text + 1, later);
    }
}

bool timeline_bound(char text[128], const struct torture_report *report)
{
    char count[32];

    if (report->verdict != TORTURE_SAFE_SO_FAR || report->fault_hits < 4)
        return false;
    timeline_count(count, report->fault_hits);
    snprintf(text, 128, "no violation in %s faults that hit: at most %.2g %% per fault at 95 %%",
             count, 300.0 / (double)report->fault_hits);
    return true;
}
