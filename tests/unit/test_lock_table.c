/* SPDX-License-Identifier: Apache-2.0 */
/* The entry: who may nest in what, whose turn it is, and memory that is used again. */
#include "core/table/lock_table.h"

#include "base/testing.h"
#include "fixture.h"

#include <stdio.h>
#include <string.h>

enum { NESTS, ASKS, RAISES, DEADLOCK, KIND };

/* clang-format off */
static const struct {
    hf_mode held, asked;
    int outcome;
} matrix[] = {
    { HF_MUTEX,   HF_MUTEX,   NESTS },    { HF_MUTEX,   HF_FAIR,    KIND },
    { HF_MUTEX,   HF_READ,    KIND },     { HF_MUTEX,   HF_WRITE,   KIND },
    { HF_FAIR,    HF_FAIR,    NESTS },    { HF_FAIR,    HF_MUTEX,   KIND },
    { HF_FAIR,    HF_UPGRADE, KIND },     { HF_READ,    HF_MUTEX,   KIND },
    { HF_READ,    HF_READ,    NESTS },    { HF_READ,    HF_UPGRADE, DEADLOCK },
    { HF_READ,    HF_WRITE,   DEADLOCK }, { HF_UPGRADE, HF_READ,    NESTS },
    { HF_UPGRADE, HF_UPGRADE, NESTS },    { HF_UPGRADE, HF_WRITE,   RAISES },
    { HF_WRITE,   HF_READ,    NESTS },    { HF_WRITE,   HF_UPGRADE, NESTS },
    { HF_WRITE,   HF_WRITE,   NESTS },    { HF_PERMIT,  HF_PERMIT,  ASKS },
};
/* clang-format on */

static void check_pair(unsigned i)
{
    char name[16];
    snprintf(name, sizeof name, "name/%u", i);
    CHECK_INT(fixture_take(name, matrix[i].held, 7, HF_FOREVER, NULL), HF_OK);
    hf_hold *outer = fixture.hold;
    unsigned before = fixture.attempts;
    int code = fixture_take(name, matrix[i].asked, 7, HF_FOREVER, NULL);
    bool same = fixture.hold && fixture.hold->grant->claim == outer->grant->claim;
    int got = code == HF_EDEADLK                               ? DEADLOCK
              : code == HF_EKIND                               ? KIND
              : code != HF_OK                                  ? -1
              : same && fixture.attempts == before             ? NESTS
              : same && hf_hold_mode(fixture.hold) == HF_WRITE ? RAISES
                                                               : ASKS;
    if (got != matrix[i].outcome)
        FAIL("mode %d in mode %d: outcome %d, not %d", (int)matrix[i].asked, (int)matrix[i].held,
             got, matrix[i].outcome);
}

TEST(who_may_nest_in_what)
{
    fixture_begin();
    for (unsigned i = 0; i < sizeof matrix / sizeof *matrix; i++)
        check_pair(i);
}

TEST(another_owner_does_not_nest)
{
    fixture_begin();
    CHECK_INT(fixture_take("a", HF_MUTEX, 7, HF_FOREVER, NULL), HF_OK);
    CHECK_INT(fixture_take("a", HF_MUTEX, 8, HF_FOREVER, NULL), HF_OK);
    CHECK_INT(fixture.attempts, 2);
}

TEST(the_last_unlock_gives_back)
{
    fixture_begin();
    hf_hold *holds[3];
    for (int i = 0; i < 3; i++) {
        CHECK_INT(fixture_take("a", HF_MUTEX, 7, HF_FOREVER, NULL), HF_OK);
        holds[i] = fixture.hold;
    }
    CHECK_INT(hf_unlock(holds[1]), HF_OK);
    CHECK_INT(hf_unlock(holds[0]), HF_OK);
    CHECK_INT(fixture.releases, 0);
    CHECK_INT(hf_unlock(holds[2]), HF_OK);
    CHECK_INT(fixture.releases, 1);
    CHECK_INT(fixture.last_keep, HF_KEEP_NOTHING);
}

TEST(only_the_head_asks)
{
    fixture_begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    for (uint64_t owner = 1; owner <= 5; owner++)
        fixture_take("a", HF_MUTEX, owner, HF_FOREVER, NULL);
    CHECK_INT(fixture.attempts, 1);
    CHECK_INT(fixture.last_attempt->in.owner, 1);
    for (uint64_t owner = 1; owner <= 5; owner++) {
        struct hf_op *op = fixture.last_attempt;
        CHECK_INT(op->in.owner, owner);
        op->out.verdict = HF_GRANTED;
        hf__op_done(&fixture.engine, op);
        fixture_turn();
        CHECK_INT(fixture.answers, owner);
    }
    CHECK_INT(fixture.attempts, 5);
}

TEST(a_bare_try_takes_nobodys_turn)
{
    fixture_begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, NULL);
    fixture.attempt_verdict = HF_REFUSED;
    CHECK_INT(fixture_take("a", HF_MUTEX, 2, 0, NULL), HF_BUSY);
    CHECK_INT(fixture.attempts, 2);
    CHECK_INT(fixture.releases, 0);
}

TEST(an_old_request_reaches_nobody)
{
    fixture_begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    hf_request first = 0, second = 0;
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, &first);
    hf_cancel(fixture.client, first);
    fixture_turn();
    CHECK_INT(fixture.code, HF_CANCELED);
    struct hf_op *op = fixture.last_attempt;
    op->out.verdict = HF_REFUSED;
    hf__op_done(&fixture.engine, op);
    fixture_turn();
    CHECK_INT(fixture.releases, 1);
    fixture_take("a", HF_MUTEX, 1, HF_FOREVER, &second);
    CHECK(first != 0 && second != 0 && first != second);
    CHECK_INT(fixture.answers, 1);
    hf_cancel(fixture.client, first);
    hf_cancel(fixture.client, 0);
    hf_cancel(fixture.client, UINT64_MAX);
    fixture_turn();
    CHECK_INT(fixture.answers, 1);
}

TEST(request_that_is_canceled_before_it_starts_asks_nothing_of_the_store)
{
    fixture_begin();
    fixture.attempt_verdict = HF_NO_ANSWER;
    hf_request request = 0;
    CHECK_INT(fixture_ask("a", HF_MUTEX, 1, HF_FOREVER, &request), HF_OK);
    hf_cancel(fixture.client, request);
    fixture_turn();
    CHECK_INT(fixture.attempts, 0);
    CHECK_INT(fixture.answers, 1);
    CHECK_INT(fixture.code, HF_CANCELED);
}

static unsigned allocations;

static bool count_allocation(size_t size)
{
    (void)size;
    allocations++;
    return true;
}

TEST(warm_pools_allocate_nothing)
{
    fixture_begin();
    for (int i = 0; i < 2000; i++) {
        if (i == 100)
            hf__alloc_hook = count_allocation;
        CHECK_INT(fixture_take(i % 2 ? "a" : "b", HF_MUTEX, 7, HF_FOREVER, NULL), HF_OK);
        CHECK_INT(hf_unlock(fixture.hold), HF_OK);
    }
    hf__alloc_hook = NULL;
    CHECK_INT(allocations, 0);
}

TEST(gates_of_many_names_come_and_go)
{
    enum { NAMES = 5000 };
    static hf_hold *holds[NAMES];
    char name[16];
    fixture_begin();
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "name/%u", i);
        CHECK_INT(fixture_take(name, HF_MUTEX, 7, HF_FOREVER, NULL), HF_OK);
        holds[i] = fixture.hold;
    }
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "name/%u", i);
        CHECK_STR(hf_hold_name(holds[i]), name);
        CHECK_INT(hf_unlock(holds[i]), HF_OK);
    }
    for (unsigned s = 0; s < HF_SHARDS; s++)
        CHECK_INT(fixture.client->shards[s].entry_count, 0);
}

static size_t allocated;

static bool add_up(size_t size)
{
    allocated += size;
    return true;
}

/* What the core takes for a lock with a lease of its own, its name and its place in the tables. */
TEST(a_held_lock_takes_few_bytes)
{
    enum { LOCKS = 60000, BYTES_MAX = 256 };
    char name[24];
    fixture_begin();
    fixture.leases = fixture.sets_aside = true;
    hf__alloc_hook = add_up;
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "lock:order:%08u", i);
        CHECK_INT(fixture_take(name, HF_MUTEX, i + 1, HF_FOREVER, NULL), HF_OK);
    }
    hf__alloc_hook = NULL;
    if (allocated / LOCKS > BYTES_MAX)
        FAIL("a held lock takes %zu bytes, not %d", allocated / LOCKS, BYTES_MAX);
}

TEST(names_of_any_length_have_room)
{
    char name[HF_NAME_MAX + 1];
    fixture_begin();
    for (size_t length = 1; length <= HF_NAME_MAX; length++) {
        memset(name, 'a' + (int)(length % 26), length);
        name[length] = 0;
        CHECK_INT(fixture_take(name, HF_MUTEX, 7, HF_FOREVER, NULL), HF_OK);
        CHECK_STR(hf_hold_name(fixture.hold), name);
        if (length % 3 == 0)
            CHECK_INT(hf_unlock(fixture.hold), HF_OK);
    }
}
