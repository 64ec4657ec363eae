/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's doors, and the process behind them. */
#include "torture/proxy/fault_proxy.h"

#include "torture/driver.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int listen_at(struct sockaddr *address, socklen_t *length)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, address, *length) != 0 || listen(fd, TORTURE_LINES) != 0)
        return -1;
    *length = address->sa_family == AF_UNIX ? sizeof(struct sockaddr_un)
                                            : sizeof(struct sockaddr_storage);
    return getsockname(fd, address, length) == 0 ? fd : -1;
}

static bool open_door(struct torture_door *door, int listeners[2])
{
    struct sockaddr_in *tcp = (struct sockaddr_in *)&door->tcp;
    socklen_t length = sizeof *tcp;

    tcp->sin_family = AF_INET;
    tcp->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listeners[0] = listen_at((struct sockaddr *)tcp, &length);
    door->path.sun_family = AF_UNIX;
    door->path_length = sizeof door->path.sun_family; /* the kernel finds a name */
    listeners[1] = listen_at((struct sockaddr *)&door->path, &door->path_length);
    return listeners[0] >= 0 && listeners[1] >= 0;
}

static bool begin_listening(struct torture_fault_proxy *relay,
                            const struct torture_network *network, int listeners[TORTURE_LISTENERS])
{
    unsigned doors = network ? TORTURE_SIDES : 1;
    bool fine = true;

    for (unsigned i = 0; fine && i < doors; i++)
        fine = (!network || torture_network_take_side(network, i)) &&
               open_door(&relay->doors[i], &listeners[2 * i]);
    return (!network || torture_network_take_side(network, 0)) && fine;
}

bool torture_fault_proxy_start(struct torture_driver *driver)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
    const struct torture_sandbox *sandbox = driver->plan->sandbox;
    const struct torture_network *network = sandbox ? sandbox->network : NULL;
    pid_t self = getpid();
    int listeners[TORTURE_LISTENERS] = { -1, -1, -1, -1 };
    bool listens = begin_listening(&driver->arena->relay, network, listeners);

    driver->arena->relay.protocol = torture_protocol_of(driver->plan->url);
    snprintf(driver->arena->relay.marker, sizeof driver->arena->relay.marker, "%016llx",
             (unsigned long long)driver->run);

    if (listens)
        driver->relay = fork();
    if (driver->relay == 0 && listens) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
            signal(ignored[i], SIG_IGN);
        if (getppid() != self)
            _exit(1);
        torture_fault_proxy_live(driver->arena, network, listeners);
    }
    if (driver->relay <= 0)
        torture_driver_fail(driver, "no relay can be started for the connections: %s",
                            strerror(errno));
    for (unsigned i = 0; i < TORTURE_LISTENERS; i++)
        if (listeners[i] >= 0)
            close(listeners[i]);
    return driver->relay > 0;
}
