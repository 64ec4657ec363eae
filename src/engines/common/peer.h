/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to one of several addresses that comes back by itself: address, connect, handshake,
 * ready, failure, back-off, next address. It knows no protocol and no request.
 *
 *     DOWN --want--> FINDING --place--> CONNECTING --greet--> GREETING --hf__peer_ready--> READY
 *      ^                |                   |                    |                           |
 *      +---- pause <----+---- failed <------+--------------------+---------------------------+
 *
 * Thread: everything here, the callbacks included, runs on the loop of config.host.
 *
 * Lifetime: the engine embeds a struct hf_peer in zeroed memory and calls hf__peer_init once. What
 * the config points to lives as long as the peer. hf__peer_close ends it at any time, inside any
 * callback too; after that no callback runs, and the memory is the engine's to free.
 *
 * Requests: the engine has them. It sends while hf__peer_is_ready, keeps the others, and sends them
 * after hf__peer_ready. When `failed` runs, it completes what was sent without a reply; what still
 * waits may stay for the next connection. Silence: after each request that expects a reply the
 * engine calls hf__peer_await; `oldest` tells when the oldest one without a reply has left. */
#ifndef HF_ENGINES_COMMON_PEER_H
#define HF_ENGINES_COMMON_PEER_H

#include "core/engine.h"
#include "net/stream.h"

struct hf_peer;

enum hf_peer_state {
    HF_PEER_DOWN,       /* not needed, or in the pause after a failure */
    HF_PEER_FINDING,    /* `place` has answered false: the engine is looking for the address */
    HF_PEER_CONNECTING, /* looking up the name, connecting, the TLS handshake */
    HF_PEER_GREETING,   /* connected; the engine's own handshake */
    HF_PEER_READY       /* may carry requests */
};

/* One try to connect. */
struct hf_peer_try {
    /* Where to. `limit_ms` is for connecting; 0: seven eighths of the whole try, so that an address
     * without a server is reported as that. `route` is the peer's. */
    struct hf_stream_place place;
    /* From now until hf__peer_ready; 0: only connecting has a limit, and the silence of requests.
     * Preset to the peer's own choice: config.timeout_ms, or with several addresses a share of it,
     * so that one round over all addresses takes about 4 seconds at first. */
    int64_t limit_ms;
};

struct hf_peer_callbacks {
    /* Fills in where the next try goes: usually address number peer->place_at of the engine's list.
     * False: not known yet; the engine calls hf__peer_go later, or hf__peer_break. */
    bool (*place)(struct hf_peer *peer, struct hf_peer_try *ret);
    /* Connected. Writes the first message; ends with hf__peer_ready, now or later. */
    void (*greet)(struct hf_peer *peer);
    /* Bytes of the server, which live until this returns; never after hf__peer_break. An engine
     * that reads several messages from them looks at hf__peer_can_read before each. */
    void (*bytes)(struct hf_peer *peer, const char *bytes, size_t length);
    /* The connection, or the try, has failed: peer->why says why, `was` is the state before. The
     * peer is DOWN and its pause has begun. Runs once for each failure, last in its step and never
     * inside a call of the engine's. Forget half-read messages here, and complete what was sent.
     * Words may be added to peer->why.text. hf__peer_close, and freeing the peer after it, are
     * fine. */
    void (*failed)(struct hf_peer *peer, enum hf_peer_state was);
    /* Optional. A pause is over: is the connection still needed? Without it, the peer stays DOWN
     * until hf__peer_want. */
    bool (*needed)(struct hf_peer *peer);
    /* Optional. When the oldest request without a reply has left, on the loop's clock; HF_NEVER:
     * there is none. Without it, silence has no limit. */
    int64_t (*oldest)(struct hf_peer *peer);
    /* Optional, both: for a client library that has sockets of its own. `dial` begins to connect in
     * place of a stream; the engine calls hf__peer_connected later, and hf__peer_break when the
     * library has lost the connection. False: out of memory. `hang_up` ends what `dial` has begun;
     * it runs once for each, before `failed`. There is no peer->stream then, and no `bytes`. */
    bool (*dial)(struct hf_peer *peer, const struct hf_peer_try *attempt);
    void (*hang_up)(struct hf_peer *peer);
};

struct hf_peer_config {
    const struct hf_host *host;
    const struct hf_peer_callbacks *callbacks;
    const char *store;    /* "Redis": how sentences begin */
    const char *shown;    /* where it is, for sentences; the text may change later */
    unsigned place_count; /* addresses in the engine's list, at least 1 */
    int64_t timeout_ms;   /* the longest try, and the longest silence of a request */
};

/* The engine reads these. It writes `silence_ms`, and `place_at` before the first try. */
struct hf_peer {
    struct hf_peer_config config;
    enum hf_peer_state state;
    struct hf_stream *stream; /* for writing in place; NULL: none */
    unsigned place_at;        /* which address has its turn; moves on at each failure */
    unsigned failures;        /* in a row */
    unsigned openings;        /* how often it was ready */
    int64_t silence_ms;       /* a request without a reply for this time breaks the connection */
    hf_error why;             /* of the last failure; code HF_OK: there was none */
    bool cut;                 /* the last failure: the stream ended, not by a limit of ours */
    bool failing;             /* broken; `failed` follows */
    /* peer.c's own */
    bool closed, dialed;
    struct hf_stream_place place;
    struct hf_route route;
    struct hf_timer pause;   /* until the next try */
    struct hf_timer limit;   /* of the try; or a failure that `failed` is to be called for */
    struct hf_timer silence; /* of the oldest request */
};

void hf__peer_init(struct hf_peer *peer, const struct hf_peer_config *config);
/* Without a word to the server, and without `failed`. */
void hf__peer_close(struct hf_peer *peer);

/* Begins a try, unless the peer is open or pauses (`needed` is asked when the pause is over). */
void hf__peer_want(struct hf_peer *peer);
/* The next try does not wait for the end of the pause: something has to leave before a client
 * closes. */
void hf__peer_end_pause(struct hf_peer *peer);
/* After `place` has answered false: this is where it is. Only in the state FINDING. */
void hf__peer_go(struct hf_peer *peer, const struct hf_peer_try *attempt);
/* The library that `dial` has asked is connected: `greet` is called. Never inside `dial`. */
void hf__peer_connected(struct hf_peer *peer);
/* The handshake is complete. Ignored once the connection is broken. */
void hf__peer_ready(struct hf_peer *peer);
/* Ends the connection without a failure: the next try follows at once, without a pause, if `needed`
 * says so. `failed` is not called. */
void hf__peer_reconnect(struct hf_peer *peer);
/* Ends the connection, or the try, with a reason: "STORE at SHOWN: " and this. The first reason
 * stands. `failed` follows on the loop, after the caller has returned. May be called anywhere. */
__attribute__((format(printf, 4, 5))) void hf__peer_break(struct hf_peer *peer, int code,
                                                          int native, const char *format, ...);

static inline bool hf__peer_is_ready(const struct hf_peer *peer)
{
    return peer->state == HF_PEER_READY && !peer->failing;
}

/* Inside `bytes`: false once the connection was broken, or has ended, even if the next one is on
 * its way. */
static inline bool hf__peer_can_read(const struct hf_peer *peer)
{
    return (peer->state == HF_PEER_GREETING || peer->state == HF_PEER_READY) && !peer->failing;
}

/* Queues bytes, in GREETING and READY. False: out of memory; the connection is broken for it. */
bool hf__peer_write(struct hf_peer *peer, const char *bytes, size_t length);
/* A request that expects a reply has just been sent. */
void hf__peer_await(struct hf_peer *peer);

/* The last failure was that of the last address of the list: none of them can be had now. */
bool hf__peer_round_is_over(const struct hf_peer *peer);
/* For the engine's `why_silent`: explains replies that are missing, if the peer knows a reason. */
void hf__peer_why_silent(struct hf_peer *peer, hf_error **error);
/* For the engine's `forked`. */
void hf__peer_forked(struct hf_peer *peer);

#endif
