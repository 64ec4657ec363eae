/* SPDX-License-Identifier: Apache-2.0 */
/* The picture as JSON: an array with one object a name, its holders and its waiters inside. */
#include "show.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static void print_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, ",\"%s\":", key);
    cli_json_string(out, text, strlen(text));
}

static void print_time(FILE *out, const char *key, int64_t ms)
{
    if (ms < 0)
        fprintf(out, ",\"%s\":null", key);
    else
        fprintf(out, ",\"%s\":%" PRId64, key, ms);
}

static void print_owner(FILE *out, const hf_entry *entry)
{
    fprintf(out, "{\"mode\":\"%s\"", cli_mode_name(entry->mode));
    if (entry->role == HF_ROLE_WAITER)
        fprintf(out, ",\"rank\":%" PRIu32, entry->rank);
    else if (entry->token)
        fprintf(out, ",\"token\":%" PRIu64, entry->token);
    else
        fputs(",\"token\":null", out);
    fprintf(out, ",\"permits\":%" PRIu32, entry->permits);
    print_time(out, "since_ms", entry->since_ms);
    if (entry->role == HF_ROLE_HOLDER)
        print_time(out, "lease_left_ms", entry->lease_left_ms);
    print_text(out, "owner", entry->owner_key);
    print_text(out, "owner_text", entry->owner_text);
    if (entry->host[0])
        print_text(out, "host", entry->host);
    else
        fputs(",\"host\":null", out);
    if (entry->pid > 0)
        fprintf(out, ",\"pid\":%" PRId64 "}", entry->pid);
    else
        fputs(",\"pid\":null}", out);
}

/* Prints the owners of one role that follow `i`, and answers where they end. */
static size_t print_role(FILE *out, const struct cli_picture *picture, size_t i, hf_role role,
                         const char *key)
{
    const char *separator = "";

    fprintf(out, ",\"%s\":[", key);
    for (; i < picture->count && picture->entries[i].entry.role == role; i++) {
        fputs(separator, out);
        print_owner(out, &picture->entries[i].entry);
        separator = ",";
    }
    fputc(']', out);
    return i;
}

/* `between` separates the objects, `edge` the first and the last from the brackets. */
static void print_array(FILE *out, const struct cli_picture *picture, const bool *wanted,
                        const char *edge, const char *between)
{
    const char *separator = edge;
    size_t i = 0;

    fputc('[', out);
    while (i < picture->count) {
        if (!wanted[i] || picture->entries[i].entry.role != HF_ROLE_OBJECT) {
            i++;
            continue;
        }
        fputs(separator, out);
        const hf_entry *entry = &picture->entries[i].entry;
        fputc('{', out);
        cli_json_name(out, entry->name, entry->name_length);
        fprintf(out, ",\"kind\":\"%s\",\"token\":%" PRIu64, cli_kind_name(entry->kind),
                entry->token);
        if (entry->kind == HF_KIND_SEMAPHORE)
            fprintf(out, ",\"total\":%" PRIu32 ",\"free\":%" PRIu32, entry->total, entry->value);
        if (entry->kind == HF_KIND_COUNTER || entry->kind == HF_KIND_LATCH)
            fprintf(out, ",\"value\":%" PRIu32, entry->value);
        if (entry->kind == HF_KIND_RATE)
            fprintf(out, ",\"full_in_ms\":%" PRIu32, entry->value);
        i = print_role(out, picture, i + 1, HF_ROLE_HOLDER, "holders");
        i = print_role(out, picture, i, HF_ROLE_WAITER, "waiters");
        fputc('}', out);
        separator = between;
    }
    fprintf(out, "%s]", edge);
}

void cli_picture_print_json(FILE *out, const struct cli_picture *picture, const bool *wanted)
{
    print_array(out, picture, wanted, "\n", ",\n");
    fputc('\n', out);
}

void cli_picture_print_json_line(FILE *out, const struct cli_picture *picture, const bool *wanted)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(out, "{\"at_ms\":%" PRId64 ",\"locks\":",
            (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    print_array(out, picture, wanted, "", ",");
    fputs("}\n", out);
}
