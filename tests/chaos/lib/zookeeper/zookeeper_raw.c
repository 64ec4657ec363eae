/* SPDX-License-Identifier: Apache-2.0 */
/* Speaking to a ZooKeeper server without the engine. */
#include "zookeeper_raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_MS 40000
#define SET_ACL 7 /* the engine has no use for it */

static void say(const struct zookeeper_raw *raw, struct zk_writer *writer)
{
    CHECK(!writer->failed);
    CHECK(send(raw->fd, writer->bytes, writer->length, MSG_NOSIGNAL) == (ssize_t)writer->length);
    hf__zk_writer_free(writer);
}

/* False: the server has ended the connection. */
static bool hear(struct zookeeper_raw *raw, struct zk_reader *frame)
{
    char bytes[512];

    while (hf__zk_frames_next(&raw->frames, frame) <= 0) {
        ssize_t count = recv(raw->fd, bytes, sizeof(bytes), 0);
        if (count <= 0)
            return false;
        CHECK(hf__zk_frames_add(&raw->frames, bytes, (size_t)count));
    }
    return true;
}

static struct zk_reply hear_reply(struct zookeeper_raw *raw)
{
    struct zk_reader frame;
    struct zk_reply reply = { 0 };

    CHECK(hear(raw, &frame) && hf__zk_read_reply(&frame, &reply));
    return reply;
}

static void connect_to(struct zookeeper_raw *raw, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };

    *raw = (struct zookeeper_raw){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    CHECK(raw->fd >= 0);
    CHECK(connect(raw->fd, (struct sockaddr *)&address, sizeof(address)) == 0);
}

void raw_begin(struct zookeeper_raw *raw, int port)
{
    struct zk_writer writer = { 0 };
    struct zk_reader frame;
    struct zk_welcome welcome;

    connect_to(raw, port);
    hf__zk_write_hello(&writer, &(struct zk_hello){ .timeout_ms = TIMEOUT_MS });
    say(raw, &writer);
    CHECK(hear(raw, &frame) && hf__zk_read_welcome(&frame, &welcome) && welcome.session != 0);
}

void raw_end(struct zookeeper_raw *raw)
{
    hf__zk_frames_free(&raw->frames);
    close(raw->fd);
}

static size_t begin_request(struct zk_writer *writer, int operation)
{
    size_t begun = hf__zk_frame_begin(writer);

    hf__zk_write_int(writer, 1);
    hf__zk_write_int(writer, operation);
    return begun;
}

static void write_rights(struct zk_writer *writer, int rights)
{
    hf__zk_write_int(writer, 1);
    hf__zk_write_int(writer, rights);
    hf__zk_write_text(writer, "world");
    hf__zk_write_text(writer, "anyone");
}

void raw_allow(struct zookeeper_raw *raw, const char *path, int rights)
{
    struct zk_writer writer = { 0 };
    size_t begun = begin_request(&writer, SET_ACL);

    hf__zk_write_text(&writer, path);
    write_rights(&writer, rights);
    hf__zk_write_int(&writer, -1);
    hf__zk_frame_end(&writer, begun);
    say(raw, &writer);
    CHECK_INT(hear_reply(raw).error, ZK_OK);
}

void raw_make(struct zookeeper_raw *raw, const char *path, int rights)
{
    struct zk_writer writer = { 0 };
    size_t begun = begin_request(&writer, ZK_CREATE);

    hf__zk_write_text(&writer, path);
    hf__zk_write_bytes(&writer, "", 0);
    write_rights(&writer, rights);
    hf__zk_write_int(&writer, ZK_PERSISTENT);
    hf__zk_frame_end(&writer, begun);
    say(raw, &writer);
    CHECK_INT(hear_reply(raw).error, ZK_OK);
}

static struct zk_reply ask_about(struct zookeeper_raw *raw, int operation, const char *path)
{
    struct zk_writer writer = { 0 };
    size_t begun = begin_request(&writer, operation);

    hf__zk_write_text(&writer, path);
    hf__zk_write_bool(&writer, false);
    hf__zk_frame_end(&writer, begun);
    say(raw, &writer);
    return hear_reply(raw);
}

static bool first_below(struct zookeeper_raw *raw, const char *path, char *child, size_t size)
{
    size_t length;
    struct zk_reply list = ask_about(raw, ZK_GET_CHILDREN, path);

    if (list.error != ZK_OK || hf__zk_read_count(&list.body) == 0)
        return false;
    const char *name = hf__zk_read_bytes(&list.body, &length);
    snprintf(child, size, "%s/%.*s", path, (int)length, name);
    return true;
}

int64_t raw_session_below(struct zookeeper_raw *raw, const char *path)
{
    char child[1200];
    struct zk_stat stat;

    if (!first_below(raw, path, child, sizeof(child)))
        return 0;
    struct zk_reply node = ask_about(raw, ZK_EXISTS, child);
    if (node.error != ZK_OK)
        return 0;
    hf__zk_read_stat(&node.body, &stat);
    return stat.owner;
}

bool raw_delete_below(struct zookeeper_raw *raw, const char *path)
{
    char child[1200];
    struct zk_writer writer = { 0 };

    if (!first_below(raw, path, child, sizeof child))
        return false;
    size_t begun = begin_request(&writer, ZK_DELETE);
    hf__zk_write_text(&writer, child);
    hf__zk_write_int(&writer, -1);
    hf__zk_frame_end(&writer, begun);
    say(raw, &writer);
    CHECK_INT(hear_reply(raw).error, ZK_OK);
    return true;
}

/* The server draws it from java.util.Random, which it begins with the session's number. */
static void password_of(int64_t session, char password[ZK_PASSWORD_SIZE])
{
    const uint64_t factor = UINT64_C(0x5DEECE66D), mask = (UINT64_C(1) << 48) - 1;
    uint64_t state = (((uint64_t)session ^ UINT64_C(0xB3415C00)) ^ factor) & mask;

    for (int i = 0; i < ZK_PASSWORD_SIZE; i += 4) {
        state = (state * factor + 0xB) & mask;
        uint32_t word = (uint32_t)(state >> 16);
        for (int byte = 0; byte < 4; byte++)
            password[i + byte] = (char)(word >> (8 * byte));
    }
}

/* Whoever has the session takes it back, maybe before the server has read that it ends. */
static bool has_ended(int port, const struct zk_hello *hello)
{
    struct zookeeper_raw raw;
    struct zk_writer writer = { 0 };
    struct zk_reader frame;
    struct zk_welcome welcome = { 0 };

    connect_to(&raw, port);
    hf__zk_write_hello(&writer, hello);
    size_t begun = begin_request(&writer, ZK_CLOSE);
    hf__zk_frame_end(&writer, begun);
    say(&raw, &writer);
    bool welcomed = hear(&raw, &frame) && hf__zk_read_welcome(&frame, &welcome);
    /* A password that is wrong looks like a session that is over. */
    bool ended = welcomed && (welcome.session == 0 || hear(&raw, &frame));
    raw_end(&raw);
    return ended;
}

void raw_end_session(int port, int64_t session)
{
    struct zk_hello hello = { .session = session, .timeout_ms = TIMEOUT_MS };

    password_of(session, hello.password);
    EVENTUALLY(has_ended(port, &hello), TIMEOUT_MS);
}
