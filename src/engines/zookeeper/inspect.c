/* Looking: who holds, and who waits. Everything is found by walking the tree below the root: what
 * has contenders among its children is a lock. */
#include "survey.h"

#include "base/testing.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* So many paths are looked at, and what lies deeper is no lock of anybody's. */
#define PATHS_MAX 200000u

/* What a walk has still to look at. */
struct walk {
    struct hf_query *query;
    char **paths;
    uint32_t count, room, seen;
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
    if (node->family != ZK_LOCK)
        return node->family == ZK_READER ? HF_READ : HF_WRITE;
    return node->note.ours ? node->note.mode : HF_MUTEX;
}

static hf_kind kind_of(const struct survey *survey)
{
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->nodes[i].there) {
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
    entry->mode = mode_of(node);
    entry->permits = 1;
    entry->token = node->holds ? (uint64_t)node->stat.czxid : 0;
    entry->owner_key = node->name;
    entry->owner_text = node->note.owner;
    entry->host = strcmp(node->note.host, "-") == 0 ? "" : node->note.host;
    entry->pid = node->note.pid;
    entry->since_ms = clamp(now_ms - node->stat.ctime_ms, INT64_MAX);
    entry->lease_left_ms = -1;
    if (node->holds && lease_ms > 0)
        entry->lease_left_ms = clamp(node->stat.mtime_ms + lease_ms - now_ms, lease_ms);
    hf__query_add(query, entry);
}

static void show(struct hf_query *query, const struct survey *survey, const char *name,
                 size_t length)
{
    uint32_t rank = 0;
    hf_entry entry = { .size = sizeof entry,
                       .name = name,
                       .name_length = length,
                       .kind = kind_of(survey),
                       .role = HF_ROLE_OBJECT,
                       .owner_key = "",
                       .owner_text = "",
                       .host = "",
                       .token = (uint64_t)newest_token(survey),
                       .lease_left_ms = -1 };
    hf__query_add(query, &entry);
    for (unsigned waiters = 0; waiters < 2; waiters++)
        for (uint32_t i = 0; i < survey->count; i++) {
            const struct surveyed *node = &survey->nodes[i];
            if (!node->there || node->holds == (waiters == 1))
                continue;
            entry.role = waiters ? HF_ROLE_WAITER : HF_ROLE_HOLDER;
            entry.rank = waiters ? ++rank : 0;
            show_node(query, node, &entry);
        }
}

static void answer(struct zookeeper *zk, struct hf_query *query, struct survey *survey)
{
    query->code = survey->code;
    query->error = survey->error;
    survey->error = NULL;
    hf__zk_survey_free(survey);
    hf__query_done(&zk->base, query);
}

static void one_seen(struct zookeeper *zk, struct survey *survey)
{
    struct hf_query *query = survey->arg;
    if (survey->code == HF_OK)
        show(query, survey, query->name, query->name_length);
    answer(zk, query, survey);
}

/* ---- everything ---- */

static void met(struct survey *survey, const char *child, size_t length)
{
    struct walk *walk = survey->arg;
    bool reserved = !*survey->path && length == 9 && memcmp(child, "zookeeper", length) == 0;
    if (reserved || walk->seen + walk->count >= PATHS_MAX)
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
    free(walk->paths);
    free(walk);
}

static void end_walk(struct zookeeper *zk, struct survey *survey)
{
    struct walk *walk = survey->arg;
    if (walk->out_of_memory && survey->code == HF_OK)
        survey->code = HF_ENOMEM;
    answer(zk, walk->query, survey);
}

static void path_seen(struct zookeeper *zk, struct survey *survey)
{
    struct walk *walk = survey->arg;
    char name[HF_NAME_MAX + 1];
    size_t length = hf__zk_name_of(zk->settings.root, survey->path, name);
    walk->seen++;
    if (survey->code == HF_OK && length > 0 && kind_of(survey) != HF_KIND_FREE)
        show(walk->query, survey, name, length);
    if (survey->code != HF_OK || walk->out_of_memory || walk->count == 0)
        end_walk(zk, survey);
    else
        hf__zk_survey_again(zk, survey, walk->paths[--walk->count]);
}

static char *copy_of(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = hf__calloc(1, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

static struct survey *begin_walk(struct zookeeper *zk, struct hf_query *query)
{
    struct survey *survey = hf__zk_survey_new(zk, copy_of(zk->settings.root));
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

void hf__zk_inspect(struct hf_engine *engine, struct hf_query *query)
{
    struct zookeeper *zk = (struct zookeeper *)engine;
    struct survey *survey;
    if (query->name) {
        survey = hf__zk_survey_new(
            zk, hf__zk_path_of(zk->settings.root, query->name, query->name_length));
        if (survey) {
            survey->arg = query;
            survey->done = one_seen;
        }
    } else {
        survey = begin_walk(zk, query);
    }
    if (survey) {
        hf__zk_survey_begin(zk, survey);
        return;
    }
    query->code = HF_ENOMEM;
    hf__query_done(engine, query);
}
