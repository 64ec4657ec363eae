/* SPDX-License-Identifier: Apache-2.0 */
/* A client that turns its loop itself. */
#include "turns.h"

#include <poll.h>
#include <stdio.h>

#define LEASE_MS 600000

static void tell(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct told *told = arg;

    (void)error;
    told->calls++;
    told->code = code;
    told->hold = hold;
}

static hf_client *open_url(const char *url)
{
    hf_client *client = NULL;

    CHECK_CODE(
        hf_open(&client, url, &HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = LEASE_MS)),
        HF_OK);
    give_back(take_patiently(client, "warm"));
    return client;
}

hf_client *open_at(const struct server *server, int timeout_ms)
{
    return open_url(server_url(server, timeout_ms));
}

hf_client *open_with(const struct server *server, const char *options)
{
    char url[160];

    snprintf(url, sizeof(url), "%s%s", server_url(server, 30000), options);
    return open_url(url);
}

void turn(hf_client *client)
{
    struct pollfd pollfd = { .fd = hf_fd(client), .events = POLLIN };

    poll(&pollfd, 1, 10);
    CHECK_CODE(hf_dispatch(client), HF_OK);
}

void turn_until_told(hf_client *client, const struct told *told, int count)
{
    int64_t until = monotonic_ms() + (int64_t)SOON_MS * test_slow();

    for (int i = 0; i < count; i++) {
        while (told[i].calls == 0) {
            CHECK(monotonic_ms() < until);
            turn(client);
        }
        CHECK_INT(told[i].calls, 1);
    }
}

void ask(hf_client *client, const char *name, int64_t wait_ms, struct told *told)
{
    CHECK_CODE(hf_lock_async(client, name, wait_ms, NULL, tell, told, NULL), HF_OK);
}

void ask_leased(hf_client *client, const char *name, int64_t lease_ms, struct told *told)
{
    CHECK_CODE(hf_lock_async(client, name, 0, LOCK_OPTIONS(.lease_ms = lease_ms), tell, told, NULL),
               HF_OK);
}

void run(const struct server *server, const char *command)
{
    char line[100];

    CHECK(server_tell(server, command, line, sizeof(line)));
}
