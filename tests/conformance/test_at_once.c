/* SPDX-License-Identifier: Apache-2.0 */
/* Few names, asked for by many threads at the same instant and in all ways of asking. What the core
 * and the engines put together for speed must still grant each name as often as it may be held. */
#include "account.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, TRIES_FOR_MS = 400, ALL_WAYS_FOR_MS = 1000 };

static void need_mode(const hf_client *client, hf_mode mode)
{
    if (mode == HF_FAIR)
        need(client, HF_CAP_FAIR);
    if (mode == HF_READ || mode == HF_WRITE)
        need(client, HF_CAP_RW);
    if (mode == HF_PERMIT)
        need(client, HF_CAP_PERMIT);
}

/* A refusal; or silence, where the machine stood still for as long as a server may be silent. */
static void check_refused(int code)
{
    if (code != HF_UNREACHABLE || store_is_local())
        CHECK_CODE(code, HF_BUSY);
}

static hf_lock_options options_of(hf_mode mode)
{
    return HF_LOCK_OPTIONS(.mode = mode, .permits = 1,
                           .limit = mode == HF_PERMIT ? ACCOUNT_LIMIT : 0, NO_LOOK);
}

/* ---- bare tries of threads ---- */

struct tries {
    hf_client *clients[2];
    hf_mode mode;
    struct account account;
    struct barrier asked, answered;
    _Atomic int ready;
    int64_t until_ms;
    _Atomic bool over;
};

/* A barrier wakes one thread after the other. Threads that run already go on at the same instant.
 */
static void start_together(struct tries *tries)
{
    barrier_wait(&tries->asked);
    tries->ready++;
    while (tries->ready % THREADS && !tries->over)
        sched_yield();
}

/* Nobody releases before all have their answers. */
static void try_in_rounds(void *arg, int index)
{
    struct tries *tries = arg;
    hf_lock_options options = options_of(tries->mode);

    for (;;) {
        if (index == 0 && monotonic_ms() > tries->until_ms)
            tries->over = true;
        start_together(tries);
        if (tries->over)
            return;
        hf_hold *hold;
        int code = hf_lock(tries->clients[index % 2], tries->account.name, 0, &options, &hold);
        if (code == HF_OK)
            account_enter(&tries->account, hold, tries->mode, 1);
        else
            check_refused(code);
        barrier_wait(&tries->answered);
        if (code == HF_OK) {
            account_leave(&tries->account, hold);
            give_back(hold);
        }
    }
}

static void try_one_name(hf_mode mode)
{
    struct tries tries = { .clients = { open_client(), open_client() }, .mode = mode };

    need_mode(tries.clients[0], mode);
    account_open(&tries.account, tries.clients[0], "one");
    barrier_init(&tries.asked, THREADS);
    barrier_init(&tries.answered, THREADS);
    tries.until_ms = monotonic_ms() + TRIES_FOR_MS;
    threads_run(THREADS, try_in_rounds, &tries);
    CHECK(tries.account.grants > 0);
    check_nothing_left(tries.clients[0], tries.account.name);
    hf_close(tries.clients[0]);
    hf_close(tries.clients[1]);
}

TEST(tries_of_one_name_at_once_one_grant)
{
    try_one_name(HF_MUTEX);
}

TEST(tries_of_one_fair_name_at_once_one_grant)
{
    try_one_name(HF_FAIR);
}

TEST(tries_of_one_writer_at_once_one_grant)
{
    try_one_name(HF_WRITE);
}

TEST(tries_for_permits_at_once_stay_within_the_limit)
{
    try_one_name(HF_PERMIT);
}

/* ---- lone callers ---- */

static void try_again_and_again(void *arg, int index)
{
    struct tries *tries = arg;
    hf_lock_options options = options_of(tries->mode);

    for (int i = 0; monotonic_ms() < tries->until_ms; i++) {
        hf_hold *hold;
        struct outcome outcome = { 0 };
        int code = i % 2 ? hf_lock_start(tries->clients[index], tries->account.name, 0, &options,
                                         record_outcome, &outcome, NULL, &hold)
                         : hf_lock(tries->clients[index], tries->account.name, 0, &options, &hold);
        if (code == HF_OK && !hold) {
            WAIT_OUTCOME(&outcome);
            code = outcome.code;
            hold = outcome.hold;
        }
        if (code != HF_OK) {
            check_refused(code);
            continue;
        }
        account_enter(&tries->account, hold, tries->mode, 1);
        account_leave(&tries->account, hold);
        give_back(hold);
    }
}

/* Each client has one caller, so each may keep what it has released, and take it again in one step.
 */
static void try_from_lone_callers(hf_mode mode)
{
    struct tries tries = { .clients = { open_client(), open_client() }, .mode = mode };

    need_mode(tries.clients[0], mode);
    account_open(&tries.account, tries.clients[0], "one");
    tries.until_ms = monotonic_ms() + TRIES_FOR_MS;
    threads_run(2, try_again_and_again, &tries);
    CHECK(tries.account.grants > 0);
    check_nothing_left(tries.clients[0], tries.account.name);
    hf_close(tries.clients[0]);
    hf_close(tries.clients[1]);
}

TEST(lone_callers_of_two_clients_exclude_each_other)
{
    try_from_lone_callers(HF_MUTEX);
}

TEST(lone_writers_of_two_clients_exclude_each_other)
{
    try_from_lone_callers(HF_WRITE);
}

/* ---- asynchronous requests ---- */

enum { ASKED = 0, IN = 1, ENDED = 2 };

struct request {
    struct account *account;
    hf_mode mode;
    hf_hold *hold;
    hf_request number;
    _Atomic int state;
};

static void note_answer(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct request *request = arg;

    (void)error;
    if (code == HF_OK) {
        request->hold = hold;
        account_enter(request->account, hold, request->mode, 1);
        request->state = IN;
    } else {
        if (code != HF_CANCELED)
            check_refused(code);
        request->state = ENDED;
    }
}

static void begin(struct request *request, hf_client *client, struct account *account, hf_mode mode,
                  int64_t wait_ms)
{
    hf_lock_options options = options_of(mode);

    *request = (struct request){ .account = account, .mode = mode };
    CHECK_CODE(hf_lock_async(client, account->name, wait_ms, &options, note_answer, request,
                             &request->number),
               HF_OK);
}

/* What is answered in the call is noted as its callback would have done. */
static void start(struct request *request, hf_client *client, struct account *account, hf_mode mode,
                  int64_t wait_ms)
{
    hf_lock_options options = options_of(mode);
    hf_hold *hold;

    *request = (struct request){ .account = account, .mode = mode };
    int code = hf_lock_start(client, account->name, wait_ms, &options, note_answer, request,
                             &request->number, &hold);
    if (code != HF_OK || hold) {
        CHECK_INT(request->state, ASKED);
        CHECK_INT(request->number, 0);
        note_answer(request, code, hold, NULL);
    }
}

static void run_loop(hf_client *client)
{
    struct pollfd pollfd = { .fd = hf_fd(client), .events = POLLIN };

    if (pollfd.fd < 0)
        let_pass_ms(1);
    else if (poll(&pollfd, 1, 1000) > 0)
        CHECK_CODE(hf_dispatch(client), HF_OK);
}

/* What was granted in one turn of the loop is released after it. True: all are answered. */
static bool release_granted(struct request *requests, int count)
{
    bool ended = true;

    for (int i = 0; i < count; i++) {
        if (requests[i].state == IN) {
            account_leave(requests[i].account, requests[i].hold);
            give_back(requests[i].hold);
            requests[i].state = ENDED;
        }
        ended &= requests[i].state == ENDED;
    }
    return ended;
}

static void wait_for_answers(hf_client *client, struct request *requests, int count)
{
    int64_t until_ms = monotonic_ms() + SOON_MS * test_slow();

    for (bool answered = false; !answered;) {
        CHECK(monotonic_ms() < until_ms);
        run_loop(client);
        answered = true;
        for (int i = 0; i < count; i++)
            answered &= requests[i].state != ASKED;
    }
}

/* All tries are asked before the loop runs, and all are answered before one is released. */
static void request_few_names(hf_mode mode)
{
    enum { NAMES = 2, REQUESTS = 16 };
    hf_client *client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    struct account accounts[NAMES];
    struct request requests[REQUESTS];

    need_mode(client, mode);
    account_open(&accounts[0], client, "one");
    account_open(&accounts[1], client, "other");
    for (int64_t until_ms = monotonic_ms() + TRIES_FOR_MS; monotonic_ms() < until_ms;) {
        for (int i = 0; i < REQUESTS; i++)
            begin(&requests[i], client, &accounts[i % NAMES], mode, 0);
        wait_for_answers(client, requests, REQUESTS);
        release_granted(requests, REQUESTS);
    }
    CHECK(accounts[0].grants > 0 && accounts[1].grants > 0);
    hf_close(client);
}

TEST(requests_before_one_dispatch_one_grant)
{
    request_few_names(HF_MUTEX);
}

TEST(requests_of_writers_before_one_dispatch_one_grant)
{
    request_few_names(HF_WRITE);
}

TEST(requests_for_permits_before_one_dispatch_stay_within_the_limit)
{
    request_few_names(HF_PERMIT);
}

/* ---- attaching ---- */

struct attaching {
    hf_client *clients[2];
    char name[128], key[HF_OWNER_KEY_SIZE];
    struct barrier start, end;
    _Atomic int attached;
};

enum { ATTACH_ROUNDS = 30 };

static void attach_in_rounds(void *arg, int index)
{
    struct attaching *attaching = arg;
    hf_client *client = attaching->clients[index % 2];

    for (int i = 0; i < ATTACH_ROUNDS; i++) {
        hf_hold *hold = NULL;
        if (index == 0) {
            CHECK_CODE(
                hf_lock(client, attaching->name, SOON_MS, LOCK_OPTIONS(.lease_ms = 60000), &hold),
                HF_OK);
            CHECK_CODE(hf_detach(hold, attaching->key), HF_OK);
            attaching->attached = 0;
        }
        barrier_wait(&attaching->start);
        int code = hf_attach(client, attaching->name, attaching->key, &hold);
        attaching->attached += code == HF_OK;
        CHECK(code == HF_OK || code == HF_LOST);
        barrier_wait(&attaching->end);
        CHECK_INT(attaching->attached, 1);
        if (code == HF_OK)
            give_back(hold);
        barrier_wait(&attaching->end);
    }
}

/* What was left under a key is taken over once, however many ask for it. */
TEST(attaches_of_one_key_at_once_one_takes_over)
{
    struct attaching attaching = { .clients = { open_client(), open_client() } };

    need(attaching.clients[0], HF_CAP_DETACH);
    snprintf(attaching.name, sizeof(attaching.name), "%s", name_of("one"));
    barrier_init(&attaching.start, THREADS);
    barrier_init(&attaching.end, THREADS);
    threads_run(THREADS, attach_in_rounds, &attaching);
    hf_close(attaching.clients[0]);
    hf_close(attaching.clients[1]);
}

/* ---- all ways of asking ---- */

enum { NAMES = 2, CLIENTS = 3, DRIVEN = 2, THREADS_OF_ALL = 9 };

struct crowd {
    hf_client *clients[CLIENTS]; /* the last one, if it is there, is driven by its only thread */
    int shared;                  /* how many there are, but for the last one */
    hf_mode kind;
    struct account accounts[NAMES];
    int64_t until_ms;
};

struct asker {
    struct crowd *crowd;
    hf_client *client;
    unsigned seed;
};

static hf_mode choose_mode(struct asker *asker)
{
    static const hf_mode modes[] = { HF_WRITE, HF_READ, HF_UPGRADE };
    bool upgrades = hf_caps(asker->client) & HF_CAP_UPGRADE;

    if (asker->crowd->kind != HF_WRITE)
        return asker->crowd->kind;
    return modes[rand_r(&asker->seed) % (upgrades ? 3 : 2)];
}

static void upgrade_and_downgrade(struct asker *asker, struct account *account, hf_hold *hold)
{
    int code = hf_upgrade(hold, rand_r(&asker->seed) % 4);

    if (code != HF_OK) {
        check_refused(code);
        return;
    }
    account_change(account, hold, HF_WRITE);
    sched_yield();
    account_change(account, hold, HF_READ);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
}

/* Leaves the hold to its lease, and takes it over again. */
static hf_hold *detach_and_attach(struct asker *asker, const struct account *account, hf_hold *hold)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *again = NULL;

    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_CODE(hf_attach(asker->client, account->name, key, &again), HF_OK);
    return again;
}

static void lock_one(struct asker *asker, struct account *account, int64_t wait_ms)
{
    hf_lock_options options = options_of(choose_mode(asker));
    bool detaches = hf_caps(asker->client) & HF_CAP_DETACH && options.mode != HF_UPGRADE &&
                    rand_r(&asker->seed) % 8 == 0;
    hf_hold *hold;

    if (detaches)
        options.lease_ms = 60000;
    int code = hf_lock(asker->client, account->name, wait_ms, &options, &hold);
    if (code != HF_OK) {
        check_refused(code);
        return;
    }
    account_enter(account, hold, options.mode, 1);
    for (unsigned left = rand_r(&asker->seed) % 4; left > 0; left--)
        sched_yield();
    if (options.mode == HF_UPGRADE)
        upgrade_and_downgrade(asker, account, hold);
    account_leave(account, hold);
    if (detaches)
        hold = detach_and_attach(asker, account, hold);
    if (rand_r(&asker->seed) % 2)
        give_back(hold);
    else
        hf_unlock_nowait(hold);
}

/* Several requests before one turn of the loop; some are cancelled. */
static void request_several(struct asker *asker)
{
    enum { SEVERAL = 5 };
    static const int64_t waits_ms[] = { 0, 0, 5, HF_FOREVER };
    struct request requests[SEVERAL];
    int64_t until_ms = monotonic_ms() + SOON_MS * test_slow();

    for (int i = 0; i < SEVERAL; i++) {
        bool starts = rand_r(&asker->seed) % 2;
        (starts ? start : begin)(&requests[i], asker->client,
                                 &asker->crowd->accounts[rand_r(&asker->seed) % NAMES],
                                 choose_mode(asker), waits_ms[rand_r(&asker->seed) % 4]);
    }
    if (rand_r(&asker->seed) % 2)
        hf_cancel(asker->client, requests[rand_r(&asker->seed) % SEVERAL].number);
    while (!release_granted(requests, SEVERAL)) {
        CHECK(monotonic_ms() < until_ms);
        run_loop(asker->client);
    }
}

static void ask_in_all_ways(void *arg, int index)
{
    struct crowd *crowd = arg;
    bool drives = index == THREADS_OF_ALL - 1 && crowd->clients[DRIVEN];
    struct asker asker = { crowd, crowd->clients[drives ? DRIVEN : index % crowd->shared],
                           (unsigned)index + 1 };

    while (monotonic_ms() < crowd->until_ms) {
        struct account *account = &crowd->accounts[rand_r(&asker.seed) % NAMES];
        switch (rand_r(&asker.seed) % 6) {
        case 0:
        case 1:
            lock_one(&asker, account, 0);
            break;
        case 2:
            lock_one(&asker, account, 1 + rand_r(&asker.seed) % 20);
            break;
        case 3:
            lock_one(&asker, account, HF_FOREVER);
            break;
        default:
            request_several(&asker);
        }
    }
    /* What it releases without waiting leaves only as long as its loop runs. */
    if (asker.client == crowd->clients[DRIVEN])
        hf_close(asker.client);
}

/* Each client of the embedded engine maps the file at an address of its own. The thread sanitizer
 * takes these for different memory, and misses that a guard orders what two clients do. */
static bool sees_one_mapping_only(const hf_client *client)
{
    return test_has_thread_sanitizer() && strncmp(hf_url(client), "local:", 6) == 0;
}

static void ask_for_few_names(hf_mode kind)
{
    struct crowd crowd = { .kind = kind };

    crowd.clients[0] = open_client();
    crowd.shared = sees_one_mapping_only(crowd.clients[0]) ? 1 : DRIVEN;
    for (int i = 1; i < crowd.shared; i++)
        crowd.clients[i] = open_client();
    if (crowd.shared > 1)
        crowd.clients[DRIVEN] = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    need_mode(crowd.clients[0], kind);
    account_open(&crowd.accounts[0], crowd.clients[0], "one");
    account_open(&crowd.accounts[1], crowd.clients[0], "other");
    crowd.until_ms = monotonic_ms() + ALL_WAYS_FOR_MS;
    threads_run(THREADS_OF_ALL, ask_in_all_ways, &crowd);
    for (int i = 0; i < NAMES; i++) {
        CHECK(crowd.accounts[i].grants > 0);
        check_nothing_left(crowd.clients[0], crowd.accounts[i].name);
    }
    for (int i = 0; i < crowd.shared; i++)
        hf_close(crowd.clients[i]);
}

/* ---- waits that end at once ---- */

#define WAITERS 16
#define WAIT_MS (300 * test_slow())

static void wait_in_vain(void *arg, int index)
{
    hf_hold *hold = NULL;

    (void)index;
    CHECK_CODE(hf_lock(arg, name_of("held"), WAIT_MS, NULL, &hold), HF_BUSY);
}

/* Each passes its turn on to the next, which hardly has time to ask: the store is not silent. */
TEST(waits_of_one_client_that_end_at_once_are_busy)
{
    hf_client *holder = open_client(), *client = open_client();
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(holder, name_of("held"), SOON_MS, NULL, &hold), HF_OK);
    for (int i = 0; i < 4; i++)
        threads_run(WAITERS, wait_in_vain, client);
    give_back(hold);
    hf_close(client);
    hf_close(holder);
}

TEST(all_ways_of_asking_for_a_mutex_exclude)
{
    ask_for_few_names(HF_MUTEX);
}

TEST(all_ways_of_asking_for_a_fair_mutex_exclude)
{
    ask_for_few_names(HF_FAIR);
}

TEST(all_ways_of_asking_for_a_read_write_lock_exclude)
{
    ask_for_few_names(HF_WRITE);
}

TEST(all_ways_of_asking_for_permits_stay_within_the_limit)
{
    ask_for_few_names(HF_PERMIT);
}
