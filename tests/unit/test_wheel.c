/* Who turns the loop of a client that has a thread: it, or who calls while it is parked. A parked
 * thread that nobody calls would stay so for as long as the test sets, which is for ever. */
#include "core/aside.h"
#include "core/borrow.h"

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SOON_MS 20000
#define FOR_EVER_MS 3600000
#define OWNER 7 /* of requests */

/* libuv has a pipe for signals, once a process. */
__attribute__((constructor)) static void keep_descriptors(void)
{
    test_fds_kept = 2;
}

static hf_hold *take_as(const char *name, uint64_t owner)
{
    hf_hold *hold = NULL;
    hf_lock_options options = { HF_LOCK_OPTIONS_INIT, .owner = owner };
    CHECK_INT(hf_lock(fixture.client, name, HF_FOREVER, &options, &hold), HF_OK);
    return hold;
}

static hf_hold *take(const char *name)
{
    return take_as(name, 0);
}

static void lock_and_unlock(const char *name)
{
    CHECK_INT(hf_unlock(take(name)), HF_OK);
}

static void begin_with(int64_t grace_ms)
{
    hf__wheel_grace_ms = grace_ms;
    fixture_begin_threaded();
}

/* Calls until the loop is to be had, and then has it: what is posted wakes nobody. */
static void have_the_wheel(void)
{
    for (int64_t until = monotonic_ms() + SOON_MS * test_slow(); monotonic_ms() < until;) {
        lock_and_unlock("warm");
        if (hf__drive_begin_push(fixture.client))
            return;
    }
    FAIL("still not so: the thread has parked");
}

struct answer {
    _Atomic int calls;
    _Atomic pthread_t thread;
    hf_hold *_Atomic hold;
};

static void keep_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct answer *answer = arg;
    (void)error;
    CHECK_INT(code, HF_OK);
    answer->hold = hold;
    answer->thread = pthread_self();
    answer->calls++;
}

static void keep_loss(void *arg, const hf_loss *loss)
{
    struct answer *answer = arg;
    CHECK_STR(loss->name, "leased");
    answer->thread = pthread_self();
    answer->calls++;
}

static void request(struct answer *answer, const char *name)
{
    hf_lock_options options = { HF_LOCK_OPTIONS_INIT, .owner = OWNER };
    CHECK_INT(hf_lock_async(fixture.client, name, HF_FOREVER, &options, keep_answer, answer, NULL),
              HF_OK);
}

static hf_hold *take_leased(struct answer *loss, int64_t lease_ms)
{
    hf_hold *hold = NULL;
    hf_lock_options options = { HF_LOCK_OPTIONS_INIT, .lease_ms = lease_ms, .on_lost = keep_loss,
                                .lost_arg = loss };
    fixture.leases = true;
    CHECK_INT(hf_lock(fixture.client, "leased", HF_FOREVER, &options, &hold), HF_OK);
    fixture.leases = false;
    return hold;
}

/* ---- the calling thread takes the place of a parked one ---- */

TEST(a_lone_caller_does_not_wake_the_parked_thread)
{
    begin_with(FOR_EVER_MS);
    have_the_wheel();
    hf__drive_push(fixture.client, true);
    long before = switches_of_others();
    for (int i = 0; i < 1000; i++)
        lock_and_unlock("one");
    for (int i = 0; i < 1000; i++)
        hf_unlock_nowait(take("one"));
    /* It may just have been falling asleep, and a sanitizer may have a thread of its own. */
    CHECK(switches_of_others() - before < 200);
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
    hf__drive_push(fixture.client, true);
}

/* Whatever comes to rest is set aside, as with very many locks. */
TEST(a_lone_caller_with_many_locks_does_not_wake_it_either)
{
    begin_with(FOR_EVER_MS);
    answer_by_descriptor();
    fixture.leases = fixture.sets_aside = true;
    hf__aside_bounds.resting = 0;
    take("held");
    long before = switches_of_others();
    for (int i = 0; i < 1000; i++)
        lock_and_unlock("one");
    for (int i = 0; i < 5000; i++)
        hf_unlock_nowait(take("one"));
    CHECK(switches_of_others() - before < 200);
    hf_close(fixture.client);
}

/* Gives back without waiting while the thread is parked. True: when it parks again, it has read the
 * answer. */
static bool reads_before_it_parks_again(void)
{
    const struct hf_wheel *wheel = &fixture.client->drive->wheel;
    hf_hold *hold = take("one");
    have_the_wheel();
    hf__drive_push(fixture.client, true);
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

static _Atomic pthread_t asked_by, renewed_by, released_by;

static void note_thread(void *arg, const char *point, const char *name)
{
    (void)arg, (void)name;
    if (strcmp(point, "before_ask") == 0)
        asked_by = pthread_self();
    if (strcmp(point, "before_renew") == 0)
        renewed_by = pthread_self();
    if (strcmp(point, "before_release") == 0)
        released_by = pthread_self();
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
    hf__drive_push(fixture.client, true);
    fixture.client->on_point = note_thread;
    released_by = 0;
    hf_unlock_nowait(hold);
    EVENTUALLY(released_by != 0, SOON_MS);
    CHECK(!pthread_equal(released_by, pthread_self()));
    hf_close(fixture.client);
}

/* ---- what the program is told runs on the client's thread ---- */

TEST(who_turns_the_loop_in_its_place_runs_no_callback_of_a_request)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 50; i++) {
        /* The second one re-enters, so it is not asked for. */
        for (int nested = 0; nested < 2; nested++) {
            struct answer answer = { 0 };
            hf_hold *hold = nested ? take_as("one", OWNER) : NULL;
            have_the_wheel();
            request(&answer, "one");
            hf__drive_push(fixture.client, true);
            EVENTUALLY(answer.calls == 1, SOON_MS);
            CHECK(!pthread_equal(answer.thread, pthread_self()));
            CHECK_INT(hf_unlock(answer.hold), HF_OK);
            CHECK_INT(hf_unlock(hold), HF_OK);
        }
    }
    hf_close(fixture.client);
}

static void note_end(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)hold, (void)error;
    CHECK_INT(code, HF_CANCELED);
    keep_answer(arg, HF_OK, NULL, NULL);
}

/* However many calls in a row meet no other. */
TEST(the_thread_does_not_park_while_a_request_is_out)
{
    struct answer answer = { 0 };
    hf_request asked;
    begin_with(FOR_EVER_MS);
    fixture.attempt_verdict = HF_REFUSED;
    CHECK_INT(hf_lock_async(fixture.client, "one", HF_FOREVER, NULL, note_end, &answer, &asked),
              HF_OK);
    for (int i = 0; i < 100; i++)
        CHECK_INT(hf_counter_set(fixture.client, "counter", 1), HF_OK);
    CHECK(!hf__drive_begin_push(fixture.client));
    hf_cancel(fixture.client, asked);
    EVENTUALLY(answer.calls == 1, SOON_MS);
    CHECK(!pthread_equal(answer.thread, pthread_self()));
    fixture.attempt_verdict = HF_GRANTED;
    have_the_wheel();
    hf__drive_push(fixture.client, true);
    hf_close(fixture.client);
}

TEST(who_turns_the_loop_in_its_place_runs_no_on_lost)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 10; i++) {
        struct answer loss = { 0 };
        hf_hold *hold = take_leased(&loss, 20);
        have_the_wheel();
        let_pass_ms(21);
        hf__drive_push(fixture.client, true);
        CHECK(!hf_held(hold));
        EVENTUALLY(loss.calls == 1, SOON_MS);
        CHECK(!pthread_equal(loss.thread, pthread_self()));
        CHECK_INT(hf_unlock(hold), HF_LOST);
    }
    hf_close(fixture.client);
}

/* ---- what is due while the thread is parked ---- */

/* The lease is over earlier than the parked thread would look. */
TEST(a_lease_that_a_caller_has_brought_ends_in_time)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 10; i++) {
        struct answer loss = { 0 };
        have_the_wheel();
        hf__drive_push(fixture.client, true);
        hf_hold *hold = take_leased(&loss, 20);
        EVENTUALLY(loss.calls == 1, SOON_MS);
        CHECK_INT(hf_unlock(hold), HF_LOST);
    }
    hf_close(fixture.client);
}

TEST(a_lease_that_is_there_when_the_thread_parks_ends_in_time)
{
    begin_with(FOR_EVER_MS);
    for (int i = 0; i < 10; i++) {
        struct answer loss = { 0 };
        hf_hold *hold = take_leased(&loss, 100);
        have_the_wheel();
        hf__drive_push(fixture.client, true);
        EVENTUALLY(loss.calls == 1, SOON_MS);
        CHECK_INT(hf_unlock(hold), HF_LOST);
    }
    hf_close(fixture.client);
}

/* ---- who waits for long ---- */

struct waiter {
    struct thread thread;
    _Atomic int code;
};

static void wait_in_vain(void *arg)
{
    struct waiter *waiter = arg;
    hf_hold *hold = NULL;
    waiter->code = hf_lock(fixture.client, "contended", HF_FOREVER, NULL, &hold);
}

/* Lets another thread wait for a lock, with the loop in its hands if it comes to have it. */
static void wait_beside(struct waiter *waiter)
{
    have_the_wheel();
    fixture.client->on_point = note_thread;
    hf__drive_push(fixture.client, true);
    unsigned attempts = fixture.attempts;
    fixture.attempt_verdict = HF_REFUSED;
    waiter->code = -1;
    thread_start(&waiter->thread, wait_in_vain, waiter);
    EVENTUALLY(fixture.attempts > attempts, SOON_MS);
}

static pthread_t thread_of_the_client(void)
{
    struct answer answer = { 0 };
    request(&answer, "whose");
    EVENTUALLY(answer.calls == 1, SOON_MS);
    CHECK_INT(hf_unlock(answer.hold), HF_OK);
    return answer.thread;
}

TEST(closing_ends_a_call_that_turns_the_loop)
{
    for (int i = 0; i < 10; i++) {
        struct waiter waiter;
        begin_with(FOR_EVER_MS);
        wait_beside(&waiter);
        hf_close(fixture.client);
        thread_join(&waiter.thread);
        CHECK_INT(waiter.code, HF_ECLOSED);
    }
}

TEST(the_thread_renews_what_is_held_again_when_a_caller_waits_for_long)
{
    struct waiter waiter;
    begin_with(2);
    pthread_t mine = thread_of_the_client();
    /* Long enough for a machine that stands still for a while. */
    fixture.lease_ms = 3000;
    fixture.leases = true;
    take("leased");
    fixture.leases = false;
    wait_beside(&waiter);
    EVENTUALLY(renewed_by && pthread_equal(renewed_by, mine), SOON_MS);
    CHECK_INT(waiter.code, -1);
    hf_close(fixture.client);
    thread_join(&waiter.thread);
    CHECK_INT(waiter.code, HF_ECLOSED);
}

static void count_in_silence(void *arg)
{
    (void)arg;
    CHECK_INT(hf_counter_set(fixture.client, "counter", 1), HF_ECLOSED);
}

TEST(who_leaves_others_waiting_calls_the_thread)
{
    struct thread thread;
    begin_with(FOR_EVER_MS);
    fixture.client->patience_ms = FOR_EVER_MS;
    fixture.silent_changes = true;
    have_the_wheel();
    thread_start(&thread, count_in_silence, NULL);
    EVENTUALLY(atomic_load(&fixture.client->loop.posted) != NULL, SOON_MS);
    hf__drive_push(fixture.client, true);
    CHECK(!hf__drive_begin_push(fixture.client));
    hf_close(fixture.client);
    thread_join(&thread);
}

/* ---- many ---- */

static void wait_for_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct answer *answer = arg;
    (void)error;
    CHECK_INT(code, HF_OK);
    hf_unlock_nowait(hold);
    answer->calls++;
}

static void do_something(unsigned what, const char *name)
{
    struct answer answer = { 0 };
    switch (what) {
    case 0:
        hf_unlock_nowait(take(name));
        break;
    case 1:
        CHECK_INT(hf_lock_async(fixture.client, name, HF_FOREVER,
                                &(hf_lock_options){ HF_LOCK_OPTIONS_INIT }, wait_for_answer,
                                &answer, NULL),
                  HF_OK);
        EVENTUALLY(answer.calls == 1, SOON_MS);
        break;
    case 2:
        CHECK_INT(hf_counter_set(fixture.client, name, 1), HF_OK);
        break;
    default:
        lock_and_unlock(name);
        break;
    }
}

/* Some are alone at times, some meet. */
static void come_and_go(void *arg, int index)
{
    char name[8];
    unsigned seed = (unsigned)index;
    (void)arg;
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "%u", (unsigned)rand_r(&seed) % 3 ? (unsigned)index : 99u);
        unsigned what = (unsigned)rand_r(&seed) % 16;
        for (int times = rand_r(&seed) % 16; times >= 0; times--)
            do_something(what, name);
        if (rand_r(&seed) % 8 == 0)
            let_pass_ms(rand_r(&seed) % 4);
    }
}

TEST(nobody_waits_without_end_who_comes_or_goes)
{
    begin_with(FOR_EVER_MS);
    threads_run(3, come_and_go, NULL);
    hf_close(fixture.client);
}

TEST(nobody_waits_without_end_where_the_thread_comes_and_goes_too)
{
    begin_with(0);
    threads_run(3, come_and_go, NULL);
    hf_close(fixture.client);
}
