/* SPDX-License-Identifier: Apache-2.0 */
/* Changing a latch' count. A client that does so says which version it has seen: if there is a
 * newer one, the question begins again. */
#include "engines/zookeeper/semaphore/semaphore.h"
#include "latch.h"

#include "base/testing.h"
#include "engines/common/poll.h"

#include <string.h>

/* Each time another change was faster, and so got on. */
#define TRIES_MAX 1000u

struct counting {
    struct hf_link link; /* in zk->countings */
    struct zookeeper *zk;
    struct hf_timer pause;
    struct hf_oneshot *change;
    char *path;
    int64_t count; /* as it was seen, and its version; -1: there is none */
    uint32_t wanted;
    struct zk_stat stat;
    unsigned tries;
    int parent_error;
    bool there, other_kind;
};

static void free_counting(struct counting *counting)
{
    hf__link_remove(&counting->link);
    hf__timer_stop(hf__zk_loop(counting->zk), &counting->pause);
    free(counting->path);
    free(counting);
}

void hf__zk_latches_still(struct zookeeper *zk)
{
    HF_LIST_FOREACH (link, following, &zk->countings)
        hf__timer_stop(hf__zk_loop(zk), &HF_CONTAINER(link, struct counting, link)->pause);
}

void hf__zk_latches_close(struct zookeeper *zk)
{
    struct hf_link *link;
    while ((link = hf__list_first(&zk->countings)))
        free_counting(HF_CONTAINER(link, struct counting, link));
}

static void end_counting(struct zookeeper *zk, struct counting *counting, int code)
{
    struct hf_oneshot *change = counting->change;
    change->code = code;
    change->contacted = code != HF_UNREACHABLE && code != HF_ENOMEM;
    free_counting(counting);
    hf__oneshot_done(&zk->base, change);
}

static void fail_counting(struct zookeeper *zk, const struct zk_request *request,
                          const struct zk_reply *reply)
{
    struct counting *counting = request->arg;
    end_counting(zk, counting, hf__zk_explain(zk, request, reply, &counting->change->error));
}

static void wrong_kind(struct zookeeper *zk, struct counting *counting)
{
    hf__explain(&counting->change->error, HF_EKIND, 0,
                "\"%.200s\" is in use as another kind of lock, or by another program",
                counting->path);
    end_counting(zk, counting, HF_EKIND);
}

static struct zk_request *ask_for_count(struct zookeeper *zk, struct counting *counting,
                                        int32_t operation, zk_answered *answered)
{
    struct zk_request *request = hf__zk_session_request(zk, operation, answered, counting);
    if (request)
        hf__zk_write_text(&request->body, counting->path);
    return request;
}

static void ask_or_end(struct zookeeper *zk, struct counting *counting, struct zk_request *request)
{
    if (request)
        hf__zk_ask(zk, request);
    else
        end_counting(zk, counting, HF_ENOMEM);
}

static void look_again(struct zookeeper *zk, struct counting *counting);

static void pause_over(struct hf_timer *timer)
{
    struct counting *counting = HF_CONTAINER(timer, struct counting, pause);
    look_again(counting->zk, counting);
}

static void try_again(struct zookeeper *zk, struct counting *counting)
{
    if (++counting->tries == TRIES_MAX) {
        hf__explain(&counting->change->error, HF_UNREACHABLE, 0,
                    "\"%.200s\": others change its count again and again; try later",
                    counting->path);
        end_counting(zk, counting, HF_UNREACHABLE);
        return;
    }
    int64_t pause_ms = hf__poll_overtaken_ms(counting->tries);
    if (pause_ms == 0)
        look_again(zk, counting);
    else
        hf__timer_start(hf__zk_loop(zk), &counting->pause, hf__zk_now(zk) + pause_ms);
}

static void changed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct counting *counting = request->arg;
    bool again = reply && (reply->error == ZK_BAD_VERSION || reply->error == ZK_NO_NODE ||
                           reply->error == ZK_NODE_EXISTS);
    struct zk_reply refusal = { .error = counting->parent_error };
    if (reply && reply->error == ZK_NO_NODE && counting->parent_error != ZK_OK) {
        fail_counting(zk, request, &refusal);
        return;
    }
    counting->change->result = counting->wanted;
    if (reply && reply->error == ZK_OK)
        end_counting(zk, counting, HF_OK);
    else if (reply && reply->error == ZK_NOT_EMPTY)
        wrong_kind(zk, counting);
    else if (again)
        try_again(zk, counting);
    else
        fail_counting(zk, request, reply);
}

static void write_count(struct zookeeper *zk, struct counting *counting)
{
    char bytes[ZK_TOTAL_SIZE];
    struct zk_request *request = ask_for_count(zk, counting, ZK_SET_DATA, changed);
    hf__zk_total_bytes(counting->wanted, bytes);
    if (request) {
        hf__zk_write_bytes(&request->body, bytes, sizeof bytes);
        hf__zk_write_int(&request->body, counting->stat.version); /* mutant: owner-counts-down */
    }
    ask_or_end(zk, counting, request);
}

static void parent_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct counting *counting = request->arg;
    hf__zk_parent_answered(zk, reply);
    counting->parent_error = hf__zk_parent_error(counting->parent_error, reply);
}

static struct zk_request *new_parent(struct zookeeper *zk, void *arg, int32_t operation)
{
    return hf__zk_request_beside(zk, arg, operation, parent_answered);
}

/* The nodes above are open to all clients; the latch's own stays, whatever is below it. There is
 * memory for that before the others are asked for, and it is answered last, so `counting` is there
 * when these are. */
static void make(struct zookeeper *zk, struct counting *counting)
{
    char bytes[ZK_TOTAL_SIZE];
    struct zk_request *request = ask_for_count(zk, counting, ZK_CREATE, changed);
    if (request) {
        hf__zk_total_bytes(counting->wanted, bytes);
        hf__zk_write_create(&request->body, bytes, sizeof bytes, ZK_PERSISTENT,
                            zk->settings->servers.user != NULL);
        hf__zk_ask_for_parents(zk, counting->path, false, new_parent, request);
    }
    ask_or_end(zk, counting, request);
}

/* Gone, or still needed. */
static void removed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct counting *counting = request->arg;
    if (!reply)
        fail_counting(zk, request, reply);
    else if (counting->wanted == 0)
        end_counting(zk, counting, HF_OK);
    else if (reply->error == ZK_OK || reply->error == ZK_NO_NODE)
        make(zk, counting);
    else
        changed(zk, request, reply);
}

static void set_count(struct zookeeper *zk, struct counting *counting)
{
    bool container = counting->there && counting->stat.owner == INT64_MIN;
    if (counting->count > 0) {
        end_counting(zk, counting, HF_BUSY);
    } else if (counting->there && (container || counting->wanted == 0)) {
        /* The server would remove a container when it is empty, with the count in it. */
        struct zk_request *request = ask_for_count(zk, counting, ZK_DELETE, removed);
        if (request)
            hf__zk_write_int(&request->body, counting->stat.version);
        ask_or_end(zk, counting, request);
    } else if (counting->there) {
        write_count(zk, counting);
    } else if (counting->wanted == 0) {
        end_counting(zk, counting, HF_OK);
    } else {
        make(zk, counting);
    }
}

static void decide(struct zookeeper *zk, struct counting *counting)
{
    struct hf_oneshot *change = counting->change;
    int64_t count = counting->count > 0 ? counting->count : 0;
    change->result = (uint32_t)count;
    if (counting->other_kind) {
        wrong_kind(zk, counting);
    } else if (change->verb == HF_ONESHOT_LATCH_SET) {
        counting->wanted = change->value;
        set_count(zk, counting);
    } else if (change->verb == HF_ONESHOT_LATCH_GET || count == 0) {
        end_counting(zk, counting, HF_OK);
    } else {
        counting->wanted = count > change->value ? (uint32_t)count - change->value : 0;
        write_count(zk, counting);
    }
}

static void children_answered(struct zookeeper *zk, struct zk_request *request,
                              struct zk_reply *reply)
{
    struct counting *counting = request->arg;
    struct zk_view view = { .own = false };
    (void)zk;
    if (reply && reply->error == ZK_OK)
        hf__zk_view(&view, reply->body, ZK_AWAIT, "", 0);
    counting->other_kind = view.other_kind;
}

static void count_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct counting *counting = request->arg;
    if (hf__zk_is_error(reply)) {
        fail_counting(zk, request, reply);
        return;
    }
    counting->there = reply->error == ZK_OK;
    counting->count = -1;
    if (counting->there) {
        size_t length;
        const char *data = hf__zk_read_bytes(&reply->body, &length);
        counting->count = hf__zk_total(data, length);
        counting->other_kind |= hf__zk_is_foreign(length);
        hf__zk_read_stat(&reply->body, &counting->stat);
    }
    decide(zk, counting);
}

static void look_again(struct zookeeper *zk, struct counting *counting)
{
    struct zk_request *barrier = hf__zk_barrier(zk, hf__zk_session_current(zk));
    struct zk_request *list =
        barrier ? ask_for_count(zk, counting, ZK_GET_CHILDREN, children_answered) : NULL;
    struct zk_request *data = hf__zk_request_beside(zk, list, ZK_GET_DATA, count_answered);
    counting->parent_error = ZK_OK;
    if (barrier)
        hf__zk_ask(zk, barrier);
    /* Without the last one `counting` is gone before the others are answered. */
    if (list && !data)
        list->answered = hf__zk_ignore_reply;
    if (list) {
        hf__zk_write_bool(&list->body, false);
        hf__zk_ask(zk, list);
    }
    if (data) {
        hf__zk_write_text(&data->body, counting->path);
        hf__zk_write_bool(&data->body, false);
    }
    ask_or_end(zk, counting, data);
}

void hf__zk_latch_change(struct zookeeper *zk, struct hf_oneshot *change)
{
    struct counting *counting = NULL;
    char *path = NULL;
    change->code = HF_ENOMEM;
    if (change->verb == HF_ONESHOT_LATCH_SET && change->value > INT32_MAX) {
        hf__explain(&change->error, HF_ELIMIT, 0, "a latch begins at %d at most", INT32_MAX);
        change->code = HF_ELIMIT;
    } else {
        path = hf__zk_path_of(zk->settings->root, change->name, change->name_length);
        counting = path ? hf__calloc(1, sizeof *counting) : NULL;
    }
    if (!counting) {
        free(path);
        hf__oneshot_done(&zk->base, change);
        return;
    }
    counting->zk = zk;
    hf__timer_init(&counting->pause, pause_over);
    counting->change = change;
    counting->path = path;
    hf__list_append(&zk->countings, &counting->link);
    look_again(zk, counting);
}
