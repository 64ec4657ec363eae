/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 by nghttp2, which answers PING and SETTINGS and keeps the windows by itself. */
#include "net/h2.h"

#include "base/testing.h"

#include <nghttp2/nghttp2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What a peer may have under way to us. */
#define STREAM_WINDOW (1 << 20)
#define CONNECTION_WINDOW (16 << 20)
/* Replies to PING and SETTINGS that wait to be sent: a peer that does not read them is given up. */
#define ACKS_MAX 100
#define SETTINGS_MAX 32
#define HEADER_TABLE_MAX 4096
/* A stream's first room for a body: a transaction of ours fits. */
#define OUT_ROOM 512u

#define NO_HTTP2 "it does not speak HTTP/2, or has ended the connection"

/* Memory is kept in pieces of 64 bytes to 8 KiB. */
enum { SMALLEST = 64, KINDS = 8 };

struct block;

struct hf_h2 {
    nghttp2_session *session;
    struct block *spare[KINDS];
    void (*draining)(void *arg);
    void *arg;
    bool is_draining, failed;
    char why[160];
};

static struct hf_h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* ---- streams end ---- */

static void stream_end(struct hf_h2_stream *stream, uint32_t error)
{
    stream->h2 = NULL;
    stream->events->closed(stream, error);
}

static void drain(struct hf_h2 *h2)
{
    if (h2->is_draining)
        return;
    h2->is_draining = true;
    h2->draining(h2->arg);
}

/* ---- what nghttp2 tells ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *arg)
{
    struct hf_h2_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)flags, (void)arg;
    if (!stream)
        return 0;
    /* What goes beyond the limit ends this stream; the value is told up to there. */
    size_t left = HF_H2_HEADERS_MAX - stream->headers;
    bool fits = name_length <= left && value_length <= left - name_length;
    if (name_length <= left)
        stream->events->header(stream, (const char *)name, name_length, (const char *)value,
                               fits ? value_length : left - name_length);
    stream->headers = fits ? stream->headers + name_length + value_length : HF_H2_HEADERS_MAX;
    return fits ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t length, void *arg)
{
    struct hf_h2_stream *stream = stream_of(session, id);
    (void)flags, (void)arg;
    if (stream)
        stream->events->data(stream, bytes, length);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        drain(arg);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    struct hf_h2_stream *stream = stream_of(session, id);
    (void)arg;
    if (stream)
        stream_end(stream, error);
    return 0;
}

/* A request that nghttp2 cannot send any more, after a GOAWAY for instance. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error, void *arg)
{
    struct hf_h2_stream *stream =
        frame->hd.type == NGHTTP2_HEADERS ? stream_of(session, frame->hd.stream_id) : NULL;
    (void)error;
    if (!stream)
        return 0;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, NULL);
    drain(arg);
    stream_end(stream, HF_H2_REFUSED);
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *room, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct hf_h2_stream *stream = stream_of(session, id);
    (void)source, (void)arg;
    if (!stream) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return 0;
    }
    size_t waiting = stream->length - stream->begun;
    size_t length = waiting < size ? waiting : size;
    if (length == 0 && !stream->last) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (length > 0)
        memcpy(room, stream->out + stream->begun, length);
    stream->begun += length;
    if (stream->begun == stream->length) {
        stream->begun = stream->length = 0;
        if (stream->last)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)length;
}

/* ---- memory ---- */

/* What nghttp2 gives back is kept for the next call, by size: once warm, calls allocate nothing. */
struct block {
    _Alignas(max_align_t) struct block *next;
    unsigned kind; /* KINDS: it is too large to be kept */
    _Alignas(max_align_t) char bytes[];
};

static size_t room_of(unsigned kind)
{
    return (size_t)SMALLEST << kind;
}

static struct block *block_of(void *memory)
{
    return (struct block *)((char *)memory - offsetof(struct block, bytes));
}

static void *get_memory(size_t size, void *arg)
{
    struct hf_h2 *h2 = arg;
    unsigned kind = 0;
    while (kind < KINDS && room_of(kind) < size)
        kind++;
    struct block *block = kind < KINDS ? h2->spare[kind] : NULL;
    if (block) {
        h2->spare[kind] = block->next;
        hf__take_again(block->bytes, room_of(kind));
        return block->bytes;
    }
    block = hf__calloc(1, sizeof *block + (kind < KINDS ? room_of(kind) : size));
    if (!block)
        return NULL;
    block->kind = kind;
    return block->bytes;
}

static void *get_zeroes(size_t count, size_t size, void *arg)
{
    void *memory = size == 0 || count <= SIZE_MAX / 2 / size ? get_memory(count * size, arg) : NULL;
    return memory ? memset(memory, 0, count * size) : NULL;
}

static void free_memory(void *memory, void *arg)
{
    struct hf_h2 *h2 = arg;
    struct block *block = memory ? block_of(memory) : NULL;
    if (!block)
        return;
    if (block->kind == KINDS) {
        free(block);
        return;
    }
    block->next = h2->spare[block->kind];
    h2->spare[block->kind] = block;
    hf__set_aside(block->bytes, room_of(block->kind));
}

static void *resize_memory(void *old, size_t size, void *arg)
{
    struct block *block = old ? block_of(old) : NULL;
    if (block && block->kind == KINDS) {
        block = hf__realloc(block, sizeof *block + size);
        return block ? block->bytes : NULL;
    }
    if (block && size <= room_of(block->kind))
        return old;
    void *grown = get_memory(size, arg);
    if (grown && block) {
        memcpy(grown, old, room_of(block->kind));
        free_memory(old, arg);
    }
    return grown;
}

/* ---- a connection ---- */

static bool open_session(struct hf_h2 *h2)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_mem memory = { h2, get_memory, free_memory, get_zeroes, resize_memory };
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return false;
    if (nghttp2_option_new(&option) != 0) {
        nghttp2_session_callbacks_del(callbacks);
        return false;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
    nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, HEADER_TABLE_MAX);
    nghttp2_option_set_no_closed_streams(option, 1);
    int code = nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &memory);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return code == 0;
}

static bool h2_greet(struct hf_h2 *h2)
{
    static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HF_H2_HEADERS_MAX },
        { NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, HEADER_TABLE_MAX },
    };
    return nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof *settings) == 0 &&
           nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                                 CONNECTION_WINDOW) == 0;
}

struct hf_h2 *hf__h2_new(void (*draining)(void *arg), void *arg)
{
    struct hf_h2 *h2 = hf__calloc(1, sizeof *h2);
    if (!h2)
        return NULL;
    h2->draining = draining;
    h2->arg = arg;
    if (open_session(h2) && h2_greet(h2))
        return h2;
    hf__h2_free(h2);
    return NULL;
}

void hf__h2_free(struct hf_h2 *h2)
{
    if (!h2)
        return;
    nghttp2_session_del(h2->session);
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (struct block *block = h2->spare[kind], *next; block; block = next) {
            next = block->next;
            free(block);
        }
    free(h2);
}

static void fail_h2(struct hf_h2 *h2, const char *what, int code)
{
    h2->failed = true;
    snprintf(h2->why, sizeof h2->why, "%s: %s", what, nghttp2_strerror(code));
}

bool hf__h2_feed(struct hf_h2 *h2, const char *bytes, size_t length)
{
    if (h2->failed)
        return false;
    ssize_t count = nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes, length);
    if (count < 0)
        fail_h2(h2, "it does not speak HTTP/2 as we know it", (int)count);
    else if (!nghttp2_session_want_read(h2->session))
        fail_h2(h2, NO_HTTP2, NGHTTP2_ERR_EOF);
    return !h2->failed;
}

long hf__h2_take(struct hf_h2 *h2, const uint8_t **bytes)
{
    if (h2->failed)
        return -1;
    ssize_t count = nghttp2_session_mem_send(h2->session, bytes);
    if (count < 0)
        fail_h2(h2, "no HTTP/2 frame can be made", (int)count);
    else if (count == 0 && !nghttp2_session_want_read(h2->session))
        fail_h2(h2, NO_HTTP2, NGHTTP2_ERR_EOF); /* our reason has just been sent */
    return h2->failed ? -1 : (long)count;
}

const char *hf__h2_why(const struct hf_h2 *h2)
{
    return h2->why;
}

uint32_t hf__h2_streams_max(const struct hf_h2 *h2)
{
    return nghttp2_session_get_remote_settings(h2->session,
                                               NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool hf__h2_is_open(const struct hf_h2 *h2)
{
    return !h2->failed && !h2->is_draining && nghttp2_session_check_request_allowed(h2->session);
}

/* ---- streams ---- */

#define HEADERS_MAX 12u

bool hf__h2_begin(struct hf_h2 *h2, struct hf_h2_stream *stream, const struct hf_h2_header *headers,
                  size_t count)
{
    nghttp2_nv pairs[HEADERS_MAX];
    nghttp2_data_provider body = { .read_callback = read_body };
    if (count > HEADERS_MAX || !hf__h2_is_open(h2))
        return false;
    for (size_t i = 0; i < count; i++)
        pairs[i] = (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)headers[i].name,
                                 .value = (uint8_t *)(uintptr_t)headers[i].value,
                                 .namelen = strlen(headers[i].name),
                                 .valuelen = strlen(headers[i].value) };
    stream->last = stream->deferred = false;
    stream->headers = stream->begun = stream->length = 0;
    int32_t id = nghttp2_submit_request(h2->session, NULL, pairs, count, &body, stream);
    if (id < 0)
        return false;
    stream->id = id;
    stream->h2 = h2;
    return true;
}

static bool h2_make_room(struct hf_h2_stream *stream, size_t length)
{
    size_t room = stream->room ? stream->room : OUT_ROOM;
    if (length > HF_H2_OUT_MAX - stream->length)
        return false;
    while (room < stream->length + length)
        room *= 2;
    if (room == stream->room)
        return true;
    uint8_t *grown = hf__realloc(stream->out, room);
    if (!grown)
        return false;
    stream->out = grown;
    stream->room = room;
    return true;
}

bool hf__h2_write(struct hf_h2_stream *stream, const uint8_t *bytes, size_t length, bool last)
{
    if (!stream->h2 || !h2_make_room(stream, length))
        return false;
    if (length > 0)
        memcpy(stream->out + stream->length, bytes, length);
    stream->length += length;
    stream->last = last;
    if (!stream->deferred)
        return true;
    stream->deferred = false;
    return nghttp2_session_resume_data(stream->h2->session, stream->id) == 0;
}

void hf__h2_cancel(struct hf_h2_stream *stream, uint32_t error)
{
    if (!stream->h2)
        return;
    nghttp2_session *session = stream->h2->session;
    stream->h2 = NULL;
    nghttp2_session_set_stream_user_data(session, stream->id, NULL);
    /* Without memory the peer's reply comes, and no stream listens. */
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, error);
}

void hf__h2_stream_free(struct hf_h2_stream *stream)
{
    free(stream->out);
    stream->out = NULL;
    stream->room = stream->begun = stream->length = 0;
}
