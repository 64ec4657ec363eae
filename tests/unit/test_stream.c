/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer of a byte stream: what counts towards its limit. */
#include "base/clock.h"
#include "net/connect.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHUNK (64u << 10)

static struct hf_loop loop;
static uv_loop_t uv;
static bool is_open;
static char chunk[CHUNK];

static int64_t read_clock(void *arg)
{
    (void)arg;
    return hf__clock_ms();
}

static void wake(void *arg)
{
    (void)arg;
}

static void opened(void *arg)
{
    (void)arg;
    is_open = true;
}

static void received(void *arg, const char *bytes, size_t length)
{
    (void)arg, (void)bytes, (void)length;
}

static void broken(void *arg, int code, int native, const char *why)
{
    (void)arg, (void)code, (void)native;
    FAIL("broken: %s", why);
}

static void turn(void)
{
    hf__loop_turn(&loop);
    uv_run(&uv, UV_RUN_NOWAIT);
}

/* Opens a stream to a socket of the test's own; *ret_peer is the other end. */
static struct hf_stream *open_stream(int *ret_peer)
{
    static const struct hf_stream_events events = { opened, received, broken };
    static struct hf_stream_place place;
    static struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", temp_path("socket"));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 1) == 0);
    CHECK_INT(uv_loop_init(&uv), 0);
    hf__loop_init(&loop, read_clock, wake, NULL);
    place = (struct hf_stream_place){ .path = address.sun_path, .limit_ms = 20000 };
    struct hf_stream *stream = hf__stream_open(&uv, &loop, &place, &events, NULL);
    CHECK(stream != NULL);
    while (!is_open)
        turn();
    *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    CHECK(*ret_peer >= 0);
    close(listener);
    return stream;
}

static size_t waiting(const struct hf_stream *stream)
{
    return stream->out.length - stream->out.begun;
}

/* Bytes in a row, so that a mix-up shows. */
static unsigned char pattern_at(size_t at)
{
    return (unsigned char)(at * 31 / 7);
}

static void write_chunk(struct hf_stream *stream, size_t at)
{
    for (size_t i = 0; i < CHUNK; i++)
        chunk[i] = (char)pattern_at(at + i);
    CHECK(hf__stream_write(stream, chunk, CHUNK));
    turn();
}

static size_t read_some(int peer, size_t at)
{
    ssize_t count = read(peer, chunk, CHUNK);
    if (count < 0 && errno == EAGAIN)
        return 0;
    CHECK(count > 0);
    for (size_t i = 0; i < (size_t)count; i++)
        CHECK((unsigned char)chunk[i] == pattern_at(at + i));
    return (size_t)count;
}

TEST(sent_bytes_do_not_count_towards_the_limit_of_a_stream)
{
    TEST_ALLOW_FD_LEAKS(); /* libuv keeps some */
    int peer;
    size_t written = 0, got = 0;
    struct hf_stream *stream = open_stream(&peer);
    /* From here on the buffer never runs empty. */
    while (waiting(stream) < 4 * CHUNK) {
        write_chunk(stream, written);
        written += CHUNK;
    }
    while (written < 2 * (size_t)HF_STREAM_WRITE_MAX) {
        CHECK(waiting(stream) > 0);
        got += read_some(peer, got);
        turn();
        if (waiting(stream) < 4 * CHUNK) {
            write_chunk(stream, written);
            written += CHUNK;
        }
    }
    CHECK(stream->out.room <= 64 * CHUNK);
    while (got < written) {
        got += read_some(peer, got);
        turn();
    }
    hf__stream_close(stream);
    uv_run(&uv, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&uv), 0);
    close(peer);
}
