/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: each waiting place watches the node in front of it, and what is held for longer than a
 * moment watches its own, which another client may break. A watch works once, at one server; after
 * a reconnect the next server is told of all of them, in pieces that it takes. */
#include "engines/zookeeper/semaphore/semaphore.h"

#include "base/rand.h"

#include <string.h>

/* Most locks are given back before it is worth a request to watch them. */
#define OWN_WATCH_MS 100
#define PIECE_BYTES (128u << 10)

static struct hf_link *watch_bucket_of(struct zookeeper *zk, const char *path, size_t length)
{
    return &zk->watches[hf__hash(path, length) % ZK_WATCH_BUCKETS];
}

static bool is_own(const struct zk_queue_node *place)
{
    return strcmp(place->watched, place->node) == 0;
}

/* "path/child" is `whole`? Permits that were taken together differ by their numbers. */
static bool is_watched_by(const struct zk_queue_node *place, const char *whole, size_t length)
{
    size_t path_length = strlen(place->path), child_length = strlen(place->watched);
    /* mutant: one-permit-end-is-taken */
    size_t same =
        child_length - (hf__zk_queue_node_count(place) > 1 && is_own(place) ? ZK_DIGITS : 0);
    return length == path_length + 1 + child_length &&
           memcmp(whole, place->path, path_length) == 0 && whole[path_length] == '/' &&
           memcmp(whole + path_length + 1, place->watched, same) == 0;
}

/* All that is watched below one path is in one bucket. `child` may be place->watched itself. */
void hf__zk_watch_add(struct zookeeper *zk, struct zk_queue_node *place, const char *child)
{
    size_t length = strlen(child);
    hf__link_remove(&place->watch_link);
    memmove(place->watched, child, length + 1);
    hf__list_append(watch_bucket_of(zk, place->path, strlen(place->path)), &place->watch_link);
}

static void fire(struct zookeeper *zk, struct zk_queue_node *place, int32_t type)
{
    bool own = is_own(place);
    hf__zk_queue_node_unwatch(place);
    if (!place->op || place->leaving)
        return;
    if (!own)
        hf__op_wake(place->op);
    else if (type == ZK_DELETED)
        hf__zk_queue_node_lost(place);
    else
        hf__zk_watch_own(zk, place);
}

/* ---- paths, which others may watch, too ---- */

void hf__zk_watch_path(struct zookeeper *zk, struct zk_queue_node *place, const char *path)
{
    hf__link_remove(&place->path_link);
    place->watched_path = path;
    hf__list_append(&zk->paths, &place->path_link);
}

static void path_event(struct zookeeper *zk, const struct zk_event *event)
{
    struct hf_link due, *link;
    hf__link_init(&due);
    HF_LIST_FOREACH (each, following, &zk->paths) {
        const char *path = HF_CONTAINER(each, struct zk_queue_node, path_link)->watched_path;
        if (strlen(path) != event->path_length ||
            memcmp(path, event->path, event->path_length) != 0)
            continue;
        hf__link_remove(each);
        hf__list_append(&due, each);
    }
    while ((link = hf__list_pop(&due))) {
        const struct zk_queue_node *place = HF_CONTAINER(link, struct zk_queue_node, path_link);
        if (place->op && !place->leaving)
            hf__op_wake(place->op);
    }
}

static void watch_paths_again(struct zookeeper *zk, struct zk_writer *writer)
{
    HF_LIST_FOREACH (link, following, &zk->paths) {
        const struct zk_queue_node *place = HF_CONTAINER(link, struct zk_queue_node, path_link);
        size_t begun = hf__zk_frame_begin(writer);
        hf__zk_write_int(writer, ZK_XID_WATCHES);
        hf__zk_write_int(writer, ZK_SET_WATCHES);
        hf__zk_write_long(writer, zk->greeted->last_zxid);
        hf__zk_write_int(writer, 1);
        hf__zk_write_text(writer, place->watched_path);
        hf__zk_write_int(writer, 0); /* of nodes to appear */
        hf__zk_write_int(writer, place->permits ? 1 : 0);
        if (place->permits)
            hf__zk_write_text(writer, place->watched_path);
        hf__zk_frame_end(writer, begun);
        hf__zk_connection_write(zk, writer);
    }
}

void hf__zk_watch_event(struct zookeeper *zk, const struct zk_event *event)
{
    size_t parent = event->path_length;
    path_event(zk, event);
    while (parent > 0 && event->path[parent - 1] != '/')
        parent--;
    if (parent == 0)
        return;
    struct hf_link *bucket = watch_bucket_of(zk, event->path, parent - 1), due, *link;
    hf__link_init(&due);
    HF_LIST_FOREACH (each, following, bucket) {
        struct zk_queue_node *place = HF_CONTAINER(each, struct zk_queue_node, watch_link);
        if (!is_watched_by(place, event->path, event->path_length))
            continue;
        hf__link_remove(each);
        hf__list_append(&due, each);
    }
    /* A program that is told may end other claims, which then are not in the list any more. */
    while ((link = hf__list_pop(&due)))
        fire(zk, HF_CONTAINER(link, struct zk_queue_node, watch_link), event->type);
}

/* ---- after a reconnect ---- */

static void begin_piece(struct zookeeper *zk, struct zk_writer *writer, size_t *begun,
                        size_t *count_at)
{
    *begun = hf__zk_frame_begin(writer);
    hf__zk_write_int(writer, ZK_XID_WATCHES);
    hf__zk_write_int(writer, ZK_SET_WATCHES);
    hf__zk_write_long(writer, zk->greeted->last_zxid);
    *count_at = hf__zk_frame_begin(writer);
}

static void end_piece(struct zookeeper *zk, struct zk_writer *writer, size_t begun, size_t count_at,
                      int32_t count)
{
    hf__zk_put_int(writer, count_at, count);
    hf__zk_write_int(writer, 0); /* of nodes to appear */
    hf__zk_write_int(writer, 0); /* of children */
    hf__zk_frame_end(writer, begun);
    hf__zk_connection_write(zk, writer);
}

void hf__zk_watch_again(struct zookeeper *zk, struct zk_writer *writer)
{
    size_t begun = 0, count_at = 0;
    int32_t count = 0;
    char name[ZK_NODE_SIZE];
    for (unsigned i = 0; i < ZK_WATCH_BUCKETS; i++)
        HF_LIST_FOREACH (link, following, &zk->watches[i]) {
            const struct zk_queue_node *place =
                HF_CONTAINER(link, struct zk_queue_node, watch_link);
            uint32_t nodes = is_own(place) ? hf__zk_queue_node_count(place) : 1;
            for (uint32_t node = 0; node < nodes; node++) {
                if (count == 0)
                    begin_piece(zk, writer, &begun, &count_at);
                hf__zk_write_child(writer, place->path,
                                   nodes > 1 ? hf__zk_queue_node_at(place, node, name)
                                             : place->watched);
                count++;
                if (writer->length < PIECE_BYTES) /* mutant: all-watches-are-told-of-in-one */
                    continue;
                end_piece(zk, writer, begun, count_at, count);
                count = 0;
            }
        }
    if (count > 0)
        end_piece(zk, writer, begun, count_at, count);
    watch_paths_again(zk, writer); /* mutant: reconnected-head */
}

/* ---- what we hold ---- */

static void own_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    if (!place->op || place->leaving || place->session != request->session)
        return;
    if (reply && reply->error == ZK_OK)
        hf__zk_watch_add(zk, place, place->node);
    else if (reply && reply->error == ZK_NO_NODE)
        hf__zk_queue_node_lost(place);
    else if (request->session->state == ZK_SESSION_ALIVE)
        hf__zk_watch_own(zk, place);
}

static bool watch_node(struct zookeeper *zk, struct zk_queue_node *place, const char *node)
{
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_EXISTS, own_answered);
    if (!request)
        return false;
    hf__zk_write_child(&request->body, place->path, node);
    hf__zk_write_bool(&request->body, true);
    hf__zk_ask(zk, request);
    return true;
}

static void watch_now(struct zookeeper *zk, struct zk_queue_node *place)
{
    char name[ZK_NODE_SIZE];
    uint32_t count = hf__zk_queue_node_count(place);
    for (uint32_t i = 0; i < count; i++)
        if (!watch_node(zk, place, hf__zk_queue_node_at(place, i, name))) {
            hf__zk_watch_own(zk, place);
            return;
        }
}

static void later(struct hf_timer *timer)
{
    struct zookeeper *zk = HF_CONTAINER(timer, struct zookeeper, watch_later);
    struct hf_link due, *link;
    hf__link_init(&due);
    while ((link = hf__list_pop(&zk->unwatched)))
        hf__list_append(&due, link);
    while ((link = hf__list_pop(&due)))
        watch_now(zk, HF_CONTAINER(link, struct zk_queue_node, watch_link));
}

void hf__zk_watch_own(struct zookeeper *zk, struct zk_queue_node *place)
{
    hf__zk_queue_node_unwatch(place);
    hf__list_append(&zk->unwatched, &place->watch_link);
    if (!zk->watch_later.started)
        hf__timer_start(hf__zk_loop(zk), &zk->watch_later, hf__zk_now(zk) + OWN_WATCH_MS);
}

void hf__zk_watch_open(struct zookeeper *zk)
{
    hf__link_init(&zk->unwatched);
    hf__timer_init(&zk->watch_later, later);
    for (unsigned i = 0; i < ZK_WATCH_BUCKETS; i++)
        hf__link_init(&zk->watches[i]);
}

void hf__zk_watch_close(struct zookeeper *zk)
{
    hf__timer_stop(hf__zk_loop(zk), &zk->watch_later);
}
