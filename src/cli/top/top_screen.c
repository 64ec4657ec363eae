/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of top, and its keys. */
#include "top_screen.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static void take_answer(struct top_screen *screen)
{
    struct top_answer answer;
    struct top_list list;
    bool had_list = screen->has_list;

    if (!top_watch_take(screen->watch, &answer))
        return;
    if (answer.code == HF_OK)
        screen->silent_since_ms = 0;
    else if (screen->silent_since_ms == 0)
        screen->silent_since_ms = answer.at_ms - answer.took_ms;
    screen->has_answer = true;
    if (answer.code == HF_OK &&
        top_list_make(&list, &answer.picture, answer.at_ms, &screen->list, screen->exact)) {
        top_list_release(&screen->list);
        screen->list = list;
        screen->has_list = true;
        top_screen_arrange(screen, had_list);
    } else {
        cli_picture_release(&answer.picture);
    }
    screen->answer = answer;
    screen->answer.picture = (struct cli_picture){ 0 };
    screen->ends |= answer.is_fatal && !had_list;
}

/* What came of a break, said by it on standard error: the last line. */
static void read_said(struct top_screen *screen)
{
    static const char prefix[] = "holdfast: ";
    char text[4096];
    ssize_t length = read(screen->said_fd, text, sizeof(text) - 1);
    char *line;

    if (length <= 0)
        return;
    while (length > 0 && text[length - 1] == '\n')
        length--;
    text[length] = '\0';
    line = memrchr(text, '\n', (size_t)length);
    line = line ? line + 1 : text;
    if (strncmp(line, prefix, strlen(prefix)) == 0)
        line += strlen(prefix);
    if (screen->prompt != TOP_BREAK)
        snprintf(screen->message, sizeof(screen->message), "%.*s", TOP_TEXT_SIZE - 1, line);
}

static void read_signal(struct top_screen *screen)
{
    struct signalfd_siginfo info;

    if (read(screen->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    screen->ended_by = (int)info.ssi_signo;
    screen->ends = true;
}

static void loop(struct top_screen *screen)
{
    struct pollfd polled[] = { { STDIN_FILENO, POLLIN, 0 },
                               { screen->wake_fd, POLLIN, 0 },
                               { screen->said_fd, POLLIN, 0 },
                               { screen->signal_fd, POLLIN, 0 } };
    uint64_t count;

    while (!screen->ends) {
        top_screen_draw(screen);
        /* Each second there is something new, the time at least. */
        if (poll(polled, sizeof(polled) / sizeof(polled[0]), 1000) < 0)
            polled[0].revents = polled[1].revents = polled[2].revents = polled[3].revents = 0;
        if (polled[3].revents)
            read_signal(screen);
        if (polled[2].revents)
            read_said(screen);
        if (polled[1].revents && read(screen->wake_fd, &count, sizeof(count)) > 0)
            take_answer(screen);
        top_screen_read_keys(screen);
        if (polled[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            screen->ends = true; /* the terminal has gone */
    }
}

/* Standard error would write into the picture. */
static bool redirect_errors(struct top_screen *screen)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    screen->said_fd = ends[0];
    screen->saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return true;
}

/* False: this terminal has no screen, which has been said. */
static bool begin_screen(struct top_screen *screen, SCREEN **terminal)
{
    const char *name = getenv("TERM"), *plain = getenv("NO_COLOR");

    *terminal = name && *name ? newterm(NULL, stdout, stdin) : NULL;
    if (!*terminal || !tigetstr("cup")) {
        if (*terminal)
            endwin();
        cli_complain("a terminal of the type '%s' has no screen for top: use holdfast top --once, "
                     "or holdfast show --watch",
                     name ? name : "");
        return false;
    }
    set_escdelay(100);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    screen->has_colours = !(plain && *plain) && has_colors() && start_color() == OK;
    if (screen->has_colours) {
        use_default_colors();
        init_pair(1, COLOR_RED, -1);
    }
    return true;
}

/* Signals that end it arrive at a descriptor from now on: ncurses' own handlers would end the
 * process with the thread in the middle of its work. */
static bool begin_descriptors(struct top_screen *screen)
{
    sigset_t ending;

    sigemptyset(&ending);
    sigaddset(&ending, SIGHUP);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGQUIT);
    sigaddset(&ending, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    screen->signal_fd = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
    screen->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (screen->signal_fd >= 0 && screen->wake_fd >= 0 && redirect_errors(screen))
        return true;
    cli_complain("no descriptor for the screen: %s", strerror(errno));
    return false;
}

/* The signal ends the process as if there had been no screen. */
static void end_by_signal(int number)
{
    sigset_t one;

    sigemptyset(&one);
    sigaddset(&one, number);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
}

int top_screen_run(const struct cli_settings *settings, const char *url, const char *exact,
                   struct top_order *order)
{
    struct top_screen screen = { .exact = exact, .order = order };
    SCREEN *terminal;
    int code = CLI_OK;
    bool ended;

    if (order->filter)
        snprintf(screen.filter, sizeof(screen.filter), "%s", order->filter);
    order->filter = screen.filter;
    snprintf(screen.shown_url, sizeof(screen.shown_url), "%s", url);
    cli_url_hide_password(screen.shown_url);
    if (!begin_screen(&screen, &terminal))
        return CLI_USAGE;
    if (!begin_descriptors(&screen) ||
        !(screen.watch = top_watch_begin(settings, url, exact, screen.wake_fd))) {
        endwin();
        return CLI_INTERNAL;
    }
    loop(&screen);
    endwin();
    ended = top_watch_end(screen.watch);
    dup2(screen.saved_stderr, STDERR_FILENO);
    if (screen.has_answer && screen.answer.is_fatal)
        code = cli_fail(settings, screen.answer.code, &screen.answer.error);
    if (screen.ended_by)
        end_by_signal(screen.ended_by);
    if (!ended) {
        cli_flush();
        _exit(code);
    }
    top_list_release(&screen.list);
    free(screen.name);
    free(screen.key);
    free(screen.broken);
    close(screen.said_fd);
    close(screen.signal_fd);
    close(screen.wake_fd);
    close(screen.saved_stderr);
    delscreen(terminal);
    return code;
}
