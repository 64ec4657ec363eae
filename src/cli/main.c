/* SPDX-License-Identifier: Apache-2.0 */
/* The command, and each program beside it: finds the verb and runs it. */
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* What was printed must have arrived: a full disk or a closed pipe is not success. What doctor
 * finds is nothing to a user that cannot read it; the verdicts of torture and the answers of break
 * are the number itself. */
static int flushed(const struct cli_verb *verb, int code)
{
    bool is_told = code != CLI_OK && !(verb && verb->bit == CLI_DOCTOR && code == CLI_FINDINGS);
    int error = cli_flush();

    if (error == 0 && !ferror(stdout))
        return code;
    cli_tell(CLI_ERROR, CLI_INTERNAL, "the output could not be written%s%s", error ? ": " : "",
             error ? strerror(error) : "");
    return is_told ? code : CLI_INTERNAL;
}

static int dispatch(struct cli_settings *settings, const struct cli_verb *verb)
{
    if (settings->version) {
        char *engines = settings->verbose ? hf_engines() : NULL;
        printf("holdfast %s\n%s", hf_version(), engines ? engines : "");
        free(engines);
        return CLI_OK;
    }
    if (settings->help && verb) {
        fputs(verb->help, stdout);
        return CLI_OK;
    }
    if (!verb) {
        cli_help_print(settings->help ? stdout : stderr);
        return settings->help ? CLI_OK : CLI_USAGE;
    }
    return verb->run(settings);
}

/* ps shows argv: keep the URL to ourselves, and leave it there without its password. */
static bool take_url(struct cli_settings *settings)
{
    char *shown = settings->engine;

    if (!shown)
        return true;
    settings->engine = strdup(shown);
    cli_url_hide_password(shown);
    return settings->engine != NULL;
}

static int act(struct cli_settings *settings, int argc, char **argv)
{
    const struct cli_verb *verb = NULL;
    int code = cli_options_parse(settings, argc, argv, &verb);

    if (code != CLI_OK)
        return code;
    if (verb && verb->is_program && !settings->help && !settings->version)
        return cli_program_run(verb->name, argv);
    if (!take_url(settings))
        return CLI_INTERNAL;
    code = flushed(verb, dispatch(settings, verb));
    free(settings->engine);
    return code;
}

/* A file of the store's that got the number of a closed standard output would be printed into. What
 * is closed stays of no use: reading and writing fail as before. */
static bool reserve_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    struct cli_settings settings = {
        .wait_ms = HF_FOREVER,
        .busy_exit = CLI_BUSY,
        .grace_ms = -1,
        .token = -1,
        .watch_ms = 1000,
        .interval_ms = 1000,
        .top = 1000,
        .seed = -1,
    };
    int code = CLI_INTERNAL;

    if (!reserve_standard_descriptors())
        return CLI_INTERNAL;
    settings.words = calloc((size_t)argc + 1, sizeof(*settings.words));
    if (settings.words)
        code = act(&settings, argc, argv);
    free(settings.words);
    return code;
}
