/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim for permits keeps: where they are, and which are its own. */
#include "semaphore.h"

#include "base/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

char *hf__zk_join(const char *path, const char *child)
{
    size_t size = strlen(path) + 1 + strlen(child) + 1;
    char *joined = hf__calloc(1, size);
    if (joined)
        snprintf(joined, size, "%s/%s", path, child);
    return joined;
}

int64_t hf__zk_total(const char *data, size_t length)
{
    struct zk_reader reader = hf__zk_reader(data, length);
    if (length != ZK_TOTAL_SIZE)
        return -1;
    int32_t total = hf__zk_read_int(&reader);
    return total < 0 ? 0 : total;
}

void hf__zk_total_bytes(uint32_t total, char bytes[ZK_TOTAL_SIZE])
{
    for (unsigned i = 0; i < ZK_TOTAL_SIZE; i++)
        bytes[i] = (char)(total >> (8 * (ZK_TOTAL_SIZE - 1 - i)));
}

bool hf__zk_permits_new(struct zk_queue_node *place)
{
    struct zk_permits *permits = hf__calloc(1, sizeof *permits);
    if (!permits)
        return false;
    permits->locks = hf__zk_join(place->path, ZK_LOCKS);
    permits->leases = hf__zk_join(place->path, ZK_LEASES);
    if (!permits->locks || !permits->leases) {
        free(permits->locks);
        free(permits->leases);
        free(permits);
        return false;
    }
    free(place->path);
    place->path = permits->locks;
    place->permits = permits;
    return true;
}

void hf__zk_permits_forget(struct zk_queue_node *place)
{
    struct zk_permits *permits = place->permits;
    place->path = permits->locks;
    permits->count = 0;
    hf__known_forget(&permits->known);
}

void hf__zk_permits_free(struct zk_queue_node *place)
{
    struct zk_permits *permits = place->permits;
    free(permits->numbers);
    free(permits->locks);
    free(permits->leases);
    free(permits);
    place->path = NULL;
}

void hf__zk_lease_name(const struct zk_permits *permits, uint32_t index, char name[ZK_NODE_SIZE])
{
    snprintf(name, ZK_NODE_SIZE, "%.*s%010" PRId64, ZK_NODE_SIZE - 12, permits->stem,
             permits->numbers[index]);
}
