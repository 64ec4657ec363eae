/* SPDX-License-Identifier: Apache-2.0 */
/* See resolver.h. */
#include "resolver.h"

#include "server.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS 4

typedef int getaddrinfo_fn(const char *node, const char *service, const struct addrinfo *hints,
                           struct addrinfo **ret);
typedef void freeaddrinfo_fn(struct addrinfo *list);

/* Tells the answers made here from others. */
static char made_here[] = "store.test";
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ports[PORTS], port_count, begun, ended;
static bool blocked;

void resolver_set(int count, const int *wanted)
{
    CHECK(count <= PORTS);
    memcpy(ports, wanted, (size_t)count * sizeof *ports);
    port_count = count;
}

static void set_blocked(bool to)
{
    pthread_mutex_lock(&mutex);
    blocked = to;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

void resolver_block(void)
{
    set_blocked(true);
}

void resolver_release(void)
{
    set_blocked(false);
}

static int read_count(const int *count)
{
    pthread_mutex_lock(&mutex);
    int value = *count;
    pthread_mutex_unlock(&mutex);
    return value;
}

int resolver_begun(void)
{
    return read_count(&begun);
}

int resolver_ended(void)
{
    return read_count(&ended);
}

static struct addrinfo *make_address(int port, struct addrinfo *next)
{
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } *made = calloc(1, sizeof *made);
    CHECK(made != NULL);
    made->address.sin_family = AF_INET;
    made->address.sin_port = htons((uint16_t)port);
    made->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made->info = (struct addrinfo){ .ai_family = AF_INET,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_addrlen = sizeof made->address,
                                    .ai_addr = (struct sockaddr *)&made->address,
                                    .ai_canonname = made_here,
                                    .ai_next = next };
    return &made->info;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    if (!node || strcmp(node, made_here) != 0) {
        getaddrinfo_fn *real = (getaddrinfo_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
        return real(node, service, hints, ret);
    }
    pthread_mutex_lock(&mutex);
    begun++;
    while (blocked)
        pthread_cond_wait(&changed, &mutex);
    ended++;
    pthread_mutex_unlock(&mutex);
    *ret = NULL;
    for (int i = port_count; i > 0; i--)
        *ret = make_address(ports[i - 1], *ret);
    return 0;
}

/* Each C library has answers of its own form, which it alone can free. */
void freeaddrinfo(struct addrinfo *list)
{
    if (!list || list->ai_canonname != made_here) {
        freeaddrinfo_fn *real = (freeaddrinfo_fn *)(uintptr_t)dlsym(RTLD_NEXT, "freeaddrinfo");
        real(list);
        return;
    }
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

/* ---- ports that do not answer ---- */

static bool connects(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    CHECK(fd >= 0);
    connect(fd, (struct sockaddr *)&address, sizeof address);
    struct pollfd pollfd = { .fd = fd, .events = POLLOUT };
    /* It stays open: what waits to be accepted keeps the queue full. */
    return poll(&pollfd, 1, 1000) == 1;
}

int silent_port(void)
{
    int port, fd = listen_somewhere(&port);
    CHECK(listen(fd, 0) == 0);
    for (int i = 0; connects(port); i++)
        CHECK(i < 10);
    return port;
}

int mute_port(void)
{
    int port;
    listen_somewhere(&port);
    return port;
}
