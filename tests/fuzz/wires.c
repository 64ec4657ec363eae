/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that end at the fuzzer; see the header. */
#include "wires.h"

#include "net/stream.h"

#include <holdfast.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIRES 64u
#define QUESTIONS 512u
/* Of a command, as much as tells what it is. */
#define HEAD 120

struct hf_stream {
    const struct hf_stream_events *events;
    void *arg;
    unsigned number; /* 0: it is free; else no other has ever had it */
    bool is_open, listens;
    char *room;
};

struct asked {
    unsigned wire;
    char head[HEAD];
};

static struct hf_stream wires[WIRES];
static struct asked questions[QUESTIONS];
static unsigned last_number, first_question, question_count;

void wires_clear(void)
{
    for (unsigned i = 0; i < WIRES; i++)
        hf__stream_close(&wires[i]);
    first_question = question_count = 0;
}

/* ---- the engine's end ---- */

struct hf_stream *hf__stream_open(struct uv_loop_s *uv, struct hf_loop *loop,
                                  const struct hf_stream_place *place,
                                  const struct hf_stream_events *events, void *arg)
{
    (void)uv;
    (void)loop;
    if (!place->host || !*place->host || strlen(place->host) > 255 || !place->port ||
        place->port > 65535)
        abort();
    for (unsigned i = 0; i < WIRES; i++)
        if (!wires[i].number) {
            wires[i] = (struct hf_stream){ .events = events, .arg = arg, .number = ++last_number };
            return &wires[i];
        }
    return NULL;
}

void hf__route_end(struct hf_route *route)
{
    (void)route;
}

void hf__stream_close(struct hf_stream *stream)
{
    free(stream->room);
    *stream = (struct hf_stream){ 0 };
}

char *hf__stream_room(struct hf_stream *stream, size_t length)
{
    if (!stream->is_open)
        abort();
    free(stream->room);
    return stream->room = malloc(length + 1);
}

/* A whole command each time. */
void hf__stream_wrote(struct hf_stream *stream, size_t length)
{
    stream->room[length] = 0;
    if (strstr(stream->room, "UNSUBSCRIBE\r\n") || question_count == QUESTIONS)
        return;
    struct asked *asked = &questions[(first_question + question_count++) % QUESTIONS];
    asked->wire = stream->number;
    snprintf(asked->head, sizeof asked->head, "%s", stream->room);
}

bool hf__stream_write(struct hf_stream *stream, const char *bytes, size_t length)
{
    (void)stream;
    (void)bytes;
    (void)length;
    abort();
}

bool hf__stream_ends(const struct hf_stream *stream, char ours[HF_STREAM_END_SIZE],
                     char theirs[HF_STREAM_END_SIZE])
{
    (void)stream;
    snprintf(ours, HF_STREAM_END_SIZE, "127.0.0.1:1");
    snprintf(theirs, HF_STREAM_END_SIZE, "127.0.0.1:2");
    return true;
}

void hf__stream_forked(struct hf_stream *stream)
{
    (void)stream;
}

/* ---- the fuzzer's end ---- */

bool wires_open(void)
{
    bool any = false;
    for (unsigned i = 0; i < WIRES; i++)
        if (wires[i].number && !wires[i].is_open) {
            wires[i].is_open = any = true;
            wires[i].events->opened(wires[i].arg);
        }
    return any;
}

/* NULL: it has been closed. */
static struct hf_stream *find(unsigned number)
{
    for (unsigned i = 0; i < WIRES; i++)
        if (wires[i].number == number)
            return &wires[i];
    return NULL;
}

static struct asked *oldest(void)
{
    while (question_count > 0 && !find(questions[first_question].wire)) {
        first_question = (first_question + 1) % QUESTIONS;
        question_count--;
    }
    return question_count > 0 ? &questions[first_question] : NULL;
}

bool wires_asked(void)
{
    return oldest() != NULL;
}

/* The engine may close it at any piece. What it has been given is not there any more afterwards. */
static void deliver(unsigned number, const char *bytes, size_t length, size_t piece)
{
    for (size_t at = 0; at < length; at += piece) {
        struct hf_stream *wire = find(number);
        size_t part = length - at < piece ? length - at : piece;
        char *copy = malloc(part);
        if (!wire || !copy) {
            free(copy);
            return;
        }
        memcpy(copy, bytes + at, part);
        wire->events->received(wire->arg, copy, part);
        free(copy);
    }
}

static void break_off(unsigned number)
{
    struct hf_stream *wire = find(number);
    struct hf_stream was = *wire;
    hf__stream_close(wire);
    was.events->broken(was.arg, HF_UNREACHABLE, 0, "it has ended");
}

void wires_answer(const char *bytes, size_t length, size_t piece)
{
    const struct asked *asked = oldest();
    unsigned number = asked->wire;
    first_question = (first_question + 1) % QUESTIONS;
    question_count--;
    if (length > 0)
        deliver(number, bytes, length, piece);
    else
        break_off(number);
}

void wires_push(const char *bytes, size_t length, size_t piece)
{
    for (unsigned i = 0; i < WIRES; i++)
        if (wires[i].listens)
            deliver(wires[i].number, bytes, length, piece);
}

/* ---- what any server answers ---- */

static const char *confirm(struct hf_stream *wire, const char *head, char *said)
{
    const char *word = strstr(head, "SSUBSCRIBE") ? "ssubscribe" : "subscribe";
    const char *channel = strstr(head, "SUBSCRIBE\r\n") + strlen("SUBSCRIBE\r\n");
    wire->listens = true;
    snprintf(said, 2 * HEAD, "*3\r\n$%zu\r\n%s\r\n%s:1\r\n", strlen(word), word, channel);
    return said;
}

static const char *usual(struct hf_stream *wire, const char *head, char *said)
{
    if (strstr(head, "SUBSCRIBE\r\n"))
        return confirm(wire, head, said);
    if (strstr(head, "SETNAME\r\n") || strstr(head, "KILL\r\n") || strstr(head, "ASKING\r\n"))
        return "+OK\r\n";
    if (strstr(head, "\r\nID\r\n"))
        return ":7\r\n";
    if (strstr(head, "\r\nserver\r\n"))
        return "$-1\r\n";
    if (strstr(head, "SHARDNUMSUB\r\n"))
        return "*0\r\n";
    return strstr(head, "PING\r\n") ? "*2\r\n$4\r\npong\r\n$0\r\n\r\n" : NULL;
}

bool wires_answer_usual(void)
{
    char said[2 * HEAD];
    const struct asked *asked = oldest();
    const char *answer = asked ? usual(find(asked->wire), asked->head, said) : NULL;
    if (answer)
        wires_answer(answer, strlen(answer), strlen(answer));
    return answer != NULL;
}
