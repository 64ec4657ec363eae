/* What the files of the worker share: ways to lock through a Redis server, and measurements of
 * them.
 */
#ifndef HF_BENCH_REDIS_WORKER_H
#define HF_BENCH_REDIS_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SAMPLES = 1 << 18, LEASE_MS = 30000 };

struct subject;

/* A lock as one thread has it open. Every subject's own struct begins with this. */
struct lock {
    const struct subject *subject;
    char name[64];
};

/* A way to lock. Functions that fail end the program with a sentence. */
struct subject {
    const char *word;
    struct lock *(*open)(const struct subject *subject, const char *name);
    void (*lock)(struct lock *lock);
    void (*unlock)(struct lock *lock);
    bool drives_itself, waits_not; /* ours.c */
};

/* Where the server is: "HOST:PORT", or the path of a Unix socket. */
extern const char *worker_address;

_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);
int64_t now_ns(void);
void pause_us(unsigned us);
void *allocate(size_t size);

/* ---- bare.c: what one writes in an afternoon with blocking hiredis ---- */

extern const struct subject bare, retrying, polling;
struct redisContext;
struct redisContext *bare_connect(void);
/* The two commands of `bare`, in a form for redis-benchmark, a line each. */
void bare_show_scripts(void);
/* Many locks in Redisson's format, and their renewal by its batches, a hundred in a script. */
void bare_fill(unsigned count);
void bare_renew(unsigned count);

/* ---- ours.c ---- */

extern const struct subject threaded, driven, relaxed;
struct hf_client;
struct hf_client *ours_client(const struct subject *subject);

/* ---- pairs.c, processes.c, held.c: each prints one line "WORD=NUMBER ..." ---- */

void measure_pairs(const struct subject *subject, unsigned threads, int64_t ms);
void measure_handover(const struct subject *subject, int64_t ms);
/* From a message's publishing to its arrival at another process: no hand-over can be faster. */
void measure_telling(int64_t ms);
void measure_crowd(const struct subject *subject, unsigned processes, int64_t ms);
void hold_many(const struct subject *subject, unsigned count);
/* One more lock of the client that holds so many, over and over. */
void measure_beside(const struct subject *subject, int64_t ms);

/* Of samples in nanoseconds, which are sorted: "p50=... p99=... max=..." */
void print_times(int64_t *samples, unsigned count);

#endif
