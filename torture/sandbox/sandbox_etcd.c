/* SPDX-License-Identifier: Apache-2.0 */
/* etcd servers of a sandbox, by the package of the distribution. */
#include "torture/run.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* On a busy machine members must not elect a leader for each pause. */
enum { ELECTION_MS = 100, CLUSTER_ELECTION_MS = 500 };
enum { PORT = 2379, PEER_PORT = 2380 };
enum { REPLY_SIZE = 4096, REPLY_MS = 1000, ARGUMENT = 200, MEMBERS = 600 };

static unsigned number_of(const struct torture_sandbox *sandbox,
                          const struct torture_server *server)
{
    return (unsigned)(server - sandbox->servers);
}

/* The URL names the ports, so they stay the same for as long as clients go by it. */
static bool prepare(struct torture_sandbox *sandbox, struct torture_server *server)
{
    if (sandbox->url[0])
        return true;
    server->port = sandbox->network ? PORT : torture_sandbox_port();
    server->peer_ports[0] = sandbox->network ? PEER_PORT : torture_sandbox_port();
    return server->port != 0 && server->peer_ports[0] != 0;
}

static void write_members(const struct torture_sandbox *sandbox, char members[MEMBERS])
{
    size_t length = 0;
    for (unsigned i = 0; i < sandbox->deployment->servers && length < MEMBERS; i++)
        length +=
            (size_t)snprintf(members + length, MEMBERS - length, "%ss%u=http://%s:%u", i ? "," : "",
                             i, torture_sandbox_address(sandbox, &sandbox->servers[i]),
                             sandbox->servers[i].peer_ports[0]);
}

static void become(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    const char *address = torture_sandbox_address(sandbox, server);
    int election_ms = sandbox->deployment->servers == 1 ? ELECTION_MS : CLUSTER_ELECTION_MS;
    char name[20], data[ARGUMENT], log[ARGUMENT], here[ARGUMENT], peer[ARGUMENT];
    char members[MEMBERS], election[20], heartbeat[20];

    snprintf(name, sizeof name, "s%u", number_of(sandbox, server));
    snprintf(data, sizeof data, "%s/data", server->directory);
    snprintf(log, sizeof log, "%s/log", server->directory);
    snprintf(here, sizeof here, "http://%s:%u", address, server->port);
    snprintf(peer, sizeof peer, "http://%s:%u", address, server->peer_ports[0]);
    snprintf(election, sizeof election, "%d", election_ms);
    snprintf(heartbeat, sizeof heartbeat, "%d", election_ms / 10);
    write_members(sandbox, members);
    execlp("etcd", "etcd", "--name", name, "--data-dir", data, "--listen-client-urls", here,
           "--advertise-client-urls", here, "--listen-peer-urls", peer,
           "--initial-advertise-peer-urls", peer, "--initial-cluster", members,
           "--initial-cluster-state", "new", "--logger", "zap", "--log-outputs", log,
           "--election-timeout", election, "--heartbeat-interval", heartbeat, (char *)NULL);
}

static bool is_ready(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    return torture_sandbox_tell(torture_sandbox_connect(sandbox, server),
                                "GET /health HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n",
                                "\"true\"");
}

/* Two members of a JSON object that are texts of the same number. */
static bool are_equal(const char *json, const char *one, const char *other)
{
    unsigned long long first, second;
    const char *a = strstr(json, one), *b = strstr(json, other);
    return a && b && sscanf(a + strlen(one), "\":\"%llu\"", &first) == 1 &&
           sscanf(b + strlen(other), "\":\"%llu\"", &second) == 1 && first == second;
}

/* By the status that it gives on its HTTP gateway. */
static bool says_that_it_leads(int fd)
{
    static const char question[] = "POST /v3/maintenance/status HTTP/1.1\r\nHost: etcd\r\n"
                                   "Content-Length: 2\r\nConnection: close\r\n\r\n{}";
    char reply[REPLY_SIZE] = "";
    struct pollfd poll_for = { fd, POLLIN, 0 };
    size_t length = 0;

    if (fd < 0)
        return false;
    if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) == (ssize_t)(sizeof question - 1))
        while (length + 1 < sizeof reply && poll(&poll_for, 1, REPLY_MS) > 0) {
            ssize_t count = recv(fd, reply + length, sizeof reply - length - 1, 0);
            if (count <= 0)
                break;
            length += (size_t)count;
        }
    reply[length] = '\0';
    close(fd);
    return are_equal(reply, "member_id", "leader");
}

static bool find_leader(const struct torture_sandbox *sandbox, unsigned *ret)
{
    for (unsigned i = 0; i < sandbox->deployment->servers; i++)
        if (says_that_it_leads(torture_sandbox_connect(sandbox, &sandbox->servers[i]))) {
            *ret = i;
            return true;
        }
    return false;
}

static void lead(struct torture_sandbox *sandbox)
{
    size_t length = (size_t)snprintf(sandbox->url, sizeof sandbox->url, "etcd://");

    for (unsigned i = 0; i < sandbox->deployment->servers; i++)
        length += (size_t)snprintf(
            sandbox->url + length, sizeof sandbox->url - length, "%s%s:%u", i ? "," : "",
            torture_sandbox_address(sandbox, &sandbox->servers[i]), sandbox->servers[i].port);
}

const struct torture_server_kind torture_etcd_server = {
    .program = "etcd (Debian's package etcd-server)",
    .prepare = prepare,
    .become = become,
    .is_ready = is_ready,
    .lead = lead,
    .find_leader = find_leader,
};
