/* SPDX-License-Identifier: Apache-2.0 */
/* What the protocol allows at best: a place, a look at the queue and the place's end, in two round
 * trips, of one caller or of many on one connection; and how soon one hears that another is gone.
 */
#include "wire.h"
#include "worker.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 192, SLOTS_MAX = 256 };

/* As long as what Curator and holdfast write. */
static const char stem[] = "_c_01234567-89ab-4def-8123-456789abcdef-lock-";
static const char note[] =
    "holdfast mutex pid=47110 lease=0 host=web1 owner=alice@web1:47110 bench";

struct bare_lock {
    struct lock lock;
    struct wire *wire;
    char path[PATH_SIZE], prefix[PATH_SIZE], node[PATH_SIZE];
};

static void make_parents(struct wire *wire, const char *path)
{
    wire_create(wire, WIRE_CREATE, "/bench", "", 0);
    wire_create(wire, WIRE_CREATE, path, "", 0);
    wire_flush(wire);
    wire_next(wire); /* they may be there */
    wire_next(wire);
}

static void prepare(struct bare_lock *lock, struct wire *wire, const char *name)
{
    lock->wire = wire;
    snprintf(lock->path, sizeof lock->path, "/bench/%s", name);
    snprintf(lock->prefix, sizeof lock->prefix, "/bench/%s/%s", name, stem);
    make_parents(wire, lock->path);
}

static struct lock *open_bare(const struct subject *subject, const char *name)
{
    struct bare_lock *lock = allocate(sizeof *lock);
    lock->lock.subject = subject;
    snprintf(lock->lock.name, sizeof lock->lock.name, "%s", name);
    prepare(lock, wire_open(worker_address), name);
    return &lock->lock;
}

static void ask_for_place(struct bare_lock *lock)
{
    wire_create(lock->wire, WIRE_CREATE2, lock->prefix, note, WIRE_PLACE);
    wire_list(lock->wire, lock->path);
}

static void take(struct lock *base)
{
    struct bare_lock *lock = (struct bare_lock *)base;
    ask_for_place(lock);
    wire_flush(lock->wire);
    struct wire_answer answer = wire_good(lock->wire);
    wire_text(&answer, lock->node, sizeof lock->node);
    wire_good(lock->wire);
}

static void give(struct lock *base)
{
    struct bare_lock *lock = (struct bare_lock *)base;
    wire_delete(lock->wire, lock->node);
    wire_flush(lock->wire);
    wire_good(lock->wire);
}

const struct subject bare = { "bare", open_bare, take, give };

/* ---- many in flight, on one connection ---- */

/* Which slot asked what, in the order of the answers. */
struct awaited {
    unsigned slot;
    enum { PLACE, QUEUE, END } what;
};

struct pipeline {
    struct wire *wire;
    struct bare_lock slots[SLOTS_MAX];
    int64_t began_ns[SLOTS_MAX];
    struct awaited awaited[3 * SLOTS_MAX];
    unsigned first, count, sample_count;
    uint64_t pairs;
    int64_t *samples;
};

static void await_answer(struct pipeline *line, unsigned slot, int what)
{
    line->awaited[(line->first + line->count++) % (3 * SLOTS_MAX)] = (struct awaited){ slot, what };
}

static void begin_slot(struct pipeline *line, unsigned slot)
{
    line->began_ns[slot] = now_ns();
    ask_for_place(&line->slots[slot]);
    await_answer(line, slot, PLACE);
    await_answer(line, slot, QUEUE);
}

static void take_answer(struct pipeline *line, bool again)
{
    struct wire_answer answer = wire_good(line->wire);
    struct awaited awaited = line->awaited[line->first];
    struct bare_lock *lock = &line->slots[awaited.slot];
    line->first = (line->first + 1) % (3 * SLOTS_MAX);
    line->count--;
    if (awaited.what == PLACE) {
        wire_text(&answer, lock->node, sizeof lock->node);
    } else if (awaited.what == QUEUE) {
        wire_delete(line->wire, lock->node);
        await_answer(line, awaited.slot, END);
    } else {
        line->pairs++;
        if (line->sample_count < SAMPLES)
            line->samples[line->sample_count++] = now_ns() - line->began_ns[awaited.slot];
        if (again)
            begin_slot(line, awaited.slot);
    }
}

/* What has arrived is answered in one go. */
static void turn(struct pipeline *line, bool again)
{
    wire_flush(line->wire);
    do
        take_answer(line, again);
    while (line->wire->in_at < line->wire->in_length && line->count > 0 &&
           line->wire->out_length < sizeof line->wire->out / 2);
}

void measure_pipeline(unsigned slots, int64_t ms)
{
    static struct pipeline *line;
    char name[64];
    if (slots == 0 || slots > SLOTS_MAX)
        die("up to %d in flight", SLOTS_MAX);
    if (!line) {
        line = allocate(sizeof *line);
        line->wire = wire_open(worker_address);
        line->samples = allocate(SAMPLES * sizeof *line->samples);
        for (unsigned i = 0; i < slots; i++) {
            snprintf(name, sizeof name, "lock:pipeline:%08u", i);
            prepare(&line->slots[i], line->wire, name);
        }
    }
    line->pairs = line->sample_count = 0;
    int64_t began_ns = now_ns(), end_ns = began_ns + ms * 1000000;
    for (unsigned i = 0; i < slots; i++)
        begin_slot(line, i);
    while (now_ns() < end_ns)
        turn(line, true);
    while (line->count > 0)
        turn(line, false);
    print_times(line->samples, line->sample_count);
    printf(" pairs=%llu ns=%lld", (unsigned long long)line->pairs,
           (long long)(now_ns() - began_ns));
}

/* ---- one deletes, the other hears of it and looks ---- */

void measure_telling(int64_t ms)
{
    int64_t *samples = allocate(SAMPLES * sizeof *samples), end_ns = now_ns() + ms * 1000000;
    unsigned count = 0;
    struct bare_lock *giver = (struct bare_lock *)open_bare(&bare, "lock:telling");
    struct wire *hearer = wire_open(worker_address);
    while (now_ns() < end_ns && count < SAMPLES) {
        take(&giver->lock);
        wire_watch(hearer, giver->node);
        wire_flush(hearer);
        wire_good(hearer);
        pause_us(SETTLE_US);
        int64_t before_ns = now_ns();
        wire_delete(giver->wire, giver->node);
        wire_flush(giver->wire);
        if (wire_next(hearer).xid != WIRE_EVENT)
            die("an answer that nobody asked for");
        wire_list(hearer, giver->path);
        wire_flush(hearer);
        wire_good(hearer);
        samples[count++] = now_ns() - before_ns;
        wire_good(giver->wire);
    }
    print_times(samples, count);
    free(samples);
}
