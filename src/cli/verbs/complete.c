/* SPDX-License-Identifier: Apache-2.0 */
/* complete: what a shell offers behind the words of an unfinished call. It knows no verb and no
 * option: it reads the tables of the command, and the texts of its help. */
#include "cli/show/show.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long a store may take to name its locks. */
#define PATIENCE_S 1

/* A word, if the unfinished one is its beginning; `text` says what it means, unless it is empty. */
static void offer(const struct cli_next *next, const char *word, const char *text, size_t length)
{
    const char *begun = next->word + next->kept;

    for (const char *byte = word; *byte; byte++)
        if (iscntrl((unsigned char)*byte))
            return;
    if (strncmp(begun, word, strlen(begun)) != 0)
        return;
    printf("%.*s%s", (int)next->kept, next->word, word);
    if (length > 0)
        printf("\t%.*s", (int)length, text);
    putchar('\n');
}

/* Where a help describes an option, blanks stand behind it and its argument. The description goes
 * up to the next column. */
static const char *find_meaning(const char *help, const char *name, size_t *length)
{
    size_t name_length = strlen(name);

    *length = 0;
    for (const char *at = help; (at = strstr(at, "--")) != NULL;) {
        at += 2;
        if (strncmp(at, name, name_length) != 0)
            continue;
        const char *text = at + name_length;
        if (text[0] == ' ' && isupper((unsigned char)text[1]))
            text += 1 + strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ=");
        if (strncmp(text, "  ", 2) != 0)
            continue;
        text += strspn(text, " #");
        const char *column = strstr(text, "  ");
        *length = strcspn(text, "\n");
        if (column && column < text + *length)
            *length = (size_t)(column - text);
        return text;
    }
    return "";
}

static void offer_options(const struct cli_next *next)
{
    for (size_t i = 0; i < next->option_count; i++) {
        char option[64];
        size_t length = 0;
        const char *meaning = "";
        snprintf(option, sizeof(option), "--%s", next->options[i]);
        if (next->verb)
            meaning = find_meaning(next->verb->help, next->options[i], &length);
        if (length == 0)
            meaning = find_meaning(cli_help_options, next->options[i], &length);
        offer(next, option, meaning, length);
    }
}

static void offer_urls(const struct cli_next *next)
{
    const char *url;

    for (size_t i = 0; (url = cli_url_beginning(i)) != NULL; i++)
        offer(next, url, "", 0);
}

/* No answer of a store is worth a shell that hangs: what there is by now has been written. */
static void end_at_once(int signal)
{
    (void)signal;
    _exit(CLI_OK);
}

static void offer_locks(const struct cli_next *next, struct cli_settings *call)
{
    struct cli_client session;
    struct cli_picture picture;
    char *shown = call->engine;

    /* As for all verbs, ps shows no password. */
    call->engine = shown ? strdup(shown) : NULL;
    if (shown && !call->engine)
        return;
    if (shown)
        cli_url_hide_password(shown);
    cli_flush();
    signal(SIGALRM, end_at_once);
    /* mutant: completion-waits-for-ever */
    alarm(PATIENCE_S);
    if (cli_session_look(&session, call) == CLI_OK) {
        (void)cli_picture_take(&picture, session.client, NULL);
        const char *last = "";
        for (size_t i = 0; i < picture.count; i++) {
            const char *name = picture.entries[i].name;
            if (name && strcmp(name, last) != 0 && !cli_picture_is_idle(&picture, i)) {
                offer(next, name, "", 0);
                last = name;
            }
        }
        cli_flush();
        cli_picture_release(&picture);
        cli_session_close(&session);
    }
    free(call->engine);
}

/* The first line of the verb's help says whether a NAME or a URL comes first, and which words may
 * follow: "holdfast sem NAME set M | get | rm". */
static void offer_words(const struct cli_next *next, struct cli_settings *call)
{
    const char *help = next->verb->help,
               *at = help + strlen("holdfast ") + strlen(next->verb->name);
    const char *end = help + strcspn(help, "\n"), *name = strstr(help, "NAME");
    const char *url = strstr(help, "[URL]");
    int first = name && name < end;

    if (call->word_count == 0 && first)
        offer_locks(next, call);
    else if (call->word_count == 0 && url && url < end)
        offer_urls(next);
    for (; call->word_count == first && at < end; at += strcspn(at, " \n")) {
        char word[32];
        at += strspn(at, " |");
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " \n"), at);
        if (islower((unsigned char)word[0]))
            offer(next, word, "", 0);
    }
}

static void offer_verbs(const struct cli_next *next, bool helped)
{
    for (const struct cli_verb *verb = cli_verbs; verb->summary; verb++)
        offer(next, verb->name, verb->summary, strlen(verb->summary));
    if (!helped)
        offer(next, "help", "say more of a verb", strlen("say more of a verb"));
}

static void offer_next(const struct cli_next *next, struct cli_settings *call)
{
    switch (next->kind) {
    case CLI_NEXT_COMMAND:
        printf("command %d\n", next->command);
        return;
    case CLI_NEXT_FILE:
        puts("files");
        return;
    case CLI_NEXT_NOTHING:
    case CLI_NEXT_WORD:
    case CLI_NEXT_OPTION:
    case CLI_NEXT_URL:
    case CLI_NEXT_LOCK:
    case CLI_NEXT_FORMAT:
        break;
    }
    puts("words");
    if (next->kind == CLI_NEXT_OPTION)
        offer_options(next);
    else if (next->kind == CLI_NEXT_URL)
        offer_urls(next);
    else if (next->kind == CLI_NEXT_LOCK)
        offer_locks(next, call);
    else if (next->kind == CLI_NEXT_FORMAT) {
        offer(next, "json", "", 0);
        offer(next, "text", "", 0);
    } else if (next->kind == CLI_NEXT_WORD && !next->verb)
        offer_verbs(next, call->help);
    else if (next->kind == CLI_NEXT_WORD && !call->help)
        offer_words(next, call);
}

int cli_complete(struct cli_settings *settings)
{
    struct cli_settings call = { .words =
                                     calloc((size_t)settings->word_count + 1, sizeof(char *)) };
    struct cli_next next;
    int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);

    /* A sentence about the call, or the store, would stand amid what the user types. */
    if (silent >= 0)
        dup2(silent, STDERR_FILENO);
    if (call.words && settings->word_count > 0 &&
        cli_options_next(&call, settings->word_count, settings->words, &next))
        offer_next(&next, &call);
    free(call.words);
    return CLI_OK;
}
