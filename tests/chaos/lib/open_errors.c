/* SPDX-License-Identifier: Apache-2.0 */
/* See open_errors.h. */
#include "open_errors.h"

#define LONG_LEASE_MS 60000

static void lie(const struct open_errors *scene)
{
    relay_lie(scene->relay, scene->error, scene->length, 1);
}

static void expect_unreachable(const struct open_errors *scene, int code)
{
    CHECK_ERROR(code, HF_UNREACHABLE);
    test_note("%s", hf_last_error()->text);
    CHECK(strstr(hf_last_error()->text, scene->word) != NULL);
}

static bool is_free(hf_client *client)
{
    return look(client, "one")->holders == 0;
}

static hf_hold *take_for_long(hf_client *client)
{
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(client, "one", SOON_MS, LOCK_OPTIONS(.lease_ms = LONG_LEASE_MS), &hold),
               HF_OK);
    return hold;
}

static bool ignore_entry(void *arg, const hf_entry *entry)
{
    (void)arg, (void)entry;
    return true;
}

static void lock_and_unlock(const struct open_errors *scene)
{
    hf_hold *hold = NULL;

    lie(scene);
    CHECK_CODE(hf_lock(scene->client, "one", SOON_MS, NULL, &hold), HF_OK);
    CHECK_INT(scene->relay->lies, 0);
    CHECK(hf_held(hold));
    CHECK(!is_free(scene->direct));
    lie(scene);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_INT(scene->relay->lies, 0);
    CHECK(is_free(scene->direct));
    lie(scene);
    expect_unreachable(scene, hf_lock(scene->client, "one", 0, NULL, &hold));
    EVENTUALLY(is_free(scene->direct), SOON_MS);
}

static void renew_and_attach(const struct open_errors *scene)
{
    char key[HF_OWNER_KEY_SIZE];
    hf_hold *hold = take_for_long(scene->client);

    lie(scene);
    expect_unreachable(scene, hf_renew(hold, 2 * (int64_t)LONG_LEASE_MS));
    CHECK(hf_held(hold));
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK(is_free(scene->direct));
    if (!(hf_caps(scene->client) & HF_CAP_DETACH))
        return;
    hold = take_for_long(scene->direct);
    CHECK_CODE(hf_detach(hold, key), HF_OK);
    lie(scene);
    expect_unreachable(scene, hf_attach(scene->client, "one", key, &hold));
    /* A server may execute the rest of a script after its client has left. */
    EVENTUALLY(hf_attach(scene->direct, "one", key, &hold) == HF_OK, SOON_MS);
    give_back(hold);
}

void open_errors_are_missing_replies(const struct open_errors *scene)
{
    give_back(take_patiently(scene->client, "one"));
    lock_and_unlock(scene);
    renew_and_attach(scene);
    /* Some requests of a look may fail: that for the owners' texts. */
    relay_lie(scene->relay, scene->error, scene->length, scene->looks ? scene->looks : 100);
    expect_unreachable(scene, hf_inspect(scene->client, "one", ignore_entry, NULL));
    scene->relay->lies = 0;
    lie(scene);
    expect_unreachable(scene, hf_break(scene->client, "one", NULL, NULL));
    give_back(take_patiently(scene->client, "one"));
    CHECK(is_free(scene->direct));
}

void open_error_of_a_renewal_is_no_loss(const struct open_errors *scene, int64_t lease_ms)
{
    _Atomic int losses = 0;
    hf_hold *hold = NULL;

    CHECK_CODE(hf_lock(scene->client, "one", SOON_MS,
                       LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &hold),
               HF_OK);
    lie(scene);
    EVENTUALLY(scene->relay->lies == 0, SOON_MS);
    let_pass_ms((int)lease_ms + 500);
    CHECK_INT(losses, 0);
    CHECK(hf_held(hold));
    give_back(hold);
    CHECK(is_free(scene->direct));
}
