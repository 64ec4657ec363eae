/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks and visitors that call the library, and close other clients. */
#include "conformance.h"

#include <stdlib.h>

static hf_client *open_all(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_BREAK | HF_CAP_INSPECT);
    return client;
}

struct caller {
    hf_client *client;
    const char *names[2];
    int asked, answered;
    unsigned seed;
};

static void call_back(void *arg, int code, hf_hold *hold, const hf_error *error);

static hf_lock_options any_options(struct caller *caller)
{
    return HF_LOCK_OPTIONS(.mode = (hf_mode)(HF_READ + rand_r(&caller->seed) % 3),
                           .owner = (uint64_t)rand_r(&caller->seed) % 3,
                           .lease_ms = rand_r(&caller->seed) % 4 ? 0 : short_lease(30));
}

static void ask(struct caller *caller, const char *name)
{
    hf_lock_options options = any_options(caller);
    hf_request request;

    if (hf_lock_async(caller->client, name, rand_r(&caller->seed) % 4, &options, call_back, caller,
                      &request) != HF_OK)
        return;
    caller->asked++;
    if (rand_r(&caller->seed) % 3 == 0)
        hf_cancel(caller->client, request);
}

static void call_back(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct caller *caller = arg;
    hf_hold *none;

    (void)code, (void)error;
    caller->answered++;
    CHECK_CODE(hf_lock(caller->client, caller->names[0], 100, NULL, &none), HF_EDEADLK);
    CHECK_CODE(hf_dispatch(caller->client), HF_EDEADLK);
    if (rand_r(&caller->seed) % 2)
        ask(caller, caller->names[1]);
    if (rand_r(&caller->seed) % 2)
        hf_unlock(hold);
    else
        hf_unlock_nowait(hold);
}

static void lock_briefly(struct caller *caller, const char *name)
{
    hf_lock_options options = any_options(caller);
    hf_hold *hold;

    if (hf_lock(caller->client, name, rand_r(&caller->seed) % 3, &options, &hold) != HF_OK)
        return;
    if (options.lease_ms)
        any_code(hf_renew(hold, 40));
    any_code(hf_upgrade(hold, rand_r(&caller->seed) % 3));
    hf_unlock(hold);
}

/* In a client without a thread, callbacks may ask, cancel and give back, but not block; every
 * request is answered once. */
TEST(callbacks_call_the_library)
{
    struct caller caller = { .names = { name_of("one"), name_of("two") }, .seed = 1 };
    hf_client *other = open_all();

    caller.client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    for (int64_t until = monotonic_ms() + 1000; monotonic_ms() < until;) {
        const char *name = caller.names[rand_r(&caller.seed) % 2];
        int what = rand_r(&caller.seed) % 8;
        if (what < 3)
            ask(&caller, name);
        else if (what < 6)
            lock_briefly(&caller, name);
        else if (what < 7)
            CHECK_CODE(hf_dispatch(caller.client), HF_OK);
        else if (rand_r(&caller.seed) % 20 == 0)
            hf_break(other, name, NULL, NULL);
    }
    hf_close(caller.client);
    CHECK(caller.asked > 0);
    CHECK_INT(caller.answered, caller.asked);
    CHECK_INT(holders(other, caller.names[0]) + holders(other, caller.names[1]), 0);
    hf_close(other);
}

struct nest {
    hf_client *outer, *inner;
    int outer_answers, inner_answers;
};

static void answer_inner(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct nest *nest = arg;
    hf_hold *none;

    (void)error;
    CHECK_INT(code, HF_OK);
    CHECK_CODE(hf_lock(nest->outer, name_of("one"), 1000, NULL, &none), HF_EDEADLK);
    CHECK_CODE(hf_dispatch(nest->inner), HF_EDEADLK);
    nest->inner_answers++;
    hf_unlock_nowait(hold);
}

static void answer_outer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct nest *nest = arg;
    hf_hold *none;

    (void)error;
    CHECK_INT(code, HF_OK);
    CHECK_CODE(hf_lock_async(nest->inner, name_of("two"), 0, NULL, answer_inner, nest, NULL),
               HF_OK);
    EVENTUALLY(hf_dispatch(nest->inner) == HF_OK && nest->inner_answers == 1, SOON_MS);
    give_back(take(nest->inner, name_of("three"), HF_MUTEX, 0));
    /* Having turned the other's loop, it still is in its own. */
    CHECK_CODE(hf_lock(nest->outer, name_of("one"), 1000, NULL, &none), HF_EDEADLK);
    nest->outer_answers++;
    hf_unlock_nowait(hold);
}

/* A callback may turn the loop of another client, and is inside its own all the while. */
TEST(a_callback_turns_another_clients_loop)
{
    hf_client_options myself = { .driver = HF_DRIVE_CALLER };
    struct nest nest = { open_client_with(myself), open_client_with(myself), 0, 0 };
    hf_client *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0);

    CHECK_CODE(hf_lock_async(nest.outer, name_of("zero"), 0, NULL, answer_outer, &nest, NULL),
               HF_OK);
    EVENTUALLY(hf_dispatch(nest.outer) == HF_OK && nest.outer_answers == 1, SOON_MS);
    CHECK_CODE(hf_lock(nest.outer, name_of("one"), 0, NULL, &(hf_hold *){ NULL }), HF_BUSY);
    give_back(hold);
    hf_close(nest.outer);
    hf_close(nest.inner);
    hf_close(other);
}

struct visitor {
    hf_client *client, *another;
    int visits;
};

static bool visit_and_call(void *arg, const hf_entry *entry)
{
    struct visitor *visitor = arg;

    CHECK_STR(entry->name, name_of("one"));
    CHECK_INT(look(visitor->client, name_of("one"))->holders, 1);
    give_back(take(visitor->client, name_of("two"), HF_MUTEX, 0));
    if (visitor->visits++ == 0) {
        CHECK_CODE(hf_break(visitor->client, name_of("one"), NULL, NULL), HF_OK);
        hf_hold *next = take(visitor->another, name_of("one"), HF_MUTEX, 0);
        CHECK(hf_held(next));
    } else {
        hf_close(visitor->another);
        visitor->another = NULL;
    }
    return visitor->another != NULL;
}

/* A visitor of hf_inspect may call the library, and close another client too. */
TEST(a_visitor_calls_the_library)
{
    struct visitor visitor = { open_all(), open_client(), 0 };
    hf_hold *hold = take(visitor.client, name_of("one"), HF_MUTEX, 0);

    CHECK_CODE(hf_inspect(visitor.client, name_of("one"), visit_and_call, &visitor), HF_OK);
    CHECK_INT(visitor.visits, 2);
    CHECK_CODE(probe(visitor.client, name_of("one"), HF_MUTEX, 1), HF_OK);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(visitor.client);
}

struct slow_visitor {
    _Atomic int entered, closed;
};

static bool visit_slowly(void *arg, const hf_entry *entry)
{
    struct slow_visitor *visitor = arg;

    visitor->entered = 1;
    EVENTUALLY(visitor->closed, SOON_MS);
    CHECK_STR(entry->name, name_of("one"));
    return true;
}

struct inspector {
    hf_client *client;
    struct slow_visitor visitor;
    int code;
};

static void inspect_slowly(void *arg)
{
    struct inspector *inspector = arg;

    inspector->code =
        hf_inspect(inspector->client, name_of("one"), visit_slowly, &inspector->visitor);
}

/* What a visitor is shown is its own: nobody who closes the client waits for it. */
TEST(closing_does_not_wait_for_a_visitor)
{
    struct inspector inspector = { .client = open_all() };
    struct thread thread;

    take(inspector.client, name_of("one"), HF_MUTEX, 0);
    thread_start(&thread, inspect_slowly, &inspector);
    EVENTUALLY(inspector.visitor.entered, SOON_MS);
    hf_close(inspector.client);
    inspector.visitor.closed = 1;
    thread_join(&thread);
    CHECK_CODE(inspector.code, HF_OK);
}
