/* SPDX-License-Identifier: Apache-2.0 */
/* Hearing of a death at once: a pidfd for each session that an op here waits for, in the client's
 * loop. Where that cannot be (other pid namespaces, no loop that turns, too many), sleepers look
 * often. */
#include "base/testing.h"
#include "local.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

static bool is_watched(const struct local *local, uint64_t session)
{
    if (session == local->session || session == LOCAL_DETACHED)
        return true;
    for (unsigned i = 0; i < LOCAL_WATCHES; i++) {
        if (local->watches[i].session == session)
            return true;
    }
    return false;
}

static void want(struct local *local, uint64_t session)
{
    for (unsigned i = 0; i < local->wanted_count; i++) {
        if (local->wanted[i] == session)
            return;
    }
    if (local->wanted_count < LOCAL_WANTED)
        local->wanted[local->wanted_count++] = session;
}

bool hf__death_watch(struct local *local, const uint64_t *sessions, unsigned count)
{
    bool all = true, post = false;
    if (!local->base.host->uv)
        return false;
    pthread_mutex_lock(&local->watch_mutex);
    for (unsigned i = 0; i < count; i++) {
        if (is_watched(local, sessions[i]))
            continue;
        all = false;
        if (hf__local_session_pid(local, sessions[i]))
            want(local, sessions[i]);
    }
    if (local->wanted_count && !local->watch_posted)
        post = local->watch_posted = true;
    pthread_mutex_unlock(&local->watch_mutex);
    if (post)
        hf__loop_post(local->base.host->loop, &local->watch_task);
    return all;
}

/* ---- on the loop ---- */

static void watch_closed(uv_handle_t *handle)
{
    struct local_watch *watch = handle->data;
    struct local *local = watch->local;
    close(watch->fd);
    free(watch->poll);
    watch->poll = NULL;
    local->handles--;
    local->finish(local);
}

static void end_watch(struct local_watch *watch)
{
    pthread_mutex_lock(&watch->local->watch_mutex);
    watch->session = 0;
    pthread_mutex_unlock(&watch->local->watch_mutex);
    if (!watch->poll || uv_is_closing((uv_handle_t *)watch->poll))
        return;
    uv_poll_stop(watch->poll);
    uv_close((uv_handle_t *)watch->poll, watch_closed);
}

static void died(uv_poll_t *poll, int status, int events)
{
    struct local_watch *watch = poll->data;
    struct local *local = watch->local;
    (void)status, (void)events;
    end_watch(watch);
    hf__local_wake_all(local);
}

/* A watch that is free; failing that, one whose client has left is ended, for next time. */
static struct local_watch *free_watch(struct local *local)
{
    for (unsigned i = 0; i < LOCAL_WATCHES; i++) {
        if (!local->watches[i].poll)
            return &local->watches[i];
    }
    for (unsigned i = 0; i < LOCAL_WATCHES; i++) {
        if (local->watches[i].session && !hf__local_alive(local, local->watches[i].session))
            end_watch(&local->watches[i]);
    }
    return NULL;
}

static bool start(struct local *local, struct local_watch *watch, int fd, uint64_t session)
{
    watch->poll = hf__calloc(1, sizeof(*watch->poll));
    if (!watch->poll || uv_poll_init(local->base.host->uv, watch->poll, fd)) {
        free(watch->poll);
        watch->poll = NULL;
        return false;
    }
    watch->local = local;
    watch->fd = fd;
    watch->poll->data = watch;
    local->handles++;
    pthread_mutex_lock(&local->watch_mutex);
    watch->session = session;
    pthread_mutex_unlock(&local->watch_mutex);
    uv_poll_start(watch->poll, UV_READABLE, died);
    local->base.host->loop->watches_more = true;
    return true;
}

static void watch_now(struct local *local, uint64_t session)
{
    int pid = hf__local_session_pid(local, session);
    struct local_watch *watch = pid ? free_watch(local) : NULL;
    if (!watch || is_watched(local, session))
        return;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* Only now is it sure that this is the process that we mean, and no later one. */
    if (!hf__local_alive(local, session)) {
        hf__local_wake_all(local);
        if (fd >= 0)
            close(fd);
        return;
    }
    if (fd >= 0 && !start(local, watch, fd, session))
        close(fd);
}

static void run_wanted(struct hf_task *task)
{
    struct local *local = HF_CONTAINER(task, struct local, watch_task);
    uint64_t wanted[LOCAL_WANTED];
    pthread_mutex_lock(&local->watch_mutex);
    unsigned count = local->wanted_count;
    for (unsigned i = 0; i < count; i++)
        wanted[i] = local->wanted[i];
    local->wanted_count = 0;
    local->watch_posted = false;
    pthread_mutex_unlock(&local->watch_mutex);
    for (unsigned i = 0; i < count && !local->closing; i++)
        watch_now(local, wanted[i]);
    if (local->closing)
        local->finish(local);
}

void hf__death_watch_open(struct local *local)
{
    pthread_mutex_init(&local->watch_mutex, NULL);
    hf__task_init(&local->watch_task, run_wanted);
}

void hf__death_watch_close(struct local *local)
{
    for (unsigned i = 0; i < LOCAL_WATCHES; i++) {
        if (local->watches[i].poll)
            end_watch(&local->watches[i]);
    }
}
