/* SPDX-License-Identifier: Apache-2.0 */
/* The library's answers as exit codes, in one table, and how the command complains. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char exit_codes[] = {
    [HF_OK] = CLI_OK,
    [HF_BUSY] = CLI_BUSY,
    [HF_LOST] = CLI_LOST,
    [HF_CANCELED] = CLI_SIGNAL + SIGINT,
    [HF_UNREACHABLE] = CLI_UNREACHABLE,
    [HF_DENIED] = CLI_DENIED,
    /* The command as it stands cannot work: the caller has to write another one. */
    [HF_EINVAL] = CLI_USAGE,
    [HF_EDEADLK] = CLI_USAGE,
    [HF_EKIND] = CLI_USAGE,
    [HF_ENOTSUP] = CLI_USAGE,
    [HF_EFORKED] = CLI_INTERNAL,
    [HF_ECLOSED] = CLI_INTERNAL,
    [HF_ENOMEM] = CLI_INTERNAL,
    /* The store is there, but of no use until its administrator tends to it. */
    [HF_ELIMIT] = CLI_UNREACHABLE,
    [HF_ECORRUPT] = CLI_UNREACHABLE,
    [HF_EINTERNAL] = CLI_INTERNAL,
};

int cli_exit_code(int code)
{
    if (code < 0 || (size_t)code >= sizeof(exit_codes) / sizeof(exit_codes[0]))
        return CLI_INTERNAL;
    return exit_codes[code];
}

/* Printable; to be freed; NULL: out of memory. */
__attribute__((format(printf, 1, 0))) static char *make_line(const char *format, va_list args)
{
    char *text = NULL, *line;
    int length = vasprintf(&text, format, args);
    size_t size = length < 0 ? 0 : 4 * (size_t)length + 8; /* \xNN for each byte */

    if (length < 0)
        return NULL;
    line = malloc(size);
    if (line)
        cli_make_printable(line, size, text, (size_t)length);
    free(text);
    return line;
}

__attribute__((format(printf, 3, 0))) static void tell(enum cli_level level, int code,
                                                       const char *format, va_list args)
{
    char *line = make_line(format, args);

    cli_messages_write(level, code, line ? line : "out of memory");
    free(line);
}

void cli_tell(enum cli_level level, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(level, code, format, args);
    va_end(args);
}

void cli_complain(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(CLI_ERROR, CLI_USAGE, format, args);
    va_end(args);
}

void cli_say(FILE *out, const char *end, const char *format, ...)
{
    va_list args;
    char *line;

    va_start(args, format);
    line = make_line(format, args);
    va_end(args);
    fprintf(out, "%s%s", line ? line : "out of memory", end);
    free(line);
}

/* Where to begin the next line: behind a blank at or before `room` characters, but not among the
 * first `kept`. A word that is longer stays whole, so that it can be copied. */
static const char *find_break(const char *line, int room, int kept)
{
    const char *at = NULL;
    int seen = 0;

    for (const char *c = line; *c; c++) {
        if (*c == ' ' && seen > kept && (seen <= room || !at))
            at = c;
        seen += ((unsigned char)*c & 0xc0) != 0x80;
        if (seen > room && at)
            return at + 1;
    }
    return NULL;
}

void cli_say_wrapped(FILE *out, int indent, const char *format, ...)
{
    int width = cli_screen_width(), room = width, kept = indent;
    const char *next, *rest;
    va_list args;
    char *line;

    va_start(args, format);
    line = make_line(format, args);
    va_end(args);
    rest = line ? line : "";
    while (width >= 2 * indent && (next = find_break(rest, room, kept))) {
        fprintf(out, "%.*s\n%*s", (int)(next - 1 - rest), rest, indent, "");
        rest = next;
        room = width - indent;
        kept = 0;
    }
    fprintf(out, "%s\n", rest);
    free(line);
}

int cli_flush(void)
{
    static int first;

    if (fflush(stdout) != 0 && !first)
        first = errno;
    return first;
}

/* Whether the store refuses us, or the URL is wrong, because an outer holdfast hands its URL on
 * without the password that -e or a file gave it. A URL is wrong only if it still has a user. */
static bool lost_password(const struct cli_settings *settings, int code)
{
    const char *url = getenv("HOLDFAST_URL"), *held = getenv("HOLDFAST_HELD");
    const char *authority = url ? strstr(url, "://") : NULL;
    const char *at = authority ? strchr(authority, '@') : NULL;
    char hidden[32];

    cli_percent_encode(hidden, sizeof(hidden), CLI_URL_HIDDEN_PASSWORD "@");
    if (settings->engine || settings->url_file || !held || !strstr(held, hidden) || !authority)
        return false;
    return at ? !memchr(authority + 3, ':', (size_t)(at - authority - 3)) : code == HF_DENIED;
}

int cli_fail(const struct cli_settings *settings, int code, const hf_error *error)
{
    bool expected = code == HF_BUSY || code == HF_CANCELED;
    const char *sentence = error && error->text[0] ? error->text : hf_code_text(code);
    bool denied = code == HF_DENIED || code == HF_EINVAL;
    int exit_code = cli_exit_code(code);

    if (denied && lost_password(settings, code))
        cli_tell(CLI_ERROR, exit_code,
                 "%s (the outer holdfast hands on no password that it has by -e or --url-file: put "
                 "the URL into $HOLDFAST_URL)",
                 sentence);
    else if (!expected || !settings->quiet)
        cli_tell(expected ? CLI_WARNING : CLI_ERROR, exit_code, "%s", sentence);
    return exit_code;
}

int cli_usage(const struct cli_settings *settings, const char *verb, const char *sentence)
{
    (void)settings;
    cli_complain("%s; see holdfast %s --help", sentence, verb);
    return CLI_USAGE;
}
