/* SPDX-License-Identifier: Apache-2.0 */
/* Looking: who holds, and who waits. Everything is found by walking the tree below the root: what
 * has contenders among its children is a lock. */
#include "semaphore.h"
#include "survey.h"

#include "base/testing.h"

#include <string.h>
#include <time.h>

/* So many paths are looked at, and what lies deeper is no lock of anybody's. */
#define PATHS_MAX 200000u

/* What a walk has still to look at. */
struct walk {
    struct hf_query *query;
    char **paths;
    uint32_t count, room, seen;
    char *semaphore; /* whose parts are being looked at, or NULL */
    bool in_line;    /* the part is its queue */
    bool out_of_memory;
};

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The servers' clocks and ours may differ; this is for those who look, and decides nothing. */
static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static hf_mode mode_of(const struct surveyed *node)
{
    if (node->family == ZK_LEASE || node->family == ZK_AWAIT)
        return node->family == ZK_LEASE ? HF_PERMIT : HF_LATCH;
    if (node->family != ZK_LOCK)
        return node->family == ZK_READER ? HF_READ : HF_WRITE;
    return node->note.ours ? node->note.mode : HF_MUTEX;
}

static hf_kind kind_of(const struct survey *survey)
{
    if (survey->total > 0)
        return HF_KIND_LATCH;
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->nodes[i].there && survey->nodes[i].family != ZK_AWAIT) {
            hf_mode mode = mode_of(&survey->nodes[i]);
            return mode == HF_MUTEX ? HF_KIND_MUTEX : mode == HF_FAIR ? HF_KIND_FAIR : HF_KIND_RW;
        }
    return HF_KIND_FREE;
}

static int64_t newest_token(const struct survey *survey)
{
    int64_t newest = 0;
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->nodes[i].holds && survey->nodes[i].stat.czxid > newest)
            newest = survey->nodes[i].stat.czxid;
    return newest;
}

static void show_node(struct hf_query *query, const struct surveyed *node, hf_entry *entry)
{
    int64_t now_ms = wall_ms(), lease_ms = node->note.lease_ms;
    entry->owner_key = node->name;
    entry->owner_text = node->note.owner;
    entry->host = strcmp(node->note.host, "-") == 0 ? "" : node->note.host;
    entry->pid = node->note.pid;
    entry->since_ms = clamp(now_ms - node->stat.ctime_ms, INT64_MAX);
    entry->lease_left_ms = -1;
    if (entry->role == HF_ROLE_HOLDER && lease_ms > 0)
        entry->lease_left_ms = clamp(node->stat.mtime_ms + lease_ms - now_ms, lease_ms);
    hf__query_add(query, entry);
}

static hf_entry entry_of(const char *name, size_t length, hf_kind kind)
{
    return (hf_entry){ .size = sizeof(hf_entry),
                       .name = name,
                       .name_length = length,
                       .kind = kind,
                       .role = HF_ROLE_OBJECT,
                       .owner_key = "",
                       .owner_text = "",
                       .host = "",
                       .lease_left_ms = -1 };
}

static void show(struct hf_query *query, const struct survey *survey, const char *name,
                 size_t length)
{
    uint32_t rank = 0;
    hf_entry entry = entry_of(name, length, kind_of(survey));
    entry.token = (uint64_t)newest_token(survey);
    if (entry.kind == HF_KIND_LATCH)
        entry.value = (uint32_t)survey->total;
    hf__query_add(query, &entry);
    for (unsigned waiters = 0; waiters < 2; waiters++)
        for (uint32_t i = 0; i < survey->count; i++) {
            const struct surveyed *node = &survey->nodes[i];
            if (!node->there || node->holds == (waiters == 1))
                continue;
            entry.role = waiters ? HF_ROLE_WAITER : HF_ROLE_HOLDER;
            entry.rank = waiters ? ++rank : 0;
            entry.mode = mode_of(node);
            entry.permits = 1;
            entry.token = node->holds ? (uint64_t)node->stat.czxid : 0;
            show_node(query, node, &entry);
        }
}

/* ---- semaphores ---- */

/* A claim is shown by its first lease; its token is the newest of its leases'. */
static void show_permits(struct hf_query *query, const struct survey *survey, uint32_t first,
                         hf_entry *entry)
{
    const struct surveyed *node = &survey->nodes[first];
    entry->permits = 0;
    entry->token = 0;
    for (uint32_t i = first; i < survey->count; i++) {
        const struct surveyed *other = &survey->nodes[i];
        if (!other->there || !hf__zk_survey_same_claim(other, node->name))
            continue;
        entry->permits++;
        if (entry->token < (uint64_t)other->stat.czxid)
            entry->token = (uint64_t)other->stat.czxid;
    }
    show_node(query, node, entry);
}

static void show_leases(struct hf_query *query, const struct survey *survey, const char *name,
                        size_t length)
{
    hf_entry entry = entry_of(name, length, HF_KIND_SEMAPHORE);
    int64_t taken = 0, total = survey->total;
    for (uint32_t i = 0; i < survey->count; i++)
        taken += survey->nodes[i].there;
    entry.total = total < 0 ? 0 : (uint32_t)total;
    entry.value = total < taken ? 0 : (uint32_t)(total - taken);
    entry.token = (uint64_t)newest_token(survey);
    hf__query_add(query, &entry);
    entry.role = HF_ROLE_HOLDER;
    entry.mode = HF_PERMIT;
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->nodes[i].there && hf__zk_survey_is_first(survey, &survey->nodes[i]))
            show_permits(query, survey, i, &entry);
}

static void show_line(struct hf_query *query, const struct survey *survey, const char *name,
                      size_t length)
{
    hf_entry entry = entry_of(name, length, HF_KIND_SEMAPHORE);
    entry.role = HF_ROLE_WAITER;
    entry.mode = HF_PERMIT;
    for (uint32_t i = 0; i < survey->count; i++) {
        if (!survey->nodes[i].there)
            continue;
        entry.rank++;
        entry.permits = survey->nodes[i].note.permits;
        show_node(query, &survey->nodes[i], &entry);
    }
}

/* ---- walking ---- */

static void met(struct survey *survey, const char *child, size_t length)
{
    struct walk *walk = survey->arg;
    bool reserved = !*survey->path && length == 9 && memcmp(child, "zookeeper", length) == 0;
    if (reserved || walk->query->name || walk->semaphore || walk->seen + walk->count >= PATHS_MAX)
        return;
    if (walk->count == walk->room) {
        uint32_t room = walk->room ? 2 * walk->room : 64;
        char **grown = hf__realloc(walk->paths, room * sizeof *grown);
        walk->out_of_memory |= !grown;
        if (!grown)
            return;
        walk->paths = grown;
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
    walk->paths[walk->count++] = path;
}

static void free_walk(struct survey *survey)
{
    struct walk *walk = survey->arg;
    while (walk->count > 0)
        free(walk->paths[--walk->count]);
    free(walk->semaphore);
    free(walk->paths);
    free(walk);
}

static void end_walk(struct zookeeper *zk, struct survey *survey)
{
    struct walk *walk = survey->arg;
    struct hf_query *query = walk->query;
    query->code = walk->out_of_memory && survey->code == HF_OK ? HF_ENOMEM : survey->code;
    query->error = survey->error;
    survey->error = NULL;
    hf__zk_survey_free(survey);
    hf__query_done(&zk->base, query);
}

static void go_on(struct zookeeper *zk, struct survey *survey)
{
    struct walk *walk = survey->arg;
    if (survey->code != HF_OK || walk->out_of_memory || walk->count == 0)
        end_walk(zk, survey);
    else
        hf__zk_survey_again(zk, survey, walk->paths[--walk->count]);
}

/* Its parts are no locks of their own. */
static void forget_parts(struct walk *walk, const char *path)
{
    size_t length = strlen(path);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < walk->count; i++) {
        const char *child = walk->paths[i] + length + 1;
        bool below = strncmp(walk->paths[i], path, length) == 0 && child[-1] == '/';
        if (below && (strcmp(child, ZK_LEASES) == 0 || strcmp(child, ZK_LOCKS) == 0))
            free(walk->paths[i]);
        else
            walk->paths[kept++] = walk->paths[i];
    }
    walk->count = kept;
}

static void look_at_part(struct zookeeper *zk, struct survey *survey, const char *part)
{
    struct walk *walk = survey->arg;
    char *path = hf__zk_join(walk->semaphore, part);
    walk->out_of_memory |= !path;
    if (path)
        hf__zk_survey_again(zk, survey, path);
    else
        end_walk(zk, survey);
}

static void semaphore_seen(struct zookeeper *zk, struct survey *survey)
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

/* First those who have permits, then those who wait for some. */
static void part_seen(struct zookeeper *zk, struct survey *survey, const char *name, size_t length)
{
    struct walk *walk = survey->arg;
    if (!walk->in_line) {
        show_leases(walk->query, survey, name, length);
        walk->in_line = true;
        look_at_part(zk, survey, ZK_LOCKS);
        return;
    }
    show_line(walk->query, survey, name, length);
    free(walk->semaphore);
    walk->semaphore = NULL;
    go_on(zk, survey);
}

static void path_seen(struct zookeeper *zk, struct survey *survey)
{
    struct walk *walk = survey->arg;
    char name[HF_NAME_MAX + 1];
    const char *path = walk->semaphore ? walk->semaphore : survey->path;
    size_t length = hf__zk_name_of(zk->settings->root, path, name);
    walk->seen++;
    if (survey->code != HF_OK || length == 0) {
        go_on(zk, survey);
    } else if (walk->semaphore) {
        part_seen(zk, survey, name, length);
    } else if (survey->semaphore) {
        semaphore_seen(zk, survey);
    } else {
        if (walk->query->name || kind_of(survey) != HF_KIND_FREE)
            show(walk->query, survey, name, length);
        go_on(zk, survey);
    }
}

/* Of one name, or of everything. */
static struct survey *begin_walk(struct zookeeper *zk, struct hf_query *query)
{
    const char *root = zk->settings->root;
    char *path =
        query->name ? hf__zk_path_of(root, query->name, query->name_length) : hf__copy_text(root);
    struct survey *survey = hf__zk_survey_new(zk, path);
    struct walk *walk = survey ? hf__calloc(1, sizeof *walk) : NULL;
    if (!walk) {
        if (survey)
            hf__zk_survey_free(survey);
        return NULL;
    }
    walk->query = query;
    survey->arg = walk;
    survey->met = met;
    survey->done = path_seen;
    survey->discard = free_walk;
    return survey;
}

void hf__zk_inspect(struct zookeeper *zk, struct hf_query *query)
{
    struct survey *survey = begin_walk(zk, query);
    if (survey) {
        hf__zk_survey_begin(zk, survey);
        return;
    }
    query->code = HF_ENOMEM;
    hf__query_done(&zk->base, query);
}
