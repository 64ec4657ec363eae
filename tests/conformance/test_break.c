/* SPDX-License-Identifier: Apache-2.0 */
/* Breaking: taking a name away from its holder, who hears of it, and whose token is fenced. */
#include "conformance.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Where a store tells the holder at its next renewal, that comes after a third of this; all of it
 * is there for machines that are slow to renew. */
#define HEARS_SOON_MS 6000

static hf_client *open_breaking(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_BREAK | HF_CAP_INSPECT);
    return client;
}

static hf_hold *take_watched_as(hf_client *client, hf_mode mode, uint64_t owner,
                                _Atomic int *losses)
{
    hf_hold *hold;

    CHECK_CODE(
        hf_lock(client, name_of("one"), 0,
                LOCK_OPTIONS(.mode = mode, .owner = owner, .limit = mode == HF_PERMIT ? 5 : 0,
                             .on_lost = count_loss, .lost_arg = losses),
                &hold),
        HF_OK);
    return hold;
}

TEST(the_holder_loses_it_and_hears_of_it)
{
    client_lease_ms = HEARS_SOON_MS;
    hf_client *client = open_client(), *breaker = open_breaking();
    _Atomic int losses = 0;
    uint32_t count = 0;
    hf_hold *hold = take_watched_as(client, HF_MUTEX, 0, &losses), *next;
    uint64_t token = hf_token(hold);

    CHECK_CODE(hf_break(breaker, name_of("one"), NULL, &count), HF_OK);
    CHECK_INT(count, 1);
    CHECK_CODE(hf_lock(breaker, name_of("one"), SOON_MS, NULL, &next), HF_OK);
    CHECK(!(hf_caps(client) & HF_CAP_TOKEN) || hf_token(next) > token);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_ERROR(hf_unlock(hold), HF_LOST);
    CHECK(hf_held(next));
    give_back(next);
    CHECK_INT(losses, 1);
    hf_close(client);
    hf_close(breaker);
}

TEST(a_victim_in_another_process_hears_of_it)
{
    struct peer peer;
    client_lease_ms = HEARS_SOON_MS;
    peer_start(&peer);
    hf_client *breaker = open_breaking();
    uint32_t count = 0;

    CHECK_CODE(peer_lock(&peer, 0, name_of("one"), 0, NULL), HF_OK);
    CHECK_CODE(hf_break(breaker, name_of("one"), NULL, &count), HF_OK);
    CHECK_INT(count, 1);
    EVENTUALLY(!peer_held(&peer, 0), SOON_MS);
    CHECK_CODE(peer_unlock(&peer, 0), HF_LOST);
    hf_close(breaker);
    peer_end(&peer);
}

TEST(a_holder_may_break_itself)
{
    client_lease_ms = HEARS_SOON_MS;
    hf_client *client = open_breaking();
    _Atomic int losses = 0;
    hf_hold *hold = take_watched_as(client, HF_MUTEX, 0, &losses);

    CHECK_CODE(hf_break(client, name_of("one"), NULL, NULL), HF_OK);
    EVENTUALLY(losses == 1 && !hf_held(hold), SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
}

TEST(nobody_held_it)
{
    hf_client *client = open_breaking();
    uint32_t count = 99;

    CHECK_CODE(hf_break(client, name_of("never seen"), NULL, &count), HF_OK);
    CHECK_INT(count, 0);
    give_back(take(client, name_of("one"), HF_MUTEX, 0));
    CHECK_CODE(hf_break(client, name_of("one"), NULL, &count), HF_OK);
    CHECK_INT(count, 0);
    hf_close(client);
}

TEST(a_key_picks_the_holder)
{
    client_lease_ms = HEARS_SOON_MS;
    hf_client *client = open_client(), *breaker = open_breaking();
    _Atomic int losses[3] = { 0 };
    hf_hold *readers[3];
    char key[HF_OWNER_KEY_SIZE];
    uint32_t count = 0;

    need(breaker, HF_CAP_RW);
    for (int i = 0; i < 3; i++) {
        readers[i] = take_watched_as(client, HF_READ, (uint64_t)i + 1, &losses[i]);
        if (i == 0)
            snprintf(key, sizeof(key), "%s",
                     find_role(look(breaker, name_of("one")), HF_ROLE_HOLDER, 0)->owner_key);
    }
    CHECK_CODE(hf_break(breaker, name_of("one"), key, &count), HF_OK);
    CHECK_INT(count, 1);
    EVENTUALLY(losses[0] == 1, SOON_MS);
    CHECK(!hf_held(readers[0]) && hf_held(readers[1]) && hf_held(readers[2]));
    CHECK_ERROR(hf_break(breaker, name_of("one"), key, &count), HF_BUSY);
    CHECK(strstr(hf_last_error()->text, "held, but not under that key") != NULL);
    CHECK_INT(holders(breaker, name_of("one")), 2);
    CHECK_CODE(hf_break(breaker, name_of("one"), NULL, &count), HF_OK);
    CHECK_INT(count, 2);
    EVENTUALLY(losses[1] == 1 && losses[2] == 1, SOON_MS);
    for (int i = 0; i < 3; i++)
        CHECK_CODE(hf_unlock(readers[i]), HF_LOST);
    hf_close(client);
    hf_close(breaker);
}

TEST(a_wrong_key_breaks_nothing)
{
    hf_client *client = open_client(), *breaker = open_breaking();
    _Atomic int losses = 0;
    hf_hold *hold = take_watched_as(client, HF_MUTEX, 0, &losses);

    CHECK_ERROR(hf_break(breaker, name_of("one"), "00000000000000000000000000000001:1", NULL),
                HF_BUSY);
    CHECK(hf_held(hold));
    give_back(hold);
    CHECK_INT(losses, 0);
    hf_close(client);
    hf_close(breaker);
}

TEST(waiters_move_up)
{
    struct peer peer;
    client_lease_ms = HEARS_SOON_MS;
    peer_start(&peer);
    hf_client *client = open_breaking();

    need(client, HF_CAP_FAIR);
    _Atomic int losses = 0;
    hf_hold *hold = take_watched_as(client, HF_FAIR, 0, &losses);
    peer_begin(&peer, 0, name_of("one"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR));
    EVENTUALLY(waiters(client, name_of("one")) == 1, SOON_MS);
    CHECK_CODE(hf_break(client, name_of("one"), NULL, NULL), HF_OK);
    CHECK_CODE(peer_answer(&peer), HF_OK);
    EVENTUALLY(!hf_held(hold), SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK(peer_held(&peer, 0));
    CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    hf_close(client);
    peer_end(&peer);
}

TEST(permits_are_broken_too)
{
    client_lease_ms = HEARS_SOON_MS;
    hf_client *client = open_breaking();
    _Atomic int losses = 0;
    hf_hold *holds[2], *all;
    uint32_t count = 0;

    need(client, HF_CAP_PERMIT);
    for (int i = 0; i < 2; i++)
        holds[i] = take_watched_as(client, HF_PERMIT, 0, &losses);
    CHECK_CODE(hf_break(client, name_of("one"), NULL, &count), HF_OK);
    CHECK_INT(count, 2);
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS,
                       LOCK_OPTIONS(.mode = HF_PERMIT, .permits = 5), &all),
               HF_OK);
    EVENTUALLY(losses == 2, SOON_MS);
    for (int i = 0; i < 2; i++)
        CHECK_CODE(hf_unlock(holds[i]), HF_LOST);
    give_back(all);
    hf_close(client);
}

TEST(a_detached_hold_can_be_broken)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_breaking();
    hf_hold *hold;
    uint32_t count = 0;

    need(client, HF_CAP_DETACH);
    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = 60000), &hold), HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_STR(find_role(look(client, name_of("one")), HF_ROLE_HOLDER, 0)->owner_key, key);
    CHECK_CODE(hf_break(client, name_of("one"), key, &count), HF_OK);
    CHECK_INT(count, 1);
    CHECK_CODE(hf_attach(client, name_of("one"), key, &hold), HF_LOST);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_OK);
    hf_close(client);
}

TEST(nested_holds_are_lost_together)
{
    client_lease_ms = HEARS_SOON_MS;
    hf_client *client = open_breaking();
    _Atomic int losses = 0;
    hf_hold *outer = take_watched_as(client, HF_MUTEX, 0, &losses);
    hf_hold *inner = take_watched_as(client, HF_MUTEX, 0, &losses);

    CHECK_CODE(hf_break(client, name_of("one"), NULL, NULL), HF_OK);
    EVENTUALLY(losses == 2, SOON_MS);
    CHECK(!hf_held(outer) && !hf_held(inner));
    CHECK_CODE(hf_unlock(inner), HF_LOST);
    CHECK_CODE(hf_unlock(outer), HF_LOST);
    hf_close(client);
}

TEST(session_that_is_broken_loses_all_its_locks_at_once)
{
    hf_client *client = open_client(), *other = open_client();
    hf_lock_item items[3];
    hf_hold_set *set;
    _Atomic int losses = 0;
    uint32_t count;

    if (!store_has_plain_locks())
        SKIP("its locks end one by one");
    for (int i = 0; i < 3; i++) {
        const char stem[] = { (char)('a' + i), 0 };
        items[i] = (hf_lock_item){ .client = client, .name = name_of(stem) };
    }
    CHECK_CODE(hf_lock_all(items, 3, SOON_MS,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &set),
               HF_OK);
    CHECK_ERROR(hf_break(other, items[1].name, NULL, NULL), HF_EINVAL);
    CHECK(hf_all_held(set));
    CHECK_CODE(hf_break(other, items[1].name,
                        find_role(look(other, items[1].name), HF_ROLE_HOLDER, 0)->owner_key,
                        &count),
               HF_OK);
    CHECK_INT(count, 1);
    for (size_t i = 0; i < 3; i++)
        EVENTUALLY(!hf_held(hf_all_hold(set, i)), SOON_MS);
    CHECK_ERROR(hf_unlock_all(set), HF_LOST);
    CHECK_INT(losses, 1);
    for (int i = 0; i < 3; i++)
        CHECK_CODE(probe(other, items[i].name, HF_MUTEX, 0), HF_OK);
    hf_close(client);
    hf_close(other);
}
