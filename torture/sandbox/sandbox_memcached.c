/* SPDX-License-Identifier: Apache-2.0 */
/* A memcached server of a sandbox. It keeps nothing: after a kill its locks are free. */
#include "torture/run.h"

#include <stdio.h>
#include <unistd.h>

static bool prepare(struct torture_sandbox *sandbox, struct torture_server *server)
{
    (void)sandbox;
    server->port = torture_sandbox_port();
    return server->port != 0;
}

/* Nothing is evicted (-M). The user matters only where the superuser starts it. */
static void become(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    char port[8];

    (void)sandbox;
    snprintf(port, sizeof port, "%u", server->port);
    execlp("memcached", "memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-M", "-u", "root",
           (char *)NULL);
}

static bool is_ready(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    return torture_sandbox_tell(torture_sandbox_connect(sandbox, server), "version\r\n", "VERSION");
}

static void lead(struct torture_sandbox *sandbox)
{
    snprintf(sandbox->url, sizeof sandbox->url, "memcached://127.0.0.1:%u",
             sandbox->servers[0].port);
}

const struct torture_server_kind torture_memcached_server = {
    .program = "memcached",
    .prepare = prepare,
    .become = become,
    .is_ready = is_ready,
    .lead = lead,
};
