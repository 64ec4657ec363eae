/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster's map, and the way of a request through it. The map is asked for (CLUSTER SLOTS) when
 * it is needed first, when a node says that it does not have a slot, and when a connection fails;
 * never twice in a short while, however many ask. */
#include "cluster.h"
#include "base/error.h"
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of times that a request goes on at most; then it is asked anew after a pause, like any
 * other that had no answer. */
#define HOPS_MAX 5 /* mutant: request-goes-on-for-ever */
/* The map is not asked for more often. */
#define MAP_PAUSE_MS 200
/* A node that could not be reached is let alone for this number of rounds: it may take long to say
 * nothing. */
#define ROUNDS_WITHOUT 8u

static struct hf_loop *cluster_loop_of(const struct cluster *cluster)
{
    return cluster->front->base.host->loop;
}

/* ---- nodes ---- */

static struct redis *find_node(const struct cluster *cluster, const char *host, unsigned port)
{
    for (unsigned i = 0; i < cluster->node_count; i++) {
        const struct hf_stream_place *place = &cluster->nodes[i]->settings.place;
        if (place->port == port && strcmp(place->host, host) == 0)
            return cluster->nodes[i];
    }
    return NULL;
}

/* Finds it or makes it. NULL: no memory, or there are too many. */
static struct redis *node_at(struct cluster *cluster, const char *host, unsigned port)
{
    struct redis *node = find_node(cluster, host, port);
    if (node || cluster->node_count == REDIS_NODES_MAX || !*host || port == 0 || port > 65535 ||
        strlen(host) >= REDIS_HOST_SIZE)
        return node;
    node = cluster->new_node(cluster->front);
    if (!node)
        return NULL;
    node->cluster = cluster;
    node->number = cluster->node_count;
    snprintf(node->host, sizeof node->host, "%s", host);
    node->settings.place.host = node->host;
    node->settings.place.port = port;
    hf__url_write_place(node->settings.shown, sizeof node->settings.shown, host, port);
    cluster->nodes[cluster->node_count++] = node;
    return node;
}

static struct redis *owner_of(const struct cluster *cluster, unsigned slot)
{
    return cluster->owner[slot] ? cluster->nodes[cluster->owner[slot] - 1] : NULL;
}

struct redis *hf__cluster_next(struct cluster *cluster, const struct redis *node)
{
    struct redis *next = NULL;
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++) {
        struct redis *owner = owner_of(cluster, slot);
        if (owner && (!node || owner->number > node->number) &&
            (!next || owner->number < next->number))
            next = owner;
    }
    return next;
}

/* ---- asking for the map ---- */

static void begin_round(struct cluster *cluster);

void hf__cluster_want_map(struct cluster *cluster)
{
    int64_t now_ms = hf__loop_now(cluster_loop_of(cluster));
    int64_t next_ms = cluster->round ? cluster->began_at_ms + MAP_PAUSE_MS : now_ms;
    cluster->wanted = true;
    if (cluster->asking || cluster->again.started)
        return;
    hf__timer_start(cluster_loop_of(cluster), &cluster->again, next_ms > now_ms ? next_ms : now_ms);
}

static void again(struct hf_timer *timer)
{
    begin_round(HF_CONTAINER(timer, struct cluster, again));
}

static bool is_ready(const struct redis *node)
{
    return hf__connection_is_ready(&node->cmd);
}

/* The round in which it is its turn. */
static unsigned turn_of(const struct redis *node)
{
    return node->round + (node->cmd.peer.failures > 0 ? ROUNDS_WITHOUT : 0);
}

/* NULL: all of them have been asked in this round. */
static struct redis *first_in_turn(const struct cluster *cluster, bool ready)
{
    struct redis *first = NULL;
    for (unsigned i = 0; i < cluster->node_count; i++) {
        struct redis *node = cluster->nodes[i];
        if (node->asked == cluster->round || (ready && !is_ready(node)))
            continue;
        if (!first || turn_of(node) < turn_of(first) || /* mutant: map-is-asked-of-owner */
            (turn_of(node) == turn_of(first) && is_ready(node) && !is_ready(first)))
            first = node;
    }
    return first;
}

/* Each in turn, since one that is cut off, or has been taken out of the cluster, says what is not
 * so. A node that is not connected may be silent for long, so while others are it is connected
 * only, and is asked in a later round. */
static struct redis *next_to_ask(struct cluster *cluster)
{
    struct redis *next = first_in_turn(cluster, false), *ready = first_in_turn(cluster, true);
    if (!ready || next == ready) /* mutant: map-is-awaited-from-owner */
        return next;
    next->round = cluster->round;
    hf__peer_want(&next->cmd.peer);
    return ready;
}

static void send_slots(struct connection *connection, struct redis_request *request)
{
    struct command command;
    hf__command_begin(&command, "CLUSTER");
    hf__command_print(&command, "SLOTS");
    hf__connection_write(connection, request, &command);
}

/* {first slot, last slot, {host, port, ...} of the master, of its replicas...} */
static void read_range(struct connection *connection, const redisReply *range)
{
    struct cluster *cluster = connection->redis->cluster;
    struct redis *master = NULL;
    if (!hf__reply_is_array(range, 3))
        return;
    for (size_t i = 2; i < range->elements; i++) {
        const redisReply *place = range->element[i];
        if (!hf__reply_is_array(place, 2))
            return;
        /* A server that does not know how it is called is where we found it. */
        const char *host = hf__reply_text(place->element[0]);
        int64_t port = hf__reply_number(place->element[1]);
        if (!*host)
            host = connection->redis->settings.place.host;
        struct redis *node = port > 0 && port <= 65535 && strcmp(host, "?") != 0
                                 ? node_at(cluster, host, (unsigned)port)
                                 : NULL;
        if (i == 2)
            master = node;
    }
    int64_t first = hf__reply_number(range->element[0]), last = hf__reply_number(range->element[1]);
    for (int64_t slot = first; slot >= 0 && slot <= last && slot < REDIS_SLOTS && master; slot++)
        cluster->owner[slot] = (uint16_t)(master->number + 1);
}

static void ask_owner(struct cluster *cluster, struct redis_request *request)
{
    struct redis *owner = request->slot < 0 ? hf__cluster_next(cluster, NULL)
                                            : owner_of(cluster, (unsigned)request->slot);
    if (owner) {
        hf__connection_ask(&owner->cmd, request);
        return;
    }
    request->item.sent = false;
    hf__list_append(&cluster->parked, &request->item.link);
    hf__cluster_want_map(cluster);
}

/* What waits for a connection to a node may go to another one now. */
static void send_elsewhere(struct cluster *cluster)
{
    struct hf_link leaving, *link;
    hf__link_init(&leaving);
    for (unsigned i = 0; i < cluster->node_count; i++)
        HF_LIST_FOREACH (waiting, following, &cluster->nodes[i]->cmd.pipeline.waiting) {
            const struct redis_request *request = hf__request_at(waiting);
            struct redis *owner = request->slot >= 0 && !request->asks
                                      ? owner_of(cluster, (unsigned)request->slot)
                                      : NULL;
            if (!owner || owner == cluster->nodes[i])
                continue;
            hf__link_remove(waiting);
            hf__list_append(&leaving, waiting);
        }
    while ((link = hf__list_pop(&leaving)))
        ask_owner(cluster, hf__request_at(link));
}

static void end_round(struct cluster *cluster)
{
    cluster->asking = false;
    if (cluster->wanted)
        hf__cluster_want_map(cluster);
}

/* No node knows: a request that has waited for the map is told why the last one did not. */
static void cluster_give_up(struct connection *connection, const redisReply *reply)
{
    struct cluster *cluster = connection->redis->cluster;
    struct hf_link parked, *link;
    hf__link_init(&parked);
    hf__list_append_all(&parked, &cluster->parked);
    /* Its own connections that failed are no reason to begin again. */
    cluster->wanted = false;
    end_round(cluster);
    while ((link = hf__list_pop(&parked))) {
        struct redis_request *request = hf__request_at(link);
        request->unmapped = true;
        request->answered(connection, request, reply);
    }
}

/* A slot that the map does not have is asked about all the same: that answer says more. */
static void take_map(struct connection *connection, const redisReply *reply)
{
    struct cluster *cluster = connection->redis->cluster;
    struct hf_link parked, *link;
    hf__link_init(&parked);
    for (size_t i = 0; i < reply->elements; i++)
        read_range(connection, reply->element[i]);
    send_elsewhere(cluster);
    end_round(cluster);
    while ((link = hf__list_pop(&cluster->parked)))
        hf__list_append(&parked, link);
    while ((link = hf__list_pop(&parked))) {
        struct redis_request *request = hf__request_at(link);
        struct redis *owner = request->slot < 0 ? hf__cluster_next(cluster, NULL)
                                                : owner_of(cluster, (unsigned)request->slot);
        hf__connection_ask(owner ? &owner->cmd : connection, request);
    }
}

static void ask_next(struct cluster *cluster, struct connection *last, const redisReply *reply);

static void slots_answered(struct connection *connection, struct redis_request *request,
                           const redisReply *reply)
{
    struct cluster *cluster = connection->redis->cluster;
    hf__request_free(cluster->front, request);
    if (hf__reply_is_array(reply, 0))
        take_map(connection, reply);
    else
        ask_next(cluster, connection, reply);
}

/* A try to connect that only the map was wanted for is no reason to want the map: a client that is
 * idle would try for ever while every server is down. */
bool hf__cluster_is_concerned(struct connection *connection, enum hf_peer_state was)
{
    bool ready = was == HF_PEER_READY;
    HF_LIST_FOREACH (link, following, &connection->pipeline.waiting)
        if (hf__request_at(link)->answered != slots_answered)
            return true;
    HF_LIST_FOREACH (link, following, &connection->pipeline.out)
        if (ready && hf__request_at(link)->answered != slots_answered)
            return true;
    return ready && hf__list_empty(&connection->pipeline.out);
}

/* `last` has not told; NULL: no node has been asked yet. */
static void ask_next(struct cluster *cluster, struct connection *last, const redisReply *reply)
{
    struct redis *node = next_to_ask(cluster);
    struct redis_request *request = node ? hf__request_new(cluster->front) : NULL;
    if (!request) {
        cluster_give_up(last ? last : &cluster->nodes[0]->cmd, reply);
        return;
    }
    node->round = node->asked = cluster->round;
    request->slot = -1;
    request->send = send_slots;
    request->answered = slots_answered;
    hf__connection_ask(&node->cmd, request);
}

static void begin_round(struct cluster *cluster)
{
    cluster->wanted = false;
    cluster->asking = true;
    cluster->began_at_ms = hf__loop_now(cluster_loop_of(cluster));
    cluster->round++;
    ask_next(cluster, NULL, NULL);
}

/* ---- the way of a request ---- */

void hf__redis_ask(struct redis *redis, struct redis_request *request, const char *name,
                   size_t length)
{
    request->slot = name && redis->cluster ? (int)hf__slot_of(name, length) : -1;
    if (redis->cluster)
        ask_owner(redis->cluster, request);
    else
        hf__connection_ask(&redis->cmd, request);
}

/* "MOVED slot host:port", with a host that may be an address of IPv6, or missing. */
static struct redis *target_of(struct connection *connection, const char *text, unsigned *slot)
{
    char host[REDIS_HOST_SIZE];
    char *end;
    *slot = (unsigned)strtoul(text, &end, 10);
    const char *colon = strrchr(end, ':');
    if (*end != ' ' || *slot >= REDIS_SLOTS || !colon || colon - end > REDIS_HOST_SIZE)
        return NULL;
    snprintf(host, sizeof host, "%.*s", (int)(colon - end - 1), end + 1);
    return node_at(connection->redis->cluster,
                   *host ? host : connection->redis->settings.place.host,
                   (unsigned)strtoul(colon + 1, NULL, 10));
}

bool hf__cluster_redirects(struct connection *connection, struct redis_request *request,
                           const redisReply *error)
{
    struct cluster *cluster = connection->redis->cluster;
    if (!cluster)
        return false;
    bool moved = hf__reply_says(error, "MOVED "), asks = hf__reply_says(error, "ASK ");
    unsigned slot;
    bool down = hf__reply_says(error, "CLUSTERDOWN");
    if (down)
        hf__cluster_want_map(cluster);
    /* A node that says so has done nothing. */
    if (moved || asks || down || hf__reply_says(error, "TRYAGAIN"))
        request->item.sent = false;
    if ((!moved && !asks) || ++request->hops > HOPS_MAX) /* mutant: owner-is-sent-elsewhere-stays */
        return false;
    struct redis *node = target_of(connection, error->str + (moved ? 6 : 4), &slot);
    if (!node)
        return false;
    if (moved) {
        cluster->owner[slot] = (uint16_t)(node->number + 1);
        hf__cluster_want_map(cluster);
    }
    request->asks = asks;
    hf__connection_ask(&node->cmd, request);
    return true;
}

/* ---- beginning and ending ---- */

int hf__cluster_open(struct redis *front, struct redis *(*new_node)(struct redis *front),
                     hf_error *error)
{
    struct cluster *cluster = hf__calloc(1, sizeof *cluster);
    if (!cluster)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a cluster");
    front->cluster = cluster;
    cluster->front = front;
    cluster->new_node = new_node;
    hf__link_init(&cluster->parked);
    hf__timer_init(&cluster->again, again);
    for (unsigned i = 0; i < front->settings.seed_count; i++) {
        const struct hf_url_host *seed = &front->settings.seeds[i];
        if (!node_at(cluster, seed->name, seed->port ? seed->port : REDIS_PORT))
            return hf__error_set(error, HF_ENOMEM, 0, "out of memory for a client of a cluster");
    }
    return HF_OK;
}

void hf__cluster_close(struct cluster *cluster, void (*disconnect)(struct redis *node))
{
    struct hf_link *link;
    hf__timer_stop(cluster_loop_of(cluster), &cluster->again);
    while ((link = hf__list_pop(&cluster->parked)))
        hf__request_free(cluster->front, hf__request_at(link));
    for (unsigned i = 0; i < cluster->node_count; i++)
        disconnect(cluster->nodes[i]);
    for (unsigned i = 0; i < cluster->node_count; i++)
        free(cluster->nodes[i]);
    free(cluster);
}

void hf__cluster_silence(struct cluster *cluster, void (*silence)(struct redis *node))
{
    HF_LIST_FOREACH (link, following, &cluster->parked) {
        struct redis_request *request = hf__request_at(link);
        if (!request->early)
            hf__request_free(cluster->front, request);
    }
    for (unsigned i = 0; i < cluster->node_count; i++)
        silence(cluster->nodes[i]);
}

void hf__cluster_forked(struct cluster *cluster, void (*forked)(struct redis *node))
{
    for (unsigned i = 0; i < cluster->node_count; i++)
        forked(cluster->nodes[i]);
}
