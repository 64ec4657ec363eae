/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a lock so that signals end the wait, and nothing is left in the queue. */
#include "cli.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* How long a cancelled request may take to say so before we leave all the same; hf_close then ends
 * it. */
#define CANCEL_MS 2000
/* How long the store may be silent until the user is told that the wait is for the store. */
#define SILENCE_MS 2000
/* How long a wait may take before a person at a terminal is told of it; again after four times as
 * long, and so on, but at least each ten minutes. */
#define NOTICE_MS 1000
#define NOTICE_PAUSE_MAX_MS 600000

struct wait {
    struct cli_client *session;
    const char *name;
    int64_t wait_ms, began_ms, notice_at_ms; /* when a person is told next which owner holds it */
    bool told_of_wait;
    bool done;
    int code;
    hf_hold *hold;
    hf_error *error;
    hf_request request;
    int64_t give_up_at_ms; /* 0: not cancelled */
};

static void acquire_answered(void *arg, int code, hf_hold *hold, const hf_error *error)
{
    struct wait *wait = arg;

    wait->done = true;
    wait->code = code;
    wait->hold = hold;
    if (error)
        *wait->error = *error;
}

static bool ends_a_wait(int signal)
{
    return signal != SIGCHLD && signal != SIGCONT && signal != SIGWINCH && signal != SIGTSTP;
}

static void cancel(struct wait *wait)
{
    wait->give_up_at_ms = cli_now_ms() + CANCEL_MS;
    hf_cancel(wait->session->client, wait->request);
}

/* With --verbose the events have said it. */
static bool keeps_silence_to_himself(const struct cli_client *session)
{
    /* mutant: quiet-run-speaks-of-store */
    return session->settings->quiet || session->settings->verbose;
}

static void tell_of_silence(struct cli_client *session)
{
    bool silent = session->silent_since_ms != 0;

    if (keeps_silence_to_himself(session) || silent == session->told_of_silence ||
        (silent && cli_now_ms() < session->silent_since_ms + SILENCE_MS))
        return;
    session->told_of_silence = silent;
    if (silent) /* mutant: owner-waits-for-store */
        cli_tell(CLI_WARNING, CLI_OK, "still waiting for %s: %s", hf_url(session->client),
                 session->silence);
    else
        cli_tell(CLI_INFO, CLI_OK, "the store answers again");
}

/* The store is asked for the holder, which a silent store would only hold up. */
static bool notice_is_due(const struct wait *wait)
{
    const struct cli_settings *settings = wait->session->settings;

    return !settings->quiet && !wait->give_up_at_ms &&
           (settings->verbose || isatty(STDERR_FILENO)) && !wait->session->silent_since_ms;
}

static void tell_of_wait(struct wait *wait)
{
    char clause[CLI_CLAUSE_SIZE];
    int64_t now_ms = cli_now_ms(), pause_ms = (now_ms - wait->began_ms) * 3;
    bool known;

    if (!notice_is_due(wait) || now_ms < wait->notice_at_ms)
        return;
    wait->told_of_wait = true;
    wait->notice_at_ms = now_ms + (pause_ms < NOTICE_PAUSE_MAX_MS ? pause_ms : NOTICE_PAUSE_MAX_MS);
    known = cli_busy_clause(wait->session, wait->name, clause);
    if (!wait->done)
        cli_tell(CLI_INFO, CLI_OK, "waiting%s%s%s", known ? ": " : " for '",
                 known ? clause : wait->name, known ? "" : "'");
}

/* -1: nothing is due before something comes. */
static int poll_ms(const struct wait *wait)
{
    const struct cli_client *session = wait->session;

    if (wait->give_up_at_ms)
        return cli_poll_ms(wait->give_up_at_ms);
    if (session->silent_since_ms && !session->told_of_silence && !keeps_silence_to_himself(session))
        return cli_poll_ms(session->silent_since_ms + SILENCE_MS);
    if (notice_is_due(wait))
        return cli_poll_ms(wait->notice_at_ms);
    return -1;
}

/* A wait in vain has a length to tell of, even if it was too short for a notice. */
static void tell_of_end(const struct wait *wait)
{
    const struct cli_settings *settings = wait->session->settings;
    char waited[40];

    if (!wait->told_of_wait &&
        (wait->code == HF_OK || wait->wait_ms == 0 || !settings->verbose || settings->quiet))
        return;
    cli_duration_format(waited, sizeof(waited), cli_now_ms() - wait->began_ms);
    cli_tell(CLI_INFO, CLI_OK,
             wait->code == HF_OK ? "'%s' was granted after %s" : "'%s' was not granted within %s",
             wait->name, waited);
}

static void wait_until_done(struct wait *wait)
{
    struct cli_client *session = wait->session;
    struct pollfd polled[] = { { hf_fd(session->client), POLLIN, 0 },
                               { session->signal_fd, POLLIN, 0 } };

    for (hf_dispatch(session->client); !wait->done; hf_dispatch(session->client)) {
        if (wait->give_up_at_ms && cli_now_ms() >= wait->give_up_at_ms)
            return;
        /* mutant: wait-goes-on-although-another */
        if (!wait->give_up_at_ms && session->lost && *session->lost)
            cancel(wait);
        tell_of_silence(session);
        tell_of_wait(wait);
        if (wait->done)
            break;
        poll(polled, 2, poll_ms(wait));
        int signal;

        while ((signal = cli_session_signal(wait->session)) != 0) {
            if (signal == SIGTSTP)
                raise(SIGSTOP);
            if (wait->session->ended_by)
                cli_session_end_by(wait->session, signal);
            if (!ends_a_wait(signal) || wait->session->ended_by)
                continue;
            wait->session->ended_by = signal;
            cancel(wait);
        }
    }
    if (wait->code == HF_OK)
        tell_of_silence(session);
    tell_of_end(wait);
}

int cli_acquire(struct cli_client *session, const char *name, int64_t wait_ms,
                const hf_lock_options *options, hf_hold **ret, hf_error *error)
{
    struct wait wait = { .session = session,
                         .name = name,
                         .wait_ms = wait_ms,
                         .began_ms = cli_now_ms(),
                         .error = error };
    int code;

    wait.notice_at_ms = wait.began_ms + NOTICE_MS;
    memset(error, 0, sizeof(*error));
    if (ret)
        *ret = NULL;
    if (!cli_session_watch(session))
        return HF_EINTERNAL;
    if ((options->mode == HF_PERMIT || options->mode == HF_COUNTER) &&
        !cli_may_use_number(session, name, error))
        return HF_EKIND;
    code = hf_lock_async(session->client, name, wait_ms, options, acquire_answered, &wait,
                         &wait.request);
    if (code != HF_OK) {
        *error = *hf_last_error();
        return code;
    }
    wait_until_done(&wait);
    if (!wait.done) {
        /* An answer that we no longer wait for has nowhere to go: closing the client ends the
         * request, with our callback, so it must happen while `wait` lives. */
        cli_tell(CLI_WARNING, CLI_OK,
                 "the store did not confirm in time that the request is withdrawn; what is left of "
                 "it goes with the session");
        hf_close(wait.session->client);
        wait.session->client = NULL;
        wait.code = HF_CANCELED;
    }
    if (wait.code == HF_OK && session->ended_by) {
        hf_unlock(wait.hold);
        return HF_CANCELED;
    }
    if (ret)
        *ret = wait.hold;
    return wait.code;
}

bool cli_lock_options(const struct cli_settings *settings, hf_lock_options *options)
{
    int modes = settings->shared + settings->upgradeable + settings->exclusive + settings->fair +
                (settings->slots || settings->take);

    *options =
        HF_LOCK_OPTIONS(.mode = settings->shared        ? HF_READ
                                : settings->upgradeable ? HF_UPGRADE
                                : settings->exclusive   ? HF_WRITE
                                : settings->fair        ? HF_FAIR
                                : modes                 ? HF_PERMIT
                                : settings->candidate   ? HF_LEADER
                                                        : HF_MUTEX,
                        .permits = (uint32_t)settings->take, .limit = (uint32_t)settings->slots,
                        .lease_ms = settings->max_hold_ms,
                        .owner_text = settings->candidate ? NULL : settings->owner_text);
    if (modes <= 1)
        return true;
    cli_complain("a lock is of one kind: choose one of -s, -U, -W, -F, and -j with -k");
    return false;
}
