/* SPDX-License-Identifier: Apache-2.0 */
/* The state file is opened or begun, and this client gets a slot in it; all of that is undone. */
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "file.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SET_UP_MS = 5000, SET_UP_LOOK_MS = 5 };

static int cannot_open(struct local *local, hf_error *error)
{
    int native = errno;
    if (native == ENOENT && local->base.host->existing_only)
        return hf__local_missing(local, error);
    return hf__error_set(error, hf__local_errno_code(native), native,
                         "cannot open state file '%s' (%s); check its owner and mode, or choose "
                         "another directory by HOLDFAST_DIR or the URL",
                         local->path, strerror(native));
}

static int open_or_create(struct local *local)
{
    enum { FLAGS = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };
    int file = openat(local->directory, local->file_name, FLAGS);
    if (file >= 0 || errno != ENOENT || local->base.host->existing_only)
        return file;
    file = openat(local->directory, local->file_name, FLAGS | O_CREAT | O_EXCL, local->mode);
    if (file >= 0 && fchmod(file, local->mode)) {
        close(file);
        return -1;
    }
    if (file < 0 && errno == EEXIST)
        errno = EAGAIN;
    return file;
}

static int check_file(const struct local *local, const struct stat *about, hf_error *error)
{
    if (!S_ISREG(about->st_mode))
        return hf__error_set(error, HF_ECORRUPT, 0, "'%s' is not a file; remove it", local->path);
    if (local->shared || about->st_uid == geteuid() || about->st_uid == 0)
        return HF_OK;
    return hf__error_set(
        error, HF_DENIED, 0,
        "'%s' belongs to user %u; say mode= in the URL if you mean to share it, or "
        "choose another directory or namespace",
        local->path, (unsigned)about->st_uid);
}

static void close_descriptors(struct local *local)
{
    int *descriptors[] = { &local->file, &local->liveness };
    for (unsigned i = 0; i < 2; i++) {
        if (*descriptors[i] >= 0)
            close(*descriptors[i]);
        *descriptors[i] = -1;
    }
}

/* Two descriptions of one file: the mapping keeps the first alive, in forked children too; the
 * second carries the locks by which others see us live, and must end with us. */
static int open_both(struct local *local, hf_error *error)
{
    struct stat one, two;
    for (unsigned round = 0; round < 100; round++) {
        local->file = open_or_create(local);
        if (local->file < 0 && errno == EAGAIN)
            continue;
        if (local->file < 0)
            return cannot_open(local, error);
        hf__local_keep(local->file);
        /* Found under its name after that: a clean-up leaves it alone from now on. */
        local->liveness =
            openat(local->directory, local->file_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (!fstat(local->file, &one) && local->liveness >= 0 && !fstat(local->liveness, &two) &&
            one.st_ino == two.st_ino && one.st_dev == two.st_dev)
            return check_file(local, &one, error);
        close_descriptors(local);
    }
    return cannot_open(local, error);
}

static int set_up_lock(struct local *local, short type)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = LOCAL_LOCK_BYTE, .l_len = 1
    };
    return fcntl(local->liveness, F_OFD_SETLK, &lock);
}

/* Locks the byte of a slot that no session has: from then on others see us live. */
static int take_slot(struct local *local, hf_error *error)
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

/* Setting up takes a millisecond; only a stopped process takes longer. */
static int set_up_alone(struct local *local, hf_error *error)
{
    int64_t until_ms = hf__clock_ms() + SET_UP_MS;
    while (set_up_lock(local, F_WRLCK)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return hf__error_set(
                error, HF_DENIED, errno,
                "the file system of '%s' does not lock bytes of files (%s); choose "
                "another directory by HOLDFAST_DIR or the URL",
                local->path, strerror(errno));
        if (hf__clock_ms() >= until_ms)
            return hf__error_set(error, HF_UNREACHABLE, 0,
                                 "a process has stopped while it set up '%s'; find it with 'fuser' "
                                 "and continue or kill it",
                                 local->path);
        poll(NULL, 0, SET_UP_LOOK_MS);
    }
    int code = hf__local_set_up(local, error);
    /* Before we take the slot, and with it the socket, of one of them. */
    if (local->begun)
        hf__local_tell_predecessors(local);
    /* Before another process can set up, which might find that no session lives, and begin the file
     * anew. */
    if (code == HF_OK) /* mutant: owner-has-set-up-is-not-seen */
        code = take_slot(local, error);
    set_up_lock(local, F_UNLCK);
    HF_POINT("local:set-up:left");
    return code;
}

/* Addresses for the whole file are reserved at once, so that an offset is an address everywhere.
 * Where they are rationed (ulimit -v), the file may not grow as far. */
static bool reserve(struct local *local)
{
    for (unsigned k = LOCAL_SEGMENTS; k; k--) {
        void *map = mmap(NULL, local_segment_at(k), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map != MAP_FAILED) {
            local->map = map;
            local->segments_limit = k;
            return true;
        }
    }
    return false;
}

int hf__local_file_open(struct local *local, struct hf_url *url, hf_error *error)
{
    int code = hf__local_place(local, url, error);
    if (code == HF_OK && !reserve(local))
        code = hf__error_set(error, HF_ENOMEM, errno,
                             "there are no addresses left to map '%s'; raise 'ulimit -v'",
                             local->path);
    if (code == HF_OK)
        code = open_both(local, error);
    if (code == HF_OK)
        code = set_up_alone(local, error);
    if (code == HF_OK && !hf__local_map(local, 0))
        code = hf__error_set(error, HF_ENOMEM, errno, "cannot map '%s' (%s)", local->path,
                             strerror(errno));
    return code;
}

void hf__local_file_close(struct local *local)
{
    /* Not by closing alone: a child that was forked meanwhile may have a copy of the descriptor. */
    struct flock all = {
        .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = LOCAL_LOCK_BYTE, .l_len = LOCAL_SESSIONS
    };
    if (local->liveness >= 0)
        fcntl(local->liveness, F_OFD_SETLK, &all);
    if (local->map)
        munmap(local->map, local_segment_at(local->segments_limit));
    close_descriptors(local);
    if (local->directory >= 0)
        close(local->directory);
    local->directory = -1;
    local->map = NULL;
}
