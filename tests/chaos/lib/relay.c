/* SPDX-License-Identifier: Apache-2.0 */
/* One thread moves bytes both ways until it is told otherwise. */
#include "relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20000

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

static void close_pair(int pair[2])
{
    for (int side = 0; side < 2; side++) {
        if (pair[side] >= 0)
            close(pair[side]);
        pair[side] = -1;
    }
}

static void take_in(struct relay *relay)
{
    struct sockaddr_in address = address_of(relay->server_port);
    int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int pair[2] = { client, server }, one = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    bool works = client >= 0 && connect(server, (struct sockaddr *)&address, sizeof(address)) == 0;
    for (int i = 0; works && i < RELAY_PAIRS; i++)
        if (relay->pairs[i][0] < 0) {
            relay->pairs[i][0] = client;
            relay->pairs[i][1] = server;
            relay->stepped += relay->step;
            relay->rooms[i] = relay->step ? relay->stepped : 0;
            relay->spared[i] = relay->liable != NULL;
            relay->muted[i] = false;
            return;
        }
    close_pair(pair);
}

static bool send_all(int fd, const char *bytes, ssize_t length, bool singly)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, singly ? 1 : (size_t)length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= sent;
    }
    return true;
}

/* How much of so many bytes of answers goes through. */
static ssize_t make_room(struct relay *relay, int number, ssize_t length)
{
    long room = relay->rooms[number];
    if (room == 0 || length < room) {
        relay->rooms[number] -= room == 0 ? 0 : length;
        return length;
    }
    relay->held[number] = true;
    return room;
}

/* What the server has sent is the client's, or what is sent in its place. Returns its length. */
static ssize_t lie(struct relay *relay, int number, char *bytes, size_t size, ssize_t length)
{
    if (length <= 0 || relay->lies == 0 || relay->spared[number])
        return length;
    CHECK(relay->lie_length <= size);
    memcpy(bytes, relay->lie, relay->lie_length);
    relay->lies--;
    return (ssize_t)relay->lie_length;
}

/* From the client to the server (side 0), or back. */
static void move(struct relay *relay, int number, int side)
{
    int *pair = relay->pairs[number];
    char bytes[65536];
    ssize_t length = recv(pair[side], bytes, sizeof(bytes), 0);
    if (side == 0 && length > 0)
        relay->asked += length;
    if (side == 0 && length > 0)
        relay->spared[number] = relay->liable && (length <= RELAY_KIND_AT ||
                                                  !strchr(relay->liable, bytes[RELAY_KIND_AT]));
    if (side == 1 && relay->delay_ms)
        let_pass_ms(relay->delay_ms);
    if (side == 1)
        length = lie(relay, number, bytes, sizeof(bytes), length);
    if (side == 1 && length > 0)
        length = make_room(relay, number, length);
    bool swallowed = side == 1 && (relay->swallowing || relay->muted[number]);
    long left = side == 1 ? relay->left : 0;
    bool last = left > 0 && length >= left;
    if (last)
        length = left;
    /* Before it is heard: then the test may set another limit. */
    if (left > 0 && length > 0)
        relay->left = left - length;
    if (length <= 0 ||
        (!swallowed && !send_all(pair[!side], bytes, length, side == 1 && relay->dripping)) || last)
        close_pair(pair);
}

static void cut(struct relay *relay)
{
    for (int i = 0; i < RELAY_PAIRS; i++) {
        close_pair(relay->pairs[i]);
        relay->held[i] = false;
    }
    relay->swallowing = false;
    relay->cutting = false;
}

static void hold(struct relay *relay)
{
    for (int i = 0; i < RELAY_PAIRS; i++)
        relay->held[i] = relay->pairs[i][0] >= 0;
    relay->holding = false;
}

static void mute(struct relay *relay)
{
    for (int i = 0; i < RELAY_PAIRS; i++)
        relay->muted[i] = relay->pairs[i][0] >= 0;
    relay->muting = false;
}

/* The server ends it when it has read all. */
static void let_go(struct relay *relay)
{
    char bytes[65536];
    ssize_t length;
    for (int i = 0; i < RELAY_PAIRS; i++) {
        if (!relay->held[i])
            continue;
        while ((length = recv(relay->pairs[i][0], bytes, sizeof(bytes), 0)) > 0 &&
               send_all(relay->pairs[i][1], bytes, length, false))
            continue;
        shutdown(relay->pairs[i][1], SHUT_WR);
        while (recv(relay->pairs[i][1], bytes, sizeof(bytes), 0) > 0)
            continue;
        close_pair(relay->pairs[i]);
        relay->held[i] = false;
    }
    relay->letting_go = false;
}

static void obey(struct relay *relay)
{
    char byte;
    CHECK(read(relay->wake[0], &byte, 1) == 1);
    if (relay->cutting)
        cut(relay);
    if (relay->holding)
        hold(relay);
    if (relay->muting)
        mute(relay);
    if (relay->letting_go)
        let_go(relay);
}

static void *run(void *arg)
{
    struct relay *relay = arg;
    while (!relay->ending) {
        struct pollfd polled[2 + 2 * RELAY_PAIRS] = { { .fd = relay->listener, .events = POLLIN },
                                                      { .fd = relay->wake[0], .events = POLLIN } };
        for (int i = 0; i < 2 * RELAY_PAIRS; i++) {
            bool waits = relay->held[i / 2] || (relay->pausing && i % 2 == 1);
            polled[2 + i] =
                (struct pollfd){ .fd = waits ? -1 : relay->pairs[i / 2][i % 2], .events = POLLIN };
        }
        poll(polled, 2 + 2 * RELAY_PAIRS, -1);
        for (int i = 0; i < 2 * RELAY_PAIRS; i++)
            if (polled[2 + i].revents && relay->pairs[i / 2][i % 2] == polled[2 + i].fd)
                move(relay, i / 2, i % 2);
        if (polled[1].revents)
            obey(relay);
        if (polled[0].revents)
            take_in(relay);
    }
    return NULL;
}

static void wake(struct relay *relay)
{
    CHECK(write(relay->wake[1], "!", 1) == 1);
}

void relay_start(struct relay *relay, int server_port)
{
    struct sockaddr_in address = address_of(0);
    socklen_t size = sizeof(address);

    relay->server_port = server_port;
    for (int i = 0; i < RELAY_PAIRS; i++)
        relay->pairs[i][0] = relay->pairs[i][1] = -1;
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(relay->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(relay->listener, RELAY_PAIRS) == 0);
    CHECK(getsockname(relay->listener, (struct sockaddr *)&address, &size) == 0);
    relay->port = ntohs(address.sin_port);
    CHECK(pipe(relay->wake) == 0);
    CHECK(pthread_create(&relay->thread, NULL, run, relay) == 0);
}

void relay_swallow(struct relay *relay)
{
    relay->swallowing = true;
}

void relay_pass(struct relay *relay)
{
    relay->swallowing = false;
}

void relay_lie(struct relay *relay, const char *bytes, size_t length, int count)
{
    relay->lie = bytes;
    relay->lie_length = length;
    relay->lies = count;
}

void relay_pause(struct relay *relay)
{
    relay->pausing = true;
    wake(relay);
}

void relay_resume(struct relay *relay)
{
    relay->pausing = false;
    wake(relay);
}

void relay_cut_after(struct relay *relay, long bytes)
{
    relay->left = bytes;
}

void relay_stall_each(struct relay *relay, long step)
{
    relay->step = step;
}

void relay_cut(struct relay *relay)
{
    relay->cutting = true;
    wake(relay);
    EVENTUALLY(!relay->cutting, PATIENCE_MS);
}

void relay_hold(struct relay *relay)
{
    relay->holding = true;
    wake(relay);
    EVENTUALLY(!relay->holding, PATIENCE_MS);
}

void relay_mute(struct relay *relay)
{
    relay->muting = true;
    wake(relay);
    EVENTUALLY(!relay->muting, PATIENCE_MS);
}

void relay_let_go(struct relay *relay)
{
    relay->letting_go = true;
    wake(relay);
    EVENTUALLY(!relay->letting_go, PATIENCE_MS);
}

void relay_stop(struct relay *relay)
{
    relay->ending = true;
    wake(relay);
    pthread_join(relay->thread, NULL);
    for (int i = 0; i < RELAY_PAIRS; i++)
        close_pair(relay->pairs[i]);
    close(relay->listener);
    close(relay->wake[0]);
    close(relay->wake[1]);
}
