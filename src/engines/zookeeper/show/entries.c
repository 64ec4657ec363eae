/* SPDX-License-Identifier: Apache-2.0 */
/* Entries: what a survey of one path says of a lock, its holders and its waiters. */
#include "children_snapshot.h"

#include "engines/common/findings.h"

#include <string.h>

/* The servers' clocks and ours may differ; this is for show, and decides nothing. */
static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static hf_mode mode_of(const struct surveyed *node)
{
    if (node->family == ZK_LEASE || node->family == ZK_AWAIT)
        return node->family == ZK_LEASE ? HF_PERMIT : HF_LATCH;
    if (node->family == ZK_READER || node->family == ZK_WRITER)
        return node->family == ZK_READER ? HF_READ : HF_WRITE;
    if (node->family == ZK_CANDIDATE)
        return HF_FAIR;
    return node->note.ours ? node->note.mode : HF_MUTEX;
}

hf_kind hf__zk_kind_of(const struct children_snapshot *survey)
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

static int64_t newest_token(const struct children_snapshot *survey)
{
    int64_t newest = 0;
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->nodes[i].holds && survey->nodes[i].stat.czxid > newest)
            newest = survey->nodes[i].stat.czxid;
    return newest;
}

static void show_node(struct hf_oneshot *query, const struct surveyed *node, hf_entry *entry)
{
    int64_t now_ms = hf__finding_wall_ms(), lease_ms = node->note.lease_ms;
    entry->owner_key = node->name;
    entry->owner_text = node->note.owner;
    entry->thread = node->note.thread;
    entry->host = strcmp(node->note.host, "-") == 0 ? "" : node->note.host;
    entry->pid = node->note.pid;
    entry->since_ms = clamp(now_ms - node->stat.ctime_ms, INT64_MAX);
    entry->lease_left_ms = -1;
    if (entry->role == HF_ROLE_HOLDER && lease_ms > 0)
        entry->lease_left_ms = clamp(node->stat.mtime_ms + lease_ms - now_ms, lease_ms);
    hf__oneshot_entry(query, entry);
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

void hf__zk_show(struct hf_oneshot *query, const struct children_snapshot *survey, const char *name,
                 size_t length)
{
    uint32_t rank = 0;
    hf_entry entry = entry_of(name, length, hf__zk_kind_of(survey));
    entry.token = (uint64_t)newest_token(survey);
    if (entry.kind == HF_KIND_LATCH)
        entry.value = (uint32_t)survey->total;
    hf__oneshot_entry(query, &entry);
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
static void show_permits(struct hf_oneshot *query, const struct children_snapshot *survey,
                         uint32_t first, hf_entry *entry)
{
    const struct surveyed *node = &survey->nodes[first];
    entry->permits = 0;
    entry->token = 0;
    for (uint32_t i = first; i < survey->count; i++) {
        const struct surveyed *other = &survey->nodes[i];
        if (!other->there || !hf__zk_snapshot_same_claim(other, node->name))
            continue;
        entry->permits++;
        if (entry->token < (uint64_t)other->stat.czxid)
            entry->token = (uint64_t)other->stat.czxid;
    }
    show_node(query, node, entry);
}

void hf__zk_show_leases(struct hf_oneshot *query, const struct children_snapshot *survey,
                        const char *name, size_t length)
{
    hf_entry entry = entry_of(name, length, HF_KIND_SEMAPHORE);
    int64_t taken = 0, total = survey->total;
    for (uint32_t i = 0; i < survey->count; i++)
        taken += survey->nodes[i].there;
    entry.total = total < 0 ? 0 : (uint32_t)total;
    entry.value = total < taken ? 0 : (uint32_t)(total - taken);
    entry.token = (uint64_t)newest_token(survey);
    hf__oneshot_entry(query, &entry);
    entry.role = HF_ROLE_HOLDER;
    entry.mode = HF_PERMIT;
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->nodes[i].there && hf__zk_snapshot_is_first(survey, &survey->nodes[i]))
            show_permits(query, survey, i, &entry);
}

void hf__zk_show_line(struct hf_oneshot *query, const struct children_snapshot *survey,
                      const char *name, size_t length)
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
