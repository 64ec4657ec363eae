/* SPDX-License-Identifier: Apache-2.0 */
/* Byte streams on libuv. */
#include "net/connect.h"

#include "base/testing.h"
#include "net/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* When this much is under way to a store that is not reading, a few milliseconds more do not
 * matter.
 */
#define FULL_AGAIN_MS 5
/* With TLS, this much at a time is made ready for the wire. */
#define SEALED_MAX (64u << 10)
/* ... and this much is taken from there at a time. */
#define TAKEN_MAX (16u << 10)

static void socket_closed(uv_handle_t *handle)
{
    hf__connect_give_back(handle->data);
}

void hf__stream_close(struct hf_stream *stream)
{
    if (stream->closed)
        return;
    stream->closed = true;
    hf__timer_stop(stream->loop, &stream->limit);
    hf__timer_stop(stream->loop, &stream->full);
    hf__link_remove(&stream->flush.link);
    hf__connect_end(stream);
    if (stream->has_socket)
        hf__connect_close_socket(stream, socket_closed);
    hf__connect_give_back(stream);
}

static const char *words(const struct hf_stream *stream, int failure)
{
    bool shaking = stream->session && !stream->is_open;
    if (shaking && failure == UV_ETIMEDOUT)
        return "it does not answer the TLS handshake; is this the port without TLS?";
    if (shaking && failure == UV_EOF)
        return "it closed the connection in the TLS handshake; is this the port without TLS?";
    if (failure == UV_EOF)
        return "the other side closed the connection";
    return uv_strerror(failure);
}

static void end_stream(struct hf_stream *stream, int code, int native, const char *why)
{
    const struct hf_stream_events *events = stream->events;
    void *arg = stream->arg;
    char kept[280];
    snprintf(kept, sizeof kept, "%s", why);
    hf__stream_close(stream);
    events->broken(arg, code, native, kept);
}

/* For a reason of libuv's, from its own callbacks: the opener may hear of it at once. */
static void break_off(struct hf_stream *stream, int failure)
{
    end_stream(stream, HF_UNREACHABLE, failure == UV_EOF ? 0 : -failure, words(stream, failure));
}

/* The same, where TLS failed or has ended, or had no memory. */
static void break_off_session(struct hf_stream *stream)
{
    enum hf_tls_state state = hf__tls_session_state(stream->session);
    int code;
    if (state != HF_TLS_FAILED) {
        break_off(stream, state == HF_TLS_ENDED ? UV_EOF : UV_ENOMEM);
        return;
    }
    const char *why = hf__tls_session_why(stream->session, &code);
    end_stream(stream, code, 0, why);
}

static void stream_limit_fired(struct hf_timer *timer)
{
    struct hf_stream *stream = HF_CONTAINER(timer, struct hf_stream, limit);
    break_off(stream, stream->failure ? stream->failure : UV_ETIMEDOUT);
}

/* ---- writing ---- */

/* Where the next `length` bytes go. NULL: out of memory, or too much waits. */
static char *room_in(struct buffer *buffer, size_t length)
{
    size_t waiting = buffer->length - buffer->begun;
    if (length > HF_STREAM_WRITE_MAX - waiting)
        return NULL;
    /* What waits is moved to the begin once it is no more than what has been sent: so each byte is
     * moved once on average. */
    if (buffer->begun > 0 && buffer->begun >= waiting && buffer->length + length > buffer->room) {
        memmove(buffer->bytes, buffer->bytes + buffer->begun, waiting);
        buffer->begun = 0;
        buffer->length = waiting;
    }
    if (buffer->length + length > buffer->room) {
        size_t room = buffer->room ? buffer->room : 4096;
        while (room < buffer->length + length)
            room *= 2;
        char *grown = hf__realloc(buffer->bytes, room);
        if (!grown)
            return NULL;
        buffer->bytes = grown;
        buffer->room = room;
    }
    return buffer->bytes + buffer->length;
}

/* Makes the next bytes of `out` ready for the wire, and what TLS has to say of its own. False: it
 * has failed, or there is no memory. */
static bool seal(struct hf_stream *stream)
{
    struct buffer *out = &stream->out, *sealed = &stream->sealed;
    size_t length = out->length - out->begun < SEALED_MAX ? out->length - out->begun : SEALED_MAX;
    char *room;
    if (stream->is_open && length > 0) {
        if (!hf__tls_write(stream->session, out->bytes + out->begun, length))
            return false;
        out->begun += length;
    }
    if (out->begun == out->length)
        out->begun = out->length = 0;
    while ((room = room_in(sealed, TAKEN_MAX)) &&
           (length = hf__tls_take(stream->session, room, TAKEN_MAX)) > 0)
        sealed->length += length;
    return room != NULL;
}

/* libuv's own writing would raise SIGPIPE where the program takes that. */
static void flush_all(struct hf_stream *stream)
{
    struct buffer *wire = stream->session ? &stream->sealed : &stream->out;
    while (stream->is_connected) {
        if (wire->begun == wire->length) {
            wire->begun = wire->length = 0;
            if (stream->session && !seal(stream)) {
                break_off_session(stream);
                return;
            }
        }
        if (wire->begun == wire->length)
            return;
        uv_os_fd_t fd;
        ssize_t count = -EBADF;
        if (uv_fileno(&stream->socket.handle, &fd) == 0)
            count = send(fd, wire->bytes + wire->begun, wire->length - wire->begun,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count == -1)
            count = -errno;
        if (count >= 0) {
            wire->begun += (size_t)count;
        } else if (count == -EAGAIN) {
            hf__timer_start(stream->loop, &stream->full, /* mutant: what-socket-does-not-take */
                            hf__loop_now(stream->loop) + FULL_AGAIN_MS);
            return;
        } else if (count == -EPIPE || count == -ECONNRESET) {
            /* Reading ends as well, but first comes what the peer had to say about it. */
            stream->is_connected = false;
        } else if (count != -EINTR) {
            break_off(stream, (int)count);
            return;
        }
    }
}

static void flush(struct hf_task *task)
{
    flush_all(HF_CONTAINER(task, struct hf_stream, flush));
}

static void full_fired(struct hf_timer *timer)
{
    flush_all(HF_CONTAINER(timer, struct hf_stream, full));
}

char *hf__stream_room(struct hf_stream *stream, size_t length)
{
    return room_in(&stream->out, length);
}

void hf__stream_wrote(struct hf_stream *stream, size_t length)
{
    stream->out.length += length;
    if (!stream->full.started)
        hf__loop_defer(stream->loop, &stream->flush);
}

bool hf__stream_write(struct hf_stream *stream, const char *bytes, size_t length)
{
    char *room = room_in(&stream->out, length);
    if (!room)
        return false;
    memcpy(room, bytes, length);
    hf__stream_wrote(stream, length);
    return true;
}

/* ---- reading ---- */

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
    struct hf_stream *stream = handle->data;
    (void)suggested;
    *room = uv_buf_init(stream->input, sizeof stream->input);
}

static void ready(struct hf_stream *stream)
{
    hf__timer_stop(stream->loop, &stream->limit);
    stream->is_open = true;
    stream->events->opened(stream->arg);
}

/* What the peer says last may come together with the end of TLS. */
static void has_read_sealed(struct hf_stream *stream, const char *bytes, size_t length)
{
    struct hf_tls_session *session = stream->session;
    char plain[16384];
    hf__tls_feed(session, bytes, length);
    if (!stream->is_open && hf__tls_session_state(session) == HF_TLS_OPEN)
        ready(stream);
    while (!stream->closed && (length = hf__tls_read(session, plain, sizeof plain)) > 0)
        stream->events->received(stream->arg, plain, length);
    if (stream->closed)
        return;
    if (hf__tls_session_state(session) == HF_TLS_ENDED ||
        hf__tls_session_state(session) == HF_TLS_FAILED)
        break_off_session(stream);
    else if (!stream->full.started)
        flush_all(stream);
}

static void has_read(uv_stream_t *socket, ssize_t count, const uv_buf_t *buffer)
{
    struct hf_stream *stream = socket->data;
    if (count > 0) /* this address has a server, and the next stream begins with it */
        stream->route->first = stream->address;
    if (count > 0 && stream->session)
        has_read_sealed(stream, buffer->base, (size_t)count);
    else if (count > 0)
        stream->events->received(stream->arg, buffer->base, (size_t)count);
    else if (count < 0 && !stream->closed)
        break_off(stream, (int)count);
}

/* ---- opening ---- */

/* Bytes can go to and fro, those of TLS first. */
static void connected(struct hf_stream *stream)
{
    stream->loop->watches_more = true;
    int code = uv_read_start(&stream->socket.stream, give_room, has_read);
    if (code != 0) {
        break_off(stream, code);
        return;
    }
    stream->is_connected = true;
    if (!stream->place.tls) { /* mutant: question-is-sent-before-server */
        ready(stream);
        return;
    }
    stream->session = hf__tls_session_new(stream->place.tls, stream->place.host);
    if (stream->session)
        flush_all(stream);
    else
        break_off(stream, UV_ENOMEM);
}

struct hf_stream *hf__stream_open(struct uv_loop_s *uv, struct hf_loop *loop,
                                  const struct hf_stream_place *place,
                                  const struct hf_stream_events *events, void *arg)
{
    struct hf_stream *stream = hf__calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->uv = uv;
    stream->loop = loop;
    stream->place = *place;
    stream->route = place->route ? place->route : &stream->own_route;
    stream->events = events;
    stream->arg = arg;
    stream->requests = 1;
    hf__timer_init(&stream->limit, stream_limit_fired);
    hf__timer_init(&stream->full, full_fired);
    hf__task_init(&stream->flush, flush);
    hf__timer_start(loop, &stream->limit, hf__loop_now(loop) + place->limit_ms);
    hf__connect_begin(stream, connected);
    return stream;
}

void hf__stream_forked(struct hf_stream *stream)
{
    uv_os_fd_t fd;
    if (stream->has_socket && uv_fileno(&stream->socket.handle, &fd) == 0)
        close(fd);
}
