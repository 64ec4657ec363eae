/* Cancelling: early and late in a request, in races, and after its end. */
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
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);
    hf_request request = ask(client, HF_FOREVER, &outcome);

    need(client, HF_CAP_INSPECT);
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
        CHECK_CODE(hf_lock(client, name_of("one"), HF_FOREVER, NULL, &hold), HF_OK);
        give_back(hold);
    }
    hf_close(client);
}

TEST(canceling_races_with_the_grant)
{
    _Atomic int *stop = shared_memory(sizeof(*stop));
    struct child rival;
    int granted = 0;

    store_url();
    child_start(&rival, lock_and_unlock, stop);
    child_wait_for(&rival, "ready");
    hf_client *client = open_client();
    for (int i = 0; i < 1000; i++) {
        struct outcome outcome = { 0 };
        hf_request request = ask(client, HF_FOREVER, &outcome);
        hf_cancel(client, request);
        settle(&outcome);
        CHECK(outcome.code == HF_CANCELED || outcome.code == HF_OK);
        granted += outcome.code == HF_OK;
    }
    test_note("%d of 1000 were granted, the others canceled", granted);
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
