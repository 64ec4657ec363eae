/* SPDX-License-Identifier: Apache-2.0 */
/* The relay between clients and their store: what is let through, held up, lost and cut, over a
 * store that says again whatever it hears. */
#include "torture/driver.h"
#include "torture/nemesis/nemesis.h"

#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENT = 3, OTHER = 5, PATIENCE_MS = 20000 };

struct echo {
    int listener;
    _Atomic unsigned heard; /* bytes */
};

struct stage {
    struct torture_driver driver;
    struct torture_plan plan;
    struct torture_outcome outcome;
    struct echo *echo;
    struct child store;
    struct sockaddr_storage address;
    socklen_t length;
};

/* ---- the store ---- */

static void repeat_what_is_heard(void *arg)
{
    struct echo *echo = arg;
    struct pollfd polls[8] = { { echo->listener, POLLIN, 0 } };
    nfds_t count = 1;
    for (;;) {
        poll(polls, count, -1);
        if (polls[0].revents && count < 8)
            polls[count++] =
                (struct pollfd){ accept4(echo->listener, NULL, NULL, SOCK_CLOEXEC), POLLIN, 0 };
        for (nfds_t i = 1; i < count; i++) {
            char bytes[64];
            if (!(polls[i].revents & (POLLIN | POLLHUP)))
                continue;
            ssize_t got = recv(polls[i].fd, bytes, sizeof bytes, 0);
            if (got <= 0) {
                polls[i].fd = -1;
                polls[i].revents = 0;
                continue;
            }
            atomic_fetch_add(&echo->heard, (unsigned)got);
            CHECK_INT(send(polls[i].fd, bytes, (size_t)got, MSG_NOSIGNAL), got);
        }
    }
}

static void listen_by_path(struct stage *stage)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&stage->address;
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof address->sun_path, "%s", temp_path("store"));
    stage->length = sizeof *address;
}

static void listen_by_port(struct stage *stage)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&stage->address;
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    stage->length = sizeof *address;
}

/* ---- the client ---- */

static int connect_to(const struct sockaddr_storage *address, socklen_t length)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(fd, (const struct sockaddr *)address, length), 0);
    return fd;
}

static int connect_as(struct stage *stage, uint32_t client)
{
    torture_fault_proxy_through(&stage->driver.arena->relay, client, 0);
    return connect_to(&stage->address, stage->length);
}

static void say(int fd, const char *text)
{
    CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What comes until there is enough, or the connection ends. */
static size_t hear(int fd, char *bytes, size_t wanted)
{
    size_t length = 0;
    while (length < wanted) {
        struct pollfd poll_for = { fd, POLLIN, 0 };
        CHECK_INT(poll(&poll_for, 1, PATIENCE_MS * test_slow()), 1);
        ssize_t got = recv(fd, bytes + length, wanted - length, 0);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    bytes[length] = '\0';
    return length;
}

static void expect_echo(int fd, const char *text)
{
    char bytes[64];
    hear(fd, bytes, strlen(text));
    CHECK_STR(bytes, text);
}

static bool is_silent(int fd)
{
    struct pollfd poll_for = { fd, POLLIN, 0 };
    return poll(&poll_for, 1, 0) == 0;
}

static struct torture_seat *seat_of(struct stage *stage, uint32_t client)
{
    return &stage->driver.arena->seats[client];
}

static void begin_fault(struct stage *stage, enum torture_wire wire)
{
    atomic_store(&seat_of(stage, CLIENT)->wire_hits, 0);
    atomic_store(&seat_of(stage, CLIENT)->wire, wire);
}

static bool has_bitten(struct stage *stage)
{
    return atomic_load(&seat_of(stage, CLIENT)->wire_hits) > 0;
}

/* ---- both ---- */

static void begin(struct stage *stage, void (*choose_address)(struct stage *stage))
{
    TEST_TIMEOUT(200);
    TEST_ALLOW_FD_LEAKS();
    *stage = (struct stage){ .echo = shared_memory(sizeof *stage->echo) };
    choose_address(stage);
    int listener = socket(stage->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr *address = (struct sockaddr *)&stage->address;
    CHECK_INT(bind(listener, address, stage->length), 0);
    CHECK_INT(listen(listener, 8), 0);
    CHECK_INT(getsockname(listener, address, &stage->length), 0);
    stage->echo->listener = listener;
    child_start(&stage->store, repeat_what_is_heard, stage->echo);
    stage->plan.clients = OTHER + 1;
    stage->driver.plan = &stage->plan;
    stage->driver.outcome = &stage->outcome;
    stage->driver.arena = shared_memory(sizeof *stage->driver.arena);
    CHECK(torture_fault_proxy_start(&stage->driver));
}

static void end(struct stage *stage)
{
    torture_driver_end_relay(&stage->driver);
    child_kill(&stage->store);
}

static void try_hole(struct stage *stage, int fd, int other)
{
    begin_fault(stage, TORTURE_WIRE_BLACKHOLE);
    say(fd, "hole");
    EVENTUALLY(has_bitten(stage), PATIENCE_MS);
    say(other, "beside it");
    expect_echo(other, "beside it");
    CHECK(is_silent(fd));
    begin_fault(stage, TORTURE_WIRE_FINE);
    expect_echo(fd, "hole");
}

static void try_drip(struct stage *stage, int fd)
{
    begin_fault(stage, TORTURE_WIRE_TRICKLE);
    say(fd, "drop by drop");
    expect_echo(fd, "drop by drop");
    CHECK(has_bitten(stage));
}

/* What was asked arrives, its answer does not, and then the connection ends. */
static void try_mute_and_reset(struct stage *stage, int fd)
{
    unsigned heard = atomic_load(&stage->echo->heard);
    char bytes[64];
    begin_fault(stage, TORTURE_WIRE_DROP_REPLIES);
    say(fd, "m");
    EVENTUALLY(has_bitten(stage), PATIENCE_MS);
    CHECK_INT(atomic_load(&stage->echo->heard), heard + 1);
    begin_fault(stage, TORTURE_WIRE_RESET);
    CHECK_INT(hear(fd, bytes, 1), 0);
    EVENTUALLY(atomic_load(&seat_of(stage, CLIENT)->wire) == TORTURE_WIRE_FINE, PATIENCE_MS);
    CHECK(has_bitten(stage));
}

/* Whoever heals does not wait for the relay: what was to be cut is cut all the same. */
static void try_mute_and_heal_at_once(struct stage *stage)
{
    int fd = connect_as(stage, CLIENT);
    char bytes[64];
    begin_fault(stage, TORTURE_WIRE_DROP_REPLIES);
    say(fd, "m");
    EVENTUALLY(has_bitten(stage), PATIENCE_MS);
    begin_fault(stage, TORTURE_WIRE_RESET);
    torture_nemesis_heal(&stage->driver);
    CHECK_INT(hear(fd, bytes, 1), 0);
    close(fd);
    EVENTUALLY(atomic_load(&seat_of(stage, CLIENT)->wire) == TORTURE_WIRE_FINE, PATIENCE_MS);
}

static void try_all(struct stage *stage)
{
    int fd = connect_as(stage, CLIENT), other = connect_as(stage, OTHER);
    say(fd, "fine");
    expect_echo(fd, "fine");
    try_hole(stage, fd, other);
    try_drip(stage, fd);
    try_mute_and_reset(stage, fd);
    say(other, "still");
    expect_echo(other, "still");
    close(fd);
    try_mute_and_heal_at_once(stage);
    fd = connect_as(stage, CLIENT);
    say(fd, "again");
    expect_echo(fd, "again");
    close(fd);
    close(other);
}

TEST(connections_by_path_are_broken_as_asked)
{
    static struct stage stage;
    begin(&stage, listen_by_path);
    try_all(&stage);
    end(&stage);
}

TEST(connections_by_port_are_broken_as_asked)
{
    static struct stage stage;
    begin(&stage, listen_by_port);
    try_all(&stage);
    end(&stage);
}

/* ---- errors in the place of replies ---- */

static void begin_at(struct stage *stage, const char *url)
{
    begin(stage, listen_by_port);
    CHECK_INT(stage->driver.arena->relay.protocol, TORTURE_UNKNOWN_PROTOCOL);
    torture_driver_end_relay(&stage->driver);
    stage->plan.url = url;
    stage->driver.run = 0xabcdef;
    CHECK(torture_fault_proxy_start(&stage->driver));
}

TEST(request_about_a_lock_is_executed_and_answered_with_an_error)
{
    static const char request[] = "GET holdfast:torture:0000000000abcdef:desk\r\n";
    static struct stage stage;
    char bytes[64];
    begin_at(&stage, "redis://127.0.0.1:1");
    int fd = connect_as(&stage, CLIENT), other = connect_as(&stage, OTHER);
    begin_fault(&stage, TORTURE_WIRE_ERROR);
    say(fd, "PING\r\n");
    expect_echo(fd, "PING\r\n");
    CHECK(!has_bitten(&stage));
    unsigned heard = atomic_load(&stage.echo->heard);
    say(fd, request);
    hear(fd, bytes, sizeof bytes - 1);
    CHECK_STR(bytes, "-ERR upstream failure\r\n");
    CHECK_INT(atomic_load(&stage.echo->heard), heard + strlen(request));
    CHECK(has_bitten(&stage));
    CHECK_INT(atomic_load(&seat_of(&stage, CLIENT)->errors), 1);
    CHECK_INT(atomic_load(&seat_of(&stage, CLIENT)->wire), TORTURE_WIRE_FINE);
    CHECK_INT(atomic_load(&seat_of(&stage, OTHER)->errors), 0);
    close(fd);
    fd = connect_as(&stage, CLIENT);
    say(fd, "PING\r\n");
    expect_echo(fd, "PING\r\n");
    say(other, "PING\r\n");
    expect_echo(other, "PING\r\n");
    close(fd);
    close(other);
    end(&stage);
}

/* On HTTP/2, frames of other streams pass before it. */
TEST(error_on_http2_ends_the_stream_of_the_request)
{
    static const char request[] = "\0\0\4\x8\0\0\0\0\0\0\1\0\0"
                                  "\0\0\x19\0\1\0\0\0\7"
                                  "\0\0\0\0\x14\x0a\x12\x1a\x10"
                                  "0000000000abcdef";
    static const char look[] = "\0\0\x17\0\1\0\0\0\7"
                               "\0\0\0\0\x12\x0a\x10"
                               "0000000000abcdef";
    static const char watch[] = "\0\0\x10\0\0\0\0\0\7"
                                "0000000000abcdef";
    static const char reply[] = "\0\0\1\0\0\0\0\0\5x"
                                "\0\0\1\1\4\0\0\0\7x";
    const struct torture_fault_proxy relay = { .protocol = TORTURE_ETCD,
                                               .marker = "0000000000abcdef" };
    char bytes[256];
    uint32_t stream;
    CHECK(!torture_error_finds_request(&relay, watch, sizeof watch - 1, &stream));
    CHECK(!torture_error_finds_request(&relay, look, sizeof look - 1, &stream));
    CHECK(torture_error_finds_request(&relay, request, sizeof request - 1, &stream));
    CHECK_INT(stream, 7);
    size_t length = 10;
    memcpy(bytes, reply, sizeof reply);
    CHECK(!torture_error_replaces_reply(&relay, stream, 0, bytes, sizeof bytes, &length));
    length = sizeof reply - 1;
    CHECK(torture_error_replaces_reply(&relay, stream, 0, bytes, sizeof bytes, &length));
    CHECK(memcmp(bytes, reply, 10) == 0);
    CHECK_INT(bytes[13], 1);
    CHECK_INT(bytes[14], 5);
    CHECK_INT(bytes[18], 7);
    CHECK_INT(length, 10 + 9 + bytes[12]);
    CHECK(memmem(bytes, length, "grpc-status\00214", 14));
}

/* ---- a server that does not answer whoever connects ---- */

/* Nobody is let in, and one is waiting: the next ones do not even hear that they have to wait. */
static void open_full_door(struct sockaddr_storage *address)
{
    struct sockaddr_in *at = (struct sockaddr_in *)address;
    socklen_t length = sizeof *at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_INT(bind(listener, (struct sockaddr *)at, length), 0);
    CHECK_INT(listen(listener, 0), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)at, &length), 0);
    torture_fault_proxy_through(NULL, 0, 0);
    connect_to(address, length);
}

/* More than the relay has room for. */
enum { MANY = 300 };

static void expect_service(struct stage *stage)
{
    int fd = connect_as(stage, CLIENT);
    say(fd, "fine");
    expect_echo(fd, "fine");
    close(fd);
}

TEST(who_gives_up_before_he_is_connected_leaves_his_place)
{
    static struct stage stage;
    struct sockaddr_storage door = { .ss_family = AF_UNSPEC };
    begin(&stage, listen_by_port);
    open_full_door(&door);
    torture_fault_proxy_through(&stage.driver.arena->relay, CLIENT, 0);
    for (unsigned i = 0; i < MANY; i++)
        close(connect_to(&door, sizeof(struct sockaddr_in)));
    expect_service(&stage);
    end(&stage);
}

static bool has_lines(const struct torture_fault_proxy *relay)
{
    for (unsigned i = 0; i < TORTURE_LINES; i++)
        if (atomic_load(&relay->lines[i].state) != 0)
            return true;
    return false;
}

TEST(who_finds_no_place_leaves_no_line)
{
    static struct stage stage;
    struct sockaddr_storage door = { .ss_family = AF_UNSPEC };
    char bytes[64];
    int fds[MANY];
    begin(&stage, listen_by_port);
    open_full_door(&door);
    torture_fault_proxy_through(&stage.driver.arena->relay, CLIENT, 0);
    for (unsigned i = 0; i < MANY; i++)
        fds[i] = connect_to(&door, sizeof(struct sockaddr_in));
    CHECK_INT(hear(fds[MANY - 1], bytes, 1), 0);
    CHECK(!has_lines(&stage.driver.arena->relay));
    for (unsigned i = 0; i < MANY; i++)
        close(fds[i]);
    expect_service(&stage);
    end(&stage);
}
