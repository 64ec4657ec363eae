/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker share: ways to lock through a Redis server, and measurements of
 * them.
 */
#ifndef HF_BENCH_REDIS_WORKER_H
#define HF_BENCH_REDIS_WORKER_H

#include "ours.h"

#include <stdatomic.h>

enum { SETTLE_US = 300 };

/* Where the server is: "HOST:PORT", or the path of a Unix socket. */
extern const char *worker_address;

/* ---- bare.c: what one writes in an afternoon with blocking hiredis ---- */

extern const struct subject bare, retrying, polling;
struct redisContext;
struct redisContext *bare_connect(void);
/* The two commands of `bare`, in a form for redis-benchmark, a line each. */
void bare_show_scripts(void);
/* Many locks in Redisson's format, and their renewal by its batches, a hundred in a script. */
void bare_fill(unsigned count);
void bare_renew(unsigned count);

/* ---- processes.c, held.c: each prints one line "WORD=NUMBER ..." ---- */

/* processes.c has ours.h's measure_handover, between two processes. */
/* From a message's publishing to its arrival at another process: no hand-over can be faster. */
void measure_telling(int64_t ms);
void measure_crowd(const struct subject *subject, unsigned processes, int64_t ms);
void hold_many(const struct subject *subject, unsigned count);
/* How many of those were lost; why the first of them was, is on stderr. */
void count_lost(void);
/* One more lock of the client that holds so many, over and over. */
void measure_beside(const struct subject *subject, int64_t ms);

#endif
