/* Gets a stream its connection: finds the host's addresses, and tries one after the other; or opens
 * a Unix socket. */
#include "net/connect.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>

/* Keeps a router between us and the store from forgetting a connection that is quiet. */
#define KEEPALIVE_SECONDS 20u

static void try_next_address(struct hf_stream *stream);

static void refused_socket_closed(uv_handle_t *handle)
{
    struct hf_stream *stream = handle->data;
    stream->requests--;
    if (stream->closed)
        hf__stream_let_go(stream);
    else
        try_next_address(stream);
}

/* A host may have several addresses, and the store listen on one of them. */
static void not_connected(struct hf_stream *stream, int status)
{
    if (!stream->next_address || !stream->has_socket) {
        hf__stream_break_soon(stream, status);
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
        hf__stream_let_go(stream);
    else if (status == 0)
        hf__stream_connected(stream);
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
        hf__stream_let_go(stream);
    else if (status != 0)
        hf__stream_break_off(stream, status);
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
        hf__stream_break_soon(stream, code);
}

static void connect_path(struct hf_stream *stream)
{
    stream->loop->watches_more = true;
    int code = uv_pipe_init(stream->uv, &stream->socket.pipe, 0);
    if (code != 0) {
        hf__stream_break_soon(stream, code);
        return;
    }
    stream->has_socket = true;
    stream->socket.handle.data = stream;
    stream->connect.data = stream;
    stream->requests++;
    uv_pipe_connect(&stream->connect, &stream->socket.pipe, stream->place.path, connected);
}

/* An address that is written in digits needs no resolver, and no thread of libuv's. */
void hf__connect_begin(struct hf_stream *stream)
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

/* ---- both ends ---- */

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
