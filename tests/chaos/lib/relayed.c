/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and ending, and numbers that the server tells; see the header. */
#include "relayed.h"

#include <stdio.h>
#include <stdlib.h>

void begin_relayed(struct relayed *relayed)
{
    char url[100];

    server_start(&relayed->server);
    relay_start(&relayed->relay, relayed->server.port);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?timeout=20000", relayed->relay.port);
    CHECK_CODE(hf_open(&relayed->client, url, &HF_CLIENT_OPTIONS(.lease_ms = 30000)), HF_OK);
    CHECK_CODE(hf_semaphore_set(relayed->client, "sem", 5), HF_OK);
    CHECK_CODE(hf_counter_set(relayed->client, "count", 10), HF_OK);
}

void end_relayed(struct relayed *relayed)
{
    hf_close(relayed->client);
    relay_stop(&relayed->relay);
    server_kill(&relayed->server);
}

long value(const struct server *server, const char *expression)
{
    char command[400], line[60] = "";

    snprintf(command, sizeof(command), "EVAL \"return %s\" 0", expression);
    CHECK(server_tell(server, command, line, sizeof(line)));
    CHECK(line[0] == ':');
    return strtol(line + 1, NULL, 10);
}

long keys_like(const struct server *server, const char *pattern)
{
    char expression[200];

    snprintf(expression, sizeof(expression), "#redis.call('keys','%s')", pattern);
    return value(server, expression);
}
