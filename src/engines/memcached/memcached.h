/* SPDX-License-Identifier: Apache-2.0 */
/* The engine `memcached:`: what its files share. docs/engines/memcached.md has the format. */
#ifndef HF_ENGINES_MEMCACHED_MEMCACHED_H
#define HF_ENGINES_MEMCACHED_MEMCACHED_H

#include "clock.h"
#include "codec.h"
#include "core/engine.h"
#include "engines/common/endpoints.h"
#include "engines/common/peer.h"
#include "engines/common/pipeline.h"
#include "engines/common/poll.h"
#include "format.h"

#define MC_USER_MAX 400
/* The shortest lease: the server counts whole seconds. The longest one is MC_LEASE_MAX_MS. */
#define MC_LEASE_MIN_MS 1000
#define MC_LEASE_RULE                                                                              \
    "memcached counts whole seconds, 30 days at most: a lease has from 1000 ms to 2591997000 ms"
/* Replies to one packet. */
#define MC_REPLIES_MAX 4
/* How often one question is asked again, because the item changed between two of its packets, or
 * the server's clock was behind. */
#define MC_REPEATS_MAX 24

/* What is shown of a list of servers. */
#define MC_LIST_SHOWN 100

struct mc_settings {
    int64_t timeout_ms;
    uint32_t format_name; /* enum mc_format_name */
    const struct mc_format *format;
    struct hf_endpoints endpoints;
};

struct memcached;
struct mc_server;
struct mc_request;

typedef void mc_send(struct mc_server *server, struct mc_request *request);
typedef void mc_answered(struct mc_server *server, struct mc_request *request, bool heard);

/* One packet of commands, and their replies. */
struct mc_request {
    struct hf_pipeline_item item;
    /* What it is about: one of them. An op that has left is NULL. */
    struct hf_op *op;
    struct hf_oneshot *oneshot;
    /* Writes the commands. */
    mc_send *send;
    /* All replies are there; or `heard` is false: there will be none. Frees the request, or asks
     * again. */
    mc_answered *answered;
    /* Optional, for `stats` and `metadump`: each line, before MC_END, which counts as the reply. */
    void (*line)(struct mc_server *server, struct mc_request *request,
                 const struct mc_reply *reply);
    uint64_t cas;   /* of the item that the packet is about */
    uint64_t epoch; /* the connection that it comes from */
    int64_t ttl;    /* in seconds: what the item gets */
    uint64_t token; /* of an item that was found; 0: none was */
    unsigned repeats;
    bool by_touch;       /* a renewal: the server had no memory for the value */
    enum hf_asked asked; /* about an op */
    char key[MC_KEY_MAX + 1];
    unsigned expected, got;
    unsigned kinds[MC_REPLIES_MAX]; /* that each of the replies can have: see hf__mc_expect */
    struct mc_reply replies[MC_REPLIES_MAX];
};

/* Bytes of a connection that are no whole reply yet. */
struct mc_input {
    char *bytes;
    size_t length, room;
};

/* What `stats` and `stats settings` have said at the handshake. */
struct mc_facts {
    int64_t time_s, uptime_s;
    bool cas_enabled;
    bool said_anything; /* in `stats` */
    char version[32];
    char other_list[MC_LIST_SHOWN + 1]; /* the servers of a client that has others; "": of none */
};

struct mc_server {
    struct memcached *mc;
    struct hf_peer peer;
    struct hf_pipeline pipeline;
    struct mc_input input;
    struct mc_request *writing; /* the one whose `send` runs */
    struct mc_clock clock;
    struct mc_facts facts;
    struct hf_link unbelieved;   /* requests that wait for the clock to count on */
    struct hf_timer clock_timer; /* they are sent again, or the next reading of a handshake is */
    bool reads_clock;
    bool list_is_missing; /* among those at the server; it is for clients that take locks */
    bool ended_at_stats;  /* the last connection ended behind `version`, before a line of `stats` */
    uint64_t token_base;  /* when the process began, in microseconds */
    char shown[280];
};

/* op->engine.word[0]: the claim's number, from 1 on, and above it the connection that the CAS id
 * comes from. op->engine.word[1]: the item's CAS id, 0 where it is not sure, and this flag. */
enum { MC_RENEWING = 1u };
#define MC_CAS_SHIFT 1
#define MC_CLAIM_BITS 40
/* op->engine.pointer: how often in a row the op was refused. */

/* A name that this client has released while another one waited for it; and one that was granted to
 * it by a packet that left a mark, which is no other client's. */
struct mc_courtesy {
    uint64_t name_hash, marked_hash;
    int64_t until_ms;
};
#define MC_COURTESIES 64
/* The longest pause between two attempts of a waiter, and for how long a client that has released
 * the lock lets it go first. */
#define MC_COURTESY_MS 8

struct memcached {
    struct hf_engine base;
    struct mc_settings settings;
    struct hf_free_list requests;
    uint64_t claims;
    struct mc_courtesy courtesies[MC_COURTESIES]; /* by the hash of the name */
    struct hf_hand_overs hand_overs;
    unsigned server_count;
    struct mc_server servers[];
};

static inline int64_t hf__mc_now(const struct memcached *mc)
{
    return hf__loop_now(mc->base.host->loop);
}

/* A server that was started anew counts its CAS ids from 1 again. One of an earlier connection may
 * be that of another owner's item by now: it is looked at first, and known by its value. */
static inline uint64_t hf__mc_epoch(const struct mc_server *server)
{
    return server->peer.openings & ((UINT64_C(1) << (64 - MC_CLAIM_BITS)) - 1);
}

static inline uint64_t hf__mc_op_claim(const struct hf_op *op)
{
    return op->engine.word[0] & ((UINT64_C(1) << MC_CLAIM_BITS) - 1);
}

static inline uint64_t hf__mc_op_cas(const struct hf_op *op)
{
    return op->engine.word[1] >> MC_CAS_SHIFT;
}

/* The owner key of the op's claim. */
static inline void hf__mc_write_owner(const struct memcached *mc, const struct hf_op *op,
                                      char owner[HF_OWNER_KEY_SIZE])
{
    mc->settings.format->write_owner(owner, mc->base.host->id, hf__mc_op_claim(op));
}

_Static_assert(MC_LEASE_MIN_MS == 1000 && MC_LEASE_MAX_MS == 2591997000, "MC_LEASE_RULE");

/* False: no item can be kept for it. MC_LEASE_RULE says so. */
static inline bool hf__mc_lease_fits(int64_t lease_ms)
{
    return lease_ms >= MC_LEASE_MIN_MS && lease_ms <= MC_LEASE_MAX_MS;
}

/* An item without a sure id is looked at before it is released. */
static inline void hf__mc_op_set_cas(const struct mc_server *server, struct hf_op *op, uint64_t cas)
{
    op->engine.word[0] = hf__mc_op_claim(op) | hf__mc_epoch(server) << MC_CLAIM_BITS;
    op->engine.word[1] = cas << MC_CAS_SHIFT | (op->engine.word[1] & MC_RENEWING);
}

/* ---- url.c ---- */

int hf__mc_settings(struct mc_settings *settings, struct hf_url *url, hf_error *error);

/* ---- server.c: one server's connection ---- */

void hf__mc_server_open(struct mc_server *server, struct memcached *mc, unsigned place);
void hf__mc_server_close(struct mc_server *server);
/* The server that decides a name: of several the one whose hash with the name is largest. */
struct mc_server *hf__mc_server_of(struct memcached *mc, const char *name, size_t length);
/* Nothing that is out may touch the op any more. */
void hf__mc_forget_renewals(struct memcached *mc, struct hf_op *op);

/* ---- request.c ---- */

/* NULL: out of memory. */
struct mc_request *hf__mc_request_new(struct memcached *mc);
void hf__mc_request_free(struct memcached *mc, struct mc_request *request);
/* Sends it now, or when there is a connection. */
void hf__mc_ask(struct mc_server *server, struct mc_request *request);

/* Writes the request's packet, and counts the replies that it has. */
void hf__mc_send(struct mc_server *server, struct mc_request *request);
/* In `send`: one command or several, each with its line's end. */
__attribute__((format(printf, 2, 3))) void hf__mc_write(struct mc_server *server,
                                                        const char *format, ...);
/* Reads the server's clock, in the same packet as what follows: a reply of its own. */
void hf__mc_write_clock(struct mc_server *server);

/* The clock's reading in the first reply; and whether what stands behind it in the packet was
 * stored by a right clock. */
bool hf__mc_clock_was_right(struct mc_server *server, const struct mc_request *request);

/* False: the item has no CAS id, by which alone it is released safely: *error says so. */
bool hf__mc_has_id(const struct mc_server *server, const struct mc_reply *item, hf_error **error);
/* Why there is no reply: a code, with words in *error. */
int hf__mc_explain_silence(struct mc_server *server, hf_error **error);
/* Notes the CAS id of an item; and whether it still says something about it. */
void hf__mc_note_cas(const struct mc_server *server, struct mc_request *request, uint64_t cas);
bool hf__mc_cas_is_known(const struct mc_server *server, const struct mc_request *request);
/* The same of an op's item. */
void hf__mc_use_cas_of(struct mc_request *request, const struct hf_op *op);
/* Ends the connection: a reply is none that its command can have. */
void hf__mc_break(struct mc_server *server, const struct mc_reply *reply);

/* ---- handshake.c ---- */

/* Our identity, what the server is, and its clock; ends with hf__peer_ready. */
void hf__mc_greet(struct mc_server *server);
/* Reads the clock until it is set, then sends what waits for it. */
void hf__mc_read_clock(struct mc_server *server);
void hf__mc_clock_timer_fired(struct hf_timer *timer);
/* Sends it a moment later, as the server's clock was behind. */
void hf__mc_ask_by_right_clock(struct mc_server *server, struct mc_request *request);

/* ---- server_list.c: a request of the handshake, and of the first claim behind it ---- */

void hf__mc_list_send(struct mc_server *server, struct mc_request *request);
void hf__mc_list_answered(struct mc_server *server, struct mc_request *request, bool heard);
/* A claim is about to be asked for. */
void hf__mc_list_claims(struct mc_server *server);

/* ---- lock.c: the life of a claim ---- */

bool hf__mc_is_ours(const struct memcached *mc, const struct hf_op *op,
                    const struct mc_reply *item);
/* The clock, a command that gives the item of an op request->ttl, and the item. Where its CAS id is
 * not known, a look in place of the command. */
mc_send hf__mc_send_renewal;
/* It was not renewed, and is asked for again. False: often enough. */
bool hf__mc_renew_again(struct mc_server *server, struct mc_request *request, bool right);

/* ---- courtesy.c ---- */

/* In `send`: a waiter marks the name; a release looks for the mark, and removes it. Each has one
 * reply. */
void hf__mc_write_mark(struct mc_server *server, const char *key);
void hf__mc_write_unmark(struct mc_server *server, const char *key);
/* An attempt that has left a mark was granted. */
void hf__mc_note_own_mark(struct memcached *mc, const struct hf_op *op);
/* The reply to the removal, behind a release that has been executed. */
void hf__mc_note_mark(struct memcached *mc, struct hf_op *op, const struct mc_reply *reply);
/* When an op that was refused asks again. `soon`: the item that is in the way ends at the end of a
 * second of the server's. */
int64_t hf__mc_poll_at_ms(const struct memcached *mc, struct hf_op *op, bool soon);
/* Until when this client lets others have the name first; 0: it need not. Asked once. */
int64_t hf__mc_courtesy_until(struct memcached *mc, const struct hf_op *op);

/* ---- the slots ---- */

void hf__mc_attempt(struct hf_engine *engine, struct hf_op *op);
void hf__mc_release(struct hf_engine *engine, struct hf_op *op);
void hf__mc_renew(struct hf_engine *engine, struct hf_lease *lease);
bool hf__mc_compact(struct hf_engine *engine, struct hf_op *op);
void hf__mc_detach(struct hf_engine *engine, struct hf_oneshot *oneshot);
void hf__mc_change(struct memcached *mc, struct hf_oneshot *oneshot);
void hf__mc_inspect(struct memcached *mc, struct hf_oneshot *oneshot);
/* Shows one lock, as its item is. */
void hf__mc_show(const struct mc_server *server, struct hf_oneshot *oneshot, const char *name,
                 size_t length, const struct mc_reply *item);
/* All locks of all servers. */
void hf__mc_list(struct memcached *mc, struct hf_oneshot *oneshot);
void hf__mc_diagnose(struct memcached *mc, struct hf_oneshot *oneshot);
/* About the lock of a one-shot. NULL: its code says why. */
struct mc_request *hf__mc_oneshot_request(struct memcached *mc, struct hf_oneshot *oneshot);
/* Ends a request about a one-shot. */
void hf__mc_oneshot_ends(struct mc_server *server, struct mc_request *request, int code);

extern const struct hf_engine_ops hf__memcached;

#endif
