/* SPDX-License-Identifier: Apache-2.0 */
/* Good histories that were broken afterwards: no verdict of safety survives, and nothing crashes.
 */
#include "oracle.h"
#include "torture/check/verdict.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define HOLDS 30u
#define LINES 200u

static const struct torture_limits little = { .enough_grants = 1, .enough_contended = 1 };

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static unsigned below(size_t limit)
{
    return (unsigned)(next_random() % limit);
}

static void seed_random(void)
{
    const char *seed = getenv("TORTURE_SEED");
    random_state = (seed ? strtoull(seed, NULL, 0) : 7777u) | 1u << 20;
    test_note("TORTURE_SEED=%llu", (unsigned long long)random_state);
}

/* ---- a good history ---- */

static void say(struct torture_writer *writer, enum torture_kind kind, enum torture_verb verb,
                unsigned hold)
{
    struct torture_record record = { .kind = (uint8_t)kind,
                                     .verb = (uint8_t)verb,
                                     .client = hold % 2,
                                     .owner = hold % 2 + 1,
                                     .operation = 2 * hold + (verb == TORTURE_ACQUIRE ? 1 : 2),
                                     .hold = 2 * hold + 1,
                                     .permits = 1,
                                     .deadline_ns = TORTURE_NEVER };
    CHECK(torture_write(writer, &record));
}

/* Each asks while the one before him still holds. */
static void write_good(const char *path)
{
    struct torture_writer *writer = torture_writer_create(path, LINES, 1);
    struct torture_record lock = { .kind = TORTURE_LOCK, .mode = TORTURE_MUTEX, .permits = 1 };
    CHECK(writer && torture_write(writer, &lock));
    say(writer, TORTURE_INVOKE, TORTURE_ACQUIRE, 0);
    for (unsigned hold = 0; hold < HOLDS; hold++) {
        say(writer, TORTURE_OK, TORTURE_ACQUIRE, hold);
        say(writer, TORTURE_INVOKE, TORTURE_ACQUIRE, hold + 1);
        say(writer, TORTURE_INVOKE, TORTURE_RELEASE, hold);
        say(writer, TORTURE_OK, TORTURE_RELEASE, hold);
    }
    torture_writer_close(writer);
}

static enum torture_verdict verdict_of(const char *path)
{
    struct torture_history history;
    struct torture_report report;
    char error[256];
    if (torture_history_read(&history, path, error) != 0)
        return TORTURE_INCONCLUSIVE;
    torture_check(&history, &little, &report);
    torture_history_free(&history);
    return report.verdict;
}

/* ---- its lines ---- */

struct lines {
    char text[LINES][400];
    unsigned count;
};

static void load_lines(struct lines *lines)
{
    const char *binary = temp_path("binary"), *json = temp_path("good.jsonl");
    struct torture_history history;
    char error[256];
    write_good(binary);
    CHECK_INT(verdict_of(binary), TORTURE_SAFE_SO_FAR);
    CHECK_INT(torture_history_read(&history, binary, error), 0);
    CHECK_INT(torture_history_write_json(&history, json, error), 0);
    torture_history_free(&history);
    CHECK_INT(verdict_of(json), TORTURE_SAFE_SO_FAR);
    FILE *file = fopen(json, "r");
    CHECK(file);
    while (fgets(lines->text[lines->count], sizeof lines->text[0], file))
        lines->count++;
    fclose(file);
}

static enum torture_verdict verdict_of_lines(const struct lines *lines)
{
    const char *path = temp_path("broken.jsonl");
    FILE *file = fopen(path, "w");
    CHECK(file);
    for (unsigned i = 0; i < lines->count; i++)
        fputs(lines->text[i], file);
    fclose(file);
    return verdict_of(path);
}

static void drop_line(struct lines *lines, unsigned i)
{
    memmove(lines->text[i], lines->text[i + 1], (lines->count - i - 1) * sizeof lines->text[0]);
    lines->count--;
}

static void repeat_line(struct lines *lines, unsigned i)
{
    memcpy(lines->text[lines->count++], lines->text[i], sizeof lines->text[0]);
}

/* The numbers of two records change places, and their checks stay. */
static void swap_numbers(struct lines *lines, unsigned i, unsigned j)
{
    char first[400], second[400];
    const char *rest_i = strchr(lines->text[i], ','), *rest_j = strchr(lines->text[j], ',');
    snprintf(first, sizeof first, "%.*s%s", (int)(rest_j - lines->text[j]), lines->text[j], rest_i);
    snprintf(second, sizeof second, "%.*s%s", (int)(rest_i - lines->text[i]), lines->text[i],
             rest_j);
    memcpy(lines->text[i], first, sizeof first);
    memcpy(lines->text[j], second, sizeof second);
}

/* One digit becomes another one. */
static void change_digit(struct lines *lines, unsigned i)
{
    char *digits[400];
    unsigned count = 0;
    for (char *c = lines->text[i]; *c; c++)
        if (*c >= '0' && *c <= '9')
            digits[count++] = c;
    char *digit = digits[below(count)];
    *digit = (char)('0' + (*digit - '0' + 1 + (int)below(9)) % 10);
}

static void break_lines(struct lines *lines, unsigned how)
{
    unsigned i = 1 + below(lines->count - 1), j = 1 + below(lines->count - 2);
    if (how == 0)
        drop_line(lines, i);
    else if (how == 1)
        repeat_line(lines, i);
    else if (how == 2)
        swap_numbers(lines, i, j >= i ? j + 1 : j);
    else
        change_digit(lines, i);
}

TEST(no_broken_history_is_safe)
{
    static const char *const ways[] = { "a dropped line", "a repeated line", "swapped numbers",
                                        "a changed digit" };
    static struct lines good, broken;
    seed_random();
    load_lines(&good);
    for (unsigned round = 0; round < 2000; round++) {
        broken = good;
        break_lines(&broken, round % 4);
        if (verdict_of_lines(&broken) == TORTURE_SAFE_SO_FAR)
            FAIL("round %u: %s was not noticed", round, ways[round % 4]);
    }
}

/* ---- records that make no sense ---- */

static const struct story_kind kinds[] = {
    { .form = TORTURE_MUTEX,
      .flags = TORTURE_FENCED | TORTURE_FIFO,
      .clients = 4,
      .calls = 8,
      .errors = 5,
      .tries = true,
      .leases = true,
      .unknowns = true,
      .nesting = true,
      .quitting = true },
    { .form = TORTURE_RW,
      .flags = TORTURE_FENCED,
      .clients = 4,
      .calls = 8,
      .errors = 5,
      .changes = true,
      .tries = true },
    { .form = TORTURE_SEMAPHORE, .permits = 3, .clients = 4, .calls = 8, .errors = 5 },
    { .form = TORTURE_LATCH, .permits = 3, .clients = 4, .calls = 8, .errors = 5 },
};

/* Any value in any field; times stay such as the reader lets through. */
static void garble(struct torture_record *record)
{
    static const uint64_t values[] = { 0, 1, 2, 3, UINT64_MAX, INT64_MAX, UINT32_MAX, 1u << 31 };
    uint64_t value = below(2) ? values[below(8)] : next_random();
    uint64_t *const wide[] = { &record->operation, &record->hold, &record->owner, &record->token };
    uint32_t *const narrow[] = { &record->client, &record->permits };
    uint8_t *const bytes[] = { &record->mode, &record->flags };
    switch (below(8)) {
    case 0:
        record->kind = (uint8_t)(1 + below(TORTURE_KINDS - 1));
        break;
    case 1:
        record->verb = (uint8_t)below(TORTURE_VERBS);
        break;
    case 2:
        *wide[below(4)] = value;
        break;
    case 3:
        *narrow[below(2)] = (uint32_t)value;
        break;
    case 4:
        *bytes[below(2)] = (uint8_t)value;
        break;
    case 5:
        record->at_ns = (int64_t)(value % (INT64_MAX / 2));
        break;
    case 6:
        record->deadline_ns = record->until_ns = (int64_t)value;
        break;
    default:
        record->lock = (uint16_t)value;
    }
}

TEST(nonsense_is_survived)
{
    struct story story;
    struct torture_report report;
    unsigned verdicts[3] = { 0 };
    seed_random();
    for (unsigned round = 0; round < 40000u / (unsigned)test_slow(); round++) {
        story_write(&story, &kinds[round % 4], next_random());
        for (unsigned changes = below(6); changes; changes--)
            garble(&story.records[below(story.count)]);
        struct torture_history history = { .records = story.records, .count = story.count };
        torture_check(&history, &little, &report);
        verdicts[report.verdict]++;
        CHECK(report.finding_count <= TORTURE_FINDINGS);
        for (unsigned i = 0; i < report.finding_count; i++)
            CHECK(report.findings[i].hold_count <= 3 && report.findings[i].sentence[0]);
    }
    test_note("%u safe so far, %u violations, %u inconclusive", verdicts[TORTURE_SAFE_SO_FAR],
              verdicts[TORTURE_VIOLATION], verdicts[TORTURE_INCONCLUSIVE]);
    CHECK(verdicts[TORTURE_VIOLATION] && verdicts[TORTURE_INCONCLUSIVE]);
}
