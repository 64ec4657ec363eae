/* SPDX-License-Identifier: Apache-2.0 */
/* Why a lock was not granted, in words: its holder, or how much of it is free. */
#include "cli.h"

#include <string.h>
#include <unistd.h>

struct picture {
    hf_entry object;
    char owner[160]; /* of the first holder; "": none is shown */
    int64_t since_ms;
    unsigned holders;
};

static bool busy_look_at(void *arg, const hf_entry *entry)
{
    struct picture *picture = arg;

    if (entry->role == HF_ROLE_OBJECT)
        picture->object = *entry;
    if (entry->role != HF_ROLE_HOLDER)
        return true;
    if (picture->holders++ == 0) {
        const char *owner = entry->owner_text[0] ? entry->owner_text : entry->owner_key;
        snprintf(picture->owner, sizeof(picture->owner), "%s", owner ? owner : "");
        picture->since_ms = entry->since_ms;
    }
    return true;
}

static void name_holders(const struct picture *picture, const char *name,
                         char clause[CLI_CLAUSE_SIZE])
{
    char age[40], others[40] = "";

    cli_age_format(age, sizeof(age), picture->since_ms);
    if (picture->holders > 1)
        snprintf(others, sizeof(others), ", and %u other%s", picture->holders - 1,
                 cli_plural(picture->holders - 1));
    snprintf(clause, CLI_CLAUSE_SIZE, "'%s' is held by %s%s%s%s", name, picture->owner, age,
             *age ? " now" : "", others);
}

bool cli_busy_clause(const struct cli_client *session, const char *name,
                     char clause[CLI_CLAUSE_SIZE])
{
    struct picture picture = { .object = { .kind = HF_KIND_FREE } };
    unsigned wanted = session->settings->take ? (unsigned)session->settings->take : 1;

    if (session->silent_since_ms ||
        hf_inspect(session->client, name, busy_look_at, &picture) != HF_OK)
        return false;
    if (picture.object.kind == HF_KIND_SEMAPHORE)
        snprintf(clause, CLI_CLAUSE_SIZE,
                 "semaphore '%s' has %u free permit%s of %u, and %u %s asked for", name,
                 (unsigned)picture.object.value, cli_plural(picture.object.value),
                 (unsigned)picture.object.total, wanted, wanted == 1 ? "is" : "are");
    else if (picture.object.kind == HF_KIND_COUNTER)
        snprintf(clause, CLI_CLAUSE_SIZE, "counter '%s' is at %u, and that is not enough", name,
                 (unsigned)picture.object.value);
    else if (picture.object.kind == HF_KIND_LATCH)
        snprintf(clause, CLI_CLAUSE_SIZE, "latch '%s' is at %u, and opens at 0", name,
                 (unsigned)picture.object.value);
    else if (picture.owner[0])
        name_holders(&picture, name, clause);
    else
        return false;
    return true;
}

/* The answer stays HF_BUSY, whatever becomes of the look. */
static void explain_busy(const struct cli_client *session, const char *name)
{
    bool waits = !session->settings->try_only && session->settings->wait_ms != 0;
    enum cli_level level = session->settings->skip ? CLI_INFO : CLI_WARNING;
    char clause[CLI_CLAUSE_SIZE];

    if (cli_busy_clause(session, name, clause))
        cli_tell(level, CLI_BUSY, "%s; `%s show %s` shows more", clause,
                 cli_typed_call(session->settings), cli_typed_name(name));
    else
        cli_tell(level, CLI_BUSY, "'%s' was busy%s", name,
                 waits ? " and was not granted in time" : "");
}

static bool find_object(void *arg, const hf_entry *entry)
{
    if (entry->role != HF_ROLE_OBJECT)
        return true;
    *(hf_entry *)arg = *entry;
    return false;
}

/* The library speaks of calls; here is what to type. False: it knows better than we. */
static bool explain_object(const struct cli_client *session, const char *name, int code)
{
    const struct cli_settings *settings = session->settings;
    const char *typed = cli_typed_name(name), *call = cli_typed_call(settings);
    hf_entry object = { .kind = HF_KIND_FREE };
    bool exists;

    if (hf_inspect(session->client, name, find_object, &object) != HF_OK || object.unmarked)
        return false;
    exists = object.kind == HF_KIND_SEMAPHORE && object.total > 0;
    if (!exists && (object.kind == HF_KIND_SEMAPHORE || object.kind == HF_KIND_FREE) &&
        settings->take && !settings->slots)
        cli_complain("there is no semaphore '%s'; create it with `%s sem %s set M`, or say -j M "
                     "as well",
                     name, call, typed);
    else if (exists && settings->slots && (uint32_t)settings->slots != object.total)
        cli_complain(
            "semaphore '%s' has %u permit%s, not %u; resize it with `%s sem %s set %u`, or "
            "remove it with rm in place of set",
            name, (unsigned)object.total, cli_plural(object.total), (unsigned)settings->slots, call,
            typed, (unsigned)settings->slots);
    else if (exists && !settings->slots && !settings->take)
        cli_complain("'%s' is a semaphore of %u permit%s; take some with run -k, choose another "
                     "name, or remove it with `%s sem %s rm`",
                     name, (unsigned)object.total, cli_plural(object.total), call, typed);
    else if (code == HF_EKIND && (object.kind == HF_KIND_COUNTER || object.kind == HF_KIND_LATCH))
        cli_complain("'%s' is in use as a %s; use it as that, or choose another name", name,
                     object.kind == HF_KIND_COUNTER ? "counter" : "latch");
    else
        return false;
    return true;
}

int cli_acquire_failed(const struct cli_client *session, const char *name, int code,
                       const hf_error *error)
{
    const struct cli_settings *settings = session->settings;
    /* cron mails whatever is said, and a run that is skipped is no news. */
    bool quiet = settings->quiet ||
                 (settings->skip && !settings->verbose && !cli_log.json && !isatty(STDERR_FILENO));

    if (session->ended_by)
        return CLI_SIGNAL + session->ended_by;
    if (code == HF_BUSY && !quiet)
        explain_busy(session, name);
    if (code == HF_BUSY)
        return CLI_BUSY;
    if ((code == HF_EINVAL || code == HF_EKIND) && explain_object(session, name, code))
        return cli_exit_code(code);
    return cli_fail(session->settings, code, error);
}
