/* SPDX-License-Identifier: Apache-2.0 */
/* A server, or a network, that stands still at any step of connecting: no turn of the loop waits
 * for it, and the try is given up in time. */
#include "certificate.h"
#include "relay.h"
#include "sql_bench.h"
#include "sql_secured.h"

#include <stdlib.h>

/* Each stands still at another byte. */
#define CONNECTIONS 30
#define TIMEOUT_MS 5000

static bool are_done(struct bench *benches)
{
    bool all = true;
    for (int i = 0; i < CONNECTIONS; i++) {
        turn(&benches[i]);
        all = all && (benches[i].ready || benches[i].broken);
    }
    return all;
}

static void close_all(struct bench *benches, const char *kind)
{
    int ready = 0;
    int64_t longest_us = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        ready += benches[i].ready;
        if (benches[i].broken && benches[i].why.trouble != SQL_NOT_READY)
            FAIL("connection %d: trouble %d: %s", i, benches[i].why.trouble, benches[i].why.text);
        bench_disconnect(&benches[i]);
        longest_us = longest_us > benches[i].longest_us ? longest_us : benches[i].longest_us;
    }
    test_note("%s: %d of %d connections were ready, longest turn %lld us", kind, ready, CONNECTIONS,
              (long long)longest_us);
    CHECK(ready > 0 && ready <= CONNECTIONS * 2 / 3);
    /* The first one is closed last: it counts the threads. */
    for (int i = CONNECTIONS - 1; i >= 0; i--)
        bench_close(&benches[i]);
}

static void connect_through_stalls(const struct subject *subject, int port, long step,
                                   enum sql_tls tls)
{
    struct bench *benches = calloc(CONNECTIONS, sizeof(*benches));
    struct relay relay = { 0 };

    CHECK(benches != NULL);
    relay_start(&relay, port);
    relay_stall_each(&relay, step);
    for (int i = 0; i < CONNECTIONS; i++) {
        bench_open(&benches[i], subject->driver, relay.port);
        benches[i].settings.timeout_ms = TIMEOUT_MS * test_slow();
        benches[i].settings.tls = tls;
        benches[i].settings.ca = tls == SQL_TLS_OFF ? NULL : temp_path("ours.crt");
        bench_connect(&benches[i]);
    }
    EVENTUALLY(are_done(benches), SOON_MS);
    close_all(benches, subject->kind);
    relay_stop(&relay);
    free(benches);
}

TEST(stall_at_any_step_of_connecting_holds_up_no_turn)
{
    TEST_ALLOW_FD_LEAKS();
    certificate_make("ours", NULL, NULL, -DAY_S, DAY_S);
    certificate_make("good", "ours", "IP:127.0.0.1", -DAY_S, DAY_S);
    EACH(subject)
    {
        struct sql_server server;
        sql_secured_start(&server, subject->kind, "good");
        bool is_mysql = subject->driver->dialect == SQL_MYSQL;
        connect_through_stalls(subject, server.port, is_mysql ? 12 : 90, SQL_TLS_OFF);
        connect_through_stalls(subject, server.port, is_mysql ? 100 : 180, SQL_TLS_VERIFY);
        sql_server_kill(&server);
    }
}
