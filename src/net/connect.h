/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a stream: what connect.c does for stream.c, which moves the bytes. */
#ifndef HF_NET_CONNECT_H
#define HF_NET_CONNECT_H

#include "net/stream.h"

#include <uv.h>

struct hf_tls_session;

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
    struct hf_route *route, own_route; /* the opener's; or, without one, its own */
    struct hf_lookup *lookup;          /* NULL: it waits for none; in the route's list */
    uv_async_t looked_up;              /* open as long as there is a look-up */
    uv_connect_t connect;
    struct addrinfo *addresses, *next_address;
    unsigned address, next; /* which of them it is at, and which follows; the first is 0 */
    unsigned untried;       /* how many it has not been at */
    struct hf_timer share;  /* of `limit`, for one address of several */
    struct hf_timer limit;  /* for connecting; or a failure that is to be told */
    struct hf_timer full;   /* the socket's buffer is full: look again */
    struct hf_task flush;
    struct buffer out;
    struct hf_tls_session *session; /* with TLS, once connected */
    struct buffer sealed;           /* what goes to the wire of `out`, then */
    int failure;                    /* a libuv code */
    bool has_socket, is_connected, is_open, closed;
    unsigned requests; /* out at libuv, the socket's own closing included; and the opener's */
    void (*connected)(struct hf_stream *stream);
    char input[16384];
};

/* `then`: there is a connection. Else the stream's limit fires, with the failure. */
void hf__connect_begin(struct hf_stream *stream, void (*then)(struct hf_stream *stream));
/* Nothing of it goes on; a look-up stays with the route. */
void hf__connect_end(struct hf_stream *stream);
/* There is a socket. `closed` gives back the request that this counts. */
void hf__connect_close_socket(struct hf_stream *stream, uv_close_cb closed);
/* One of libuv's requests has come back, or the opener has closed the stream: the last frees it. */
void hf__connect_give_back(struct hf_stream *stream);

#endif
