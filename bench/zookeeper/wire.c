/* SPDX-License-Identifier: Apache-2.0 */
/* The blocking client: what the protocol itself costs, without anything that a lock needs around
 * it. */
#include "wire.h"
#include "measure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SESSION_MS = 30000,
    PASSWORD_SIZE = 16,
    ALL_RIGHTS = 31,
    PATIENCE_S = 60,
    FRAME_MAX = 1 << 24
};

/* ---- writing ---- */

static void put(struct wire *wire, const void *bytes, size_t length)
{
    if (sizeof wire->out - wire->out_length < length)
        die("too much is asked at once");
    memcpy(wire->out + wire->out_length, bytes, length);
    wire->out_length += length;
}

static void put_int(struct wire *wire, int32_t value)
{
    uint32_t bytes = htonl((uint32_t)value);
    put(wire, &bytes, sizeof bytes);
}

static void put_text(struct wire *wire, const char *text)
{
    put_int(wire, (int32_t)strlen(text));
    put(wire, text, strlen(text));
}

static void begin_frame(struct wire *wire)
{
    wire->frame_at = wire->out_length;
    put_int(wire, 0);
}

static void end_frame(struct wire *wire)
{
    uint32_t length = htonl((uint32_t)(wire->out_length - wire->frame_at - 4));
    memcpy(wire->out + wire->frame_at, &length, sizeof length);
}

static void begin(struct wire *wire, int operation)
{
    begin_frame(wire);
    put_int(wire, ++wire->last_xid);
    put_int(wire, operation);
}

void wire_flush(struct wire *wire)
{
    for (size_t sent = 0; sent < wire->out_length;) {
        ssize_t now = write(wire->stream, wire->out + sent, wire->out_length - sent);
        if (now <= 0)
            die("the server takes nothing");
        sent += (size_t)now;
    }
    wire->out_length = 0;
}

void wire_create(struct wire *wire, int operation, const char *path, const char *data, int flags)
{
    begin(wire, operation);
    put_text(wire, path);
    put_text(wire, data);
    put_int(wire, 1);
    put_int(wire, ALL_RIGHTS);
    put_text(wire, "world");
    put_text(wire, "anyone");
    put_int(wire, flags);
    end_frame(wire);
}

void wire_delete(struct wire *wire, const char *path)
{
    begin(wire, WIRE_DELETE);
    put_text(wire, path);
    put_int(wire, -1);
    end_frame(wire);
}

static void ask_of_path(struct wire *wire, int operation, const char *path, char watch)
{
    begin(wire, operation);
    put_text(wire, path);
    put(wire, &watch, 1);
    end_frame(wire);
}

void wire_list(struct wire *wire, const char *path)
{
    ask_of_path(wire, WIRE_LIST, path, 0);
}

void wire_watch(struct wire *wire, const char *path)
{
    ask_of_path(wire, WIRE_GET_DATA, path, 1);
}

/* ---- reading ---- */

static int32_t get_int(const unsigned char *at)
{
    uint32_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return (int32_t)ntohl(bytes);
}

/* So many bytes are there, at in + in_at. */
static void need(struct wire *wire, size_t count)
{
    if (wire->in_at > 0 && wire->in_at == wire->in_length)
        wire->in_at = wire->in_length = 0;
    if (wire->in_at + count > wire->in_room) {
        wire->in_length -= wire->in_at;
        memmove(wire->in, wire->in + wire->in_at, wire->in_length);
        wire->in_at = 0;
        wire->in_room = count > wire->in_room ? 2 * count : wire->in_room;
        wire->in = realloc(wire->in, wire->in_room);
        if (!wire->in)
            die("out of memory");
    }
    while (wire->in_length - wire->in_at < count) {
        ssize_t now =
            read(wire->stream, wire->in + wire->in_length, wire->in_room - wire->in_length);
        if (now <= 0)
            die("the server says nothing more");
        wire->in_length += (size_t)now;
    }
}

static const unsigned char *next_frame(struct wire *wire, size_t *length)
{
    need(wire, 4);
    *length = (size_t)get_int(wire->in + wire->in_at);
    if (*length > FRAME_MAX)
        die("this is no server of ZooKeeper's");
    need(wire, 4 + *length);
    const unsigned char *frame = wire->in + wire->in_at + 4;
    wire->in_at += 4 + *length;
    return frame;
}

struct wire_answer wire_next(struct wire *wire)
{
    size_t length;
    const unsigned char *frame = next_frame(wire, &length);
    if (length < 16)
        die("an answer is too short");
    return (struct wire_answer){ .xid = get_int(frame),
                                 .error = get_int(frame + 12),
                                 .body = frame + 16,
                                 .length = length - 16 };
}

struct wire_answer wire_good(struct wire *wire)
{
    struct wire_answer answer = wire_next(wire);
    if (answer.xid < 0 || answer.error != 0)
        die("the server answers with error %d", (int)answer.error);
    return answer;
}

void wire_text(const struct wire_answer *answer, char *text, size_t size)
{
    size_t length = answer->length < 4 ? 0 : (size_t)get_int(answer->body);
    if (length > answer->length - 4 || length >= size)
        die("an answer cannot be read");
    memcpy(text, answer->body + 4, length);
    text[length] = 0;
}

/* ---- opening ---- */

static int connect_to(const char *address)
{
    const struct timeval patience = { .tv_sec = PATIENCE_S };
    struct sockaddr_in to = { .sin_family = AF_INET };
    char host[128];
    int one = 1, stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(host, sizeof host, "%s", address);
    char *colon = strrchr(host, ':');
    if (stream < 0 || !colon)
        die("no port: %s", address);
    *colon = 0;
    to.sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10));
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
        die("no address: %s", host);
    setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(stream, (struct sockaddr *)&to, sizeof to) != 0)
        die("cannot connect to %s", address);
    return stream;
}

struct wire *wire_open(const char *address)
{
    static const unsigned char nothing[PASSWORD_SIZE];
    struct wire *wire = allocate(sizeof *wire);
    size_t length;
    wire->in_room = 1 << 16;
    wire->in = allocate(wire->in_room);
    wire->stream = connect_to(address);
    begin_frame(wire);
    put_int(wire, 0);
    put(wire, nothing, 8);
    put_int(wire, SESSION_MS);
    put(wire, nothing, 8);
    put_int(wire, PASSWORD_SIZE);
    put(wire, nothing, PASSWORD_SIZE);
    put(wire, nothing, 1);
    end_frame(wire);
    wire_flush(wire);
    next_frame(wire, &length);
    return wire;
}
