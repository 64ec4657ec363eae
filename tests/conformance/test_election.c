/* SPDX-License-Identifier: Apache-2.0 */
/* Elections: one leads, the next one follows, and observers are told of each change in order. */
#include "conformance.h"

#include <signal.h>
#include <stdio.h>

#define CANDIDATES 4
/* How often a watch asks. */
#define EVERY_MS 20
#define LEASE_MS ((int64_t)3000 * test_slow())

/* Do observers see what the leader says of itself? A database knows of its own locks' owners only
 * which connection it is. */
static bool shows_texts(void)
{
    return store_keeps_texts() && !store_has_plain_locks();
}

static hf_leader leader_of(hf_client *client, const char *name)
{
    hf_leader leader = { .size = sizeof(leader) };

    CHECK_CODE(hf_election_leader(client, name, &leader), HF_OK);
    return leader;
}

static hf_hold *lead(hf_client *client, const char *name, const char *text)
{
    hf_hold *leadership;

    CHECK_CODE(hf_campaign(client, name, SOON_MS, LOCK_OPTIONS(.owner_text = text), &leadership),
               HF_OK);
    return leadership;
}

static void resign(hf_hold *leadership)
{
    CHECK_CODE(hf_resign(leadership), HF_OK);
}

/* ---- what a watch has told ---- */

struct chronicle {
    pthread_mutex_t mutex;
    _Atomic int count;
    hf_leader leaders[64];
};

#define CHRONICLE                                                                                  \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

static void record_change(void *arg, const hf_leader *leader)
{
    struct chronicle *chronicle = arg;

    pthread_mutex_lock(&chronicle->mutex);
    if (chronicle->count < 64)
        chronicle->leaders[chronicle->count] = *leader;
    chronicle->count++;
    pthread_mutex_unlock(&chronicle->mutex);
}

static hf_leader told(struct chronicle *chronicle, int index)
{
    EVENTUALLY(chronicle->count > index, SOON_MS);
    pthread_mutex_lock(&chronicle->mutex);
    hf_leader leader = chronicle->leaders[index];
    pthread_mutex_unlock(&chronicle->mutex);
    return leader;
}

static hf_watch *watch(hf_client *client, const char *name, struct chronicle *chronicle)
{
    hf_watch *watch;

    CHECK_CODE(hf_election_watch(client, name, EVERY_MS, record_change, chronicle, &watch), HF_OK);
    return watch;
}

/* ---- candidates ---- */

TEST(one_of_many_candidates_leads_and_the_next_follows)
{
    hf_client *client = open_client();
    struct outcome outcomes[CANDIDATES] = { 0 };
    const char *name = name_of("boss");
    uint64_t term = 0;
    int first = -1;

    for (int i = 0; i < CANDIDATES; i++)
        CHECK_CODE(
            hf_campaign_async(client, name, HF_FOREVER, NULL, record_outcome, &outcomes[i], NULL),
            HF_OK);
    for (int round = 0; round < CANDIDATES; round++) {
        int leaders = 0, leading = -1;
        EVENTUALLY(outcomes[0].calls + outcomes[1].calls + outcomes[2].calls + outcomes[3].calls ==
                       round + 1,
                   SOON_MS);
        for (int i = 0; i < CANDIDATES; i++)
            if (outcomes[i].hold && hf_held(outcomes[i].hold)) {
                leaders++;
                leading = i;
            }
        CHECK_INT(leaders, 1);
        first = round == 0 ? leading : first;
        CHECK(!(hf_caps(client) & HF_CAP_TOKEN) || hf_token(outcomes[leading].hold) > term);
        term = hf_token(outcomes[leading].hold);
        hf_hold *leadership = outcomes[leading].hold;
        outcomes[leading].hold = NULL;
        resign(leadership);
    }
    CHECK_INT(first, 0);
    hf_close(client);
}

TEST(a_thread_that_campaigns_twice_is_two_candidates)
{
    hf_client *client = open_client();
    hf_hold *leadership = lead(client, name_of("boss"), "first"), *second;

    CHECK_IN_VAIN(hf_campaign(client, name_of("boss"), 0, NULL, &second));
    CHECK(second == NULL);
    resign(leadership);
    resign(lead(client, name_of("boss"), "second"));
    hf_close(client);
}

TEST(a_candidacy_that_is_canceled_leaves_nothing)
{
    hf_client *client = open_client(), *other = open_client();
    hf_hold *leadership = lead(client, name_of("boss"), "first");
    struct outcome outcome = { 0 };
    hf_request request;

    CHECK_CODE(hf_campaign_async(other, name_of("boss"), HF_FOREVER, NULL, record_outcome, &outcome,
                                 &request),
               HF_OK);
    hf_cancel(other, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    resign(leadership);
    resign(lead(other, name_of("boss"), "third"));
    hf_close(other);
    hf_close(client);
}

TEST(a_deposed_leader_is_told_and_resigns_in_vain)
{
    client_lease_ms = short_lease(LEASE_MS);
    hf_client *client = open_client(), *other = open_client();
    _Atomic int losses = 0;
    hf_hold *leadership;

    need(client, HF_CAP_BREAK);
    CHECK_CODE(hf_campaign(client, name_of("boss"), 0,
                           LOCK_OPTIONS(.on_lost = count_loss, .lost_arg = &losses), &leadership),
               HF_OK);
    uint64_t term = hf_token(leadership);
    CHECK_CODE(hf_break(other, name_of("boss"), NULL, NULL), HF_OK);
    EVENTUALLY(losses == 1, SOON_MS);
    CHECK(!hf_held(leadership));
    CHECK_CODE(hf_resign(leadership), HF_LOST);
    leadership = lead(other, name_of("boss"), "next");
    CHECK(!(hf_caps(client) & HF_CAP_TOKEN) || hf_token(leadership) > term);
    resign(leadership);
    hf_close(other);
    hf_close(client);
}

/* A leader that is killed, or stands still, makes room when its store notices; one that was stopped
 * knows by then that it leads no more. */
static void next_leads_after(int signal)
{
    client_lease_ms = short_lease(LEASE_MS);
    struct peer peer;
    hf_hold *leadership;

    peer_start(&peer);
    hf_client *client = open_client();
    CHECK_CODE(peer_lock(&peer, 0, name_of("boss"), 0, LOCK_OPTIONS(.mode = HF_LEADER)), HF_OK);
    child_signal(&peer.child, signal);
    CHECK_CODE(hf_campaign(client, name_of("boss"), 5 * SOON_MS, NULL, &leadership), HF_OK);
    CHECK(!(hf_caps(client) & HF_CAP_TOKEN) || hf_token(leadership) > peer.token);
    if (signal == SIGSTOP) {
        child_signal(&peer.child, SIGCONT);
        CHECK(!peer_held(&peer, 0));
        CHECK(hf_held(leadership));
        CHECK_CODE(peer_unlock(&peer, 0), HF_LOST);
        peer_end(&peer);
    } else {
        child_wait(&peer.child);
    }
    resign(leadership);
    hf_close(client);
}

TEST(the_next_leads_when_the_leader_was_killed)
{
    next_leads_after(SIGKILL);
}

TEST(a_leader_that_was_stopped_for_too_long_knows)
{
    store_url();
    if (store_is_local())
        SKIP("a stopped process keeps what it holds at this store");
    next_leads_after(SIGSTOP);
}

/* No lease ends a leadership at this store: the process lives, and so it leads. */
TEST(a_leader_that_stands_still_leads_on_where_no_lease_ends)
{
    struct peer peer;
    hf_client *client = open_client();
    hf_hold *leadership;

    if (!store_is_local())
        SKIP("a lease ends the leadership of a stopped process at this store");
    peer_start(&peer);
    CHECK_CODE(peer_lock(&peer, 0, name_of("boss"), 0, LOCK_OPTIONS(.mode = HF_LEADER)), HF_OK);
    child_stop(&peer.child);
    CHECK_IN_VAIN(hf_campaign(client, name_of("boss"), 1000, NULL, &leadership));
    CHECK(leader_of(client, name_of("boss")).token == peer.token);
    child_continue(&peer.child);
    CHECK(peer_held(&peer, 0));
    CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    resign(lead(client, name_of("boss"), "next"));
    peer_end(&peer);
    hf_close(client);
}

/* ---- observers ---- */

TEST(observers_are_shown_the_leader)
{
    hf_client *client = open_client(), *observer = open_client();
    const char *name = name_of("boss");
    hf_hold *leadership;

    need(client, HF_CAP_INSPECT);
    hf_leader leader = leader_of(observer, name);
    CHECK(!leader.leads && !leader.token && !leader.candidates && !*leader.text);
    leadership = lead(client, name, "first:1234");
    leader = leader_of(observer, name);
    CHECK(leader.leads && *leader.owner_key);
    CHECK(!shows_texts() || strcmp(leader.text, "first:1234") == 0);
    CHECK(store_has_plain_locks() || leader.token == hf_token(leadership));
    CHECK(leader.since_ms >= -1 && leader.since_ms < 10 * SOON_MS);
    if (hf_caps(client) & HF_CAP_BREAK) {
        uint32_t count = 0;
        CHECK_CODE(hf_break(observer, name, leader.owner_key, &count), HF_OK);
        CHECK_INT(count, 1);
        CHECK_CODE(hf_resign(leadership), HF_LOST);
    } else {
        resign(leadership);
    }
    CHECK(!leader_of(observer, name).leads);
    hf_close(observer);
    hf_close(client);
}

TEST(another_kind_of_object_is_no_election)
{
    hf_client *client = open_client();
    hf_leader leader = { .size = sizeof(leader) };
    hf_watch *watch;

    need(client, HF_CAP_INSPECT | HF_CAP_RW);
    if (store_has_plain_locks())
        SKIP("its locks know names and no kinds");
    hf_hold *hold = take(client, name_of("rw"), HF_READ, 0);
    CHECK_ERROR(hf_election_leader(client, name_of("rw"), &leader), HF_EKIND);
    CHECK_ERROR(hf_election_watch(client, name_of("rw"), 0, record_change, NULL, &watch), HF_EKIND);
    CHECK(watch == NULL);
    give_back(hold);
    hf_close(client);
}

TEST(a_watch_tells_each_change_once_and_in_order)
{
    hf_client *client = open_client(), *observer = open_client();
    const char *name = name_of("boss");
    static struct chronicle chronicle = CHRONICLE;
    uint64_t terms[3];

    need(client, HF_CAP_INSPECT);
    hf_watch *watching = watch(observer, name, &chronicle);
    CHECK(!told(&chronicle, 0).leads);
    for (int i = 0; i < 3; i++) {
        hf_hold *leadership = lead(client, name, i % 2 ? "one" : "other");
        terms[i] = hf_token(leadership);
        CHECK(told(&chronicle, 2 * i + 1).leads);
        resign(leadership);
        CHECK(!told(&chronicle, 2 * i + 2).leads);
    }
    let_pass_ms(10 * EVERY_MS);
    hf_watch_end(watching);
    CHECK_INT(chronicle.count, 7);
    for (int i = 0; i < 3; i++) {
        const hf_leader *leader = &chronicle.leaders[2 * i + 1];
        CHECK(store_has_plain_locks() || leader->token == terms[i]);
        CHECK(!shows_texts() || strcmp(leader->text, i % 2 ? "one" : "other") == 0);
    }
    hf_close(observer);
    hf_close(client);
}

TEST(a_watch_tells_who_follows_a_leader_that_resigns)
{
    hf_client *client = open_client();
    struct outcome outcome = { 0 };
    const char *name = name_of("boss");
    static struct chronicle chronicle = CHRONICLE;

    need(client, HF_CAP_INSPECT);
    hf_hold *leadership = lead(client, name, "first");
    uint64_t term = hf_token(leadership);
    CHECK_CODE(hf_campaign_async(client, name, HF_FOREVER, NULL, record_outcome, &outcome, NULL),
               HF_OK);
    hf_watch *watching = watch(client, name, &chronicle);
    hf_leader first = told(&chronicle, 0);
    CHECK(first.leads && (store_has_plain_locks() || first.token == term));
    resign(leadership);
    WAIT_OUTCOME(&outcome);
    uint64_t next = hf_token(outcome.hold);
    for (int i = 1;; i++) {
        hf_leader leader = told(&chronicle, i);
        CHECK(i < 3);
        if (!leader.leads)
            continue;
        CHECK((store_has_plain_locks() || leader.token == next) &&
              strcmp(leader.owner_key, first.owner_key) != 0);
        break;
    }
    hf_watch_end(watching);
    resign(outcome.hold);
    hf_close(client);
}

struct brief {
    hf_watch *watch;
    _Atomic int calls;
};

static void end_own_watch(void *arg, const hf_leader *leader)
{
    struct brief *brief = arg;

    CHECK(!leader->leads);
    hf_watch_end(brief->watch);
    brief->calls++;
}

TEST(a_watch_may_end_itself)
{
    hf_client *client = open_client();
    static struct brief brief;

    need(client, HF_CAP_INSPECT);
    CHECK_CODE(
        hf_election_watch(client, name_of("boss"), EVERY_MS, end_own_watch, &brief, &brief.watch),
        HF_OK);
    EVENTUALLY(brief.calls == 1, SOON_MS);
    resign(lead(client, name_of("boss"), "late"));
    let_pass_ms(5 * EVERY_MS);
    CHECK_INT(brief.calls, 1);
    hf_close(client);
}

TEST(arguments_of_elections_are_checked)
{
    hf_client *client = open_client();
    hf_leader leader = { .size = 1 };
    hf_watch *watch = NULL;
    hf_hold *leadership;

    CHECK_ERROR(hf_campaign(NULL, "boss", 0, NULL, &leadership), HF_EINVAL);
    CHECK_ERROR(hf_campaign(client, "", 0, NULL, &leadership), HF_EINVAL);
    CHECK_ERROR(hf_campaign(client, "boss", 0, &(hf_lock_options){ .size = 3 }, &leadership),
                HF_EINVAL);
    CHECK_ERROR(hf_campaign_async(client, "boss", 0, NULL, NULL, NULL, NULL), HF_EINVAL);
    CHECK_CODE(hf_resign(NULL), HF_OK);
    CHECK_ERROR(hf_election_leader(client, "boss", NULL), HF_EINVAL);
    CHECK_ERROR(hf_election_leader(client, "boss", &leader), HF_EINVAL);
    leader.size = sizeof(leader);
    CHECK_ERROR(hf_election_leader(client, NULL, &leader), HF_EINVAL);
    CHECK_ERROR(hf_election_leader(NULL, "boss", &leader), HF_EINVAL);
    CHECK_ERROR(hf_election_watch(client, "boss", 9, record_change, NULL, &watch), HF_EINVAL);
    CHECK_ERROR(hf_election_watch(client, "boss", 0, NULL, NULL, &watch), HF_EINVAL);
    CHECK_ERROR(hf_election_watch(client, "boss", 0, record_change, NULL, NULL), HF_EINVAL);
    CHECK_ERROR(hf_election_watch(client, NULL, 0, record_change, NULL, &watch), HF_EINVAL);
    CHECK(watch == NULL);
    hf_watch_end(NULL);
    hf_close(client);
}
