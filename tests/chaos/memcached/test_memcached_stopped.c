/* SPDX-License-Identifier: Apache-2.0 */
/* Clients and their server stand still, one after the other: there are never two owners that both
 * believe in their lock. */
#include "conformance.h"
#include "memcached_server.h"
#include "relay.h"

#include <stdio.h>
#include <stdlib.h>

/* Some clients at once: whether a server that goes on answers before its clock does is a race. */
#define PEERS 8
#define LEASE_MS 2000
/* The phase of a server's clock is forgotten after two of these: MC_CLOCK_WINDOW_MS, and some. */
#define WINDOW_MS 5300

struct stage {
    struct memcached_server server;
    struct relay relay; /* between the peers and the server */
    struct peer peers[PEERS];
    hf_client *rival;
    struct outcome outcomes[PEERS]; /* of the rival's requests */
    bool seen[PEERS];
};

static const char *name_at(int index)
{
    static const char *const names[PEERS] = { "one",  "two", "three", "four",
                                              "five", "six", "seven", "eight" };

    return names[index];
}

static void begin_stage(struct stage *stage)
{
    TEST_TIMEOUT(300);
    memcached_start(&stage->server);
    relay_start(&stage->relay, stage->server.port);
    setenv("HOLDFAST_TEST_URL", memcached_url(stage->relay.port, 60000), 1);
    client_lease_ms = LEASE_MS;
    for (int i = 0; i < PEERS; i++)
        peer_start(&stage->peers[i]);
    CHECK_CODE(hf_open(&stage->rival, memcached_url(stage->server.port, 60000),
                       &HF_CLIENT_OPTIONS(.lease_ms = 30000)),
               HF_OK);
    for (int i = 0; i < PEERS; i++) {
        give_back(take_patiently(stage->rival, name_at(i)));
        CHECK_CODE(peer_lock(&stage->peers[i], 0, name_at(i), SOON_MS, NULL), HF_OK);
        CHECK_CODE(peer_unlock(&stage->peers[i], 0), HF_OK);
    }
}

static void end_stage(struct stage *stage)
{
    for (int i = 0; i < PEERS; i++)
        peer_end(&stage->peers[i]);
    hf_close(stage->rival);
    relay_stop(&stage->relay);
    memcached_kill(&stage->server);
}

/* The server stands still; each peer has asked for its name in its last moment. */
static void ask_at_the_end_of_a_stop(struct stage *stage, int64_t stop_ms, int64_t lease_ms)
{
    memcached_stop(&stage->server);
    let_pass_ms(stop_ms);
    for (int i = 0; i < PEERS; i++) {
        long asked = stage->relay.asked;
        peer_begin(&stage->peers[i], 0, name_at(i), 60000, LOCK_OPTIONS(.lease_ms = lease_ms));
        EVENTUALLY(stage->relay.asked > asked, SOON_MS);
    }
}

static void ask_as_rival(struct stage *stage)
{
    memset(stage->outcomes, 0, sizeof(stage->outcomes));
    memset(stage->seen, 0, sizeof(stage->seen));
    for (int i = 0; i < PEERS; i++)
        begin_wait(stage->rival, name_at(i), HF_MUTEX, &stage->outcomes[i]);
}

/* Looks at each lock as soon as the rival has it. How many it has had. */
static int check_beliefs(struct stage *stage)
{
    int count = 0;

    for (int i = 0; i < PEERS; i++) {
        if (stage->outcomes[i].calls && !stage->seen[i]) {
            CHECK_CODE(stage->outcomes[i].code, HF_OK);
            bool believed = peer_held(&stage->peers[i], 0);
            CHECK(!believed || !hf_held(stage->outcomes[i].hold));
            stage->seen[i] = true;
        }
        count += stage->seen[i];
    }
    return count;
}

static void expect_beliefs_apart(struct stage *stage)
{
    EVENTUALLY(check_beliefs(stage) == PEERS, 2 * SOON_MS);
    for (int i = 0; i < PEERS; i++) {
        int code = peer_unlock(&stage->peers[i], 0);
        CHECK(code == HF_OK || code == HF_LOST);
        CHECK(hf_held(stage->outcomes[i].hold));
        give_back(stage->outcomes[i].hold);
    }
}

/* ---- readings of the clock that come late ---- */

static void stop_readers(struct stage *stage)
{
    for (int i = 0; i < PEERS; i++)
        child_stop(&stage->peers[i].child);
    memcached_continue(&stage->server);
    let_pass_ms(WINDOW_MS);
    for (int i = 0; i < PEERS; i++)
        child_continue(&stage->peers[i].child);
}

static void delay_replies(struct stage *stage)
{
    relay_pause(&stage->relay);
    memcached_continue(&stage->server);
    let_pass_ms(WINDOW_MS);
    relay_resume(&stage->relay);
}

/* One reading alone in its window: that of an acquire whose lease outlives it. */
static void read_late(struct stage *stage, void (*delay)(struct stage *stage))
{
    let_pass_ms(WINDOW_MS);
    ask_at_the_end_of_a_stop(stage, 1, 60000);
    delay(stage);
    for (int i = 0; i < PEERS; i++) {
        CHECK_CODE(peer_answer(&stage->peers[i]), HF_OK);
        CHECK_CODE(peer_unlock(&stage->peers[i], 0), HF_OK);
    }
    let_pass_ms(WINDOW_MS);
}

static void expect_no_belief_by_late_reading(void (*delay)(struct stage *stage))
{
    struct stage stage = { .rival = NULL };

    begin_stage(&stage);
    read_late(&stage, delay);
    ask_at_the_end_of_a_stop(&stage, WINDOW_MS - 600, LEASE_MS);
    memcached_continue(&stage.server);
    for (int i = 0; i < PEERS; i++)
        CHECK_CODE(peer_answer(&stage.peers[i]), HF_OK);
    ask_as_rival(&stage);
    expect_beliefs_apart(&stage);
    end_stage(&stage);
}

TEST(reading_that_a_stopped_client_reads_late_hides_no_stop_of_the_server)
{
    expect_no_belief_by_late_reading(stop_readers);
}

TEST(reading_whose_reply_is_late_hides_no_stop_of_the_server)
{
    expect_no_belief_by_late_reading(delay_replies);
}

/* ---- holders that stand still, with their server ---- */

static void stop_or_continue_peers(struct stage *stage, bool stop)
{
    for (int i = 0; i < PEERS; i++)
        (stop ? child_stop : child_continue)(&stage->peers[i].child);
}

static void stop_or_continue(struct stage *stage, bool stop, bool server_first)
{
    void (*act_on_server)(struct memcached_server *) = stop ? memcached_stop : memcached_continue;

    if (server_first)
        act_on_server(&stage->server);
    else
        stop_or_continue_peers(stage, stop);
    /* A renewal of the holders, or its reply. */
    let_pass_ms(LEASE_MS / 2);
    if (server_first)
        stop_or_continue_peers(stage, stop);
    else
        act_on_server(&stage->server);
}

TEST(holder_that_stops_with_its_server_believes_in_nothing_afterwards)
{
    struct stage stage = { .rival = NULL };

    begin_stage(&stage);
    for (int order = 0; order < 4; order++) {
        for (int i = 0; i < PEERS; i++)
            CHECK_CODE(peer_lock(&stage.peers[i], 0, name_at(i), SOON_MS, NULL), HF_OK);
        ask_as_rival(&stage);
        stop_or_continue(&stage, true, order & 1);
        let_pass_ms(LEASE_MS + 3000);
        stop_or_continue(&stage, false, order & 2);
        expect_beliefs_apart(&stage);
    }
    end_stage(&stage);
}
