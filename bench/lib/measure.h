/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks of all stores share: ways to lock, and measurements of them. */
#ifndef HF_BENCH_MEASURE_H
#define HF_BENCH_MEASURE_H

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

_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);
int64_t now_ns(void);
void pause_us(unsigned us);
void *allocate(size_t size);
/* An order a line of the input, an answer a line. Dies with whoever started the program. */
void serve_orders(void (*obey)(const char *order));

/* Prints one line "WORD=NUMBER ...". */
void measure_pairs(const struct subject *subject, unsigned threads, int64_t ms);
/* Of samples in nanoseconds, which are sorted: "p50=... p99=... max=..." */
void print_times(int64_t *samples, unsigned count);

#endif
