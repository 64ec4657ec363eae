/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker share. */
#ifndef HF_BENCH_ETCD_WORKER_H
#define HF_BENCH_ETCD_WORKER_H

#include "ours.h"

/* ---- bare.c: the transactions alone ---- */

/* Has no locks of its own: measure_bare does it all. */
extern const struct subject bare;
/* So many pairs of transactions in flight on one connection: "p50=... pairs=... ns=..." */
void measure_bare(unsigned slots, int64_t ms);

#endif
