/* SPDX-License-Identifier: Apache-2.0 */
/* An ensemble that cannot be reached: calls end within the request time-out and a little more. */
#include "conformance.h"
#include "server.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_TIMEOUT_MS 500
/* hf_lock and hf_close, on a busy machine. */
#define LIMIT_MS 5000

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void lock_at_dead_ensemble(const int ports[3])
{
    char url[120];
    hf_client *client = NULL;
    hf_hold *hold = NULL;

    snprintf(url, sizeof url, "zk://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/chaos", ports[0],
             ports[1], ports[2]);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.request_timeout_ms = REQUEST_TIMEOUT_MS)),
               HF_OK);
    int64_t begun_ms = now_ms();
    CHECK_CODE(hf_lock(client, "one", 0, NULL, &hold), HF_UNREACHABLE);
    CHECK(now_ms() - begun_ms < LIMIT_MS);
    begun_ms = now_ms();
    CHECK_CODE(hf_lock(client, "two", REQUEST_TIMEOUT_MS, NULL, &hold), HF_UNREACHABLE);
    CHECK(now_ms() - begun_ms < LIMIT_MS);
    begun_ms = now_ms();
    hf_close(client);
    CHECK(now_ms() - begun_ms < LIMIT_MS);
}

TEST(lock_and_close_return_in_time_where_no_server_listens)
{
    lock_at_dead_ensemble((const int[3]){ free_port(), free_port(), free_port() });
}

TEST(lock_and_close_return_in_time_where_servers_accept_and_never_reply)
{
    int ports[3], listeners[3];
    for (int i = 0; i < 3; i++)
        listeners[i] = listen_somewhere(&ports[i]);
    lock_at_dead_ensemble(ports);
    for (int i = 0; i < 3; i++)
        close(listeners[i]);
}
