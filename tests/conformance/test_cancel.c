/* SPDX-License-Identifier: Apache-2.0 */
/* Cancelling a request: early and late, in races, and after its end. Cancelling a thread that is
 * inside a call. */
#include "conformance.h"

static hf_request ask(hf_client *client, int64_t wait_ms, struct outcome *outcome)
{
    hf_request request = 0;

    CHECK_CODE(
        hf_lock_async(client, name_of("one"), wait_ms, NULL, record_outcome, outcome, &request),
        HF_OK);
    CHECK(request != 0);
    return request;
}

/* Whatever it was answered, nothing of it is left afterwards. */
static void settle(struct outcome *outcome)
{
    WAIT_OUTCOME(outcome);
    CHECK_INT(outcome->calls, 1);
    if (outcome->code == HF_OK)
        give_back(outcome->hold);
    else
        CHECK(outcome->hold == NULL);
}

TEST(a_waiting_request_is_canceled)
{
    hf_client *client = open_client(), *other = open_client();
    struct outcome outcome = { 0 };

    /* A store without queues shows no waiters. */
    need(client, HF_CAP_INSPECT | HF_CAP_FAIR);
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    hf_request request = ask(client, HF_FOREVER, &outcome);
    EVENTUALLY(waiters(other, name_of("one")) == 1, SOON_MS);
    hf_cancel(client, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    EVENTUALLY(waiters(other, name_of("one")) == 0, SOON_MS);
    hf_cancel(client, request);
    hf_cancel(client, request);
    give_back(hold);
    CHECK_INT(outcome.calls, 1);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
}

TEST(a_fresh_request_is_canceled)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    for (int i = 0; i < 500; i++) {
        struct outcome outcome = { 0 };
        hf_cancel(client, ask(client, HF_FOREVER, &outcome));
        WAIT_OUTCOME(&outcome);
        CHECK_CODE(outcome.code, HF_CANCELED);
    }
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
}

TEST(a_request_behind_another_is_canceled)
{
    hf_client *client = open_client();
    struct outcome outcomes[10] = { { 0 } };
    hf_request requests[10];
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    for (int i = 0; i < 10; i++)
        requests[i] = ask(client, HF_FOREVER, &outcomes[i]);
    for (int i = 9; i >= 0; i -= 2)
        hf_cancel(client, requests[i]);
    for (int i = 9; i >= 0; i -= 2) {
        WAIT_OUTCOME(&outcomes[i]);
        CHECK_CODE(outcomes[i].code, HF_CANCELED);
    }
    give_back(hold);
    for (int i = 0; i < 10; i += 2) {
        settle(&outcomes[i]);
        CHECK_CODE(outcomes[i].code, HF_OK);
    }
    hf_close(client);
}

TEST(canceling_a_granted_request_changes_nothing)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_request request = ask(client, HF_FOREVER, &outcome);

    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    hf_cancel(client, request);
    CHECK(hf_held(outcome.hold));
    give_back(outcome.hold);
    hf_cancel(client, request);
    CHECK_INT(outcome.calls, 1);
    hf_close(client);
}

TEST(requests_that_never_were_are_ignored)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    hf_request request = ask(client, HF_FOREVER, &outcome);

    hf_cancel(client, 0);
    hf_cancel(client, UINT64_MAX);
    for (hf_request other = request - 50; other != request + 50; other++)
        if (other != request)
            hf_cancel(client, other);
    let_pass_ms(20);
    CHECK_INT(outcome.calls, 0);
    give_back(hold);
    settle(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    hf_close(client);
}

TEST(request_ids_are_never_reused)
{
    enum { COUNT = 2000 };
    static hf_request requests[COUNT];
    hf_client *client = open_client();

    for (int i = 0; i < COUNT; i++) {
        struct outcome outcome = { 0 };
        requests[i] = ask(client, 0, &outcome);
        settle(&outcome);
        for (int k = 0; k < i; k++)
            CHECK(requests[k] != requests[i]);
    }
    hf_close(client);
}

TEST(canceling_races_with_the_time_limit)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    int canceled = 0;

    for (int i = 0; i < 200; i++) {
        struct outcome outcome = { 0 };
        hf_request request = ask(client, 1 + i % 3, &outcome);
        let_pass_ms(i % 4);
        hf_cancel(client, request);
        settle(&outcome);
        if (outcome.code != HF_CANCELED)
            CHECK_IN_VAIN(outcome.code);
        canceled += outcome.code == HF_CANCELED;
    }
    test_note("%d of 200 were canceled, the others ran out of time", canceled);
    give_back(hold);
    check_nothing_left(other, name_of("one"));
    hf_close(client);
    hf_close(other);
}

static void lock_and_unlock(void *arg)
{
    hf_client *client = open_client();
    _Atomic int *stop = arg;
    hf_hold *hold;

    parent_say("ready");
    while (!*stop) {
        CHECK_CODE(hf_lock(client, name_of("one"), HF_FOREVER, LOCK_OPTIONS(NO_LOOK), &hold),
                   HF_OK);
        give_back(hold);
    }
    hf_close(client);
}

TEST(canceling_races_with_the_grant)
{
    _Atomic int *stop = shared_memory(sizeof(*stop));
    struct child rival;
    int granted = 0;
    const int rounds = store_rounds(1000);

    store_url();
    child_start(&rival, lock_and_unlock, stop);
    child_wait_for(&rival, "ready");
    hf_client *client = open_client();
    for (int i = 0; i < rounds; i++) {
        struct outcome outcome = { 0 };
        hf_request request = ask(client, HF_FOREVER, &outcome);
        hf_cancel(client, request);
        settle(&outcome);
        CHECK(outcome.code == HF_CANCELED || outcome.code == HF_OK);
        granted += outcome.code == HF_OK;
    }
    test_note("%d of %d were granted, the others canceled", granted, rounds);
    *stop = 1;
    child_join(&rival);
    check_nothing_left(client, name_of("one"));
    hf_close(client);
}

struct canceling {
    hf_client *client;
    hf_request request;
    struct outcome *outcome;
};

static void cancel_inside(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct canceling *canceling = arg;

    hf_cancel(canceling->client, canceling->request);
    record_outcome(canceling->outcome, code, hold, error);
}

TEST(callbacks_may_cancel)
{
    hf_client *client = open_client();
    struct outcome waiting = { 0 }, first = { 0 };
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    struct canceling canceling = { client, ask(client, HF_FOREVER, &waiting), &first };

    CHECK_CODE(hf_lock_async(client, name_of("two"), 0, NULL, cancel_inside, &canceling, NULL),
               HF_OK);
    settle(&first);
    WAIT_OUTCOME(&waiting);
    CHECK_CODE(waiting.code, HF_CANCELED);
    give_back(hold);
    hf_close(client);
}

/* ---- what a request that has ended leaves ---- */

static void turn_until_answered(hf_client *client, const struct outcome *outcome)
{
    while (hf_fd(client) >= 0 && !outcome->calls)
        hf_dispatch(client);
    WAIT_OUTCOME(outcome);
}

/* Within half a second, for which a try waits for what its client undoes: a busy store may take
 * longer. */
static bool is_free_again(hf_client *client, bool waits)
{
    struct outcome outcome = { 0 };
    int64_t asked_ms = monotonic_ms();
    hf_hold *hold = NULL;
    int code = HF_OK;
    if (waits) {
        code = hf_lock(client, name_of("one"), 0, NULL, &hold);
    } else {
        ask(client, 0, &outcome);
        turn_until_answered(client, &outcome);
        code = outcome.code;
        hold = outcome.hold;
    }
    if ((code == HF_BUSY || code == HF_UNREACHABLE) && monotonic_ms() - asked_ms >= 500)
        return false;
    CHECK_CODE(code, HF_OK);
    give_back(hold);
    return true;
}

static void try_after_cancel(hf_driver driver, int64_t wait_ms)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = driver });
    int canceled = 0, late = 0;

    for (int i = 0; i < 300; i++) {
        struct outcome outcome = { 0 };
        hf_request request = ask(client, wait_ms, &outcome);
        if (i % 3 == 1)
            hf_dispatch(client);
        hf_cancel(client, request);
        turn_until_answered(client, &outcome);
        canceled += outcome.code == HF_CANCELED;
        if (outcome.code == HF_OK)
            give_back(outcome.hold);
        late += !is_free_again(client, i % 2 == 1);
    }
    test_note("%d of 300 were canceled, %d undone late", canceled, late);
    CHECK(late < 30);
    hf_close(client);
}

TEST(try_after_a_canceled_request_finds_the_name_free)
{
    try_after_cancel(HF_DRIVE_THREAD, HF_FOREVER);
    try_after_cancel(HF_DRIVE_THREAD, 0);
}

TEST(try_after_a_canceled_request_without_a_thread_finds_the_name_free)
{
    try_after_cancel(HF_DRIVE_CALLER, HF_FOREVER);
    try_after_cancel(HF_DRIVE_CALLER, 0);
}

/* The wait ends just when the lock is released, and may be granted too late. */
TEST(try_after_a_wait_that_ran_out_finds_the_name_free)
{
    hf_client *client = open_client(), *other = open_client();
    int in_vain = 0;

    for (int i = 0; i < 100; i++) {
        struct outcome outcome = { 0 };
        hf_hold *hold = take_patiently(other, name_of("one"));
        ask(client, 2, &outcome);
        let_pass_ms(2);
        give_back(hold);
        WAIT_OUTCOME(&outcome);
        if (outcome.code == HF_OK)
            give_back(outcome.hold);
        in_vain += outcome.code != HF_OK;
        give_back(take(client, name_of("one"), HF_MUTEX, 0));
    }
    test_note("%d of 100 waits ran out", in_vain);
    hf_close(client);
    hf_close(other);
}

/* ---- pthread_cancel ---- */

/* A thread that has been cancelled before it calls the library. */
struct canceled {
    hf_client *client;
    hf_driver driver;
    _Atomic int reached; /* the last call that has returned */
    int lock_code, unlock_code;
};

static bool see_nothing(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return true;
}

/* Calls that change a hold, as far as the store has them. */
static void change_while_canceled(hf_client *client)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold;
    if ((hf_caps(client) & HF_CAP_UPGRADE) &&
        hf_lock(client, name_of("rw"), 0, LOCK_OPTIONS(.mode = HF_UPGRADE), &hold) == HF_OK) {
        CHECK_CODE(hf_upgrade(hold, 0), HF_OK);
        hf_downgrade(hold, HF_READ);
        hf_unlock(hold);
    }
    if ((hf_caps(client) & HF_CAP_DETACH) &&
        hf_lock(client, name_of("leased"), 0, LOCK_OPTIONS(.lease_ms = SOON_MS), &hold) == HF_OK) {
        CHECK_CODE(hf_renew(hold, SOON_MS), HF_OK);
        if (hf_detach(hold, key) == HF_OK &&
            hf_attach(client, name_of("leased"), key, &hold) == HF_OK)
            hf_unlock(hold);
    }
}

/* Several locks, a wait in vain, and values. */
static void wait_while_canceled(hf_client *client)
{
    hf_lock_item items[] = { { .client = client, .name = name_of("first") },
                             { .client = client, .name = name_of("second") } };
    hf_hold_set *set = NULL;
    hf_hold *hold, *again = NULL;
    uint32_t value;
    CHECK_CODE(hf_lock_all(items, 2, 0, NULL, &set), HF_OK);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    hold = take(client, name_of("waited"), HF_MUTEX, 7);
    CHECK_IN_VAIN(hf_lock(client, name_of("waited"), 50, LOCK_OPTIONS(.owner = 8), &again));
    CHECK(again == NULL);
    hf_unlock(hold);
    if (hf_caps(client) & HF_CAP_LATCH) {
        hf_latch_set(client, name_of("latch"), 1);
        CHECK_CODE(hf_latch_down(client, name_of("latch"), 1, &value), HF_OK);
        CHECK_CODE(hf_latch_wait(client, name_of("latch"), SOON_MS), HF_OK);
    }
    if (hf_caps(client) & HF_CAP_PERMIT)
        hf_semaphore_set(client, name_of("permits"), 2);
}

static void ask_while_canceled(hf_client *client)
{
    struct outcome outcome = { 0 };
    hf_request request;
    if (hf_caps(client) & HF_CAP_INSPECT)
        hf_inspect(client, name_of("one"), see_nothing, NULL);
    if (hf_caps(client) & HF_CAP_BREAK)
        hf_break(client, name_of("one"), NULL, NULL);
    if (hf_caps(client) & HF_CAP_COUNTER)
        hf_counter_set(client, name_of("counter"), 1);
    if (hf_lock_async(client, name_of("two"), 0, NULL, record_outcome, &outcome, &request) != HF_OK)
        return;
    hf_cancel(client, request);
    while (!outcome.calls)
        hf_dispatch(client);
    if (outcome.hold)
        hf_unlock_nowait(outcome.hold);
}

static void call_while_canceled(void *arg)
{
    struct canceled *canceled = arg;
    hf_client *own;
    hf_hold *hold;
    pthread_cancel(pthread_self());
    canceled->lock_code = hf_lock(canceled->client, name_of("one"), 0, NULL, &hold);
    canceled->reached = 1;
    canceled->unlock_code = hf_unlock(hold);
    canceled->reached = 2;
    change_while_canceled(canceled->client);
    canceled->reached = 3;
    ask_while_canceled(canceled->client);
    wait_while_canceled(canceled->client);
    canceled->reached = 4;
    if (hf_open(&own, store_url(), &HF_CLIENT_OPTIONS(.driver = canceled->driver)) == HF_OK) {
        if (hf_lock(own, name_of("three"), 0, NULL, &hold) == HF_OK)
            hf_unlock(hold);
        hf_close(own);
    }
    canceled->reached = 5;
    pthread_testcancel();
    canceled->reached = 6;
}

static void check_canceled_thread_finishes(hf_driver driver)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = driver });
    struct canceled canceled = { .client = client, .driver = driver };
    struct thread thread;
    thread_start(&thread, call_while_canceled, &canceled);
    thread_join(&thread);
    CHECK_INT(canceled.reached, 5);
    CHECK_CODE(canceled.lock_code, HF_OK);
    CHECK_CODE(canceled.unlock_code, HF_OK);
    give_back(take(client, name_of("one"), HF_MUTEX, 0));
    hf_close(client);
}

TEST(canceled_thread_ends_after_its_calls_with_a_driven_client)
{
    check_canceled_thread_finishes(HF_DRIVE_CALLER);
}

TEST(canceled_thread_ends_after_its_calls_with_a_threaded_client)
{
    check_canceled_thread_finishes(HF_DRIVE_THREAD);
}

static void hand_over_while_canceled(void *arg)
{
    struct canceled *canceled = arg;
    hf_hold *hold = take(canceled->client, name_of("one"), HF_FAIR, 3);
    canceled->reached = 1;
    while (canceled->reached != 2)
        let_pass_ms(1);
    pthread_cancel(pthread_self());
    hf_unlock(hold);
    canceled->reached = 3;
    pthread_testcancel();
    canceled->reached = 4;
}

/* A release that wakes another client calls the system. */
TEST(canceled_thread_hands_the_lock_over)
{
    hf_client *client = open_client(), *other = open_client();
    struct canceled canceled = { .client = client };
    struct outcome outcome = { 0 };
    struct thread thread;
    need(client, HF_CAP_FAIR);
    thread_start(&thread, hand_over_while_canceled, &canceled);
    EVENTUALLY(canceled.reached == 1, SOON_MS);
    CHECK_CODE(hf_lock_async(other, name_of("one"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR),
                             record_outcome, &outcome, NULL),
               HF_OK);
    if (hf_caps(client) & HF_CAP_INSPECT)
        EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
    canceled.reached = 2;
    thread_join(&thread);
    CHECK_INT(canceled.reached, 3);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    give_back(outcome.hold);
    give_back(take(client, name_of("one"), HF_FAIR, 0));
    hf_close(client);
    hf_close(other);
}
