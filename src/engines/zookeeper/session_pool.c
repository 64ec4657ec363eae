/* SPDX-License-Identifier: Apache-2.0 */
/* Several sessions of one client. A claim goes to the first one that has room for it, and stays
 * there for as long as anything of it can be at the servers; what belongs to no claim goes to the
 * first session of all. Further ones end when nothing has rested on them for a while. */
#include "session_pool.h"

#include "engines/zookeeper/doctor/doctor.h"
#include "engines/zookeeper/latch/latch.h"
#include "engines/zookeeper/show/children_snapshot.h"
#include "engines/zookeeper/wire/connection.h"

#include "base/testing.h"

HF_TUNABLE struct zk_bounds hf__zk_bounds = {
    /* mutant: session-carries-more */
    .paths = 512u << 10,
    .nodes = 200000,
    .sessions = 16,
    .idle_ms = 10000
};

static struct zookeeper *first_of(struct zk_client *client)
{
    return HF_CONTAINER(hf__list_first(&client->members), struct zookeeper, link);
}

/* ---- the end of one ---- */

/* The requests first: they count their places and their sessions. */
static void connection_closed(struct zookeeper *zk)
{
    struct zk_client *client = zk->client;
    struct hf_link *link;
    hf__zk_connection_end(zk);
    hf__zk_snapshots_close(zk);
    hf__zk_examiners_close(zk);
    hf__zk_totals_close(zk);
    hf__zk_latches_close(zk);
    free(zk->absent);
    while ((link = hf__list_first(&zk->places))) {
        struct zk_queue_node *place = HF_CONTAINER(link, struct zk_queue_node, link);
        if (place->left_behind)
            hf__zk_queue_node_drop(place);
        else
            hf__zk_queue_node_leave(place);
    }
    hf__zk_session_drop(zk->session);
    hf__zk_session_drop(zk->ending);
    hf__link_remove(&zk->link);
    free(zk);
    void (*closed)(void *) = client->closed;
    void *arg = client->closed_arg;
    if (!closed || client->count > 0 || !hf__list_empty(&client->leaving))
        return;
    hf__endpoints_close(&client->settings.servers);
    free(client);
    closed(arg);
}

static void session_over(struct zookeeper *zk, struct zk_session *session)
{
    hf__zk_session_over(zk, session);
    hf__zk_queue_nodes_over(zk, session);
}

static const struct zk_traffic traffic = {
    .wanted = hf__zk_session_wanted,
    .welcomed = hf__zk_session_welcomed,
    .ready = hf__zk_watch_again,
    .confirmed = hf__zk_session_confirm,
    .look = hf__zk_session_look,
    .happened = hf__zk_watch_event,
    .over = session_over,
    .closed = connection_closed,
};

/* ---- one more, and one less ---- */

/* NULL: out of memory. */
static struct zookeeper *open_one(struct zk_client *client)
{
    struct zookeeper *zk = hf__calloc(1, sizeof *zk);
    if (!zk)
        return NULL;
    zk->base = (struct hf_engine){ .ops = client->base.ops, .host = client->base.host };
    zk->client = client;
    zk->settings = &client->settings;
    /* Not all of them at one server. */
    zk->peer.place_at = client->opened++ % client->settings.servers.count;
    hf__link_init(&zk->places);
    hf__link_init(&zk->leased);
    hf__link_init(&zk->paths);
    hf__link_init(&zk->totals);
    hf__link_init(&zk->countings);
    hf__link_init(&zk->surveys);
    hf__link_init(&zk->examiners);
    hf__timer_init(&zk->retire, hf__zk_session_retire_fired);
    hf__zk_connection_open(zk, &traffic);
    hf__zk_watch_open(zk);
    hf__list_append(&client->members, &zk->link);
    client->count++;
    return zk;
}

static void begin_leaving(struct zookeeper *zk)
{
    hf__link_remove(&zk->link);
    hf__list_append(&zk->client->leaving, &zk->link);
    zk->client->count--;
    hf__zk_queue_nodes_close(zk);
    hf__zk_watch_close(zk);
    hf__zk_latches_still(zk);
    hf__zk_connection_close(zk);
    hf__timer_stop(hf__zk_loop(zk), &zk->retire);
}

static void look_timer_fired(struct hf_timer *timer);

bool hf__zk_session_pool_open(struct zk_client *client)
{
    hf__link_init(&client->members);
    hf__link_init(&client->leaving);
    hf__timer_init(&client->look, look_timer_fired);
    return open_one(client) != NULL;
}

void hf__zk_session_pool_close(struct zk_client *client)
{
    hf__timer_stop(client->base.host->loop, &client->look);
    HF_LIST_FOREACH (link, following, &client->members)
        begin_leaving(HF_CONTAINER(link, struct zookeeper, link));
}

/* ---- those that nothing rests on ---- */

/* What stays behind because the servers refuse to delete it ends with the session. */
static bool is_needed(const struct zookeeper *zk)
{
    if ((zk->session && zk->session->lease.watched) || !hf__list_empty(&zk->pipeline.out) ||
        !hf__list_empty(&zk->pipeline.waiting))
        return true;
    HF_LIST_FOREACH (link, following, &zk->places)
        /* mutant: session-that-is-held-on-ends */
        if (!HF_CONTAINER(link, struct zk_queue_node, link)->left_behind)
            return true;
    return false;
}

static void look_later(struct zk_client *client)
{
    struct hf_loop *loop = client->base.host->loop;
    if (client->count > 1 && !client->look.started)
        hf__timer_start(loop, &client->look, hf__loop_now(loop) + hf__zk_bounds.idle_ms);
}

/* One that was not needed the last time either, and was asked for nothing in between. */
static void look_timer_fired(struct hf_timer *timer)
{
    struct zk_client *client = HF_CONTAINER(timer, struct zk_client, look);
    HF_LIST_FOREACH (link, following, &client->members) {
        struct zookeeper *zk = HF_CONTAINER(link, struct zookeeper, link);
        /* mutant: first-session-ends-like-any */
        bool idle = zk->idle && !is_needed(zk) && zk != first_of(client);
        zk->idle = !is_needed(zk);
        if (idle) /* mutant: session-that-nothing-rests-on */
            begin_leaving(zk);
    }
    look_later(client);
}

/* ---- where a claim goes ---- */

static void refuse_claim(struct zk_client *client, struct hf_op *op, size_t weight)
{
    const struct zk_bounds *bounds = &hf__zk_bounds;
    if (weight > bounds->paths)
        hf__op_explain(op, HF_ELIMIT, 0,
                       "%u permits are more nodes than a session can carry safely (%zu KiB of "
                       "paths); take fewer at once",
                       op->in.permits, bounds->paths >> 10);
    else if (client->count < bounds->sessions)
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for one more session");
    else
        hf__op_explain(op, HF_ELIMIT, 0,
                       "this client has as many nodes as %u sessions can carry safely (%zu KiB of "
                       "paths each); open another client",
                       bounds->sessions, bounds->paths >> 10);
}

static struct zookeeper *with_room(struct zk_client *client, size_t weight)
{
    HF_LIST_FOREACH (link, following, &client->members) {
        struct zookeeper *zk = HF_CONTAINER(link, struct zookeeper, link);
        hf__zk_session_look(zk);
        if (!zk->session || hf__zk_session_has_room(zk->session, weight))
            return zk;
    }
    /* mutant: there-is-no-end-to-client */
    return client->count < hf__zk_bounds.sessions ? open_one(client) : NULL;
}

/* NULL: there is none, and the op says why. */
static struct zk_queue_node *new_place(struct zk_client *client, struct hf_op *op)
{
    struct zk_queue_node *place = hf__zk_queue_node_new(&client->settings, op);
    if (!place) {
        hf__op_explain(op, HF_ENOMEM, 0, "out of memory for a place in a queue");
        return NULL;
    }
    bool bearable = place->weight <= hf__zk_bounds.paths;
    struct zookeeper *zk = bearable ? with_room(client, place->weight) : NULL;
    if (!zk) {
        refuse_claim(client, op, place->weight);
        op->engine.pointer = NULL;
        hf__zk_queue_node_drop(place);
        return NULL;
    }
    hf__zk_queue_node_join(zk, place);
    zk->idle = false;
    look_later(client);
    return place;
}

struct zk_queue_node *hf__zk_session_pool_place(struct zk_client *client, struct hf_op *op)
{
    struct zk_queue_node *place = op->engine.pointer;
    if (place && hf__zk_queue_node_is_loose(place)) {
        hf__zk_queue_node_leave(place);
        place = NULL;
    }
    return place ? place : new_place(client, op);
}

struct zookeeper *hf__zk_session_pool_member(struct zk_client *client, const struct hf_op *op)
{
    /* mutant: what-is-asked-about-claim-goes */
    return op && op->engine.pointer ? hf__zk_of(op->engine.pointer) : first_of(client);
}

/* ---- fork() ---- */

/* The child must not keep the parent's connections open, or speak on them. */
static void forget_streams(struct hf_link *members)
{
    HF_LIST_FOREACH (link, following, members) {
        struct zookeeper *zk = HF_CONTAINER(link, struct zookeeper, link);
        hf__peer_forked(&zk->peer);  /* mutant: child-keeps-connections-of */
        hf__zk_examiners_forked(zk); /* mutant: child-keeps-connections */
    }
}

void hf__zk_session_pool_forked(struct hf_engine *engine)
{
    struct zk_client *client = (struct zk_client *)engine;
    forget_streams(&client->members);
    forget_streams(&client->leaving);
}
