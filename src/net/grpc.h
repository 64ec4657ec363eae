/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of gRPC over one HTTP/2 connection, unary and streaming, without a socket: the owner of the
 * connection moves the bytes. */
#ifndef HF_NET_GRPC_H
#define HF_NET_GRPC_H

#include "net/h2.h"

#include "base/loop.h"

/* Bytes of one message from a peer. */
#define HF_GRPC_MESSAGE_MAX (8u << 20)

/* The numbers of gRPC. Names of all that a lock may meet. */
enum hf_grpc_status {
    HF_GRPC_OK = 0,
    HF_GRPC_CANCELLED = 1,
    HF_GRPC_UNKNOWN = 2,
    HF_GRPC_INVALID_ARGUMENT = 3,
    HF_GRPC_DEADLINE_EXCEEDED = 4,
    HF_GRPC_NOT_FOUND = 5,
    HF_GRPC_PERMISSION_DENIED = 7,
    HF_GRPC_RESOURCE_EXHAUSTED = 8,
    HF_GRPC_FAILED_PRECONDITION = 9,
    HF_GRPC_OUT_OF_RANGE = 11,
    HF_GRPC_UNIMPLEMENTED = 12,
    HF_GRPC_INTERNAL = 13,
    HF_GRPC_UNAVAILABLE = 14,
    HF_GRPC_DATA_LOSS = 15,
    HF_GRPC_UNAUTHENTICATED = 16
};

struct hf_grpc;
struct hf_grpc_call;

/* Run inside hf__grpc_feed, hf__grpc_take, hf__grpc_fail, or a timer. They may begin and cancel
 * calls, but not free the channel. */
struct hf_grpc_events {
    /* The bytes live until the function returns. */
    void (*message)(struct hf_grpc_call *call, const uint8_t *bytes, size_t length);
    /* Once, and the last: call->status and call->text say how. The call's memory is its owner's
     * again. A unary call that ends with HF_GRPC_OK has had one message. */
    void (*ended)(struct hf_grpc_call *call);
};

/* One call. The owner's memory; zero at first. It keeps its buffers until hf__grpc_call_free. */
struct hf_grpc_call {
    struct hf_h2_stream stream;
    struct hf_grpc *channel; /* NULL: it is over, or has not begun */
    const struct hf_grpc_events *events;
    bool streaming;
    /* How it has ended. */
    int status;     /* a hf_grpc_status, or a number that the peer has made up */
    bool heard;     /* false: the peer surely has not processed it */
    bool answered;  /* the status is the peer's word, not ours */
    bool timed_out; /* the limit is over */
    bool by_http;   /* a server of HTTP has passed it on, which shares the port */
    char text[200]; /* the peer's or our words, or "" */
    /* channel's own */
    struct hf_timer limit;
    unsigned http_status;
    bool has_status, is_other_type; /* than gRPC's */
    uint8_t head[5];                /* of the next message */
    unsigned head_length;
    uint32_t expected;
    uint8_t *message;
    size_t length, room;
    unsigned messages;
};

struct hf_grpc {
    struct hf_loop *loop;
    struct hf_h2 *h2;
    void (*has_bytes)(void *arg); /* there may be bytes to take */
    void (*draining)(void *arg);  /* the peer takes no new calls */
    void *arg;
    unsigned calls; /* that are open */
    char authority[280];
    const char *token; /* sent with each call as `token`, or NULL */
    bool tls;
};

/* Begins a connection to `authority`, as in "host:port". False: out of memory. */
bool hf__grpc_open(struct hf_grpc *grpc, const char *authority);
/* Ends it. Calls that are open do not hear of it: see hf__grpc_call_drop. */
void hf__grpc_close(struct hf_grpc *grpc);
bool hf__grpc_feed(struct hf_grpc *grpc, const char *bytes, size_t length);
long hf__grpc_take(struct hf_grpc *grpc, const uint8_t **bytes);
bool hf__grpc_is_open(const struct hf_grpc *grpc);

/* Begins a call to "/service/method". `limit_ms` 0: none. `metadata` may be NULL. False: out of
 * memory, or the channel takes no calls; then there is no end either. */
bool hf__grpc_begin(struct hf_grpc *grpc, struct hf_grpc_call *call, const char *path,
                    int64_t limit_ms, const struct hf_h2_header *metadata);
/* One message; `last`: no other follows. False: out of memory, or too much waits. */
bool hf__grpc_send(struct hf_grpc_call *call, const uint8_t *bytes, size_t length, bool last);
/* Ends it from our side: it has no `ended`. */
void hf__grpc_cancel(struct hf_grpc_call *call);
/* After its connection was closed, or is about to be: as hf__grpc_cancel, with no word to the peer.
 */
void hf__grpc_call_drop(struct hf_grpc_call *call);
void hf__grpc_call_free(struct hf_grpc_call *call);

#endif
