/* SPDX-License-Identifier: Apache-2.0 */
/* The leases of a semaphore that are given back: those that are known, and those that may have been
 * made without our hearing of it. */
#include "semaphore.h"

#include <string.h>

/* What has no answer is asked for again; of several that were refused the first is told. */
static void note_answer(struct zk_permits *permits, const struct zk_reply *reply)
{
    permits->failed |= !reply;
    /* mutant: of-several-permits-last-answer */
    if (reply && hf__zk_is_error(reply) && permits->refusal == ZK_OK)
        permits->refusal = reply->error;
}

/* ---- clearing away what may have been made ---- */

static void one_cleared(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_permits *permits = place->permits;
    permits->out--;
    if (hf__zk_is_late(request))
        return;
    note_answer(permits, reply);
    if (permits->out > 0)
        return;
    struct zk_reply refusal = { .error = permits->refusal };
    if (permits->failed || refusal.error != ZK_OK) {
        permits->cleared(zk, place, request, permits->failed ? NULL : &refusal);
        return;
    }
    /* Not before: they may still be told while they are cleared away. */
    permits->count = 0; /* mutant: what-was-cleared-away-still */
    hf__known_forget(&permits->known);
    permits->cleared(zk, place, NULL, NULL);
}

static bool clear_one(struct zookeeper *zk, struct zk_queue_node *place, const char *name,
                      size_t length)
{
    struct zk_permits *permits = place->permits;
    char child[ZK_NODE_SIZE];
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_DELETE, one_cleared);
    if (!request)
        return false;
    memcpy(child, name, length);
    child[length] = 0;
    permits->out++;
    hf__zk_write_child(&request->body, permits->leases, child);
    hf__zk_write_int(&request->body, -1);
    hf__zk_ask(zk, request);
    return true;
}

/* The list counts as one of the answers, so that the last of them is the end. */
static void clear_listed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_permits *permits = place->permits;
    if (!hf__zk_is_late(request) && reply && reply->error == ZK_OK) {
        struct zk_reader children = reply->body;
        size_t stem_length = strlen(permits->stem);
        uint32_t count = hf__zk_read_count(&children);
        for (uint32_t i = 0; i < count && !children.bad; i++) {
            size_t length;
            const char *name = hf__zk_read_bytes(&children, &length);
            if (length < ZK_NODE_SIZE && length >= stem_length &&
                memcmp(name, permits->stem, stem_length) == 0)
                permits->failed |= !clear_one(zk, place, name, length);
        }
        permits->failed |= children.bad;
    }
    one_cleared(zk, request, reply);
}

bool hf__zk_leases_clear(struct zookeeper *zk, struct zk_queue_node *place, hf__zk_cleared *cleared)
{
    struct zk_permits *permits = place->permits;
    struct zk_request *barrier = hf__zk_barrier(zk, place->session);
    struct zk_request *list =
        barrier ? hf__zk_queue_node_request(zk, place, ZK_GET_CHILDREN, clear_listed) : NULL;
    if (barrier)
        hf__zk_ask(zk, barrier);
    if (!list)
        return false;
    permits->cleared = cleared;
    permits->failed = false;
    permits->refusal = ZK_OK;
    permits->out++;
    hf__zk_write_text(&list->body, permits->leases);
    hf__zk_write_bool(&list->body, false);
    hf__zk_ask(zk, list);
    return true;
}

/* ---- giving back ---- */

static void lease_deleted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_permits *permits = place->permits;
    permits->out--;
    if (!place->op)
        return;
    note_answer(permits, reply);
    place->missing |= reply && reply->error == ZK_NO_NODE && hf__known_holds(&place->known) &&
                      !hf__known_is_open(&place->known);
    if (permits->out > 0)
        return;
    struct zk_reply refusal = { .error = permits->refusal };
    if (permits->failed && request->session->state == ZK_SESSION_OVER) {
        hf__zk_gone_with_session(zk, place);
    } else if (permits->failed || refusal.error != ZK_OK) {
        hf__known_sent(&place->known, HF_ASKED_RELEASE);
        hf__known_reply(&place->known, HF_WORD_OPEN);
        hf__zk_no_reply(zk, place, request, permits->failed ? NULL : &refusal);
    } else {
        hf__zk_gone(zk, place->op, place->missing);
    }
}

static bool delete_lease(struct zookeeper *zk, struct zk_queue_node *place, uint32_t index)
{
    char name[ZK_NODE_SIZE];
    struct zk_request *request = hf__zk_queue_node_request(zk, place, ZK_DELETE, lease_deleted);
    if (!request)
        return false;
    hf__zk_lease_name(place->permits, index, name);
    hf__zk_write_child(&request->body, place->permits->leases, name);
    hf__zk_write_int(&request->body, -1);
    hf__zk_ask(zk, request);
    return true;
}

static void cleared_to_release(struct zookeeper *zk, struct zk_queue_node *place,
                               struct zk_request *failed, struct zk_reply *reply)
{
    if (failed)
        hf__zk_no_reply(zk, place, failed, reply);
    else
        place->next(zk, place, ZK_NEXT_RELEASE);
}

bool hf__zk_semaphore_release(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_permits *permits = place->permits;
    if (hf__known_is_there(&permits->known)) {
        if (!hf__zk_leases_clear(zk, place, cleared_to_release))
            hf__zk_no_memory(zk, place);
        return true;
    }
    if (permits->count == 0)
        return false;
    permits->failed = false;
    permits->refusal = ZK_OK;
    permits->out = 1;
    /* mutant: giving-back-leaves-one-permit */
    for (uint32_t i = 0; i < permits->count && !permits->failed; i++) {
        permits->failed = !delete_lease(zk, place, i);
        permits->out += !permits->failed;
    }
    if (--permits->out == 0)
        hf__zk_no_memory(zk, place);
    return true;
}
