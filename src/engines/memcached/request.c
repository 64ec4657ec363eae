/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a server, each a packet of commands, and what their replies say for all of them. */
#include "base/error.h"
#include "base/testing.h"
#include "memcached.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct mc_request *hf__mc_request_new(struct memcached *mc)
{
    struct hf_pipeline_item *item = hf__free_list_take(&mc->requests);
    if (!item)
        return NULL;
    struct mc_request *request = HF_CONTAINER(item, struct mc_request, item);
    request->op = NULL;
    request->oneshot = NULL;
    request->send = NULL;
    request->answered = NULL;
    request->line = NULL;
    request->cas = request->epoch = request->token = 0;
    request->ttl = 0;
    request->repeats = 0;
    request->by_touch = false;
    request->asked = HF_ASKED_NOTHING;
    request->item.sent = false;
    request->expected = request->got = 0;
    return request;
}

void hf__mc_request_free(struct memcached *mc, struct mc_request *request)
{
    hf__free_list_put(&mc->requests, &request->item);
}

void hf__mc_send(struct mc_server *server, struct mc_request *request)
{
    request->got = request->expected = 0;
    hf__pipeline_sent(&server->pipeline, &request->item, hf__mc_now(server->mc));
    server->writing = request;
    request->send(server, request);
    server->writing = NULL;
    hf__peer_await(&server->peer);
}

void hf__mc_ask(struct mc_server *server, struct mc_request *request)
{
    if (hf__peer_is_ready(&server->peer)) {
        hf__mc_send(server, request);
        return;
    }
    hf__pipeline_wait(&server->pipeline, &request->item);
    hf__peer_want(&server->peer);
}

void hf__mc_write(struct mc_server *server, const char *format, ...)
{
    char bytes[2 * MC_KEY_MAX + MC_OWNER_MAX + 200];
    struct mc_request *request = server->writing;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(bytes, sizeof bytes, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof bytes) {
        hf__peer_break(&server->peer, HF_EINTERNAL, 0, "a command is too long");
        return;
    }
    request->expected += hf__mc_expect(bytes, request->kinds + request->expected,
                                       MC_REPLIES_MAX - request->expected);
    hf__peer_write(&server->peer, bytes, (size_t)length);
}

void hf__mc_write_clock(struct mc_server *server)
{
    hf__mc_write(server, "mg %s t\r\n", MC_CLOCK_KEY);
}

bool hf__mc_clock_was_right(struct mc_server *server, const struct mc_request *request)
{
    const struct mc_reply *reply = &request->replies[0];
    int64_t ttl = reply->kind == MC_DONE ? reply->ttl : -1;
    hf__mc_clock_read(&server->clock, ttl, request->item.sent_at_ms, hf__mc_now(server->mc));
    return hf__mc_clock_is_right(&server->clock, ttl, request->item.sent_at_ms);
}

void hf__mc_note_cas(const struct mc_server *server, struct mc_request *request, uint64_t cas)
{
    request->cas = cas;
    request->epoch = hf__mc_epoch(server);
}

bool hf__mc_cas_is_known(const struct mc_server *server, const struct mc_request *request)
{
    /* mutant: memcached-cas-of-this-connection */
    return request->cas != 0 && request->epoch == hf__mc_epoch(server);
}

void hf__mc_use_cas_of(struct mc_request *request, const struct hf_op *op)
{
    request->cas = hf__mc_op_cas(op);
    request->epoch = op->engine.word[0] >> MC_CLAIM_BITS;
}

bool hf__mc_has_id(const struct mc_server *server, const struct mc_reply *item, hf_error **error)
{
    if (item->cas != 0)
        return true;
    hf__explain(error, HF_ENOTSUP, 0,
                "memcached at %.100s: it shows an item without a CAS id, by which a lock is "
                "released safely",
                server->shown);
    return false;
}

int hf__mc_explain_silence(struct mc_server *server, hf_error **error)
{
    const hf_error *why = &server->peer.why;
    int code = why->code == HF_OK ? HF_UNREACHABLE : why->code;
    hf__explain(error, code, why->native, "%s",
                why->code == HF_OK ? "memcached did not answer" : why->text);
    return code;
}

void hf__mc_break(struct mc_server *server, const struct mc_reply *reply)
{
    const char *user = server->mc->settings.endpoints.user;
    if (reply->kind == MC_WRONG && strstr(reply->value, "open connections"))
        hf__peer_break(&server->peer, HF_ELIMIT, 0, "too many connections are open (option -c)");
    else if (reply->kind == MC_WRONG && strstr(reply->value, "authenticat") && user)
        hf__peer_break(&server->peer, HF_DENIED, 0, "it refuses the user or the password");
    else if (reply->kind == MC_WRONG && strstr(reply->value, "authenticat"))
        hf__peer_break(&server->peer, HF_DENIED, 0,
                       "it wants a user and a password: memcached://user:password@host");
    else if (reply->kind == MC_REFUSED)
        hf__peer_break(&server->peer, HF_UNREACHABLE, 0, "it cannot execute a command: %.100s",
                       reply->value);
    else if (reply->kind == MC_WRONG)
        hf__peer_break(&server->peer, HF_ECORRUPT, 0, "it refuses a command: %.100s",
                       *reply->value ? reply->value : "ERROR");
    else
        hf__peer_break(&server->peer, HF_ECORRUPT, 0, "its reply does not fit the command");
}
