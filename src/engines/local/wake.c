/* SPDX-License-Identifier: Apache-2.0 */
/* Telling waiters: a futex in the file for those that sleep, a datagram for those that turn a loop.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "file.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

enum { READ_MAX = 64, LOOK_MS = 50, LOOK_FOR_FILE_MS = 5000 };

/* ---- addresses ---- */

/* Long directories do not fit into an address, and relative ones are elsewhere after a chdir; by
 * way of our own descriptor they are reached. */
static struct sockaddr_un address(const struct local *local, unsigned slot)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int length = snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s.%u.sock", local->directory_path,
                          local->namespace_name, slot);
    if (length < 0 || (size_t)length >= sizeof(at.sun_path) || local->directory_path[0] != '/')
        snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s.%u.sock", local->directory,
                 local->namespace_name, slot);
    return at;
}

static ssize_t send_once(struct local *local, unsigned slot, uint32_t reference)
{
    struct sockaddr_un to = address(local, slot);
    return sendto(local->sender, &reference, sizeof(reference), MSG_DONTWAIT | MSG_NOSIGNAL,
                  (struct sockaddr *)&to, sizeof(to));
}

static void send_to(struct local *local, unsigned slot, uint32_t reference)
{
    struct local_session *session = local_session(local, slot);
    if (local->sender < 0 || !slot || !atomic_load(&session->socket))
        return;
    /* If it is full, it has plenty to read, and looks at everything afterwards. It may have read
     * all of it by the time that is written down; hence the second try. */
    for (unsigned tries = 0; tries < 2; tries++) {
        if (send_once(local, slot, reference) >= 0 || (errno != EAGAIN && errno != ENOBUFS))
            return;
        atomic_store(&session->overflow, 1); /* mutant: full-socket-leaves-no-note */
    }
}

/* The word is shared by processes, so these are not the private futexes. */
static void wake_sleepers(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- our own waiters ---- */

static _Atomic(void *) *noted(struct local *local, uint32_t node, bool create)
{
    unsigned k;
    uint32_t i;
    if (!hf__local_node_place(node, &k, &i))
        return NULL;
    _Atomic(void *) *table = atomic_load_explicit(&local->waiting[k], memory_order_acquire);
    if (!table && create) {
        _Atomic(void *) *fresh = hf__calloc((size_t)LOCAL_NODES << k, sizeof(*fresh));
        if (!fresh)
            return NULL;
        if (atomic_compare_exchange_strong(&local->waiting[k], &table, fresh))
            table = fresh;
        else
            free(fresh);
    }
    return table ? &table[i] : NULL;
}

/* Without memory the waiter is not noted, and has its retry_at_ms. */
void hf__local_note(struct local *local, uint32_t node, void *waiter)
{
    _Atomic(void *) *at = noted(local, node, waiter != NULL);
    if (at && atomic_load_explicit(at, memory_order_relaxed) != waiter)
        atomic_store(at, waiter);
}

/* True: a thread slept on it. */
static bool change_futex(struct local_node *node)
{
    uint32_t old = atomic_load(&node->futex);
    while (!atomic_compare_exchange_weak(&node->futex, &old, (old + 2) & ~1u))
        continue;
    return old & 1;
}

static void bump(struct local_node *node)
{
    if (change_futex(node)) /* mutant: rousing-wakes-none */
        wake_sleepers(&node->futex);
}

static void wake_noted(_Atomic(void *) *at, struct local_node *node)
{
    void *waiter = atomic_load(at);
    if (waiter == LOCAL_SLEEPER)
        bump(node);
    else if (waiter)
        hf__op_wake(waiter);
}

void hf__local_wake_all(struct local *local)
{
    for (unsigned k = 0; k < LOCAL_SEGMENTS; k++) {
        _Atomic(void *) *table = atomic_load_explicit(&local->waiting[k], memory_order_acquire);
        for (uint32_t i = 0; table && i < LOCAL_NODES << k; i++) {
            if (atomic_load_explicit(&table[i], memory_order_relaxed))
                wake_noted(&table[i], local_node_in(local, k, i));
        }
    }
}

/* ---- telling ---- */

void hf__txn_wake(struct txn *txn, struct local_node *node)
{
    bool slept = change_futex(node);
    bool asynchronous = local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS;
    HF_POINT("local:wake");
    if (!asynchronous && !slept)
        return;
    if (txn->wake_count == LOCAL_WAKES) {
        hf__local_tell(txn->local, txn->wakes, txn->wake_count);
        txn->wake_count = 0;
    }
    txn->wakes[txn->wake_count++] = local_reference(txn->local, node);
}

/* The node may be another claim's by now; then one wake is for nothing. */
void hf__local_tell(struct local *local, const uint32_t *nodes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct local_node *node = hf__local_node(local, nodes[i]);
        if (!node)
            continue;
        if (local_state_flags(local_get(&node->state)) & LOCAL_ASYNCHRONOUS)
            /* mutant: hand-over-does-not-tell-loop */
            send_to(local, local_session_slot(local_get(&node->session)), nodes[i]);
        else /* mutant: hand-over-does-not-wake */
            wake_sleepers(&node->futex);
    }
}

static void open_sender(struct local *local)
{
    if (local->sender < 0)
        local->sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Where the file alone was removed, their sockets are still there. */
void hf__local_tell_predecessors(struct local *local)
{
    open_sender(local);
    for (unsigned slot = 1; slot < LOCAL_SESSIONS; slot++)
        send_once(local, slot, 0);
}

void hf__local_tell_recheck(struct local *local, uint64_t session)
{
    if (session && session != LOCAL_DETACHED)
        send_to(local, local_session_slot(session), 0);
}

void hf__local_rouse(struct local *local, struct hf_op *op)
{
    __atomic_store_n(&op->engine.word[1], 1, __ATOMIC_SEQ_CST);
    uint32_t reference = local_op_node(op);
    struct local_node *node = hf__local_node(local, reference);
    if (node)
        bump(node);
}

/* ---- being told ---- */

static void readable(uv_poll_t *poll, int status, int events)
{
    struct local *local = poll->data;
    uint32_t reference;
    (void)events;
    if (status < 0)
        return;
    for (unsigned i = 0; i < READ_MAX; i++) {
        ssize_t got = recv(local->receiver, &reference, sizeof(reference), MSG_DONTWAIT);
        if (got < 0)
            break;
        if (got != sizeof(reference) || !reference) {
            if (!hf__local_look_for_file(local))
                hf__holds_recheck(local->base.host, "the lock was broken");
            continue;
        }
        struct local_node *node = hf__local_node(local, reference);
        _Atomic(void *) *at = node ? noted(local, reference, false) : NULL;
        if (at)
            wake_noted(at, node);
    }
    struct local_session *own = local_session(local, local_session_slot(local->session));
    if (atomic_load(&own->overflow) && atomic_exchange(&own->overflow, 0)) {
        hf__local_wake_all(local);
        hf__holds_recheck(local->base.host, "the lock was broken");
    }
}

bool hf__local_remove_socket(struct local *local, unsigned slot)
{
    struct sockaddr_un at = address(local, slot);
    return unlink(at.sun_path) == 0 || errno == ENOENT;
}

static int bind_receiver(struct local *local)
{
    unsigned slot = local_session_slot(local->session);
    struct sockaddr_un at = address(local, slot);
    int receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (receiver < 0)
        return -1;
    unlink(at.sun_path); /* Of a dead client with our slot. */
    int code = bind(receiver, (struct sockaddr *)&at, sizeof(at));
    HF_POINT("local:socket:bound");
    /* Another user of the directory may have put a link in its place by now. */
    if (code || fchmodat(AT_FDCWD, at.sun_path, local->mode, AT_SYMLINK_NOFOLLOW)) {
        close(receiver);
        return -1;
    }
    return receiver;
}

static void clear_dead_socket(struct local *local, unsigned slot)
{
    struct local_session *place = local_session(local, slot);
    if (!slot || slot == local->slot || !atomic_load(&place->socket) ||
        !hf__local_session_seize(local, slot))
        return;
    if (hf__local_remove_socket(local, slot))
        atomic_store(&place->socket, 0);
    HF_POINT("local:socket:cleared");
    hf__local_session_let_go(local, slot);
}

/* A killed process has left a socket behind. Each process that comes or goes clears such things
 * away. The sessions are read: to look at all of them where they are mapped would make 256 KiB more
 * resident in each process. */
static void clear_dead_sockets(struct local *local)
{
    struct local_session some[16];
    const unsigned count = sizeof(some) / sizeof(some[0]);
    for (unsigned slot = 0; slot < LOCAL_SESSIONS; slot += count) {
        off_t at = (off_t)(LOCAL_SESSIONS_AT + slot * sizeof(some[0]));
        if (pread(local->file, some, sizeof(some), at) != (ssize_t)sizeof(some))
            return;
        for (unsigned i = 0; i < count; i++) {
            if (atomic_load(&some[i].socket))
                clear_dead_socket(local, slot + i);
        }
    }
}

static void start_looking(struct local *local, int64_t now_ms)
{
    hf__timer_start(local->base.host->loop, &local->look_timer,
                    now_ms + (local->receiver_poll ? LOOK_FOR_FILE_MS : LOOK_MS));
}

/* A client that cannot have a socket (its user may not write to the directory, say) looks often for
 * what a datagram would have said. Any client looks from time to time whether its file is still
 * there: a holder may make no call for days. */
static void look_timer_fired(struct hf_timer *timer)
{
    struct local *local = HF_CONTAINER(timer, struct local, look_timer);
    bool removed = hf__local_look_for_file(local); /* mutant: holder-that-makes-no-call */
    if (!local->receiver_poll) {
        hf__local_wake_all(local);
        if (!removed) /* mutant: client-without-socket */
            hf__holds_recheck(local->base.host, "the lock was broken");
    }
    start_looking(local, local->base.host->loop->now_ms);
}

static int listen_to_others(struct local *local, hf_error *error)
{
    local->receiver = bind_receiver(local);
    if (local->receiver < 0)
        return HF_OK;
    local->receiver_poll = hf__calloc(1, sizeof(*local->receiver_poll));
    if (!local->receiver_poll)
        return hf__error_set(error, HF_ENOMEM, 0, "out of memory");
    if (uv_poll_init(local->base.host->uv, local->receiver_poll, local->receiver)) {
        free(local->receiver_poll);
        local->receiver_poll = NULL;
        return HF_OK;
    }
    local->receiver_poll->data = local;
    local->handles++;
    uv_poll_start(local->receiver_poll, UV_READABLE, readable);
    local->base.host->loop->watches_more = true;
    atomic_store(&local_session(local, local_session_slot(local->session))->socket, 1);
    return HF_OK;
}

int hf__local_wake_open(struct local *local, hf_error *error)
{
    open_sender(local);
    clear_dead_sockets(local);
    if (!local->base.host->uv)
        return HF_OK;
    int code = listen_to_others(local, error);
    if (code == HF_OK) {
        hf__timer_init(&local->look_timer, look_timer_fired);
        start_looking(local, hf__clock_ms());
        local->looks = true;
    }
    return code;
}

static void receiver_closed(uv_handle_t *handle)
{
    struct local *local = handle->data;
    free(local->receiver_poll);
    local->receiver_poll = NULL;
    local->handles--;
    local->finish(local);
}

void hf__local_wake_close(struct local *local)
{
    if (local->receiver >= 0) {
        struct sockaddr_un at = address(local, local_session_slot(local->session));
        atomic_store(&local_session(local, local_session_slot(local->session))->socket, 0);
        unlink(at.sun_path);
    }
    clear_dead_sockets(local);
    if (local->looks)
        hf__timer_stop(local->base.host->loop, &local->look_timer);
    if (local->receiver_poll) {
        uv_poll_stop(local->receiver_poll);
        uv_close((uv_handle_t *)local->receiver_poll, receiver_closed);
    }
}
