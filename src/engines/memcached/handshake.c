/* SPDX-License-Identifier: Apache-2.0 */
/* The first packets of a connection: our identity, what the server is; and the readings of its
 * clock, which come again whenever the clock was behind. */
#include "memcached.h"

#include <stdio.h>
#include <string.h>

/* In the year 36812: tokens by such a time are below 2^62. */
#define MC_TIME_MAX_S (INT64_C(1) << 40)

/* Of the last request of the handshake: the clock is read once more, then the server is ready. */
static void clock_answered(struct mc_server *server, struct mc_request *request, bool heard);

static void send_clock(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "add %s 0 %d 0\r\n\r\n", MC_CLOCK_KEY, MC_CLOCK_TTL);
    hf__mc_write_clock(server);
}

static struct mc_request *new_request(struct mc_server *server)
{
    struct mc_request *request = hf__mc_request_new(server->mc);
    if (!request)
        hf__peer_break(&server->peer, HF_ENOMEM, 0, "out of memory for a request");
    return request;
}

void hf__mc_read_clock(struct mc_server *server)
{
    if (server->reads_clock)
        return;
    struct mc_request *request = new_request(server);
    if (!request)
        return;
    server->reads_clock = true;
    request->send = send_clock;
    request->answered = clock_answered;
    hf__mc_send(server, request);
}

void hf__mc_ask_by_right_clock(struct mc_server *server, struct mc_request *request)
{
    hf__list_append(&server->unbelieved, &request->item.link);
    if (server->clock.readings < MC_CLOCK_READINGS)
        hf__mc_read_clock(server);
    else if (!server->clock_timer.started)
        hf__timer_start(server->mc->base.host->loop, &server->clock_timer,
                        hf__mc_now(server->mc) + MC_CLOCK_PAUSE_MS);
}

static void send_what_waits(struct mc_server *server)
{
    struct hf_link *link;
    struct hf_pipeline_item *item;
    hf__peer_ready(&server->peer);
    server->ended_at_stats = false;
    while ((link = hf__list_pop(&server->unbelieved)))
        hf__pipeline_wait(&server->pipeline, HF_CONTAINER(link, struct hf_pipeline_item, link));
    while (hf__peer_is_ready(&server->peer) && (item = hf__pipeline_next(&server->pipeline)))
        hf__mc_ask(server, HF_CONTAINER(item, struct mc_request, item));
}

static void clock_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *added = &request->replies[0], *reading = &request->replies[1];
    int64_t ttl = reading->kind == MC_DONE ? reading->ttl : -1;
    int64_t sent_at_ms = request->item.sent_at_ms;
    hf__mc_request_free(server->mc, request);
    server->reads_clock = false;
    if (!heard)
        return;
    if (added->kind == MC_REFUSED && reading->kind == MC_MISS) {
        hf__peer_break(&server->peer, HF_ELIMIT, 0, "it has no memory for an item: %.100s",
                       added->value);
        return;
    }
    hf__mc_clock_read(&server->clock, ttl, sent_at_ms, hf__mc_now(server->mc));
    if (server->clock.readings < MC_CLOCK_READINGS)
        hf__timer_start(server->mc->base.host->loop, &server->clock_timer,
                        hf__mc_now(server->mc) + MC_CLOCK_SPACING_MS);
    else
        send_what_waits(server);
}

void hf__mc_clock_timer_fired(struct hf_timer *timer)
{
    struct mc_server *server = HF_CONTAINER(timer, struct mc_server, clock_timer);
    if (server->clock.readings < MC_CLOCK_READINGS)
        hf__mc_read_clock(server);
    else
        send_what_waits(server);
}

/* ---- the first packets ---- */

static void send_user(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    const struct hf_endpoints *at = &server->mc->settings.endpoints;
    /* A server that wants no password would store it: under a key that has ended already. */
    hf__mc_write(server, "set %%hf.auth 0 -1 %zu\r\n%s %s\r\n",
                 strlen(at->user) + 1 + strlen(at->password), at->user, at->password);
}

static void user_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    hf__mc_request_free(server->mc, request);
    (void)server;
    (void)heard;
}

static void send_second_packet(struct mc_server *server);

static void send_version(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "version\r\n");
}

static void version_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_reply *reply = &request->replies[0];
    int major = 0, minor = 0;
    bool old = sscanf(reply->value, "%d.%d", &major, &minor) != 2 || major < 1 ||
               (major == 1 && minor < 6);
    if (heard && old)
        hf__peer_break(&server->peer, HF_ENOTSUP, 0,
                       "its version is \"%.40s\"; locks need memcached 1.6.0 or newer",
                       reply->value);
    else if (heard)
        snprintf(server->facts.version, sizeof server->facts.version, "%.31s", reply->value);
    hf__mc_request_free(server->mc, request);
    if (heard && !old)
        send_second_packet(server);
}

static void send_stats(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "stats\r\n");
}

static void send_stats_settings(struct mc_server *server, struct mc_request *request)
{
    (void)request;
    hf__mc_write(server, "stats settings\r\n");
}

static void note_line(struct mc_server *server, struct mc_request *request,
                      const struct mc_reply *reply)
{
    const char *words;
    (void)request;
    server->facts.said_anything = true;
    hf__mc_stat_number(reply, "time", &server->facts.time_s);
    hf__mc_stat_number(reply, "uptime", &server->facts.uptime_s);
    if (hf__mc_stat_is(reply, "cas_enabled", &words))
        server->facts.cas_enabled = strcmp(words, "yes") == 0;
}

static void stats_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    (void)heard;
    hf__mc_request_free(server->mc, request);
}

/* The CAS ids count from 1 when the process begins; seconds of its beginning in front of them make
 * tokens that rise over a restart, at fewer than a million stores a second. */
static void settings_answered(struct mc_server *server, struct mc_request *request, bool heard)
{
    const struct mc_facts *facts = &server->facts;
    stats_answered(server, request, heard);
    if (!heard)
        return;
    if (!facts->cas_enabled) {
        hf__peer_break(&server->peer, HF_ENOTSUP, 0,
                       "it runs without CAS (option -C), by which a lock is released safely");
        return;
    }
    bool counts = facts->uptime_s >= 0 && facts->uptime_s <= facts->time_s;
    if (!counts || facts->time_s > MC_TIME_MAX_S) {
        hf__peer_break(&server->peer, HF_ECORRUPT, 0,
                       "its stats have no time and uptime by which tokens can be counted");
        return;
    }
    /* mutant: memcached-token-base */
    server->token_base = (uint64_t)(facts->time_s - facts->uptime_s) * 1000000;
}

struct step {
    void (*send)(struct mc_server *server, struct mc_request *request);
    void (*answered)(struct mc_server *server, struct mc_request *request, bool heard);
    bool has_lines;
};

static void take_step(struct mc_server *server, const struct step *step)
{
    struct mc_request *request = new_request(server);
    if (!request)
        return;
    request->send = step->send;
    request->answered = step->answered;
    request->line = step->has_lines ? note_line : NULL;
    hf__mc_send(server, request);
}

static void send_second_packet(struct mc_server *server)
{
    static const struct step steps[] = {
        { send_stats, stats_answered, true },
        { send_stats_settings, settings_answered, true },
        { hf__mc_list_send, hf__mc_list_answered, false },
    };
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++)
        take_step(server, &steps[i]);
    hf__mc_read_clock(server);
}

/* `version` goes alone: a proxy that ends the connection at `stats` has replied to it by then, and
 * so is told from a server that ends or is cut off (server.c). */
void hf__mc_greet(struct mc_server *server)
{
    server->facts = (struct mc_facts){ .time_s = -1, .uptime_s = -1 };
    server->reads_clock = false;
    hf__mc_clock_reset(&server->clock);
    if (server->mc->settings.endpoints.user)
        take_step(server, &(struct step){ send_user, user_answered, false });
    take_step(server, &(struct step){ send_version, version_answered, false });
}
