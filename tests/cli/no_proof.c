/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a holdfast, refuses the socket that proves what it holds, as a security module
 * may. */
/* GNU's bind takes a union, which no function of ours can be defined with. */
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define PROOF "holdfast-held:"

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)address;

    if (address->sa_family == AF_UNIX && length > sizeof(local->sun_family) + sizeof(PROOF) &&
        memcmp(local->sun_path + 1, PROOF, sizeof(PROOF) - 1) == 0) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_bind, fd, address, length);
}
