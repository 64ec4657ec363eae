/* SPDX-License-Identifier: Apache-2.0 */
/* Looking: who holds, who waits, in which order, since when, and what kind of thing it is. */
#include "conformance.h"

#include <stdio.h>
#include <unistd.h>

static hf_client *open_inspecting(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_INSPECT);
    return client;
}

TEST(a_name_never_seen_is_free)
{
    hf_client *client = open_inspecting();
    const struct picture *picture = look(client, name_of("never"));

    CHECK_INT(picture->holders + picture->waiters, 0);
    CHECK(picture->objects <= 1);
    if (picture->objects)
        CHECK_INT(picture->seen[0].kind, HF_KIND_FREE);
    hf_close(client);
}

TEST(a_holder_is_shown)
{
    hf_client *client = open_client_with((hf_client_options){ .owner_text = "the first client" });
    char host[256] = "";

    need(client, HF_CAP_INSPECT);
    CHECK_INT(gethostname(host, sizeof(host) - 1), 0);
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);
    const struct picture *picture = look(client, name_of("one"));
    CHECK_INT(picture->count, 2);
    const struct seen *object = &picture->seen[0], *holder = &picture->seen[1];
    CHECK_INT(object->role, HF_ROLE_OBJECT);
    CHECK_INT(object->kind, HF_KIND_MUTEX);
    CHECK(object->token == hf_token(hold));
    CHECK_INT(holder->role, HF_ROLE_HOLDER);
    CHECK_INT(holder->mode, HF_MUTEX);
    CHECK_INT(holder->permits, 0);
    CHECK(holder->token == hf_token(hold));
    CHECK(strlen(holder->owner_key) > 0);
    CHECK(holder->since_ms >= -1 && holder->since_ms < 60000);
    if (store_is_local()) {
        CHECK(holder->since_ms >= 0);
        CHECK_STR(holder->owner_text, "the first client");
        CHECK_INT(holder->pid, getpid());
        CHECK_STR(holder->host, host);
        CHECK_INT(holder->lease_left_ms, -1);
    }
    give_back(hold);
    CHECK_INT(holders(client, name_of("one")), 0);
    hf_close(client);
}

TEST(an_owner_describes_itself)
{
    hf_client *client = open_inspecting();
    char text[40];
    hf_hold *hold;

    if (!store_keeps_texts())
        SKIP("this store's format has no room for what an owner says of itself");
    hold = take(client, name_of("one"), HF_MUTEX, 0);
    snprintf(text, sizeof(text), ":%d ", (int)getpid());
    CHECK(strstr(find_role(look(client, name_of("one")), HF_ROLE_HOLDER, 0)->owner_text, text));
    give_back(hold);
    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.owner_text = "task 42"), &hold),
               HF_OK);
    CHECK_STR(find_role(look(client, name_of("one")), HF_ROLE_HOLDER, 0)->owner_text, "task 42");
    give_back(hold);
    hf_close(client);
}

/* A text goes to the store beside the protocol's own words. */
TEST(owner_text_with_line_ends_and_quotes_is_text)
{
    static const char text[] = "a\r\nmg x v\r\nb'\"\\\n; --\r\n$5\r\nc";
    hf_client *client = open_inspecting();
    hf_lock_options options = HF_LOCK_OPTIONS(.owner_text = text);
    hf_hold *hold;

    for (int round = 0; round < 2; round++) {
        CHECK_CODE(hf_lock(client, name_of("one"), 0, &options, &hold), HF_OK);
        const struct seen *holder = find_role(look(client, name_of("one")), HF_ROLE_HOLDER, 0);
        if (store_keeps_texts())
            CHECK_STR(holder->owner_text, text);
        give_back(hold);
    }
    hf_close(client);
}

TEST(time_passes)
{
    hf_client *client = open_inspecting();
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = 60000), &hold), HF_OK);
    const struct seen *holder = find_role(look(client, name_of("one")), HF_ROLE_HOLDER, 0);
    CHECK(holder->lease_left_ms > 0 && holder->lease_left_ms <= 60000);
    EVENTUALLY(find_role(look(client, name_of("one")), HF_ROLE_HOLDER, 0)->lease_left_ms <= 59900,
               SOON_MS);
    if (store_is_local())
        CHECK(find_role(look(client, name_of("one")), HF_ROLE_HOLDER, 0)->since_ms >= 100);
    give_back(hold);
    hf_close(client);
}

#define PEERS 4

TEST(waiters_are_shown_in_order)
{
    struct peer peers[PEERS];
    hf_client *client;

    for (int i = 0; i < PEERS; i++)
        peer_start(&peers[i]);
    client = open_inspecting();
    need(client, HF_CAP_FAIR);
    hf_hold *hold = take(client, name_of("one"), HF_FAIR, 0);
    for (int i = 0; i < PEERS; i++) {
        peer_begin(&peers[i], 0, name_of("one"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR));
        EVENTUALLY(waiters(client, name_of("one")) == i + 1, SOON_MS);
    }
    const struct picture *picture = look(client, name_of("one"));
    CHECK_INT(picture->count, 2 + PEERS);
    CHECK_INT(picture->seen[0].kind, HF_KIND_FAIR);
    CHECK_INT(picture->seen[1].role, HF_ROLE_HOLDER);
    for (int i = 0; i < PEERS; i++) {
        const struct seen *waiter = &picture->seen[2 + i];
        CHECK_INT(waiter->role, HF_ROLE_WAITER);
        CHECK_INT(waiter->rank, i + 1);
        CHECK_INT(waiter->mode, HF_FAIR);
        if (store_is_local())
            CHECK_INT(waiter->pid, peers[i].child.pid);
        CHECK(i == 0 || waiter->since_ms <= picture->seen[1 + i].since_ms);
        CHECK(strcmp(waiter->owner_key, picture->seen[1 + i].owner_key) != 0);
    }
    give_back(hold);
    for (int i = 0; i < PEERS; i++) {
        CHECK_CODE(peer_answer(&peers[i]), HF_OK);
        CHECK_CODE(peer_unlock(&peers[i], 0), HF_OK);
        peer_end(&peers[i]);
    }
    hf_close(client);
}

TEST(permits_and_values_are_shown)
{
    hf_client *client = open_inspecting();
    hf_hold *hold;

    need(client, HF_CAP_PERMIT | HF_CAP_COUNTER | HF_CAP_LATCH);
    CHECK_CODE(hf_lock(client, name_of("sem"), 0,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 3, .limit = 10), &hold),
               HF_OK);
    const struct picture *picture = look(client, name_of("sem"));
    CHECK_INT(picture->seen[0].kind, HF_KIND_SEMAPHORE);
    CHECK_INT(picture->seen[0].total, 10);
    CHECK_INT(picture->seen[0].value, 7);
    CHECK_INT(picture->seen[1].permits, 3);
    give_back(hold);
    CHECK_INT(look(client, name_of("sem"))->seen[0].value, 10);
    CHECK_CODE(hf_counter_set(client, name_of("count"), 17), HF_OK);
    CHECK_INT(look(client, name_of("count"))->seen[0].kind, HF_KIND_COUNTER);
    CHECK_INT(look(client, name_of("count"))->seen[0].value, 17);
    CHECK_CODE(hf_latch_set(client, name_of("latch"), 4), HF_OK);
    CHECK_INT(look(client, name_of("latch"))->seen[0].kind, HF_KIND_LATCH);
    CHECK_INT(look(client, name_of("latch"))->seen[0].value, 4);
    hf_close(client);
}

/* Not the last one of the name, which is another holder's by then. */
TEST(a_holders_token_is_its_own)
{
    hf_client *client = open_inspecting(), *other = open_client();
    hf_hold *first, *second;

    need(client, HF_CAP_PERMIT);
    CHECK_CODE(
        hf_lock(client, name_of("sem"), 0, LOCK_OPTIONS(.mode = HF_PERMIT, .limit = 2), &first),
        HF_OK);
    CHECK_CODE(
        hf_lock(other, name_of("sem"), 0, LOCK_OPTIONS(.mode = HF_PERMIT, .limit = 2), &second),
        HF_OK);
    const struct picture *picture = look(client, name_of("sem"));
    CHECK_INT(picture->holders, 2);
    for (int i = 0; i < 2; i++) {
        uint64_t token = find_role(picture, HF_ROLE_HOLDER, i)->token;
        uint64_t the_other = find_role(picture, HF_ROLE_HOLDER, !i)->token;
        CHECK(token == 0 || token == hf_token(first) || token == hf_token(second));
        CHECK(token == 0 || token != the_other || hf_token(first) == hf_token(second));
    }
    give_back(first);
    give_back(second);
    hf_close(client);
    hf_close(other);
}

TEST(modes_are_shown)
{
    static const hf_mode modes[] = { HF_READ, HF_UPGRADE, HF_WRITE };
    hf_client *client = open_inspecting();

    need(client, HF_CAP_RW | HF_CAP_UPGRADE);
    for (int i = 0; i < 3; i++) {
        hf_hold *hold = take(client, name_of("rw"), modes[i], 0);
        const struct picture *picture = look(client, name_of("rw"));
        CHECK_INT(picture->seen[0].kind, HF_KIND_RW);
        CHECK_INT(picture->seen[1].mode, modes[i]);
        if (modes[i] == HF_WRITE) {
            CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
            CHECK_INT(look(client, name_of("rw"))->seen[1].mode, HF_READ);
        }
        give_back(hold);
    }
    hf_close(client);
}

struct census {
    const char *wanted;
    int objects, entries, stop_after, of_wanted;
};

static bool count_entry(void *arg, const hf_entry *entry)
{
    struct census *census = arg;

    CHECK(entry->size >= sizeof(size_t));
    CHECK_INT(entry->name_length, strlen(entry->name));
    CHECK(entry->role == HF_ROLE_OBJECT || census->objects > 0);
    census->objects += entry->role == HF_ROLE_OBJECT;
    census->of_wanted += strcmp(entry->name, census->wanted) == 0;
    return ++census->entries != census->stop_after;
}

TEST(everything_is_shown_and_can_be_stopped)
{
    hf_client *client = open_inspecting();
    hf_hold *holds[30];
    char name[40];
    struct census census = { .wanted = "each/7" };

    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof(name), "each/%d", i);
        holds[i] = take(client, name, HF_MUTEX, 0);
    }
    CHECK_CODE(hf_inspect(client, NULL, count_entry, &census), HF_OK);
    CHECK(census.objects >= 30);
    CHECK_INT(census.of_wanted, 2);
    census = (struct census){ .wanted = "each/7", .stop_after = 5 };
    CHECK_CODE(hf_inspect(client, NULL, count_entry, &census), HF_OK);
    CHECK_INT(census.entries, 5);
    for (int i = 0; i < 30; i++)
        give_back(holds[i]);
    hf_close(client);
}

TEST(a_name_is_shown_once)
{
    hf_client *client = open_inspecting();
    struct census census = { .wanted = name_of("sem") };
    hf_hold *hold;

    need(client, HF_CAP_PERMIT);
    CHECK_CODE(hf_lock(client, name_of("sem"), 0,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 2, .limit = 5), &hold),
               HF_OK);
    CHECK_CODE(hf_inspect(client, NULL, count_entry, &census), HF_OK);
    CHECK_INT(census.of_wanted, 2);
    give_back(hold);
    census = (struct census){ .wanted = name_of("sem") };
    CHECK_CODE(hf_inspect(client, NULL, count_entry, &census), HF_OK);
    CHECK_INT(census.of_wanted, 1);
    hf_close(client);
}

static bool lock_inside(void *arg, const hf_entry *entry)
{
    (void)entry;
    CHECK_CODE(probe(arg, name_of("another"), HF_MUTEX, 0), HF_OK);
    CHECK_INT(holders(arg, name_of("one")), 1);
    return true;
}

TEST(the_visitor_may_call_the_library)
{
    hf_client *client = open_inspecting();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    CHECK_CODE(hf_inspect(client, name_of("one"), lock_inside, client), HF_OK);
    give_back(hold);
    hf_close(client);
}

static bool note_remark(void *arg, const hf_remark *remark)
{
    CHECK(remark->size >= sizeof(size_t));
    CHECK(remark->what && *remark->what);
    if (remark->value)
        CHECK(!remark->consequence && !remark->cure);
    else
        CHECK(remark->consequence && *remark->consequence && remark->cure && *remark->cure);
    return --*(int *)arg > 0;
}

TEST(a_store_says_what_endangers_it)
{
    hf_client *client = open_client();
    int wanted = 1000;

    CHECK_CODE(hf_examine(client, NULL, note_remark, &wanted), HF_OK);
    int said = 1000 - wanted;
    test_note("%d remarks", said);
    wanted = 1;
    CHECK_CODE(hf_examine(client, NULL, note_remark, &wanted), HF_OK);
    CHECK_INT(wanted, said > 0 ? 0 : 1);
    CHECK_CODE(hf_examine(client, name_of("one"), note_remark, &wanted), HF_OK);
    CHECK_ERROR(hf_examine(client, NULL, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_examine(client, "", note_remark, &wanted), HF_EINVAL);
    hf_close(client);
}

/* ---- without blocking ---- */

struct shown {
    struct outcome outcome;
    hf_client *client;
    int entries, holders, entries_when_done;
    bool stops, asks_again;
};

static bool note_entry(void *arg, const hf_entry *entry)
{
    struct shown *shown = arg;

    CHECK_INT(shown->outcome.calls, 0);
    CHECK_STR(entry->name, name_of("one"));
    shown->entries++;
    shown->holders += entry->role == HF_ROLE_HOLDER;
    return !shown->stops;
}

static void note_end(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct shown *shown = arg;

    if (shown->asks_again) {
        shown->asks_again = false;
        CHECK_CODE(hf_inspect_async(shown->client, name_of("one"), note_entry, note_end, shown),
                   HF_OK);
        return;
    }
    shown->entries_when_done = shown->entries;
    record_outcome(&shown->outcome, code, hold, error);
}

TEST(async_inspection_shows_entries_and_then_ends_once)
{
    hf_client *client = open_inspecting();
    struct shown all = { .client = client, .asks_again = true }, one = { .stops = true };
    struct shown none = { .client = client };
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    CHECK_ERROR(hf_inspect_async(client, name_of("one"), NULL, note_end, &none), HF_EINVAL);
    CHECK_ERROR(hf_inspect_async(client, name_of("one"), note_entry, NULL, &none), HF_EINVAL);
    CHECK_CODE(hf_inspect_async(client, name_of("one"), note_entry, note_end, &all), HF_OK);
    WAIT_OUTCOME(&all.outcome);
    CHECK_CODE(all.outcome.code, HF_OK);
    CHECK(!pthread_equal(all.outcome.thread, pthread_self()));
    CHECK_INT(all.entries, 4);
    CHECK_INT(all.holders, 2);
    CHECK_INT(all.entries_when_done, 4);
    CHECK_CODE(hf_inspect_async(client, name_of("one"), note_entry, note_end, &one), HF_OK);
    WAIT_OUTCOME(&one.outcome);
    CHECK_CODE(one.outcome.code, HF_OK);
    CHECK_INT(one.entries, 1);
    give_back(hold);
    hf_close(client);
    CHECK_INT(all.outcome.calls + one.outcome.calls, 2);
    CHECK_INT(none.outcome.calls + none.entries, 0);
}

TEST(async_inspection_is_told_before_close_returns)
{
    for (int i = 0; i < 5; i++) {
        hf_client *client = open_inspecting();
        struct shown shown = { .client = client };
        CHECK_CODE(hf_inspect_async(client, name_of("one"), note_entry, note_end, &shown), HF_OK);
        hf_close(client);
        CHECK_INT(shown.outcome.calls, 1);
        CHECK(shown.outcome.code == HF_OK || shown.outcome.code == HF_ECLOSED);
    }
}
