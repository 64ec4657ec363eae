/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading ZooKeeper's messages; see the header. */
#include "codec.h"

#include "base/testing.h"

#include <string.h>

#define ALL_RIGHTS 31
#define FRAMES_KEPT (64u << 10)

/* ---- writing ---- */

void hf__zk_writer_free(struct zk_writer *writer)
{
    free(writer->bytes);
    *writer = (struct zk_writer){ 0 };
}

static void append(struct zk_writer *writer, const void *bytes, size_t length)
{
    if (writer->failed || length > ZK_FRAME_MAX - writer->length) {
        writer->failed = true;
        return;
    }
    if (writer->length + length > writer->room) {
        size_t room = writer->room ? writer->room : 256;
        while (room < writer->length + length)
            room *= 2;
        char *grown = hf__realloc(writer->bytes, room);
        if (!grown) {
            writer->failed = true;
            return;
        }
        writer->bytes = grown;
        writer->room = room;
    }
    if (length > 0)
        memcpy(writer->bytes + writer->length, bytes, length);
    writer->length += length;
}

static void put_int(unsigned char *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

void hf__zk_write_int(struct zk_writer *writer, int32_t value)
{
    unsigned char bytes[4];
    put_int(bytes, (uint32_t)value);
    append(writer, bytes, sizeof bytes);
}

void hf__zk_write_long(struct zk_writer *writer, int64_t value)
{
    unsigned char bytes[8];
    put_int(bytes, (uint32_t)((uint64_t)value >> 32));
    put_int(bytes + 4, (uint32_t)value);
    append(writer, bytes, sizeof bytes);
}

void hf__zk_write_bool(struct zk_writer *writer, bool value)
{
    append(writer, value ? "\1" : "\0", 1);
}

void hf__zk_write_bytes(struct zk_writer *writer, const void *bytes, size_t length)
{
    hf__zk_write_int(writer, (int32_t)length);
    append(writer, bytes, length);
}

void hf__zk_write_text(struct zk_writer *writer, const char *text)
{
    hf__zk_write_bytes(writer, text, strlen(text));
}

void hf__zk_write_child(struct zk_writer *writer, const char *path, const char *child)
{
    size_t path_length = strlen(path), child_length = strlen(child);
    hf__zk_write_int(writer, (int32_t)(path_length + 1 + child_length));
    hf__zk_write_plain(writer, path, path_length);
    hf__zk_write_plain(writer, "/", 1);
    hf__zk_write_plain(writer, child, child_length);
}

void hf__zk_write_raw(struct zk_writer *writer, const struct zk_writer *other)
{
    writer->failed |= other->failed;
    append(writer, other->bytes, other->length);
}

void hf__zk_write_plain(struct zk_writer *writer, const char *bytes, size_t length)
{
    append(writer, bytes, length);
}

void hf__zk_put_int(struct zk_writer *writer, size_t at, int32_t value)
{
    if (!writer->failed)
        put_int((unsigned char *)writer->bytes + at, (uint32_t)value);
}

size_t hf__zk_frame_begin(struct zk_writer *writer)
{
    size_t begun = writer->length;
    hf__zk_write_int(writer, 0);
    return begun;
}

void hf__zk_frame_end(struct zk_writer *writer, size_t begun)
{
    hf__zk_put_int(writer, begun, (int32_t)(writer->length - begun - 4));
}

void hf__zk_write_hello(struct zk_writer *writer, const struct zk_hello *hello)
{
    size_t begun = hf__zk_frame_begin(writer);
    hf__zk_write_int(writer, 0);
    hf__zk_write_long(writer, hello->last_zxid);
    hf__zk_write_int(writer, hello->timeout_ms);
    hf__zk_write_long(writer, hello->session);
    hf__zk_write_bytes(writer, hello->password, ZK_PASSWORD_SIZE);
    /* mutant: server-that-may-only-be-read */
    /* A server that may only be read from is of no use to a lock. */
    hf__zk_write_bool(writer, false);
    hf__zk_frame_end(writer, begun);
}

void hf__zk_write_create(struct zk_writer *writer, const void *data, size_t length, int flags,
                         bool ours_alone)
{
    hf__zk_write_bytes(writer, data, length);
    hf__zk_write_int(writer, 1);
    hf__zk_write_int(writer, ALL_RIGHTS);
    hf__zk_write_text(writer, ours_alone ? "auth" : "world");
    hf__zk_write_text(writer, ours_alone ? "" : "anyone");
    hf__zk_write_int(writer, flags);
}

/* ---- reading ---- */

struct zk_reader hf__zk_reader(const char *bytes, size_t length)
{
    return (struct zk_reader){ .at = bytes, .end = bytes + length };
}

static size_t bytes_left(const struct zk_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

/* NULL, and the reader is bad, if that many bytes are not there. */
static const char *codec_take(struct zk_reader *reader, size_t length)
{
    const char *at = reader->at;
    if (reader->bad || length > bytes_left(reader)) {
        reader->bad = true;
        return NULL;
    }
    reader->at += length;
    return at;
}

static uint32_t get_int(const char *at)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++)
        value = value << 8 | (unsigned char)at[i];
    return value;
}

int32_t hf__zk_read_int(struct zk_reader *reader)
{
    const char *at = codec_take(reader, 4);
    return at ? (int32_t)get_int(at) : 0;
}

int64_t hf__zk_read_long(struct zk_reader *reader)
{
    const char *at = codec_take(reader, 8);
    return at ? (int64_t)((uint64_t)get_int(at) << 32 | get_int(at + 4)) : 0;
}

bool hf__zk_read_bool(struct zk_reader *reader)
{
    const char *at = codec_take(reader, 1);
    return at && *at;
}

const char *hf__zk_read_bytes(struct zk_reader *reader, size_t *length)
{
    int32_t count = hf__zk_read_int(reader);
    const char *at = NULL;
    if (count < -1)
        reader->bad = true;
    else
        at = codec_take(reader, count > 0 ? (size_t)count : 0);
    *length = at && count > 0 ? (size_t)count : 0;
    return at ? at : "";
}

uint32_t hf__zk_read_count(struct zk_reader *reader)
{
    int32_t count = hf__zk_read_int(reader);
    /* Each thing has a length of its own, of four bytes. */
    /* mutant: what-is-left-of-frame */
    if (count < -1 || (count > 0 && (size_t)count > bytes_left(reader) / 4))
        reader->bad = true;
    return reader->bad || count < 0 ? 0 : (uint32_t)count;
}

void hf__zk_read_stat(struct zk_reader *reader, struct zk_stat *stat)
{
    stat->czxid = hf__zk_read_long(reader);
    hf__zk_read_long(reader); /* the zxid of the last change */
    stat->ctime_ms = hf__zk_read_long(reader);
    stat->mtime_ms = hf__zk_read_long(reader);
    stat->version = hf__zk_read_int(reader);
    hf__zk_read_long(reader); /* of the children, and of the rights */
    stat->owner = hf__zk_read_long(reader);
    stat->data_length = hf__zk_read_int(reader);
    stat->child_count = hf__zk_read_int(reader);
    hf__zk_read_long(reader); /* when the children changed last */
}

bool hf__zk_read_welcome(struct zk_reader *reader, struct zk_welcome *welcome)
{
    size_t length;
    hf__zk_read_int(reader);
    welcome->timeout_ms = hf__zk_read_int(reader);
    welcome->session = hf__zk_read_long(reader);
    const char *password = hf__zk_read_bytes(reader, &length);
    memset(welcome->password, 0, ZK_PASSWORD_SIZE);
    memcpy(welcome->password, password, length < ZK_PASSWORD_SIZE ? length : ZK_PASSWORD_SIZE);
    if (welcome->timeout_ms <= 0)
        welcome->session = 0;
    /* Whether it may only be read from: old servers do not say. */
    return !reader->bad && length <= ZK_PASSWORD_SIZE;
}

bool hf__zk_read_reply(struct zk_reader *reader, struct zk_reply *reply)
{
    reply->xid = hf__zk_read_int(reader);
    reply->zxid = hf__zk_read_long(reader);
    reply->error = hf__zk_read_int(reader);
    reply->body = *reader;
    return !reader->bad;
}

bool hf__zk_read_event(struct zk_reader *reader, struct zk_event *event)
{
    event->type = hf__zk_read_int(reader);
    hf__zk_read_int(reader); /* the state of the session, which the connection shows by itself */
    event->path = hf__zk_read_bytes(reader, &event->path_length);
    return !reader->bad;
}

/* ---- frames ---- */

void hf__zk_frames_free(struct zk_frames *frames)
{
    free(frames->bytes);
    *frames = (struct zk_frames){ 0 };
}

bool hf__zk_frames_add(struct zk_frames *frames, const char *bytes, size_t length)
{
    size_t kept = frames->length - frames->begun;
    /* The list of a long queue is not worth its memory until the next one. */
    if (kept == 0 && frames->room > FRAMES_KEPT) /* mutant: memory-of-long-answer-is-kept */
        hf__zk_frames_free(frames);
    if (frames->begun > 0 && kept > 0)
        memmove(frames->bytes, frames->bytes + frames->begun, kept);
    frames->begun = 0;
    frames->length = kept;
    if (kept + length > frames->room) {
        size_t room = frames->room ? frames->room : 4096;
        while (room < kept + length)
            room *= 2;
        char *grown = hf__realloc(frames->bytes, room);
        if (!grown)
            return false;
        frames->bytes = grown;
        frames->room = room;
    }
    memcpy(frames->bytes + kept, bytes, length);
    frames->length += length;
    return true;
}

int hf__zk_frames_next(struct zk_frames *frames, struct zk_reader *reader)
{
    size_t there = frames->length - frames->begun;
    if (there < 4)
        return 0;
    const char *at = frames->bytes + frames->begun;
    uint32_t length = get_int(at);
    if (length > ZK_FRAME_MAX) /* mutant: frame-may-be-as-long */
        return -1;
    if (there - 4 < length)
        return 0;
    *reader = hf__zk_reader(at + 4, length);
    frames->begun += 4 + length;
    return 1;
}
