/* SPDX-License-Identifier: Apache-2.0 */
/* schema: prints, makes, removes and fills the tables of a database. gc: removes unused rows. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct action {
    const char *name, *done; /* what is said when it is done, after the number of rows; or NULL */
    hf_schema_action action; /* 0: print */
};

static const struct action actions[] = {
    { "print", NULL, 0 },
    { "create", NULL, HF_SCHEMA_CREATE },
    { "drop", NULL, HF_SCHEMA_DROP },
    { "migrate", "copied", HF_SCHEMA_MIGRATE },
};

/* Inside of quotes a quote stands twice; so does a backslash at MySQL. */
static void print_quoted(const char *text, size_t length, char quote)
{
    putchar(quote);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == quote || (text[i] == '\\' && quote == '\''))
            putchar(text[i]);
        putchar(text[i]);
    }
    putchar(quote);
}

/* An account of MySQL has a host: that behind the last '@', or any. */
static void print_user(hf_client *client, const char *user)
{
    const char *at = strrchr(user, '@');

    if (strncmp(hf_url(client), "postgres", 8) == 0) {
        print_quoted(user, strlen(user), '"');
        return;
    }
    print_quoted(user, at ? (size_t)(at - user) : strlen(user), '\'');
    putchar('@');
    print_quoted(at ? at + 1 : "%", strlen(at ? at + 1 : "%"), '\'');
}

static void print_grants(hf_client *client, const char *user)
{
    static const char place[] = " TO USER";
    const char *text = hf_grants(client), *next;

    while ((next = strstr(text, place)) != NULL) {
        printf("%.*s TO ", (int)(next - text), text);
        print_user(client, user);
        text = next + sizeof(place) - 1;
    }
    fputs(text, stdout);
}

static int print(struct cli_client *session)
{
    const struct cli_settings *settings = session->settings;
    const char *text = hf_schema(session->client);

    if (!text)
        return cli_fail(settings, HF_ENOTSUP, hf_last_error());
    fputs(text, stdout);
    if (settings->word_count > 1)
        print_grants(session->client, settings->words[1]);
    return CLI_OK;
}

static int change(struct cli_client *session, const struct action *action)
{
    const struct cli_settings *settings = session->settings;
    uint32_t count = 0;
    int code = hf_schema_change(session->client, action->action, &count);

    if (code != HF_OK)
        return cli_fail(settings, code, hf_last_error());
    if (action->done && settings->json)
        printf("{\"%s\":%" PRIu32 "}\n", action->done, count);
    else if (action->done && !settings->quiet)
        printf("%" PRIu32 " row%s %s\n", count, cli_plural(count), action->done);
    return CLI_OK;
}

bool cli_has_own_tables(hf_client *client)
{
    const char *statements = hf_schema(client);

    return !statements || strstr(statements, "hf_lock");
}

/* CLI_OK: go on. */
static int confirm(const struct cli_client *session)
{
    const struct cli_settings *settings = session->settings;
    char answer[16] = "";

    if (settings->yes)
        return CLI_OK;
    if (!isatty(STDIN_FILENO)) {
        cli_complain("drop asks before it removes the tables, and there is no terminal to ask on; "
                     "say -y if you are sure");
        return CLI_USAGE;
    }
    fputs(cli_has_own_tables(session->client)
              ? "Remove the tables, with all locks in them? [y/N] "
              : "Remove the layout's table, which other programs may use? [y/N] ",
          stderr);
    if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return CLI_OK;
    return CLI_FINDINGS;
}

static int act_on_schema(struct cli_settings *settings, const struct action *action)
{
    struct cli_client session;
    int code = cli_session_open(&session, settings, settings->owner_text);

    if (code != CLI_OK)
        return code;
    if (action->action == HF_SCHEMA_DROP)
        code = confirm(&session);
    if (code == CLI_OK)
        code = action->action ? change(&session, action) : print(&session);
    cli_session_close(&session);
    return code;
}

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

int cli_schema(struct cli_settings *settings)
{
    const struct action *action = settings->word_count > 0 ? find_action(settings->words[0]) : NULL;
    int most = action && !action->action ? 2 : 1;

    if (!action || settings->word_count > most)
        return cli_usage(settings, "schema",
                         "one of print [USER], create, drop, migrate is needed");
    if (settings->word_count > 1 && !*settings->words[1])
        return cli_usage(settings, "schema", "the user's name is empty");
    return act_on_schema(settings, action);
}

int cli_gc(struct cli_settings *settings)
{
    static const struct action clean = { "gc", "removed", HF_SCHEMA_CLEAN };

    if (settings->word_count != 0)
        return cli_usage(settings, "gc", "gc takes no words");
    return act_on_schema(settings, &clean);
}
