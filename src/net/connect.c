/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a stream. Finds the host's addresses, and tries one after the other; or opens a
 * Unix socket. A stream frees itself when libuv has given back the last of its requests, a few
 * turns of the loop after it was closed. */
#include "net/connect.h"

#include "net/lookup.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Keeps a router between us and the store from forgetting a connection that is quiet. */
#define KEEPALIVE_SECONDS 20u

static void try_next_address(struct hf_stream *stream);

void hf__connect_give_back(struct hf_stream *stream)
{
    if (--stream->requests > 0)
        return;
    if (stream->addresses)
        freeaddrinfo(stream->addresses);
    free(stream->out.bytes);
    free(stream->sealed.bytes);
    hf__tls_session_free(stream->session);
    free(stream);
}

void hf__connect_close_socket(struct hf_stream *stream, uv_close_cb closed)
{
    /* The connection ends even if a child that was forked a moment ago has a copy of the
     * descriptor. To the server, it would be a client that lives and listens. */
    uv_os_fd_t fd;
    if (uv_fileno(&stream->socket.handle, &fd) == 0)
        shutdown(fd, SHUT_RDWR); /* mutant: connection-is-not-shut-down */
    stream->has_socket = stream->is_connected = stream->is_open = false;
    stream->requests++;
    uv_close(&stream->socket.handle, closed);
}

/* The opener hears of it in the loop's next turn, never inside its own call. */
static void fail_soon(struct hf_stream *stream, int failure)
{
    hf__timer_stop(stream->loop, &stream->share);
    stream->failure = failure;
    hf__timer_start(stream->loop, &stream->limit, hf__loop_now(stream->loop));
}

static void dropped_socket_closed(uv_handle_t *handle)
{
    struct hf_stream *stream = handle->data;
    if (!stream->closed)
        try_next_address(stream);
    hf__connect_give_back(stream);
}

/* A host may have several addresses, and the store listen on one of them. */
static void not_connected(struct hf_stream *stream, int status)
{
    hf__timer_stop(stream->loop, &stream->share);
    if (stream->untried && stream->has_socket)
        hf__connect_close_socket(stream, dropped_socket_closed);
    else
        fail_soon(stream, status);
}

/* Without this, one silent address would use up the time of all others. */
static void share_is_over(struct hf_timer *timer)
{
    struct hf_stream *stream = HF_CONTAINER(timer, struct hf_stream, share);
    if (stream->has_socket)
        hf__connect_close_socket(stream, dropped_socket_closed);
}

static void connected(uv_connect_t *request, int status)
{
    struct hf_stream *stream = request->data;
    /* Without a socket, it was dropped: the next address follows when the socket is closed. */
    if (!stream->closed && stream->has_socket && status == 0) {
        hf__timer_stop(stream->loop, &stream->share);
        stream->connected(stream);
    } else if (!stream->closed && stream->has_socket) {
        not_connected(stream, status);
    }
    hf__connect_give_back(stream);
}

static void connect_tcp(struct hf_stream *stream, const struct sockaddr *address)
{
    stream->loop->watches_more = true;
    int code = uv_tcp_init(stream->uv, &stream->socket.tcp);
    if (code == 0) {
        stream->has_socket = true;
        stream->socket.handle.data = stream;
        uv_tcp_nodelay(&stream->socket.tcp, 1);
        stream->connect.data = stream;
        code = uv_tcp_connect(&stream->connect, &stream->socket.tcp, address, connected);
    }
    if (code != 0) {
        not_connected(stream, code);
        return;
    }
    /* There is a socket by now; before, libuv would take a delay of its own choice. */
    uv_tcp_keepalive(&stream->socket.tcp, 1, KEEPALIVE_SECONDS);
    stream->requests++;
}

static void try_next_address(struct hf_stream *stream)
{
    const struct addrinfo *address = stream->next_address;
    int64_t now_ms = hf__loop_now(stream->loop);
    stream->address = stream->next;
    stream->next_address = address->ai_next ? address->ai_next : stream->addresses;
    stream->next = address->ai_next ? stream->address + 1 : 0;
    /* Until this server has said something, the route's next stream begins with the one after. */
    stream->route->first = stream->next; /* mutant: connection-forgets */
    if (--stream->untried > 0) {
        int64_t share_ms = (stream->limit.at_ms - now_ms) / (stream->untried + 1);
        /* mutant: silent-address-has-all-time */
        hf__timer_start(stream->loop, &stream->share, now_ms + share_ms);
    }
    connect_tcp(stream, address->ai_addr);
}

static void listener_closed(uv_handle_t *handle)
{
    hf__connect_give_back(handle->data);
}

static void stop_listening(struct hf_stream *stream)
{
    stream->lookup = NULL;
    uv_close((uv_handle_t *)&stream->looked_up, listener_closed);
}

static void looked_up(uv_async_t *handle)
{
    struct hf_stream *stream = handle->data;
    int status = hf__lookup_take(&stream->route->lookups, stream->lookup, &stream->addresses);
    stop_listening(stream);
    if (status != 0) {
        fail_soon(stream, status);
        return;
    }
    for (const struct addrinfo *at = stream->addresses; at; at = at->ai_next)
        stream->untried++;
    stream->next = stream->route->first % stream->untried;
    stream->next_address = stream->addresses;
    for (unsigned i = 0; i < stream->next; i++)
        stream->next_address = stream->next_address->ai_next;
    try_next_address(stream);
}

static void look_up(struct hf_stream *stream)
{
    const struct hf_stream_place *place = &stream->place;
    struct hf_lookup *lookup;
    int code = hf__lookup_begin(&stream->route->lookups, place->host, place->port, &lookup);
    if (code == 0)
        code = uv_async_init(stream->uv, &stream->looked_up, looked_up);
    if (code != 0) {
        fail_soon(stream, code);
        return;
    }
    stream->loop->watches_more = true;
    stream->looked_up.data = stream;
    stream->requests++;
    stream->lookup = lookup;
    hf__lookup_listen(lookup, &stream->looked_up);
}

static void connect_path(struct hf_stream *stream)
{
    stream->loop->watches_more = true;
    int code = uv_pipe_init(stream->uv, &stream->socket.pipe, 0);
    if (code != 0) {
        fail_soon(stream, code);
        return;
    }
    stream->has_socket = true;
    stream->socket.handle.data = stream;
    stream->connect.data = stream;
    stream->requests++;
    uv_pipe_connect(&stream->connect, &stream->socket.pipe, stream->place.path, connected);
}

/* An address that is written in digits needs no look-up, and no thread for it. */
void hf__connect_begin(struct hf_stream *stream, void (*then)(struct hf_stream *stream))
{
    stream->connected = then;
    hf__timer_init(&stream->share, share_is_over);
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

void hf__connect_end(struct hf_stream *stream)
{
    hf__timer_stop(stream->loop, &stream->share);
    if (stream->lookup) {
        hf__lookup_listen(stream->lookup, NULL);
        stop_listening(stream);
    }
    hf__route_end(&stream->own_route);
}

void hf__route_end(struct hf_route *route)
{
    hf__lookups_drop(&route->lookups);
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
