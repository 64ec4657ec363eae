/* SPDX-License-Identifier: Apache-2.0 */
/* show: the holders and the waiters. */
#include "show.h"

#include <fnmatch.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A watched store is looked at for no more than one part in this many of the time. */
#define PAUSES 10

static char *copy(const char *text)
{
    return strdup(text ? text : "");
}

static bool keep(void *arg, const hf_entry *entry)
{
    struct cli_picture *picture = arg;
    struct cli_entry *kept;

    if (picture->count == picture->room) {
        size_t room = picture->room ? 2 * picture->room : 64;
        kept = reallocarray(picture->entries, room, sizeof(*kept));
        if (!kept) {
            picture->out_of_memory = true;
            return false;
        }
        picture->entries = kept;
        picture->room = room;
    }
    kept = &picture->entries[picture->count++];
    *kept = (struct cli_entry){ .name = copy(entry->name),
                                .owner_key = copy(entry->owner_key),
                                .owner_text = copy(entry->owner_text),
                                .host = copy(entry->host),
                                .entry = *entry };
    picture->out_of_memory = !kept->name || !kept->owner_key || !kept->owner_text || !kept->host;
    kept->order = picture->count;
    kept->entry.name = kept->name;
    kept->entry.owner_key = kept->owner_key;
    kept->entry.owner_text = kept->owner_text;
    kept->entry.host = kept->host;
    return !picture->out_of_memory;
}

/* The order among the entries of one name stays. */
static int by_name(const void *a, const void *b)
{
    const struct cli_entry *x = a, *y = b;
    int names = strcmp(x->name, y->name);

    return names ? names : (x->order > y->order) - (x->order < y->order);
}

int cli_picture_take(struct cli_picture *picture, hf_client *client, const char *name)
{
    int code;

    *picture = (struct cli_picture){ 0 };
    code = client ? hf_inspect(client, name, keep, picture) : HF_OK;
    if (picture->out_of_memory)
        return HF_ENOMEM;
    if (picture->count > 0)
        qsort(picture->entries, picture->count, sizeof(*picture->entries), by_name);
    return code;
}

void cli_picture_release(struct cli_picture *picture)
{
    for (size_t i = 0; i < picture->count; i++) {
        free(picture->entries[i].name);
        free(picture->entries[i].owner_key);
        free(picture->entries[i].owner_text);
        free(picture->entries[i].host);
    }
    free(picture->entries);
}

static bool is_pattern(const char *name)
{
    return strpbrk(name, "*?[") != NULL;
}

bool cli_picture_is_idle(const struct cli_picture *picture, size_t i)
{
    const hf_entry *entry = &picture->entries[i].entry;
    bool followed = i + 1 < picture->count && picture->entries[i + 1].entry.role != HF_ROLE_OBJECT;

    return entry->role == HF_ROLE_OBJECT && !followed && entry->total == 0 && entry->value == 0;
}

/* False: nothing is wanted. */
static bool choose(const struct cli_settings *settings, const struct cli_picture *picture,
                   bool *wanted)
{
    const char *pattern = settings->word_count ? settings->words[0] : NULL;
    bool any = false;

    for (size_t i = 0; i < picture->count; i++) {
        bool matches = !pattern || strcmp(pattern, picture->entries[i].name) == 0 ||
                       fnmatch(pattern, picture->entries[i].name, 0) == 0;
        bool asked_for = pattern && !is_pattern(pattern);
        wanted[i] = matches && (asked_for || !cli_picture_is_idle(picture, i));
        any = any || wanted[i];
    }
    return any;
}

/* Redis is searched for what this library left there. Without tokens that is little. */
static const char *nothing_to_show(const struct cli_client *session, const char *name)
{
    bool listed = session->client && (!name || is_pattern(name));
    unsigned caps = listed ? hf_caps(session->client) : HF_CAP_INSPECT_ALL | HF_CAP_TOKEN;

    if (!(caps & HF_CAP_TOKEN))
        return "Nothing to show. Without tokens (fence=off), mutexes and read-write locks without "
               "waiters are shown by name only.";
    if (!(caps & HF_CAP_INSPECT_ALL)) /* mutant: person-is-told-that-nothing */
        return name ? "Of these, holdfast took none within 12 hours, and waits for none. Other "
                      "locks (a Java client's, say) are shown by name only."
                    : "There is no lock that holdfast took within 12 hours, or waits for. Other "
                      "locks (a Java client's, say) are shown by name only.";
    return name ? "Of these, no lock is held or waited for." : "No lock is held or waited for.";
}

static bool print_wake_up(void *arg, const hf_remark *remark)
{
    (void)arg;
    if (!remark->value || strcmp(remark->what, "wake-up") != 0)
        return true;
    printf("\nwake-up: %s\n", remark->value);
    return false;
}

static int print_once(struct cli_client *session)
{
    const struct cli_settings *settings = session->settings;
    const char *name = settings->word_count ? settings->words[0] : NULL;
    struct cli_picture picture;
    bool *wanted;
    int code = cli_picture_take(&picture, session->client, name && !is_pattern(name) ? name : NULL);

    wanted = calloc(picture.count + 1, sizeof(*wanted));
    if (code == HF_OK && !wanted)
        code = HF_ENOMEM;
    if (wanted && (code == HF_OK || picture.count > 0)) {
        bool empty = !choose(settings, &picture, wanted);
        if (settings->json && settings->watch)
            cli_picture_print_json_line(stdout, &picture, wanted);
        else if (settings->json)
            cli_picture_print_json(stdout, &picture, wanted);
        else if (empty && isatty(STDOUT_FILENO))
            puts(nothing_to_show(session, name));
        else
            cli_table_print(stdout, &picture, wanted, cli_screen_width());
        if (!session->settings->json) {
            /* How waiters hear of a release depends on the database, and on what is in between. */
            bool waits = false;

            for (size_t i = 0; i < picture.count; i++)
                waits = waits || (wanted[i] && picture.entries[i].entry.role == HF_ROLE_WAITER);
            if (waits && (hf_caps(session->client) & HF_CAP_SCHEMA))
                (void)hf_examine(session->client, NULL, print_wake_up, NULL);
        }
        cli_flush();
    }
    if (code != HF_OK && picture.count > 0)
        cli_complain("what is shown is not all: the store has not been looked through to its end");
    free(wanted);
    cli_picture_release(&picture);
    return code == HF_OK ? CLI_OK : cli_fail(settings, code, hf_last_error());
}

/* A large store is not looked through all the time. False: a signal says that it is enough. */
static bool pause_until_next(struct cli_client *session, int64_t took_ms)
{
    int64_t pause_ms = session->settings->watch_ms;
    int64_t until = cli_now_ms() + (pause_ms > PAUSES * took_ms ? pause_ms : PAUSES * took_ms);
    struct pollfd polled = { session->signal_fd, POLLIN, 0 };
    int signal = 0;

    while (signal == 0 && cli_now_ms() < until) {
        if (poll(&polled, 1, cli_poll_ms(until)) > 0)
            signal = cli_session_signal(session);
    }
    hf_dispatch(session->client);
    if (signal == SIGTSTP)
        raise(SIGSTOP);
    return signal == 0 || signal == SIGCHLD || signal == SIGWINCH || signal == SIGCONT ||
           signal == SIGTSTP;
}

/* On a terminal each picture overwrites the last one; elsewhere they follow each other. */
static int watch(struct cli_client *session)
{
    bool terminal = isatty(STDOUT_FILENO);
    int64_t took_ms;
    int code;

    if (!cli_session_watch(session))
        return CLI_INTERNAL;
    do {
        if (terminal)
            fputs("\033[H\033[2J", stdout);
        took_ms = cli_now_ms();
        code = print_once(session);
        took_ms = cli_now_ms() - took_ms;
        if (!terminal && !session->settings->json)
            putchar('\n');
        if (ferror(stdout))
            return CLI_INTERNAL;
    } while (code == CLI_OK && pause_until_next(session, took_ms));
    return code;
}

static bool find_holder(void *arg, const hf_entry *entry)
{
    bool *held = arg;

    *held = entry->role == HF_ROLE_HOLDER;
    return !*held;
}

int cli_held(struct cli_settings *settings)
{
    struct cli_client session;
    bool held = false;
    int code;

    if (settings->word_count != 1)
        return cli_usage(settings, "held", "held takes one name");
    code = cli_session_look(&session, settings);
    if (code != CLI_OK)
        return code;
    if (session.client) {
        code = hf_inspect(session.client, settings->words[0], find_holder, &held);
        if (code != HF_OK)
            code = cli_fail(settings, code, hf_last_error());
    }
    cli_session_close(&session);
    if (code != CLI_OK)
        return code;
    return held ? CLI_OK : CLI_FINDINGS;
}

int cli_show(struct cli_settings *settings)
{
    struct cli_client session;
    int code;

    if (settings->word_count > 1)
        return cli_usage(settings, "show", "show takes one name or pattern, or none");
    if (settings->graph && (settings->word_count > 0 || settings->watch || settings->json))
        return cli_usage(settings, "show", "--graph draws all names, once, and not as JSON");
    if (settings->graph && *settings->graph && strcmp(settings->graph, "dot") != 0)
        return cli_usage(settings, "show", "--graph is drawn as text, or with --graph=dot");
    code = cli_session_look(&session, settings);
    if (code == CLI_OK && !session.client && settings->watch)
        code = cli_session_open(&session, settings, NULL); /* there may be something later */
    if (code != CLI_OK)
        return code;
    if (settings->graph)
        code = cli_graph_print(&session);
    else
        code = settings->watch ? watch(&session) : print_once(&session);
    cli_session_close(&session);
    return code;
}
