/* SPDX-License-Identifier: Apache-2.0 */
/* rate: takes permits from a rate limiter. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "N/DUR" */
static bool parse_rate(hf_rate *rate, const char *text)
{
    const char *slash = strchr(text, '/');
    char number[24];
    int64_t permits;

    if (!slash || slash == text || (size_t)(slash - text) >= sizeof(number))
        return false;
    memcpy(number, text, (size_t)(slash - text));
    number[slash - text] = '\0';
    if (!cli_number_parse(number, UINT32_MAX, &permits) || permits == 0 ||
        !cli_duration_parse(slash + 1, &rate->period_ms) || rate->period_ms == 0)
        return false;
    rate->permits = (uint32_t)permits;
    return true;
}

static int tell_busy(const struct cli_settings *settings, const char *name, int64_t retry_ms)
{
    char duration[32];

    cli_duration_format(duration, sizeof(duration),
                        retry_ms < 1000 ? retry_ms : (retry_ms + 999) / 1000 * 1000);
    if (settings->json) {
        putchar('{');
        cli_json_name(stdout, name, strlen(name));
        printf(",\"retry_ms\":%" PRId64 "}\n", retry_ms);
    }
    if (!settings->quiet)
        cli_complain("the rate of '%s' is used up; ask again in %s, or wait for longer with -w",
                     name, duration);
    return CLI_BUSY;
}

int cli_rate(struct cli_settings *settings)
{
    struct cli_client session;
    hf_rate rate = HF_RATE(.burst = (uint32_t)settings->burst);
    uint32_t permits = settings->take ? (uint32_t)settings->take : 1;
    int64_t retry_ms;

    if (settings->word_count != 2)
        return cli_usage(settings, "rate", "a name, and a rate such as 100/1m are needed");
    if (!parse_rate(&rate, settings->words[1]))
        return cli_usage(settings, "rate",
                         "the rate must be a number from 1, a slash and a duration: 5/1s, 100/1m");
    int code = cli_session_open(&session, settings, settings->owner_text);
    if (code != CLI_OK)
        return code;
    code = hf_rate_take(session.client, settings->words[0], &rate, permits,
                        settings->try_only ? 0 : settings->wait_ms, &retry_ms);
    if (code == HF_BUSY)
        code = tell_busy(settings, settings->words[0], retry_ms);
    else
        code = code == HF_OK ? CLI_OK : cli_fail(settings, code, hf_last_error());
    cli_session_close(&session);
    return code;
}
