/* Waiting for a lock so that signals end the wait, and nothing is left in the queue. */
#include "cli.h"

#include <poll.h>
#include <string.h>

/* How long a cancelled request may take to say so before we leave all the same; hf_close then ends
 * it. */
#define CANCEL_MS 2000
/* How long the store may be silent until who waits is told that this is what he waits for. */
#define SILENCE_MS 2000

struct wait {
    struct cli_session *session;
    bool done;
    int code;
    hf_hold *hold;
    hf_error *error;
    hf_request request;
    int64_t give_up_at_ms; /* 0: not cancelled */
};

static void answered(void *arg, int code, hf_hold *hold, const hf_error *error)
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

static void heed_signals(struct wait *wait)
{
    int signal;

    while ((signal = cli_session_signal(wait->session)) != 0) {
        if (signal == SIGTSTP)
            raise(SIGSTOP);
        if (!ends_a_wait(signal) || wait->session->ended_by)
            continue;
        wait->session->ended_by = signal;
        cancel(wait);
    }
}

/* With --verbose the events have said it. */
static bool keeps_silence_to_himself(const struct cli_session *session)
{
    return session->settings->quiet || session->settings->verbose;
}

static void tell_of_silence(struct cli_session *session)
{
    bool silent = session->silent_since_ms != 0;

    if (keeps_silence_to_himself(session) || silent == session->told_of_silence ||
        (silent && cli_now_ms() < session->silent_since_ms + SILENCE_MS))
        return;
    session->told_of_silence = silent;
    if (silent)
        cli_complain("still waiting for %s: %s", hf_url(session->client), session->silence);
    else
        cli_complain("the store answers again");
}

/* -1: nothing is due before something comes. */
static int poll_ms(const struct wait *wait)
{
    const struct cli_session *session = wait->session;

    if (wait->give_up_at_ms)
        return cli_poll_ms(wait->give_up_at_ms);
    if (session->silent_since_ms && !session->told_of_silence && !keeps_silence_to_himself(session))
        return cli_poll_ms(session->silent_since_ms + SILENCE_MS);
    return -1;
}

static void wait_until_done(struct wait *wait)
{
    struct cli_session *session = wait->session;
    struct pollfd polled[] = { { hf_fd(session->client), POLLIN, 0 },
                               { session->signal_fd, POLLIN, 0 } };

    for (hf_dispatch(session->client); !wait->done; hf_dispatch(session->client)) {
        if (wait->give_up_at_ms && cli_now_ms() >= wait->give_up_at_ms)
            return;
        if (!wait->give_up_at_ms && session->lost && *session->lost)
            cancel(wait);
        tell_of_silence(session);
        poll(polled, 2, poll_ms(wait));
        heed_signals(wait);
    }
    if (wait->code == HF_OK)
        tell_of_silence(session);
}

/* An answer that we no longer wait for has nowhere to go: closing the client ends the request, with
 * our callback, so it must happen while `wait` lives. */
static void abandon(struct wait *wait)
{
    cli_complain(
        "the store did not confirm in time that the request is withdrawn; what is left of it "
        "goes with the session");
    hf_close(wait->session->client);
    wait->session->client = NULL;
    wait->code = HF_CANCELED;
}

int cli_acquire(struct cli_session *session, const char *name, int64_t wait_ms,
                const hf_lock_options *options, hf_hold **ret, hf_error *error)
{
    struct wait wait = { .session = session, .error = error };
    int code;

    memset(error, 0, sizeof(*error));
    if (ret)
        *ret = NULL;
    if (!cli_session_watch(session))
        return HF_EINTERNAL;
    code = hf_lock_async(session->client, name, wait_ms, options, answered, &wait, &wait.request);
    if (code != HF_OK) {
        *error = *hf_last_error();
        return code;
    }
    wait_until_done(&wait);
    if (!wait.done)
        abandon(&wait);
    if (wait.code == HF_OK && session->ended_by) {
        hf_unlock(wait.hold);
        return HF_CANCELED;
    }
    if (ret)
        *ret = wait.hold;
    return wait.code;
}

struct holder {
    char text[160];
    int64_t since_ms;
};

static bool find_holder(void *arg, const hf_entry *entry)
{
    struct holder *holder = arg;

    if (entry->role != HF_ROLE_HOLDER)
        return true;
    snprintf(holder->text, sizeof(holder->text), "%s", entry->owner_text);
    holder->since_ms = entry->since_ms;
    return false;
}

/* Whoever is kept waiting wants to know by whom. False: nobody is to be seen any more. */
static bool blame_holder(const struct cli_session *session, const char *name)
{
    struct holder holder = { "", 0 };
    char age[40];

    if (hf_inspect(session->client, name, find_holder, &holder) != HF_OK || !holder.text[0])
        return false;
    cli_age_format(age, sizeof(age), holder.since_ms);
    cli_complain("'%s' is held by %s%s%s", name, holder.text, age, *age ? " now" : "");
    return true;
}

static bool find_object(void *arg, const hf_entry *entry)
{
    if (entry->role != HF_ROLE_OBJECT)
        return true;
    *(hf_entry *)arg = *entry;
    return false;
}

/* The library speaks of calls; here is what to type. False: it knows better than we. */
static bool explain_object(const struct cli_session *session, const char *name, int code)
{
    const struct cli_settings *settings = session->settings;
    const char *typed = cli_typed_name(name);
    hf_entry object = { .kind = HF_KIND_FREE };
    bool exists;

    if (hf_inspect(session->client, name, find_object, &object) != HF_OK)
        return false;
    exists = object.kind == HF_KIND_SEMAPHORE && object.total > 0;
    if (!exists && (object.kind == HF_KIND_SEMAPHORE || object.kind == HF_KIND_FREE) &&
        settings->take && !settings->slots)
        cli_complain("there is no semaphore '%s'; create it with `holdfast sem %s set M`, or say "
                     "-j M as well",
                     name, typed);
    else if (exists && settings->slots && (uint32_t)settings->slots != object.total)
        cli_complain("semaphore '%s' has %u permit%s, not %u; resize it with `holdfast sem %s set "
                     "%u`, or remove it with `holdfast sem %s rm`",
                     name, (unsigned)object.total, cli_plural(object.total),
                     (unsigned)settings->slots, typed, (unsigned)settings->slots, typed);
    else if (exists && !settings->slots && !settings->take)
        cli_complain("'%s' is a semaphore of %u permit%s; take some with run -k, choose another "
                     "name, or remove it with `holdfast sem %s rm`",
                     name, (unsigned)object.total, cli_plural(object.total), typed);
    else if (code == HF_EKIND && (object.kind == HF_KIND_COUNTER || object.kind == HF_KIND_LATCH))
        cli_complain("'%s' is in use as a %s; use it as that, or choose another name", name,
                     object.kind == HF_KIND_COUNTER ? "counter" : "latch");
    else
        return false;
    return true;
}

/* What is asked for is a number that is not there, rather than somebody's. */
static bool explain_number(const struct cli_session *session, const char *name)
{
    hf_entry object = { .kind = HF_KIND_FREE };

    if (hf_inspect(session->client, name, find_object, &object) != HF_OK)
        return false;
    if (object.kind == HF_KIND_COUNTER)
        cli_complain("counter '%s' is at %u, and that is not enough", name, (unsigned)object.value);
    else if (object.kind == HF_KIND_LATCH)
        cli_complain("latch '%s' is at %u, and opens at 0", name, (unsigned)object.value);
    else
        return false;
    return true;
}

int cli_acquire_failed(const struct cli_session *session, const char *name, int code,
                       const hf_error *error)
{
    bool waits = !session->settings->try_only && session->settings->wait_ms != 0;

    if (session->ended_by)
        return CLI_SIGNAL + session->ended_by;
    /* Who does not answer one question is not asked the next. */
    if (code == HF_BUSY && !session->settings->quiet && !blame_holder(session, name) &&
        (session->silent_since_ms || !explain_number(session, name)))
        cli_complain("'%s' was not to be had%s", name, waits ? " in time" : "");
    if (code == HF_BUSY)
        return CLI_BUSY;
    if ((code == HF_EINVAL || code == HF_EKIND) && explain_object(session, name, code))
        return cli_exit_code(code);
    return cli_fail(session->settings, code, error);
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
                                                        : HF_MUTEX,
                        .permits = (uint32_t)settings->take, .limit = (uint32_t)settings->slots,
                        .lease_ms = settings->max_hold_ms, .owner_text = settings->owner_text);
    if (modes <= 1)
        return true;
    cli_complain("a lock is of one kind: choose one of -s, -U, -W, -F, and -j with -k");
    return false;
}
