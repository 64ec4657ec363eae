/* SPDX-License-Identifier: Apache-2.0 */
/* ZooKeeper's messages as bytes: no sockets, no clock. A frame is a length and that many bytes; in
 * it numbers are big-endian, and texts and buffers carry their length. What is read is checked at
 * each step: after the first thing that cannot be, a reader is bad, and reads zeros. */
#ifndef HF_ENGINES_ZOOKEEPER_WIRE_CODEC_H
#define HF_ENGINES_ZOOKEEPER_WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What we take from a server: its own limit for what it takes from us is one MiB. */
#define ZK_FRAME_MAX (16u << 20)
#define ZK_PASSWORD_SIZE 16

enum zk_operation {
    ZK_CLOSE = -11,
    ZK_CREATE = 1,
    ZK_DELETE = 2,
    ZK_EXISTS = 3,
    ZK_GET_DATA = 4,
    ZK_SET_DATA = 5,
    ZK_GET_ACL = 6,
    ZK_GET_CHILDREN = 8,
    ZK_SYNC = 9,
    ZK_PING = 11,
    ZK_CREATE2 = 15,
    ZK_CREATE_CONTAINER = 19,
    ZK_AUTH = 100,
    ZK_SET_WATCHES = 101
};

/* Numbers of messages that answer no request of their own, or one without a place in line. */
enum zk_special { ZK_XID_EVENT = -1, ZK_XID_PING = -2, ZK_XID_AUTH = -4, ZK_XID_WATCHES = -8 };

enum zk_error {
    ZK_OK = 0,
    ZK_UNIMPLEMENTED = -6,
    ZK_BAD_ARGUMENTS = -8,
    ZK_API_ERROR =
        -100, /* what a request is refused for is below; the rest is the server's state */
    ZK_NO_NODE = -101,
    ZK_NO_AUTH = -102,
    ZK_BAD_VERSION = -103,
    ZK_EPHEMERAL_PARENT = -108,
    ZK_NODE_EXISTS = -110,
    ZK_NOT_EMPTY = -111,
    ZK_EXPIRED = -112,
    ZK_INVALID_ACL = -114,
    ZK_AUTH_FAILED = -115,
    ZK_MOVED = -118,
    ZK_LOCAL_SESSION = -120,
    ZK_USER_REQUIRED = -124,
    ZK_QUOTA_EXCEEDED = -125,
    ZK_THROTTLED = -127
};

enum zk_event_type { ZK_CREATED = 1, ZK_DELETED = 2, ZK_CHANGED = 3, ZK_CHILDREN = 4 };

enum zk_create_flags { ZK_PERSISTENT = 0, ZK_EPHEMERAL = 1, ZK_SEQUENTIAL = 2, ZK_CONTAINER = 4 };

/* ---- Writing ---- */

/* Grows as needed, and keeps its memory. Without memory for it, it is `failed`. */
struct zk_writer {
    char *bytes;
    size_t length, room;
    bool failed;
};

void hf__zk_writer_free(struct zk_writer *writer);
void hf__zk_write_int(struct zk_writer *writer, int32_t value);
void hf__zk_write_long(struct zk_writer *writer, int64_t value);
void hf__zk_write_bool(struct zk_writer *writer, bool value);
void hf__zk_write_bytes(struct zk_writer *writer, const void *bytes, size_t length);
void hf__zk_write_text(struct zk_writer *writer, const char *text);
/* "path/child". */
void hf__zk_write_child(struct zk_writer *writer, const char *path, const char *child);
/* What another has written, as it is. */
void hf__zk_write_raw(struct zk_writer *writer, const struct zk_writer *other);
/* Bytes without their length. */
void hf__zk_write_plain(struct zk_writer *writer, const char *bytes, size_t length);
/* Overwrites a number that was written before. */
void hf__zk_put_int(struct zk_writer *writer, size_t at, int32_t value);

/* A frame begins with the place for its length, which ending it fills. One after another fits in
 * the same writer. Begin answers where it begins. */
size_t hf__zk_frame_begin(struct zk_writer *writer);
void hf__zk_frame_end(struct zk_writer *writer, size_t begun);

/* The first words of a connection. `session` 0: a new one. */
struct zk_hello {
    int64_t last_zxid, session;
    int32_t timeout_ms;
    char password[ZK_PASSWORD_SIZE];
};
void hf__zk_write_hello(struct zk_writer *writer, const struct zk_hello *hello);
/* What follows the path in a question for a new node. `ours_alone`: no other user may touch it. */
void hf__zk_write_create(struct zk_writer *writer, const void *data, size_t length, int flags,
                         bool ours_alone);

/* ---- Reading ---- */

struct zk_reader {
    const char *at, *end;
    bool bad;
};

struct zk_reader hf__zk_reader(const char *bytes, size_t length);
int32_t hf__zk_read_int(struct zk_reader *reader);
int64_t hf__zk_read_long(struct zk_reader *reader);
bool hf__zk_read_bool(struct zk_reader *reader);
/* Where they are, in the frame's own memory; not ended by a NUL. None (a length of -1) are "". */
const char *hf__zk_read_bytes(struct zk_reader *reader, size_t *length);
/* The number of things that follow, which is not larger than what is left can hold. */
uint32_t hf__zk_read_count(struct zk_reader *reader);

struct zk_stat {
    int64_t czxid, ctime_ms, mtime_ms, owner;
    int32_t version, data_length, child_count;
};
void hf__zk_read_stat(struct zk_reader *reader, struct zk_stat *stat);

/* What a server answers to the first words. `session` 0: the one that was asked for is over. */
struct zk_welcome {
    int64_t session;
    int32_t timeout_ms;
    char password[ZK_PASSWORD_SIZE];
};
bool hf__zk_read_welcome(struct zk_reader *reader, struct zk_welcome *welcome);

struct zk_reply {
    int32_t xid, error;
    int64_t zxid;
    struct zk_reader body;
};
bool hf__zk_read_reply(struct zk_reader *reader, struct zk_reply *reply);

struct zk_event {
    int32_t type;
    const char *path; /* not ended by a NUL */
    size_t path_length;
};
bool hf__zk_read_event(struct zk_reader *reader, struct zk_event *event);

/* ---- Frames out of a stream ---- */

struct zk_frames {
    char *bytes;
    size_t begun, length, room;
};

void hf__zk_frames_free(struct zk_frames *frames);
/* Adds what has arrived. False: no memory. */
bool hf__zk_frames_add(struct zk_frames *frames, const char *bytes, size_t length);
/* The next whole frame, whose bytes live until more are added. 1: there is one; 0: not yet; -1:
 * what comes is none. */
int hf__zk_frames_next(struct zk_frames *frames, struct zk_reader *reader);

#endif
