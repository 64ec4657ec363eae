/* SPDX-License-Identifier: Apache-2.0 */
/* Looking: holders and waiters. Everything is found by walking the tree below the root: what has
 * contenders among its children is a lock. */
#include "children_snapshot.h"
#include "engines/zookeeper/semaphore/semaphore.h"

#include "base/testing.h"

#include <string.h>

/* Bytes of a latch's count. */
#define COUNT_SIZE 4
/* Questions for nodes that are sent together. */
#define SIFTED_MAX 500u

/* A node that was met: not looked at yet, or one that may be a lock's or lead to one. */
struct met {
    char *path;
    struct children_snapshot *survey;
    bool sifted, left_out;
};

/* What a walk has still to look at. */
struct walk {
    struct hf_oneshot *query;
    struct met *nodes;
    uint32_t count, room, seen;
    uint32_t sifted_out; /* questions for nodes that are not answered yet */
    char *semaphore;     /* whose parts are being looked at, or NULL */
    bool in_line;        /* the part is its queue */
    bool out_of_memory, too_many;
};

/* ---- walking ---- */

static void met(struct children_snapshot *survey, const char *child, size_t length)
{
    struct walk *walk = survey->arg;
    bool reserved = !*survey->path && length == 9 && memcmp(child, "zookeeper", length) == 0;
    if (reserved || walk->query->name || walk->semaphore)
        return;
    walk->too_many |= walk->seen + walk->count >= hf__zk_bounds.nodes;
    if (walk->too_many)
        return;
    if (walk->count == walk->room) {
        uint32_t room = walk->room ? 2 * walk->room : 64;
        struct met *grown = hf__realloc(walk->nodes, room * sizeof *grown);
        walk->out_of_memory |= !grown;
        if (!grown)
            return;
        walk->nodes = grown;
        walk->room = room;
    }
    size_t before = strlen(survey->path);
    char *path = hf__calloc(1, before + 1 + length + 1);
    walk->out_of_memory |= !path;
    if (!path)
        return;
    memcpy(path, survey->path, before);
    path[before] = '/';
    memcpy(path + before + 1, child, length);
    walk->nodes[walk->count++] = (struct met){ .path = path, .survey = survey };
}

static void free_walk(struct children_snapshot *survey)
{
    struct walk *walk = survey->arg;
    while (walk->count > 0)
        free(walk->nodes[--walk->count].path);
    free(walk->semaphore);
    free(walk->nodes);
    free(walk);
}

static void end_walk(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct walk *walk = survey->arg;
    struct hf_oneshot *query = walk->query;
    query->code = walk->out_of_memory && survey->code == HF_OK ? HF_ENOMEM : survey->code;
    query->error = survey->error;
    query->contacted = query->code != HF_UNREACHABLE && query->code != HF_ENOMEM;
    survey->error = NULL;
    if (query->code == HF_OK && walk->too_many) {
        query->code = HF_ELIMIT;
        hf__explain(&query->error, HF_ELIMIT, 0,
                    "ZooKeeper at %s: there are more than %u nodes below the path of the URL; the "
                    "others were not looked at: ask for one name, or name a longer path",
                    zk->settings->servers.shown, hf__zk_bounds.nodes);
    }
    hf__zk_snapshot_free(survey);
    hf__oneshot_done(&zk->base, query);
}

static void sift(struct zookeeper *zk, struct children_snapshot *survey);

static void inspect_go_on(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct walk *walk = survey->arg;
    if (survey->code != HF_OK || walk->out_of_memory || walk->count == 0 || walk->query->unwanted)
        end_walk(zk, survey);
    else if (!walk->nodes[walk->count - 1].sifted)
        sift(zk, survey);
    else
        hf__zk_snapshot_again(zk, survey, walk->nodes[--walk->count].path);
}

/* ---- most nodes of a large store are empty, and need no survey of their own ---- */

static void drop_what_is_left_out(struct walk *walk)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < walk->count; i++) {
        if (walk->nodes[i].left_out)
            free(walk->nodes[i].path);
        else
            walk->nodes[kept++] = walk->nodes[i];
    }
    walk->count = kept;
}

/* Without children it is no lock in use, and without a count no latch. */
static void sifted(struct zookeeper *zk, struct zk_request *request, struct zk_reply *reply)
{
    struct met *node = request->arg;
    struct children_snapshot *survey = node->survey;
    struct walk *walk = survey->arg;
    struct zk_stat stat = { .child_count = 0 };
    node->sifted = true;
    if (reply && reply->error == ZK_OK) {
        hf__zk_read_stat(&reply->body, &stat);
        node->left_out = /* mutant: nodes-without-queue-are-looked */
            !reply->body.bad && stat.child_count == 0 && stat.data_length != COUNT_SIZE;
    } else if (reply && reply->error == ZK_NO_NODE) {
        node->left_out = true;
    } else if (survey->code == HF_OK) {
        survey->code = hf__zk_explain(zk, request, reply, &survey->error);
    }
    if (--walk->sifted_out > 0)
        return;
    hf__oneshot_progress(walk->query);
    drop_what_is_left_out(walk);
    inspect_go_on(zk, survey);
}

static void sift(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct walk *walk = survey->arg;
    walk->sifted_out = 1;
    for (uint32_t i = walk->count;
         i > 0 && !walk->nodes[i - 1].sifted && walk->sifted_out <= SIFTED_MAX; i--) {
        struct met *node = &walk->nodes[i - 1];
        struct zk_request *request = hf__zk_session_request(zk, ZK_EXISTS, sifted, node);
        walk->out_of_memory |= !request;
        if (!request)
            break;
        walk->sifted_out++;
        hf__zk_write_text(&request->body, node->path);
        hf__zk_write_bool(&request->body, false);
        hf__zk_ask(zk, request);
    }
    if (--walk->sifted_out == 0)
        end_walk(zk, survey);
}

/* Its parts are no locks of their own. */
static void forget_parts(struct walk *walk, const char *path)
{
    size_t length = strlen(path);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < walk->count; i++) {
        const char *child = walk->nodes[i].path + length + 1;
        bool below = strncmp(walk->nodes[i].path, path, length) == 0 && child[-1] == '/';
        if (below && (strcmp(child, ZK_LEASES) == 0 || strcmp(child, ZK_LOCKS) == 0))
            free(walk->nodes[i].path);
        else
            walk->nodes[kept++] = walk->nodes[i];
    }
    walk->count = kept;
}

static void look_at_part(struct zookeeper *zk, struct children_snapshot *survey, const char *part)
{
    struct walk *walk = survey->arg;
    char *path = hf__zk_join(walk->semaphore, part);
    walk->out_of_memory |= !path;
    if (path)
        hf__zk_snapshot_again(zk, survey, path);
    else
        end_walk(zk, survey);
}

static void semaphore_seen(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct walk *walk = survey->arg;
    char *path = hf__copy_text(survey->path);
    walk->out_of_memory |= !path;
    if (!path) {
        end_walk(zk, survey);
        return;
    }
    forget_parts(walk, path);
    walk->semaphore = path;
    walk->in_line = false;
    look_at_part(zk, survey, ZK_LEASES);
}

/* First those that have permits, then those that wait for some. */
static void part_seen(struct zookeeper *zk, struct children_snapshot *survey, const char *name,
                      size_t length)
{
    struct walk *walk = survey->arg;
    if (!walk->in_line) {
        hf__zk_show_leases(walk->query, survey, name, length);
        walk->in_line = true;
        look_at_part(zk, survey, ZK_LOCKS);
        return;
    }
    hf__zk_show_line(walk->query, survey, name, length);
    free(walk->semaphore);
    walk->semaphore = NULL;
    inspect_go_on(zk, survey);
}

static void path_seen(struct zookeeper *zk, struct children_snapshot *survey)
{
    struct walk *walk = survey->arg;
    char name[HF_NAME_MAX + 1];
    const char *path = walk->semaphore ? walk->semaphore : survey->path;
    size_t length = hf__zk_name_of(zk->settings->root, path, name);
    walk->seen++;
    hf__oneshot_progress(walk->query);
    if (survey->code != HF_OK || length == 0) {
        inspect_go_on(zk, survey);
    } else if (walk->semaphore) {
        part_seen(zk, survey, name, length);
    } else if (survey->semaphore) {
        semaphore_seen(zk, survey);
    } else {
        if (walk->query->name || hf__zk_kind_of(survey) != HF_KIND_FREE)
            hf__zk_show(walk->query, survey, name, length);
        inspect_go_on(zk, survey);
    }
}

/* Of one name, or of everything. */
static struct children_snapshot *begin_walk(struct zookeeper *zk, struct hf_oneshot *query)
{
    const char *root = zk->settings->root;
    char *path =
        query->name ? hf__zk_path_of(root, query->name, query->name_length) : hf__copy_text(root);
    struct children_snapshot *survey = hf__zk_snapshot_new(zk, path);
    struct walk *walk = survey ? hf__calloc(1, sizeof *walk) : NULL;
    if (!walk) {
        if (survey)
            hf__zk_snapshot_free(survey);
        return NULL;
    }
    walk->query = query;
    survey->arg = walk;
    survey->met = met;
    survey->done = path_seen;
    survey->discard = free_walk;
    return survey;
}

void hf__zk_inspect(struct zookeeper *zk, struct hf_oneshot *query)
{
    struct children_snapshot *survey = begin_walk(zk, query);
    if (survey) {
        hf__zk_snapshot_begin(zk, survey);
        return;
    }
    query->code = HF_ENOMEM;
    hf__oneshot_done(&zk->base, query);
}
