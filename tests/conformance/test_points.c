/* SPDX-License-Identifier: Apache-2.0 */
/* Points: passed in order, on the way to a grant, a refusal, a renewal and a loss. */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>

/* The loop passes points, too. */
struct path {
    pthread_mutex_t mutex;
    char text[8192]; /* an engine that polls passes many */
};

#define PATH_INIT                                                                                  \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

static void note_point(void *arg, const char *point, const char *name)
{
    struct path *path = arg;

    pthread_mutex_lock(&path->mutex);
    size_t length = strlen(path->text);
    if (strcmp(name, name_of("one")) == 0)
        snprintf(path->text + length, sizeof path->text - length, "%s ", point);
    pthread_mutex_unlock(&path->mutex);
}

static bool passed(struct path *path, const char *points)
{
    pthread_mutex_lock(&path->mutex);
    bool there = strstr(path->text, points) != NULL;
    pthread_mutex_unlock(&path->mutex);
    return there;
}

TEST(points_are_passed_in_order)
{
    struct path path = PATH_INIT;
    hf_client *client =
        open_client_with((hf_client_options){ .on_point = note_point, .point_arg = &path });
    hf_lock_options options = HF_LOCK_OPTIONS(.lease_ms = 60000);
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, &options, &hold), HF_OK);
    give_back(hold);
    CHECK_STR(path.text, "before_ask after_answer before_return before_release after_release ");
    hf_close(client);
}

TEST(points_of_one_who_waits_in_vain)
{
    struct path path = PATH_INIT;
    hf_client *other = open_client();
    hf_client *client =
        open_client_with((hf_client_options){ .on_point = note_point, .point_arg = &path });
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0), *refused;

    int code = hf_lock(client, name_of("one"), 100, NULL, &refused);
    CHECK_IN_VAIN(code);
    /* Whoever was told to wait has heard the store. */
    CHECK(!passed(&path, "queued ") || code == HF_BUSY);
    CHECK(passed(&path, "before_return "));
    /* The caller is told in time, whatever is still out. */
    EVENTUALLY(passed(&path, "after_release "), SOON_MS);
    CHECK(strncmp(path.text, "before_ask ", 11) == 0);
    CHECK(!passed(&path, "after_answer"));
    CHECK(strstr(path.text, "before_release ") < strstr(path.text, "after_release "));
    if (store_is_local())
        CHECK(passed(&path, "before_release after_release before_return "));
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(points_of_a_renewal_and_a_loss)
{
    struct path path = PATH_INIT;
    hf_client *client =
        open_client_with((hf_client_options){ .on_point = note_point, .point_arg = &path });
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = 60000), &hold), HF_OK);
    CHECK_CODE(hf_renew(hold, 60000), HF_OK);
    CHECK(passed(&path, "before_return before_renew after_renew "));
    CHECK_CODE(hf_unlock(hold), HF_OK);
    CHECK_CODE(
        hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(200)), &hold),
        HF_OK);
    EVENTUALLY(passed(&path, "before_loss "), SOON_MS);
    hf_unlock(hold);
    hf_close(client);
}
