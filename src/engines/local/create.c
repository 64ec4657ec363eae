/* SPDX-License-Identifier: Apache-2.0 */
/* A new state file, or one of an earlier boot: what is done alone, under the set-up lock. */
#include "base/error.h"
#include "base/rand.h"
#include "base/testing.h"
#include "file.h"
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t layout_hash(void)
{
    const uint64_t layout[] = {
        sizeof(struct local_header),
        sizeof(struct local_session),
        sizeof(struct local_lock),
        sizeof(struct local_node),
        sizeof(struct local_cell),
        LOCAL_SESSIONS,
        LOCAL_LOCKS,
        LOCAL_NODES,
        LOCAL_CELLS,
        LOCAL_WINDOW,
        LOCAL_JOURNAL,
        offsetof(struct local_header, guard),
        offsetof(struct local_session, host),
        offsetof(struct local_lock, shape),
        offsetof(struct local_lock, name),
        offsetof(struct local_lock, journal_old),
        offsetof(struct local_node, state),
        offsetof(struct local_node, futex),
        offsetof(struct local_node, text),
        LOCAL_LOCK_BYTE,
    };
    return hf__hash(layout, sizeof(layout));
}

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static bool read_boot_id(char boot_id[40])
{
    memset(boot_id, 0, 40);
    int file = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, boot_id, 39) : 0;
    if (file >= 0)
        close(file);
    boot_id[got > 0 ? strcspn(boot_id, "\n") : 0] = 0;
    return boot_id[0] != 0;
}

/* Guessing would be to void what others use now. */
static int no_boot_id(struct local *local, hf_error *error)
{
    if (errno == EMFILE || errno == ENFILE)
        return hf__error_set(error, HF_ELIMIT, errno, "cannot read " BOOT_ID ": %s",
                             strerror(errno));
    return hf__error_set(error, HF_DENIED, errno,
                         "cannot read " BOOT_ID ", which tells whether '%s' is of this boot; "
                         "give this process the whole /proc",
                         local->path);
}

static int no_space(struct local *local, int native, hf_error *error)
{
    return hf__error_set(
        error,
        native == ENOSPC || native == EDQUOT || native == EFBIG ? HF_ELIMIT
                                                                : hf__local_errno_code(native),
        native, "cannot make '%s' of %u KiB (%s); %s", local->path,
        (unsigned)(local_segment_at(1) / 1024), strerror(native), hf__local_room_cure(native));
}

/* The magic number comes last: without it, a file is begun anew. */
static int begin_file(struct local *local, uint64_t floor, hf_error *error)
{
    int native = ftruncate(local->file, 0) ? errno : 0;
    HF_POINT("local:begin:empty");
    if (!native)
        native = hf__local_allocate(local, 0, local_segment_at(1));
    if (native || !hf__local_map_range(local, 0, LOCAL_SEGMENTS_AT)) {
        if (!native)
            native = errno;
        if (ftruncate(local->file, 0))
            native = errno;
        return no_space(local, native, error);
    }
    HF_POINT("local:begin:allocated");
    struct local_header *header = local_header(local);
    header->version = LOCAL_VERSION;
    header->layout = layout_hash();
    read_boot_id(header->boot_id);
    local_put(&header->token_floor, floor);
    local_put(&header->segments, 1);
    HF_POINT("local:begin:header");
    local_put(&header->magic, LOCAL_MAGIC);
    local->begun = true;
    return HF_OK;
}

/* A lock on any session's byte. Such locks end with the boot; so whatever the boot's number says
 * (some containers have one of their own), the file is of this one. */
static bool somebody_lives(const struct local *local)
{
    struct flock lock = { .l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = LOCAL_LOCK_BYTE + 1,
                          .l_len = LOCAL_SESSIONS - 1 };
    return fcntl(local->liveness, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* After a boot no session in the file lives. Their tokens count, for the clock may have gone back;
 * what was taken past its guard has the last one in its node. The first page stays until the new
 * one says so, then all begins anew. */
static uint64_t largest_token(struct local *local, uint64_t size)
{
    struct local_header *header = local_header(local);
    uint64_t largest = local_get(&header->token_floor);
    for (unsigned k = 0; k < local_get(&header->segments) && k < local->segments_limit &&
                         local_segment_at(k + 1) <= size && hf__local_map(local, k);
         k++) {
        for (uint32_t i = 0; i < LOCAL_LOCKS << k; i++)
            /* mutant: tokens-begin-anew-after-boot */
            largest = larger(largest, local_get(&local_lock_in(local, k, i)->token));
        for (uint32_t i = 0; i < LOCAL_NODES << k; i++)
            /* mutant: after-boot-tokens-of-parked */
            largest = larger(largest, local_get(&local_node_in(local, k, i)->token));
    }
    return largest;
}

static int begin_boot(struct local *local, uint64_t size, hf_error *error)
{
    struct local_header *header = local_header(local);
    uint64_t floor = largest_token(local, size);
    local_put(&header->token_floor, floor);
    HF_POINT("local:boot:floor");
    local_put(&header->segments, 0);
    atomic_store(&local->segments, 0);
    HF_POINT("local:boot:void");
    /* Cut off behind the header and grown again, everything reads as zero. */
    int native = ftruncate(local->file, LOCAL_SESSIONS_AT) ? errno : 0;
    if (!native)
        native = hf__local_allocate(local, 0, local_segment_at(1));
    if (native)
        return no_space(local, native, error);
    HF_POINT("local:boot:allocated");
    local_put(&header->guard, 0);
    local_put(&header->segments, 1);
    HF_POINT("local:boot:segment");
    read_boot_id(header->boot_id);
    return HF_OK;
}

static int foreign(struct local *local, hf_error *error, const char *what)
{
    return hf__error_set(error, HF_ECORRUPT, 0,
                         "'%s' %s; if nothing uses it, remove it, else choose another namespace "
                         "(?ns=) or directory",
                         local->path, what);
}

static bool all_zero(const unsigned char *page)
{
    for (unsigned i = 0; i < LOCAL_SESSIONS_AT; i++) {
        if (page[i])
            return false;
    }
    return true;
}

static int check(struct local *local, uint64_t size, hf_error *error)
{
    struct local_header *header = local_header(local);
    char boot_id[40];
    if (local_get(&header->magic) != LOCAL_MAGIC)
        return foreign(local, error, "is not a state file of holdfast");
    if (header->version != LOCAL_VERSION || header->layout != layout_hash())
        return foreign(local, error, "was made by another version of holdfast");
    uint64_t segments = local_get(&header->segments);
    read_boot_id(boot_id);
    if (segments > LOCAL_SEGMENTS)
        return foreign(local, error, "is damaged (its header cannot be)");
    /* mutant: another-boot-id-voids */
    if (strncmp(boot_id, header->boot_id, sizeof(boot_id)) && !somebody_lives(local))
        return begin_boot(local, size, error);
    if (!segments || size < local_segment_at((unsigned)segments))
        return foreign(local, error, "is damaged (it has been cut off)");
    return HF_OK;
}

int hf__local_set_up(struct local *local, hf_error *error)
{
    struct stat about;
    char boot_id[40];
    if (!read_boot_id(boot_id))
        return no_boot_id(local, error);
    if (fstat(local->file, &about))
        return hf__error_set(error, hf__local_errno_code(errno), errno, "cannot look at '%s' (%s)",
                             local->path, strerror(errno));
    uint64_t size = (uint64_t)about.st_size;
    unsigned char page[LOCAL_SESSIONS_AT] = { 0 };
    ssize_t got = pread(local->file, page, sizeof(page), 0);
    /* A file that was begun and not finished has no magic number, and nothing before it. */
    uint64_t magic;
    memcpy(&magic, page, sizeof(magic));
    bool begun = size == local_segment_at(1) && magic == 0;
    if (got >= 0 && (size == 0 || begun || (all_zero(page) && size <= local_segment_at(1))))
        return begin_file(local, 0, error);
    if (size < LOCAL_SEGMENTS_AT && magic == LOCAL_MAGIC && size >= LOCAL_SESSIONS_AT) {
        /* Cut off by begin_boot, which was killed there; else by another process. */
        struct local_header *header = (struct local_header *)(void *)page;
        if (local_get(&header->segments) == 0 && header->layout == layout_hash())
            return begin_file(local, local_get(&header->token_floor), error);
    }
    if (size < LOCAL_SEGMENTS_AT)
        return foreign(local, error,
                       magic == LOCAL_MAGIC ? "is damaged (it has been cut off)"
                                            : "is not a state file of holdfast");
    if (!hf__local_map_range(local, 0, LOCAL_SEGMENTS_AT))
        return hf__error_set(error, HF_ENOMEM, errno, "cannot map '%s' (%s)", local->path,
                             strerror(errno));
    return check(local, size, error);
}
