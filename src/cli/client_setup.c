/* SPDX-License-Identifier: Apache-2.0 */
/* A client without a thread, and the signals that the command listens to through a descriptor. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The shortest lease that a client may have. */
#define TTL_MIN_MS 100

/* Each is passed on to the child, and most end a wait; so are the real-time signals. */
static const int signals[] = { SIGHUP,  SIGINT,   SIGQUIT,   SIGTERM, SIGUSR1,
                               SIGUSR2, SIGALRM,  SIGVTALRM, SIGPROF, SIGIO,
                               SIGPWR,  SIGWINCH, SIGTSTP,   SIGCONT, SIGCHLD };

/* Unless it was ignored when we were started (nohup, a shell's background job): then it stays
 * ignored, by the child too. */
static void add_watched(struct cli_client *session, int number)
{
    struct sigaction action;

    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(&session->watched, number);
}

/* SIGTTOU is blocked but not read: we hand the terminal around from the background. */
bool cli_session_watch(struct cli_client *session)
{
    sigset_t blocked;

    if (session->signal_fd >= 0)
        return true;
    cli_messages_begin();
    sigemptyset(&session->watched);
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        add_watched(session, signals[i]);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        add_watched(session, number);
    blocked = session->watched;
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, &session->original);
    session->signal_fd = signalfd(-1, &session->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (session->signal_fd < 0)
        cli_tell(CLI_ERROR, CLI_INTERNAL, "no descriptor for signals: %s", strerror(errno));
    return session->signal_fd >= 0;
}

static void report_event(void *arg, const hf_event *event)
{
    struct cli_client *session = arg;

    if (event->type == HF_EVENT_STORE_DOWN) {
        session->silent_since_ms = cli_now_ms();
        snprintf(session->silence, sizeof(session->silence), "%s", event->text);
    } else if (event->type == HF_EVENT_STORE_UP) {
        session->silent_since_ms = 0;
    } else if (event->type == HF_EVENT_NOT_RENEWED) {
        session->refused_at_ms = cli_now_ms();
        snprintf(session->refusal, sizeof(session->refusal), "%s", event->text);
    }
    if (session->muted || !session->settings->verbose)
        return;
    bool lost = event->type == HF_EVENT_LOST;
    bool bad = lost || event->type == HF_EVENT_STORE_DOWN || event->type == HF_EVENT_NOT_RENEWED;

    if (event->name[0])
        cli_tell(bad ? CLI_WARNING : CLI_INFO, CLI_OK, "'%s': %s%s", event->name,
                 lost ? "lost: " : "", event->text);
    else
        cli_tell(bad ? CLI_WARNING : CLI_INFO, CLI_OK, "%s", event->text);
}

/* An hf_code. */
static int open_store(struct cli_client *session, const struct cli_settings *settings,
                      const char *url, const char *owner_text, bool existing_only)
{
    hf_client_options options =
        HF_CLIENT_OPTIONS(.driver = HF_DRIVE_CALLER, .lease_ms = settings->ttl_ms,
                          .owner_text = owner_text, .on_event = report_event, .event_arg = session,
                          .existing_only = existing_only);

    *session = (struct cli_client){ .settings = settings, .signal_fd = -1 };
    /* An event of the opening must not keep the command from its start. */
    cli_messages_begin();
    int code = hf_open(&session->client, url, &options);
    if (code != HF_OK)
        cli_messages_end();
    return code;
}

/* An exit code. */
static int opened(const struct cli_settings *settings, int code)
{
    return code == HF_OK ? CLI_OK : cli_fail(settings, code, hf_last_error());
}

int cli_session_open(struct cli_client *session, const struct cli_settings *settings,
                     const char *owner_text)
{
    char *url;
    int code;

    if (settings->ttl_ms && settings->ttl_ms < TTL_MIN_MS) {
        cli_complain("--ttl %d ms is too short for a lease: give at least %d ms",
                     (int)settings->ttl_ms, TTL_MIN_MS);
        return CLI_USAGE;
    }
    url = cli_url_choose(settings);
    if (!url)
        return CLI_USAGE;
    code = opened(settings, open_store(session, settings, url, owner_text, false));
    free(url);
    return code;
}

int cli_session_look(struct cli_client *session, const struct cli_settings *settings)
{
    char *url = cli_url_choose(settings);
    int code;

    if (!url)
        return CLI_USAGE;
    code = open_store(session, settings, url, NULL, true);
    if (code == HF_UNREACHABLE && hf_last_error()->native == ENOENT &&
        strcmp(url, CLI_URL_DEFAULT) == 0)
        code = HF_OK;
    code = opened(settings, code);
    free(url);
    return code;
}

static void let_signals_end_us(const struct cli_client *session)
{
    static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        if (!sigismember(&session->original, ending[i]))
            sigaddset(&set, ending[i]);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void cli_session_end_by(const struct cli_client *session, int signal)
{
    if (signal != SIGHUP && signal != SIGINT && signal != SIGQUIT && signal != SIGTERM)
        return;
    let_signals_end_us(session);
    raise(signal);
}

void cli_session_close(struct cli_client *session)
{
    /* mutant: owner-is-told-twice-to-end */
    if (session->signal_fd >= 0 && (session->ended_by || session->silent_since_ms)) {
        /* A second request to end, or one while the store does not answer, ends holdfast at once:
         * what is left at the store ends with its lease. */
        int signal;

        while ((signal = cli_session_signal(session)) != 0)
            if (session->ended_by)
                cli_session_end_by(session, signal);
        let_signals_end_us(session);
    }
    hf_close(session->client);
    if (session->signal_fd >= 0)
        close(session->signal_fd);
    cli_messages_end();
}

int cli_session_signal(const struct cli_client *session)
{
    struct signalfd_siginfo info;

    if (read(session->signal_fd, &info, sizeof(info)) != sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}
