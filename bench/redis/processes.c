/* SPDX-License-Identifier: Apache-2.0 */
/* One lock and several processes: how fast it changes hands, and how often among many. */
#include "worker.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 64, WARM_UP = 20, RUNS_MIN = 100, PATIENCE_S = 60 };

struct shared {
    sem_t opened, begin, turn[2];
    _Atomic int64_t end_ns, released_ns;
    atomic_bool waits[2], stop;
    uint64_t counts[PROCESSES_MAX];
    volatile uint64_t guarded; /* changed under the lock alone */
    volatile unsigned sample_count;
    unsigned settle_us;
    int64_t samples[SAMPLES];
};

static struct shared *shared;

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0 && errno == EINTR)
        ;
}

static void prepare(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("no memory to share");
    sem_init(&shared->opened, 1, 0);
    sem_init(&shared->begin, 1, 0);
    sem_init(&shared->turn[0], 1, 0);
    sem_init(&shared->turn[1], 1, 0);
}

/* Each process opens what it needs by itself, in `run`, and says so by begin_together. */
static void play(const struct subject *subject, unsigned count, int64_t ms,
                 void (*run)(const struct subject *subject, unsigned index))
{
    int status;
    if (count > PROCESSES_MAX)
        die("up to %d processes", PROCESSES_MAX);
    fflush(stdout);
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("no more processes can be started: see ulimit -u");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(PATIENCE_S);
            run(subject, i);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < count; i++)
        await(&shared->opened);
    atomic_store(&shared->end_ns, now_ns() + ms * 1000000);
    for (unsigned i = 0; i < count; i++)
        sem_post(&shared->begin);
    for (unsigned i = 0; i < count; i++)
        if (wait(&status) < 0 || status != 0)
            die("a measuring process has failed");
}

static void begin_together(void)
{
    sem_post(&shared->opened);
    await(&shared->begin);
}

static void record(int64_t ns)
{
    if (shared->sample_count < SAMPLES)
        shared->samples[shared->sample_count++] = ns;
}

static void until_the_other_waits(unsigned index)
{
    while (!atomic_load(&shared->waits[!index]) && !atomic_load(&shared->stop))
        pause_us(50);
    pause_us(shared->settle_us);
}

/* Two take turns: each waits in `lock` for a while before the other lets go. */
static void alternate(const struct subject *subject, unsigned index)
{
    struct lock *lock = subject->open(subject, "lock:handover");
    begin_together();
    if (index == 1)
        await(&shared->turn[1]);
    for (unsigned turn = 0; !atomic_load(&shared->stop); turn++) {
        atomic_store(&shared->waits[index], true);
        subject->lock(lock);
        int64_t now = now_ns(), released_ns = atomic_exchange(&shared->released_ns, 0);
        atomic_store(&shared->waits[index], false);
        if (released_ns && turn > WARM_UP)
            record(now - released_ns);
        if (now > atomic_load(&shared->end_ns) && shared->sample_count >= RUNS_MIN)
            atomic_store(&shared->stop, true);
        sem_post(&shared->turn[!index]);
        until_the_other_waits(index);
        atomic_store(&shared->released_ns, now_ns());
        subject->unlock(lock);
        await(&shared->turn[index]);
    }
    sem_post(&shared->turn[!index]);
    sem_post(&shared->turn[!index]);
}

void measure_handover(const struct subject *subject, unsigned settle_us, int64_t ms)
{
    prepare();
    shared->settle_us = settle_us;
    play(subject, 2, ms, alternate);
    print_times(shared->samples, shared->sample_count);
    printf(" runs=%u", shared->sample_count);
    munmap(shared, sizeof *shared);
}

static void hear(void)
{
    redisContext *context = bare_connect();
    redisReply *reply = redisCommand(context, "SUBSCRIBE bench");
    if (!reply)
        die("cannot subscribe: %s", context->errstr);
    freeReplyObject(reply);
    begin_together();
    for (;;) {
        void *message = NULL;
        if (redisGetReply(context, &message) != REDIS_OK)
            die("no message in time: %s", context->errstr);
        if (atomic_load(&shared->stop))
            return;
        record(now_ns() - atomic_load(&shared->released_ns));
        freeReplyObject(message);
        sem_post(&shared->turn[0]);
    }
}

static void publish(redisContext *context)
{
    redisReply *reply = redisCommand(context, "PUBLISH bench 0");
    if (!reply)
        die("cannot publish: %s", context->errstr);
    freeReplyObject(reply);
}

static void tell(const struct subject *subject, unsigned index)
{
    (void)subject;
    if (index == 1) {
        hear();
        return;
    }
    redisContext *context = bare_connect();
    begin_together();
    while (now_ns() < atomic_load(&shared->end_ns) || shared->sample_count < RUNS_MIN) {
        pause_us(SETTLE_US);
        atomic_store(&shared->released_ns, now_ns());
        publish(context);
        await(&shared->turn[0]);
    }
    atomic_store(&shared->stop, true);
    publish(context);
}

void measure_telling(int64_t ms)
{
    prepare();
    play(NULL, 2, ms, tell);
    print_times(shared->samples, shared->sample_count);
    printf(" runs=%u", shared->sample_count);
    munmap(shared, sizeof *shared);
}

/* A lock that lets two in loses some of these. */
static void crowd(const struct subject *subject, unsigned index)
{
    struct lock *lock = subject->open(subject, "lock:crowd");
    begin_together();
    while (now_ns() < atomic_load(&shared->end_ns)) {
        subject->lock(lock);
        uint64_t before = shared->guarded;
        for (volatile unsigned i = 0; i < 32; i++)
            ;
        shared->guarded = before + 1;
        subject->unlock(lock);
        shared->counts[index]++;
    }
}

void measure_crowd(const struct subject *subject, unsigned processes, int64_t ms)
{
    uint64_t sum = 0, least = UINT64_MAX, most = 0;
    prepare();
    play(subject, processes, ms, crowd);
    for (unsigned i = 0; i < processes; i++) {
        uint64_t count = shared->counts[i];
        sum += count;
        least = count < least ? count : least;
        most = count > most ? count : most;
    }
    if (sum != shared->guarded)
        die("%s let two in at once", subject->word);
    printf("locks=%llu least=%llu most=%llu ms=%lld", (unsigned long long)sum,
           (unsigned long long)least, (unsigned long long)most, (long long)ms);
    munmap(shared, sizeof *shared);
}
