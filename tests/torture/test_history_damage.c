/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged and hostile histories: nothing crashes, nothing is silently fine, and the sentence says
 * where. */
#include "torture/history/history.h"

#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RECORDS 20u
#define HEAD 128u

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
    random_state = (seed ? strtoull(seed, NULL, 0) : 20240607u) | 1u << 20;
    test_note("TORTURE_SEED=%llu", (unsigned long long)random_state);
}

/* ---- files as bytes ---- */

struct bytes {
    char *at;
    size_t size;
};

static struct bytes load(const char *path)
{
    FILE *file = fopen(path, "rb");
    CHECK(file);
    fseek(file, 0, SEEK_END);
    struct bytes bytes = { NULL, (size_t)ftell(file) };
    rewind(file);
    bytes.at = malloc(bytes.size + 1);
    CHECK_INT(fread(bytes.at, 1, bytes.size, file), bytes.size);
    bytes.at[bytes.size] = 0;
    fclose(file);
    return bytes;
}

static void save(const char *path, const void *at, size_t size)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(at, 1, size, file) == size);
    fclose(file);
}

static void make_binary(const char *path)
{
    struct torture_writer *writer = torture_writer_create(path, RECORDS, 5);
    CHECK(writer);
    for (unsigned i = 0; i < RECORDS; i++) {
        struct torture_record record = { .kind = TORTURE_INVOKE,
                                         .verb = TORTURE_TRY,
                                         .operation = i + 1,
                                         .permits = 1,
                                         .text = "a name" };
        torture_write(writer, &record);
    }
    torture_writer_close(writer);
}

static void make_json(const char *path)
{
    const char *binary = temp_path("binary");
    struct torture_history history;
    char error[256];
    make_binary(binary);
    CHECK_INT(torture_history_read(&history, binary, error), 0);
    CHECK_INT(torture_history_write_json(&history, path, error), 0);
    torture_history_free(&history);
}

/* How much is wrong with it: -1 if it cannot be read at all. */
static int64_t damage(const char *path, char error[256])
{
    struct torture_history history;
    *error = 0;
    if (torture_history_read(&history, path, error) != 0) {
        CHECK(*error && !history.records);
        return -1;
    }
    uint64_t sum = history.torn + history.missing + history.duplicate + history.dropped;
    torture_history_free(&history);
    return (int64_t)(sum & INT64_MAX);
}

static int64_t damage_of(const void *at, size_t size)
{
    const char *path = temp_path("damaged");
    char error[256];
    save(path, at, size);
    return damage(path, error);
}

static void check_refused(const char *text, const char *wanted)
{
    const char *path = temp_path("refused");
    char error[256];
    save(path, text, strlen(text));
    CHECK_INT(damage(path, error), -1);
    if (!strstr(error, wanted))
        FAIL("\"%s\" does not say \"%s\"", error, wanted);
}

/* ---- the binary form ---- */

TEST(every_flipped_bit_of_a_record_is_noticed)
{
    const char *path = temp_path("history");
    make_binary(path);
    struct bytes bytes = load(path);
    CHECK_INT(damage_of(bytes.at, bytes.size), 0);
    for (size_t bit = HEAD * 8; bit < (HEAD + 3 * 128) * 8; bit++) {
        bytes.at[bit / 8] = (char)(bytes.at[bit / 8] ^ 1 << bit % 8);
        if (damage_of(bytes.at, bytes.size) == 0)
            FAIL("nobody noticed that bit %zu was flipped", bit);
        bytes.at[bit / 8] = (char)(bytes.at[bit / 8] ^ 1 << bit % 8);
    }
    free(bytes.at);
}

TEST(every_shortened_file_is_noticed)
{
    const char *path = temp_path("history");
    make_binary(path);
    struct bytes bytes = load(path);
    for (size_t size = 0; size < bytes.size; size++)
        CHECK(damage_of(bytes.at, size) != 0);
    free(bytes.at);
}

TEST(records_in_foreign_places_are_noticed)
{
    const char *path = temp_path("history");
    make_binary(path);
    struct bytes bytes = load(path);
    memcpy(bytes.at + HEAD + 128, bytes.at + HEAD, 128);
    CHECK_INT(damage_of(bytes.at, bytes.size), 2); /* one twice, one missing */
    memset(bytes.at + HEAD + 128, 0, 128);
    CHECK_INT(damage_of(bytes.at, bytes.size), 1);
    free(bytes.at);
}

/* The numbers say the order, and the places do not matter. */
TEST(swapped_places_are_harmless)
{
    const char *path = temp_path("history");
    make_binary(path);
    struct bytes bytes = load(path);
    char one[128];
    memcpy(one, bytes.at + HEAD, 128);
    memcpy(bytes.at + HEAD, bytes.at + HEAD + 128, 128);
    memcpy(bytes.at + HEAD + 128, one, 128);
    CHECK_INT(damage_of(bytes.at, bytes.size), 0);
    free(bytes.at);
}

TEST(any_head_is_survived)
{
    const char *path = temp_path("history");
    make_binary(path);
    struct bytes bytes = load(path);
    seed_random();
    for (int round = 0; round < 3000; round++) {
        struct bytes copy = { malloc(bytes.size), bytes.size };
        memcpy(copy.at, bytes.at, bytes.size);
        for (unsigned changes = 1 + below(8); changes; changes--)
            copy.at[8 + below(HEAD - 8)] = (char)(below(3) ? next_random() : 0xff);
        damage_of(copy.at, copy.size);
        free(copy.at);
    }
    free(bytes.at);
}

/* ---- JSON lines ---- */

#define FIRST "{\"holdfast_torture\":1}\n"

TEST(sentences_say_which_line_is_wrong)
{
    check_refused("", "is empty");
    check_refused("what?", "no history");
    check_refused("hftortur", "ends within its head");
    check_refused("{}\n", "line 1: ");
    check_refused("{\"holdfast_torture\":2}\n", "line 1: it does not say");
    check_refused(FIRST "{\"n\":1,\"kind\":\"ok\"}\n{\"n\":2,\"kind\":\"okay\"}\n",
                  "line 3: there is no such kind");
    check_refused(FIRST "{\"n\":1}\n", "line 2: a record has a number");
    check_refused(FIRST "{\"n\":1,\"kind\":\"ok\",\"size\":3}\n", "a key that no record has");
    check_refused(FIRST "{\"n\":1,\"kind\":\"ok\",\"lock\":65536}\n", "out of its range");
    check_refused(FIRST "{\"n\":1,\"kind\":\"ok\",\"lock\":-1}\n", "out of its range");
    check_refused(FIRST "{\"n\":99999999999999999999999,\"kind\":\"ok\"}\n", "too large");
    check_refused(FIRST "{\"n\":1.5,\"kind\":\"ok\"}\n", "is missing");
    check_refused(FIRST "{\"n\":[1],\"kind\":\"ok\"}\n", "neither a string nor an integer");
    check_refused(FIRST "{\"n\":1,\"kind\":\"ok", "does not end");
    check_refused(FIRST "{\"n\":1,\"kind\":\"\\u1234\"}\n", "an escape");
    check_refused(FIRST "{\"n\":1,\"kind\":\"ok\"} {\n", "follows the object");
    check_refused(FIRST "\n", "line 2: it does not begin");
}

TEST(no_file_is_no_history)
{
    char error[256];
    CHECK_INT(damage("/nowhere/at/all", error), -1);
    CHECK(strstr(error, strerror(ENOENT)));
    CHECK_INT(damage("/dev/zero", error), -1);
    CHECK_INT(damage("/", error), -1);
}

/* The beginnings of the lines; the last entry is the end. */
static size_t find_lines(const struct bytes *bytes, char **lines, size_t room)
{
    size_t count = 0;
    for (char *at = bytes->at; at && *at && count + 1 < room; count++) {
        lines[count] = at;
        at = strchr(at, '\n') + 1;
    }
    lines[count] = bytes->at + bytes->size;
    return count;
}

static void append_line(struct bytes *to, char **lines, size_t i)
{
    size_t size = (size_t)(lines[i + 1] - lines[i]);
    memcpy(to->at + to->size, lines[i], size);
    to->size += size;
}

TEST(lines_may_come_in_any_order_but_each_must_come_once)
{
    const char *path = temp_path("history.jsonl");
    char *lines[RECORDS + 2];
    make_json(path);
    struct bytes bytes = load(path), copy = { malloc(2 * bytes.size), 0 };
    CHECK_INT(find_lines(&bytes, lines, RECORDS + 2), RECORDS + 1);

    append_line(&copy, lines, 0);
    for (size_t i = RECORDS; i > 0; i--)
        append_line(&copy, lines, i);
    CHECK_INT(damage_of(copy.at, copy.size), 0);
    append_line(&copy, lines, 3);
    CHECK_INT(damage_of(copy.at, copy.size), 1);

    for (size_t dropped = 1; dropped <= RECORDS; dropped++) {
        copy.size = 0;
        for (size_t i = 0; i <= RECORDS; i++)
            if (i != dropped)
                append_line(&copy, lines, i);
        CHECK_INT(damage_of(copy.at, copy.size), 1);
    }
    free(bytes.at);
    free(copy.at);
}

/* Whatever changes in a line, it is refused or torn, or says the same in other words. */
TEST(every_changed_byte_is_noticed_or_harmless)
{
    const char *path = temp_path("history.jsonl"), *changed = temp_path("changed");
    struct torture_history history, other;
    char error[256];
    make_json(path);
    CHECK_INT(torture_history_read(&history, path, error), 0);
    struct bytes bytes = load(path);
    size_t first = (size_t)(strchr(bytes.at, '\n') - bytes.at) + 1;
    seed_random();
    for (int round = 0; round < 5000; round++) {
        size_t at = first + below(bytes.size - first);
        char before = bytes.at[at];
        bytes.at[at] = (char)next_random();
        save(changed, bytes.at, bytes.size);
        if (torture_history_read(&other, changed, error) == 0) {
            uint64_t wrong = other.torn + other.missing + other.duplicate;
            if (!wrong)
                CHECK(memcmp(other.records, history.records,
                             history.count * sizeof *history.records) == 0);
            torture_history_free(&other);
        }
        bytes.at[at] = before;
    }
    torture_history_free(&history);
    free(bytes.at);
}

static void mangle(struct bytes *bytes)
{
    static const char *const bits[] = { "{",
                                        "}",
                                        "\"",
                                        ":",
                                        ",",
                                        "\n",
                                        "\\",
                                        "\\u00",
                                        "-",
                                        "9",
                                        "99999999999999999999",
                                        "\"check\":1,",
                                        "\"n\":0,",
                                        "e" };
    const char *bit = bits[below(sizeof bits / sizeof *bits)];
    size_t at = below(bytes->size + 1), length = strlen(bit);
    if (below(2) && bytes->size > at + 7) {
        memmove(bytes->at + at, bytes->at + at + 7, bytes->size - at - 7);
        bytes->size -= 7;
        return;
    }
    memmove(bytes->at + at + length, bytes->at + at, bytes->size - at);
    memcpy(bytes->at + at, bit, length);
    bytes->size += length;
}

TEST(any_text_is_survived)
{
    const char *path = temp_path("history.jsonl");
    make_json(path);
    struct bytes bytes = load(path), copy = { malloc(bytes.size + 1000), 0 };
    seed_random();
    for (int round = 0; round < 5000; round++) {
        copy.size = bytes.size;
        memcpy(copy.at, bytes.at, bytes.size);
        for (unsigned changes = 1 + below(6); changes; changes--)
            mangle(&copy);
        damage_of(copy.at, copy.size);
    }
    free(bytes.at);
    free(copy.at);
}
