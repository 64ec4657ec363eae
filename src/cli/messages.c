/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that never block: while a command runs, or a lock is waited for, a helper thread writes
 * them. A standard error that is not read must not keep holdfast from its lock. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Bytes that may wait for standard error; messages beyond that are counted and dropped. */
#define QUEUE_SIZE 16384
/* How long the end of the command waits for what is still unwritten. */
#define DRAIN_MS 2000

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

static void write_dropped(unsigned count)
{
    char line[120];
    int length;

    if (count == 0)
        return;
    length = snprintf(line, sizeof(line),
                      "holdfast: %u message%s dropped here: standard error was blocked\n", count,
                      count == 1 ? " was" : "s were");
    write_all(line, (size_t)length);
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

void cli_messages_write(const char *text, size_t length)
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
