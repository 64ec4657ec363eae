/* SPDX-License-Identifier: Apache-2.0 */
/* The state file as a file that other programs may remove. A clean-up that respects flock(2) leaves
 * it alone while a client has it open. If it is removed all the same, the next client begins a new
 * one: then the clients of the old file must notice, for the two lots do not exclude each other. */
#include "base/clock.h"
#include "base/testing.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { KEEP_MS = 1000, KEEP_LOOK_MS = 5, LOOK_EVERY_MS = 1000 };

/* systemd-tmpfiles takes an exclusive lock on what it is about to empty or remove. Another program
 * may hold such a lock for its own reasons; then the file is used without protection. */
void hf__local_keep(int descriptor)
{
    int64_t until_ms = hf__clock_ms() + KEEP_MS;
    /* mutant: store-in-use-is-not-protected */
    while (flock(descriptor, LOCK_SH | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
        HF_POINT("local:keep:busy");
        if (hf__clock_ms() >= until_ms)
            return;
        poll(NULL, 0, KEEP_LOOK_MS);
    }
}

/* By the directory's descriptor: after a chroot the path means something else. An error other than
 * "not there" says nothing. */
static bool is_removed(const struct local *local)
{
    struct stat own, there;
    if (fstat(local->file, &own))
        return false;
    if (own.st_nlink == 0)
        return true; /* mutant: client-does-not-notice */
    if (fstatat(local->directory, local->file_name, &there, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT;
    return there.st_ino != own.st_ino || there.st_dev != own.st_dev;
}

static void recheck(struct hf_task *task)
{
    struct local *local = HF_CONTAINER(task, struct local, removed_task);
    if (!local->closing)
        hf__holds_recheck(local->base.host, LOCAL_REMOVED);
    atomic_store(&local->removed_posted, false);
    if (local->closing)
        local->finish(local);
}

void hf__local_removed_open(struct local *local)
{
    hf__task_init(&local->removed_task, recheck);
}

bool hf__local_look_for_file(struct local *local)
{
    if (!atomic_load_explicit(&local->removed, memory_order_relaxed) && is_removed(local) &&
        !atomic_exchange(&local->removed, true)) {
        atomic_store(&local->removed_posted, true);
        hf__loop_post(local->base.host->loop, &local->removed_task);
    }
    return atomic_load_explicit(&local->removed, memory_order_relaxed);
}

bool hf__local_is_removed(struct local *local, int64_t now_ms)
{
    if (now_ms < atomic_load_explicit(&local->next_look_ms, memory_order_relaxed))
        return atomic_load_explicit(&local->removed, memory_order_relaxed);
    atomic_store_explicit(&local->next_look_ms, now_ms + LOOK_EVERY_MS, memory_order_relaxed);
    return hf__local_look_for_file(local);
}

int hf__local_explain_removed(const struct local *local, hf_error **error)
{
    hf__explain(error, HF_ECORRUPT, 0,
                "'%s' was removed while it was in use; close this client and open a new one",
                local->path);
    return HF_ECORRUPT;
}
