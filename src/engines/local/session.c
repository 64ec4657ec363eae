/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: one a client, alive as long as the kernel keeps the lock on its byte. */
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "file.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct flock byte_lock(unsigned slot, short type)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = LOCAL_LOCK_BYTE + slot, .l_len = 1
    };
}

bool hf__local_alive(struct local *local, uint64_t session)
{
    if (session == local->session || session == LOCAL_DETACHED) /* mutant: detached-claim-dies */
        return true;
    unsigned slot = local_session_slot(session);
    struct local_session *place = local_session(local, slot);
    /* mutant: liveness-ignores-owner */
    if (!slot || local_get(&place->epoch) != local_session_epoch(session))
        return false;
    struct flock lock = byte_lock(slot, F_WRLCK);
    /* If the kernel cannot say, the careful answer is that it lives. */
    /* mutant: liveness-does-not-ask-kernel */
    return fcntl(local->liveness, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

int hf__local_session_pid(struct local *local, uint64_t session)
{
    unsigned slot = local_session_slot(session);
    struct local_session *place = local_session(local, slot);
    int pid = place->pid;
    bool ours = local->pid_namespace && place->pid_namespace == local->pid_namespace &&
                local_get(&place->epoch) == local_session_epoch(session);
    return slot && session != LOCAL_DETACHED && ours ? pid : 0;
}

static uint64_t own_pid_namespace(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) ? 0 : about.st_ino;
}

static void introduce(struct local *local, struct local_session *place)
{
    const struct hf_host *host = local->base.host;
    place->id[0] = host->id[0];
    place->id[1] = host->id[1];
    place->pid_namespace = local->pid_namespace;
    place->start_ms = hf__clock_ms();
    place->pid = getpid();
    place->uid = geteuid();
    atomic_store(&place->overflow, 0);
    atomic_store(&place->socket, 0);
    snprintf(place->host, sizeof(place->host), "%s", host->host_name ? host->host_name : "");
    snprintf(place->owner, sizeof(place->owner), "%s", host->owner_text ? host->owner_text : "");
}

static uint64_t next_epoch(uint64_t epoch)
{
    epoch = (epoch + 1) & (UINT64_MAX >> (LOCAL_SESSION_BITS + 1));
    return epoch + !epoch;
}

/* The epoch of a dead client ends before its byte is locked: else it would seem to live again, for
 * as long as this process is stopped. By exchange: a newcomer may have raised it by now. */
bool hf__local_session_seize(struct local *local, unsigned slot)
{
    struct local_session *place = local_session(local, slot);
    uint64_t epoch = local_get(&place->epoch);
    struct flock lock = byte_lock(slot, F_WRLCK);
    if (!fcntl(local->liveness, F_OFD_GETLK, &lock)) {
        if (lock.l_type != F_UNLCK) {
            errno = EAGAIN;
            return false;
        }
        /* mutant: dead-client-epoch-ends */
        atomic_compare_exchange_strong(&place->epoch, &epoch, next_epoch(epoch));
    }
    HF_POINT("local:session:seize");
    lock = byte_lock(slot, F_WRLCK);
    return !fcntl(local->liveness, F_OFD_SETLK, &lock);
}

void hf__local_session_let_go(struct local *local, unsigned slot)
{
    struct flock lock = byte_lock(slot, F_UNLCK);
    fcntl(local->liveness, F_OFD_SETLK, &lock);
}

/* The new epoch makes whatever the last client of this slot left recognisable as a dead one's, so
 * that the sweep may come after it, or never. */
bool hf__local_session_open(struct local *local)
{
    struct local_session *place = local_session(local, local->slot);
    bool clean = place->left_ms == place->start_ms; /* mutant: killed-client-passes-for-closed */
    place->left_ms = 0;
    uint64_t epoch = next_epoch(local_get(&place->epoch));
    local->pid_namespace = own_pid_namespace();
    HF_POINT("local:session:locked");
    introduce(local, place);
    HF_POINT("local:session:introduced");
    local_put(&place->epoch, epoch);
    local->session = epoch << LOCAL_SESSION_BITS | local->slot;
    HF_POINT("local:session:claimed");
    return clean;
}

void hf__local_session_close(struct local *local)
{
    struct local_session *place = local_session(local, local->slot);
    if (local_get(&place->epoch) != local_session_epoch(local->session))
        return;
    if (!atomic_load(&local->nodes)) /* mutant: client-that-leaves-nodes-passes */
        __atomic_store_n(&place->left_ms, place->start_ms, __ATOMIC_RELEASE);
    HF_POINT("local:session:left");
}
