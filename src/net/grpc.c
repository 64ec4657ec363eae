/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of gRPC: headers, messages with their length in front, and the status in the trailers. */
#include "net/grpc.h"

#include "base/testing.h"

#include <stdio.h>
#include <string.h>

#define HEAD_SIZE 5u
#define USER_AGENT "holdfast"
#define GRPC_TYPE "application/grpc"
/* A call's first room for a message that comes in pieces. */
#define MESSAGE_ROOM 1024u

static struct hf_grpc_call *call_of(struct hf_h2_stream *stream)
{
    return HF_CONTAINER(stream, struct hf_grpc_call, stream);
}

/* ---- how a call ends ---- */

static void forget_call(struct hf_grpc_call *call)
{
    hf__timer_stop(call->channel->loop, &call->limit);
    call->channel->calls--;
    call->channel = NULL;
}

/* `why` NULL: it has said so itself. */
static void call_end(struct hf_grpc_call *call, int status, bool answered, const char *why)
{
    forget_call(call);
    call->status = status;
    call->answered = answered;
    if (why)
        snprintf(call->text, sizeof call->text, "%s", why);
    call->events->ended(call);
}

/* The peer does what no server of gRPC does: nothing it says of this call is believed. */
static void call_break(struct hf_grpc_call *call, const char *why)
{
    struct hf_grpc *grpc = call->channel;
    hf__h2_cancel(&call->stream, HF_H2_PROTOCOL_ERROR);
    grpc->has_bytes(grpc->arg);
    call_end(call, HF_GRPC_INTERNAL, false, why);
}

static void grpc_limit_fired(struct hf_timer *timer)
{
    struct hf_grpc_call *call = HF_CONTAINER(timer, struct hf_grpc_call, limit);
    struct hf_grpc *grpc = call->channel;
    hf__h2_cancel(&call->stream, HF_H2_CANCEL);
    grpc->has_bytes(grpc->arg);
    call->timed_out = true;
    call_end(call, HF_GRPC_DEADLINE_EXCEEDED, false, "no reply in time");
}

/* ---- headers and trailers ---- */

static bool is_named(const char *name, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(name, wanted, length) == 0;
}

/* A number without a sign, or `fallback`. */
static int grpc_read_number(const char *text, size_t length, int fallback)
{
    int number = 0;
    if (length == 0 || length > 5)
        return fallback;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return fallback;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void header(struct hf_h2_stream *stream, const char *name, size_t name_length,
                   const char *value, size_t value_length)
{
    struct hf_grpc_call *call = call_of(stream);
    call->heard = true;
    if (is_named(name, name_length, ":status")) {
        call->http_status = (unsigned)grpc_read_number(value, value_length, 0);
    } else if (is_named(name, name_length, "grpc-status")) {
        call->status = grpc_read_number(value, value_length, HF_GRPC_UNKNOWN);
        call->has_status = true;
    } else if (is_named(name, name_length, "grpc-message")) {
        /* Percent-decoded; what is no printable character becomes a question mark. */
        size_t used = 0;
        for (size_t i = 0; i < value_length && used + 1 < sizeof call->text; i++) {
            int c = (unsigned char)value[i];
            if (c == '%' && i + 2 < value_length && hex_digit(value[i + 1]) >= 0 &&
                hex_digit(value[i + 2]) >= 0) {
                c = hex_digit(value[i + 1]) * 16 + hex_digit(value[i + 2]);
                i += 2;
            }
            call->text[used++] = c < 32 || c == 127 ? '?' : (char)c;
        }
        call->text[used] = 0;
    } else if (is_named(name, name_length, "content-type")) {
        call->is_other_type = value_length < sizeof GRPC_TYPE - 1 ||
                              memcmp(value, GRPC_TYPE, sizeof GRPC_TYPE - 1) != 0;
    } else if (is_named(name, name_length, "trailer")) {
        call->by_http = true; /* a server of gRPC does not announce its trailers */
    }
}

/* ---- messages ---- */

static void message_take(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    call->head_length = 0;
    call->length = 0;
    call->messages++;
    if (!call->streaming && call->messages > 1)
        call_break(call, "it answers a call more than once");
    else
        call->events->message(call, bytes, length);
}

static bool message_make_room(struct hf_grpc_call *call)
{
    size_t room = call->room ? call->room : MESSAGE_ROOM;
    while (room < call->expected)
        room *= 2;
    if (room == call->room)
        return true;
    uint8_t *grown = hf__realloc(call->message, room);
    if (!grown)
        return false;
    call->message = grown;
    call->room = room;
    return true;
}

/* How many bytes of `bytes` belong to the head. 0: the call has ended. */
static size_t head_take(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    size_t missing = HEAD_SIZE - call->head_length;
    size_t part = length < missing ? length : missing;
    const uint8_t *head = call->head;
    memcpy(call->head + call->head_length, bytes, part);
    call->head_length += (unsigned)part;
    if (call->head_length < HEAD_SIZE)
        return part;
    call->expected =
        (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
    /* mutant: grpc-message-has-a-limit */
    if (head[0] == 0 && call->expected <= HF_GRPC_MESSAGE_MAX)
        return part;
    call_break(call, head[0] ? "it compresses messages without being asked to"
                             : "its message is larger than we accept");
    return 0;
}

/* The next piece of a message's body, of which `length` bytes are here. 0: the call has ended. */
static size_t body_take(struct hf_grpc_call *call, const uint8_t *bytes, size_t length)
{
    if (call->length == 0 && length >= call->expected) {
        size_t whole = call->expected;
        message_take(call, bytes, whole);
        return whole;
    }
    if (!message_make_room(call)) {
        call_break(call, "out of memory for a message");
        return 0;
    }
    size_t missing = call->expected - call->length;
    size_t part = length < missing ? length : missing;
    memcpy(call->message + call->length, bytes, part);
    call->length += part;
    if (call->length == call->expected)
        message_take(call, call->message, call->expected);
    return part;
}

static void data(struct hf_h2_stream *stream, const uint8_t *bytes, size_t length)
{
    struct hf_grpc_call *call = call_of(stream);
    int32_t id = stream->id;
    if (call->is_other_type)
        return; /* its end says so */
    /* What runs in between may end the call, and begin another one in its memory. */
    while (stream->h2 && stream->id == id) {
        if (call->head_length < HEAD_SIZE) {
            if (length == 0)
                return;
            size_t part = head_take(call, bytes, length);
            bytes += part;
            length -= part;
            if (part == 0 || call->head_length < HEAD_SIZE)
                return;
        }
        if (length == 0 && call->expected > 0)
            return;
        size_t part = body_take(call, bytes, length);
        bytes += part;
        length -= part;
    }
}

static void closed(struct hf_h2_stream *stream, uint32_t error)
{
    struct hf_grpc_call *call = call_of(stream);
    char why[sizeof call->text];
    if (call->has_status && call->http_status == 200 && !call->is_other_type) {
        bool complete = call->streaming || call->messages == 1 || call->status != HF_GRPC_OK;
        call_end(call, complete ? call->status : HF_GRPC_INTERNAL, complete,
                 complete ? NULL : "it ends a call without a reply");
        return;
    }
    if (call->http_status != 0 && call->http_status != 200) {
        snprintf(why, sizeof why, "it answers with the HTTP status %u; is this a port of gRPC?",
                 call->http_status);
    } else if (call->is_other_type) {
        snprintf(why, sizeof why, "it answers with something else than gRPC; is this its port?");
    } else {
        call->heard = error != HF_H2_REFUSED;
        snprintf(why, sizeof why, "it has ended the call with HTTP/2 error %u", (unsigned)error);
    }
    call_end(call, HF_GRPC_UNAVAILABLE, false, why);
}

/* ---- calls ---- */

bool hf__grpc_begin(struct hf_grpc *grpc, struct hf_grpc_call *call, const char *path,
                    int64_t limit_ms, const struct hf_h2_header *metadata)
{
    static const struct hf_h2_events events = { header, data, closed };
    char timeout[24];
    struct hf_h2_header headers[10] = {
        { ":method", "POST" },       { ":scheme", grpc->tls ? "https" : "http" },
        { ":path", path },           { ":authority", grpc->authority },
        { "te", "trailers" },        { "content-type", GRPC_TYPE },
        { "user-agent", USER_AGENT }
    };
    size_t count = 7;
    if (limit_ms > 0) {
        snprintf(timeout, sizeof timeout, "%lldm",
                 (long long)(limit_ms < 99999999 ? limit_ms : 99999999));
        headers[count++] = (struct hf_h2_header){ "grpc-timeout", timeout };
    }
    if (grpc->token)
        headers[count++] = (struct hf_h2_header){ "token", grpc->token };
    if (metadata)
        headers[count++] = *metadata;
    call->stream.events = &events;
    call->status = HF_GRPC_OK;
    call->heard = call->answered = call->timed_out = call->has_status = false;
    call->by_http = call->is_other_type = false;
    call->text[0] = 0;
    call->http_status = call->head_length = call->messages = 0;
    call->length = 0;
    if (!grpc->h2 || !hf__h2_begin(grpc->h2, &call->stream, headers, count))
        return false;
    call->channel = grpc;
    call->heard = true; /* unless it is refused */
    grpc->calls++;
    hf__timer_init(&call->limit, grpc_limit_fired);
    if (limit_ms > 0)
        hf__timer_start(grpc->loop, &call->limit, hf__loop_now(grpc->loop) + limit_ms);
    return true;
}

bool hf__grpc_send(struct hf_grpc_call *call, const uint8_t *bytes, size_t length, bool last)
{
    struct hf_grpc *grpc = call->channel;
    const uint8_t head[HEAD_SIZE] = { 0, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
                                      (uint8_t)(length >> 8), (uint8_t)length };
    if (length > HF_GRPC_MESSAGE_MAX || !hf__h2_write(&call->stream, head, sizeof head, false) ||
        !hf__h2_write(&call->stream, bytes, length, last))
        return false;
    grpc->has_bytes(grpc->arg);
    return true;
}

void hf__grpc_cancel(struct hf_grpc_call *call)
{
    struct hf_grpc *grpc = call->channel;
    if (!grpc)
        return;
    hf__h2_cancel(&call->stream, HF_H2_CANCEL);
    forget_call(call);
    grpc->has_bytes(grpc->arg);
}

void hf__grpc_call_drop(struct hf_grpc_call *call)
{
    if (!call->channel)
        return;
    forget_call(call);
    call->stream.h2 = NULL;
}

void hf__grpc_call_free(struct hf_grpc_call *call)
{
    free(call->message);
    call->message = NULL;
    call->room = 0;
    hf__h2_stream_free(&call->stream);
}

/* ---- the channel ---- */

bool hf__grpc_open(struct hf_grpc *grpc, const char *authority)
{
    snprintf(grpc->authority, sizeof grpc->authority, "%s", authority);
    grpc->h2 = hf__h2_new(grpc->draining, grpc->arg);
    grpc->calls = 0;
    if (grpc->h2)
        grpc->has_bytes(grpc->arg);
    return grpc->h2 != NULL;
}

void hf__grpc_close(struct hf_grpc *grpc)
{
    hf__h2_free(grpc->h2);
    grpc->h2 = NULL;
}

bool hf__grpc_feed(struct hf_grpc *grpc, const char *bytes, size_t length)
{
    bool good = hf__h2_feed(grpc->h2, bytes, length);
    grpc->has_bytes(grpc->arg);
    return good;
}

long hf__grpc_take(struct hf_grpc *grpc, const uint8_t **bytes)
{
    return hf__h2_take(grpc->h2, bytes);
}

bool hf__grpc_is_open(const struct hf_grpc *grpc)
{
    return grpc->h2 && hf__h2_is_open(grpc->h2);
}
