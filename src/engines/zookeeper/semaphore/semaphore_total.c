/* SPDX-License-Identifier: Apache-2.0 */
/* How many permits a semaphore has: the data of its node for leases, which stays as long as the
 * semaphore does. */
#include "semaphore.h"

#include "base/testing.h"

#include <string.h>

#define TRIES_MAX 8u

struct setting {
    struct hf_link link; /* in zk->totals */
    char *path, *leases, *locks;
    uint32_t permits;
    unsigned tries;
    int parent_error;
    bool only_new;
    bool latch; /* there is one at the path */
    hf__zk_total_done *done;
    void (*discard)(void *arg);
    void *arg;
};

static void free_setting(struct setting *setting)
{
    hf__link_remove(&setting->link);
    free(setting->path);
    free(setting->leases);
    free(setting->locks);
    free(setting);
}

void hf__zk_totals_close(struct zookeeper *zk)
{
    struct hf_link *link;
    while ((link = hf__list_first(&zk->totals))) {
        struct setting *setting = HF_CONTAINER(link, struct setting, link);
        if (setting->discard)
            setting->discard(setting->arg);
        free_setting(setting);
    }
}

static void finish_setting(struct zookeeper *zk, struct setting *setting, int code, hf_error *error)
{
    setting->done(zk, setting->arg, code, error);
    free_setting(setting);
}

static void fail_setting(struct zookeeper *zk, const struct zk_request *request,
                         const struct zk_reply *reply)
{
    const struct setting *setting = request->arg;
    struct zk_reply refusal = { .error = setting->parent_error };
    hf_error *error = NULL;
    if (reply && reply->error == ZK_NO_NODE && setting->parent_error != ZK_OK)
        reply = &refusal;
    int code = hf__zk_explain(zk, request, reply, &error);
    finish_setting(zk, request->arg, code, error);
}

static struct zk_request *ask_for_total(struct zookeeper *zk, struct setting *setting,
                                        int32_t operation, const char *path, zk_answered *answered)
{
    struct zk_request *request = hf__zk_session_request(zk, operation, answered, setting);
    if (request)
        hf__zk_write_text(&request->body, path);
    return request;
}

/* Asks, or ends it without memory. */
static void ask_or_end(struct zookeeper *zk, struct setting *setting, struct zk_request *request)
{
    if (request)
        hf__zk_ask(zk, request);
    else
        finish_setting(zk, setting, HF_ENOMEM, NULL);
}

/* ---- making and changing ---- */

static void make(struct zookeeper *zk, struct setting *setting);

static void changed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct setting *setting = request->arg;
    if (reply && reply->error == ZK_OK)
        finish_setting(zk, setting, HF_OK, NULL);
    else if (reply && reply->error == ZK_NO_NODE && setting->parent_error == ZK_OK &&
             ++setting->tries < TRIES_MAX)
        make(zk, setting);
    else
        fail_setting(zk, request, reply);
}

static void change(struct zookeeper *zk, struct setting *setting)
{
    char bytes[ZK_TOTAL_SIZE];
    struct zk_request *request = ask_for_total(zk, setting, ZK_SET_DATA, setting->leases, changed);
    hf__zk_total_bytes(setting->permits, bytes);
    if (request) {
        hf__zk_write_bytes(&request->body, bytes, sizeof bytes);
        hf__zk_write_int(&request->body, -1);
    }
    ask_or_end(zk, setting, request);
}

static void created(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct setting *setting = request->arg;
    if (reply && reply->error == ZK_NODE_EXISTS && !setting->only_new)
        change(zk, setting);
    else if (reply && reply->error == ZK_NODE_EXISTS)
        finish_setting(zk, setting, HF_OK, NULL);
    else
        changed(zk, request, reply);
}

static void parent_answered(struct zookeeper *zk, struct zk_request *request,
                            struct zk_reply *reply)
{
    struct setting *setting = request->arg;
    hf__zk_parent_answered(zk, reply);
    setting->parent_error = hf__zk_parent_error(setting->parent_error, reply);
}

static struct zk_request *new_parent(struct zookeeper *zk, void *arg, int32_t operation)
{
    return hf__zk_request_beside(zk, arg, operation, parent_answered);
}

/* Every node on the way, from the top, and at last the one that stays. There is memory for that
 * before the others are asked for, and it is answered last, so `setting` is there when these are.
 */
static void make(struct zookeeper *zk, struct setting *setting)
{
    char bytes[ZK_TOTAL_SIZE];
    struct zk_request *request = ask_for_total(zk, setting, ZK_CREATE, setting->leases, created);
    if (request) {
        hf__zk_total_bytes(setting->permits, bytes);
        hf__zk_write_create(&request->body, bytes, sizeof bytes, ZK_PERSISTENT,
                            zk->settings->servers.user != NULL);
        setting->parent_error = ZK_OK;
        hf__zk_ask_for_parents(zk, setting->path, true, new_parent, request);
    }
    ask_or_end(zk, setting, request);
}

/* ---- removing ---- */

static void removed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    (void)reply;
    finish_setting(zk, request->arg, HF_OK, NULL);
}

/* What is left above goes too, if it is not needed. */
static void leases_removed(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct setting *setting = request->arg;
    if (reply && reply->error == ZK_NOT_EMPTY) {
        finish_setting(zk, setting, HF_BUSY, NULL);
        return;
    }
    if (hf__zk_is_error(reply)) {
        fail_setting(zk, request, reply);
        return;
    }
    struct zk_request *locks =
        ask_for_total(zk, setting, ZK_DELETE, setting->locks, hf__zk_ignore_reply);
    if (locks) {
        hf__zk_write_int(&locks->body, -1);
        hf__zk_ask(zk, locks);
    }
    struct zk_request *last = ask_for_total(zk, setting, ZK_DELETE, setting->path, removed);
    if (last)
        hf__zk_write_int(&last->body, -1);
    ask_or_end(zk, setting, last);
}

static void data_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct setting *setting = request->arg;
    size_t length;
    (void)zk;
    if (!reply || reply->error != ZK_OK)
        return;
    const char *data = hf__zk_read_bytes(&reply->body, &length);
    setting->latch = hf__zk_total(data, length) > 0;
}

static void children_answered(struct zookeeper *zk, struct zk_request *request,
                              struct zk_reply *reply)
{
    struct setting *setting = request->arg;
    hf_error *error = NULL;
    if (hf__zk_is_error(reply)) {
        fail_setting(zk, request, reply);
    } else if (setting->latch || (reply->error == ZK_OK && hf__zk_has_contender(reply->body))) {
        hf__explain(&error, HF_EKIND, 0, "\"%.200s\" is in use as another kind of lock",
                    setting->path);
        finish_setting(zk, setting, HF_EKIND, error);
    } else if (setting->permits > 0) {
        make(zk, setting);
    } else {
        struct zk_request *last =
            ask_for_total(zk, setting, ZK_DELETE, setting->leases, leases_removed);
        if (last)
            hf__zk_write_int(&last->body, -1);
        ask_or_end(zk, setting, last);
    }
}

void hf__zk_total_set(struct zookeeper *zk, const char *name, size_t length, uint32_t permits,
                      bool only_new, hf__zk_total_done *done, void (*discard)(void *arg), void *arg)
{
    struct setting *setting = hf__calloc(1, sizeof *setting);
    if (!setting) {
        done(zk, arg, HF_ENOMEM, NULL);
        return;
    }
    *setting = (struct setting){
        .permits = permits, .only_new = only_new, .done = done, .discard = discard, .arg = arg
    };
    hf__list_append(&zk->totals, &setting->link);
    setting->path = hf__zk_path_of(zk->settings->root, name, length);
    setting->leases = setting->path ? hf__zk_join(setting->path, ZK_LEASES) : NULL;
    setting->locks = setting->path ? hf__zk_join(setting->path, ZK_LOCKS) : NULL;
    struct zk_request *barrier = NULL, *data = NULL, *list = NULL;
    if (setting->leases && setting->locks)
        barrier = hf__zk_barrier(zk, hf__zk_session_current(zk));
    if (barrier) {
        data = ask_for_total(zk, setting, ZK_GET_DATA, setting->path, data_answered);
        list = hf__zk_request_beside(zk, data, ZK_GET_CHILDREN, children_answered);
    }
    if (barrier)
        hf__zk_ask(zk, barrier);
    /* Without the last one `setting` is gone before the others are answered. */
    if (data && !list)
        data->answered = hf__zk_ignore_reply;
    if (data) {
        hf__zk_write_bool(&data->body, false);
        hf__zk_ask(zk, data);
    }
    if (list) {
        hf__zk_write_text(&list->body, setting->path);
        hf__zk_write_bool(&list->body, false);
    }
    ask_or_end(zk, setting, list);
}
