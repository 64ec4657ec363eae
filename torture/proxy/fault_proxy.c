/* SPDX-License-Identifier: Apache-2.0 */
/* The relay: takes the clients' connections, makes one to the store for each, and carries bytes
 * both ways, or does not. */
#include "torture/proxy/fault_proxy.h"

#include "torture/driver.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A fault is seen to begin or to end within a tick; a drop falls at each. */
enum { PAIRS = 256, BUFFER = 1 << 14, TICK_MS = 10, TO_BE_TAKEN = 2 };
/* Whose end: the client's, the store's. Bytes of a flow come from the end of the same number. */
enum { CLIENT, STORE, ENDS };

struct flow {
    char bytes[BUFFER];
    size_t begun, length;
    bool ended; /* its source has nothing more to say */
    bool closed;
};

struct pair {
    int fds[ENDS]; /* fds[CLIENT] < 0: free */
    bool connecting;
    bool asked;   /* a question went through since answers are thrown away */
    bool is_next; /* the next reply is to be replaced by an error; on HTTP/2, that of `stream` */
    bool is_last; /* it has been: what was written is read before the connection ends */
    uint32_t client, stream;
    struct flow flows[ENDS];
};

struct relay {
    struct torture_shared *arena;
    const struct torture_network *network; /* NULL: there is one side only */
    struct pair *pairs;
    struct pollfd polls[TORTURE_LISTENERS + 2 * PAIRS];
    enum torture_wire wires[TORTURE_CLIENTS_MAX]; /* one picture for a whole turn */
    bool tick;                                    /* a drop may fall */
};

static struct torture_seat *seat_of(const struct relay *relay, const struct pair *pair)
{
    return &relay->arena->seats[pair->client];
}

static enum torture_wire wire_of(const struct relay *relay, const struct pair *pair)
{
    return relay->wires[pair->client]; /* mutant: what-befalls-one-client */
}

static void look_at_wires(struct relay *relay)
{
    for (unsigned i = 0; i < TORTURE_CLIENTS_MAX; i++)
        relay->wires[i] = (enum torture_wire)atomic_load(&relay->arena->seats[i].wire);
}

static void bite(const struct relay *relay, const struct pair *pair)
{
    atomic_fetch_add(&seat_of(relay, pair)->wire_hits, 1);
}

/* With a reset, where there is such a thing. */
static void cut(struct pair *pair)
{
    const struct linger at_once = { .l_onoff = 1 };

    if (!pair->is_last)
        setsockopt(pair->fds[CLIENT], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    for (unsigned end = 0; end < ENDS; end++)
        if (pair->fds[end] >= 0)
            close(pair->fds[end]);
    pair->fds[CLIENT] = pair->fds[STORE] = -1;
}

/* ---- a new connection ---- */

static bool take_line(const struct relay *relay, unsigned side, uint64_t from,
                      struct torture_line *ret)
{
    for (unsigned i = 0; i < TORTURE_LINES; i++) {
        struct torture_line *line = &relay->arena->relay.lines[i];
        if (atomic_load(&line->state) != TO_BE_TAKEN || line->from != from || line->side != side)
            continue;
        ret->client = line->client;
        ret->side = side;
        ret->to_length = line->to_length;
        ret->to = line->to;
        atomic_store(&line->state, 0);
        return true;
    }
    return false;
}

void torture_fault_proxy_forget(struct torture_fault_proxy *relay, uint32_t client)
{
    for (unsigned i = 0; i < TORTURE_LINES; i++)
        if (relay->lines[i].client == client)
            atomic_store(&relay->lines[i].state, 0);
}

static bool connect_pair(const struct relay *relay, struct pair *pair,
                         const struct torture_line *line)
{
    const int yes = 1;
    int fd = -1;

    /* A socket stays on the side where it was made. */
    if (!relay->network || torture_network_take_side(relay->network, line->side))
        fd = socket(line->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    pair->fds[STORE] = fd;
    for (unsigned end = 0; end < ENDS && line->to.ss_family != AF_UNIX; end++)
        setsockopt(pair->fds[end], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    pair->connecting = true;
    return connect(fd, (const struct sockaddr *)&line->to, line->to_length) == 0 ||
           errno == EINPROGRESS || errno == EAGAIN;
}

static void take_connection(const struct relay *relay, int listener, unsigned side)
{
    struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
    socklen_t length = sizeof peer;
    struct torture_line line;
    struct pair *pair = NULL;
    int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return;
    /* mutant: owner-finds-no-place-in-relay */
    bool known = take_line(relay, side, torture_end_name(&peer, length), &line);
    for (unsigned i = 0; i < PAIRS && !pair; i++)
        if (relay->pairs[i].fds[CLIENT] < 0)
            pair = &relay->pairs[i];
    if (!known || !pair) {
        close(fd);
        return;
    }
    *pair = (struct pair){ .fds = { fd, -1 }, .client = line.client };
    if (!connect_pair(relay, pair, &line))
        cut(pair);
}

/* ---- bytes ---- */

static bool throws_away(const struct relay *relay, struct pair *pair, unsigned from)
{
    if (wire_of(relay, pair) != TORTURE_WIRE_DROP_REPLIES) {
        pair->asked = false;
        return false;
    }
    pair->asked = pair->asked || from == CLIENT;
    if (from == STORE && pair->asked)
        bite(relay, pair);
    return from == STORE; /* mutant: answers-pass-where-they */
}

/* Once for each fault: the first request about a lock of the run. */
static void look_for_request(const struct relay *relay, struct pair *pair, const struct flow *flow)
{
    struct torture_fault_proxy *shared = &relay->arena->relay;
    bool wanted = wire_of(relay, pair) == TORTURE_WIRE_ERROR;

    if (shared->protocol == TORTURE_UNKNOWN_PROTOCOL ||
        (!wanted && atomic_load(&shared->reads_names)))
        return;
    uint32_t stream;
    bool found = torture_error_finds_request(shared, flow->bytes, flow->length, &stream);
    if (found)
        atomic_store(&shared->reads_names, true);
    if (found && wanted && !pair->is_next) {
        pair->is_next = true;
        pair->stream = stream;
    }
}

/* The error is the last that comes on this connection. */
static void replace_reply(const struct relay *relay, struct pair *pair, struct flow *flow)
{
    uint32_t error = TORTURE_WIRE_ERROR;

    uint32_t errors = atomic_load(&relay->arena->relay.errors);
    if (!torture_error_replaces_reply(&relay->arena->relay, pair->stream, errors, flow->bytes,
                                      sizeof flow->bytes, &flow->length))
        return;
    atomic_fetch_add(&seat_of(relay, pair)->errors, 1);
    atomic_fetch_add(&relay->arena->relay.errors, 1);
    bite(relay, pair);
    atomic_compare_exchange_strong(&seat_of(relay, pair)->wire, &error, TORTURE_WIRE_FINE);
    pair->is_next = false;
    pair->is_last = flow->length > 0;
    flow->ended = pair->flows[CLIENT].ended = true;
}

static bool read_some(const struct relay *relay, struct pair *pair, unsigned from)
{
    struct flow *flow = &pair->flows[from];
    ssize_t count = recv(pair->fds[from], flow->bytes, sizeof flow->bytes, 0);

    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    flow->ended = count == 0;
    if (count == 0 || throws_away(relay, pair, from))
        return true;
    flow->begun = 0;
    flow->length = (size_t)count;
    pair->is_next = pair->is_next && wire_of(relay, pair) == TORTURE_WIRE_ERROR;
    if (from == CLIENT)
        look_for_request(relay, pair, flow);
    else if (pair->is_next)
        replace_reply(relay, pair, flow);
    return true;
}

static bool write_some(const struct relay *relay, struct pair *pair, unsigned from)
{
    struct flow *flow = &pair->flows[from];
    bool drips = wire_of(relay, pair) == TORTURE_WIRE_TRICKLE;
    size_t length = flow->length - flow->begun;
    ssize_t count;

    if (drips && !relay->tick)
        return true;
    /* mutant: drops-fall-without-pause */
    count = send(pair->fds[1 - from], flow->bytes + flow->begun, drips ? 1 : length, MSG_NOSIGNAL);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    flow->begun += (size_t)count;
    if (drips && flow->begun < flow->length)
        bite(relay, pair);
    return true;
}

/* False: the pair is at its end. */
static bool carry(const struct relay *relay, struct pair *pair, unsigned from, short events)
{
    struct flow *flow = &pair->flows[from];

    if (flow->begun == flow->length && !flow->ended && events & (POLLIN | POLLHUP | POLLERR) &&
        !read_some(relay, pair, from))
        return false;
    if (flow->begun < flow->length && !write_some(relay, pair, from))
        return false;
    if (flow->ended && flow->begun == flow->length && !flow->closed) {
        flow->closed = true;
        shutdown(pair->fds[1 - from], SHUT_WR);
    }
    return true;
}

/* ---- a turn ---- */

static short wanted(const struct pair *pair, unsigned end, bool hole)
{
    const struct flow *in = &pair->flows[end], *out = &pair->flows[1 - end];
    short events = 0;

    /* A client that has given up is noticed: a server that is cut off may not answer for long. */
    if (pair->connecting && !hole)
        return end == STORE ? POLLOUT : POLLRDHUP; /* mutant: owner-gives-up-connecting */
    if (pair->connecting)
        return 0;
    if (in->begun == in->length && !in->ended)
        events |= POLLIN;
    if (out->begun < out->length && !hole)
        events |= POLLOUT;
    return events;
}

/* In a hole nothing is read, but a side that has something to say is a hit. It is looked for at
 * each tick only, as it would be seen all the time. Nor do drops need to be waited for. */
static void prepare(struct relay *relay)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        struct pair *pair = &relay->pairs[i];
        struct pollfd *polls = &relay->polls[TORTURE_LISTENERS + 2 * i];
        polls[CLIENT].fd = polls[STORE].fd = -1;
        if (pair->fds[CLIENT] < 0)
            continue;
        enum torture_wire wire = wire_of(relay, pair);
        bool quiet = wire == TORTURE_WIRE_BLACKHOLE || wire == TORTURE_WIRE_TRICKLE;
        for (unsigned end = 0; end < ENDS; end++) {
            short events = wanted(pair, end, wire == TORTURE_WIRE_BLACKHOLE);
            bool looks = events && (!quiet || relay->tick);
            polls[end] = (struct pollfd){ looks ? pair->fds[end] : -1, events, 0 };
        }
    }
}

static bool has_something_to_say(const struct pair *pair)
{
    char byte;

    return recv(pair->fds[CLIENT], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* False: it has failed. */
static bool go_on_connecting(struct pair *pair, const struct pollfd *polls)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (polls[CLIENT].revents)
        return false; /* it does not want it any more: nothing else is looked for */
    if (!polls[STORE].revents)
        return true;
    getsockopt(pair->fds[STORE], SOL_SOCKET, SO_ERROR, &error, &size);
    pair->connecting = false;
    return error == 0;
}

static bool carry_both(const struct relay *relay, struct pair *pair, const struct pollfd *polls)
{
    return carry(relay, pair, CLIENT, polls[CLIENT].revents) &&
           carry(relay, pair, STORE, polls[STORE].revents) &&
           !(pair->flows[CLIENT].closed && pair->flows[STORE].closed);
}

static void serve(const struct relay *relay, struct pair *pair, const struct pollfd *polls)
{
    enum torture_wire wire = wire_of(relay, pair);
    bool goes_on = true;

    if (wire == TORTURE_WIRE_RESET)
        goes_on = false;                     /* mutant: connection-that-is-to-be-cut */
    else if (wire != TORTURE_WIRE_BLACKHOLE) /* mutant: hole-lets-everything-through */
        goes_on = pair->connecting ? go_on_connecting(pair, polls) : carry_both(relay, pair, polls);
    bool bites = wire == TORTURE_WIRE_RESET ||
                 (wire == TORTURE_WIRE_BLACKHOLE && relay->tick && has_something_to_say(pair));
    if (bites)
        bite(relay, pair);
    if (!goes_on)
        cut(pair);
}

/* Once all its connections are cut, a client may have new ones. */
static void end_resets(const struct relay *relay)
{
    for (unsigned i = 0; i < TORTURE_CLIENTS_MAX; i++) {
        uint32_t reset = TORTURE_WIRE_RESET;
        if (relay->wires[i] == TORTURE_WIRE_RESET)
            atomic_compare_exchange_strong(&relay->arena->seats[i].wire, &reset, TORTURE_WIRE_FINE);
    }
}

static void turn(struct relay *relay, const int listeners[TORTURE_LISTENERS], int patience_ms)
{
    look_at_wires(relay);
    prepare(relay);
    for (unsigned i = 0; i < TORTURE_LISTENERS; i++)
        relay->polls[i] = (struct pollfd){ listeners[i], POLLIN, 0 };
    poll(relay->polls, TORTURE_LISTENERS + 2 * PAIRS, patience_ms);
    look_at_wires(relay);
    for (unsigned i = 0; i < PAIRS; i++)
        if (relay->pairs[i].fds[CLIENT] >= 0)
            serve(relay, &relay->pairs[i], &relay->polls[TORTURE_LISTENERS + 2 * i]);
    end_resets(relay);
    for (unsigned i = 0; i < TORTURE_LISTENERS; i++)
        if (relay->polls[i].revents)
            take_connection(relay, listeners[i], i / 2); /* mutant: relay-forgets-on-which-side */
}

_Noreturn void torture_fault_proxy_live(struct torture_shared *arena,
                                        const struct torture_network *network,
                                        const int listeners[TORTURE_LISTENERS])
{
    static struct relay relay;
    int64_t tick_ns = 0;

    relay.arena = arena;
    relay.network = network;
    relay.pairs = calloc(PAIRS, sizeof *relay.pairs);
    if (!relay.pairs)
        _exit(1);
    for (unsigned i = 0; i < PAIRS; i++)
        relay.pairs[i].fds[CLIENT] = -1;
    for (;;) {
        int64_t now_ns = torture_clock_ns();
        relay.tick = now_ns >= tick_ns;
        if (relay.tick)
            tick_ns = now_ns + TICK_MS * INT64_C(1000000);
        turn(&relay, listeners, relay.tick ? 0 : TICK_MS);
    }
}
