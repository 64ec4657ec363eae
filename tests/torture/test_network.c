/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox: who reaches whom before it is cut, while it is, and afterwards. Servers
 * are processes that say their number to whoever connects. */
#include "torture/sandbox/sandbox_network.h"

#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Over a link that is cut no answer comes however long one waits: a short wait tells no less. */
enum { SERVERS = 3, PORT = 7000, PATIENCE_MS = 20000, SILENCE_MS = 700, NOBODY = -1 };

struct stage {
    struct torture_network *network;
    int listeners[SERVERS];
    struct child servers[SERVERS];
};

/* ---- servers ---- */

struct server {
    int listener;
    char number;
};

static void say_number(void *arg)
{
    const struct server *server = arg;
    for (;;) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        CHECK(fd >= 0);
        CHECK_INT(send(fd, &server->number, 1, MSG_NOSIGNAL), 1);
        close(fd);
    }
}

static int listen_there(const struct torture_network *network, unsigned number)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    CHECK(torture_network_be_server(network, number));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    CHECK_INT(listen(fd, 16), 0);
    return fd;
}

static void set_up(struct stage *stage)
{
    char why[256];
    stage->network = torture_network_new(SERVERS, why);
    if (!stage->network)
        SKIP("%s", why);
    for (unsigned i = 0; i < SERVERS; i++) {
        struct server server = { listen_there(stage->network, i), (char)i };
        stage->listeners[i] = server.listener;
        child_start(&stage->servers[i], say_number, &server);
    }
}

static void tear_down(struct stage *stage)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        child_kill(&stage->servers[i]);
        close(stage->listeners[i]);
    }
    torture_network_free(stage->network);
}

/* ---- who answers ---- */

static int ask(const char *address, int patience_ms)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd poll_for = { fd, POLLIN, 0 };
    char number = NOBODY;
    CHECK_INT(inet_pton(AF_INET, address, &to.sin_addr), 1);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    if (poll(&poll_for, 1, patience_ms) == 1)
        CHECK_INT(recv(fd, &number, 1, 0), 1);
    close(fd);
    return number;
}

static int ask_from_side(const struct stage *stage, unsigned side, unsigned server, bool cut)
{
    CHECK(torture_network_take_side(stage->network, side));
    return ask(torture_network_address(server), cut ? SILENCE_MS : PATIENCE_MS);
}

static int ask_from_server(const struct stage *stage, unsigned from, unsigned server, bool cut)
{
    CHECK(torture_network_be_server(stage->network, from));
    return ask(torture_network_address(server), cut ? SILENCE_MS : PATIENCE_MS);
}

static void everybody_reaches_everybody(const struct stage *stage)
{
    for (int server = 0; server < SERVERS; server++) {
        for (unsigned side = 0; side < TORTURE_SIDES; side++)
            CHECK_INT(ask_from_side(stage, side, (unsigned)server, false), server);
        for (unsigned other = 0; other < SERVERS; other++)
            CHECK_INT(ask_from_server(stage, other, (unsigned)server, false), server);
    }
}

/* ---- tests ---- */

TEST(a_cut_divides_it_into_two_and_healing_undoes_it)
{
    struct stage stage;
    set_up(&stage);
    everybody_reaches_everybody(&stage);
    CHECK(torture_network_cut(stage.network, 1));
    CHECK_INT(ask_from_side(&stage, 0, 1, false), 1);
    CHECK_INT(ask_from_side(&stage, 1, 0, false), 0);
    CHECK_INT(ask_from_server(&stage, 0, 2, false), 2);
    CHECK_INT(ask_from_side(&stage, 0, 0, true), NOBODY);
    CHECK_INT(ask_from_side(&stage, 1, 1, true), NOBODY);
    CHECK_INT(ask_from_server(&stage, 1, 2, true), NOBODY);
    CHECK_INT(ask_from_server(&stage, 2, 1, true), NOBODY);
    CHECK(torture_network_heal(stage.network));
    everybody_reaches_everybody(&stage);
    tear_down(&stage);
}

TEST(each_side_is_led_to_a_server_of_its_own)
{
    struct stage stage;
    set_up(&stage);
    CHECK(torture_network_lead(stage.network, 1, 2));
    CHECK(torture_network_take_side(stage.network, 0));
    CHECK_INT(ask(TORTURE_NETWORK_LEADER, PATIENCE_MS), 0);
    CHECK(torture_network_take_side(stage.network, 1));
    CHECK_INT(ask(TORTURE_NETWORK_LEADER, PATIENCE_MS), 2);
    CHECK(torture_network_lead(stage.network, 1, 0));
    CHECK_INT(ask(TORTURE_NETWORK_LEADER, PATIENCE_MS), 0);
    tear_down(&stage);
}
