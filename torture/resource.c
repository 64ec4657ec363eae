/* SPDX-License-Identifier: Apache-2.0 */
/* The resource that compares tokens, and the one that does not. */
#include "torture/resource.h"

#include <errno.h>

void torture_resource_open(struct torture_resource *resource)
{
    pthread_mutexattr_t attributes;

    /* Robust: clients are killed in here too. */
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&resource->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void torture_resource_write(struct torture_resource *resource, struct torture_writer *writer,
                            struct torture_record *record)
{
    if (pthread_mutex_lock(&resource->mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&resource->mutex);
    if (record->token >= resource->token) {
        record->kind = TORTURE_OK;
        torture_write(writer, record);
        resource->token = record->token;
        atomic_fetch_add(&resource->writes, 1);
    } else {
        record->kind = TORTURE_REFUSED;
        torture_write(writer, record);
        atomic_fetch_add(&resource->fenced_off, 1);
    }
    pthread_mutex_unlock(&resource->mutex);
}

uint64_t torture_resource_read(struct torture_resource *resource)
{
    return atomic_load(&resource->plain);
}

void torture_resource_overwrite(struct torture_resource *resource, uint64_t seen, uint64_t value)
{
    if (atomic_load(&resource->plain) != seen)
        atomic_fetch_add(&resource->clobbers, 1);
    atomic_store(&resource->plain, value);
    atomic_fetch_add(&resource->plain_writes, 1);
}
