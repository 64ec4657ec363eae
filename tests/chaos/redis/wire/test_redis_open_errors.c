/* SPDX-License-Identifier: Apache-2.0 */
/* What a proxy such as Envoy or twemproxy answers when its own server has not replied: the server
 * may have executed the request all the same. */
#include "conformance.h"
#include "open_errors.h"
#include "server.h"

#include <stdio.h>

#define LEASE_MS 3000

static const char *const errors[][2] = {
    { "-upstream failure\r\n", "upstream failure" },
    { "-ERR Connection timed out\r\n", "Connection timed out" },
};
static const char *const formats[] = { "redisson", "simple" };
#define CASES (int)(sizeof(errors) / sizeof(errors[0]) * sizeof(formats) / sizeof(formats[0]))

static hf_client *open_format(int port, const char *format)
{
    char url[120];
    hf_client *client = NULL;

    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?timeout=20000&format=%s", port, format);
    CHECK_CODE(hf_open(&client, url, &HF_CLIENT_OPTIONS(.lease_ms = LEASE_MS)), HF_OK);
    return client;
}

static void meet_errors(void *arg, int index)
{
    struct server server = { 0 };
    struct relay relay = { 0 };
    const char *const *error = errors[index / 2], *format = formats[index % 2];

    (void)arg;
    server_start(&server);
    relay_start(&relay, server.port);
    struct open_errors scene = { .relay = &relay,
                                 .client = open_format(relay.port, format),
                                 .direct = open_format(server.port, format),
                                 .error = error[0],
                                 .length = strlen(error[0]),
                                 .word = error[1] };
    open_errors_are_missing_replies(&scene);
    open_error_of_a_renewal_is_no_loss(&scene, LEASE_MS);
    hf_close(scene.client);
    hf_close(scene.direct);
    relay_stop(&relay);
    server_kill(&server);
}

TEST(error_that_leaves_open_whether_it_was_executed_is_no_reply)
{
    processes_run(CASES, meet_errors, NULL);
}
