/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait for each other in a circle: one of them is told, and the others go on. A part
 * of the topic `lock_all`, which is how such circles are avoided. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST = 8 };

/* A thread that takes a name, and then asks for the next one's. */
struct member {
    struct thread thread;
    hf_client *client, *next_client;
    struct barrier *all_hold;
    const char *own, *next;
    hf_lock_options first, then;
    int64_t wait_ms;
    int code;
    char text[360];
};

static void close_circle(void *arg)
{
    struct member *member = arg;
    hf_hold *own, *next = NULL;
    CHECK_CODE(hf_lock(member->client, member->own, SOON_MS, &member->first, &own), HF_OK);
    barrier_wait(member->all_hold);
    hf_client *next_client = member->next_client ? member->next_client : member->client;
    member->code = hf_lock(next_client, member->next, member->wait_ms, &member->then, &next);
    if (member->code != HF_OK)
        snprintf(member->text, sizeof member->text, "%s", hf_last_error()->text);
    if (next)
        give_back(next);
    give_back(own);
}

static void write_once(void *arg)
{
    const struct member *member = arg;
    hf_hold *hold;
    CHECK_CODE(hf_lock(member->client, member->next, HF_FOREVER, &member->then, &hold), HF_OK);
    give_back(hold);
}

/* Each has a client of its own, or all have the same one. */
static void prepare_circle(struct member *members, unsigned count, hf_client *client)
{
    static const char *const stems[LARGEST] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    for (unsigned i = 0; i < count; i++) {
        hf_client *own = client ? client : open_client();
        members[i] = (struct member){ .client = own,
                                      .own = name_of(stems[i]),
                                      .next = name_of(stems[(i + 1) % count]),
                                      .first = HF_LOCK_OPTIONS_INIT,
                                      .then = HF_LOCK_OPTIONS_INIT,
                                      .wait_ms = HF_FOREVER };
        /* Within a client no look at the store is needed, which would come too late. */
        members[i].then.deadlock_ms = client ? 3600000 : 200;
    }
}

/* Returns: how many were told of a circle. */
static unsigned run_circle(struct member *members, unsigned count)
{
    struct barrier all_hold;
    unsigned told = 0;
    barrier_init(&all_hold, count);
    for (unsigned i = 0; i < count; i++) {
        members[i].all_hold = &all_hold;
        thread_start(&members[i].thread, close_circle, &members[i]);
    }
    for (unsigned i = 0; i < count; i++)
        thread_join(&members[i].thread);
    for (unsigned i = 0; i < count; i++)
        told += members[i].code == HF_EDEADLK;
    return told;
}

/* Each owner of the circle, and each name, is in the sentence as far as there is room. */
static void check_told_once(struct member *members, unsigned count)
{
    CHECK_INT((int)run_circle(members, count), 1);
    for (unsigned i = 0; i < count; i++) {
        if (members[i].code != HF_EDEADLK) {
            CHECK_CODE(members[i].code, HF_OK);
            continue;
        }
        char waits[100];
        snprintf(waits, sizeof waits, "waits for \"%s\"", members[i].next);
        if (!strstr(members[i].text, waits))
            FAIL("\"%s\" does not say: %s", members[i].text, waits);
    }
}

static void check_own_circle(unsigned count)
{
    struct member members[LARGEST];
    hf_client *client = open_client();
    prepare_circle(members, count, client);
    check_told_once(members, count);
    hf_close(client);
}

TEST(circle_of_threads_is_told_to_one)
{
    check_own_circle(2);
    check_own_circle(3);
    check_own_circle(LARGEST);
}

static void count_waits(void *arg, const hf_event *event)
{
    _Atomic int *waits = arg;
    *waits += event->type == HF_EVENT_WAITING;
}

/* The reader of `b` could share it with its holder, but for the writer that came before. */
TEST(circle_through_reader_behind_writer_is_told_to_one)
{
    struct member members[2];
    struct barrier all_hold;
    _Atomic int waits = 0;
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = count_waits, .event_arg = &waits });
    need(client, HF_CAP_RW);
    struct member writer = { .client = client,
                             .next = name_of("b"),
                             .then = HF_LOCK_OPTIONS(.mode = HF_WRITE) };
    prepare_circle(members, 2, client);
    members[0].then.mode = members[1].first.mode = HF_READ;
    barrier_init(&all_hold, 3);
    for (unsigned i = 0; i < 2; i++) {
        members[i].all_hold = &all_hold;
        thread_start(&members[i].thread, close_circle, &members[i]);
    }
    EVENTUALLY(probe(client, name_of("b"), HF_WRITE, 9) == HF_BUSY, SOON_MS);
    int before = waits; /* for what was probed */
    thread_start(&writer.thread, write_once, &writer);
    EVENTUALLY(waits == before + 1, SOON_MS);
    barrier_wait(&all_hold);
    for (unsigned i = 0; i < 2; i++)
        thread_join(&members[i].thread);
    thread_join(&writer.thread);
    CHECK_INT((members[0].code == HF_EDEADLK) + (members[1].code == HF_EDEADLK), 1);
    const char *text = members[members[1].code == HF_EDEADLK].text;
    if (!strstr(text, "\" behind thread "))
        FAIL("\"%s\" does not say which wait is behind another", text);
    hf_close(client);
}

static void need_shown_waiters(void)
{
    hf_client *client = open_client();
    need(client, HF_CAP_INSPECT | HF_CAP_FAIR);
    hf_close(client);
    if (store_has_plain_locks() || strstr(store_url(), "layout="))
        SKIP("the store does not tell which threads wait");
}

static void check_circle_of_clients(struct member *members, unsigned count)
{
    check_told_once(members, count);
    for (unsigned i = 0; i < count; i++) {
        hf_close(members[i].client);
        if (members[i].next_client)
            hf_close(members[i].next_client);
    }
}

static void check_clients_at_one_store(unsigned count)
{
    struct member members[LARGEST];
    prepare_circle(members, count, NULL);
    check_circle_of_clients(members, count);
}

TEST(circle_of_clients_is_told_to_one)
{
    need_shown_waiters();
    check_clients_at_one_store(2);
    check_clients_at_one_store(3);
    check_clients_at_one_store(LARGEST);
}

/* A process that is told of a circle releases what it holds; the other one gets its lock then. */
static void close_circle_with_peer(void *arg)
{
    struct peer *peer = arg;
    int code = peer_answer(peer);
    if (code == HF_EDEADLK)
        CHECK_CODE(peer_unlock(peer, 0), HF_OK);
    else
        CHECK_CODE(code, HF_OK);
    peer->token = code == HF_EDEADLK;
}

TEST(circle_of_processes_is_told_to_one)
{
    struct peer peers[2];
    struct thread threads[2];
    const char *names[] = { name_of("a"), name_of("b") };
    if (!store_is_local())
        SKIP("clients of one process look at the store as those of two do");
    for (int i = 0; i < 2; i++) {
        peer_start(&peers[i]);
        CHECK_CODE(peer_lock(&peers[i], 0, names[i], 0, NULL), HF_OK);
    }
    for (int i = 0; i < 2; i++) {
        peer_begin(&peers[i], 1, names[1 - i], HF_FOREVER, NULL);
        thread_start(&threads[i], close_circle_with_peer, &peers[i]);
    }
    for (int i = 0; i < 2; i++)
        thread_join(&threads[i]);
    CHECK(peers[0].token + peers[1].token == 1);
    for (int i = 0; i < 2; i++)
        peer_end(&peers[i]);
}

TEST(reader_in_circle_is_waited_for)
{
    struct member members[2];
    hf_client *client = open_client();
    need(client, HF_CAP_RW);
    prepare_circle(members, 2, client);
    members[0].first.mode = HF_READ;
    members[1].then.mode = HF_WRITE;
    check_told_once(members, 2);
    hf_close(client);
}

/* ---- over two stores ---- */

/* Beside the store under test there is one in a file. */
static const char *other_url(void)
{
    static _Thread_local char url[400];
    char path[300];
    snprintf(path, sizeof path, "%s/other", temp_dir());
    mkdir(path, 0700);
    snprintf(url, sizeof url, "local://%s", path);
    return url;
}

static hf_client *open_at(unsigned store)
{
    hf_client *client = NULL;
    if (store == 0)
        return open_client();
    CHECK_CODE(hf_open(&client, other_url(), NULL), HF_OK);
    return client;
}

static void check_stores_are_named(const struct member *members, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (members[i].code == HF_EDEADLK && !strstr(members[i].text, "\" at "))
            FAIL("\"%s\" does not name the stores", members[i].text);
}

/* Owner i holds a name at the store i % 2. */
static void check_own_circle_over_stores(unsigned count)
{
    struct member members[LARGEST];
    hf_client *stores[2] = { open_at(0), open_at(1) };
    prepare_circle(members, count, stores[0]);
    for (unsigned i = 0; i < count; i++) {
        members[i].client = stores[i % 2];
        members[i].next_client = stores[(i + 1) % count % 2];
    }
    check_told_once(members, count);
    check_stores_are_named(members, count);
    hf_close(stores[0]);
    hf_close(stores[1]);
}

TEST(circle_of_threads_over_two_stores_is_told_to_one)
{
    check_own_circle_over_stores(2);
    check_own_circle_over_stores(3);
    check_own_circle_over_stores(LARGEST);
}

static void check_clients_over_stores(unsigned count)
{
    struct member members[LARGEST];
    prepare_circle(members, count, NULL);
    for (unsigned i = 0; i < count; i++) {
        hf_client *first = members[i].client, *other = open_at(1);
        members[i].client = i % 2 ? other : first;
        members[i].next_client = i % 2 ? first : other;
    }
    check_circle_of_clients(members, count);
    check_stores_are_named(members, count);
}

TEST(circle_of_clients_over_two_stores_is_told_to_one)
{
    need_shown_waiters();
    check_clients_over_stores(2);
    check_clients_over_stores(LARGEST);
}

/* A process of a circle, with a client at both stores. */
struct part {
    struct child child;
    const char *own, *next;
    unsigned own_store, next_store;
};

static void play_part(void *arg)
{
    const struct part *part = arg;
    hf_client *stores[2] = { open_at(0), open_at(1) };
    hf_hold *own, *next = NULL;
    char line[20];
    CHECK_CODE(hf_lock(stores[part->own_store], part->own, SOON_MS, NULL, &own), HF_OK);
    parent_say("holds");
    CHECK(parent_hear(line, sizeof line));
    int code = hf_lock(stores[part->next_store], part->next, HF_FOREVER,
                       LOCK_OPTIONS(.deadlock_ms = 200), &next);
    parent_say("%d %s", code, code == HF_OK ? "" : hf_last_error()->text);
    if (next)
        give_back(next);
    give_back(own);
    hf_close(stores[0]);
    hf_close(stores[1]);
}

/* `stores`: how many the names are at. */
static void check_processes(unsigned count, unsigned stores)
{
    static const char *const stems[LARGEST] = { "p", "q", "r", "s", "t", "u", "v", "w" };
    struct part parts[LARGEST];
    unsigned told = 0;
    other_url(); /* all mean the same directory */
    store_url();
    for (unsigned i = 0; i < count; i++) {
        unsigned then = (i + 1) % count;
        parts[i] = (struct part){ .own = name_of(stems[i]),
                                  .next = name_of(stems[then]),
                                  .own_store = i % stores,
                                  .next_store = then % stores };
        child_start(&parts[i].child, play_part, &parts[i]);
    }
    for (unsigned i = 0; i < count; i++)
        child_wait_for(&parts[i].child, "holds");
    for (unsigned i = 0; i < count; i++)
        child_say(&parts[i].child, "wait");
    for (unsigned i = 0; i < count; i++) {
        char line[500];
        int code;
        if (!child_hear(&parts[i].child, line, sizeof line) || sscanf(line, "%d", &code) != 1)
            FAIL("process %u has ended", i);
        told += code == HF_EDEADLK;
        if (code != HF_EDEADLK)
            CHECK_CODE(code, HF_OK);
        else if (!strstr(line, "circle of waits") || !strstr(line, "\" at ") != (stores == 1))
            FAIL("process %u says \"%s\"", i, line);
    }
    CHECK_INT((int)told, 1);
    for (unsigned i = 0; i < count; i++)
        child_join(&parts[i].child);
}

TEST(circle_of_many_processes_is_told_to_one)
{
    need_shown_waiters();
    check_processes(3, 1);
    check_processes(LARGEST, 1);
}

TEST(circle_of_processes_over_two_stores_is_told_to_one)
{
    need_shown_waiters();
    check_processes(2, 2);
    check_processes(3, 2);
    check_processes(LARGEST, 2);
}

/* ---- what is in no circle ---- */

/* An owner that is no thread may be served by another one. */
TEST(owners_that_are_no_threads_are_in_no_circle)
{
    struct member members[2];
    hf_client *client = open_client();
    prepare_circle(members, 2, client);
    for (unsigned i = 0; i < 2; i++) {
        members[i].first.owner = members[i].then.owner = 10 + i;
        members[i].then.deadlock_ms = 20;
        members[i].wait_ms = 300;
    }
    CHECK_INT((int)run_circle(members, 2), 0);
    hf_close(client);
}

TEST(wait_that_ends_before_its_limit_is_left_alone)
{
    struct member members[2];
    hf_client *client = open_client();
    prepare_circle(members, 2, client);
    members[0].wait_ms = 300; /* of an hour */
    CHECK_INT((int)run_circle(members, 2), 0);
    CHECK_IN_VAIN(members[0].code);
    CHECK_CODE(members[1].code, HF_OK);
    hf_close(client);
}

TEST(limit_below_zero_is_refused)
{
    hf_client *client = open_client();
    hf_hold *hold;
    CHECK_ERROR(hf_lock(client, name_of("a"), 0, LOCK_OPTIONS(.deadlock_ms = -2), &hold),
                HF_EINVAL);
    hf_close(client);
}

/* ---- without a circle ---- */

/* A look meets a call that was just granted once in hundreds of rounds. */
enum { ROUNDS = 150, LOCAL_ROUNDS = 12000, THREADS = 4 };

static void take_in_order(void *arg)
{
    struct member *member = arg;
    unsigned rounds = store_is_local() ? LOCAL_ROUNDS / (unsigned)test_slow() : ROUNDS;
    for (unsigned i = 0; i < rounds; i++) {
        hf_hold *first, *then;
        CHECK_CODE(hf_lock(member->client, member->own, HF_FOREVER, &member->first, &first), HF_OK);
        CHECK_CODE(hf_lock(member->client, member->next, HF_FOREVER, &member->then, &then), HF_OK);
        give_back(i % 2 ? first : then);
        give_back(i % 2 ? then : first);
    }
}

TEST(locks_that_are_taken_in_order_are_in_no_circle)
{
    struct member members[THREADS];
    hf_client *client = open_client(), *other = open_client();
    for (unsigned i = 0; i < THREADS; i++) {
        members[i] = (struct member){ .client = i % 2 ? client : other,
                                      .own = name_of(i < 2 ? "a" : "b"),
                                      .next = name_of(i < 2 ? "b" : "c"),
                                      .first = HF_LOCK_OPTIONS(.deadlock_ms = 1),
                                      .then = HF_LOCK_OPTIONS(.deadlock_ms = 1) };
        thread_start(&members[i].thread, take_in_order, &members[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        thread_join(&members[i].thread);
    hf_close(client);
    hf_close(other);
}

/* Readers wait behind writers here, which waits for holders alone would not show. */
TEST(readers_and_writers_in_order_are_in_no_circle)
{
    struct member members[2 * THREADS];
    hf_client *client = open_client();
    need(client, HF_CAP_RW);
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        hf_lock_options looks =
            HF_LOCK_OPTIONS(.mode = i % 3 ? HF_READ : HF_WRITE, .deadlock_ms = 1);
        members[i] = (struct member){ .client = client,
                                      .own = name_of(i % 2 ? "a" : "b"),
                                      .next = name_of(i % 2 ? "b" : "c"),
                                      .first = looks,
                                      .then = looks };
        thread_start(&members[i].thread, take_in_order, &members[i]);
    }
    for (unsigned i = 0; i < 2 * THREADS; i++)
        thread_join(&members[i].thread);
    hf_close(client);
}

enum { SHORT_WAITS = 300 };

/* Holds a lock, so that it looks; and a wait mostly ends while its look is out. */
static void wait_briefly(void *arg)
{
    const struct member *member = arg;
    hf_hold *own, *hold;
    CHECK_CODE(hf_lock(member->client, member->own, SOON_MS, &member->first, &own), HF_OK);
    int rounds = store_is_local() ? SHORT_WAITS : SHORT_WAITS / 10;
    for (int i = 0; i < rounds; i++)
        CHECK_IN_VAIN(hf_lock(member->client, member->next, 1 + i % 5, &member->then, &hold));
    give_back(own);
}

/* What a look has begun ends with the call that looks: the loop touches nothing of it later. A loop
 * parks for the one call of its client. */
TEST(wait_that_ends_while_it_looks_leaves_nothing_to_the_loop)
{
    struct member members[LARGEST];
    hf_client *client = open_client();
    need_shown_waiters();
    hf_hold *hold = take(client, name_of("busy"), HF_MUTEX, 0);
    /* A server answers what is asked later behind the lists that it still makes. */
    unsigned count = store_is_local() ? LARGEST : 2;
    prepare_circle(members, count, NULL);
    for (unsigned i = 0; i < count; i++) {
        members[i].next = name_of("busy");
        members[i].then.deadlock_ms = 1;
        thread_start(&members[i].thread, wait_briefly, &members[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        thread_join(&members[i].thread);
        hf_close(members[i].client);
    }
    give_back(hold);
    hf_close(client);
}
