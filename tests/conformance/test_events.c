/* SPDX-License-Identifier: Apache-2.0 */
/* Events: granted, waiting, released, lost, each where it happens and told to whoever asked. */
#include "conformance.h"

/* Longer than what a store may keep in one place with the lock. */
#define LONG_NAME 180

struct tally {
    _Atomic int counts[8];
    _Atomic int named, unnamed, untexted;
};

static void tally_event(void *arg, const hf_event *event)
{
    struct tally *tally = arg;

    if (event->type >= 0 && event->type < 8)
        tally->counts[event->type]++;
    tally->named += strcmp(event->name, name_of("one")) == 0;
    tally->unnamed += !event->name[0];
    tally->untexted += !event->text || !*event->text || strchr(event->text, '\n');
}

static hf_client *open_tallied(struct tally *tally)
{
    return open_client_with((hf_client_options){ .on_event = tally_event, .event_arg = tally });
}

TEST(granted_and_released)
{
    struct tally tally = { 0 };
    hf_client *client = open_tallied(&tally);
    hf_hold *outer = take(client, name_of("one"), HF_MUTEX, 0);

    EVENTUALLY(tally.counts[HF_EVENT_GRANTED] == 1, SOON_MS);
    hf_hold *inner = take(client, name_of("one"), HF_MUTEX, 0);
    give_back(inner);
    CHECK_INT(tally.counts[HF_EVENT_RELEASED], 0);
    give_back(outer);
    EVENTUALLY(tally.counts[HF_EVENT_RELEASED] == 1, SOON_MS);
    CHECK_INT(tally.counts[HF_EVENT_GRANTED], 1);
    CHECK_INT(tally.counts[HF_EVENT_WAITING], 0);
    CHECK_INT(tally.counts[HF_EVENT_LOST], 0);
    CHECK_INT(tally.named, 2);
    CHECK_INT(tally.untexted, 0);
    hf_close(client);
}

TEST(waiting)
{
    struct tally tally = { 0 };
    struct outcome outcome = { 0 };
    hf_client *client = open_tallied(&tally), *other = open_client();
    hf_hold *hold = take(other, name_of("one"), HF_MUTEX, 0), *refused;
    hf_request request;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, NULL, &refused), HF_BUSY);
    CHECK_INT(tally.counts[HF_EVENT_WAITING], 0);
    CHECK_CODE(
        hf_lock_async(client, name_of("one"), HF_FOREVER, NULL, record_outcome, &outcome, &request),
        HF_OK);
    EVENTUALLY(tally.counts[HF_EVENT_WAITING] == 1, SOON_MS);
    hf_cancel(client, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    CHECK_INT(tally.counts[HF_EVENT_WAITING], 1);
    CHECK_INT(tally.counts[HF_EVENT_GRANTED], 0);
    give_back(hold);
    hf_close(client);
    hf_close(other);
}

TEST(lost)
{
    struct tally tally = { 0 };
    hf_client *client = open_tallied(&tally);
    hf_hold *hold;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(20)), &hold),
               HF_OK);
    EVENTUALLY(tally.counts[HF_EVENT_LOST] == 1, SOON_MS);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    CHECK_INT(tally.counts[HF_EVENT_LOST], 1);
    CHECK_INT(tally.untexted, 0);
    hf_close(client);
}

/* Also where nobody asked for that name: whoever looks at everything clears it away. */
TEST(takeover_says_which_lock)
{
    const char *names[] = { name_of("one"), NULL, NULL };
    char long_name[LONG_NAME] = "";
    struct tally tally = { 0 };
    struct peer peer;

    if (!store_is_local())
        SKIP("only local: sees a process die");
    memset(long_name, 'n', sizeof(long_name) - 1);
    names[1] = long_name;
    peer_start(&peer);
    for (int i = 0; names[i]; i++)
        CHECK_CODE(peer_lock(&peer, i, names[i], 0, NULL), HF_OK);
    child_kill(&peer.child);
    hf_client *client = open_tallied(&tally);
    look(client, NULL);
    CHECK_INT(tally.counts[HF_EVENT_TAKEOVER], 2);
    CHECK_INT(tally.named, 1);
    CHECK_INT(tally.unnamed, 0);
    CHECK_INT(tally.untexted, 0);
    hf_close(client);
}

TEST(takeover_from_the_dead)
{
    struct tally tally = { 0 };
    struct peer peer;
    hf_hold *hold;

    if (!store_is_local())
        SKIP("only local: sees a process die");
    peer_start(&peer);
    hf_client *client = open_tallied(&tally);
    CHECK_CODE(peer_lock(&peer, 0, name_of("one"), 0, NULL), HF_OK);
    child_kill(&peer.child);
    CHECK_CODE(hf_lock(client, name_of("one"), SOON_MS, NULL, &hold), HF_OK);
    EVENTUALLY(tally.counts[HF_EVENT_TAKEOVER] >= 1, SOON_MS);
    give_back(hold);
    hf_close(client);
}

/* ---- what a log makes of them ---- */

struct logger {
    pthread_mutex_t mutex;
    _Atomic int entered;
};

static void log_loss(void *arg, const hf_event *event)
{
    struct logger *logger = arg;

    if (event->type != HF_EVENT_LOST)
        return;
    logger->entered = 1;
    pthread_mutex_lock(&logger->mutex);
    CHECK_STR(event->name, name_of("one"));
    pthread_mutex_unlock(&logger->mutex);
}

/* Events are told with no lock of the library's held: a thread may call it, with a mutex held that
 * on_event is waiting for. */
TEST(an_event_may_wait_for_a_mutex_that_is_held_around_calls)
{
    client_lease_ms = 6000;
    struct logger logger = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct outcome outcome = { 0 };
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = log_loss, .event_arg = &logger });
    hf_client *other = open_client();
    hf_hold *hold = take(client, name_of("one"), HF_MUTEX, 0);

    need(other, HF_CAP_BREAK);
    pthread_mutex_lock(&logger.mutex);
    CHECK_CODE(hf_break(other, name_of("one"), NULL, NULL), HF_OK);
    EVENTUALLY(logger.entered, SOON_MS);
    CHECK(!hf_held(hold));
    CHECK_CODE(hf_lock_async(client, name_of("one"), 0, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    hf_unlock_nowait(hold);
    pthread_mutex_unlock(&logger.mutex);
    WAIT_OUTCOME(&outcome);
    CHECK_INT(outcome.code, HF_OK);
    give_back(outcome.hold);
    hf_close(client);
    hf_close(other);
}

struct heard {
    char granted[HF_NAME_MAX + 1], released[HF_NAME_MAX + 1];
    uint64_t granted_token, released_token;
    _Atomic int releases;
};

static void hear(void *arg, const hf_event *event)
{
    struct heard *heard = arg;

    if (event->type == HF_EVENT_GRANTED) {
        memcpy(heard->granted, event->name, strlen(event->name) + 1);
        heard->granted_token = event->token;
    } else if (event->type == HF_EVENT_RELEASED) {
        memcpy(heard->released, event->name, strlen(event->name) + 1);
        heard->released_token = event->token;
        heard->releases++;
    }
}

/* A log can match what was granted with what was given back, however long the name is. */
TEST(granted_and_released_carry_the_same_name)
{
    struct heard heard = { 0 };
    char name[HF_NAME_MAX + 1];
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = hear, .event_arg = &heard });

    memset(name, 'n', HF_NAME_MAX);
    name[HF_NAME_MAX] = 0;
    memcpy(name, name_of("long"), strlen(name_of("long")));
    give_back(take(client, name, HF_MUTEX, 0));
    EVENTUALLY(heard.releases == 1, SOON_MS);
    CHECK_STR(heard.granted, name);
    CHECK_STR(heard.released, name);
    CHECK(heard.released_token == heard.granted_token);
    hf_close(client);
}

/* What was lost was not given back, and is not reported so. */
TEST(a_lost_lock_is_not_reported_as_released)
{
    struct heard heard = { 0 };
    hf_client *client =
        open_client_with((hf_client_options){ .on_event = hear, .event_arg = &heard });
    hf_client *other = open_client();
    hf_hold *hold, *next;

    CHECK_CODE(hf_lock(client, name_of("one"), 0, LOCK_OPTIONS(.lease_ms = short_lease(20)), &hold),
               HF_OK);
    CHECK_CODE(hf_lock(other, name_of("one"), SOON_MS, NULL, &next), HF_OK);
    CHECK_CODE(hf_unlock(hold), HF_LOST);
    give_back(next);
    hf_close(client);
    CHECK_INT(heard.releases, 0);
    hf_close(other);
}
