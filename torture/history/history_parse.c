/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON lines: flat objects of integers and strings, with the keys that history_json.c
 * writes. A line that says anything else is refused, with its number. */
#include "torture/history/history_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 2048
#define TEXT_SIZE (sizeof(((struct torture_record *)0)->text))

/* One "key":value. A string is in text, an integer in magnitude and negative. */
struct pair {
    char key[24];
    char text[TEXT_SIZE + 1];
    bool is_text, negative;
    uint64_t magnitude;
};

struct line {
    const char *next;
    const char *wrong; /* what is wrong with it, or NULL */
};

static void refuse(struct line *line, const char *wrong)
{
    if (!line->wrong)
        line->wrong = wrong;
}

static void skip_blanks(struct line *line)
{
    line->next += strspn(line->next, " \t\r\n");
}

static bool take(struct line *line, char wanted)
{
    skip_blanks(line);
    if (*line->next != wanted)
        return false;
    line->next++;
    return true;
}

/* ---- values ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Only \u0000 to \u00ff: a byte each. */
static int parse_byte(struct line *line)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*line->next);
        if (digit < 0 || (i < 2 && digit > 0))
            return -1;
        value = value * 16 + digit;
        line->next++;
    }
    return value;
}

static int parse_escape(struct line *line)
{
    char c = *line->next;
    if (c)
        line->next++;
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return c;
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'u':
        return parse_byte(line);
    default:
        return -1;
    }
}

static void parse_string(struct line *line, char *text, size_t size)
{
    size_t length = 0;
    while (!line->wrong && *line->next != '"') {
        int c = (unsigned char)*line->next;
        if (c)
            line->next++;
        if (c == '\\')
            c = parse_escape(line);
        if (c <= 0)
            refuse(line, "a string does not end, or has an escape that is not known");
        else if (length + 1 >= size)
            refuse(line, "a string is too long");
        else
            text[length++] = (char)c;
    }
    text[length] = 0;
    if (!line->wrong)
        line->next++;
}

static void parse_integer(struct line *line, struct pair *pair)
{
    char *end;
    pair->negative = *line->next == '-';
    line->next += pair->negative;
    if (*line->next < '0' || *line->next > '9') {
        refuse(line, "a value is neither a string nor an integer");
        return;
    }
    errno = 0;
    pair->magnitude = strtoull(line->next, &end, 10);
    line->next = end;
    if (errno || (pair->negative && pair->magnitude > (uint64_t)INT64_MAX))
        refuse(line, "a number is too large");
}

static void parse_pair(struct line *line, struct pair *pair)
{
    memset(pair, 0, sizeof *pair);
    if (!take(line, '"')) {
        refuse(line, "a key is missing");
        return;
    }
    parse_string(line, pair->key, sizeof pair->key);
    if (!take(line, ':'))
        refuse(line, "a ':' is missing");
    pair->is_text = take(line, '"');
    if (line->wrong)
        return;
    if (pair->is_text)
        parse_string(line, pair->text, sizeof pair->text);
    else
        parse_integer(line, pair);
}

/* Calls `use` for each pair of the object that the line is. */
static void parse_object(struct line *line,
                         void (*use)(struct line *line, const struct pair *pair, void *arg),
                         void *arg)
{
    struct pair pair;
    if (!take(line, '{'))
        refuse(line, "it does not begin with '{'");
    while (!line->wrong) {
        parse_pair(line, &pair);
        if (!line->wrong)
            use(line, &pair, arg);
        if (take(line, '}'))
            break;
        if (!take(line, ','))
            refuse(line, "a ',' or a '}' is missing");
    }
    skip_blanks(line);
    if (*line->next)
        refuse(line, "something follows the object");
}

/* ---- what the keys mean ---- */

static uint64_t get_unsigned(struct line *line, const struct pair *pair, uint64_t limit)
{
    if (pair->is_text || pair->negative || pair->magnitude > limit)
        refuse(line, "a value is out of its range");
    return pair->magnitude;
}

static int64_t get_signed(struct line *line, const struct pair *pair, int64_t limit)
{
    if (pair->is_text && strcmp(pair->text, "never") == 0 && limit == TORTURE_NEVER)
        return TORTURE_NEVER;
    if (pair->is_text || pair->magnitude > (uint64_t)limit)
        refuse(line, "a value is out of its range");
    return pair->negative ? -(int64_t)pair->magnitude : (int64_t)pair->magnitude;
}

static uint32_t get_client(struct line *line, const struct pair *pair)
{
    if (pair->is_text && strcmp(pair->text, "nobody") == 0)
        return TORTURE_NOBODY;
    return (uint32_t)get_unsigned(line, pair, UINT32_MAX);
}

static uint8_t find_kind(struct line *line, const struct pair *pair)
{
    for (unsigned kind = TORTURE_NOTHING + 1; kind < TORTURE_KINDS; kind++)
        if (strcmp(pair->text, torture_kind_name(kind)) == 0)
            return (uint8_t)kind;
    refuse(line, "there is no such kind");
    return TORTURE_NOTHING;
}

static uint8_t find_verb(struct line *line, const struct pair *pair)
{
    for (unsigned verb = 0; verb < TORTURE_VERBS; verb++)
        if (strcmp(pair->text, torture_verb_name(verb)) == 0)
            return (uint8_t)verb;
    refuse(line, "there is no such verb");
    return TORTURE_NO_VERB;
}

/* The words for forms and shares all differ, so they need not know the record's kind. */
static uint8_t find_mode(struct line *line, const struct pair *pair)
{
    if (!pair->is_text)
        return (uint8_t)get_unsigned(line, pair, UINT8_MAX);
    for (unsigned mode = 0; mode < TORTURE_FORMS; mode++)
        if (strcmp(pair->text, torture_mode_name(TORTURE_LOCK, mode)) == 0 ||
            strcmp(pair->text, torture_mode_name(TORTURE_OK, mode)) == 0)
            return (uint8_t)mode;
    refuse(line, "there is no such mode");
    return 0;
}

struct parsed_record {
    struct torture_record record;
    bool has_check;
};

static bool use_word(struct line *line, const struct pair *pair, struct torture_record *record)
{
    if (strcmp(pair->key, "kind") == 0)
        record->kind = find_kind(line, pair);
    else if (strcmp(pair->key, "verb") == 0)
        record->verb = find_verb(line, pair);
    else if (strcmp(pair->key, "mode") == 0)
        record->mode = find_mode(line, pair);
    else if (strcmp(pair->key, "client") == 0)
        record->client = get_client(line, pair);
    else if (strcmp(pair->key, "text") == 0 && pair->is_text)
        memcpy(record->text, pair->text, sizeof record->text);
    else
        return false;
    return true;
}

static bool use_time(struct line *line, const struct pair *pair, struct torture_record *record)
{
    if (strcmp(pair->key, "at") == 0)
        record->at_ns = get_signed(line, pair, TORTURE_NEVER);
    else if (strcmp(pair->key, "deadline") == 0)
        record->deadline_ns = get_signed(line, pair, TORTURE_NEVER);
    else if (strcmp(pair->key, "until") == 0)
        record->until_ns = get_signed(line, pair, TORTURE_NEVER);
    else if (strcmp(pair->key, "code") == 0)
        record->code = (int16_t)get_signed(line, pair, INT16_MAX);
    else
        return false;
    return true;
}

static bool use_number(struct line *line, const struct pair *pair, struct torture_record *record)
{
    if (strcmp(pair->key, "n") == 0)
        record->number = get_unsigned(line, pair, UINT64_MAX - 1);
    else if (strcmp(pair->key, "op") == 0)
        record->operation = get_unsigned(line, pair, UINT64_MAX);
    else if (strcmp(pair->key, "hold") == 0)
        record->hold = get_unsigned(line, pair, UINT64_MAX);
    else if (strcmp(pair->key, "owner") == 0)
        record->owner = get_unsigned(line, pair, UINT64_MAX);
    else if (strcmp(pair->key, "token") == 0)
        record->token = get_unsigned(line, pair, UINT64_MAX);
    else if (strcmp(pair->key, "process") == 0)
        record->process = (uint32_t)get_unsigned(line, pair, UINT32_MAX);
    else if (strcmp(pair->key, "thread") == 0)
        record->thread = (uint32_t)get_unsigned(line, pair, UINT32_MAX);
    else if (strcmp(pair->key, "permits") == 0)
        record->permits = (uint32_t)get_unsigned(line, pair, UINT32_MAX);
    else if (strcmp(pair->key, "lock") == 0)
        record->lock = (uint16_t)get_unsigned(line, pair, UINT16_MAX);
    else if (strcmp(pair->key, "flags") == 0)
        record->flags = (uint8_t)get_unsigned(line, pair, UINT8_MAX);
    else
        return false;
    return true;
}

static void use_in_record(struct line *line, const struct pair *pair, void *arg)
{
    struct parsed_record *parsed = arg;
    struct torture_record *record = &parsed->record;
    if (strcmp(pair->key, "check") == 0) {
        record->check = (uint32_t)get_unsigned(line, pair, UINT32_MAX);
        parsed->has_check = true;
    } else if (!use_word(line, pair, record) && !use_time(line, pair, record) &&
               !use_number(line, pair, record)) {
        refuse(line, "it has a key that no record has");
    }
}

/* ---- lines ---- */

struct reading {
    struct torture_history *history;
    uint64_t drawn;
    bool has_version;
};

static void use_in_head(struct line *line, const struct pair *pair, void *arg)
{
    struct reading *reading = arg;
    uint64_t value = get_unsigned(line, pair, UINT64_MAX - 1);
    if (strcmp(pair->key, "holdfast_torture") == 0)
        reading->has_version = value == TORTURE_VERSION;
    else if (strcmp(pair->key, "run") == 0)
        reading->history->run = value;
    else if (strcmp(pair->key, "numbers") == 0)
        reading->drawn = value;
    else if (strcmp(pair->key, "dropped") == 0)
        reading->history->dropped = value;
    else if (strcmp(pair->key, "torn") == 0)
        reading->history->torn = value;
    else if (strcmp(pair->key, "duplicate") == 0)
        reading->history->duplicate = value;
    else
        refuse(line, "it has a key that no first line has");
}

static void parse_head(struct line *line, struct reading *reading)
{
    parse_object(line, use_in_head, reading);
    if (!reading->has_version)
        refuse(line, "it does not say \"holdfast_torture\":1");
}

bool torture_record_fits(const struct torture_record *record)
{
    return record->kind != TORTURE_NOTHING && record->kind < TORTURE_KINDS &&
           record->verb < TORTURE_VERBS && record->at_ns >= 0 && record->at_ns <= INT64_MAX / 2;
}

static void parse_record(struct line *line, struct torture_history *history)
{
    struct parsed_record parsed = { .has_check = false };
    parse_object(line, use_in_record, &parsed);
    if (line->wrong)
        return;
    struct torture_record *record = &parsed.record;
    uint32_t check = torture_record_check(record);
    if (record->number == 0 || record->kind == TORTURE_NOTHING) {
        refuse(line, "a record has a number \"n\" and a \"kind\"");
    } else if (!torture_record_fits(record)) {
        refuse(line, "its time cannot be one");
    } else if (parsed.has_check && record->check != check) {
        history->torn++;
    } else {
        record->check = check;
        history->records[history->count++] = *record;
    }
}

static int complain_of_line(char error[256], size_t number, const char *wrong)
{
    snprintf(error, 256, "line %zu: %s", number, wrong);
    return -1;
}

/* No line of a record is shorter than this, so the file's size bounds their number. */
#define SHORTEST_RECORD sizeof("{\"n\":1,\"kind\":\"ok\"}")

int torture_history_read_json(struct torture_history *history, FILE *file, uint64_t size,
                              uint64_t *drawn, char error[256])
{
    char bytes[LINE_SIZE];
    struct reading reading = { .history = history };
    size_t room = (size_t)(size / SHORTEST_RECORD) + 1;
    history->records = calloc(room, sizeof *history->records);
    if (!history->records)
        return complain_of_line(error, 1, "there is not enough memory for the file's records");
    for (size_t number = 1; fgets(bytes, sizeof bytes, file); number++) {
        struct line line = { bytes, NULL };
        size_t length = strlen(bytes);
        if (length == 0 || (bytes[length - 1] != '\n' && !feof(file)))
            refuse(&line, "it is too long, or has a zero byte");
        else if (number == 1)
            parse_head(&line, &reading);
        else if (history->count == room)
            refuse(&line, "the file has grown while it was read");
        else
            parse_record(&line, history);
        if (line.wrong)
            return complain_of_line(error, number, line.wrong);
    }
    *drawn = reading.drawn;
    return 0;
}
