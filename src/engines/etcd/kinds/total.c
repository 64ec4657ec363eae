/* SPDX-License-Identifier: Apache-2.0 */
/* How many permits a semaphore has, and which of its claims hold: the oldest ones, as far as the
 * permits go. That follows from one read alone, so nothing is written when a waiter is let in: once
 * a claim holds, nothing but its own end takes that away, as later claims are behind it. Fewer
 * permits than before would: the object says up to which claim they were granted by then. */
#include "kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct etcd_total hf__etcd_total_read(const etcd_key_value *object)
{
    struct etcd_total total = { .there = object != NULL };
    char text[ETCD_TOTAL_SIZE];
    uint64_t permits = 0;
    int used = 0;
    if (!object)
        return total;
    total.changed = object->mod_revision;
    if (object->value.len == 0 || object->value.len >= sizeof text)
        return total;
    memcpy(text, object->value.data, object->value.len);
    text[object->value.len] = 0;
    if (*text < '0' || *text > '9')
        return total;
    /* What does not fit would be read as another number. */
    if (sscanf(text, "%" SCNu64 "%n held-until %" SCNd64 "%n", &permits, &used, &total.held_until,
               &used) >= 1)
        total.readable = (size_t)used == object->value.len && permits <= UINT32_MAX;
    total.permits = total.readable ? (uint32_t)permits : 0;
    return total;
}

size_t hf__etcd_total_write(uint32_t permits, int64_t held_until, char text[ETCD_TOTAL_SIZE])
{
    int length = held_until > 0 ? snprintf(text, ETCD_TOTAL_SIZE, "%" PRIu32 " held-until %" PRId64,
                                           permits, held_until)
                                : snprintf(text, ETCD_TOTAL_SIZE, "%" PRIu32, permits);
    return (size_t)length;
}

static uint32_t weight_of(const etcd_key_value *claim)
{
    return hf__etcd_weight((const char *)claim->key.data, claim->key.len);
}

uint64_t hf__etcd_permits_before(const etcd_range_reply *claims, int64_t created)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < claims->n_kvs; i++)
        if (claims->kvs[i]->create_revision < created)
            sum += weight_of(claims->kvs[i]);
    return sum;
}

/* They come in the order of their creation. */
int64_t hf__etcd_last_holder(const etcd_range_reply *claims, const struct etcd_total *total)
{
    uint64_t sum = 0;
    int64_t last = 0;
    for (size_t i = 0; i < claims->n_kvs; i++) {
        int64_t created = claims->kvs[i]->create_revision;
        sum += weight_of(claims->kvs[i]);
        if (sum > total->permits && created > total->held_until)
            break;
        last = created;
    }
    return last;
}
