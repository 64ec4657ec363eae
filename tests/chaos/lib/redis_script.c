/* SPDX-License-Identifier: Apache-2.0 */
/* The server that answers what a test wants; see the header. */
#include "redis_script.h"

#include "server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* The longest that a client may say before the server has answered. */
#define HEARD_MAX 1000000u

/* ---- reading ---- */

/* "*3" and the like: the number, and where the next line begins; NULL: it is not whole yet. */
static const char *read_count(const char *at, const char *end, char mark, long *count)
{
    const char *line_end = memchr(at, '\n', (size_t)(end - at));

    if (!line_end)
        return NULL;
    CHECK(*at == mark);
    *count = strtol(at + 1, NULL, 10);
    return line_end + 1;
}

static void forget(struct script_call *call)
{
    for (int i = 0; i < call->count; i++)
        free(call->words[i]);
    call->count = 0;
}

/* Returns where the next command begins; NULL: this one is not whole yet. */
static const char *read_call(const char *at, const char *end, struct script_call *call)
{
    long count, length;

    at = read_count(at, end, '*', &count);
    CHECK(!at || (count > 0 && count < SCRIPT_WORDS));
    while (at && call->count < count) {
        at = read_count(at, end, '$', &length);
        if (!at || end - at < length + 2)
            break;
        call->words[call->count++] = strndup(at, (size_t)length);
        at += length + 2;
    }
    if (at && call->count == count)
        return at;
    forget(call);
    return NULL;
}

/* ---- answering ---- */

static bool say(const struct script *script, int fd, const char *text)
{
    size_t step = script->in_pieces ? 1 : strlen(text);

    for (; *text; text += step)
        if (send(fd, text, step, MSG_NOSIGNAL) != (ssize_t)step)
            return false;
    return true;
}

static bool subscribes(const struct script_call *call)
{
    return strcmp(call->words[0], "SUBSCRIBE") == 0 || strcmp(call->words[0], "SSUBSCRIBE") == 0;
}

/* All that is whole. False: the connection has ended. */
static bool answer_all(struct script *script, struct script_visit *visit)
{
    struct script_call call = { .connection = visit->connection };
    const char *at = visit->heard, *end = visit->heard + visit->length, *next;
    bool goes_on = true;

    while (goes_on && at < end && (next = read_call(at, end, &call))) {
        visit->listens |= subscribes(&call);
        const char *answer = script->answer(script, &call);
        goes_on = answer && say(script, visit->fd, answer);
        forget(&call);
        at = next;
    }
    visit->length = (size_t)(end - at);
    memmove(visit->heard, at, visit->length);
    return goes_on;
}

static void end_visit(struct script_visit *visit)
{
    close(visit->fd);
    free(visit->heard);
    *visit = (struct script_visit){ .fd = -1 };
}

static void hear(struct script *script, struct script_visit *visit)
{
    ssize_t got = read(visit->fd, visit->heard + visit->length, HEARD_MAX - visit->length);

    CHECK(visit->length < HEARD_MAX);
    visit->length += got > 0 ? (size_t)got : 0;
    if (got <= 0 || !answer_all(script, visit))
        end_visit(visit);
}

static void take_in(struct script *script)
{
    int fd = accept4(script->listener, NULL, NULL, SOCK_CLOEXEC), yes = 1;

    CHECK(fd >= 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    for (int i = 0; i < SCRIPT_VISITS; i++)
        if (script->visits[i].fd < 0) {
            script->visits[i] = (struct script_visit){ .fd = fd,
                                                       .connection = ++script->connections,
                                                       .heard = malloc(HEARD_MAX) };
            CHECK(script->visits[i].heard != NULL);
            return;
        }
    FAIL("more than %d connections at a time", SCRIPT_VISITS);
}

static void run(void *arg)
{
    struct script *script = arg;
    struct pollfd polled[2 + SCRIPT_VISITS];

    while (!script->ends) {
        polled[0] = (struct pollfd){ .fd = script->listener, .events = POLLIN };
        polled[1] = (struct pollfd){ .fd = script->wake[0], .events = POLLIN };
        for (int i = 0; i < SCRIPT_VISITS; i++)
            polled[2 + i] = (struct pollfd){ .fd = script->visits[i].fd, .events = POLLIN };
        poll(polled, 2 + SCRIPT_VISITS, -1);
        pthread_mutex_lock(&script->mutex);
        for (int i = 0; i < SCRIPT_VISITS; i++)
            if (polled[2 + i].revents)
                hear(script, &script->visits[i]);
        if (polled[0].revents)
            take_in(script);
        pthread_mutex_unlock(&script->mutex);
    }
}

/* ---- beginning and ending ---- */

void script_start(struct script *script)
{
    for (int i = 0; i < SCRIPT_VISITS; i++)
        script->visits[i].fd = -1;
    CHECK(pthread_mutex_init(&script->mutex, NULL) == 0);
    CHECK(pipe(script->wake) == 0);
    script->listener = listen_somewhere(&script->port);
    thread_start(&script->thread, run, script);
}

void script_end(struct script *script)
{
    script->ends = true;
    CHECK(write(script->wake[1], "!", 1) == 1);
    thread_join(&script->thread);
    for (int i = 0; i < SCRIPT_VISITS; i++)
        if (script->visits[i].fd >= 0)
            end_visit(&script->visits[i]);
    close(script->listener);
    close(script->wake[0]);
    close(script->wake[1]);
    pthread_mutex_destroy(&script->mutex);
}

void script_push(struct script *script, const char *text)
{
    pthread_mutex_lock(&script->mutex);
    for (int i = 0; i < SCRIPT_VISITS; i++)
        if (script->visits[i].fd >= 0 && script->visits[i].listens)
            say(script, script->visits[i].fd, text);
    pthread_mutex_unlock(&script->mutex);
}

void script_cut(struct script *script)
{
    pthread_mutex_lock(&script->mutex);
    for (int i = 0; i < SCRIPT_VISITS; i++)
        if (script->visits[i].fd >= 0)
            shutdown(script->visits[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&script->mutex);
}

/* ---- what is common ---- */

bool script_is_called(const struct script_call *call)
{
    return strncmp(call->words[0], "EVAL", 4) == 0;
}

static const char *confirm(const struct script_call *call)
{
    static _Thread_local char said[400];
    const char *word = strcmp(call->words[0], "SUBSCRIBE") == 0 ? "subscribe" : "ssubscribe";

    snprintf(said, sizeof(said), "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n:1\r\n", strlen(word), word,
             strlen(call->words[1]), call->words[1]);
    return said;
}

static const char *say_about_client(const struct script_call *call)
{
    static _Thread_local char id[20];

    if (strcmp(call->words[1], "ID") != 0)
        return "+OK\r\n";
    snprintf(id, sizeof(id), ":%d\r\n", 100 + call->connection);
    return id;
}

const char *script_usual(const struct script_call *call)
{
    const char *word = call->words[0];

    if (subscribes(call))
        return confirm(call);
    if (strcmp(word, "CLIENT") == 0)
        return say_about_client(call);
    if (strcmp(word, "INFO") == 0)
        return "$59\r\n# Server\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n\r\n";
    if (strcmp(word, "PUBSUB") == 0)
        return "*0\r\n";
    if (strcmp(word, "PUBLISH") == 0)
        return ":0\r\n";
    if (strcmp(word, "PING") == 0)
        return "+PONG\r\n";
    if (strcmp(word, "TIME") == 0)
        return "*2\r\n$10\r\n1800000000\r\n$6\r\n123456\r\n";
    return strstr(word, "UNSUBSCRIBE") ? "" : NULL;
}
