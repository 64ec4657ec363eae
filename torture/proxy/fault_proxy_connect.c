/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that lead somewhere else, for one process, without any rights: connect() of the C
 * library, as this program and its shared libraries find it first. The library under torture and
 * its TLS know nothing of it. */
#include "torture/proxy/fault_proxy.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODYS, BEING_WRITTEN, TO_BE_TAKEN };

static struct torture_fault_proxy *relay;
static uint32_t client, side;
static _Atomic unsigned connections;

static int really_connect(int fd, const struct sockaddr *to, socklen_t length)
{
    return (int)syscall(SYS_connect, fd, to, length);
}

/* A port, or what the kernel calls a Unix socket that was bound to no name: 0 and five digits. */
uint64_t torture_end_name(const struct sockaddr_storage *address, socklen_t length)
{
    uint64_t name = 0;

    if (address->ss_family == AF_INET)
        return ((const struct sockaddr_in *)address)->sin_port;
    if (address->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)address)->sin6_port;
    if (address->ss_family == AF_UNIX && length > offsetof(struct sockaddr_un, sun_path) + 1)
        memcpy(&name, ((const struct sockaddr_un *)address)->sun_path + 1,
               length - offsetof(struct sockaddr_un, sun_path) - 1 < sizeof name
                   ? length - offsetof(struct sockaddr_un, sun_path) - 1
                   : sizeof name);
    return name;
}

static bool is_stream(int fd, sa_family_t family)
{
    socklen_t size = sizeof(int);
    int type = 0;

    return (family == AF_INET || family == AF_INET6 || family == AF_UNIX) &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* Before it connects, the client's end has a name of its own on this machine. */
static uint64_t name_our_end(int fd, sa_family_t family)
{
    struct sockaddr_storage end = { .ss_family = family };
    socklen_t length = sizeof(sa_family_t);

    if (family == AF_INET) {
        ((struct sockaddr_in *)&end)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        length = sizeof(struct sockaddr_in);
    } else if (family == AF_INET6) {
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &((struct sockaddr_in6 *)&end)->sin6_addr);
        length = sizeof(struct sockaddr_in6);
    }
    if (bind(fd, (struct sockaddr *)&end, length) != 0)
        return 0;
    length = sizeof end;
    if (getsockname(fd, (struct sockaddr *)&end, &length) != 0)
        return 0;
    return torture_end_name(&end, length);
}

static bool leave_a_line(uint64_t from, const struct sockaddr *to, socklen_t length)
{
    for (unsigned i = 0; i < TORTURE_LINES; i++) {
        struct torture_line *line = &relay->lines[i];
        uint32_t nobodys = NOBODYS;
        if (!atomic_compare_exchange_strong(&line->state, &nobodys, BEING_WRITTEN))
            continue;
        line->client = client;
        line->side = side;
        line->from = from;
        line->to_length = length;
        memcpy(&line->to, to, length);
        atomic_store(&line->state, TO_BE_TAKEN);
        return true;
    }
    return false;
}

static int connect_to_relay(int fd, sa_family_t family)
{
    const struct torture_door *door = &relay->doors[side];
    const struct sockaddr_in *tcp = (const struct sockaddr_in *)&door->tcp;
    struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = tcp->sin_port };

    if (family == AF_UNIX)
        return really_connect(fd, (const struct sockaddr *)&door->path, door->path_length);
    if (family == AF_INET)
        return really_connect(fd, (const struct sockaddr *)tcp, sizeof *tcp);
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    return really_connect(fd, (const struct sockaddr *)&mapped, sizeof mapped);
}

/* glibc declares it with a union of all kinds of addresses, other C libraries as POSIX does. */
#ifdef __GLIBC__
#define ADDRESS __CONST_SOCKADDR_ARG
#define PLAIN(address) ((address).__sockaddr__)
#else
#define ADDRESS const struct sockaddr *
#define PLAIN(address) (address)
#endif

int connect(int fd, ADDRESS address, socklen_t length)
{
    const struct sockaddr *to = PLAIN(address);
    uint64_t from;

    if (!is_stream(fd, to->sa_family) || length > sizeof(struct sockaddr_storage))
        return really_connect(fd, to, length);
    atomic_fetch_add(&connections, 1);
    from = relay ? name_our_end(fd, to->sa_family) : 0;
    if (!from || !leave_a_line(from, to, length))
        return really_connect(fd, to, length);
    return connect_to_relay(fd, to->sa_family);
}

void torture_fault_proxy_through(struct torture_fault_proxy *through, uint32_t number,
                                 uint32_t where)
{
    relay = through;
    client = number;
    side = where;
}

unsigned torture_connections(void)
{
    return atomic_load(&connections);
}
