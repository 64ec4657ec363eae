/* SPDX-License-Identifier: Apache-2.0 */
/* top: the names in use on a screen, or one picture of them as text. A program of its own, so that
 * all other verbs start without ncurses. */
#include "top.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of what is no terminal. */
#define WIDTH 160

static void print_line(char *line)
{
    size_t length = strlen(line);

    while (length > 0 && line[length - 1] == ' ')
        length--;
    line[length] = '\0';
    puts(line);
}

/* An exit code. */
static int print_list(const struct cli_settings *settings, struct top_list *list,
                      const struct top_order *order)
{
    int screen_width = cli_screen_width(), width = screen_width ? screen_width : WIDTH;
    bool *wanted = calloc(list->picture.count + 1, sizeof(*wanted));
    struct top_columns columns;
    char line[TOP_LINE_SIZE];

    if (!wanted)
        return cli_fail(settings, HF_ENOMEM, NULL);
    width = width < TOP_WIDTH_MAX ? width : TOP_WIDTH_MAX;
    top_list_arrange(list, order);
    for (size_t i = 0; i < list->shown_count; i++)
        wanted[list->shown[i]->first] = true;
    if (settings->json) {
        cli_picture_print_json(stdout, &list->picture, wanted);
    } else {
        top_columns_choose(&columns, list, width);
        top_totals_format(line, list, width);
        print_line(line);
        top_titles_format(line, &columns);
        print_line(line);
        for (size_t i = 0; i < list->shown_count; i++) {
            top_row_format(line, &columns, list, list->shown[i]);
            print_line(line);
        }
    }
    free(wanted);
    return CLI_OK;
}

/* What a silent store has shown until then is shown. */
static int print_once(const struct cli_settings *settings, const char *exact,
                      const struct top_order *order)
{
    static const struct top_list nothing;
    struct cli_client session;
    struct cli_picture picture;
    struct top_list list;
    int result = cli_session_look(&session, settings), code;

    if (result != CLI_OK)
        return result;
    code = cli_picture_take(&picture, session.client, exact);
    if (code != HF_OK)
        result = cli_fail(settings, code, hf_last_error());
    if (code == HF_OK || picture.count > 0) {
        bool made = top_list_make(&list, &picture, cli_now_ms(), &nothing, exact);
        int printed =
            made ? print_list(settings, &list, order) : cli_fail(settings, HF_ENOMEM, NULL);
        result = result == CLI_OK ? printed : result;
        if (made)
            top_list_release(&list);
    }
    cli_picture_release(&picture);
    cli_session_close(&session);
    return result;
}

static int top_command(struct cli_settings *settings)
{
    const char *word = settings->word_count ? settings->words[0] : NULL;
    bool is_pattern = word && strpbrk(word, "*?[");
    struct top_order order = { .filter = is_pattern ? word : NULL };
    bool screen = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !settings->once;
    const char *exact = is_pattern ? NULL : word;

    if (settings->word_count > 1)
        return cli_usage(settings, "top", "top takes one name or pattern, or none");
    if (settings->sort && !top_sort_parse(settings->sort, &order.sort))
        return cli_usage(settings, "top",
                         "--sort takes waiters, age, wait, changes or name, and nothing else");
    top_text_begin(isatty(STDOUT_FILENO));
    if (!screen || settings->json)
        return print_once(settings, exact, &order);
#ifdef HF_TOP_SCREEN
    char *url = cli_url_choose(settings);
    int code = url ? top_screen_run(settings, url, exact, &order) : CLI_USAGE;

    free(url);
    return code;
#else
    cli_complain("this holdfast was built without ncurses, so top has no screen: use holdfast top "
                 "--once, or holdfast show --watch");
    return CLI_USAGE;
#endif
}

const struct cli_verb cli_verbs[] = {
    { "top", CLI_TOP, false, top_command, "watch the names in use on a screen", cli_help_top },
    { 0 },
};
