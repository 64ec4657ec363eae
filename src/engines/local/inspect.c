/* SPDX-License-Identifier: Apache-2.0 */
/* Holders and waiters. A name's picture is copied inside its guard and shown outside. */
#include "base/clock.h"
#include "base/testing.h"
#include "base/wait_graph.h"
#include "engines/common/findings.h"
#include "file.h"
#include "local.h"

#include <stdlib.h>
#include <string.h>

/* One entry, with the strings it points to. */
struct shown {
    hf_entry entry;
    char key[HF_OWNER_KEY_SIZE];
    char text[128];
    char host[64];
    char thread[HF_OWNER_KEY_SIZE];
};

struct picture {
    struct shown *shown;
    uint32_t count, room;
    char name[LOCAL_NAME_LONGEST + 1];
    uint32_t name_length;
};

static void show_owner(struct txn *visit, const struct local_node *node, struct shown *shown)
{
    uint64_t session = local_get(&node->session);
    const struct local_session *place = local_session(visit->local, local_session_slot(session));
    memcpy(shown->text, node->text, sizeof(node->text));
    shown->text[sizeof(node->text) - 1] = 0;
    if (session == LOCAL_DETACHED || local_get(&place->epoch) != local_session_epoch(session))
        return;
    shown->entry.pid = place->pid;
    memcpy(shown->host, place->host, sizeof(place->host));
    shown->host[sizeof(shown->host) - 1] = 0;
    /* A node has room for a short text only; the client's own is kept whole in its session. */
    if (!strncmp(place->owner, node->text, sizeof(node->text) - 1)) {
        memcpy(shown->text, place->owner, sizeof(place->owner));
        shown->text[sizeof(shown->text) - 1] = 0;
    }
}

static void show_node(struct txn *visit, const struct local_node *node, struct shown *shown)
{
    uint64_t state = local_get(&node->state);
    int64_t now_ms = hf__txn_now(visit), deadline_ms = (int64_t)local_get(&node->deadline_ms);
    bool held = local_state_state(state) == LOCAL_HELD;
    bool leased = held && deadline_ms && !(local_state_flags(state) & LOCAL_OFFERED);
    hf__local_key(node, shown->key);
    hf__thread_key(shown->thread, shown->key, hf__owner_thread_number(node->owner));
    show_owner(visit, node, shown);
    shown->entry.role = held ? HF_ROLE_HOLDER : HF_ROLE_WAITER;
    shown->entry.mode = (hf_mode)local_state_mode(state);
    shown->entry.permits = node->permits;
    shown->entry.token = held ? local_get(&node->token) : 0;
    shown->entry.since_ms =
        node->since_ms <= (uint64_t)now_ms ? now_ms - (int64_t)node->since_ms : 0;
    shown->entry.lease_left_ms = !leased ? -1 : deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}

/* Counts on when there is no more room, so that the next try has enough. */
static struct shown *next_shown(struct picture *picture, hf_kind kind)
{
    uint32_t at = picture->count++;
    if (at >= picture->room)
        return NULL;
    struct shown *shown = &picture->shown[at];
    memset(shown, 0, sizeof(*shown));
    shown->entry.size = sizeof(hf_entry);
    shown->entry.kind = kind;
    return shown;
}

static void show_list(struct txn *visit, struct picture *picture, const _Atomic uint64_t *list)
{
    uint32_t rank = list == &visit->lock->waiters ? 1 : 0;
    struct local_node *node = hf__wait_list_first(visit, list), *next;
    for (; node; node = next) {
        next = hf__wait_list_next(visit, node);
        if (!hf__local_alive(visit->local, local_get(&node->session))) {
            hf__txn_clear(visit, node);
            continue;
        }
        struct shown *shown = next_shown(picture, hf__txn_kind(visit));
        if (!shown)
            continue;
        show_node(visit, node, shown);
        if (rank)
            shown->entry.rank = rank++;
    }
}

static void show_object(struct txn *visit, struct picture *picture)
{
    struct shown *shown = next_shown(picture, hf__txn_kind(visit));
    uint64_t numbers = local_get(&visit->lock->numbers);
    if (!shown)
        return;
    bool semaphore = shown->entry.kind == HF_KIND_SEMAPHORE;
    uint32_t value = local_low(numbers), total = local_high(numbers);
    int64_t left_us = shown->entry.kind == HF_KIND_RATE ? (int64_t)numbers - hf__clock_us() : 0;
    shown->entry.role = HF_ROLE_OBJECT;
    shown->entry.total = semaphore ? total : 0;
    shown->entry.value = !semaphore ? value : total > value ? total - value : 0;
    if (shown->entry.kind == HF_KIND_RATE)
        shown->entry.value = hf__rate_left_ms(left_us);
    shown->entry.token = local_get(&visit->lock->token);
    shown->entry.lease_left_ms = -1;
}

/* False: nothing to show. */
static bool paint(struct txn *visit, struct picture *picture, bool idle_too)
{
    hf__txn_reap(visit);
    hf__txn_pump(visit);
    picture->count = 0;
    if (!idle_too && !hf__txn_in_use(visit))
        return false;
    const char *name = hf__txn_name_bytes(visit, &picture->name_length);
    if (!name)
        return false;
    memcpy(picture->name, name, picture->name_length);
    picture->name[picture->name_length] = 0;
    show_object(visit, picture);
    show_list(visit, picture, &visit->lock->holders);
    show_list(visit, picture, &visit->lock->waiters);
    return !visit->damaged;
}

static void show(struct hf_oneshot *query, struct picture *picture)
{
    for (uint32_t i = 0; i < picture->count; i++) {
        struct shown *shown = &picture->shown[i];
        shown->entry.name = picture->name;
        shown->entry.name_length = picture->name_length;
        shown->entry.owner_key = shown->key;
        shown->entry.owner_text = shown->text;
        shown->entry.host = shown->host;
        shown->entry.thread = shown->thread;
        hf__oneshot_entry(query, &shown->entry);
    }
}

static int local_make_room(struct picture *picture, struct hf_oneshot *query)
{
    uint32_t room = picture->count + picture->count / 4 + 16;
    struct shown *larger = hf__realloc(picture->shown, room * sizeof(*larger));
    if (!larger) {
        hf__explain(&query->error, HF_ENOMEM, 0, "out of memory for %u entries", room);
        return HF_ENOMEM;
    }
    picture->shown = larger;
    picture->room = room;
    return HF_OK;
}

/* A name by reference (everything) or by itself; again, until the picture fits. */
static int inspect_lock(struct local *local, struct hf_oneshot *query, uint32_t reference,
                        struct picture *picture)
{
    for (;;) {
        struct txn visit;
        int code = reference ? hf__txn_enter(&visit, local, reference, &query->error)
                             : hf__txn_name(&visit, local, query->name, query->name_length,
                                            query->name_hash, false, &query->error);
        picture->count = 0;
        if (code || !visit.lock)
            return code;
        bool some = paint(&visit, picture, !reference), damaged = visit.damaged;
        hf__txn_leave(&visit);
        if (damaged)
            return hf__local_damaged(local, &query->error, "a lock's lists do not fit together");
        if (!some || picture->count <= picture->room)
            return HF_OK;
        code = local_make_room(picture, query);
        if (code)
            return code;
    }
}

static int inspect_name(struct local *local, struct hf_oneshot *query, struct picture *picture)
{
    int code = inspect_lock(local, query, 0, picture);
    if (code || picture->count) {
        if (!code)
            show(query, picture);
        return code;
    }
    hf_entry unknown = { .size = sizeof(unknown),
                         .name = query->name,
                         .name_length = query->name_length,
                         .owner_key = "",
                         .owner_text = "",
                         .host = "",
                         .lease_left_ms = -1 };
    hf__oneshot_entry(query, &unknown);
    return HF_OK;
}

static bool worth_a_visit(const struct local_lock *lock)
{
    /* Acquired: the name was written before the hash, outside of the lock's guard. */
    return atomic_load_explicit(&lock->hash, memory_order_acquire) > LOCAL_HASH_RENAMED &&
           (local_get(&lock->holders) || local_get(&lock->waiters) || local_get(&lock->numbers));
}

static int inspect_all(struct local *local, struct hf_oneshot *query, struct picture *picture)
{
    uint64_t segments = local_get(&local_header(local)->segments);
    for (unsigned k = 0; k < segments && hf__local_map(local, k); k++) {
        for (uint32_t i = 0; i < LOCAL_LOCKS << k; i++) {
            struct local_lock *lock = local_lock_in(local, k, i);
            if (!worth_a_visit(lock))
                continue;
            int code = inspect_lock(local, query, local_reference(local, lock), picture);
            if (code)
                return code;
            show(query, picture);
        }
    }
    return HF_OK;
}

/* Doctor's own client is as good as any of this user. */
void hf__local_examine(struct hf_engine *engine, struct hf_oneshot *examination)
{
    struct local *local = (struct local *)engine;
    const struct hf_findings findings = { examination, NULL };
    if (local->looks && !local->receiver_poll)
        hf__finding_danger(&findings, "no-socket",
                           "it looks for what happened 20 times a second, so it gets a lock, and "
                           "hears of a break, up to 50 ms late",
                           "let its user write to the directory (chmod g+w)",
                           "this client cannot make its socket in '%s'", local->directory_path);
    examination->code = HF_OK;
    hf__oneshot_done(engine, examination);
}

void hf__local_inspect(struct hf_engine *engine, struct hf_oneshot *query)
{
    struct local *local = (struct local *)engine;
    struct picture *picture = hf__calloc(1, sizeof(*picture));
    if (!picture) {
        query->code = HF_ENOMEM;
        hf__explain(&query->error, HF_ENOMEM, 0, "out of memory");
    } else if (hf__local_is_removed(local, hf__clock_ms())) {
        query->code = hf__local_explain_removed(local, &query->error);
        free(picture);
    } else {
        query->code =
            query->name ? inspect_name(local, query, picture) : inspect_all(local, query, picture);
        free(picture->shown);
        free(picture);
    }
    hf__oneshot_done(engine, query);
}
