/* SPDX-License-Identifier: Apache-2.0 */
/* Histories: what is written is read, in both forms; by many at a time, and by some who are killed.
 */
#include "torture/history/history.h"

#include "test.h"

#include <errno.h>
#include <stdio.h>

static struct torture_writer *create(const char *path, uint64_t room)
{
    struct torture_writer *writer = torture_writer_create(path, room, 77);
    if (!writer)
        FAIL("%s: %s", path, strerror(errno));
    return writer;
}

static struct torture_history read_back(const char *path)
{
    struct torture_history history;
    char error[256] = "";
    if (torture_history_read(&history, path, error) != 0)
        FAIL("%s", error);
    return history;
}

static void check_undamaged(const struct torture_history *history)
{
    CHECK_INT(history->torn, 0);
    CHECK_INT(history->missing, 0);
    CHECK_INT(history->duplicate, 0);
    CHECK_INT(history->dropped, 0);
}

/* Every field says something, and the text has what JSON must escape. */
static struct torture_record full_record(uint64_t i)
{
    struct torture_record record = {
        .at_ns = (int64_t)i * 3 + 1,
        .operation = UINT64_MAX - i,
        .hold = i + 5,
        .owner = i << 40,
        .token = UINT64_C(1) << 63 | i,
        .deadline_ns = i % 2 ? TORTURE_NEVER : -(int64_t)i,
        .until_ns = (int64_t)i,
        .client = i % 5 ? (uint32_t)i : TORTURE_NOBODY,
        .process = (uint32_t)i * 7,
        .permits = UINT32_MAX,
        .thread = (uint32_t)i % 9,
        .lock = (uint16_t)i,
        .kind = (uint8_t)(1 + i % (TORTURE_KINDS - 1)),
        .verb = (uint8_t)(i % TORTURE_VERBS),
        .mode = (uint8_t)(i % 6),
        .flags = (uint8_t)i,
        .code = (int16_t)-i,
    };
    for (size_t c = 0; c < sizeof record.text; c++)
        record.text[c] = (char)(1 + (i * 32 + c) % 255);
    return record;
}

TEST(what_is_written_is_read)
{
    const char *path = temp_path("history");
    struct torture_writer *writer = create(path, 300);
    for (uint64_t i = 0; i < 300; i++) {
        struct torture_record record = full_record(i);
        CHECK_INT(torture_write(writer, &record), i + 1);
    }
    torture_writer_close(writer);

    struct torture_history history = read_back(path);
    check_undamaged(&history);
    CHECK_INT(history.count, 300);
    CHECK_INT(history.run, 77);
    for (uint64_t i = 0; i < 300; i++) {
        struct torture_record wanted = full_record(i), *got = &history.records[i];
        wanted.number = i + 1;
        wanted.check = got->check;
        CHECK(memcmp(got, &wanted, sizeof wanted) == 0);
    }
    torture_history_free(&history);
}

TEST(json_carries_everything)
{
    const char *path = temp_path("history"), *json = temp_path("history.jsonl");
    struct torture_writer *writer = create(path, 300);
    char error[256];
    for (uint64_t i = 0; i < 300; i++) {
        struct torture_record record = full_record(i);
        torture_write(writer, &record);
    }
    torture_writer_close(writer);

    struct torture_history history = read_back(path);
    CHECK_INT(torture_history_write_json(&history, json, error), 0);
    struct torture_history again = read_back(json);
    check_undamaged(&again);
    CHECK_INT(again.run, history.run);
    CHECK_INT(again.count, history.count);
    CHECK(memcmp(again.records, history.records, history.count * sizeof *history.records) == 0);
    torture_history_free(&history);
    torture_history_free(&again);
}

TEST(a_time_that_is_not_given_is_now)
{
    const char *path = temp_path("history");
    struct torture_writer *writer = create(path, 2);
    struct torture_record record = { .kind = TORTURE_NOTE };
    int64_t before_ns = torture_clock_ns();
    torture_write(writer, &record);
    int64_t after_ns = torture_clock_ns();
    torture_writer_close(writer);
    struct torture_history history = read_back(path);
    CHECK(history.records[0].at_ns >= before_ns && history.records[0].at_ns <= after_ns);
    torture_history_free(&history);
}

TEST(a_full_file_counts_what_it_has_no_room_for)
{
    const char *path = temp_path("history"), *json = temp_path("history.jsonl");
    struct torture_writer *writer = create(path, 3);
    struct torture_record record = { .kind = TORTURE_NOTE };
    char error[256];
    for (int i = 0; i < 8; i++)
        CHECK_INT(torture_write(writer, &record), i < 3 ? i + 1 : 0);
    torture_writer_close(writer);

    struct torture_history history = read_back(path);
    CHECK_INT(history.count, 3);
    CHECK_INT(history.dropped, 5);
    CHECK_INT(torture_history_write_json(&history, json, error), 0);
    torture_history_free(&history);
    history = read_back(json);
    CHECK_INT(history.dropped, 5);
    torture_history_free(&history);
}

TEST(a_file_that_cannot_be_made_says_why)
{
    CHECK(!torture_writer_create("/nowhere/at/all", 10, 1));
    CHECK_INT(errno, ENOENT);
    CHECK(!torture_writer_create(temp_path("history"), 0, 1));
    CHECK_INT(errno, EINVAL);
    CHECK(!torture_writer_open(temp_path("none")));
    CHECK_INT(errno, ENOENT);
    CHECK(!torture_writer_open("/dev/null"));
    CHECK_INT(errno, EBADMSG);
}

/* ---- many writers ---- */

#define WRITERS 4
#define RECORDS_EACH 20000u

static void write_many(void *path, int index)
{
    struct torture_writer *writer = torture_writer_open(path);
    CHECK(writer);
    struct torture_record record = { .kind = TORTURE_NOTE, .client = (uint32_t)index };
    for (uint64_t i = 0; i < RECORDS_EACH; i++) {
        record.operation = i;
        CHECK(torture_write(writer, &record));
    }
    torture_writer_close(writer);
}

TEST(many_processes_write_at_a_time)
{
    char path[256];
    snprintf(path, sizeof path, "%s", temp_path("history"));
    torture_writer_close(create(path, WRITERS * RECORDS_EACH));
    processes_run(WRITERS, write_many, path);

    struct torture_history history = read_back(path);
    uint64_t next[WRITERS] = { 0 };
    check_undamaged(&history);
    CHECK_INT(history.count, WRITERS * RECORDS_EACH);
    for (size_t i = 0; i < history.count; i++)
        CHECK_INT(history.records[i].operation, next[history.records[i].client]++);
    torture_history_free(&history);
}

/* ---- writers that are killed ---- */

struct victim {
    const char *path;
    uint32_t client;
    volatile uint64_t *written;
};

static void write_until_killed(void *arg)
{
    const struct victim *victim = arg;
    struct torture_writer *writer = torture_writer_open(victim->path);
    struct torture_record record = { .kind = TORTURE_CLIENT, .client = victim->client };
    CHECK(writer && torture_write(writer, &record));
    record.kind = TORTURE_NOTE;
    memset(record.text, 'x', sizeof record.text);
    while (torture_write(writer, &record))
        ++*victim->written;
    parent_wait_for("the kill");
}

#define VICTIMS 60u

/* All that a killed client has said is there, but for the record in its pen. */
TEST(a_kill_costs_one_record_at_most)
{
    const char *path = temp_path("history");
    struct torture_writer *writer = create(path, 1000 * 1000);
    struct torture_record crash = { .kind = TORTURE_CRASH };
    volatile uint64_t *written = shared_memory(sizeof *written);
    for (uint32_t i = 0; i < VICTIMS; i++) {
        struct child child;
        struct victim victim = { path, i, written };
        uint64_t before = *written;
        child_start(&child, write_until_killed, &victim);
        EVENTUALLY(*written > before + 50, 20000);
        child_kill(&child);
        crash.client = i;
        CHECK(torture_write(writer, &crash));
    }
    torture_writer_close(writer);

    struct torture_history history = read_back(path);
    check_undamaged(&history);
    CHECK(history.last_words <= VICTIMS);
    CHECK(history.count + history.last_words >= *written + 2 * VICTIMS);
    test_note("%zu records of %u killed writers, %llu kills in the middle of one", history.count,
              VICTIMS, (unsigned long long)history.last_words);
    torture_history_free(&history);
}

/* What the kill at the worst moments leaves is made here on purpose: a number, and nothing else. */
static void lose_a_record(struct torture_writer *writer)
{
    struct torture_record record = { .kind = TORTURE_NOTE };
    CHECK(torture_draw(writer, &record));
}

static void say(struct torture_writer *writer, enum torture_kind kind, uint32_t client)
{
    struct torture_record record = { .kind = (uint8_t)kind, .client = client };
    CHECK(torture_write(writer, &record));
}

static void check_gaps(const char *path, uint64_t explained, uint64_t missing)
{
    struct torture_history history = read_back(path);
    CHECK_INT(history.last_words, explained);
    CHECK_INT(history.missing, missing);
    torture_history_free(&history);
}

TEST(a_crash_explains_one_number_before_it)
{
    const char *path = temp_path("history");
    struct torture_writer *writer = create(path, 100);
    say(writer, TORTURE_CLIENT, 1);
    lose_a_record(writer);
    check_gaps(path, 0, 1);
    say(writer, TORTURE_CRASH, 1);
    check_gaps(path, 1, 0);
    lose_a_record(writer);
    check_gaps(path, 0, 2); /* more than crashes: none is believed */
    say(writer, TORTURE_CLIENT, 1);
    say(writer, TORTURE_CRASH, 1);
    check_gaps(path, 1, 1); /* the second client began after the number was drawn */
    torture_writer_close(writer);
}

TEST(a_crash_explains_a_number_of_each_thread)
{
    const char *path = temp_path("history");
    struct torture_writer *writer = create(path, 100);
    struct torture_record client = { .kind = TORTURE_CLIENT, .client = 1, .permits = 3 };
    CHECK(torture_write(writer, &client));
    for (int i = 0; i < 3; i++)
        lose_a_record(writer);
    check_gaps(path, 0, 3);
    say(writer, TORTURE_CRASH, 1);
    check_gaps(path, 3, 0);
    lose_a_record(writer);
    say(writer, TORTURE_CRASH, 1);
    check_gaps(path, 4, 0);
    say(writer, TORTURE_CLIENT, 1); /* of one thread */
    lose_a_record(writer);
    lose_a_record(writer);
    say(writer, TORTURE_CRASH, 1);
    check_gaps(path, 5, 1);
    torture_writer_close(writer);
}

TEST(two_crashes_explain_two_numbers_between_them)
{
    const char *path = temp_path("history");
    struct torture_writer *writer = create(path, 100);
    say(writer, TORTURE_CLIENT, 1);
    say(writer, TORTURE_CLIENT, 2);
    lose_a_record(writer);
    lose_a_record(writer);
    say(writer, TORTURE_CRASH, 2);
    check_gaps(path, 0, 2);
    say(writer, TORTURE_CRASH, 1);
    check_gaps(path, 2, 0);
    lose_a_record(writer);
    check_gaps(path, 0, 3);
    torture_writer_close(writer);
}
