/* SPDX-License-Identifier: Apache-2.0 */
/* Locks without the library: bare round trips, the packets that holdfast sends, and the commands of
 * other libraries, each on a connection of its own and in C, so that only the sequences differ. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    EXPTIME = LEASE_MS / 1000 + 3,
    REPLY_MAX = 1024,
    /* Symfony asks again after 90 to 110 ms, Laravel after 250 ms. */
    SYMFONY_US = 100000,
    LARAVEL_US = 250000
};

/* 44 characters, as Symfony's token. */
#define OWNER "0123456789abcdef0123456789abcdef0123456789ab"

struct connection {
    struct lock lock;
    int fd;
    unsigned long long cas;
    char reply[REPLY_MAX];
};

static struct lock *open_lock(const struct subject *subject, const char *name)
{
    struct connection *connection = allocate(sizeof *connection);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    connection->lock.subject = subject;
    snprintf(connection->lock.name, sizeof connection->lock.name, "%s", name);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", worker_socket);
    connection->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("no memcached at %s", worker_socket);
    return &connection->lock;
}

/* One packet; its reply ends with a line that begins with one of these words. */
static const char *ask(struct connection *connection, const char *packet, const char *const *ends)
{
    size_t length = 0;
    if (send(connection->fd, packet, strlen(packet), MSG_NOSIGNAL) < 0)
        die("memcached hears nothing");
    for (;;) {
        ssize_t part = recv(connection->fd, connection->reply + length, REPLY_MAX - 1 - length, 0);
        if (part <= 0)
            die("memcached has ended the connection, or its reply is too long");
        length += (size_t)part;
        connection->reply[length] = 0;
        if (connection->reply[length - 1] != '\n')
            continue;
        char *line = connection->reply + length - 1;
        while (line > connection->reply && line[-1] != '\n')
            line--;
        for (const char *const *end = ends; *end; end++)
            if (strncmp(line, *end, strlen(*end)) == 0)
                return connection->reply;
    }
}

/* ---- two commands that touch no item ---- */

static void ping(struct lock *lock)
{
    static const char *const ends[] = { "MN", NULL };
    ask((struct connection *)lock, "mn\r\n", ends);
}

/* ---- what holdfast sends ---- */

static void add_and_look(struct lock *lock)
{
    static const char *const ends[] = { OWNER, NULL };
    struct connection *connection = (struct connection *)lock;
    char packet[400];
    snprintf(packet, sizeof packet, "mg %%hf.clock t\r\nadd %s 0 %d %zu\r\n%s\r\nmg %s v c t\r\n",
             lock->name, EXPTIME, strlen(OWNER), OWNER, lock->name);
    const char *item = strstr(ask(connection, packet, ends), "VA ");
    const char *cas = item ? strstr(item, " c") : NULL;
    if (!cas)
        die("no item was stored");
    connection->cas = strtoull(cas + 2, NULL, 10);
}

static void delete_by_cas(struct lock *lock)
{
    static const char *const ends[] = { "NF", NULL };
    struct connection *connection = (struct connection *)lock;
    char packet[200];
    /* The second command is the courtesy's: no client waits here. */
    snprintf(packet, sizeof packet, "md %s C%llu\r\nmd %%hf.w.%016x\r\n", lock->name,
             connection->cas, 0);
    if (strncmp(ask(connection, packet, ends), "HD", 2) != 0)
        die("the item was lost");
}

/* ---- what other libraries send ---- */

static void add(struct lock *lock, unsigned between_us)
{
    static const char *const ends[] = { "STORED", "NOT_STORED", NULL };
    char packet[200];
    snprintf(packet, sizeof packet, "add %s 0 %d %zu\r\n%s\r\n", lock->name, EXPTIME, strlen(OWNER),
             OWNER);
    while (ask((struct connection *)lock, packet, ends)[0] != 'S')
        pause_us(between_us);
}

static unsigned long long get(struct lock *lock, const char *command)
{
    static const char *const ends[] = { "END", NULL };
    char packet[100];
    unsigned long long size, cas = 0;
    snprintf(packet, sizeof packet, "%s %s\r\n", command, lock->name);
    const char *value = ask((struct connection *)lock, packet, ends);
    if (sscanf(value, "VALUE %*s 0 %llu %llu", &size, &cas) < 1 || !strstr(value, OWNER))
        die("the item was lost");
    return cas;
}

static void delete_key(struct lock *lock)
{
    static const char *const ends[] = { "DELETED", "NOT_FOUND", NULL };
    char packet[100];
    snprintf(packet, sizeof packet, "delete %s\r\n", lock->name);
    ask((struct connection *)lock, packet, ends);
}

static void symfony_add(struct lock *lock)
{
    add(lock, SYMFONY_US);
}

/* The lock gets two more seconds, in which it is deleted. */
static void symfony_release(struct lock *lock)
{
    static const char *const ends[] = { "STORED", NULL };
    unsigned long long cas = get(lock, "gets");
    char packet[200];
    snprintf(packet, sizeof packet, "cas %s 0 2 %zu %llu\r\n%s\r\n", lock->name, strlen(OWNER), cas,
             OWNER);
    ask((struct connection *)lock, packet, ends);
    delete_key(lock);
}

static void laravel_add(struct lock *lock)
{
    add(lock, LARAVEL_US);
}

static void laravel_release(struct lock *lock)
{
    get(lock, "get");
    delete_key(lock);
}

const struct subject bare = { "bare", open_lock, ping, ping, false, false };
const struct subject packets = { "packets", open_lock, add_and_look, delete_by_cas, false, false };
const struct subject symfony = { "symfony", open_lock, symfony_add, symfony_release, false, false };
const struct subject laravel = { "laravel", open_lock, laravel_add, laravel_release, false, false };
