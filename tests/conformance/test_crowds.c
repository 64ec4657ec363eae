/* SPDX-License-Identifier: Apache-2.0 */
/* Crowds: many threads and requests of one client that come, change and close at the same time. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>

static hf_client *open_all(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_RW | HF_CAP_UPGRADE | HF_CAP_BREAK | HF_CAP_INSPECT);
    return client;
}

/* Threads read the name while others ask for more of them. */
static void keep_name(char name[128], const char *stem)
{
    snprintf(name, 128, "%s", name_of(stem));
}

/* ---- Requests in a queue ---- */

struct window {
    hf_hold *of_other;
    pthread_t requester;
    _Atomic int open, passed, answered;
};

/* While the request's own call is still on its way, the one before it in the queue comes and
 * goes. */
static void pass_the_window(void *arg, const hf_event *event)
{
    struct window *window = arg;

    if (event->type != HF_EVENT_WAITING || !pthread_equal(pthread_self(), window->requester))
        return;
    window->open = 1;
    EVENTUALLY(window->passed, SOON_MS);
    let_pass_ms(20);
}

static void unlock_and_count(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    (void)error;
    CHECK_INT(code, HF_OK);
    hf_unlock_nowait(hold);
    ++*(_Atomic int *)arg;
}

struct first {
    hf_client *client;
    char name[128];
    struct window *window;
};

static void be_first(void *arg)
{
    struct first *first = arg;
    hf_hold *hold;

    CHECK_CODE(hf_lock(first->client, first->name, HF_FOREVER, LOCK_OPTIONS(NO_LOOK), &hold),
               HF_OK);
    give_back(hold);
    first->window->passed = 1;
}

static void open_the_window(void *arg)
{
    struct window *window = arg;

    EVENTUALLY(window->open, SOON_MS);
    give_back(window->of_other);
}

/* A request whose turn comes before hf_lock_async has returned is answered all the same. */
TEST(a_turn_that_comes_before_the_call_has_returned)
{
    struct window window = { .requester = pthread_self() };
    struct thread blocker, opener;
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = pass_the_window, .event_arg = &window });
    hf_client *other = open_client();
    struct first first = { .client = client, .window = &window };

    need(other, HF_CAP_INSPECT);
    keep_name(first.name, "one");
    window.of_other = take(other, name_of("one"), HF_MUTEX, 0);
    thread_start(&blocker, be_first, &first);
    EVENTUALLY(waiters(other, name_of("one")) == 1, SOON_MS);
    thread_start(&opener, open_the_window, &window);
    CHECK_CODE(hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, unlock_and_count,
                             &window.answered, NULL),
               HF_OK);
    EVENTUALLY(window.answered == 1, SOON_MS);
    thread_join(&blocker);
    thread_join(&opener);
    /* It was unlocked without waiting for the store. */
    EVENTUALLY(probe(other, name_of("one"), HF_MUTEX, 0) == HF_OK, SOON_MS);
    hf_close(client);
    CHECK_INT(window.answered, 1);
    hf_close(other);
}

enum { REQUESTERS = 4, REQUESTS = 250 };

struct crowd {
    hf_client *client;
    char name[128];
    _Atomic int answered[REQUESTERS][REQUESTS];
    _Atomic int total;
};

static struct crowd crowd;

static void unlock_and_note(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    unlock_and_count(arg, code, hold, error);
    crowd.total++;
}

static void request_many(void *arg, int index)
{
    (void)arg;
    for (int i = 0; i < REQUESTS; i++)
        CHECK_CODE(hf_lock_async(crowd.client, crowd.name, HF_FOREVER,
                                 LOCK_OPTIONS(.mode = i % 2 ? HF_READ : HF_WRITE), unlock_and_note,
                                 &crowd.answered[index][i], NULL),
                   HF_OK);
}

/* Requests that queue for one name from several threads are each granted, and answered once. */
TEST(many_queued_requests_are_each_answered_once)
{
    crowd.client = open_all();
    keep_name(crowd.name, "one");
    threads_run(REQUESTERS, request_many, NULL);
    EVENTUALLY(crowd.total == REQUESTERS * REQUESTS, SOON_MS);
    check_nothing_left(crowd.client, name_of("one"));
    hf_close(crowd.client);
    for (int i = 0; i < REQUESTERS; i++)
        for (int j = 0; j < REQUESTS; j++)
            CHECK_INT(crowd.answered[i][j], 1);
}

TEST(thousands_of_names_are_locked_and_released_at_once)
{
    TEST_TIMEOUT(180);
    lock_and_unlock_many(3000);
}

/* ---- One owner number in several threads ---- */

struct storm {
    hf_client *client;
    char names[2][128];
    _Atomic int stop, asked, answered, losses;
};

static void end_request(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct storm *storm = arg;

    CHECK((code == HF_OK) == (hold != NULL) && (code == HF_OK) == (error == NULL));
    hf_unlock_nowait(hold);
    storm->answered++;
}

static void ask_without_waiting(struct storm *storm, const char *name, unsigned *seed,
                                const hf_lock_options *options)
{
    hf_request request;

    if (hf_lock_async(storm->client, name, rand_r(seed) % 10, options, end_request, storm,
                      &request) != HF_OK)
        return;
    storm->asked++;
    if (rand_r(seed) % 2)
        hf_cancel(storm->client, request);
}

static void lock_and_change(struct storm *storm, const char *name, unsigned *seed,
                            hf_lock_options options)
{
    hf_hold *hold, *nested = NULL;

    if (hf_lock(storm->client, name, rand_r(seed) % 10, &options, &hold) != HF_OK)
        return;
    CHECK(hold != NULL);
    if (options.mode == HF_UPGRADE && rand_r(seed) % 2)
        any_code(hf_upgrade(hold, rand_r(seed) % 5));
    options.mode = HF_READ;
    if (rand_r(seed) % 2)
        CHECK((hf_lock(storm->client, name, 0, &options, &nested) == HF_OK) == (nested != NULL));
    hf_held(hold);
    hf_remaining_ms(hold);
    hf_token(hold);
    if (options.lease_ms)
        any_code(hf_renew(hold, 60));
    if (hf_hold_mode(hold) == HF_WRITE && rand_r(seed) % 2)
        hf_downgrade(hold, HF_READ);
    if (rand_r(seed) % 2)
        hf_unlock(hold);
    else
        hf_unlock_nowait(hold);
    hf_unlock(nested);
}

static void storm_on(void *arg, int index)
{
    struct storm *storm = arg;
    unsigned seed = (unsigned)index + 1;

    while (!storm->stop) {
        const char *name = storm->names[rand_r(&seed) % 2];
        hf_lock_options options =
            HF_LOCK_OPTIONS(.mode = (hf_mode)(HF_READ + rand_r(&seed) % 3),
                            .owner = rand_r(&seed) % 2 ? 0 : 7,
                            .lease_ms = rand_r(&seed) % 4 ? 0 : short_lease(50),
                            .on_lost = count_loss, .lost_arg = &storm->losses);
        switch (rand_r(&seed) % 6) {
        case 0:
            ask_without_waiting(storm, name, &seed, &options);
            break;
        case 1:
            hf_break(storm->client, name, NULL, NULL);
            break;
        default:
            lock_and_change(storm, name, &seed, options);
        }
    }
}

static void end_the_storm(void *arg)
{
    struct storm *storm = arg;

    let_pass_ms(1500);
    storm->stop = 1;
}

/* Threads that use one owner number at the same time are answered, all of them, and the client can
 * be closed after that. */
TEST(threads_that_share_an_owner)
{
    struct storm storm = { .client = open_all() };
    struct thread timer;

    keep_name(storm.names[0], "one");
    keep_name(storm.names[1], "two");
    thread_start(&timer, end_the_storm, &storm);
    threads_run(4, storm_on, &storm);
    thread_join(&timer);
    CHECK(storm.asked > 0);
    hf_close(storm.client);
    CHECK_INT(storm.answered, storm.asked);
}

/* ---- Closing while the last grants are under way ---- */

struct blocked {
    hf_client *client;
    const char *name;
    hf_lock_options options;
    _Atomic int code;
    struct thread thread;
};

static void block(void *arg)
{
    struct blocked *blocked = arg;
    hf_hold *hold;

    blocked->code = hf_lock(blocked->client, blocked->name, HF_FOREVER, &blocked->options, &hold);
    CHECK((blocked->code == HF_OK) == (hold != NULL));
}

struct closing {
    _Atomic int waiting, answered, closed;
};

/* Who is granted the lock stays in the call for a moment, while the client is being closed. */
static void linger(void *arg, const hf_event *event)
{
    struct closing *closing = arg;

    closing->waiting += event->type == HF_EVENT_WAITING;
    if (event->type == HF_EVENT_GRANTED)
        let_pass_ms(2);
    CHECK(!closing->closed);
}

static void end_quietly(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    CHECK((code == HF_OK) == (hold != NULL) && (code == HF_OK) == (error == NULL));
    CHECK(code == HF_OK || code == HF_ECLOSED);
    ++*(_Atomic int *)arg;
}

static void close_client(void *arg)
{
    hf_close(arg);
}

/* Four threads and three requests wait while the lock becomes free and the client is closed at the
 * same moment. */
static void close_and_release(hf_client *other, const char *name, hf_lock_options options,
                              bool at_once)
{
    struct blocked blocked[4];
    struct thread closer;
    struct closing closing = { 0 };
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = linger, .event_arg = &closing });
    hf_mode exclusive = options.mode == HF_READ ? HF_WRITE : options.mode;
    hf_hold *hold;

    CHECK_CODE(hf_lock(other, name, SOON_MS, LOCK_OPTIONS(.mode = exclusive), &hold), HF_OK);
    for (int i = 0; i < 4; i++) {
        blocked[i] = (struct blocked){ .client = client, .name = name, .options = options };
        thread_start(&blocked[i].thread, block, &blocked[i]);
    }
    EVENTUALLY(closing.waiting == 4, SOON_MS);
    for (int i = 0; i < 3; i++)
        CHECK_CODE(
            hf_lock_async(client, name, HF_FOREVER, &options, end_quietly, &closing.answered, NULL),
            HF_OK);
    if (at_once) {
        thread_start(&closer, close_client, client);
        give_back(hold);
        thread_join(&closer);
    } else {
        give_back(hold);
        hf_close(client);
    }
    closing.closed = 1;
    CHECK_INT(closing.answered, 3);
    for (int i = 0; i < 4; i++) {
        thread_join(&blocked[i].thread);
        CHECK(blocked[i].code == HF_OK || blocked[i].code == HF_ECLOSED);
    }
}

/* Whoever is granted the lock just then has it until the client is closed, everybody else is told
 * HF_ECLOSED, and nothing stays behind. */
TEST(closing_while_the_lock_becomes_free)
{
    static const hf_lock_options kinds[] = {
        { .size = sizeof(hf_lock_options), .mode = HF_MUTEX, NO_LOOK },
        { .size = sizeof(hf_lock_options), .mode = HF_FAIR, NO_LOOK },
        { .size = sizeof(hf_lock_options), .mode = HF_READ, NO_LOOK },
        { .size = sizeof(hf_lock_options), .mode = HF_MUTEX, .lease_ms = 5000, NO_LOOK },
    };
    hf_client *other = open_all();
    char name[128];

    keep_name(name, "one");
    for (int i = 0; i < 80; i++) {
        close_and_release(other, name, kinds[i % 4], i % 8 >= 4);
        CHECK_INT(holders(other, name), 0);
        CHECK_INT(waiters(other, name), 0);
    }
    hf_close(other);
}
