/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: a number in a node, as in Curator's SharedCount. */
#ifndef HF_ENGINES_ZOOKEEPER_LATCH_LATCH_H
#define HF_ENGINES_ZOOKEEPER_LATCH_LATCH_H

#include "engines/zookeeper/semaphore/semaphore.h"

/* Something else that was written there does not count. What is empty belongs to no program. */
static inline bool hf__zk_is_foreign(size_t length)
{
    return length != 0 && length != ZK_TOTAL_SIZE; /* mutant: latch-takes-what-is-another */
}

/* ---- latch.c: waiting ---- */

/* True: it has taken the question over. */
bool hf__zk_latch_begin(struct zookeeper *zk, struct zk_queue_node *place);
/* The claim has a node that says that it waits. */
void hf__zk_latch_turn(struct zookeeper *zk, struct zk_queue_node *place);

/* ---- latch_change.c ---- */

void hf__zk_latch_change(struct zookeeper *zk, struct hf_oneshot *change);
/* Nothing happens to any change by itself any more. */
void hf__zk_latches_still(struct zookeeper *zk);
void hf__zk_latches_close(struct zookeeper *zk);

#endif
