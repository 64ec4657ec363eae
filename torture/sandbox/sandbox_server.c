/* SPDX-License-Identifier: Apache-2.0 */
/* A server as its clients see it: its address, and questions to it. */
#include "torture/sandbox/sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER = 8192, ANSWER_MS = 1000 };

const char *torture_sandbox_address(const struct torture_sandbox *sandbox,
                                    const struct torture_server *server)
{
    return sandbox->network ? torture_network_address((unsigned)(server - sandbox->servers))
                            : "127.0.0.1";
}

int torture_sandbox_connect(const struct torture_sandbox *sandbox,
                            const struct torture_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server->port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd poll_for = { fd, POLLOUT, 0 };

    inet_pton(AF_INET, torture_sandbox_address(sandbox, server), &address.sin_addr);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ||
        (errno == EINPROGRESS && poll(&poll_for, 1, ANSWER_MS) > 0 && poll_for.revents == POLLOUT))
        return fd;
    close(fd);
    return -1;
}

unsigned torture_sandbox_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &size) == 0;

    if (fd >= 0)
        close(fd);
    return fine ? ntohs(address.sin_port) : 0;
}

bool torture_sandbox_tell(int fd, const char *question, const char *wanted)
{
    char answer[ANSWER] = "";
    struct pollfd poll_for = { fd, POLLIN, 0 };
    size_t length = 0;
    bool found = false;

    if (fd < 0)
        return false;
    if (send(fd, question, strlen(question), MSG_NOSIGNAL) == (ssize_t)strlen(question))
        while (!found && length + 1 < sizeof answer && poll(&poll_for, 1, ANSWER_MS) > 0) {
            ssize_t count = recv(fd, answer + length, sizeof answer - length - 1, 0);
            if (count <= 0)
                break;
            length += (size_t)count;
            answer[length] = '\0';
            found = strstr(answer, wanted);
        }
    close(fd);
    return found;
}
