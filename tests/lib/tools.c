/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, directories, shared memory, and many threads or processes at a time. */
#include "test.h"

#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int test_slow(void)
{
    const char *text = getenv("HOLDFAST_TEST_SLOW");
    long factor = text ? strtol(text, NULL, 10) : 1;

    return factor >= 1 && factor <= 100 ? (int)factor : 1;
}

int64_t monotonic_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t monotonic_ms(void)
{
    return monotonic_us() / 1000;
}

void let_pass_ms(int64_t ms)
{
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void pause_between_looks(int64_t since_ms)
{
    int64_t pause_ms = (monotonic_ms() - since_ms) / 16;

    let_pass_ms(pause_ms < 1 ? 1 : pause_ms > 20 ? 20 : pause_ms);
}

static bool is_directory(const char *path)
{
    struct stat stat_buffer;

    return path && stat(path, &stat_buffer) == 0 && S_ISDIR(stat_buffer.st_mode) &&
           access(path, W_OK) == 0;
}

/* The name is there before the test runs, so that all its processes and threads agree on it. */
void test_name_temp_dir(void)
{
    const char *parent = getenv("HOLDFAST_TEST_DIR");
    uint64_t random = 0;

    if (!is_directory(parent))
        parent = is_directory("/dev/shm") ? "/dev/shm" : getenv("TMPDIR");
    if (!is_directory(parent))
        parent = "/tmp";
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        perror("getrandom");
    int length = snprintf(test_state->temp_dir, sizeof(test_state->temp_dir),
                          "%s/hf-test-%016" PRIx64, parent, random);
    if (length < 0 || (size_t)length >= sizeof(test_state->temp_dir))
        test_state->temp_dir[0] = '\0';
}

const char *temp_dir(void)
{
    if (mkdir(test_state->temp_dir, 0700) != 0 && errno != EEXIST)
        FAIL("cannot make a directory \"%s\": %s", test_state->temp_dir, strerror(errno));
    return test_state->temp_dir;
}

const char *temp_path(const char *format, ...)
{
    /* Kept reachable, so that the leak sanitizer does not mind. */
    static char paths[64][400];
    static unsigned count;
    char *path = paths[count++ % 64];
    va_list args;

    int length = snprintf(path, sizeof(paths[0]), "%s/", temp_dir());
    va_start(args, format);
    vsnprintf(path + length, sizeof(paths[0]) - (size_t)length, format, args);
    va_end(args);
    return path;
}

void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        FAIL("mmap of %zu bytes: %s", size, strerror(errno));
    return memory;
}

void barrier_init(struct barrier *barrier, unsigned count)
{
    pthread_barrierattr_t attributes;

    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (pthread_barrier_init(&barrier->barrier, &attributes, count) != 0)
        FAIL("pthread_barrier_init for %u failed", count);
    pthread_barrierattr_destroy(&attributes);
}

void barrier_wait(struct barrier *barrier)
{
    pthread_barrier_wait(&barrier->barrier);
}

static void *run_thread(void *arg)
{
    struct thread *thread = arg;

    thread->run(thread->arg);
    return NULL;
}

void thread_start(struct thread *thread, void (*run)(void *arg), void *arg)
{
    thread->run = run;
    thread->arg = arg;
    int error = pthread_create(&thread->id, NULL, run_thread, thread);
    if (error != 0)
        FAIL("pthread_create: %s", strerror(error));
}

void thread_join(struct thread *thread)
{
    if (pthread_join(thread->id, NULL) != 0)
        FAIL("pthread_join failed");
}

static long switches_of(const char *task)
{
    char path[300], line[200];
    long count = 0, some;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &some) == 1)
            count = some;
    fclose(file);
    return count;
}

long switches_of_others(void)
{
    DIR *directory = opendir("/proc/self/task");
    struct dirent *entry;
    long count = 0;

    CHECK(directory != NULL);
    while ((entry = readdir(directory)))
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != gettid())
            count += switches_of(entry->d_name);
    closedir(directory);
    return count;
}

int test_count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    CHECK(tasks != NULL);
    for (const struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

struct one_of_many {
    struct thread thread;
    struct child child;
    many_fn *run;
    void *arg;
    int index;
};

static void run_one(void *arg)
{
    struct one_of_many *one = arg;

    one->run(one->arg, one->index);
}

static struct one_of_many *prepare_many(int count, many_fn *run, void *arg)
{
    struct one_of_many *all = calloc((size_t)count, sizeof(*all));

    if (!all)
        FAIL("out of memory");
    for (int i = 0; i < count; i++)
        all[i] = (struct one_of_many){ .run = run, .arg = arg, .index = i };
    return all;
}

void threads_run(int count, many_fn *run, void *arg)
{
    struct one_of_many *all = prepare_many(count, run, arg);

    for (int i = 0; i < count; i++)
        thread_start(&all[i].thread, run_one, &all[i]);
    for (int i = 0; i < count; i++)
        thread_join(&all[i].thread);
    free(all);
}

void processes_run(int count, many_fn *run, void *arg)
{
    struct one_of_many *all = prepare_many(count, run, arg);

    for (int i = 0; i < count; i++)
        child_start(&all[i].child, run_one, &all[i]);
    for (int i = 0; i < count; i++)
        child_join(&all[i].child);
    free(all);
}
