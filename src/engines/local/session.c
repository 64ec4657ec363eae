/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: one a client, alive as long as the kernel keeps the lock on its byte. */
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
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

/* Every client that comes brings the clock along, so that a grant needs not read it. */
static void raise_floor_to_clock(struct local *local)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec > LOCAL_TICKS_SINCE)
        hf__local_raise_floor(local, (uint64_t)(now.tv_sec - LOCAL_TICKS_SINCE) * LOCAL_TICKS +
                                         (uint64_t)now.tv_nsec * (LOCAL_TICKS / 1000000) / 1000);
}

static uint64_t next_epoch(uint64_t epoch)
{
    epoch = (epoch + 1) & (UINT64_MAX >> (LOCAL_SESSION_BITS + 1));
    return epoch + !epoch;
}

/* The new epoch makes whatever the last client of this slot left recognisable as a dead one's, so
 * that the sweep may come after it, or never. */
static void claim(struct local *local, unsigned slot)
{
    struct local_session *place = local_session(local, slot);
    uint64_t epoch = next_epoch(local_get(&place->epoch));
    HF_POINT("local:session:locked");
    introduce(local, place);
    HF_POINT("local:session:introduced");
    local_put(&place->epoch, epoch);
    local->session = epoch << LOCAL_SESSION_BITS | slot;
    HF_POINT("local:session:claimed");
    raise_floor_to_clock(local); /* mutant: new-client-does-not-raise */
    hf__local_sweep(local, slot);
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

void hf__local_session_open(struct local *local)
{
    local->pid_namespace = own_pid_namespace();
    claim(local, local->slot);
}

int hf__local_session_take(struct local *local, hf_error *error)
{
    unsigned first = (unsigned)getpid() % (LOCAL_SESSIONS - 1), spare = 0;
    for (unsigned i = 0; i < LOCAL_SESSIONS - 1; i++) {
        unsigned slot = 1 + (first + i) % (LOCAL_SESSIONS - 1);
        if (hf__local_session_seize(local, slot)) {
            if (hf__local_remove_socket(local, slot)) {
                local->slot = slot;
                return HF_OK;
            }
            hf__local_session_let_go(local, slot);
            spare = slot;
            continue;
        }
        if (errno == EAGAIN || errno == EACCES)
            continue;
        return hf__error_set(error, HF_DENIED, errno,
                             "the file system of '%s' does not lock bytes of files (%s); choose "
                             "another directory by HOLDFAST_DIR or the URL",
                             local->path, strerror(errno));
    }
    /* One in which another user has left a socket that we may not remove: without a socket. */
    if (spare && hf__local_session_seize(local, spare)) {
        local->slot = spare;
        return HF_OK;
    }
    return hf__error_set(
        error, HF_ELIMIT, 0,
        "all %u sessions of '%s' are in use; share one client among the threads of "
        "a process, or use another namespace (?ns=)",
        LOCAL_SESSIONS - 1, local->path);
}
