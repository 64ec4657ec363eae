/* SPDX-License-Identifier: Apache-2.0 */
/* What a cluster's map and settings say of the locks on its other masters when one of them is gone.
 */
#include "doctor.h"

#include <stdio.h>
#include <string.h>

void hf__redis_judge_coverage(struct redis_survey *examiner, const redisReply *reply)
{
    examiner->all_or_nothing =
        hf__reply_is_array(reply, 2) && strcmp(hf__reply_text(reply->element[1]), "yes") == 0;
}

/* A range is {first slot, last slot, {host, port, ...} of the master, of its replicas...}; a
 * replica that has failed is not among them. NULL: it is none. */
static const redisReply *master_of(const redisReply *range)
{
    return hf__reply_is_array(range, 3) && hf__reply_is_array(range->element[2], 2)
               ? range->element[2]
               : NULL;
}

static bool is_same(const redisReply *one, const redisReply *other)
{
    return hf__reply_number(one->element[1]) == hf__reply_number(other->element[1]) &&
           strcmp(hf__reply_text(one->element[0]), hf__reply_text(other->element[0])) == 0;
}

void hf__redis_judge_map(struct redis_survey *examiner, const redisReply *reply)
{
    const redisReply *first = NULL, *bare = NULL;
    bool several = false;
    for (size_t i = 0; hf__reply_is_array(reply, 0) && i < reply->elements; i++) {
        const redisReply *master = master_of(reply->element[i]);
        if (!master)
            continue;
        if (!first)
            first = master;
        several = several || !is_same(master, first);
        if (!bare && reply->element[i]->elements == 3)
            bare = master;
    }
    /* The locks of an only master are all there are. */
    if (!bare || !several || !examiner->all_or_nothing)
        return;
    hf__finding_danger(
        &examiner->findings, "cluster-coverage",
        "when it is down for longer than cluster-node-timeout no master answers any "
        "more (CLUSTERDOWN): the others' locks are lost, too, when their leases end",
        "CONFIG SET cluster-require-full-coverage no on all servers, or a replica for "
        "each master",
        "cluster-require-full-coverage is yes, and a master has no replica (%.150s:%lld)",
        hf__reply_text(bare->element[0]), (long long)hf__reply_number(bare->element[1]));
}
