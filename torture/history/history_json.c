/* SPDX-License-Identifier: Apache-2.0 */
/* A history as JSON lines, for other programs and for histories written by hand: a first line about
 * the file, then one record a line, of which only what is not zero is said. */
#include "torture/history/history_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Bytes beyond ASCII are escaped one by one, so that any name comes back as it was. */
static void put_text(FILE *file, const char *text, size_t size)
{
    fputs(",\"text\":\"", file);
    for (size_t i = 0; i < size && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static void put_unsigned(FILE *file, const char *key, uint64_t value)
{
    if (value)
        fprintf(file, ",\"%s\":%" PRIu64, key, value);
}

static void put_time(FILE *file, const char *key, int64_t value)
{
    if (value == TORTURE_NEVER)
        fprintf(file, ",\"%s\":\"never\"", key);
    else if (value)
        fprintf(file, ",\"%s\":%" PRId64, key, value);
}

static void put_client(FILE *file, uint32_t client)
{
    if (client == TORTURE_NOBODY)
        fputs(",\"client\":\"nobody\"", file);
    else
        put_unsigned(file, "client", client);
}

static void put_mode(FILE *file, const struct torture_record *record)
{
    const char *name = torture_mode_name(record->kind, record->mode);
    if (*name == '?')
        fprintf(file, ",\"mode\":%u", record->mode);
    else if (record->mode || record->kind == TORTURE_LOCK)
        fprintf(file, ",\"mode\":\"%s\"", name);
}

static void put_record(FILE *file, const struct torture_record *record)
{
    fprintf(file, "{\"n\":%" PRIu64, record->number);
    put_time(file, "at", record->at_ns);
    fprintf(file, ",\"kind\":\"%s\"", torture_kind_name(record->kind));
    if (record->verb)
        fprintf(file, ",\"verb\":\"%s\"", torture_verb_name(record->verb));
    put_client(file, record->client);
    put_unsigned(file, "process", record->process);
    put_unsigned(file, "lock", record->lock);
    put_unsigned(file, "op", record->operation);
    put_unsigned(file, "hold", record->hold);
    put_unsigned(file, "owner", record->owner);
    put_mode(file, record);
    put_unsigned(file, "thread", record->thread);
    put_unsigned(file, "permits", record->permits);
    put_unsigned(file, "token", record->token);
    put_time(file, "deadline", record->deadline_ns);
    put_time(file, "until", record->until_ns);
    put_unsigned(file, "flags", record->flags);
    put_time(file, "code", record->code);
    if (record->text[0])
        put_text(file, record->text, sizeof record->text);
    fprintf(file, ",\"check\":%" PRIu32 "}\n", record->check);
}

static void put_history(FILE *file, const struct torture_history *history)
{
    uint64_t last = history->count ? history->records[history->count - 1].number : 0;
    uint64_t drawn = history->count + history->missing + history->last_words + history->torn;
    fprintf(file, "{\"holdfast_torture\":%u", TORTURE_VERSION);
    put_unsigned(file, "run", history->run);
    put_unsigned(file, "numbers", drawn > last ? drawn : last);
    put_unsigned(file, "dropped", history->dropped);
    put_unsigned(file, "torn", history->torn);
    put_unsigned(file, "duplicate", history->duplicate);
    fputs("}\n", file);
    for (size_t i = 0; i < history->count; i++)
        put_record(file, &history->records[i]);
}

int torture_history_write_json(const struct torture_history *history, const char *path,
                               char error[256])
{
    FILE *file = fopen(path, "we");
    if (!file) {
        snprintf(error, 256, "%.160s: %s", path, strerror(errno));
        return -1;
    }
    put_history(file, history);
    bool failed = ferror(file);
    if (fclose(file) == 0 && !failed)
        return 0;
    snprintf(error, 256, "%.160s: %s", path, strerror(errno));
    return -1;
}
