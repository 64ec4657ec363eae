/* SPDX-License-Identifier: Apache-2.0 */
/* Options: one table, one parser. They may stand before and after the verb; "--" ends them, and so
 * does the first word of a command to run. */
#include "cli.h"

#include <stddef.h>
#include <string.h>

enum option_type {
    FLAG,
    TEXT,
    URL, /* TEXT, as are files */
    PATH,
    NAME,            /* TEXT, several times */
    LOCK,            /* NAME, of a lock */
    DURATION,        /* 0 is fine */
    LENGTH,          /* a duration that must not be 0 */
    OPTIONAL_LENGTH, /* only written with '=' */
    OPTIONAL_TEXT,   /* the same; "" without a value */
    NUMBER,
    COUNT, /* a number that must not be 0 */
    FORMAT,
};

struct option {
    char letter; /* or 0 */
    const char *name;
    enum option_type type;
    size_t offset;
    unsigned verbs;
    int64_t max; /* of numbers */
};

#define RUNS (CLI_RUN | CLI_TRY)
#define COMMANDS (RUNS | CLI_ELECT)
#define ACQUIRES (COMMANDS | CLI_LOCK)
#define ADOPTS (ACQUIRES | CLI_SEM | CLI_COUNTER | CLI_LATCH)
#define WAITS (CLI_RUN | CLI_LOCK | CLI_COUNTER | CLI_LATCH | CLI_RATE)
#define AT(field) offsetof(struct cli_settings, field)

/* clang-format off */
static const struct option options[] = {
    { 'e', "engine",      URL,      AT(engine),        CLI_ANY, 0 },
    { 0,   "url-file",    PATH,     AT(url_file),      CLI_ANY, 0 },
    { 'N', "namespace",   TEXT,     AT(space),         CLI_ANY, 0 },
    { 'q', "quiet",       FLAG,     AT(quiet),         CLI_ANY, 0 },
    { 'v', "verbose",     FLAG,     AT(verbose),       CLI_ANY, 0 },
    { 0,   "json",        FLAG,     AT(json),          CLI_ANY, 0 },
    { 'h', "help",        FLAG,     AT(help),          CLI_ANY, 0 },
    { 'V', "version",     FLAG,     AT(version),       CLI_ANY, 0 },
    { 'n', "try",         FLAG,     AT(try_only),      WAITS | CLI_TRY, 0 },
    { 'w', "wait",        DURATION, AT(wait_ms),       WAITS, 0 },
    { 't', "ttl",         LENGTH,   AT(ttl_ms),        ACQUIRES | CLI_RENEW, 0 },
    { 's', "shared",      FLAG,     AT(shared),        ACQUIRES, 0 },
    { 'U', "upgradeable", FLAG,     AT(upgradeable),   ACQUIRES, 0 },
    { 'W', "exclusive",   FLAG,     AT(exclusive),     ACQUIRES, 0 },
    { 'F', "fair",        FLAG,     AT(fair),          ACQUIRES, 0 },
    { 'j', "slots",       COUNT,    AT(slots),         ACQUIRES, UINT32_MAX },
    { 'k', "take",        COUNT,    AT(take),          ACQUIRES | CLI_RATE, UINT32_MAX },
    { 0,   "burst",       COUNT,    AT(burst),         CLI_RATE, UINT32_MAX },
    { 0,   "adopt",       FLAG,     AT(adopt),         ADOPTS, 0 },
    { 'l', "lock",        LOCK,     0,                 COMMANDS, 0 },
    { 0,   "owner",       TEXT,     AT(owner_text),    ACQUIRES | CLI_BREAK, 0 },
    { 0,   "text",        TEXT,     AT(owner_text),    CLI_ELECT, 0 },
    { 0,   "observe",     FLAG,     AT(observe),       CLI_ELECT, 0 },
    { 'c', "command",     TEXT,     AT(shell_command), COMMANDS, 0 },
    { 'E', "busy-exit",   NUMBER,   AT(busy_exit),     RUNS, 255 },
    { 0,   "skip",        FLAG,     AT(skip),          RUNS, 0 },
    { 0,   "metrics",     PATH,     AT(metrics),       RUNS, 0 },
    { 0,   "report",      PATH,     AT(report),        RUNS, 0 },
    { 0,   "log",         FORMAT,   0,                 COMMANDS, 0 },
    { 0,   "on-lost",     TEXT,     AT(on_lost),       COMMANDS, 0 },
    { 0,   "grace",       DURATION, AT(grace_ms),      COMMANDS, 0 },
    { 0,   "max-run",     LENGTH,   AT(max_run_ms),    COMMANDS, 0 },
    { 0,   "max-hold",    LENGTH,   AT(max_hold_ms),   COMMANDS, 0 },
    { 0,   "min-hold",    DURATION, AT(min_hold_ms),   COMMANDS, 0 },
    { 0,   "token",       NUMBER,   AT(token),         CLI_BREAK, INT64_MAX },
    { 'y', "yes",         FLAG,     AT(yes),           CLI_BREAK | CLI_SCHEMA | CLI_TORTURE, 0 },
    { 0,   "watch",       OPTIONAL_LENGTH, AT(watch_ms), CLI_SHOW, 0 },
    { 0,   "every",       LENGTH,   AT(watch_ms),      CLI_TOP, 0 },
    { 0,   "once",        FLAG,     AT(once),          CLI_TOP, 0 },
    { 0,   "sort",        TEXT,     AT(sort),          CLI_TOP, 0 },
    { 0,   "graph",       OPTIONAL_TEXT, AT(graph),    CLI_SHOW, 0 },
    { 0,   "ignore",      NAME,     0,                 CLI_DOCTOR, 0 },
    { 0,   "fix",         FLAG,     AT(fix),           CLI_DOCTOR, 0 },
    { 0,   "quick",       FLAG,     AT(quick),         CLI_BENCH, 0 },
    { 0,   "listen",      TEXT,     AT(listen),        CLI_EXPORTER, 0 },
    { 0,   "names",       TEXT,     AT(name_pattern),  CLI_EXPORTER, 0 },
    { 0,   "top",         COUNT,    AT(top),           CLI_EXPORTER, 1000000 },
    { 0,   "interval",    LENGTH,   AT(interval_ms),   CLI_EXPORTER, 0 },
    { 0,   "host",        NAME,     0,                 CLI_EXPORTER, 0 },
    { 0,   "tls-cert",    PATH,     AT(tls_cert),      CLI_EXPORTER, 0 },
    { 0,   "tls-key",     PATH,     AT(tls_key),       CLI_EXPORTER, 0 },
    { 0,   "token-file",  PATH,     AT(token_file),    CLI_EXPORTER, 0 },
    { 0,   "time",        LENGTH,   AT(time_ms),       CLI_TORTURE, 0 },
    { 0,   "clients",     COUNT,    AT(clients),       CLI_TORTURE, 64 },
    { 0,   "threads",     COUNT,    AT(threads),       CLI_TORTURE, 16 },
    { 0,   "lease",       LENGTH,   AT(lease_ms),      CLI_TORTURE, 0 },
    { 0,   "faults",      TEXT,     AT(faults),        CLI_TORTURE, 0 },
    { 0,   "hook",        NAME,     0,                 CLI_TORTURE, 0 },
    { 0,   "rate",        COUNT,    AT(rate),          CLI_TORTURE, 100000 },
    { 0,   "seed",        NUMBER,   AT(seed),          CLI_TORTURE, INT64_MAX },
    { 0,   "history",     PATH,     AT(history),       CLI_TORTURE, 0 },
    { 0,   "html",        PATH,     AT(html),          CLI_TORTURE, 0 },
    { 0,   "check",       PATH,     AT(check),         CLI_TORTURE, 0 },
    { 0,   "sandbox",     TEXT,     AT(sandbox),       CLI_TORTURE, 0 },
    { 0,   "list",        FLAG,     AT(list),          CLI_TORTURE, 0 },
};
/* clang-format on */

#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

/* Each says what the other denies, whatever the verb. */
static const char *const contraries[][2] = { { "try", "wait" }, { "skip", "busy-exit" } };

struct parse {
    struct cli_settings *settings;
    const struct cli_verb *verb;
    char **arg, **end; /* what is still to be read */
    bool used[OPTION_COUNT];
    bool ended;                      /* "--" was seen */
    const struct option *unfinished; /* the words end before its value */
    char **command;                  /* where it begins, or NULL */
    /* What begins as a URL does: the first word after the verb, before any "--", or a name with
     * an option. */
    char *url_as_name;
    bool url_in_option;
};

static bool takes_value(const struct option *option)
{
    return option->type != FLAG && option->type != OPTIONAL_LENGTH && option->type != OPTIONAL_TEXT;
}

static bool store_duration(int64_t *field, const struct option *option, const char *value)
{
    if (!cli_duration_parse(value, field)) {
        cli_complain(
            "--%s '%s' is no duration: write a number with ms, s, m, h or d after it, such as "
            "500ms or 2m. A plain number means seconds. The longest duration is 36500d",
            option->name, value);
        return false;
    }
    if (*field == 0 && option->type != DURATION) {
        cli_complain("--%s 0 makes no sense: give a duration longer than zero, such as 30s",
                     option->name);
        return false;
    }
    return true;
}

static bool store_number(int64_t *field, const struct option *option, const char *value)
{
    if (cli_number_parse(value, option->max, field) && (*field > 0 || option->type == NUMBER))
        return true;
    cli_complain("--%s '%s' is wrong: write a whole number from %d to %lld", option->name, value,
                 option->type == COUNT, (long long)option->max);
    return false;
}

static bool store_name(struct parse *parse, char *value)
{
    struct cli_settings *settings = parse->settings;

    if (settings->name_count == CLI_NAMES_MAX) {
        cli_complain("more than %d names in one command", CLI_NAMES_MAX);
        return false;
    }
    settings->names[settings->name_count++] = value;
    cli_log.name = settings->names[0];
    return true;
}

/* Mistakes behind this option are told in its format. */
static bool store_format(const char *value)
{
    cli_log.json = strcmp(value, "json") == 0;
    if (cli_log.json || strcmp(value, "text") == 0)
        return true;
    cli_complain("--log '%s' is no format: write json or text", value);
    return false;
}

static bool store(struct parse *parse, const struct option *option, char *value)
{
    char *field = (char *)parse->settings + option->offset;

    parse->used[option - options] = true;
    switch (option->type) {
    case FLAG:
        *(bool *)(void *)field = true;
        return true;
    case OPTIONAL_TEXT:
        *(const char **)(void *)field = value ? value : "";
        return true;
    case TEXT:
    case URL:
    case PATH:
        *(char **)(void *)field = value;
        return true;
    case NAME:
    case LOCK:
        /* No "--" can stand before it: what only begins as a URL does is taken for a name. */
        if (!parse->url_as_name && cli_url_has_scheme(value) && strstr(value, "://")) {
            parse->url_as_name = value;
            parse->url_in_option = true;
        }
        return store_name(parse, value);
    case OPTIONAL_LENGTH:
        parse->settings->watch = true;
        return !value || store_duration((int64_t *)(void *)field, option, value);
    case DURATION:
    case LENGTH:
        return store_duration((int64_t *)(void *)field, option, value);
    case NUMBER:
    case COUNT:
        return store_number((int64_t *)(void *)field, option, value);
    case FORMAT:
        return store_format(value);
    }
    return false;
}

/* "--name", "--name=value", "--name value". */
static bool parse_long(struct parse *parse, char *text)
{
    size_t length = strcspn(text, "=");
    char *value = text[length] ? text + length + 1 : NULL;

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        if (strlen(option->name) != length || strncmp(option->name, text, length) != 0)
            continue;
        if (value && option->type == FLAG) {
            cli_complain("--%s takes no value", option->name);
            return false;
        }
        if (!value && takes_value(option) && parse->arg < parse->end)
            value = *parse->arg++;
        if (!value && takes_value(option)) {
            parse->unfinished = option;
            cli_complain("--%s needs a value", option->name);
            return false;
        }
        return store(parse, option, value);
    }
    cli_complain("there is no option --%.*s; see holdfast --help", (int)length, text);
    return false;
}

static const struct option *find_letter(char letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].letter == letter)
            return &options[i];
    return NULL;
}

/* "-nq", "-w5s", "-w 5s". */
static bool parse_letters(struct parse *parse, char *text)
{
    for (; *text; text++) {
        const struct option *option = find_letter(*text);
        char *value = NULL;
        if (!option && *text >= '0' && *text <= '9') {
            cli_complain("there is no option -%c, and no number here is below zero", *text);
            return false;
        }
        if (!option) {
            cli_complain("there is no option -%c; see holdfast --help", *text);
            return false;
        }
        if (takes_value(option)) {
            value = text[1] ? text + 1 : parse->arg < parse->end ? *parse->arg++ : NULL;
            if (!value) {
                parse->unfinished = option;
                cli_complain("-%c needs a value", *text);
                return false;
            }
        }
        if (!store(parse, option, value))
            return false;
        if (value)
            break;
    }
    return true;
}

/* A "--" before the command may stand for itself: one before the name has ended the options. */
static bool take_command(struct parse *parse, char *word)
{
    struct cli_settings *settings = parse->settings;

    parse->command = parse->arg - (strcmp(word, "--") != 0);
    if (strcmp(word, "--") != 0)
        settings->words[settings->word_count++] = word;
    while (parse->arg < parse->end)
        settings->words[settings->word_count++] = *parse->arg++;
    return true;
}

static const struct cli_verb *find_verb(const char *name)
{
    for (const struct cli_verb *verb = cli_verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}

/* The first word is the verb; the first one after it may be a NAME; a command begins after that. */
static bool parse_word(struct parse *parse, char *word)
{
    struct cli_settings *settings = parse->settings;

    if (!parse->verb && strcmp(word, "help") == 0) {
        settings->help = true;
        return true;
    }
    if (!parse->verb) {
        parse->verb = find_verb(word);
        if (!parse->verb)
            cli_complain("there is no verb '%s'; holdfast help lists them", word);
        else
            cli_log.verb = parse->verb->name;
        return parse->verb != NULL;
    }
    unsigned before =
        parse->verb->takes_command ? settings->name_count : (unsigned)settings->word_count;
    if (before == 0 && !parse->ended && !parse->url_as_name && cli_url_has_scheme(word))
        parse->url_as_name = word;
    if (!parse->verb->takes_command) {
        settings->words[settings->word_count++] = word;
        return true;
    }
    if (settings->name_count == 0)
        return store_name(parse, word);
    return take_command(parse, word);
}

static bool check_verb(const struct parse *parse)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!parse->used[i] || (options[i].verbs & parse->verb->bit))
            continue;
        cli_complain("--%s does not go with %s; see holdfast %s --help", options[i].name,
                     parse->verb->name, parse->verb->name);
        return false;
    }
    return true;
}

static bool was_used(const struct parse *parse, const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (parse->used[i] && strcmp(options[i].name, name) == 0)
            return true;
    return false;
}

static bool check_contraries(const struct parse *parse)
{
    for (size_t i = 0; i < sizeof(contraries) / sizeof(contraries[0]); i++) {
        const char *const *pair = contraries[i];
        if (!was_used(parse, pair[0]) || !was_used(parse, pair[1]))
            continue;
        cli_complain("--%s and --%s exclude each other: choose one; see holdfast %s --help",
                     pair[0], pair[1], parse->verb->name);
        return false;
    }
    return true;
}

static bool parse_next(struct parse *parse)
{
    char *text = *parse->arg++;

    if (parse->ended || text[0] != '-' || text[1] == '\0')
        return parse_word(parse, text);
    if (strcmp(text, "--") == 0) {
        parse->ended = true;
        return true;
    }
    return text[1] == '-' ? parse_long(parse, text + 2) : parse_letters(parse, text + 1);
}

/* A URL in the place of a name would be a lock of the default store, which doctor finds healthy. */
static bool check_name(const struct parse *parse)
{
    char *url = parse->url_as_name;

    if (!url || (parse->verb->bit & CLI_TORTURE))
        return true;
    cli_url_hide_password(url);
    cli_complain("'%s' is a store's URL, not a name: write `holdfast %s -e %s`%s", url,
                 parse->verb->name, url,
                 parse->url_in_option ? "" : ", or -- before a name that begins like this");
    return false;
}

int cli_options_parse(struct cli_settings *settings, int argc, char **argv,
                      const struct cli_verb **verb)
{
    struct parse parse = { .settings = settings, .arg = argv + 1, .end = argv + argc };

    while (parse.arg < parse.end)
        if (!parse_next(&parse))
            return CLI_USAGE;
    *verb = parse.verb;
    if (parse.verb && (!check_verb(&parse) || !check_contraries(&parse) || !check_name(&parse)))
        return CLI_USAGE;
    return CLI_OK;
}

static enum cli_next_kind kind_of_value(const struct option *option)
{
    return option->type == URL      ? CLI_NEXT_URL
           : option->type == PATH   ? CLI_NEXT_FILE
           : option->type == LOCK   ? CLI_NEXT_LOCK
           : option->type == FORMAT ? CLI_NEXT_FORMAT
                                    : CLI_NEXT_NOTHING;
}

/* "--name=" and the beginning of a value, or an option of which not all is there. */
static void look_into_option(const struct parse *parse, struct cli_next *next)
{
    unsigned verbs = parse->verb ? parse->verb->bit : CLI_ANY;

    next->kept = strcspn(next->word, "=");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        bool once = option->type != NAME && option->type != LOCK;
        if (next->word[next->kept] && strlen(option->name) + 2 == next->kept &&
            strncmp(option->name, next->word + 2, next->kept - 2) == 0)
            next->kind = kind_of_value(option);
        if ((option->verbs & verbs) == verbs && !(once && parse->used[i]))
            next->options[next->option_count++] = option->name;
    }
    if (!next->word[next->kept]) {
        next->kept = 0;
        next->kind = CLI_NEXT_OPTION;
    } else {
        next->kept++;
    }
}

bool cli_options_next(struct cli_settings *settings, int argc, char **argv, struct cli_next *ret)
{
    _Static_assert(OPTION_COUNT <= CLI_OPTIONS_MAX, "options fit into struct cli_next");
    struct parse parse = { .settings = settings, .arg = argv, .end = argv + argc - 1 };

    *ret = (struct cli_next){ .word = argv[argc - 1] };
    while (parse.arg < parse.end)
        if (!parse_next(&parse) && !parse.unfinished)
            return false;
    ret->verb = parse.verb;
    if (!parse.command && parse.verb && parse.verb->takes_command && settings->name_count > 0)
        parse.command = parse.end;
    if (parse.unfinished) {
        ret->kind = kind_of_value(parse.unfinished);
    } else if (!parse.ended && ret->word[0] == '-' &&
               (!parse.command || parse.command == parse.end)) {
        look_into_option(&parse, ret);
    } else if (parse.command) {
        ret->kind = CLI_NEXT_COMMAND;
        ret->command = (int)(parse.command - argv);
    } else {
        ret->kind = parse.verb && parse.verb->takes_command ? CLI_NEXT_LOCK : CLI_NEXT_WORD;
    }
    return true;
}
