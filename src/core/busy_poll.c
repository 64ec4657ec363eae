/* Keeps the account of what looking again has brought. */
#include "core/busy_poll.h"

HF_TUNABLE int64_t hf__busy_poll_us = 100;

void hf__busy_poll_init(struct hf_busy_poll *poll)
{
    *poll = (struct hf_busy_poll){ .worth = HF_BUSY_POLL_MOST };
}

bool hf__busy_poll_pays(struct hf_busy_poll *poll)
{
    poll->refused = poll->stands_aside = false;
    poll->crowded -= poll->crowded > 0;
    if (poll->worth > 0)
        return true;
    poll->passed_over = (poll->passed_over + 1) % HF_BUSY_POLL_EVERY;
    return poll->passed_over == 0;
}

int64_t hf__busy_poll_time_us(const struct hf_busy_poll *poll)
{
    if (poll->stands_aside)
        return 0;
    return poll->crowded > 0 ? 2 * hf__busy_poll_us : hf__busy_poll_us;
}

void hf__busy_poll_refused(struct hf_busy_poll *poll)
{
    poll->refused = true;
    poll->crowded = HF_BUSY_POLL_CROWDED;
}

void hf__busy_poll_stand_aside(struct hf_busy_poll *poll)
{
    poll->stands_aside = true;
}

/* What is in vain costs as much as two that were not have saved. */
void hf__busy_poll_ended(struct hf_busy_poll *poll, bool answered)
{
    if (poll->stands_aside)
        return;
    answered = answered || poll->refused;
    if (answered && poll->worth < HF_BUSY_POLL_MOST)
        poll->worth++;
    else if (!answered)
        poll->worth -= poll->worth < 2 ? poll->worth : 2;
}
