/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a lock: when it is due, what it comes from, and what is to be done by then. */
#include "run.h"

#include <string.h>

/* The group must be gone, not just killed, when the lock ends: so SIGKILL leaves this much sooner,
 * or by a twentieth of a very short lease. */
#define KILL_MARGIN_MS 50

/* When the first of our holds ends unless it is renewed. A hold that was lost ended when it was
 * going to: its last known deadline stands. */
void cli_loss_refresh(struct cli_job *job, int64_t now)
{
    int64_t until = CLI_NEVER;

    if (job->lost || job->nested)
        return;
    for (unsigned i = 0; i < job->count; i++) {
        int64_t left = hf_remaining_ms(job->holds[i]);
        if (left == INT64_MAX || now + left >= until)
            continue;
        until = now + left;
        job->lost_name = job->names[i];
    }
    job->held_until_ms = until;
}

static int64_t kill_margin(const struct cli_job *job)
{
    return KILL_MARGIN_MS < job->lease_ms / 20 ? KILL_MARGIN_MS : job->lease_ms / 20;
}

int64_t cli_job_last_moment(const struct cli_job *job)
{
    return job->held_until_ms == CLI_NEVER ? CLI_NEVER : job->held_until_ms - kill_margin(job);
}

bool cli_loss_is_ignored(const struct cli_job *job)
{
    return job->settings->on_lost && strcmp(job->settings->on_lost, "ignore") == 0;
}

int64_t cli_loss_warn_at(const struct cli_job *job)
{
    int64_t margin = kill_margin(job);

    if (job->held_until_ms == CLI_NEVER)
        return CLI_NEVER;
    return job->held_until_ms - (job->grace_ms > margin ? job->grace_ms : margin);
}

/* What the guard does if we cannot. Not before we would. */
int64_t cli_job_guard_at(const struct cli_job *job)
{
    if (job->stage == CLI_ENDING)
        return job->kill_at_ms;
    return cli_loss_is_ignored(job) ? CLI_NEVER : cli_job_last_moment(job);
}

/* Before it is lost that is what has kept it from being renewed, since it was renewed last. */
const char *cli_loss_reason(const struct cli_job *job)
{
    const struct cli_client *session = job->session;

    if (job->settings->max_hold_ms && cli_now_ms() >= cli_loss_warn_at(job))
        return "its --max-hold ends";
    if (job->lost)
        return job->loss_reason;
    if (session->silent_since_ms)
        return session->silence;
    return session->refused_at_ms > job->held_until_ms - job->lease_ms ? session->refusal : "";
}

int cli_job_lose(struct cli_job *job, const char *when, const char *reason)
{
    job->cause = CLI_LOST;
    cli_tell(CLI_ERROR, CLI_LOST, "'%s' %s%s%s", job->lost_name, when, *reason ? ": " : "", reason);
    return CLI_LOST;
}

bool cli_job_may_start(struct cli_job *job)
{
    if (job->nested)
        return true;
    hf_dispatch(job->session->client);
    cli_loss_refresh(job, cli_now_ms());
    for (unsigned i = 0; i < job->count && !job->lost; i++) {
        job->lost = !hf_held(job->holds[i]);
        if (job->lost)
            job->lost_name = job->names[i];
    }
    if (!job->lost && cli_now_ms() < cli_job_last_moment(job))
        return true;
    cli_job_lose(job, "was lost before the command could start", cli_loss_reason(job));
    return false;
}
