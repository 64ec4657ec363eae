/* SPDX-License-Identifier: Apache-2.0 */
/* The URL's option `prefix`: the store's names begin with it, and the client's caller sees none of
 * it. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "app:"

/* A store that is ours alone has no use for it. */
static hf_client *open_prefixed(hf_client_options options)
{
    hf_client *client = NULL;
    const char *url = store_url();
    char text[2000];

    if (store_is_local())
        SKIP("%s keeps no names of other applications", url);
    snprintf(text, sizeof(text), "%s%cprefix=" PREFIX, url, strchr(url, '?') ? '&' : '?');
    CHECK_CODE(hf_open(&client, text, &options), HF_OK);
    return client;
}

static const char *full_name(const char *name)
{
    static _Thread_local char full[HF_NAME_MAX + 20];

    snprintf(full, sizeof(full), PREFIX "%s", name);
    return full;
}

TEST(name_with_prefix_is_the_same_lock_as_the_full_name)
{
    hf_client *client = open_prefixed(HF_CLIENT_OPTIONS(.lease_ms = 0)), *other = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    CHECK_STR(hf_hold_name(hold), name_of("one"));
    CHECK_CODE(probe(other, full_name(name_of("one")), HF_MUTEX, 0), HF_BUSY);
    CHECK_CODE(probe(other, name_of("one"), HF_MUTEX, 0), HF_OK);
    CHECK_CODE(hf_unlock(hold), HF_OK);
    hold = take(other, full_name(name_of("one")), HF_MUTEX, 0);
    CHECK_ERROR(probe(client, name_of("one"), HF_MUTEX, 0), HF_BUSY);
    CHECK(strstr(hf_last_error()->text, name_of("one")) != NULL);
    /* The URL in the command that is recommended has it, its name does not. */
    CHECK(strstr(hf_last_error()->text, "\"" PREFIX) == NULL);
    CHECK(strstr(hf_last_error()->text, "'" PREFIX) == NULL);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(names_outside_of_the_prefix_are_not_listed)
{
    hf_client *client = open_prefixed(HF_CLIENT_OPTIONS(.lease_ms = 0)), *other = open_client();

    need(client, HF_CAP_INSPECT);
    hf_hold *hold = take(client, name_of("ours"), HF_MUTEX, 0);
    hf_hold *strange = take(other, name_of("theirs"), HF_MUTEX, 0);
    CHECK_INT(holders(other, full_name(name_of("ours"))), 1);
    CHECK_INT(holders(client, name_of("theirs")), 0);
    CHECK_STR(find_role(look(client, name_of("ours")), HF_ROLE_HOLDER, 0)->name, name_of("ours"));
    const struct picture *picture = look(client, NULL);
    for (int i = 0; i < picture->count; i++) {
        CHECK(strcmp(picture->seen[i].name, name_of("theirs")) != 0);
        CHECK(strncmp(picture->seen[i].name, PREFIX, strlen(PREFIX)) != 0);
    }
    give_back(hold);
    give_back(strange);
    hf_close(client);
    hf_close(other);
}

TEST(one_shot_calls_meet_on_the_full_name)
{
    hf_client *client = open_prefixed(HF_CLIENT_OPTIONS(.lease_ms = 0)), *other = open_client();
    hf_hold *hold;
    uint32_t count;

    if (hf_caps(client) & HF_CAP_COUNTER) {
        CHECK_CODE(hf_counter_set(client, name_of("count"), 7), HF_OK);
        CHECK_CODE(hf_counter_get(other, full_name(name_of("count")), &count), HF_OK);
        CHECK_INT(count, 7);
    }
    need(client, HF_CAP_BREAK);
    hold = take(other, full_name(name_of("held")), HF_MUTEX, 0);
    CHECK_CODE(hf_break(client, name_of("held"), NULL, &count), HF_OK);
    CHECK_INT(count, 1);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    hf_close(client);
    hf_close(other);
}

/* ---- what is told ---- */

struct told {
    _Atomic int events, losses;
    bool as_named;
};

static void record_event(void *arg, const hf_event *event)
{
    struct told *told = arg;

    if (event->type == HF_EVENT_GRANTED || event->type == HF_EVENT_LOST) {
        told->as_named &= strcmp(event->name, name_of("told")) == 0;
        told->events++;
    }
}

static void record_loss(void *arg, const hf_loss *loss)
{
    struct told *told = arg;

    told->as_named &= strcmp(loss->name, name_of("told")) == 0;
    told->losses++;
}

TEST(events_and_losses_have_the_name_without_prefix)
{
    struct told told = { .as_named = true };
    hf_client *client =
        open_prefixed(HF_CLIENT_OPTIONS(.on_event = record_event, .event_arg = &told));
    hf_hold *hold;

    need(client, HF_CAP_MUTEX);
    CHECK_CODE(hf_lock(client, name_of("told"), SOON_MS,
                       LOCK_OPTIONS(.lease_ms = 1000, .on_lost = record_loss, .lost_arg = &told),
                       &hold),
               HF_OK);
    EVENTUALLY(told.losses == 1 && told.events == 2, SOON_MS);
    CHECK(told.as_named);
    CHECK_ERROR(hf_unlock(hold), HF_LOST);
    /* The URL in the command that is recommended has it, its name does not. */
    CHECK(strstr(hf_last_error()->text, "\"" PREFIX) == NULL);
    CHECK(strstr(hf_last_error()->text, "'" PREFIX) == NULL);
    hf_close(client);
}

/* The engine's own words, too. */
TEST(refusals_have_the_name_without_prefix)
{
    hf_client *client = open_prefixed(HF_CLIENT_OPTIONS(.lease_ms = 0));
    hf_hold *hold;

    need(client, HF_CAP_PERMIT);
    CHECK_ERROR(hf_lock(client, name_of("sem"), 0, LOCK_OPTIONS(.mode = HF_PERMIT), &hold),
                HF_EKIND);
    CHECK(strstr(hf_last_error()->text, name_of("sem")) != NULL);
    /* The URL in the command that is recommended has it, its name does not. */
    CHECK(strstr(hf_last_error()->text, "\"" PREFIX) == NULL);
    CHECK(strstr(hf_last_error()->text, "'" PREFIX) == NULL);
    hf_close(client);
}

TEST(prefix_counts_for_the_length_of_a_name)
{
    static char name[HF_NAME_MAX + 1];
    hf_client *client = open_prefixed(HF_CLIENT_OPTIONS(.lease_ms = 0));
    hf_hold *hold;

    memset(name, 'n', HF_NAME_MAX - strlen(PREFIX));
    CHECK_CODE(hf_lock(client, name, 0, NULL, &hold), HF_OK);
    CHECK_STR(hf_hold_name(hold), name);
    give_back(hold);
    memset(name, 'n', HF_NAME_MAX - strlen(PREFIX) + 1);
    CHECK_ERROR(hf_lock(client, name, 0, NULL, &hold), HF_EINVAL);
    CHECK(strstr(hf_last_error()->text, "with the URL's prefix") != NULL);
    hf_close(client);
}
