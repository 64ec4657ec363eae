/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded engine's guards and undo journal. */
#include "../crash/state.h"
#include "base/testing.h"
#include "test.h"

#include <setjmp.h>

static struct local *local;
static struct txn visit;

static void enter(const char *name)
{
    hf_error *error = NULL;
    CHECK_INT(hf__txn_name(&visit, local, name, (uint32_t)strlen(name), 77, true, &error), HF_OK);
    CHECK(visit.lock != NULL);
}

static void begin(void)
{
    local = state_open(temp_dir());
    enter("name");
}

static void end(void)
{
    hf__txn_leave(&visit);
    state_close(local);
}

/* What a process leaves that is killed here: the guard, with a number that nobody has. */
static void die_inside(void)
{
    uint64_t dead = (UINT64_C(999) << LOCAL_SESSION_BITS) | 5;
    atomic_store(&visit.lock->guard, dead);
}

TEST(a_committed_change_stays)
{
    begin();
    hf__txn_set(&visit, &visit.lock->numbers, 5);
    hf__txn_commit(&visit);
    die_inside();
    enter("name");
    CHECK_INT(local_get(&visit.lock->numbers), 5);
    end();
}

TEST(a_change_without_commit_is_undone)
{
    begin();
    hf__txn_set(&visit, &visit.lock->numbers, 5);
    hf__txn_commit(&visit);
    hf__txn_set(&visit, &visit.lock->numbers, 6);
    hf__txn_set(&visit, &visit.lock->token, 9);
    hf__txn_set(&visit, &visit.lock->numbers, 7);
    die_inside();
    enter("name");
    CHECK_INT(local_get(&visit.lock->numbers), 5);
    CHECK_INT(local_get(&visit.lock->token), 0);
    CHECK_INT(atomic_load(&visit.lock->journal_count), 0);
    end();
}

/* ---- a death at each point of a change ---- */

static jmp_buf dead;
static unsigned left;

static void die(const char *name)
{
    (void)name;
    if (left-- == 1)
        longjmp(dead, 1);
}

/* False: it was over before that point. */
static bool dies_at(unsigned point)
{
    left = point;
    hf__point_hook = die;
    bool survived = !setjmp(dead);
    if (survived) {
        hf__txn_set(&visit, &visit.lock->numbers, 5);
        hf__txn_set(&visit, &visit.lock->token, 6);
        hf__txn_set(&visit, &visit.lock->numbers, 7);
        hf__txn_commit(&visit);
    }
    hf__point_hook = NULL;
    return !survived;
}

TEST(whenever_it_dies_all_or_nothing_is_changed)
{
    begin();
    unsigned points = 0, done = 0;
    while (dies_at(points + 1)) {
        points++;
        die_inside();
        enter("name");
        bool all = local_get(&visit.lock->numbers) == 7;
        done += all;
        CHECK_INT(local_get(&visit.lock->numbers), all ? 7 : 0);
        CHECK_INT(local_get(&visit.lock->token), all ? 6 : 0);
        CHECK_INT(atomic_load(&visit.lock->journal_count), 0);
        local_put(&visit.lock->numbers, 0);
        local_put(&visit.lock->token, 0);
    }
    CHECK_INT(points, 11);
    CHECK_INT(done, 1);
    end();
}

TEST(an_entry_whose_word_was_not_changed_yet_does_no_harm)
{
    begin();
    hf__txn_set(&visit, &visit.lock->token, 4);
    hf__txn_commit(&visit);
    hf__txn_set(&visit, &visit.lock->token, 4);
    die_inside();
    enter("name");
    CHECK_INT(local_get(&visit.lock->token), 4);
    end();
}

TEST(a_change_of_too_many_words_is_undone_and_reported)
{
    begin();
    hf__txn_set(&visit, &visit.lock->numbers, 1);
    for (unsigned i = 0; i < LOCAL_JOURNAL; i++)
        hf__txn_set(&visit, &visit.lock->token, i);
    CHECK(visit.damaged);
    hf__txn_commit(&visit);
    CHECK_INT(local_get(&visit.lock->numbers), 0);
    CHECK_INT(local_get(&visit.lock->token), 0);
    end();
}

TEST(a_journal_that_points_elsewhere_is_damage)
{
    begin();
    hf__txn_set(&visit, &visit.lock->numbers, 1);
    visit.lock->journal_word[0] = 1;
    die_inside();
    enter("name");
    CHECK(visit.damaged);
    visit.lock->journal_count = LOCAL_JOURNAL + 1;
    die_inside();
    enter("name");
    CHECK(visit.damaged);
    CHECK_INT(atomic_load(&visit.lock->journal_count), 0);
    end();
}

TEST(a_guard_is_not_taken_from_one_who_lives)
{
    begin();
    struct txn second;
    CHECK(!hf__txn_try(&second, local, visit.reference));
    uint32_t reference = visit.reference;
    hf__txn_leave(&visit);
    CHECK(hf__txn_try(&second, local, reference));
    hf__txn_leave(&second);
    state_close(local);
}
