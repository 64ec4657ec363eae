/* SPDX-License-Identifier: Apache-2.0 */
/* break: takes a lock away from its holder. The holder hears of it, and its token is out of date
 * with the next grant. */
#include "cli/show/show.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static unsigned count_holders(const struct cli_picture *picture)
{
    unsigned count = 0;

    for (size_t i = 0; i < picture->count; i++)
        count += picture->entries[i].entry.role == HF_ROLE_HOLDER;
    return count;
}

static int report(const struct cli_settings *settings, const char *name, uint32_t count)
{
    if (settings->json)
        printf("{\"broken\":%" PRIu32 "}\n", count);
    else if (!settings->quiet && count == 0)
        cli_complain("'%s' is not held, so there is nothing to break; holdfast show lists what "
                     "is held",
                     name);
    else if (!settings->quiet)
        cli_complain("'%s' was taken away from %" PRIu32 " holder%s", name, count,
                     cli_plural(count));
    return count == 0 ? CLI_FINDINGS : CLI_OK;
}

/* It is held, but not by the holder that is meant. */
static int report_another(const struct cli_settings *settings, const char *name)
{
    if (settings->quiet)
        return CLI_BUSY;
    if (settings->owner_text)
        cli_complain("'%s' is held, but not under the key '%s'; see holdfast show --json", name,
                     settings->owner_text);
    else
        cli_complain("'%s' is held, but not with token %" PRId64 "; see holdfast show", name,
                     settings->token);
    return CLI_BUSY;
}

/* At etcd a token is known to its owner alone. */
static int report_hidden(const char *name)
{
    cli_complain("the store does not show which token the holder of '%s' has; name it with --owner "
                 "and the key that holdfast show --json shows",
                 name);
    return CLI_USAGE;
}

/* The key of the holder that --owner or --token means; NULL with *ret CLI_OK: all of them. */
static const char *choose_key(const struct cli_settings *settings,
                              const struct cli_picture *picture, const char *name, int *ret)
{
    *ret = CLI_OK;
    if (settings->owner_text)
        return settings->owner_text;
    if (settings->token < 0)
        return NULL;
    bool hidden = false;
    for (size_t i = 0; i < picture->count; i++) {
        const hf_entry *entry = &picture->entries[i].entry;
        bool holds = entry->role == HF_ROLE_HOLDER;
        if (holds && entry->token == (uint64_t)settings->token)
            return entry->owner_key;
        hidden |= holds && entry->token == 0;
    }
    if (hidden)
        *ret = report_hidden(name);
    else
        *ret =
            count_holders(picture) > 0 ? report_another(settings, name) : report(settings, name, 0);
    return NULL;
}

static void list_holders(const struct cli_picture *picture, const char *key)
{
    for (size_t i = 0; i < picture->count; i++) {
        const hf_entry *entry = &picture->entries[i].entry;
        char age[40];
        if (entry->role != HF_ROLE_HOLDER || (key && strcmp(key, entry->owner_key) != 0))
            continue;
        cli_age_format(age, sizeof(age), entry->since_ms);
        if (entry->pid)
            cli_say(stderr, "\n", "  %s%s, on %s, pid %" PRId64, entry->owner_text, age,
                    entry->host, entry->pid);
        else
            cli_say(stderr, "\n", "  %s%s", entry->owner_text, age);
    }
}

/* CLI_OK: go on. `picture` NULL: its holder is not known. */
static int confirm(const struct cli_settings *settings, const struct cli_picture *picture,
                   const char *name, const char *key)
{
    char answer[16] = "";

    if (settings->yes)
        return CLI_OK;
    if (!isatty(STDIN_FILENO)) {
        cli_complain(
            "break asks before it takes '%s' away, and there is no terminal to ask on; say -y "
            "if you are sure",
            name);
        return CLI_USAGE;
    }
    if (picture) {
        cli_say(stderr, "\n", "'%s' is held by", name);
        list_holders(picture, key);
    } else {
        cli_say(stderr, "\n", "The engine does not show the holders of '%s'.", name);
    }
    fputs("Take it away? [y/N] ", stderr);
    if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return CLI_OK;
    return CLI_FINDINGS;
}

static int do_break(struct cli_client *session, const char *name, const char *key)
{
    const struct cli_settings *settings = session->settings;
    uint32_t count = 0;
    int code = session->client ? hf_break(session->client, name, key, &count) : HF_OK;

    if (code == HF_BUSY && key)
        return report_another(settings, name);
    if (code != HF_OK)
        return cli_fail(settings, code, hf_last_error());
    return report(settings, name, count);
}

static int look_and_break(struct cli_client *session, const char *name)
{
    const struct cli_settings *settings = session->settings;
    struct cli_picture picture;
    const char *key;
    int code = cli_picture_take(&picture, session->client, name), result;

    if (code != HF_OK) {
        result = cli_fail(settings, code, hf_last_error());
    } else {
        key = choose_key(settings, &picture, name, &result);
        if (result == CLI_OK && count_holders(&picture) > 0)
            result = confirm(settings, &picture, name, key);
        if (result == CLI_OK)
            result = do_break(session, name, key);
    }
    cli_picture_release(&picture);
    return result;
}

/* Where the store does not show the holder: any holder. */
static int break_blindly(struct cli_client *session, const char *name)
{
    const struct cli_settings *settings = session->settings;
    int result;

    if (settings->token >= 0) {
        cli_complain("this engine does not show which tokens are held, so --token cannot choose a "
                     "holder of '%s'; without it all are meant",
                     name);
        return CLI_USAGE;
    }
    result = confirm(settings, NULL, name, settings->owner_text);
    return result == CLI_OK ? do_break(session, name, settings->owner_text) : result;
}

int cli_break(struct cli_settings *settings)
{
    struct cli_client session;
    int code;

    if (settings->word_count != 1)
        return cli_usage(settings, "break", "break takes one name");
    if (settings->owner_text && settings->token >= 0)
        return cli_usage(settings, "break", "--owner and --token exclude each other");
    code = cli_session_look(&session, settings);
    if (code != CLI_OK)
        return code;
    if (session.client && !(hf_caps(session.client) & HF_CAP_INSPECT))
        code = break_blindly(&session, settings->words[0]);
    else
        code = look_and_break(&session, settings->words[0]);
    cli_session_close(&session);
    return code;
}
