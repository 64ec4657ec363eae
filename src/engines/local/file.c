/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: opening, checking, mapping, growing. */
#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int hf__local_damaged(struct local *local, hf_error **error, const char *what)
{
    hf__explain(error, HF_ECORRUPT, 0,
                "'%s' is damaged (%s); stop all programs that use it, and remove it", local->path,
                what);
    return HF_ECORRUPT;
}

/* ---- references ---- */

/* Splits an offset behind the sessions into segment and offset there. */
static bool locate(uint32_t reference, unsigned *k, uint64_t *inside)
{
    uint64_t offset = (uint64_t)reference * 64;
    if (offset < LOCAL_SEGMENTS_AT)
        return false;
    *k = 63u - (unsigned)__builtin_clzll((offset - LOCAL_SEGMENTS_AT) / LOCAL_SEGMENT_SIZE + 1);
    *inside = offset - local_segment_at(*k);
    return *k < LOCAL_SEGMENTS;
}

struct local_lock *hf__local_lock(struct local *local, uint32_t reference)
{
    unsigned k;
    uint64_t inside;
    if (!locate(reference, &k, &inside) || inside >= LOCAL_LOCKS_SIZE << k ||
        inside % sizeof(struct local_lock) || !hf__local_map(local, k))
        return NULL;
    return local_lock_in(local, k, (uint32_t)(inside / sizeof(struct local_lock)));
}

bool hf__local_node_place(uint32_t reference, unsigned *k, uint32_t *i)
{
    uint64_t inside;
    if (!locate(reference, k, &inside) || inside < LOCAL_LOCKS_SIZE << *k)
        return false;
    inside -= LOCAL_LOCKS_SIZE << *k;
    *i = (uint32_t)(inside / sizeof(struct local_node));
    return inside < LOCAL_NODES_SIZE << *k && inside % sizeof(struct local_node) == 0;
}

struct local_node *hf__local_find_node(struct local *local, uint32_t reference)
{
    unsigned k;
    uint32_t i;
    if (!hf__local_node_place(reference, &k, &i) || !hf__local_map(local, k))
        return NULL;
    return local_node_in(local, k, i);
}

struct local_cell *hf__local_cell(struct local *local, uint32_t reference)
{
    unsigned k;
    uint64_t inside;
    if (!locate(reference, &k, &inside) || inside < (LOCAL_LOCKS_SIZE + LOCAL_NODES_SIZE) << k ||
        !hf__local_map(local, k))
        return NULL;
    inside -= (LOCAL_LOCKS_SIZE + LOCAL_NODES_SIZE) << k;
    if (inside % sizeof(struct local_cell))
        return NULL;
    return local_cell_in(local, k, (uint32_t)(inside / sizeof(struct local_cell)));
}

/* ---- mapping and growing ---- */

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

bool hf__local_map_range(struct local *local, uint64_t from, uint64_t to)
{
    struct stat about;
    if (fstat(local->file, &about) || (uint64_t)about.st_size < to)
        return false;
    return mmap(local->map + from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                local->file, (off_t)from) != MAP_FAILED;
}

static bool map_more(struct local *local, unsigned k)
{
    bool good = true;
    pthread_mutex_lock(&local->map_mutex);
    for (unsigned i = atomic_load(&local->segments); good && i <= k; i++) {
        good = i < local_get(&local_header(local)->segments) &&
               hf__local_map_range(local, local_segment_at(i), local_segment_at(i + 1));
        if (good)
            atomic_store_explicit(&local->segments, i + 1, memory_order_release);
    }
    pthread_mutex_unlock(&local->map_mutex);
    return good;
}

bool hf__local_map(struct local *local, unsigned k)
{
    if (k < atomic_load_explicit(&local->segments, memory_order_acquire))
        return true;
    return k < local->segments_limit && map_more(local, k);
}

/* Would the kernel send SIGXFSZ, which ends a process that does not expect it? */
static bool exceeds_limit(const struct local *local, uint64_t to)
{
    struct rlimit limit;
    struct stat about;
    return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
           to > limit.rlim_cur && !fstat(local->file, &about) && to > (uint64_t)about.st_size;
}

/* The space is taken from the disk now: later it would be a SIGBUS instead of an answer. */
int hf__local_allocate(struct local *local, uint64_t from, uint64_t to)
{
    int native;
    if (exceeds_limit(local, to)) /* mutant: limit-of-file-size-ends */
        return EFBIG;
    do
        native = posix_fallocate(local->file, (off_t)from, (off_t)(to - from));
    while (native == EINTR);
    return native;
}

const char *hf__local_room_cure(int native)
{
    return native == EFBIG ? "raise 'ulimit -f' (RLIMIT_FSIZE)" : "make room on its file system";
}

int hf__local_grow(struct local *local, hf_error **error)
{
    struct local_header *header = local_header(local);
    uint64_t k = local_get(&header->segments);
    if (k > LOCAL_SEGMENTS)
        return hf__local_damaged(local, error, "it claims more segments than there can be");
    if (k >= local->segments_limit) {
        hf__explain(error, HF_ELIMIT, 0,
                    "'%s' has reached its limit of %u locks; use more "
                    "namespaces (?ns=)",
                    local->path, LOCAL_LOCKS * ((1u << local->segments_limit) - 1));
        return HF_ELIMIT;
    }
    int native =
        hf__local_allocate(local, local_segment_at((unsigned)k), local_segment_at((unsigned)k + 1));
    if (native) {
        hf__explain(error, HF_ELIMIT, native, "cannot make '%s' larger (%s); %s", local->path,
                    strerror(native), hf__local_room_cure(native));
        return HF_ELIMIT;
    }
    HF_POINT("local:grow:allocated");
    local_put(&header->segments, k + 1);
    HF_POINT("local:grow:end");
    if (hf__local_map(local, (unsigned)k))
        return HF_OK;
    hf__explain(error, HF_ENOMEM, errno, "cannot map '%s' (%s)", local->path, strerror(errno));
    return HF_ENOMEM;
}

/* ---- opening ---- */

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
        code = hf__local_session_take(local, error);
    set_up_lock(local, F_UNLCK);
    HF_POINT("local:set-up:left");
    return code;
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
