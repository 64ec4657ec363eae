/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a ZooKeeper server, and a wire that loses messages. */
#include "zookeeper_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define JAVA "/usr/share/java/"
#define JAR JAVA "zookeeper.jar"
/* What Debian's jar forgets to name, and TLS needs. */
#define JARS JAVA "netty-codec.jar:" JAVA "netty-resolver.jar:" JAR
/* A virtual machine on a loaded machine takes its time. */
#define PATIENCE_MS 60000
#define STARTS 5
#define PLAIN "tickTime=2000\nminSessionTimeout=400\n"
#define PORT_FIRST 16000
#define PORT_COUNT 16000

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
    struct timeval patience = { .tv_sec = test_slow() };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* None that the system gives away by itself: it has to be free until the server gets to listening.
 */
static int free_port(void)
{
    for (;;) {
        uint16_t salt;
        CHECK(getrandom(&salt, sizeof(salt), 0) == sizeof(salt));
        int port = PORT_FIRST + salt % PORT_COUNT;
        struct sockaddr_in address = address_of(port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        bool is_free = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(fd);
        if (is_free)
            return port;
    }
}

static void be_server(void *arg)
{
    struct zookeeper_server *server = arg;
    char config[240];

    snprintf(config, sizeof(config), "%s/zoo.cfg", server->directory);
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(127);
    execlp("java", "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
           "-Dzookeeper.forceSync=no", "-Dzookeeper.nio.numWorkerThreads=0",
           server->reaps ? "-Dznode.container.checkIntervalMs=100" : "-Dunused=", "-cp", JARS,
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
    _exit(127);
}

/* What it says of itself; NULL if nothing. */
static const char *ask(const struct zookeeper_server *server)
{
    static _Thread_local char answer[4096];
    ssize_t count, length = 0;
    int fd = connect_to(server->port);

    if (fd < 0)
        return NULL;
    if (write(fd, "srvr", 4) == 4)
        while (length < (ssize_t)sizeof(answer) - 1 &&
               (count = read(fd, answer + length, sizeof(answer) - 1 - (size_t)length)) > 0)
            length += count;
    close(fd);
    answer[length] = '\0';
    return answer;
}

static bool says(const struct zookeeper_server *server, const char *words)
{
    const char *answer = ask(server);

    return answer && strstr(answer, words) != NULL;
}

static long number_after(const struct zookeeper_server *server, const char *words)
{
    const char *answer = ask(server), *at = answer ? strstr(answer, words) : NULL;

    return at ? strtol(at + strlen(words), NULL, 10) : -1;
}

int zookeeper_nodes(const struct zookeeper_server *server)
{
    return (int)number_after(server, "Node count: ");
}

long zookeeper_heard(const struct zookeeper_server *server)
{
    return number_after(server, "Received: ");
}

int zookeeper_connections(const struct zookeeper_server *server)
{
    long all = number_after(server, "Connections: ");

    return all < 0 ? -1 : (int)all - 1;
}

bool zookeeper_leads(const struct zookeeper_server *server)
{
    return says(server, "Mode: leader");
}

static bool is_named(const char *path, const char *name)
{
    char line[32] = "";
    FILE *file = fopen(path, "re");
    bool is = file && fgets(line, sizeof(line), file) && strncmp(line, name, strlen(name)) == 0;

    if (file)
        fclose(file);
    return is;
}

void zookeeper_lag(const struct zookeeper_server *leader)
{
    char path[300];
    int found = 0;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)leader->process.pid);
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks));) {
        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)leader->process.pid,
                 task->d_name);
        if (!is_named(path, "LearnerHandler"))
            continue;
        CHECK(setpriority(PRIO_PROCESS, (id_t)strtoul(task->d_name, NULL, 10), PRIO_MAX - 1) == 0);
        found++;
    }
    closedir(tasks);
    CHECK_INT(found, ENSEMBLE - 1);
}

bool zookeeper_is_read_only(const struct zookeeper_server *server)
{
    return says(server, "Mode: read-only");
}

static bool has_ended(const struct zookeeper_server *server)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)server->process.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

/* It says its mode when it has read its data, and not before. */
static bool becomes_ready(const struct zookeeper_server *server)
{
    bool ready = false;

    EVENTUALLY((ready = says(server, "Mode:")) || has_ended(server), PATIENCE_MS);
    return ready;
}

static void copy_into(FILE *to, const char *path)
{
    char bytes[4096];
    FILE *from = fopen(path, "r");

    CHECK(from != NULL);
    size_t count = fread(bytes, 1, sizeof(bytes), from);
    CHECK(count > 0 && fwrite(bytes, 1, count, to) == count);
    fclose(from);
}

/* The key, the certificate and its authority in one file, as the server wants them. */
static void secure(struct zookeeper_server *server)
{
    char store[240];

    snprintf(store, sizeof(store), "%s/shown.pem", server->directory);
    FILE *file = fopen(store, "w");
    CHECK(file != NULL);
    copy_into(file, temp_path("%s.key", server->shows));
    copy_into(file, temp_path("%s.crt", server->shows));
    CHECK(fclose(file) == 0);
    server->secure_port = free_port();
    snprintf(server->more, sizeof(server->more),
             PLAIN "secureClientPort=%d\nsecureClientPortAddress=127.0.0.1\n"
                   "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
                   "ssl.keyStore.location=%s\nssl.keyStore.type=PEM\n"
                   "ssl.trustStore.location=%s\nssl.trustStore.type=PEM\nssl.clientAuth=%s\n",
             server->secure_port, store, temp_path("ours.crt"), server->wants ? "need" : "none");
}

static void configure(const struct zookeeper_server *server)
{
    char path[240];

    snprintf(path, sizeof(path), "%s/zoo.cfg", server->directory);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file,
            "dataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n%s",
            server->directory, server->port, *server->more ? server->more : PLAIN);
    CHECK(fclose(file) == 0);
}

static void need_servers(void)
{
    if (access(JAR, R_OK) != 0 || system("command -v java >/dev/null 2>&1") != 0)
        SKIP("there is no ZooKeeper server: install Debian's packages libzookeeper-java and "
             "default-jre-headless");
    TEST_TIMEOUT(400);
}

void zookeeper_start_again(struct zookeeper_server *server)
{
    child_start(&server->process, be_server, server);
    CHECK(becomes_ready(server));
}

void zookeeper_start_empty(struct zookeeper_server *server)
{
    char data[240], aside[240];

    snprintf(data, sizeof(data), "%s/data", server->directory);
    snprintf(aside, sizeof(aside), "%s/aside", server->directory);
    CHECK(rename(data, aside) == 0);
    zookeeper_start_again(server);
}

/* Somebody may take its port before it does. */
void zookeeper_start(struct zookeeper_server *server)
{
    bool ready = false;

    need_servers();
    snprintf(server->directory, sizeof(server->directory), "%s", temp_dir());
    for (int i = 0; i < STARTS && !ready; i++) {
        server->port = free_port();
        if (server->shows)
            secure(server);
        configure(server);
        child_start(&server->process, be_server, server);
        ready = becomes_ready(server);
        if (!ready)
            child_kill(&server->process);
    }
    CHECK(ready);
}

/* ---- three that are one ---- */

static void name_member(struct zookeeper_server *server, int number, int start)
{
    char path[300];

    snprintf(server->directory, sizeof(server->directory), "%.150s/%d-%d", temp_dir(), number,
             start);
    CHECK(mkdir(server->directory, 0700) == 0);
    snprintf(path, sizeof(path), "%s/data", server->directory);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof(path), "%s/data/myid", server->directory);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "%d\n", number);
    CHECK(fclose(file) == 0);
    server->port = free_port();
}

static bool starts(struct zookeeper_server servers[ENSEMBLE], int tick_ms, int start)
{
    char members[300] = "";
    bool ready = true;

    for (int i = 0; i < ENSEMBLE; i++) {
        size_t length = strlen(members);
        name_member(&servers[i], i + 1, start);
        snprintf(members + length, sizeof(members) - length, "server.%d=127.0.0.1:%d:%d\n", i + 1,
                 free_port(), free_port());
    }
    for (int i = 0; i < ENSEMBLE; i++) {
        snprintf(servers[i].more, sizeof(servers[i].more),
                 "tickTime=%d\nmaxSessionTimeout=%d\ninitLimit=%d\nsyncLimit=%d\n%s", tick_ms,
                 1000 * tick_ms, 120000 / tick_ms, 60000 / tick_ms, members);
        configure(&servers[i]);
        child_start(&servers[i].process, be_server, &servers[i]);
    }
    for (int i = 0; i < ENSEMBLE; i++)
        ready = ready && becomes_ready(&servers[i]);
    return ready;
}

void zookeeper_start_ensemble(struct zookeeper_server servers[ENSEMBLE], int tick_ms)
{
    bool ready = false;

    need_servers();
    for (int i = 0; i < STARTS && !ready; i++) {
        ready = starts(servers, tick_ms, i);
        for (int j = 0; j < ENSEMBLE && !ready; j++)
            child_kill(&servers[j].process);
    }
    CHECK(ready);
}

const char *zookeeper_ensemble_url(const struct zookeeper_server servers[ENSEMBLE])
{
    static _Thread_local char url[160];

    snprintf(url, sizeof(url), "zk://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/chaos", servers[0].port,
             servers[1].port, servers[2].port);
    return url;
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
        int client = accept4(wire->listener, NULL, NULL, SOCK_CLOEXEC);
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

void wire_mend(struct wire *wire)
{
    int before = wire->connections;

    wire->cut = 1;
    EVENTUALLY(wire->cut == 0, PATIENCE_MS);
    wire->mute = 0;
    EVENTUALLY(wire->connections > before, PATIENCE_MS);
}

void wire_end(struct wire *wire)
{
    wire->ends = 1;
    thread_join(&wire->thread);
    close(wire->listener);
}
