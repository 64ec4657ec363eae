/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker share: ways to lock by memcached, and measurements of them. */
#ifndef HF_BENCH_MEMCACHED_WORKER_H
#define HF_BENCH_MEMCACHED_WORKER_H

#include "ours.h"

/* The server's Unix socket. */
extern const char *worker_socket;

/* ---- sequences.c: without the library ---- */

/* Two commands that touch no item; holdfast's own packets; what other libraries send. */
extern const struct subject bare, packets, symfony, laravel;

/* ---- waiting.c ---- */

/* So many clients wait for a lock that stays held, and give up: "waiters=... ms=..." */
void measure_waiting(unsigned waiters, int64_t ms);

#endif
