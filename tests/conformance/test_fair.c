/* SPDX-License-Identifier: Apache-2.0 */
/* Fair order: first come, first served, among threads and among processes. */
#include "conformance.h"

#define PEERS 8

TEST(processes_are_served_in_order)
{
    struct peer peers[PEERS];
    hf_client *client;
    hf_hold *hold;
    const hf_lock_options *fair = LOCK_OPTIONS(.mode = HF_FAIR);

    for (int i = 0; i < PEERS; i++)
        peer_start(&peers[i]);
    client = open_client();
    need(client, HF_CAP_FAIR | HF_CAP_INSPECT);
    hold = take(client, name_of("queue"), HF_FAIR, 0);
    for (int i = 0; i < PEERS; i++) {
        peer_begin(&peers[i], 0, name_of("queue"), HF_FOREVER, fair);
        EVENTUALLY(waiters(client, name_of("queue")) == i + 1, SOON_MS);
    }
    uint64_t token = hf_token(hold);
    give_back(hold);
    for (int i = 0; i < PEERS; i++) {
        CHECK_CODE(peer_answer(&peers[i]), HF_OK);
        CHECK(!(hf_caps(client) & HF_CAP_TOKEN) || peers[i].token > token);
        token = peers[i].token;
        CHECK_INT(waiters(client, name_of("queue")), PEERS - 1 - i);
        CHECK_CODE(peer_unlock(&peers[i], 0), HF_OK);
    }
    hf_close(client);
    for (int i = 0; i < PEERS; i++)
        peer_end(&peers[i]);
}

TEST(a_newcomer_does_not_overtake)
{
    struct peer peer;
    hf_client *client, *newcomer;
    hf_hold *hold;

    peer_start(&peer);
    client = open_client();
    newcomer = open_client();
    need(client, HF_CAP_FAIR | HF_CAP_INSPECT);
    for (int i = 0; i < 100; i++) {
        hold = take(client, name_of("queue"), HF_FAIR, 0);
        peer_begin(&peer, 0, name_of("queue"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR));
        EVENTUALLY(waiters(client, name_of("queue")) == 1, SOON_MS);
        give_back(hold);
        /* It is the peer's already, though the peer may not have run yet. */
        CHECK_CODE(probe(newcomer, name_of("queue"), HF_FAIR, 0), HF_BUSY);
        CHECK_CODE(peer_answer(&peer), HF_OK);
        CHECK_CODE(peer_unlock(&peer, 0), HF_OK);
    }
    hf_close(client);
    hf_close(newcomer);
    peer_end(&peer);
}

struct line {
    hf_client *client;
    _Atomic int waiting, next;
};

struct queuer {
    struct thread thread;
    struct line *line;
    int place;
};

static void count_waiting(void *arg, const hf_event *event)
{
    struct line *line = arg;

    if (event->type == HF_EVENT_WAITING)
        line->waiting++;
}

static void queue_up(void *arg)
{
    struct queuer *queuer = arg;
    hf_hold *hold;

    CHECK_CODE(hf_lock(queuer->line->client, name_of("queue"), HF_FOREVER,
                       LOCK_OPTIONS(.mode = HF_FAIR, NO_LOOK), &hold),
               HF_OK);
    CHECK_INT(queuer->line->next++, queuer->place);
    give_back(hold);
}

TEST(threads_are_served_in_order)
{
    static struct line line;
    static struct queuer queuers[20];

    line.client =
        open_client_with((hf_client_options){ .on_event = count_waiting, .event_arg = &line });
    need(line.client, HF_CAP_FAIR);
    hf_hold *hold = take(line.client, name_of("queue"), HF_FAIR, 0);
    for (int i = 0; i < 20; i++) {
        queuers[i] = (struct queuer){ .line = &line, .place = i };
        thread_start(&queuers[i].thread, queue_up, &queuers[i]);
        EVENTUALLY(line.waiting == i + 1, SOON_MS);
    }
    give_back(hold);
    for (int i = 0; i < 20; i++)
        thread_join(&queuers[i].thread);
    CHECK_INT(line.next, 20);
    hf_close(line.client);
}

TEST(a_place_given_up_is_skipped)
{
    struct peer peers[2];
    struct outcome outcome = { 0 };
    hf_client *client;
    hf_hold *hold;
    hf_request request;

    for (int i = 0; i < 2; i++)
        peer_start(&peers[i]);
    client = open_client();
    need(client, HF_CAP_FAIR | HF_CAP_INSPECT);
    hold = take(client, name_of("queue"), HF_FAIR, 1);
    CHECK_CODE(hf_lock_async(client, name_of("queue"), HF_FOREVER,
                             LOCK_OPTIONS(.mode = HF_FAIR, .owner = 2), record_outcome, &outcome,
                             &request),
               HF_OK);
    EVENTUALLY(waiters(client, name_of("queue")) == 1, SOON_MS);
    for (int i = 0; i < 2; i++) {
        peer_begin(&peers[i], 0, name_of("queue"), HF_FOREVER, LOCK_OPTIONS(.mode = HF_FAIR));
        EVENTUALLY(waiters(client, name_of("queue")) == i + 2, SOON_MS);
    }
    hf_cancel(client, request);
    WAIT_OUTCOME(&outcome);
    CHECK_CODE(outcome.code, HF_CANCELED);
    EVENTUALLY(waiters(client, name_of("queue")) == 2, SOON_MS);
    give_back(hold);
    for (int i = 0; i < 2; i++) {
        CHECK_CODE(peer_answer(&peers[i]), HF_OK);
        CHECK_CODE(peer_unlock(&peers[i], 0), HF_OK);
    }
    hf_close(client);
    for (int i = 0; i < 2; i++)
        peer_end(&peers[i]);
}

static void wait_async(hf_client *client, hf_mode mode, struct outcome *outcome)
{
    CHECK_CODE(hf_lock_async(client, name_of("queue"), HF_FOREVER, LOCK_OPTIONS(.mode = mode),
                             record_outcome, outcome, NULL),
               HF_OK);
}

/* Its client holds nothing, so nothing but its wait keeps the session. */
TEST(a_place_is_kept_for_longer_than_a_lease)
{
    int64_t lease_ms = 1500 * test_slow();
    hf_client *client = open_client(), *second = open_client();
    hf_client *first = open_client_with((hf_client_options){ .lease_ms = lease_ms });
    struct outcome outcomes[2] = { 0 };
    hf_hold *hold;

    need(client, HF_CAP_FAIR | HF_CAP_INSPECT);
    hold = take(client, name_of("queue"), HF_FAIR, 0);
    wait_async(first, HF_FAIR, &outcomes[0]);
    EVENTUALLY(waiters(client, name_of("queue")) == 1, SOON_MS);
    wait_async(second, HF_FAIR, &outcomes[1]);
    EVENTUALLY(waiters(client, name_of("queue")) == 2, SOON_MS);
    let_pass_ms(2 * lease_ms);
    give_back(hold);
    WAIT_OUTCOME(&outcomes[0]);
    CHECK_CODE(outcomes[0].code, HF_OK);
    CHECK(!outcomes[1].calls);
    give_back(outcomes[0].hold);
    WAIT_OUTCOME(&outcomes[1]);
    give_back(outcomes[1].hold);
    hf_close(first);
    hf_close(second);
    hf_close(client);
}
