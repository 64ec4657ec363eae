/* SPDX-License-Identifier: Apache-2.0 */
/* Surveys: one list, then what each node of it says, all at once. A node that goes meanwhile is not
 * in the picture. */
#include "children_snapshot.h"
#include "engines/zookeeper/semaphore/semaphore.h"

#include "base/testing.h"

#include <string.h>

struct children_snapshot *hf__zk_snapshot_new(struct zookeeper *zk, char *path)
{
    struct children_snapshot *survey = path ? hf__calloc(1, sizeof *survey) : NULL;
    if (!survey) {
        free(path);
        return NULL;
    }
    survey->path = path;
    hf__list_append(&zk->surveys, &survey->link);
    return survey;
}

void hf__zk_snapshot_free(struct children_snapshot *survey)
{
    hf__link_remove(&survey->link);
    if (survey->discard)
        survey->discard(survey);
    free(survey->error);
    free(survey->nodes);
    free(survey->path);
    free(survey);
}

void hf__zk_snapshots_close(struct zookeeper *zk)
{
    struct hf_link *link;
    while ((link = hf__list_first(&zk->surveys)))
        hf__zk_snapshot_free(HF_CONTAINER(link, struct children_snapshot, link));
}

static void fail_survey(struct zookeeper *zk, struct children_snapshot *survey,
                        const struct zk_request *request, const struct zk_reply *reply)
{
    if (survey->code != HF_OK)
        return;
    if (request)
        survey->code = hf__zk_explain(zk, request, reply, &survey->error);
    else
        survey->code = HF_ENOMEM;
}

/* The holders: no node in front stands against them. */
static void judge_survey(struct children_snapshot *survey)
{
    bool seen[ZK_CANDIDATE + 1] = { false };
    uint32_t in_front = 0;
    for (uint32_t i = 0; i < survey->count; i++) {
        struct surveyed *node = &survey->nodes[i];
        for (; survey->nodes[in_front].number < node->number; in_front++)
            seen[survey->nodes[in_front].family] |= survey->nodes[in_front].there;
        node->holds = node->there && node->family != ZK_AWAIT;
        for (unsigned family = ZK_LOCK; family <= ZK_CANDIDATE; family++)
            if (seen[family] && hf__zk_stands_against((enum zk_family)family, node->family))
                node->holds = false;
    }
}

static void one_less(struct zookeeper *zk, struct children_snapshot *survey)
{
    if (--survey->out > 0)
        return;
    judge_survey(survey);
    survey->done(zk, survey);
}

static void data_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct surveyed *node = request->arg;
    struct children_snapshot *survey = node->survey;
    if (reply && reply->error == ZK_OK) {
        size_t length;
        const char *data = hf__zk_read_bytes(&reply->body, &length);
        hf__zk_note_read(&node->note, data, length);
        hf__zk_read_stat(&reply->body, &node->stat);
        node->there = !reply->body.bad;
    } else if (!reply || reply->error != ZK_NO_NODE) {
        fail_survey(zk, survey, request, reply);
    }
    one_less(zk, survey);
}

static struct zk_request *ask_for_children(struct zookeeper *zk, struct children_snapshot *survey,
                                           int32_t operation, zk_answered *answered, void *arg)
{
    struct zk_request *request = hf__zk_session_request(zk, operation, answered, arg);
    if (!request)
        fail_survey(zk, survey, NULL, NULL);
    else
        survey->out++;
    return request;
}

static void ask_for_data(struct zookeeper *zk, struct children_snapshot *survey,
                         struct surveyed *node)
{
    struct zk_request *request = ask_for_children(zk, survey, ZK_GET_DATA, data_answered, node);
    if (!request)
        return;
    hf__zk_write_child(&request->body, survey->path, node->name);
    hf__zk_write_bool(&request->body, false);
    hf__zk_ask(zk, request);
}

static bool add_node(struct children_snapshot *survey, const struct zk_child *child)
{
    if (survey->count == survey->room) {
        uint32_t room = survey->room ? 2 * survey->room : 16;
        struct surveyed *grown = hf__realloc(survey->nodes, room * sizeof *grown);
        if (!grown)
            return false;
        survey->nodes = grown;
        survey->room = room;
    }
    struct surveyed *node = &survey->nodes[survey->count++];
    *node = (struct surveyed){ .survey = survey, .family = child->family, .number = child->number };
    memcpy(node->name, child->name, child->length);
    return true;
}

static int by_number(const void *one, const void *other)
{
    int64_t a = ((const struct surveyed *)one)->number,
            b = ((const struct surveyed *)other)->number;
    return a < b ? -1 : a > b;
}

/* Names that are too long for us are no contender's of any library we know. */
static void read_children(struct children_snapshot *survey, struct zk_reader children)
{
    uint32_t count = hf__zk_read_count(&children);
    for (uint32_t i = 0; i < count && !children.bad; i++) {
        size_t length;
        const char *name = hf__zk_read_bytes(&children, &length);
        struct zk_child child = hf__zk_child(name, length);
        survey->semaphore |= length == strlen(ZK_LEASES) && memcmp(name, ZK_LEASES, length) == 0;
        if (child.family == ZK_STRANGER || length >= ZK_NODE_SIZE) {
            if (survey->met)
                survey->met(survey, name, length);
        } else if (!add_node(survey, &child)) {
            survey->code = HF_ENOMEM;
            return;
        }
    }
    if (survey->count > 1)
        qsort(survey->nodes, survey->count, sizeof *survey->nodes, by_number);
}

static void list_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct children_snapshot *survey = request->arg;
    if (reply && reply->error == ZK_OK)
        read_children(survey, reply->body);
    else if (!reply || reply->error != ZK_NO_NODE)
        fail_survey(zk, survey, request, reply);
    for (uint32_t i = 0; i < survey->count && survey->code == HF_OK; i++)
        ask_for_data(zk, survey, &survey->nodes[i]);
    one_less(zk, survey);
}

static void path_answered(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct children_snapshot *survey = request->arg;
    size_t length;
    if (reply && reply->error == ZK_OK) {
        const char *data = hf__zk_read_bytes(&reply->body, &length);
        survey->total = hf__zk_total(data, length);
    } else if (!reply || reply->error != ZK_NO_NODE) {
        fail_survey(zk, survey, request, reply);
    }
    one_less(zk, survey);
}

static void start(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct zk_request *data = ask_for_children(zk, survey, ZK_GET_DATA, path_answered, survey);
    struct zk_request *list =
        data ? ask_for_children(zk, survey, ZK_GET_CHILDREN, list_answered, survey) : NULL;
    survey->semaphore = false;
    survey->total = -1;
    if (data) {
        hf__zk_write_text(&data->body, *survey->path ? survey->path : "/");
        hf__zk_write_bool(&data->body, false);
        hf__zk_ask(zk, data);
    }
    if (list) {
        hf__zk_write_text(&list->body, *survey->path ? survey->path : "/");
        hf__zk_write_bool(&list->body, false);
        hf__zk_ask(zk, list);
    }
    if (survey->out == 0)
        survey->done(zk, survey);
}

static size_t stem_of(const char *name)
{
    size_t length = strlen(name);
    return length > ZK_DIGITS ? length - ZK_DIGITS : 0;
}

bool hf__zk_snapshot_same_claim(const struct surveyed *node, const char *name)
{
    size_t stem = stem_of(node->name);
    if (node->family != ZK_LEASE)
        return strcmp(node->name, name) == 0;
    return stem_of(name) == stem && memcmp(node->name, name, stem) == 0;
}

bool hf__zk_snapshot_is_first(const struct children_snapshot *survey, const struct surveyed *node)
{
    for (const struct surveyed *each = survey->nodes; each < node; each++)
        if (each->there && hf__zk_snapshot_same_claim(each, node->name))
            return false;
    return true;
}

/* All that is looked at after the first path is no older than the first. */
void hf__zk_snapshot_begin(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct zk_request *barrier = hf__zk_barrier(zk, hf__zk_session_current(zk));
    if (barrier)
        hf__zk_ask(zk, barrier);
    else
        fail_survey(zk, survey, NULL, NULL);
    start(zk, survey);
}

void hf__zk_snapshot_again(struct zookeeper *zk, struct children_snapshot *survey, char *path)
{
    free(survey->path);
    survey->path = path;
    survey->count = 0;
    start(zk, survey);
}
