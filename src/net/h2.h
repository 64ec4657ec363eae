/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 as a client speaks it, as a codec: requests become bytes for the wire, bytes from the wire
 * become replies. There is no socket in it and no clock. Everything that a peer can send has a
 * limit; a peer that exceeds one loses its stream, or the connection. */
#ifndef HF_NET_H2_H
#define HF_NET_H2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_h2;
struct hf_h2_stream;

/* Bytes of the names and values of one stream's headers and trailers together. */
#define HF_H2_HEADERS_MAX (16u << 10)
/* Bytes of one stream that wait for the peer's permission to be sent. */
#define HF_H2_OUT_MAX (1u << 20)

/* Why a stream has ended: the numbers of RFC 9113. */
enum hf_h2_error {
    HF_H2_NO_ERROR = 0,
    HF_H2_PROTOCOL_ERROR = 1,
    HF_H2_INTERNAL_ERROR = 2,
    HF_H2_REFUSED = 7, /* surely not processed */
    HF_H2_CANCEL = 8
};

/* All run inside hf__h2_feed or hf__h2_take. They may begin and cancel streams, but not free the
 * connection. */
struct hf_h2_events {
    void (*header)(struct hf_h2_stream *stream, const char *name, size_t name_length,
                   const char *value, size_t value_length);
    void (*data)(struct hf_h2_stream *stream, const uint8_t *bytes, size_t length);
    /* Once, and the last, also for streams that the end of the connection ends. */
    void (*closed)(struct hf_h2_stream *stream, uint32_t error);
};

/* One request and its reply. The owner's memory; zero at first, and again usable once it has
 * closed, with the buffer that it has. */
struct hf_h2_stream {
    const struct hf_h2_events *events;
    struct hf_h2 *h2; /* NULL: it is not open */
    int32_t id;
    bool last;     /* nothing follows what waits */
    bool deferred; /* there was nothing to send */
    size_t headers;
    uint8_t *out;
    size_t begun, length, room;
};

struct hf_h2_header {
    const char *name, *value;
};

/* A connection, whose first bytes wait to be taken. `draining` is told that the peer takes no new
 * request on it. NULL: out of memory. */
struct hf_h2 *hf__h2_new(void (*draining)(void *arg), void *arg);
/* Streams that are open do not hear of it. */
void hf__h2_free(struct hf_h2 *h2);

/* Bytes from the wire. False: the connection cannot go on; see hf__h2_why. */
bool hf__h2_feed(struct hf_h2 *h2, const char *bytes, size_t length);
/* Bytes for the wire, which live until the next call: how many, 0 if there are none for now. -1:
 * the connection cannot go on. */
long hf__h2_take(struct hf_h2 *h2, const uint8_t **bytes);
/* A few words on what has ended it. */
const char *hf__h2_why(const struct hf_h2 *h2);

/* How many requests the peer serves at a time; others wait here. */
uint32_t hf__h2_streams_max(const struct hf_h2 *h2);
/* Does the peer take new requests? */
bool hf__h2_is_open(const struct hf_h2 *h2);
/* Begins a request, whose body follows by hf__h2_write. False: out of memory, or not open. */
bool hf__h2_begin(struct hf_h2 *h2, struct hf_h2_stream *stream, const struct hf_h2_header *headers,
                  size_t count);
/* A piece of the body, `last`: the end of it. False: out of memory, or too much waits. */
bool hf__h2_write(struct hf_h2_stream *stream, const uint8_t *bytes, size_t length, bool last);
/* Ends it from our side, with nothing more to hear. */
void hf__h2_cancel(struct hf_h2_stream *stream, uint32_t error);
/* Frees what a stream that is not open has. */
void hf__h2_stream_free(struct hf_h2_stream *stream);

#endif
