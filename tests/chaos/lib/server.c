/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a Redis server, and speaking to it without the library. */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define STARTS 5

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

/* Below those that the kernel gives to whoever connects, so that it stays free while the server is
 * down for a moment. The socket is bound to it, and does not listen yet. */
static int bind_somewhere(int *port)
{
    for (;;) {
        unsigned salt;
        CHECK(getrandom(&salt, sizeof(salt), 0) == sizeof(salt));
        *port = 10000 + (int)(salt % 20000);
        struct sockaddr_in address = address_of(*port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        close(fd);
    }
}

int free_port(void)
{
    int port;

    close(bind_somewhere(&port));
    return port;
}

int listen_somewhere(int *port)
{
    int fd = bind_somewhere(port);

    CHECK(listen(fd, 64) == 0);
    return fd;
}

static bool is_installed(void)
{
    return system("command -v redis-server >/dev/null 2>&1") == 0;
}

static void be_server(void *arg)
{
    struct server *server = arg;
    const char *all[40] = { "redis-server",    "--bind", "127.0.0.1",    "--save", "",
                            "--appendonly",    "no",     "--maxclients", "1000",   "--dir",
                            server->directory, "--port" };
    int count = 12;
    char port[8], log[240];

    snprintf(port, sizeof(port), "%d", server->port);
    snprintf(log, sizeof(log), "%s/log-%d", server->directory, server->port);
    all[count++] = port;
    all[count++] = "--logfile";
    all[count++] = log;
    if (server->password) {
        all[count++] = "--requirepass";
        all[count++] = server->password;
    }
    for (const char *const *more = server->arguments; more && *more && count < 39; more++)
        all[count++] = *more;
    execvp(all[0], (char *const *)(uintptr_t)all);
    _exit(127);
}

void server_start_again(struct server *server)
{
    char line[40];

    child_start(&server->process, be_server, server);
    /* While it loads what it knew it says so. */
    EVENTUALLY(server_tell(server, "PING", line, sizeof(line)) && line[0] == '+', PATIENCE_MS);
}

/* Who is quicker may have the port, and answer there. */
static bool answers_itself(const struct server *server)
{
    char line[40] = "", own[40];

    snprintf(own, sizeof(own), ":%d", (int)server->process.pid);
    return server_tell(server,
                       "EVAL \"return tonumber(string.match(redis.call('info', 'server'), "
                       "'process_id:(%d+)'))\" 0",
                       line, sizeof(line)) &&
           strcmp(line, own) == 0;
}

static bool has_ended(const struct server *server)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)server->process.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == server->process.pid;
}

/* False: it has ended, as it does when somebody else has its port. */
static bool comes_up(struct server *server)
{
    bool up = false;

    child_start(&server->process, be_server, server);
    EVENTUALLY((up = answers_itself(server)) || has_ended(server), PATIENCE_MS);
    if (!up)
        child_wait(&server->process);
    return up;
}

void server_start(struct server *server)
{
    bool up = false;

    if (!is_installed())
        SKIP("there is no redis-server");
    snprintf(server->directory, sizeof(server->directory), "%s", temp_dir());
    for (int i = 0; i < STARTS && !up; i++) {
        server->port = free_port();
        if (server->bus)
            snprintf(server->bus, SERVER_BUS_SIZE, "%d", free_port());
        up = comes_up(server);
    }
    CHECK(up);
}

static void be_sentinel(void *arg)
{
    execlp("redis-server", "redis-server", (const char *)arg, "--sentinel", (char *)NULL);
    _exit(127);
}

void server_start_sentinel(struct server *sentinel, const char *lines)
{
    char *path = strdup(temp_path("sentinel.conf"));
    FILE *file;

    if (!is_installed())
        SKIP("there is no redis-server");
    file = path ? fopen(path, "w") : NULL;
    CHECK(file != NULL);
    sentinel->port = free_port();
    fprintf(file, "port %d\nbind 127.0.0.1\ndir %s\nlogfile %s\n%s", sentinel->port, temp_dir(),
            temp_path("sentinel.log"), lines);
    CHECK(fclose(file) == 0);
    child_start(&sentinel->process, be_sentinel, path);
    free(path);
    EVENTUALLY(server_tell(sentinel, "PING", NULL, 0), PATIENCE_MS);
}

void server_kill(struct server *server)
{
    child_kill(&server->process);
    server->stopped = false;
}

void server_stop(struct server *server)
{
    child_stop(&server->process);
    server->stopped = true;
}

void server_continue(struct server *server)
{
    child_continue(&server->process);
    server->stopped = false;
}

const char *server_url(const struct server *server, int timeout_ms)
{
    static _Thread_local char url[120];

    snprintf(url, sizeof(url), "redis://127.0.0.1:%d?timeout=%d", server->port,
             timeout_ms * test_slow());
    return url;
}

const char *quorum_url(const struct server *servers, int timeout_ms)
{
    static _Thread_local char url[200];

    _Static_assert(QUORUM_SERVERS == 3, "as many as are named here");
    snprintf(url, sizeof(url),
             "quorum:redis://127.0.0.1:%d,redis://127.0.0.1:%d,redis://127.0.0.1:%d?timeout=%d",
             servers[0].port, servers[1].port, servers[2].port, timeout_ms * test_slow());
    return url;
}

static int connect_to(const struct server *server)
{
    struct sockaddr_in address = address_of(server->port);
    struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool read_line(int fd, char *line, size_t size)
{
    size_t length = 0;
    char byte;
    ssize_t count;

    /* A read with a time limit is not taken up again after the machine has stood still. */
    while ((count = read(fd, &byte, 1)) == 1 || (count < 0 && errno == EINTR)) {
        if (count == 1 && byte == '\n')
            return true;
        if (count == 1 && byte != '\r' && length + 1 < size) {
            line[length++] = byte;
            line[length] = '\0';
        }
    }
    return false;
}

bool server_tell(const struct server *server, const char *command, char *line, size_t size)
{
    char all[800], first[200] = "";
    int fd = connect_to(server);

    if (fd < 0)
        return false;
    int length = server->password
                     ? snprintf(all, sizeof(all), "AUTH %s\r\n%s\r\n", server->password, command)
                     : snprintf(all, sizeof(all), "%s\r\n", command);
    bool answered = write(fd, all, (size_t)length) == length &&
                    (!server->password || read_line(fd, first, sizeof(first))) &&
                    read_line(fd, first, sizeof(first));
    close(fd);
    if (line)
        snprintf(line, size, "%s", first);
    return answered;
}

bool server_ask(const struct server *server, const char *command, char *text, size_t size)
{
    char line[40];
    size_t length = 0, whole = 0;
    int fd = connect_to(server);

    if (fd < 0)
        return false;
    bool answered = dprintf(fd, "%s\r\n", command) > 0 && read_line(fd, line, sizeof(line)) &&
                    line[0] == '$' && (whole = strtoul(line + 1, NULL, 10)) < size;
    while (answered && length < whole) {
        ssize_t got = read(fd, text + length, whole - length);
        answered = got > 0;
        length += answered ? (size_t)got : 0;
    }
    text[length] = '\0';
    close(fd);
    return answered;
}

long server_counts(const struct server *server, const char *section, const char *what)
{
    char command[60], text[8192] = "";

    snprintf(command, sizeof(command), "INFO %s", section);
    CHECK(server_ask(server, command, text, sizeof(text)));
    const char *found = strstr(text, what);
    return found ? strtol(found + strlen(what), NULL, 10) : 0;
}

bool server_says(const struct server *server, const char *command, const char *line)
{
    char got[200] = "";

    return server_tell(server, command, got, sizeof(got)) && strcmp(got, line) == 0;
}

bool server_has_in(const struct server *server, int database, const char *key)
{
    char command[300];

    snprintf(command, sizeof(command),
             "EVAL \"redis.call('select', %d) local there = redis.call('exists', '%s') "
             "redis.call('select', 0) return there - redis.call('exists', '%s')\" 0",
             database, key, key);
    return server_says(server, command, ":1");
}

bool server_awaits_replicas(const struct server *server)
{
    return server_says(server,
                       "EVAL \"return tonumber(string.match(redis.call('info', 'clients'), "
                       "'blocked_clients:(%d+)'))\" 0",
                       ":1");
}

bool server_hear(int fd, char *line, size_t size)
{
    line[0] = '\0';
    return read_line(fd, line, size);
}

static int listen_by(const struct server *server, const char *word, const char *channel)
{
    struct timeval for_ever = { 0 };
    char line[200];
    int fd = connect_to(server);

    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever)) == 0);
    int length = snprintf(line, sizeof(line), "%s %s\r\n", word, channel);
    CHECK(write(fd, line, (size_t)length) == length);
    while (strcmp(line, ":1") != 0)
        CHECK(server_hear(fd, line, sizeof(line)));
    return fd;
}

int server_listen(const struct server *server, const char *channel)
{
    return listen_by(server, "SUBSCRIBE", channel);
}

int server_listen_sharded(const struct server *server, const char *channel)
{
    return listen_by(server, "SSUBSCRIBE", channel);
}
