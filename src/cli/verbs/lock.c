/* SPDX-License-Identifier: Apache-2.0 */
/* lock, renew, unlock: locks with a fixed lease that live on without a process, for scripts. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio_ext.h>
#include <string.h>

#define LEASE_MS 30000

/* False: it has not arrived anywhere, and why is in errno. */
static bool print_lease(const struct cli_settings *settings, const char *name, const char *key,
                        uint64_t token, int64_t lease_ms)
{
    if (settings->json) {
        putchar('{');
        cli_json_name(stdout, name, strlen(name));
        printf(",\"owner\":\"%s\",\"token\":%" PRIu64 ",\"lease_ms\":%" PRId64 "}\n", key, token,
               lease_ms);
    } else {
        printf("%s\n", key);
        if (settings->verbose)
            cli_complain("'%s' is held under %s for %" PRId64 " ms, token %" PRIu64, name, key,
                         lease_ms, token);
    }
    return fflush(stdout) == 0 && !ferror(stdout);
}

/* Leaves the hold to itself and says how to find it again. CLI_INTERNAL: that could not be written;
 * `key` tells whose hold it is. */
static int leave(const struct cli_settings *settings, hf_hold *hold, const char *name,
                 char key[HF_OWNER_KEY_SIZE])
{
    uint64_t token = hf_token(hold);
    int64_t left = hf_remaining_ms(hold);
    int code = hf_detach(hold, key);

    if (code != HF_OK)
        return cli_fail(settings, code, hf_last_error());
    return print_lease(settings, name, key, token, left) ? CLI_OK : CLI_INTERNAL;
}

/* What is said about it here need not be said again at the end. */
static void give_up_output(void)
{
    __fpurge(stdout);
    clearerr(stdout);
}

/* The key was not read, so the lock could never be given back. */
static int take_back(struct cli_client *session, const char *name, const char *key)
{
    int error = errno;
    hf_hold *hold;
    bool back = hf_attach(session->client, name, key, &hold) == HF_OK && hf_unlock(hold) == HF_OK;

    give_up_output();
    cli_complain("the owner's key could not be written (%s), so '%s' %s", strerror(error), name,
                 back ? "has been released" : "stays locked until its lease ends");
    return CLI_INTERNAL;
}

/* Not everywhere does a lock live on without its process; no client need wait for it first. */
static int open_session(struct cli_client *session, const struct cli_settings *settings,
                        const char *verb, const char *owner_text)
{
    int code = cli_session_open(session, settings, owner_text);

    if (code != CLI_OK || hf_caps(session->client) & HF_CAP_DETACH)
        return code;
    cli_complain("'%s': locks of %s end with their process, so there is no '%s'; 'holdfast run' "
                 "keeps one while a command runs",
                 settings->words[0], hf_url(session->client), verb);
    cli_session_close(session);
    return CLI_USAGE;
}

static int acquire_and_leave(struct cli_client *session, const char *name, hf_lock_options *options)
{
    const struct cli_settings *settings = session->settings;
    char key[HF_OWNER_KEY_SIZE] = "";
    hf_hold *hold;
    hf_error error;
    int code;

    code = cli_acquire(session, name, settings->try_only ? 0 : settings->wait_ms, options, &hold,
                       &error);
    if (code != HF_OK)
        return cli_acquire_failed(session, name, code, &error);
    code = leave(settings, hold, name, key);
    return code == CLI_INTERNAL && key[0] ? take_back(session, name, key) : code;
}

int cli_lock(struct cli_settings *settings)
{
    struct cli_client session;
    hf_lock_options options;
    int code;

    if (settings->word_count != 1)
        return cli_usage(settings, "lock", "lock takes one name");
    if (!cli_lock_options(settings, &options))
        return CLI_USAGE;
    options.lease_ms = settings->ttl_ms ? settings->ttl_ms : LEASE_MS;
    code = open_session(&session, settings, "lock", settings->owner_text);
    if (code != CLI_OK)
        return code;
    signal(SIGPIPE, SIG_IGN); /* so that a reader that is gone makes a failed write */
    code = acquire_and_leave(&session, settings->words[0], &options);
    cli_session_close(&session);
    return code;
}

/* What the lock protects goes on, so the lock stays; but its key may be another one by now. */
static int say_key(const char *name, const char *key)
{
    int error = errno;

    give_up_output();
    cli_complain("the owner's key could not be written (%s), but '%s' has its new lease; the key "
                 "is %s",
                 strerror(error), name, key);
    return CLI_INTERNAL;
}

static int renew_and_leave(const struct cli_settings *settings, hf_hold *hold, const char *name)
{
    char key[HF_OWNER_KEY_SIZE] = "";
    int code = hf_renew(hold, settings->ttl_ms ? settings->ttl_ms : LEASE_MS);

    if (code == HF_OK) {
        code = leave(settings, hold, name, key);
        return code == CLI_INTERNAL && key[0] ? say_key(name, key) : code;
    }
    code = cli_fail(settings, code, hf_last_error());
    hf_unlock_nowait(hold);
    return code;
}

static int unlock_attached(const struct cli_settings *settings, hf_hold *hold)
{
    int code = hf_unlock(hold);

    return code == HF_OK ? CLI_OK : cli_fail(settings, code, hf_last_error());
}

static int with_attached(struct cli_settings *settings, const char *verb)
{
    struct cli_client session;
    hf_hold *hold;
    int code;

    if (settings->word_count != 2)
        return cli_usage(settings, verb, "the name and the owner that lock printed are needed");
    if (!settings->words[1][0] || strlen(settings->words[1]) >= HF_OWNER_KEY_SIZE)
        return cli_usage(settings, verb, "the owner must be the key that lock printed");
    code = open_session(&session, settings, verb, NULL);
    if (code != CLI_OK)
        return code;
    code = hf_attach(session.client, settings->words[0], settings->words[1], &hold);
    if (code != HF_OK)
        code = cli_fail(settings, code, hf_last_error());
    else if (strcmp(verb, "renew") == 0)
        code = renew_and_leave(settings, hold, settings->words[0]);
    else
        code = unlock_attached(settings, hold);
    cli_session_close(&session);
    return code;
}

int cli_renew(struct cli_settings *settings)
{
    signal(SIGPIPE, SIG_IGN); /* as for lock */
    return with_attached(settings, "renew");
}

int cli_unlock(struct cli_settings *settings)
{
    return with_attached(settings, "unlock");
}
