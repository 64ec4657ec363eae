/* SPDX-License-Identifier: Apache-2.0 */
/* A few words with one server, each on a connection of its own, one after the other so that a
 * server with hardly a connection left to give is not robbed of its last ones. Where a word is not
 * allowed the server says so, and the next one is tried. */
#include "doctor.h"

#include "base/testing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line for each connection is the longest that is said. */
#define HEARD_MAX (256u << 10)
/* What a server takes in one message if jute.maxbuffer was never changed. */
#define LARGE 1048575u
#define SMALL 45u
/* A greeting for a session that no client has begins nothing: it is answered, and refused. */
#define NOBODYS_SESSION 1
/* For a connection, and for all of it: what the others say is told although one says nothing,
 * before the caller has lost patience. */
#define CONNECTING_MS 1500
#define ALL_MS 4000

static char *value_of(const char *text, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    *value = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) != 0)
            continue;
        size_t used = strcspn(line + length, "\r\n");
        used = used < size ? used : size - 1;
        memcpy(value, line + length, used);
        value[used] = 0;
        break;
    }
    return value;
}

static long number_of(const char *text, const char *key)
{
    char value[ZK_WORD_SIZE];
    return *value_of(text, key, value, sizeof value) ? strtol(value, NULL, 10) : -1;
}

/* ---- what each answer says ---- */

static void hear_state(struct zk_probe *interview)
{
    char *version = interview->version;
    value_of(interview->heard, "Zookeeper version: ", version, ZK_WORD_SIZE);
    version[strspn(version, "0123456789.")] = 0;
    value_of(interview->heard, "Mode: ", interview->mode, ZK_WORD_SIZE);
    interview->connections = number_of(interview->heard, "Connections: ");
    interview->serves_nobody = strstr(interview->heard, "not currently serving") != NULL;
}

static void hear_settings(struct zk_probe *interview)
{
    interview->tick_ms = number_of(interview->heard, "tickTime=");
    interview->least_ms = number_of(interview->heard, "minSessionTimeout=");
    interview->most_ms = number_of(interview->heard, "maxSessionTimeout=");
    interview->per_address = number_of(interview->heard, "maxClientCnxns=");
}

/* How many lines " /ADDRESS:PORT[...](..." there are that have the address of this one, which has
 * brackets of its own if it is one of IPv6. */
static long count_like(const char *text, const char *line)
{
    size_t length = (size_t)(strstr(line, "](") - line);
    while (length > 0 && line[length - 1] != ':')
        length--;
    long count = 0;
    for (; text; text = strchr(text + 1, '\n'))
        count += strncmp(text + (*text == '\n'), line, length) == 0;
    return count;
}

static void hear_connections(struct zk_probe *interview)
{
    const char *text = interview->heard;
    for (const char *line = text; line; line = strchr(line + 1, '\n')) {
        const char *begun = line + (*line == '\n');
        if (strncmp(begun, " /", 2) != 0 || !strstr(begun, "]("))
            continue;
        long count = count_like(text, begun);
        if (count > interview->busiest)
            interview->busiest = count;
    }
}

static void hear_greeting(struct zk_probe *interview)
{
    interview->lets_in = interview->length > 0;
}

static void hear_large_greeting(struct zk_probe *interview)
{
    interview->takes_large = interview->length > 0; /* mutant: doctor-takes-greeting */
}

/* A word of four letters, or a greeting of that many bytes. */
static const struct topic {
    const char *word;
    size_t greets;
    void (*hear)(struct zk_probe *interview);
} topics[ZK_TOPICS] = {
    [ZK_TOPIC_STATE] = { "srvr", 0, hear_state },
    [ZK_TOPIC_SETTINGS] = { "conf", 0, hear_settings },
    [ZK_TOPIC_CONNECTIONS] = { "cons", 0, hear_connections },
    [ZK_TOPIC_GREETING] = { NULL, SMALL, hear_greeting },
    [ZK_TOPIC_LARGE_GREETING] = { NULL, LARGE, hear_large_greeting },
    /* It was the length, and the server is still there. */
    [ZK_TOPIC_GREETING_AGAIN] = { NULL, SMALL, hear_greeting },
};

/* ---- asking ---- */

static void ask_server(struct zk_probe *interview);

static void hang_up(struct zk_probe *interview)
{
    hf__timer_stop(hf__zk_loop(interview->zk), &interview->limit);
    if (interview->stream)
        hf__stream_close(interview->stream);
    interview->stream = NULL;
}

void hf__zk_probe_end(struct zk_probe *interview)
{
    if (!interview->zk)
        return;
    hang_up(interview);
    free(interview->heard);
    interview->heard = NULL;
}

void hf__zk_probe_forked(struct zk_probe *interview)
{
    if (interview->stream)
        hf__stream_forked(interview->stream);
}

static void end_probe(struct zk_probe *interview, enum zk_presence presence, const char *why)
{
    interview->presence = presence;
    snprintf(interview->why, sizeof interview->why, "%s", why);
    hf__zk_probe_end(interview);
    interview->done(interview);
}

/* A server that says nothing at all to the first word has nothing to say to the others. */
static void heard_all(struct zk_probe *interview)
{
    hang_up(interview);
    if (interview->topic == ZK_TOPIC_STATE && interview->length == 0) {
        end_probe(interview, ZK_SHUTS, "it closes the connection without a word");
        return;
    }
    interview->heard[interview->length] = 0;
    topics[interview->topic].hear(interview);
    /* A server that answers no greeting, for whatever reason, says nothing about long ones. */
    bool over = topics[interview->topic].greets && !interview->lets_in;
    if (over || ++interview->topic == ZK_TOPICS)
        end_probe(interview, ZK_THERE, "");
    else
        ask_server(interview);
}

/* A greeting is answered, and then waited for the next message. */
static void received(void *arg, const char *bytes, size_t length)
{
    struct zk_probe *interview = arg;
    size_t room = HEARD_MAX - interview->length;
    size_t taken = length < room ? length : room;
    memcpy(interview->heard + interview->length, bytes, taken);
    interview->length += taken;
    if (topics[interview->topic].greets || interview->length == HEARD_MAX)
        heard_all(interview);
}

static void write_greeting(struct zk_probe *interview, size_t size)
{
    struct zk_writer writer = { .failed = false };
    struct zk_hello hello = { .session = NOBODYS_SESSION, .timeout_ms = 1000 };
    hf__zk_write_hello(&writer, &hello);
    /* What follows the words of the greeting is not read; they are in a frame of this size. */
    static const char zeros[4096];
    hf__zk_put_int(&writer, 0, (int32_t)(size - 4));
    while (!writer.failed && writer.length < size) {
        size_t left = size - writer.length;
        hf__zk_write_plain(&writer, zeros, left < sizeof zeros ? left : sizeof zeros);
    }
    if (!writer.failed)
        hf__stream_write(interview->stream, writer.bytes, writer.length);
    hf__zk_writer_free(&writer);
}

static void opened(void *arg)
{
    struct zk_probe *interview = arg;
    const struct topic *topic = &topics[interview->topic];
    interview->connected = true;
    if (topic->word)
        hf__stream_write(interview->stream, topic->word, strlen(topic->word));
    else
        write_greeting(interview, topic->greets + 4);
}

/* A server that has spoken is there. That a greeting has no answer says nothing about its
 * length. */
static void probe_give_up(struct zk_probe *interview, enum zk_presence presence, const char *why)
{
    if (interview->topic > ZK_TOPIC_STATE) /* mutant: doctor-takes-server-that */
        presence = ZK_THERE;
    interview->lets_in = false;
    end_probe(interview, presence, why);
}

static void probe_broken(void *arg, int code, int native, const char *why)
{
    struct zk_probe *interview = arg;
    (void)code;
    interview->stream = NULL;
    /* A server with too many connections may close one before it is known to be open. */
    /* mutant: doctor-takes-server-that-turns */
    if (interview->connected || native == ECONNRESET || native == EPIPE)
        heard_all(interview);
    else
        probe_give_up(interview, ZK_UNHEARD, why); /* mutant: server-that-has-spoken */
}

static void probe_limit_fired(struct hf_timer *timer)
{
    struct zk_probe *interview = HF_CONTAINER(timer, struct zk_probe, limit);
    probe_give_up(interview, interview->connected ? ZK_SILENT : ZK_UNHEARD,
                  "it does not answer in time");
}

static void ask_server(struct zk_probe *interview)
{
    static const struct hf_stream_events events = { opened, received, probe_broken };
    const struct hf_host *host = interview->zk->base.host;
    interview->length = 0;
    interview->connected = false;
    int64_t limit_ms = hf__loop_now(host->loop) + 2 * interview->place.limit_ms;
    hf__timer_start(host->loop, &interview->limit,
                    /* mutant: doctor-waits-for-ever */
                    limit_ms < interview->over_ms ? limit_ms : interview->over_ms);
    interview->stream =
        hf__stream_open(host->uv, host->loop, &interview->place, &events, interview);
    if (!interview->stream)
        hf__timer_start(host->loop, &interview->limit, hf__loop_now(host->loop));
}

void hf__zk_probe_begin(struct zk_probe *interview, struct zookeeper *zk, unsigned place,
                        void (*done)(struct zk_probe *interview))
{
    *interview = (struct zk_probe){ .zk = zk, .done = done, .connections = -1 };
    interview->tick_ms = interview->least_ms = interview->most_ms = -1;
    interview->per_address = interview->busiest = -1;
    interview->place = zk->settings->servers.places[place];
    interview->place.limit_ms =
        /* mutant: doctor-gives-each-word */
        zk->settings->timeout_ms < CONNECTING_MS ? zk->settings->timeout_ms : CONNECTING_MS;
    interview->over_ms = hf__zk_now(zk) + ALL_MS;
    snprintf(interview->address, sizeof interview->address, "%.100s:%u", interview->place.host,
             interview->place.port);
    hf__timer_init(&interview->limit, probe_limit_fired);
    interview->heard = hf__calloc(1, HEARD_MAX + 1);
    if (interview->heard)
        ask_server(interview);
    else /* told as a server that cannot be asked, and later, as every other answer */
        hf__timer_start(hf__zk_loop(zk), &interview->limit, hf__zk_now(zk));
}
