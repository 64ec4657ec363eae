/* SPDX-License-Identifier: Apache-2.0 */
/* Detaching: a hold that lives on without its process, and is taken over by its key. */
#include "conformance.h"

static hf_client *open_detaching(void)
{
    hf_client *client = open_client();

    need(client, HF_CAP_DETACH);
    return client;
}

static hf_hold *take_leased(hf_client *client, int64_t lease_ms)
{
    hf_hold *hold;

    CHECK_CODE(
        hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(lease_ms)), &hold),
        HF_OK);
    return hold;
}

TEST(detached_and_attached_by_another_client)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching(), *other = open_client();
    hf_hold *hold = take_leased(client, 60000);
    uint64_t token = hf_token(hold);

    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK(strlen(key) > 0 && strlen(key) < HF_OWNER_KEY_SIZE);
    CHECK(strpbrk(key, " \t\n'\"$`\\") == NULL);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    hf_close(client);
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    CHECK_CODE(hf_attach(other, name_of("one"), key, &hold), HF_OK);
    CHECK(hf_token(hold) == token);
    CHECK(hf_held(hold));
    CHECK_INT(hf_hold_mode(hold), HF_MUTEX);
    CHECK_STR(hf_hold_name(hold), name_of("one"));
    CHECK(hf_remaining_ms(hold) > 0 && hf_remaining_ms(hold) <= 60000);
    CHECK_CODE(hf_renew(hold, 90000), HF_OK);
    CHECK(hf_remaining_ms(hold) > 60000);
    give_back(hold);
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    hf_close(other);
}

TEST(what_is_attached_is_what_was_detached)
{
    static const struct {
        hf_mode mode;
        unsigned cap;
    } kinds[] = { { HF_MUTEX, 0 },
                  { HF_FAIR, HF_CAP_FAIR },
                  { HF_READ, HF_CAP_RW },
                  { HF_WRITE, HF_CAP_RW },
                  { HF_PERMIT, HF_CAP_PERMIT } };
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching();
    hf_hold *hold;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint32_t broken = 0;
        const char *name = kinds[i].mode == HF_PERMIT ? name_of("sem") : name_of("one");
        hf_lock_options options = HF_LOCK_OPTIONS(.mode = kinds[i].mode, .lease_ms = 60000,
                                                  .limit = kinds[i].mode == HF_PERMIT);
        if ((hf_caps(client) & kinds[i].cap) != kinds[i].cap)
            continue;
        CHECK_CODE(hf_lock(client, name, 0, &options, &hold), HF_OK);
        CHECK_CODE(hf_detach(hold, key), HF_OK);
        CHECK_CODE(hf_attach(client, name, key, &hold), HF_OK);
        CHECK_INT(hf_hold_mode(hold), kinds[i].mode);
        CHECK_CODE(hf_detach(hold, key), HF_OK);
        CHECK_CODE(hf_break(client, name, key, &broken), HF_OK);
        CHECK_INT(broken, 1);
    }
    hf_close(client);
}

TEST(an_attached_hold_goes_up_and_down)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching();
    hf_hold *hold;

    need(client, HF_CAP_UPGRADE);
    CHECK_CODE(hf_lock(client, name_of("one"), 0,
                       LOCK_OPTIONS(.mode = HF_UPGRADE, .lease_ms = 60000), &hold),
               HF_OK);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_CODE(hf_attach(client, name_of("one"), key, &hold), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_UPGRADE);
    CHECK_CODE(hf_upgrade(hold, 0), HF_OK);
    CHECK_INT(hf_hold_mode(hold), HF_WRITE);
    CHECK_CODE(hf_downgrade(hold, HF_READ), HF_OK);
    CHECK_CODE(probe(client, name_of("one"), HF_READ, 0), HF_OK);
    give_back(hold);
    hf_close(client);
}

TEST(detached_twice_by_turns)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching();
    hf_hold *hold = take_leased(client, 60000);

    for (int i = 0; i < 10; i++) {
        CHECK_CODE(hf_detach(hold, key), HF_OK);
        CHECK_CODE(hf_attach(client, name_of("one"), key, &hold), HF_OK);
    }
    give_back(hold);
    hf_close(client);
}

static void lock_and_detach(void *arg)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_client();

    (void)arg;
    CHECK_CODE(hf_detach(take_leased(client, 60000), key), HF_OK);
    parent_say("%s", key);
    parent_wait_for("die");
}

TEST(a_detached_hold_outlives_its_process)
{
    char key[HF_OWNER_KEY_SIZE];
    struct child child;
    hf_client *client = open_detaching();
    hf_hold *hold;

    child_start(&child, lock_and_detach, NULL);
    CHECK(child_hear(&child, key, sizeof(key)));
    child_kill(&child);
    CHECK_IN_VAIN(hf_lock(client, name_of("one"), 300, NULL, &hold));
    CHECK_CODE(hf_attach(client, name_of("one"), key, &hold), HF_OK);
    give_back(hold);
    CHECK_CODE(probe(client, name_of("one"), HF_MUTEX, 0), HF_OK);
    hf_close(client);
}

TEST(a_detached_hold_ends_with_its_lease)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching();
    hf_hold *hold, *late = NULL;

    CHECK_CODE(hf_detach(take_leased(client, 2000), key), HF_OK);
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
    CHECK_ERROR(hf_attach(client, name_of("one"), key, &late), HF_LOST);
    CHECK(strstr(hf_last_error()->text, "is not held under the key") != NULL);
    CHECK(late == NULL);
    give_back(hold);
    CHECK_CODE(hf_attach(client, name_of("one"), key, &late), HF_LOST);
    hf_close(client);
}

TEST(a_key_opens_once)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching(), *other = open_client();
    hf_hold *hold, *second;

    CHECK_CODE(hf_detach(take_leased(client, 60000), key), HF_OK);
    CHECK_CODE(hf_attach(client, name_of("another"), key, &hold), HF_LOST);
    CHECK_CODE(hf_attach(client, name_of("one"), key, &hold), HF_OK);
    CHECK_CODE(hf_attach(other, name_of("one"), key, &second), HF_LOST);
    give_back(hold);
    CHECK_CODE(hf_attach(other, name_of("one"), key, &second), HF_LOST);
    hf_close(client);
    hf_close(other);
}

TEST(keys_that_are_none_find_nothing)
{
    static const char *const keys[] = { "",       "nonsense",
                                        "0",      "0000000000000000:1",
                                        "%s%s%s", "00000000000000000000000000000000:0" };
    hf_client *client = open_detaching();
    hf_hold *hold;
    char key[200];

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        int code = hf_attach(client, name_of("one"), keys[i], &hold);
        CHECK(code == HF_LOST || code == HF_EINVAL);
        CHECK(hold == NULL);
    }
    memset(key, 'f', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    CHECK(hf_attach(client, name_of("one"), key, &hold) != HF_OK);
    CHECK_ERROR(hf_attach(client, name_of("one"), NULL, &hold), HF_EINVAL);
    hf_close(client);
}

TEST(only_a_lease_of_ones_own_is_detached)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0), *inner;

    CHECK_ERROR(hf_detach(hold, key), HF_EINVAL);
    CHECK(hf_held(hold));
    give_back(hold);
    hold = take_leased(client, 60000);
    inner = take_leased(client, 60000);
    CHECK_ERROR(hf_detach(hold, key), HF_EINVAL);
    CHECK(hf_held(hold));
    give_back(inner);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    CHECK_CODE(hf_attach(client, name_of("one"), key, &hold), HF_OK);
    give_back(hold);
    hf_close(client);
}

TEST(a_lost_hold_is_not_detached)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_client *client = open_detaching();
    hf_hold *hold = take_leased(client, 10);

    EVENTUALLY(!hf_held(hold), SOON_MS);
    int code = hf_detach(hold, key);
    CHECK_CODE(code, HF_LOST);
    hf_close(client);
}
