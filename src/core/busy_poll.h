/* Whether a caller that turns the loop looks again for a while before it sleeps. A processor that
 * sleeps takes longer to wake than many an answer takes to come, so it pays where answers come
 * soon; elsewhere it is only tried now and then. Belongs to who turns the loop. */
#ifndef HF_CORE_BUSY_POLL_H
#define HF_CORE_BUSY_POLL_H

#include "base/testing.h"

#include <stdint.h>

/* For so long at most, in microseconds. */
extern HF_TUNABLE int64_t hf__busy_poll_us;

#define HF_BUSY_POLL_MOST                                                                          \
    8u /* worth that much, it is given up after four waits without an answer */
#define HF_BUSY_POLL_EVERY 64u /* worth nothing, it is tried each so manieth time */

struct hf_busy_poll {
    unsigned worth, passed_over;
};

void hf__busy_poll_init(struct hf_busy_poll *poll);
/* Somebody is going to wait: does it look again first? */
bool hf__busy_poll_pays(struct hf_busy_poll *poll);
/* It did; was the answer there by then? */
void hf__busy_poll_ended(struct hf_busy_poll *poll, bool answered);

#endif
