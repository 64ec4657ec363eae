/* Starting a ZooKeeper server, and a wire that loses messages. */
#include "zookeeper_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define JAR "/usr/share/java/zookeeper.jar"
/* A virtual machine on a loaded machine takes its time. */
#define PATIENCE_MS 60000
#define STARTS 5

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

static int listen_somewhere(int *ret_port)
{
    struct sockaddr_in address = address_of(0);
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&address, size) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    CHECK(listen(fd, 16) == 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static int connect_to(int port)
{
    struct sockaddr_in address = address_of(port);
    struct timeval patience = { .tv_sec = 5 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void be_server(void *arg)
{
    struct zookeeper_server *server = arg;
    char config[240];

    snprintf(config, sizeof(config), "%s/zoo.cfg", server->directory);
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(127);
    execlp("java", "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
           "-Dzookeeper.forceSync=no", "-cp", JAR,
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
    _exit(127);
}

/* It answers "srvr" with its mode when it has read its data, and not before. */
static bool is_ready(const struct zookeeper_server *server)
{
    char answer[4096];
    ssize_t count, length = 0;
    int fd = connect_to(server->port);

    if (fd < 0)
        return false;
    if (write(fd, "srvr", 4) == 4)
        while (length < (ssize_t)sizeof(answer) - 1 &&
               (count = read(fd, answer + length, sizeof(answer) - 1 - (size_t)length)) > 0)
            length += count;
    close(fd);
    answer[length] = '\0';
    return strstr(answer, "Mode:") != NULL;
}

void zookeeper_start_again(struct zookeeper_server *server)
{
    child_start(&server->process, be_server, server);
    EVENTUALLY(is_ready(server), PATIENCE_MS);
}

static void configure(const struct zookeeper_server *server)
{
    char path[240];

    snprintf(path, sizeof(path), "%s/zoo.cfg", server->directory);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "tickTime=2000\nminSessionTimeout=400\ndataDir=%s/data\nclientPort=%d\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
            "4lw.commands.whitelist=srvr\n",
            server->directory, server->port);
    CHECK(fclose(file) == 0);
}

void zookeeper_start(struct zookeeper_server *server)
{
    if (access(JAR, R_OK) != 0 || system("command -v java >/dev/null 2>&1") != 0)
        SKIP("there is no ZooKeeper server: install Debian's package zookeeper");
    TEST_TIMEOUT(240);
    snprintf(server->directory, sizeof(server->directory), "%s", temp_dir());
    close(listen_somewhere(&server->port));
    configure(server);
    zookeeper_start_again(server);
}

void zookeeper_kill(struct zookeeper_server *server)
{
    child_kill(&server->process);
}

const char *zookeeper_url(int port)
{
    static _Thread_local char url[80];

    snprintf(url, sizeof(url), "zk://127.0.0.1:%d/chaos", port);
    return url;
}

/* ---- the wire ---- */

static bool pass_on(int from, int to, bool lose)
{
    char bytes[16384];
    ssize_t count = recv(from, bytes, sizeof(bytes), 0);

    if (count <= 0)
        return false;
    return lose || send(to, bytes, (size_t)count, MSG_NOSIGNAL) == count;
}

static void carry(struct wire *wire, int client, int server)
{
    bool open = true;

    while (open && !wire->ends && !wire->cut) {
        struct pollfd fds[] = { { .fd = client, .events = POLLIN },
                                { .fd = server, .events = POLLIN } };
        if (poll(fds, 2, 10) <= 0)
            continue;
        if (fds[0].revents)
            open = pass_on(client, server, false);
        if (open && fds[1].revents)
            open = pass_on(server, client, wire->mute);
    }
    wire->cut = 0;
}

static void be_wire(void *arg)
{
    struct wire *wire = arg;

    while (!wire->ends) {
        struct pollfd ready = { .fd = wire->listener, .events = POLLIN };
        if (poll(&ready, 1, 10) <= 0)
            continue;
        int client = accept(wire->listener, NULL, NULL);
        int server = connect_to(wire->to_port);
        wire->connections++;
        if (client >= 0 && server >= 0)
            carry(wire, client, server);
        if (client >= 0)
            close(client);
        if (server >= 0)
            close(server);
    }
}

void wire_start(struct wire *wire, int to_port)
{
    *wire = (struct wire){ .to_port = to_port };
    wire->listener = listen_somewhere(&wire->port);
    thread_start(&wire->thread, be_wire, wire);
}

void wire_end(struct wire *wire)
{
    wire->ends = 1;
    thread_join(&wire->thread);
    close(wire->listener);
}
