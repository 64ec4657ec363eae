/* SPDX-License-Identifier: Apache-2.0 */
/* Who turns the loop of a client that has a thread: it, or who calls while it is parked. */
#include "core/claim/claim_compact.h"

#include "loop_owner_fixture.h"

/* ---- the calling thread takes the place of a parked one ---- */

TEST(a_lone_caller_does_not_wake_the_parked_thread)
{
    begin_with(FOR_EVER_MS);
    have_the_wheel();
    hf__uv_loop_push(fixture.client, true);
    long before = switches_of_others();
    for (int i = 0; i < 1000; i++)
        lock_and_unlock("one");
    for (int i = 0; i < 1000; i++)
        hf_unlock_nowait(take("one"));
    /* It may just have been falling asleep, and a sanitizer may have a thread of its own. */
    CHECK(switches_of_others() - before < 600 * test_slow());
    hf_close(fixture.client);
}

/* ---- an engine whose answers come by a descriptor, one at a time ---- */

static struct late {
    uv_async_t comes;
    struct hf_op *op;
    enum hf_verdict verdict;
    _Atomic unsigned read;
} late;

static void answer_comes(uv_async_t *handle)
{
    (void)handle;
    late.read++;
    fixture_answer(late.op, late.verdict);
}

static void answer_late(struct hf_op *op, enum hf_verdict verdict)
{
    late.op = op;
    late.verdict = verdict;
    uv_async_send(&late.comes);
}

static void answer_by_descriptor(void)
{
    have_the_wheel();
    CHECK_INT(uv_async_init(fixture.client->host.uv, &late.comes, answer_comes), 0);
    fixture.answer_by = answer_late;
    hf__uv_loop_push(fixture.client, true);
}

/* Whatever comes to rest is set aside, as with very many locks. */
TEST(a_lone_caller_with_many_locks_does_not_wake_it_either)
{
    begin_with(FOR_EVER_MS);
    answer_by_descriptor();
    fixture.leases = fixture.sets_aside = true;
    hf__compact_bounds.resting = 0;
    take("held");
    long before = switches_of_others();
    for (int i = 0; i < 1000; i++)
        lock_and_unlock("one");
    for (int i = 0; i < 5000; i++)
        hf_unlock_nowait(take("one"));
    CHECK(switches_of_others() - before < 600 * test_slow());
    hf_close(fixture.client);
}

/* Gives back without waiting while the thread is parked. True: when it parks again, it has read the
 * answer. */
static bool reads_before_it_parks_again(void)
{
    const struct hf_loop_owner *wheel = &fixture.client->drive->wheel;
    hf_hold *hold = take("one");
    have_the_wheel();
    hf__uv_loop_push(fixture.client, true);
    unsigned before = late.read;
    hf_unlock_nowait(hold);
    int64_t parked_until_ms = wheel->wakes_at_ms;
    int64_t limit_ms = monotonic_ms() + SOON_MS * test_slow();
    while (late.read == before && wheel->wakes_at_ms == parked_until_ms)
        CHECK(monotonic_ms() < limit_ms);
    return late.read != before;
}

/* It may look at its clock just while the wheel is not there to be had, and then seems to have
 * parked again; hardly ever. */
TEST(between_two_parks_the_thread_reads_what_has_come)
{
    enum { ROUNDS = 11 };
    int read = 0;
    begin_with(20);
    answer_by_descriptor();
    for (int i = 0; i < ROUNDS; i++)
        read += reads_before_it_parks_again();
    CHECK(read > ROUNDS / 2);
    hf_close(fixture.client);
}

static bool is_asked_by_another(void)
{
    lock_and_unlock("one");
    return !pthread_equal(asked_by, pthread_self());
}

/* Between two calls there is time enough to park, and none to come back. */
TEST(the_thread_comes_back_when_nobody_calls)
{
    begin_with(50);
    fixture.client->on_point = note_thread;
    for (int i = 0; i < 5; i++) {
        EVENTUALLY(!is_asked_by_another(), SOON_MS);
        EVENTUALLY((let_pass_ms(200), is_asked_by_another()), SOON_MS);
    }
    hf_close(fixture.client);
}

TEST(who_does_not_wait_is_not_kept_at_a_point)
{
    begin_with(FOR_EVER_MS);
    hf_hold *hold = take("one");
    have_the_wheel();
    hf__uv_loop_push(fixture.client, true);
    fixture.client->on_point = note_thread;
    released_by = 0;
    hf_unlock_nowait(hold);
    EVENTUALLY(released_by != 0, SOON_MS);
    CHECK(!pthread_equal(released_by, pthread_self()));
    hf_close(fixture.client);
}
