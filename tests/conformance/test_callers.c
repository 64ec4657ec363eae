/* Callers that block may turn the client's loop themselves: others that wait meanwhile, and after
 * they have left, are told all the same, and callbacks stay where they belong. */
#include "conformance.h"

struct caller {
    hf_client *client;
    const char *name;
    int64_t wait_ms;
    pthread_t thread;
    _Atomic int code; /* -1: none yet */
    hf_hold *hold;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    hf_hold *hold = NULL;
    int code = hf_lock(caller->client, caller->name, caller->wait_ms, NULL, &hold);
    caller->hold = hold;
    caller->code = code;
    return NULL;
}

/* Returns when the request is at the store: it waits there. */
static void begin(struct caller *caller, hf_client *client, hf_client *other, const char *stem,
                  int64_t wait_ms)
{
    *caller = (struct caller){ .client = client, .wait_ms = wait_ms, .code = -1 };
    caller->name = name_of(stem);
    CHECK_INT(pthread_create(&caller->thread, NULL, call, caller), 0);
    EVENTUALLY(waiters(other, caller->name) == 1, SOON_MS);
}

static int end(struct caller *caller)
{
    EVENTUALLY(caller->code >= 0, SOON_MS);
    pthread_join(caller->thread, NULL);
    return caller->code;
}

TEST(who_comes_later_is_told_while_the_first_waits)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *one = take(other, name_of("one"), HF_MUTEX, 0);
    hf_hold *two = take(other, name_of("two"), HF_MUTEX, 0);
    struct caller first, second;

    begin(&first, client, other, "one", HF_FOREVER);
    begin(&second, client, other, "two", HF_FOREVER);
    give_back(two);
    CHECK_CODE(end(&second), HF_OK);
    CHECK_INT(first.code, -1);
    give_back(one);
    CHECK_CODE(end(&first), HF_OK);
    give_back(first.hold);
    give_back(second.hold);
    hf_close(client);
    hf_close(other);
}

TEST(who_comes_later_is_told_when_the_first_has_left)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *one = take(other, name_of("one"), HF_MUTEX, 0);
    hf_hold *two = take(other, name_of("two"), HF_MUTEX, 0);
    struct caller first, second;

    begin(&first, client, other, "one", HF_FOREVER);
    begin(&second, client, other, "two", HF_FOREVER);
    give_back(one);
    CHECK_CODE(end(&first), HF_OK);
    CHECK_INT(second.code, -1);
    give_back(two);
    CHECK_CODE(end(&second), HF_OK);
    give_back(first.hold);
    give_back(second.hold);
    hf_close(client);
    hf_close(other);
}

TEST(a_release_that_nobody_waits_for_gets_through)
{
    hf_client *client = open_client(), *other = open_client();

    for (int i = 0; i < 50; i++) {
        hf_unlock_nowait(take(client, name_of("one"), HF_MUTEX, 0));
        EVENTUALLY(holders(other, name_of("one")) == 0, SOON_MS);
    }
    hf_close(client);
    hf_close(other);
}

/* The client has had none when the caller began to wait. */
TEST(callbacks_do_not_run_on_a_caller)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *one = take(other, name_of("one"), HF_MUTEX, 0);
    struct outcome outcome = { 0 };
    struct caller caller;

    begin(&caller, client, other, "one", HF_FOREVER);
    CHECK_CODE(
        hf_lock_async(client, name_of("two"), HF_FOREVER, NULL, record_outcome, &outcome, NULL),
        HF_OK);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK(!pthread_equal(outcome.thread, caller.thread));
    CHECK(!pthread_equal(outcome.thread, pthread_self()));
    CHECK_INT(caller.code, -1);
    give_back(one);
    CHECK_CODE(end(&caller), HF_OK);
    give_back(caller.hold);
    give_back(outcome.hold);
    hf_close(client);
    hf_close(other);
}

TEST(closing_ends_a_caller_that_turns_the_loop)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *one = take(other, name_of("one"), HF_MUTEX, 0);
    struct caller caller;

    begin(&caller, client, other, "one", HF_FOREVER);
    hf_close(client);
    CHECK_CODE(end(&caller), HF_ECLOSED);
    give_back(one);
    hf_close(other);
}
