/* SPDX-License-Identifier: Apache-2.0 */
/* latch: sets, counts down, waits for zero. */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

static int await(struct cli_client *session, const char *name)
{
    const struct cli_settings *settings = session->settings;
    hf_lock_options options = HF_LOCK_OPTIONS(.mode = HF_LATCH);
    hf_error error;
    int code = cli_acquire(session, name, settings->try_only ? 0 : settings->wait_ms, &options,
                           NULL, &error);

    return code == HF_OK ? CLI_OK : cli_acquire_failed(session, name, code, &error);
}

static int act(struct cli_client *session, const char *name, const char *what, uint32_t number)
{
    const struct cli_settings *settings = session->settings;
    hf_error error;
    uint32_t left = 0;
    int code;

    if (strcmp(what, "wait") == 0)
        return await(session, name);
    if (strcmp(what, "get") != 0 && !cli_may_use_number(session, name, &error))
        return cli_fail(settings, HF_EKIND, &error);
    if (strcmp(what, "set") == 0) {
        code = hf_latch_set(session->client, name, number);
        if (code == HF_BUSY && !settings->quiet)
            cli_complain("latch '%s' is in use: it can be set again once it is at 0", name);
        if (code == HF_BUSY)
            return CLI_BUSY;
        return code == HF_OK ? CLI_OK : cli_fail(settings, code, hf_last_error());
    }
    code = strcmp(what, "down") == 0 ? hf_latch_down(session->client, name, number, &left)
                                     : hf_latch_get(session->client, name, &left);
    if (code != HF_OK)
        return cli_fail(settings, code, hf_last_error());
    if (!settings->json) {
        printf("%" PRIu32 "\n", left);
        return CLI_OK;
    }
    putchar('{');
    cli_json_name(stdout, name, strlen(name));
    printf(",\"left\":%" PRIu32 "}\n", left);
    return CLI_OK;
}

/* How many words after the name: "set N", "down [K]", "wait", "get". */
static bool well_formed(const struct cli_settings *settings)
{
    const char *what = settings->word_count >= 2 ? settings->words[1] : "";
    int more = settings->word_count - 2;

    if (strcmp(what, "set") == 0)
        return more == 1;
    if (strcmp(what, "down") == 0)
        return more <= 1;
    return more == 0 && (strcmp(what, "wait") == 0 || strcmp(what, "get") == 0);
}

int cli_latch(struct cli_settings *settings)
{
    struct cli_client session;
    int64_t number = 1;
    int code;

    if (!well_formed(settings))
        return cli_usage(settings, "latch",
                         "a name, and one of set N, down [K], wait, get are needed");
    if (settings->word_count == 3 && !cli_number_parse(settings->words[2], UINT32_MAX, &number))
        return cli_usage(settings, "latch", "the number must be a whole one from 0 to 4294967295");
    code = cli_session_open(&session, settings, settings->owner_text);
    if (code != CLI_OK)
        return code;
    code = act(&session, settings->words[0], settings->words[1], (uint32_t)number);
    cli_session_close(&session);
    return code;
}
