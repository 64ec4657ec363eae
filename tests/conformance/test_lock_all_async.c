/* SPDX-License-Identifier: Apache-2.0 */
/* Several locks at once without blocking. A part of the topic `lock_all`. */
#include "conformance.h"

#include <stdio.h>

/* Items for so many names of one client, the last name first. */
static void fill_items(hf_lock_item *items, int count, hf_client *client)
{
    for (int i = 0; i < count; i++) {
        char stem[16];
        snprintf(stem, sizeof(stem), "n%02d", count - 1 - i);
        items[i] = (hf_lock_item){ .client = client, .name = name_of(stem) };
    }
}

struct all_outcome {
    _Atomic int calls;
    _Atomic int code;
    hf_hold_set *_Atomic set;
    char text[360];
    bool releases; /* in the callback, with this outcome: */
    struct outcome released;
};

static void record_all(void *arg, int code, hf_hold_set *set, const hf_error *error)
{
    struct all_outcome *outcome = arg;

    CHECK((code == HF_OK) == (set != NULL) && (code == HF_OK) == (error == NULL));
    if (error)
        snprintf(outcome->text, sizeof(outcome->text), "%s", error->text);
    outcome->code = code;
    outcome->set = set;
    if (set && outcome->releases)
        CHECK_CODE(hf_unlock_all_async(set, record_outcome, &outcome->released), HF_OK);
    outcome->calls++;
}

static void begin_all(const hf_lock_item *items, size_t count, int64_t wait_ms,
                      const hf_lock_options *options, struct all_outcome *outcome)
{
    CHECK_CODE(hf_lock_all_async(items, count, wait_ms, options, record_all, outcome), HF_OK);
}

TEST(async_set_is_held_until_it_is_released)
{
    hf_client *client = open_client(), *other = open_client();
    hf_lock_item items[4];
    char name[128];
    struct all_outcome outcome = { 0 };
    struct outcome released = { 0 };

    fill_items(items, 4, client);
    snprintf(name, sizeof(name), "%s", items[3].name);
    items[3].name = name;
    begin_all(items, 4, SOON_MS, NULL, &outcome);
    memset(name, 'x', sizeof(name) - 1); /* the caller's own again */
    EVENTUALLY(outcome.calls > 0, SOON_MS);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK(hf_all_held(outcome.set));
    for (int i = 0; i < 3; i++) {
        CHECK_STR(hf_hold_name(hf_all_hold(outcome.set, (size_t)i)), items[i].name);
        CHECK_CODE(probe(other, items[i].name, HF_MUTEX, 0), HF_BUSY);
    }
    CHECK_CODE(hf_unlock_all_async(outcome.set, record_outcome, &released), HF_OK);
    WAIT_OUTCOME(&released);
    CHECK_CODE(released.code, HF_OK);
    CHECK(released.hold == NULL);
    for (int i = 0; i < 3; i++)
        CHECK_CODE(probe(other, items[i].name, HF_MUTEX, 0), HF_OK);
    hf_close(client);
    hf_close(other);
    CHECK_INT(outcome.calls, 1);
    CHECK_INT(released.calls, 1);
}

TEST(async_set_that_is_refused_leaves_nothing)
{
    hf_client *client = open_client(), *other = open_client();
    struct all_outcome busy = { 0 }, stopped = { 0 };
    hf_stop stop = HF_STOP_INIT;
    hf_lock_item items[3];

    fill_items(items, 3, client);
    CHECK_ERROR(hf_lock_all_async(items, 3, 0, NULL, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_lock_all_async(items, 0, 0, NULL, record_all, &busy), HF_EINVAL);
    CHECK_ERROR(
        hf_lock_all_async(items, 3, 0, LOCK_OPTIONS(.owner = HF_OWNER_THREAD), record_all, &busy),
        HF_EINVAL);
    CHECK_ERROR(hf_unlock_all_async(NULL, record_outcome, NULL), HF_EINVAL);
    hf_hold *hold = take(other, items[0].name, HF_MUTEX, 0);
    begin_all(items, 3, 0, NULL, &busy);
    EVENTUALLY(busy.calls > 0, SOON_MS);
    CHECK_CODE(busy.code, HF_BUSY);
    CHECK(strstr(busy.text, items[0].name) != NULL);
    begin_all(items, 3, HF_FOREVER, LOCK_OPTIONS(.stop = &stop), &stopped);
    EVENTUALLY(probe(other, items[1].name, HF_MUTEX, 0) == HF_BUSY, SOON_MS);
    hf_stop_set(&stop);
    EVENTUALLY(stopped.calls > 0, SOON_MS);
    CHECK_CODE(stopped.code, HF_CANCELED);
    for (int i = 1; i < 3; i++)
        EVENTUALLY(probe(other, items[i].name, HF_MUTEX, 0) == HF_OK, SOON_MS);
    give_back(hold);
    hf_close(client);
    hf_close(other);
    CHECK_INT(busy.calls + stopped.calls, 2);
}

TEST(async_set_whose_lock_is_lost_meanwhile_is_lost)
{
    hf_client *client = open_client(), *other = open_client();
    struct all_outcome outcome = { 0 }, held = { 0 };
    struct outcome released = { 0 };
    hf_lock_item items[2];
    char last[128];

    need(client, HF_CAP_BREAK);
    fill_items(items, 2, client);
    snprintf(last, sizeof(last), "%s", items[0].name);
    hf_hold *hold = take(other, last, HF_MUTEX, 0);
    begin_all(items, 2, HF_FOREVER, NULL, &outcome);
    EVENTUALLY(probe(other, items[1].name, HF_MUTEX, 0) == HF_BUSY, SOON_MS);
    CHECK_CODE(hf_break(other, items[1].name, NULL, NULL), HF_OK);
    EVENTUALLY(outcome.calls > 0, SOON_MS);
    CHECK_CODE(outcome.code, HF_LOST);
    give_back(hold);
    begin_all(items, 2, SOON_MS, NULL, &held);
    EVENTUALLY(held.calls > 0, SOON_MS);
    CHECK_CODE(held.code, HF_OK);
    CHECK_CODE(hf_break(other, items[1].name, NULL, NULL), HF_OK);
    CHECK_CODE(hf_unlock_all_async(held.set, record_outcome, &released), HF_OK);
    WAIT_OUTCOME(&released);
    CHECK_CODE(released.code, HF_LOST);
    CHECK(strlen(released.text) > 5);
    hf_close(client);
    hf_close(other);
    CHECK_INT(outcome.calls + held.calls + released.calls, 3);
}

TEST(async_set_may_be_released_in_its_callback)
{
    hf_client *client = open_client();
    struct all_outcome outcomes[20] = { 0 };
    hf_lock_item items[3];

    fill_items(items, 3, client);
    for (int i = 0; i < 20; i++) {
        outcomes[i].releases = true;
        begin_all(items, 3, SOON_MS, NULL, &outcomes[i]);
    }
    for (int i = 0; i < 20; i++) {
        WAIT_OUTCOME(&outcomes[i].released);
        CHECK_CODE(outcomes[i].code, HF_OK);
        CHECK_CODE(outcomes[i].released.code, HF_OK);
    }
    hf_close(client);
}

TEST(async_set_is_told_before_close_returns)
{
    hf_client *client = open_client(), *other = open_client();
    struct all_outcome outcome = { 0 };
    hf_lock_item items[2];

    fill_items(items, 2, client);
    hf_hold *hold = take(other, items[0].name, HF_MUTEX, 0);
    begin_all(items, 2, HF_FOREVER, NULL, &outcome);
    hf_close(client);
    CHECK_INT(outcome.calls, 1);
    CHECK_CODE(outcome.code, HF_ECLOSED);
    EVENTUALLY(probe(other, items[1].name, HF_MUTEX, 0) == HF_OK, SOON_MS);
    give_back(hold);
    hf_close(other);
}

TEST(async_set_without_a_thread_is_told_by_dispatch)
{
    hf_client *client = open_client_with((hf_client_options){ .driver = HF_DRIVE_CALLER });
    struct all_outcome outcome = { 0 };
    hf_lock_item items[2];

    fill_items(items, 2, client);
    begin_all(items, 2, SOON_MS, NULL, &outcome);
    CHECK_INT(outcome.calls, 0);
    EVENTUALLY(hf_dispatch(client) == HF_OK && outcome.calls > 0, SOON_MS);
    CHECK_CODE(outcome.code, HF_OK);
    CHECK_CODE(hf_unlock_all(outcome.set), HF_OK);
    hf_close(client);
}
