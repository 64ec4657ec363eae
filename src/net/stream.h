/* SPDX-License-Identifier: Apache-2.0 */
/* Byte streams over TCP, with TLS or without, and Unix sockets: bytes out, bytes in, and one word
 * when it is over. */
#ifndef HF_NET_STREAM_H
#define HF_NET_STREAM_H

#include "base/loop.h"

#include <stdbool.h>
#include <stddef.h>

struct uv_loop_s;
struct hf_stream;
struct hf_tls;
struct hf_lookup;

/* What a connection that comes back keeps from one stream to the next. Zero at first. */
struct hf_route {
    struct hf_lookup *lookups; /* of its hosts: still out, or answered and not used yet */
    unsigned first;            /* which of the host's addresses the next stream begins with */
};
/* After its last stream was closed. A look-up that is out ends by itself. */
void hf__route_end(struct hf_route *route);

/* What waits to be written may be so large; a peer that reads so slowly is given up. */
#define HF_STREAM_WRITE_MAX (64u << 20)

struct hf_stream_place {
    const char *host; /* a name or an address; or NULL */
    unsigned port;
    const char *path;       /* of a Unix socket, where `host` is NULL */
    int64_t limit_ms;       /* for finding the address and connecting; several addresses share it */
    struct hf_tls *tls;     /* NULL: without */
    struct hf_route *route; /* NULL: none; a host with several addresses begins at the first */
};

/* All run on the loop, never inside a call of the stream's. `arg` is the opener's. */
struct hf_stream_events {
    void (*opened)(void *arg);
    /* The bytes live until the function returns. It may close the stream. */
    void (*received)(void *arg, const char *bytes, size_t length);
    /* Once, and the last: it could not be opened, or has ended. The stream is gone. `code` is
     * HF_DENIED where the two sides do not trust each other, else HF_UNREACHABLE; `native` is an
     * errno, or 0; `why` is a few words that live until the function returns. */
    void (*broken)(void *arg, int code, int native, const char *why);
};

/* Begins to connect. What `place` points to lives as long as the stream. NULL: out of memory. */
struct hf_stream *hf__stream_open(struct uv_loop_s *uv, struct hf_loop *loop,
                                  const struct hf_stream_place *place,
                                  const struct hf_stream_events *events, void *arg);

/* Queues bytes (copied), which are written when this turn of the loop ends. Not before `opened`.
 * False: out of memory, or too much waits; nothing was queued. */
bool hf__stream_write(struct hf_stream *stream, const char *bytes, size_t length);

/* The same for bytes that are made in place: room for that many, or NULL; and how many they
 * were. */
char *hf__stream_room(struct hf_stream *stream, size_t length);
void hf__stream_wrote(struct hf_stream *stream, size_t length);

/* Ends it, with no word more. What was queued may or may not have been sent. */
void hf__stream_close(struct hf_stream *stream);

/* "ADDRESS:PORT", as of either end of an open stream; an IPv6 address in brackets. */
#define HF_STREAM_END_SIZE 64
/* False: it has none, as it is no TCP. */
bool hf__stream_ends(const struct hf_stream *stream, char ours[HF_STREAM_END_SIZE],
                     char theirs[HF_STREAM_END_SIZE]);

/* In a child after fork(): lets go of the parent's connection. */
void hf__stream_forked(struct hf_stream *stream);

#endif
