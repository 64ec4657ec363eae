/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker share: ways to lock through a ZooKeeper server, and measurements of
 * them. */
#ifndef HF_BENCH_ZOOKEEPER_WORKER_H
#define HF_BENCH_ZOOKEEPER_WORKER_H

#include "ours.h"

enum { SETTLE_US = 300 };

/* Where the server is: "HOST:PORT". */
extern const char *worker_address;

/* ---- bare.c ---- */

extern const struct subject bare;
void measure_pipeline(unsigned slots, int64_t ms);
/* From a deletion to another's knowing what is left: no hand-over can be faster. */
void measure_telling(int64_t ms);

/* ---- crowd.c ---- */

/* So many clients, each with a request for one lock that another one has. */
void measure_waiters(unsigned count);
/* Of those: the lock is given back so many times. */
void measure_releases(unsigned count);
/* So many requests of one client. */
void measure_local_waiters(unsigned count);

#endif
