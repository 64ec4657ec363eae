/* SPDX-License-Identifier: Apache-2.0 */
/* ZooKeeper servers of a sandbox, by the package of the distribution. */
#include "torture/run.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define JAR "/usr/share/java/zookeeper.jar"

/* Sessions end within a tick of their time. The leader notices within five that the others are
 * gone, and they, that it is: on a busy machine, not too soon. */
enum { TICK_MS = 100, ENSEMBLE_TICK_MS = 200, SYNC_TICKS = 5, START_TICKS = 100 };
enum { PORT = 2181, PEER_PORT = 2888, ELECTION_PORT = 3888 };

static unsigned number_of(const struct torture_sandbox *sandbox,
                          const struct torture_server *server)
{
    return (unsigned)(server - sandbox->servers);
}

static bool write_own_number(const struct torture_sandbox *sandbox,
                             const struct torture_server *server)
{
    char path[120];
    FILE *file;

    snprintf(path, sizeof path, "%s/data", server->directory);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/data/myid", server->directory);
    file = fopen(path, "we");
    if (!file)
        return false;
    fprintf(file, "%u\n", number_of(sandbox, server) + 1);
    return fclose(file) == 0;
}

static void name_peers(const struct torture_sandbox *sandbox, FILE *file)
{
    fprintf(file, "initLimit=%d\nsyncLimit=%d\n", START_TICKS, SYNC_TICKS);
    for (unsigned i = 0; i < sandbox->deployment->servers; i++)
        fprintf(file, "server.%u=%s:%u:%u\n", i + 1,
                torture_sandbox_address(sandbox, &sandbox->servers[i]),
                sandbox->servers[i].peer_ports[0], sandbox->servers[i].peer_ports[1]);
}

static bool configure(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    bool alone = sandbox->deployment->servers == 1;
    int tick_ms = alone ? TICK_MS : ENSEMBLE_TICK_MS;
    char path[120];
    FILE *file;

    snprintf(path, sizeof path, "%s/zoo.cfg", server->directory);
    file = fopen(path, "we");
    if (!file)
        return false;
    fprintf(file,
            "tickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=120000\ndataDir=%s/data\n"
            "clientPort=%u\nclientPortAddress=%s\nadmin.enableServer=false\n"
            "maxClientCnxns=0\n4lw.commands.whitelist=srvr\n",
            tick_ms, tick_ms, server->directory, server->port,
            torture_sandbox_address(sandbox, server));
    if (!alone)
        name_peers(sandbox, file);
    return fclose(file) == 0 && (alone || write_own_number(sandbox, server));
}

/* The URL names the ports, so they stay the same for as long as clients go by it. */
static bool prepare(struct torture_sandbox *sandbox, struct torture_server *server)
{
    unsigned *ports[] = { &server->port, &server->peer_ports[0], &server->peer_ports[1] };
    const unsigned usual[] = { PORT, PEER_PORT, ELECTION_PORT };
    bool fine = true;

    if (sandbox->url[0])
        return true;
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        *ports[i] = sandbox->network ? usual[i] : torture_sandbox_port();
        fine = fine && *ports[i] != 0;
    }
    return fine;
}

static void become(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    char path[120];

    if (!configure(sandbox, server))
        return;
    snprintf(path, sizeof path, "%s/zoo.cfg", server->directory);
    execlp("java", "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", JAR,
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", path, (char *)NULL);
}

/* It says its mode when it has read its data, and not before. */
static bool is_ready(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    return torture_sandbox_tell(torture_sandbox_connect(sandbox, server), "srvr", "Mode:");
}

static bool find_leader(const struct torture_sandbox *sandbox, unsigned *ret)
{
    for (unsigned i = 0; i < sandbox->deployment->servers; i++)
        if (torture_sandbox_tell(torture_sandbox_connect(sandbox, &sandbox->servers[i]), "srvr",
                                 "Mode: leader")) {
            *ret = i;
            return true;
        }
    return false;
}

static void lead(struct torture_sandbox *sandbox)
{
    size_t length = (size_t)snprintf(sandbox->url, sizeof sandbox->url, "zk://");

    for (unsigned i = 0; i < sandbox->deployment->servers; i++)
        length += (size_t)snprintf(
            sandbox->url + length, sizeof sandbox->url - length, "%s%s:%u", i ? "," : "",
            torture_sandbox_address(sandbox, &sandbox->servers[i]), sandbox->servers[i].port);
}

const struct torture_server_kind torture_zookeeper_server = {
    .program = "ZooKeeper (java, and Debian's package zookeeper)",
    .prepare = prepare,
    .become = become,
    .is_ready = is_ready,
    .lead = lead,
    .find_leader = find_leader,
};
