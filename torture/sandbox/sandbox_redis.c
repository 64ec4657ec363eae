/* SPDX-License-Identifier: Apache-2.0 */
/* Redis servers of a sandbox. Clients reach the primary by a link to its socket; in a network of
 * their own, by an address that leads to it. */
#include "torture/run.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A replica that was stopped has first to notice that it goes on. */
enum { TRIES = 100, LOOK_AGAIN_MS = 100, PORT = 6379 };

static int connect_to(const struct torture_server *server)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool tell(const struct torture_server *server, const char *command, const char *wanted)
{
    return torture_sandbox_tell(connect_to(server), command, wanted);
}

/* Replication needs a port. */
static bool prepare(struct torture_sandbox *sandbox, struct torture_server *server)
{
    server->port = sandbox->network ? PORT : torture_sandbox_port();
    snprintf(server->socket, sizeof server->socket, "%s/socket", server->directory);
    return server->port != 0;
}

static void become(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    const struct torture_server *primary = &sandbox->servers[sandbox->primary];
    char port[8], primary_port[8];
    bool is_replica = server != primary;

    snprintf(port, sizeof port, "%u", server->port);
    snprintf(primary_port, sizeof primary_port, "%u", primary->port);
    execlp("redis-server", "redis-server", "--bind", sandbox->network ? "0.0.0.0" : "127.0.0.1",
           "--protected-mode", "no", "--port", port, "--unixsocket", server->socket, "--dir",
           server->directory, "--logfile", "log", "--save", "", "--appendonly",
           sandbox->deployment->durable ? "yes" : "no", "--appendfsync", "always",
           "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
           is_replica ? "--replicaof" : (char *)NULL, torture_sandbox_address(sandbox, primary),
           primary_port, (char *)NULL);
}

static bool is_ready(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    bool is_primary = server == &sandbox->servers[sandbox->primary];

    return tell(server, "INFO replication\r\n",
                is_primary ? "role:master" : "master_link_status:up");
}

static void lead_sides(struct torture_sandbox *sandbox)
{
    snprintf(sandbox->url, sizeof sandbox->url, "redis://" TORTURE_NETWORK_LEADER ":%d", PORT);
    for (unsigned side = 0; side < TORTURE_SIDES; side++)
        if (!torture_network_lead(sandbox->network, side, sandbox->primary))
            sandbox->url[0] = '\0';
}

static void lead(struct torture_sandbox *sandbox)
{
    char link[96], fresh[96];

    if (sandbox->network) {
        lead_sides(sandbox);
        return;
    }

    snprintf(link, sizeof link, "%s/primary", sandbox->directory);
    snprintf(fresh, sizeof fresh, "%s/next", sandbox->directory);
    snprintf(sandbox->url, sizeof sandbox->url, "redis+unix://%s", link);
    if (symlink(sandbox->servers[sandbox->primary].socket, fresh) != 0 || rename(fresh, link) != 0)
        sandbox->url[0] = '\0';
}

static bool promote(const struct torture_server *server)
{
    for (unsigned tries = 0; tries < TRIES; tries++) {
        if (tell(server, "REPLICAOF NO ONE\r\n", "+OK"))
            return true;
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    return false;
}

static bool cut_replicas(const struct torture_server *primary)
{
    return tell(primary, "CLIENT KILL TYPE replica\r\n", ":1");
}

const struct torture_server_kind torture_redis_server = {
    .program = "redis-server",
    .prepare = prepare,
    .become = become,
    .is_ready = is_ready,
    .lead = lead,
    .promote = promote,
    .cut_replicas = cut_replicas,
};
