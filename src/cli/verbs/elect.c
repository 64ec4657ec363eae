/* SPDX-License-Identifier: Apache-2.0 */
/* elect: among all that campaign one runs its command; when it ends or loses, another does. With
 * --observe it only tells which one leads, and each change of that.
 */
#include "cli/run/run.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

/* A command that fails at once must not make the whole fleet spin. */
#define HEALTHY_MS 10000
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS 60000
/* How often an observer asks. */
#define OBSERVE_MS 500

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
            cli_tell(CLI_INFO, CLI_OK, "this term has ended with %d; campaigning again in %d s",
                     code, (int)(backoff_ms / 1000));
        if (!pause_for(session, backoff_ms))
            return CLI_SIGNAL + session->ended_by;
    }
}

/* ---- observing ---- */

static void print_leader_json(const char *name, const hf_leader *leader)
{
    putchar('{');
    cli_json_name(stdout, name, strlen(name));
    printf(",\"leads\":%s", leader->leads ? "true" : "false");
    if (leader->leads) {
        printf(",\"token\":%" PRIu64 ",\"candidates\":%" PRIu32 ",\"owner\":", leader->token,
               leader->candidates);
        cli_json_string(stdout, leader->owner_key, strlen(leader->owner_key));
        fputs(",\"owner_text\":", stdout);
        cli_json_string(stdout, leader->text, strlen(leader->text));
        fputs(",\"since_ms\":", stdout);
        if (leader->since_ms < 0)
            fputs("null", stdout);
        else
            printf("%" PRId64, leader->since_ms);
    }
    puts("}");
}

static void print_leader(const char *name, const hf_leader *leader)
{
    const char *text = *leader->text ? leader->text : leader->owner_key;
    char since[64];

    cli_age_format(since, sizeof(since), leader->since_ms);
    if (!leader->leads)
        cli_say(stdout, "\n", "'%s': no candidate leads", name);
    else if (leader->token)
        cli_say(stdout, "\n", "'%s': %s leads%s, term %" PRIu64, name, text, since, leader->token);
    else
        cli_say(stdout, "\n", "'%s': %s leads%s", name, text, since);
}

static bool is_other(const hf_leader *leader, const hf_leader *told)
{
    return leader->leads != told->leads || leader->token != told->token ||
           strcmp(leader->owner_key, told->owner_key) != 0 ||
           (*leader->text && strcmp(leader->text, told->text) != 0);
}

/* A store that is silent is no change. It is told once, and asked again. */
static int observe(struct cli_client *session, const char *name)
{
    const struct cli_settings *settings = session->settings;
    hf_leader leader = { .size = sizeof(leader) }, told = { .size = 0 };
    int silent = HF_OK, code;

    do {
        code = hf_election_leader(session->client, name, &leader);
        if (code != HF_OK && code != HF_UNREACHABLE)
            return cli_fail(settings, code, hf_last_error());
        if (code != silent && code == HF_UNREACHABLE)
            (void)cli_fail(settings, code, hf_last_error());
        silent = code;
        if (code != HF_OK || (told.size && !is_other(&leader, &told)))
            continue;
        told = leader;
        if (settings->json)
            print_leader_json(name, &leader);
        else
            print_leader(name, &leader);
        if (cli_flush() != 0)
            return CLI_INTERNAL;
    } while (pause_for(session, OBSERVE_MS));
    return CLI_SIGNAL + session->ended_by;
}

static int cli_observe(struct cli_settings *settings)
{
    struct cli_client session;

    if (settings->name_count != 1 || settings->word_count > 0 || settings->shell_command)
        return cli_usage(settings, "elect", "--observe takes one name, and no command");
    int code = cli_session_open(&session, settings, NULL);
    if (code != CLI_OK)
        return code;
    code = cli_session_watch(&session) ? observe(&session, settings->names[0]) : CLI_INTERNAL;
    cli_session_close(&session);
    return code;
}

int cli_elect(struct cli_settings *settings)
{
    struct cli_client session;
    struct cli_job job;
    int code;

    if (settings->observe)
        return cli_observe(settings);
    settings->candidate = true;
    code = cli_job_prepare(&job, settings, "elect");
    if (code != CLI_OK)
        return code;
    code = cli_job_open(&session, settings);
    if (code != CLI_OK)
        return code;
    code = campaign(&session, settings);
    cli_session_close(&session);
    return code;
}
