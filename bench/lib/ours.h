/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast as a subject, and one lock that many want, for stores that need nothing else there. */
#ifndef HF_BENCH_OURS_H
#define HF_BENCH_OURS_H

#include "measure.h"

/* ---- contention.c: one lock that many want, each with a connection of its own ---- */

/* "min=... max=..." of their shares. */
void measure_contention(const struct subject *subject, unsigned threads, int64_t ms);
/* From the release to the other one's having it, where that one has waited for `settle_us`. */
void measure_handover(const struct subject *subject, unsigned settle_us, int64_t ms);

/* ---- ours.c ---- */

/* The store's, as holdfast takes it. */
extern const char *worker_url;
/* One client for the process: with a thread, driven by the caller, with releases that are not
 * waited for. `single`: a client for each lock. */
extern const struct subject threaded, driven, relaxed, single, lone;
struct hf_client;
/* The one for the process; and one more. */
struct hf_client *ours_client(const struct subject *subject);
struct hf_client *ours_open(bool drives_itself, int64_t lease_ms);

/* ---- worker.c: the program itself ---- */

/* One store's. */
struct worker {
    const struct subject *const *subjects; /* up to NULL */
    int more_arguments;                    /* after SUBJECT and URL, which `usage` names */
    const char *usage;
    /* Orders of this store's own. False: it is none. NULL: there are none. */
    bool (*obey)(const struct subject *subject, const char *order);
};

int worker_run(const struct worker *of, int count, char **arguments);

#endif
