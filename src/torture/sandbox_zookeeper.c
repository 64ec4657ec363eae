/* ZooKeeper servers of a sandbox, by the package of the distribution. */
#include "torture/run.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define JAR "/usr/share/java/zookeeper.jar"

/* Sessions end within a tick of their time. */
enum { TICK_MS = 100 };

static bool configure(const struct torture_server *server)
{
    char path[120];
    FILE *file;

    snprintf(path, sizeof path, "%s/zoo.cfg", server->directory);
    file = fopen(path, "we");
    if (!file)
        return false;
    fprintf(file,
            "tickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=120000\ndataDir=%s/data\n"
            "clientPort=%u\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "maxClientCnxns=0\n4lw.commands.whitelist=srvr\n",
            TICK_MS, TICK_MS, server->directory, server->port);
    return fclose(file) == 0;
}

/* The URL names the port, so it stays the same for as long as clients go by it. */
static bool prepare(struct torture_sandbox *sandbox, struct torture_server *server)
{
    if (!sandbox->url[0])
        server->port = torture_sandbox_port();
    return server->port != 0 && configure(server);
}

static void become(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    char path[120];

    (void)sandbox;
    snprintf(path, sizeof path, "%s/zoo.cfg", server->directory);
    execlp("java", "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", JAR,
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", path, (char *)NULL);
}

static int connect_to(const struct torture_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr = { htonl(INADDR_LOOPBACK) },
                                   .sin_port = htons((uint16_t)server->port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* It says its mode when it has read its data, and not before. */
static bool is_ready(const struct torture_sandbox *sandbox, const struct torture_server *server)
{
    (void)sandbox;
    return torture_sandbox_tell(connect_to(server), "srvr", "Mode:");
}

static void lead(struct torture_sandbox *sandbox)
{
    snprintf(sandbox->url, sizeof sandbox->url, "zk://127.0.0.1:%u",
             sandbox->servers[sandbox->primary].port);
}

const struct torture_server_kind torture_zookeeper_server = {
    .program = "ZooKeeper (java, and Debian's package zookeeper)",
    .prepare = prepare,
    .become = become,
    .is_ready = is_ready,
    .lead = lead,
};
