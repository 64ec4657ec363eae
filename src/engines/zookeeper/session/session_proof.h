/* SPDX-License-Identifier: Apache-2.0 */
/* For how long a session may be believed in: that rests on what the servers know of our messages.
 */
#ifndef HF_ENGINES_ZOOKEEPER_SESSION_SESSION_PROOF_H
#define HF_ENGINES_ZOOKEEPER_SESSION_SESSION_PROOF_H

#include <stdbool.h>
#include <stdint.h>

/* Those that the leader may not know of yet, as many as can be between two reports. */
#define ZK_CONTACTS_MAX 8u

struct zk_session_proof {
    int64_t known_ms;  /* the leader has counted the session from here, or from later */
    int64_t agreed_ms; /* and most servers followed that leader then, or later */
    int64_t newest_ms; /* the last one that was noted */
    int64_t at_ms[ZK_CONTACTS_MAX];
    unsigned count;
};

/* The time that a session is believed in after the moment that the functions below answer. */
int64_t hf__zk_belief_ms(int64_t timeout_ms);
/* The time between questions that are needed for that to go on. Four of these are longer than what
 * the leader is given to hear of a message: then a regular beat counts in full. */
int64_t hf__zk_heartbeat_ms(int64_t timeout_ms);
/* A server that has been silent for this time is given up, and there is time for the next. */
int64_t hf__zk_patience_ms(int64_t timeout_ms);

/* The leader itself was asked by a message that left then, and it may stand alone: a greeting.
 * `begun`: most servers have agreed as well, to a new session. */
int64_t hf__zk_session_proof_greet(struct zk_session_proof *contacts, int64_t at_ms,
                                   int64_t timeout_ms, bool begun);
/* Is one that left then worth noting? */
bool hf__zk_session_proof_wants(const struct zk_session_proof *contacts, int64_t at_ms,
                                int64_t timeout_ms);
/* Most servers have agreed to a message that left then, by way of the one that we talk to. */
int64_t hf__zk_session_proof_note(struct zk_session_proof *contacts, int64_t at_ms,
                                  int64_t timeout_ms);

#endif
