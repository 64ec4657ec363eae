/* SPDX-License-Identifier: Apache-2.0 */
/* One server: its connection, and the replies on it. */
#include "base/error.h"
#include "base/rand.h"
#include "base/testing.h"
#include "memcached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_FIRST 4096

static struct mc_request *request_of(struct hf_pipeline_item *item)
{
    return item ? HF_CONTAINER(item, struct mc_request, item) : NULL;
}

static struct mc_server *server_of(struct hf_peer *peer)
{
    return HF_CONTAINER(peer, struct mc_server, peer);
}

/* ---- replies ---- */

static void request_unanswered(struct hf_pipeline *pipeline, struct hf_pipeline_item *item)
{
    struct mc_server *server = HF_CONTAINER(pipeline, struct mc_server, pipeline);
    struct mc_request *request = request_of(item);
    request->answered(server, request, false);
}

static void take_reply(struct mc_server *server, const struct mc_reply *reply)
{
    struct mc_request *request = request_of(hf__pipeline_first_out(&server->pipeline));
    if (!request) {
        hf__mc_break(server, reply);
        return;
    }
    if (request->line && (reply->kind == MC_STAT || reply->kind == MC_KEY)) {
        /* It is not silent, however many lines there are. */
        request->item.sent_at_ms = hf__mc_now(server->mc);
        request->line(server, request, reply);
        return;
    }
    /* Behind an error, and behind what is no reply to the command, the replies may be those of
     * other commands. None of it says that a lock is free, or lost. */
    unsigned kinds = request->kinds[request->got];
    if (!hf__mc_reply_fits(reply, kinds)) { /* mutant: memcached-reply-fits */
        hf__mc_break(server, reply);
        return;
    }
    request->replies[request->got++] = *reply;
    if (request->got < request->expected)
        return;
    hf__pipeline_replied(&server->pipeline);
    request->answered(server, request, true);
}

static bool input_add(struct mc_input *input, const char *bytes, size_t length)
{
    size_t room = input->room ? input->room : INPUT_FIRST;
    while (room < input->length + length)
        room *= 2;
    if (room > input->room) {
        char *wider = hf__realloc(input->bytes, room);
        if (!wider)
            return false;
        input->bytes = wider;
        input->room = room;
    }
    memcpy(input->bytes + input->length, bytes, length);
    input->length += length;
    return true;
}

static void input_drop(struct mc_input *input)
{
    free(input->bytes);
    *input = (struct mc_input){ 0 };
}

static void received(struct hf_peer *peer, const char *bytes, size_t length)
{
    struct mc_server *server = server_of(peer);
    struct mc_input *input = &server->input;
    size_t used = 0;
    long taken = 0;
    if (!input_add(input, bytes, length)) {
        hf__peer_break(peer, HF_ENOMEM, 0, "out of memory for a reply");
        return;
    }
    while (hf__peer_can_read(peer) && used < input->length) {
        struct mc_reply reply;
        taken = hf__mc_reply_read(&reply, input->bytes + used, input->length - used);
        if (taken <= 0)
            break;
        used += (size_t)taken;
        take_reply(server, &reply);
    }
    if (taken < 0)
        hf__peer_break(peer, HF_ECORRUPT, 0, "what it says is not memcached's protocol");
    memmove(input->bytes, input->bytes + used, input->length - used);
    input->length -= used;
}

/* ---- the connection ---- */

static bool find_place(struct hf_peer *peer, struct hf_peer_try *ret)
{
    struct mc_server *server = server_of(peer);
    ret->place = server->mc->settings.endpoints.places[server - server->mc->servers];
    return true;
}

static void mc_greet(struct hf_peer *peer)
{
    hf__mc_greet(server_of(peer));
}

/* A proxy such as twemproxy ends the connection at a command that it does not pass on. A server
 * that ends, or is cut off, does so at any command. */
static void note_handshake(struct mc_server *server, enum hf_peer_state was)
{
    hf_error *why = &server->peer.why;
    size_t length = strlen(why->text);
    bool cut = was == HF_PEER_GREETING && server->peer.cut;
    /* mutant: memcached-cut-in-the-handshake */
    server->ended_at_stats = cut && *server->facts.version && !server->facts.said_anything;
    if (cut)
        snprintf(why->text + length, sizeof why->text - length, "%s",
                 server->ended_at_stats
                     ? " behind version and before stats, as a proxy does that knows no stats: "
                       "locks need memcached itself"
                     : " in the handshake");
}

/* What waits for the clock waits for the next connection, whose handshake reads it. */
static void mc_failed(struct hf_peer *peer, enum hf_peer_state was)
{
    struct mc_server *server = server_of(peer);
    struct hf_link *link;
    input_drop(&server->input);
    server->reads_clock = false;
    note_handshake(server, was);
    hf__timer_stop(server->mc->base.host->loop, &server->clock_timer);
    while ((link = hf__list_pop(&server->unbelieved)))
        hf__pipeline_wait(&server->pipeline, HF_CONTAINER(link, struct hf_pipeline_item, link));
    hf__pipeline_fail(&server->pipeline, was != HF_PEER_READY);
}

static bool mc_needed(struct hf_peer *peer)
{
    return !hf__list_empty(&server_of(peer)->pipeline.waiting);
}

static int64_t mc_oldest(struct hf_peer *peer)
{
    return hf__pipeline_oldest_ms(&server_of(peer)->pipeline);
}

static const struct hf_peer_callbacks callbacks = {
    .place = find_place,
    .greet = mc_greet,
    .bytes = received,
    .failed = mc_failed,
    .needed = mc_needed,
    .oldest = mc_oldest,
};

void hf__mc_server_open(struct mc_server *server, struct memcached *mc, unsigned place)
{
    const struct hf_stream_place *at = &mc->settings.endpoints.places[place];
    server->mc = mc;
    if (at->host)
        hf__url_write_place(server->shown, sizeof server->shown, at->host, at->port);
    else
        snprintf(server->shown, sizeof server->shown, "%.250s", at->path);
    hf__link_init(&server->unbelieved);
    hf__timer_init(&server->clock_timer, hf__mc_clock_timer_fired);
    hf__pipeline_init(&server->pipeline, request_unanswered);
    hf__peer_init(&server->peer, &(struct hf_peer_config){ .host = mc->base.host,
                                                           .callbacks = &callbacks,
                                                           .store = "memcached",
                                                           .shown = server->shown,
                                                           .place_count = 1,
                                                           .timeout_ms = mc->settings.timeout_ms });
}

/* What is still out is dropped without an answer. */
void hf__mc_server_close(struct mc_server *server)
{
    struct hf_link *lists[] = { &server->pipeline.out, &server->pipeline.waiting,
                                &server->unbelieved };
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
        for (struct hf_link *link; (link = hf__list_pop(lists[i]));)
            hf__free_list_put(&server->mc->requests,
                              HF_CONTAINER(link, struct hf_pipeline_item, link));
    hf__timer_stop(server->mc->base.host->loop, &server->clock_timer);
    hf__peer_close(&server->peer);
    input_drop(&server->input);
}

struct mc_server *hf__mc_server_of(struct memcached *mc, const char *name, size_t length)
{
    struct mc_server *best = &mc->servers[0];
    uint64_t best_weight = 0, weight[2] = { hf__hash(name, length), 0 };
    for (unsigned i = 0; mc->server_count > 1 && i < mc->server_count; i++) {
        struct mc_server *server = &mc->servers[i];
        weight[1] = hf__hash(server->shown, strlen(server->shown));
        uint64_t mixed = hf__hash(weight, sizeof weight);
        if (i == 0 || mixed > best_weight) {
            best = server;
            best_weight = mixed;
        }
    }
    return best;
}

void hf__mc_forget_renewals(struct memcached *mc, struct hf_op *op)
{
    struct mc_server *server = hf__mc_server_of(mc, op->in.name, op->in.name_length);
    struct hf_link *lists[] = { &server->pipeline.out, &server->pipeline.waiting,
                                &server->unbelieved };
    if (!(op->engine.word[1] & MC_RENEWING))
        return;
    op->engine.word[1] &= ~(uint64_t)MC_RENEWING;
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
        HF_LIST_FOREACH (link, following, lists[i]) {
            struct mc_request *request =
                request_of(HF_CONTAINER(link, struct hf_pipeline_item, link));
            if (request->op == op)
                request->op = NULL;
        }
}
