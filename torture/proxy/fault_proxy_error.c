/* SPDX-License-Identifier: Apache-2.0 */
/* Errors in the place of replies, in the store's own protocol, as a proxy between both gives them
 * when it loses its store: they leave open whether the request was executed. */
#include "torture/proxy/fault_proxy.h"

#include <string.h>

/* HTTP/2: a frame's head, the types and flags that matter, and what a client sends first. */
enum { HEAD = 9, DATA = 0, HEADERS = 1, END_STREAM = 1, END_HEADERS = 4, PREFACE = 24 };

struct scheme {
    const char *prefix;
    enum torture_protocol protocol;
};

enum torture_protocol torture_protocol_of(const char *url)
{
    static const struct scheme schemes[] = {
        { "redis", TORTURE_REDIS },   { "quorum", TORTURE_REDIS },
        { "etcd", TORTURE_ETCD },     { "mysql", TORTURE_MYSQL },
        { "mariadb", TORTURE_MYSQL }, { "postgres", TORTURE_POSTGRES },
        { "zk", TORTURE_ZOOKEEPER },  { "memcached", TORTURE_MEMCACHED },
    };

    for (size_t i = 0; url && i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(url, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return schemes[i].protocol;
    return TORTURE_UNKNOWN_PROTOCOL;
}

/* ---- HTTP/2 ---- */

struct frame {
    size_t length; /* with its head */
    unsigned type, flags;
    uint32_t stream;
};

/* False: not even its head is there. */
static bool read_frame(const char *bytes, size_t length, struct frame *ret)
{
    const unsigned char *head = (const unsigned char *)bytes;

    if (length < HEAD)
        return false;
    ret->length = HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
    ret->type = head[3];
    ret->flags = head[4];
    ret->stream = (uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
                  (uint32_t)head[7] << 8 | head[8];
    return true;
}

/* A message of gRPC: a transaction, not a look. Its first field is a comparison, which begins with
 * a field, or what follows from comparisons; that of a look is a key. */
static bool is_transaction(const char *message, size_t length)
{
    enum { COMPARE = 0x0a, SUCCESS = 0x12, PREFIX = 5, MORE = 0x80 };
    size_t at = PREFIX + 1;

    if (length <= PREFIX + 4)
        return false;
    while (at + 1 < length && message[at] & MORE)
        at++;
    return message[PREFIX] == SUCCESS ||
           (message[PREFIX] == COMPARE && (unsigned char)message[at + 1] < ' ');
}

/* The last frame of a call that asks once: a watch goes on. */
static bool finds_call(const char *bytes, size_t length, const char *found, uint32_t *ret)
{
    struct frame frame;
    size_t at = length > PREFACE && memcmp(bytes, "PRI", 3) == 0 ? PREFACE : 0;

    for (; read_frame(bytes + at, length - at, &frame); at += frame.length) {
        if (frame.length > length - at)
            return false;
        if (found < bytes + at || found >= bytes + at + frame.length)
            continue;
        *ret = frame.stream;
        return frame.type == DATA && frame.flags & END_STREAM &&
               is_transaction(bytes + at + HEAD, frame.length - HEAD);
    }
    return false;
}

/* Where the stream's first frame is; `length`: there is none. */
static size_t find_stream(const char *bytes, size_t length, uint32_t stream)
{
    struct frame frame;

    for (size_t at = 0; read_frame(bytes + at, length - at, &frame); at += frame.length) {
        if (frame.stream == stream && frame.type <= HEADERS)
            return at;
        if (frame.length > length - at)
            break;
    }
    return length;
}

/* Status 14, with no field that the receiver would have to remember. */
static size_t write_unavailable(char *bytes, uint32_t stream)
{
    static const char fields[] = "\x88"
                                 "\x0f\x10\x10"
                                 "application/grpc"
                                 "\x00\x0bgrpc-status\x02"
                                 "14"
                                 "\x00\x0cgrpc-message\x10"
                                 "upstream failure";
    size_t length = sizeof fields - 1;
    const unsigned char head[HEAD] = { 0,
                                       0,
                                       (unsigned char)length,
                                       HEADERS,
                                       END_STREAM | END_HEADERS,
                                       (unsigned char)(stream >> 24),
                                       (unsigned char)(stream >> 16),
                                       (unsigned char)(stream >> 8),
                                       (unsigned char)stream };

    memcpy(bytes, head, HEAD);
    memcpy(bytes + HEAD, fields, length);
    return HEAD + length;
}

/* ---- ZooKeeper ---- */

static uint32_t number_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* A request that makes, deletes or sets a node: its length, its number, its kind. */
static bool finds_change(const char *bytes, size_t length, const char *found, uint32_t *ret)
{
    enum { PRELUDE = 12, KIND = 11 };
    static const char kinds[] = { 1, 2, 5, 14, 15 };
    const unsigned char *head = (const unsigned char *)bytes;

    while (length >= PRELUDE) {
        size_t size = 4 + ((size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3]);
        if (size > length || size < PRELUDE)
            return false;
        *ret = number_at(head + 4);
        if (found >= (const char *)head && found < (const char *)head + size)
            return memchr(kinds, head[KIND], sizeof kinds) != NULL;
        head += size;
        length -= size;
    }
    return false;
}

/* The reply to the request of that number becomes an error, -4 (connection loss) or -7 (operation
 * timeout), as ClickHouse Keeper sends them: its length, the number, the transaction, the error. */
static bool write_server_error(char *bytes, uint32_t number, unsigned variant, size_t *length)
{
    enum { REPLY = 20, LENGTH = 16 };
    const unsigned char *head = (const unsigned char *)bytes;
    size_t size;

    for (size_t at = 0; at + REPLY <= *length; at += size) {
        size = 4 + (size_t)number_at(head + at);
        if (number_at(head + at + 4) != number)
            continue;
        memcpy(bytes + at, "\0\0\0\x10", 4);
        memcpy(bytes + at + LENGTH, variant % 2 ? "\xff\xff\xff\xf9" : "\xff\xff\xff\xfc", 4);
        *length = at + REPLY;
        return true;
    }
    return false;
}

/* ---- all protocols ---- */

bool torture_error_finds_request(const struct torture_fault_proxy *relay, const char *bytes,
                                 size_t length, uint32_t *ret)
{
    const char *found = memmem(bytes, length, relay->marker, strlen(relay->marker));

    *ret = 0;
    if (found && relay->protocol == TORTURE_ZOOKEEPER)
        return finds_change(bytes, length, found, ret);
    return found && (relay->protocol != TORTURE_ETCD || finds_call(bytes, length, found, ret));
}

bool torture_error_replaces_reply(const struct torture_fault_proxy *relay, uint32_t stream,
                                  unsigned variant, char *bytes, size_t size, size_t *length)
{
    static const char redis[] = "-ERR upstream failure\r\n";
    static const char memcached[] = "SERVER_ERROR upstream failure\r\n";
    /* Length, the packet's number, an error, 2013 or 9001, SQLSTATE, text. */
    static const char mysql[][30] = { "\x19\0\0\1\xff\xdd\x07#HY000upstream failure",
                                      "\x19\0\0\1\xff\x29\x23#HY000upstream failure" };
    /* Length, then fields: a letter and a text each. */
    static const char fatal[] = "E\0\0\0\x2cSFATAL\0VFATAL\0C08P01\0Mupstream failure\0\0";
    /* With the end of the reply (ReadyForQuery), as some poolers send it. */
    static const char plain[] = "E\0\0\0\x2cSERROR\0VERROR\0C08P01\0Mupstream failure\0\0"
                                "Z\0\0\0\5I";
    size_t at = 0;

    switch (relay->protocol) {
    case TORTURE_ETCD:
        at = find_stream(bytes, *length, stream);
        if (at == *length || at + 128 > size)
            return false;
        *length = at + write_unavailable(bytes + at, stream);
        return true;
    case TORTURE_REDIS:
        if (bytes[0] == '>') /* a message that nothing has asked for */
            return false;
        *length = sizeof redis - 1;
        memcpy(bytes, redis, *length);
        return true;
    case TORTURE_MEMCACHED:
        *length = sizeof memcached - 1;
        memcpy(bytes, memcached, *length);
        return true;
    case TORTURE_MYSQL:
        *length = sizeof mysql[0] - 1;
        memcpy(bytes, mysql[variant % 2], *length);
        return true;
    case TORTURE_POSTGRES:
        *length = (variant % 2 ? sizeof fatal : sizeof plain) - 1;
        memcpy(bytes, variant % 2 ? fatal : plain, *length);
        return true;
    case TORTURE_ZOOKEEPER:
        return write_server_error(bytes, stream, variant, length);
    case TORTURE_UNKNOWN_PROTOCOL:
        break;
    }
    *length = 0;
    return true;
}
