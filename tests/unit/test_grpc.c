/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of gRPC against a peer that sends what a test makes up: replies in pieces, errors, and what
 * no server should do. */
#include "net/grpc.h"
#include "test.h"

#include <stdio.h>

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, GOAWAY = 7, CONTINUATION = 9 };
enum { END_STREAM = 1, END_HEADERS = 4 };

static int64_t now_ms;
static struct hf_loop loop;
static struct hf_grpc grpc;
static struct hf_grpc_call call;
static int messages, ends, drains;
static char heard[64];
static uint8_t sent[1 << 16];
static size_t sent_length;

static int64_t read_clock(void *arg)
{
    (void)arg;
    return now_ms;
}

static void wake(void *arg)
{
    (void)arg;
}

static void has_bytes(void *arg)
{
    (void)arg;
}

static void draining(void *arg)
{
    (void)arg;
    drains++;
}

static void message(struct hf_grpc_call *one, const uint8_t *bytes, size_t length)
{
    (void)one;
    messages++;
    snprintf(heard, sizeof heard, "%.*s", (int)length, (const char *)bytes);
}

static void ended(struct hf_grpc_call *one)
{
    (void)one;
    ends++;
}

static void take_all(void)
{
    const uint8_t *bytes;
    long length;
    while ((length = hf__grpc_take(&grpc, &bytes)) > 0) {
        CHECK(sent_length + (size_t)length <= sizeof sent);
        memcpy(sent + sent_length, bytes, (size_t)length);
        sent_length += (size_t)length;
    }
}

/* Has a frame of that type gone to the peer, after its preface? */
static bool has_sent(int type)
{
    size_t at = 24;
    while (at + 9 <= sent_length) {
        if (sent[at + 3] == type)
            return true;
        at += 9 + ((size_t)sent[at] << 16 | (size_t)sent[at + 1] << 8 | sent[at + 2]);
    }
    return false;
}

struct frame {
    uint8_t bytes[40000];
    size_t length;
};

static void put(struct frame *frame, const void *bytes, size_t length)
{
    memcpy(frame->bytes + frame->length, bytes, length);
    frame->length += length;
}

/* A header that no table remembers. */
static void put_header(struct frame *frame, const char *name, const char *value)
{
    uint8_t kind = 0, name_length = (uint8_t)strlen(name), value_length = (uint8_t)strlen(value);
    put(frame, &kind, 1);
    put(frame, &name_length, 1);
    put(frame, name, name_length);
    put(frame, &value_length, 1);
    put(frame, value, value_length);
}

static bool feed_frame(int type, int flags, uint32_t stream, const struct frame *body, size_t piece)
{
    struct frame whole = { .length = 0 };
    size_t length = body->length;
    const uint8_t head[9] = { (uint8_t)(length >> 16),
                              (uint8_t)(length >> 8),
                              (uint8_t)length,
                              (uint8_t)type,
                              (uint8_t)flags,
                              0,
                              0,
                              0,
                              (uint8_t)stream };
    put(&whole, head, sizeof head);
    put(&whole, body->bytes, body->length);
    bool good = true;
    for (size_t at = 0; good && at < whole.length; at += piece) {
        size_t part = whole.length - at < piece ? whole.length - at : piece;
        good = hf__grpc_feed(&grpc, (const char *)whole.bytes + at, part);
    }
    return good;
}

static void open_channel(void)
{
    struct frame none = { .length = 0 };
    hf__loop_init(&loop, read_clock, wake, NULL);
    grpc = (struct hf_grpc){ .loop = &loop, .has_bytes = has_bytes, .draining = draining };
    CHECK(hf__grpc_open(&grpc, "host:1"));
    CHECK(feed_frame(SETTINGS, 0, 0, &none, 100));
}

static void begin_call(int64_t limit_ms)
{
    static const struct hf_grpc_events events = { message, ended };
    call.events = &events;
    CHECK(hf__grpc_begin(&grpc, &call, "/service/Method", limit_ms, NULL));
    CHECK(hf__grpc_send(&call, (const uint8_t *)"question", 8, true));
    take_all();
}

static void close_channel(void)
{
    hf__grpc_call_drop(&call);
    hf__grpc_call_free(&call);
    hf__grpc_close(&grpc);
}

static void reply_head(size_t piece)
{
    struct frame frame = { .length = 0 };
    put_header(&frame, ":status", "200");
    put_header(&frame, "content-type", "application/grpc");
    CHECK(feed_frame(HEADERS, END_HEADERS, 1, &frame, piece));
}

static void reply_message(const char *text, int flag, size_t length, size_t piece)
{
    struct frame frame = { .length = 0 };
    const uint8_t head[5] = { (uint8_t)flag, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
                              (uint8_t)(length >> 8), (uint8_t)length };
    put(&frame, head, sizeof head);
    put(&frame, text, strlen(text));
    CHECK(feed_frame(DATA, 0, 1, &frame, piece));
}

static void reply_end(const char *status, const char *text, bool only, size_t piece)
{
    struct frame frame = { .length = 0 };
    if (only)
        put_header(&frame, ":status", "200");
    put_header(&frame, "grpc-status", status);
    put_header(&frame, "grpc-message", text);
    CHECK(feed_frame(HEADERS, END_HEADERS | END_STREAM, 1, &frame, piece));
}

static void check_whole_reply(size_t piece)
{
    open_channel();
    begin_call(0);
    reply_head(piece);
    reply_message("hello", 0, 5, piece);
    reply_end("0", "", false, piece);
    CHECK_INT(messages, 1);
    CHECK_STR(heard, "hello");
    CHECK_INT(ends, 1);
    CHECK_INT(call.status, HF_GRPC_OK);
    CHECK(call.answered && !call.channel);
    close_channel();
}

TEST(reply_at_once_is_heard)
{
    check_whole_reply(10000);
}

TEST(reply_in_single_bytes_is_heard)
{
    check_whole_reply(1);
}

TEST(empty_message_is_a_message)
{
    open_channel();
    begin_call(0);
    reply_head(100);
    reply_message("", 0, 0, 100);
    reply_end("0", "", false, 100);
    CHECK_INT(messages, 1);
    CHECK_INT(call.status, HF_GRPC_OK);
    close_channel();
}

TEST(error_without_a_message_has_its_status_and_words)
{
    open_channel();
    begin_call(0);
    reply_end("5", "no%20such%25thing%0a", true, 3);
    CHECK_INT(messages, 0);
    CHECK_INT(call.status, HF_GRPC_NOT_FOUND);
    CHECK(call.answered);
    CHECK_STR(call.text, "no such%thing?");
    close_channel();
}

TEST(good_end_without_a_message_is_no_reply)
{
    open_channel();
    begin_call(0);
    reply_head(100);
    reply_end("0", "", false, 100);
    CHECK_INT(ends, 1);
    CHECK_INT(call.status, HF_GRPC_INTERNAL);
    CHECK(!call.answered);
    close_channel();
}

static void check_refused_message(int flag, size_t length)
{
    open_channel();
    begin_call(0);
    reply_head(100);
    reply_message("x", flag, length, 100);
    take_all();
    CHECK_INT(messages, 0);
    CHECK_INT(ends, 1);
    CHECK_INT(call.status, HF_GRPC_INTERNAL);
    CHECK(!call.answered && has_sent(RST_STREAM));
    close_channel();
}

TEST(message_above_the_limit_ends_the_call)
{
    check_refused_message(0, HF_GRPC_MESSAGE_MAX + 1);
}

TEST(compressed_message_ends_the_call)
{
    check_refused_message(1, 1);
}

TEST(second_message_of_a_unary_call_ends_it)
{
    open_channel();
    begin_call(0);
    reply_head(100);
    reply_message("one", 0, 3, 100);
    reply_message("two", 0, 3, 100);
    CHECK_INT(messages, 1);
    CHECK_INT(call.status, HF_GRPC_INTERNAL);
    close_channel();
}

static void put_number(struct frame *frame, uint32_t number)
{
    const uint8_t bytes[4] = { (uint8_t)(number >> 24), (uint8_t)(number >> 16),
                               (uint8_t)(number >> 8), (uint8_t)number };
    put(frame, bytes, sizeof bytes);
}

TEST(refused_stream_was_not_heard)
{
    struct frame frame = { .length = 0 };
    open_channel();
    begin_call(0);
    put_number(&frame, HF_H2_REFUSED);
    CHECK(feed_frame(RST_STREAM, 0, 1, &frame, 100));
    CHECK_INT(ends, 1);
    CHECK_INT(call.status, HF_GRPC_UNAVAILABLE);
    CHECK(!call.heard && !call.answered);
    close_channel();
}

TEST(cancelled_stream_may_have_been_heard)
{
    struct frame frame = { .length = 0 };
    open_channel();
    begin_call(0);
    put_number(&frame, HF_H2_CANCEL);
    CHECK(feed_frame(RST_STREAM, 0, 1, &frame, 100));
    CHECK_INT(call.status, HF_GRPC_UNAVAILABLE);
    CHECK(call.heard && !call.answered);
    close_channel();
}

TEST(channel_that_goes_away_takes_no_calls_and_has_not_heard_the_last)
{
    struct frame frame = { .length = 0 };
    struct hf_grpc_call next = { .events = call.events };
    open_channel();
    begin_call(0);
    put_number(&frame, 0); /* the last stream that it looks at */
    put_number(&frame, 0);
    feed_frame(GOAWAY, 0, 0, &frame, 100);
    CHECK_INT(drains, 1);
    CHECK_INT(ends, 1);
    CHECK(!call.heard);
    CHECK(!hf__grpc_is_open(&grpc));
    CHECK(!hf__grpc_begin(&grpc, &next, "/service/Method", 0, NULL));
    close_channel();
}

TEST(call_without_a_reply_ends_at_its_limit)
{
    open_channel();
    begin_call(500);
    now_ms = 499;
    hf__loop_turn(&loop);
    CHECK_INT(ends, 0);
    now_ms = 500;
    hf__loop_turn(&loop);
    take_all();
    CHECK_INT(ends, 1);
    CHECK_INT(call.status, HF_GRPC_DEADLINE_EXCEEDED);
    CHECK(call.timed_out && call.heard && has_sent(RST_STREAM));
    reply_end("0", "", true, 100); /* too late: the call has ended */
    CHECK_INT(ends, 1);
    close_channel();
}

TEST(headers_without_end_end_the_call)
{
    struct frame frame = { .length = 0 };
    char value[101] = "";
    open_channel();
    begin_call(0);
    memset(value, 'v', sizeof value - 1);
    put_header(&frame, ":status", "200");
    for (int i = 0; i < 145; i++)
        put_header(&frame, "x-header", value);
    CHECK(frame.length < 16384);
    CHECK(feed_frame(HEADERS, END_HEADERS, 1, &frame, 10000));
    frame.length = 0;
    for (int i = 0; i < 100; i++)
        put_header(&frame, "x-trailer", value);
    feed_frame(HEADERS, END_HEADERS | END_STREAM, 1, &frame, 10000);
    take_all();
    CHECK_INT(ends, 1);
    CHECK_INT(call.status, HF_GRPC_UNAVAILABLE);
    CHECK(!call.answered);
    close_channel();
}

/* A length above 126 takes more bytes, seven bits a byte. */
static void put_long_header(struct frame *frame, const char *name, const char *value, size_t length)
{
    uint8_t kind = 0, name_length = (uint8_t)strlen(name), more[4] = { 127 };
    size_t count = 1;
    put(frame, &kind, 1);
    put(frame, &name_length, 1);
    put(frame, name, name_length);
    for (length -= 127; length > 127; length >>= 7)
        more[count++] = (uint8_t)(length | 128);
    more[count++] = (uint8_t)length;
    put(frame, more, count);
    put(frame, value, strlen(value));
}

static void check_long_text(size_t length)
{
    struct frame frame = { .length = 0 }, rest = { .length = 0 };
    char text[20000] = "";
    memset(text, 'w', length);
    open_channel();
    begin_call(0);
    put_header(&frame, ":status", "200");
    put_header(&frame, "grpc-status", "7");
    put_long_header(&frame, "grpc-message", text, length);
    size_t first = frame.length < 16384 ? frame.length : 16384;
    put(&rest, frame.bytes + first, frame.length - first);
    frame.length = first;
    CHECK(feed_frame(HEADERS, END_STREAM | (rest.length ? 0 : END_HEADERS), 1, &frame, 10000));
    if (rest.length)
        feed_frame(CONTINUATION, END_HEADERS, 1, &rest, 10000);
    take_all();
    CHECK_INT(ends, 1);
    CHECK_INT(call.status, HF_GRPC_PERMISSION_DENIED);
    CHECK(call.answered);
    CHECK_INT(strlen(call.text), sizeof call.text - 1);
    close_channel();
}

TEST(long_text_of_an_error_is_heard_in_part)
{
    check_long_text(1000);
}

TEST(text_above_the_limit_of_headers_is_heard_in_part)
{
    check_long_text(19000);
}

TEST(another_protocol_breaks_the_channel)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    hf__loop_init(&loop, read_clock, wake, NULL);
    grpc = (struct hf_grpc){ .loop = &loop, .has_bytes = has_bytes, .draining = draining };
    CHECK(hf__grpc_open(&grpc, "host:1"));
    hf__grpc_feed(&grpc, text, strlen(text));
    take_all(); /* with our reason for leaving */
    CHECK(!hf__grpc_feed(&grpc, text, strlen(text)));
    CHECK(strlen(hf__h2_why(grpc.h2)) > 10);
    close_channel();
}

TEST(page_of_a_web_server_is_no_reply)
{
    struct frame frame = { .length = 0 };
    open_channel();
    begin_call(0);
    put_header(&frame, ":status", "404");
    CHECK(feed_frame(HEADERS, END_HEADERS | END_STREAM, 1, &frame, 100));
    CHECK_INT(call.status, HF_GRPC_UNAVAILABLE);
    CHECK(strstr(call.text, "404") != NULL);
    close_channel();
}
