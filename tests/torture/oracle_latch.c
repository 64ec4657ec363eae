/* SPDX-License-Identifier: Apache-2.0 */
/* The exhaustive search for latches: every order in which the countdowns may have counted. */
#include "oracle.h"

struct countdown {
    uint64_t begun, done; /* done: UINT64_MAX if it may never have counted */
    uint32_t weight;
};

struct look {
    uint64_t begun, done;
    bool open;
};

struct latch {
    struct countdown countdowns[STORY_CALLS];
    struct look looks[STORY_CALLS];
    unsigned countdown_count, look_count;
    uint64_t permits, last;
};

static const struct torture_record *answer_to(const struct torture_record *records, size_t count,
                                              size_t invoke)
{
    for (size_t i = invoke + 1; i < count; i++)
        if (records[i].operation == records[invoke].operation)
            return &records[i];
    return NULL;
}

static void read_call(struct latch *latch, const struct torture_record *invoke,
                      const struct torture_record *answer)
{
    if (invoke->verb == TORTURE_COUNT_DOWN) {
        bool counted = answer && answer->kind == TORTURE_OK;
        latch->countdowns[latch->countdown_count++] =
            (struct countdown){ invoke->number, counted ? answer->number : UINT64_MAX,
                                invoke->permits };
    } else if (answer) {
        latch->looks[latch->look_count++] =
            (struct look){ invoke->number, answer->number, answer->kind == TORTURE_OK };
    }
}

/* Within one stretch between two records, each set of countdowns may come about, and looks may see
 * any count on the way. `seen` are the looks that are explained. */
static bool explain(const struct latch *latch, uint64_t now, unsigned counted, unsigned seen);

static uint64_t sum_of(const struct latch *latch, unsigned counted)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < latch->countdown_count; i++)
        sum += counted >> i & 1 ? latch->countdowns[i].weight : 0;
    return sum;
}

static unsigned look_now(const struct latch *latch, uint64_t now, unsigned counted, unsigned seen)
{
    bool open = sum_of(latch, counted) >= latch->permits;
    for (unsigned i = 0; i < latch->look_count; i++)
        if (latch->looks[i].begun <= now && now < latch->looks[i].done &&
            latch->looks[i].open == open)
            seen |= 1u << i;
    return seen;
}

static bool is_due(const struct latch *latch, uint64_t number, unsigned counted, unsigned seen)
{
    for (unsigned i = 0; i < latch->countdown_count; i++)
        if (latch->countdowns[i].done == number && !(counted >> i & 1))
            return true;
    for (unsigned i = 0; i < latch->look_count; i++)
        if (latch->looks[i].done == number && !(seen >> i & 1))
            return true;
    return false;
}

static bool explain(const struct latch *latch, uint64_t now, unsigned counted, unsigned seen)
{
    if (now > latch->last)
        return true;
    seen = look_now(latch, now, counted, seen);
    if (!is_due(latch, now + 1, counted, seen) && explain(latch, now + 1, counted, seen))
        return true;
    for (unsigned i = 0; i < latch->countdown_count; i++) {
        const struct countdown *countdown = &latch->countdowns[i];
        if (!(counted >> i & 1) && countdown->begun <= now && now < countdown->done &&
            explain(latch, now, counted | 1u << i, seen))
            return true;
    }
    return false;
}

bool oracle_allows_latch(const struct torture_record *records, size_t count)
{
    struct latch latch = { .permits = records[0].permits, .last = count };
    for (size_t i = 0; i < count; i++)
        if (records[i].kind == TORTURE_INVOKE)
            read_call(&latch, &records[i], answer_to(records, count, i));
    return explain(&latch, 1, 0, 0);
}
