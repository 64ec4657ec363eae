/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON, piece by piece. */
#include "torture/timeline/timeline_json.h"

#include "torture/timeline/timeline_words.h"

#include <inttypes.h>

static void begin(struct timeline_json *out, const char *key)
{
    fputs(out->comma ? "," : "", out->file);
    if (key)
        fprintf(out->file, "\"%s\":", key);
    out->comma = true;
}

void timeline_json_open(struct timeline_json *out, const char *key, char bracket)
{
    begin(out, key);
    fputc(bracket, out->file);
    out->comma = false;
}

void timeline_json_close(struct timeline_json *out, char bracket)
{
    fputc(bracket, out->file);
    fputs(bracket == '}' ? "\n" : "", out->file);
    out->comma = true;
}

void timeline_json_text(struct timeline_json *out, const char *key, const char *text)
{
    char clean[1024];

    begin(out, key);
    if (!text) {
        fputs("null", out->file);
        return;
    }
    timeline_clean(clean, sizeof(clean), text, false);
    fputc('"', out->file);
    for (const char *at = clean; *at; at++)
        if (*at == '<')
            fputs("\\u003c", out->file);
        else if (*at == '"' || *at == '\\')
            fprintf(out->file, "\\%c", *at);
        else
            fputc(*at, out->file);
    fputc('"', out->file);
}

void timeline_json_number(struct timeline_json *out, const char *key, int64_t number)
{
    begin(out, key);
    fprintf(out->file, "%" PRId64, number);
}

void timeline_json_time(struct timeline_json *out, const char *key, int64_t at)
{
    if (at != PICTURE_NEVER)
        timeline_json_number(out, key, at);
    else
        timeline_json_text(out, key, NULL);
}
