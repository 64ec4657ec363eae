/* SPDX-License-Identifier: Apache-2.0 */
/* What the locks protect: witnesses of what an overlap of two owners would do to real data. */
#ifndef HF_TORTURE_RESOURCE_H
#define HF_TORTURE_RESOURCE_H

#include "torture/history/history.h"

#include <pthread.h>
#include <stdatomic.h>

/* In memory that all clients share, zeroed. */
struct torture_resource {
    pthread_mutex_t mutex;
    uint64_t token; /* the largest that was accepted */
    /* What has no fence: a client that reads, computes and writes back trusts the lock alone. */
    _Atomic uint64_t plain;
    _Atomic uint64_t writes, fenced_off, plain_writes, clobbers;
};

void torture_resource_open(struct torture_resource *resource);

/* Writes with a token, as a resource takes it that compares tokens: `record` gets its kind and its
 * number inside, so that the history has the resource's own order. */
void torture_resource_write(struct torture_resource *resource, struct torture_writer *writer,
                            struct torture_record *record);

uint64_t torture_resource_read(struct torture_resource *resource);
/* Writes what was computed from `seen`, whatever is there by now. */
void torture_resource_overwrite(struct torture_resource *resource, uint64_t seen, uint64_t value);

#endif
