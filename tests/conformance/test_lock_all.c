/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks at once: all or nothing, one order, one deadline, one loss. */
#include "conformance.h"

#include <sched.h>
#include <stdio.h>

/* Longer than the shortest lease of any engine. */
#define SHORT_LEASE_MS 1500

static const char *numbered(int number)
{
    char stem[16];

    snprintf(stem, sizeof(stem), "n%02d", number);
    return name_of(stem);
}

/* Items for so many names of one client, the last name first. */
static void fill_items(hf_lock_item *items, int count, hf_client *client)
{
    for (int i = 0; i < count; i++)
        items[i] = (hf_lock_item){ .client = client, .name = numbered(count - 1 - i) };
}

TEST(all_are_held_until_they_are_given_back)
{
    hf_client *client = open_client(), *other = open_client();
    hf_lock_item items[4];
    hf_hold_set *set;

    fill_items(items, 4, client);
    CHECK_CODE(hf_lock_all(items, 4, SOON_MS, NULL, &set), HF_OK);
    CHECK(hf_all_held(set));
    CHECK(hf_all_remaining_ms(set) > 0);
    for (size_t i = 0; i < 4; i++) {
        CHECK_STR(hf_hold_name(hf_all_hold(set, i)), items[i].name);
        CHECK(hf_held(hf_all_hold(set, i)));
        if (hf_caps(client) & HF_CAP_TOKEN)
            CHECK(hf_token(hf_all_hold(set, i)) > 0);
        CHECK_CODE(probe(other, items[i].name, HF_MUTEX, 0), HF_BUSY);
    }
    CHECK(hf_all_hold(set, 4) == NULL);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    for (int i = 0; i < 4; i++)
        CHECK_CODE(probe(other, items[i].name, HF_MUTEX, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(busy_lock_is_named_and_nothing_is_left)
{
    hf_client *client = open_client(), *other = open_client();
    hf_lock_item items[4];
    hf_hold_set *set;

    fill_items(items, 4, client);
    for (int busy = 0; busy < 4; busy++) {
        hf_hold *hold = take(other, items[busy].name, HF_MUTEX, 0);
        CHECK_ERROR(hf_lock_all(items, 4, busy % 2 ? 0 : 500, NULL, &set), HF_BUSY);
        CHECK(strstr(hf_last_error()->text, items[busy].name) != NULL);
        CHECK(set == NULL);
        for (int i = 0; i < 4; i++)
            if (i != busy)
                EVENTUALLY(probe(other, items[i].name, HF_MUTEX, 0) == HF_OK, SOON_MS);
        give_back(hold);
    }
    hf_close(client);
    hf_close(other);
}

/* The first lock is free only after most of the wait. The second one has what is left of it. */
TEST(wait_is_one_for_all_of_them)
{
    hf_client *client = open_client(), *other = open_client();
    const char *one = name_of("one"), *two = name_of("two");
    const hf_lock_item items[] = { { client, one, NULL }, { client, two, NULL } };
    hf_hold *first = NULL, *second = take(other, two, HF_MUTEX, 0);
    hf_hold_set *set;

    CHECK_CODE(hf_lock(other, one, 0, LOCK_OPTIONS(.lease_ms = 2000), &first), HF_OK);
    int64_t began_ms = monotonic_ms();
    CHECK_IN_VAIN(hf_lock_all(items, 2, 2500, NULL, &set));
    CHECK(monotonic_ms() - began_ms < 2500 + 1500 * test_slow());
    CHECK_CODE(hf_unlock(first), HF_LOST);
    give_back(second);
    hf_close(client);
    hf_close(other);
}

struct opposed {
    hf_client *clients[2];
    char names[3][128];
};

/* One thread names them forwards, the other backwards: in the order given, they would soon wait for
 * each other. */
static void take_opposed(void *arg, int index)
{
    struct opposed *opposed = arg;
    hf_lock_item items[3];
    hf_hold_set *set;

    for (int i = 0; i < 3; i++)
        items[i] = (hf_lock_item){ .client = opposed->clients[index],
                                   .name = opposed->names[index ? 2 - i : i] };
    for (int round = 0; round < 30; round++) {
        CHECK_CODE(hf_lock_all(items, 3, SOON_MS * test_slow(), NULL, &set), HF_OK);
        sched_yield();
        CHECK_CODE(hf_unlock_all(set), HF_OK);
    }
}

/* A store that takes a while for each lock, and is never silent. */
struct slow_store {
    const char *point;
    _Atomic int passed;
};

static void be_slow(void *arg, const char *point, const char *name)
{
    struct slow_store *slow = arg;

    (void)name;
    if (!slow->point || strcmp(point, slow->point) != 0)
        return;
    slow->passed++;
    let_pass_ms(80);
}

/* A call without a wait of its own has one request timeout, not one for each lock. */
TEST(locks_that_are_slow_together_have_one_request_timeout)
{
    struct slow_store slow = { .point = NULL };
    hf_client *client = open_client_with(
        (hf_client_options){ .request_timeout_ms = 250, .on_point = be_slow, .point_arg = &slow });
    hf_client *other = open_client();
    hf_lock_item items[8];
    hf_hold_set *set;

    fill_items(items, 8, client);
    give_back(take_patiently(client, items[0].name)); /* which connects */
    slow.point = "before_return";
    CHECK_ERROR(hf_lock_all(items, 8, 0, NULL, &set), HF_UNREACHABLE);
    CHECK(set == NULL);
    CHECK(slow.passed < 8);
    /* The next lock is not asked for. On a busy machine the last one that was may be too late. */
    if (!strstr(hf_last_error()->text, numbered(slow.passed)) &&
        !strstr(hf_last_error()->text, numbered(slow.passed - 1)))
        FAIL("\"%s\" does not name %s", hf_last_error()->text, numbered(slow.passed));
    slow.point = NULL;
    for (int i = 0; i < 8; i++)
        give_back(take_patiently(other, items[i].name));
    CHECK_CODE(hf_lock_all(items, 8, SOON_MS, NULL, &set), HF_OK);
    slow.passed = 0;
    slow.point = "before_release";
    /* The embedded engine passes no point where nothing waits. */
    int code = hf_unlock_all(set);
    CHECK_CODE(code, slow.passed ? HF_UNREACHABLE : HF_OK);
    slow.point = NULL;
    for (int i = 0; i < 8; i++)
        give_back(take_patiently(other, items[i].name));
    hf_close(client);
    hf_close(other);
}

static void be_late(void *arg, const char *point, const char *name)
{
    const char *late = arg;

    if (strcmp(point, "before_ask") == 0 && strcmp(name, late) == 0)
        let_pass_ms(150);
}

/* The question for the second lock leaves when the wait has ended, so that no reply comes. */
TEST(rest_of_the_wait_that_is_too_short_for_a_reply_is_busy)
{
    static char late[128];
    hf_client *other = open_client();
    snprintf(late, sizeof late, "%s", name_of("two"));
    hf_client *client =
        open_client_with((hf_client_options){ .on_point = be_late, .point_arg = late });
    const hf_lock_item items[] = { { client, name_of("one"), NULL }, { client, late, NULL } };
    hf_hold *hold = take(other, late, HF_MUTEX, 0);
    hf_hold_set *set;

    /* A client may have a connection for each name. */
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_OK);
    CHECK_CODE(probe(client, late, HF_MUTEX, 0), HF_BUSY);
    CHECK_ERROR(hf_lock_all(items, 2, 100, NULL, &set), HF_BUSY);
    CHECK(strstr(hf_last_error()->text, late) != NULL);
    CHECK(set == NULL);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(opposite_orders_do_not_wait_in_a_circle)
{
    struct opposed opposed = { .clients = { open_client(), open_client() } };

    for (int i = 0; i < 3; i++)
        snprintf(opposed.names[i], sizeof(opposed.names[i]), "%s", numbered(i));
    threads_run(2, take_opposed, &opposed);
    hf_close(opposed.clients[0]);
    hf_close(opposed.clients[1]);
}

TEST(name_that_is_there_twice_is_taken_once)
{
    hf_client *client = open_client(), *second = open_client(), *other = open_client();
    const char *one = name_of("one"), *two = name_of("two");
    const hf_lock_item items[] = { { client, one, NULL },
                                   { client, two, NULL },
                                   { second, one, LOCK_OPTIONS(.owner = HF_OWNER_THREAD) } };
    hf_hold_set *set;

    CHECK_CODE(hf_lock_all(items, 3, 0, NULL, &set), HF_OK);
    CHECK(hf_all_hold(set, 0) == hf_all_hold(set, 2));
    CHECK(hf_all_hold(set, 0) != hf_all_hold(set, 1));
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    CHECK_CODE(probe(other, one, HF_MUTEX, 0), HF_OK);
    CHECK_CODE(probe(other, two, HF_MUTEX, 0), HF_OK);
    hf_close(client);
    hf_close(second);
    hf_close(other);
}

TEST(modes_may_differ)
{
    hf_client *client = open_client(), *other = open_client();
    const char *rules = name_of("rules"), *page = name_of("page");
    const hf_lock_item items[] = { { client, rules, LOCK_OPTIONS(.mode = HF_READ) },
                                   { client, page, NULL } };
    hf_hold_set *set;

    need(client, HF_CAP_RW);
    CHECK_CODE(hf_lock_all(items, 2, 0, LOCK_OPTIONS(.mode = HF_WRITE), &set), HF_OK);
    CHECK_INT(hf_hold_mode(hf_all_hold(set, 0)), HF_READ);
    CHECK_INT(hf_hold_mode(hf_all_hold(set, 1)), HF_WRITE);
    CHECK_CODE(probe(other, rules, HF_READ, 0), HF_OK);
    CHECK_CODE(probe(other, page, HF_READ, 0), HF_BUSY);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    hf_close(client);
    hf_close(other);
}

TEST(clients_that_run_no_thread_are_used_alone)
{
    hf_client *client = open_client_with(HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER));
    hf_client *other = open_client();
    const hf_lock_item mixed[] = { { client, name_of("one"), NULL },
                                   { other, name_of("two"), NULL } };
    hf_lock_item items[3];
    hf_hold_set *set;

    fill_items(items, 3, client);
    CHECK_CODE(hf_lock_all(items, 3, SOON_MS, NULL, &set), HF_OK);
    CHECK_CODE(probe(other, items[0].name, HF_MUTEX, 0), HF_BUSY);
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    CHECK_CODE(probe(other, items[0].name, HF_MUTEX, 0), HF_OK);
    CHECK_ERROR(hf_lock_all(mixed, 2, SOON_MS, NULL, &set), HF_EINVAL);
    hf_close(client);
    hf_close(other);
}

/* ---- losses ---- */

/* Each lock can be broken alone: where that ends a session, each has a client of its own. */
static void open_items(hf_lock_item *items, int count)
{
    client_lease_ms = 3000;
    hf_client *client = open_client();

    need(client, HF_CAP_BREAK);
    fill_items(items, count, client);
    for (int i = 1; i < count; i++)
        if (store_has_plain_locks())
            items[i].client = open_client();
}

static void close_items(const hf_lock_item *items, int count)
{
    for (int i = count - 1; i >= 0; i--)
        if (i == 0 || items[i].client != items[0].client)
            hf_close(items[i].client);
}

TEST(first_loss_is_told_once)
{
    hf_lock_item items[3];
    hf_hold_set *set;
    _Atomic int losses = 0;

    open_items(items, 3);
    hf_client *other = open_client();
    CHECK_CODE(hf_lock_all(items, 3, SOON_MS,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &set),
               HF_OK);
    CHECK_CODE(hf_break(other, items[1].name, NULL, NULL), HF_OK);
    EVENTUALLY(losses > 0, SOON_MS);
    CHECK(!hf_all_held(set));
    CHECK_INT(hf_all_remaining_ms(set), 0);
    CHECK(hf_held(hf_all_hold(set, 0)));
    CHECK(!hf_held(hf_all_hold(set, 1)));
    CHECK_CODE(hf_break(other, items[2].name, NULL, NULL), HF_OK);
    EVENTUALLY(!hf_held(hf_all_hold(set, 2)), SOON_MS);
    CHECK_ERROR(hf_unlock_all(set), HF_LOST);
    CHECK_INT(losses, 1);
    for (int i = 0; i < 3; i++)
        CHECK_CODE(probe(other, items[i].name, HF_MUTEX, 0), HF_OK);
    close_items(items, 3);
    hf_close(other);
}

struct given_up {
    hf_hold_set *_Atomic set;
    _Atomic int code;
};

static void give_up_set(void *arg, const hf_loss *loss)
{
    struct given_up *given_up = arg;

    (void)loss;
    given_up->code = hf_unlock_all(given_up->set);
    given_up->set = NULL;
}

TEST(set_may_be_given_back_in_its_on_lost)
{
    hf_lock_item items[2];
    struct given_up given_up = { .set = NULL };
    hf_hold_set *set;

    open_items(items, 2);
    hf_client *other = open_client();
    CHECK_CODE(hf_lock_all(items, 2, SOON_MS,
                           LOCK_OPTIONS(.on_lost = give_up_set, .lost_arg = &given_up), &set),
               HF_OK);
    given_up.set = set;
    CHECK_CODE(hf_break(other, items[0].name, NULL, NULL), HF_OK);
    EVENTUALLY(given_up.set == NULL, SOON_MS);
    CHECK_CODE(given_up.code, HF_LOST);
    EVENTUALLY(probe(other, items[1].name, HF_MUTEX, 0) == HF_OK, SOON_MS);
    close_items(items, 2);
    hf_close(other);
}

struct release_later {
    hf_hold *hold;
    hf_client *client;
    char name[128];
};

static void release_when_free(void *arg, int index)
{
    struct release_later *later = arg;

    if (index == 0) {
        /* What the other thread took first has ended by itself: it is free. */
        EVENTUALLY(probe(later->client, later->name, HF_MUTEX, 0) == HF_BUSY, SOON_MS);
        EVENTUALLY(probe(later->client, later->name, HF_MUTEX, 0) == HF_OK, SOON_MS);
        give_back(later->hold);
        return;
    }
    hf_client *client = open_client();
    const hf_lock_item items[] = { { client, later->name,
                                     LOCK_OPTIONS(.lease_ms = SHORT_LEASE_MS) },
                                   { client, hf_hold_name(later->hold), NULL } };
    hf_hold_set *set;
    CHECK_ERROR(hf_lock_all(items, 2, 2 * SOON_MS * test_slow(), NULL, &set), HF_LOST);
    CHECK(strstr(hf_last_error()->text, later->name) != NULL);
    CHECK(set == NULL);
    EVENTUALLY(probe(later->client, items[1].name, HF_MUTEX, 0) == HF_OK, SOON_MS);
    hf_close(client);
}

/* The lease of the first lock is over before the second is granted. */
TEST(lock_lost_while_others_are_taken_is_the_answer)
{
    struct release_later later = { .client = open_client() };

    snprintf(later.name, sizeof(later.name), "%s", name_of("one"));
    later.hold = take(later.client, name_of("two"), HF_MUTEX, 0);
    threads_run(2, release_when_free, &later);
    hf_close(later.client);
}

/* The lease of the first lock is over; what the second one waits for is held all the time. */
static void expect_loss_to_end_wait(hf_client *client, uint64_t owner)
{
    hf_client *other = open_client();
    char one[128], two[128];
    hf_hold_set *set;
    hf_hold *busy;

    snprintf(one, sizeof(one), "%s", name_of("one"));
    snprintf(two, sizeof(two), "%s", name_of("two"));
    const hf_lock_item items[] = {
        { client, one, LOCK_OPTIONS(.lease_ms = SHORT_LEASE_MS, .owner = owner) },
        { client, two, LOCK_OPTIONS(.owner = owner) },
    };
    busy = take(other, two, HF_MUTEX, 0);
    CHECK_ERROR(hf_lock_all(items, 2, HF_FOREVER, NULL, &set), HF_LOST);
    CHECK(strstr(hf_last_error()->text, one) != NULL);
    CHECK(set == NULL);
    CHECK(hf_held(busy));
    give_back(busy);
    EVENTUALLY(probe(other, one, HF_MUTEX, 0) == HF_OK, SOON_MS);
    EVENTUALLY(probe(other, two, HF_MUTEX, 0) == HF_OK, SOON_MS);
    check_nothing_left(other, two);
    hf_close(other);
}

TEST(loss_ends_the_wait_for_the_others)
{
    hf_client *client = open_client();

    expect_loss_to_end_wait(client, 0);
    expect_loss_to_end_wait(client, HF_OWNER_NEW);
    hf_close(client);
}

TEST(loss_ends_the_wait_without_a_thread)
{
    hf_client *client = open_client_with(HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER));

    expect_loss_to_end_wait(client, 0);
    hf_close(client);
}

/* What the thread holds it re-enters, also behind a lock that may end. */
TEST(thread_re_enters_what_it_holds)
{
    hf_client *client = open_client(), *other = open_client();
    const char *one = name_of("one"), *two = name_of("two");
    const hf_lock_item items[] = { { client, one, LOCK_OPTIONS(.lease_ms = 60000) },
                                   { client, two, NULL } };
    hf_hold *outer = take(client, two, HF_MUTEX, 0);
    hf_hold_set *set;

    CHECK_CODE(hf_lock_all(items, 2, SOON_MS, NULL, &set), HF_OK);
    CHECK(hf_token(hf_all_hold(set, 1)) == hf_token(outer));
    CHECK_CODE(hf_unlock_all(set), HF_OK);
    CHECK_CODE(probe(other, two, HF_MUTEX, 0), HF_BUSY);
    give_back(outer);
    CHECK_CODE(probe(other, two, HF_MUTEX, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}

/* A release of the same owner that is still on its way is waited for. */
TEST(writer_follows_its_own_release)
{
    hf_client *client = open_client();
    const char *one = name_of("one"), *two = name_of("two");
    const hf_lock_item items[] = {
        { client, one, LOCK_OPTIONS(.lease_ms = 60000, .mode = HF_WRITE) },
        { client, two, LOCK_OPTIONS(.mode = HF_WRITE) },
    };
    hf_hold_set *set;

    need(client, HF_CAP_RW);
    for (int i = 0; i < 50; i++) {
        hf_unlock_nowait(take(client, two, HF_WRITE, SOON_MS));
        CHECK_CODE(hf_lock_all(items, 2, SOON_MS, NULL, &set), HF_OK);
        CHECK_CODE(hf_unlock_all(set), HF_OK);
    }
    hf_close(client);
}

struct closing_call {
    hf_client *client, *other;
    char names[8][128];
};

static void lock_or_close(void *arg, int index)
{
    struct closing_call *closing = arg;
    hf_lock_item items[8];
    hf_hold_set *set;

    if (index == 1) {
        EVENTUALLY(probe(closing->other, closing->names[0], HF_MUTEX, 0) == HF_BUSY, SOON_MS);
        hf_close(closing->client);
        return;
    }
    for (int i = 0; i < 8; i++)
        items[i] = (hf_lock_item){ closing->client, closing->names[i], NULL };
    CHECK_CODE(hf_lock_all(items, 8, HF_FOREVER, NULL, &set), HF_ECLOSED);
    CHECK(set == NULL);
}

/* hf_close waits for the call, and nothing of what it had is left. */
TEST(closing_ends_the_call)
{
    struct closing_call closing = { .client = open_client(), .other = open_client() };

    for (int i = 0; i < 8; i++)
        snprintf(closing.names[i], sizeof(closing.names[i]), "%s", numbered(i));
    hf_hold *busy = take(closing.other, closing.names[7], HF_MUTEX, 0);
    threads_run(2, lock_or_close, &closing);
    for (int i = 0; i < 7; i++)
        EVENTUALLY(probe(closing.other, closing.names[i], HF_MUTEX, 0) == HF_OK, SOON_MS);
    give_back(busy);
    hf_close(closing.other);
}

struct closing_one {
    hf_client *first, *second, *other;
    char one[128], two[128], three[128];
    hf_hold *busy[2];
};

/* The call has the first name then. A store without queues shows no waiters. */
static bool waits_for_the_second(struct closing_one *closing)
{
    if (hf_caps(closing->other) & HF_CAP_FAIR)
        return waiters(closing->other, closing->two) == 1;
    return probe(closing->other, closing->one, HF_MUTEX, 0) == HF_BUSY;
}

/* The closing of the first client ends the wait for the third name. What the call has of that
 * client stays until the call has ended. */
static void close_one_of_two(void *arg, int index)
{
    struct closing_one *closing = arg;
    const hf_lock_item items[] = { { closing->first, closing->one, NULL },
                                   { closing->second, closing->two, NULL } };
    hf_hold_set *set;
    hf_hold *hold;

    if (index == 0) {
        CHECK_ERROR(hf_lock_all(items, 2, HF_FOREVER, NULL, &set), HF_ECLOSED);
    } else if (index == 1) {
        EVENTUALLY(waits_for_the_second(closing), SOON_MS);
        hf_close(closing->first);
    } else {
        CHECK_CODE(hf_lock(closing->first, closing->three, HF_FOREVER, NULL, &hold), HF_ECLOSED);
        CHECK_CODE(hf_lock(closing->other, closing->one, 300, NULL, &hold), HF_BUSY);
        give_back(closing->busy[0]);
    }
}

TEST(client_that_is_closed_waits_for_the_call)
{
    struct closing_one closing = { .first = open_client(),
                                   .second = open_client(),
                                   .other = open_client() };

    snprintf(closing.one, sizeof(closing.one), "%s", name_of("one"));
    snprintf(closing.two, sizeof(closing.two), "%s", name_of("two"));
    snprintf(closing.three, sizeof(closing.three), "%s", name_of("three"));
    closing.busy[0] = take(closing.other, closing.two, HF_MUTEX, 0);
    closing.busy[1] = take(closing.other, closing.three, HF_MUTEX, 0);
    threads_run(3, close_one_of_two, &closing);
    EVENTUALLY(probe(closing.other, closing.one, HF_MUTEX, 0) == HF_OK, SOON_MS);
    EVENTUALLY(probe(closing.other, closing.two, HF_MUTEX, 0) == HF_OK, SOON_MS);
    give_back(closing.busy[1]);
    hf_close(closing.second);
    hf_close(closing.other);
}

/* ---- all of it ---- */

#define ACCOUNTS 10
#define START 1000

struct bank {
    hf_client *clients[4];
    char names[ACCOUNTS][128];
    _Atomic long
        balance[ACCOUNTS]; /* read and written in two steps: only the locks make them one */
};

static void move_money(void *arg, int index)
{
    struct bank *bank = arg;
    hf_client *client = bank->clients[index % 4];
    unsigned seed = (unsigned)index + 1;

    for (int round = 0; round < 25; round++) {
        int from = (int)((seed = seed * 1103515245 + 12345) >> 16) % ACCOUNTS;
        int to = (int)((seed = seed * 1103515245 + 12345) >> 16) % ACCOUNTS;
        const hf_lock_item items[] = { { client, bank->names[from], NULL },
                                       { client, bank->names[to], NULL } };
        hf_hold_set *set;
        if (from == to)
            continue;
        CHECK_CODE(hf_lock_all(items, 2, 3 * SOON_MS * test_slow(), NULL, &set), HF_OK);
        long left = bank->balance[from] - 1 - index, grown = bank->balance[to] + 1 + index;
        sched_yield();
        bank->balance[from] = left;
        bank->balance[to] = grown;
        CHECK(hf_all_held(set));
        CHECK_CODE(hf_unlock_all(set), HF_OK);
    }
}

TEST(sixteen_threads_move_money_between_ten_accounts)
{
    struct bank bank;
    long sum = 0;

    TEST_TIMEOUT(120);
    for (int i = 0; i < 4; i++)
        bank.clients[i] = open_client();
    for (int i = 0; i < ACCOUNTS; i++) {
        snprintf(bank.names[i], sizeof(bank.names[i]), "%s", numbered(i));
        bank.balance[i] = START;
    }
    threads_run(16, move_money, &bank);
    for (int i = 0; i < ACCOUNTS; i++)
        sum += bank.balance[i];
    CHECK_INT(sum, (long)ACCOUNTS * START);
    for (int i = 0; i < ACCOUNTS; i++)
        check_nothing_left(bank.clients[0], bank.names[i]);
    for (int i = 0; i < 4; i++)
        hf_close(bank.clients[i]);
}
