/* SPDX-License-Identifier: Apache-2.0 */
/* elect: among all that campaign one runs its command; when it ends or loses, another does.
 */
#include "cli/run/run.h"

#include <poll.h>

/* A command that fails at once must not make the whole fleet spin. */
#define HEALTHY_MS 10000
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS 60000

static bool says_end(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

/* False: told to end meanwhile. The client goes on working, for what it still has to clean up. */
static bool pause_for(struct cli_client *session, int64_t ms)
{
    int64_t until = cli_now_ms() + ms;
    struct pollfd polled[] = { { session->signal_fd, POLLIN, 0 },
                               { hf_fd(session->client), POLLIN, 0 } };

    while (cli_now_ms() < until) {
        int signal;
        poll(polled, 2, cli_poll_ms(until));
        hf_dispatch(session->client);
        while ((signal = cli_session_signal(session)) != 0) {
            if (says_end(signal)) {
                session->ended_by = signal;
                return false;
            }
        }
    }
    return true;
}

/* What the user wrote wrongly does not mend by itself, and a candidate that is told to end does not
 * campaign. */
static bool is_final(int code, const struct cli_job *job)
{
    if (job->session->ended_by || job->forwarded)
        return true;
    return job->pid == 0 && (code == CLI_USAGE || code == CLI_DENIED || code == CLI_INTERNAL);
}

static int64_t next_backoff(int64_t backoff_ms, const struct cli_job *job, int code)
{
    bool served = job->pid > 0 && cli_now_ms() - job->granted_at_ms >= HEALTHY_MS;

    if (served || (job->pid > 0 && code == CLI_OK))
        return BACKOFF_FIRST_MS;
    return backoff_ms * 2 < BACKOFF_MAX_MS ? backoff_ms * 2 : BACKOFF_MAX_MS;
}

/* One campaign and, if it is won, one term of office after the other. */
static int campaign(struct cli_client *session, struct cli_settings *settings)
{
    int64_t backoff_ms = BACKOFF_FIRST_MS / 2;
    struct cli_job job;
    int code;

    for (;;) {
        cli_job_prepare(&job, settings, "elect");
        code = cli_job_do(&job, session);
        if (is_final(code, &job))
            return code;
        backoff_ms = next_backoff(backoff_ms, &job, code);
        if (!settings->quiet)
            cli_complain("this term has ended with %d; campaigning again in %d s", code,
                         (int)(backoff_ms / 1000));
        if (!pause_for(session, backoff_ms))
            return CLI_SIGNAL + session->ended_by;
    }
}

int cli_elect(struct cli_settings *settings)
{
    struct cli_client session;
    struct cli_job job;
    int code = cli_job_prepare(&job, settings, "elect");

    if (code != CLI_OK)
        return code;
    code = cli_job_open(&session, settings);
    if (code != CLI_OK)
        return code;
    code = campaign(&session, settings);
    cli_session_close(&session);
    return code;
}
