/* Byte streams on libuv. A stream frees itself when libuv has given back the last of its requests,
 * which may be long after it was closed: name resolution cannot be interrupted. */
#include "net/stream.h"

#include "base/testing.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* Keeps a router between us and the store from forgetting a connection that is quiet. */
#define KEEPALIVE_SECONDS 20u
/* So much is under way to a store that is not reading that a few milliseconds more do not matter.
 */
#define FULL_AGAIN_MS 5
/* With TLS, so much at a time is made ready for the wire. */
#define SEALED_MAX (64u << 10)

struct buffer {
    char *bytes;
    size_t begun, length, room; /* what lies before `begun` has been sent */
};

struct hf_stream {
    struct hf_loop *loop;
    uv_loop_t *uv;
    struct hf_stream_place place;
    const struct hf_stream_events *events;
    void *arg; /* the opener's, until it has been told the end */
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } socket;
    uv_getaddrinfo_t lookup;
    uv_connect_t connect;
    struct addrinfo *addresses, *next_address;
    struct hf_timer limit; /* for connecting; or a failure that is to be told */
    struct hf_timer full;  /* the socket's buffer is full: look again */
    struct hf_task flush;
    struct buffer out;
    struct hf_tls_session *session; /* with TLS, once connected */
    struct buffer sealed;           /* what goes to the wire of `out`, then */
    int failure;                    /* a libuv code */
    bool has_socket, is_connected, is_open, closed;
    unsigned requests; /* out at libuv, the socket's own closing included */
    char input[16384];
};

static void let_go(struct hf_stream *stream)
{
    if (!stream->closed || stream->requests > 0)
        return;
    uv_freeaddrinfo(stream->addresses);
    free(stream->out.bytes);
    free(stream->sealed.bytes);
    hf__tls_session_free(stream->session);
    free(stream);
}

static void request_done(struct hf_stream *stream)
{
    stream->requests--;
    let_go(stream);
}

static void socket_closed(uv_handle_t *handle)
{
    request_done(handle->data);
}

static void close_socket(struct hf_stream *stream)
{
    if (!stream->has_socket)
        return;
    stream->has_socket = stream->is_connected = stream->is_open = false;
    stream->requests++;
    uv_close(&stream->socket.handle, socket_closed);
}

void hf__stream_close(struct hf_stream *stream)
{
    if (stream->closed)
        return;
    stream->closed = true;
    hf__timer_stop(stream->loop, &stream->limit);
    hf__timer_stop(stream->loop, &stream->full);
    hf__link_remove(&stream->flush.link);
    close_socket(stream);
    let_go(stream);
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

static void end(struct hf_stream *stream, int code, int native, const char *why)
{
    const struct hf_stream_events *events = stream->events;
    void *arg = stream->arg;
    char kept[280];
    snprintf(kept, sizeof kept, "%s", why);
    hf__stream_close(stream);
    events->broken(arg, code, native, kept);
}

/* From libuv's own callbacks, where the opener may hear of it at once. */
static void break_off(struct hf_stream *stream, int failure)
{
    end(stream, HF_UNREACHABLE, failure == UV_EOF ? 0 : -failure, words(stream, failure));
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
    end(stream, code, 0, why);
}

/* From inside a call of the opener's: it hears of it in the loop's next turn. */
static void break_soon(struct hf_stream *stream, int failure)
{
    stream->failure = failure;
    hf__timer_start(stream->loop, &stream->limit, hf__loop_now(stream->loop));
}

static void limit_fired(struct hf_timer *timer)
{
    struct hf_stream *stream = HF_CONTAINER(timer, struct hf_stream, limit);
    break_off(stream, stream->failure ? stream->failure : UV_ETIMEDOUT);
}

/* ---- writing ---- */

/* Where the next bytes go, of which there may be so many. NULL: out of memory, or too much waits.
 */
static char *room_in(struct buffer *buffer, size_t length)
{
    if (length > HF_STREAM_WRITE_MAX - buffer->length)
        return NULL;
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

static bool append(struct buffer *buffer, const char *bytes, size_t length)
{
    char *room = room_in(buffer, length);
    if (!room)
        return false;
    memcpy(room, bytes, length);
    buffer->length += length;
    return true;
}

/* libuv's own writing would raise SIGPIPE where the program takes that. */
static ssize_t send_quietly(struct hf_stream *stream, const char *bytes, size_t length)
{
    uv_os_fd_t fd;
    if (uv_fileno(&stream->socket.handle, &fd) != 0)
        return -EBADF;
    ssize_t count = send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return count < 0 ? -errno : count;
}

/* Makes the next bytes of `out` ready for the wire, and what TLS has to say of its own. False: it
 * has failed, or there is no memory. */
static bool seal(struct hf_stream *stream)
{
    struct buffer *out = &stream->out;
    size_t length = out->length - out->begun < SEALED_MAX ? out->length - out->begun : SEALED_MAX;
    char bytes[16384];
    if (stream->is_open && length > 0) {
        if (!hf__tls_write(stream->session, out->bytes + out->begun, length))
            return false;
        out->begun += length;
    }
    if (out->begun == out->length)
        out->begun = out->length = 0;
    while ((length = hf__tls_take(stream->session, bytes, sizeof bytes)) > 0)
        if (!append(&stream->sealed, bytes, length))
            return false;
    return true;
}

/* The next bytes for the wire; an empty buffer: there are none. NULL: see seal. */
static struct buffer *next_to_send(struct hf_stream *stream)
{
    struct buffer *wire = stream->session ? &stream->sealed : &stream->out;
    if (wire->begun == wire->length) {
        wire->begun = wire->length = 0;
        if (stream->session && !seal(stream))
            return NULL;
    }
    return wire;
}

static void flush_all(struct hf_stream *stream)
{
    while (stream->is_connected) {
        struct buffer *wire = next_to_send(stream);
        if (!wire) {
            break_off_session(stream);
            return;
        }
        if (wire->begun == wire->length)
            return;
        ssize_t count = send_quietly(stream, wire->bytes + wire->begun, wire->length - wire->begun);
        if (count >= 0) {
            wire->begun += (size_t)count;
        } else if (count == -EAGAIN) {
            hf__timer_start(stream->loop, &stream->full,
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
    char *room = hf__stream_room(stream, length);
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
    if (count > 0 && stream->session)
        has_read_sealed(stream, buffer->base, (size_t)count);
    else if (count > 0)
        stream->events->received(stream->arg, buffer->base, (size_t)count);
    else if (count < 0 && !stream->closed)
        break_off(stream, (int)count);
}

/* ---- connecting ---- */

static void try_next_address(struct hf_stream *stream);

static void opened(struct hf_stream *stream)
{
    stream->loop->watches_more = true;
    int code = uv_read_start(&stream->socket.stream, give_room, has_read);
    if (code != 0) {
        break_off(stream, code);
        return;
    }
    stream->is_connected = true;
    if (!stream->place.tls) {
        ready(stream);
        return;
    }
    stream->session = hf__tls_session_new(stream->place.tls, stream->place.host);
    if (stream->session)
        flush_all(stream);
    else
        break_off(stream, UV_ENOMEM);
}

static void refused_socket_closed(uv_handle_t *handle)
{
    struct hf_stream *stream = handle->data;
    stream->requests--;
    if (stream->closed)
        let_go(stream);
    else
        try_next_address(stream);
}

/* A host may have several addresses, and the store listen on one of them. */
static void not_connected(struct hf_stream *stream, int status)
{
    if (!stream->next_address || !stream->has_socket) {
        break_soon(stream, status);
        return;
    }
    stream->has_socket = false;
    stream->requests++;
    uv_close(&stream->socket.handle, refused_socket_closed);
}

static void connected(uv_connect_t *request, int status)
{
    struct hf_stream *stream = request->data;
    stream->requests--;
    if (stream->closed)
        let_go(stream);
    else if (status == 0)
        opened(stream);
    else
        not_connected(stream, status);
}

static void connect_tcp(struct hf_stream *stream, const struct sockaddr *address)
{
    stream->loop->watches_more = true;
    int code = uv_tcp_init(stream->uv, &stream->socket.tcp);
    if (code == 0) {
        stream->has_socket = true;
        stream->socket.handle.data = stream;
        uv_tcp_nodelay(&stream->socket.tcp, 1);
        uv_tcp_keepalive(&stream->socket.tcp, 1, KEEPALIVE_SECONDS);
        stream->connect.data = stream;
        code = uv_tcp_connect(&stream->connect, &stream->socket.tcp, address, connected);
    }
    if (code == 0)
        stream->requests++;
    else
        not_connected(stream, code);
}

static void try_next_address(struct hf_stream *stream)
{
    struct addrinfo *address = stream->next_address;
    stream->next_address = address->ai_next;
    connect_tcp(stream, address->ai_addr);
}

static void looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
    struct hf_stream *stream = request->data;
    stream->requests--;
    stream->addresses = stream->next_address = addresses;
    if (stream->closed)
        let_go(stream);
    else if (status != 0)
        break_off(stream, status);
    else
        try_next_address(stream);
}

static void look_up(struct hf_stream *stream)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    char port[8];
    snprintf(port, sizeof port, "%u", stream->place.port);
    stream->lookup.data = stream;
    /* The first one of a process starts libuv's threads, which take no signals of the program's. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code =
        uv_getaddrinfo(stream->uv, &stream->lookup, looked_up, stream->place.host, port, &hints);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        stream->requests++;
    else
        break_soon(stream, code);
}

static void connect_path(struct hf_stream *stream)
{
    stream->loop->watches_more = true;
    int code = uv_pipe_init(stream->uv, &stream->socket.pipe, 0);
    if (code != 0) {
        break_soon(stream, code);
        return;
    }
    stream->has_socket = true;
    stream->socket.handle.data = stream;
    stream->connect.data = stream;
    stream->requests++;
    uv_pipe_connect(&stream->connect, &stream->socket.pipe, stream->place.path, connected);
}

/* An address that is written in digits needs no resolver, and no thread of libuv's. */
static void begin(struct hf_stream *stream)
{
    const struct hf_stream_place *place = &stream->place;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (!place->host)
        connect_path(stream);
    else if (uv_ip4_addr(place->host, (int)place->port, &v4) == 0)
        connect_tcp(stream, (const struct sockaddr *)&v4);
    else if (uv_ip6_addr(place->host, (int)place->port, &v6) == 0)
        connect_tcp(stream, (const struct sockaddr *)&v6);
    else
        look_up(stream);
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
    stream->events = events;
    stream->arg = arg;
    hf__timer_init(&stream->limit, limit_fired);
    hf__timer_init(&stream->full, full_fired);
    hf__task_init(&stream->flush, flush);
    hf__timer_start(loop, &stream->limit, hf__loop_now(loop) + place->limit_ms);
    begin(stream);
    return stream;
}

static bool show_end(const struct sockaddr_storage *end, char text[HF_STREAM_END_SIZE])
{
    char address[INET6_ADDRSTRLEN];
    const struct sockaddr_in *four = (const struct sockaddr_in *)end;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)end;
    if (end->ss_family == AF_INET && uv_ip4_name(four, address, sizeof address) == 0)
        snprintf(text, HF_STREAM_END_SIZE, "%s:%u", address, ntohs(four->sin_port));
    else if (end->ss_family == AF_INET6 && uv_ip6_name(six, address, sizeof address) == 0)
        snprintf(text, HF_STREAM_END_SIZE, "[%s]:%u", address, ntohs(six->sin6_port));
    else
        return false;
    return true;
}

bool hf__stream_ends(const struct hf_stream *stream, char ours[HF_STREAM_END_SIZE],
                     char theirs[HF_STREAM_END_SIZE])
{
    struct sockaddr_storage one = { 0 }, other = { 0 };
    int one_size = sizeof one, other_size = sizeof other;
    if (!stream->is_open || !stream->place.host)
        return false;
    return uv_tcp_getsockname(&stream->socket.tcp, (struct sockaddr *)&one, &one_size) == 0 &&
           uv_tcp_getpeername(&stream->socket.tcp, (struct sockaddr *)&other, &other_size) == 0 &&
           show_end(&one, ours) && show_end(&other, theirs);
}

void hf__stream_forked(struct hf_stream *stream)
{
    uv_os_fd_t fd;
    if (stream->has_socket && uv_fileno(&stream->socket.handle, &fd) == 0)
        close(fd);
}
