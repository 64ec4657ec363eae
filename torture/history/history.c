/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a history: one counter hands out numbers, and each number has its place in the file. */
#include "torture/history/history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct torture_writer {
    struct torture_head *head;
    struct torture_record *records;
    uint64_t room;
    size_t size;
    int fd;           /* of the process that made the file; else -1 */
    size_t allocated; /* the bytes that have their blocks */
};

/* Blocks are taken so far ahead of what is written: some seconds of the busiest run. */
#define AHEAD ((size_t)32 << 20)

/* By the system call itself: a clock that is bent by interposing on the C library stays straight
 * here. */
int64_t torture_clock_ns(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Each step is a bijection of the sum so far and of the word, so that no change within one word
 * goes unnoticed; others do once in four thousand million. */
uint32_t torture_record_check(const struct torture_record *record)
{
    uint32_t words[offsetof(struct torture_record, check) / sizeof(uint32_t)];
    uint32_t sum = 0x9e3779b9u;
    memcpy(words, record, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        sum = (sum ^ words[i]) * 0x85ebca6bu;
        sum = (sum << 13 | sum >> 19) + 0xe6546b64u;
    }
    return sum ^ sum >> 16;
}

/* ---- the file ---- */

static struct torture_writer *map(int fd, size_t size)
{
    struct torture_writer *writer = malloc(sizeof *writer);
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!writer || bytes == MAP_FAILED) {
        if (bytes != MAP_FAILED)
            munmap(bytes, size);
        free(writer);
        return NULL;
    }
    writer->head = bytes;
    writer->records = (struct torture_record *)(writer->head + 1);
    writer->size = size;
    writer->fd = -1;
    writer->allocated = 0;
    return writer;
}

static void write_head(struct torture_writer *writer, uint64_t room, uint64_t run)
{
    struct torture_head *head = writer->head;
    head->version = TORTURE_VERSION;
    head->byte_order = TORTURE_BYTE_ORDER;
    head->record_size = sizeof(struct torture_record);
    head->run = run;
    head->room = room;
    writer->room = room;
    atomic_thread_fence(memory_order_release);
    memcpy(head->magic, TORTURE_MAGIC, sizeof head->magic);
}

static int close_with(int fd, int error)
{
    close(fd);
    errno = error;
    return -1;
}

/* Whatever is there already belongs to a user, and stays as it is: only an empty file is taken. */
static int open_empty(const char *path, bool *made)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *made = fd >= 0;
    if (*made || errno != EEXIST)
        return fd;
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0)
        return fd < 0 ? -1 : close_with(fd, errno);
    if (!S_ISREG(status.st_mode) || status.st_size > 0)
        return close_with(fd, EEXIST);
    return fd;
}

/* The first blocks are taken at once, and others in good time: a disk that is full when a client
 * writes would kill it by SIGBUS. */
static int make_file(const char *path, size_t size)
{
    bool made;
    int fd = open_empty(path, &made);
    if (fd < 0)
        return -1;
    int error = ftruncate(fd, (off_t)size) < 0 ? errno : 0;
    if (!error)
        error = posix_fallocate(fd, 0, (off_t)(size < AHEAD ? size : AHEAD));
    if (!error)
        return fd;
    if (made)
        unlink(path);
    else if (ftruncate(fd, 0) < 0)
        error = errno;
    return close_with(fd, error);
}

struct torture_writer *torture_writer_create(const char *path, uint64_t room, uint64_t run)
{
    if (room == 0 || room > (uint64_t)INT64_MAX / sizeof(struct torture_record) - 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t size = sizeof(struct torture_head) + (size_t)room * sizeof(struct torture_record);
    int fd = make_file(path, size);
    if (fd < 0)
        return NULL;
    struct torture_writer *writer = map(fd, size);
    if (!writer) {
        close_with(fd, errno);
        return NULL;
    }
    writer->fd = fd;
    writer->allocated = size < AHEAD ? size : AHEAD;
    write_head(writer, room, run);
    return writer;
}

uint64_t torture_writer_left(const struct torture_writer *writer)
{
    uint64_t drawn = atomic_load(&writer->head->drawn);
    return drawn < writer->room ? writer->room - drawn : 0;
}

int torture_writer_grow(struct torture_writer *writer)
{
    uint64_t written = writer->room - torture_writer_left(writer);
    size_t wanted = sizeof *writer->head + (size_t)written * sizeof *writer->records + AHEAD;
    if (wanted > writer->size)
        wanted = writer->size;
    /* In large steps: each is a call into the file system. */
    bool is_last = wanted == writer->size && wanted > writer->allocated;
    if (writer->fd < 0 || (!is_last && wanted < writer->allocated + AHEAD / 4))
        return 0;
    int error =
        posix_fallocate(writer->fd, (off_t)writer->allocated, (off_t)(wanted - writer->allocated));
    if (!error)
        writer->allocated = wanted;
    return error;
}

static bool head_fits(const struct torture_head *head, size_t size)
{
    size_t records = (size - sizeof *head) / sizeof(struct torture_record);
    return memcmp(head->magic, TORTURE_MAGIC, sizeof head->magic) == 0 &&
           head->version == TORTURE_VERSION && head->byte_order == TORTURE_BYTE_ORDER &&
           head->record_size == sizeof(struct torture_record) && head->room == records;
}

struct torture_writer *torture_writer_open(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) < 0 || status.st_size < (off_t)sizeof(struct torture_head)) {
        close_with(fd, EBADMSG);
        return NULL;
    }
    struct torture_writer *writer = map(fd, (size_t)status.st_size);
    close_with(fd, errno);
    if (writer && !head_fits(writer->head, writer->size)) {
        torture_writer_close(writer);
        errno = EBADMSG;
        return NULL;
    }
    if (writer)
        writer->room = writer->head->room;
    return writer;
}

void torture_writer_close(struct torture_writer *writer)
{
    if (!writer)
        return;
    munmap(writer->head, writer->size);
    if (writer->fd >= 0)
        close(writer->fd);
    free(writer);
}

/* ---- records ---- */

/* The clock is read first: at the moment of its number, no record's time lies in the future. */
bool torture_draw(struct torture_writer *writer, struct torture_record *record)
{
    if (record->at_ns == 0)
        record->at_ns = torture_clock_ns();
    record->number = atomic_fetch_add(&writer->head->drawn, 1) + 1;
    return record->number <= writer->room;
}

/* The number comes last. A client killed before that leaves a place without a number, not a wrong
 * record.
 */
void torture_store(struct torture_writer *writer, const struct torture_record *record)
{
    struct torture_record *place = &writer->records[record->number - 1];
    struct torture_record copy = *record;
    copy.check = torture_record_check(&copy);
    memcpy((char *)place + sizeof place->number, (const char *)&copy + sizeof copy.number,
           sizeof copy - sizeof copy.number);
    __atomic_store_n(&place->number, copy.number, __ATOMIC_RELEASE);
}

uint64_t torture_write(struct torture_writer *writer, const struct torture_record *record)
{
    struct torture_record copy = *record;
    if (!torture_draw(writer, &copy))
        return 0;
    torture_store(writer, &copy);
    return copy.number;
}
