/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the account of what looking again has brought. */
#include "core/loop/busy_poll.h"

HF_TUNABLE int64_t hf__busy_poll_us = 100;

/* Giving the processor away takes less where no other thread wants it. */
HF_TUNABLE int64_t hf__busy_poll_away_us = 4;

/* A server's answer takes no longer than the first, in microseconds; the turn of a program that has
 * much of its own to do takes more than the second. */
#define SERVER_MAX_US 100
#define PROGRAM_MIN_US 500

void hf__busy_poll_init(struct hf_busy_poll *poll)
{
    *poll = (struct hf_busy_poll){ .worth = HF_BUSY_POLL_MAX, .every = HF_BUSY_POLL_EVERY };
}

bool hf__busy_poll_pays(struct hf_busy_poll *poll)
{
    poll->refused = poll->stands_aside = false;
    poll->gave_away_us = 0;
    poll->crowded -= poll->crowded > 0;
    if (poll->worth > 0)
        return true;
    poll->passed_over = (poll->passed_over + 1) % poll->every;
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

void hf__busy_poll_skip_once(struct hf_busy_poll *poll)
{
    poll->stands_aside = true;
}

void hf__busy_poll_gave_away(struct hf_busy_poll *poll, int64_t us)
{
    poll->gave_away_us = us < hf__busy_poll_away_us ? 0 : us;
}

/* What is in vain costs as much as two that were not have saved. */
void hf__busy_poll_ended(struct hf_busy_poll *poll, bool answered)
{
    if (poll->stands_aside)
        return;
    /* Where the server has no processor but ours, a sleeper hears its answer as soon, and has not
     * looked for what could not come. Among many the processor may have been another client's. */
    bool server_had_ours =
        poll->crowded == 0 && poll->gave_away_us > 0 && poll->gave_away_us <= SERVER_MAX_US;
    /* A sleeper whose answer comes would have had it before that turn's end. One such turn costs as
     * much as many looks can save, so it is tried more rarely each time. */
    bool program_had_ours = poll->gave_away_us >= PROGRAM_MIN_US;
    if (!program_had_ours)
        poll->every = HF_BUSY_POLL_EVERY;
    else if (poll->worth == 0 && poll->every < HF_BUSY_POLL_RARELY)
        poll->every *= 2;
    bool pays = ((answered && !server_had_ours) || poll->refused) && !program_had_ours;
    if (pays && poll->worth < HF_BUSY_POLL_MAX)
        poll->worth++;
    else if (!pays)
        poll->worth -= poll->worth < 2 ? poll->worth : 2;
}
