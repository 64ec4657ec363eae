/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that comes back by itself, to real sockets, on a clock that the test sets. */
#include "engines/common/peer.h"

#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define ADDRESSES 3

static struct hf_loop loop;
static uv_loop_t uv;
static int64_t clock_ms = 1000;
static struct hf_host host;
static struct hf_peer peer;

/* What the engine's side was told, and what it does. */
static unsigned greetings, failures;
static enum hf_peer_state failed_in;
static char got[64];
static bool ready_at_once, needed_again, closes_when_failed, finds_later, breaks_when_read;
static int64_t sent_at_ms;
static char paths[ADDRESSES][100];

static int64_t read_clock(void *arg)
{
    (void)arg;
    return clock_ms;
}

static void wake(void *arg)
{
    (void)arg;
}

static bool place(struct hf_peer *of, struct hf_peer_try *ret)
{
    ret->place.path = paths[of->place_at];
    return !finds_later;
}

static void greet(struct hf_peer *of)
{
    greetings++;
    CHECK(hf__peer_write(of, "hello", 5));
    if (ready_at_once)
        hf__peer_ready(of);
}

static void bytes(struct hf_peer *of, const char *text, size_t length)
{
    snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s", (int)length, text);
    if (breaks_when_read) {
        hf__peer_break(of, HF_ECORRUPT, 0, "\"%s\" cannot be read", got);
        hf__peer_break(of, HF_ECORRUPT, 0, "this is not the first reason");
        CHECK(!hf__peer_can_read(of));
        CHECK_INT(failures, 0);
    } else {
        hf__peer_ready(of);
    }
}

static void failed(struct hf_peer *of, enum hf_peer_state was)
{
    failures++;
    failed_in = was;
    CHECK_INT(of->state, HF_PEER_DOWN);
    if (closes_when_failed) {
        hf__peer_close(of);
        memset(of, 0x55, sizeof *of);
    }
}

static bool needed(struct hf_peer *of)
{
    (void)of;
    return needed_again;
}

static int64_t oldest(struct hf_peer *of)
{
    (void)of;
    return sent_at_ms;
}

/* ---- in place of a stream: a client library ---- */

static unsigned dials, hang_ups;
static bool dial_fails;

static bool dial(struct hf_peer *of, const struct hf_peer_try *attempt)
{
    CHECK_INT(of->state, HF_PEER_CONNECTING);
    CHECK_STR(attempt->place.path, paths[of->place_at]);
    dials++;
    return !dial_fails;
}

static void hang_up(struct hf_peer *of)
{
    (void)of;
    CHECK_INT(failures, hang_ups);
    hang_ups++;
}

static void greet_library(struct hf_peer *of)
{
    greetings++;
    if (ready_at_once)
        hf__peer_ready(of);
}

static void turn(void)
{
    hf__loop_turn(&loop);
    uv_run(&uv, UV_RUN_NOWAIT);
}

#define TURN_UNTIL(condition) EVENTUALLY((turn(), (condition)), 20000)

static void pass_ms(int64_t ms)
{
    clock_ms += ms;
    for (unsigned i = 0; i < 10; i++)
        turn();
}

static void begin_with(const struct hf_peer_callbacks *callbacks, unsigned addresses,
                       int64_t timeout_ms)
{
    TEST_ALLOW_FD_LEAKS(); /* libuv keeps some */
    CHECK_INT(uv_loop_init(&uv), 0);
    hf__loop_init(&loop, read_clock, wake, NULL);
    host = (struct hf_host){ .loop = &loop, .uv = &uv };
    for (unsigned i = 0; i < ADDRESSES; i++)
        snprintf(paths[i], sizeof paths[i], "%s", temp_path("socket%u", i));
    sent_at_ms = HF_NEVER;
    needed_again = true;
    hf__peer_init(&peer, &(struct hf_peer_config){ .host = &host,
                                                   .callbacks = callbacks,
                                                   .store = "Store",
                                                   .shown = "here",
                                                   .place_count = addresses,
                                                   .timeout_ms = timeout_ms });
}

static void begin(unsigned addresses, int64_t timeout_ms)
{
    static const struct hf_peer_callbacks callbacks = {
        place, greet, bytes, failed, needed, oldest
    };
    begin_with(&callbacks, addresses, timeout_ms);
}

static void begin_dialing(unsigned addresses, int64_t timeout_ms)
{
    static const struct hf_peer_callbacks callbacks = { .place = place,
                                                        .greet = greet_library,
                                                        .failed = failed,
                                                        .needed = needed,
                                                        .oldest = oldest,
                                                        .dial = dial,
                                                        .hang_up = hang_up };
    begin_with(&callbacks, addresses, timeout_ms);
}

static void end(void)
{
    if (!closes_when_failed)
        hf__peer_close(&peer);
    uv_run(&uv, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&uv), 0);
}

static int listen_at(unsigned address)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    snprintf(to.sun_path, sizeof to.sun_path, "%s", paths[address]);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(bind(listener, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(listen(listener, 5) == 0);
    return listener;
}

/* The server's end of a connection that has been greeted. */
static int accept_greeted(int listener)
{
    char text[6] = "";
    int server = -1;
    TURN_UNTIL((server = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    TURN_UNTIL(read(server, text, 5) == 5);
    CHECK_STR(text, "hello");
    return server;
}

static void why_silent_says(const char *wanted)
{
    hf_error *error = NULL;
    hf__peer_why_silent(&peer, &error);
    CHECK_STR(error ? error->text : "", wanted);
    free(error);
}

TEST(peer_wanted_connects_greets_and_becomes_ready_by_what_it_reads)
{
    begin(1, 5000);
    int listener = listen_at(0);
    why_silent_says("");
    hf__peer_want(&peer);
    CHECK_INT(peer.state, HF_PEER_CONNECTING);
    why_silent_says("Store at here: no connection in time");
    int server = accept_greeted(listener);
    CHECK_INT(peer.state, HF_PEER_GREETING);
    why_silent_says("Store at here: it accepts the connection and does not answer");
    CHECK(write(server, "welcome", 7) == 7);
    TURN_UNTIL(hf__peer_is_ready(&peer));
    CHECK_STR(got, "welcome");
    CHECK_INT(greetings, 1);
    CHECK_INT(peer.openings, 1);
    CHECK_INT(failures, 0);
    end();
}

TEST(peer_without_welcome_fails_at_the_limit_of_the_try)
{
    begin(1, 5000);
    int listener = listen_at(0);
    hf__peer_want(&peer);
    accept_greeted(listener);
    pass_ms(4999);
    CHECK_INT(failures, 0);
    pass_ms(1);
    CHECK_INT(failures, 1);
    CHECK_INT(failed_in, HF_PEER_GREETING);
    CHECK_STR(peer.why.text, "Store at here: it accepts the connection and does not answer");
    why_silent_says("Store at here: it accepts the connection and does not answer");
    end();
}

TEST(peer_without_server_tries_each_address_then_pauses_longer_each_round)
{
    begin(3, 5000);
    for (unsigned tries = 1; tries <= 12; tries++) {
        if (tries == 1)
            hf__peer_want(&peer);
        TURN_UNTIL(failures == tries);
        CHECK_INT(failed_in, HF_PEER_CONNECTING);
        CHECK_INT(peer.place_at, tries % 3);
        CHECK_INT(hf__peer_round_is_over(&peer), tries % 3 == 0);
        CHECK(strstr(peer.why.text, "Store at here: cannot connect: "));
        /* About 20 ms, but twice as long after each round; by chance half or half as much again. */
        int64_t least_ms = tries % 3 == 0 ? 10 << (tries / 3 - 1) : 10;
        hf__peer_want(&peer); /* pauses: nothing comes of it */
        pass_ms(least_ms - 1);
        CHECK_INT(failures, tries);
        pass_ms(2 * least_ms + 1);
    }
    end();
}

TEST(peer_not_needed_any_more_stays_down_until_it_is_wanted)
{
    begin(1, 5000);
    needed_again = false;
    hf__peer_want(&peer);
    TURN_UNTIL(failures == 1);
    pass_ms(60000);
    CHECK_INT(failures, 1);
    CHECK_INT(peer.state, HF_PEER_DOWN);
    hf__peer_want(&peer);
    TURN_UNTIL(failures == 2);
    end();
}

TEST(peer_with_a_request_without_reply_fails_after_the_silence)
{
    begin(1, 5000);
    ready_at_once = true;
    int listener = listen_at(0);
    hf__peer_want(&peer);
    accept_greeted(listener);
    peer.silence_ms = 1000;
    hf__peer_await(&peer); /* this one has its reply before the silence is over */
    pass_ms(600);
    sent_at_ms = clock_ms;
    hf__peer_await(&peer);
    why_silent_says("Store at here: no answer in time");
    pass_ms(999);
    CHECK_INT(failures, 0);
    why_silent_says("Store at here: no answer in time");
    pass_ms(1);
    CHECK_INT(failures, 1);
    CHECK_INT(failed_in, HF_PEER_READY);
    CHECK_STR(peer.why.text, "Store at here: no answer for 1000 ms");
    end();
}

TEST(peer_silent_for_seconds_says_how_long)
{
    begin(1, 5000);
    ready_at_once = true;
    int listener = listen_at(0);
    hf__peer_want(&peer);
    accept_greeted(listener);
    sent_at_ms = clock_ms;
    hf__peer_await(&peer);
    pass_ms(1000);
    why_silent_says("Store at here: no answer for 1000 ms");
    end();
}

TEST(peer_ready_and_idle_never_fails_by_itself)
{
    begin(1, 5000);
    ready_at_once = true;
    int listener = listen_at(0);
    hf__peer_want(&peer);
    accept_greeted(listener);
    hf__peer_await(&peer);
    pass_ms(3600000);
    CHECK_INT(failures, 0);
    CHECK(hf__peer_is_ready(&peer));
    end();
}

TEST(peer_broken_while_it_reads_fails_once_and_after_that)
{
    begin(1, 5000);
    breaks_when_read = true;
    int listener = listen_at(0);
    hf__peer_want(&peer);
    int server = accept_greeted(listener);
    CHECK(write(server, "oops", 4) == 4);
    TURN_UNTIL(failures == 1);
    CHECK_STR(peer.why.text, "Store at here: \"oops\" cannot be read");
    CHECK_INT(peer.why.code, HF_ECORRUPT);
    end();
}

TEST(peer_comes_back_to_a_server_that_has_ended_the_connection)
{
    begin(1, 5000);
    ready_at_once = true;
    int listener = listen_at(0);
    hf__peer_want(&peer);
    close(accept_greeted(listener));
    TURN_UNTIL(failures == 1);
    CHECK_INT(failed_in, HF_PEER_READY);
    pass_ms(60);
    accept_greeted(listener);
    CHECK_INT(peer.openings, 2);
    CHECK_INT(peer.failures, 0);
    end();
}

TEST(peer_that_reconnects_has_not_failed_and_does_not_pause)
{
    begin(1, 5000);
    ready_at_once = true;
    int listener = listen_at(0);
    hf__peer_want(&peer);
    accept_greeted(listener);
    hf__peer_reconnect(&peer);
    CHECK_INT(peer.state, HF_PEER_DOWN);
    accept_greeted(listener);
    CHECK_INT(failures, 0);
    CHECK_INT(peer.openings, 2);
    end();
}

TEST(peer_closed_and_freed_when_it_fails_runs_no_further_callback)
{
    begin(1, 5000);
    closes_when_failed = true;
    hf__peer_want(&peer);
    TURN_UNTIL(failures == 1);
    pass_ms(60000);
    CHECK_INT(failures, 1);
    end();
}

TEST(peer_goes_to_an_address_that_is_found_later)
{
    begin(1, 5000);
    finds_later = true;
    int listener = listen_at(1);
    hf__peer_want(&peer);
    CHECK_INT(peer.state, HF_PEER_FINDING);
    pass_ms(100);
    hf__peer_go(&peer, &(struct hf_peer_try){ .place.path = paths[1], .limit_ms = 5000 });
    accept_greeted(listener);
    end();
}

TEST(peer_that_finds_no_address_fails_with_the_engines_reason)
{
    begin(1, 5000);
    finds_later = true;
    hf__peer_want(&peer);
    hf__peer_break(&peer, HF_UNREACHABLE, 0, "no one names it");
    CHECK_INT(failures, 0);
    hf__peer_go(&peer, &(struct hf_peer_try){ .place.path = paths[1], .limit_ms = 5000 });
    CHECK_INT(peer.state, HF_PEER_FINDING);
    pass_ms(0);
    CHECK_INT(failures, 1);
    CHECK_INT(failed_in, HF_PEER_FINDING);
    end();
}

TEST(peer_that_dials_is_hung_up_once_for_each_try)
{
    begin_dialing(2, 5000);
    ready_at_once = true;
    hf__peer_want(&peer);
    CHECK_INT(dials, 1);
    CHECK_INT(peer.state, HF_PEER_CONNECTING);
    hf__peer_break(&peer, HF_UNREACHABLE, 111, "the library cannot connect");
    hf__peer_connected(&peer); /* too late */
    CHECK_INT(greetings, 0);
    pass_ms(0);
    CHECK_INT(failures, 1);
    CHECK_INT(hang_ups, 1);
    CHECK_STR(peer.why.text, "Store at here: the library cannot connect");
    pass_ms(60);
    CHECK_INT(dials, 2);
    hf__peer_connected(&peer);
    CHECK(hf__peer_is_ready(&peer));
    CHECK_INT(greetings, 1);
    hf__peer_close(&peer);
    CHECK_INT(hang_ups, 2);
    end();
}

TEST(peer_that_cannot_dial_fails_without_hanging_up)
{
    begin_dialing(1, 5000);
    dial_fails = true;
    hf__peer_want(&peer);
    pass_ms(0);
    CHECK_INT(failures, 1);
    CHECK_INT(hang_ups, 0);
    CHECK_INT(peer.why.code, HF_ENOMEM);
    end();
}

TEST(peer_that_dials_and_hears_nothing_fails_at_the_limit_of_the_try)
{
    begin_dialing(1, 5000);
    hf__peer_want(&peer);
    pass_ms(4999);
    CHECK_INT(failures, 0);
    pass_ms(1);
    CHECK_INT(failures, 1);
    CHECK_INT(hang_ups, 1);
    CHECK_INT(failed_in, HF_PEER_CONNECTING);
    end();
}
