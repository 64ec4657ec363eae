/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a memcached server, and speaking to it without the library. */
#include "memcached_server.h"

#include "server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define FILL_AT_ONCE 200

static void be_server(void *arg)
{
    const struct memcached_server *server = arg;
    const char *all[24] = {
        "memcached", "-l", "127.0.0.1", "-U", "0", "-u", "root", "-t", "2", "-p"
    };
    int count = 10;
    char port[8];

    snprintf(port, sizeof(port), "%d", server->port);
    all[count++] = port;
    for (const char *const *more = server->arguments; more && *more && count < 23; more++)
        all[count++] = *more;
    execvp(all[0], (char *const *)(uintptr_t)all);
    _exit(127);
}

static int connect_to(const struct memcached_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server->port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct timeval limit = { .tv_sec = 10 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool hear_line(int fd, char *line, size_t size)
{
    size_t length = 0;

    while (length + 1 < size && recv(fd, line + length, 1, 0) == 1)
        if (line[length++] == '\n') {
            line[length - 2] = 0;
            return true;
        }
    return false;
}

bool memcached_tell(const struct memcached_server *server, const char *command, char *line,
                    size_t size)
{
    int fd = connect_to(server);
    bool heard = fd >= 0 && send(fd, command, strlen(command), MSG_NOSIGNAL) > 0 &&
                 send(fd, "\r\n", 2, MSG_NOSIGNAL) == 2 && hear_line(fd, line, size);

    if (fd >= 0)
        close(fd);
    return heard;
}

bool memcached_has(const struct memcached_server *server, const char *key)
{
    char command[300], line[100];

    snprintf(command, sizeof(command), "mg %s", key);
    CHECK(memcached_tell(server, command, line, sizeof(line)));
    return strcmp(line, "EN") != 0;
}

size_t memcached_size(const struct memcached_server *server, const char *key)
{
    char command[300], line[100];
    size_t size = 0;

    snprintf(command, sizeof(command), "mg %s s", key);
    CHECK(memcached_tell(server, command, line, sizeof(line)));
    CHECK(sscanf(line, "HD s%zu", &size) == 1);
    return size;
}

long long memcached_count(const struct memcached_server *server, const char *name)
{
    char all[16384], wanted[100];
    size_t length = 0;
    int fd = connect_to(server);

    CHECK(fd >= 0 && write(fd, "stats\r\n", 7) == 7);
    do {
        ssize_t got = read(fd, all + length, sizeof(all) - 1 - length);
        CHECK(got > 0);
        length += (size_t)got;
        all[length] = 0;
    } while (!strstr(all, "\r\nEND\r\n"));
    close(fd);
    snprintf(wanted, sizeof(wanted), "STAT %s ", name);
    char *at = strstr(all, wanted);
    CHECK(at);
    return strtoll(at + strlen(wanted), NULL, 10);
}

void memcached_fill(const struct memcached_server *server, size_t size, const char *key, int most)
{
    /* As large as an item of so many bytes whose key has 6. Each size has keys of its own: a full
     * server deletes an item that it cannot overwrite. */
    const size_t whole = size;
    size -= strlen("fill0000000000") - 6;
    char *packet = malloc((FILL_AT_ONCE + 1) * (size + 60)), line[100];
    char *value = malloc(size + 1);
    int fd = connect_to(server);

    CHECK(packet && value && fd >= 0);
    memset(value, 'x', size);
    value[size] = 0;
    bool there = true;
    for (int i = 0; i < most && there; i += FILL_AT_ONCE) {
        size_t length = 0, sent = 0;
        for (int k = i; k < i + FILL_AT_ONCE; k++)
            length += (size_t)snprintf(packet + length, size + 60,
                                       "set fill%03zu%07d 0 0 %zu noreply\r\n%s\r\n", whole, k,
                                       size, value);
        /* "u": a look is no use of the item. */
        length += (size_t)snprintf(packet + length, 60, "mg %s u\r\n", key);
        while (sent < length) {
            ssize_t part = send(fd, packet + sent, length - sent, MSG_NOSIGNAL);
            CHECK(part > 0);
            sent += (size_t)part;
        }
        do
            CHECK(hear_line(fd, line, sizeof(line)));
        while (strncmp(line, "HD", 2) != 0 && strcmp(line, "EN") != 0);
        /* "HD Z X": the holder has renewed it without memory. */
        there = strncmp(line, "HD", 2) == 0;
    }
    close(fd);
    free(value);
    free(packet);
}

void memcached_start_again(struct memcached_server *server)
{
    char line[100];

    child_start(&server->process, be_server, server);
    EVENTUALLY(memcached_tell(server, "version", line, sizeof(line)), PATIENCE_MS);
}

void memcached_start(struct memcached_server *server)
{
    if (system("command -v memcached >/dev/null 2>&1") != 0)
        SKIP("there is no memcached");
    server->port = free_port();
    memcached_start_again(server);
}

void memcached_kill(struct memcached_server *server)
{
    child_kill(&server->process);
}

void memcached_stop(struct memcached_server *server)
{
    child_stop(&server->process);
}

void memcached_continue(struct memcached_server *server)
{
    child_continue(&server->process);
}

bool memcached_stop_clock(struct memcached_server *server)
{
    int status;

    if (ptrace(PTRACE_SEIZE, server->process.pid, NULL, NULL) != 0)
        return false;
    CHECK_INT(ptrace(PTRACE_INTERRUPT, server->process.pid, NULL, NULL), 0);
    CHECK_INT(waitpid(server->process.pid, &status, __WALL), server->process.pid);
    return true;
}

void memcached_start_clock(struct memcached_server *server)
{
    CHECK_INT(ptrace(PTRACE_DETACH, server->process.pid, NULL, NULL), 0);
}

const char *memcached_url(int port, int timeout_ms)
{
    static _Thread_local char url[100];

    snprintf(url, sizeof(url), "memcached://127.0.0.1:%d?timeout=%d", port, timeout_ms);
    return url;
}
