/* SPDX-License-Identifier: Apache-2.0 */
/* Places: what a claim has in its queue at the store, and the end of a lease of its own. */
#include "engines/zookeeper/semaphore/semaphore.h"

#include "base/testing.h"
#include "base/wait_graph.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint32_t hf__zk_queue_node_count(const struct zk_queue_node *place)
{
    /* mutant: of-several-permits-one */
    return place->permits && place->permits->count > 0 ? place->permits->count : 1;
}

const char *hf__zk_queue_node_at(const struct zk_queue_node *place, uint32_t index,
                                 char name[ZK_NODE_SIZE])
{
    if (!place->permits || place->permits->count == 0)
        return place->node;
    hf__zk_lease_name(place->permits, index, name);
    return name;
}

struct zk_request *hf__zk_queue_node_request(struct zookeeper *zk, struct zk_queue_node *place,
                                             int32_t operation, zk_answered *answered)
{
    struct zk_request *request = hf__zk_request(zk, place->session, operation, answered);
    if (request) {
        request->drop_place = hf__zk_queue_node_drop;
        request->place = place;
        place->uses++;
    }
    return request;
}

static void quietly_deleted(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    if (!reply && !zk->closing && request->session->state != ZK_SESSION_OVER)
        hf__zk_ask(zk, request);
    else if (reply && hf__zk_is_error(reply))
        /* mutant: zookeeper-refused-deletion-is-noted */
        hf__zk_session_is_stuck(zk, request->session);
}

void hf__zk_delete_quietly(struct zookeeper *zk, struct zk_queue_node *place)
{
    const struct zk_permits *permits = place->permits;
    uint32_t count = permits ? permits->count : 1;
    char name[ZK_NODE_SIZE];
    for (uint32_t i = 0; i < count; i++) {
        struct zk_request *request =
            hf__zk_queue_node_request(zk, place, ZK_DELETE, quietly_deleted);
        if (!request) /* it stays until it is given back */
            return;
        hf__zk_write_child(&request->body, permits ? permits->leases : place->path,
                           hf__zk_queue_node_at(place, i, name));
        hf__zk_write_int(&request->body, -1);
        hf__zk_ask(zk, request);
    }
}

static void lease_is_over(struct hf_own_end *end)
{
    struct zk_queue_node *place = HF_CONTAINER(end, struct zk_queue_node, end);
    place->over = true;
    hf__zk_delete_quietly(hf__zk_of(place), place);
    hf__zk_session_left(hf__zk_of(place));
}

/* The paths of all nodes that it may have: one in a queue, and one for each permit. A writer that
 * becomes a reader has both nodes for a moment. */
static size_t weight_of(const struct zk_queue_node *place)
{
    size_t queued = place->op->in.mode == HF_WRITE ? 2 : 1; /* mutant: writer-counts-for-one-node */
    size_t weight = queued * (strlen(place->path) + ZK_NODE_SIZE);
    if (place->permits) /* mutant: permits-do-not-count */
        weight += place->op->in.permits * (strlen(place->permits->leases) + ZK_NODE_SIZE);
    return weight;
}

struct zk_queue_node *hf__zk_queue_node_new(const struct zk_settings *settings, struct hf_op *op)
{
    struct zk_queue_node *place = hf__calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->path = hf__zk_path_of(settings->root, op->in.name, op->in.name_length);
    if (!place->path || (op->in.mode == HF_PERMIT && !hf__zk_permits_new(place))) {
        free(place->path);
        free(place);
        return NULL;
    }
    hf__link_init(&place->link);
    hf__link_init(&place->watch_link);
    hf__link_init(&place->path_link);
    hf__own_end_init(&place->end, NULL, lease_is_over);
    place->uses = 1;
    place->op = op;
    place->weight = weight_of(place);
    op->engine.pointer = place;
    return place;
}

void hf__zk_queue_node_join(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__list_append(&zk->places, &place->link);
    place->end.lease.engine = &zk->base;
}

static void unweigh(struct zk_queue_node *place)
{
    if (place->session)
        place->session->paths -= place->weight; /* mutant: what-was-given-back-goes */
    place->weight = 0;
}

void hf__zk_queue_node_drop(struct zk_queue_node *place)
{
    if (--place->uses > 0)
        return;
    hf__link_remove(&place->link);
    unweigh(place);
    hf__zk_session_drop(place->session);
    hf__zk_session_drop(place->earlier);
    if (place->permits)
        hf__zk_permits_free(place);
    free(place->path);
    free(place);
}

bool hf__zk_queue_node_has_past(const struct zk_queue_node *place)
{
    /* mutant: what-was-under-session */
    return place->earlier && place->earlier->state != ZK_SESSION_OVER;
}

void hf__zk_queue_node_unwatch(struct zk_queue_node *place)
{
    hf__link_remove(&place->watch_link);
    hf__link_remove(&place->path_link);
    place->watched[0] = 0;
}

static void rest(struct zk_queue_node *place)
{
    hf__zk_queue_node_unwatch(place);
    hf__own_end_stop(&place->end);
}

void hf__zk_queue_node_lost(struct zk_queue_node *place)
{
    place->held = false;
    hf__zk_session_left(hf__zk_of(place));
    hf__op_lost(place->op, "it was broken: its node was deleted");
}

void hf__zk_queue_node_leave(struct zk_queue_node *place)
{
    struct hf_op *op = place->op;
    rest(place);
    if (!op)
        return;
    op->engine.pointer = NULL;
    op->out.rests_on = NULL;
    place->op = NULL;
    /* Answers that are still on their way do not count. */
    if (!place->left_behind)
        unweigh(place);
    hf__zk_session_left(hf__zk_of(place));
    hf__zk_queue_node_drop(place);
}

void hf__zk_queue_node_leave_behind(struct zk_queue_node *place)
{
    place->left_behind = true;
    place->uses++;
    hf__zk_session_is_stuck(hf__zk_of(place), place->session);
    hf__zk_queue_node_leave(place);
}

void hf__zk_queue_nodes_over(struct zookeeper *zk, const struct zk_session *session)
{
    HF_LIST_FOREACH (link, following, &zk->places) {
        struct zk_queue_node *place = HF_CONTAINER(link, struct zk_queue_node, link);
        if (!place->left_behind || place->session != session)
            continue;
        place->left_behind = false;
        hf__zk_queue_node_drop(place);
    }
}

void hf__zk_queue_nodes_close(struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->places)
        rest(HF_CONTAINER(link, struct zk_queue_node, link));
}

void hf__zk_queue_node_clear_name(struct zk_queue_node *place)
{
    place->node[0] = place->second[0] = 0;
    hf__known_forget(&place->known);
    hf__known_forget(&place->second_known);
    place->over = place->held = false;
    if (place->permits)
        hf__zk_permits_forget(place);
}

void hf__zk_queue_node_set_name(struct zk_queue_node *place, const char *name, size_t length,
                                int64_t token)
{
    memcpy(place->node, name, length);
    place->node[length] = 0;
    place->token = token; /* mutant: node-that-was-found-keeps */
    place->number = hf__zk_child(name, length).number;
    hf__known_settled(&place->known);
    hf__known_found(&place->known, HF_ASKED_ATTEMPT, HF_WORD_QUEUED);
}

void hf__zk_queue_node_made(struct zk_queue_node *place, struct zk_reader *body)
{
    size_t length;
    struct zk_stat stat;
    const char *path = hf__zk_read_bytes(body, &length);
    size_t before = strlen(place->path) + 1;
    hf__zk_read_stat(body, &stat);
    if (body->bad || stat.czxid <= 0 || length <= before || length - before >= ZK_NODE_SIZE ||
        memcmp(path, place->path, before - 1) != 0)
        return;
    hf__zk_queue_node_set_name(place, path + before, length - before, stat.czxid);
}

enum zk_family hf__zk_family(const struct zookeeper *zk, const struct hf_op *op)
{
    bool latch = op->in.election && !zk->settings->kazoo;
    return latch ? ZK_CANDIDATE : hf__zk_family_of(op->in.mode);
}

void hf__zk_queue_node_name(struct zookeeper *zk, struct zk_queue_node *place)
{
    char uuid[ZK_UUID_SIZE];
    hf__zk_uuid(uuid);
    hf__zk_node_stem(place->stem, uuid, hf__zk_family(zk, place->op),
                     zk->settings->kazoo && !place->permits);
}

bool hf__zk_queue_node_is_loose(const struct zk_queue_node *place)
{
    const struct zk_permits *permits = place->permits;
    if (hf__zk_queue_node_has_past(place))
        return false;
    bool none = !*place->node && !hf__zk_may_have_node(place) && /* mutant: owner-waits-moves */
                (!permits || (permits->count == 0 && !hf__known_is_there(&permits->known)));
    return none || place->session->state == ZK_SESSION_OVER;
}

/* What was under the last session ends with that, before the next one begins. */
bool hf__zk_queue_node_begin(struct zookeeper *zk, struct zk_queue_node *place,
                             struct zk_session *session)
{
    if (place->session == session)
        return true;
    rest(place);
    place->op->out.rests_on = NULL;
    if (!hf__zk_session_has_room(session, place->weight))
        return false;
    if (place->session) {
        hf__zk_queue_node_clear_name(place);
        place->session->paths -= place->weight;
        hf__zk_session_drop(place->earlier);
        place->earlier = place->session;
    }
    session->paths += place->weight; /* mutant: what-is-asked */
    place->session = hf__zk_session_use(session);
    hf__zk_queue_node_name(zk, place);
    return true;
}

void hf__zk_describe(const struct zookeeper *zk, const struct hf_op *op, int64_t lease_ms,
                     char *text, size_t size)
{
    const struct hf_host *host = zk->base.host;
    const char *owner =
        op->in.owner_text && *op->in.owner_text ? op->in.owner_text : host->owner_text;
    if (op->in.election) {
        snprintf(text, size, "%.127s", owner);
        return;
    }
    struct zk_note note = {
        .mode = op->in.mode, .permits = op->in.permits, .pid = getpid(), .lease_ms = lease_ms
    };
    snprintf(note.host, sizeof note.host, "%.63s", *host->host_name ? host->host_name : "-");
    snprintf(note.owner, sizeof note.owner, "%.127s", owner);
    hf__thread_key_of(note.thread, host->id, hf__owner_thread_number(op->in.owner));
    hf__zk_note_write(&note, text, size);
}
