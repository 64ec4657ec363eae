/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a caller that turns the loop looks again for a while before it sleeps. A sleeping
 * processor takes longer to wake than many an answer takes to come, so it pays where answers come
 * soon; elsewhere it is only tried now and then. Belongs to the thread that turns the loop. */
#ifndef HF_CORE_LOOP_BUSY_POLL_H
#define HF_CORE_LOOP_BUSY_POLL_H

#include "base/testing.h"

#include <stdbool.h>
#include <stdint.h>

/* The longest look, in microseconds; twice as long for a caller that has just met others. */
extern HF_TUNABLE int64_t hf__busy_poll_us;
/* A caller that had it back sooner gave its processor to no other thread. */
extern HF_TUNABLE int64_t hf__busy_poll_away_us;

/* The credit that polling can have. From there it ends after four waits without an answer. */
#define HF_BUSY_POLL_MAX 8u
/* Without credit, polling is tried on every 64th wait. */
#define HF_BUSY_POLL_EVERY 64u
#define HF_BUSY_POLL_RARELY 4096u /* the same where other programs want our processor */
#define HF_BUSY_POLL_CROWDED 4u   /* the number of waits that are longer after one refusal */

struct hf_busy_poll {
    unsigned worth, passed_over, crowded, every;
    int64_t gave_away_us;       /* when it looked last */
    bool refused, stands_aside; /* in this wait */
};

void hf__busy_poll_init(struct hf_busy_poll *poll);
/* A caller is going to wait: does it look again first? */
bool hf__busy_poll_pays(struct hf_busy_poll *poll);
/* For how long; asked again when the time is over, as a refusal makes it longer. */
int64_t hf__busy_poll_time_us(const struct hf_busy_poll *poll);
/* The store has answered that another owner has what is waited for. That is an answer, too; and
 * what many want may change hands at any moment, so that it is worth looking on. */
void hf__busy_poll_refused(struct hf_busy_poll *poll);
/* What is asked lets another process go on, and looking would keep it from a processor. This wait
 * says nothing of whether looking pays. */
void hf__busy_poll_skip_once(struct hf_busy_poll *poll);
/* Before it looked this time, it gave its processor away, and had it back after this time. */
void hf__busy_poll_gave_away(struct hf_busy_poll *poll, int64_t us);
/* It did; was what is waited for there by then? */
void hf__busy_poll_ended(struct hf_busy_poll *poll, bool answered);

#endif
