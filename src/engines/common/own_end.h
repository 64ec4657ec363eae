/* SPDX-License-Identifier: Apache-2.0 */
/* The end that a claim asks for itself, where what it has at the store rests on a session
 * (ZooKeeper, etcd). Two clocks end such a claim, and it is believed in until the first of them:
 * its own time, which a timer here ends, and the session, which the store ends.
 *
 * Thread: everything here, `over` included, runs on the loop. */
#ifndef HF_ENGINES_COMMON_OWN_END_H
#define HF_ENGINES_COMMON_OWN_END_H

#include "core/engine.h"

struct hf_own_end {
    struct hf_lease lease;          /* what the claim rests on */
    struct hf_timer timer;          /* started: the claim has an end of its own, still to come */
    struct hf_link link;            /* among those of its client that rest on sessions */
    const struct hf_lease *session; /* the session's, while `link` is in that list */
    void (*over)(struct hf_own_end *end);
};

/* `over`: its time has come. The holder has been told by its lease; what the claim has at the store
 * can go. */
void hf__own_end_init(struct hf_own_end *end, struct hf_engine *engine,
                      void (*over)(struct hf_own_end *end));
/* The op is granted: its time runs from when its question was handed to the engine. */
void hf__own_end_start(struct hf_own_end *end, const struct hf_op *op);
/* After hf__own_end_start, for what rests on the session: op->out.rests_on is its lease, which is
 * put into the client's list `ends`. */
void hf__own_end_follow(struct hf_own_end *end, struct hf_link *ends,
                        const struct hf_lease *session, struct hf_op *op);
/* HF_ONESHOT_RENEW was done at the store. False: it is over already. It never comes earlier. */
bool hf__own_end_move(struct hf_own_end *end, const struct hf_oneshot *renewal);
/* What a renewal asks the store for: the longer one of what is left and what is wanted. */
int64_t hf__own_end_longer_ms(const struct hf_own_end *end, const struct hf_oneshot *renewal);
/* The claim is over. */
void hf__own_end_stop(struct hf_own_end *end);

/* The session was confirmed for all that rest on it. `length_ms`: as in hf__lease_answer. */
void hf__own_ends_confirm(struct hf_link *ends, const struct hf_lease *session, int64_t asked_at_ms,
                          int64_t length_ms);
/* The session is gone, and so is all that rests on it. */
void hf__own_ends_lose(struct hf_link *ends, const struct hf_lease *session);

/* Whether a session's lease is lost. One that nothing rests on has no watchdog: it is lost when its
 * time is over. */
bool hf__session_lease_is_lost(struct hf_lease *session, int64_t now_ms);

#endif
