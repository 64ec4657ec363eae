/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, numbers and percent-encoding, as they are written on the command line; text as it may
 * be shown, and the names of kinds and modes. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* A hundred years: longer waits are mistakes, and sums of a few such numbers cannot overflow. */
#define DURATION_MAX_MS ((int64_t)100 * 365 * 24 * 3600 * 1000)

struct unit {
    const char *name;
    int64_t ms;
};

static const struct unit units[] = {
    { "ms", 1 },      { "s", 1000 },    { "", 1000 },      { "m", 60000 },
    { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t unit_ms(const char *name)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(units[i].name, name) == 0)
            return units[i].ms;
    return 0;
}

/* Digits before the point count whole units, up to three after it count thousandths. */
bool cli_duration_parse(const char *text, int64_t *ret_ms)
{
    int64_t whole = 0, thousandths = 0, scale = 100, unit;

    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++) {
        whole = whole * 10 + (*text - '0');
        if (whole > DURATION_MAX_MS)
            return false;
    }
    if (*text == '.') {
        for (text++; is_digit(*text); text++, scale /= 10)
            thousandths += (*text - '0') * scale;
    }
    unit = unit_ms(text);
    if (unit == 0 || whole > DURATION_MAX_MS / unit)
        return false;
    *ret_ms = whole * unit + thousandths * unit / 1000;
    return true;
}

bool cli_number_parse(const char *text, int64_t max, int64_t *ret)
{
    int64_t value = 0;

    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++) {
        if (value > (max - (*text - '0')) / 10)
            return false;
        value = value * 10 + (*text - '0');
    }
    *ret = value;
    return *text == '\0';
}

/* The two largest units, as people say it: 3h 20m, 45s, 120ms. */
void cli_duration_format(char *buffer, size_t size, int64_t ms)
{
    int64_t s = ms / 1000, m = s / 60, h = m / 60, d = h / 24;

    if (ms < 0)
        snprintf(buffer, size, "-");
    else if (s == 0)
        snprintf(buffer, size, "%" PRId64 "ms", ms);
    else if (m == 0)
        snprintf(buffer, size, "%" PRId64 "s", s);
    else if (h == 0)
        snprintf(buffer, size, "%" PRId64 "m %" PRId64 "s", m, s % 60);
    else if (d == 0)
        snprintf(buffer, size, "%" PRId64 "h %" PRId64 "m", h, m % 60);
    else
        snprintf(buffer, size, "%" PRId64 "d %" PRId64 "h", d, h % 24);
}

void cli_age_format(char *buffer, size_t size, int64_t since_ms)
{
    char age[32];

    cli_duration_format(age, sizeof(age), since_ms);
    snprintf(buffer, size, "%s%s", since_ms < 0 ? "" : ", for ", since_ms < 0 ? "" : age);
}

int64_t cli_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int cli_poll_ms(int64_t at_ms)
{
    int64_t left = at_ms - cli_now_ms();

    if (left > 3600000)
        return 3600000;
    return left > 0 ? (int)left : 0;
}

static bool format_is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~/", c));
}

const char *cli_typed_name(const char *name)
{
    static const char special[] = "-~";
    const char *end = name;

    while (format_is_plain((unsigned char)*end))
        end++;
    return end > name && !*end && !strchr(special, *name) ? name : "NAME";
}

void cli_percent_encode(char *buffer, size_t size, const char *text)
{
    size_t used = 0;

    for (; *text && used + 4 <= size; text++) {
        unsigned char c = (unsigned char)*text;
        if (format_is_plain(c))
            buffer[used++] = (char)c;
        else
            used += (size_t)snprintf(buffer + used, size - used, "%%%02X", c);
    }
    buffer[used] = '\0';
}

int cli_screen_width(void)
{
    struct winsize size;

    if (!isatty(STDOUT_FILENO))
        return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 100;
}

void cli_make_printable(char *buffer, size_t size, const char *text, size_t length)
{
    size_t used = 0;

    while (length > 0 && used + 5 < size) {
        size_t step = cli_utf8_length(text, length);
        bool control =
            (unsigned char)*text < 0x20 || *text == 0x7f ||
            (step == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0);
        if (step == 0 || control) {
            used += (size_t)snprintf(buffer + used, size - used, "\\x%02x", (unsigned char)*text);
            step = 1;
        } else {
            memcpy(buffer + used, text, step);
            used += step;
        }
        text += step;
        length -= step;
    }
    buffer[used] = '\0';
}

const char *cli_kind_name(hf_kind kind)
{
    static const char *const names[] = { "free",      "mutex",   "fair",  "rw",
                                         "semaphore", "counter", "latch", "rate" };

    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

const char *cli_mode_name(hf_mode mode)
{
    static const char *const names[] = { "mutex", "fair",   "read",    "upgrade",
                                         "write", "permit", "counter", "latch" };

    return (unsigned)mode < sizeof(names) / sizeof(names[0]) ? names[mode] : "?";
}
