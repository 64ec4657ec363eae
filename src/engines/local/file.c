/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: references, mapping, growing. */
#include "file.h"
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
