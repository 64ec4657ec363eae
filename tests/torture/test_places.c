/* SPDX-License-Identifier: Apache-2.0 */
/* Who is where in a queue, as sync points tell it on another thread while calls come and go. */
#include "torture/workload/workload.h"

#include "test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* Each round finds what is wrong five times out of six. */
enum { ROUNDS = 5, CALLS = 4000, POINTS = 8, ROOM = 20 * CALLS };

static struct torture_client client = { .wait.mutex = PTHREAD_MUTEX_INITIALIZER };
static _Atomic uint64_t current;
static _Atomic bool over;

/* The library's thread: a few points a call, so that the file does not fill. */
static void pass_points(void *arg)
{
    uint64_t last = 0;
    unsigned passed = 0;
    (void)arg;
    while (!over) {
        uint64_t call = current;
        if (call != last)
            passed = 0;
        last = call;
        if (passed < POINTS)
            torture_at_point(&client, passed % 2 ? "displaced" : "queued");
        else
            sched_yield();
        passed++;
    }
}

static uint64_t owner_of(uint64_t call)
{
    return call * 3;
}

static uint16_t lock_of(uint64_t call)
{
    return (uint16_t)(call % 7 + 1);
}

static void write_edge(uint64_t call, enum torture_kind kind)
{
    struct torture_record record = { .kind = (uint8_t)kind,
                                     .verb = TORTURE_ACQUIRE,
                                     .operation = call,
                                     .owner = owner_of(call),
                                     .lock = lock_of(call) };
    CHECK(torture_write(client.writer, &record) > 0);
}

static void make_call(uint64_t call)
{
    struct torture_record record = { .operation = call,
                                     .owner = owner_of(call),
                                     .lock = lock_of(call) };
    write_edge(call, TORTURE_INVOKE);
    torture_wait_begin(&client, &record);
    current = call;
    for (unsigned i = 0; i < call % 16; i++)
        sched_yield();
    torture_wait_end(&client);
    write_edge(call, TORTURE_REFUSED);
}

static void check_history(const char *path)
{
    struct torture_history history;
    char error[256] = "";
    uint64_t call = 0;
    if (torture_history_read(&history, path, error) != 0)
        FAIL("%s", error);
    CHECK_INT(history.dropped, 0);
    for (size_t i = 0; i < history.count; i++) {
        const struct torture_record *record = &history.records[i];
        if (record->kind == TORTURE_INVOKE)
            call = record->operation;
        CHECK_INT(record->operation, call);
        CHECK_INT(record->owner, owner_of(call));
        CHECK_INT(record->lock, lock_of(call));
        if (record->kind == TORTURE_REFUSED)
            call = 0;
    }
    torture_history_free(&history);
    CHECK_INT(remove(path), 0);
}

static void begin(char path[256], uint64_t room)
{
    static const struct torture_plan plan = { 0 };
    snprintf(path, 256, "%s/history", temp_dir());
    client.plan = &plan;
    client.arena = calloc(1, sizeof *client.arena);
    client.writer = torture_writer_create(path, room, 1);
    CHECK(client.arena && client.writer);
}

static void end(void)
{
    torture_writer_close(client.writer);
    free(client.arena);
}

static void make_calls(void)
{
    char path[256];
    struct thread thread;
    begin(path, ROOM);
    over = false;
    thread_start(&thread, pass_points, NULL);
    for (uint64_t call = 1; call <= CALLS; call++)
        make_call(call);
    over = true;
    thread_join(&thread);
    end();
    check_history(path);
}

TEST(a_place_is_of_the_call_that_is_under_way)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        make_calls();
}

TEST(a_place_is_noted_once_until_it_is_lost)
{
    struct torture_history history;
    char path[256], error[256];
    begin(path, 16);
    torture_wait_begin(&client, &(struct torture_record){ .operation = 1, .lock = 1 });
    static const char *const points[] = { "queued", "before_ask", "queued", "displaced", "queued" };
    for (unsigned i = 0; i < sizeof points / sizeof points[0]; i++)
        torture_at_point(&client, points[i]);
    torture_wait_end(&client);
    torture_at_point(&client, "queued");
    end();
    CHECK_INT(torture_history_read(&history, path, error), 0);
    CHECK_INT(history.count, 3);
    CHECK_INT(history.records[0].flags, 0);
    CHECK_INT(history.records[1].flags, TORTURE_DISPLACED);
    CHECK_INT(history.records[2].flags, 0);
    torture_history_free(&history);
}
