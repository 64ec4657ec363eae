/* SPDX-License-Identifier: Apache-2.0 */
/* Semaphores, in the layout of Curator's InterProcessSemaphoreV2. The queue at PATH/locks is a
 * mutex'; its head takes leases at PATH/leases, one a permit, and gives the place up:
 *
 *   the head:  look: how many leases are there, and how many permits in all
 *                | not enough: watch both, and wait as the head
 *                v enough
 *              make the leases, list them, delete the place in the queue, all in one go: GRANTED
 *
 * Only the head makes leases, so their number falls while it looks. From then on the claim's node
 * is its first lease. What may have been made without our hearing of it is cleared away first. */
#include "semaphore.h"

#include "base/error.h"
#include "base/testing.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- asking ---- */

static struct zk_request *ask_for_permits(struct zookeeper *zk, struct zk_queue_node *place,
                                          int32_t operation, zk_answered *answered)
{
    struct zk_request *request = hf__zk_queue_node_request(zk, place, operation, answered);
    if (!request)
        hf__zk_no_memory(zk, place);
    return request;
}

/* ---- the head's turn ---- */

static void ask_for_total(struct zookeeper *zk, struct zk_queue_node *place, bool watch);

static void refuse_permits(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_permits *permits = place->permits;
    if (!place->op->in.enqueue) {
        hf__zk_withdraw(zk, place, HF_REFUSED);
    } else if (!permits->watching) {
        ask_for_total(zk, place, true);
    } else {
        place->op->out.rests_on = &place->session->lease;
        hf__zk_finish(zk, place, HF_REFUSED);
    }
}

static void lease_made(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_permits *permits = place->permits;
    struct zk_stat stat;
    size_t length;
    (void)zk;
    if (hf__zk_is_late(request) || !reply)
        return;
    if (reply->error != ZK_OK) {
        permits->vain_error = reply->error;
        return;
    }
    const char *path = hf__zk_read_bytes(&reply->body, &length);
    hf__zk_read_stat(&reply->body, &stat);
    if (reply->body.bad)
        return;
    permits->numbers[permits->count++] = hf__zk_child(path, length).number;
    if (place->token < stat.czxid)
        place->token = stat.czxid;
}

static void leases_listed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)zk;
    if (!hf__zk_is_late(request) && reply && reply->error == ZK_OK)
        request->place->permits->seen = hf__zk_read_count(&reply->body);
}

/* Another client has broken the queue, or removed the semaphore, while this was the head. */
static void cleared_to_begin_again(struct zookeeper *zk, struct zk_queue_node *place,
                                   struct zk_request *failed, struct zk_reply *reply)
{
    if (failed)
        hf__zk_fail(zk, place, failed, reply);
    else
        place->next(zk, place, ZK_NEXT_MAKE_ANEW);
}

/* It will not be better the next time. */
static void cleared_to_fail(struct zookeeper *zk, struct zk_queue_node *place,
                            struct zk_request *failed, struct zk_reply *reply)
{
    struct zk_reply refusal = { .error = place->permits->vain_error };
    if (failed) {
        hf__zk_fail(zk, place, failed, reply);
        return;
    }
    hf__zk_queue_node_clear_name(place);
    hf__zk_queue_node_name(zk, place);
    hf__zk_fail(zk, place, NULL, &refusal);
}

/* Nor will it be given up: what was taken meanwhile goes back. */
static void cleared_to_stay(struct zookeeper *zk, struct zk_queue_node *place,
                            struct zk_request *failed, struct zk_reply *reply)
{
    struct zk_reply refusal = { .error = place->permits->vain_error };
    if (failed)
        hf__zk_fail(zk, place, failed, reply);
    else
        hf__zk_fail_with_leftover(zk, place, &refusal);
}

static void turn_is_over(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_permits *permits = place->permits;
    char name[ZK_NODE_SIZE];
    if (hf__zk_is_late(request))
        return;
    if (hf__zk_is_refusal(reply)) { /* mutant: turn-that-may-not-end-is-asked */
        permits->vain_error = reply->error;
        if (!hf__zk_leases_clear(zk, place, cleared_to_stay))
            hf__zk_no_memory(zk, place);
        return;
    }
    if (hf__zk_is_error(reply)) {
        hf__zk_fail(zk, place, request, reply);
        return;
    }
    if (permits->count < place->op->in.permits || permits->seen > permits->total) {
        bool vain = permits->vain_error != ZK_OK && permits->vain_error != ZK_NO_NODE;
        /* mutant: permits-that-may-not-be-made */
        if (!hf__zk_leases_clear(zk, place, vain ? cleared_to_fail : cleared_to_begin_again))
            hf__zk_no_memory(zk, place);
        return;
    }
    uint32_t count = permits->count;
    hf__zk_queue_node_unwatch(place);
    hf__zk_queue_node_clear_name(place);
    permits->count = count;
    place->path = permits->leases;
    hf__zk_lease_name(permits, 0, name);
    hf__zk_queue_node_set_name(place, name, strlen(name), place->token);
    place->next(zk, place, ZK_NEXT_GRANT);
}

static bool ask_for_lease(struct zookeeper *zk, struct zk_queue_node *place)
{
    char data[400];
    struct zk_request *request = ask_for_permits(zk, place, ZK_CREATE2, lease_made);
    if (!request)
        return false;
    hf__zk_describe(zk, place->op, place->op->in.lease_ms, data, sizeof data);
    hf__zk_write_child(&request->body, place->permits->leases, place->permits->stem);
    hf__zk_write_create(&request->body, data, strlen(data), ZK_EPHEMERAL | ZK_SEQUENTIAL,
                        zk->settings->servers.user != NULL);
    hf__zk_ask(zk, request);
    return true;
}

static void end_turn(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_request *list = ask_for_permits(zk, place, ZK_GET_CHILDREN, leases_listed);
    if (!list)
        return;
    hf__zk_write_text(&list->body, place->permits->leases);
    hf__zk_write_bool(&list->body, false);
    hf__zk_ask(zk, list);
    hf__zk_ask_about(zk, place, ZK_DELETE, place->node, false, turn_is_over);
}

static void semaphore_take(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_permits *permits = place->permits;
    uint32_t wanted = place->op->in.permits;
    char uuid[ZK_UUID_SIZE];
    int64_t *numbers = hf__realloc(permits->numbers, wanted * sizeof *numbers);
    if (!numbers) {
        hf__zk_no_memory(zk, place);
        return;
    }
    permits->numbers = numbers;
    permits->seen = UINT32_MAX;
    permits->vain_error = ZK_OK;
    hf__known_sent(&permits->known, HF_ASKED_ATTEMPT);
    place->token = 0;
    hf__zk_uuid(uuid);
    hf__zk_node_stem(permits->stem, uuid, ZK_LEASE, false);
    for (uint32_t i = 0; i < wanted; i++)
        if (!ask_for_lease(zk, place))
            return;
    end_turn(zk, place);
}

/* ---- how many there are ---- */

__attribute__((format(printf, 4, 5))) static void
never(struct zookeeper *zk, struct zk_queue_node *place, int code, const char *format, ...)
{
    char why[120];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    hf__op_explain(place->op, code, 0, "\"%.200s\" %s", place->op->in.name, why);
    hf__zk_withdraw(zk, place, HF_FAILED);
}

static void discard(void *arg)
{
    hf__zk_queue_node_drop(arg);
}

static void made(struct zookeeper *zk, void *arg, int code, hf_error *error)
{
    struct zk_queue_node *place = arg;
    if (place->op && code == HF_OK) {
        ask_for_total(zk, place, false);
    } else if (place->op) {
        free(place->op->out.error);
        place->op->out.error = error;
        error = NULL;
        if (code == HF_UNREACHABLE || code == HF_ENOMEM)
            hf__zk_finish(zk, place, HF_NO_ANSWER);
        else
            hf__zk_withdraw(zk, place, HF_FAILED);
    }
    free(error);
    hf__zk_queue_node_drop(place);
}

static void never_so_many(struct zookeeper *zk, struct zk_queue_node *place, int64_t total)
{
    never(zk, place, HF_EINVAL, "has %" PRId64 " permit%s: %u can never be had; ask for fewer",
          total, hf__plural(total), place->op->in.permits);
}

bool hf__zk_semaphore_is_in_vain(struct zookeeper *zk, struct zk_queue_node *place)
{
    const struct hf_op *op = place->op;
    int64_t total = place->permits->total;
    if (total < 0)
        return false;
    if (op->in.limit > 0 && total != op->in.limit)
        never(zk, place, HF_EKIND, "has %" PRId64 " permit%s, not %u", total, hf__plural(total),
              op->in.limit);
    else if (op->in.permits > total)
        never_so_many(zk, place, total);
    else
        return false;
    return true;
}

static void judge_permits(struct zookeeper *zk, struct zk_queue_node *place, int64_t total,
                          int32_t taken)
{
    struct zk_permits *permits = place->permits;
    const struct hf_op *op = place->op;
    /* Java services that keep the number to themselves leave the node empty. */
    if (total < 0 && op->in.limit > 0)
        total = op->in.limit;
    permits->total = total;
    if (total < 0)
        never(zk, place, HF_EKIND, "does not say how many permits it has; name a limit");
    else if (hf__zk_semaphore_is_in_vain(zk, place))
        return;
    else if (taken + (int64_t)op->in.permits > total) /* mutant: head-takes-permits */
        refuse_permits(zk, place);
    else if (permits->first)
        place->next(zk, place, ZK_NEXT_LINE_UP);
    else
        semaphore_take(zk, place);
}

static void total_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct zk_queue_node *place = request->place;
    struct zk_stat stat;
    size_t length;
    if (hf__zk_is_late(request))
        return;
    if (hf__zk_is_error(reply)) {
        hf__zk_fail(zk, place, request, reply);
    } else if (reply->error == ZK_OK) {
        const char *data = hf__zk_read_bytes(&reply->body, &length);
        hf__zk_read_stat(&reply->body, &stat);
        judge_permits(zk, place, hf__zk_total(data, length), stat.child_count);
    } else if (place->op->in.limit == 0) {
        never(zk, place, HF_EKIND, "does not exist; set how many permits it has, or name a limit");
    } else if (place->op->in.permits > place->op->in.limit) { /* mutant: wish-that-can-never */
        /* A wish that can never be had leaves no semaphore behind. */
        never_so_many(zk, place, place->op->in.limit);
    } else {
        place->uses++;
        hf__zk_total_set(zk, place->op->in.name, place->op->in.name_length, place->op->in.limit,
                         true, made, discard, place);
    }
}

/* The data is asked for last: it carries the number of leases, too. */
static void ask_for_total(struct zookeeper *zk, struct zk_queue_node *place, bool watch)
{
    struct zk_permits *permits = place->permits;
    permits->watching = watch;
    if (watch) {
        /* What happens between the two answers is told only once, and before the second. */
        hf__zk_watch_path(zk, place, permits->leases); /* mutant: head-does-not-watch-leases */
        struct zk_request *list = ask_for_permits(zk, place, ZK_GET_CHILDREN, hf__zk_ignore_reply);
        if (!list)
            return;
        hf__zk_write_text(&list->body, permits->leases);
        hf__zk_write_bool(&list->body, true); /* mutant: head-hears-of-permits */
        hf__zk_ask(zk, list);
    }
    struct zk_request *request = ask_for_permits(zk, place, ZK_GET_DATA, total_answered);
    if (!request)
        return;
    hf__zk_write_text(&request->body, permits->leases);
    hf__zk_write_bool(&request->body, watch);
    hf__zk_ask(zk, request);
}

bool hf__zk_semaphore_turn(struct zookeeper *zk, struct zk_queue_node *place)
{
    if (place->permits->count > 0)
        return false;
    place->permits->first = false;
    ask_for_total(zk, place, false);
    return true;
}

/* ---- further back ---- */

static void total_noted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    size_t length;
    (void)zk;
    if (hf__zk_is_late(request) || !reply || reply->error != ZK_OK)
        return;
    const char *data = hf__zk_read_bytes(&reply->body, &length);
    request->place->permits->total = hf__zk_total(data, length);
}

/* A semaphore that is not there has no data, but can be watched until it is. */
bool hf__zk_semaphore_look(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_permits *permits = place->permits;
    static const struct {
        int32_t operation;
        zk_answered *answered;
        bool watch;
        /* mutant: only-head-of-queue-hears */
    } looks[] = { { ZK_EXISTS, hf__zk_ignore_reply, true }, { ZK_GET_DATA, total_noted, false } };
    permits->total = -1;
    hf__zk_watch_path(zk, place, permits->leases);
    for (unsigned i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        struct zk_request *request =
            ask_for_permits(zk, place, looks[i].operation, looks[i].answered);
        if (!request)
            return false;
        hf__zk_write_text(&request->body, permits->leases);
        hf__zk_write_bool(&request->body, looks[i].watch);
        hf__zk_ask(zk, request);
    }
    return true;
}

/* ---- beginning ---- */

static void cleared_to_line_up(struct zookeeper *zk, struct zk_queue_node *place,
                               struct zk_request *failed, struct zk_reply *reply)
{
    if (failed)
        hf__zk_fail(zk, place, failed, reply);
    else
        place->next(zk, place, ZK_NEXT_LINE_UP);
}

/* A bare try that finds all permits taken has written nothing. */
bool hf__zk_semaphore_begin(struct zookeeper *zk, struct zk_queue_node *place)
{
    struct zk_permits *permits = place->permits;
    if (hf__known_is_there(&permits->known)) {
        if (!hf__zk_leases_clear(zk, place, cleared_to_line_up))
            hf__zk_no_memory(zk, place);
        return true;
    }
    if (*place->node || hf__zk_may_have_node(place) || place->op->in.enqueue)
        return false;
    if (!hf__zk_ask_for_barrier(zk, place))
        return true;
    permits->first = true;
    ask_for_total(zk, place, false);
    return true;
}
