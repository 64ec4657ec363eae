/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, as text or as JSON, that never block: while a command runs, or a lock is waited for, a
 * helper thread writes them. A standard error that is not read must not keep holdfast from its
 * lock. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Bytes that may wait for standard error; messages beyond that are counted and dropped. */
#define QUEUE_SIZE 16384
/* How long the end of the command waits for what is still unwritten. */
#define DRAIN_MS 2000

struct cli_log cli_log;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char text[QUEUE_SIZE];
    size_t length;
    unsigned dropped; /* messages, since the writer last took the queue */
    bool active;      /* messages go into the queue */
    bool has_writer;
    bool writing; /* the writer is busy with what it took */
} queue = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Waits as long as it takes. A reader that has gone loses the text. */
static void write_all(const char *text, size_t length)
{
    struct pollfd output = { STDERR_FILENO, POLLOUT, 0 };

    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written < 0 && errno == EAGAIN)
            poll(&output, 1, -1);
        else if (written < 0 && errno != EINTR)
            return;
        if (written > 0) {
            text += written;
            length -= (size_t)written;
        }
    }
}

static void print_object(FILE *out, enum cli_level level, int code, const char *text)
{
    static const char *const levels[] = { "info", "warning", "error" };
    struct timespec now;
    struct tm utc = { 0 };
    char seconds[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf(out, "{\"time\":\"%s.%03dZ\",\"level\":\"%s\"", seconds, (int)(now.tv_nsec / 1000000),
            levels[level]);
    if (cli_log.verb)
        fprintf(out, ",\"verb\":\"%s\"", cli_log.verb);
    if (cli_log.name) {
        fputc(',', out);
        cli_json_name(out, cli_log.name, strlen(cli_log.name));
    }
    fputs(",\"message\":", out);
    cli_json_string(out, text, strlen(text));
    if (code != CLI_OK)
        fprintf(out, ",\"code\":%d", code);
    fputc('}', out);
}

/* To be freed; NULL: out of memory. */
static char *make_line(enum cli_level level, int code, const char *text, size_t *length)
{
    char *line = NULL;
    FILE *out = open_memstream(&line, length);

    if (!out)
        return NULL;
    if (cli_log.json)
        print_object(out, level, code, text);
    else
        fprintf(out, "holdfast: %s", text);
    fputc('\n', out);
    if (fclose(out) == 0)
        return line;
    free(line);
    return NULL;
}

static void write_dropped(unsigned count)
{
    char text[80], *line;
    size_t length;

    if (count == 0)
        return;
    snprintf(text, sizeof(text), "%u message%s dropped here: standard error was blocked", count,
             count == 1 ? " was" : "s were");
    line = make_line(CLI_WARNING, CLI_OK, text, &length);
    if (line)
        write_all(line, length);
    free(line);
}

static void *write_messages(void *arg)
{
    static char taken[QUEUE_SIZE];

    (void)arg;
    pthread_mutex_lock(&queue.mutex);
    for (;;) {
        size_t length = queue.length;
        unsigned dropped = queue.dropped;

        queue.writing = length > 0 || dropped > 0;
        if (!queue.writing) {
            pthread_cond_broadcast(&queue.changed);
            pthread_cond_wait(&queue.changed, &queue.mutex);
            continue;
        }
        memcpy(taken, queue.text, length);
        queue.length = 0;
        queue.dropped = 0;
        pthread_mutex_unlock(&queue.mutex);
        write_all(taken, length);
        write_dropped(dropped);
        pthread_mutex_lock(&queue.mutex);
    }
    return NULL;
}

/* The thread takes no signals: those that end or stop holdfast are the main thread's. */
static bool start_writer(void)
{
    sigset_t all, before;
    pthread_condattr_t monotonic;
    pthread_t thread;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    queue.has_writer = pthread_create(&thread, NULL, write_messages, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (queue.has_writer)
        pthread_detach(thread);
    return queue.has_writer;
}

void cli_messages_begin(void)
{
    queue.active = true;
}

static void write_line(const char *text, size_t length)
{
    if (!queue.active) { /* mutant: messages-are-written-directly */
        fwrite(text, 1, length, stderr);
        return;
    }
    if (!queue.has_writer && !start_writer()) {
        /* Without a thread, only what standard error has room for now. */
        struct pollfd output = { STDERR_FILENO, POLLOUT, 0 };

        if (poll(&output, 1, 0) > 0)
            write_all(text, length);
        return;
    }
    pthread_mutex_lock(&queue.mutex);
    if (queue.dropped > 0 || queue.length + length > sizeof(queue.text)) {
        queue.dropped++;
    } else {
        memcpy(queue.text + queue.length, text, length);
        queue.length += length;
    }
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.mutex);
}

void cli_messages_write(enum cli_level level, int code, const char *text)
{
    size_t length;
    char *line = make_line(level, code, text, &length);

    if (line)
        write_line(line, length);
    free(line);
}

static bool is_drained(void)
{
    return queue.length == 0 && queue.dropped == 0 && !queue.writing;
}

/* If standard error is still blocked after the wait, later messages take the same way: the process
 * can end. */
void cli_messages_end(void)
{
    struct timespec until;

    if (!queue.active || !queue.has_writer) {
        queue.active = false;
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += DRAIN_MS / 1000;
    pthread_mutex_lock(&queue.mutex);
    while (!is_drained() &&
           pthread_cond_timedwait(&queue.changed, &queue.mutex, &until) != ETIMEDOUT)
        continue;
    queue.active = !is_drained();
    pthread_mutex_unlock(&queue.mutex);
}
